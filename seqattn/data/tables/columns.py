"""The columns of a table: their usual names, whether they contain numbers, times or words, and SQL
that casts them.

Each notation of numbers (decimal mark and thousands separator) has a pattern. The pattern that
matches the most cells of a text column determines the notation of the column. If the comma or the
point in these cells can be a decimal mark or a thousands separator, the column is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from seqattn.data.reading import Reading, join_names, setting, shorten
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import AmbiguousData, DataError

MIN_MATCHING_SHARE = 0.8
"""Minimum fraction of numbers (or dates) in a column at which all other cells count as errors."""
SAMPLE_ROWS = 1000
"""Number of rows in a sample. A text column usually contains words if no cell of the sample looks
like a number or a date."""
Kind = Literal["number", "time", "words", "empty"]


class Reason(Enum):
    """Reasons to leave out a column of a long table. The values are the texts of notes, in which
    braces stand for a detail."""

    BY_USER = "by data.ignore"
    NOT_REQUESTED = "it is not among data.features"
    EMPTY = "it is empty"
    CONSTANT = "it is constant"
    CONSTANT_IN_SERIES = "it is constant in each series"
    INDEX = "it numbers the rows, as an index column does"
    COUNTER = "it numbers the rows: it grows by one in every row"
    DATES = "it contains dates"
    OTHER_DATES = "it contains dates, and {!r} is the time"
    TYPE = "contains {}"
    WORDS = "it contains words; for a feature of 0 and 1 for each word: {}"
    SAME_WORDS = (
        "it contains words, the same in each series; for a feature of 0 and 1 for each word: {}"
    )
    SAME_WORD = (
        "it contains words, the same in every row; for a feature of 0 and 1 for each word: {}"
    )


OF_ONE_FILE = {Reason.EMPTY, Reason.CONSTANT, Reason.CONSTANT_IN_SERIES, Reason.SAME_WORD}
"""Reasons that may apply to one file only."""


class LeftOutColumn(NamedTuple):
    """The reason to leave out a column, with the detail in its text."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return self.reason.value.format(self.detail)


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
        empty_words: up to three different texts of cells that count as empty, such as "NA".
        type: type of the database for a column that is neither numbers, times nor text, or "".
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
    empty_words: tuple[str, ...] = ()
    type: str = ""

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


EXPONENT = r"([eE][+-]?\d+)?"
SPACE_SIGNS = "[ \u00a0\u202f\u2009]"
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
            sign = SPACE_SIGNS if self.thousands == " " else re.escape(self.thousands)
            plain = rf"\d{{1,3}}({sign}\d{{3}})+({mark}\d*)?|{plain}"
        return rf"[+-]?({plain}){EXPONENT}"

    def sql(self, text: str) -> str:
        """Return SQL that casts a cell to DOUBLE, and gives NULL for a cell in another notation."""
        digits = text
        if self.thousands == " ":
            digits = f"regexp_replace({digits}, {literal(SPACE_SIGNS)}, '', 'g')"
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


def allowed_numerals(reading: Reading) -> Iterator[Numeral]:
    """Yield the notations that the reading allow."""
    for numeral in NUMERALS:
        if reading.decimal not in ("auto", numeral.decimal):
            continue
        if reading.thousands is None and numeral.thousands:
            continue
        if reading.thousands not in (None, "auto", numeral.thousands):
            continue
        yield numeral


def find_numeral(
    table: Table, text: str, n: int, reading: Reading, min_share: float
) -> tuple[Numeral, str] | None:
    """Detect the notation of the numbers of a column. Return None if too few cells are numbers.

    Returns:
        the notation, and a cell that another notation reads as another number, or "".

    Args:
        table: the rows.
        text: SQL expression for the cells.
        n: number of cells that are not empty.
        reading: how to read the table.
        min_share: minimum fraction of the cells that must be numbers.
    """
    numerals = list(allowed_numerals(reading))
    counts = table.one(
        "SELECT "
        + ", ".join(f"count({numeral.sql(text)})" for numeral in numerals)
        + f" FROM {ROWS} WHERE {text} IS NOT NULL"
    )
    best_count = max(counts, default=0)
    if not numerals or best_count < min_share * n or best_count == 0:
        return None
    best, example = numerals[counts.index(best_count)], ""
    by_numeral = dict(zip(numerals, counts, strict=True))
    if best == PLAIN:
        example = ambiguous_point(table, text, reading)
    elif best == Numeral(",", "") and by_numeral.get(Numeral(".", ",")) == best_count:
        (example,) = table.one(f"SELECT any_value({text}) FROM {ROWS} WHERE contains({text}, ',')")
    return best, example or ""


def ambiguous_point(table: Table, text: str, reading: Reading) -> str:
    """Return a cell with a point that may be a decimal mark or a thousands separator, or "" if the
    points of the column are certainly decimal marks.

    A column of fixed decimals such as 12.500 has a point in every cell. Thousands separators are
    therefore possible only if the points are missing below 1000, or if semicolons separate the
    cells, as in files with decimal commas.

    Args:
        table: the rows.
        text: SQL expression for the cells.
        reading: how to read the table.
    """
    if GERMAN not in allowed_numerals(reading):
        return ""
    may_fit = f"bool_and(regexp_full_match({text}, {literal(THOUSANDS)}))"
    if table.one(f"SELECT {may_fit} FROM (FROM {ROWS} LIMIT {SAMPLE_ROWS})")[0] is False:
        return ""  # this quick check is enough for most columns
    (example,) = table.one(f"SELECT arg_min({text}, {ROW}) FROM {ROWS} WHERE contains({text}, '.')")
    if not example:
        return ""
    fits, is_large = table.one(
        f"SELECT {may_fit}, bool_or(regexp_full_match({text}, '[+-]?[1-9][0-9]{{2}}')) FROM {ROWS}"
    )
    return example if fits and (is_large or table.delimiter == ";") else ""


def is_decorated(word: str) -> bool:
    """Return whether a cell is a number with a unit, or a negative number in parentheses."""
    match = DECORATED.fullmatch(word)
    return match is not None and any((match[1], match[3], match[4]))


def decorated_example(sample: Sequence[str]) -> str:
    """Return a cell that is a number with a unit or in parentheses if at least four fifths of the
    cells are numbers, with or without these. Otherwise, return ""."""
    numbers = sum(DECORATED.fullmatch(word) is not None for word in sample)
    return next(filter(is_decorated, sample), "") if 5 * numbers >= 4 * len(sample) else ""


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


def first_non_number(table: Table, column: Column, reading: Reading) -> str:
    """Describe the first nonempty, non-numeric cell of a column, and its location in the file."""
    text = column.text
    numerals = [f"({numeral.sql(text)}) IS NOT NULL" for numeral in allowed_numerals(reading)]
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
    shown = ", ".join(map(repr, column.empty_words))
    holds = f" ({shown})" if shown else ""
    return f"{count:,} {'cell' if count == 1 else 'cells'} of {column.name!r} empty{holds}"


def shown_decimal(table: Table, numbers: Sequence[Column]) -> str:
    """Return the decimal mark of a text file, or "auto" if its numbers have no decimals."""
    if any(column.decimal == "," for column in numbers):
        return ","
    if not table.is_text or not numbers:
        return "auto"
    conditions = " OR ".join(f"{column.sql} <> round({column.sql})" for column in numbers)
    found = table.one(f"SELECT EXISTS (SELECT 1 FROM {ROWS} WHERE {conditions})")
    return "." if found[0] else "auto"


SERIES_NAMES = (
    "unique_id", "series_id", "series", "sequence_id", "sequence", "seq", "ts_id", "item_id", "id",
    "utterance", "trip_id", "trip", "track_id", "track", "trajectory", "session_id", "session",
    "subject", "patient", "participant", "trial", "episode", "run", "sample", "store", "item",
    "dept", "sku", "product", "ticker", "symbol", "station", "sensor_id", "sensor", "device_id",
    "device", "meter", "user_id", "user", "customer", "country", "region", "city", "site", "name",
)  # fmt: skip
"""Usual names of series ids, the least ambiguous first."""
SURE_SERIES = 9  # number of names at the start of the list that are unambiguous
BLOCK_SERIES = 24  # number of names that indicate series ids if the rows of each id are contiguous
TIME_NAMES = (
    "ds", "timestamp", "datetime", "date_time", "date", "time", "step", "time_step", "timestep",
    "frame", "time_idx", "t", "tick", "period", "year_week", "yearweek", "iso_week", "isoweek",
    "epiweek", "year_month", "yearmonth", "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "epoch", "index", "idx",
)  # fmt: skip
"""Usual names of time columns, the least ambiguous first."""
SURE_TIMES = 9  # number of names at the start of the list that are unambiguous


def fold_name(name: str) -> str:
    """Convert a column name to the form of the usual names."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def known_names(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the columns with a usual name, the least ambiguous first.

    Args:
        names: names of columns.
        known: usual names, such as `SERIES_NAMES`.
    """
    ranks = {name: rank for rank, name in enumerate(known)}
    found = [name for name in names if fold_name(name) in ranks]
    return sorted(found, key=lambda name: ranks[fold_name(name)])


def check_names(table: Table, names: Sequence[str], config_keys: str) -> None:
    """Check that columns exist.

    Args:
        table: the table to search.
        names: names of the columns.
        config_keys: config keys that contain these names, for the message.

    Raises:
        DataError: if a column is missing.
    """
    for name in names:
        if name not in table.header:
            raise DataError(
                f"{table.name}: no column {name!r} ({config_keys}); found"
                f" {join_names(table.header)}."
            )
