"""Which column of a table says when."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.files.columns import listed
from seqattn.data.tables.checks import check_cells
from seqattn.data.tables.facts import Facts
from seqattn.data.tables.names import SURE_TIMES, TIME_NAMES, check_names, known_names, plain
from seqattn.data.tables.time_columns import TimeColumn, combined_time
from seqattn.errors import AmbiguousData


def find_time(facts: Facts) -> TimeColumn | None:
    """The column that counts up; None: there is none, or none is sure yet."""
    given = facts.options.time
    if given is None:
        return None
    if given != "auto":
        check_names(facts.table, given, "data.time")
        if len(given) > 1:
            return combined_time(
                facts.table, [facts.columns[name] for name in given], facts.options
            )
        return facts.time_of(given[0])
    left = facts.left(*(facts.options.series if facts.options.series != "auto" else ()))
    dates = [name for name in left if facts.columns[name].kind == "time"]
    if dates:
        return facts.time_of(_chosen_dates(facts, dates))
    _parts_of_dates(facts, left)
    for name in known_names(left, TIME_NAMES):
        if facts.is_whole(name) or facts.increases(name):
            facts.reasons.append(f"time: {name!r}, because of its name")
            return facts.time_of(name)
    _refuse_broken_times(facts, [n for n in left if plain(n) in TIME_NAMES[:SURE_TIMES]])
    return None


def _chosen_dates(facts: Facts, dates: Sequence[str]) -> str:
    """The one of some columns of dates that says when.

    Raises:
        AmbiguousData: no name says which.
    """
    named = known_names(dates, TIME_NAMES) if len(dates) > 1 else dates
    if not named:
        raise AmbiguousData(
            f"{facts.table.name}: the columns {listed(dates)} all hold dates. Say which is"
            f" the time: data.time: {dates[0]} (in data check: --time {dates[0]}).",
            tuple({"time": name} for name in dates),
        )
    first, *others = named
    facts.reasons.append(f"time: {first!r}, because it holds dates")
    for other in others:
        facts.ignored[other] = f"it holds dates, and {first!r} is the time"
    return first


def _refuse_broken_times(facts: Facts, names: Sequence[str]) -> None:
    """
    Raises:
        DataError: a column that is called as only times are has a cell that is none; without
            it rows would be taken as they come.
    """
    for name in names:
        column = facts.columns[name]
        check_cells(facts.table, column)
        if column.kind == "words" or (
            column.kind == "number" and facts.count(f"count(*) - count({column.sql})")
        ):
            facts.time_of(name)


def _parts_of_dates(facts: Facts, left: Sequence[str]) -> None:
    """
    Raises:
        AmbiguousData: a year and a month, and more, stand in columns of their own.
    """
    found = []
    for part in ("year", "month", "day", "hour", "minute"):
        name = next((n for n in left if plain(n) == part and facts.is_whole(n)), None)
        if name is None:
            break
        found.append(name)
    if len(found) > 1:
        ask_for_one_time(facts, found)


def ask_for_one_time(facts: Facts, names: Sequence[str]) -> None:
    """
    Raises:
        AmbiguousData: always: columns that say when together can be one time, or all but the
            last can name a series.
    """
    together = ",".join(names)
    *before, last = names
    raise AmbiguousData(
        f"{facts.table.name}: the columns {together} say when together. One series with one time"
        f" of them all: data.time: [{', '.join(names)}] (in data check: --time {together}); a"
        f" series for each {' and '.join(before)}: --series {','.join(before)} --time {last};"
        f" rows as they come: --time none --ignore {together}.",
        ({"time": together}, {"series": ",".join(before), "time": last},
         {"time": "none", "ignore": together}),
    )  # fmt: skip
