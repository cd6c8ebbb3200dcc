"""The building blocks of every model, written over the last axes.

Shapes may carry leading axes: (N, F), (N, S, F) or, for R runs side by side, (R, N, S, F)
with every weight (R, out, in). The same code serves one run and many. Sizes and letters:
N sequences, F features, H width of the state, R runs.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.streams import streams


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b over the last axis.

    Args:
        x: (..., in), or (R, ..., in) where weight has runs.
        weight: (out, in) or (R, out, in).
        bias: (out,) or (R, out), or None.
    """
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    rows = x.flatten(1, -2)  # (R, everything between, in)
    if bias is None:
        mapped = rows @ weight.mT
    else:
        mapped = torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT)
    return mapped.reshape(*x.shape[:-1], weight.shape[-2])


def product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right for batches of matrices; for a single batch axis `bmm` is much cheaper."""
    return torch.bmm(left, right) if left.dim() == 3 else left @ right


class Affine(nn.Module):
    """A learned affine map. Initialised like torch's Linear: U(-b, b), b = 1/sqrt(in)."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.bound = 1 / math.sqrt(inputs)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out). Without torch's hooks, which nobody sets and every call pays."""
        return affine(x, self.weight, self.bias)


class Learned(nn.Module):
    """Some learned numbers that start where they are told to: a temperature, a baseline.

    Args:
        start: where they start.
        size: how many.
    """

    def __init__(self, start: float, size: int = 1) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.empty(size))
        self.start = start

    def over(self, x: Tensor) -> Tensor:
        """The one number, shaped to be broadcast over x (..., or runs first)."""
        value: Tensor = self.value
        return value if value.dim() == 1 else value.view(-1, *[1] * (x.dim() - 1))


class LayerNorm(nn.Module):
    """Each row to mean 0 and variance 1, times a learned gain, plus a learned bias (Ba, Kiros and
    Hinton 2016, "Layer Normalization", eq. 4).

    Args:
        width: of a row.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.bias = Learned(1.0, width), Learned(0.0, width)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        *_, width = x.shape
        gain: Tensor = self.gain.value
        bias: Tensor = self.bias.value
        if gain.dim() == 1:
            return F.layer_norm(x, (width,), gain, bias)
        runs = (-1, *[1] * (x.dim() - 2), width)
        return F.layer_norm(x, (width,)) * gain.view(runs) + bias.view(runs)


def initialise(model: nn.Module, seed: int) -> None:
    """Draw every parameter from its own stream, named after it.

    A model with one part more draws the same numbers for all its other parts.

    Args:
        model: made of `Learned`, and of modules that say how far from 0 their numbers start
            (`bound`), and of modules of these.
        seed: the run's seed.
    """
    with torch.no_grad():
        drawn = dict[str, tuple[nn.Parameter, float]]()
        for module_name, module in model.named_modules():
            if isinstance(module, Learned):
                module.value.fill_(module.start)
                continue
            for name, parameter in module.named_parameters(recurse=False):
                if not isinstance(bound := getattr(module, "bound", None), float):
                    raise TypeError(f"{module_name}.{name} has no rule of initialisation")
                drawn[f"{module_name}.{name}"] = parameter, bound
        places = ((seed, name) for name in drawn)
        for (parameter, bound), numbers in zip(
            drawn.values(), streams(places, "init"), strict=True
        ):
            draw = numbers.uniform(-bound, bound, size=tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(draw))
