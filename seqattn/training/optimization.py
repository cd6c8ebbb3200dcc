"""Optimizers, gradient clipping, and the schedules of learning rate and teacher forcing.

The optimizers apply torch's fused kernels to the parameters of all runs as one tensor, (R, P) for R
runs of P parameter values.

Each schedule is a function of the config and the epoch. The plateau schedule and early stopping
also depend on the validation losses so far. The schedules have no other state, so a resumed run has
the same schedules as an uninterrupted run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

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

KERNELS = {
    "adam": getattr(torch, "_fused_adam_", None),
    "adamw": getattr(torch, "_fused_adamw_", None),
}


def buffer_names(config: Training) -> tuple[str, ...]:
    """Return torch's names of the buffers that the optimizer keeps for each parameter."""
    if config.optimizer != "sgd":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if config.momentum else ()


def counts_updates(config: Training) -> bool:
    """Return whether an update depends on the number of earlier updates."""
    return config.optimizer != "sgd"


class Optimizer:
    """Adam, AdamW or SGD over (R, P) weights. Settings that the config does not contain have
    torch's default values.

    Attributes:
        buffers: (R, P) buffers by name.
        updates: number of updates, (). For SGD, which does not depend on this number, it stays 0.
    """

    def __init__(
        self, config: Training, weights: Tensor, gradient: Tensor, frozen: Sequence[slice] = ()
    ) -> None:
        """
        Args:
            weights: (R, P) weights, updated in place.
            gradient: (R, P) gradient.
            frozen: columns of the weights that keep their values. Without this argument, weight
                decay would change these columns, although their gradient is zero.
        """
        self.config, self.frozen = config, frozen
        self.weights, self.gradient = weights, gradient
        # torch sets the momentum to the first gradient. A momentum of zero has this value after
        # the first update, too.
        self.buffers = {name: torch.zeros_like(weights) for name in buffer_names(config)}
        self.updates = torch.zeros((), dtype=torch.float32, device=weights.device)
        self.before = torch.empty_like(weights)
        self._update = self._kernel()

    def step(self, learning_rates: Sequence[float]) -> None:
        """Update the weights with the learning rate of each run."""
        kept = [self.weights[:, columns].clone() for columns in self.frozen]
        first = learning_rates[0]
        if learning_rates.count(first) == len(learning_rates):
            self._update(first)
        else:
            step_sizes = torch.tensor(learning_rates, dtype=self.weights.dtype).unsqueeze(1)
            self._update_each(step_sizes.to(self.weights.device, non_blocking=True))
        for columns, values in zip(self.frozen, kept, strict=True):
            self.weights[:, columns] = values

    def _update_each(self, step_sizes: Tensor) -> None:
        """Update the weights with a learning rate of each run, (R, 1)."""
        if self.config.optimizer != "sgd":
            # The updates of Adam and AdamW are linear in the learning rate. An update with rate 1
            # is therefore scaled by the learning rate of each run.
            self.before.copy_(self.weights)
            self._update(1.0)
            self.weights.copy_(torch.lerp(self.before, self.weights, step_sizes))
            return
        # With a rate of 1, a small update would be lost by rounding before it is scaled by a rate
        # above 1.
        update = torch.add(self.gradient, self.weights, alpha=self.config.weight_decay)
        if self.config.momentum:
            momentum = self.buffers["momentum_buffer"]
            update = momentum.mul_(self.config.momentum).add_(update)
        self.weights.addcmul_(update, step_sizes, value=-1)

    def _kernel(self) -> Callable[[float], None]:
        """Return the update as a function of the learning rate."""
        dense = [  # the kernels need contiguous memory, but the axes may have any order
            t if t.is_contiguous() else t.T
            for t in (self.weights, self.gradient, *self.buffers.values())
        ]
        weights, gradient, *buffers = ([t] for t in dense)
        config = self.config
        match config.optimizer:
            case "sgd":
                momenta: list[Tensor | None] = [*buffers[0]] if buffers else [None]

                def update(rate: float) -> None:
                    sgd(
                        weights, gradient, momenta, fused=True, weight_decay=config.weight_decay,
                        momentum=config.momentum, lr=rate, dampening=0.0, nesterov=False,
                        maximize=False,
                    )  # fmt: skip

                return update
            case "adam" | "adamw":
                options: dict[str, Any] = {
                    "amsgrad": False, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "maximize": False,
                    "weight_decay": config.weight_decay,
                }  # fmt: skip
                # torch's public functions add more time to these kernels than the step of a
                # small model takes. The kernels are private, so a version of torch may lack them.
                kernel = KERNELS[config.optimizer]
                if kernel is None:
                    around: Callable[..., None] = adamw if config.optimizer == "adamw" else adam

                    def update(rate: float) -> None:
                        around(
                            weights, gradient, *buffers, [], [self.updates],
                            fused=True, lr=rate, **options,
                        )  # fmt: skip

                    return update

                def update(rate: float) -> None:
                    self.updates.add_(1)
                    kernel(weights, gradient, *buffers, [], [self.updates], lr=rate, **options)

                return update
            case _:
                assert_never(config.optimizer)


class GradientClipping:
    """Clipping of the gradient norm of each run.

    The method is algorithm 1 of Pascanu et al. 2013, "On the difficulty of training recurrent
    neural networks".

    Args:
        limits: the value of `training.clip_norm` for each run; None for a run without a limit.
        gradient: (R, P) gradient, changed in place.
    """

    def __init__(self, limits: Sequence[float | None], gradient: Tensor) -> None:
        self.gradient = gradient
        max_norms = [math.inf if limit is None else limit for limit in limits]
        self.is_on = any(map(math.isfinite, max_norms))
        self.limits = torch.tensor(max_norms, dtype=gradient.dtype, device=gradient.device)
        is_partial = self.is_on and not all(map(math.isfinite, max_norms))
        self.unlimited = self.limits.isinf() if is_partial else None

    def norms(self) -> Tensor:
        """Compute the (R,) gradient norms of the runs."""
        norms: Tensor = torch.linalg.vector_norm(self.gradient, dim=1)
        return norms

    def clip(self) -> None:
        """Scale down each gradient whose norm exceeds the limit of its run. Like torch's function
        `clip_grad_norm_`, the method adds 1e-6 to the norm."""
        if not self.is_on:
            return
        norms = self.norms()
        # A non-finite norm becomes NaN here. Otherwise the gradient would become zero.
        shares = (self.limits / (norms + 1e-6) + norms * 0).clamp(max=1)
        if self.unlimited is not None:
            shares.masked_fill_(self.unlimited, 1)
        self.gradient.mul_(shares.unsqueeze(1))


Ending = Literal["all epochs", "early stopping", "diverged"]
"""Reason for the end of a run."""


def teacher_forcing_probability(config: TeacherForcing, epoch: int, epochs: int) -> float:
    """Compute the probability that a step receives the true target.

    The decaying schedules come from Bengio et al. 2015, "Scheduled Sampling", section 2.4.

    Args:
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
    plateau."""
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
        stopper: the detector, which has seen the validation losses of these epochs.
    """
    if epoch >= config.epochs:
        return "all epochs"
    return "early stopping" if stopper.is_plateau else None
