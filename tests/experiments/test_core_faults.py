"""What a group writes about runs that have ended, and what a stop after the last training leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import Interrupted
from seqattn.experiments import Callbacks, group_training
from seqattn.runs import RunFolder
from tests.conftest import SMALL

Runs = list[tuple[Any, RunFolder]]


def runs_of(folder: Path, settings: Mapping[str, str]) -> Runs:
    """A config with `SMALL` for each name, with one more setting."""
    return [
        (resolve(None, [*SMALL, more]).config, RunFolder(folder / name))
        for name, more in settings.items()
    ]


def stop_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int = 1) -> Callbacks:
    """Callbacks that request a stop from the given call of a function on."""
    requested = list[int]()
    function = getattr(owner, name)

    def stopping(*args: Any, **options: Any) -> Any:
        requested.append(signal.SIGTERM)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, stopping)
    return Callbacks(stop=lambda: requested[0] if len(requested) >= call else 0)


def interrupted(train: Callable[[], object]) -> str:
    """The message of the stop that ends a training."""
    with pytest.raises(Interrupted) as raised:
        train()
    assert raised.value.exit_code == 128 + signal.SIGTERM
    return str(raised.value)


@pytest.mark.parametrize("count", [1, 3])
def test_a_stop_while_the_last_results_are_written_says_that_nothing_is_missing(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(tmp_path, {f"run-{seed}": f"seed={seed}" for seed in range(count)})
    with monkeypatch.context() as patch:
        callbacks = stop_in(patch, group_training, "write_results")
        message = interrupted(lambda: experiments.train_many(runs, threads=1, callbacks=callbacks))
    saved_to = runs[0][1].path if count == 1 else tmp_path
    assert message == f"SIGTERM: saved to {saved_to}; nothing is missing."
    files = [folder.summary.read_bytes() for _, folder in runs]
    again = experiments.train_many(runs, threads=1, resume=True)
    assert all(job.summary is not None for job in again)
    assert files == [folder.summary.read_bytes() for _, folder in runs]


def test_a_stop_while_results_are_written_names_what_a_resume_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures, or another group."""
    pictures = runs_of(tmp_path / "pictures", {"one": "seed=1"})
    groups = runs_of(
        tmp_path / "groups", {"four": "model.hidden_dim=4", "six": "model.hidden_dim=6"}
    )
    for runs, plots in ((pictures, True), (groups, False)):
        with monkeypatch.context() as patch:
            callbacks = stop_in(patch, group_training, "write_results")
            message = interrupted(
                lambda runs=runs, plots=plots, callbacks=callbacks: experiments.train_many(
                    runs, threads=1, plots=plots, callbacks=callbacks)
            )  # fmt: skip
        assert "--resume" in message
        assert runs[0][1].summary.exists()
    assert not pictures[0][1].loss_picture.exists()
    assert not groups[1][1].summary.exists()
    experiments.train_many(pictures, threads=1, plots=True, resume=True)
    experiments.train_many(groups, threads=1, resume=True)
    assert pictures[0][1].loss_picture.exists()
    assert groups[1][1].summary.exists()
