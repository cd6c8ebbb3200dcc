"""Tables: CSV, TSV, JSON records, Parquet and Arrow, read by DuckDB.

file -> Table (columns as they stand) -> Column (numbers, times, words) -> Roles -> Piece
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from seqattn.data.files.chunk import Chunk
from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.long import long_chunks
from seqattn.data.tables.roles import LongLayout, infer_roles
from seqattn.data.tables.sentinels import check_sentinels
from seqattn.data.tables.table import Table, typed_table
from seqattn.data.tables.text_format import TextFormat
from seqattn.data.tables.text_table import open_text_table
from seqattn.data.tables.tidy import clean_rows
from seqattn.data.tables.wide import WideLayout, wide_chunks, wide_layout
from seqattn.errors import DataError

DELIMITERS = {"tsv": "\t"}


@contextlib.contextmanager
def open_table(path: Path, kind: str, options: ReadOptions) -> Iterator[Table]:
    """A table file in a database.

    Args:
        kind: csv, tsv, json, jsonl, parquet or arrow.

    Raises:
        DataError: it cannot be read as such.
    """
    name = str(path)
    if kind in ("csv", "tsv"):
        form = TextFormat.of_file(path, options, DELIMITERS.get(kind))
        if options.roles is not None:
            options = options.roles.with_decimal(options, form.delimiter)
        with open_text_table(path, name, form, options) as table:
            clean_rows(table)
            yield table
        return
    with typed_table(path, name, kind) as table:
        clean_rows(table)
        yield table


def infer_layout(table: Table, options: ReadOptions) -> LongLayout | WideLayout:
    """How a table is read: the roles of its columns where a row is a point, or its steps where a
    row is a sequence.

    Raises:
        DataError: a column is missing, or a cell is not what it should be.
        AmbiguousData: two readings are plausible.
    """
    wide = wide_layout(table, options)
    if wide is not None:
        return wide
    roles = infer_roles(table, options)
    check_sentinels(table, roles, options)
    return roles


def table_chunks(
    table: Table, layout: LongLayout | WideLayout, options: ReadOptions, *, whole: bool
) -> Iterator[Chunk]:
    """The sequences of a table.

    Raises:
        DataError: see `infer_layout`.
    """
    if isinstance(layout, WideLayout):
        return wide_chunks(table, layout, options)
    return long_chunks(table, layout, options, whole=whole)


def read_table(path: Path, kind: str, options: ReadOptions, *, whole: bool) -> Iterator[Chunk]:
    """The sequences of a table file.

    Args:
        whole: all as one piece.

    Raises:
        DataError, AmbiguousData: see `infer_layout`.
    """
    with open_table(path, kind, options) as table:
        options = match_feature_names(table, options)
        yield from table_chunks(table, infer_layout(table, options), options, whole=whole)


def match_feature_names(table: Table, options: ReadOptions) -> ReadOptions:
    """Options whose features are called as in the file, where another name is as good.

    Raises:
        DataError: a feature is not there, and nothing can stand for it.
    """
    if (roles := options.roles) is not None:
        options = roles.with_decimal(options, table.delimiter)
        is_wide = wide_layout(table, options) is not None
        options = roles.apply_to(options, table.name, table.header, is_wide=is_wide)
    wanted = options.number_columns
    if not wanted or not options.may_rename or set(wanted) <= set(table.header):
        return options
    every = replace(options, features=None)
    layout = infer_layout(table, every)
    if isinstance(layout, WideLayout):
        return options
    found = layout.features
    if len(found) == len(wanted) and not set(found) & set(wanted):
        table.notes.append(f"{', '.join(found)} are read as {', '.join(wanted)}, in this order")
        words = [name for name in options.features or () if name not in wanted]
        return replace(options, features=(*found, *words))
    missing = next(name for name in wanted if name not in table.header)
    raise DataError(
        f"{table.name}: no column {missing!r}; found {', '.join(table.header[:12])}. Needed are"
        f" {', '.join(wanted)}. Rename the columns in the file."
    )
