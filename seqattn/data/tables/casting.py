"""What the columns of a table hold: numbers, times or words, and as which SQL each is read."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import literal
from seqattn.data.tables.numerals import UNIT, allowed, written_as
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.text_format import looks_like_a_value
from seqattn.errors import AmbiguousData

NA_VALUES = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", ".", "missing")
"""What an empty cell holds in files of many programs; case does not matter."""
SAMPLE = 1000
"""Rows of a column; where none of them begins like a number or a date, the column holds words."""
MOSTLY = 0.8
"""Share of a column's cells that must be numbers, or dates, for the others to be mistakes."""
Kind = Literal["number", "time", "words", "empty"]

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y",
    "%B %d, %Y", "%b %d %Y",
)  # fmt: skip
_TIMES = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y %b")
FORMATS = (
    *(f"{day}{f' {time}' if time else ''}" for day, time in itertools.product(_DATES, _TIMES)),
    *_MONTHS,
)
"""Formats of dates that are tried."""
NUMBERS = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DOUBLE|FLOAT|DECIMAL\(\d+,\d+\)"
)
"""Types of columns that hold numbers."""
ISO = r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d{1,9})?)?)?"
ZONE = r" ?(Z|UTC|[+-]\d{2}(:?\d{2})?)"
QUARTER = r"\d{4}[- ]?[Qq][1-4]"


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


def columns_of(table: Table, options: ReadOptions, names: Sequence[str]) -> dict[str, Column]:
    """What some columns of a table hold, by name."""
    if not names:
        return {}
    found: dict[str, Column] = {}
    for name in names:
        column = _typed(table, name, options)
        if column is not None:
            found[name] = column
    found |= _plain_numbers(table, [name for name in names if name not in found], options)
    for name in names:
        if name not in found:
            found[name] = _of_words(table, name, _text(table, name, options), options)
    return _one_decimal(table, {name: found[name] for name in names}, options)


def _plain_numbers(table: Table, names: Sequence[str], options: ReadOptions) -> dict[str, Column]:
    """The columns of words that are finite numbers as they stand: most of most files, told by one
    quick look."""
    if not names or options.decimal == "," or options.na_values:
        return {}
    cells = [table.column(name) for name in names]
    counts = ", ".join(
        f"count({cell}), count(*) FILTER (isfinite(TRY_CAST({cell} AS DOUBLE)) AND NOT"
        f" contains({cell}, '_'))"
        for cell in cells
    )
    found = table.one(f"SELECT {counts} FROM {ROWS}")
    return {
        name: Column(name, "number", f"TRY_CAST({cells[k]} AS DOUBLE)", cells[k])
        for k, name in enumerate(names)
        if 0 < found[2 * k] == found[2 * k + 1]
    }


def _text(table: Table, name: str, options: ReadOptions) -> str:
    """The SQL of a column's cells as words, NULL where one is empty. The cells of a text are
    cleaned once, and in their place, because most questions are about these words."""
    cell = table.column(name)
    kind = table.types[table.header.index(name)]
    if kind != "VARCHAR":
        return f"CAST({cell} AS VARCHAR)"
    if name in table.empty_words:
        return cell
    trimmed = f"trim({cell}, ' \t\u00a0')"
    empty = [*NA_VALUES, *(word.strip().lower() for word in options.na_values or ())]
    is_empty = f"lower({trimmed}) IN {_tuple(empty)}"
    numbers = [float(word) for word in options.na_values or () if _is_number(word)]
    if numbers:
        is_empty += f" OR COALESCE(TRY_CAST({trimmed} AS DOUBLE) IN {_tuple(numbers)}, false)"
    if not numbers and _is_clean(table, cell, trimmed, empty):
        table.empty_words[name] = ()
        return cell
    (words,) = table.one(f"SELECT list(DISTINCT {trimmed})[:3] FROM {ROWS} WHERE {is_empty}")
    table.empty_words[name] = tuple(sorted(filter(None, words or ())))
    table.connection.execute(
        f"ALTER TABLE {ROWS} ALTER {cell} TYPE VARCHAR USING"
        f" (CASE WHEN {is_empty} THEN NULL ELSE {trimmed} END)"
    )
    return cell


def _is_clean(table: Table, cell: str, trimmed: str, empty: Sequence[str]) -> bool:
    """Whether a quick look finds no cell with spaces around it, or that counts as empty."""
    cases = {each for word in empty for each in (word, word.upper(), word.capitalize())}
    written = sorted({*cases, "NaN"})
    (unclean,) = table.one(
        f"SELECT count(*) FILTER ({cell} IN {_tuple(written)} OR {cell} <> {trimmed}) FROM {ROWS}"
    )
    return not unclean


def _tuple(values: Sequence[object]) -> str:
    return f"({', '.join(map(literal, values))})"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _typed(table: Table, name: str, options: ReadOptions) -> Column | None:
    """A column that the file itself says the type of; None: it holds words."""
    cell, kind = table.column(name), table.types[table.header.index(name)]
    if kind == "VARCHAR":
        return None
    text = _text(table, name, options)
    if "TIME ZONE" in kind:
        sql = f"({cell} AT TIME ZONE 'UTC')"
        return Column(name, "time", f"CAST({sql} AS TIMESTAMP)", text, zone=True)
    if kind.startswith("TIMESTAMP") or kind == "DATE":
        return Column(name, "time", f"CAST({cell} AS TIMESTAMP)", text)
    if kind.startswith("TIME"):
        return Column(name, "number", f"CAST(epoch({cell}) AS DOUBLE)", text)
    if kind == "INTERVAL":
        months = f"datepart('year', {cell}) * 12 + datepart('month', {cell})"
        if table.one(f"SELECT count(*) FILTER ({months} <> 0) FROM {ROWS}")[0]:
            note = "holds INTERVAL with months, which are not equally long"
            return Column(name, "words", text, text, note=note)
        return Column(name, "number", f"CAST(epoch({cell}) AS DOUBLE)", text)
    if NUMBERS.fullmatch(kind):
        number = f"CAST({cell} AS DOUBLE)"
        marks = [float(word) for word in options.na_values or () if _is_number(word)]
        is_mark = f" OR {number} IN {_tuple(marks)}" if marks else ""
        sql = f"CASE WHEN isnan({number}){is_mark} THEN NULL ELSE {number} END"
        return Column(name, "number", f"({sql})", text)
    if kind == '"NULL"' or kind == "NULL":
        return Column(name, "empty", "CAST(NULL AS DOUBLE)", "CAST(NULL AS VARCHAR)")
    return Column(name, "words", text, text, note=f"holds {kind}")


def _of_words(table: Table, name: str, text: str, options: ReadOptions) -> Column:
    """What a column of words holds."""
    words = Column(name, "words", text, text)
    first = [row[0] for row in table.query(f"SELECT {text} FROM {ROWS} LIMIT {SAMPLE}")]
    known = [word for word in first if word is not None]
    told = options.time_format is not None
    if (
        known
        and not told
        and not any(looks_like_a_value(word) or UNIT.fullmatch(word) for word in known)
    ):
        return _as_truth(table, words, known) or words
    n = table.one(f"SELECT count({text}) FROM {ROWS}")[0]
    if n == 0:
        return Column(name, "empty", f"TRY_CAST({text} AS DOUBLE)", text)
    times = _as_time(table, words, n, options)
    if times is not None and not times.bad[0]:
        return times
    number = _as_number(table, words, n, known, options)
    if number is not None and (not number.bad[0] or times is None):
        return number
    return times or _as_truth(table, words, known) or words


def _as_number(
    table: Table, words: Column, n: int, sample: Sequence[str], options: ReadOptions
) -> Column | None:
    """A column of numbers, a few cells may be mistakes; None: it is none."""
    found = written_as(table, words.text, n, sample, options, MOSTLY)
    if found is None:
        return None
    if found.units:
        return replace(words, units=found.units)
    sql = f"({found.numeral.sql(found.text)})"
    notes = [note for note in (found.numeral.note, _unit_note(found.unit)) if note]
    return replace(
        words, kind="number", sql=sql, bad=_bad(table, words.text, sql),
        decimal=found.numeral.decimal, thousands=found.numeral.thousands,
        either=found.example if found.other else "", note="; ".join(notes),
    )  # fmt: skip


def _unit_note(unit: str) -> str:
    if unit == "%":
        return "percent signs (%) are left out"
    return f"the unit {unit!r} is left out" if unit else ""


def _bad(table: Table, text: str, sql: str) -> tuple[int, int]:
    """How many cells are not empty and not what they should be, and the row of the first."""
    wrong = f"{text} IS NOT NULL AND ({sql}) IS NULL"
    count, row = table.one(f"SELECT count(*), min({ROW}) FROM {ROWS} WHERE {wrong}")
    return count, row or 0


def with_bad_cells(table: Table, column: Column) -> Column:
    """A column with the cells of other rows that are not what it holds."""
    return replace(column, bad=_bad(table, column.text, column.sql))


def _as_truth(table: Table, words: Column, sample: Sequence[str]) -> Column | None:
    """A column of true and false, or yes and no, as ones and zeros."""
    true, false = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
    if not {word.lower() for word in sample} <= {*true, *false}:
        return None
    lower = f"lower({words.text})"
    sql = f"CASE WHEN {lower} IN {_tuple(true)} THEN 1.0 WHEN {lower} IN {_tuple(false)} THEN 0.0"
    if _bad(table, words.text, f"{sql} END")[0]:
        return None
    return replace(
        words,
        kind="number",
        sql=f"({sql} END)",
        note="true and yes are read as 1, false and no as 0",
    )


def _as_time(table: Table, words: Column, n: int, options: ReadOptions) -> Column | None:
    """A column of dates or times; None: it holds none."""
    text = words.text
    sample = [
        row[0]
        for row in table.query(
            f"SELECT DISTINCT {text} AS word FROM {ROWS} WHERE {text} IS NOT NULL"
            f" ORDER BY hash(word), word LIMIT 200"
        )
    ]
    for candidate in _time_candidates(words, sample, options):
        bad = _bad(table, text, candidate.sql)
        if bad[0] <= (1 - MOSTLY) * n:
            return _both_ways(table, replace(candidate, bad=bad), options.time_format)
    return None


def _time_candidates(
    words: Column, sample: Sequence[str], options: ReadOptions
) -> Iterator[Column]:
    """Ways to read a column as times that fit most of a sample."""
    text, enough = words.text, MOSTLY * len(sample)

    def fits(pattern: str) -> bool:
        return sum(bool(re.fullmatch(pattern, word)) for word in sample) >= enough

    if options.time_format is not None:
        sql = f"CAST(try_strptime({text}, {literal(options.time_format)}) AS TIMESTAMP)"
        yield replace(words, kind="time", sql=sql, formats=(options.time_format,))
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
    if fits(QUARTER):
        year, quarter = f"CAST(left({text}, 4) AS BIGINT)", f"CAST(right({text}, 1) AS BIGINT)"
        sql = (
            f"CASE WHEN regexp_full_match({text}, {literal(QUARTER)}) THEN"
            f" make_timestamp({year}, 3 * {quarter} - 2, 1, 0, 0, 0) END"
        )
        yield replace(words, kind="time", sql=f"({sql})", formats=("quarters",))
        return
    for form in FORMATS:
        if sum(_matches(word, form) for word in sample) >= enough:
            sql = f"CAST(try_strptime({text}, {literal(form)}) AS TIMESTAMP)"
            yield replace(words, kind="time", sql=sql, formats=(form,))


def _matches(word: str, form: str) -> bool:
    try:
        datetime.strptime(word, form)
    except ValueError:
        return False
    return True


def _both_ways(table: Table, column: Column, given: str | None) -> Column:
    """A column of dates with the format that swaps days and months, where that fits as well."""
    if len(column.formats) != 1 or column.bad[0] or given is not None:
        return column
    swapped = re.sub("%[dm]", lambda found: "%m" if found[0] == "%d" else "%d", column.formats[0])
    if swapped == column.formats[0] or swapped not in FORMATS:
        return column
    sql = f"CAST(try_strptime({column.text}, {literal(swapped)}) AS TIMESTAMP)"
    differs = f"count(*) FILTER (({sql}) IS DISTINCT FROM ({column.sql}))"
    if _bad(table, column.text, sql)[0] or not table.one(f"SELECT {differs} FROM {ROWS}")[0]:
        return column
    return replace(column, formats=(column.formats[0], swapped))


def _one_decimal(
    table: Table, columns: dict[str, Column], options: ReadOptions
) -> dict[str, Column]:
    """Columns read with one decimal mark: where one column can only have commas before decimals,
    1.234 in another is a thousand and more."""
    sure = [c for c in columns.values() if c.kind == "number" and c.decimal == "," and not c.either]
    if not sure or options.decimal != "auto":
        return columns
    again = replace(options, decimal=",")
    found = {}
    for name, column in columns.items():
        dotted = f"count(*) FILTER (contains({column.text}, '.'))"
        if column.either or (
            table.is_text and column.kind == "number" and column.decimal == "."
            and table.one(f"SELECT {dotted} FROM {ROWS}")[0]
        ):  # fmt: skip
            text = _text(table, name, options)
            found_again = _of_words(table, name, text, again)
            if column.either or (found_again.kind == "number" and not found_again.bad[0]):
                column = found_again
        found[name] = column
    return found


def check_cells(table: Table, column: Column) -> None:
    """
    Raises:
        AmbiguousData: a cell of a column is not what the others are, or its commas may stand
            before decimals or between thousands.
    """
    if column.either:
        raise AmbiguousData(
            f"{table.name}: column {column.name!r} holds {column.either!r} and the like, where the"
            " comma may stand between thousands or before decimals. Say which: data.thousands: ','"
            " or data.decimal: ',' (in data check: --thousands , or --decimal ,).",
            ({"thousands": ","}, {"decimal": ","}),
        )
    count, row = column.bad
    if not count:
        return
    (text,) = table.one(f"SELECT {column.text} FROM {ROWS} WHERE {ROW} = {row}")
    shown = shortened(text)
    what = "a number" if column.kind == "number" else "a date"
    more = f", and {count - 1} more cells hold none" if count > 1 else ""
    raise AmbiguousData(
        f"{table.name}: {table.line(row)}, column {column.name!r} holds {shown!r}, not"
        f" {what}{more}. Correct the cell, or say that it is an empty one:"
        f" data.na_values: [{shown!r}] (in data check: --na {shlex.quote(shown)}); or"
        " leave the column out: --ignore"
        f" {shlex.quote(column.name)}.",
        ({"na_values": text}, {"ignore": column.name}),
    )


def first_word(table: Table, column: Column, options: ReadOptions) -> str:
    """Where a column of words has the first that is no number."""
    text = column.text
    ways = [f"({way.sql(text)}) IS NOT NULL" for way in allowed(options)]
    found = table.query(
        f"SELECT {ROW}, {text} FROM {ROWS} WHERE {text} IS NOT NULL"
        f" ORDER BY {' OR '.join(ways) or 'false'}, {ROW} LIMIT 1"
    )
    if not found:
        return f"column {column.name!r} is empty"
    row, word = found[0]
    return f"{table.line(row)}, column {column.name!r} holds {shortened(word)!r}, not a number"


def shortened(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}..."


def check_units(table: Table, column: Column) -> None:
    """
    Raises:
        AmbiguousData: the numbers of a column have several units.
    """
    if column.units:
        raise AmbiguousData(
            f"{table.name}: column {column.name!r} has numbers of several units"
            f" ({', '.join(column.units)}). Write them in one unit, or leave the column out:"
            f" data.ignore: [{column.name!r}] (in data check: --ignore"
            f" {shlex.quote(column.name)}).",
            ({"ignore": column.name},),
        )


def empty_cells(table: Table, column: Column) -> str:
    """How many cells of a column are empty, and what stands in them; empty: none is."""
    (count,) = table.one(f"SELECT count(*) FROM {ROWS} WHERE ({column.sql}) IS NULL")
    if not count:
        return ""
    shown = ", ".join(map(repr, table.empty_words.get(column.name, ())))
    holds = f" ({shown})" if shown else ""
    return f"{count:,} {'cell' if count == 1 else 'cells'} of {column.name!r} empty{holds}"
