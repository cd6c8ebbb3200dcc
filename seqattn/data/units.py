"""Units of features, such as degC, and the rule that decides whether features are coordinates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seqattn.config import nearest
from seqattn.errors import DataError

MAX_SPREAD_RATIO = 20
"""Largest ratio of the standard deviations of two features for which a plot uses the same scale on
both axes."""
AXIS_NAMES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("easting", "northing"))
"""Pairs of names: the horizontal axis and the vertical axis of a plane."""
_WORD = re.compile(r"[^\W\d_]+")


def can_share_axes(
    features: Sequence[str], target_features: Sequence[str], points: Sequence[NDArray[np.floating]],
    units: Mapping[str, str] | None = None,
) -> bool:  # fmt: skip
    """Return whether the features are coordinates in a plane.

    Source and target must have the same two features, and the names of the features must be those
    of coordinates (see `_are_coordinates`). Both features must have the same unit, and their
    standard deviations may differ by a factor of at most `MAX_SPREAD_RATIO`, because a plot of a
    plane has the same scale on both axes. For other features, such as two temperatures, the result
    is False, even if their units are equal.

    Args:
        features: names of the F source features.
        target_features: names of the G target features.
        points: arrays (..., F) and (..., G) of all plotted sequences; non-finite values are
            padding.
        units: unit of each feature that has a unit, by feature name.
    """
    if len(features) != 2 or list(features) != list(target_features):
        return False
    if not _are_coordinates(*features):
        return False
    if units and units.get(features[0]) != units.get(features[1]):
        return False
    values = np.concatenate([np.reshape(each, (-1, 2)) for each in points])
    values = values[np.isfinite(values).all(axis=1)]
    if not len(values):
        return True
    narrow, wide = sorted(np.std(values, axis=0, dtype=np.float64))
    return bool(wide <= MAX_SPREAD_RATIO * narrow)


def _are_coordinates(first: str, second: str) -> bool:
    """Return whether two names are names of the coordinates in a plane.

    The names must be equal except for one word, which names the horizontal axis in the first name
    and the vertical axis in the second, as in "x" and "y", "pos_x" and "pos_y", or "x1 (mm)" and
    "y1 (mm)". A word consists of letters, and the case does not matter.
    """
    words = [_WORD.findall(name.casefold()) for name in (first, second)]
    rests = [_WORD.sub("", name.casefold()) for name in (first, second)]
    if rests[0] != rests[1] or len(words[0]) != len(words[1]):
        return False
    different = [pair for pair in zip(*words, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and different[0] in AXIS_NAMES


Units = Mapping[str, str]
"""Unit of each feature that has a unit, by feature name."""

_IN_BRACKETS = re.compile(r"\S\s*(?:\(([^()\[\]]+)\)|\[([^()\[\]]+)\])\s*$")
_HAS_A_SIGN_OF_UNITS = re.compile(r"[^\W\d_]|[%°‰$€£]")


def unit_in_name(name: str) -> str | None:
    """Return the unit in brackets at the end of a name, such as degC in "temp (degC)", or None if
    the name contains no unit."""
    found = _IN_BRACKETS.search(name)
    unit = (found.group(1) or found.group(2)).strip() if found else ""
    return unit if _HAS_A_SIGN_OF_UNITS.search(unit) and len(unit) <= 40 else None


def units_in_names(names: Sequence[str]) -> dict[str, str]:
    """Return the unit of each feature whose name ends in a unit in brackets, by feature name."""
    return {name: unit for name in names if (unit := unit_in_name(name)) is not None}


def with_unit(name: str, units: Units, shown: str | None = None) -> str:
    """Return a feature name with its unit, such as "temperature [degC]". Return the name alone if
    the feature has no unit or if the shown name already ends in the unit in brackets.

    Args:
        name: name of the feature.
        units: unit of each feature that has a unit, by feature name.
        shown: text to show instead of the name, or None to show the name.
    """
    unit = units.get(name)
    shown = name if shown is None else shown
    return shown if unit is None or unit == unit_in_name(shown) else f"{shown} [{unit}]"


def check_units(units: Units, features: Sequence[str]) -> None:
    """Check that each unit belongs to a feature.

    Raises:
        DataError: if a unit belongs to no feature.
    """
    for name in units:
        if name not in features:
            close = nearest(name, features)
            meant = f" Did you mean {close!r}?" if close else ""
            raise DataError(
                f"data.units: no feature {name!r}.{meant} The features are {', '.join(features)}."
            )
