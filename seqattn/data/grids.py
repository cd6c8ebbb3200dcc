"""The grids that the steps of sequences may lie on.

    number        equal distances
    time          equal spans: seconds, ..., days, weeks
    business_day  Monday to Friday; holidays are not known, so they are missing rows
    month         one day of the month, or the last day, of every month, quarter or year

Letters: N sequences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNKNOWN, NUMBER, TIME, BUSINESS_DAY, MONTH = range(5)
DAY = 86_400_000_000
DATES = "datetime64[us]"
LAST_DAY = 31
ROUNDING = 1e-6  # of a step, by which numbers that are no whole ones may miss their grid


class GridFit(NamedTuple):
    """How well sequences lie on one grid: (N,) step, whether they do, and rows missing."""

    step: Floats
    is_valid: NDArray[np.bool_]
    missing: Floats


class StepRows(NamedTuple):
    """Steps of N sequences one after the other.

    Attributes:
        series_index: (rows,) the sequence of each.
        inner: (rows - 1,) whether the next row is of the same sequence.
    """

    order: NDArray[Any]
    offsets: Integers
    series_index: Integers
    inner: NDArray[np.bool_]

    @classmethod
    def of(cls, order: NDArray[Any], offsets: Integers) -> StepRows:
        if order.dtype.kind == "M":
            order = order.astype(DATES)
        series_index = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return cls(order, offsets, series_index, series_index[1:] == series_index[:-1])

    @property
    def is_date(self) -> bool:
        return self.order.dtype.kind == "M"

    def train_step(self) -> float | None:
        """The distance of numbers that are all as far apart; None: they are not, or are dates."""
        if self.is_date:
            return None
        found = np.diff(self.order)[self.inner]
        return float(found[0]) if len(found) and (found == found[0]).all() else None

    def each(self, ufunc: np.ufunc, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """(N,) of (rows,): a ufunc over the rows of each sequence; `empty` where it has none."""
        found = np.full(len(self.offsets) - 1, empty, dtype=np.asarray(values).dtype)
        has_rows = np.diff(self.offsets) > 0
        if has_rows.any():
            found[has_rows] = ufunc.reduceat(values, self.offsets[:-1][has_rows])
        return found

    @property
    def are_whole(self) -> NDArray[np.bool_]:
        """(N,) whether all steps are whole numbers, or all dates of one time of day."""
        if self.is_date:
            return self.each(np.logical_and, self.has_first_time, True)
        return self.each(np.logical_and, self.order == np.round(self.order), True)

    @property
    def has_first_time(self) -> NDArray[np.bool_]:
        """(rows,) whether a date has the time of day that its sequence begins with."""
        into_day = self.order.astype(np.int64) % DAY
        return np.asarray(into_day == into_day[self.offsets[:-1][self.series_index]])

    @property
    def day(self) -> Integers:
        """(N,) of dates, the day of the month that all are meant to be: `LAST_DAY` where all are
        the last of theirs, else the latest."""
        if not self.is_date:
            return np.zeros(len(self.offsets) - 1, dtype=np.int64)
        day, last = self._days()
        all_last = self.each(np.logical_and, day == last, True)
        return np.where(all_last, LAST_DAY, self.each(np.maximum, day, 1))

    def is_on_day(self, day: int) -> NDArray[np.bool_]:
        """(N,) of dates, whether all are on a day of the month, or on the last of a shorter one."""
        found, last = self._days()
        return self.each(np.logical_and, found == np.minimum(day, last), True)

    def _days(self) -> tuple[Integers, Integers]:
        """(rows,) the day of the month, and how many its month has."""
        month = self.order.astype("datetime64[M]")
        days = (self.order.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
        return days + 1, days_of_month(month)

    def distances(self, unit: int) -> Floats | None:
        """(rows - 1,) from each step to the next, NaN off the grid; None: steps are no such."""
        if self.is_date == (unit == NUMBER):
            return None
        if unit == NUMBER:
            return np.asarray(np.diff(self.order), dtype=np.float64)
        if unit == TIME:
            return np.diff(self.order.astype(np.int64)).astype(np.float64)
        if unit == BUSINESS_DAY:
            days = self.order.astype("datetime64[D]")
            on = np.is_busday(days) & self.has_first_time
            found = np.busday_count(days[:-1], days[1:]).astype(np.float64)
        else:
            day, last = self._days()
            on = (day == np.minimum(self.day[self.series_index], last)) & self.has_first_time
            found = np.diff(self.order.astype("datetime64[M]").astype(np.int64)).astype(np.float64)
        found[~(on[1:] & on[:-1])] = np.nan
        return found

    def tolerance(self, step: Floats) -> Floats:
        """(rows - 1,) of a step, by which numbers may miss the grid: what rounding does to them."""
        size = np.abs(np.asarray(self.order, dtype=np.float64)) * np.finfo(np.float64).eps
        own = step[self.series_index]
        largest = np.maximum(size[1:] / own[1:], size[:-1] / own[:-1])
        return np.where(self.are_whole[self.series_index[1:]], 0, np.maximum(ROUNDING, 4 * largest))

    def fits(self) -> dict[int, GridFit]:
        """The grids that steps of this kind may lie on."""
        units = (MONTH, TIME, BUSINESS_DAY) if self.is_date else (NUMBER,)
        return {unit: self._fit(unit) for unit in units}

    def _fit(self, unit: int) -> GridFit:
        distances = self.distances(unit)
        assert distances is not None
        step = self.each(np.minimum, np.append(np.where(self.inner, distances, np.inf), np.inf),
                         np.inf)  # fmt: skip
        usable = np.isfinite(step) & (step > 0)
        step = np.where(usable, step, np.nan)
        ratio = distances / step[self.series_index[:-1]]
        whole = np.round(ratio)
        limit = 0.0 if self.is_date else self.tolerance(step)
        on = ~self.inner | (np.abs(ratio - whole) <= limit)
        is_valid = usable & self.each(np.logical_and, np.append(on, True), True)
        rows = self.each(np.add, np.append(np.where(self.inner, whole, 0), 0), 0)
        if not self.is_date:  # of numbers with rounding, a mean is nearer
            ends = self.order[np.maximum(self.offsets[1:] - 1, 0)]
            begins = self.order[np.minimum(self.offsets[:-1], len(self.order) - 1)]
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = (ends - begins) / rows
            step = np.where(is_valid & ~self.are_whole, mean, step)
        return GridFit(step, is_valid, rows - (np.diff(self.offsets) - 1))

    def chosen(self, fits: dict[int, GridFit]) -> tuple[Integers, Floats]:
        """(N,) unit and step: of the valid grids the one that leaves the fewest rows missing. Of
        equal ones months come first, then days, weeks and what is shorter, then business days: from
        a Friday to a Monday is one business day, and not 3 days."""
        N = len(self.offsets) - 1
        unit, step = np.full(N, UNKNOWN), np.full(N, np.nan)
        fewest = np.full(N, np.inf)
        for kind, fit in fits.items():
            missing = np.where(fit.is_valid, fit.missing, np.inf)
            if kind == TIME:
                missing = missing + np.where((fit.step < 2 * DAY) | (fit.step % (7 * DAY) == 0),
                                             0, 0.5)  # fmt: skip
            if kind == BUSINESS_DAY:
                missing = missing + np.where(fit.step == 1, 0.25, 0.75)
            better = missing < fewest
            unit, step = np.where(better, kind, unit), np.where(better, fit.step, step)
            fewest = np.minimum(fewest, missing)
        plain = TIME if self.is_date else NUMBER
        # Whole numbers, and dates of one time of day, are counted even where they skip unevenly.
        counted = (unit == UNKNOWN) & self.are_whole & np.isfinite(fits[plain].step)
        return np.where(counted, plain, unit), np.where(counted, fits[plain].step, step)

    def fill_most_frequent(self, unit: Integers, step: Floats) -> tuple[Integers, Floats]:
        """The same, with the most frequent spacing where a sequence has one row, or two that lie
        on its grid."""
        lengths = np.diff(self.offsets)
        if (lengths > 2).all():
            return unit, step
        settled = (lengths > 2) & (unit != UNKNOWN)
        if not settled.any():
            return unit, step
        frequent, common, _ = most_frequent(unit[settled], step[settled])[0]
        distances = self.distances(frequent)
        assert distances is not None
        ratio = np.append(np.where(self.inner, distances / common, 1), 1)
        on = self.each(np.logical_and, (ratio >= 1) & (ratio == np.round(ratio)), False)
        takes = (lengths <= 2) & (lengths > 0) & on
        return np.where(takes, frequent, unit), np.where(takes, common, step)


def most_frequent(unit: NDArray[Any], step: Floats) -> list[tuple[int, float, int]]:
    """Each (unit, step) with how many sequences have it, the most frequent first.

    Args:
        unit, step: (N,) of known spacings.
    """
    pairs = np.stack([unit, step], axis=1)
    if (pairs == pairs[:1]).all():  # sorting millions takes seconds
        pairs, counts = pairs[:1], np.full(min(1, len(pairs)), len(pairs))
    else:
        pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    return [
        (int(pairs[i, 0]), float(pairs[i, 1]), int(counts[i]))
        for i in np.argsort(-counts, kind="stable")
    ]


def on_day(month: NDArray[Any], day: NDArray[Any]) -> NDArray[Any]:
    """Dates of months (datetime64[M]) on a day, or on the last where a month has fewer days."""
    first = month.astype("datetime64[D]")
    return np.asarray(first + (np.minimum(day, days_of_month(month)) - 1).astype(np.int64))


def days_of_month(month: NDArray[Any]) -> Integers:
    """How many days months (datetime64[M]) have."""
    begins, ends = (one.astype("datetime64[D]") for one in (month, month + 1))
    return np.asarray((ends - begins).astype(np.int64))
