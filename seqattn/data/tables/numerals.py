"""Detection of the notation of numbers in a text file: decimal mark and thousands separator.

Each notation has a pattern. The pattern that matches the most cells of a column determines the
notation of the column. If the comma or the point in these cells can be a decimal mark or a
thousands separator, the column is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROW, ROWS, Table

EXPONENT = r"([eE][+-]?\d+)?"
SPACES = "[ \u00a0\u202f\u2009]"
DECORATED = re.compile(
    r"([$€£¥]?)\s?[+-]?[\d.,' \u00a0\u202f]*\d[\d.,]*" + EXPONENT + r"\s?([^\d\s.,+-][^\d]*|)"
    r"|(\()\s?[^()+-]*\d[^()]*\)"
)
"""Pattern of a number, which may have a unit, or parentheses instead of a minus sign."""
THOUSANDS = r"[+-]?(0|[1-9]\d{0,2}(\.\d{3})?)"
"""Pattern of a number whose point, if it has one, may be a thousands separator."""


@dataclass(frozen=True)
class Numeral:
    """A notation of numbers.

    Attributes:
        decimal: decimal mark.
        thousands: thousands separator, or "" for no separator.
    """

    decimal: str
    thousands: str

    @property
    def pattern(self) -> str:
        """Regular expression that matches a number in this notation."""
        mark = re.escape(self.decimal)
        plain = rf"\d+({mark}\d*)?|{mark}\d+"
        if self.thousands:
            sign = SPACES if self.thousands == " " else re.escape(self.thousands)
            plain = rf"\d{{1,3}}({sign}\d{{3}})+({mark}\d*)?|{plain}"
        return rf"[+-]?({plain}){EXPONENT}"

    def sql(self, text: str) -> str:
        """Return SQL that casts a cell to DOUBLE, and gives NULL for a cell in another notation."""
        digits = text
        if self.thousands == " ":
            digits = f"regexp_replace({digits}, {literal(SPACES)}, '', 'g')"
        elif self.thousands:
            digits = f"replace({digits}, {literal(self.thousands)}, '')"
        if self.decimal == ",":
            digits = f"replace({digits}, ',', '.')"
        guard = f"regexp_full_match({text}, {literal(self.pattern)})"
        return f"CASE WHEN {guard} THEN TRY_CAST({digits} AS DOUBLE) END"

    @property
    def note(self) -> str:
        """A note for the user, which is "" for the plain notation."""
        phrases = [f"{self.decimal!r} is the decimal mark"] if self.decimal != "." else []
        phrases += [f"{self.thousands!r} the thousands separator"] if self.thousands else []
        return " and ".join(phrases)


PLAIN = Numeral(".", "")
GERMAN = Numeral(",", ".")
NUMERALS = (
    PLAIN, Numeral(",", ""), Numeral(".", ","), GERMAN, Numeral(".", " "),
    Numeral(",", " "), Numeral(".", "'"),
)  # fmt: skip


@dataclass(frozen=True)
class NumeralMatch:
    """The notation of the numbers of a column.

    Attributes:
        numeral: the notation.
        other: another notation that matches and gives different numbers, or None.
        example: an ambiguous cell, or "" if `other` is None.
    """

    numeral: Numeral
    other: Numeral | None = None
    example: str = ""


def allowed_numerals(options: ReadOptions) -> Iterator[Numeral]:
    """Yield the notations that the options allow."""
    for numeral in NUMERALS:
        if options.decimal not in ("auto", numeral.decimal):
            continue
        if options.thousands is None and numeral.thousands:
            continue
        if options.thousands not in (None, "auto", numeral.thousands):
            continue
        yield numeral


def find_numeral(
    table: Table, text: str, n: int, options: ReadOptions, min_share: float
) -> NumeralMatch | None:
    """Detect the notation of the numbers of a column. Return None if too few cells are numbers.

    Args:
        table: the rows.
        text: SQL expression for the cells.
        n: number of cells that are not empty.
        options: the options for reading the table.
        min_share: minimum fraction of the cells that must be numbers.
    """
    numerals = list(allowed_numerals(options))
    counts = table.one(
        "SELECT "
        + ", ".join(f"count({numeral.sql(text)})" for numeral in numerals)
        + f" FROM {ROWS} WHERE {text} IS NOT NULL"
    )
    best_count = max(counts, default=0)
    if not numerals or best_count < min_share * n or best_count == 0:
        return None
    best = numerals[counts.index(best_count)]
    if best == PLAIN and (point := ambiguous_point(table, text, options)):
        return NumeralMatch(best, GERMAN, point)
    other = None
    if best == Numeral(",", "") and Numeral(".", ",") in numerals:
        american = Numeral(".", ",")
        if counts[numerals.index(american)] == best_count:
            other = american
    (example,) = (
        table.one(f"SELECT any_value({text}) FROM {ROWS} WHERE contains({text}, ',')")
        if other
        else ("",)
    )
    return NumeralMatch(best, other, example or "")


def ambiguous_point(table: Table, text: str, options: ReadOptions) -> str:
    """Return a cell with a point that may be a decimal mark or a thousands separator, or "" if the
    points of the column are certainly decimal marks.

    A column of fixed decimals such as 12.500 has a point in every cell. Thousands separators are
    therefore possible only if the points are missing below 1000, or if semicolons separate the
    cells, as in files with decimal commas.

    Args:
        table: the rows.
        text: SQL expression for the cells.
        options: the options for reading the table.
    """
    if GERMAN not in allowed_numerals(options):
        return ""
    example, fits, is_large = table.one(
        f"SELECT arg_min({text}, {ROW}) FILTER (contains({text}, '.')),"
        f" bool_and(regexp_full_match({text}, {literal(THOUSANDS)})),"
        f" bool_or(regexp_full_match({text}, '[+-]?[1-9][0-9]{{2}}')) FROM {ROWS}"
    )
    return example if example and fits and (is_large or table.delimiter == ";") else ""


def is_decorated(word: str) -> bool:
    """Return whether a cell is a number with a unit, or a negative number in parentheses."""
    match = DECORATED.fullmatch(word)
    return match is not None and any((match[1], match[3], match[4]))


def decorated_example(sample: Sequence[str]) -> str:
    """Return a cell that is a number with a unit or in parentheses if at least four fifths of the
    cells are numbers, with or without these. Otherwise, return ""."""
    numbers = sum(DECORATED.fullmatch(word) is not None for word in sample)
    return next(filter(is_decorated, sample), "") if 5 * numbers >= 4 * len(sample) else ""
