"""Step intervals of sequences. An interval is a number, a duration, or a count of business days or
months.

The interval of each sequence is inferred from its times with the grids of `seqattn.data.grids`.

In shapes, N is the number of sequences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from seqattn.data.grids import (
    BUSINESS_DAY,
    DATES,
    MONTH,
    NUMBER,
    TIME,
    UNKNOWN,
    Floats,
    Integers,
    StepRows,
    most_frequent,
    on_day,
)

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
