"""From NumPy sequences to tensors, and an epoch's batches in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data import Scaling, Sequences
from seqattn.streams import streams

MOST_GATHERED = 2**26
"""Numbers of which an epoch keeps a second copy, in its order: 256 MB."""


@dataclass(frozen=True)
class Batch:
    """Sequences as tensors. What is the same for all of them, full length, is None, so that a
    batch without padding costs no masking.

    Attributes:
        source: (..., N, S, F); a leading axis is one of runs.
        target: (..., N, T, F).
        source_lengths: (..., N) int64, or None where every source has S points.
        target_keep: (..., N, T) True at real target points, or None where all are.
    """

    source: Tensor
    target: Tensor
    source_lengths: Tensor | None = None
    target_keep: Tensor | None = None

    def __len__(self) -> int:
        return self.source.shape[-3]

    def take(self, places: slice) -> Batch:
        """The sequences at these places, of each run."""
        at = places if self.source.dim() == 3 else (slice(None), places)
        return self._each(lambda tensor: tensor[at])

    @property
    def points(self) -> list[int]:
        """Real target points, of each run."""
        if self.target_keep is None:
            runs = self.target.shape[0] if self.target.dim() == 4 else 1
            return [len(self) * self.target.shape[-2]] * runs
        counted: list[int] = self.target_keep.sum(dim=(-2, -1)).view(-1).tolist()
        return counted

    def split(self, size: int) -> list[Batch]:
        """Batches of `size` sequences, the last with what is left."""
        axis = self.source.dim() - 3
        columns = [
            [None] * math.ceil(len(self) / size) if tensor is None else tensor.split(size, dim=axis)
            for tensor in (self.source, self.target, self.source_lengths, self.target_keep)
        ]
        return [Batch(*row) for row in zip(*columns, strict=True)]

    def at(self, places: Tensor) -> Batch:
        """The sequences at (N,) places, or at those of each run, (R, N)."""
        if places.dim() == 1:
            return self._each(lambda tensor: tensor.index_select(0, places))
        own = places + len(self) * torch.arange(len(places), device=places.device).unsqueeze(1)

        def taken(tensor: Tensor) -> Tensor:
            if tensor.stride(0) == 0:  # all runs have the same
                found = tensor[0].index_select(0, places.flatten())
            else:
                found = tensor.flatten(0, 1).index_select(0, own.flatten())
            return found.view(*places.shape, *found.shape[1:])

        return self._each(taken)

    def owned(self) -> Batch:
        """The same with memory for each run, where runs share it: kernels may take another way with
        what they share, and a run must not tell whether the others have the same sequences."""
        return self._each(Tensor.contiguous)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source),
            change(self.target),
            None if self.source_lengths is None else change(self.source_lengths),
            None if self.target_keep is None else change(self.target_keep),
        )


def to_tensors(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    scaling: Scaling | None = None,
) -> Batch:
    """All sequences of a part as one batch.

    Args:
        scaling: to the model's units; None: they are the part's.
    """
    ragged_source = not part.source_keep.all()
    ragged_target = not part.target_keep.all()
    source: NDArray[np.floating] = part.source
    target: NDArray[np.floating] = part.target
    kind = np.float64 if dtype == torch.float64 else np.float32
    if scaling is not None:
        source, target = scaling.scaled(part, kind)
    # A part may be a view of rows that lie apart, or of a mapped file that nobody may write to.
    owned = [np.require(points, kind, ["C", "W"]) for points in (source, target)]
    return Batch(
        torch.as_tensor(owned[0], dtype=dtype, device=device),
        torch.as_tensor(owned[1], dtype=dtype, device=device),
        torch.as_tensor(part.source_lengths, device=device) if ragged_source else None,
        torch.as_tensor(part.target_keep, device=device) if ragged_target else None,
    )


def slices(sequences: int, size: int) -> Iterator[slice]:
    """Places of one batch after the other: `size` sequences each, the last what is left."""
    for start in range(0, sequences, size):
        yield slice(start, min(start + size, sequences))


def orders(seeds: Iterable[int], epoch: int, sequences: int) -> list[NDArray[np.int64]]:
    """The order in which an epoch visits the sequences, for each seed: a function of both."""
    places = ((seed, epoch) for seed in seeds)
    return [numbers.permutation(sequences) for numbers in streams(places, "shuffle")]


def in_orders(
    data: Batch, orders: Sequence[NDArray[np.int64]], size: int
) -> Callable[[int], Batch]:
    """An epoch's batches by their number, each run's in its own order, (R, n, ...).

    Sequences are gathered all at once, which is fastest, unless a second copy of them would be
    large: then batch by batch.

    Args:
        data: the same for all runs, or with a leading axis of runs.
        orders: one for each run.
        size: sequences of a batch.
    """
    places = torch.from_numpy(orders[0] if len(orders) == 1 else np.stack(orders))
    places = places.to(data.source.device)
    numbers = data.source[..., :1, :, :].numel() + data.target[..., :1, :, :].numel()
    if places.shape[-1] * numbers <= MOST_GATHERED:
        return data.at(places).split(size).__getitem__
    batches = places.split(size, dim=-1)
    return lambda step: data.at(batches[step])


def together(parts: Sequence[Batch]) -> Batch:
    """The same part of several runs: (R, N, ...), without a copy where all have the same.

    Raises:
        ValueError: some have padding, and some have none.
    """
    first, *others = parts
    if not others:
        return first

    def of(name: str) -> Tensor | None:
        found: list[Tensor] = [t for part in parts if (t := getattr(part, name)) is not None]
        if not found:
            return None
        if len(found) < len(parts):
            raise ValueError(f"{len(found)} of {len(parts)} runs have {name}: all or none must")
        if all(tensor is found[0] for tensor in found):
            return found[0].expand(len(parts), *found[0].shape)
        return torch.stack(found)

    source, target = of("source"), of("target")
    assert source is not None and target is not None
    return Batch(source, target, of("source_lengths"), of("target_keep"))
