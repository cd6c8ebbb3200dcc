"""Which columns of a table tell its series apart."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence

from seqattn.data.tables.facts import LEAST_ROWS, Facts
from seqattn.data.tables.infer_time import ask_for_one_time
from seqattn.data.tables.names import BLOCK_SERIES, SERIES_NAMES, SURE_SERIES, check_names, plain
from seqattn.data.tables.table import ROW, ROWS
from seqattn.data.tables.time_columns import TimeColumn
from seqattn.errors import AmbiguousData

MEET = 1.2
"""Rows a time, on average, from which on words without a usual name may tell series apart."""


def find_series(facts: Facts, time: TimeColumn | None) -> tuple[tuple[str, ...], TimeColumn | None]:
    """The columns that tell sequences apart; and the time, if only these show it."""
    given = facts.options.series
    if given != "auto":
        check_names(facts.table, given, "data.series")
        if time is None and facts.options.time == "auto":
            time = facts.counter(given)
        return tuple(given), time
    taken = time.names if time else ()
    left = facts.left(*taken)
    names = {name: rank for rank, name in enumerate(SERIES_NAMES)}
    named = sorted((n for n in left if plain(n) in names), key=lambda n: names[plain(n)])
    named = [n for n in named if facts.columns[n].kind == "words" or facts.is_whole(n)]
    sure = [n for n in named if names[plain(n)] < SURE_SERIES]
    if time is None:
        return _series_without_time(facts, left, named)
    if facts.distinct(time.sql) == facts.rows:
        if sure and _names_series(facts, sure[0]):
            facts.reasons.append(f"series: {sure[0]!r}, because of its name")
            return (sure[0],), time
        for name in named:
            if _is_of_blocks(facts, name):
                facts.reasons.append(f"series: {name!r}, because of its name and its blocks")
                return (name,), time
        return (), time
    words = [n for n in left if facts.columns[n].kind == "words" and n not in named]
    whole = [n for n in left if n not in named and facts.is_whole(n)]
    if MEET * facts.distinct(time.sql) > facts.rows:
        words = whole = []  # a few times that repeat are mistakes: any column could tell them apart
    if facts.options.time == "auto":
        _ask_about_the_hour(facts, time)
    keys = _keys(facts, named, words, time)
    if keys is not None:
        return keys, time
    unsure = [n for n in whole if facts.tells_apart((n,), time)]
    if unsure:
        raise AmbiguousData(
            f"{facts.table.name}: the times in {time.names[0]!r} repeat. If {unsure[0]!r} says"
            f" which series a row is of: data.series: {unsure[0]} (in data check: --series"
            f" {unsure[0]}).",
            tuple({"series": name} for name in unsure),
        )
    if sure and _names_series(facts, sure[0]):
        facts.reasons.append(f"series: {sure[0]!r}, because of its name")
        return (sure[0],), time
    return _no_series(facts, time)


def _is_of_blocks(facts: Facts, name: str) -> bool:
    """Whether a column called as an id of trips or sessions holds each value in rows that
    stand together, two at least on average."""
    if plain(name) not in SERIES_NAMES[:BLOCK_SERIES] and not plain(name).endswith("_id"):
        return False
    return 1 < 2 * facts.distinct(facts.columns[name].text) <= facts.rows and facts.stays(name)


def _names_series(facts: Facts, name: str) -> bool:
    """Whether a column that is called so names series: one does not number the rows, nor has
    another word in each, unless there are too few rows to tell."""
    if facts.distinct(facts.columns[name].text) < facts.rows:
        return True
    return facts.rows < LEAST_ROWS and not facts.grows_in_every_row(name)


def _keys(
    facts: Facts, named: Sequence[str], words: Sequence[str], time: TimeColumn
) -> tuple[str, ...] | None:
    """The fewest columns that make each time unique; None: none do."""
    every = [*named, *words]
    single = [name for name in every if facts.tells_apart((name,), time)]
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
            if facts.tells_apart(pair, time):
                facts.reasons.append(f"series: {' and '.join(map(repr, pair))} together")
                return pair
    return None


def _ask_about_the_hour(facts: Facts, time: TimeColumn) -> None:
    """
    Raises:
        AmbiguousData: a date repeats, and an hour in a column of its own makes it unique.
    """
    if not time.is_date:
        return
    for name in facts.left(*time.names):
        if plain(name) in ("hour", "hr", "time", "time_of_day"):
            both = facts.distinct(time.sql, facts.columns[name].text)
            if both == facts.rows:
                ask_for_one_time(facts, (*time.names, name))


def _no_series(facts: Facts, time: TimeColumn) -> tuple[tuple[str, ...], TimeColumn]:
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
        " check: --series COLUMN), or take the rows as they come: data.time: null (in data"
        " check: --time none --ignore"
        f" {shlex.quote(given)}).",
        ({"time": "none", "ignore": given},),
    )


def _series_without_time(
    facts: Facts, left: Sequence[str], named: Sequence[str]
) -> tuple[tuple[str, ...], TimeColumn | None]:
    """Series of a table without a time: by name, or words that stay for several rows."""
    sure = [n for n in named if plain(n) in SERIES_NAMES[:SURE_SERIES]]
    if sure and _names_series(facts, sure[0]):
        facts.reasons.append(f"series: {sure[0]!r}, because of its name")
        return (sure[0],), facts.counter((sure[0],))
    words = [n for n in left if facts.columns[n].kind == "words" and n not in named]
    for name in [*named, *words]:
        if 2 * facts.distinct(facts.columns[name].text) <= facts.rows and (
            name in named or facts.stays(name)
        ):
            why = "because of its name" if name in named else "because it stays for some rows"
            facts.reasons.append(f"series: {name!r}, {why}")
            return (name,), facts.counter((name,))
    time = facts.counter(())
    if time is not None:
        return (), time
    for name in left:  # whole numbers that stay, beside others that count up within each
        if name in named or not facts.is_whole(name) or not facts.stays(name):
            continue
        time = facts.counter((name,))
        if time is not None:
            facts.reasons.append(f"series: {name!r}, because {time.names[0]!r} counts up in each")
            return (name,), time
    return (), None
