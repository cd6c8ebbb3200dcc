"""Inference of the column roles of a long table: series id, time and features.

Roles are inferred from column names and values, and the reasons are recorded. If two readings of
the table are plausible and give different sequences, the table is ambiguous.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from seqattn.data.reading import LONG_LAYOUT, Reading, join_names, setting
from seqattn.data.tables.columns import (
    BLOCK_SERIES,
    OF_ONE_FILE,
    SERIES_NAMES,
    SURE_SERIES,
    SURE_TIMES,
    TIME_NAMES,
    Column,
    LeftOutColumn,
    Reason,
    check_cells,
    check_names,
    first_non_number,
    fold_name,
    known_names,
)
from seqattn.data.tables.facts import MIN_ROWS, TableFacts
from seqattn.data.tables.long import LongTable
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.times import TimeColumn, are_weeks, combine_time_columns
from seqattn.errors import AmbiguousData, DataError


def find_time(facts: TableFacts) -> TimeColumn | None:
    """Find the time column. Return None if there is none, or if the series must be known first."""
    time_option = facts.reading.time
    if time_option == ():
        return None
    if time_option != "auto":
        check_names(facts.table, time_option, "data.time")
        if len(time_option) > 1:
            return combine_time_columns(
                facts.table, [facts.columns[name] for name in time_option], facts.reading
            )
        return facts.to_time_column(time_option[0])
    unassigned = facts.without_role(
        *(facts.reading.series if facts.reading.series != "auto" else ())
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
        if facts.is_integer(name) and are_weeks(facts.table, facts.columns[name], facts.reading):
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
        facts.ignored[other] = LeftOutColumn(Reason.OTHER_DATES, first)
    return first


def _check_broken_times(facts: TableFacts, unassigned: Sequence[str]) -> None:
    """Check that columns whose names clearly denote a time contain times, and that columns with
    other names of times do not contain words with digits.
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
    series_option = facts.reading.series
    if series_option != "auto":
        check_names(facts.table, series_option, "data.series")
        if time is None and facts.reading.time == "auto":
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
    if facts.reading.time == "auto":
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
    """Check whether dates need an hour from another column."""
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


INDEX_NAMES = ("", "unnamed:_0")


def infer_long_table(table: Table, reading: Reading) -> LongTable:
    """Infer the roles of the columns of a long table."""
    facts = TableFacts(table, reading)
    for name, column in facts.columns.items():
        if column.kind == "empty" and name not in (reading.features or ()):
            facts.ignored.setdefault(name, LeftOutColumn(Reason.EMPTY))
    drop_index_column(facts)
    time = find_time(facts)
    series, time = find_series(facts, time)
    if time is None:
        check_order_of_dates(facts, series)
    features = find_features(facts, series, time)
    times = time.names if time else ()
    if reading.group is not None:
        check_names(table, [reading.group], "data.group")
    for name in (*series, *times, *features, *([] if reading.group is None else [reading.group])):
        check_cells(table, facts.columns[name])
    found = replace(
        reading, layout=LONG_LAYOUT, series=series, time=times, delimiter=table.delimiter,
        ignore=tuple(n for n, why in facts.ignored.items() if why.reason not in OF_ONE_FILE),
    )  # fmt: skip
    return LongTable.of(
        table, found, facts.columns, time, features, facts.ignored, tuple(facts.reasons)
    )


def drop_index_column(facts: TableFacts) -> None:
    """Leave out the first column if it contains row numbers and is called "" or "Unnamed: 0", as in
    files from pandas and R.

    Raises:
        DataError: if the first column has no name and does not contain row numbers.
    """
    name = facts.table.header[0]
    reading = facts.reading
    requested = [*(reading.features or ()), *reading.series, *reading.time]
    if name in facts.ignored or name in requested or fold_name(name) not in INDEX_NAMES:
        return
    if facts.columns[name].kind == "number" and facts.is_integer(name):
        begin = f"(SELECT {facts.columns[name].sql} FROM {ROWS} WHERE {ROW} = 1)"
        steps = f"{facts.columns[name].sql} - {begin} <> {ROW} - 1"
        if facts.count(f"count(*) FILTER ({steps})") == 0:
            facts.ignored[name] = LeftOutColumn(Reason.INDEX)
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
    """Return the feature columns: those in the reading, or the usable columns without another
    role."""
    assigned = (*series, *(time.names if time else ()))
    if facts.reading.number_columns is not None:
        for name in facts.without_role(*assigned):
            facts.ignored.setdefault(name, LeftOutColumn(Reason.NOT_REQUESTED))
        return facts.reading.number_columns
    unassigned = facts.without_role(*assigned)
    reasons = {name: _reason_to_ignore(facts, name, series, len(unassigned)) for name in unassigned}
    left_out = {name: why for name, why in reasons.items() if why is not None}
    if len(left_out) == len(unassigned):  # without other columns, use the constant columns
        constant = Reason.CONSTANT, Reason.CONSTANT_IN_SERIES
        left_out = {name: why for name, why in left_out.items() if why.reason not in constant}
    facts.ignored |= left_out
    found = tuple(name for name in unassigned if name not in left_out)
    if not found and not facts.reading.one_hot:
        _raise_without_features(facts, unassigned)
    return found


def _raise_without_features(facts: TableFacts, unassigned: Sequence[str]) -> NoReturn:
    table, columns = facts.table, facts.columns
    words = [columns[name] for name in unassigned if columns[name].kind == "words"]
    where = "".join(f"; {first_non_number(table, column, facts.reading)}" for column in words[:3])
    raise DataError(
        f"{table.name}: no column of numbers is left to be a feature; found"
        f" {join_names(table.header)}{where}. Correct the file, or say what its columns"
        f" are ({', '.join(map(setting, ('series', 'time', 'features', 'one_hot')))})."
    )


def _reason_to_ignore(
    facts: TableFacts, name: str, series: Sequence[str], unassigned: int
) -> LeftOutColumn | None:
    """Return the reason to leave out a column, or None if the column is a feature.

    Args:
        facts: facts about the table.
        name: name of the column.
        series: names of the series id columns.
        unassigned: number of columns without a role.
    """
    column = facts.columns[name]
    if column.kind == "words":
        return _reason_to_ignore_words(facts, column, series)
    if column.kind == "time":
        return LeftOutColumn(Reason.DATES)
    if series and facts.is_constant_in(series, column):
        return LeftOutColumn(Reason.CONSTANT_IN_SERIES)
    if fold_name(name) in (*SERIES_NAMES, *TIME_NAMES) and facts.increments_by_one(name):
        return LeftOutColumn(Reason.COUNTER)
    if not series and facts.rows > 1 and unassigned > 1 and facts.distinct(column.sql) == 1:
        return LeftOutColumn(Reason.CONSTANT)
    return None


def _reason_to_ignore_words(
    facts: TableFacts, column: Column, series: Sequence[str]
) -> LeftOutColumn:
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
    if column.type:
        return LeftOutColumn(Reason.TYPE, column.type)
    reason = Reason.WORDS
    if series and facts.is_constant_in(series, column):
        reason = Reason.SAME_WORDS
    elif not series and facts.distinct(column.text) == 1:
        reason = Reason.SAME_WORD
    return LeftOutColumn(reason, setting("one_hot", [column.name]))
