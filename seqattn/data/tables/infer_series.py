"""Inference of the series id columns of a table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from seqattn.data.setting_names import setting
from seqattn.data.tables.facts import MIN_ROWS, TableFacts
from seqattn.data.tables.infer_time import raise_split_time
from seqattn.data.tables.names import (
    BLOCK_SERIES,
    SERIES_NAMES,
    SURE_SERIES,
    check_names,
    fold_name,
    known_names,
)
from seqattn.data.tables.table import ROW, ROWS
from seqattn.data.tables.time_columns import TimeColumn
from seqattn.errors import AmbiguousData

MIN_ROWS_PER_TIME = 1.2
"""Minimum average number of rows per time at which columns without a usual name can contain series
ids."""


def find_series(
    facts: TableFacts, time: TimeColumn | None
) -> tuple[tuple[str, ...], TimeColumn | None]:
    """Find the series id columns. If `time` is None, also search for a column of numbers that
    counts up within each series.

    Returns:
        the names of the series id columns, and the time column or None.
    """
    series_option = facts.options.series
    if series_option != "auto":
        check_names(facts.table, series_option, "data.series")
        if time is None and facts.options.time == "auto":
            time = facts.find_counter(series_option)
        return tuple(series_option), time
    unassigned = facts.without_role(*(time.names if time else ()))
    named = [
        name for name in known_names(unassigned, SERIES_NAMES)
        if facts.columns[name].kind == "words" or facts.is_integer(name)
    ]  # fmt: skip
    if time is None:
        return _series_without_time(facts, unassigned, named)
    if facts.distinct(time.sql) == facts.rows:
        return _named_series(facts, named) or _block_series(facts, named), time
    return _series_of_times(facts, unassigned, named, time), time


def _series_of_times(
    facts: TableFacts, unassigned: Sequence[str], named: Sequence[str], time: TimeColumn
) -> tuple[str, ...]:
    """Return the names of the columns that distinguish rows with the same time.

    Args:
        facts: facts about the table.
        unassigned: names of the columns without a role.
        named: the names in `unassigned` that are usual for series ids.
        time: the time column.

    Raises:
        AmbiguousData: if it is uncertain which columns distinguish rows with the same time.
    """
    words = [n for n in unassigned if facts.columns[n].kind == "words" and n not in named]
    integers = [n for n in unassigned if n not in named and facts.is_integer(n)]
    if MIN_ROWS_PER_TIME * facts.distinct(time.sql) > facts.rows:
        words = integers = []  # if few times repeat, many columns distinguish the rows by chance
    if facts.options.time == "auto":
        _check_hour_column(facts, time)
    keys = _key_columns(facts, named, words, time)
    if keys is not None:
        return keys
    unsure = [n for n in integers if facts.identifies_rows((n,), time)]
    if unsure:
        raise AmbiguousData(
            f"{facts.table.name}: the times in {time.names[0]!r} repeat. If {unsure[0]!r} is"
            f" the series id: {setting('series', unsure[0])}.",
            tuple({"series": name} for name in unsure),
        )
    found = _named_series(facts, named)
    if not found:
        _raise_repeated_times(facts, time)
    return found


def _named_series(facts: TableFacts, named: Sequence[str]) -> tuple[str, ...]:
    """Return the column with an unambiguous name for series ids.

    A column with a different value in each row is rejected if the table has at least `MIN_ROWS`
    rows or if the values increase by one in every row.
    """
    name = next((name for name in named if fold_name(name) in SERIES_NAMES[:SURE_SERIES]), None)
    if name is None:
        return ()
    if facts.distinct(facts.columns[name].text) == facts.rows and (
        facts.rows >= MIN_ROWS or facts.increments_by_one(name)
    ):
        return ()
    facts.reasons.append(f"series: {name!r}, because of its name")
    return (name,)


def _block_series(facts: TableFacts, named: Sequence[str]) -> tuple[str, ...]:
    """Return a column with the name of an id, such as `trip_id`. The rows with the same value must
    be contiguous, and there must be at least twice as many rows as distinct values. If there
    is no such column, return ()."""
    for name in named:
        folded = fold_name(name)
        if folded not in SERIES_NAMES[:BLOCK_SERIES] and not folded.endswith("_id"):
            continue
        values = facts.distinct(facts.columns[name].text)
        if 1 < 2 * values <= facts.rows and facts.is_contiguous(name):
            facts.reasons.append(f"series: {name!r}, because of its name and its blocks")
            return (name,)
    return ()


def _key_columns(
    facts: TableFacts, named: Sequence[str], words: Sequence[str], time: TimeColumn
) -> tuple[str, ...] | None:
    """Return the names of the fewest columns, at most three, that distinguish all rows with the
    same time, or None if there are no such columns.

    Raises:
        AmbiguousData: if either of two columns could be the series id.
    """
    every = [*named, *words]
    single = [name for name in every if facts.identifies_rows((name,), time)]
    if single:
        first, *others = single
        for other in others:
            text = (facts.columns[first].text, facts.columns[other].text)
            if facts.distinct(*text) not in (facts.distinct(text[0]), facts.distinct(text[1])):
                raise AmbiguousData(
                    f"{facts.table.name}: {first!r} and {other!r} could both be the series"
                    f" id. Choose one: {setting('series', first)} or"
                    f" {setting('series', other)}.",
                    ({"series": first}, {"series": other}),
                )
        facts.reasons.append(f"series: {first!r}, because its times are unique in each series")
        return (first,)
    for size in (2, 3):
        for pair in itertools.combinations(every[:8], size):
            if facts.identifies_rows(pair, time):
                facts.reasons.append(f"series: {' and '.join(map(repr, pair))} together")
                return pair
    return None


def _check_hour_column(facts: TableFacts, time: TimeColumn) -> None:
    """Check whether dates need an hour from another column.

    Raises:
        AmbiguousData: if dates repeat, and an hour in a separate column makes the times unique.
    """
    if not time.is_date:
        return
    for name in facts.without_role(*time.names):
        if fold_name(name) in ("hour", "hr", "time", "time_of_day"):
            both = facts.distinct(time.sql, facts.columns[name].text)
            if both == facts.rows:
                raise_split_time(facts, (*time.names, name))


def _raise_repeated_times(facts: TableFacts, time: TimeColumn) -> None:
    """Raise the error for two rows with the same time.

    Raises:
        AmbiguousData: always, because no column identifies the series of the two rows.
    """
    first, second = facts.table.one(
        f"SELECT min({ROW}), list({ROW} ORDER BY {ROW})[2] FROM {ROWS} GROUP BY {time.sql}"
        f" HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    )
    (shown,) = facts.table.one(
        f"SELECT CAST({time.sql} AS VARCHAR) FROM {ROWS} WHERE {ROW} = {first}"
    )
    columns = ",".join(time.names)
    value = f"{shown.removesuffix(' 00:00:00').removesuffix('.0')} ({columns})"
    if facts.distinct(time.sql) == 1:
        found = (
            f"all {facts.rows} rows are of {value}, so each series would have one row, but a source"
            " and a target need one each. Correct the file"
        )
    else:
        found = (
            f"{facts.table.line(first)} and {facts.table.line(second)} are both of {value}, and no"
            f" column identifies series. Correct the file, name the series:"
            f" {setting('series', 'COLUMN')}"
        )
    raise AmbiguousData(
        f"{facts.table.name}: {found}, or take the rows in order: {setting('time', None)} and"
        f" {setting('ignore', columns.split(','))}.",
        ({"time": "none", "ignore": columns},),
    )


def _series_without_time(
    facts: TableFacts, unassigned: Sequence[str], named: Sequence[str]
) -> tuple[tuple[str, ...], TimeColumn | None]:
    """Infer the series id columns, and possibly the time column, of a table in which no time column
    was recognized.

    A series id column either has a usual name or contains words or integers. If the column has
    no usual name, the rows with the same word or integer must be contiguous. If such a column
    contains integers, another column must count up within each series. A column that counts up
    within each series becomes the time.

    Returns:
        the names of the series id columns, and the time column or None.
    """
    series = _named_series(facts, named) or _repeated_words(facts, unassigned, named)
    if series:
        return series, facts.find_counter(series)
    time = facts.find_counter(())
    if time is not None:
        return (), time
    # Look for a column of integers in which equal values are contiguous, and for another column
    # that counts up while this integer is constant.
    for name in unassigned:
        if name not in named and facts.is_integer(name) and facts.is_contiguous(name):
            time = facts.find_counter((name,))
            if time is not None:
                why = f"because {time.names[0]!r} counts up in each"
                facts.reasons.append(f"series: {name!r}, {why}")
                return (name,), time
    return (), None


def _repeated_words(
    facts: TableFacts, unassigned: Sequence[str], named: Sequence[str]
) -> tuple[str, ...]:
    """Return a column in which each value occurs in two or more rows on average. The column must
    have a usual name, or the rows with the same word must be contiguous."""
    words = [n for n in unassigned if facts.columns[n].kind == "words" and n not in named]
    for name in [*named, *words]:
        if 2 * facts.distinct(facts.columns[name].text) <= facts.rows and (
            name in named or facts.is_contiguous(name)
        ):
            why = "because of its name" if name in named else "because it stays for some rows"
            facts.reasons.append(f"series: {name!r}, {why}")
            return (name,)
    return ()
