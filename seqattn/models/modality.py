"""What a step of a source or of a target is for a model.

A `Modality` is the part of a model that depends on the kind of the steps: how a step enters the
network, which input the decoder gets first, how many numbers the output layer computes, how an
output becomes the next input, and what the error of an output is. The rest of a model, its body, is
the same for all kinds. The name and the idea are from Kaiser et al. 2017, "One Model To Learn Them
All", section 2.4 (modality nets).

In shapes, N is the number of sequences, L a number of steps, T the target length, F the number of
features of a step, E the width of an embedded step, and `...` an optional leading axis of R runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional
from torch import Tensor, nn

from seqattn.models.layers import Linear

if TYPE_CHECKING:
    from seqattn.data import DataSpec


@dataclass(frozen=True)
class FeatureSpec:
    """The features of the source and of the target.

    Attributes:
        source_dim: the number of features of a source step.
        target_dim: the number of features of a target step.
        source_index_of_target: the index of each target feature among the source features, or -1 if
            the source does not have the feature.
    """

    source_dim: int
    target_dim: int
    source_index_of_target: tuple[int, ...]

    @classmethod
    def same(cls, features: int) -> FeatureSpec:
        """Build the spec of a source and a target that have the same features."""
        return cls(features, features, tuple(range(features)))

    @classmethod
    def of(cls, spec: DataSpec) -> FeatureSpec:
        """Build the spec from the features of a `DataSpec`."""
        F, G = len(spec.source_features), len(spec.target_features)
        return cls(F, G, spec.source_index_of_target)

    @property
    def has_same_features(self) -> bool:
        return (
            self.source_index_of_target == tuple(range(self.source_dim))
            and self.source_dim == self.target_dim
        )

    def modalities(self) -> tuple[Modality, Modality]:
        """Build the modality of the source and the modality of the target."""
        return VectorModality(self, self.source_dim), VectorModality(self, self.target_dim)

    def start_token(self, last_source: Tensor) -> Tensor:
        """Return the first decoder input, (..., N, target_dim).

        The first decoder input consists of the target features of the last valid source step. A
        target feature that the source does not have is 0.

        Args:
            last_source: the last valid source step, (..., N, source_dim).
        """
        if self.has_same_features:
            return last_source
        with_zero = torch.cat([last_source, torch.zeros_like(last_source[..., :1])], dim=-1)
        return with_zero[..., list(self.source_index_of_target)]


class Modality(nn.Module, ABC):
    """The steps of one side of a model, the source or the target.

    Attributes:
        input_width: the width E of an embedded step.
        output_width: how many numbers the output layer computes for a target step.
    """

    input_width: int
    output_width: int

    @abstractmethod
    def embed(self, steps: Tensor) -> Tensor:
        """Return the steps (..., L, F) as the network reads them, (..., L, E)."""

    @abstractmethod
    def input_layer(self, width: int) -> nn.Module:
        """Build a layer that maps steps (..., L, F) to (..., L, width), for a model that adds
        positions to its inputs."""

    @abstractmethod
    def start_token(self, last_source: Tensor) -> Tensor:
        """Return the first decoder input (..., N, F), given the last valid source step (..., N,
        features of the source)."""

    @abstractmethod
    def read(self, outputs: Tensor) -> Tensor:
        """Return the steps (..., F) that outputs (..., output_width) stand for. In free running,
        they are the next decoder input."""

    @abstractmethod
    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the error of each target cell, (..., N, T, F).

        Args:
            outputs: (..., N, T, output_width) outputs of the model.
            target: (..., N, T, F) targets.
        """

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        """Return the mean error of each run over all valid target cells, (...). The mean is 0 if no
        cell was observed.

        Args:
            outputs: (..., N, T, output_width) outputs of the model.
            target: (..., N, T, F) targets.
            keep: mask (..., N, T), True at valid target steps, or (..., N, T, F), True at observed
                cells. None means that all cells are valid.
        """
        errors = self.errors(outputs, target)
        if keep is None:
            return errors.mean(dim=(-3, -2, -1))
        if keep.dim() == target.dim():
            total = errors.masked_fill(~keep, 0).sum(dim=(-3, -2, -1))
            return total / keep.sum(dim=(-3, -2, -1)).clamp(min=1)
        total = errors.masked_fill(~keep.unsqueeze(-1), 0).sum(dim=(-3, -2, -1))
        return total / (keep.sum(dim=(-2, -1)).clamp(min=1) * target.shape[-1])


class VectorModality(Modality):
    """Steps that are vectors of F numbers. The network reads and writes the numbers themselves, and
    the error of a cell is the squared difference. There are no parameters.

    Args:
        features: the features of source and target.
        width: the number of features of this side.
    """

    def __init__(self, features: FeatureSpec, width: int) -> None:
        super().__init__()
        self.features, self.input_width, self.output_width = features, width, width

    def embed(self, steps: Tensor) -> Tensor:
        return steps

    def input_layer(self, width: int) -> nn.Module:
        return Linear(self.input_width, width)

    def start_token(self, last_source: Tensor) -> Tensor:
        return self.features.start_token(last_source)

    def read(self, outputs: Tensor) -> Tensor:
        return outputs

    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs - target).square()

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        if keep is None and outputs.dim() == 3:  # one operation instead of three
            return torch.nn.functional.mse_loss(outputs, target)
        return super().loss(outputs, target, keep)
