"""Runs that were stopped side by side, and how they go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.errors import Interrupted, StorageError
from seqattn.experiments import Callbacks, seeds_of, train_many
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.checkpoint_file import describe_checkpoint

Runs = list[tuple[Config, RunFolder]]
SETS = ["data.n_train=64", "data.n_validation=16", "data.n_test=8", "training.epochs=8",
        "training.checkpoint_seconds=0", "name=s"]  # fmt: skip


def base(*more: str) -> Config:
    return resolve(None, [*SETS, *more]).config


def after(steps: int) -> Callable[[], int]:
    """Asks to stop after so many steps."""
    asked = iter(range(steps))
    return lambda: 0 if next(asked, None) is not None else 2


def stopped(runs: Runs, steps: int) -> None:
    with pytest.raises(Interrupted):
        train_many(runs, threads=1, callbacks=Callbacks(stop=after(steps)))


def resumed(runs: Runs, **more: Any) -> tuple[list[int], list[str], list[experiments.Job]]:
    """The epochs that were trained, what was said, and what came of it."""
    epochs, messages = list[int](), list[str]()
    callbacks = Callbacks(
        epoch=lambda _, record: epochs.append(record.epoch), message=messages.append
    )
    jobs = train_many(runs, threads=1, resume=True, callbacks=callbacks, **more)
    return epochs, messages, jobs


def test_a_run_that_diverged_early_takes_none_back(tmp_path: Path) -> None:
    """It stands where it diverged, long before the others."""
    rates = {"a": 0.05, "b": 0.04, "far": 90.0, "d": 0.03}
    runs = [
        (base("training.optimizer=sgd", f"training.learning_rate={rate}"), RunFolder(tmp_path / k))
        for k, rate in rates.items()
    ]
    stopped(runs, 22)
    places = {folder.path.name: describe_checkpoint(folder.last)["epoch"] for _, folder in runs}
    assert places.pop("far") < 3
    assert set(places.values()) == {5}
    epochs, messages, jobs = resumed(runs)
    assert min(epochs) == 6, messages
    assert [job.error is None for job in jobs] == [True, True, False, True]


def test_what_was_trained_before_another_began_is_not_trained_again(tmp_path: Path) -> None:
    """That one was killed before its first save; the others have no checkpoint but their last."""
    quick = base("training.checkpoint_seconds=1000")
    train_many(seeds_of(quick, tmp_path / "s", 2), threads=1)
    runs = seeds_of(quick, tmp_path / "s", 3)
    new = runs[2][1]
    shutil.copytree(runs[0][1].path, new.path)
    for file in new.files:
        if file not in (new.config, new.environment):
            file.unlink(missing_ok=True)
    environment = json.loads(new.environment.read_text())
    new.environment.write_text(json.dumps({**environment, "started": "2020-01-01T00:00:00+0000"}))
    more = [(config.model_copy(update={"training": config.training.model_copy(
        update={"epochs": 9})}), folder) for config, folder in runs]  # fmt: skip
    epochs, messages, _ = resumed(more)
    assert sorted(epochs) == sorted([9, 9, *range(1, 10)]), messages


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_folder_that_is_removed_is_not_made_again(seeds: int, tmp_path: Path) -> None:
    """Another process removes the run, with its checkpoints, while it is trained."""

    def remove(_: Path, record: EpochRecord) -> None:
        if record.epoch == 2 and (tmp_path / "s").exists():
            (tmp_path / "s").rename(tmp_path / "removed")  # at once, while another thread writes
            shutil.rmtree(tmp_path / "removed", ignore_errors=True)

    with pytest.raises(
        StorageError,
        match=rf"checkpoint on disk: 0 of {seeds}\. .*train again without --resume",
    ):
        train_many(
            seeds_of(base(), tmp_path / "s", seeds), threads=1, callbacks=Callbacks(epoch=remove)
        )
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1000, "Runs with a checkpoint on disk: 0 of 1. When the problem is solved, continue with"),
     (0, "The checkpoints on disk are complete. When the problem is solved, continue with")],
)  # fmt: skip
def test_a_failed_save_says_what_is_on_disk(
    seconds: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: RunFolder, history: Sequence[EpochRecord]) -> None:
        if len(history) == 8:
            raise OSError(28, "No space left on device", str(folder.metrics))

    monkeypatch.setattr(RunFolder, "write_metrics", full)
    config = base(f"training.checkpoint_seconds={seconds}")
    with pytest.raises(StorageError, match=words):
        train_many(seeds_of(config, tmp_path / "s", 1), threads=1)
