"""Fixtures of the tests of commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seqattn.runs import RunFolder


@pytest.fixture
def copied(attention_run: Path, tmp_path: Path) -> RunFolder:
    """A copy of a run, to be damaged."""
    shutil.copytree(attention_run, tmp_path / "run")
    return RunFolder(tmp_path / "run")
