"""What summary.json says of how a run ended: fields with types, which earlier versions lack."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from seqattn.runs import RunFolder, read_summary

DIVERGED = {"name": "mine", "seed": 3, "epochs": 5, "test_loss": None,
            "diverged": "The training loss is nan in epoch 6, step 7"}  # fmt: skip


@pytest.fixture(params=["finished", "diverged"])
def folder(request: pytest.FixtureRequest, attention_run: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(attention_run, tmp_path / "mine")
    found = RunFolder(tmp_path / "mine")
    if request.param == "diverged":
        found.write_summary(DIVERGED)
    return found


def rewrite(folder: RunFolder, **changed: Any) -> None:
    folder.write_summary(folder.read_summary() | changed)


def test_how_a_run_ended_is_read_back(folder: RunFolder) -> None:
    skipped = ["Skipped checkpoint: last.safetensors: is missing."]
    rewrite(folder, skipped_checkpoints=skipped, interrupted=True)
    summary = read_summary(folder.summary)
    assert (summary["skipped_checkpoints"], summary["interrupted"]) == (skipped, True)
