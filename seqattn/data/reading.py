"""Functions that read series from one or more files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from seqattn.config import OwnFile
from seqattn.config.data import column_names
from seqattn.data.cache import is_large, load_cached
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.file_reader import FileReader
from seqattn.data.files import (
    Chunk,
    ReadOptions,
    SeenIds,
    read_all,
)
from seqattn.data.intervals import IntervalCounts
from seqattn.data.merging import merge_series
from seqattn.data.paths import file_series_names
from seqattn.data.regularize import regularize
from seqattn.data.series import Series, infer_spacing
from seqattn.data.store import SeriesStore
from seqattn.errors import DataError


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
    reader = FileReader(path, files, options)
    if not _add_chunks(store, reader.chunks, config):
        store.clear()
        with store.sibling() as raw:
            for file, chunk in reader.chunks():
                raw.add(Series(file, chunk.ids, chunk.points, chunk.order, None, chunk.groups,
                               notes=chunk.notes, roles=chunk.roles))  # fmt: skip
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
