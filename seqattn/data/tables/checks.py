"""Functions that find and describe invalid and empty cells in the columns of a table."""

from __future__ import annotations

from seqattn.data.files.columns import shorten
from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.column import Column
from seqattn.data.tables.numerals import allowed_numerals, is_decorated
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import AmbiguousData, DataError


def check_cells(table: Table, column: Column) -> None:
    """Check that a column has no invalid cells and no ambiguous commas or points.

    Raises:
        AmbiguousData: if a cell is neither empty nor a value of the same kind as most cells, or if
            the comma or the point in the numbers of the column may be a decimal mark or a thousands
            separator.
        DataError: if a cell repeats the name of the column, or is a number with a unit or in
            parentheses.
    """
    if column.either and column.decimal == ".":
        raise AmbiguousData(
            f"{table.name}: column {column.name!r} contains numbers such as {column.either!r}. The"
            " point can be a thousands separator or a decimal mark. Set"
            f" {setting('decimal', ',')} for thousands, or {setting('decimal', '.')} for decimals.",
            ({"decimal": ","}, {"decimal": "."}),
        )
    if column.either:
        raise AmbiguousData(
            f"{table.name}: column {column.name!r} contains numbers such as {column.either!r}. The"
            " comma can be a thousands separator or a decimal mark. Set"
            f" {setting('thousands', ',')} or {setting('decimal', ',')}.",
            ({"thousands": ","}, {"decimal": ","}),
        )
    count, row = column.bad
    if not count:
        return
    (text,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {row}")
    shown = shorten(text)
    place = f"{table.name}: {table.line(row)}, column {column.name!r} contains {shown!r}"
    if text == column.name:
        raise DataError(f"{place}, the name of the column. Remove this line.")
    if is_decorated(text):
        raise DataError(
            f"{place}. Write plain numbers, without units and with a minus sign instead of"
            " parentheses."
        )
    expected = "a number" if column.kind == "number" else "a date"
    more = f" (and {count - 1} more such cells)" if count > 1 else ""
    raise AmbiguousData(
        f"{place}, not {expected}{more}. Correct the cell, or declare it empty:"
        f" {setting('na_values', [shown])}; or leave the column out:"
        f" {setting('ignore', [column.name])}.",
        ({"na_values": text}, {"ignore": column.name}),
    )


def first_non_number(table: Table, column: Column, options: ReadOptions) -> str:
    """Describe the first nonempty, non-numeric cell of a column, and its location in the file."""
    text = column.text
    numerals = [f"({numeral.sql(text)}) IS NOT NULL" for numeral in allowed_numerals(options)]
    rows = table.query(
        f"SELECT {ROW}, {text} FROM {ROWS} WHERE {text} IS NOT NULL"
        f" ORDER BY {' OR '.join(numerals) or 'false'}, {ROW} LIMIT 1"
    )
    if not rows:
        return f"column {column.name!r} is empty"
    row, word = rows[0]
    return f"{table.line(row)}, column {column.name!r} contains {shorten(word)!r}, not a number"


def describe_empty_cells(table: Table, column: Column) -> str:
    """Return a note with the number of cells of a column that count as empty, and with some of
    their texts in the file, such as 'NA'. The note is "" if there are no empty cells."""
    (count,) = table.measure(column.empty_count)
    if not count:
        return ""
    shown = ", ".join(map(repr, table.empty_words.get(column.name, ())))
    holds = f" ({shown})" if shown else ""
    return f"{count:,} {'cell' if count == 1 else 'cells'} of {column.name!r} empty{holds}"
