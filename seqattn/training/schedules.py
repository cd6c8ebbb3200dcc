"""What changes from epoch to epoch: the chance of teacher forcing, its coins, the learning rate.

Each is a function of the config, the epoch (from 0) and, for a plateau, of the validation losses
so far; nothing is carried along, so a resumed run cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import assert_never

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


def teacher_forcing_probability(config: TeacherForcing, epoch: int, epochs: int) -> float:
    """Chance of heads in an epoch (Bengio et al. 2015, "Scheduled Sampling", section 2.4).

    Args:
        epoch: from 0.
        epochs: training.epochs, which a linear schedule spans unless it says otherwise.
    """
    match config:
        case ConstantForcing():
            return config.probability
        case LinearForcing():
            way = (config.over_epochs or epochs) - 1
            share = min(epoch / way, 1.0) if way > 0 else min(epoch, 1.0)
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
    coins: np.random.RandomState,
    *,
    sequences: int,
    batches: int,
    steps: int,
) -> NDArray[np.bool_]:
    """All coins of an epoch. Heads (True) wherever a number in [0, 1) is below `probability`,
    so 0 never and 1 always feeds the truth.

    Args:
        coins: the epoch's stream of random numbers.

    Returns:
        coin `step`: (batches, 1, T); `sequence`: (sequences, 1); `element`: (sequences, T), the
        latter two in the order in which the epoch visits the sequences.
    """
    match config.coin:
        case "step":
            draws = coins.random_sample((batches, 1, steps))
        case "sequence":
            draws = coins.random_sample((sequences, 1))
        case "element":
            draws = coins.random_sample((sequences, steps))
        case _:
            assert_never(config.coin)
    heads: NDArray[np.bool_] = draws < probability
    return heads


class EarlyStopper:
    """Counts the epochs without a new lowest loss."""

    def __init__(self, epochs: float, min_delta: float = 0.0) -> None:
        self.epochs = epochs
        self.min_delta = min_delta
        self.lowest = math.inf
        self.waited = 0

    def epochs_without_improvement(self, loss: float) -> bool:
        """Take in an epoch's loss; True when patience ran out with it."""
        if loss < self.lowest - self.min_delta:
            self.lowest, self.waited = loss, 0
        else:
            self.waited += 1
        return self.should_stop

    @property
    def should_stop(self) -> bool:
        return self.waited >= self.epochs


def early_stopping(config: Training, history: Iterable[float]) -> EarlyStopper:
    """The patience that is left; without early stopping, endless.

    Args:
        history: validation losses of the epochs that are already done.
    """
    early = config.early_stopping
    patience = (
        EarlyStopper(math.inf) if early is None else EarlyStopper(early.patience, early.min_delta)
    )
    for loss in history:
        patience.epochs_without_improvement(loss)
    return patience


def learning_rates(config: Training, history: Iterable[float]) -> Callable[[float | None], float]:
    """The learning rate, epoch by epoch.

    With e the epoch from 0, E the epochs of a cosine, and m its minimum, as in torch's
    CosineAnnealingLR with T_max = E and eta_min = m:

        cosine   m + (learning_rate - m) (1 + cos(pi e / E)) / 2 for e <= E, and m after that
        step     learning_rate factor^floor(e / every), torch's StepLR

    So the last epoch of a cosine, e = E - 1, still learns where m is 0.

    Args:
        history: validation losses of the epochs that are already done.

    Returns:
        A function to call once before each further epoch with the validation loss of the epoch
        before it (None before the first call); it gives that epoch's learning rate.
    """
    schedule = config.learning_rate_schedule
    plateau = EarlyStopper(schedule.patience) if isinstance(schedule, PlateauRate) else None
    epoch = 0
    factor = 1.0

    def take_in(loss: float) -> None:
        nonlocal epoch, factor
        epoch += 1
        if (
            plateau is not None
            and isinstance(schedule, PlateauRate)
            and plateau.epochs_without_improvement(loss)
        ):
            factor *= schedule.factor
            plateau.waited = 0

    for loss in history:
        take_in(loss)

    def rate(loss_before: float | None) -> float:
        if loss_before is not None:
            take_in(loss_before)
        match schedule:
            case ConstantRate():
                return config.learning_rate
            case CosineRate():
                share = min(epoch / (schedule.over_epochs or config.epochs), 1.0)
                span = config.learning_rate - schedule.minimum
                return schedule.minimum + span * 0.5 * (1 + math.cos(math.pi * share))
            case StepRate():
                return float(config.learning_rate * schedule.factor ** (epoch // schedule.every))
            case PlateauRate():
                return config.learning_rate * factor
            case _:
                assert_never(schedule)

    return rate
