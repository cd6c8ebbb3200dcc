"""The losses of short works, held against those of the code before the training core was redesigned.

tests/fixtures/core_figures.json is what that code gave; `scripts/pinned.py` says how it was made, and holds
the same works byte for byte on one machine. A younger mechanism has the losses of its first version.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT, Ended


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PINNED = _module(ROOT / "scripts" / "pinned.py")
EXPECTED = json.loads((ROOT / "tests" / "fixtures" / "core_figures.json").read_text())
WORKS = {name: words for name, words in PINNED.trainings().items() if words[0] == "seqattn"}


def test_every_work_has_its_figures() -> None:
    assert EXPECTED.keys() == WORKS.keys()
    assert len(WORKS) >= 25


@pytest.mark.parametrize("name", WORKS)
def test_a_work_has_the_losses_of_before(
    name: str, seqattn: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEQATTN_CACHE", str(tmp_path / "cache"))
    done = seqattn(*WORKS[name][1:], "--output-dir", tmp_path / "outputs", "-q")
    assert done.code == 0, done.err
    found = PINNED.losses_of(tmp_path / "outputs")
    assert found.keys() == EXPECTED[name].keys()
    for run, epochs in EXPECTED[name].items():
        assert len(found[run]) == len(epochs)
        for row, before in zip(found[run], epochs, strict=True):
            assert row == pytest.approx(before, rel=1e-4)
