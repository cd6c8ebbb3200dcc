"""Empty cells, and rows that lack between steps: refused, dropped or filled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files import Ragged, offsets_of, step_text
from seqattn.data.own.cutting import columns_apart, ended_sides
from seqattn.data.own.series import Series, keep_last_rows, numbered, rows_of
from seqattn.data.sequences import stretches
from seqattn.data.spacing import Spacing, with_dashes
from seqattn.errors import DataError
from seqattn.wording import counted

OR_SET = ", or set data.missing to drop_sequence or interpolate."


def treat_missing(
    series: Series, config: OwnFile, *, has_key: bool = True, last: int | None = None
) -> None:
    """Refuse, drop or fill empty cells, as the config says. With windows, `drop_sequence` drops the
    windows that have one, later. Filled are the cells of sources; what a target lacks stays NaN.

    Args:
        has_key: whether data.missing can be set; a model of made sequences has no such key.
        last: steps at the end of each sequence that are kept, and that empty cells are filled from.

    Raises:
        DataError: with row and column.
    """
    _treat_gaps(series, config, OR_SET if has_key else ".")
    if last is not None:
        keep_last_rows(series, last)
    apart, bad = columns_apart(config), set[int]()
    for ragged, where in ((series.points, series.where), (series.target, series.where_target)):
        if ragged is None or where is None:
            continue
        if not any(np.isnan(rows).any() for _, rows in stretches(ragged.values)):
            continue
        missing = np.isnan(ragged.values)
        if apart and ragged is series.points:
            missing &= ~ended_sides(ragged, config)
        if not missing.any():
            continue
        if config.missing == "refuse":
            row, feature = (int(i) for i in np.argwhere(missing)[0])
            others = int(missing.sum()) - 1
            also = f", and so {'is' if others == 1 else 'are'} {counted(others, 'more cell')}"
            raise DataError(
                f"{series.name}: {where(row, feature)} is empty{also if others else ''}."
                f" Fill {'them' if others else 'it'}{OR_SET if has_key else '.'}"
            )
        if config.missing == "interpolate":
            series.filled += int(missing.sum())
            if ragged is series.points:
                _interpolate(series, missing, config.source_features or ragged.features)
        if config.missing == "drop_sequence" and config.window is None:
            lacking = np.flatnonzero(missing.any(axis=1))
            bad |= set((np.searchsorted(ragged.offsets, lacking, side="right") - 1).tolist())
    _drop(series, bad)


def _drop(series: Series, bad: set[int]) -> None:
    if not bad:
        return
    kept = [k for k in range(len(series)) if k not in bad]
    series.dropped += [series.ids[k] for k in sorted(bad)]
    rows = rows_of(series.points, kept)
    series.ids = [series.ids[k] for k in kept]
    series.order = None if series.order is None else series.order[rows]
    series.spacing = None if series.spacing is None else series.spacing.at(kept)
    series.points = series.points.at(kept)
    series.target = None if series.target is None else series.target.at(kept)


def _treat_gaps(series: Series, config: OwnFile, or_set: str) -> None:
    """Steps that skip some of their own spacing are rows that are missing."""
    order, spacing, offsets = series.order, series.spacing, series.points.offsets
    if order is None or spacing is None or len(order) < 2:
        return
    steps = spacing.distances(order, offsets)
    gaps = np.flatnonzero(steps != 1)
    if not gaps.size:
        return
    whose = np.searchsorted(offsets, gaps, side="right") - 1
    at = int(gaps[0])
    numbers, date = numbered(series), with_dashes(order)
    if date is not None:
        raise DataError(
            f"{series.name}: steps such as {step_text(order[0])} look like dates written without"
            f" dashes, and as numbers {step_text(order[at])} and {step_text(order[at + 1])} are"
            f" {step_text(numbers[at + 1] - numbers[at])} apart. Write them as"
            f" {date}, or set data.time to null to take rows as they"
            " come."
        )
    odd = np.flatnonzero((steps[gaps] != np.round(steps[gaps])) | (steps[gaps] < 1))
    if config.missing == "drop_sequence" and config.window is None:
        _drop(series, set(whose.tolist()))
        return
    if odd.size or config.missing == "refuse":
        first = int(odd[0]) if odd.size else 0
        at, frequency = int(gaps[first]), spacing.frequency(int(whose[first]))
        found = (
            f"{series.name}: {series.where(at + 1, 0).partition(',')[0]}: step"
            f" {step_text(order[at + 1])} follows step {step_text(order[at])}"
        )
        as_they_come = "set data.time to null, and data.features, to take rows as they come."
        if odd.size:
            raise DataError(
                f"{found}, which is no multiple of {frequency} apart, so no rows can be put"
                f" between. Make the steps even, or {as_they_come}"
            )
        raise DataError(
            f"{found}, but steps are {frequency} apart. Add the rows that lack{or_set}"
            + (f" Or {as_they_come}" if or_set == OR_SET and order.dtype.kind == "M" else "")
        )
    more = np.zeros(len(order), dtype=np.int64)
    more[gaps + 1] = steps[gaps].astype(np.int64) - 1
    if int(more.sum()) > 10 * len(order) + 1000:
        raise DataError(
            f"{series.name}: steps {spacing.frequency(int(whose[0]))} apart would need"
            f" {int(more.sum()):,} rows more between {len(order):,}. Set data.time to null to take"
            " rows as they come."
        )
    _insert(series, more, order, spacing)


def _insert(
    series: Series, more: NDArray[np.int64], order: NDArray[np.generic], spacing: Spacing
) -> None:
    """Put empty rows where some are missing.

    Args:
        more: (rows,) how many before each row.
    """
    places = np.arange(len(order)) + np.cumsum(more)
    total = len(order) + int(more.sum())
    values = np.full((total, series.points.values.shape[1]), np.nan)
    values[places] = series.points.values
    source = np.full(total, -1)
    source[places] = np.arange(len(order))
    # How many rows each new one is after the last that was there, and which that is.
    latest = np.maximum.accumulate(np.where(source >= 0, np.arange(total), 0))
    new = np.flatnonzero(source < 0)
    base = source[latest[new]]
    whose = np.searchsorted(series.points.offsets, base, side="right") - 1
    steps = np.empty(total, dtype=order.dtype)
    steps[places] = order
    steps[new] = spacing.ahead(whose, order[base], new - latest[new])
    where = series.where

    def where_now(row: int, feature: int) -> str:
        after = row
        while source[after] < 0:
            after += 1
        if after == row:
            return where(int(source[row]), feature)
        return f"a row that lacks before {where(int(source[after]), feature)}"

    lengths = series.points.lengths + np.add.reduceat(more, series.points.offsets[:-1])
    series.points = Ragged(values, offsets_of(lengths), series.points.features)
    series.order, series.where = steps, where_now


def _interpolate(series: Series, missing: NDArray[np.bool_], given: Sequence[str]) -> None:
    """Fill empty cells of what is given linearly over the steps of each sequence. A source is
    filled once more when it is cut, where that told it of what follows."""
    points, where = series.points, series.where
    values, steps = np.array(points.values, dtype=np.float64), numbered(series)
    fillable = missing & np.isin(points.features, list(given))
    rows = np.flatnonzero(fillable.any(axis=1))
    for k in np.unique(np.searchsorted(points.offsets, rows, side="right") - 1):
        here = slice(int(points.offsets[k]), int(points.offsets[k + 1]))
        for feature in np.flatnonzero(fillable[here].any(axis=0)):
            known = ~np.isnan(values[here, feature])
            if not known.any():
                raise DataError(
                    f"{series.name}: {where(here.start, int(feature))} is empty, and so is every"
                    f" other cell of {points.features[int(feature)]!r} in sequence"
                    f" {series.ids[int(k)]!r}: nothing to interpolate between."
                )
            gaps = missing[here, feature]
            values[here, feature][gaps] = np.interp(
                steps[here][gaps], steps[here][known], values[here, feature][known]
            )
    series.points, series.was_empty = Ragged(values, points.offsets, points.features), missing
