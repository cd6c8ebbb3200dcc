"""Cells that are not what the others of their column are, and empty ones."""

from __future__ import annotations

import shlex

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.column import Column
from seqattn.data.tables.numerals import allowed_numerals
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import AmbiguousData


def check_cells(table: Table, column: Column) -> None:
    """
    Raises:
        AmbiguousData: a cell of a column is not what the others are, or its commas may stand
            before decimals or between thousands.
    """
    if column.either:
        raise AmbiguousData(
            f"{table.name}: column {column.name!r} holds {column.either!r} and the like, where the"
            " comma may stand between thousands or before decimals. Say which: data.thousands: ','"
            " or data.decimal: ',' (in data check: --thousands , or --decimal ,).",
            ({"thousands": ","}, {"decimal": ","}),
        )
    count, row = column.bad
    if not count:
        return
    (text,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {row}")
    shown = shortened(text)
    what = "a number" if column.kind == "number" else "a date"
    more = f", and {count - 1} more cells hold none" if count > 1 else ""
    raise AmbiguousData(
        f"{table.name}: {table.line(row)}, column {column.name!r} holds {shown!r}, not"
        f" {what}{more}. Correct the cell, or say that it is an empty one:"
        f" data.na_values: [{shown!r}] (in data check: --na {shlex.quote(shown)}); or"
        " leave the column out: --ignore"
        f" {shlex.quote(column.name)}.",
        ({"na_values": text}, {"ignore": column.name}),
    )


def first_non_number(table: Table, column: Column, options: ReadOptions) -> str:
    """Where a column of words has the first that is no number."""
    text = column.text
    ways = [f"({way.sql(text)}) IS NOT NULL" for way in allowed_numerals(options)]
    found = table.query(
        f"SELECT {ROW}, {text} FROM {ROWS} WHERE {text} IS NOT NULL"
        f" ORDER BY {' OR '.join(ways) or 'false'}, {ROW} LIMIT 1"
    )
    if not found:
        return f"column {column.name!r} is empty"
    row, word = found[0]
    return f"{table.line(row)}, column {column.name!r} holds {shortened(word)!r}, not a number"


def shortened(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}..."


def describe_empty_cells(table: Table, column: Column) -> str:
    """How many cells of a column are empty, and what stands in them; empty: none is."""
    (count,) = table.measure(column.empty_count)
    if not count:
        return ""
    shown = ", ".join(map(repr, table.empty_words.get(column.name, ())))
    holds = f" ({shown})" if shown else ""
    return f"{count:,} {'cell' if count == 1 else 'cells'} of {column.name!r} empty{holds}"
