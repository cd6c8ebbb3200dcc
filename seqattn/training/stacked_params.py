"""The parameters of R models of one config as a single (R, P) tensor.

P is the number of parameter values of a model. With this tensor, the update of the weights, the
norm of the gradient, and the copy of the best weights are single operations for all runs and all
parameters.
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
    """The parameters of R models of one config.

    Attributes:
        R: number of models.
        model: a model whose parameters have a leading axis of runs. The axis is missing if R is 1.
        weights: (R, P) weights. The parameters of `model` are views of this tensor.
        gradient: (R, P) gradient of the last backward pass.
        frozen: columns of the weights that the optimizer does not change.
        shapes: shapes of the parameters by name, without the axis of runs.
    """

    def __init__(
        self,
        models: Sequence[Seq2SeqModel],
        *,
        runs_innermost: bool = False,
    ) -> None:
        """
        Args:
            models: models of one config. If there is only one model, the attribute `model` is this
                model, and not a copy.
            runs_innermost: whether the axis of runs is the innermost axis in memory.
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
        weights = torch.stack(
            [torch.cat([p.detach().flatten() for p in one.values()]) for one in named]
        )
        self.runs_innermost = runs_innermost and self.R > 1
        self.weights = weights.T.contiguous().T if self.runs_innermost else weights
        self.gradient = torch.zeros_like(self.weights)
        self.parameter_grads: list[tuple[nn.Parameter, Tensor]] = []
        gradients = self.as_named(self.gradient)
        for name, weight in self.as_named(self.weights).items():
            module, _, key = name.rpartition(".")
            parameter = nn.Parameter(weight)
            setattr(self.model.get_submodule(module), key, parameter)
            if self.R == 1:
                parameter.grad = gradients[name]
            self.parameter_grads.append((parameter, gradients[name]))

    def as_named(self, stacked: Tensor) -> dict[str, Tensor]:
        """Return views of an (R, P) tensor by parameter name: (R, *shape), or (*shape) if R = 1."""
        split = zip(self.shapes.items(), torch.split(stacked, self.sizes, dim=1), strict=True)
        if self.R == 1:
            return {name: piece.view(shape) for (name, shape), piece in split}
        return {name: piece.unflatten(1, shape) for (name, shape), piece in split}

    def get_row(self, stacked: Tensor, k: int) -> dict[str, Tensor]:
        """Copy row k of an (R, P) tensor to tensors by parameter name."""
        row = stacked[k].clone(memory_format=torch.contiguous_format)
        split = zip(self.shapes.items(), torch.split(row, self.sizes), strict=True)
        return {name: piece.view(shape) for (name, shape), piece in split}

    def set_row(self, stacked: Tensor, k: int, named: Mapping[str, Tensor]) -> None:
        """Copy tensors by parameter name to row k of an (R, P) tensor."""
        stacked[k] = torch.cat([named[name].detach().flatten().to(stacked) for name in self.shapes])

    def clear_gradient(self) -> None:
        """Clear the gradient before a backward pass of autograd."""
        if self.R == 1:
            self.gradient.zero_()
        else:  # autograd allocates new gradients, because these parameters are not contiguous
            for parameter, _ in self.parameter_grads:
                parameter.grad = None

    def gather_gradient(self) -> None:
        """Copy the gradients of a backward pass of autograd to `gradient`."""
        if self.R > 1:
            gradients = [
                (torch.zeros_like(grad) if parameter.grad is None else parameter.grad).flatten(1)
                for parameter, grad in self.parameter_grads
            ]
            torch.cat(gradients, dim=1, out=self.gradient)


@contextlib.contextmanager
def train_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into train mode during the `with` block, and into eval mode afterwards.

    A module of a plugin can read its attribute `training`, as torch's own modules do. Only training
    steps use a model in train mode. A change of the mode takes as long as a part of a step of a
    small model, so a block contains all steps of an epoch.
    """
    model.train()
    try:
        yield
    finally:
        model.eval()


@contextlib.contextmanager
def cache_module_attributes(model: nn.Module) -> Iterator[None]:
    """Make submodules and parameters plain attributes of their modules during the `with` block.

    Without this context manager, torch looks up these attributes in Python at each use. In a small
    model, these lookups take a twentieth of the time of a training step. Do not replace a submodule
    or parameter in the block, because the module would still use the old object.
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
