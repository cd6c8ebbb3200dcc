"""Reader of wide tables, in which each row is a sequence.

The column names are dates, or contain a feature and a step, such as x_1, y_1, x_2, y_2. The other
columns contain the id of the sequence, or are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.chunk import DATES, Chunk, Ragged, to_offsets
from seqattn.data.missing_values import SentinelCounter
from seqattn.data.reading import LONG_LAYOUT, WIDE_LAYOUT, Reading, join_names, setting
from seqattn.data.tables.casting import infer_columns, trimmed
from seqattn.data.tables.columns import (
    SERIES_NAMES,
    TIME_NAMES,
    Column,
    LeftOutColumn,
    check_cells,
    check_names,
    first_non_number,
    fold_name,
    known_names,
    shown_decimal,
)
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.text import DATE, MONTH, NUMBER
from seqattn.data.tables.times import FORMATS, other_formats, parse_date
from seqattn.errors import AmbiguousData, DataError, NoRows

MIN_STEPS = 3
"""Number of steps from which columns such as d_1, d_2, d_3 are steps although no single column
identifies the rows."""


CHUNK_CELLS = 2**22
"""Maximum number of cells in a chunk of several rows."""


@dataclass(frozen=True, eq=False)
class WideTable:
    """A wide table with the roles of its columns.

    Attributes:
        table: the rows.
        reading: how the table is read. If it names no series columns, the row number is the id.
        features: names of the features.
        cells: names of the columns, ordered by step and, within a step, by feature.
        steps: (L,) time of each step, as numbers or dates, or None if the first step is 0 or 1.
        notes: notes for the user.
        columns: the columns in `cells`, or () before `with_columns`.
        ignored, reasons: empty, see `LongTable`.
    """

    table: Table
    reading: Reading
    features: tuple[str, ...]
    cells: tuple[str, ...]
    steps: NDArray[Any] | None
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    ignored: Mapping[str, LeftOutColumn] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: Table, reading: Reading, series: tuple[str, ...], features: tuple[str, ...],
        cells: tuple[str, ...], steps: NDArray[Any] | None, notes: tuple[str, ...],
    ) -> WideTable:  # fmt: skip
        """Complete the reading of a table by its layout and its columns."""
        found = replace(
            reading, layout=WIDE_LAYOUT, series=series, time=(), features=features,
            delimiter=table.delimiter,
        )  # fmt: skip
        return cls(table, found, features, cells, steps, notes)

    def with_columns(self) -> WideTable:
        """Return the table with its columns of numbers.

        Raises:
            DataError: if a cell is not a number.
        """
        # The cells are numbers, no times.
        columns = infer_columns(self.table, replace(self.reading, time=()), self.cells)
        for column in columns.values():
            check_cells(self.table, column)
            if column.kind in ("words", "time"):
                word = first_non_number(self.table, column, self.reading)
                raise DataError(
                    f"{self.table.name}: {word}. Correct the cell; or, if a row is not a sequence,"
                    " set data.layout to long."
                )
        if self.reading.group is not None:
            check_names(self.table, [self.reading.group], "data.group")
        numbers = tuple(columns.values())
        reading = replace(self.reading, decimal=shown_decimal(self.table, numbers))
        return replace(self, columns=numbers, reading=reading)

    def chunks(self, *, whole: bool = False) -> Iterator[Chunk]:
        """Yield the sequences in chunks.

        Args:
            whole: whether to yield all sequences as one chunk.

        Raises:
            NoRows: if the table has no rows.
            DataError: if a cell of the group or of the id is empty, unless several columns form the
                id.
        """
        table, reading, group = self.table, self.reading, self.reading.group
        (last,) = table.measure(f"max({ROW})")
        if last is None:
            raise NoRows(f"{table.name}: has a header but no rows.")
        columns, F = self.columns, len(self.features)
        names = [*reading.series_columns, *([] if group is None else [group])]
        values = ", ".join(f"{column.sql} AS v{i}" for i, column in enumerate(columns))
        extra = "".join(f", {trimmed(table.text(name))} AS w{i}" for i, name in enumerate(names))
        at_once = last if whole else max(1, CHUNK_CELLS // len(self.cells))
        marks = SentinelCounter(table.name, reading)
        for first in range(1, last + 1, at_once):
            found = table.connection.execute(
                f"SELECT {ROW} AS r, {values}{extra} FROM {ROWS} WHERE {ROW} >= {first} AND"
                f" {ROW} < {first + at_once} ORDER BY {ROW}"
            ).fetchnumpy()
            rows = np.asarray(found["r"])
            if not len(rows):
                continue
            cells = np.stack(
                [np.ma.filled(found[f"v{i}"], np.nan) for i in range(len(self.cells))], axis=1
            ).reshape(len(rows), -1, F)
            words = dict[str, tuple[str, ...]]()
            for i, name in enumerate(names):
                filled = np.ma.filled(found[f"w{i}"], "")
                empty = np.flatnonzero(filled == "")
                may_be_empty = name in reading.series_columns and len(reading.series_columns) > 1
                if empty.size and not may_be_empty:
                    line = table.line(int(rows[empty[0]]))
                    raise DataError(f"{table.name}: {line}, column {name!r} is empty.")
                words[name] = tuple(map(str, filled))
            chunk = self._chunk(rows, cells, words)
            more = marks.add(chunk.points)
            yield replace(chunk, reading=reading, notes=(*chunk.notes, *more))
        marks.check()

    def _chunk(
        self, rows: NDArray[Any], cells: NDArray[Any], words: dict[str, tuple[str, ...]]
    ) -> Chunk:
        """Convert rows to sequences. Steps without values at the end of a row are padding."""
        n, L, F = cells.shape
        empty = np.isnan(cells).all(axis=2)
        lengths = L - np.where(empty.all(axis=1), L, empty[:, ::-1].argmin(axis=1))
        offsets = to_offsets(lengths)
        valid = np.arange(L) < lengths[:, None]

        def where(row: int, feature: int) -> str:
            k = int(np.searchsorted(offsets, row, side="right")) - 1
            column = self.cells[(row - int(offsets[k])) * F + feature]
            return f"{self.table.line(int(rows[k]))}, column {column!r}"

        series, group = self.reading.series_columns, self.reading.group
        parts = tuple(zip(*(words[name] for name in series), strict=True))
        ids = tuple("/".join(filter(None, part)) for part in parts)
        return Chunk(
            ids=ids or tuple(map(str, rows.tolist())),
            points=Ragged(cells[valid], offsets, self.features), where=where,
            order=None if self.steps is None else np.broadcast_to(self.steps, (n, L))[valid],
            groups=None if group is None else words[group],
            notes=(*self.table.notes, *self.notes), is_wide=True,
            id_parts=parts if len(series) > 1 else None,
        )  # fmt: skip


def wide_columns(header: Sequence[str]) -> dict[tuple[str, int], str]:
    """Return the column for each pair (feature, step), from names such as x_1, x[2], y.3, lat4, or
    a step alone such as 1, 2, 3."""
    values_: dict[tuple[str, int], str] = {}
    for cell in header:
        match = re.fullmatch(r"(.*?)[\s_.\-\[(]?(\d{1,9})[\])]?", cell)
        if match:
            values_.setdefault((match.group(1) or "value", int(match.group(2))), cell)
    return values_


def find_wide_table(table: Table, reading: Reading) -> WideTable | None:
    """Return a table as a wide table, or None if the table is long."""
    if reading.layout == LONG_LAYOUT:
        return None
    given = _given_series(table, reading)
    assigned = {*reading.ignore, reading.group, *(given or ())}
    others = [cell for cell in table.header if cell not in assigned]
    dates = _date_columns(table, others, reading)
    if not dates:
        series = _single_id_column(table) if given is None else given
        return _layout_of_steps(table, reading, [c for c in others if c not in series], series)
    rest = [cell for cell in others if cell not in dates]
    series = _id_columns(table, rest) if given is None else given
    steps = np.array(list(dates.values()), dtype=DATES)
    notes = _left_out([cell for cell in rest if cell not in series])
    return WideTable.of(table, reading, series, ("value",), tuple(dates), steps, notes)


def _given_series(table: Table, reading: Reading) -> tuple[str, ...] | None:
    """Return the series id columns that the user set, or None if they are to be detected."""
    if reading.series == "auto":
        return None
    named = [n for n in reading.series if n in table.header or reading.layout == "wide"]
    check_names(table, named, "data.series")
    return tuple(named)


def _layout_of_steps(
    table: Table, reading: Reading, others: Sequence[str], series: tuple[str, ...]
) -> WideTable | None:
    """Return a table with column names that contain a feature and a step, or None if the table is
    long.

    Args:
        table: the rows.
        reading: how to read the table.
        others: names of the columns without another role.
        series: names of the columns that may identify the sequences.
    """
    steps = wide_columns(others)
    if reading.layout == "auto" and not _is_wide(table, reading, others, steps, series):
        joint = _joint_id_columns(table, reading, others, steps, series)
        if not joint:
            return None
        series, others = joint, [name for name in others if name not in joint]
    values_ = f"found {join_names(table.header)}"
    if not steps:
        raise DataError(
            f"{table.name}: no columns such as x_1, y_1, x_2, y_2, a feature and a step each;"
            f" {values_}. If each row is a step, set data.layout to long"
            " (--set data.layout=long)."
        )
    stems = list(dict.fromkeys(feature for feature, _ in steps))
    features, notes = reading.select_features(stems, f"{table.name}: no column", values_)
    every = _step_range(table, steps, features)
    cells = tuple(steps[feature, step] for step in every for feature in features)
    notes += _left_out([cell for cell in others if cell not in steps.values()])
    if reading.layout == "auto" and not series:
        notes += (
            f"a row is read as a sequence of up to {len(every)} points; if it is one point, set"
            " data.layout to long",
        )
    named = None if every[0] in (0, 1) else np.array(every, dtype=np.float64)
    return WideTable.of(table, reading, series, features, cells, named, notes)


def _left_out(names: Sequence[str]) -> tuple[str, ...]:
    return (f"left out: {join_names(names)}",) if names else ()


def _step_range(table: Table, steps: dict[tuple[str, int], str], features: Sequence[str]) -> range:
    """Return the steps, and check that all features have the same steps.

    Raises:
        DataError: if a feature lacks a step.
    """
    numbers = [step for feature, step in steps if feature in features]
    every = range(min(numbers), max(numbers) + 1)
    lacking = next(((f, s) for s in every for f in features if (f, s) not in steps), None)
    if lacking is not None:
        raise DataError(
            f"{table.name}: there is no column {lacking[0]!r} of step {lacking[1]}, but there are"
            f" steps {every[0]} to {every[-1]}; found {join_names(table.header)}."
        )
    return every


def _single_id_column(table: Table) -> tuple[str, ...]:
    """Return a column with a usual name for series ids, if possible one with unique values, or the
    first column if its values are unique."""
    if named := known_names(table.header, SERIES_NAMES):
        steps = _steps_of_features(wide_columns(table.header)).values()
        if known_names(table.header, TIME_NAMES) or all(len(some) == 1 for some in steps):
            return (named[0],)  # the table is long, so no query is needed
        return (next((name for name in named if _is_unique(table, name)), named[0]),)
    first = table.header[0]
    if wide_columns([first]) or DATE.fullmatch(first) or fold_name(first) in TIME_NAMES:
        return ()
    return (first,) if not first[-1:].isdecimal() and _is_unique(table, first) else ()


def _id_columns(table: Table, rest: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify the rows of a table whose other columns are dates: a single
    column, with a usual name for series ids if possible, or else the fewest columns together. The
    result is empty if no columns identify the rows."""
    numbers = {name: f"TRY_CAST({table.text(name)} AS DOUBLE)" for name in rest}
    keys = [  # words or whole numbers
        name for name, number in numbers.items()
        if not table.one(f"SELECT bool_or({number} <> round({number})) FROM {ROWS}")[0]
    ]  # fmt: skip
    named = known_names(keys, SERIES_NAMES)
    for size in range(1, 4):
        for names in itertools.combinations([*named, *(n for n in keys if n not in named)], size):
            if _is_unique(table, *names):
                return tuple(name for name in rest if name in names)
    return ()


def _joint_id_columns(
    table: Table, reading: Reading, others: Sequence[str], steps: dict[tuple[str, int], str],
    series: Sequence[str],
) -> tuple[str, ...]:  # fmt: skip
    """Return the columns that together identify the rows of a table such as store, item, d_1, d_2,
    d_3, although no single column does. The result is empty if the rows are the steps of series.

    Raises:
        AmbiguousData: if one of these columns contains numbers, which may identify the rows by
            chance.
    """
    has_time = bool(known_names(others, TIME_NAMES)) if reading.time == "auto" else reading.time
    if has_time or reading.features is not None or reading.series != "auto":
        return ()
    names = [*series, *(name for name in others if name not in steps.values())]
    if len(names) < 2 or not _are_counted(steps):
        return ()
    ids = _id_columns(table, [name for name in table.header if name in names])
    if len(ids) < 2:
        return ()
    if all(map(_has_words, itertools.repeat(table), ids)):
        return ids
    if not all(set(fold_name(name).split("_")) & set(SERIES_NAMES) for name in ids):
        return ()  # a number without the name of an id, such as a cycle, is a step of each id
    first, *_, last = steps.values()
    raise AmbiguousData(
        f"{table.name}: the columns {first} to {last} can be the steps of a sequence in each row,"
        f" which {join_names(ids)} identify, or features of steps that are rows. For a sequence in"
        f" each row: {setting('layout', 'wide')} and {setting('series', ids)}; for a step in each"
        f" row: {setting('layout', 'long')}.",
        ({"layout": "wide", "series": ",".join(ids)}, {"layout": "long"}),
    )


def _are_counted(steps: Iterable[tuple[str, int]]) -> bool:
    """Return whether a single feature has at least `MIN_STEPS` steps, counted from 0 or 1."""
    of_feature = list(_steps_of_features(steps).values())
    if len(of_feature) != 1 or len(of_feature[0]) < MIN_STEPS:
        return False
    first, *_, last = numbers = sorted(of_feature[0])
    return first in (0, 1) and last - first == len(numbers) - 1


def _is_unique(table: Table, *names: str) -> bool:
    """Return whether the values of the columns together are unique. A single column must not have
    empty cells."""
    cells = [table.column(name) for name in names]
    value = cells[0] if len(cells) == 1 else f"({', '.join(cells)})"
    return bool(table.one(f"SELECT count(DISTINCT {value}) = count(*) FROM {ROWS}")[0])


def _has_words(table: Table, name: str) -> bool:
    """Return whether a column contains words and no numbers."""
    number = f"TRY_CAST({table.text(name)} AS DOUBLE)"
    return bool(table.one(f"SELECT count({number}) FROM {ROWS}")[0] == 0)


def _date_columns(table: Table, others: Sequence[str], reading: Reading) -> dict[str, str]:
    """Return the ISO date of each column whose name is a date, in the order of time. The result is
    empty unless two or more names are dates, all of one format.

    Raises:
        AmbiguousData: if the names are dates in several formats, in which they differ.
    """
    named = [
        cell for cell in others
        if (DATE.fullmatch(cell) or MONTH.fullmatch(cell)) and not NUMBER.fullmatch(cell)
    ]  # fmt: skip
    if len(named) < 2:
        return {}
    found = _dates_by_format(named, reading.time_format)
    sorted_ = {form: dates for form, dates in found.items() if dates == sorted(dates)}
    possible = sorted_ or found
    if len(possible) > 1:
        raise AmbiguousData(
            f"{table.name}: the dates in the header, such as {named[0]!r}, have several readings."
            f" Choose one: {' or '.join(setting('time_format', form) for form in possible)}.",
            tuple({"time_format": form} for form in possible),
        )
    if not possible:
        return {}
    (dates,) = possible.values()
    return dict(sorted(zip(named, dates, strict=True), key=lambda pair: pair[1]))


def _dates_by_format(names: Sequence[str], time_format: str | None) -> dict[str, list[str]]:
    """Return the ISO dates of the names for each format that gives other dates."""
    forms = (*FORMATS, *other_formats(names[0])) if time_format is None else (time_format,)
    found = dict[str, list[str]]()
    for form in forms:
        try:
            dates = [parse_date(cell, form).isoformat() for cell in names]
        except ValueError:
            continue
        if len(set(dates)) == len(dates) and dates not in found.values():
            found[form] = dates
    return found


def _is_wide(
    table: Table, reading: Reading, others: Sequence[str], steps: dict[tuple[str, int], str],
    series: Sequence[str],
) -> bool:  # fmt: skip
    """Return whether a table is wide.

    A wide table has no time column, and at least one of its features has two or more steps. The
    values of the series id column are unique. If there is no such column, all columns have steps,
    and all features have the same consecutive steps. If the reading contains feature names, the
    table is wide if all of these features have steps, and long if all of them are columns.
    """
    requested = set(reading.features or ())
    has_time = bool(known_names(others, TIME_NAMES)) if reading.time == "auto" else reading.time
    if has_time or (requested and requested <= set(table.header)):
        return False
    of_feature = _steps_of_features(steps)
    if requested and requested <= of_feature.keys():
        return True
    if all(len(values_) == 1 for values_ in of_feature.values()):
        return False
    if series:
        return _is_unique(table, *series)
    if set(others) - set(steps.values()):
        return False  # a column without a step indicates that each row is a step
    same, *different = {tuple(sorted(values_)) for values_ in of_feature.values()}
    return not different and len(same) > 1 and same[-1] - same[0] < len(same)


def _steps_of_features(steps: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    values_: dict[str, list[int]] = {}
    for feature, step in steps:
        values_.setdefault(feature, []).append(step)
    return values_
