"""Conversion of one or several columns to the times of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from seqattn.data.files.columns import join_names
from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.checks import check_cells, first_non_number
from seqattn.data.tables.column import Column, bad_cells
from seqattn.data.tables.connection import literal
from seqattn.data.tables.names import fold_name
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.time_formats import parse_sql
from seqattn.errors import AmbiguousData, DataError

UNITS = ("year", "month", "day", "hour", "minute", "second")
"""The units of several time columns, in the order of the columns."""
DIGITS_OF_DATES = {
    "%Y%m": (190_001, 209_912),
    "%Y%m%d": (19_000_101, 20_991_231),
    "%Y%m%d%H": (1_900_010_100, 2_099_123_123),
    "%Y%m%d%H%M": (190_001_010_000, 209_912_312_359),
    "%Y%m%d%H%M%S": (19_000_101_000_000, 20_991_231_235_959),
}
"""The first and the last number of each format of dates without dashes."""
WEEKS = "%G%V"
"""Format of ISO weeks as numbers, such as 202152."""
WEEK_NAMES = ("week", "wk", "kw", "yw", "yyyyww")
"""Parts of the names of columns with weeks."""


@dataclass(frozen=True)
class TimeColumn:
    """The times of the rows of a table.

    Attributes:
        names: names of the columns that contain the time.
        sql: SQL expression for the times, of type TIMESTAMP or DOUBLE.
        is_date: whether the times are dates.
        note: a note for the user.
        format: `strftime` format of a single column of numbers that are dates, otherwise "".
    """

    names: tuple[str, ...]
    sql: str
    is_date: bool
    note: str = ""
    format: str = ""


def to_time_column(table: Table, column: Column, options: ReadOptions) -> TimeColumn:
    """Convert one column to the times of the rows.

    Raises:
        AmbiguousData: if the order of day, month and year is ambiguous.
        DataError: if the column contains words or an empty cell, or if a cell is no date or number,
            or does not have the format that the user set.
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
    if column.bad[0]:
        (word,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {column.bad[1]}")
        raise DataError(
            f"{table.name}: {table.line(column.bad[1])}, column {column.name!r} contains {word!r},"
            f" not a {'date' if column.kind == 'time' else 'number'}. Correct the cell, or remove"
            " the line if it is not data, such as a total, a unit or a second header."
        )
    check_cells(table, column)
    check_filled(table, column.name, column.sql)
    note = f"times in {column.name!r} are read and written as UTC" if column.zone else ""
    if column.kind == "time":
        return TimeColumn((column.name,), column.sql, True, note)
    if options.time_format in (None, WEEKS) and are_weeks(table, column, options):
        return _week_column(table, column)
    digits = _digits_of_dates(table, column, options)
    if digits is not None:
        note = f"{column.name!r} is read as dates without dashes"
        return TimeColumn((column.name,), digits[0], True, note, digits[1])
    if options.time_format is not None:
        _check_format(table, column, options.time_format)
    return TimeColumn((column.name,), column.sql, False, note)


def _check_format(table: Table, column: Column, time_format: str) -> None:
    """Check that the numbers of a column have the time format that the user set.

    Raises:
        DataError: if a number does not have the format.
    """
    sql = parse_sql(column.text, time_format)
    count, row = bad_cells(table, column.text, sql)
    if not count:
        return
    (word,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {row}")
    raise DataError(
        f"{table.name}: {table.line(row)}, column {column.name!r} contains {word!r}, which is no"
        f" time of the format {time_format!r} ({setting('time_format')}). Correct the cell or the"
        " format, or leave the format out."
    )


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


def are_weeks(table: Table, column: Column, options: ReadOptions) -> bool:
    """Return whether a column of integers contains a year and a week, such as 202152.

    The numbers have the form of years from 1900 to 2099 and weeks from 1 to 53. Unless the name of
    the column, the user or the training table indicates weeks, there must be several years, and
    some weeks must be above 31, so that they are neither months nor days.
    """
    if column.kind != "number":
        return False
    low, high = table.measure(*column.range)  # known already, unlike the numbers below
    if low is None or low < 190_001 or high > 209_953:
        return False
    value = column.sql
    fits = (
        f"{value} = round({value}) AND {value} BETWEEN 190001 AND 209953"
        f" AND {value} % 100 BETWEEN 1 AND 53"
    )
    all_fit, latest, years = table.measure(
        f"bool_and(coalesce({fits}, false))", f"max({value} % 100)",
        f"count(DISTINCT floor({value} / 100))",
    )  # fmt: skip
    if not all_fit:
        return False
    known = () if options.roles is None else options.roles.time_formats
    words = set(re.split("[^a-z]+", fold_name(column.name)))
    is_named = bool(words & set(WEEK_NAMES)) or "week" in fold_name(column.name)
    return is_named or WEEKS in (options.time_format, *known) or (latest > 31 and years > 1)


def _week_column(table: Table, column: Column) -> TimeColumn:
    """Convert a column of integers such as 202152 to the Mondays of ISO weeks.

    Raises:
        AmbiguousData: if a year does not have such an ISO week, so that the weeks are counted in
            another way.
    """
    sql = parse_sql(f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)", WEEKS)
    count, row = bad_cells(table, column.text, sql)
    if count:
        (word,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {row}")
        raise AmbiguousData(
            f"{table.name}: {table.line(row)}, column {column.name!r} contains {word}, and"
            f" {word[:4]} has no ISO week {word[4:6]}, so the weeks are not ISO weeks. Write the"
            f" first day of each week instead, or leave the column out and take the rows in order:"
            f" {setting('ignore', [column.name])} and {setting('time', None)}.",
            ({"ignore": column.name, "time": "none"},),
        )
    note = f"{column.name!r} is read as ISO weeks, such as 202152"
    return TimeColumn((column.name,), sql, True, note, WEEKS)


def _digits_of_dates(
    table: Table, column: Column, options: ReadOptions, *, is_date: bool = False
) -> tuple[str, str] | None:
    """Return SQL that reads integers such as 20011229, 200112 or 2001122923 as dates, and their
    format.

    Return None if some values are not such dates from 1900 to 2099. If neither the user nor the
    training table indicates such dates, also return None if the difference between consecutive
    values is constant.

    Args:
        table: the rows.
        column: a column of numbers.
        options: the options for reading the table.
        is_date: whether only dates with a day and without a time of day are read, even if the
            difference is constant.
    """
    value = column.sql
    low, high, fraction = table.one(
        f"SELECT min({value}), max({value}), count(*) FILTER ({value} <> round({value}))"
        f" FROM {ROWS}"
    )
    if fraction or low is None:
        return None
    forms = DIGITS_OF_DATES.items()
    form = next((form for form, (least, most) in forms if least <= low and high <= most), None)
    if form is None or (is_date and form != "%Y%m%d"):
        return None
    known = (options.time_format, *(() if options.roles is None else options.roles.time_formats))
    if not is_date and form not in known and _has_constant_steps(table, value):
        return None
    digits = f"CAST(CAST({value} AS BIGINT) AS VARCHAR)"
    sql = f"CAST(try_strptime({digits}, {literal(form)}) AS TIMESTAMP)"
    wrong = table.one(f"SELECT count(*) FILTER ({sql} IS NULL) FROM {ROWS}")[0]
    return None if wrong else (f"({sql})", form)


def _has_constant_steps(table: Table, value: str) -> bool:
    (steps,) = table.one(
        f"SELECT count(DISTINCT v - before) FROM (SELECT {value} AS v, lag({value}) OVER (ORDER BY"
        f" {ROW}) AS before FROM {ROWS})"
    )
    return bool(steps < 2)


def _has_times_of_day(table: Table, column: Column) -> bool:
    """Return whether a column contains times such as 01:30 instead of whole numbers."""
    has_type = table.types[table.header.index(column.name)].startswith("TIME")
    return has_type or column.kind != "number"


def combine_time_columns(
    table: Table, columns: Sequence[Column], options: ReadOptions
) -> TimeColumn:
    """Combine several columns into the times of the rows. The columns contain the year, the month
    and so on, or a date and then an hour or a time of day. Hour 24 is hour 0 of the next day.

    Raises:
        DataError: if there are too many columns, if a column has the name of another unit than the
            unit at its place, or if the cells of a row do not form a valid time: a cell is empty or
            cannot be read, a part is not a whole number, or there is no such month, day or hour.
    """
    names = tuple(column.name for column in columns)
    first, *others = columns
    date, note = _date_sql(table, first, options)
    if date is not None:
        if len(others) > 1 or not _has_times_of_day(table, others[0]):
            _check_units(table, names[1:], UNITS[3:])
        times = [_clock_sql(table, column, unit)
                 for column, unit in zip(others, UNITS[3:], strict=False)]  # fmt: skip
    else:
        _check_units(table, names, UNITS)
        for column in columns:
            if column.kind in ("words", "time"):
                word = first_non_number(table, column, options)
                raise DataError(f"{table.name}: {word}. Correct the cell, or leave the column out.")
        year, month, day = [*(_integer_sql(column) for column in columns[:3]), "1"][:3]
        date = f"try_strptime(printf('%04d-%02d-%02d', {year}, {month}, {day}), '%Y-%m-%d')"
        times = [_span_sql(column, unit)
                 for column, unit in zip(columns[3:], UNITS[3:], strict=False)]  # fmt: skip
    sql = f"({' + '.join([date, *times])})"
    (row,) = table.one(f"SELECT min({ROW}) FROM {ROWS} WHERE ({sql}) IS NULL")
    if row is not None:
        raise DataError(
            f"{table.name}: {table.line(row)}, the columns {join_names(names)} form no valid time."
            " A cell must not be empty, the year, month, day and hour must be whole numbers, and"
            " the hour must be at most 24. Correct the row, or remove it."
        )
    return TimeColumn(names, sql, True, note)


def _date_sql(table: Table, column: Column, options: ReadOptions) -> tuple[str | None, str]:
    """Return SQL for the dates in the first of several time columns, and a note for the user. The
    SQL is None if the column contains the year."""
    if column.kind in ("time", "words"):
        date = to_time_column(table, column, options)
        return date.sql, date.note
    digits = _digits_of_dates(table, column, options, is_date=True)
    return None if digits is None else digits[0], ""


def _check_units(table: Table, names: Sequence[str], units: Sequence[str]) -> None:
    """Check that columns do not have the name of another unit than the unit at their place.

    Raises:
        DataError: if there are more columns than units, or if a name is that of another unit.
    """
    if len(names) > len(units):
        raise DataError(
            f"{table.name}: the {len(names)} columns {join_names(names)} are too many for one time,"
            f" which has at most {len(units)} columns ({join_names(units)}). Correct"
            f" {setting('time')}."
        )
    for name, unit in zip(names, units, strict=False):
        if fold_name(name).removesuffix("s") in {*UNITS, "quarter", "week"} - {unit}:
            raise DataError(
                f"{table.name}: column {name!r} is at the place of the {unit} in {setting('time')}."
                " Several time columns must be the year, month, day, hour, minute and second in"
                " this order, or a date and then the hour, minute and second. Correct the order, or"
                " write the times in one column, such as 2001-12-29 or 2001-Q4."
            )


def _integer_sql(column: Column) -> str:
    """Return SQL that gives the whole numbers of a column, and NULL for other numbers."""
    return f"CAST(CASE WHEN {column.sql} = floor({column.sql}) THEN {column.sql} END AS BIGINT)"


def _span_sql(column: Column, unit: str) -> str:
    """Return SQL that gives a number of hours, minutes or seconds as a time span, and NULL for a
    number that no day, hour or minute has."""
    number, largest = _integer_sql(column), 24 if unit == "hour" else 59
    part = f"CASE WHEN {number} BETWEEN 0 AND {largest} THEN {number} END"
    return f"to_{unit}s(CAST({part} AS INTEGER))"


def _clock_sql(table: Table, column: Column, unit: str) -> str:
    """Return SQL that gives the numbers of a column as time spans, or the time since the beginning
    of the day for a column with times of day such as 01:30. The SQL gives NULL for other cells."""
    is_time_of_day = table.types[table.header.index(column.name)].startswith("TIME")
    if column.kind == "number" and not is_time_of_day:
        return _span_sql(column, unit)
    return (
        f"((DATE '1970-01-01' + TRY_CAST({column.text} AS TIME)) - TIMESTAMP '1970-01-01 00:00:00')"
    )
