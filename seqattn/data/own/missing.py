"""Empty cells, and rows that lack between numbered steps: refused, dropped or filled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files import Ragged, offsets_of, step_text
from seqattn.data.own.cutting import columns_apart, ended_sides
from seqattn.data.own.series import Series, keep_last_rows, numbered, rows_of
from seqattn.data.sequences import stretches
from seqattn.errors import DataError
from seqattn.wording import counted

OR_SET = ", or set data.missing to drop_sequence or interpolate."


def treat_missing(
    series: Series,
    config: OwnFile,
    apart_by: float | None = None,
    *,
    has_key: bool = True,
    last: int | None = None,
) -> None:
    """Refuse, drop or fill empty cells, as the config says. With windows, `drop_sequence` drops the
    windows that have one, later.

    Args:
        apart_by: how far apart whole-numbered steps are; None: as the closest two.
        has_key: whether data.missing can be set; a model of made sequences has no such key.
        last: steps at the end of each sequence that are kept, and that empty cells are filled from.

    Raises:
        DataError: with row and column.
    """
    _treat_gaps(series, config, apart_by, OR_SET if has_key else ".")
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
            series.filled += _interpolate(series, ragged, missing, where)
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
    series.points = series.points.at(kept)
    series.target = None if series.target is None else series.target.at(kept)


def spacing(series: Series) -> float | None:
    """How far apart whole-numbered steps are: as the closest two of a sequence. None: there are no
    such two."""
    apart, inner = _distances(series)
    return float(apart[inner].min()) if inner.any() else None


def _distances(series: Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(rows - 1,) from each whole-numbered step to the next, and whether it is of the same
    sequence; nothing where steps are others."""
    order = series.order
    none = np.zeros(0), np.zeros(0, dtype=bool)
    if order is None or order.dtype.kind != "f" or not len(order):
        return none
    steps = np.asarray(order, dtype=np.float64)
    if not (steps == np.round(steps)).all():
        return none
    inner = np.ones(len(steps) - 1, dtype=bool)
    inner[series.points.offsets[1:-1] - 1] = False
    return np.diff(steps), inner


def _treat_gaps(series: Series, config: OwnFile, apart_by: float | None, or_set: str) -> None:
    """Whole-numbered steps that skip some are rows that are missing."""
    apart, inner = _distances(series)
    if series.order is None or not inner.any():
        return
    steps = np.asarray(series.order, dtype=np.float64)
    common = apart[inner].min() if apart_by is None else apart_by
    gaps = np.flatnonzero(inner & (apart != common))
    if not gaps.size:
        return
    at = int(gaps[0])
    if _are_days(steps):
        raise DataError(
            f"{series.name}: steps such as {step_text(steps[0])} look like days written without"
            f" dashes, and as numbers {step_text(steps[at])} and {step_text(steps[at + 1])} are"
            f" {step_text(apart[at])} apart. Write them as {_with_dashes(steps[0])}, or set"
            " data.order to null to take rows as they come."
        )
    if config.missing == "refuse":
        raise DataError(
            f"{series.name}: {series.where(at + 1, 0).partition(',')[0]}: step"
            f" {step_text(steps[at + 1])} follows step {step_text(steps[at])}, but steps are"
            f" {step_text(common)} apart. Add the rows that lack"
            f"{or_set}"
        )
    if config.missing == "drop_sequence" and config.window is None:
        _drop(
            series, set((np.searchsorted(series.points.offsets, gaps, side="right") - 1).tolist())
        )
        return
    odd = gaps[apart[gaps] % common != 0]
    if odd.size:
        raise DataError(
            f"{series.name}: step {step_text(steps[odd[0] + 1])} follows step"
            f" {step_text(steps[odd[0]])}, which is no multiple of {step_text(common)} apart, so no"
            " rows can be put between. Set data.order to null to take rows as they come."
        )
    more = np.zeros(len(steps), dtype=np.int64)
    more[gaps + 1] = (apart[gaps] / common).astype(np.int64) - 1
    if int(more.sum()) > 10 * len(steps) + 1000:
        raise DataError(
            f"{series.name}: steps {step_text(common)} apart would need {int(more.sum()):,} rows"
            f" more between {len(steps):,}. Set data.order to null to take rows as they come."
        )
    places = np.arange(len(steps)) + np.cumsum(more)
    total = len(steps) + int(more.sum())
    values = np.full((total, series.points.values.shape[1]), np.nan)
    values[places] = series.points.values
    source = np.full(total, -1)
    source[places] = np.arange(len(steps))
    where = series.where

    def where_now(row: int, feature: int) -> str:
        after = row
        while source[after] < 0:
            after += 1
        if after == row:
            return where(int(source[row]), feature)
        return f"a row that lacks before {where(int(source[after]), feature)}"

    filled_steps = np.interp(np.arange(total), places, steps)
    lengths = series.points.lengths + np.add.reduceat(more, series.points.offsets[:-1])
    series.points = Ragged(values, offsets_of(lengths), series.points.features)
    series.order, series.where = filled_steps, where_now


def _interpolate(
    series: Series, ragged: Ragged, missing: NDArray[np.bool_], where: Callable[[int, int], str]
) -> int:
    """Fill empty cells of each sequence linearly over its steps; returns how many. What a source
    has is filled once more when it is cut, from its own points alone."""
    values = np.array(ragged.values, dtype=np.float64)
    steps = np.arange(len(values), dtype=np.float64)
    if ragged is series.points:
        steps = numbered(series)
    rows = np.flatnonzero(missing.any(axis=1))
    for k in np.unique(np.searchsorted(ragged.offsets, rows, side="right") - 1):
        here = slice(int(ragged.offsets[k]), int(ragged.offsets[k + 1]))
        for feature in np.flatnonzero(missing[here].any(axis=0)):
            known = ~np.isnan(values[here, feature])
            if not known.any():
                raise DataError(
                    f"{series.name}: {where(here.start, int(feature))} is empty, and so is every"
                    f" other cell of {ragged.features[int(feature)]!r} in sequence"
                    f" {series.ids[int(k)]!r}: nothing to interpolate between."
                )
            gaps = missing[here, feature]
            values[here, feature][gaps] = np.interp(
                steps[here][gaps], steps[here][known], values[here, feature][known]
            )
    changed = Ragged(values, ragged.offsets, ragged.features)
    if ragged is series.points:
        series.points, series.was_empty = changed, missing
    else:
        series.target = changed
    return int(missing.sum())


def _are_days(steps: NDArray[np.float64]) -> bool:
    """Whether whole numbers are all days of 1900 to 2099, as YYYYMMDD."""
    months, days = steps // 100 % 100, steps % 100
    if steps.min() < 19_000_101 or steps.max() > 20_991_231:
        return False
    if months.min() < 1 or months.max() > 12 or days.min() < 1 or days.max() > 31:
        return False
    try:
        np.array([_with_dashes(step) for step in np.unique(steps)], dtype="datetime64[D]")
    except ValueError:
        return False
    return True


def _with_dashes(step: float) -> str:
    digits = step_text(step)
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
