"""Sequences as tensors: batches in memory, and batches that are gathered from windows on demand.

Letters: N sequences, S source length, T target length, F features, R runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data import Scaling, Sequences, Windows

GATHER_CHUNK = 2**18
"""Numbers of a part that are gathered together on their way to tensors of all of it."""
MAX_RESIDENT = 2**22
"""Numbers of a part of windows that become tensors at once although its rows are fewer."""


class BatchShape(NamedTuple):
    """Shapes and masks, which batches must share to be stacked.

    Attributes:
        source, target: (N, S, F) and (N, T, F), without an axis of runs.
        masks: names of the lengths and masks that are not None, and their number of axes: a mask of
            target cells has one more than a mask of target steps.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    masks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Batch:
    """Sequences as tensors. A mask that would be True everywhere is None, so that a batch without
    padding costs no masking.

    Attributes:
        source: (..., N, S, F); a leading axis is one of runs.
        target: (..., N, T, F).
        source_lengths: (..., N) int64, or None where every source has S steps.
        target_keep: (..., N, T) True at real target steps; or, where some target cells were not
            observed, (..., N, T, F) True at those that were; or None where all steps are real.
    """

    source: Tensor
    target: Tensor
    source_lengths: Tensor | None = None
    target_keep: Tensor | None = None

    def __len__(self) -> int:
        return self.source.shape[-3]

    @property
    def source_steps(self) -> int:
        return self.source.shape[-2]

    @property
    def target_steps(self) -> int:
        return self.target.shape[-2]

    @property
    def runs(self) -> int:
        """Size of the leading axis; 1 where there is none."""
        return self.source.shape[0] if self.source.dim() == 4 else 1

    @property
    def shape(self) -> BatchShape:
        masks = {"source_lengths": self.source_lengths, "target_keep": self.target_keep}
        runs = self.source.dim() - 3
        axes = [(name, mask.dim() - runs) for name, mask in masks.items() if mask is not None]
        return BatchShape(tuple(self.source.shape[-3:]), tuple(self.target.shape[-3:]), tuple(axes))

    def take(self, places: slice) -> Batch:
        """The sequences of a slice, of each run."""
        index = places if self.source.dim() == 3 else (slice(None), places)
        return self.map(lambda tensor: tensor[index])

    def gather(self, places: Tensor) -> Batch:
        """The sequences at (N,) places, or at those of each run, (R, N)."""
        if places.dim() == 1:
            return self.map(lambda tensor: tensor.index_select(0, places))
        flat = places + len(self) * torch.arange(len(places), device=places.device).unsqueeze(1)

        def gather(tensor: Tensor) -> Tensor:
            if tensor.stride(0) == 0:  # all runs have the same
                rows = tensor[0].index_select(0, places.flatten())
            else:
                rows = tensor.flatten(0, 1).index_select(0, flat.flatten())
            return rows.view(*places.shape, *rows.shape[1:])

        return self.map(gather)

    @property
    def loss_counts(self) -> list[int]:
        """For each run, the number of real target steps that the mean loss is over, or of observed
        target cells where some were not observed."""
        if self.target_keep is None:
            return [len(self) * self.target_steps] * self.runs
        axes = tuple(range(self.target.dim() - 3, self.target_keep.dim()))
        counts: list[int] = self.target_keep.sum(dim=axes).view(-1).tolist()
        return counts

    @property
    def full_lengths(self) -> Tensor:
        """`source_lengths`, with S where it is None."""
        if self.source_lengths is not None:
            return self.source_lengths
        *shape, S, _ = self.source.shape
        return torch.full(shape, S, dtype=torch.int64, device=self.source.device)

    def full_keep(self, axes: int) -> Tensor:
        """`target_keep` with so many axes, True everywhere where it is None."""
        keep, shape = self.target_keep, self.target.shape
        if keep is None:
            keep = torch.ones(shape[:-1], dtype=torch.bool, device=self.target.device)
        return keep if keep.dim() == axes else keep.unsqueeze(-1).expand(shape)

    def split(self, size: int) -> list[Batch]:
        """Batches of `size` sequences, the last with the rest."""
        axis = self.source.dim() - 3
        columns = [
            [None] * math.ceil(len(self) / size) if tensor is None else tensor.split(size, dim=axis)
            for tensor in (self.source, self.target, self.source_lengths, self.target_keep)
        ]
        return [Batch(*row) for row in zip(*columns, strict=True)]

    def contiguous(self) -> Batch:
        """A batch with memory for each run. Kernels may take another path with shared memory, and
        a run's result must not depend on whether others share its data."""
        return self.map(Tensor.contiguous)

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with a function applied to each tensor."""
        return Batch(
            function(self.source),
            function(self.target),
            None if self.source_lengths is None else function(self.source_lengths),
            None if self.target_keep is None else function(self.target_keep),
        )


def shape_of_batch(part: Sequences) -> BatchShape:
    """The shape of the batch that `batch_of` makes of a part."""
    N, masks = len(part), list[tuple[str, int]]()
    if not (part.source_lengths == part.source_steps).all():
        masks.append(("source_lengths", 1))
    if part.has_masked_targets:
        masks.append(("target_keep", 3))
    elif not (part.target_lengths == part.target_steps).all():
        masks.append(("target_keep", 2))
    return BatchShape(
        (N, part.source_steps, len(part.features)),
        (N, part.target_steps, len(part.target_features)),
        tuple(masks),
    )


class GatheredBatch:
    """A part whose sequences become tensors when they are taken, with the interface of `Batch`.

    Args:
        scaling: to the model's units.
        runs: size of a leading axis, of runs with the same sequences; None: there is none.
    """

    def __init__(
        self, part: Windows, scaling: Scaling, device: torch.device | str, dtype: torch.dtype,
        runs: int | None = None,
    ) -> None:  # fmt: skip
        self.part, self.scaling, self.device, self.dtype = part, scaling, device, dtype
        self.leading_axis, self.runs = runs, runs or 1
        self.source_steps, self.target_steps = part.source_steps, part.target_steps
        self.shape = shape_of_batch(part)

    def __len__(self) -> int:
        return len(self.part)

    def of_runs(self, runs: int) -> GatheredBatch:
        """The same sequences for several runs."""
        return GatheredBatch(self.part, self.scaling, self.device, self.dtype, runs)

    def take(self, places: slice) -> Batch:
        """The sequences of a slice, of each run."""
        batch = self._gather(places)
        if self.leading_axis is None:
            return batch
        return batch.map(lambda tensor: tensor.expand(self.runs, *tensor.shape))

    def gather(self, places: Tensor) -> Batch:
        """The sequences at (N,) places, or at those of each run, (R, N)."""
        batch = self._gather(places.flatten().cpu().numpy())
        if places.dim() == 1:
            return batch
        return batch.map(lambda tensor: tensor.view(*places.shape, *tensor.shape[1:]))

    def load(self) -> Batch:
        """All sequences as tensors, gathered in chunks: intermediate arrays are float64, and
        larger."""
        whole: Batch | None = None
        numbers = math.prod(self.shape.source[1:]) + math.prod(self.shape.target[1:])
        for places in chunk_slices(len(self), max(1, GATHER_CHUNK // numbers)):
            chunk = self._gather(places)
            whole = whole or chunk.map(lambda one: one.new_empty((len(self), *one.shape[1:])))
            for name in ("source", "target", *(name for name, _ in self.shape.masks)):
                getattr(whole, name)[places] = getattr(chunk, name)
        assert whole is not None
        return whole

    def _gather(self, places: slice | NDArray[np.int64]) -> Batch:
        return _to_batch(
            self.part.select_points(places), self.shape, self.device, self.dtype, self.scaling
        )


def batch_of(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    scaling: Scaling | None = None,
) -> Batch | GatheredBatch:
    """All sequences of a part as tensors, or gathered on demand where tensors would be far larger
    than the rows they are cut from, or than memory.

    Args:
        scaling: to the model's units; None: they are the part's.
    """
    batch = batch_in_order(part, device, dtype, scaling)
    return batch if isinstance(batch, Batch) or is_gathered(part) else batch.load()


def batch_in_order(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    scaling: Scaling | None = None,
) -> Batch | GatheredBatch:
    """The same for a part that is read from its first sequence to its last, as in an evaluation: no
    tensors of windows are kept."""
    if isinstance(part, Windows):
        return GatheredBatch(part, scaling or Scaling.identity(part), device, dtype)
    return to_tensors(part, device, dtype, scaling)


def is_gathered(part: Sequences) -> bool:
    """Whether `batch_of` gathers the sequences of a part on demand."""
    if not isinstance(part, Windows):
        return False
    numbers = len(part) * (
        part.source_steps * len(part.features) + part.target_steps * len(part.target_features)
    )
    rows = part.sources.values
    return numbers > MAX_RESIDENT and (part.is_on_disk or numbers > 4 * rows.size)


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
    scaling = scaling or Scaling.identity(part)
    return _to_batch(part, shape_of_batch(part), device, dtype, scaling)


def _to_batch(
    part: Sequences,
    shape: BatchShape,
    device: torch.device | str,
    dtype: torch.dtype,
    scaling: Scaling,
) -> Batch:
    """
    Args:
        shape: its masks are those of the batch.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    masks = dict(shape.masks)
    lengths = part.source_lengths if "source_lengths" in masks else None
    keep = None
    if "target_keep" in masks:
        keep = part.target_cells if masks["target_keep"] == 3 else part.target_keep
    # A part may be a view of rows that lie apart, or of a mapped file that nobody may write to.
    source, target = (
        torch.as_tensor(np.require(values, kind, ["C", "W"]), dtype=dtype, device=device)
        for values in scaling.transform(part, kind)
    )
    return Batch(
        source,
        target,
        None if lengths is None else torch.as_tensor(lengths, device=device),
        None
        if keep is None
        else torch.as_tensor(np.require(keep, bool, ["C", "W"]), device=device),
    )


def chunk_slices(sequences: int, size: int) -> Iterator[slice]:
    """Consecutive slices of `size` sequences, the last with the rest."""
    for start in range(0, sequences, size):
        yield slice(start, min(start + size, sequences))


def stack_batches(parts: Sequence[Batch | GatheredBatch]) -> Batch | GatheredBatch:
    """The same part of several runs, (R, N, ...), without a copy where all have the same.

    Raises:
        ValueError: parts that are gathered on demand, and differ.
    """
    first, *others = parts
    if not others:
        return first
    batches = [part for part in parts if isinstance(part, Batch)]
    if isinstance(first, GatheredBatch):
        if any(not isinstance(one, GatheredBatch) or one.part is not first.part for one in others):
            raise ValueError("runs whose sequences are gathered on demand must share them")
        return first.of_runs(len(parts))
    if len(batches) < len(parts):
        raise ValueError("runs whose sequences are gathered on demand must share them")
    return Batch(
        _stack([batch.source for batch in batches]),
        _stack([batch.target for batch in batches]),
        _stack_lengths(batches),
        _stack_masks(batches),
    )


def _stack_lengths(batches: Sequence[Batch]) -> Tensor | None:
    if all(batch.source_lengths is None for batch in batches):
        return None
    return _stack([batch.full_lengths for batch in batches])


def _stack_masks(batches: Sequence[Batch]) -> Tensor | None:
    masks = [batch.target_keep for batch in batches if batch.target_keep is not None]
    if not masks:
        return None
    axes = max(mask.dim() for mask in masks)
    return _stack([batch.full_keep(axes) for batch in batches])


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    if all(tensor is tensors[0] for tensor in tensors):
        return tensors[0].expand(len(tensors), *tensors[0].shape)
    return torch.stack(list(tensors))
