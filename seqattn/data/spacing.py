"""How far apart the steps of a sequence are: numbers, spans of time, business days or months.

A spacing is found for each sequence from its own steps. Dates lie on one of three grids:

    time          equal spans: seconds, ..., days, weeks
    business_day  Monday to Friday; holidays are not known, so they are missing rows
    month         one day of the month, or the last day, of every month, quarter or year

Letters: N sequences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNKNOWN, NUMBER, TIME, BUSINESS_DAY, MONTH = range(5)
UNITS = ("unknown", "number", "time", "business_day", "month")
SPANS = (("week", 604_800_000_000), ("day", 86_400_000_000), ("hour", 3_600_000_000),
         ("minute", 60_000_000), ("second", 1_000_000), ("microsecond", 1))  # fmt: skip
DAY = 86_400_000_000
DATES = "datetime64[us]"
LAST_DAY = 31
ROUNDING = 1e-6  # of a step, by which numbers that are no whole ones may miss their grid


class Frequency(NamedTuple):
    """One spacing.

    Attributes:
        unit: one of `UNITS`, but not unknown.
        step: units from a row to the next; microseconds for `time`.
    """

    unit: str
    step: float

    def __str__(self) -> str:
        step, unit = self.step, self.unit
        if unit == "number":
            return f"{int(step)}" if step == round(step) else f"{step:.10g}"
        if unit == "time":
            unit, size = next(span for span in SPANS if step % span[1] == 0)
            step /= size
        return f"{step:g} {unit.replace('_', ' ')}{'' if step == 1 else 's'}"

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"unit": self.unit, "step": self.step}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """
        Raises:
            KeyError, TypeError, ValueError: it is not what `as_plain` wrote.
        """
        unit, step = str(plain["unit"]), float(plain["step"])
        if unit not in UNITS[1:] or not 0 < step < math.inf:
            raise ValueError("the frequency has no such unit, or its step is not above 0")
        return cls(unit, step)


class Spacing(NamedTuple):
    """The spacing of each of N sequences.

    Attributes:
        unit: (N,) places in `UNITS`.
        step: (N,) units from a row to the next, microseconds for time; NaN where unknown.
        day: (N,) for months the day of the month, `LAST_DAY` for the last; else 0.
    """

    unit: NDArray[np.int8]
    step: Floats
    day: NDArray[np.int8]

    @classmethod
    def alike(cls, sequences: int, frequency: Frequency) -> Self:
        """The same spacing for all sequences."""
        return cls(
            np.full(sequences, UNITS.index(frequency.unit), dtype=np.int8),
            np.full(sequences, float(frequency.step)),
            np.zeros(sequences, dtype=np.int8),
        )

    @classmethod
    def found(
        cls, order: NDArray[Any], offsets: Integers, trained: Frequency | None = None
    ) -> Self:
        """
        Each sequence's own spacing: its smallest distance, on the grid that leaves the fewest rows
        missing. Two rows alone show no gap, and one row no distance: these take the spacing that
        is most frequent among the other sequences, if they lie on its grid.

        Args:
            order: (rows,) numbers or dates that increase within each sequence.
            offsets: (N + 1,) the row where each sequence begins, and where the last ends.
            trained: the spacing of a model's training sequences; it holds for all, wherever the
                steps are of its kind. None: see above.
        """
        rows = _Rows.of(order, offsets)
        step = rows.one_step()
        if step is not None and trained in (None, Frequency("number", step)):
            return cls.alike(len(offsets) - 1, Frequency("number", step))
        fits = rows.fits()
        unit, steps = rows.chosen(fits)
        if trained is not None:
            kind = UNITS.index(trained.unit)
            applies = np.full(len(unit), kind in fits)
            if kind == NUMBER and trained.step == round(trained.step):
                applies &= rows.are_whole
            unit, steps = np.where(applies, kind, unit), np.where(applies, trained.step, steps)
        else:
            unit, steps = rows.with_the_commonest(unit, steps)
        day = np.where(unit == MONTH, rows.day, 0)
        return cls(unit.astype(np.int8), steps, day.astype(np.int8))

    def at(self, places: Any) -> Spacing:
        """The spacing of the sequences at some places."""
        return Spacing(*(column[places] for column in self))

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """(N,)"""
        return np.asarray(self.unit != UNKNOWN)

    def frequency(self, k: int) -> Frequency | None:
        """Of one sequence; None: unknown."""
        unit = int(self.unit[k])
        return None if unit == UNKNOWN else Frequency(UNITS[unit], float(self.step[k]))

    def frequencies(self) -> dict[Frequency, int]:
        """All known ones with how many sequences have them, the most frequent first."""
        known = self.at(np.flatnonzero(self.is_known))
        pairs = np.stack([known.unit, known.step], axis=1)
        if (pairs == pairs[:1]).all():
            pairs, counts = pairs[:1], np.full(min(1, len(pairs)), len(pairs))
        else:
            pairs, counts = np.unique(pairs, axis=0, return_counts=True)
        ranked = np.argsort(-counts, kind="stable")
        return {Frequency(UNITS[int(pairs[i, 0])], float(pairs[i, 1])): int(counts[i])
                for i in ranked}  # fmt: skip

    def common(self) -> Frequency | None:
        """The one spacing of all sequences; None: there are several, or one is unknown."""
        found = self.frequencies()
        return next(iter(found)) if len(found) == 1 and self.is_known.all() else None

    def distances(self, order: NDArray[Any], offsets: Integers) -> Floats:
        """(rows - 1,) how many steps each row is after the one before: 1 where none is missing, no
        whole number off the grid, and 1 too from one sequence to the next, and where the spacing
        is unknown."""
        rows = _Rows.of(order, offsets)
        whose = rows.whose[:-1]
        steps = np.ones(len(whose))
        for unit in np.unique(self.unit[self.is_known]):
            mine = rows.inner & (self.unit == unit)[whose]
            found = rows.distances(int(unit))
            steps[mine] = np.nan if found is None else (found / self.step[whose])[mine]
        if order.dtype.kind != "M" and (steps != 1).any():
            near = np.round(steps)
            steps = np.where(np.abs(steps - near) <= rows.tolerance(self.step), near, steps)
        return steps

    def ahead(self, whose: Integers, base: NDArray[Any], count: NDArray[Any]) -> NDArray[Any]:
        """The step that lies `count` steps after `base` in the sequence `whose`, (M,) each; NaN or
        NaT where the spacing is unknown."""
        unit, amount = self.unit[whose], self.step[whose] * count
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
        day = np.minimum(self.day[whose][at], _days_of(month))
        found[at] = _days_from(month, day - 1).astype(DATES) + into_day[at]
        return found

    def after(self, last: NDArray[Any], steps: int) -> NDArray[Any]:
        """(N, steps) the steps after each sequence's last, (N,)."""
        N = len(last)
        count = np.tile(np.arange(1, steps + 1), N)
        return self.ahead(
            np.repeat(np.arange(N), steps), np.repeat(last, steps), count
        ).reshape(N, steps)  # fmt: skip


def joined(parts: Sequence[Spacing]) -> Spacing:
    """The spacing of several sets of sequences, one after the other."""
    return Spacing(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def with_dashes(order: NDArray[Any]) -> str | None:
    """The first of whole numbers as a date, where all look like days (YYYYMMDD) or months (YYYYMM)
    of 1900 to 2099 that somebody wrote without dashes; None: they do not, or are dates."""
    if order.dtype.kind == "M" or not len(order) or not (order == np.round(order)).all():
        return None
    steps = np.unique(np.asarray(order, dtype=np.int64))
    months = steps[0] >= 190_001 and steps[-1] <= 209_912
    if not months and not (steps[0] >= 19_000_101 and steps[-1] <= 20_991_231):
        return None
    days = steps * 100 + 1 if months else steps
    texts = [f"{day // 10_000}-{day // 100 % 100:02}-{day % 100:02}" for day in days.tolist()]
    try:
        np.array(texts, dtype="datetime64[D]")
    except ValueError:
        return None
    first = int(order[0]) * 100 + 1 if months else int(order[0])
    return f"{first // 10_000}-{first // 100 % 100:02}-{first % 100:02}"


class _Fit(NamedTuple):
    """How well sequences lie on one grid: (N,) step, whether they do, and rows missing."""

    step: Floats
    is_valid: NDArray[np.bool_]
    missing: Floats


class _Rows(NamedTuple):
    """Steps of N sequences one after the other.

    Attributes:
        whose: (rows,) the sequence of each.
        inner: (rows - 1,) whether the next row is of the same sequence.
    """

    order: NDArray[Any]
    offsets: Integers
    whose: Integers
    inner: NDArray[np.bool_]

    @classmethod
    def of(cls, order: NDArray[Any], offsets: Integers) -> _Rows:
        if order.dtype.kind == "M":
            order = order.astype(DATES)
        whose = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return cls(order, offsets, whose, whose[1:] == whose[:-1])

    @property
    def are_dates(self) -> bool:
        return self.order.dtype.kind == "M"

    def one_step(self) -> float | None:
        """The distance of numbers that are all as far apart; None: they are not, or are dates."""
        if self.are_dates:
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
        if self.are_dates:
            return self.each(np.logical_and, self.same_time, True)
        return self.each(np.logical_and, self.order == np.round(self.order), True)

    @property
    def same_time(self) -> NDArray[np.bool_]:
        """(rows,) whether a date has the time of day that its sequence begins with."""
        into_day = self.order.astype(np.int64) % DAY
        return np.asarray(into_day == into_day[self.offsets[:-1][self.whose]])

    @property
    def day(self) -> Integers:
        """(N,) of dates, the day of the month that all are meant to be: `LAST_DAY` where all are
        the last of theirs, else the latest."""
        if not self.are_dates:
            return np.zeros(len(self.offsets) - 1, dtype=np.int64)
        day, last = self._days()
        all_last = self.each(np.logical_and, day == last, True)
        return np.where(all_last, LAST_DAY, self.each(np.maximum, day, 1))

    def _days(self) -> tuple[Integers, Integers]:
        """(rows,) the day of the month, and how many its month has."""
        month = self.order.astype("datetime64[M]")
        days = (self.order.astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
        return days + 1, _days_of(month)

    def distances(self, unit: int) -> Floats | None:
        """(rows - 1,) from each step to the next, NaN off the grid; None: steps are no such."""
        if self.are_dates == (unit == NUMBER):
            return None
        if unit == NUMBER:
            return np.asarray(np.diff(self.order), dtype=np.float64)
        if unit == TIME:
            return np.diff(self.order.astype(np.int64)).astype(np.float64)
        if unit == BUSINESS_DAY:
            days = self.order.astype("datetime64[D]")
            on = np.is_busday(days) & self.same_time
            found = np.busday_count(days[:-1], days[1:]).astype(np.float64)
        else:
            day, last = self._days()
            on = (day == np.minimum(self.day[self.whose], last)) & self.same_time
            found = np.diff(self.order.astype("datetime64[M]").astype(np.int64)).astype(np.float64)
        found[~(on[1:] & on[:-1])] = np.nan
        return found

    def tolerance(self, step: Floats) -> Floats:
        """(rows - 1,) of a step, by which numbers may miss the grid: what rounding does to them."""
        size = np.abs(np.asarray(self.order, dtype=np.float64)) * np.finfo(np.float64).eps
        own = step[self.whose]
        largest = np.maximum(size[1:] / own[1:], size[:-1] / own[:-1])
        return np.where(self.are_whole[self.whose[1:]], 0, np.maximum(ROUNDING, 4 * largest))

    def fits(self) -> dict[int, _Fit]:
        """The grids that steps of this kind may lie on."""
        units = (MONTH, TIME, BUSINESS_DAY) if self.are_dates else (NUMBER,)
        return {unit: self._fit(unit) for unit in units}

    def _fit(self, unit: int) -> _Fit:
        distances = self.distances(unit)
        assert distances is not None
        step = self.each(np.minimum, np.append(np.where(self.inner, distances, np.inf), np.inf),
                         np.inf)  # fmt: skip
        usable = np.isfinite(step) & (step > 0)
        step = np.where(usable, step, np.nan)
        ratio = distances / step[self.whose[:-1]]
        whole = np.round(ratio)
        limit = 0.0 if self.are_dates else self.tolerance(step)
        on = ~self.inner | (np.abs(ratio - whole) <= limit)
        is_valid = usable & self.each(np.logical_and, np.append(on, True), True)
        rows = self.each(np.add, np.append(np.where(self.inner, whole, 0), 0), 0)
        if not self.are_dates:  # of numbers with rounding, a mean is nearer
            ends = self.order[np.maximum(self.offsets[1:] - 1, 0)]
            begins = self.order[np.minimum(self.offsets[:-1], len(self.order) - 1)]
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = (ends - begins) / rows
            step = np.where(is_valid & ~self.are_whole, mean, step)
        return _Fit(step, is_valid, rows - (np.diff(self.offsets) - 1))

    def chosen(self, fits: dict[int, _Fit]) -> tuple[Integers, Floats]:
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
        plain = TIME if self.are_dates else NUMBER
        # Whole numbers, and dates of one time of day, are counted even where they skip unevenly.
        counted = (unit == UNKNOWN) & self.are_whole & np.isfinite(fits[plain].step)
        return np.where(counted, plain, unit), np.where(counted, fits[plain].step, step)

    def with_the_commonest(self, unit: Integers, step: Floats) -> tuple[Integers, Floats]:
        """The same, with the most frequent spacing where a sequence has one row, or two that lie
        on its grid."""
        lengths = np.diff(self.offsets)
        if (lengths > 2).all():
            return unit, step
        kind = unit.astype(np.int8)
        settled = Spacing(kind, step, kind).at((lengths > 2) & (unit != UNKNOWN))
        ranked = list(settled.frequencies()) if len(settled.unit) else []
        if not ranked:
            return unit, step
        frequent, common = UNITS.index(ranked[0].unit), ranked[0].step
        distances = self.distances(frequent)
        assert distances is not None
        ratio = np.append(np.where(self.inner, distances / common, 1), 1)
        on = self.each(np.logical_and, (ratio >= 1) & (ratio == np.round(ratio)), False)
        takes = (lengths <= 2) & (lengths > 0) & on
        return np.where(takes, frequent, unit), np.where(takes, common, step)


def _days_of(month: NDArray[Any]) -> Integers:
    """How many days months have."""
    begins, ends = (one.astype("datetime64[D]") for one in (month, month + 1))
    return np.asarray((ends - begins).astype(np.int64))


def _days_from(month: NDArray[Any], days: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(month.astype("datetime64[D]") + days.astype(np.int64))
