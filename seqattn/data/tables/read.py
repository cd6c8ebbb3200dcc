"""Tables in CSV, TSV, JSON, Parquet and Arrow files, which are loaded into DuckDB.

A file becomes a `Table` with raw columns. Each column becomes a `Column` of numbers, times or
words. The columns determine a `LongLayout` or a `WideLayout`. The layout determines how the rows
become `Chunk` objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from seqattn.data.chunk import Chunk
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.reading import ReadOptions
from seqattn.data.tables.long import long_chunks
from seqattn.data.tables.roles import LongLayout, infer_roles
from seqattn.data.tables.sentinels import check_sentinels
from seqattn.data.tables.table import Table, clean_rows, open_text_table, typed_table
from seqattn.data.tables.text import TextFormat
from seqattn.data.tables.wide import WideLayout, wide_chunks, wide_layout
from seqattn.errors import DataError

DELIMITERS = {"tsv": "\t"}


@contextlib.contextmanager
def open_table(path: Path, kind: str, options: ReadOptions) -> Iterator[Table]:
    """Load a table file into DuckDB, and yield the table.

    Args:
        path: the file.
        kind: csv, tsv, json, jsonl, parquet or arrow.
        options: the options for reading the file.

    Raises:
        DataError: if the file cannot be read.
    """
    name = str(path)
    if kind in ("csv", "tsv"):
        form = TextFormat.of_file(path, options, DELIMITERS.get(kind))
        with open_text_table(path, name, form) as table:
            clean_rows(table)
            yield table
        return
    with typed_table(path, name, kind) as table:
        clean_rows(table)
        yield table


def infer_layout(table: Table, options: ReadOptions) -> LongLayout | WideLayout:
    """Infer the layout of a table.

    The result contains the roles of the columns if each row is a step, and the columns of the steps
    if each row is a sequence.

    Raises:
        DataError: if a column is missing or a cell is invalid.
        AmbiguousData: if the table can be read in several plausible ways.
    """
    wide = wide_layout(table, options)
    if wide is not None:
        return wide
    roles = infer_roles(table, options)
    features = {f"column {name!r}": [roles.columns[name]] for name in roles.features}
    check_sentinels(table, features, options)
    return roles


def table_chunks(
    table: Table, layout: LongLayout | WideLayout, options: ReadOptions, *, whole: bool
) -> Iterator[Chunk]:
    """Yield the sequences of a table in chunks.

    Raises:
        DataError: if a column is missing or a cell is invalid.
    """
    if isinstance(layout, WideLayout):
        return wide_chunks(table, layout, options)
    return long_chunks(table, layout, options, whole=whole)


def read_table(path: Path, kind: str, options: ReadOptions, *, whole: bool) -> Iterator[Chunk]:
    """Yield the sequences of a table file in chunks.

    Args:
        path: the file.
        kind: format of the file.
        options: the options for reading the file.
        whole: whether to yield all sequences of a long table as one chunk.

    Raises:
        DataError: if the file cannot be read, a column is missing or a cell is invalid.
        AmbiguousData: if the table can be read in several plausible ways.
    """
    with open_table(path, kind, options) as table:
        options = match_feature_names(table, options)
        yield from table_chunks(table, infer_layout(table, options), options, whole=whole)


def check_layout(table: Table, options: ReadOptions, roles: ColumnRoles) -> None:
    """Check that a table is not wide if the training table was long and the user set its layout.

    Raises:
        DataError: if the table is wide.
    """
    if options.layout != "long" or {*roles.series, *roles.time} <= set(table.header):
        return
    if wide_layout(table, replace(options, layout="auto", series="auto", features=None)):
        raise DataError(
            f"{table.name}: each row is a sequence, but in the training table each row was a step."
            " Set data.layout to wide (--set data.layout=wide)."
        )


def match_feature_names(table: Table, options: ReadOptions) -> ReadOptions:
    """Return the options with the roles of the training table, if these roles are known, and with
    the feature names of the file. If `may_rename` is set, these names may differ from the requested
    names.

    Raises:
        DataError: if a feature is missing and no column can replace it.
    """
    if (roles := options.roles) is not None:
        options = roles.with_decimal(options, table.delimiter)
        check_layout(table, options, roles)
        is_wide = wide_layout(table, options) is not None
        options = roles.apply_to(options, table.name, table.header, is_wide=is_wide)
    requested = options.number_columns
    if not requested or not options.may_rename or set(requested) <= set(table.header):
        return options
    every = replace(options, features=None)
    layout = infer_layout(table, every)
    if isinstance(layout, WideLayout):
        return options
    available = layout.features
    if len(available) == len(requested) and not set(available) & set(requested):
        names = f"{', '.join(available)} are read as {', '.join(requested)}"
        table.notes.append(f"{names}, in this order")
        words = [name for name in options.features or () if name not in requested]
        return replace(options, features=(*available, *words))
    missing = next(name for name in requested if name not in table.header)
    raise DataError(
        f"{table.name}: no column {missing!r}; found {', '.join(table.header[:12])}. Needed are"
        f" {', '.join(requested)}. Rename the columns in the file."
    )
