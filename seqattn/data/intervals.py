"""Counts of the step intervals of series that are read in several chunks."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from seqattn.data.grids import NUMBER, most_frequent
from seqattn.data.sequences import Integers
from seqattn.data.spacing import Spacing

Interval = tuple[int, float]
"""A unit and a step, as in `Spacing`."""


class IntervalCounts:
    """Counts of step intervals, from which series with one or two rows get their interval.

    Attributes:
        of_long: number of series with three or more rows by interval.
        of_short: number of series with one or two rows by interval.
        is_uneven: whether a series with three or more rows has no interval.
    """

    def __init__(self) -> None:
        self.of_long, self.of_short = Counter[Interval](), Counter[Interval]()
        self.is_uneven = False
        self._assumed = set[Interval | None]()

    def add(self, lengths: Integers, spacing: Spacing) -> None:
        """Add the series of a chunk.

        Args:
            lengths: (N,) number of rows in each series.
            spacing: step interval of each series, inferred from this chunk.
        """
        is_long, is_short = lengths > 2, (lengths > 0) & (lengths <= 2)
        mine = IntervalCounts()
        mine.of_long = _count(spacing, is_long)
        mine.of_short = _count(spacing, is_short)
        mine.is_uneven = bool((is_long & ~spacing.is_known).any())
        if is_short.any():
            self._assumed.add(mine.common)
        self.of_long += mine.of_long
        self.of_short += mine.of_short
        self.is_uneven |= mine.is_uneven

    @property
    def common(self) -> Interval | None:
        """The interval that series with one or two rows get if it fits: the most frequent interval
        of the longer series. Without longer series, this is the interval of all series if they are
        numbers at a constant distance. Otherwise, this is None."""
        if self.of_long:
            return min(self.of_long, key=lambda interval: (-self.of_long[interval], interval))
        if self.is_uneven or len(self.of_short) != 1:
            return None
        (only,) = self.of_short
        return only if only[0] == NUMBER else None

    @property
    def differs_in_chunks(self) -> bool:
        """Whether the common interval of all chunks differs from that of a single chunk with series
        of one or two rows, so that the intervals of such series must be inferred again."""
        return any(assumed != self.common for assumed in self._assumed)


def _count(spacing: Spacing, which: NDArray[np.bool_]) -> Counter[Interval]:
    known = spacing.select(np.flatnonzero(which & spacing.is_known))
    pairs = most_frequent(known.unit, known.step) if len(known.unit) else []
    return Counter({(unit, step): count for unit, step, count in pairs})
