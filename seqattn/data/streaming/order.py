"""The order of an epoch: units, the sequences of each, stretches of a buffer, lanes, batches.

Letters: n sequences, S source length, T target length, F features, L lanes, B batches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Stream as StreamConfig
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Integers
from seqattn.data.streaming.units import changed, digest_of, sequences_of, stamp_of, wider
from seqattn.data.tables.fragments import Fragment
from seqattn.errors import DataError
from seqattn.streams import stream


@dataclass(frozen=True, eq=False)
class Unit:
    """What is read at once.

    Attributes:
        fragment: where it lies.
        part: (n,) of its sequences: 0 trains, 1 validates, 2 tests.
        train: how many train.
    """

    fragment: Fragment
    part: NDArray[np.int8]
    train: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Sequences in the model's units, padding 0.

    Attributes:
        source, target: (n, S, F) and (n, T, F), float32.
        source_lengths, target_lengths: (n,).
        found: (n, 2) the unit of each, and its place there.
        observed: (n, T, F) True at target cells that were observed; None: the stream has no others.
    """

    source: NDArray[np.float32]
    target: NDArray[np.float32]
    source_lengths: Integers
    target_lengths: Integers
    found: NDArray[np.int32]
    observed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: NDArray[np.int64] | slice) -> Rows:
        return Rows(
            self.source[places], self.target[places], self.source_lengths[places],
            self.target_lengths[places], self.found[places],
            None if self.observed is None else self.observed[places],
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]
        observed = [part.observed for part in parts if part.observed is not None]
        return cls(
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.source_lengths for part in parts]),
            np.concatenate([part.target_lengths for part in parts]),
            np.concatenate([part.found for part in parts]),
            np.concatenate(observed) if observed else None,
        )


@dataclass(frozen=True, eq=False)
class Stream:
    """The training part.

    Attributes:
        units: in the order of the files.
        scaling: fitted to it.
        S, T: points of the longest source and target.
        ragged_source, ragged_target: whether any is shorter.
        digests: SHA-256 of each file, by its path, and what the file was like then.
        masked: whether any target cell was not observed.
    """

    config: StreamConfig
    units: tuple[Unit, ...]
    scaling: Scaling
    S: int
    T: int
    ragged_source: bool
    ragged_target: bool
    digests: dict[Path, str]
    stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)
    masked: bool = False

    def __len__(self) -> int:
        return sum(unit.train for unit in self.units)

    @property
    def lanes(self) -> int:
        return self.config.shards

    def batches(self, size: int) -> list[slice]:
        """Places of each batch in an epoch."""
        n, L = len(self), self.lanes
        if L == 1:
            return [slice(start, min(start + size, n)) for start in range(0, n, size)]
        B = math.ceil(n / size)
        sizes = [last - first for first, last in lanes_of(n, L)]
        bounds = [sum(b * size // B for size in sizes) for b in range(B + 1)]
        return [slice(*pair) for pair in itertools.pairwise(bounds)]

    def epoch(self, seed: int, epoch: int, size: int, mine: range | None = None) -> Epoch:
        """An epoch's batches.

        Args:
            mine: the lanes that are wanted; None: all.
        """
        n, L = len(self), self.lanes
        whole = n <= self.config.buffer and L == 1
        place = epoch << 32
        order = np.arange(len(self.units))
        if not whole:
            order = stream(seed, "units", place).permutation(len(self.units))
        wanted = range(L) if mine is None else mine
        lanes = [
            Lane(self, seed, epoch, number, order, *bounds, whole, len(wanted) == 1)
            for number, bounds in enumerate(lanes_of(n, L))
        ]
        return Epoch(lanes, wanted, math.ceil(n / size), size if L == 1 else None)

    def read(self, k: int, seed: int, epoch: int, shuffled: bool) -> Rows:
        """The training sequences of a unit, in the epoch's order of them.

        Raises:
            DataError: its file is missing, or is no longer what it was.
        """
        unit = self.units[k]
        self._look_at(unit.fragment.path)
        part = sequences_of(unit.fragment, self.config)
        if len(part) != len(unit.part):
            raise changed(unit.fragment.path)
        chosen = np.flatnonzero(unit.part == 0)
        if shuffled:
            chosen = chosen[stream(seed, "rows", (epoch << 32) + k).permutation(len(chosen))]
        source, target = self.scaling.scaled(part, np.float32)
        found = np.empty((len(part), 2), dtype=np.int32)
        found[:, 0], found[:, 1] = k, np.arange(len(part))
        rows = Rows(
            wider(np.asarray(source, dtype=np.float32), self.S),
            wider(np.asarray(target, dtype=np.float32), self.T),
            part.source_lengths, part.target_lengths, found,
            wider(part.target_cells, self.T) if self.masked else None,
        )  # fmt: skip
        return rows.at(chosen)

    def no_rows(self) -> Rows:
        F, said = len(self.scaling.source.shift), len(self.scaling.target.shift)
        none = np.zeros(0, dtype=np.int64)
        return Rows(
            np.zeros((0, self.S, F), dtype=np.float32),
            np.zeros((0, self.T, said), dtype=np.float32),
            none, none, np.zeros((0, 2), dtype=np.int32),
            np.zeros((0, self.T, said), dtype=bool) if self.masked else None,
        )  # fmt: skip

    def files(self) -> dict[str, str]:
        """SHA-256 of each file of the training part, by its path below `data.path`."""
        home = Path(self.config.path)
        return {
            str(path.relative_to(home)) if path != home else path.name: digest
            for path, digest in self.digests.items()
        }

    def names(self, rows: Rows) -> list[str]:
        """What sequences are called, and the file of each."""
        ids = {int(k): sequences_of(self.units[k].fragment, self.config).ids
               for k in np.unique(rows.found[:, 0])}  # fmt: skip
        return [f"{ids[k][place]} of {self.units[k].fragment.path.name}"
                for k, place in rows.found.tolist()]  # fmt: skip

    def _look_at(self, path: Path) -> None:
        """Refuse a file that changed: one that was touched is held against its digest."""
        try:
            stamp = stamp_of(path)
            if stamp != self.stamps[path]:
                if digest_of(path) != self.digests[path]:
                    raise changed(path)
                self.stamps[path] = stamp
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read any more ({error.strerror or error}). Put it back;"
                " train --resume goes on from there, as does the same compare."
            ) from None


@dataclass(eq=False)
class Lane:
    """A share of an epoch, stretch after stretch.

    Attributes:
        first, last: its rows among those of all units in the epoch's order.
        whole: all there is, in the order of sequences in memory.
        alone: no other lane is read here, so the unit that a stretch ends in is kept for the next.
    """

    stream: Stream
    seed: int
    epoch: int
    number: int
    order: NDArray[np.int64]
    first: int
    last: int
    whole: bool
    alone: bool
    stretches: dict[int, Rows] = field(default_factory=dict)
    unit: tuple[int, Rows] | None = None

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def size(self) -> int:
        """Sequences of a stretch."""
        return max(1, self.stream.config.buffer // self.stream.lanes)

    def take(self, first: int, last: int) -> Rows:
        """Its rows from `first` to `last - 1`, in the epoch's order."""
        found = []
        for k in range(first // self.size, (max(first, last - 1)) // self.size + 1):
            start = k * self.size
            rows = self.stretch(k)
            found.append(rows.at(slice(max(first - start, 0), max(last - start, 0))))
        return Rows.joined(found)

    def stretch(self, k: int) -> Rows:
        if k not in self.stretches:
            for old in [other for other in self.stretches if other != k - 1]:
                del self.stretches[old]
            self.stretches[k] = self._read(k)
        return self.stretches[k]

    def _read(self, k: int) -> Rows:
        begin = self.first + k * self.size
        end = min(begin + self.size, self.last)
        counts = np.array([self.stream.units[unit].train for unit in self.order])
        ends = np.cumsum(counts)
        parts, at = [], int(np.searchsorted(ends, begin, side="right"))
        while begin < end:
            start = int(ends[at] - counts[at])
            rows = self._unit(int(self.order[at]))
            parts.append(rows.at(slice(begin - start, min(end, int(ends[at])) - start)))
            begin = min(end, int(ends[at]))
            at += 1
        if not self.alone:  # other lanes have units of their own
            self.unit = None
        rows = Rows.joined(parts)
        if self.whole:
            return rows.at(stream(self.seed, "shuffle", self.epoch).permutation(len(rows)))
        place = (self.epoch << 32) + (self.number << 24) + k
        return rows.at(stream(self.seed, "buffers", place).permutation(len(rows)))

    def _unit(self, k: int) -> Rows:
        if self.unit is None or self.unit[0] != k:
            self.unit = None  # two are not needed at once
            self.unit = k, self.stream.read(k, self.seed, self.epoch, not self.whole)
        return self.unit[1]


@dataclass(frozen=True, eq=False)
class Epoch:
    """An epoch's batches by their number.

    Attributes:
        lanes: all there are.
        wanted: those that are read here, next to each other.
        batches: how many.
        size: of a batch, where there is one lane; else each lane is dealt out evenly.
    """

    lanes: list[Lane]
    wanted: range
    batches: int
    size: int | None

    def places(self, lane: Lane, step: int) -> tuple[int, int]:
        n = len(lane)
        if self.size is not None:
            return step * self.size, min((step + 1) * self.size, n)
        return step * n // self.batches, (step + 1) * n // self.batches

    def share(self, step: int) -> tuple[int, slice]:
        """Sequences of a batch, and which of them are those of the lanes wanted."""
        counts = [last - first for first, last in (self.places(lane, step) for lane in self.lanes)]
        before = sum(counts[: self.wanted.start])
        return sum(counts), slice(before, before + sum(counts[k] for k in self.wanted))

    def rows(self, step: int) -> Rows:
        """Those of the lanes wanted; a lane may have none for a batch."""
        chosen = [
            (lane, *self.places(lane, step)) for lane in map(self.lanes.__getitem__, self.wanted)
        ]
        parts = [lane.take(first, last) for lane, first, last in chosen if first < last]
        return Rows.joined(parts) if parts else chosen[0][0].stream.no_rows()


def lanes_of(n: int, lanes: int) -> list[tuple[int, int]]:
    """First and last row of each lane."""
    return [(k * n // lanes, (k + 1) * n // lanes) for k in range(lanes)]
