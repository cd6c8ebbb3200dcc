"""Schedules: teacher forcing, learning rate, early stopping.

Each is a function of the config, the epoch (from 0) and, for a plateau, of the validation losses so
far; no other state is carried along, so that a resumed run cannot differ.
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
"""Why a training has ended."""


def teacher_forcing_probability(config: TeacherForcing, epoch: int, epochs: int) -> float:
    """The probability of feeding the truth (Bengio et al. 2015, "Scheduled Sampling", section 2.4).

    Args:
        epoch: from 0.
        epochs: training.epochs, which a linear schedule spans unless it says otherwise.
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
    """Sample for which steps of an epoch the true target is fed: True where a uniform number in
    [0, 1) is below `probability`.

    Args:
        generator: of the epoch's random numbers.

    Returns:
        coin `step`: (batches, 1, T); `sequence`: (sequences, 1); `element`: (sequences, T), the
        latter two in the order in which the epoch visits the sequences.
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
    forced: NDArray[np.bool_] = uniform < probability
    return forced


class PlateauDetector:
    """Counts the epochs without a new lowest loss.

    Args:
        patience: epochs without one after which training should stop.
        min_delta: by which a loss has to be lower to count.
    """

    def __init__(self, patience: float, min_delta: float = 0.0) -> None:
        self.patience = patience
        self.min_delta = min_delta
        self.lowest_loss = math.inf
        self.epochs_waited = 0

    def update(self, loss: float) -> bool:
        """Record the loss of an epoch. Returns whether training should stop."""
        if loss < self.lowest_loss - self.min_delta:
            self.lowest_loss, self.epochs_waited = loss, 0
        else:
            self.epochs_waited += 1
        return self.is_plateau

    @property
    def is_plateau(self) -> bool:
        return self.epochs_waited >= self.patience


def build_early_stopper(config: Training, history: Iterable[float]) -> PlateauDetector:
    """The early stopper of a config after some epochs; without early stopping it never stops.

    Args:
        history: validation losses of finished epochs.
    """
    early = config.early_stopping
    stopper = (
        PlateauDetector(math.inf)
        if early is None
        else PlateauDetector(early.patience, early.min_delta)
    )
    for loss in history:
        stopper.update(loss)
    return stopper


class LearningRate:
    """The learning rate, epoch by epoch.

    With e the epoch from 0, E the epochs of a cosine, and m its minimum, as in torch's
    CosineAnnealingLR with T_max = E and eta_min = m:

        cosine   m + (learning_rate - m) (1 + cos(pi e / E)) / 2 for e <= E, and m after that
        step     learning_rate factor^floor(e / every), torch's StepLR
        plateau  learning_rate factor^n, n the number of times that patience has run out

    So the last epoch of a cosine, e = E - 1, has a rate above 0 where m is 0.
    """

    def __init__(self, config: Training, history: Iterable[float] = ()) -> None:
        """
        Args:
            history: validation losses of finished epochs.
        """
        self.config, self.epoch, self.factor = config, 0, 1.0
        schedule = config.learning_rate_schedule
        self.plateau = (
            PlateauDetector(schedule.patience) if isinstance(schedule, PlateauRate) else None
        )
        for loss in history:
            self.update(loss)

    def update(self, loss: float) -> None:
        """Advance by an epoch with this validation loss."""
        self.epoch += 1
        schedule = self.config.learning_rate_schedule
        if self.plateau is None or not isinstance(schedule, PlateauRate):
            return
        if self.plateau.update(loss):
            self.factor *= schedule.factor
            self.plateau.epochs_waited = 0

    @property
    def value(self) -> float:
        """The rate of the next epoch."""
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


def ending(config: Training, epoch: int, stopper: PlateauDetector) -> Ending | None:
    """Why a training has no epoch left; None: it has.

    Args:
        epoch: finished epochs.
        stopper: after their validation losses.
    """
    if stopper.is_plateau:
        return "early stopping"
    return "all epochs" if epoch >= config.epochs else None
