"""Selection of the features of a file by name."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.files.options import ReadOptions
from seqattn.errors import DataError

MAX_SHOWN = 40  # maximum length of a name or a cell in a message, in characters


def select_features(
    others: Sequence[str], options: ReadOptions, lacks: str, found: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Select the features to read.

    Args:
        others: names in the file that can be features.
        options: the options for reading the file.
        lacks: the beginning of the error message, which states what kind of name is missing, such
            as "data.csv: no column".
        found: the part of the error message after the missing name, which lists what the file
            contains.

    Returns:
        the names of the selected features, as in the file, and notes for the user.

    Raises:
        DataError: if a requested feature is missing, or if the file has no features.
    """
    requested = options.features
    if requested is None:
        if not others:
            raise DataError(f"{lacks} with features; {found}.")
        return tuple(others), ()
    missing = [feature for feature in requested if feature not in others]
    if not missing:
        left_out = [cell for cell in others if cell not in requested]
        return requested, ((f"left out: {join_names(left_out)}",) if left_out else ())
    if options.may_rename and len(others) == len(requested) == len(missing):
        note = f"{', '.join(others)} are read as {', '.join(requested)}, in this order"
        return tuple(others), (note,)
    raise DataError(f"{lacks} {missing[0]!r}; {found}. Needed are {join_names(requested)}.")


def join_names(names: Sequence[str]) -> str:
    """Join the first twelve names of a list for a message, and append the number of further names
    if the list is longer."""
    shown = list(map(shorten, names[:12]))
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"


def shorten(text: str, size: int = MAX_SHOWN) -> str:
    """Return a text for a message. If the text has more than `size` characters, return the first
    `size` characters and "..."."""
    return text if len(text) <= size else f"{text[:size]}..."
