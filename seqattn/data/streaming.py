"""Sequences that do not fit into memory: many Parquet or Arrow files, read as they are needed.

The files are cut into *units* that are read whole: a row group of a Parquet file whose rows are
sequences, else a file. One pass before the training reads every unit once: it counts, draws the
validation and test parts (which stay in memory), and fits the scaling to the rest.

An epoch is a function of (seed, epoch), so that any step of it can be gone to at once: the units in
a random order, the sequences of each unit in a random order, and then stretches of at most
`data.buffer` sequences, each in a random order. Nothing has to be replayed on resume.

With `data.shards: L` that order is cut into L lanes of equal length, and each batch takes the same
share of every lane: processes that train together read their own lanes, and the batches are those
of one process. Where all training sequences fit into one buffer and one lane, the order is that of
sequences in memory.

Letters: N sequences, S source length, T target length, F features.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Stream as StreamConfig
from seqattn.data.files import Seen, joined
from seqattn.data.files.piece import Piece, check_values
from seqattn.data.files.tables import Fragment, files_of, fragments_of
from seqattn.data.own import UNKNOWN, Series, cut, form_of, treat_missing
from seqattn.data.scaling import Fitted, Scaler, Scaling, no_offsets, places_in, relative_offsets
from seqattn.data.sequences import Integers, Sequences
from seqattn.errors import DataError
from seqattn.storage import physical_memory
from seqattn.streams import stream

SAMPLE = 8192
"""Training sequences that baselines are fitted to."""


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
    """

    source: NDArray[np.float32]
    target: NDArray[np.float32]
    source_lengths: Integers
    target_lengths: Integers
    found: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: NDArray[np.int64] | slice) -> Rows:
        return Rows(
            self.source[places], self.target[places], self.source_lengths[places],
            self.target_lengths[places], self.found[places],
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.source_lengths for part in parts]),
            np.concatenate([part.target_lengths for part in parts]),
            np.concatenate([part.found for part in parts]),
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
        part = _sequences(unit.fragment, self.config)
        if len(part) != len(unit.part):
            raise _changed(unit.fragment.path)
        chosen = np.flatnonzero(unit.part == 0)
        if shuffled:
            chosen = chosen[stream(seed, "rows", (epoch << 32) + k).permutation(len(chosen))]
        source, target = self.scaling.scaled(part, np.float32)
        found = np.empty((len(part), 2), dtype=np.int32)
        found[:, 0], found[:, 1] = k, np.arange(len(part))
        rows = Rows(
            _wider(np.asarray(source, dtype=np.float32), self.S),
            _wider(np.asarray(target, dtype=np.float32), self.T),
            part.source_lengths, part.target_lengths, found,
        )  # fmt: skip
        return rows.at(chosen)

    def no_rows(self) -> Rows:
        F, said = len(self.scaling.source.shift), len(self.scaling.target.shift)
        none = np.zeros(0, dtype=np.int64)
        return Rows(
            np.zeros((0, self.S, F), dtype=np.float32),
            np.zeros((0, self.T, said), dtype=np.float32),
            none, none, np.zeros((0, 2), dtype=np.int32),
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
        ids = {int(k): _sequences(self.units[k].fragment, self.config).ids
               for k in np.unique(rows.found[:, 0])}  # fmt: skip
        return [f"{ids[k][place]} of {self.units[k].fragment.path.name}"
                for k, place in rows.found.tolist()]  # fmt: skip

    def _look_at(self, path: Path) -> None:
        """Refuse a file that changed: one that was touched is held against its digest."""
        try:
            stamp = stamp_of(path)
            if stamp != self.stamps[path]:
                if digest_of(path) != self.digests[path]:
                    raise _changed(path)
                self.stamps[path] = stamp
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read any more ({error.strerror or error}). Put it back;"
                " --resume goes on from there."
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
        if self.alone is False:  # other lanes have units of their own
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


# --- one pass -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Streamed:
    """What a pass over the files found.

    Attributes:
        stream: the training part.
        sample: some of it, in memory; as long as the longest.
        validation, test: in memory.
        notes: what a user should be told.
        digests: SHA-256 of the files of each path of the config.
    """

    stream: Stream
    sample: Sequences
    validation: Sequences
    test: Sequences
    notes: tuple[str, ...]
    digests: tuple[str, ...]


def load_stream(config: StreamConfig) -> Streamed:
    """Read every unit once.

    Raises:
        DataError: what a user can mend, with its place in the file.
        UsageError: no pyarrow.
    """
    if config.path == UNKNOWN:
        raise DataError(
            "a checkpoint does not say where its training data lie. Give a run folder, or your own"
            " sequences with --input."
        )
    form = form_of(config)
    apart = {
        part: files_of(Path(path), config.format)
        for part, path in ((1, config.validation_path), (2, config.test_path)) if path is not None
    }  # fmt: skip
    held = {file.resolve() for files in apart.values() for file in files}
    every = files_of(Path(config.path), config.format)
    found = _Pass(config)
    training = [file for file in every if file.resolve() not in held]
    for number, fragment in enumerate(fragments_of(training, form)):
        found.take(number, fragment)
    if len(training) < len(every):
        found.notes.append(
            f"{len(every) - len(training)} of the {len(every)} files of {config.path} are those of"
            " the other two parts, and do not train"
        )
    said, seen = [found.digest()], dict[str, Path]()
    kept = {1: found.kept[1], 2: found.kept[2]}
    for part, files in apart.items():
        own = _Pass(config, part)
        for number, fragment in enumerate(fragments_of(files, form)):
            own.take(number, fragment)
        kept[part] = own.kept[part]
        said.append(own.digest())
        if found.n and own.names() != found.names():
            whose = config.validation_path if part == 1 else config.test_path
            raise DataError(f"{whose}: has other features than {config.path}.")
        found.S, found.T = max(found.S, own.S), max(found.T, own.T)
        seen |= {digest: path for path, digest in found.digests.items()}
        for path, digest in own.digests.items():
            if digest in seen:
                raise DataError(
                    f"{path}: has the bytes of {seen[digest]}, which belongs to another part."
                )
        seen |= {digest: path for path, digest in own.digests.items()}
    for part, name in ((0, "training"), (1, "validation"), (2, "test")):
        if not (found.n if part == 0 else sum(map(len, kept[part]))):
            raise DataError(
                f"{config.path}: the {name} part has no sequences. Change the shares in data.split."
            )
    S, T = found.S, found.T
    scaling, constant = found.scaling()
    result = Stream(
        config, tuple(found.units), scaling, S, T, found.short(0, S), found.short(1, T),
        found.digests, found.stamps,
    )  # fmt: skip
    unit = max(len(unit.part) for unit in result.units)
    numbers = (S + T) * max(map(len, found.names()))
    needed = numbers * (2 * 4 * min(config.buffer, len(result)) + 2 * 8 * unit)
    if needed > physical_memory():
        raise DataError(
            f"data.buffer: {config.buffer:,} sequences, twice while they are shuffled, and the"
            f" largest unit of the files ({unit:,} sequences) take {needed / 2**30:.1f} GiB; the"
            f" machine has {physical_memory() / 2**30:.1f} GiB."
        )
    sample, validation, test = (
        together(parts, S, T) for parts in (found.sample(), kept[1], kept[2])
    )
    notes = [*found.notes, *constant]
    if found.dropped:
        notes.append(f"{found.dropped} sequences with empty cells were dropped (data.missing)")
    notes.append(
        f"{len(result):,} training sequences are read from {len(found.digests)} files as they are"
        f" needed, in {len(result.units)} units; {len(validation):,} validation and"
        f" {len(test):,} test sequences are in memory; baselines are fitted to {len(sample):,}"
        " training sequences"
    )
    return Streamed(result, sample, validation, test, tuple(notes), tuple(said))


class _Pass:
    """What is gathered while unit after unit goes by.

    Args:
        only: the part that all sequences belong to; None: they are drawn, as data.split says.
    """

    def __init__(self, config: StreamConfig, only: int | None = None) -> None:
        self.config, self.only = config, only
        self.units = list[Unit]()
        self.kept: dict[int, list[Sequences]] = {0: [], 1: [], 2: []}
        self.n = self.kept_bytes = self.dropped = 0
        self.S = self.T = 0
        self.shortest = [2**62, 2**62]
        self.digests, self.stamps = dict[Path, str](), dict[Path, tuple[int, int]]()
        self.moments = dict[str, Moments]()
        self.notes = list[str]()
        self.last_name = ""
        self.least, self.numbers = 1.0, np.zeros(0)

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        for parts in self.kept.values():
            for part in parts:
                return part.features, part.said
        return (), ()

    def take(self, number: int, fragment: Fragment) -> None:
        path = fragment.path
        if path not in self.digests:
            self.stamps[path], self.digests[path] = stamp_of(path), digest_of(path)
        dropped = list[str]()
        part = _sequences(fragment, self.config, self.notes, dropped)
        self.dropped += len(dropped)
        series = part.ids
        if self.config.window is not None:
            series = tuple(name.rpartition("@")[0] for name in part.ids)
        if fragment.is_long and series and series[0] == self.last_name:
            raise DataError(
                f"{path}: its first sequence {series[0]!r} goes on from the file before. A"
                " sequence lies in one file."
            )
        self.last_name = series[-1] if series else ""
        if self.units and self.names() not in (((), ()), (part.features, part.said)):
            raise DataError(
                f"{fragment.name}: has the features {', '.join(part.features)}, the files before"
                f" {', '.join(self.names()[0])}."
            )
        chosen = self._drawn(number, series, fragment.is_named)
        train = np.flatnonzero(chosen == 0)
        self.units.append(Unit(fragment, chosen, len(train)))
        self.n += len(train)
        if len(part):
            self.S = max(self.S, int(part.source_lengths.max()))
            self.T = max(self.T, int(part.target_lengths.max()))
            self.shortest = [
                min(self.shortest[0], int(part.source_lengths.min())),
                min(self.shortest[1], int(part.target_lengths.min())),
            ]
        for k in (1, 2):
            self._keep(k, picked(part, np.flatnonzero(chosen == k)))
        if self.only is None and len(train):
            self._fit(part, train)
            self._sample(number, part, train)

    def _drawn(self, number: int, series: tuple[str, ...], named: bool) -> NDArray[np.int8]:
        """Which part each sequence belongs to: by its name, so that windows of one series, and a
        sequence that comes twice, are not told apart; by its place in the unit where it has none.
        """
        n = len(series)
        if self.only is not None:
            return np.full(n, self.only, dtype=np.int8)
        config = self.config
        if config.validation_path is not None:
            return np.zeros(n, dtype=np.int8)
        split = config.split
        if named:
            numbers = chances(split.seed, series)
        else:
            units = np.arange(n)
            if config.window is not None and n:
                units = np.cumsum([0, *(a != b for a, b in itertools.pairwise(series))])
            numbers = stream(split.seed, "split", number).random_sample(n)[units]
        bounds = (split.validation, split.validation + split.test)
        return np.select([numbers < bounds[0], numbers < bounds[1]], [1, 2], 0).astype(np.int8)

    def _keep(self, k: int, part: Sequences) -> None:
        if not len(part):
            return
        self.kept[k].append(part)
        self.kept_bytes += part.source.nbytes + part.target.nbytes
        if self.kept_bytes > physical_memory() // 4:
            raise DataError(
                f"{self.config.path}: the validation and test parts stay in memory, and take more"
                f" than a quarter of it already ({self.kept_bytes / 2**30:.1f} GiB). Lower"
                " data.split.validation and data.split.test."
            )

    def _sample(self, number: int, part: Sequences, train: NDArray[np.int64]) -> None:
        """Keep some training sequences, all with the same chance however many units follow: each
        draws a number, and the smallest stay."""
        numbers = stream(self.config.split.seed, "sample", number).random_sample(len(train))
        self.kept[0].append(picked(part, train[numbers < self.least]))
        self.numbers = np.concatenate([self.numbers, numbers[numbers < self.least]])
        if len(self.numbers) > 2 * SAMPLE:
            self._thin_out()

    def _thin_out(self) -> None:
        if len(self.numbers) <= SAMPLE:
            return
        self.least = float(np.partition(self.numbers, SAMPLE)[SAMPLE])
        stay, at = self.numbers < self.least, 0
        for k, part in enumerate(self.kept[0]):
            self.kept[0][k] = picked(part, np.flatnonzero(stay[at : at + len(part)]))
            at += len(part)
        self.numbers = self.numbers[stay]

    def sample(self) -> list[Sequences]:
        """Training sequences, SAMPLE at most."""
        self._thin_out()
        return [part for part in self.kept[0] if len(part)]

    def _fit(self, part: Sequences, train: NDArray[np.int64]) -> None:
        if self.config.scaling == "none":
            return
        carried = places_in(part.features, part.said)
        offsets = relative_offsets(part, carried) if self.config.relative else no_offsets(part)
        keeps = part.source_keep, part.target_keep
        for name in dict.fromkeys([*part.features, *part.said]):
            values = []
            for names, points, keep, offset in zip(
                (part.features, part.said), (part.source, part.target), keeps, offsets, strict=True
            ):
                if name in names:
                    i = names.index(name)
                    values.append((points[train, :, i] - offset[train, :, i])[keep[train]])
            self.moments.setdefault(name, Moments()).add(np.concatenate(values))

    def scaling(self) -> tuple[Scaling, list[str]]:
        features, said = self.names()
        carried, config = places_in(features, said), self.config
        if config.scaling == "none":
            sides = Scaler.identity(len(features)), Scaler.identity(len(said))
            return Scaling(*sides, carried, config.relative), []
        fitted = {name: one.fitted(config.scaling) for name, one in self.moments.items()}
        notes = [
            f"{name} is always {one.shift:g} in the training part: not scaled"
            for name, one in fitted.items() if one.constant
        ]  # fmt: skip
        source, target = (
            Scaler(*(np.array([getattr(fitted[name], what) for name in names])
                     for what in ("shift", "scale")))
            for names in (features, said)
        )  # fmt: skip
        return Scaling(source, target, carried, config.relative), notes

    def short(self, side: int, longest: int) -> bool:
        return self.shortest[side] < longest

    def digest(self) -> str:
        """Of all files together, whose names do not matter but whose order does."""
        text = "".join(self.digests.values())
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Moments:
    """Count, mean and spread of numbers that come a stretch at a time (Chan, Golub and LeVeque
    1983, "Algorithms for Computing the Sample Variance", eq. 2.1)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: NDArray[np.floating]) -> None:
        m = len(values)
        if not m:
            return
        mean = float(values.mean(dtype=np.float64))
        squares = float(np.square(values - mean, dtype=np.float64).sum())
        apart, total = mean - self.mean, self.n + m
        self.squares += squares + apart**2 * self.n * m / total
        self.mean += apart * m / total
        self.n = total
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )

    def fitted(self, method: str) -> Fitted:
        """See `seqattn.data.scaling.fit_feature`."""
        shift, scale = self.mean, math.sqrt(self.squares / self.n)
        if method == "minmax":
            shift, scale = (self.low + self.high) / 2, (self.high - self.low) / 2
        if scale <= 1e-12 * max(abs(self.low), abs(self.high), 1e-300):
            scale = 1.0
        constant = self.low == self.high
        return Fitted(self.low if constant else shift, scale, constant)


def chances(seed: int, names: Sequence[str]) -> NDArray[np.float64]:
    """A number in [0, 1) for each name, a function of seed and name alone: the last mix of
    SplitMix64 (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators", figure
    17) over the name's CRC."""
    x = np.fromiter((zlib.crc32(name.encode()) for name in names), np.uint64, len(names))
    x += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.asarray((x >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


# --- units ----------------------------------------------------------------------------------------


def _sequences(
    fragment: Fragment,
    config: StreamConfig,
    notes: list[str] | None = None,
    dropped: list[str] | None = None,
) -> Sequences:
    """A unit as it is to be given and said."""
    pieces = list[Piece]()
    seen = Seen()
    for piece in fragment.pieces():
        check_values(fragment.name, piece)
        again = seen.again(piece.ids)
        if again is not None:
            raise DataError(f"{fragment.name}: the sequence {again!r} comes twice.")
        pieces.append(piece)
    piece = joined(pieces)
    if notes is not None:
        notes += [note for note in piece.notes if note not in notes]
    series = Series(fragment.name, list(piece.ids), piece.points, piece.where, order=piece.order)
    treat_missing(series, config)
    part = cut(series, config)
    if dropped is not None:
        dropped += series.dropped
    return part


def picked(part: Sequences, places: NDArray[np.int64]) -> Sequences:
    """The sequences at some places, their own copy."""
    return Sequences(
        part.source[places], part.source_lengths[places], part.target[places],
        part.target_lengths[places], part.features, tuple(part.ids[k] for k in places),
        said=part.said,
        last_steps=None if part.last_steps is None else part.last_steps[places],
    )  # fmt: skip


def together(parts: Sequence[Sequences], S: int, T: int) -> Sequences:
    """Parts of several units as one, padded to the longest of all."""
    steps = [part.last_steps for part in parts if part.last_steps is not None]
    return Sequences(
        np.concatenate([_wider(part.source, S) for part in parts]),
        np.concatenate([part.source_lengths for part in parts]),
        np.concatenate([_wider(part.target, T) for part in parts]),
        np.concatenate([part.target_lengths for part in parts]),
        parts[0].features,
        tuple(name for part in parts for name in part.ids),
        said=parts[0].said,
        last_steps=np.concatenate(steps) if len(steps) == len(parts) else None,
    )


def _wider(points: NDArray[Any], length: int) -> NDArray[Any]:
    """(n, L, F) with zeros up to a length."""
    missing = length - points.shape[1]
    return points if missing == 0 else np.pad(points, ((0, 0), (0, missing), (0, 0)))


def stamp_of(path: Path) -> tuple[int, int]:
    """What changes when a file is written to: its size, and when that was."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _changed(path: Path) -> DataError:
    return DataError(
        f"{path}: has changed since the training began. Put the old one back; --resume goes on from"
        " there."
    )
