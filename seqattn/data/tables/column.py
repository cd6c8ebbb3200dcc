"""What a column of a table holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqattn.data.tables.table import ROW, ROWS, Table

NA_VALUES = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", ".", "missing")
"""What an empty cell holds in files of many programs; case does not matter."""
MIN_MATCHING_SHARE = 0.8
"""Share of a column's cells that must be numbers, or dates, for the others to be mistakes."""
Kind = Literal["number", "time", "words", "empty"]


@dataclass(frozen=True)
class Column:
    """
    Attributes:
        name: as it stands in the file.
        kind: what it holds.
        sql: the SQL of its values: DOUBLE, TIMESTAMP or VARCHAR, NULL where a cell is empty.
        text: the SQL of what stands in the file, NULL where a cell is empty.
        formats: of dates of a text; two where days and months could be either way round.
        zone: whether the times were of a zone, and are now UTC.
        bad: how many cells are not what the others are, and the row of the first.
        decimal, thousands: signs inside the numbers of a text.
        units: that stand behind its numbers, where they differ; it then holds words.
        either: a cell whose comma may stand before decimals or between thousands; else empty.
        note: what a user should be told.
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
    units: tuple[str, ...] = ()
    either: str = ""
    note: str = ""

    @property
    def empty_count(self) -> str:
        """The SQL of how many cells are empty, or not what the others are."""
        return f"count(*) - count({self.sql})"

    @property
    def broken_count(self) -> str:
        """The SQL of how many cells are no whole numbers."""
        return f"count(*) FILTER ({self.sql} IS NULL OR {self.sql} <> round({self.sql}))"

    @property
    def range(self) -> tuple[str, str]:
        """The SQL of the least and of the largest number."""
        return f"min({self.sql})", f"max({self.sql})"


def bad_cells(table: Table, text: str, sql: str) -> tuple[int, int]:
    """How many cells are not empty and not what they should be, and the row of the first."""
    wrong = f"{text} IS NOT NULL AND ({sql}) IS NULL"
    count, row = table.one(f"SELECT count(*), min({ROW}) FROM {ROWS} WHERE {wrong}")
    return count, row or 0
