"""scripts/check_names.py: each rule notices a planted name, and leaves a similar one alone."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest

from tests.conftest import ROOT

BASE = "seqattn/training/loop.py"


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("check_names")


@pytest.fixture
def rules(checker: Any) -> Any:
    return checker.RetiredNames.from_toml(checker.RULES.read_text())


def parsed_files(sources: dict[str, str]) -> dict[str, ast.Module]:
    return {path: ast.parse(source) for path, source in sources.items()}


RETIRED = {
    "a part of a name": (BASE, "is_told = 1", "is_told", "forced"),
    "a part of a class": (BASE, "class CrossLooks: ...", "CrossLooks", "attention_maps"),
    "a prefix": (BASE, "MOST_CELLS = 7", "MOST_CELLS", "MAX_CELLS"),
    "a whole name": (BASE, "class World: ...", "World", "ProcessGroup"),
    "a name in one file": ("seqattn/experiments/ray_cluster.py", "class _Files: ...", "_Files", "FileContents"),
    "the file before its folder": ("seqattn/models/layers.py", "NARROW = 7", "NARROW", "MAX_INNER_WIDTH"),
    "a helper of a test": ("tests/test_x.py", "def by_hand(): ...", "by_hand", "expected"),
    "the name of a test": ("tests/test_x.py", "def test_a_gap_is_said(): ...",
                           "test_a_gap_is_said", "text"),
    "a module": ("seqattn/training/world.py", "", "world", "process_group"),
    "a package": ("seqattn/feeds/__init__.py", "", "feeds", "data_loader"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "source", "name", "replacement"), RETIRED.values(), ids=RETIRED)
def test_a_retired_name_is_found(
    path: str, source: str, name: str, replacement: str, checker: Any, rules: Any
) -> None:
    (finding,) = checker.retired(parsed_files({path: source}), rules)
    assert (finding.path, finding.line, finding.name) == (path, 1, name)
    assert replacement in finding.replacement.split(", ") or replacement in finding.replacement
    assert str(finding).startswith(f"{path}:1: {name}: retired")
    assert str(finding).endswith(f"(try: {finding.replacement})")


ACCEPTED = {
    "a longer word": (BASE, "handle = handler = beforehand = lookup = 1"),
    "a word that begins or ends alike": (BASE, "whole = mender = chancel = planes = 1"),
    "a fixed term in capitals": (BASE, "LEAST_SQUARES = 1"),
    "ordinary words": (BASE, "take = at = keep = order = found = points = step = part = w = d = 1"),
    "a name of another folder": ("seqattn/data/naive.py", "slope = 1"),
    "a use": (BASE, "f(x.said, whose, told=1, **{'beside': 2})"),
    "a module": ("seqattn/runs/lookup.py", ""),
}


@pytest.mark.parametrize(("path", "source"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_similar_name_is_accepted(path: str, source: str, checker: Any, rules: Any) -> None:
    assert list(checker.retired(parsed_files({path: source}), rules)) == []


@pytest.mark.parametrize(
    "source",
    [
        "def {}(): ...",
        "class {}: ...",
        "class A:\n    {}: int",
        "def f({}): ...",
        "lambda {}: 1",
        "{} = 1",
        "if {} := 1: ...",
        "self.{} = 1",
        "with x as {}: ...",
        "try: ...\nexcept E as {}: ...",
        "match x:\n    case [*{}]: ...",
    ],
)
def test_every_kind_of_identifier_is_read(source: str, checker: Any, rules: Any) -> None:
    for name, count in (("told", 1), ("prediction", 0)):
        found = checker.retired(parsed_files({BASE: source.format(name)}), rules)
        assert [finding.name for finding in found] == ["told"] * count


def test_a_name_is_found_once_a_file_with_its_count(checker: Any, rules: Any) -> None:
    trees = parsed_files({BASE: "x = 1\nsaid = 2\nfor said in x: ...", "scripts/x.py": "said = 1"})
    places = [(finding.line, finding.reason) for finding in checker.retired(trees, rules)]
    assert places == [(2, "retired word 'said', 2 times"), (1, "retired word 'said'")]


def test_a_contract_is_accepted_in_its_file_only(
    checker: Any, rules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "ALLOWED", {f"{BASE}:told"})
    trees = parsed_files({BASE: "told = 1", "seqattn/experiments/api.py": "told = 1"})
    assert [finding.path for finding in checker.retired(trees, rules)] == [
        "seqattn/experiments/api.py"
    ]


FIRST, SECOND = "seqattn/a.py", "seqattn/b.py"
DEFINED_TWICE = {
    "functions": ({FIRST: "def f(): ...", SECOND: "def f(): 1"}, [FIRST, SECOND]),
    "classes": ({FIRST: "class C: ...", SECOND: "class C: a = 1"}, [FIRST, SECOND]),
    "a script gives way": ({FIRST: "def f(): ...", "scripts/a.py": "def f(): 1"}, ["scripts/a.py"]),
    "the API keeps its name": ({"seqattn/experiments/api.py": "def f(): ...", SECOND: "def f(): 1"}, [SECOND]),
    "tests": ({"tests/test_a.py": "def test_f(): ...", "tests/b/test_b.py": "def test_f(): 1"},
              ["tests/test_a.py", "tests/b/test_b.py"]),
}  # fmt: skip


@pytest.mark.parametrize(("sources", "paths"), DEFINED_TWICE.values(), ids=DEFINED_TWICE)
def test_one_name_in_two_files_is_found(
    sources: dict[str, str], paths: list[str], checker: Any
) -> None:
    findings = list(checker.shared(parsed_files(sources)))
    assert [finding.path for finding in findings] == paths
    assert {finding.kind for finding in findings} == {"shared"}
    for finding in findings:
        assert all(path in finding.reason for path in sources if path != finding.path)
