"""The two building blocks of the recurrent models, written over the last axes.

Shapes may carry leading axes: (N, F), (N, S, F) or, for R runs side by side, (R, N, S, F)
with every weight (R, out, in). The same code serves one run and many. Sizes and letters:
N sequences, F features, H width of the state, R runs.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.streams import stream


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
        product = rows @ weight.mT
    else:
        product = torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT)
    return product.unflatten(1, x.shape[1:-1])


class Affine(nn.Module):
    """A learned affine map. Initialised like torch's Linear: U(-b, b), b = 1/sqrt(in)."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.bound = 1 / math.sqrt(inputs)

    def forward(self, x: Tensor) -> Tensor:
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

    def project(self, inputs: Tensor) -> Tensor:
        """W x + b of all gates: (..., inputs) -> (..., 3H).

        Where a context joins the input later, the columns of the points come first: give the
        points here and add `project_context`.
        """
        return affine(inputs, self.weight_ih[..., : inputs.shape[-1]], self.bias_ih)

    def project_context(self, context: Tensor) -> Tensor:
        """The share of the input's last columns, no bias: (..., C) -> (..., 3H)."""
        return affine(context, self.weight_ih[..., -context.shape[-1] :], None)

    def step(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """One step: projected input (..., N, 3H) and state (..., N, H) -> state (..., N, H)."""
        H = self.hidden
        gates_x, new_x = projected.split((2 * H, H), dim=-1)
        gates_h, new_h = affine(hidden, self.weight_hh, self.bias_hh).split((2 * H, H), dim=-1)
        reset, update = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)
        new = torch.addcmul(new_x, reset, new_h).tanh()
        return torch.lerp(new, hidden, update)  # new + update * (hidden - new)

    def run(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """All steps of known inputs: (..., N, L, 3H) and (..., N, H) -> states (..., N, L, H)."""
        states = []
        for step in projected.unbind(dim=-2):
            hidden = self.step(step, hidden)
            states.append(hidden)
        return torch.stack(states, dim=-2)


def initialise(model: nn.Module, seed: int) -> None:
    """Draw every parameter from its own stream, named after it.

    A model with one part more draws the same numbers for all its other parts.

    Args:
        model: made of `Affine` and `GRU` and of modules of these.
        seed: the run's seed.
    """
    with torch.no_grad():
        for module_name, module in model.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                if not isinstance(module, Affine | GRU):
                    raise TypeError(f"{module_name}.{name} has no rule of initialisation")
                numbers = stream(seed, "init", f"{module_name}.{name}")
                draw = numbers.uniform(-module.bound, module.bound, size=tuple(parameter.shape))
                parameter.copy_(torch.from_numpy(draw))
