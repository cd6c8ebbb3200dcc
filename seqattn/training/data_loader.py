"""The batches of an epoch in their order.

Letters: N sequences of a batch, S source length, T target length, R runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.rng import rngs_for
from seqattn.training.batches import Batch, GatheredBatch, chunk_slices, stack_batches
from seqattn.training.process_group import ProcessGroup

MAX_SHUFFLED_COPY = 2**26
"""Numbers of which an epoch keeps a second copy, in its order: 256 MB."""


class ShardedBatch(NamedTuple):
    """One process's share of a batch.

    Attributes:
        batch: the sequences of this process.
        n: number of sequences of the whole batch.
        places: of this process's sequences in the whole batch.
    """

    batch: Batch
    n: int
    places: slice


class DataLoader:
    """The training sequences of a group, batch by batch.

    Args:
        parts: the training part of each run; runs may share one.
        size: sequences of a batch.
        processes: processes that share every batch; None: this one alone.

    Attributes:
        S, T: lengths of the longest source and the longest target.
        n: number of sequences.
        batches: places in an epoch's order, batch by batch.
    """

    def __init__(
        self, parts: Sequence[Batch | GatheredBatch], size: int, processes: ProcessGroup | None
    ) -> None:
        self.data, self.size, self.processes = stack_batches(parts), size, processes
        self.n, self.S, self.T = len(self.data), self.data.source_steps, self.data.target_steps
        self.batches = list(chunk_slices(self.n, size))
        self.known_counts = dict[int, list[int]]()

    def start_epoch(self, seeds: Sequence[int], epoch: int) -> None:
        """Shuffle; the order is a function of seed and epoch."""
        permutations = epoch_permutations(seeds, epoch, self.n)
        self.known_counts.clear()
        if self._reads_own_shard:
            (order,) = permutations
            self.order = torch.from_numpy(order)
        else:
            self.get = shuffled_batches(self.data, permutations, self.size)

    def fetch(self, step: int) -> ShardedBatch:
        """Batch `step` of the epoch, or this process's shard of it."""
        if self._reads_own_shard:
            assert self.processes is not None
            places = self.order[self.batches[step]]
            shard = self.processes.shard(len(places))
            return ShardedBatch(self.data.gather(places[shard]), len(places), shard)
        batch = self.get(step)
        n = len(batch)
        if isinstance(self.data, GatheredBatch):
            self.known_counts[step] = batch.loss_counts
        if self.processes is None:
            return ShardedBatch(batch, n, slice(0, n))
        shard = self.processes.shard(n)
        return ShardedBatch(batch.take(shard), n, shard)

    def loss_counts(self, step: int) -> list[int]:
        """`Batch.loss_counts` of a fetched batch."""
        if step in self.known_counts:
            return self.known_counts[step]
        return self.get(step).loss_counts

    def set_loss_count(self, step: int, count: Tensor) -> None:
        """Set the count of a whole batch, where each process knows only that of its shard."""
        if self._reads_own_shard:
            self.known_counts[step] = [int(count)]

    def ids_of_batch(
        self, step: int, seed: int, epoch: int, sequence_ids: Sequence[str]
    ) -> list[str]:
        """The ids of the sequences of a batch, in its order."""
        order = epoch_permutations([seed], epoch, self.n)[0][self.batches[step]]
        return [sequence_ids[place] if len(sequence_ids) else str(place) for place in order]

    def example_batch(self) -> Batch:
        """A batch to compile for."""
        return self.data.take(self.batches[0])

    @property
    def _reads_own_shard(self) -> bool:
        return self.processes is not None and isinstance(self.data, GatheredBatch)


def epoch_permutations(seeds: Iterable[int], epoch: int, sequences: int) -> list[NDArray[np.int64]]:
    """The order in which an epoch visits the sequences, for each seed: a function of both."""
    positions = ((seed, epoch) for seed in seeds)
    return [generator.permutation(sequences) for generator in rngs_for(positions, "shuffle")]


def shuffled_batches(
    data: Batch | GatheredBatch, permutations: Sequence[NDArray[np.int64]], size: int
) -> Callable[[int], Batch]:
    """The batches of an epoch by number, (R, n, ...), each run's in its own order.

    All sequences are gathered at once, which is fastest, unless a second copy of them would be
    large: then batch by batch.

    Args:
        data: the same for all runs, or with a leading axis of runs.
        permutations: one for each run.
        size: sequences of a batch.
    """
    places = torch.from_numpy(permutations[0] if len(permutations) == 1 else np.stack(permutations))
    if isinstance(data, Batch):
        places = places.to(data.source.device)
        numbers = data.source[..., :1, :, :].numel() + data.target[..., :1, :, :].numel()
        if places.shape[-1] * numbers <= MAX_SHUFFLED_COPY:
            return data.gather(places).split(size).__getitem__
    batches = places.split(size, dim=-1)
    return lambda step: data.gather(batches[step])
