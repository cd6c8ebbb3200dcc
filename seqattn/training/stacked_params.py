"""R models of one shape as one: their parameters in one (R, P) tensor, the model's own as views.

Everything that happens to parameters as numbers - the optimizer's step, the gradient's norm, the
best epoch's copy - is then one operation for all runs and all parameters.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from seqattn.models import Seq2SeqModel


class StackedParams:
    """R models side by side.

    Attributes:
        model: one model whose parameters have a leading axis of runs, or none where R is 1.
        weights: (R, P), every parameter of every run; the model's parameters are views of it.
        gradient: (R, P), what backward passes leave.
        frozen: places of the columns that no optimizer changes.
    """

    def __init__(
        self,
        models: Sequence[Seq2SeqModel],
        *,
        runs_innermost: bool = False,
    ) -> None:
        """
        Args:
            models: of one config; the first is changed to be the stack's model.
            runs_innermost: keep the runs innermost in memory.
        """
        self.R = len(models)
        self.model = models[0] if self.R == 1 else copy.deepcopy(models[0])
        named = [dict(model.named_parameters()) for model in models]
        self.shapes = {name: p.shape for name, p in named[0].items()}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        ends = itertools.accumulate(self.sizes)
        self.frozen = [
            slice(end - size, end)
            for name, size, end in zip(self.shapes, self.sizes, ends, strict=True)
            if name in models[0].frozen_parameters
        ]
        rows = torch.stack(
            [torch.cat([p.detach().flatten() for p in one.values()]) for one in named]
        )
        self.runs_innermost = runs_innermost and self.R > 1
        self.weights = rows.T.contiguous().T if self.runs_innermost else rows
        self.gradient = torch.zeros_like(self.weights)
        self.slopes: list[tuple[nn.Parameter, Tensor]] = []
        gradients = self.pieces(self.gradient)
        for name, weight in self.pieces(self.weights).items():
            module, _, key = name.rpartition(".")
            parameter = nn.Parameter(weight)
            setattr(self.model.get_submodule(module), key, parameter)
            if self.R == 1:
                parameter.grad = gradients[name]
            self.slopes.append((parameter, gradients[name]))

    def pieces(self, rows: Tensor) -> dict[str, Tensor]:
        """(R, P) as views by parameter's name: (R, *shape), or where R is 1 (*shape)."""
        split = zip(self.shapes.items(), torch.split(rows, self.sizes, dim=1), strict=True)
        if self.R == 1:
            return {name: piece.view(shape) for (name, shape), piece in split}
        return {name: piece.unflatten(1, shape) for (name, shape), piece in split}

    def of_run(self, rows: Tensor, run: int) -> dict[str, Tensor]:
        """One run's share of (R, P), by parameter's name; pieces of one copy."""
        row = rows[run].clone(memory_format=torch.contiguous_format)
        split = zip(self.shapes.items(), torch.split(row, self.sizes), strict=True)
        return {name: piece.view(shape) for (name, shape), piece in split}

    def set_row(self, rows: Tensor, run: int, named: Mapping[str, Tensor]) -> None:
        """Write one run's share of (R, P)."""
        rows[run] = torch.cat([named[name].detach().flatten().to(rows) for name in self.shapes])

    def clear_gradient(self) -> None:
        if self.R == 1:
            self.gradient.zero_()
        else:  # autograd keeps gradients of its own where runs lie apart in memory
            for parameter, _ in self.slopes:
                parameter.grad = None

    def gather_gradient(self) -> None:
        """Write the gradient of a backward pass of autograd to `gradient`."""
        if self.R > 1:
            rows = [
                (torch.zeros_like(slope) if parameter.grad is None else parameter.grad).flatten(1)
                for parameter, slope in self.slopes
            ]
            torch.cat(rows, dim=1, out=self.gradient)


@contextlib.contextmanager
def cache_module_attributes(model: nn.Module) -> Iterator[None]:
    """Parts and parameters as plain attributes of their modules. torch looks for them with Python
    code of its own at each use, which is a twentieth of a small model's step.

    Inside, none may be replaced: its module would go on with the old one.
    """
    modules = list(model.modules())
    for module in modules:
        module.__dict__.update(module._modules)
        module.__dict__.update(module._parameters)
    try:
        yield
    finally:
        for module in modules:
            for name in (*module._modules, *module._parameters):
                module.__dict__.pop(name, None)
