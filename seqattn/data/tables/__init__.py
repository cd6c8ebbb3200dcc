"""Tables: CSV, TSV, JSON records, Parquet and Arrow, read by DuckDB.

file -> Table (columns as they stand) -> Column (numbers, times, words) -> Roles -> Piece
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
        with table_of_text(path, name, form, options) as table:
            tidied(table)
            yield table
        return
    with typed_table(path, name, kind) as table:
        tidied(table)
        yield table


@dataclass(frozen=True)
class Understood:
    """How a table is read: one of the two is None.

    Attributes:
        roles: of a table with a point a row.
        wide: of a table with a sequence a row.
    """

    roles: Roles | None
    wide: Wide | None


def understand(table: Table, options: ReadOptions) -> Understood:
    """
    Raises:
        DataError: a column is missing, or a cell is not what it should be.
        AmbiguousData: two readings are plausible.
    """
    wide = wide_layout(table, options)
    if wide is not None:
        return Understood(None, wide)
    roles = infer_roles(table, options)
    ask_about_missing_values(table, roles, options)
    return Understood(roles, None)


def chunks(
    table: Table, understood: Understood, options: ReadOptions, *, whole: bool
) -> Iterator[Chunk]:
    """The sequences of a table.

    Raises:
        DataError: see `understand`.
    """
    if understood.wide is not None:
        yield from wide_chunks(table, understood.wide, options)
        return
    assert understood.roles is not None
    yield from long_chunks(table, understood.roles, options, whole=whole)


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
    wanted = options.number_columns
    if not wanted or not options.may_rename or set(wanted) <= set(table.header):
        return options
    every = replace(options, features=None)
    understood = understand(table, every)
    if understood.wide is not None:
        return options
    assert understood.roles is not None
    found = understood.roles.features
    if len(found) == len(wanted) and not set(found) & set(wanted):
        table.notes.append(f"{', '.join(found)} are read as {', '.join(wanted)}, in this order")
        words = [name for name in options.features or () if name not in wanted]
        return replace(options, features=(*found, *words))
    missing = next(name for name in wanted if name not in table.header)
    raise DataError(
        f"{table.name}: no column {missing!r}; found {', '.join(table.header[:12])}. Needed are"
        f" {', '.join(wanted)}."
    )
