"""Inference of the kinds of columns: numbers, times or words, and the SQL that casts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from seqattn.data.missing_values import NA_VALUES, na_numbers
from seqattn.data.reading import Reading
from seqattn.data.tables.columns import (
    DECORATED,
    MIN_MATCHING_SHARE,
    SAMPLE_ROWS,
    Column,
    ambiguous_point,
    bad_cells,
    decorated_example,
    find_numeral,
)
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROWS, Table
from seqattn.data.tables.text import is_like_value
from seqattn.data.tables.times import find_formatted_time, find_time_column

SPACES = " \t\u00a0"
"""Characters that are stripped from cells."""
NUMBERS = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DOUBLE|FLOAT|DECIMAL\(\d+,\d+\)"
)
"""Pattern of the numeric and boolean types of the database."""


def trimmed(cell: str) -> str:
    """Return an SQL expression for a text cell without surrounding spaces."""
    return f"trim({cell}, {literal(SPACES)})"


def infer_columns(table: Table, reading: Reading, names: Sequence[str]) -> dict[str, Column]:
    """Infer the kinds of the given columns, and return the columns by name."""
    if not names:
        return {}
    found: dict[str, Column] = {}
    for name in names:
        column = _typed_column(table, name, reading)
        if column is not None:
            found[name] = column
    found |= _plain_number_columns(table, [name for name in names if name not in found], reading)
    for name in names:
        if name not in found:
            text, empty_words = cleaned_text(table, name, reading)
            words = Column(name, "words", text, text, empty_words=empty_words)
            found[name] = _text_column(table, words, reading)
    return _unify_decimals(table, {name: found[name] for name in names}, reading)


def _plain_number_columns(
    table: Table, names: Sequence[str], reading: Reading
) -> dict[str, Column]:
    """Return the text columns in which all cells except NULL can be cast to finite numbers, by
    name. A sample is checked first, then all rows. Columns of times in the format that the user set
    and columns with ambiguous points are left out. If the reading contains a decimal comma,
    thousands points or `na_values`, the result is empty."""
    if reading.decimal == "," or reading.thousands == "." or reading.na_values:
        return {}
    known = {name: table.column(name) for name in names}
    for rows in (f"(SELECT * FROM {ROWS} LIMIT {SAMPLE_ROWS})", ROWS):
        if not known:
            break
        counts = ", ".join(
            f"count({cell}), count(*) FILTER (isfinite(TRY_CAST({cell} AS DOUBLE)) AND NOT"
            f" contains({cell}, '_'))"
            for cell in known.values()
        )
        found = iter(table.one(f"SELECT {counts} FROM {rows}"))
        filled = 0 if rows != ROWS else 1
        known = {
            name: cell
            for (name, cell), n, numbers in zip(known.items(), found, found, strict=False)
            if filled <= n == numbers
        }
    return {
        name: Column(name, "number", f"TRY_CAST({cell} AS DOUBLE)", trimmed(cell))
        for name, cell in known.items()
        if find_formatted_time(table, name, cell, reading) is None
        and not ambiguous_point(table, cell, reading)
    }


def cleaned_text(table: Table, name: str, reading: Reading) -> tuple[str, tuple[str, ...]]:
    """Return an SQL expression for the cells of a column as text, and up to three different texts
    of cells that count as empty, such as "NA". The expression is NULL for an empty cell."""
    cell = table.column(name)
    if table.types[table.header.index(name)] != "VARCHAR":
        return table.text(name), ()
    text = trimmed(cell)
    empty = [*NA_VALUES, *(word.strip().lower() for word in reading.na_values or ())]
    is_empty = f"lower({text}) IN {_sql_list(empty)}"
    numbers = na_numbers(reading)
    if numbers:
        is_empty += f" OR COALESCE(TRY_CAST({text} AS DOUBLE) IN {_sql_list(numbers)}, false)"
    is_unclean = f"lower({cell}) IN {_sql_list(empty)} OR {text} <> {cell}"
    if not numbers and not table.one(f"SELECT count(*) FILTER ({is_unclean}) FROM {ROWS}")[0]:
        return cell, ()
    (words,) = table.one(f"SELECT list(DISTINCT {text})[:3] FROM {ROWS} WHERE {is_empty}")
    cleaned = f"(CASE WHEN NOT ({is_empty}) THEN {text} END)"
    return cleaned, tuple(sorted(filter(None, words or ())))


def _sql_list(values: Sequence[object]) -> str:
    return f"({', '.join(map(literal, values))})"


def _typed_column(table: Table, name: str, reading: Reading) -> Column | None:
    """Return a column whose type in the database is not text, or None for a text column."""
    cell, kind = table.column(name), table.types[table.header.index(name)]
    if kind == "VARCHAR":
        return None
    text = table.text(name)
    if "TIME ZONE" in kind or kind.startswith("TIMESTAMPTZ"):  # includes TIMESTAMPTZ_NS
        sql = f"(CAST({cell} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
        return Column(name, "time", f"CAST({sql} AS TIMESTAMP)", text, zone=True)
    if kind.startswith("TIMESTAMP") or kind == "DATE":
        return Column(name, "time", f"CAST({cell} AS TIMESTAMP)", text)
    if kind.startswith("TIME"):
        return Column(name, "number", f"CAST(epoch({cell}) AS DOUBLE)", text)
    if kind == "INTERVAL":
        months = f"datepart('year', {cell}) * 12 + datepart('month', {cell})"
        if table.one(f"SELECT count(*) FILTER ({months} <> 0) FROM {ROWS}")[0]:
            kind = "INTERVAL with months, which are not equally long"
            return Column(name, "words", text, text, type=kind)
        return Column(name, "number", f"CAST(epoch({cell}) AS DOUBLE)", text)
    if NUMBERS.fullmatch(kind):
        if "INT" in kind or kind.endswith(",0)"):
            time = find_formatted_time(table, name, text, reading)
            if time is not None:
                return time
        return Column(name, "number", _number_sql(cell, reading), text)
    if kind.strip('"') == "NULL":
        return Column(name, "empty", "CAST(NULL AS DOUBLE)", "CAST(NULL AS VARCHAR)")
    return Column(name, "words", text, text, type=kind)


def _number_sql(cell: str, reading: Reading) -> str:
    """Return an SQL expression for a cell of a numeric type. The expression is NULL if the cell
    counts as empty."""
    number = f"CAST({cell} AS DOUBLE)"
    marks = na_numbers(reading)
    is_mark = f" OR {number} IN {_sql_list(marks)}" if marks else ""
    return f"(CASE WHEN isnan({number}){is_mark} THEN NULL ELSE {number} END)"


def _text_column(table: Table, words: Column, reading: Reading) -> Column:
    """Infer the kind of a text column."""
    text = words.text
    first = table.query(f"SELECT {text} FROM {ROWS} LIMIT {SAMPLE_ROWS}")
    known = [word for (word,) in first if word is not None]
    if known and reading.time_format is None and not any(map(_is_quantity_or_date, known)):
        return _boolean_column(table, words, known) or words
    n = table.one(f"SELECT count({text}) FROM {ROWS}")[0]
    if n == 0:
        return replace(words, kind="empty", sql=f"TRY_CAST({text} AS DOUBLE)")
    times = find_time_column(table, words, n, reading)
    if times is None or times.bad[0]:
        number = _number_column(table, words, n, known, reading)
        if number is not None and (not number.bad[0] or times is None):
            return number
    return times or _boolean_column(table, words, known) or words


def _is_quantity_or_date(word: str) -> bool:
    """Return whether a word is a date, or a number that may have a unit or parentheses."""
    return is_like_value(word) or DECORATED.fullmatch(word) is not None


def _number_column(
    table: Table, words: Column, n: int, sample: Sequence[str], reading: Reading
) -> Column | None:
    """Convert a text column to a column of numbers, which may have a few invalid cells. If the
    numbers have units or parentheses, the column remains a column of words. Return None if the
    column is not numeric."""
    found = find_numeral(table, words.text, n, reading, MIN_MATCHING_SHARE)
    if found is None:
        example = decorated_example(sample)
        return replace(words, decorated=example) if example else None
    numeral, either = found
    sql = f"({numeral.sql(words.text)})"
    if marks := na_numbers(reading):  # `cleaned_text` knows them only in plain notation
        is_mark = f"COALESCE({sql} IN {_sql_list(marks)}, false)"
        words = replace(words, text=f"(CASE WHEN NOT {is_mark} THEN {words.text} END)")
        sql = f"(CASE WHEN NOT {is_mark} THEN {sql} END)"
    return replace(
        words, kind="number", sql=sql, bad=bad_cells(table, words.text, sql),
        decimal=numeral.decimal, thousands=numeral.thousands, either=either, note=numeral.note,
    )  # fmt: skip


def _boolean_column(table: Table, words: Column, sample: Sequence[str]) -> Column | None:
    """Convert a boolean column to numbers: 1 for true, t, yes and y, and 0 for false, f, no and n.
    Return None if the column is not boolean."""
    true, false = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
    if not {word.lower() for word in sample} <= {*true, *false}:
        return None
    lower = f"lower({words.text})"
    ones, zeros = (f"WHEN {lower} IN {_sql_list(each)}" for each in (true, false))
    sql = f"CASE {ones} THEN 1.0 {zeros} THEN 0.0"
    if bad_cells(table, words.text, f"{sql} END")[0]:
        return None
    return replace(
        words, kind="number", sql=f"({sql} END)",
        note="true and yes are read as 1, false and no as 0",
    )  # fmt: skip


def _unify_decimals(
    table: Table, columns: dict[str, Column], reading: Reading
) -> dict[str, Column]:
    """If one column certainly has decimal commas, read the other columns with decimal commas where
    possible. For example, 1.234 is then an integer with a thousands separator. Otherwise, if one
    column certainly has decimal points, all points are decimal marks."""
    sure = [column for column in columns.values() if column.kind == "number" and not column.either]
    if not any(column.decimal == "," for column in sure):
        return _with_sure_points(table, columns, sure)
    if reading.decimal != "auto":
        return columns
    with_comma = replace(reading, decimal=",")
    found = dict(columns)
    for name, column in columns.items():
        if column.either or _has_decimal_points(table, column):
            words = Column(name, "words", column.text, column.text, empty_words=column.empty_words)
            with_commas = _text_column(table, words, with_comma)
            if column.either or (with_commas.kind == "number" and not with_commas.bad[0]):
                found[name] = with_commas
    return found


def _with_sure_points(
    table: Table, columns: dict[str, Column], sure: Sequence[Column]
) -> dict[str, Column]:
    """Return the columns without ambiguous points if a column in `sure` has decimal points."""
    points = {name: column for name, column in columns.items() if column.either}
    points = {name: column for name, column in points.items() if column.decimal == "."}
    if not points or not any(_has_decimal_points(table, column) for column in sure):
        return columns
    return columns | {name: replace(column, either="") for name, column in points.items()}


def _has_decimal_points(table: Table, column: Column) -> bool:
    """Return whether a column of a text file has numbers with a decimal point."""
    if not table.is_text or column.kind != "number" or column.decimal != ".":
        return False
    (count,) = table.one(f"SELECT count(*) FILTER (contains({column.text}, '.')) FROM {ROWS}")
    return bool(count)
