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
from seqattn.data.tables.roles import Roles, infer_roles
from seqattn.data.tables.sentinels import ask_about_missing_values
from seqattn.data.tables.table import Table, typed_table
from seqattn.data.tables.text_format import TextFormat
from seqattn.data.tables.text_table import table_of_text
from seqattn.data.tables.tidy import tidied
from seqattn.data.tables.wide import Wide, wide_chunks, wide_layout
from seqattn.errors import DataError

DELIMITERS = {"tsv": "\t"}


@contextlib.contextmanager
def opened(path: Path, kind: str, options: ReadOptions) -> Iterator[Table]:
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
        with table_of_text(path, name, form, options) as table:
            tidied(table)
            yield table
        return
    with typed_table(path, name, kind) as table:
        tidied(table)
        yield table


def understand(table: Table, options: ReadOptions) -> Roles | Wide:
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
    ask_about_missing_values(table, roles, options)
    return roles


def chunks(
    table: Table, layout: Roles | Wide, options: ReadOptions, *, whole: bool
) -> Iterator[Chunk]:
    """The sequences of a table.

    Raises:
        DataError: see `understand`.
    """
    if isinstance(layout, Wide):
        return wide_chunks(table, layout, options)
    return long_chunks(table, layout, options, whole=whole)


def read_table(path: Path, kind: str, options: ReadOptions, *, whole: bool) -> Iterator[Chunk]:
    """The sequences of a table file.

    Args:
        whole: all as one piece.

    Raises:
        DataError, AmbiguousData: see `understand`.
    """
    with opened(path, kind, options) as table:
        options = for_file(table, options)
        yield from chunks(table, understand(table, options), options, whole=whole)


def for_file(table: Table, options: ReadOptions) -> ReadOptions:
    """Options whose features are called as in the file, where another name is as good.

    Raises:
        DataError: a feature is not there, and nothing can stand for it.
    """
    if (roles := options.roles) is not None:
        options = roles.with_decimal(options, table.delimiter)
        is_wide = wide_layout(table, options) is not None
        options = roles.applied(options, table.name, table.header, is_wide=is_wide)
    wanted = options.number_columns
    if not wanted or not options.may_rename or set(wanted) <= set(table.header):
        return options
    every = replace(options, features=None)
    layout = understand(table, every)
    if isinstance(layout, Wide):
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
