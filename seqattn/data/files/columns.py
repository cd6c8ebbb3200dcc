"""Which features of a file are read, by their names."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.files.options import ReadOptions
from seqattn.errors import DataError

MAX_SHOWN = 40  # signs of a name or of a cell in a message


def select_features(
    others: Sequence[str], options: ReadOptions, lacks: str, found: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Features to be read, and notes.

    Args:
        others: what there is.
        lacks, found: for a message.

    Raises:
        DataError: one that is asked for is not there.
    """
    wanted = options.features
    if wanted is None:
        if not others:
            raise DataError(f"{lacks} with features; {found}.")
        return tuple(others), ()
    missing = [feature for feature in wanted if feature not in others]
    if not missing:
        left_out = [cell for cell in others if cell not in wanted]
        return wanted, ((f"left out: {join_names(left_out)}",) if left_out else ())
    if options.may_rename and len(others) == len(wanted) == len(missing):
        note = f"{', '.join(others)} are read as {', '.join(wanted)}, in this order"
        return tuple(others), (note,)
    raise DataError(f"{lacks} {missing[0]!r}; {found}. Needed are {join_names(wanted)}.")


def join_names(names: Sequence[str]) -> str:
    """Names for a message, the first few."""
    shown = [name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}..." for name in names[:12]]
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"
