"""Detection of the format of dates and times in a text file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.column import MIN_MATCHING_SHARE, Column, bad_cells
from seqattn.data.tables.connection import literal
from seqattn.data.tables.names import TIME_NAMES, fold_name
from seqattn.data.tables.table import ROW, ROWS, Table

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


def find_time_column(table: Table, words: Column, n: int, options: ReadOptions) -> Column | None:
    """Convert a text column to times. Return None if the column does not contain times."""
    text = words.text
    sample = [
        row[0]
        for row in table.query(
            f"SELECT DISTINCT {text} AS word FROM {ROWS} WHERE {text} IS NOT NULL"
            f" ORDER BY hash(word), word LIMIT 200"
        )
    ]
    for candidate in _time_candidates(words, sample, options):
        bad = bad_cells(table, text, candidate.sql)
        if bad[0] <= (1 - MIN_MATCHING_SHARE) * n:
            return _with_other_orders(table, replace(candidate, bad=bad), options.time_format)
    return None


def find_formatted_time(table: Table, name: str, text: str, options: ReadOptions) -> Column | None:
    """Convert a column of numbers to times if the user set a time format.

    Return None if the options contain no time format, if the column has another role, or if a cell
    does not have the format.

    Args:
        table: the rows.
        name: name of the column.
        text: SQL expression for the cells as text.
        options: the options for reading the table.
    """
    if options.time_format is None or options.time is None:
        return None
    if options.time == "auto":
        series = () if options.series == "auto" else options.series
        assigned = {*series, *options.one_hot, *(options.features or ()), options.group}
        if name in assigned or fold_name(name) not in TIME_NAMES:
            return None
    elif name not in options.time:
        return None
    (n,) = table.one(f"SELECT count({text}) FROM {ROWS}")
    found = find_time_column(table, Column(name, "words", text, text), n, options) if n else None
    return None if found is None or found.bad[0] else found


def _time_candidates(
    words: Column, sample: Sequence[str], options: ReadOptions
) -> Iterator[Column]:
    """Yield the column as times, once for each time format that may apply."""
    text, enough = words.text, MIN_MATCHING_SHARE * len(sample)

    def fits(pattern: str) -> bool:
        return sum(bool(re.fullmatch(pattern, word)) for word in sample) >= enough

    if options.time_format is not None:
        form = options.time_format
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
