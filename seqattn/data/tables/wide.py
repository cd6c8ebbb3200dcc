"""Reader of wide tables, in which each row is a sequence.

The column names contain a feature and a step, such as x_1, y_1, x_2, y_2, or are dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.column_roles import WIDE_LAYOUT, ColumnRoles
from seqattn.data.files.chunk import DATES, Chunk, Ragged, to_offsets
from seqattn.data.files.columns import join_names, select_features
from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.casting import infer_columns
from seqattn.data.tables.checks import check_cells, first_non_number
from seqattn.data.tables.header import DATE, NUMBER
from seqattn.data.tables.names import SERIES_NAMES, TIME_NAMES, check_names, fold_name, known_names
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.time_formats import FORMATS
from seqattn.errors import DataError, NoRows

CHUNK_CELLS = 2**22
"""Maximum number of cells in a chunk of several rows."""


@dataclass(frozen=True)
class WideLayout:
    """The columns of a wide table.

    Attributes:
        series: name of the series id column, or None if the row number is the id.
        features: names of the features.
        cells: names of the columns, ordered by step and, within a step, by feature.
        steps: (L,) time of each step, as numbers or dates, or None if the first step is 0 or 1.
        notes: notes for the user.
    """

    series: str | None
    features: tuple[str, ...]
    cells: tuple[str, ...]
    steps: NDArray[Any] | None
    notes: tuple[str, ...] = ()


def wide_columns(header: Sequence[str]) -> dict[tuple[str, int], str]:
    """Return the column for each pair (feature, step), from names such as x_1, x[2], y.3, lat4, or
    a step alone such as 1, 2, 3."""
    values_: dict[tuple[str, int], str] = {}
    for cell in header:
        match = re.fullmatch(r"(.*?)[\s_.\-\[(]?(\d{1,9})[\])]?", cell)
        if match:
            values_.setdefault((match.group(1) or "value", int(match.group(2))), cell)
    return values_


def wide_layout(table: Table, options: ReadOptions) -> WideLayout | None:
    """Return the layout of a wide table, or None if the table is long.

    Raises:
        DataError: if a wide table lacks a column, such as the column for a step of a feature.
    """
    if options.layout == "long":
        return None
    series = _series_column(table, options)
    assigned = {*options.ignore, series, options.group}
    others = [cell for cell in table.header if cell not in assigned]
    dates = _date_columns(others)
    if dates is not None:
        return WideLayout(
            series, ("value",), tuple(dates), np.array(list(dates.values()), dtype=DATES)
        )
    return _layout_of_steps(table, options, others, series)


def _layout_of_steps(
    table: Table, options: ReadOptions, others: Sequence[str], series: str | None
) -> WideLayout | None:
    """Return the layout of a table with column names that contain a feature and a step, or None if
    the table is long.

    Args:
        table: the rows.
        options: the options for reading the table.
        others: names of the columns without another role.
        series: name of the series id column, or None if there is no such column.
    """
    steps = wide_columns(others)
    if options.layout == "auto" and not _is_wide(table, options, others, steps, series):
        return None
    values_ = f"found {join_names(table.header)}"
    if not steps:
        raise DataError(
            f"{table.name}: no columns such as x_1, y_1, x_2, y_2, a feature and a step each;"
            f" {values_}."
        )
    stems = list(dict.fromkeys(feature for feature, _ in steps))
    features, notes = select_features(stems, options, f"{table.name}: no column", values_)
    every = _step_range(table, steps, features)
    cells = tuple(steps[feature, step] for step in every for feature in features)
    if left_out := [cell for cell in others if cell not in steps.values()]:
        notes += (f"left out: {join_names(left_out)}",)
    if options.layout == "auto" and series is None:
        notes += (
            f"a row is read as a sequence of up to {len(every)} points; if it is one point, set"
            " data.layout to long",
        )
    named = None if every[0] in (0, 1) else np.array(every, dtype=np.float64)
    return WideLayout(series, features, cells, named, notes)


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


def _series_column(table: Table, options: ReadOptions) -> str | None:
    if options.series != "auto":
        columns_ = [
            name for name in options.series if name in table.header or options.layout == "wide"
        ]
        check_names(table, columns_, "data.series")
        return columns_[0] if columns_ else None
    if named := known_names(table.header, SERIES_NAMES):
        return named[0]
    first = table.header[0]
    if wide_columns([first]) or DATE.fullmatch(first) or fold_name(first) in TIME_NAMES:
        return None
    return first if not first[-1:].isdecimal() and _is_unique(table, first) else None


def _is_unique(table: Table, name: str) -> bool:
    """Return whether the values of a column are unique and never empty."""
    column = table.column(name)
    return bool(table.one(f"SELECT count(DISTINCT {column}) = count(*) FROM {ROWS}")[0])


def _date_columns(others: Sequence[str]) -> dict[str, str] | None:
    """Return the ISO date of each column if all names are dates in one format, otherwise None."""
    from datetime import datetime

    if len(others) < 2 or any(NUMBER.fullmatch(cell) for cell in others):
        return None
    for form in FORMATS:
        try:
            values_ = {cell: datetime.strptime(cell, form).isoformat() for cell in others}
        except ValueError:
            continue
        return dict(sorted(values_.items(), key=lambda pair: pair[1]))
    return None


def _is_wide(
    table: Table, options: ReadOptions, others: Sequence[str], steps: dict[tuple[str, int], str],
    series: str | None,
) -> bool:  # fmt: skip
    """Return whether a table is wide.

    A wide table has no time column, and at least one of its features has two or more steps. The
    values of the series id column are unique. If there is no such column, all columns have steps,
    and all features have the same consecutive steps. If the options contain feature names, the
    table is wide if all of these features have steps, and long if all of them are columns.
    """
    requested = set(options.features or ())
    has_time = bool(known_names(others, TIME_NAMES)) if options.time == "auto" else options.time
    if has_time or (requested and requested <= set(table.header)):
        return False
    of_feature = _steps_of_features(steps)
    if requested and requested <= of_feature.keys():
        return True
    if all(len(values_) == 1 for values_ in of_feature.values()):
        return False
    if series is not None:
        return _is_unique(table, series)
    if set(others) - set(steps.values()):
        return False  # a column without a step indicates that each row is a step
    same, *different = {tuple(sorted(values_)) for values_ in of_feature.values()}
    return not different and len(same) > 1 and same[-1] - same[0] < len(same)


def _steps_of_features(steps: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    values_: dict[str, list[int]] = {}
    for feature, step in steps:
        values_.setdefault(feature, []).append(step)
    return values_


def wide_chunks(table: Table, wide: WideLayout, options: ReadOptions) -> Iterator[Chunk]:
    """Yield the sequences of a wide table in chunks.

    Raises:
        DataError: if a cell is not a number, if a series id or a group is missing, or if the table
            has no rows.
    """
    columns = infer_columns(table, replace(options, time=None), wide.cells)  # numbers, no times
    for column in columns.values():
        check_cells(table, column)
        if column.kind in ("words", "time"):
            word = first_non_number(table, column, options)
            raise DataError(
                f"{table.name}: {word}. Correct the cell; or, if a row is not a sequence, set"
                " data.layout to long."
            )
    if options.group is not None:
        check_names(table, [options.group], "data.group")
    F = len(wide.features)
    # The greatest row number exceeds the number of rows if `clean_rows` removed rows.
    (last,) = table.measure(f"max({ROW})")
    if last is None:
        raise NoRows(f"{table.name}: has a header but no rows.")
    names = [name for name in (wide.series, options.group) if name is not None]
    values = ", ".join(f"{column.sql} AS v{i}" for i, column in enumerate(columns.values()))
    extra = "".join(f", {table.text(name)} AS w{i}" for i, name in enumerate(names))
    at_once = max(1, CHUNK_CELLS // len(wide.cells))
    decimal = "," if any(column.decimal == "," for column in columns.values()) else "."
    for first in range(1, last + 1, at_once):
        values_ = table.connection.execute(
            f"SELECT {ROW} AS r, {values}{extra} FROM {ROWS} WHERE {ROW} >= {first} AND"
            f" {ROW} < {first + at_once} ORDER BY {ROW}"
        ).fetchnumpy()
        rows = np.asarray(values_["r"])
        if not len(rows):
            continue
        cells = np.stack(
            [np.ma.filled(values_[f"v{i}"], np.nan) for i in range(len(wide.cells))], axis=1
        ).reshape(len(rows), -1, F)
        words = {
            name: _filled_words(table, values_[f"w{i}"], rows, name) for i, name in enumerate(names)
        }
        yield _wide_chunk(table, wide, rows, cells, words, options.group, decimal)


def _filled_words(table: Table, values_: Any, rows: NDArray[Any], name: str) -> tuple[str, ...]:
    empty = np.flatnonzero(np.ma.getmaskarray(values_) | (np.ma.filled(values_, "") == ""))
    if empty.size:
        line = table.line(int(rows[empty[0]]))
        raise DataError(f"{table.name}: {line}, column {name!r} is empty.")
    return tuple(map(str, values_))


def _wide_chunk(
    table: Table, wide: WideLayout, rows: NDArray[Any], cells: NDArray[Any],
    words: dict[str, tuple[str, ...]], group: str | None, decimal: str,
) -> Chunk:  # fmt: skip
    """Convert rows to sequences. Steps without values at the end of a row are padding."""
    n, L, F = cells.shape
    empty = np.isnan(cells).all(axis=2)
    lengths = L - np.where(empty.all(axis=1), L, empty[:, ::-1].argmin(axis=1))
    offsets = to_offsets(lengths)
    valid = np.arange(L) < lengths[:, None]

    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        column = wide.cells[(row - int(offsets[k])) * F + feature]
        return f"{table.line(int(rows[k]))}, column {column!r}"

    return Chunk(
        ids=tuple(map(str, rows.tolist())) if wide.series is None else words[wide.series],
        points=Ragged(cells[valid], offsets, wide.features),
        where=where,
        order=None if wide.steps is None else np.broadcast_to(wide.steps, (n, L))[valid],
        groups=None if group is None else words[group],
        notes=(*table.notes, *wide.notes),
        is_wide=True,
        roles=ColumnRoles(
            WIDE_LAYOUT,
            () if wide.series is None else (wide.series,),
            delimiter=table.delimiter,
            decimal=decimal,
        ),
    )
