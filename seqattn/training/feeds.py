"""Where an epoch's batches come from: sequences in memory, or files read as they are needed.

Letters: N sequences of a batch, S source length, T target length, R runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqattn.data import Stream
from seqattn.data.sequences import real_points
from seqattn.training.batches import Batch, in_orders, orders, slices, together
from seqattn.training.world import World


class Fetched(NamedTuple):
    """What a process gets of a batch.

    Attributes:
        batch: its sequences.
        n: sequences of the whole batch.
        rows: which of them these are.
    """

    batch: Batch
    n: int
    rows: slice


class Feed(ABC):
    """The training sequences of runs that go side by side.

    Attributes:
        S, T: points of the longest source and target.
        n: how many sequences there are.
        batches: their places in an epoch's order, batch by batch.
    """

    S: int
    T: int
    n: int
    batches: list[slice]

    @abstractmethod
    def open(self, seeds: Sequence[int], epoch: int) -> None:
        """Begin an epoch; its order is a function of both."""

    @abstractmethod
    def fetch(self, step: int) -> Fetched:
        """A batch of the epoch, by its number.

        Raises:
            DataError: a file is missing or has changed.
        """

    @abstractmethod
    def points(self, step: int) -> list[int]:
        """What a whole batch that was fetched weighs, of each run; see `Batch.points`."""

    def count(self, step: int, points: Tensor) -> None:  # noqa: B027  (memory knows it)
        """Be told what a whole batch weighs, where only all processes know."""

    @abstractmethod
    def names(self, step: int, seed: int, epoch: int, ids: Sequence[str]) -> list[str]:
        """What the sequences of a batch are called."""

    @abstractmethod
    def first(self) -> Batch:
        """Some batch, to compile for."""


class Resident(Feed):
    """Sequences in memory, the same for all runs or each its own."""

    def __init__(self, parts: Sequence[Batch], size: int, world: World | None) -> None:
        self.data, self.size, self.world = together(parts), size, world
        self.n = len(self.data)
        self.S, self.T = self.data.source.shape[-2], self.data.target.shape[-2]
        self.batches = list(slices(self.n, size))

    def open(self, seeds: Sequence[int], epoch: int) -> None:
        self.get = in_orders(self.data, orders(seeds, epoch, self.n), self.size)

    def fetch(self, step: int) -> Fetched:
        batch = self.get(step)
        n = len(batch)
        if self.world is None:
            return Fetched(batch, n, slice(0, n))
        rows = self.world.share(n)
        return Fetched(batch.take(rows), n, rows)

    def points(self, step: int) -> list[int]:
        return self.get(step).points

    def names(self, step: int, seed: int, epoch: int, ids: Sequence[str]) -> list[str]:
        order = orders([seed], epoch, self.n)[0][self.batches[step]]
        return [ids[place] if ids else str(place) for place in order]

    def first(self) -> Batch:
        return self.data.take(self.batches[0])


class Streaming(Feed):
    """Files that are read as they are needed, for one run."""

    def __init__(
        self, stream: Stream, size: int, world: World | None, device: torch.device
    ) -> None:
        self.stream, self.size, self.world, self.device = stream, size, world, device
        self.n, self.S, self.T = len(stream), stream.S, stream.T
        self.batches = stream.batches(size)
        self.lanes: range | None = None  # all
        if world is not None and stream.lanes % world.size == 0:
            each = stream.lanes // world.size
            self.lanes = range(world.rank * each, (world.rank + 1) * each)
        self.counted = dict[int, int | Tensor]()

    def open(self, seeds: Sequence[int], epoch: int) -> None:
        (seed,) = seeds
        self.epoch = self.stream.epoch(seed, epoch, self.size, self.lanes)
        self.counted.clear()

    def fetch(self, step: int) -> Fetched:
        rows = self.epoch.rows(step)
        n, places = self.epoch.share(step)
        if self.lanes is None and self.world is not None:
            places = self.world.share(n)
            rows = rows.at(places)
        keep = rows.observed
        if keep is None and self.stream.ragged_target:
            keep = real_points(rows.target_lengths, self.T)
        weight = len(rows) * self.T if keep is None else int(keep.sum())
        self.counted.setdefault(step, weight)  # counted here: a device would have to be waited for
        batch = Batch(
            torch.from_numpy(np.ascontiguousarray(rows.source)).to(self.device),
            torch.from_numpy(np.ascontiguousarray(rows.target)).to(self.device),
            torch.from_numpy(rows.source_lengths).to(self.device)
            if self.stream.ragged_source
            else None,
            None if keep is None else torch.from_numpy(np.ascontiguousarray(keep)).to(self.device),
        )
        return Fetched(batch, n, places)

    def points(self, step: int) -> list[int]:
        return [int(self.counted[step])]

    def count(self, step: int, points: Tensor) -> None:
        self.counted[step] = points

    def names(self, step: int, seed: int, epoch: int, ids: Sequence[str]) -> list[str]:
        return self.stream.names(self.epoch.rows(step))

    def first(self) -> Batch:
        self.open([0], 0)
        return self.fetch(0).batch


def feed_of(
    parts: Sequence[Batch | Stream], size: int, world: World | None, device: torch.device
) -> Feed:
    """What gives runs their batches."""
    first = parts[0]
    if isinstance(first, Stream):
        if len(parts) > 1:
            raise ValueError("files that are read as they are needed serve one run at a time")
        return Streaming(first, size, world, device)
    return Resident([part for part in parts if isinstance(part, Batch)], size, world)
