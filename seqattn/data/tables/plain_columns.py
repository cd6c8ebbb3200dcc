"""Columns of a text that hold plain numbers or ISO dates: read as such in the first pass.

A few rows show which columns may be plain. A column is read with its type only if every cell is
written so that the type loses nothing that a question could be about; all others stay text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import literal
from seqattn.data.tables.names import SERIES_NAMES, fold_name
from seqattn.data.tables.table import ROW, ROWS

if TYPE_CHECKING:
    import duckdb

SAMPLE_ROWS = 1000
"""Rows that show what a column may hold."""
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(([T ])\d{2}:\d{2}(:\d{2})?)?")
NOT_PLAIN = "'a cell is not plain'"
COMMA = "[0-9],|,[0-9]"
"""A number that may have a decimal comma: other numbers are then looked at again, as text."""


@dataclass(frozen=True)
class PlainColumn:
    """How a column of a text is read with a type.

    Attributes:
        type: BIGINT, DOUBLE or TIMESTAMP.
        digits: of times: characters of each cell.
        between: of times: what separates day and hour; empty: there is no hour.
    """

    type: str
    digits: int = 0
    between: str = ""

    def text(self, cell: str) -> str:
        """The SQL of what stands in the file, of a cell with the type; of a decimal number, of
        one text for each number."""
        if self.type != "TIMESTAMP":
            return f"CAST({cell} AS VARCHAR)"
        text = f"left(CAST({cell} AS VARCHAR), {self.digits})"
        return f"replace({text}, ' ', 'T')" if self.between == "T" else text

    def is_plain(self, cell: str, typed: str) -> str:
        """The SQL of whether a text can be read with the type; NULL where the cell is empty."""
        if self.type == "DOUBLE":  # the database takes 1_000 for a number
            return f"({cell} IS NULL OR isfinite({typed}) AND NOT contains({cell}, '_'))"
        same = f"{self.text(typed)} = {cell}"
        if self.type == "TIMESTAMP":  # the database takes infinity for a time
            same = f"isfinite({typed}) AND {same}"
        return f"({cell} IS NULL OR {same})"


def plain_columns(
    header: Sequence[str], rows: Sequence[Sequence[str | None]], options: ReadOptions
) -> dict[int, PlainColumn]:
    """The columns, by place, that first rows show as plain."""
    if options.na_values or len(header) == 1:
        return {}
    series = () if options.series == "auto" else options.series
    named = {*series, *options.one_hot, options.group}
    found = {}
    for place, name in enumerate(header):
        words = [word for row in rows if (word := row[place]) is not None]
        is_name = place == 0 or name in named or fold_name(name) in SERIES_NAMES
        column = _plain_column(words, options, is_name)
        if column is not None:
            found[place] = column
    return found


def _plain_column(words: Sequence[str], options: ReadOptions, is_name: bool) -> PlainColumn | None:
    """
    Args:
        is_name: whether the text of the cells may matter, as it does of 1.50 in an id.
    """
    if not words:
        return None
    if options.time_format is None and _TIME.fullmatch(words[0]):
        return _plain_time(words)
    if options.decimal == ",":
        return None
    if all(map(_WHOLE.fullmatch, words)):
        return PlainColumn("BIGINT")
    if is_name or not all(map(_DECIMAL.fullmatch, words)):
        return None
    is_decimal = any("." in word for word in words) and any(float(w) % 1 for w in words)
    return PlainColumn("DOUBLE") if is_decimal else None


def _plain_time(words: Sequence[str]) -> PlainColumn | None:
    """A column of times that are all as long; None: they are not."""
    found = {
        (len(word), time[2] or "") if (time := _TIME.fullmatch(word)) else None for word in words
    }
    one = found.pop()
    return None if found or one is None else PlainColumn("TIMESTAMP", *one)


def create_rows(
    connection: duckdb.DuckDBPyConnection, source: str, header: Sequence[str],
    options: ReadOptions | None,
) -> dict[int, PlainColumn]:  # fmt: skip
    """Write the rows of a text as the table `ROWS`, in one pass where its first rows are like the
    others.

    Args:
        source: SQL of the rows as text, with the columns c0, c1, ...
        options: None: all columns stay text.

    Returns:
        The columns that have a type, by place.

    Raises:
        duckdb.Error: the text cannot be read.
    """
    width, plain = len(header), dict[int, PlainColumn]()
    if options is not None:
        sample = connection.execute(f"SELECT * FROM {source} LIMIT {SAMPLE_ROWS}").fetchall()
        plain = plain_columns(header, sample, options)
    if not _try_create(connection, source, width, plain):
        plain = _check_all_rows(connection, source, plain)
        _try_create(connection, source, width, plain)
    decimals = [place for place, column in plain.items() if column.type == "DOUBLE"]
    texts = [f"c{place}" for place in range(width) if place not in plain]
    if decimals and texts:
        commas = " OR ".join(f"(contains({c}, ',') AND regexp_matches({c}, {literal(COMMA)}))"
                             for c in texts)  # fmt: skip
        (count,) = connection.execute(f"SELECT count(*) FILTER ({commas}) FROM {ROWS}").fetchall()[
            0
        ]
        if count:
            plain = {place: plain[place] for place in plain if place not in decimals}
            _try_create(connection, source, width, plain)
    return plain


def _try_create(
    connection: duckdb.DuckDBPyConnection, source: str, width: int, plain: dict[int, PlainColumn]
) -> bool:
    """Whether all cells of the columns are plain; the table is then there."""
    import duckdb

    cells = [f"c{place}" for place in range(width)]
    for place, column in plain.items():
        is_plain, typed = column.is_plain(f"c{place}", f"v{place}"), f"v{place}"
        cells[place] = f"CASE WHEN {is_plain} THEN {typed} ELSE error({NOT_PLAIN}) END AS c{place}"
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
        f"bool_and(coalesce({column.is_plain(f'c{place}', f'v{place}')}, false))"
        for place, column in plain.items()
    )
    found = connection.execute(f"SELECT {checks} FROM {_cast_sql(source, plain)}").fetchall()[0]
    return {place: plain[place] for place, is_plain in zip(plain, found, strict=True) if is_plain}


def _cast_sql(source: str, plain: dict[int, PlainColumn]) -> str:
    """The SQL of the rows as text, with v0, v1, ... beside those columns that have a type."""
    typed = "".join(f", TRY_CAST(c{i} AS {column.type}) AS v{i}" for i, column in plain.items())
    return f"(SELECT *{typed} FROM {source})"
