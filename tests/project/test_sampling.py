"""The sample of the slow tests: its entries exist, and it leaves out what it says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from tests.conftest import ROOT
from tests.sampling import NEVER, SAMPLED, SAMPLED_FILES, leave_out, not_sampled, values_of

TESTS = ROOT / "tests"


class Case:
    """A test with the attribute of `pytest.Item` that the sample reads."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


class Hook:
    """A hook that keeps what it is told."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.hook = self

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.items = items


def cases(name: str, count: int) -> list[pytest.Item]:
    return cast("list[pytest.Item]", [Case(f"tests/{name}[{k}]") for k in range(count)])


def functions() -> Iterator[str]:
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(TESTS).as_posix()}::{node.name}"


def test_every_entry_is_a_test() -> None:
    assert SAMPLED.keys() <= set(functions())
    assert all((TESTS / path).exists() for path in SAMPLED_FILES)


def test_no_test_of_every_file_and_no_published_number_is_sampled() -> None:
    every_file = ("test_code_limits", "test_architecture", "test_wording", "golden", "reference")
    assert not [name for name in (*SAMPLED, *SAMPLED_FILES) for word in every_file if word in name]


def test_about_one_of_n_cases_is_kept() -> None:
    name = next(name for name, step in SAMPLED.items() if step == 5)
    given = cases(name, 12)
    assert len(not_sampled(given)) == 10
    assert len(not_sampled(given[:3])) == 2
    assert list(not_sampled(given)) == [item for item in given if item in not_sampled(given)]
    never = cases(next(name for name, step in SAMPLED.items() if step == NEVER), 2)
    assert list(not_sampled(never)) == never
    file = next(path for path, step in SAMPLED_FILES.items() if step == 2)
    others = [*cases(f"{file}::test_a", 2), *cases(f"{file}::test_b", 2)]
    assert len(not_sampled(others)) == 2
    assert not not_sampled(cases("models/test_models.py::test_padding", 9))


def test_a_sample_of_many_cases_has_every_value_of_every_parameter() -> None:
    given = cases(next(name for name, step in SAMPLED.items() if step == 4), 10 * 4)
    for k, item in enumerate(given):
        item.callspec = SimpleNamespace(params={"inner": k % 4, "outer": k // 4})  # type: ignore[attr-defined]
    kept = [item for item in given if item not in not_sampled(given)]
    assert len(kept) < 20
    assert {value for item in kept for value in values_of(item)} == {
        value for item in given for value in values_of(item)
    }


def test_without_the_variable_every_test_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(SAMPLED))
    for value, kept in (("few", 1), ("all", 3), (None, 3)):
        if value is None:
            monkeypatch.delenv("SUITE", raising=False)
        else:
            monkeypatch.setenv("SUITE", value)
        items, hook = cases(name, 3), Hook()
        leave_out(cast("pytest.Config", hook), items)
        assert len(items) == kept
        assert len(hook.items) == 3 - kept


def test_a_scheduled_workflow_runs_every_test() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "SUITE: ${{ github.event_name == 'schedule' && 'all' || 'few' }}" in workflow
    makefile = (ROOT / "Makefile").read_text()
    assert "SUITE ?= few" in makefile
    assert "$(MAKE) SUITE=all test-long" in makefile
    assert "coverage contract test-walks: export SUITE := all" in makefile
