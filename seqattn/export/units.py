"""The steps of a source or of a target inside graphs: vectors, which are scaled, or symbols.

A graph reads and writes the user's values. A model reads and writes scaled values, or symbols.

In shapes, N is the number of sequences, S is the source length, F is the number of source features,
G is the number of target features, and V is the size of the target vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seqattn.data import DataSpec
from seqattn.data.spaces import ROUNDING, Space, Vectors
from seqattn.models.cells import last_valid

Tensors = dict[str, Tensor]
OFFSET, SCALE = "offset", "scale"
"""The names of the shift and the scale of each sequence's target."""
LOGITS = "logits"
"""Output (N, V) of a step, from which the next symbol is read."""


class Units(nn.Module, ABC):
    """The steps of one side of a model.

    Attributes:
        dtype: type of the user's values.
    """

    dtype: torch.dtype

    @abstractmethod
    def scale_source(
        self, source: Tensor, lengths: Tensor, observed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the source (N, S, F) as the model reads it, and the shift and the scale (N, F) of
        each sequence; see `Sequences.sequence_scalers`.

        Args:
            source: (N, S, F) values of the user.
            lengths: (N,) number of valid steps.
            observed: mask (N, S, F) of the observed cells; None if all valid cells were observed.
        """

    @abstractmethod
    def select_scaling(self, shift: Tensor, scale: Tensor) -> Tensors:
        """Return the shift and the scale (N, G) of the target of each sequence by name, given those
        of the source, (N, F)."""

    @abstractmethod
    def scale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        """Convert a target step (N, G) of the user to one of the model."""

    @abstractmethod
    def unscale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        """Convert a target step (N, G) of the model to one of the user."""

    @abstractmethod
    def name_logits(self, values: Tensor) -> Tensors:
        """Return the outputs of the network for a step by name, if they are not the step itself."""


class VectorUnits(Units):
    """Vectors, in units of the data (float64) and in scaled units (float32).

    Args:
        space: what a step is.
        source_index_of_target: index of each target feature among the source features, or -1 if the
            source lacks the feature.
    """

    dtype = torch.float64
    shift: Tensor
    scale: Tensor

    def __init__(self, space: Vectors, source_index_of_target: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("shift", torch.from_numpy(space.scaling.shift.copy()))
        self.register_buffer("scale", torch.from_numpy(space.scaling.scale.copy()))
        self.source_index_of_target = list(source_index_of_target)
        self.relative, self.instance = space.scaling.relative, space.scaling.instance

    def scale_source(
        self, source: Tensor, lengths: Tensor, observed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, S, _ = source.shape
        keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
        source = source.masked_fill(~keep.unsqueeze(-1), 0)
        shift, scale = torch.zeros_like(source[:, 0]), torch.ones_like(source[:, 0])
        if self.relative:
            shift = last_valid(source, lengths)
        elif self.instance:
            cells = keep.unsqueeze(-1).expand_as(source)
            shift, scale = self._statistics(source, cells if observed is None else cells & observed)
        source = (source - shift.unsqueeze(1)) / scale.unsqueeze(1)
        scaled = (source - self.shift) / self.scale
        return scaled.float().masked_fill(~keep.unsqueeze(-1), 0), shift, scale

    def _statistics(self, source: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Compute shift and scale (N, F) of sources (N, S, F) with valid observed cells `keep`
        (N, S, F), as in `InstanceStatistics`."""
        low = source.masked_fill(~keep, torch.inf).amin(dim=1)
        high = source.masked_fill(~keep, -torch.inf).amax(dim=1)
        constant = high - low <= ROUNDING * torch.maximum(low.abs(), high.abs())
        spread = (high - low).masked_fill(constant, 1)
        unit = ((source - low.unsqueeze(1)) / spread.unsqueeze(1)).masked_fill(~keep, 0)
        n = keep.sum(dim=1).to(source.dtype)
        mean = unit.sum(dim=1) / n
        squares = (unit - mean.unsqueeze(1)).square().masked_fill(~keep, 0)
        std = spread * (squares.sum(dim=1) / n).sqrt()
        return low + spread * mean, (std / self.scale).masked_fill(constant, 1)

    def select_scaling(self, shift: Tensor, scale: Tensor) -> Tensors:
        index = self.source_index_of_target  # -1 selects the neutral value in the last column
        return {
            name: torch.cat([values, torch.full_like(values[:, :1], neutral)], dim=-1)[:, index]
            for name, values, neutral in ((OFFSET, shift, 0.0), (SCALE, scale, 1.0))
        }

    def scale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        point = (point - target_scaling[OFFSET]) / target_scaling[SCALE]
        return ((point - self.shift) / self.scale).float()

    def unscale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        point = point.double() * self.scale + self.shift
        return point * target_scaling[SCALE] + target_scaling[OFFSET]

    def name_logits(self, values: Tensor) -> Tensors:
        return {}


class TokenUnits(Units):
    """Symbols, which the user and the model write alike, as int64 numbers."""

    dtype = torch.int64

    def scale_source(
        self, source: Tensor, lengths: Tensor, observed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        neutral = torch.zeros_like(source[:, 0], dtype=torch.float64)
        return source, neutral, neutral + 1

    def select_scaling(self, shift: Tensor, scale: Tensor) -> Tensors:
        return {}

    def scale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        return point

    def unscale_point(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        return point

    def name_logits(self, values: Tensor) -> Tensors:
        return {LOGITS: values}


def build_units(spec: DataSpec) -> tuple[Units, Units]:
    """Build the units of the source and of the target."""
    source, target = (
        VectorUnits(space, spec.source_index_of_target)
        if isinstance(space, Vectors)
        else TokenUnits()
        for space in (spec.source, spec.target)
    )
    return source, target


def is_instance(space: Space) -> bool:
    """Whether the mean and standard deviation of each sequence scale it; see `Scaling`."""
    return isinstance(space, Vectors) and space.scaling.instance
