"""The times of a table: formats of dates, and columns that contain the times of the rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from seqattn.data.reading import Reading, join_names, setting
from seqattn.data.tables.columns import (
    MIN_MATCHING_SHARE,
    TIME_NAMES,
    Column,
    bad_cells,
    check_cells,
    first_non_number,
    fold_name,
)
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import AmbiguousData, DataError

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y.%m.%d", "%y/%m/%d", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y",
    "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y",
)  # fmt: skip
_TIMES = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y %b")
FORMATS = (
    *(f"{day}{f' {time}' if time else ''}" for day, time in itertools.product(_DATES, _TIMES)),
    *_MONTHS,
)
"""Date formats to try, in this order."""
ISO = r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d{1,9})?)?)?"
ZONE = r" ?(Z|UTC|[+-]\d{2}(:?\d{2})?)"
OTHER_FORMATS = {
    r"\d{4}([-/ ]?[Qq])[1-4]": "%Y{}%q",
    r"([Qq])[1-4]([-/ ]?)\d{4}": "{}%q{}%Y",
    r"[1-4]([Qq][-/ ]?)\d{4}": "%q{}%Y",
    r"\d{4}([-/ ]?[Ww])\d{2}": "%G{}%V",
    r"[Ww]\d{2}([-/ ])\d{4}": "W%V{}%G",
    r"\d{4}([-/ ]?[Ww])\d{2}([-/ ]?)[1-7]": "%G{}%V{}%u",
}
"""Patterns of quarters (%q) and of ISO weeks, with the format for the characters between the
numbers."""


def find_time_column(table: Table, words: Column, n: int, reading: Reading) -> Column | None:
    """Convert a text column to times. Return None if the column does not contain times."""
    text = words.text
    sample = [
        row[0]
        for row in table.query(
            f"SELECT DISTINCT {text} AS word FROM {ROWS} WHERE {text} IS NOT NULL"
            f" ORDER BY hash(word), word LIMIT 200"
        )
    ]
    for candidate in _time_candidates(words, sample, reading):
        bad = bad_cells(table, text, candidate.sql)
        if bad[0] <= (1 - MIN_MATCHING_SHARE) * n:
            return _with_other_orders(table, replace(candidate, bad=bad), reading.time_format)
    return None


def find_formatted_time(table: Table, name: str, text: str, reading: Reading) -> Column | None:
    """Convert a column of numbers to times if the user set a time format.

    Return None if the reading contains no time format, if the column has another role, or if a cell
    does not have the format.

    Args:
        table: the rows.
        name: name of the column.
        text: SQL expression for the cells as text.
        reading: how to read the table.
    """
    if reading.time_format is None or reading.time == ():
        return None
    if reading.time == "auto":
        series = () if reading.series == "auto" else reading.series
        assigned = {*series, *reading.one_hot, *(reading.features or ()), reading.group}
        if name in assigned or fold_name(name) not in TIME_NAMES:
            return None
    elif name not in reading.time:
        return None
    (n,) = table.one(f"SELECT count({text}) FROM {ROWS}")
    found = find_time_column(table, Column(name, "words", text, text), n, reading) if n else None
    return None if found is None or found.bad[0] else found


def _time_candidates(words: Column, sample: Sequence[str], reading: Reading) -> Iterator[Column]:
    """Yield the column as times, once for each time format that may apply."""
    text, enough = words.text, MIN_MATCHING_SHARE * len(sample)

    def fits(pattern: str) -> bool:
        return sum(bool(re.fullmatch(pattern, word)) for word in sample) >= enough

    if reading.time_format is not None:
        form = reading.time_format
        yield replace(words, kind="time", sql=parse_sql(text, form), formats=(form,),
                      zone=has_zone(form))  # fmt: skip
        return
    if fits(ISO):
        cast = f"TRY_CAST(replace({text}, ',', '.') AS TIMESTAMP)"
        sql = f"CASE WHEN regexp_full_match({text}, {literal(ISO)}) THEN {cast} END"
        yield replace(words, kind="time", sql=f"({sql})")
        return
    if fits(ISO + ZONE):
        zoned = f"regexp_replace({text}, {literal('([+-][0-9]{2})([0-9]{2})$')}, '\\1:\\2')"
        cast = f"(TRY_CAST({zoned} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
        sql = f"CASE WHEN regexp_full_match({text}, {literal(ISO + ZONE)}) THEN {cast} END"
        yield replace(words, kind="time", sql=f"({sql})", zone=True)
        return
    for form in dict.fromkeys(form for word in sample[:1] for form in other_formats(word)):
        yield replace(words, kind="time", sql=parse_sql(text, form), formats=(form,))
    for form in FORMATS:
        if sum(_matches(word, form) for word in sample) >= enough:
            sql = f"CAST(try_strptime({text}, {literal(form)}) AS TIMESTAMP)"
            yield replace(words, kind="time", sql=sql, formats=(form,))


def other_formats(word: str) -> list[str]:
    """Return the formats with a quarter or an ISO week that a word may have."""
    matches = ((re.fullmatch(pattern, word), form) for pattern, form in OTHER_FORMATS.items())
    return [form.format(*match.groups()) for match, form in matches if match]


def parse_date(word: str, form: str) -> datetime:
    """Return the date of a word in a `strftime` format, which may contain %q for the quarter, or
    %G and %V for an ISO week. The date of a week or quarter is its first day.

    Raises:
        ValueError: if the word does not have the format.
    """
    if "%q" not in form and ("%V" not in form or "%u" in form):
        return datetime.strptime(word, form)
    if "%V" in form:
        return datetime.strptime(f"{word} 1", f"{form} %u")
    parts = re.split("(%[Yq])", form)
    pattern = "".join({"%Y": r"(?P<year>\d{4})", "%q": "(?P<quarter>[1-4])"}.get(part)
                      or re.escape(part) for part in parts)  # fmt: skip
    if (match := re.fullmatch(pattern, word)) is None:
        raise ValueError(f"{word!r} does not have the format {form!r}")
    return datetime(int(match["year"]), 3 * int(match["quarter"]) - 2, 1)


def parse_sql(text: str, form: str) -> str:
    """Return SQL that gives the time of a text in a `strftime` format, which may contain %q for the
    quarter, or NULL for another text. The time of a week or quarter is its first day."""
    if "%q" in form:
        parts = re.split("(%[Yq])", form)
        pattern = "".join({"%Y": "([0-9]{4})", "%q": "([1-4])"}.get(part) or re.escape(part)
                          for part in parts)  # fmt: skip
        order = [part for part in parts if part in ("%Y", "%q")]
        year, quarter = (
            f"CAST(regexp_extract({text}, {literal(pattern)}, {order.index(part) + 1}) AS BIGINT)"
            for part in ("%Y", "%q")
        )
        return (
            f"(CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN"
            f" make_timestamp({year}, 3 * {quarter} - 2, 1, 0, 0, 0) END)"
        )
    utc = " AT TIME ZONE 'UTC'" if has_zone(form) else ""
    sql = f"CAST(try_strptime({text}, {literal(form)}){utc} AS TIMESTAMP)"
    if "%V" in form:  # the database reads week 53 of a year with 52 weeks as week 1 of the next
        return f"(CASE WHEN strftime({sql}, {literal(form)}) = {text} THEN {sql} END)"
    return sql


def has_zone(form: str) -> bool:
    """Return whether a `strftime` format contains a time zone."""
    return re.search("%[zZ]", form.replace("%%", "")) is not None


def _matches(word: str, form: str) -> bool:
    try:
        datetime.strptime(word, form)
    except ValueError:
        return False
    return True


def _with_other_orders(table: Table, column: Column, time_format: str | None) -> Column:
    """Return the column with more formats, in which the parts of a date have another order, if
    these formats also match all cells, give different dates and are plausible. Otherwise, return
    the column unchanged."""
    if len(column.formats) != 1 or column.bad[0] or time_format is not None:
        return column
    form = column.formats[0]
    swapped = re.sub("%[dm]", lambda match: "%m" if match[0] == "%d" else "%d", form)
    year_first = re.sub(r"%[dm](.)%[dm]\1%y", r"%y\1%m\1%d", form)
    others = [other for other in (swapped, year_first) if other != form and other in FORMATS]
    formats = [form]
    for other in others:
        sql = f"CAST(try_strptime({column.text}, {literal(other)}) AS TIMESTAMP)"
        differs = f"count(*) FILTER (({sql}) IS DISTINCT FROM ({column.sql}))"
        if (
            not bad_cells(table, column.text, sql)[0]
            and table.one(f"SELECT {differs} FROM {ROWS}")[0]
            and (other == swapped or _may_begin_with_year(table, sql, column.sql, other))
        ):
            formats.append(other)
    return replace(column, formats=tuple(formats))


def _may_begin_with_year(table: Table, year_first: str, day_first: str, form: str) -> bool:
    """Return whether dates such as 20/01/02 may begin with the year.

    They may if the rows are closer to the order of time in this reading than in the other one, or
    as close and the days have more different values than the years. An equal number of values is
    enough for %y/%m/%d, because dates that begin with the day are rarely written with slashes and
    two digits of the year.

    Args:
        table: the rows.
        year_first: SQL expression for the dates that begin with the year.
        day_first: SQL expression for the dates that begin with the day or month.
        form: the format that begins with the year.
    """
    days, years = (f"count(DISTINCT date_part('{part}', y))" for part in ("day", "year"))
    rows = (
        f"SELECT y, d, lag(y) OVER (ORDER BY {ROW}) AS last_y, lag(d) OVER (ORDER BY {ROW}) AS"
        f" last_d FROM (SELECT {ROW}, {year_first} AS y, {day_first} AS d FROM {ROWS})"
    )
    breaks_y, breaks_d = (  # rows against the order, which may ascend or descend
        f"least(count(*) FILTER ({v} < last_{v}), count(*) FILTER ({v} > last_{v}))" for v in "yd"
    )
    more = ">=" if form == "%y/%m/%d" else ">"
    by_year, by_day, has_more_days = table.one(
        f"SELECT {breaks_y}, {breaks_d}, {days} {more} {years} FROM ({rows})"
    )
    return bool(by_year < by_day or (by_year == by_day and has_more_days))


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
SHORT_DIGITS = {
    "%y%m%d": (10_101, 991_231, 6, 1),
    "%Y%j": (1_900_001, 2_099_366, 7, 1),
    "%H%M": (0, 2359, 4, 2),
}
"""The first and the last number of each format of dates and times that other numbers may have, the
number of digits, and how many more steps must be equal as times than as numbers."""
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


def to_time_column(table: Table, column: Column, reading: Reading) -> TimeColumn:
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
            f"{table.name}: {first_non_number(table, column, reading)}, nor a date of a format that"
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
    if reading.time_format in (None, WEEKS) and are_weeks(table, column, reading):
        return _week_column(table, column)
    digits = _digits_of_dates(table, column)
    if digits is not None:
        note = f"{column.name!r} is read as dates without dashes"
        return TimeColumn((column.name,), digits[0], True, note, digits[1])
    if reading.time_format is None:
        _check_short_digits(table, column)
    else:
        _check_format(table, column, reading.time_format)
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


def are_weeks(table: Table, column: Column, reading: Reading) -> bool:
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
    known = () if reading.trained is None else reading.trained.time_formats
    words = set(re.split("[^a-z]+", fold_name(column.name)))
    is_named = bool(words & set(WEEK_NAMES)) or "week" in fold_name(column.name)
    return is_named or WEEKS in (reading.time_format, *known) or (latest > 31 and years > 1)


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


def _digits_of_dates(table: Table, column: Column) -> tuple[str, str] | None:
    """Return SQL that reads integers such as 20011229, 200112 or 2001122923 as dates, and their
    format. Return None if some values are not such dates from 1900 to 2099."""
    low, high, broken = table.measure(*column.range, column.broken_count)
    if broken or low is None:
        return None
    forms = DIGITS_OF_DATES.items()
    form = next((form for form, (least, most) in forms if least <= low and high <= most), None)
    if form is None:
        return None
    digits = f"CAST(CAST({column.sql} AS BIGINT) AS VARCHAR)"
    sql = f"CAST(try_strptime({digits}, {literal(form)}) AS TIMESTAMP)"
    wrong = table.one(f"SELECT count(*) FILTER ({sql} IS NULL) FROM {ROWS}")[0]
    return None if wrong else (f"({sql})", form)


def _check_short_digits(table: Table, column: Column) -> None:
    """Check that integers are not dates or times of day in a format of `SHORT_DIGITS`.

    They are if they are spaced more evenly as times than as numbers, or if they are days of the
    year that are evenly spaced within each of several years.

    Raises:
        AmbiguousData: if the integers are such dates or times of day.
    """
    low, high, broken = table.measure(*column.range, column.broken_count)
    for form, (least, most, size, gain) in SHORT_DIGITS.items():
        if broken or low is None or low < least or high > most:
            continue
        digits = f"printf('%0{size}d', CAST({column.sql} AS BIGINT))"
        time = f"try_strptime({digits}, {literal(form)})"
        steps = (
            f"(SELECT v, v - lag(v) OVER (ORDER BY v) AS dv, epoch(t - lag(t) OVER (ORDER BY v)) AS"
            f" dt, v // 1000 = lag(v) OVER (ORDER BY v) // 1000 AS alike FROM (SELECT DISTINCT"
            f" CAST({column.sql} AS BIGINT) AS v, {time} AS t FROM {ROWS}))"
        )
        wrong, shown = table.one(
            f"SELECT count(*) FILTER (strftime({time}, {literal(form)}) IS DISTINCT FROM {digits}),"
            f" first(strftime({time}, '{'%H:%M' if size == 4 else '%Y-%m-%d'}') ORDER BY {ROW})"
            f" FROM {ROWS}"
        )
        gained, rows, within, kinds, years = table.one(
            f"SELECT count(*) FILTER (dt = (SELECT min(dt) FROM {steps})) - count(*) FILTER (dv ="
            f" (SELECT min(dv) FROM {steps})), count(*), count(*) FILTER (alike), count(DISTINCT"
            f" dv) FILTER (alike), count(DISTINCT v // 1000) FROM {steps}"
        )
        begins_anew = size == 7 and within >= 3 and kinds == 1 and years > 1
        if wrong or rows < 3 or not (gained >= gain or begins_anew):
            continue
        kind = "times of day without colons" if size == 4 else "dates without dashes"
        raise AmbiguousData(
            f"{table.name}: the numbers in column {column.name!r} look like {kind}. Write them as"
            f" {shown}; or, to take the rows in order, set {setting('time', None)} and"
            f" {setting('ignore', [column.name])}.",
            ({"time": "none", "ignore": column.name},),
        )


def combine_time_columns(table: Table, columns: Sequence[Column], reading: Reading) -> TimeColumn:
    """Combine several columns into the times of the rows. The columns contain the year, the month
    and so on, or a date and then an hour or a time of day. Hour 24 is hour 0 of the next day.

    Raises:
        DataError: if there are too many columns, if a column has the name of another unit than the
            unit at its place, or if the cells of a row do not form a valid time: a cell is empty or
            cannot be read, a part is not a whole number, or there is no such month, day or hour.
    """
    names = tuple(column.name for column in columns)
    first, *others = columns
    date, note = _date_sql(table, first, reading)
    if date is not None:
        types = [table.types[table.header.index(column.name)] for column in others]
        is_span = [  # a number, not a time of day such as 01:30
            column.kind == "number" and not kind.startswith("TIME")
            for column, kind in zip(others, types, strict=True)
        ]
        if len(others) > 1 or is_span[0]:
            _check_units(table, names[1:], UNITS[3:])
        times = [
            _span_sql(column, unit) if is_number
            else f"((DATE '1970-01-01' + TRY_CAST({column.text} AS TIME)) - TIMESTAMP"
            " '1970-01-01 00:00:00')"
            for column, unit, is_number in zip(others, UNITS[3:], is_span, strict=False)
        ]  # fmt: skip
    else:
        _check_units(table, names, UNITS)
        for column in columns:
            if column.kind in ("words", "time"):
                word = first_non_number(table, column, reading)
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


def _date_sql(table: Table, column: Column, reading: Reading) -> tuple[str | None, str]:
    """Return SQL for the dates in the first of several time columns, and a note for the user. The
    SQL is None if the column contains the year."""
    if column.kind in ("time", "words"):
        date = to_time_column(table, column, reading)
        return date.sql, date.note
    digits = _digits_of_dates(table, column)
    return digits[0] if digits is not None and digits[1] == "%Y%m%d" else None, ""


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
