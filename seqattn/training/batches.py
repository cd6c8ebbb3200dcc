"""From NumPy sequences to tensors, and an epoch's batches in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data import Scaling, Sequences, Windows
from seqattn.rng import streams

MOST_GATHERED = 2**26
"""Numbers of which an epoch keeps a second copy, in its order: 256 MB."""


class BatchShape(NamedTuple):
    """What batches must have in common to be stacked.

    Attributes:
        source, target: (N, S, F) and (N, T, F), without an axis of runs.
        masks: names of the lengths and masks that are not None, and their axes: a mask of target
            cells has one more than a mask of target points.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    masks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Batch:
    """Sequences as tensors. What is the same for all of them, full length, is None, so that a
    batch without padding costs no masking.

    Attributes:
        source: (..., N, S, F); a leading axis is one of runs.
        target: (..., N, T, F).
        source_lengths: (..., N) int64, or None where every source has S points.
        target_keep: (..., N, T) True at real target points; or, where some target cells were not
            observed, (..., N, T, F) True at those that were; or None where all points are real.
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
        """Of the leading axis; 1 where there is none."""
        return self.source.shape[0] if self.source.dim() == 4 else 1

    @property
    def shape(self) -> BatchShape:
        runs = self.source.dim() - 3
        masks = [(name, mask.dim() - runs) for name in MASKS
                 if (mask := getattr(self, name)) is not None]  # fmt: skip
        source, target = tuple(self.source.shape[-3:]), tuple(self.target.shape[-3:])
        return BatchShape(source, target, tuple(masks))

    def take(self, places: slice) -> Batch:
        """The sequences at these places, of each run."""
        at = places if self.source.dim() == 3 else (slice(None), places)
        return self._each(lambda tensor: tensor[at])

    @property
    def points(self) -> list[int]:
        """What the mean loss is a mean of, of each run: real target points, or where some cells
        were not observed those that were."""
        if self.target_keep is None:
            runs = self.target.shape[0] if self.target.dim() == 4 else 1
            return [len(self) * self.target.shape[-2]] * runs
        axes = tuple(range(self.target.dim() - 3, self.target_keep.dim()))
        counted: list[int] = self.target_keep.sum(dim=axes).view(-1).tolist()
        return counted

    @property
    def all_lengths(self) -> Tensor:
        """`source_lengths`, whether they are there or not."""
        if self.source_lengths is not None:
            return self.source_lengths
        *shape, S, _ = self.source.shape
        return torch.full(shape, S, dtype=torch.int64, device=self.source.device)

    def keep_with(self, axes: int) -> Tensor:
        """`target_keep` with so many axes, whether it is there or not."""
        keep, shape = self.target_keep, self.target.shape
        if keep is None:
            keep = torch.ones(shape[:-1], dtype=torch.bool, device=self.target.device)
        return keep if keep.dim() == axes else keep.unsqueeze(-1).expand(shape)

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
        shared memory, and a run's result must not depend on whether others share its data."""
        return self._each(Tensor.contiguous)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source),
            change(self.target),
            None if self.source_lengths is None else change(self.source_lengths),
            None if self.target_keep is None else change(self.target_keep),
        )


MASKS = ("source_lengths", "target_keep")
"""The attributes of a `Batch` that are None where they would say nothing."""


def masks_of(part: Sequences) -> dict[str, NDArray[Any]]:
    """The lengths and masks that a batch of these sequences needs, by their names in `MASKS`."""
    found: dict[str, NDArray[Any]] = {}
    if not part.source_keep.all():
        found["source_lengths"] = part.source_lengths
    if part.target_observed is not None:
        found["target_keep"] = np.require(part.target_observed, bool, ["C", "W"])
    elif not part.target_keep.all():
        found["target_keep"] = part.target_keep
    return found


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
    """A part whose sequences become tensors when they are taken: what a `Batch` of all of them
    would hold, without holding it.

    Args:
        scaling: to the model's units.
        runs: of a leading axis, all with the same sequences; None: there is none.
    """

    def __init__(
        self, part: Windows, scaling: Scaling, device: torch.device | str, dtype: torch.dtype,
        runs: int | None = None,
    ) -> None:  # fmt: skip
        self.part, self.scaling, self.device, self.dtype = part, scaling, device, dtype
        self.copies = runs
        of_part = shape_of_batch(part)
        self.shape = of_part
        self.masks = dict(of_part.masks)

    def __len__(self) -> int:
        return len(self.part)

    @property
    def source_steps(self) -> int:
        return self.part.source_steps

    @property
    def target_steps(self) -> int:
        return self.part.target_steps

    @property
    def runs(self) -> int:
        return self.copies or 1

    def of_runs(self, runs: int) -> GatheredBatch:
        """The same for several runs."""
        return GatheredBatch(self.part, self.scaling, self.device, self.dtype, runs)

    def take(self, places: slice) -> Batch:
        """The sequences at these places, of each run."""
        found = self._gathered(places)
        if self.copies is None:
            return found
        return found._each(lambda tensor: tensor.expand(self.runs, *tensor.shape))

    def at(self, places: Tensor) -> Batch:
        """The sequences at (N,) places, or at those of each run, (R, N)."""
        found = self._gathered(places.flatten().cpu().numpy())
        if places.dim() == 1:
            return found
        return found._each(lambda tensor: tensor.view(*places.shape, *tensor.shape[1:]))

    def resident(self) -> Batch:
        """All sequences as tensors, gathered a few at a time: intermediate arrays are float64, and
        larger."""
        found: Batch | None = None
        numbers = math.prod(self.shape.source[1:]) + math.prod(self.shape.target[1:])
        for places in slices(len(self), max(1, GATHERED_AT_ONCE // numbers)):
            some = self._gathered(places)
            found = found or some._each(lambda one: one.new_empty((len(self), *one.shape[1:])))
            for name in ("source", "target", *self.masks):
                getattr(found, name)[places] = getattr(some, name)
        assert found is not None
        return found

    def _gathered(self, places: slice | NDArray[np.int64]) -> Batch:
        some = self.part.select_points(places)
        found = to_tensors(some, self.device, self.dtype, self.scaling)
        lengths = keep = None
        if "source_lengths" in self.masks:
            lengths = torch.as_tensor(some.source_lengths, device=self.device)
        if "target_keep" in self.masks:
            mask = some.target_cells if self.masks["target_keep"] == 3 else some.target_keep
            keep = torch.as_tensor(np.require(mask, bool, ["C", "W"]), device=self.device)
        return Batch(found.source, found.target, lengths, keep)


GATHERED_AT_ONCE = 2**18
"""Numbers of a part that are gathered together on their way to tensors of all of it."""
MOST_RESIDENT = 2**22
"""Numbers of a part that become tensors at once, where it is not larger than its rows."""


def batch_of(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    scaling: Scaling | None = None,
) -> Batch | GatheredBatch:
    """All sequences of a part as tensors: at once, or where that would be far larger than what
    they are cut from, or than memory, when they are taken.

    Args:
        scaling: to the model's units; None: they are the part's.
    """
    found = batch_in_order(part, device, dtype, scaling)
    return found if isinstance(found, Batch) or is_gathered(part) else found.resident()


def batch_in_order(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    scaling: Scaling | None = None,
) -> Batch | GatheredBatch:
    """The same of a part that is read from its first sequence to its last, as it is scored: of
    windows no tensors are kept."""
    if isinstance(part, Windows):
        return GatheredBatch(part, scaling or Scaling.identity(part), device, dtype)
    return to_tensors(part, device, dtype, scaling)


def is_gathered(part: Sequences) -> bool:
    """Whether the sequences of a part become tensors when they are taken."""
    if not isinstance(part, Windows):
        return False
    numbers = len(part) * (
        part.source_steps * len(part.features) + part.target_steps * len(part.target_features)
    )
    rows = part.sources.values
    return numbers > MOST_RESIDENT and (part.is_on_disk or numbers > 4 * rows.size)


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
    kind = np.float64 if dtype == torch.float64 else np.float32
    source, target = (scaling or Scaling.identity(part)).transform(part, kind)
    # A part may be a view of rows that lie apart, or of a mapped file that nobody may write to.
    owned = [np.require(points, kind, ["C", "W"]) for points in (source, target)]
    return Batch(
        torch.as_tensor(owned[0], dtype=dtype, device=device),
        torch.as_tensor(owned[1], dtype=dtype, device=device),
        **{name: torch.as_tensor(mask, device=device) for name, mask in masks_of(part).items()},
    )


def slices(sequences: int, size: int) -> Iterator[slice]:
    """Places of one batch after the other: `size` sequences each, the last what is left."""
    for start in range(0, sequences, size):
        yield slice(start, min(start + size, sequences))


def orders(seeds: Iterable[int], epoch: int, sequences: int) -> list[NDArray[np.int64]]:
    """The order in which an epoch visits the sequences, for each seed: a function of both."""
    places = ((seed, epoch) for seed in seeds)
    return [numbers.permutation(sequences) for numbers in streams(places, "shuffle")]


def shuffled_batches(
    data: Batch | GatheredBatch, orders: Sequence[NDArray[np.int64]], size: int
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
    if isinstance(data, Batch):
        places = places.to(data.source.device)
        numbers = data.source[..., :1, :, :].numel() + data.target[..., :1, :, :].numel()
        if places.shape[-1] * numbers <= MOST_GATHERED:
            return data.at(places).split(size).__getitem__
    batches = places.split(size, dim=-1)
    return lambda step: data.at(batches[step])


def together(parts: Sequence[Batch | GatheredBatch]) -> Batch | GatheredBatch:
    """The same part of several runs: (R, N, ...), without a copy where all have the same.

    Raises:
        ValueError: parts that are gathered when they are taken, and are not one.
    """
    first, *others = parts
    if not others:
        return first
    if isinstance(first, GatheredBatch):
        if any(not isinstance(one, GatheredBatch) or one.part is not first.part for one in others):
            raise ValueError("runs whose sequences are gathered as they are needed share them")
        return first.of_runs(len(parts))
    return _stacked([part for part in parts if isinstance(part, Batch)])


def _stacked(parts: Sequence[Batch]) -> Batch:

    def of(found: Sequence[Tensor]) -> Tensor:
        if all(tensor is found[0] for tensor in found):
            return found[0].expand(len(parts), *found[0].shape)
        return torch.stack(list(found))

    lengths = keep = None
    if any(part.source_lengths is not None for part in parts):
        lengths = of([part.all_lengths for part in parts])
    masks = [part.target_keep for part in parts if part.target_keep is not None]
    if masks:  # a run without a mask has seen all
        axes = max(mask.dim() for mask in masks)
        keep = of([part.keep_with(axes) for part in parts])
    return Batch(
        of([part.source for part in parts]), of([part.target for part in parts]), lengths, keep
    )
