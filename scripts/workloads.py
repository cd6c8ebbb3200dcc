"""The workloads of scripts/bench.py, and the training of a workload with seqattn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from seqattn.config import Recurrent, ScaledDotAttention, Squares, Training
from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import Batch, TrainingRun, to_tensors, train_models


@dataclass(frozen=True)
class Work:
    name: str
    hidden: int
    batch_size: int
    epochs: int
    data: Batch
    validation: Batch


def squares_of(n: int) -> tuple[Batch, Batch]:
    splits = load_data(Squares(n_train=n, n_validation=128))
    return to_tensors(splits.train), to_tensors(splits.validation)


def paths(n: int, seed: int) -> Batch:
    """Return random paths of 32 + 32 points."""
    steps = np.random.RandomState(seed).randn(n, 64, 2) * 0.1
    points = torch.as_tensor(steps.cumsum(axis=1), dtype=torch.float32)
    return Batch(points[:, :32], points[:, 32:])


def workloads() -> list[Work]:
    return [
        Work("A", 2, 16, 100, *squares_of(128)),
        Work("B", 64, 64, 5, *squares_of(2048)),
        Work("C", 64, 64, 1, paths(2048, 1), paths(128, 2)),
    ]


def seqattn_loop(
    work: Work,
    *,
    manual_backward: bool = True,
    seeds: int = 1,
    cell: Literal["gru", "lstm", "rnn"] = "gru",
    heads: int = 1,
) -> float:
    """Train with seqattn, and return the last validation loss of the first seed."""
    config = Training(epochs=work.epochs, batch_size=work.batch_size, learning_rate=0.01)
    attention = ScaledDotAttention(heads=heads)
    model = Recurrent(hidden_dim=work.hidden, cell=cell, attention=attention)
    runs = [
        TrainingRun(build_model(model, 2, seed), work.data, work.validation, config, seed)
        for seed in range(seeds)
    ]
    return train_models(runs, manual_backward=manual_backward)[0].history[-1].validation_loss
