"""What summary.json says of how a run ended: fields with types, which earlier versions lack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from seqattn.errors import CheckpointError
from seqattn.runs import RunFolder, read_summary
from seqattn.runs.json_files import DivergedSummary, Summary

DIVERGED = {"name": "mine", "seed": 3, "epochs": 5, "test_loss": None,
            "diverged": "The training loss is nan in epoch 6, step 7"}  # fmt: skip


@pytest.fixture(params=["finished", "diverged"])
def folder(request: pytest.FixtureRequest, attention_run: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(attention_run, tmp_path / "mine")
    found = RunFolder(tmp_path / "mine")
    if request.param == "diverged":
        found.summary.write_text(json.dumps(DIVERGED))
    return found


def rewrite(folder: RunFolder, **changed: Any) -> None:
    folder.summary.write_text(json.dumps(folder.read_summary() | changed))


def test_the_summary_of_an_earlier_version_is_read(folder: RunFolder) -> None:
    content = folder.read_summary()
    for key in ("skipped_checkpoints", "interrupted"):
        content.pop(key, None)
    folder.summary.write_text(json.dumps(content))
    assert folder.read_summary() == content
    schema = DivergedSummary if content.get("diverged") else Summary
    stored = schema.model_validate(content)
    assert (stored.skipped_checkpoints, stored.interrupted) == ([], False)


def test_how_a_run_ended_is_read_back(folder: RunFolder) -> None:
    skipped = ["Skipped checkpoint: last.safetensors: is missing."]
    rewrite(folder, skipped_checkpoints=skipped, interrupted=True)
    summary = read_summary(folder.summary)
    assert (summary["skipped_checkpoints"], summary["interrupted"]) == (skipped, True)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("skipped_checkpoints", "last.safetensors", "skipped_checkpoints: expected a list"),
        ("skipped_checkpoints", [3], "skipped_checkpoints.0: expected text"),
        ("skipped_checkpoints", [""], "skipped_checkpoints.0: "),
        ("interrupted", "no", "interrupted: expected true or false"),
        ("interrupted", 1, "interrupted: expected true or false"),
    ],
)
def test_another_type_is_refused(folder: RunFolder, key: str, value: Any, words: str) -> None:
    rewrite(folder, **{key: value})
    with pytest.raises(CheckpointError) as raised:
        folder.read_summary()
    assert f"{folder.summary}: {words}" in str(raised.value)
