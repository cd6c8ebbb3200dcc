"""Numbers that may represent missing values, such as -999."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.errors import AmbiguousData

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


def na_numbers(options: ReadOptions) -> list[float]:
    """Return the numbers among the words for empty cells in the options, and the nearest float32
    numbers."""
    return with_float32(float(word) for word in options.na_values or () if _is_number(word))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


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
            is_only_negative = is_below and self.value < 0 <= others.low
            if is_only_negative or distance > others.high - others.low:
                return others
        return None


def check_suspect(name: str, feature: str, suspect: Suspect, options: ReadOptions) -> str:
    """Check a number that may represent a missing value. Return a note for the user, or "" if the
    number is near other values.

    Args:
        name: name of the file.
        feature: description of the feature, such as "column 'x'".
        suspect: the number.
        options: the options for reading the file.

    Raises:
        AmbiguousData: if the number is far from all other values of a training file.
    """
    others = suspect.distant_values()
    if others is None:
        return ""
    shown = f"{suspect.value:g}"
    more = suspect.below.count + suspect.above.count - others.count
    described = (
        f"{feature} has {shown} in {suspect.count} cells, and its other values lie between"
        f" {others.low:g} and {others.high:g}{f' (except {more} outliers)' if more else ''}"
    )
    if not options.is_training:
        return (
            f"{described}; it is read as a value, as data.na_values of the training does not name"
            " it"
        )
    raise AmbiguousData(
        f"{name}: {described}. If this number marks a missing value:"
        f" {setting('na_values', [shown])}; if it is a measured value:"
        f" {setting('na_values', [])}.",
        ({"na_values": shown}, {"na_values": ""}),
    )
