"""Functions that read series from one or more files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile
from seqattn.config.knobs.data import column_names
from seqattn.data.cache import is_large, load_cached
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.files import (
    NESTED,
    TABLES,
    Chunk,
    Ragged,
    ReadOptions,
    SeenIds,
    file_format,
    file_kind,
    read_all,
    read_chunks,
    step_text,
    to_offsets,
)
from seqattn.data.paths import file_series_names
from seqattn.data.regularize import regularize
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, block_slices, infer_spacing
from seqattn.data.store import SeriesStore
from seqattn.errors import DataError, NoRows

SORTED_ROWS = 2**20
"""Number of rows to sort at a time. A longer series is sorted as a whole."""


def make_read_options(config: OwnFile, *, sources_only: bool = False) -> ReadOptions:
    """Return the options for reading the files that a config refers to.

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
    return ReadOptions(
        format=config.format, layout=config.layout, delimiter=config.delimiter,
        comment=config.comment, encoding=config.encoding, has_header=config.header,
        skip_rows=config.skip_rows, decimal=config.decimal, thousands=config.thousands,
        na_values=None if config.na_values is None else tuple(config.na_values),
        time_format=config.time_format,
        series="auto" if config.series == ["auto"] else series,
        time="auto" if config.time == ["auto"] else time or None,
        group=config.group, ignore=tuple(config.ignore or ()), one_hot=tuple(config.one_hot or ()),
        features=None if requested is None else tuple(requested),
        source_and_target=None if sources_only else source_and_target,
    )  # fmt: skip


def read_series(
    path: str, files: Sequence[Path], config: OwnFile, roles: ColumnRoles | None = None
) -> Series:
    """Read the series from the files of a part.

    Args:
        path: the path as the user typed it.
        files: the files that the path refers to.
        config: the data section of the config.
        roles: roles of the columns in the training part, to read another part in the same way, or
            None to infer the roles.

    Raises:
        DataError: if the files cannot be used as the config specifies.
        StorageError: if the cache cannot be written or read.
    """
    options = replace(make_read_options(config), roles=roles)
    if config.cache == "always" or (config.cache == "auto" and is_large(files)):
        cache_key = f"{options!r} {config.missing} {config.window is None} {config.source_features}"
        cache_key += f" {config.target_features} {config.source_length or config.target_length}"
        cache_key += f" {file_series_names(path, files)}" if len(files) > 1 else ""
        return load_cached(files, cache_key, path,
            lambda store: _fill_store(store, path, files, options, config),
        )  # fmt: skip
    if len(files) == 1:
        chunk = read_all(files[0], options)
        series = regularize(chunk, str(files[0]), config, infer_spacing(chunk))
        return replace(series, digests={str(files[0]): file_digest(files[0])})
    store = SeriesStore()
    return store.series(path, _fill_store(store, path, files, options, config))


def _fill_store(
    store: SeriesStore, path: str, files: Sequence[Path], options: ReadOptions, config: OwnFile
) -> dict[str, str]:
    """Add all series of the files to a store, and return the SHA-256 digest of each file by file
    name."""
    read, seen, straddles = _FileReader(path, files, options), SeenIds(), False
    for file, chunk in read.chunks():
        repeated = seen.find_repeat(chunk.ids)
        if repeated is not None:
            if chunk.order is None:
                raise DataError(
                    f"{file}: its series {repeated!r} also has rows in another file, and there"
                    " is no time column, so the order of the rows is unknown. Name the time"
                    " column (data.time), or give each series a unique name."
                )
            straddles = True
            break
        store.add(regularize(chunk, str(file), config, infer_spacing(chunk)))
    if straddles:
        store.clear()
        with store.sibling() as raw:
            for file, chunk in read.chunks():
                raw.add(Series(str(file), chunk.ids, chunk.points, chunk.order, None, chunk.groups,
                               roles=chunk.roles))  # fmt: skip
            for chunk in _merge_series(raw.finish(path), path):
                store.add(regularize(chunk, path, config, infer_spacing(chunk)))
    if store.first is None:
        raise DataError(f"{path}: has no rows.")
    return {str(file): file_digest(file) for file in files}


def _merge_series(raw: Series, path: str) -> Iterator[Chunk]:
    """Merge series that extend over several files, and yield chunks of whole series with their rows
    in time order.

    Args:
        raw: series in which an id may occur several times, each time with different rows.
        path: path of the files, for messages.

    Raises:
        DataError: if a series has two rows with the same time, or belongs to two groups.
    """
    rank: dict[str, int] = {}
    series_index = np.array([rank.setdefault(name, len(rank)) for name in raw.ids])
    names, points, order = list(rank), raw.points, raw.order
    assert order is not None
    parts = np.argsort(series_index, kind="stable")
    sizes = np.bincount(series_index, weights=points.lengths).astype(np.int64)
    begins = np.searchsorted(series_index[parts], np.arange(len(names) + 1))
    for block in block_slices(sizes, SORTED_ROWS):
        chosen = parts[begins[block.start] : begins[block.stop]]
        rows = np.concatenate([np.arange(points.offsets[k], points.offsets[k + 1]) for k in chosen])
        of_row = np.repeat(series_index[chosen], points.lengths[chosen])
        rows = rows[np.lexsort((order[rows], of_row))]
        of_row = np.sort(of_row)
        yield _merge_block(raw, names, rows, of_row, block, path)


def _merge_block(
    raw: Series, names: list[str], rows: Integers, of_row: Integers, block: slice, path: str
) -> Chunk:
    assert raw.order is not None
    order, features = np.asarray(raw.order[rows]), raw.columns
    twice = np.flatnonzero((of_row[1:] == of_row[:-1]) & (order[1:] == order[:-1]))
    if twice.size:
        at = int(twice[0])
        raise DataError(
            f"{path}: the series {names[of_row[at]]!r} has two rows of {step_text(order[at])} in"
            " its files. Leave one of them out."
        )

    def where(row: int, feature: int) -> str:
        return (
            f"series {names[of_row[row]]!r} at {step_text(order[row])}, column"
            f" {features[feature]!r}"
        )

    offsets = to_offsets(np.bincount(of_row - block.start, minlength=block.stop - block.start))
    groups = None
    if raw.groups is not None:
        words: dict[str, str] = {}
        for name, word in zip(raw.ids, raw.groups, strict=True):
            if words.setdefault(name, word) != word:
                raise DataError(
                    f"{path}: the series {name!r} is of the groups {words[name]!r} and {word!r}."
                )
        groups = tuple(words[name] for name in names[block])
    points = Ragged(np.asarray(raw.points.values[rows]), offsets, features)
    return Chunk(tuple(names[block]), points, where, order=order, groups=groups, notes=raw.notes,
                 roles=raw.roles)  # fmt: skip


class _FileReader:
    """Reader of files that share one layout, which the first file determines.

    Args:
        path: the path as the user typed it.
        files: the files in the order in which they are read.
        options: the options for reading the files.
    """

    def __init__(self, path: str, files: Sequence[Path], options: ReadOptions) -> None:
        self.path, self.files, self.options = path, files, options
        self.called = dict(zip(files, file_series_names(path, files), strict=True))
        self.first: Chunk | None = None

    def chunks(self) -> Iterator[tuple[Path, Chunk]]:
        """Yield pairs (file, chunk) in order.

        Raises:
            DataError: if a file differs from the first file in its features, in the type of its
                times or in its separate targets.
        """
        for file in self.files:
            for chunk in self._read(file):
                if self.first is None:
                    self._set_layout(chunk)
                assert self.first is not None
                self._check_like_first(file, chunk, self.first)
                yield file, self._with_unique_names(file, chunk)

    def _check_like_first(self, file: Path, chunk: Chunk, first: Chunk) -> None:
        if chunk.points.features != first.points.features:
            raise DataError(
                f"{file}: has the features {', '.join(chunk.points.features)},"
                f" {self.files[0]} {', '.join(first.points.features)}."
            )
        for kind, mine, others in (
            ("steps", _describe_steps(chunk), _describe_steps(first)),
            ("targets", _describe_targets(chunk), _describe_targets(first)),
        ):
            if mine != others:
                raise DataError(
                    f"{file}: has {mine} where {self.files[0]} has {others}. The {kind} of all"
                    " files must be of one kind."
                )

    def _read(self, file: Path) -> Iterator[Chunk]:
        """Yield the chunks of a file. If there are several files, a file may have no rows."""
        try:
            yield from read_chunks(file, self.options)
        except NoRows:
            if len(self.files) == 1:
                raise

    def _set_layout(self, chunk: Chunk) -> None:
        self.first = chunk
        kind = file_format(self.files[0], self.options.format)
        if len(self.files) > 1 and kind not in ("npz", "npy") and not chunk.is_wide:
            if kind == "jsonl" and chunk.order is None and not chunk.style.series:
                return
            self.options = replace(
                self.options, layout="long", features=chunk.points.features,
                series=chunk.style.series, time=chunk.style.time or None,
            )  # fmt: skip

    def _with_unique_names(self, file: Path, chunk: Chunk) -> Chunk:
        """Make sequence names unique across several files without series ids.

        The only sequence in a chunk of a table gets the file name, and so does the only sequence in
        a chunk of a JSON Lines file if it is sequence 1. Otherwise, names that only count the
        sequences get the file name as a prefix.
        """
        if len(self.files) == 1 or chunk.style.series:
            return chunk
        called, ids = self.called[file], chunk.ids
        if len(chunk) == 1 and not chunk.is_wide:
            kind = file_kind(file, file_format(file, self.options.format))
            if kind in TABLES or (kind.startswith(NESTED) and ids == ("1",)):
                return replace(chunk, ids=(called,))
        first = int(ids[0]) if ids[0].isdecimal() else -1
        are_numbers = ids == tuple(str(first + k) for k in range(len(ids)))
        if not are_numbers and not chunk.is_wide:  # ids of wide tables are the numbers of rows
            return chunk
        return replace(chunk, ids=tuple(f"{called}:{name}" for name in ids))


def _describe_steps(chunk: Chunk) -> str:
    if chunk.order is None:
        return "no steps"
    return "dates as steps" if chunk.order.dtype.kind == "M" else "numbers as steps"


def _describe_targets(chunk: Chunk) -> str:
    return (
        "no separate targets"
        if chunk.target is None
        else (f"separate targets ({', '.join(chunk.target.features)})")
    )


def file_digest(file: Path) -> str:
    """Return the SHA-256 digest of the content of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
