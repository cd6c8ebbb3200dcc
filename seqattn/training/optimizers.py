"""Optimizers: torch's fused kernels on the parameters of all runs as one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from seqattn.config import Training

KERNELS = {
    "adam": getattr(torch, "_fused_adam_", None),
    "adamw": getattr(torch, "_fused_adamw_", None),
}


def buffer_names(config: Training) -> tuple[str, ...]:
    """The optimizer's buffers of a parameter, as torch names them."""
    if config.optimizer != "sgd":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if config.momentum else ()


def counts_updates(config: Training) -> bool:
    """Whether the optimizer's step depends on the number of earlier steps."""
    return config.optimizer != "sgd"


class Optimizer:
    """Adam, AdamW or SGD over (R, P) weights, with torch's defaults.

    Attributes:
        buffers: by name, each (R, P).
        updates: finished steps, as the kernels count them.
    """

    def __init__(
        self, config: Training, weights: Tensor, gradient: Tensor, frozen: Sequence[slice] = ()
    ) -> None:
        """
        Args:
            frozen: columns that keep their values; weight decay would change them even without
                a gradient.
        """
        self.config, self.frozen = config, frozen
        self.weights, self.gradient = weights, gradient
        # A momentum that starts from zeros is after one step what torch's own starts from.
        self.buffers = {name: torch.zeros_like(weights) for name in buffer_names(config)}
        self.updates = torch.zeros((), dtype=torch.float32, device=weights.device)
        self.before = torch.empty_like(weights)
        self._update = self._kernel()

    def step(self, learning_rates: Sequence[float]) -> None:
        """One update.

        Args:
            learning_rates: a learning rate for each run.
        """
        kept = [self.weights[:, columns].clone() for columns in self.frozen]
        self._step(learning_rates)
        for columns, values in zip(self.frozen, kept, strict=True):
            self.weights[:, columns] = values

    def _step(self, learning_rates: Sequence[float]) -> None:
        first = learning_rates[0]
        if learning_rates.count(first) == len(learning_rates):
            self._update(first)
            return
        # A step of every optimizer here is linear in its learning rate, so a step with rate 1 is
        # scaled by each run's own.
        self.before.copy_(self.weights)
        self._update(1.0)
        shares = torch.tensor(learning_rates, dtype=self.weights.dtype, device=self.weights.device)
        self.weights.copy_(torch.lerp(self.before, self.weights, shares.unsqueeze(1)))

    def _kernel(self) -> Callable[[float], None]:
        """The update as a function of the learning rate."""
        dense = [  # kernels need contiguous memory; the order of its axes does not matter
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
                # torch's functions around these kernels take longer than a small model's step; the
                # kernels are no public interface, so where they are missing the functions serve.
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
    """Scales the gradient of each run down to the run's own largest norm (Pascanu et al. 2013, "On
    the difficulty of training recurrent neural networks", algorithm 1).

    Args:
        limits: `training.clip_norm` of each run; None: it has no limit.
        gradient: (R, P), changed in place.
    """

    def __init__(self, limits: Sequence[float | None], gradient: Tensor) -> None:
        self.gradient = gradient
        max_norms = [math.inf if limit is None else limit for limit in limits]
        self.is_on = any(map(math.isfinite, max_norms))
        self.limits = torch.tensor(max_norms, dtype=gradient.dtype, device=gradient.device)
        is_partial = self.is_on and not all(map(math.isfinite, max_norms))
        self.unlimited = self.limits.isinf() if is_partial else None

    def norms(self) -> Tensor:
        """(R,), of the gradient of each run."""
        norms: Tensor = torch.linalg.vector_norm(self.gradient, dim=1)
        return norms

    def clip(self) -> None:
        if not self.is_on:
            return
        norms = self.norms()
        # Propagate a non-finite norm as NaN instead of zeroing the gradient.
        shares = (self.limits / (norms + 1e-6) + norms * 0).clamp(max=1)
        if self.unlimited is not None:
            shares.masked_fill_(self.unlimited, 1)
        self.gradient.mul_(shares.unsqueeze(1))
