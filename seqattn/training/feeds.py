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
    """What a process gets of a batch.

    Attributes:
        batch: its sequences.
        n: sequences of the whole batch.
        rows: which of them these are.
    """

    batch: Batch
    n: int
    rows: slice


class Feed:
    """The training sequences of runs that go side by side, the same for all or each its own.

    Args:
        parts: of each run.
        size: sequences of a batch.

    Attributes:
        S, T: points of the longest source and target.
        n: how many sequences there are.
        batches: their places in an epoch's order, batch by batch.
    """

    def __init__(
        self, parts: Sequence[Batch | GatheredBatch], size: int, world: ProcessGroup | None
    ) -> None:
        self.data, self.size, self.world = together(parts), size, world
        self.n, self.S, self.T = len(self.data), self.data.source_steps, self.data.target_steps
        self.batches = list(slices(self.n, size))
        self.weighed = dict[int, list[int]]()

    def open(self, seeds: Sequence[int], epoch: int) -> None:
        """Begin an epoch; its order is a function of both."""
        self.orders = orders(seeds, epoch, self.n)
        self.weighed.clear()
        if self._shares:
            (order,) = self.orders
            self.order = torch.from_numpy(order)
        else:
            self.get = shuffled_batches(self.data, self.orders, self.size)

    def fetch(self, step: int) -> ShardedBatch:
        """A batch of the epoch, by its number."""
        if self._shares:  # a process reads its own share alone
            assert self.world is not None
            places = self.order[self.batches[step]]
            rows = self.world.share(len(places))
            return ShardedBatch(self.data.at(places[rows]), len(places), rows)
        batch = self.get(step)
        n = len(batch)
        if isinstance(self.data, GatheredBatch):
            self.weighed[step] = batch.points
        if self.world is None:
            return ShardedBatch(batch, n, slice(0, n))
        rows = self.world.share(n)
        return ShardedBatch(batch.take(rows), n, rows)

    def points(self, step: int) -> list[int]:
        """What a whole batch that was fetched weighs, of each run; see `Batch.points`."""
        return self.weighed[step] if step in self.weighed else self.get(step).points

    def count(self, step: int, points: Tensor) -> None:
        """Be told what a whole batch weighs, where only all processes know."""
        if self._shares:
            self.weighed[step] = [int(points)]

    def names(self, step: int, seed: int, epoch: int, ids: Sequence[str]) -> list[str]:
        """What the sequences of a batch are called."""
        order = orders([seed], epoch, self.n)[0][self.batches[step]]
        return [ids[place] if len(ids) else str(place) for place in order]

    def first(self) -> Batch:
        """Some batch, to compile for."""
        return self.data.take(self.batches[0])

    @property
    def _shares(self) -> bool:
        return self.world is not None and isinstance(self.data, GatheredBatch)
