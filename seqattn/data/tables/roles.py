"""Which column of a table is the series id, which the time, and which are features.

Roles are inferred from names and from behaviour, and each comes with its reason. Where two readings
are plausible and give different sequences, the user is asked.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.casting import (
    Column,
    check_cells,
    check_units,
    columns_of,
    first_word,
    with_bad_cells,
)
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.time_columns import TimeColumn, check_filled, combined_time, time_of
from seqattn.errors import AmbiguousData, DataError

SERIES_NAMES = (
    "unique_id", "series_id", "series", "sequence_id", "sequence", "seq", "ts_id", "item_id", "id",
    "utterance", "trip_id", "trip", "track_id", "track", "trajectory", "session_id", "session",
    "subject", "patient", "participant", "trial", "episode", "run", "sample", "store", "item",
    "dept", "sku", "product", "ticker", "symbol", "station", "sensor_id", "sensor", "device_id",
    "device", "meter", "user_id", "user", "customer", "country", "region", "city", "site", "name",
)  # fmt: skip
"""Names of series ids, the surest first."""
SURE_SERIES = 9  # so many of them are nothing else
BLOCK_SERIES = 24  # so many are series ids where their rows stand together
TIME_NAMES = (
    "ds", "timestamp", "datetime", "date_time", "date", "time", "step", "time_step", "timestep",
    "frame", "time_idx", "t", "tick", "period", "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "epoch", "index", "idx",
)  # fmt: skip
"""Names of time columns, the surest first."""
SURE_TIMES = 9  # likewise
YOU_SAID_SO = "you said so"
CONSTANT = "it is constant"
ROUNDING = 1e-12
"""Of a value, by which float64 may miss equal steps."""
LEAST_ROWS = 8
"""Fewer rows may grow by one amount by chance."""
INDEX_NAMES = ("", "unnamed:_0")


@dataclass(frozen=True)
class Roles:
    """
    Attributes:
        series: columns that name the sequence of a row; none: all rows are one.
        time: what counts up within a sequence; None: rows are in order.
        features: columns of a point.
        group: column of groups, or None.
        ignored: columns that are left out, with the reason.
        reasons: what was inferred and why, a sentence each.
        columns: what each column that is read holds.
    """

    series: tuple[str, ...]
    time: TimeColumn | None
    features: tuple[str, ...]
    group: str | None = None
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    columns: dict[str, Column] = field(default_factory=dict)


def plain(name: str) -> str:
    """A name as it is looked up."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def check_names(table: Table, names: Sequence[str], what: str) -> None:
    """
    Raises:
        DataError: a column is not there.
    """
    for name in names:
        if name not in table.header:
            raise DataError(
                f"{table.name}: no column {name!r} ({what}); found {listed(table.header)}."
            )


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first few."""
    shown = [name if len(name) <= 40 else f"{name[:40]}..." for name in names[:12]]
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"


def infer_roles(table: Table, options: ReadOptions) -> Roles:
    """The roles of a table with a point a row.

    Raises:
        DataError: a column that is asked for is not there, or none is left for features.
        AmbiguousData: two readings are plausible.
    """
    return _Inference(table, options).roles()


def check_more_cells(table: Table, roles: Roles) -> None:
    """Hold rows that came later against the columns of the first ones.

    Raises:
        DataError: a cell is not what those of its column were.
    """
    times = () if roles.time is None else roles.time.names
    for name in (*times, *roles.features):
        column = roles.columns[name]
        if column.kind != "words":
            check_cells(table, with_bad_cells(table, column))
    if roles.time is not None:
        check_filled(table, " and ".join(times), roles.time.sql)


class _Inference:
    """Roles of one table, found step by step: index, time, series, features."""

    def __init__(self, table: Table, options: ReadOptions) -> None:
        self.table, self.options = table, options
        self.ignored: dict[str, str] = dict.fromkeys(options.ignore, YOU_SAID_SO)
        self.reasons: list[str] = []
        given = [*options.ignore, *(options.number_columns or ()), *options.one_hot]
        check_names(table, given, "data.features, data.ignore or data.one_hot")
        self.rows = len(table)
        if not self.rows:
            raise DataError(f"{table.name}: has a header but no rows.")
        names = [name for name in table.header if name not in self.ignored]
        self.columns = columns_of(table, options, names)

    def roles(self) -> Roles:
        options = self.options
        for name, column in self.columns.items():
            if column.kind == "empty" and name not in (options.features or ()):
                self.ignored.setdefault(name, "it is empty")
        self._leave_out_the_index()
        time = self._time()
        series, time = self._series(time)
        features = self._features(series, time)
        needed = [*series, *(time.names if time else ()), *features]
        if options.group is not None:
            check_names(self.table, [options.group], "data.group")
            needed.append(options.group)
        for name in needed:
            check_cells(self.table, self.columns[name])
        return Roles(
            series, time, features, options.group, self.ignored, tuple(self.reasons), self.columns
        )

    def _left(self, *taken: str) -> list[str]:
        """Columns that have no role yet."""
        given = {*taken, *(self.options.features or ()), *self.options.one_hot}
        if self.options.group is not None:
            given.add(self.options.group)
        return [name for name in self.columns if name not in self.ignored and name not in given]

    def _count(self, sql: str) -> int:
        return int(self.table.one(f"SELECT {sql} FROM {ROWS}")[0])

    def _distinct(self, *sql: str) -> int:
        """How many combinations of values there are, told apart by 64 bits of a hash."""
        return self._count(f"count(DISTINCT hash({', '.join(sql)}))")

    def _is_whole(self, name: str) -> bool:
        column = self.columns[name]
        if column.kind != "number" or column.bad[0]:
            return False
        value = column.sql
        return not self._count(f"count(*) FILTER ({value} IS NULL OR {value} <> round({value}))")

    def _leave_out_the_index(self) -> None:
        """A first column that only numbers the rows, as pandas and R write it."""
        name = self.table.header[0]
        options = self.options
        asked = [*(options.features or ()), *options.series, *(options.time or ())]
        if name in self.ignored or name in asked or plain(name) not in INDEX_NAMES:
            return
        if self.columns[name].kind == "number" and self._is_whole(name):
            begin = f"(SELECT {self.columns[name].sql} FROM {ROWS} WHERE {ROW} = 1)"
            steps = f"{self.columns[name].sql} - {begin} <> {ROW} - 1"
            if self._count(f"count(*) FILTER ({steps})") == 0:
                self.ignored[name] = "it numbers the rows, as an index column does"
                return
        if plain(name) == "":
            raise DataError(
                f"{self.table.name}: the first column has no name. Give it one in the header, or"
                " leave it out: data.ignore: [''] (in data check: --ignore '')."
            )

    def _time(self) -> TimeColumn | None:
        """The column that counts up; None: there is none, or none is sure yet."""
        given = self.options.time
        if given is None:
            return None
        if given != "auto":
            check_names(self.table, given, "data.time")
            if len(given) > 1:
                return combined_time(
                    self.table, [self.columns[name] for name in given], self.options
                )
            return self._time_of(given[0])
        left = self._left(*(self.options.series if self.options.series != "auto" else ()))
        ranks = {name: rank for rank, name in enumerate(TIME_NAMES)}
        dates = [name for name in left if self.columns[name].kind == "time"]
        if len(dates) > 1:
            named = sorted((n for n in dates if plain(n) in ranks), key=lambda n: ranks[plain(n)])
            if not named:
                raise AmbiguousData(
                    f"{self.table.name}: the columns {listed(dates)} all hold dates. Say which is"
                    f" the time: data.time: {dates[0]} (in data check: --time {dates[0]}).",
                    tuple({"time": name} for name in dates),
                )
            dates = named
        if dates:
            self.reasons.append(f"time: {dates[0]!r}, because it holds dates")
            for other in dates[1:]:
                self.ignored[other] = f"it holds dates, and {dates[0]!r} is the time"
            return self._time_of(dates[0])
        self._parts_of_dates(left)
        for name in sorted((n for n in left if plain(n) in ranks), key=lambda n: ranks[plain(n)]):
            if self._is_whole(name) or self._increases(name):
                self.reasons.append(f"time: {name!r}, because of its name")
                return self._time_of(name)
        self._refuse_broken_times([n for n in left if plain(n) in TIME_NAMES[:SURE_TIMES]])
        return None

    def _refuse_broken_times(self, names: Sequence[str]) -> None:
        """
        Raises:
            DataError: a column that is called as only times are has a cell that is none; without
                it rows would be taken as they come.
        """
        for name in names:
            column = self.columns[name]
            check_cells(self.table, column)
            if column.kind == "words" or (
                column.kind == "number" and self._count(f"count(*) - count({column.sql})")
            ):
                self._time_of(name)

    def _time_of(self, name: str) -> TimeColumn:
        return time_of(self.table, self.columns[name], self.options)

    def _increases(self, name: str) -> bool:
        """Whether the numbers of a column increase from row to row, or begin again now and then."""
        if self.columns[name].kind != "number":
            return False
        value = self.columns[name].sql
        back = self.table.one(
            f"SELECT count(*) FILTER (step <= 0 OR step IS NULL) FROM (SELECT {value} -"
            f" lag({value}) OVER (ORDER BY {ROW}) AS step FROM {ROWS} ORDER BY {ROW} OFFSET 1)"
        )[0]
        return bool(back * 4 <= self.rows)

    def _parts_of_dates(self, left: Sequence[str]) -> None:
        """
        Raises:
            AmbiguousData: a year and a month, and more, stand in columns of their own.
        """
        found = []
        for part in ("year", "month", "day", "hour", "minute"):
            name = next((n for n in left if plain(n) == part and self._is_whole(n)), None)
            if name is None:
                break
            found.append(name)
        if len(found) > 1:
            self._ask_for_one_time(found)

    def _ask_for_one_time(self, names: Sequence[str]) -> None:
        """
        Raises:
            AmbiguousData: always: columns that say when together can be one time, or all but the
                last can name a series.
        """
        together = ",".join(names)
        *before, last = names
        raise AmbiguousData(
            f"{self.table.name}: the columns {together} say when together. One series with one time"
            f" of them all: data.time: [{', '.join(names)}] (in data check: --time {together}); a"
            f" series for each {' and '.join(before)}: --series {','.join(before)} --time {last};"
            f" rows as they come: --time none --ignore {together}.",
            ({"time": together}, {"series": ",".join(before), "time": last},
             {"time": "none", "ignore": together}),
        )  # fmt: skip

    def _series(self, time: TimeColumn | None) -> tuple[tuple[str, ...], TimeColumn | None]:
        """The columns that tell sequences apart; and the time, if only these show it."""
        given = self.options.series
        if given != "auto":
            check_names(self.table, given, "data.series")
            if time is None and self.options.time == "auto":
                time = self._counter(given)
            return tuple(given), time
        taken = time.names if time else ()
        left = self._left(*taken)
        names = {name: rank for rank, name in enumerate(SERIES_NAMES)}
        named = sorted((n for n in left if plain(n) in names), key=lambda n: names[plain(n)])
        named = [n for n in named if self.columns[n].kind == "words" or self._is_whole(n)]
        sure = [n for n in named if names[plain(n)] < SURE_SERIES]
        if time is None:
            return self._series_without_time(left, named)
        if self._distinct(time.sql) == self.rows:
            if sure and self._names_series(sure[0]):
                self.reasons.append(f"series: {sure[0]!r}, because of its name")
                return (sure[0],), time
            for name in named:
                if self._is_of_blocks(name):
                    self.reasons.append(f"series: {name!r}, because of its name and its blocks")
                    return (name,), time
            return (), time
        words = [n for n in left if self.columns[n].kind == "words" and n not in named]
        if self.options.time == "auto":
            self._ask_about_the_hour(time)
        keys = self._keys(named, words, time)
        if keys is not None:
            return keys, time
        whole = [n for n in left if n not in named and self._is_whole(n)]
        unsure = [n for n in whole if self._tells_apart((n,), time)]
        if unsure:
            raise AmbiguousData(
                f"{self.table.name}: the times in {time.names[0]!r} repeat. If {unsure[0]!r} says"
                f" which series a row is of: data.series: {unsure[0]} (in data check: --series"
                f" {unsure[0]}).",
                tuple({"series": name} for name in unsure),
            )
        if sure and self._names_series(sure[0]):
            self.reasons.append(f"series: {sure[0]!r}, because of its name")
            return (sure[0],), time
        return self._no_series(time)

    def _is_of_blocks(self, name: str) -> bool:
        """Whether a column called as an id of trips or sessions holds each value in rows that
        stand together, two at least on average."""
        if plain(name) not in SERIES_NAMES[:BLOCK_SERIES] and not plain(name).endswith("_id"):
            return False
        return 1 < 2 * self._distinct(self.columns[name].text) <= self.rows and self._stays(name)

    def _names_series(self, name: str) -> bool:
        """Whether a column that is called so names series: one does not number the rows, nor has
        another word in each, unless there are too few rows to tell."""
        if self._distinct(self.columns[name].text) < self.rows:
            return True
        return self.rows < LEAST_ROWS and not self._grows_in_every_row(name)

    def _keys(
        self, named: Sequence[str], words: Sequence[str], time: TimeColumn
    ) -> tuple[str, ...] | None:
        """The fewest columns that make each time unique; None: none do."""
        every = [*named, *words]
        single = [name for name in every if self._tells_apart((name,), time)]
        if single:
            first, *others = single
            for other in others:
                text = (self.columns[first].text, self.columns[other].text)
                if self._distinct(*text) not in (self._distinct(text[0]), self._distinct(text[1])):
                    raise AmbiguousData(
                        f"{self.table.name}: {first!r} and {other!r} could both say which series a"
                        f" row is of. Say which: data.series: {first} or {other} (in data check:"
                        f" --series {first}).",
                        ({"series": first}, {"series": other}),
                    )
            self.reasons.append(f"series: {first!r}, because its times are unique in each series")
            return (first,)
        for size in (2, 3):
            for pair in itertools.combinations(every[:8], size):
                if self._tells_apart(pair, time):
                    self.reasons.append(f"series: {' and '.join(map(repr, pair))} together")
                    return pair
        return None

    def _tells_apart(self, names: Sequence[str], time: TimeColumn) -> bool:
        texts = [self.columns[name].text for name in names]
        return self._distinct(*texts, time.sql) == self.rows > 2 * self._distinct(*texts)

    def _ask_about_the_hour(self, time: TimeColumn) -> None:
        """
        Raises:
            AmbiguousData: a date repeats, and an hour in a column of its own makes it unique.
        """
        if not time.is_date:
            return
        for name in self._left(*time.names):
            if plain(name) in ("hour", "hr", "time", "time_of_day"):
                both = self._distinct(time.sql, self.columns[name].text)
                if both == self.rows:
                    self._ask_for_one_time((*time.names, name))

    def _no_series(self, time: TimeColumn) -> tuple[tuple[str, ...], TimeColumn]:
        first, second = self.table.one(
            f"SELECT min({ROW}), list({ROW} ORDER BY {ROW})[2] FROM {ROWS} GROUP BY {time.sql}"
            f" HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
        )
        (shown,) = self.table.one(
            f"SELECT CAST({time.sql} AS VARCHAR) FROM {ROWS} WHERE {ROW} = {first}"
        )
        given = ",".join(time.names)
        raise AmbiguousData(
            f"{self.table.name}: {self.table.line(first)} and {self.table.line(second)} are both of"
            f" {shown.removesuffix(' 00:00:00').removesuffix('.0')} ({given}), and no column tells"
            " series apart. Correct the file, name the series (data.series; in data"
            " check: --series COLUMN), or take the rows as they come: data.time: null (in data"
            " check: --time none --ignore"
            f" {shlex.quote(given)}).",
            ({"time": "none", "ignore": given},),
        )

    def _series_without_time(
        self, left: Sequence[str], named: Sequence[str]
    ) -> tuple[tuple[str, ...], TimeColumn | None]:
        """Series of a table without a time: by name, or words that stay for several rows."""
        sure = [n for n in named if plain(n) in SERIES_NAMES[:SURE_SERIES]]
        if sure and self._names_series(sure[0]):
            self.reasons.append(f"series: {sure[0]!r}, because of its name")
            return (sure[0],), self._counter((sure[0],))
        words = [n for n in left if self.columns[n].kind == "words" and n not in named]
        for name in [*named, *words]:
            if 2 * self._distinct(self.columns[name].text) <= self.rows and (
                name in named or self._stays(name)
            ):
                why = "because of its name" if name in named else "because it stays for some rows"
                self.reasons.append(f"series: {name!r}, {why}")
                return (name,), self._counter((name,))
        time = self._counter(())
        if time is not None:
            return (), time
        for name in left:  # whole numbers that stay, beside others that count up within each
            if name in named or not self._is_whole(name) or not self._stays(name):
                continue
            time = self._counter((name,))
            if time is not None:
                self.reasons.append(
                    f"series: {name!r}, because {time.names[0]!r} counts up in each"
                )
                return (name,), time
        return (), None

    def _grows_in_every_row(self, name: str) -> bool:
        if self.columns[name].kind != "number":
            return False
        value = self.columns[name].sql
        return self.rows > 2 and self.table.one(
            f"SELECT count(*) FILTER (step IS DISTINCT FROM 1) FROM (SELECT {value} - lag({value})"
            f" OVER (ORDER BY {ROW}) AS step FROM {ROWS} ORDER BY {ROW} OFFSET 1)"
        ) == (0,)

    def _stays(self, name: str) -> bool:
        """Whether the rows of each value stand together."""
        text = self.columns[name].text
        changes = self.table.one(
            f"SELECT count(*) FILTER (word IS DISTINCT FROM before) FROM (SELECT {text} AS word,"
            f" lag({text}) OVER (ORDER BY {ROW}) AS before FROM {ROWS})"
        )[0]
        return bool(changes == self._distinct(text))

    def _counter(self, series: Sequence[str]) -> TimeColumn | None:
        """A column of numbers that grows by one amount within each series, whole or not."""
        if self.options.time != "auto" or self.rows < LEAST_ROWS:
            return None
        by = ", ".join(self.columns[name].text for name in series)
        over = f"({f'PARTITION BY {by} ' if by else ''}ORDER BY {ROW})"
        for name in self._left(*series):
            if self.columns[name].kind != "number" or self.columns[name].bad[0]:
                continue
            value = self.columns[name].sql
            least, most, empty, largest = self.table.one(
                "SELECT min(step), max(step), count(*) FILTER (v IS NULL), max(abs(v)) FROM"
                f" (SELECT {value} AS v, {value} - lag({value}) OVER {over} AS step FROM {ROWS})"
            )
            if empty or least is None or least <= 0:
                continue
            if most - least <= ROUNDING * largest:
                self.reasons.append(f"time: {name!r}, because it grows by {least:g} in every row")
                return self._time_of(name)
        return None

    def _features(self, series: Sequence[str], time: TimeColumn | None) -> tuple[str, ...]:
        taken = (*series, *(time.names if time else ()))
        if self.options.number_columns is not None:
            for name in self._left(*taken):
                self.ignored.setdefault(name, "it is not among data.features")
            return self.options.number_columns
        found, left = [], self._left(*taken)
        for name in left:
            column = self.columns[name]
            if column.kind == "time":
                self.ignored[name] = "it holds dates"
            elif column.kind == "words":
                check_units(self.table, column)
                static = bool(series) and self._is_constant_in(series, column)
                where = ", the same in each series" if static else ""
                self.ignored[name] = column.note or (
                    f"it holds words{where}; features of 0 and 1 for each: data.one_hot (in data"
                    f" check: --one-hot {shlex.quote(name)})"
                )
            elif series and self._is_constant_in(series, column):
                self.ignored[name] = f"{CONSTANT} in each series"
            elif (plain(name) in SERIES_NAMES or plain(name) in TIME_NAMES) and (
                self._grows_in_every_row(name)
            ):
                self.ignored[name] = "it numbers the rows: it grows by one in every row"
            elif (
                not series and self.rows > 1 and len(left) > 1 and (self._distinct(column.sql) == 1)
            ):
                self.ignored[name] = CONSTANT
            else:
                found.append(name)
        if not found:  # what is constant is better than nothing
            found = [name for name in left if self.ignored.get(name, "").startswith(CONSTANT)]
            for name in found:
                del self.ignored[name]
        if not found and not self.options.one_hot:
            words = [n for n in left if self.columns[n].kind == "words"]
            where = "".join(
                f"; {first_word(self.table, self.columns[n], self.options)}" for n in words[:3]
            )
            raise DataError(
                f"{self.table.name}: no column of numbers is left to be a feature; found"
                f" {listed(self.table.header)}{where}. Correct the file, or say what its columns"
                " are (data.series, data.time, data.features, data.one_hot; in data check:"
                " --series, --time, --features, --one-hot)."
            )
        return tuple(found)

    def _is_constant_in(self, series: Sequence[str], column: Column) -> bool:
        texts = [self.columns[name].text for name in series]
        first = " AND ".join(
            f"{text} = (SELECT {text} FROM {ROWS} ORDER BY {ROW} LIMIT 1)" for text in texts
        )
        some = f"(SELECT {column.text} AS v FROM {ROWS} WHERE {first} LIMIT 1000)"
        if self.table.one(f"SELECT count(DISTINCT v) FROM {some}")[0] > 1:
            return False  # most features, told without a look at all rows
        groups = self._distinct(*texts)
        return (
            1 < groups < self.rows
            and self._distinct(*texts, column.text) == groups
            and not self._count(f"count(*) FILTER ({column.sql} IS NULL)")
        )
