"""The building blocks of the recurrent models, written over the last axes.

Shapes may carry leading axes: (N, F), (N, S, F) or, for R runs side by side, (R, N, S, F)
with every weight (R, out, in). The same code serves one run and many. Sizes and letters:
N sequences, F features, H width of the state, R runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


class GRU(nn.Module):
    """A gated recurrent unit (Cho et al. 2014) in torch's variant and weight layout.

    With r, z, n stacked in the weights' rows, x_t the input and h the state:

        r = sigmoid(W_r x_t + b_r + U_r h + c_r)
        z = sigmoid(W_z x_t + b_z + U_z h + c_z)
        n = tanh(W_n x_t + b_n + r * (U_n h + c_n))
        h' = (1 - z) * n + z * h

    Everything that depends on inputs alone is one matmul over all steps (`project`), so a step
    is what is left. Initialised like torch's GRU: U(-b, b), b = 1/sqrt(H).
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(3 * hidden))
        self.bias_hh = nn.Parameter(torch.empty(3 * hidden))
        self.hidden = hidden
        self.bound = 1 / math.sqrt(hidden)
        self.kernel: Callable[..., Tensor] = (
            gru_step  # what makes a step; a compiled one may take its place
        )

    def project(self, inputs: Tensor) -> Tensor:
        """W x + b of all gates: (..., inputs) -> (..., 3H).

        Where a context joins the input later, the columns of the points come first: give the
        points here and add `project_context`.
        """
        *_, columns = inputs.shape
        weight: Tensor = self.weight_ih
        if columns != weight.shape[-1]:  # a slice costs time, here and backward
            weight = weight[..., :columns]
        return affine(inputs, weight, self.bias_ih)

    def project_context(self, context: Tensor) -> Tensor:
        """The share of the input's last columns, no bias: (..., C) -> (..., 3H)."""
        return affine(context, self.weight_ih[..., -context.shape[-1] :], None)

    def project_steps(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """`project` for L known inputs (..., N, L, inputs) at once -> L times (..., N, 3H).

        The steps are moved to the front first, while they are narrow: each step's gates then lie
        in one piece, and what comes backward is put together without being rearranged.
        """
        *_, N, _, _ = inputs.shape
        return torch.unsafe_split(self.project(inputs.transpose(-3, -2).flatten(-3, -2)), N, dim=-2)

    def step(self, projected: Tensor, hidden: Tensor | None) -> Tensor:
        """One step: projected input (..., N, 3H) and state (..., N, H) -> state (..., N, H)."""
        return self.kernel(projected, hidden, self.weight_hh, self.bias_hh)

    def run(self, steps: Sequence[Tensor], hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """All steps of known inputs.

        Args:
            steps: L times (..., N, 3H), from `project_steps`.
            hidden: (..., N, H), or None for zeros.

        Returns:
            states (..., N, L, H), and the last of them (..., N, H).
        """
        weight, bias = self.weight_hh, self.bias_hh
        states = []
        for projected in steps:
            hidden = self.kernel(projected, hidden, weight, bias)
            states.append(hidden)
        return torch.stack(states, dim=-2), states[-1]


def gru_step(projected: Tensor, hidden: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """The equations of `GRU`.

    Args:
        projected: W x + b of all gates, (..., N, 3H).
        hidden: h, (..., N, H); None is a state of zeros, whose matmul is left out.
        weight, bias: U (..., 3H, H) and c (..., 3H).
    """
    H = weight.shape[-1]
    if hidden is None:  # in the inputs' precision, which autocast may have chosen
        recurrent = bias.unsqueeze(-2).to(projected.dtype)
    else:
        recurrent = affine(hidden, weight, bias)
    # "unsafe" only for who writes into the pieces; without that guard they are cheaper.
    gates_x, new_x = torch.unsafe_split_with_sizes(projected, (2 * H, H), dim=-1)
    gates_h, new_h = torch.unsafe_split_with_sizes(recurrent, (2 * H, H), dim=-1)
    reset, update = torch.unsafe_chunk((gates_x + gates_h).sigmoid(), 2, dim=-1)
    new = (new_x + reset * new_h).tanh()  # addcmul would be slower backward
    if hidden is None:
        return new - update * new
    return torch.lerp(new, hidden, update)  # new + update * (hidden - new)


def initialise(model: nn.Module, seed: int) -> None:
    """Draw every parameter from its own stream, named after it.

    A model with one part more draws the same numbers for all its other parts.

    Args:
        model: made of `Affine` and `GRU` and of modules of these.
        seed: the run's seed.
    """
    with torch.no_grad():
        drawn = dict[str, tuple[nn.Parameter, float]]()
        for module_name, module in model.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                if not isinstance(module, Affine | GRU):
                    raise TypeError(f"{module_name}.{name} has no rule of initialisation")
                drawn[f"{module_name}.{name}"] = parameter, module.bound
        places = ((seed, name) for name in drawn)
        for (parameter, bound), numbers in zip(
            drawn.values(), streams(places, "init"), strict=True
        ):
            draw = numbers.uniform(-bound, bound, size=tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(draw))
