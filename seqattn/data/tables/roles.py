"""Inference of the column roles of a long table: series id, time and features.

Roles are inferred from column names and values, and the reasons are recorded. If two readings of
the table are plausible and give different sequences, the table is ambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from seqattn.data.files.columns import join_names
from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.checks import check_cells, first_non_number
from seqattn.data.tables.column import Column, bad_cells
from seqattn.data.tables.facts import TableFacts
from seqattn.data.tables.infer_series import find_series
from seqattn.data.tables.infer_time import find_time
from seqattn.data.tables.names import SERIES_NAMES, TIME_NAMES, check_names, fold_name
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.time_columns import TimeColumn, check_filled
from seqattn.errors import AmbiguousData, DataError

CONSTANT = "it is constant"
INDEX_NAMES = ("", "unnamed:_0")


@dataclass(frozen=True)
class LongLayout:
    """The roles of the columns of a long table.

    Attributes:
        series: names of the columns with the series id; empty if all rows are one series.
        time: the time, or None if the order of the rows is the time order.
        features: names of the feature columns.
        group: name of the column with the group, or None if there is no group.
        ignored: the reason for leaving out each ignored column, by column name.
        reasons: the reasons for the inferred series id and time columns, as phrases.
        columns: the columns by name.
    """

    series: tuple[str, ...]
    time: TimeColumn | None
    features: tuple[str, ...]
    group: str | None = None
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    columns: dict[str, Column] = field(default_factory=dict)

    @property
    def time_formats(self) -> set[str]:
        """The `strftime` formats of the time columns whose format is not ISO 8601."""
        if self.time is None:
            return set()
        formats = {form for name in self.time.names for form in self.columns[name].formats[:1]}
        return formats | ({self.time.format} if self.time.format else set())


def infer_roles(table: Table, options: ReadOptions) -> LongLayout:
    """Infer the roles of the columns of a long table.

    Raises:
        DataError: if a requested column is missing or no column remains for features.
        AmbiguousData: if the table can be read in several plausible ways.
    """
    facts = TableFacts(table, options)
    for name, column in facts.columns.items():
        if column.kind == "empty" and name not in (options.features or ()):
            facts.ignored.setdefault(name, "it is empty")
    drop_index_column(facts)
    time = find_time(facts)
    series, time = find_series(facts, time)
    if time is None:
        check_order_of_dates(facts, series)
    features = find_features(facts, series, time)
    needed = [*series, *(time.names if time else ()), *features]
    if options.group is not None:
        check_names(table, [options.group], "data.group")
        needed.append(options.group)
    for name in needed:
        check_cells(table, facts.columns[name])
    return LongLayout(
        series, time, features, options.group, facts.ignored, tuple(facts.reasons), facts.columns
    )


def check_later_rows(table: Table, roles: LongLayout) -> None:
    """Check that later rows from a pipe fit the columns that were inferred from the first rows.

    Raises:
        DataError: if a time or feature cell cannot be read as its column was read in the first
            rows, or if a row has no time.
    """
    times = () if roles.time is None else roles.time.names
    for name in (*times, *roles.features):
        column = roles.columns[name]
        if column.kind != "words":
            bad = bad_cells(table, column.text, column.sql)
            check_cells(table, replace(column, bad=bad))
    if roles.time is not None:
        check_filled(table, " and ".join(times), roles.time.sql)


def drop_index_column(facts: TableFacts) -> None:
    """Leave out the first column if it contains row numbers and is called "" or "Unnamed: 0", as in
    files from pandas and R.

    Raises:
        DataError: if the first column has no name and does not contain row numbers.
    """
    name = facts.table.header[0]
    options = facts.options
    requested = [*(options.features or ()), *options.series, *(options.time or ())]
    if name in facts.ignored or name in requested or fold_name(name) not in INDEX_NAMES:
        return
    if facts.columns[name].kind == "number" and facts.is_integer(name):
        begin = f"(SELECT {facts.columns[name].sql} FROM {ROWS} WHERE {ROW} = 1)"
        steps = f"{facts.columns[name].sql} - {begin} <> {ROW} - 1"
        if facts.count(f"count(*) FILTER ({steps})") == 0:
            facts.ignored[name] = "it numbers the rows, as an index column does"
            return
    if fold_name(name) == "":
        raise DataError(
            f"{facts.table.name}: the first column has no name. Give it one in the header, or"
            f" leave it out: {setting('ignore', [''])}."
        )


def check_order_of_dates(facts: TableFacts, series: Sequence[str]) -> None:
    """Check that the rows are in the order of each column of dates, if no column is the time.

    Raises:
        AmbiguousData: if the rows are not in the order of a column of dates.
    """
    keys = ", ".join(facts.columns[name].text for name in series)
    over = f"({f'PARTITION BY {keys} ' if keys else ''}ORDER BY {ROW})"
    for name in facts.without_role(*series):
        column = facts.columns[name]
        if column.kind != "time":
            continue
        (row,) = facts.table.one(
            f"SELECT min({ROW}) FROM (SELECT {ROW}, {column.sql} < lag({column.sql}) OVER {over} AS"
            f" is_back FROM {ROWS}) WHERE is_back"
        )
        if row is not None:
            raise AmbiguousData(
                f"{facts.table.name}: the rows are taken in order because {setting('time', None)},"
                f" but the dates in {name!r} are not in order ({facts.table.line(row)}). If they"
                f" are the time: {setting('time', name)}; otherwise, leave the column out:"
                f" {setting('ignore', [name])}.",
                ({"time": name}, {"ignore": name}),
            )


def find_features(
    facts: TableFacts, series: Sequence[str], time: TimeColumn | None
) -> tuple[str, ...]:
    """Return the feature columns: those in the options, or the usable columns without another
    role."""
    assigned = (*series, *(time.names if time else ()))
    if facts.options.number_columns is not None:
        for name in facts.without_role(*assigned):
            facts.ignored.setdefault(name, "it is not among data.features")
        return facts.options.number_columns
    unassigned = facts.without_role(*assigned)
    reasons = {name: _reason_to_ignore(facts, name, series, len(unassigned)) for name in unassigned}
    found = [name for name, why in reasons.items() if not why]
    if not found:  # without other columns, use the constant columns
        found = [name for name, why in reasons.items() if why.startswith(CONSTANT)]
    facts.ignored |= {name: why for name, why in reasons.items() if name not in found}
    if not found and not facts.options.one_hot:
        _raise_without_features(facts, unassigned)
    return tuple(found)


def _raise_without_features(facts: TableFacts, unassigned: Sequence[str]) -> NoReturn:
    table, columns = facts.table, facts.columns
    words = [columns[name] for name in unassigned if columns[name].kind == "words"]
    where = "".join(f"; {first_non_number(table, column, facts.options)}" for column in words[:3])
    raise DataError(
        f"{table.name}: no column of numbers is left to be a feature; found"
        f" {join_names(table.header)}{where}. Correct the file, or say what its columns"
        f" are ({', '.join(map(setting, ('series', 'time', 'features', 'one_hot')))})."
    )


def _reason_to_ignore(facts: TableFacts, name: str, series: Sequence[str], unassigned: int) -> str:
    """Return the reason to leave out a column, or "" if the column is a feature.

    Args:
        facts: facts about the table.
        name: name of the column.
        series: names of the series id columns.
        unassigned: number of columns without a role.
    """
    column = facts.columns[name]
    if column.kind == "time":
        return "it contains dates"
    if column.kind == "words":
        return _reason_to_ignore_words(facts, column, series)
    if series and facts.is_constant_in(series, column):
        return f"{CONSTANT} in each series"
    if fold_name(name) in (*SERIES_NAMES, *TIME_NAMES) and facts.increments_by_one(name):
        return "it numbers the rows: it grows by one in every row"
    if not series and facts.rows > 1 and unassigned > 1 and facts.distinct(column.sql) == 1:
        return CONSTANT
    return ""


def _reason_to_ignore_words(facts: TableFacts, column: Column, series: Sequence[str]) -> str:
    """Return the reason to leave out a column of words.

    Raises:
        AmbiguousData: if the numbers of the column have units or parentheses.
    """
    if column.decorated:
        raise AmbiguousData(
            f"{facts.table.name}: column {column.name!r} contains {column.decorated!r}. Write plain"
            " numbers, without units and with a minus sign instead of parentheses; or leave the"
            f" column out: {setting('ignore', [column.name])}.",
            ({"ignore": column.name},),
        )
    where = ""
    if series and facts.is_constant_in(series, column):
        where = ", the same in each series"
    elif not series and facts.distinct(column.text) == 1:
        where = ", the same in every row"
    return column.note or (
        f"it contains words{where}; for a feature of 0 and 1 for each word:"
        f" {setting('one_hot', [column.name])}"
    )
