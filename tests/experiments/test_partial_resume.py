"""Resumed commands with fewer epochs or fewer seeds than before."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.config import Config, resolve
from seqattn.errors import Interrupted, NonFiniteError
from seqattn.experiments import Callbacks, seeds_of, train_many, train_one

DATA = {"n_train": 48, "n_validation": 16, "n_test": 8}


def config(*changes: str, **training: object) -> Config:
    given = {"name": "c", "data": DATA, "model": {"hidden_dim": 2}, "training": training}
    return resolve(given, list(changes)).config


def test_a_diverged_run_with_fewer_epochs_ends_before_the_divergence(tmp_path: Path) -> None:
    rates = {"batch_size": 16, "learning_rate": 16, "optimizer": "sgd"}
    with pytest.raises(NonFiniteError) as failed:
        train_one(config(epochs=8, **rates), tmp_path, plots=False)
    epochs = failed.value.epoch
    assert epochs is not None and epochs > 1
    with pytest.raises(NonFiniteError, match="would diverge again"):
        train_one(config(epochs=epochs, **rates), tmp_path, plots=False, resume=True)
    fewer = config(epochs=epochs - 1, **rates)
    _, resumed = train_one(fewer, tmp_path, plots=False, resume=True)
    _, expected = train_one(fewer, tmp_path / "again", plots=False)
    assert resumed["test_loss"] == expected["test_loss"]


def stop_after(steps: int) -> Callable[[], int]:
    calls = itertools.count(1)
    return lambda: signal.SIGINT if next(calls) >= steps else 0


@pytest.mark.parametrize(("seeds", "is_part"), [(2, True), (3, True), (4, False)])
def test_a_part_of_a_group_is_continued_with_a_message(
    seeds: int, is_part: bool, tmp_path: Path
) -> None:
    c = config(epochs=4, batch_size=8)
    with pytest.raises(Interrupted):
        train_many(seeds_of(c, tmp_path, 4), callbacks=Callbacks(stop=stop_after(8)))
    lines = list[str]()
    jobs = train_many(
        seeds_of(c, tmp_path, seeds), resume=True, callbacks=Callbacks(message=lines.append)
    )
    expected = f"Only {seeds} of 4 runs that were trained together are continued"
    assert [line.startswith(expected) for line in lines].count(True) == is_part
    assert all((expected in job.folder.log.read_text()) == is_part for job in jobs)
    lines.clear()  # the first runs have ended
    train_many(seeds_of(c, tmp_path, 4), resume=True, callbacks=Callbacks(message=lines.append))
    assert not any("trained together" in line for line in lines)
