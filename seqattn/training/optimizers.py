"""Optimizers: torch's own, stepped without the cost of gathering their state anew each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from seqattn.config import Training
from seqattn.models import SequenceModel


def build_optimizer(model: SequenceModel, config: Training) -> torch.optim.Optimizer:
    """The optimizer that a config names, in its fused form."""
    parameters = list(model.parameters())
    rate, decay = config.learning_rate, config.weight_decay
    match config.optimizer:
        case "adam":
            return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
        case "sgd":
            return torch.optim.SGD(
                parameters, lr=rate, weight_decay=decay, momentum=config.momentum, fused=True
            )
        case _:
            assert_never(config.optimizer)


def stepper(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """`optimizer.step`, with the lists of its tensors made once.

    For a model of a dozen small tensors `Optimizer.step` takes longer to gather parameters and
    state than to update them. After its first step, which makes the state, torch's functional
    form of the same optimizer gets the same tensors and settings directly. Every parameter must
    have a gradient in every step or in none.
    """
    (group,) = optimizer.param_groups
    with_gradient: list[torch.Tensor] = []
    state: dict[str, list[torch.Tensor]] = {}

    def gather() -> None:
        with_gradient[:] = [p for p in group["params"] if p.grad is not None]
        for p in with_gradient:
            for name, tensor in optimizer.state[p].items():
                if tensor is not None:
                    state.setdefault(name, []).append(tensor)

    def momenta() -> list[torch.Tensor | None]:
        return [*state.get("momentum_buffer", [None] * len(with_gradient))]

    @torch.no_grad()
    def step() -> None:
        if not with_gradient:
            optimizer.step()
            gather()
            return
        gradients = [p.grad for p in with_gradient if p.grad is not None]
        if isinstance(optimizer, torch.optim.SGD):
            sgd(
                with_gradient, gradients, momenta(),
                fused=True, weight_decay=group["weight_decay"], momentum=group["momentum"],
                lr=group["lr"], dampening=0.0, nesterov=False, maximize=False,
            )  # fmt: skip
            return
        update = adamw if isinstance(optimizer, torch.optim.AdamW) else adam
        beta1, beta2 = group["betas"]
        update(
            with_gradient, gradients, state["exp_avg"], state["exp_avg_sq"], [], state["step"],
            fused=True, amsgrad=False, beta1=beta1, beta2=beta2, lr=group["lr"],
            weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
        )  # fmt: skip

    return step
