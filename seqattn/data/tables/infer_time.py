"""Inference of the time column of a table."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.files.columns import join_names
from seqattn.data.setting_names import setting
from seqattn.data.tables.checks import check_cells
from seqattn.data.tables.facts import TableFacts
from seqattn.data.tables.names import SURE_TIMES, TIME_NAMES, check_names, fold_name, known_names
from seqattn.data.tables.time_columns import TimeColumn, are_weeks, combine_time_columns
from seqattn.errors import AmbiguousData, DataError


def find_time(facts: TableFacts) -> TimeColumn | None:
    """Find the time column. Return None if there is none, or if the series must be known first.

    Raises:
        DataError: if a column with the name of a time contains words with digits.
    """
    time_option = facts.options.time
    if time_option is None:
        return None
    if time_option != "auto":
        check_names(facts.table, time_option, "data.time")
        if len(time_option) > 1:
            return combine_time_columns(
                facts.table, [facts.columns[name] for name in time_option], facts.options
            )
        return facts.to_time_column(time_option[0])
    unassigned = facts.without_role(
        *(facts.options.series if facts.options.series != "auto" else ())
    )
    dates = [name for name in unassigned if facts.columns[name].kind == "time"]
    if dates:
        return facts.to_time_column(_choose_date_column(facts, dates))
    _check_date_parts(facts, unassigned)
    for name in known_names(unassigned, TIME_NAMES):
        if facts.is_integer(name) or facts.is_monotonic(name):
            facts.reasons.append(f"time: {name!r}, because of its name")
            return facts.to_time_column(name)
    for name in unassigned:
        if facts.is_integer(name) and are_weeks(facts.table, facts.columns[name], facts.options):
            facts.reasons.append(f"time: {name!r}, because it contains years and weeks")
            return facts.to_time_column(name)
    _check_broken_times(facts, unassigned)
    return None


def _choose_date_column(facts: TableFacts, dates: Sequence[str]) -> str:
    """Choose the time column by name if several columns contain dates.

    Raises:
        AmbiguousData: if several columns contain dates and none has a usual name for a time.
    """
    named = known_names(dates, TIME_NAMES) if len(dates) > 1 else dates
    if not named:
        raise AmbiguousData(
            f"{facts.table.name}: the columns {join_names(dates)} all contain dates. Choose the"
            f" time: {' or '.join(setting('time', name) for name in dates)}.",
            tuple({"time": name} for name in dates),
        )
    first, *others = named
    facts.reasons.append(f"time: {first!r}, because it contains dates")
    for other in others:
        facts.ignored[other] = f"it contains dates, and {first!r} is the time"
    return first


def _check_broken_times(facts: TableFacts, unassigned: Sequence[str]) -> None:
    """Check that columns whose names clearly denote a time contain times, and that columns with
    other names of times do not contain words with digits.

    Raises:
        DataError: if a cell is not a time. Without this error, rows would be taken in file order.
    """
    for name in known_names(unassigned, TIME_NAMES):
        column = facts.columns[name]
        if fold_name(name) in TIME_NAMES[:SURE_TIMES]:
            if not column.bad[0]:
                check_cells(facts.table, column)
            has_empty = column.kind == "number" and facts.count(column.empty_count) > 0
            if column.kind == "words" or column.bad[0] or has_empty:
                facts.to_time_column(name)
        elif column.kind == "words" and facts.has_digits(name):
            facts.to_time_column(name)


def _check_date_parts(facts: TableFacts, unassigned: Sequence[str]) -> None:
    """Check that the time is not divided into columns such as year and month.

    Raises:
        AmbiguousData: if year, month and possibly smaller units have separate columns.
        DataError: if year and week have separate columns.
    """
    found = []
    for unit in ("year", "month", "day", "hour", "minute", "second"):
        name = next((n for n in unassigned if fold_name(n) == unit and facts.is_integer(n)), None)
        if name is None:
            break
        found.append(name)
    if len(found) > 1:
        raise_split_time(facts, found)
    folded = {fold_name(name): name for name in unassigned if facts.is_integer(name)}
    if "year" in folded and "week" in folded:
        raise DataError(
            f"{facts.table.name}: the columns {folded['year']!r} and {folded['week']!r} contain the"
            " time together. Write them in one column, as 2021-W05."
        )


def raise_split_time(facts: TableFacts, names: Sequence[str]) -> None:
    """Raise the error for a time that is divided into several columns.

    Raises:
        AmbiguousData: always, because all columns may form the time, or all columns except the last
            may form the series id.
    """
    together = ",".join(names)
    *before, last = names
    raise AmbiguousData(
        f"{facts.table.name}: the columns {together} contain the time together. For one series"
        f" with the time of all these columns: {setting('time', names)}; a series for each"
        f" {' and '.join(before)}: {setting('series', before)} and {setting('time', last)};"
        f" rows in order: {setting('time', None)} and {setting('ignore', names)}.",
        ({"time": together}, {"series": ",".join(before), "time": last},
         {"time": "none", "ignore": together}),
    )  # fmt: skip
