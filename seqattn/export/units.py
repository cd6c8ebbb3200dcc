"""Scaling between units of the data and scaled units, inside graphs.

In shapes, N is the number of sequences, S is the source length, F is the number of source features,
and G is the number of target features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqattn.data import DataSpec
from seqattn.data.spaces import ROUNDING
from seqattn.models.cells import last_valid

Tensors = dict[str, Tensor]
OFFSET, SCALE = "offset", "scale"
"""The names of the shift and the scale of each sequence's target."""


class Units(nn.Module):
    """The scaling from units of the data (float64) to scaled units (float32), and back."""

    source_shift: Tensor
    source_scale: Tensor
    target_shift: Tensor
    target_scale: Tensor

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        source, target = spec.vectors
        for side, space in (("source", source), ("target", target)):
            self.register_buffer(f"{side}_shift", torch.from_numpy(space.scaling.shift.copy()))
            self.register_buffer(f"{side}_scale", torch.from_numpy(space.scaling.scale.copy()))
        self.source_index_of_target = list(spec.source_index_of_target)
        self.relative, self.instance = source.scaling.relative, source.scaling.instance

    def scale_source(
        self, source: Tensor, lengths: Tensor, observed: Tensor | None
    ) -> tuple[Tensor, Tensors]:
        """Return the source (N, S, F) in scaled units, with zeros as padding, and the shift and the
        scale (N, G) of the target of each sequence; see `Sequences.sequence_scalers`.

        Args:
            source: (N, S, F) values in the units of the data.
            lengths: (N,) number of valid steps.
            observed: mask (N, S, F) of the observed cells; None if all valid cells were observed.
        """
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
        scaled = (source - self.source_shift) / self.source_scale
        index = self.source_index_of_target  # -1 selects the neutral value in the last column
        target_scaling = {
            name: torch.cat([values, torch.full_like(values[:, :1], neutral)], dim=-1)[:, index]
            for name, values, neutral in ((OFFSET, shift, 0.0), (SCALE, scale, 1.0))
        }
        return scaled.float().masked_fill(~keep.unsqueeze(-1), 0), target_scaling

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
        return low + spread * mean, (std / self.source_scale).masked_fill(constant, 1)

    def scale_target(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        """Convert a target step (N, G) from units of the data to scaled units."""
        point = (point - target_scaling[OFFSET]) / target_scaling[SCALE]
        return ((point - self.target_shift) / self.target_scale).float()

    def unscale_target(self, point: Tensor, target_scaling: Tensors) -> Tensor:
        """Convert a target step (N, G) from scaled units to units of the data."""
        point = point.double() * self.target_scale + self.target_shift
        return point * target_scaling[SCALE] + target_scaling[OFFSET]
