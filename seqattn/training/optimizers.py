"""Optimizers: torch's fused kernels on the parameters of all runs in one piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from seqattn.config import Training

BUFFERS = {
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "sgd": ("momentum_buffer",),
}
"""What each optimizer keeps of a parameter (SGD only with momentum)."""

KERNELS = {
    "adam": getattr(torch, "_fused_adam_", None),
    "adamw": getattr(torch, "_fused_adamw_", None),
}


class Optimizer:
    """Adam, AdamW or SGD over (R, P) weights, with torch's defaults.

    Attributes:
        buffers: what the optimizer keeps, each (R, P).
        updates: steps taken, as the kernels count them.
    """

    def __init__(
        self, config: Training, weights: Tensor, gradient: Tensor, frozen: Sequence[slice] = ()
    ) -> None:
        """
        Args:
            frozen: places of the columns that keep their values; weight decay would change them
                without any gradient.
        """
        self.config, self.frozen = config, frozen
        self.weights, self.gradient = weights, gradient
        kept = BUFFERS[config.optimizer]
        if config.optimizer == "sgd" and config.momentum == 0:
            kept = ()
        # A momentum that starts from zeros is after one step what torch's own starts from.
        self.buffers = {name: torch.zeros_like(weights) for name in kept}
        self.updates = torch.zeros((), dtype=torch.float32, device=weights.device)
        self.before = torch.empty_like(weights)
        self.started = False
        self._update = self._kernel()

    def step(self, rates: Sequence[float]) -> None:
        """One update.

        Args:
            rates: a learning rate for each run.
        """
        self.started = True
        kept = [self.weights[:, columns].clone() for columns in self.frozen]
        self._step(rates)
        for columns, values in zip(self.frozen, kept, strict=True):
            self.weights[:, columns] = values

    def _step(self, rates: Sequence[float]) -> None:
        first = rates[0]
        if rates.count(first) == len(rates):
            self._update(first)
            return
        # A step of every optimizer here is linear in its learning rate, so with rates of their
        # own the runs go that share of the way that a rate of 1 would take them.
        self.before.copy_(self.weights)
        self._update(1.0)
        shares = torch.tensor(rates, dtype=self.weights.dtype, device=self.weights.device)
        self.weights.copy_(torch.lerp(self.before, self.weights, shares.unsqueeze(1)))

    def _kernel(self) -> Callable[[float], None]:
        """The update as a function of the learning rate."""
        dense = [  # kernels want memory in one piece, and do not care what its axes are
            t if t.is_contiguous() else t.T
            for t in (self.weights, self.gradient, *self.buffers.values())
        ]
        weights, gradient, *buffers = ([t] for t in dense)
        config = self.config
        match config.optimizer:
            case "sgd":
                momenta: list[Tensor | None] = [*buffers[0]] if buffers else [None]

                def update(rate: float) -> None:
                    self.updates.add_(1)
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
