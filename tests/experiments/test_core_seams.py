"""Where training meets folders: threads of groups that never began, checkpoints that lack a part,
groups of gathered data, results that cannot be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import CheckpointError
from seqattn.experiments.run_environment import rounding_change
from seqattn.models import build_model
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.runs.checksummed import save_checksummed
from seqattn.training import load_state

SMALL = ["data.n_train=12", "data.n_validation=6", "data.n_test=6", "training.epochs=2",
         "training.batch_size=6"]  # fmt: skip


def changed(file: Path, drop: str = "", **metadata: Any) -> None:
    """Write a checkpoint again without some tensors, with a checksum that is right."""
    found = read_checkpoint(file)
    tensors = {key: value for key, value in load_file(file).items()
               if not drop or not key.startswith(drop)}  # fmt: skip
    save_checksummed(file, tensors, {**found.metadata, **metadata})


@pytest.mark.parametrize(
    ("drop", "words"),
    [
        ("optimizer.output.bias", r"no optimizer buffers for output\.bias"),
        ("optimizer.", r"no optimizer buffers for encoder"),
        ("best.", "its training state is incomplete"),
    ],
)
def test_a_checkpoint_that_lacks_a_part_is_refused(drop: str, words: str, tmp_path: Path) -> None:
    """Adam from zero, or the newest weights as the best, would be another training."""
    config = resolve(None, SMALL).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    model = build_model(config.model, 2, 1)
    assert load_state(folder.last, model).epoch == 2
    changed(folder.last)
    assert load_state(folder.last, model).epoch == 2
    changed(folder.last, drop)
    with pytest.raises(CheckpointError, match=words):
        load_state(folder.last, model)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"threads": 2}, {"threads": 1}, "threads 2 -> 1"),
        ({"processes": 2}, {}, "processes 2 -> 1"),
        (
            {"processor": "A (AVX2)"},
            {"processor": "A (AVX512)"},
            "processor A (AVX2) -> A (AVX512).",
        ),
        ({}, {"processor": "A (AVX2)"}, None),
        ({}, {"threads": 1}, None),
        ({"threads": 1}, {}, None),
    ],
)
def test_other_threads_processes_or_processors_round_differently(
    before: dict[str, Any], now: dict[str, Any], words: str | None
) -> None:
    common = {"device": "cpu", "packages": {"torch": "2"}}
    found = rounding_change({**common, **before}, {**common, **now})
    assert (found is None) if words is None else (found is not None and words in found)


def test_checkpoints_that_were_skipped_stay_known(tmp_path: Path) -> None:
    """After a second resume the summary still names the checkpoint that the first one skipped."""
    config = resolve(None, [*SMALL, "training.checkpoint_seconds=1e-6"]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    folder.last.write_bytes(b"broken")
    longer = config.model_copy(
        update={"training": config.training.model_copy(update={"epochs": 3})}
    )
    _, summary = experiments.train_one(longer, tmp_path, plots=False, resume=True)
    assert len(summary["skipped_checkpoints"]) == 1
    more = config.model_copy(update={"training": config.training.model_copy(update={"epochs": 4})})
    _, again = experiments.train_one(more, tmp_path, plots=False, resume=True)
    assert again["skipped_checkpoints"] == summary["skipped_checkpoints"]
    log = (folder.path / "train.log").read_text()
    assert log.count("Skipped checkpoint: ") == 1
    assert json.loads(folder.environment.read_text())["skipped_checkpoints"]
