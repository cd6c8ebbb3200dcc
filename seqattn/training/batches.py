"""Batches of sequences as tensors, in memory or gathered from windows on demand.

`DataLoader` returns the training sequences of a group in shuffled batches.

In shapes, N is the number of sequences, n is the number of sequences in a batch, S is the source
length, T is the target length, F is the number of features, and R is the number of runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.config import Training
from seqattn.data import Sequences, Windows
from seqattn.rng import rngs_for
from seqattn.training.process_group import ProcessGroup, Shard, shard_of

GATHER_CHUNK = 2**18
"""Largest number of values that `GatheredBatch.load` gathers at once."""
MAX_RESIDENT = 2**22
"""Number of values up to which windows become tensors even if the table is far smaller."""
MAX_SHUFFLED_COPY = 2**26
"""Largest number of values in the shuffled copy that an epoch keeps in memory. In float32, such a
copy needs 256 MB."""


class BatchShape(NamedTuple):
    """The shapes and masks of a batch. Only batches with equal shapes and masks can be stacked.

    Attributes:
        source: shape (N, S, F) of the sources, without an axis of runs.
        target: shape (N, T, F) of the targets, without an axis of runs.
        masks: name and number of axes of `source_lengths` and `target_keep` in the batch, without
            an axis of runs; a tensor that is None is left out. A mask of target cells has one axis
            more than a mask of target steps.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    masks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Batch:
    """Sequences as tensors, with or without a leading axis of runs.

    `source_lengths` or `target_keep` is None if the sequences do not need this tensor.

    Attributes:
        source: (..., N, S, F) source points.
        target: (..., N, T, F) target points.
        source_lengths: (..., N) int64 number of steps of each source, or None if every source has S
            steps.
        target_keep: mask (..., N, T), True at valid target steps. If some target cells were not
            observed, the mask is (..., N, T, F) instead, True at observed cells. None means that
            all cells are valid.
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
    def run_count(self) -> int:
        """Size of the axis of runs, or 1 without this axis."""
        return self.source.shape[0] if self.source.dim() == 4 else 1

    @property
    def shape(self) -> BatchShape:
        masks = {"source_lengths": self.source_lengths, "target_keep": self.target_keep}
        leading = self.source.dim() - 3
        axes = [(name, mask.dim() - leading) for name, mask in masks.items() if mask is not None]
        return BatchShape(tuple(self.source.shape[-3:]), tuple(self.target.shape[-3:]), tuple(axes))

    def take(self, places: slice) -> Batch:
        """Return a slice of the sequences of each run."""
        index = places if self.source.dim() == 3 else (slice(None), places)
        return self.map(lambda tensor: tensor[index])

    def gather(self, places: Tensor) -> Batch:
        """Return the sequences at the places (N,), or at the places (R, N) if the places differ
        between runs."""
        if places.dim() == 1:
            return self.map(lambda tensor: tensor.index_select(0, places))
        flat = places + len(self) * torch.arange(len(places), device=places.device).unsqueeze(1)

        def gather(tensor: Tensor) -> Tensor:
            if tensor.stride(0) == 0:  # all runs share one tensor
                found = tensor[0].index_select(0, places.flatten())
            else:
                found = tensor.flatten(0, 1).index_select(0, flat.flatten())
            return found.view(*places.shape, *found.shape[1:])

        return self.map(gather)

    @property
    def loss_counts(self) -> Tensor:
        """The number of valid target steps in the mean loss of each run, (R,) int64. If some target
        cells were not observed, the result is the number of observed cells instead."""
        if self.target_keep is None:
            return _equal_counts(len(self) * self.target_steps, self.run_count)
        axes = tuple(range(self.target.dim() - 3, self.target_keep.dim()))
        return self.target_keep.sum(dim=axes).view(-1)

    def split(self, sizes: list[int]) -> list[Batch]:
        """Split the sequences into consecutive batches of the given sizes."""
        axis = self.source.dim() - 3
        columns = [
            [None] * len(sizes) if tensor is None else tensor.split(sizes, dim=axis)
            for tensor in (self.source, self.target, self.source_lengths, self.target_keep)
        ]
        return [Batch(*tensors) for tensors in zip(*columns, strict=True)]

    def trim(self, source_steps: int, target_steps: int) -> Batch:
        """Return the first steps of all sequences."""
        keep, axis = self.target_keep, self.target.dim() - 2
        return Batch(
            self.source.narrow(-2, 0, source_steps), self.target.narrow(-2, 0, target_steps),
            self.source_lengths, None if keep is None else keep.narrow(axis, 0, target_steps),
        ).contiguous()  # fmt: skip

    def lengths(self) -> NDArray[np.int64]:
        """Return the source length and the target length of each sequence, (2, N) or (2, R, N)."""
        shape, keep = self.source.shape[:-2], self.target_keep
        source, target = np.full(shape, self.source_steps), np.full(shape, self.target_steps)
        if self.source_lengths is not None:
            source = self.source_lengths.cpu().numpy()
        if keep is not None:
            valid = keep if keep.dim() < self.target.dim() else keep.any(dim=-1)
            target = valid.sum(dim=-1).cpu().numpy()
        return np.stack([source, target]).astype(np.int64)

    def contiguous(self) -> Batch:
        """Return a batch in which every run has its own memory.

        A kernel may return slightly different results for tensors that share memory, and the result
        of a run must not depend on whether other runs share its data.
        """
        return self.map(Tensor.contiguous)

    def map(self, function: Callable[..., Tensor], *others: Batch) -> Batch:
        """Apply a function to each tensor.

        Args:
            function: a function that takes a tensor of this batch and the corresponding tensor of
                every batch in `others`.
            others: batches that have the same masks as this batch.
        """
        batches = (self, *others)
        lengths, keep = self.source_lengths, self.target_keep
        return Batch(
            function(*[batch.source for batch in batches]),
            function(*[batch.target for batch in batches]),
            None if lengths is None else function(*[batch.source_lengths for batch in batches]),
            None if keep is None else function(*[batch.target_keep for batch in batches]),
        )


@functools.lru_cache(maxsize=64)  # new tensors would make the steps of a small model 10 % slower
def _equal_counts(count: int, run_count: int) -> Tensor:
    """Return the loss counts of a batch without a mask of the targets."""
    return torch.full((run_count,), count)


def shape_of_batch(part: Sequences) -> BatchShape:
    """Compute the shape of the batch that `batch_of` makes from a part."""
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
    """A batch of windows that are converted to tensors on demand.

    Training can use a `GatheredBatch` in place of a `Batch` that contains all training or
    validation sequences. The class has only the members of `Batch` that training needs.

    Args:
        part: the windows.
        device: device of the tensors.
        dtype: type of source and target.
        run_count: number of runs that share the sequences, which is the size of the axis of runs;
            None for a batch without this axis.
    """

    def __init__(
        self, part: Windows, device: torch.device | str, dtype: torch.dtype,
        run_count: int | None = None,
    ) -> None:  # fmt: skip
        self.part, self.device, self.dtype = part, device, dtype
        self.leading_axis, self.run_count = run_count, run_count or 1
        self.source_steps, self.target_steps = part.source_steps, part.target_steps
        self.shape = shape_of_batch(part)

    def __len__(self) -> int:
        return len(self.part)

    def of_runs(self, run_count: int) -> GatheredBatch:
        """Return a batch with the same sequences for several runs."""
        return GatheredBatch(self.part, self.device, self.dtype, run_count)

    def take(self, places: slice) -> Batch:
        """Return a slice of the sequences of each run."""
        batch = self._gather(places)
        if self.leading_axis is None:
            return batch
        return batch.map(lambda tensor: tensor.expand(self.run_count, *tensor.shape))

    def gather(self, places: Tensor) -> Batch:
        """Return the sequences at the places (N,), or at the places (R, N) if the places differ
        between runs."""
        batch = self._gather(places.flatten().cpu().numpy())
        if places.dim() == 1:
            return batch
        return batch.map(lambda tensor: tensor.view(*places.shape, *tensor.shape[1:]))

    def lengths(self) -> NDArray[np.int64]:
        """Return the source length and the target length of each sequence, (2, N) or (2, R, N)."""
        lengths = np.stack([self.part.source_lengths, self.part.target_lengths])
        if self.leading_axis is None:
            return lengths
        return np.repeat(lengths[:, None], self.run_count, axis=1)

    def load(self) -> Batch:
        """Return all sequences as tensors.

        The sequences are gathered in chunks to limit the memory for intermediate arrays.
        """
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
        part = self.part.select_points(places)
        return to_tensors(part, self.device, self.dtype, self.shape)


def batch_of(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    keep_tensors: bool = True,
) -> Batch | GatheredBatch:
    """Make a batch from a part.

    A part of windows may become a `GatheredBatch`. Every other part becomes tensors in memory.

    Args:
        keep_tensors: whether to convert windows to tensors in memory, unless `is_gathered` returns
            True for them. Pass False to save this memory for a part that is read in order. Each
            epoch then gathers the windows again.
    """
    if not isinstance(part, Windows):
        return to_tensors(part, device, dtype)
    batch = GatheredBatch(part, device, dtype)
    return batch.load() if keep_tensors and not is_gathered(part) else batch


def is_gathered(part: Sequences) -> bool:
    """Return whether `batch_of` always makes a `GatheredBatch` from a part, to save memory."""
    if not isinstance(part, Windows):
        return False
    numbers = len(part) * (
        part.source_steps * len(part.features) + part.target_steps * len(part.target_features)
    )
    table = part.sources.values
    return numbers > MAX_RESIDENT and (part.is_on_disk or 8 * numbers > 4 * table.nbytes)


def to_tensors(
    part: Sequences,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    shape: BatchShape | None = None,
) -> Batch:
    """Convert all sequences of a part to tensors.

    Args:
        part, device, dtype: see `batch_of`.
        shape: a shape that determines which masks the batch has; None to derive this from the part.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    masks = dict((shape or shape_of_batch(part)).masks)
    arrays = part.encode(kind)
    # A part may be a strided view, or a view of a read-only mapped file.
    spaces = part.source_space, part.target_space
    source, target = (
        torch.as_tensor(np.require(values, np.int64, ["C", "W"]), device=device)
        if space.vocabulary_size
        else torch.as_tensor(np.require(values, kind, ["C", "W"]), dtype=dtype, device=device)
        for values, space in zip(arrays, spaces, strict=True)
    )
    lengths = keep = None
    if "source_lengths" in masks:
        lengths = torch.as_tensor(part.source_lengths, device=device)
    if "target_keep" in masks:
        known = part.target_cells if masks["target_keep"] == 3 else part.target_keep
        keep = torch.as_tensor(np.require(known, bool, ["C", "W"]), device=device)
    return Batch(source, target, lengths, keep)


def chunk_slices(sequences: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of `size` sequences. The last slice may be shorter."""
    for start in range(0, sequences, size):
        yield slice(start, min(start + size, sequences))


def stack_batches(parts: Sequence[Batch | GatheredBatch]) -> Batch | GatheredBatch:
    """Stack the training parts, or the validation parts, of several runs into tensors (R, N, ...).
    If all runs share one part, its tensors are not copied. The part of a single run is returned
    unchanged.

    Raises:
        ValueError: if the shapes or masks of the parts differ, or if a part is gathered on demand
            but not shared by all runs.
    """
    if len(parts) == 1:
        return parts[0]
    batches = [part for part in parts if isinstance(part, Batch)]
    gathered = [part for part in parts if isinstance(part, GatheredBatch)]
    if gathered:
        if batches or any(one.part is not gathered[0].part for one in gathered):
            raise ValueError("runs whose sequences are gathered on demand must share them")
        return gathered[0].of_runs(len(parts))
    if len({batch.shape for batch in batches}) > 1:
        raise ValueError("runs that are trained side by side must have equal shapes and masks")
    return batches[0].map(_stack, *batches[1:])


def _stack(*tensors: Tensor) -> Tensor:
    if all(tensor is tensors[0] for tensor in tensors):
        return tensors[0].expand(len(tensors), *tensors[0].shape)
    return torch.stack(tensors)


class ShuffledBatch(NamedTuple):
    """A batch of an epoch.

    Attributes:
        places: slice of its sequences in the order of the epoch.
        shard: the share of this process.
    """

    places: slice
    shard: Shard

    @property
    def own_places(self) -> slice:
        """Slice of this process's share in the order of the epoch."""
        start, own = self.places.start, self.shard.places
        return slice(start + own.start, start + own.stop)


class DataLoader:
    """A loader that returns the training sequences of a group batch by batch.

    Args:
        parts: training part of each run. Several runs may share one part.
        size: number of sequences in a batch, or of tokens; see `Training.batch_type`.
        processes: the processes that share every batch; None if this process is alone.
        by_length: whether a batch has sequences of similar lengths, without their common padding;
            see `Training.batch_order`. The padding of a batch of several runs is that of the
            longest sequence of all runs, so runs with different data may draw other numbers for
            dropout and attention than they would alone.
        of_tokens: whether `size` counts tokens, with padding. This needs `by_length`.

    Attributes:
        sequences: the sequences of all runs.
        n: number of training sequences of each run.
        S, T: lengths of the longest source and of the longest target.
        size: number of sequences in a batch of the longest sequences.
        slices: for each batch, its slice of the shuffled sequences before `by_length` shuffles the
            batches.
    """

    def __init__(
        self, parts: Sequence[Batch | GatheredBatch], size: int, processes: ProcessGroup | None,
        *, by_length: bool = False, of_tokens: bool = False,
    ) -> None:  # fmt: skip
        self.sequences = stack_batches(parts)
        self.n = len(self.sequences)
        self.S, self.T = self.sequences.source_steps, self.sequences.target_steps
        self.processes, self.size = processes, size
        self.lengths = self.sequences.lengths() if by_length else None  # (2, N) or (2, R, N)
        if of_tokens:
            assert self.lengths is not None
            lengths = self.lengths.reshape(2, -1, self.n)
            ranks = np.lexsort((lengths[1], lengths[0]))
            longest = np.take_along_axis(lengths.max(axis=0), ranks, axis=-1).max(axis=0)
            self.slices = slices_of_tokens(longest, size)
            self.size = max(1, size // max(self.S, self.T))
            self.shuffled_batches = len(self.slices)
        else:
            self.slices = list(chunk_slices(self.n, size))
            self.shuffled_batches = self.n // size  # a smaller last batch stays the last

    @classmethod
    def of_config(
        cls, config: Training, parts: Sequence[Batch | GatheredBatch],
        processes: ProcessGroup | None,
    ) -> DataLoader:  # fmt: skip
        """Build the loader that the section `training` describes."""
        return cls(
            parts, config.batch_size, processes, by_length=config.batch_order == "by_length",
            of_tokens=config.batch_type == "tokens",
        )  # fmt: skip

    def batches(self, epoch: int) -> list[ShuffledBatch]:
        """Return the batches of an epoch, in the order in which the epoch visits them."""
        batches, end = list[ShuffledBatch](), 0
        for number in self._batch_numbers(epoch):
            start, size = end, self.slices[number].stop - self.slices[number].start
            end += size
            batches.append(ShuffledBatch(slice(start, end), shard_of(self.processes, size)))
        return batches

    def _batch_numbers(self, epoch: int) -> Sequence[int]:
        """Return the indices in `slices` in the order in which an epoch visits them. All runs have
        the same order, so that batches of a step have similar lengths."""
        if self.lengths is None:
            return range(len(self.slices))
        (shuffled,) = epoch_permutations([0], epoch, self.shuffled_batches)
        return [*shuffled.tolist(), *range(self.shuffled_batches, len(self.slices))]

    def order(self, seeds: Sequence[int], epoch: int, first_run: int = 0) -> NDArray[np.int64]:
        """Return the order in which an epoch visits the sequences, (N,) or (R, N).

        Args:
            seeds: the seed of each run.
            epoch: number of finished epochs.
            first_run: the row of the run with the first seed.
        """
        permutations = np.stack(epoch_permutations(seeds, epoch, self.n))
        if self.lengths is not None:
            slices = [self.slices[number] for number in self._batch_numbers(epoch)]
            lengths = self.lengths.reshape(2, -1, self.n)[:, first_run:]
            for row, (source, target) in zip(permutations, lengths.swapaxes(0, 1), strict=False):
                by_length = row[np.lexsort((target[row], source[row]))]
                row[:] = np.concatenate([by_length[places] for places in slices])
        return permutations[0] if len(seeds) == 1 else permutations

    def shuffled(self, seeds: Sequence[int], epoch: int) -> Callable[[int], Batch]:
        """Shuffle the sequences of each run for an epoch. The order depends only on the seed of the
        run and on the epoch.

        Returns:
            A function that takes the number of a step, and returns this process's share of the
            batch of this step.
        """
        order, batches = self.order(seeds, epoch), self.batches(epoch)
        fetch = batches_in_order(self.sequences, order, [batch.own_places for batch in batches])
        if self.lengths is None:
            return fetch
        visited = np.take_along_axis(self.lengths, np.broadcast_to(order, self.lengths.shape), -1)
        longest = [visited[..., batch.places].reshape(2, -1).max(axis=1).tolist()
                   for batch in batches]  # fmt: skip
        return lambda step: fetch(step).trim(*longest[step])

    def ids_of_batch(
        self, step: int, seed: int, epoch: int, sequence_ids: Sequence[str], run: int = 0
    ) -> list[str]:
        """Return the ids of the sequences in a batch of one run, in the order of the batch. If
        `sequence_ids` is empty, the indices of the sequences take the place of the ids."""
        order = self.order([seed], epoch, run)[self.batches(epoch)[step].places]
        return [sequence_ids[place] if len(sequence_ids) else str(place) for place in order]

    def example_batch(self) -> Batch:
        """Return a batch on which a compiled step is tried."""
        return self.sequences.take(slice(0, self.size))


def slices_of_tokens(lengths: NDArray[np.int64], tokens: int) -> list[slice]:
    """Divide sequences into consecutive batches with as many sequences as fit: their number times
    the longest of them is at most `tokens`, which no sequence exceeds.

    Args:
        lengths: (N,) for each sequence, the length of its source or target, whichever is longer.
    """
    slices, start, longest = list[slice](), 0, 0
    for place, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if (place + 1 - start) * longest > tokens:
            slices.append(slice(start, place))
            start, longest = place, length
    return [*slices, slice(start, len(lengths))]


def epoch_permutations(seeds: Iterable[int], epoch: int, sequences: int) -> list[NDArray[np.int64]]:
    """Return, for each seed, the order in which an epoch visits the sequences."""
    keys = ((seed, epoch) for seed in seeds)
    return [generator.permutation(sequences) for generator in rngs_for(keys, "shuffle")]


def batches_in_order(
    sequences: Batch | GatheredBatch, order: NDArray[np.int64], batches: Sequence[slice]
) -> Callable[[int], Batch]:
    """Return a function that maps the number of a batch to its tensors, (n, ...) or (R, n, ...).

    If the sequences are in a `Batch`, and a copy of them has at most `MAX_SHUFFLED_COPY` values,
    they are gathered at once, which is fastest. Otherwise, the returned function gathers each batch
    separately.

    Args:
        sequences: sequences that all runs share, or sequences with a leading axis of runs.
        order: (N,) or (R, N) indices of the sequences, in the order in which a run visits them.
        batches: for each batch, its slice of the sequences in this order.
    """
    sizes = [batch.stop - batch.start for batch in batches]
    places = torch.from_numpy(np.concatenate([order[..., batch] for batch in batches], axis=-1))
    if isinstance(sequences, Batch):
        places = places.to(sequences.source.device)
        sources, targets = sequences.source[..., :1, :, :], sequences.target[..., :1, :, :]
        if places.shape[-1] * (sources.numel() + targets.numel()) <= MAX_SHUFFLED_COPY:
            return sequences.gather(places).split(sizes).__getitem__
    by_batch = places.split(sizes, dim=-1)
    return lambda step: sequences.gather(by_batch[step])
