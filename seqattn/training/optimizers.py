"""Optimizers that apply torch's fused kernels to the parameters of all runs as one tensor."""

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
            config: the section `training`.
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
        """Update the weights.

        Args:
            learning_rates: learning rate of each run.
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
        step_sizes = torch.tensor(learning_rates, dtype=self.weights.dtype).unsqueeze(1)
        step_sizes = step_sizes.to(self.weights.device, non_blocking=True)
        if self.config.optimizer == "sgd":
            self._update_sgd(step_sizes)
            return
        # The updates of Adam and AdamW are linear in the learning rate. An update with rate 1 is
        # therefore scaled by the learning rate of each run.
        self.before.copy_(self.weights)
        self._update(1.0)
        self.weights.copy_(torch.lerp(self.before, self.weights, step_sizes))

    def _update_sgd(self, step_sizes: Tensor) -> None:
        """Update the weights with the learning rates `step_sizes` (R, 1). With a rate of 1, a small
        update would be lost by rounding before it is scaled by a rate above 1."""
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
