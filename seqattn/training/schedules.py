"""Schedules of teacher forcing and learning rate, and early stopping.

Each schedule is a function of the config and the epoch. The plateau schedule and early stopping
also depend on the validation losses so far. The schedules have no other state, so a resumed run has
the same schedules as an uninterrupted run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from seqattn.config import (
    ConstantForcing,
    ConstantRate,
    CosineRate,
    ExponentialForcing,
    InverseSigmoidForcing,
    LinearForcing,
    PlateauRate,
    StepRate,
    TeacherForcing,
    Training,
)

Ending = Literal["all epochs", "early stopping", "diverged"]
"""Reason for the end of a run."""


def teacher_forcing_probability(config: TeacherForcing, epoch: int, epochs: int) -> float:
    """Compute the probability that a step receives the true target.

    The decaying schedules come from Bengio et al. 2015, "Scheduled Sampling", section 2.4.

    Args:
        config: the section `training.teacher_forcing`.
        epoch: number of the epoch, from 0.
        epochs: value of `training.epochs`. A linear schedule spans all epochs unless `over_epochs`
            is set.
    """
    match config:
        case ConstantForcing():
            return config.probability
        case LinearForcing():
            span = (config.over_epochs or epochs) - 1
            share = min(epoch / span, 1.0) if span > 0 else min(epoch, 1.0)
            return config.start + share * (config.end - config.start)
        case ExponentialForcing():
            return float(config.decay**epoch)
        case InverseSigmoidForcing():
            return 1 / (1 + math.exp(min(epoch / config.k, 700.0)) / config.k)
        case _:
            assert_never(config)


def sample_teacher_forcing(
    config: TeacherForcing,
    probability: float,
    generator: np.random.RandomState,
    *,
    sequences: int,
    batches: int,
    steps: int,
) -> NDArray[np.bool_]:
    """Sample the steps of an epoch that receive the true target.

    Args:
        config: the section `training.teacher_forcing`.
        probability: probability that a step receives the true target.
        generator: random number generator of the epoch.
        sequences: number of training sequences.
        batches: number of batches in the epoch.
        steps: number of target steps, T.

    Returns: an array that is True at each element for which a uniform random number in [0, 1) is
        below `probability`. The shape depends on `config.coin`: (batches, 1, T) for `step`,
        (sequences, 1) for `sequence`, and (sequences, T) for `element`. The sequences are in the
        order in which the epoch visits them.
    """
    match config.coin:
        case "step":
            uniform = generator.random_sample((batches, 1, steps))
        case "sequence":
            uniform = generator.random_sample((sequences, 1))
        case "element":
            uniform = generator.random_sample((sequences, steps))
        case _:
            assert_never(config.coin)
    masks: NDArray[np.bool_] = uniform < probability
    return masks


class PlateauDetector:
    """A counter of the epochs without a new lowest loss.

    Args:
        patience: number of consecutive epochs without a new lowest loss that make a plateau.
        min_delta: decrease that a loss must exceed to count as a new lowest loss.
    """

    def __init__(self, patience: float, min_delta: float = 0.0) -> None:
        self.patience = patience
        self.min_delta = min_delta
        self.lowest_loss = math.inf
        self.epochs_waited = 0

    def update(self, loss: float) -> bool:
        """Record the loss of an epoch, and return whether there is a plateau."""
        if loss < self.lowest_loss - self.min_delta:
            self.lowest_loss, self.epochs_waited = loss, 0
        else:
            self.epochs_waited += 1
        return self.is_plateau

    @property
    def is_plateau(self) -> bool:
        """Whether at least `patience` epochs have passed without a new lowest loss."""
        return self.epochs_waited >= self.patience


def build_early_stopper(config: Training, validation_losses: Iterable[float]) -> PlateauDetector:
    """Build the detector for early stopping. If early stopping is off, the detector never finds a
    plateau.

    Args:
        config: the section `training`.
        validation_losses: validation losses of the finished epochs.
    """
    stopper = PlateauDetector(math.inf)
    if config.early_stopping is not None:
        stopper = PlateauDetector(config.early_stopping.patience, config.early_stopping.min_delta)
    for loss in validation_losses:
        stopper.update(loss)
    return stopper


class LearningRate:
    """The learning rate schedule of a run.

    Let e be the number of the epoch from 0, E the number of epochs of a cosine schedule, m the
    minimum of a cosine schedule, and n the number of plateaus so far. All schedules except
    the constant one have the following learning rates:

        cosine   m + (learning_rate - m) (1 + cos(pi e / E)) / 2 for e <= E, and m for e > E
        step     learning_rate factor^floor(e / every)
        plateau  learning_rate factor^n

    For e <= E, a cosine schedule equals torch's `CosineAnnealingLR` with T_max = E and eta_min = m.
    With m = 0, the last epoch of the cosine schedule, e = E - 1, still has a rate above 0. A step
    schedule equals torch's `StepLR`.
    """

    def __init__(self, config: Training, validation_losses: Iterable[float] = ()) -> None:
        """
        Args:
            config: the section `training`.
            validation_losses: validation losses of the finished epochs.
        """
        self.config, self.epoch, self.factor = config, 0, 1.0
        schedule = config.learning_rate_schedule
        self.plateau = PlateauDetector(
            schedule.patience if isinstance(schedule, PlateauRate) else math.inf
        )
        for loss in validation_losses:
            self.update(loss)

    def update(self, loss: float) -> None:
        """Advance to the next epoch.

        Args:
            loss: validation loss of the epoch that has finished.
        """
        self.epoch += 1
        schedule = self.config.learning_rate_schedule
        if isinstance(schedule, PlateauRate) and self.plateau.update(loss):
            self.factor *= schedule.factor
            self.plateau.epochs_waited = 0

    @property
    def value(self) -> float:
        """Learning rate of the next epoch."""
        config, schedule = self.config, self.config.learning_rate_schedule
        match schedule:
            case ConstantRate():
                return config.learning_rate
            case CosineRate():
                share = min(self.epoch / (schedule.over_epochs or config.epochs), 1.0)
                span = config.learning_rate - schedule.minimum
                return schedule.minimum + span * 0.5 * (1 + math.cos(math.pi * share))
            case StepRate():
                steps = self.epoch // schedule.every
                return float(config.learning_rate * schedule.factor**steps)
            case PlateauRate():
                return config.learning_rate * self.factor
            case _:
                assert_never(schedule)


def find_ending(config: Training, epoch: int, stopper: PlateauDetector) -> Ending | None:
    """Return the reason for the end of a run, or None if the run has not ended.

    After the last epoch of `training.epochs`, the reason is "all epochs", even if this epoch
    completes a plateau, because early stopping then skips no epoch.

    Args:
        config: the section `training`.
        epoch: number of finished epochs.
        stopper: the detector, which has seen the validation losses of these epochs.
    """
    if epoch >= config.epochs:
        return "all epochs"
    return "early stopping" if stopper.is_plateau else None
