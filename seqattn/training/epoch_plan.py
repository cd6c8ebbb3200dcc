"""The plan of an epoch, which contains its batches, teacher forcing and learning rates.

In shapes, n is the number of sequences in a batch, T is the target length, and R is the number of
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqattn.rng import rngs_for
from seqattn.training.batches import Batch
from seqattn.training.data_loader import DataLoader
from seqattn.training.schedules import sample_teacher_forcing, teacher_forcing_probability
from seqattn.training.state import TrainingRun


@dataclass(frozen=True)
class EpochPlan:
    """The batches and settings of an epoch for all runs of a group.

    Attributes:
        fetch: function that takes the number of a step, and returns this process's share of the
            batch of this step.
        teacher_forcing: a mask for each batch, which is True at the steps that receive the true
            target. Its shape is (T,), (n, 1) or (n, T), depending on
            `training.teacher_forcing.coin`; see `sample_teacher_forcing`. For several runs, the
            shape is (R, 1, T), (R, n, 1) or (R, n, T).
        probabilities: for each run, the probability that a step receives the true target.
        learning_rates: learning rate of each run.
    """

    fetch: Callable[[int], Batch]
    teacher_forcing: list[Tensor]
    probabilities: list[float]
    learning_rates: list[float]

    def __len__(self) -> int:
        return len(self.teacher_forcing)


def build_epoch_plan(
    runs: Sequence[TrainingRun], learning_rates: list[float], loader: DataLoader, epoch: int
) -> EpochPlan:
    """Build the plan of an epoch. The plan depends only on the arguments.

    Args:
        runs: the run of each row.
        learning_rates: learning rate of each row.
        loader: loader of the training sequences.
        epoch: number of finished epochs.
    """
    probabilities = [
        teacher_forcing_probability(run.config.teacher_forcing, epoch, run.config.epochs)
        for run in runs
    ]
    generators = rngs_for(((run.seed, epoch) for run in runs), "coins")
    samples = [
        sample_teacher_forcing(
            run.config.teacher_forcing, probability, generator, sequences=loader.n,
            batches=len(loader.batches), steps=loader.T,
        )
        for run, probability, generator in zip(runs, probabilities, generators, strict=True)
    ]  # fmt: skip
    is_single = len(runs) == 1
    masks = torch.from_numpy(samples[0] if is_single else np.stack(samples))
    if runs[0].config.teacher_forcing.coin == "step":
        # All sequences of a batch share a sample: (T,), or (R, 1, T) for several runs.
        teacher_forcing = list(masks.squeeze(-2).unbind(0) if is_single else masks.unbind(1))
    else:
        teacher_forcing = [masks[..., places, :] for places in loader.own_places]
    fetch = loader.shuffled([run.seed for run in runs], epoch)
    return EpochPlan(fetch, teacher_forcing, probabilities, learning_rates)
