"""Step intervals of sequences: numbers, durations, and counts of business days or months.

The interval of each sequence is inferred from its times. Times with a regular interval lie on a
grid, which has one of four units:

    number        equal distances
    time          equal durations, in microseconds
    business_day  Monday to Friday; holidays are unknown and count as missing rows
    month         the same day, or the last day, of months at equal distances

In shapes, N is the number of sequences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNKNOWN, NUMBER, TIME, BUSINESS_DAY, MONTH = range(5)
DAY = 86_400_000_000
DATES = "datetime64[us]"
LAST_DAY = 31
ROUNDING = 1e-6  # smallest tolerance for non-integer numbers off their grid, in steps


class GridFit(NamedTuple):
    """The fit of N sequences to one grid.

    Attributes:
        step: (N,) interval between consecutive grid points, in units of the grid.
        is_valid: (N,) booleans that are True if the sequence has at least two rows and all of its
            rows are on the grid.
        missing: (N,) number of missing rows.
    """

    step: Floats
    is_valid: NDArray[np.bool_]
    missing: Floats


class StepRows(NamedTuple):
    """The concatenated times of N sequences.

    Attributes:
        order: (rows,) times, as numbers or dates.
        offsets: (N + 1,) index of the first row of each sequence, followed by the number of rows.
        series_index: (rows,) index of the sequence to which each row belongs.
        inner: (rows - 1,) booleans that are True if the next row belongs to the same sequence.
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

    def constant_step(self) -> float | None:
        """Return the distance between consecutive rows if all of these distances are equal. Return
        None if distances differ, if no sequence has two rows, or if the times are dates."""
        if self.is_date:
            return None
        found = np.diff(self.order)[self.inner]
        return float(found[0]) if len(found) and (found == found[0]).all() else None

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: Any) -> NDArray[Any]:
        """Reduce the values (rows,) of each sequence to a single value with a ufunc, and return an
        array (N,). A sequence without rows gets the value `empty`."""
        found = np.full(len(self.offsets) - 1, empty, dtype=np.asarray(values).dtype)
        has_rows = np.diff(self.offsets) > 0
        if has_rows.any():
            found[has_rows] = ufunc.reduceat(values, self.offsets[:-1][has_rows])
        return found

    @property
    def is_whole(self) -> NDArray[np.bool_]:
        """Boolean array (N,) that is True if all times of a sequence are integers, or dates with
        the same time of day."""
        if self.is_date:
            return self.reduce(np.logical_and, self.has_first_time, True)
        return self.reduce(np.logical_and, self.order == np.round(self.order), True)

    @property
    def has_first_time(self) -> NDArray[np.bool_]:
        """Boolean array (rows,) that is True if a date has the same time of day as the first date
        of its sequence."""
        into_day = self.order.astype(np.int64) % DAY
        return np.asarray(into_day == into_day[self.offsets[:-1][self.series_index]])

    @property
    def day(self) -> Integers:
        """Array (N,) with the day of the month on which the grid points of each sequence lie, for a
        monthly grid.

        The day is `LAST_DAY` if each date of a sequence is the last day of a month. Otherwise, the
        day is the latest day of the month among the dates. For numbers, the day is 0.
        """
        if not self.is_date:
            return np.zeros(len(self.offsets) - 1, dtype=np.int64)
        day, last = self._days()
        all_last = self.reduce(np.logical_and, day == last, True)
        return np.where(all_last, LAST_DAY, self.reduce(np.maximum, day, 1))

    def is_on_day(self, day: int) -> NDArray[np.bool_]:
        """Return a boolean array (N,) that is True if all dates of a sequence are on the given day
        of the month, or on the last day of a shorter month."""
        found, last = self._days()
        return self.reduce(np.logical_and, found == np.minimum(day, last), True)

    def _days(self) -> tuple[Integers, Integers]:
        """Return two arrays (rows,): the day of the month, and the number of days in the month."""
        month = self.order.astype("datetime64[M]")
        days = (self.order.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
        return days + 1, days_of_month(month)

    def distances(self, unit: int) -> Floats | None:
        """Return the distance from each row to the next, in units of the grid.

        The result is an array (rows - 1,). For business days and months, a distance is NaN if one
        of its two rows is off the grid. The result is None if the unit does not apply to the times.
        """
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
        """Return an array (rows - 1,) with the largest deviations from the grid, in steps, that
        rounding of numbers can cause."""
        size = np.abs(np.asarray(self.order, dtype=np.float64)) * np.finfo(np.float64).eps
        step_of_row = step[self.series_index]
        largest = np.maximum(size[1:] / step_of_row[1:], size[:-1] / step_of_row[:-1])
        return np.where(self.is_whole[self.series_index[1:]], 0, np.maximum(ROUNDING, 4 * largest))

    def fits(self) -> dict[int, GridFit]:
        """Return the fit to each grid that is possible for the type of the times, by unit."""
        units = (MONTH, TIME, BUSINESS_DAY) if self.is_date else (NUMBER,)
        return {unit: self._fit(unit) for unit in units}

    def _fit(self, unit: int) -> GridFit:
        distances = self.distances(unit)
        assert distances is not None
        step = self.reduce(np.minimum, np.append(np.where(self.inner, distances, np.inf), np.inf),
                         np.inf)  # fmt: skip
        usable = np.isfinite(step) & (step > 0)
        step = np.where(usable, step, np.nan)
        ratio = distances / step[self.series_index[:-1]]
        whole = np.round(ratio)
        limit = 0.0 if self.is_date else self.tolerance(step)
        on = ~self.inner | (np.abs(ratio - whole) <= limit)
        is_valid = usable & self.reduce(np.logical_and, np.append(on, True), True)
        rows = self.reduce(np.add, np.append(np.where(self.inner, whole, 0), 0), 0)
        if not self.is_date:  # the mean distance is more precise than one rounded distance
            ends = self.order[np.maximum(self.offsets[1:] - 1, 0)]
            begins = self.order[np.minimum(self.offsets[:-1], len(self.order) - 1)]
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = (ends - begins) / rows
            step = np.where(is_valid & ~self.is_whole, mean, step)
        return GridFit(step, is_valid, rows - (np.diff(self.offsets) - 1))

    def choose_grid(self, fits: dict[int, GridFit]) -> tuple[Integers, Floats]:
        """For each sequence, choose the valid grid with the fewest missing rows.

        Return the unit and the step of each grid as two arrays (N,). Among grids with equally few
        missing rows, the priority is: months; whole weeks, and durations below two days; one
        business day; other durations; several business days. For example, the step from a Friday to
        a Monday is one business day rather than three days. If no grid is valid, the unit is `TIME`
        or `NUMBER` if the sequence has at least two rows and `is_whole` is True for the sequence;
        otherwise, the unit is `UNKNOWN`.
        """
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
        # Integers and dates with the same time of day have a unit even if the gaps are irregular.
        counted = (unit == UNKNOWN) & self.is_whole & np.isfinite(fits[plain].step)
        return np.where(counted, plain, unit), np.where(counted, fits[plain].step, step)

    def assume_most_frequent(
        self, unit: Integers, step: Floats, assumed: tuple[int, float] | None = None
    ) -> tuple[Integers, Floats]:
        """Return the units and steps of all sequences. A sequence with one or two rows gets the
        most frequent interval of the longer sequences if its rows fit this interval. If the unit
        and step `assumed` are given, they take the place of the most frequent interval."""
        lengths = np.diff(self.offsets)
        if (lengths > 2).all():
            return unit, step
        settled = (lengths > 2) & (unit != UNKNOWN)
        if assumed is None and not settled.any():
            return unit, step
        frequent, common = assumed or most_frequent(unit[settled], step[settled])[0][:2]
        distances = self.distances(frequent)
        assert distances is not None
        ratio = np.append(np.where(self.inner, distances / common, 1), 1)
        on = self.reduce(np.logical_and, (ratio >= 1) & (ratio == np.round(ratio)), False)
        takes = (lengths <= 2) & (lengths > 0) & on
        return np.where(takes, frequent, unit), np.where(takes, common, step)


def most_frequent(unit: NDArray[Any], step: Floats) -> list[tuple[int, float, int]]:
    """Return triples (unit, step, number of sequences), the most frequent interval first.

    Args:
        unit: (N,) units of known intervals.
        step: (N,) steps of known intervals.
    """
    pairs = np.stack([unit, step], axis=1)
    if (pairs == pairs[:1]).all():  # avoids sorting millions of pairs
        pairs, counts = pairs[:1], np.full(min(1, len(pairs)), len(pairs))
    else:
        pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    return [
        (int(pairs[i, 0]), float(pairs[i, 1]), int(counts[i]))
        for i in np.argsort(-counts, kind="stable")
    ]


def on_day(month: NDArray[Any], day: NDArray[Any]) -> NDArray[Any]:
    """Return the date with the given day in each month (`datetime64[M]`), or the last day of a
    shorter month."""
    first = month.astype("datetime64[D]")
    return np.asarray(first + (np.minimum(day, days_of_month(month)) - 1).astype(np.int64))


def days_of_month(month: NDArray[Any]) -> Integers:
    """Return the number of days in each month (`datetime64[M]`)."""
    begins, ends = (one.astype("datetime64[D]") for one in (month, month + 1))
    return np.asarray((ends - begins).astype(np.int64))


UNITS = ("unknown", "number", "time", "business_day", "month")
END_DAYS = (28, 29, 30)
TIME_UNITS = (("week", 604_800_000_000), ("day", 86_400_000_000), ("hour", 3_600_000_000),
         ("minute", 60_000_000), ("second", 1_000_000), ("microsecond", 1))  # fmt: skip


class Frequency(NamedTuple):
    """A step interval.

    Attributes:
        unit: one of `UNITS` except "unknown".
        step: interval, counted in `unit`. If the unit is "time", the interval is in microseconds.
        day: day of the month if the unit is "month" and the day is one of `END_DAYS`, otherwise 0.
            This day is stored because a short sequence may not determine it. For example, 30 April
            and 30 June are also the last days of their months.
    """

    unit: str
    step: float
    day: int = 0

    def __str__(self) -> str:
        step, unit = self.step, self.unit
        if unit == "number":
            return f"{int(step)}" if step == round(step) else f"{step:.10g}"
        if unit == "time":
            unit, size = next(span for span in TIME_UNITS if step % span[1] == 0)
            step /= size
        return f"{step:g} {unit.replace('_', ' ')}{'' if step == 1 else 's'}"

    def as_plain(self) -> dict[str, Any]:
        """Return the interval as JSON-serializable data."""
        plain = {"unit": self.unit, "step": self.step}
        return {**plain, "day": self.day} if self.day else plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Build the interval from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError: if `plain` is not an output of `as_plain`.
        """
        unit, step, day = str(plain["unit"]), float(plain["step"]), plain.get("day", 0)
        if unit not in UNITS[1:] or not 0 < step < math.inf:
            raise ValueError("the frequency has no such unit, or its step is not above 0")
        if day != 0 and (unit != "month" or day not in END_DAYS):
            raise ValueError("the frequency has a day of the month that none can have")
        return cls(unit, step, day)


class Spacing(NamedTuple):
    """The step intervals of N sequences.

    Attributes:
        unit: (N,) index of each unit in `UNITS`.
        step: (N,) interval, counted in `unit`, or in microseconds for "time"; NaN if the interval
            is unknown.
        day: (N,) day of the month if the unit is "month", with 31 for the last day of each month;
            otherwise 0.
    """

    unit: NDArray[np.int8]
    step: Floats
    day: NDArray[np.int8]

    @classmethod
    def uniform(cls, sequences: int, frequency: Frequency) -> Self:
        """Return the same step interval for all sequences."""
        return cls(
            np.full(sequences, UNITS.index(frequency.unit), dtype=np.int8),
            np.full(sequences, float(frequency.step)),
            np.zeros(sequences, dtype=np.int8),
        )

    @classmethod
    def infer(
        cls, order: NDArray[Any], offsets: Integers, trained: Frequency | None = None,
        assumed: tuple[int, float] | None = None,
    ) -> Self:  # fmt: skip
        """Infer the step interval of each sequence from its times.

        For each sequence, the grid with the fewest missing rows is chosen. The interval is the
        smallest distance between two consecutive rows on this grid. For numbers that are not
        integers, the interval is the mean distance per step, which is more precise. A sequence of
        one or two rows does not show whether rows are missing. Such a sequence takes the most
        frequent interval of the longer sequences if its rows are on the grid of that interval.

        Args:
            order: (rows,) numbers or dates that increase within each sequence.
            offsets: (N + 1,) index of the first row of each sequence, followed by the number of
                rows.
            trained: step interval of the sequences that a model was trained on, or None to infer
                the intervals. A trained interval is used for all sequences to which its unit
                applies.
            assumed: unit and step of the interval that sequences of one or two rows take, or None
                for the most frequent interval of the longer sequences.
        """
        rows = StepRows.of(order, offsets)
        step = rows.constant_step()
        is_expected = assumed in (None, (NUMBER, step))
        if step is not None and is_expected and trained in (None, Frequency("number", step)):
            return cls.uniform(len(offsets) - 1, Frequency("number", step))
        fits = rows.fits()
        unit, steps = rows.choose_grid(fits)
        if trained is not None:
            kind = UNITS.index(trained.unit)
            applies = np.full(len(unit), kind in fits)
            if kind == NUMBER and trained.step == round(trained.step):
                applies &= rows.is_whole
            unit, steps = np.where(applies, kind, unit), np.where(applies, trained.step, steps)
        else:
            unit, steps = rows.assume_most_frequent(unit, steps, assumed)
        day = rows.day
        if trained is not None and trained.day and rows.is_date:
            day = np.where(rows.is_on_day(trained.day), trained.day, day)
        day = np.where(unit == MONTH, day, 0)
        return cls(unit.astype(np.int8), steps, day.astype(np.int8))

    def select(self, indices: Any) -> Spacing:
        """Return the intervals of the sequences at the given indices."""
        return Spacing(*(column[indices] for column in self))

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Boolean array (N,) that is True for sequences with a known interval."""
        return np.asarray(self.unit != UNKNOWN)

    def frequency(self, k: int) -> Frequency | None:
        """Return the interval of sequence k, or None if the interval is unknown."""
        unit = int(self.unit[k])
        return None if unit == UNKNOWN else Frequency(UNITS[unit], float(self.step[k]))

    def frequencies(self) -> dict[Frequency, int]:
        """Return the number of sequences with each known interval, the most frequent first."""
        known = self.select(np.flatnonzero(self.is_known))
        return {
            Frequency(UNITS[unit], step): count
            for unit, step, count in most_frequent(known.unit, known.step)
        }

    def common(self) -> Frequency | None:
        """Return the interval that all sequences share, or None if intervals differ or are
        unknown."""
        found = list(self.frequencies())
        if len(found) != 1 or not self.is_known.all():
            return None
        day = int(self.day[0])
        return found[0]._replace(day=day if day in END_DAYS and (self.day == day).all() else 0)

    def distances(self, order: NDArray[Any], offsets: Integers) -> Floats:
        """Return the number of steps from each row to the next, as an array (rows - 1,).

        The number is 1 if no row is missing. If a row is off the grid, the number is NaN or not an
        integer. The number is also 1 from the last row of a sequence to the first row of the next
        sequence, and in a sequence with an unknown interval.
        """
        rows = StepRows.of(order, offsets)
        series_index = rows.series_index[:-1]
        steps = np.ones(len(series_index))
        for unit in np.unique(self.unit[self.is_known]):
            mine = rows.inner & (self.unit == unit)[series_index]
            found = rows.distances(int(unit))
            steps[mine] = np.nan if found is None else (found / self.step[series_index])[mine]
        if order.dtype.kind != "M" and (steps != 1).any():
            near = np.round(steps)
            steps = np.where(np.abs(steps - near) <= rows.tolerance(self.step), near, steps)
        return steps

    def step_after(
        self, series_index: Integers, base: NDArray[Any], count: NDArray[Any]
    ) -> NDArray[Any]:
        """Return the times (M,) that are `count` steps after `base`. A time is NaN or NaT if the
        interval of its sequence is unknown.

        Args:
            series_index: (M,) index of the sequence to which each time belongs.
            base: (M,) times to start from.
            count: (M,) number of steps.
        """
        unit, amount = self.unit[series_index], self.step[series_index] * count
        if base.dtype.kind != "M":
            return np.asarray(np.where(unit == NUMBER, base + amount, np.nan))
        base = base.astype(DATES)
        found = np.full(base.shape, np.datetime64("NaT"), dtype=DATES)
        into_day = base - base.astype("datetime64[D]")
        at = unit == TIME
        found[at] = base[at] + amount[at].astype(np.int64).astype("timedelta64[us]")
        at = unit == BUSINESS_DAY
        days = np.busday_offset(base[at].astype("datetime64[D]"), amount[at].astype(np.int64),
                                roll="backward")  # fmt: skip
        found[at] = days.astype(DATES) + into_day[at]
        at = unit == MONTH
        month = base[at].astype("datetime64[M]") + amount[at].astype(np.int64)
        found[at] = on_day(month, self.day[series_index][at]).astype(DATES) + into_day[at]
        return found

    def steps_after(self, last: NDArray[Any], steps: int) -> NDArray[Any]:
        """Return the next `steps` times after the last time of each sequence.

        Args:
            last: (N,) last time of each sequence.
            steps: number of times per sequence.

        Returns:
            the times (N, steps).
        """
        N = len(last)
        count = np.tile(np.arange(1, steps + 1), N)
        return self.step_after(
            np.repeat(np.arange(N), steps), np.repeat(last, steps), count
        ).reshape(N, steps)  # fmt: skip
