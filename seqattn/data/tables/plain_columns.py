"""Reader of text columns that contain plain numbers or ISO dates. The first pass over the rows
gives these columns a type.

A sample of rows determines which columns may get a type. A column gets a type only if the type
preserves all information that later inference needs. All other columns remain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import literal
from seqattn.data.tables.names import SERIES_NAMES, fold_name
from seqattn.data.tables.numerals import THOUSANDS
from seqattn.data.tables.table import ROW, ROWS

if TYPE_CHECKING:
    import duckdb

SAMPLE_ROWS = 1000
"""Number of rows in the sample."""
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(THOUSANDS)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(([T ])\d{2}:\d{2}(:\d{2})?)?")
NOT_PLAIN = "'a cell is not plain'"
COMMA = "[0-9],|,[0-9]"
"""Pattern of a number that may have a decimal comma. If a text column contains a match, decimal
columns are read as text."""


@dataclass(frozen=True)
class PlainColumn:
    """The type of a plain column.

    Attributes:
        type: BIGINT, DOUBLE or TIMESTAMP.
        digits: for times, the number of characters in each cell.
        between: for times, the separator between date and time of day, or "" for dates alone.
    """

    type: str
    digits: int = 0
    between: str = ""

    def text(self, cell: str) -> str:
        """Return an SQL expression for the text of a typed cell, as it is in the file. For a
        decimal number, return an SQL expression for the canonical text instead."""
        if self.type != "TIMESTAMP":
            return f"CAST({cell} AS VARCHAR)"
        text = f"left(CAST({cell} AS VARCHAR), {self.digits})"
        return f"replace({text}, ' ', 'T')" if self.between == "T" else text

    def is_plain(self, cell: str, typed: str) -> str:
        """Return an SQL condition that is true if a cell is empty or a plain value of the type."""
        if self.type == "DOUBLE":  # the database would read 1_000 as a number
            return f"({cell} IS NULL OR isfinite({typed}) AND NOT contains({cell}, '_'))"
        same = f"{self.text(typed)} = {cell}"
        if self.type == "TIMESTAMP":  # the database would read infinity as a time
            same = f"isfinite({typed}) AND {same}"
        return f"({cell} IS NULL OR {same})"


def plain_columns(
    header: Sequence[str], rows: Sequence[Sequence[str | None]], options: ReadOptions
) -> dict[int, PlainColumn]:
    """Return the plain columns of a sample by column index. The result is empty if the options
    contain `na_values` or if the table has a single column."""
    if options.na_values or len(header) == 1:
        return {}
    series = () if options.series == "auto" else options.series
    named = {*series, *options.one_hot, options.group}
    found = {}
    for index, name in enumerate(header):
        words = [word for row in rows if (word := row[index]) is not None]
        is_name = index == 0 or name in named or fold_name(name) in SERIES_NAMES
        column = _plain_column(words, options, is_name)
        if column is not None:
            found[index] = column
    return found


def _plain_column(words: Sequence[str], options: ReadOptions, is_name: bool) -> PlainColumn | None:
    """Return the type of a column, or None if the column remains text.

    Args:
        words: cells of a sample.
        options: the options for reading the file.
        is_name: whether the exact text of the cells matters, as for the id 1.50.
    """
    if not words:
        return None
    if options.time_format is None and _TIME.fullmatch(words[0]):
        return _plain_time(words)
    if options.decimal == "," or options.thousands == ".":
        return None
    if all(map(_INTEGER.fullmatch, words)):
        return PlainColumn("BIGINT")
    if is_name or not all(map(_DECIMAL.fullmatch, words)):
        return None
    is_decimal = any("." in word for word in words) and any(float(w) % 1 for w in words)
    if options.decimal == "auto" and all(map(_THOUSANDS.fullmatch, words)):
        return None
    return PlainColumn("DOUBLE") if is_decimal else None


def _plain_time(words: Sequence[str]) -> PlainColumn | None:
    """Return the type of a column of times in a single format, or None for any other column."""
    found = {
        (len(word), time[2] or "") if (time := _TIME.fullmatch(word)) else None for word in words
    }
    one = found.pop()
    return None if found or one is None else PlainColumn("TIMESTAMP", *one)


def create_rows(
    connection: duckdb.DuckDBPyConnection, source: str, header: Sequence[str],
    options: ReadOptions | None,
) -> dict[int, PlainColumn]:  # fmt: skip
    """Create the table `ROWS` from a text file, in one pass if the sample is representative.

    Args:
        connection: connection to the database.
        source: SQL table expression for the rows as text, with the columns c0, c1, ...
        header: names of the columns.
        options: the options for reading the file, or None to keep all columns as text.

    Returns:
        the plain columns by column index.

    Raises:
        duckdb.Error: if the text cannot be read.
    """
    width, plain = len(header), dict[int, PlainColumn]()
    if options is not None:
        sample = connection.execute(f"SELECT * FROM {source} LIMIT {SAMPLE_ROWS}").fetchall()
        plain = plain_columns(header, sample, options)
    if not _try_create(connection, source, width, plain):
        plain = _check_all_rows(connection, source, plain)
        _try_create(connection, source, width, plain)
    decimals = [index for index, column in plain.items() if column.type == "DOUBLE"]
    texts = [f"c{index}" for index in range(width) if index not in plain]
    if decimals and texts:
        commas = " OR ".join(f"(contains({c}, ',') AND regexp_matches({c}, {literal(COMMA)}))"
                             for c in texts)  # fmt: skip
        (count,) = connection.execute(f"SELECT count(*) FILTER ({commas}) FROM {ROWS}").fetchall()[
            0
        ]
        if count:
            plain = {index: plain[index] for index in plain if index not in decimals}
            _try_create(connection, source, width, plain)
    return plain


def _try_create(
    connection: duckdb.DuckDBPyConnection, source: str, width: int, plain: dict[int, PlainColumn]
) -> bool:
    """Create the table if all cells of the plain columns are plain, and return whether they are."""
    import duckdb

    cells = [f"c{index}" for index in range(width)]
    for index, column in plain.items():
        is_plain, typed = column.is_plain(f"c{index}", f"v{index}"), f"v{index}"
        cells[index] = f"CASE WHEN {is_plain} THEN {typed} ELSE error({NOT_PLAIN}) END AS c{index}"
    try:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {ROWS} AS SELECT row_number() OVER () AS {ROW},"
            f" {', '.join(cells)} FROM {_cast_sql(source, plain)}"
        )
    except duckdb.InvalidInputException as error:
        if NOT_PLAIN.strip("'") not in str(error):
            raise
        return False
    return True


def _check_all_rows(
    connection: duckdb.DuckDBPyConnection, source: str, plain: dict[int, PlainColumn]
) -> dict[int, PlainColumn]:
    checks = ", ".join(
        f"bool_and(coalesce({column.is_plain(f'c{index}', f'v{index}')}, false))"
        for index, column in plain.items()
    )
    found = connection.execute(f"SELECT {checks} FROM {_cast_sql(source, plain)}").fetchall()[0]
    return {index: plain[index] for index, is_plain in zip(plain, found, strict=True) if is_plain}


def _cast_sql(source: str, plain: dict[int, PlainColumn]) -> str:
    """Return an SQL subquery that selects all columns of `source`, plus a column v{i} with the
    typed values of each plain column i."""
    typed = "".join(f", TRY_CAST(c{i} AS {column.type}) AS v{i}" for i, column in plain.items())
    return f"(SELECT *{typed} FROM {source})"
