"""The building blocks of every model, written over the last axes.

Shapes may carry leading axes: (N, F), (N, S, F) or, for R runs side by side, (R, N, S, F)
with every weight (R, out, in). The same code serves one run and many. Sizes and letters:
N sequences, F features, H width of the state, R runs.

Where runs are many and states are narrow, the sequences lie innermost in memory: (R, N, ..., H)
keeps its shape and has the strides of (R, H, ..., N). An operation on some of the features of all
sequences would else walk through memory in steps of two or four numbers, and that takes longer than
the arithmetic. Cells begin it (`uses_batch_innermost`); what works on their states keeps it, and is
right in any order of memory.

Under torch.autocast matrix products are computed in bfloat16, and their results are float32 again
(`at_least_float32`). Everything between two products is therefore float32: states, positions,
lengths, norms, softmax and losses. bfloat16 has 8 significant bits: 257 is no number of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.rng import streams

# From measuring; none of them changes a result by more than rounding.
NARROW = 8  # width of a state up to which many runs have the sequences innermost
FEW_TERMS = 256  # of a product of matrices, up to which its sums are written out there
SLOW_BELOW = 400  # terms of a product, below which torch multiplies number by number
WIDE, MANY = 64, 8192  # a side of a matrix, and terms of all, from which on that is slower still


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32 where it is bfloat16; else x itself."""
    return x.float() if x.dtype is torch.bfloat16 else x


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which products, too, are computed in the type of their operands.

    Args:
        x: any tensor of the device.
    """
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b over the last axis.

    Args:
        x: (..., in), or (R, N, ..., in) where weight has runs.
        weight: (out, in) or (R, out, in).
        bias: (out,) or (R, out), or None.
    """
    if weight.dim() == 2:
        return at_least_float32(F.linear(x, weight, bias))
    if is_batch_innermost(x):
        columns = x.transpose(1, -1)
        if columns.dim() == 3:
            return affine_of_columns(columns, weight, bias).mT
        mapped = affine_of_columns(columns.flatten(2), weight, bias)
        return mapped.view(*mapped.shape[:2], *columns.shape[2:]).transpose(1, -1)
    rows = x.flatten(1, -2)  # (R, everything between, in)
    if bias is None:
        mapped = rows @ weight.mT
    else:
        mapped = torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT)
    return at_least_float32(mapped).reshape(*x.shape[:-1], weight.shape[-2])


def affine_of_columns(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """W x + b: x (R, in, n), weight (R, out, in), bias (R, out) or None -> (R, out, n)."""
    if bias is None:
        return at_least_float32(torch.bmm(weight, x))
    return at_least_float32(torch.baddbmm(bias.unsqueeze(-1), weight, x))


def uses_batch_innermost(weight: Tensor) -> bool:
    """Whether the states of a cell with this recurrent weight have the sequences innermost."""
    return weight.dim() == 3 and weight.shape[-1] <= NARROW


def is_batch_innermost(x: Tensor) -> bool:
    """Whether the sequences of x, (R, N, ..., features), lie innermost in memory."""
    return x.stride(1) == 1 and x.stride(-1) > 1


def joined(parts: Sequence[Tensor]) -> Tensor:
    """torch.cat over the features, (..., features); sequences stay innermost where they are."""
    if parts[0].dim() < 3 or not is_batch_innermost(parts[0]):
        return torch.cat(list(parts), dim=-1)
    return torch.cat([part.transpose(1, -1) for part in parts], dim=1).transpose(1, -1)


def product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right for batches of matrices: (..., L, K) and (..., K, M) -> (..., L, M)."""
    *_, L, K = left.shape
    *_, M = right.shape
    if left.dim() == 4 and L * K * M <= FEW_TERMS and is_batch_innermost(left):
        # Sums of products, of all sequences at once.
        rows, columns = left.permute(0, 3, 2, 1), right.permute(0, 2, 3, 1)
        if L == 1:
            return (rows * columns).sum(1, keepdim=True).permute(0, 3, 1, 2)
        return (rows.unsqueeze(3) * columns.unsqueeze(2)).sum(1).permute(0, 3, 1, 2)
    slow = L * K * M < SLOW_BELOW and max(K, M) >= WIDE and left.numel() * M >= MANY
    if slow and left.is_cpu and not torch.compiler.is_compiling():
        if K >= M:
            return (left.unsqueeze(-2) * right.mT.unsqueeze(-3)).sum(-1)
        return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)
    # bmm is much cheaper
    return at_least_float32(torch.bmm(left, right) if left.dim() == 3 else left @ right)


class Linear(nn.Module):
    """A learned affine map. Initialised like torch's Linear: U(-b, b), b = 1/sqrt(in)."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.bound = 1 / math.sqrt(inputs)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out). Without torch's hooks, which nobody sets and every call pays."""
        return affine(x, self.weight, self.bias)


class LearnedVector(nn.Module):
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
        self.gain, self.bias = LearnedVector(1.0, width), LearnedVector(0.0, width)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        *_, width = x.shape
        gain: Tensor = self.gain.value
        bias: Tensor = self.bias.value
        if gain.dim() == 1:
            return F.layer_norm(x, (width,), gain, bias)
        runs = (-1, *[1] * (x.dim() - 2), width)
        return F.layer_norm(x, (width,)) * gain.view(runs) + bias.view(runs)


def init_parameters(model: nn.Module, seed: int) -> None:
    """Draw every parameter from its own stream, named after it.

    A model with one part more draws the same numbers for all its other parts.

    Args:
        model: made of `LearnedVector`, and of modules that say how far from 0 their numbers start
            (`bound`), and of modules of these.
        seed: the run's seed.
    """
    with torch.no_grad():
        drawn = dict[str, tuple[nn.Parameter, float]]()
        for module_name, module in model.named_modules():
            if isinstance(module, LearnedVector):
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
