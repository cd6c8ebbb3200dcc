"""From NumPy sequences to tensors, and an epoch's batches in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from seqattn.data import Sequences
from seqattn.streams import stream


@dataclass(frozen=True)
class Batch:
    """Sequences as tensors. What is the same for all of them, full length, is None, so that a
    batch without padding costs no masking.

    Attributes:
        source: (N, S, F) float32.
        target: (N, T, F) float32.
        source_lengths: (N,) int64, or None where every source has S points.
        target_keep: (N, T) True at real target points, or None where all are.
    """

    source: Tensor
    target: Tensor
    source_lengths: Tensor | None = None
    target_keep: Tensor | None = None

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def points(self) -> int:
        """Real target points."""
        if self.target_keep is None:
            return self.target.shape[0] * self.target.shape[1]
        return int(self.target_keep.sum())

    def take(self, order: Tensor | slice) -> Batch:
        """The sequences at these places."""
        return Batch(
            self.source[order],
            self.target[order],
            None if self.source_lengths is None else self.source_lengths[order],
            None if self.target_keep is None else self.target_keep[order],
        )


def to_tensors(
    part: Sequences, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Batch:
    """All sequences of a part as one batch."""
    ragged_source = not part.source_keep.all()
    ragged_target = not part.target_keep.all()
    return Batch(
        torch.as_tensor(part.source, dtype=dtype, device=device),
        torch.as_tensor(part.target, dtype=dtype, device=device),
        torch.as_tensor(part.source_lengths, device=device) if ragged_source else None,
        torch.as_tensor(part.target_keep, device=device) if ragged_target else None,
    )


def slices(sequences: int, size: int, first: int = 0) -> Iterator[slice]:
    """Places of batch `first`, `first` + 1, ...: `size` sequences each, the last what is left."""
    for start in range(first * size, sequences, size):
        yield slice(start, min(start + size, sequences))


def shuffled(batch: Batch, seed: int, epoch: int) -> Batch:
    """All sequences in the order in which an epoch visits them: a function of seed and epoch."""
    order = torch.from_numpy(stream(seed, "shuffle", epoch).permutation(len(batch)))
    return batch.take(order.to(batch.source.device))
