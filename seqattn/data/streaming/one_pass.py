"""One pass over all files: counts, the parts that stay in memory, a sample, and the scaling."""

from __future__ import annotations

import hashlib
import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Stream as StreamConfig
from seqattn.data.files import Seen
from seqattn.data.metrics import InSample
from seqattn.data.own import (
    UNKNOWN,
    check_observed,
    constant_windows,
    filled_notes,
    form_of,
    instance_notes,
    own_levels,
    scaling_of,
    short_notes,
)
from seqattn.data.own.in_sample import in_sample_of
from seqattn.data.scaling import Fitted, Scaling, is_constant
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.streaming.order import Stream, Unit
from seqattn.data.streaming.series import SeriesSample
from seqattn.data.streaming.units import (
    Counts,
    digest_of,
    longest,
    picked,
    sequences_of,
    stamp_of,
    together,
)
from seqattn.data.tables.fragments import Fragment, files_of, fragments_of
from seqattn.errors import DataError
from seqattn.storage import physical_memory
from seqattn.streams import stream

SAMPLE = 8192
"""Training sequences that baselines are fitted to."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """What a pass over the files found.

    Attributes:
        stream: the training part.
        sample: some of it, in memory; as long as the longest.
        validation, test: in memory.
        notes: what a user should be told.
        digests: SHA-256 of the files of each path of the config.
        frequency: how far apart steps are, where it is as far in all files; else None.
        in_sample: season and scale of the errors, of training series that were drawn.
    """

    stream: Stream
    sample: Sequences
    validation: Sequences
    test: Sequences
    notes: tuple[str, ...]
    digests: tuple[str, ...]
    frequency: Frequency | None
    in_sample: InSample


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
    given = ((1, config.validation_path), (2, config.test_path))
    homes = {part: path for part, path in given if path is not None}
    apart = {part: files_of(Path(path), config.format) for part, path in homes.items()}
    held = {file.resolve() for files in apart.values() for file in files}
    every = files_of(Path(config.path), config.format)
    found = _Pass(config)
    training = [file for file in every if file.resolve() not in held]
    for number, fragment in enumerate(fragments_of(training, form, Path(config.path))):
        found.take(number, fragment)
    if len(training) < len(every):
        found.counts.notes.append(
            f"{len(every) - len(training)} of the {len(every)} files of {config.path} are those of"
            " the other two parts, and do not train"
        )
    said, seen = [found.digest()], dict[str, Path]()
    kept = {1: found.kept[1], 2: found.kept[2]}
    for part, files in apart.items():
        own, home = _Pass(config, part), Path(homes[part])
        for number, fragment in enumerate(fragments_of(files, form, home)):
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
        found.digests, found.stamps, found.masked,
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
    sample = together(found.sample(), S, T)
    validation, test = (together(parts, *longest(parts)) for parts in (kept[1], kept[2]))
    check_observed(sample, f"{config.path}: the training part")
    check_observed(validation, f"{config.path}: the validation part")
    check_observed(test, f"{config.path}: the test part")
    in_sample, of_season = in_sample_of(found.series.table(), sample, config)
    counts = found.counts
    notes = [*counts.notes, *constant, *of_season]
    notes += [*filled_notes(counts.filled), *short_notes(counts.too_short)]
    if counts.dropped:
        notes.append(f"{counts.dropped} sequences with empty cells were dropped (data.missing)")
    if len(counts.spacings) > 1:
        notes.append("series have different spacings, each its own, or uneven ones")
    notes.append(
        f"{len(result):,} training sequences are read from {len(found.digests)} files as they are"
        f" needed, in {len(result.units)} units; {len(validation):,} validation and"
        f" {len(test):,} test sequences are in memory; baselines are fitted to {len(sample):,}"
        " training sequences"
    )
    return Streamed(
        result,
        sample,
        validation,
        test,
        tuple(notes),
        tuple(said),
        counts.spacings.pop() if len(counts.spacings) == 1 else None,
        in_sample,
    )


class _Pass:
    """What is gathered while unit after unit goes by.

    Args:
        only: the part that all sequences belong to; None: they are drawn, as data.split says.
    """

    def __init__(self, config: StreamConfig, only: int | None = None) -> None:
        self.config, self.only = config, only
        self.units = list[Unit]()
        self.kept: dict[int, list[Sequences]] = {0: [], 1: [], 2: []}
        self.n = self.kept_bytes = 0
        self.S = self.T = 0
        self.shortest = [2**62, 2**62]
        self.digests, self.stamps = dict[Path, str](), dict[Path, tuple[int, int]]()
        self.moments, self.constant = dict[str, Moments](), np.zeros(1, dtype=np.int64)
        self.counts, self.masked = Counts(), False
        self.series = SeriesSample(config.split.seed)
        self.seen = Seen()
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
        part = sequences_of(fragment, self.config, self.counts)
        self.masked = self.masked or part.target_observed is not None
        series = part.ids
        if self.config.window is not None:
            series = tuple(name.rpartition("@")[0] for name in part.ids)
        if fragment.is_long and fragment.is_named:
            self._check_whole(path, series)
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
            assert self.counts.series is not None
            parts = dict(zip(series, chosen.tolist(), strict=True))
            self.series.add(number, *self.counts.series, parts)
        self.counts.series = None

    def _check_whole(self, path: Path, series: tuple[str, ...]) -> None:
        """
        Raises:
            DataError: a sequence that has rows in another file, too.
        """
        name = self.seen.again(tuple(dict.fromkeys(series)))
        if name is None:
            return
        before = next(
            (unit.fragment.path for unit in self.units
             if any(name in piece.ids for piece in unit.fragment.pieces())),
            None,
        )  # fmt: skip
        if before is not None:  # else two names have one hash
            raise DataError(
                f"{path}: its sequence {name!r} has rows in {before}, too. A sequence lies in one"
                " file: join its rows, or give the two parts names of their own."
            )

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
        if self.config.normalize == "instance":
            self.constant = self.constant + constant_windows(picked(part, train))
        if self.config.scaling == "none":
            return
        keeps, own = (part.source_cells, part.target_cells), own_levels(self.config, part)
        for name in dict.fromkeys([*part.features, *part.said]):
            values = []
            for names, points, keep, scaler in zip(
                (part.features, part.said), (part.source, part.target), keeps, own, strict=True
            ):
                if name in names:
                    i = names.index(name)
                    values.append(scaler.scaled(points)[train, :, i][keep[train, :, i]])
            self.moments.setdefault(name, Moments()).add(np.concatenate(values))

    def scaling(self) -> tuple[Scaling, list[str]]:
        (features, said), config = self.names(), self.config
        never = [name for name, one in self.moments.items() if not one.n]
        if never:
            raise DataError(
                f"{config.path}: no value of {never[0]!r} was observed in the training part."
            )
        fitted = {name: one.fitted(config.scaling) for name, one in self.moments.items()}
        scaling, notes = scaling_of(config, fitted, features, said)
        if config.normalize == "instance":
            notes += instance_notes(features, said, self.constant, self.n)
        return scaling, notes

    def short(self, side: int, longest: int) -> bool:
        return self.shortest[side] < longest

    def digest(self) -> str:
        """Of all files together, whose names do not matter but whose order does."""
        text = "".join(self.digests.values())
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Moments:
    """Count, mean and spread of numbers that come a stretch at a time (Chan, Golub and LeVeque
    1983, "Algorithms for Computing the Sample Variance: Analysis and Recommendations")."""

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
        constant = is_constant(self.low, self.high)
        return Fitted(
            self.low if self.low == self.high else shift, 1.0 if constant else scale, constant
        )


def chances(seed: int, names: Sequence[str]) -> NDArray[np.float64]:
    """A number in [0, 1) for each name, a function of seed and name alone: the last mix of
    SplitMix64 (Steele, Lea and Flood 2014, "Fast Splittable Pseudorandom Number Generators") over
    the name's CRC, with the multipliers of Stafford's variant 13."""
    x = np.fromiter((zlib.crc32(name.encode()) for name in names), np.uint64, len(names))
    x += np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.asarray((x >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
