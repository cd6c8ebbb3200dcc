"""Which columns of a table tell its series apart."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence

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
"""Rows a time, on average, from which on words without a usual name may tell series apart."""


def find_series(
    facts: TableFacts, time: TimeColumn | None
) -> tuple[tuple[str, ...], TimeColumn | None]:
    """The columns that tell sequences apart; and the time, if only these show it."""
    given = facts.options.series
    if given != "auto":
        check_names(facts.table, given, "data.series")
        if time is None and facts.options.time == "auto":
            time = facts.counter(given)
        return tuple(given), time
    left = facts.left(*(time.names if time else ()))
    named = [
        name for name in known_names(left, SERIES_NAMES)
        if facts.columns[name].kind == "words" or facts.is_whole(name)
    ]  # fmt: skip
    if time is None:
        return _series_without_time(facts, left, named)
    if facts.distinct(time.sql) == facts.rows:
        return _named_series(facts, named) or _block_series(facts, named), time
    return _series_of_times(facts, left, named, time), time


def _series_of_times(
    facts: TableFacts, left: Sequence[str], named: Sequence[str], time: TimeColumn
) -> tuple[str, ...]:
    """The columns that make times unique which repeat.

    Args:
        left: columns without a role.
        named: those of them that are called as series ids are.

    Raises:
        AmbiguousData: none do for sure.
    """
    words = [n for n in left if facts.columns[n].kind == "words" and n not in named]
    whole = [n for n in left if n not in named and facts.is_whole(n)]
    if MIN_ROWS_PER_TIME * facts.distinct(time.sql) > facts.rows:
        words = whole = []  # a few times that repeat are mistakes: any column could tell them apart
    if facts.options.time == "auto":
        _check_hour_column(facts, time)
    keys = _key_columns(facts, named, words, time)
    if keys is not None:
        return keys
    unsure = [n for n in whole if facts.identifies_rows((n,), time)]
    if unsure:
        raise AmbiguousData(
            f"{facts.table.name}: the times in {time.names[0]!r} repeat. If {unsure[0]!r} says"
            f" which series a row is of: data.series: {unsure[0]} (in data check: --series"
            f" {unsure[0]}).",
            tuple({"series": name} for name in unsure),
        )
    found = _named_series(facts, named)
    if not found:
        _raise_repeated_times(facts, time)
    return found


def _named_series(facts: TableFacts, named: Sequence[str]) -> tuple[str, ...]:
    """A column whose name leaves no doubt. It names series unless it numbers the rows, or has
    another word in each; with too few rows to tell, its name is believed."""
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
    """A column called as an id of trips or sessions that holds each value in rows that stand
    together, two at least on average."""
    for name in named:
        if fold_name(name) not in SERIES_NAMES[:BLOCK_SERIES] and not fold_name(name).endswith(
            "_id"
        ):
            continue
        values = facts.distinct(facts.columns[name].text)
        if 1 < 2 * values <= facts.rows and facts.stays(name):
            facts.reasons.append(f"series: {name!r}, because of its name and its blocks")
            return (name,)
    return ()


def _key_columns(
    facts: TableFacts, named: Sequence[str], words: Sequence[str], time: TimeColumn
) -> tuple[str, ...] | None:
    """The fewest columns that make each time unique; None: none do."""
    every = [*named, *words]
    single = [name for name in every if facts.identifies_rows((name,), time)]
    if single:
        first, *others = single
        for other in others:
            text = (facts.columns[first].text, facts.columns[other].text)
            if facts.distinct(*text) not in (facts.distinct(text[0]), facts.distinct(text[1])):
                raise AmbiguousData(
                    f"{facts.table.name}: {first!r} and {other!r} could both say which series a"
                    f" row is of. Say which: data.series: {first} or {other} (in data check:"
                    f" --series {first}).",
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
    """
    Raises:
        AmbiguousData: a date repeats, and an hour in a column of its own makes it unique.
    """
    if not time.is_date:
        return
    for name in facts.left(*time.names):
        if fold_name(name) in ("hour", "hr", "time", "time_of_day"):
            both = facts.distinct(time.sql, facts.columns[name].text)
            if both == facts.rows:
                raise_split_time(facts, (*time.names, name))


def _raise_repeated_times(facts: TableFacts, time: TimeColumn) -> None:
    """
    Raises:
        AmbiguousData: always: two rows are of one time, and no column tells series apart.
    """
    first, second = facts.table.one(
        f"SELECT min({ROW}), list({ROW} ORDER BY {ROW})[2] FROM {ROWS} GROUP BY {time.sql}"
        f" HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    )
    (shown,) = facts.table.one(
        f"SELECT CAST({time.sql} AS VARCHAR) FROM {ROWS} WHERE {ROW} = {first}"
    )
    given = ",".join(time.names)
    raise AmbiguousData(
        f"{facts.table.name}: {facts.table.line(first)} and {facts.table.line(second)} are both of"
        f" {shown.removesuffix(' 00:00:00').removesuffix('.0')} ({given}), and no column tells"
        " series apart. Correct the file, name the series (data.series; in data"
        " check: --series COLUMN), or take the rows in order: data.time: null (in data"
        " check: --time none --ignore"
        f" {shlex.quote(given)}).",
        ({"time": "none", "ignore": given},),
    )


def _series_without_time(
    facts: TableFacts, left: Sequence[str], named: Sequence[str]
) -> tuple[tuple[str, ...], TimeColumn | None]:
    """Series of a table without a time: by name, or words that stay for several rows."""
    series = _named_series(facts, named) or _repeated_words(facts, left, named)
    if series:
        return series, facts.counter(series)
    time = facts.counter(())
    if time is not None:
        return (), time
    for name in left:  # whole numbers that stay, beside others that count up within each
        if name not in named and facts.is_whole(name) and facts.stays(name):
            time = facts.counter((name,))
            if time is not None:
                why = f"because {time.names[0]!r} counts up in each"
                facts.reasons.append(f"series: {name!r}, {why}")
                return (name,), time
    return (), None


def _repeated_words(
    facts: TableFacts, left: Sequence[str], named: Sequence[str]
) -> tuple[str, ...]:
    """A column whose values have two rows at least on average."""
    words = [n for n in left if facts.columns[n].kind == "words" and n not in named]
    for name in [*named, *words]:
        if 2 * facts.distinct(facts.columns[name].text) <= facts.rows and (
            name in named or facts.stays(name)
        ):
            why = "because of its name" if name in named else "because it stays for some rows"
            facts.reasons.append(f"series: {name!r}, {why}")
            return (name,)
    return ()
