"""The keys that runs side by side may differ in are those that the loop reads of each run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from seqattn.config import Training
from seqattn.training.learner import PER_RUN
from tests.conftest import ROOT

FILES = [ROOT / "seqattn" / "training" / f"{name}.py" for name in ("learner", "loop")]
OF_GROUP = {"self.config", "learner.config"}


def reads(path: Path) -> Iterator[tuple[str, str]]:
    """(whose config, key) of each key of a `Training` that a file reads."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in Training.model_fields:
            owner = ast.unparse(node.value)
            if owner.endswith(".config"):
                yield owner, node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_key_is_read_of_the_group_or_of_each_run(path: Path) -> None:
    for owner, key in reads(path):
        # Of teacher forcing all runs share the coin, which decides the shape of the coins.
        if owner in OF_GROUP:
            assert key not in PER_RUN - {"teacher_forcing"}, f"{owner}.{key} is the first run's"
        else:
            assert key in PER_RUN, f"{owner}.{key} may be another in each run"


def test_keys_of_both_kinds_are_found() -> None:
    found = [each for path in FILES for each in reads(path)]
    assert {key for owner, key in found if owner in OF_GROUP} >= {
        "batch_size",
        "compile",
        "precision",
    }
    assert {key for owner, key in found if owner not in OF_GROUP} >= {"epochs", "clip_norm"}
