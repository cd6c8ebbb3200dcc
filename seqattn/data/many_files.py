"""Functions that read series from one or more files that share one layout."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.config.data import column_names
from seqattn.data.chunk import Chunk, SeenIds, step_text, to_offsets
from seqattn.data.files import (
    NESTED,
    TABLES,
    file_format,
    file_kind,
    file_series_names,
    read_all,
    read_chunks,
)
from seqattn.data.reading import Reading, Resolution, setting
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, block_slices, infer_spacing, regularize
from seqattn.data.spacing import NUMBER, Spacing, most_frequent
from seqattn.data.store import SeriesStore, is_large, load_cached
from seqattn.errors import DataError, NoRows, counted

Interval = tuple[int, float]
"""A unit and a step, as in `Spacing`."""


class IntervalCounts:
    """Counts of step intervals, from which series with one or two rows get their interval.

    Attributes:
        of_long: number of series with three or more rows by interval.
        of_short: number of series with one or two rows by interval.
        is_uneven: whether a series with three or more rows has no interval.
    """

    def __init__(self) -> None:
        self.of_long, self.of_short = Counter[Interval](), Counter[Interval]()
        self.is_uneven = False
        self._assumed = set[Interval | None]()

    def add(self, lengths: Integers, spacing: Spacing) -> None:
        """Add the series of a chunk.

        Args:
            lengths: (N,) number of rows in each series.
            spacing: step interval of each series, inferred from this chunk.
        """
        is_long, is_short = lengths > 2, (lengths > 0) & (lengths <= 2)
        mine = IntervalCounts()
        mine.of_long = _count(spacing, is_long)
        mine.of_short = _count(spacing, is_short)
        mine.is_uneven = bool((is_long & ~spacing.is_known).any())
        if is_short.any():
            self._assumed.add(mine.common)
        self.of_long += mine.of_long
        self.of_short += mine.of_short
        self.is_uneven |= mine.is_uneven

    @property
    def common(self) -> Interval | None:
        """The interval that series with one or two rows get if it fits: the most frequent interval
        of the longer series. Without longer series, this is the interval of all series if they are
        numbers at a constant distance. Otherwise, this is None."""
        if self.of_long:
            return min(self.of_long, key=lambda interval: (-self.of_long[interval], interval))
        if self.is_uneven or len(self.of_short) != 1:
            return None
        (only,) = self.of_short
        return only if only[0] == NUMBER else None

    @property
    def differs_in_chunks(self) -> bool:
        """Whether the common interval of all chunks differs from that of a single chunk with series
        of one or two rows, so that the intervals of such series must be inferred again."""
        return any(assumed != self.common for assumed in self._assumed)


def _count(spacing: Spacing, which: NDArray[np.bool_]) -> Counter[Interval]:
    known = spacing.select(np.flatnonzero(which & spacing.is_known))
    pairs = most_frequent(known.unit, known.step) if len(known.unit) else []
    return Counter({(unit, step): count for unit, step, count in pairs})


SORTED_ROWS = 2**20
"""Number of rows to sort at a time. A longer series is sorted as a whole."""


def merge_series(raw: Series, path: str) -> Iterator[Chunk]:
    """Merge series that extend over several files, and yield chunks of whole series with their rows
    in time order.

    Args:
        raw: series in which an id may occur several times, each time with different rows.
        path: path of the files, for messages.

    Raises:
        DataError: if a series has two rows with the same time, or is of two groups.
    """
    rank: dict[str, int] = {}
    series_index = np.array([rank.setdefault(name, len(rank)) for name in raw.ids])
    names, points, order = list(rank), raw.points, raw.order
    assert order is not None
    words: dict[str, str] = {}
    for name, word in zip(raw.ids, raw.groups or (), strict=raw.groups is not None):
        if words.setdefault(name, word) != word:
            raise DataError(
                f"{path}: the series {name!r} is of the groups {words[name]!r} and {word!r}."
            )
    parts = np.argsort(series_index, kind="stable")
    sizes = np.bincount(series_index, weights=points.lengths).astype(np.int64)
    begins = np.searchsorted(series_index[parts], np.arange(len(names) + 1))
    for block in block_slices(sizes, SORTED_ROWS):
        chosen = parts[begins[block.start] : begins[block.stop]]
        rows = np.concatenate([np.arange(points.offsets[k], points.offsets[k + 1]) for k in chosen])
        of_row = np.repeat(series_index[chosen], points.lengths[chosen])
        rows = rows[np.lexsort((order[rows], of_row))]
        of_row = np.sort(of_row)
        times = order[rows]
        twice = np.flatnonzero((of_row[1:] == of_row[:-1]) & (times[1:] == times[:-1]))
        if twice.size:
            at = int(twice[0])
            raise DataError(
                f"{path}: the series {names[of_row[at]]!r} has two rows of {step_text(times[at])}"
                " in its files. Leave one of them out."
            )

        def where(row: int, feature: int, of_row: Integers = of_row, times: Any = times) -> str:
            place = f"series {names[of_row[row]]!r} at {step_text(times[row])}"
            return f"{place}, column {points.features[feature]!r}"

        lengths = np.bincount(of_row - block.start, minlength=block.stop - block.start)
        yield Chunk(
            tuple(names[block]),
            replace(points, values=points.values[rows], offsets=to_offsets(lengths)), where,
            order=times, groups=tuple(words[name] for name in names[block]) if words else None,
            notes=raw.notes, reading=raw.reading,
        )  # fmt: skip


class FileReader:
    """Reader of files that share one layout, which the first file determines.

    Args:
        path: the path as the user typed it.
        files: the files in the order in which they are read.
        reading: how to read the files.

    Attributes:
        without_rows: names of the files without rows.
        resolved: names of the ambiguous files that another file resolved, by pair of the resolution
            and the name of the other file.
    """

    def __init__(self, path: str, files: Sequence[Path], reading: Reading) -> None:
        self.path, self.files, self.reading = path, files, reading
        self.called = dict(zip(files, file_series_names(path, files), strict=True))
        self.without_rows = dict[str, None]()
        self.resolved = dict[tuple[Resolution, str], dict[str, None]]()

    @property
    def notes(self) -> list[str]:
        """Notes for the user on ambiguous files, and on files without rows, among the files that
        were read."""
        notes = [
            f"{_first_names(files)}: {'is' if len(files) == 1 else 'are'}"
            f" {resolution.note(f'{other} shows')}"
            for (resolution, other), files in self.resolved.items()
        ]
        if n := len(self.without_rows):
            verb, names = "is" if n == 1 else "are", _first_names(self.without_rows)
            notes.append(f"{counted(n, 'file')} without rows {verb} left out: {names}")
        return notes

    def chunks(self) -> Iterator[tuple[str, Chunk]]:
        """Yield pairs (name of the file, chunk) in order. If there are several files, a file may
        have no rows.

        Raises:
            DataError: if a file differs from the first file in its features, in the type of its
                times, in its separate targets or in its decimal mark.
        """
        reading, only_whole_numbers = self.reading, True
        first: Chunk | None = None
        first_file = ""
        for file in self.files:
            try:
                for chunk in read_chunks(
                    file, reading, like=None if first is None else first.reading
                ):
                    for resolution in chunk.resolutions:
                        self.resolved.setdefault((resolution, first_file), {})[str(file)] = None
                    if first is None:
                        first, first_file = chunk, str(file)
                        reading = self._with_layout(reading, first)
                    self._check_like_first(file, chunk, first)
                    if self.reading.decimal == "auto":
                        self._check_decimal(file, chunk, first, only_whole_numbers)
                        if chunk.style.decimal == ",":
                            reading = replace(reading, decimal=",")
                        else:
                            values = chunk.points.values
                            is_whole = np.isnan(values) | (values == np.round(values))
                            only_whole_numbers &= bool(is_whole.all())
                    yield str(file), self._with_unique_names(file, chunk)
            except NoRows:
                if len(self.files) == 1:
                    raise
                self.without_rows[str(file)] = None

    def _check_like_first(self, file: Path, chunk: Chunk, first: Chunk) -> None:
        if chunk.points.features != first.points.features:
            raise DataError(
                f"{file}: has the features {', '.join(chunk.points.features)},"
                f" {self.files[0]} {', '.join(first.points.features)}."
            )
        orders = (chunk.order, first.order)
        mine, others = (
            "no steps" if order is None
            else "dates as steps" if order.dtype.kind == "M" else "numbers as steps"
            for order in orders
        )  # fmt: skip
        if mine == others:
            mine, others = (
                "no separate targets" if target is None
                else f"separate targets ({', '.join(target.features)})"
                for target in (chunk.target, first.target)
            )  # fmt: skip
        if mine != others:
            raise DataError(
                f"{file}: has {mine} where {self.files[0]} has {others}. The steps and targets of"
                " all files must be of one kind."
            )

    def _check_decimal(
        self, file: Path, chunk: Chunk, first: Chunk, only_whole_numbers: bool
    ) -> None:
        """Check that a file may have the decimal mark of the first file.

        Args:
            file: the file.
            chunk: a chunk of the file.
            first: the first chunk of the first file.
            only_whole_numbers: whether all numbers so far are whole, so that they have no mark.
        """
        marks = f"{setting('decimal', ',')} or {setting('decimal', '.')}"
        choose = f"Set the decimal mark of all files: {marks}."
        if first.style.decimal != ",":
            if chunk.style.decimal == "," and not only_whole_numbers:
                raise DataError(
                    f"{file}: has numbers with decimal commas, and {self.files[0]} has none."
                    f" {choose}"
                )
        elif chunk.style.delimiter != first.style.delimiter:
            raise DataError(
                f"{file}: separates cells by {chunk.style.delimiter!r}, but {self.files[0]} by"
                f" {first.style.delimiter!r}, so the decimal comma of that file may not apply."
                f" {choose}"
            )

    def _with_layout(self, reading: Reading, first: Chunk) -> Reading:
        """Return the reading of the other files, given a chunk of the first file."""
        kind, found = file_format(self.files[0], reading.format), first.style
        if len(self.files) == 1 or kind in ("npz", "npy") or first.is_wide:
            return reading
        if kind == "jsonl" and first.order is None and not found.series_columns:
            return reading
        return replace(
            reading, layout="long", features=first.points.features, series=found.series_columns,
            time=found.time_columns,
        )  # fmt: skip

    def _with_unique_names(self, file: Path, chunk: Chunk) -> Chunk:
        """Make sequence names unique across several files without series ids.

        The only sequence in a chunk of a table gets the file name, and so does the only sequence in
        a chunk of a JSON Lines file if it is sequence 1. Otherwise, names that only count the
        sequences get the file name as a prefix.
        """
        if len(self.files) == 1 or chunk.style.series_columns:
            return chunk
        called, ids = self.called[file], chunk.ids
        if len(chunk) == 1 and not chunk.is_wide:
            kind = file_kind(file, file_format(file, self.reading.format))
            if kind in TABLES or (kind.startswith(NESTED) and ids == ("1",)):
                return replace(chunk, ids=(called,))
        first = int(ids[0]) if ids[0].isdecimal() else -1
        are_numbers = ids == tuple(str(first + k) for k in range(len(ids)))
        if not are_numbers and not chunk.is_wide:  # ids of wide tables are the numbers of rows
            return chunk
        return replace(chunk, ids=tuple(f"{called}:{name}" for name in ids))


def _first_names(files: Collection[str]) -> str:
    return ", ".join([*files][:5]) + (", ..." if len(files) > 5 else "")


def make_reading(config: OwnFile, *, sources_only: bool = False) -> Reading:
    """Return the reading for reading the files that a config refers to.

    Args:
        config: the data section of the config.
        sources_only: whether to read only the source columns, as for a forecast.
    """
    requested: list[str] | None = config.features
    source_and_target = None
    if config.source_features is not None and config.target_features is not None:
        source_and_target = tuple(config.source_features), tuple(config.target_features)
        both = [*config.source_features, *config.target_features]
        requested = list(dict.fromkeys(config.source_features if sources_only else both))
    series, time = column_names(config.series), column_names(config.time)
    return Reading(
        format=config.format, layout=config.layout, delimiter=config.delimiter,
        comment=config.comment, encoding=config.encoding, has_header=config.header,
        skip_rows=config.skip_rows, decimal=config.decimal, thousands=config.thousands,
        na_values=None if config.na_values is None else tuple(config.na_values),
        time_format=config.time_format,
        series="auto" if config.series == ["auto"] else series,
        time="auto" if config.time == ["auto"] else time,
        group=config.group, ignore=tuple(config.ignore or ()), one_hot=tuple(config.one_hot or ()),
        features=None if requested is None else tuple(requested),
        source_and_target=None if sources_only else source_and_target,
    )  # fmt: skip


def read_series(
    path: str, files: Sequence[Path], config: OwnFile, trained: Reading | None = None
) -> Series:
    """Read the series from the files of a part.

    Args:
        path: the path as the user typed it.
        files: the files that the path refers to.
        config: the data section of the config.
        trained: the reading of the training part, to read another part in the same way, or None.
    """
    reading = replace(make_reading(config), trained=trained)
    if config.cache == "always" or (config.cache == "auto" and is_large(files)):
        cache_key = f"{reading!r} {config.missing} {config.window is None} {config.source_features}"
        cache_key += f" {config.target_features} {config.source_length or config.target_length}"
        cache_key += f" {file_series_names(path, files)}" if len(files) > 1 else ""
        return load_cached(files, cache_key, path,
            lambda store: _fill_store(store, path, files, reading, config),
        )  # fmt: skip
    if len(files) == 1:
        chunk = read_all(files[0], reading)
        series = regularize(chunk, str(files[0]), config, infer_spacing(chunk))
        return replace(series, digests={str(files[0]): file_digest(files[0])})
    store = SeriesStore()
    return store.series(path, _fill_store(store, path, files, reading, config))


def _fill_store(
    store: SeriesStore, path: str, files: Sequence[Path], reading: Reading, config: OwnFile
) -> dict[str, str]:
    """Add all series of the files to a store, and return the SHA-256 digest of each file by file
    name."""
    reader = FileReader(path, files, reading)
    if not _add_chunks(store, reader.chunks, config):
        store.clear()
        with store.sibling() as raw:
            for file, chunk in reader.chunks():
                raw.add(Series(file, chunk.ids, chunk.points, chunk.order, None, chunk.groups,
                               notes=chunk.notes, reading=chunk.reading))  # fmt: skip
            merged = raw.finish(path)
            _add_chunks(store, lambda: ((path, one) for one in merge_series(merged, path)), config)
    if store.first is None:
        raise DataError(f"{path}: has no rows.")
    store.notes |= dict.fromkeys(reader.notes)
    return {str(file): file_digest(file) for file in files}


def _add_chunks(
    store: SeriesStore, chunks: Callable[[], Iterator[tuple[str, Chunk]]], config: OwnFile
) -> bool:
    """Add series to a store. Return False if a series has rows in several chunks, so that the
    series must be merged first.

    Args:
        store: the store, which must be empty.
        chunks: function that returns an iterator over pairs (name of the file, chunk). The function
            is called again if series with one or two rows need the step interval of later chunks.
        config: the data section of the config.

    Raises:
        DataError: if the config rejects a missing row or an empty cell, or if a series has rows in
            several chunks but no times.
    """
    seen, intervals = SeenIds(), IntervalCounts()
    error: DataError | None = None
    for name, chunk in chunks():
        repeated = seen.find_repeat(chunk.ids)
        if repeated is not None:
            if chunk.order is None:
                raise DataError(
                    f"{name}: its series {repeated!r} also has rows in another file, and there"
                    " is no time column, so the order of the rows is unknown. Name the time"
                    " column (data.time), or give each series a unique name."
                )
            return False
        spacing = infer_spacing(chunk)
        if spacing is not None:
            intervals.add(chunk.points.lengths, spacing)
        if error is None:
            try:
                store.add(regularize(chunk, name, config, spacing))
            except DataError as refused:  # a later file may contain the missing rows
                error = refused
    if intervals.differs_in_chunks:
        store.clear()
        for name, chunk in chunks():
            spacing = infer_spacing(chunk, assumed=intervals.common)
            store.add(regularize(chunk, name, config, spacing))
    elif error is not None:
        raise error
    return True


def file_digest(file: Path) -> str:
    """Return the SHA-256 digest of the content of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
