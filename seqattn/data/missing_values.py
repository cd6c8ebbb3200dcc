"""Words and numbers that represent missing values, and numbers that may do so, such as -999."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.chunk import Ragged
from seqattn.data.reading import Reading, setting
from seqattn.errors import AmbiguousData, counted

NA_VALUES = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", ".", "missing")
"""Common contents of empty cells, in lower case. The comparison ignores case."""
SENTINELS = (-9.0, -99.0, -99.9, -99.99, -999.0, -999.9, -999.99, -9999.0, -9999.9, -99999.0,
             999.0, 999.9, 9999.0, 9999.9, 99999.0)  # fmt: skip
MIN_OTHERS = 3
"""Minimum number of other values with which a number from `SENTINELS` is compared."""


def with_float32(numbers: Iterable[float]) -> list[float]:
    """Return numbers and the nearest float32 numbers, which a file may contain instead."""
    exact = list(numbers)
    with np.errstate(over="ignore"):
        nearest = [float(np.float32(number)) for number in exact]
    return list(dict.fromkeys([*exact, *filter(math.isfinite, nearest)]))


def na_numbers(reading: Reading) -> list[float]:
    """Return the numbers among the words for empty cells in the reading, and the nearest float32
    numbers."""
    return with_float32(float(word) for word in reading.na_values or () if _is_number(word))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


MARKS = with_float32(SENTINELS)


@dataclass(frozen=True)
class Others:
    """The other values of a feature on one side of a number. With no values, `low` and `high` are
    not used."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Suspect:
    """A number from `SENTINELS` that a feature contains.

    Attributes:
        value: the number.
        count: number of cells with this number.
        below: the smaller values of the feature without the numbers from `SENTINELS`.
        above: the larger values of the feature without the numbers from `SENTINELS`.
    """

    value: float
    count: int
    below: Others
    above: Others

    def distant_values(self) -> Others | None:
        """Return the other values if the number is far from them, otherwise None.

        The number must lie outside their range, and there must be at least `MIN_OTHERS` of them. In
        addition, either the number is negative and the other values are not, or the distance of the
        number from the range exceeds the width of the range. A few values on the other side of the
        number are left out if they are even farther from the number, because they are outliers.
        """
        for others, outliers in ((self.above, self.below), (self.below, self.above)):
            if others.count < MIN_OTHERS or outliers.count > self.count:
                continue
            is_below = others is self.above
            distance = others.low - self.value if is_below else self.value - others.high
            gap = self.value - outliers.high if is_below else outliers.low - self.value
            if outliers.count and gap <= distance:
                continue
            is_only_negative = is_below and not outliers.count and self.value < 0 <= others.low
            if is_only_negative or distance > others.high - others.low:
                return others
        return None


class SentinelCounter:
    """A counter of the numbers from `SENTINELS` in the chunks of a file.

    Args:
        name: name of the file.
        reading: how to read the file.
        label: noun for a feature in messages.
    """

    def __init__(self, name: str, reading: Reading, label: str = "feature") -> None:
        self.name, self.reading, self.label = name, reading, label
        self.features: dict[str, _FeatureCounts] = {}
        self.noted = set[tuple[str, float]]()

    def add(self, *parts: Ragged | None) -> tuple[str, ...]:
        """Count the numbers in a chunk. Outside training, return notes for the user on numbers that
        are far from all other values so far, once for each number."""
        if self.reading.na_values is not None:
            return ()
        for part in parts:
            for name, values in zip(part.features, part.values.T, strict=True) if part else ():
                self.features.setdefault(name, _FeatureCounts()).add(values)
        return () if self.reading.is_training else self.check()

    def check(self) -> tuple[str, ...]:
        """Return new notes for the user on numbers that are far from all other values.

        Raises:
            AmbiguousData: if a number is far from all other values of a training file.
        """
        notes = []
        found = [(name, one) for name, each in self.features.items() for one in each.suspects()]
        for name, suspect in found:
            others = suspect.distant_values()
            if others is None or (name, suspect.value) in self.noted:
                continue
            shown = f"{suspect.value:g}"
            more = suspect.below.count + suspect.above.count - others.count
            described = (
                f"{self.label} {name!r} has {shown} in {counted(suspect.count, 'cell')}, and its"
                f" other values lie between {others.low:g} and {others.high:g}"
                f"{f' (except {more} outliers)' if more else ''}"
            )
            if self.reading.is_training:
                raise AmbiguousData(
                    f"{self.name}: {described}. If this number marks a missing value:"
                    f" {setting('na_values', [shown])}; if it is a measured value:"
                    f" {setting('na_values', [])}.",
                    ({"na_values": shown}, {"na_values": ""}),
                )
            self.noted.add((name, suspect.value))
            notes.append(
                f"{described}; it is read as a value, as data.na_values of the training does not"
                " name it"
            )
        return tuple(notes)


class _FeatureCounts:
    """Counts of the numbers from `SENTINELS` and of the other values of a feature.

    Attributes:
        count: (M,) number of cells with each number.
        lower, higher: (M,) number of other values below and above each number.
        highest_below, lowest_above: (M,) other values that are next to each number.
        low, high: smallest and largest other value.
    """

    def __init__(self) -> None:
        M = len(SENTINELS)
        self.count, self.lower, self.higher = np.zeros((3, M), np.int64)
        self.highest_below, self.lowest_above = np.full(M, -np.inf), np.full(M, np.inf)
        self.low, self.high = np.inf, -np.inf

    def add(self, values: NDArray[np.floating]) -> None:
        others = values[~np.isnan(values)]
        if others.size:
            low, high = others.min(), others.max()
            is_mark = np.isin(others, [mark for mark in MARKS if low <= mark <= high])
            found = others[is_mark, None].astype(np.float32)
            self.count += (found == np.asarray(SENTINELS, np.float32)).sum(axis=0)
            others = others[~is_mark]
        if not others.size:
            return
        low, high = others.min(), others.max()
        self.low, self.high = min(self.low, float(low)), max(self.high, float(high))
        for i, mark in enumerate(np.asarray(SENTINELS)):
            below, above = others[:0], others[:0]
            if low < mark < high:  # few numbers are between the values of most features
                is_below = others < mark
                below, above = others[is_below], others[~is_below]
            elif mark >= high:
                below = others
            else:
                above = others
            self.lower[i] += len(below)
            self.higher[i] += len(above)
            self.highest_below[i] = below.max(initial=self.highest_below[i])
            self.lowest_above[i] = above.min(initial=self.lowest_above[i])

    def suspects(self) -> Iterator[Suspect]:
        for i in np.flatnonzero(self.count):
            below = Others(self.low, float(self.highest_below[i]), int(self.lower[i]))
            above = Others(float(self.lowest_above[i]), self.high, int(self.higher[i]))
            yield Suspect(SENTINELS[i], int(self.count[i]), below, above)
