"""Conversion of one or several columns to the times of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqattn.data.files.columns import join_names
from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.checks import check_cells, first_non_number
from seqattn.data.tables.column import Column
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import AmbiguousData, DataError


@dataclass(frozen=True)
class TimeColumn:
    """The times of the rows of a table.

    Attributes:
        names: names of the columns that contain the time.
        sql: SQL expression for the times, of type TIMESTAMP or DOUBLE.
        is_date: whether the times are dates.
        note: a note for the user.
    """

    names: tuple[str, ...]
    sql: str
    is_date: bool
    note: str = ""


def to_time_column(table: Table, column: Column, options: ReadOptions) -> TimeColumn:
    """Convert one column to the times of the rows.

    Raises:
        AmbiguousData: if the order of day, month and year is ambiguous, or if a cell is invalid.
        DataError: if the column contains words or an empty cell.
    """
    if len(column.formats) > 1:
        (word,) = table.one(f"SELECT any_value({column.text} ORDER BY {ROW}) FROM {ROWS}")
        orders = "is day and month, or month and day"
        if any(form.startswith("%y") for form in column.formats):
            orders = "begins with the year or not"
        raise AmbiguousData(
            f"{table.name}: {word!r} in column {column.name!r} {orders}."
            f" Choose one: {' or '.join(setting('time_format', each) for each in column.formats)}.",
            tuple({"time_format": form} for form in column.formats),
        )
    if column.kind == "words":
        raise DataError(
            f"{table.name}: {first_non_number(table, column, options)}, nor a date of a format that"
            f" is known. Correct the cell; or set the format: {setting('time_format')}, as"
            " '%d.%m.%Y' for 31.12.2001; or, if the column contains no times, leave it out:"
            f" {setting('ignore', [column.name])}."
        )
    check_cells(table, column)
    check_filled(table, column.name, column.sql)
    note = f"times in {column.name!r} are read and written as UTC" if column.zone else ""
    if column.kind == "time":
        return TimeColumn((column.name,), column.sql, True, note)
    digits = _digits_of_dates(table, column)
    if digits is not None:
        return TimeColumn((column.name,), digits, True,
                          f"{column.name!r} is read as dates without dashes")  # fmt: skip
    return TimeColumn((column.name,), column.sql, False, note)


def check_filled(table: Table, name: str, sql: str) -> None:
    """Check that all rows have a time.

    Raises:
        DataError: if a row has no time.
    """
    (row,) = table.one(
        f"SELECT min({ROW}) FROM {ROWS} WHERE ({sql}) IS NULL OR NOT isfinite({sql})"
    )
    if row is not None:
        raise DataError(
            f"{table.name}: {table.line(row)}, column {name!r} is empty, or is not a finite"
            " number or a date, so the time of that row is unknown. Fill it in, or remove the"
            " row."
        )


def _digits_of_dates(table: Table, column: Column) -> str | None:
    """Return SQL that reads integers such as 20011229 or 200112 as dates.

    Return None if some values are not such dates from 1900 to 2099, or if the difference between
    consecutive values is constant.
    """
    value = column.sql
    low, high, fraction = table.one(
        f"SELECT min({value}), max({value}), count(*) FILTER ({value} <> round({value}))"
        f" FROM {ROWS}"
    )
    if fraction or low is None:
        return None
    days = low >= 19_000_101 and high <= 20_991_231
    months = low >= 190_001 and high <= 209_912
    if not (days or months):
        return None
    (steps,) = table.one(
        f"SELECT count(DISTINCT v - before) FROM (SELECT {value} AS v, lag({value}) OVER (ORDER BY"
        f" {ROW}) AS before FROM {ROWS})"
    )
    if steps < 2:
        return None
    digits = f"CAST(CAST({value} AS BIGINT) AS VARCHAR)"
    form = "'%Y%m%d'" if days else "'%Y%m'"
    sql = f"CAST(try_strptime({digits}, {form}) AS TIMESTAMP)"
    wrong = table.one(f"SELECT count(*) FILTER ({sql} IS NULL) FROM {ROWS}")[0]
    return None if wrong else f"({sql})"


def combine_time_columns(
    table: Table, columns: Sequence[Column], options: ReadOptions
) -> TimeColumn:
    """Combine several columns into the times of the rows. The columns contain the year, the month
    and so on, or a date and then an hour or a time of day. Hour 24 is hour 0 of the next day.

    Raises:
        DataError: if the cells of a row do not form a valid time: a cell is empty or cannot be
            read, a part is not a whole number, or there is no such month, day or hour.
    """
    names = tuple(column.name for column in columns)
    first, *others = columns
    if first.kind == "time":
        sql = to_time_column(table, first, options).sql
        for column in others:
            sql = f"({sql} + {_hours_sql(column)})"
    else:
        integers = [f"CAST({_whole_sql(column)} AS BIGINT)" for column in columns]
        parts = [*integers, *["1", "1", "0", "0"][len(integers) - 1 :], "0"]
        year, month, day, hour, minute = parts[:5]
        date = f"try_strptime(printf('%04d-%02d-%02d', {year}, {month}, {day}), '%Y-%m-%d')"
        times = [
            f"{unit}(CAST(CASE WHEN {part} BETWEEN 0 AND {largest} THEN {part} END AS INTEGER))"
            for unit, part, largest in (("to_hours", hour, 24), ("to_minutes", minute, 59))
        ]
        sql = f"({' + '.join([date, *times])})"
    (row,) = table.one(f"SELECT min({ROW}) FROM {ROWS} WHERE ({sql}) IS NULL")
    if row is not None:
        raise DataError(
            f"{table.name}: {table.line(row)}, the columns {join_names(names)} form no valid time."
            " A cell must not be empty, the year, month, day and hour must be whole numbers, and"
            " the hour must be at most 24. Correct the row, or remove it."
        )
    return TimeColumn(names, sql, True)


def _whole_sql(column: Column) -> str:
    """Return SQL that gives the whole numbers of a column, and NULL for other numbers."""
    return f"(CASE WHEN {column.sql} = floor({column.sql}) THEN {column.sql} END)"


def _hours_sql(column: Column) -> str:
    """Return SQL that gives the time since the beginning of the day. The column contains hours, or
    times of day such as 01:30. The SQL gives NULL for other cells."""
    if column.kind == "number":
        hours = _whole_sql(column)
        return f"to_hours(CAST(CASE WHEN {hours} BETWEEN 0 AND 24 THEN {hours} END AS INTEGER))"
    return (
        f"((DATE '1970-01-01' + TRY_CAST({column.text} AS TIME)) - TIMESTAMP '1970-01-01 00:00:00')"
    )
