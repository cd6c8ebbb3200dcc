"""Detection of the style of a table: the delimiter, the decimal mark and the time formats.

Forecasts for a table are written in the style of this table.
"""

from __future__ import annotations

import re

from seqattn.data.column_roles import LONG_LAYOUT, ColumnRoles
from seqattn.data.tables.column import Column
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.time_columns import DIGITS_OF_DATES

_ISO = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:([T ])\d{1,2}:\d{2}(:\d{2}(?:([.,])\d{1,9})?)?)?"
    r"( ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?))?"
)
_UNIT_FORMATS = ("%Y", "%m", "%d", "%H", "%M", "%S")


def to_column_roles(table: Table, roles: LongLayout) -> ColumnRoles:
    """Return the column roles of a long table, with the formats of its times and numbers."""
    names = () if roles.time is None else roles.time.names
    numbers = [roles.columns[name] for name in (*roles.features, *names)]
    numbers = [column for column in numbers if column.kind == "number"]
    decimal = "," if any(column.decimal == "," for column in numbers) else "."
    formats: tuple[str, ...] = ()
    if roles.time is not None and roles.time.is_date:
        columns = [roles.columns[name] for name in names]
        if roles.time.format:
            formats = (roles.time.format,)
        elif table.is_text or [column.kind for column in columns] == ["number"]:
            formats = _formats(table, columns)
    return ColumnRoles(
        LONG_LAYOUT, roles.series, names, roles.features, roles.ignored, formats, table.delimiter,
        decimal, table.is_text and _has_decimals(table, numbers),
    )  # fmt: skip


def _has_decimals(table: Table, numbers: list[Column]) -> bool:
    if not numbers:
        return False
    conditions = " OR ".join(f"{column.sql} <> round({column.sql})" for column in numbers)
    found = table.one(f"SELECT EXISTS (SELECT 1 FROM {ROWS} WHERE {conditions})")
    return bool(found[0])


def _formats(table: Table, columns: list[Column]) -> tuple[str, ...]:
    """Return the `strftime` format of each time column, or an empty tuple if any format is
    unknown."""
    words = [
        str(table.one(f"SELECT {c.text} FROM {ROWS} ORDER BY {ROW} LIMIT 1")[0]) for c in columns
    ]
    first, *others = zip(columns, words, strict=True)
    if others and first[0].kind == "number" and not _date_format(*first):
        found = [_part_format(form, word) for form, word in zip(_UNIT_FORMATS, words, strict=False)]
    else:
        of_times = ["%H:%M:%S" if word.count(":") > 1 else "%H:%M" for _, word in others]
        found = [
            _date_format(*first),
            *(
                _part_format(unit, word) if column.kind == "number" else form
                for (column, word), form, unit in zip(
                    others, of_times, _UNIT_FORMATS[3:], strict=False
                )
            ),
        ]
    return tuple(found) if all(found) else ()


def _part_format(form: str, word: str) -> str:
    """Return the format of a part of a date, with a leading zero only if `word` has one."""
    is_padded = word.startswith("0") and len(word) > 1
    return form if form == "%Y" or is_padded else f"%-{form[1]}"


def _date_format(column: Column, word: str) -> str:
    """Return the format of a column of dates, or "" if the format is unknown."""
    if column.kind == "number":
        digits = word.removesuffix(".0")
        forms = {len(str(first)): form for form, (first, _) in DIGITS_OF_DATES.items()}
        return forms.get(len(digits), "")
    if column.formats and column.zone:
        return column.formats[0].replace("%z", "+0000").replace("%Z", "UTC")
    if column.formats:
        return column.formats[0]
    match = _ISO.fullmatch(word)
    if match is None:
        return ""
    between, seconds, point, zone = match.groups()
    time = f"{between}%H:%M" if between else ""
    if seconds:
        time += f":%S{point}%f" if point else ":%S"
    return f"%Y-%m-%d{time}{_utc(zone or '')}"


def _utc(zone: str) -> str:
    """Return UTC in the notation of a time zone, for example +00:00 for -05:00."""
    return re.sub(r"\d", "0", zone).replace("-", "+")
