"""train.log: what happened, in its order, each line with the time at which it happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from seqattn import experiments
from seqattn.errors import NonFiniteError
from seqattn.experiments import Callbacks
from seqattn.runs import EpochRecord, RunFolder
from tests.grouped import small_config


class Clock:
    """Time counted in finished epochs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.epochs = 0
        monkeypatch.setattr(time, "strftime", lambda *_: f"after-{self.epochs} epochs:")
        self.callbacks = Callbacks(epoch=self.count)

    def count(self, record: EpochRecord) -> None:
        self.epochs += 1


def lines_of(folder: RunFolder) -> list[tuple[int, str]]:
    """(epochs finished, first word) of each line."""
    lines = folder.log.read_text(encoding="utf-8").splitlines()
    split = [line.split(" ", 3) for line in lines]
    return [(int(stamp.removeprefix("after-")), word) for stamp, _, word, *_ in split]


def test_lines_stand_in_the_order_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    folder, _ = experiments.train_one(
        small_config(), tmp_path, plots=False, callbacks=clock.callbacks
    )
    assert lines_of(folder) == [
        (0, "train"), (0, "gradients:"), (0, "epoch"), (1, "epoch"), (2, "epoch"), (3, "finished:"),
    ]  # fmt: skip


def test_many_runs_say_at_once_how_they_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    pairs = experiments.seeds_of(small_config(), tmp_path, 3)
    for job in experiments.train_many(pairs, threads=1, callbacks=clock.callbacks):
        assert lines_of(job.folder) == [
            (0, "train"), (0, "batched"), (0, "gradients:"), (9, "finished:"),
        ]  # fmt: skip


def test_the_reason_of_an_end_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    config = small_config(training={"learning_rate": 100.0, "optimizer": "sgd", "epochs": 40})
    with pytest.raises(NonFiniteError):
        experiments.train_one(config, tmp_path, plots=False, callbacks=clock.callbacks)
    lines = lines_of(RunFolder(tmp_path / config.name))
    assert [word for _, word in lines[:2]] == ["train", "gradients:"]
    assert lines[-1] == (clock.epochs, "ended:")
    assert lines == sorted(lines, key=lambda line: line[0])
