"""What the log says of `training.compile: auto` where nothing can be compiled."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import Batch, TrainingRun, acceleration, to_tensors
from seqattn.training.acceleration import StepCompiler
from seqattn.training.batches import DataLoader
from tests.grouped import small_config
from tests.training_session import trained


def run_of(precision: str, epochs: int, seed: int) -> TrainingRun:
    config = small_config(
        model={"attention": {"score": "cosine"}},  # autograd
        training={"compile": "auto", "epochs": epochs, "precision": precision},
    )
    data, model = load_data(config.data), build_model(config.model, 2, seed)
    train, validation = to_tensors(data.train), to_tensors(data.validation)
    return TrainingRun(model, train, validation, config.training, seed)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("runs", [1, 4])
def test_a_failed_compile_is_logged_once_with_its_reason(
    precision: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that end at different epochs, so that a smaller group goes on and tries again; every
    epoch takes longer than the one before."""

    def broken(*inputs: Any) -> Any:
        raise RuntimeError("no compiler here")

    after_epoch, seconds = StepCompiler.after_epoch, itertools.count(1)

    def slower(compiler: StepCompiler, _: float, epochs_left: int, batch: Any) -> None:
        after_epoch(compiler, next(seconds), epochs_left, batch)

    monkeypatch.setattr(torch, "compile", lambda plain, backend: broken)
    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(StepCompiler, "after_epoch", slower)
    messages: list[str] = []
    trained([run_of(precision, 4 + 3 * k, k) for k in range(runs)], log=messages.append)
    name = "autograd in bfloat16" if precision == "bfloat16" else "autograd"
    assert messages[0] == name
    assert len(messages) == 2
    assert messages[1].startswith(f"{name}: training.compile: torch could not compile a step here")
    assert "no compiler here" in messages[1]


def test_no_batch_is_read_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of data on the disk a batch more an epoch would be a read more."""
    read: list[int] = []
    first = DataLoader.example_batch

    def counted(loader: DataLoader) -> Batch:
        read.append(loader.n)
        return first(loader)

    monkeypatch.setattr(DataLoader, "example_batch", counted)
    for mode in ("off", "auto"):  # of which auto has too few epochs left
        config = small_config(
            model={"attention": {"score": "cosine"}}, training={"compile": mode, "epochs": 3}
        )
        data = load_data(config.data)
        parts = to_tensors(data.train), to_tensors(data.validation)
        trained([TrainingRun(build_model(config.model, 2, 1), *parts, config.training, 1)])
        assert read == [], mode
