"""An epoch's batches in their order.

Letters: N sequences of a batch, S source length, T target length, R runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seqattn.training.batches import (
    Batch,
    GatheredBatch,
    orders,
    shuffled_batches,
    slices,
    together,
)
from seqattn.training.process_group import ProcessGroup


class ShardedBatch(NamedTuple):
    """One process's share of a batch.

    Attributes:
        batch: its sequences.
        n: sequences of the whole batch.
        rows: which of them these are.
    """

    batch: Batch
    n: int
    rows: slice


class DataLoader:
    """The training sequences of runs that go side by side, the same for all or each its own.

    Args:
        parts: of each run.
        size: sequences of a batch.
        processes: that share every batch; None: there is one.

    Attributes:
        S, T: points of the longest source and target.
        n: how many sequences there are.
        batches: their places in an epoch's order, batch by batch.
    """

    def __init__(
        self, parts: Sequence[Batch | GatheredBatch], size: int, processes: ProcessGroup | None
    ) -> None:
        self.data, self.size, self.processes = together(parts), size, processes
        self.n, self.S, self.T = len(self.data), self.data.source_steps, self.data.target_steps
        self.batches = list(slices(self.n, size))
        self.counted_points = dict[int, list[int]]()

    def start_epoch(self, seeds: Sequence[int], epoch: int) -> None:
        """Shuffle: the order of an epoch is a function of seed and epoch."""
        self.orders = orders(seeds, epoch, self.n)
        self.counted_points.clear()
        if self._reads_own_share:
            (order,) = self.orders
            self.order = torch.from_numpy(order)
        else:
            self.get = shuffled_batches(self.data, self.orders, self.size)

    def fetch(self, step: int) -> ShardedBatch:
        """A batch of the epoch, by its number."""
        if self._reads_own_share:  # a process reads only its share
            assert self.processes is not None
            places = self.order[self.batches[step]]
            rows = self.processes.share(len(places))
            return ShardedBatch(self.data.at(places[rows]), len(places), rows)
        batch = self.get(step)
        n = len(batch)
        if isinstance(self.data, GatheredBatch):
            self.counted_points[step] = batch.points
        if self.processes is None:
            return ShardedBatch(batch, n, slice(0, n))
        rows = self.processes.share(n)
        return ShardedBatch(batch.take(rows), n, rows)

    def points(self, step: int) -> list[int]:
        """How many points each run's loss of a fetched batch is a mean of; see `Batch.points`."""
        return self.counted_points[step] if step in self.counted_points else self.get(step).points

    def set_points(self, step: int, points: Tensor) -> None:
        """Set how many points a whole batch has, where only all processes together know."""
        if self._reads_own_share:
            self.counted_points[step] = [int(points)]

    def ids_of_batch(self, step: int, seed: int, epoch: int, ids: Sequence[str]) -> list[str]:
        """The ids of the sequences of a batch, in its order."""
        order = orders([seed], epoch, self.n)[0][self.batches[step]]
        return [ids[place] if len(ids) else str(place) for place in order]

    def first(self) -> Batch:
        """Some batch, to compile for."""
        return self.data.take(self.batches[0])

    @property
    def _reads_own_share(self) -> bool:
        return self.processes is not None and isinstance(self.data, GatheredBatch)
