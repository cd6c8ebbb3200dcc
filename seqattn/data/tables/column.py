"""A column of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqattn.data.tables.table import ROW, ROWS, Table

NA_VALUES = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", ".", "missing")
"""Common contents of empty cells, in lower case. The comparison ignores case."""
MIN_MATCHING_SHARE = 0.8
"""Minimum fraction of numbers (or dates) in a column at which all other cells count as errors."""
Kind = Literal["number", "time", "words", "empty"]


@dataclass(frozen=True)
class Column:
    """The inferred kind of a column, and the SQL that casts the column.

    Attributes:
        name: name of the column in the file.
        kind: "number", "time", "words" or "empty".
        sql: SQL expression for the values, of type DOUBLE, TIMESTAMP or VARCHAR; an empty cell is
            NULL.
        text: SQL expression for the text in the file; an empty cell is NULL.
        formats: `strftime` formats of dates in a text file, or ("quarters",) for quarters. There
            are several formats if the order of day, month and year is ambiguous.
        zone: whether the times in the file have a time zone. Such times are converted to UTC.
        bad: number of invalid cells, and the row of the first invalid cell.
        decimal: decimal mark in a text file.
        thousands: thousands separator in a text file, or "" for no separator.
        decorated: a cell that is a number with a unit or in parentheses, if most cells are numbers.
            The column then contains words.
        either: a cell with a comma or point that may be a decimal mark or a thousands separator, or
            "".
        note: a note for the user.
    """

    name: str
    kind: Kind
    sql: str
    text: str
    formats: tuple[str, ...] = ()
    zone: bool = False
    bad: tuple[int, int] = (0, 0)
    decimal: str = "."
    thousands: str = ""
    decorated: str = ""
    either: str = ""
    note: str = ""

    @property
    def empty_count(self) -> str:
        """SQL expression that counts the empty or invalid cells."""
        return f"count(*) - count({self.sql})"

    @property
    def broken_count(self) -> str:
        """SQL expression that counts the cells that are not integers."""
        return f"count(*) FILTER ({self.sql} IS NULL OR {self.sql} <> round({self.sql}))"

    @property
    def range(self) -> tuple[str, str]:
        """SQL expressions for the smallest and the largest number."""
        return f"min({self.sql})", f"max({self.sql})"


def bad_cells(table: Table, text: str, sql: str) -> tuple[int, int]:
    """Return the number of cells that are neither empty nor castable, and the row of the first such
    cell. The row is 0 if there are no such cells."""
    wrong = f"{text} IS NOT NULL AND ({sql}) IS NULL"
    count, row = table.one(f"SELECT count(*), min({ROW}) FROM {ROWS} WHERE {wrong}")
    return count, row or 0
