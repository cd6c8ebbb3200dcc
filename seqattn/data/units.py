"""Units of features, such as degC, which are shown with the names of the features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from seqattn.config import nearest
from seqattn.errors import DataError

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
