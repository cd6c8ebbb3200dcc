"""`training.compile: auto` keeps what it measured when a group becomes smaller."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import TrainingRun, acceleration, to_tensors
from seqattn.training.acceleration import StepCompiler
from seqattn.training.objective import AutogradLoss
from tests.grouped import small_config
from tests.training_session import trained

ENDS = (3, 3, 7, 7)
"""Epochs of the runs of a group: a smaller group continues after the third."""


def compilations(monkeypatch: pytest.MonkeyPatch, durations: Any) -> list[int]:
    """Train a group with these durations of epochs, and return the epochs that compiled a step.

    Nothing is compiled: only the decisions are tested.
    """
    compiled, finished = list[int](), itertools.count(1)
    after_epoch, epoch = StepCompiler.after_epoch, 0

    def timed(compiler: StepCompiler, _: float, epochs_left: int, batch: Any) -> None:
        nonlocal epoch
        epoch = next(finished)
        after_epoch(compiler, next(durations), epochs_left, batch)

    def compile_step(loss_fn: AutogradLoss, batch: Any) -> None:
        compiled.append(epoch)
        loss_fn.name += ", a step compiled"

    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(StepCompiler, "after_epoch", timed)
    monkeypatch.setattr(AutogradLoss, "compile", compile_step)
    runs = []
    for seed, epochs in enumerate(ENDS):
        config = small_config(
            model={"attention": {"score": "cosine"}}, training={"compile": "auto", "epochs": epochs}
        )
        data, model = load_data(config.data), build_model(config.model, 2, seed)
        parts = to_tensors(data.train), to_tensors(data.validation)
        runs.append(TrainingRun(model, *parts, config.training, seed))
    assert [len(run.history) for run in trained(runs)] == list(ENDS)
    assert epoch == max(ENDS)
    return compiled


def test_no_speed_up_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch takes longer than the one before, so the second shows no speed-up."""
    assert compilations(monkeypatch, itertools.count(1.0)) == [1]


def test_a_smaller_group_compiles_again_after_a_speed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model is a new one, with eager steps."""
    assert compilations(monkeypatch, itertools.count(9.0, -1.0)) == [1, 4]
