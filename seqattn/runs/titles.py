"""Titles of sequences, and short forms of long names. This file does not import matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

MAX_ID_LETTERS = 20


def sequence_titles(arrays: Mapping[str, NDArray[Any]], split: str = "test") -> list[str]:
    """Return the title of each sequence in a picture or in a text.

    A title contains the name of the split, the id of the sequence (shortened if it is long), and
    the label of the sequence, if it has one.

    Args:
        arrays: arrays with the keys "ids" and "labels", such as those of `predictions.npz`.
        split: the name of the split.
    """
    ids = [str(name) for name in arrays["ids"]]
    labels = [str(label) for label in arrays["labels"]] or [""] * len(ids)
    return [
        f"{split} {_printable_id(name)}" + (f"\n{label}" if label else "")
        for name, label in zip(ids, labels, strict=True)
    ]


def shorten_name(name: str, max_letters: int) -> str:
    """Return a name, shortened to at most `max_letters` characters.

    An ellipsis replaces the middle of a longer name. The end of the name remains, because long
    names often have the same beginning.
    """
    if len(name) <= max_letters:
        return name
    half = max_letters // 2
    return f"{name[: max_letters - half - 1]}…{name[-half:]}"


def shorten_names(names: Sequence[str], max_letters: int) -> list[str]:
    """Shorten names; see `shorten_name`. If two different names would become equal, the maximum
    number of characters of all names is increased until they differ."""
    longest = max(map(len, names), default=0)
    for letters in range(max_letters, longest):
        short = [shorten_name(name, letters) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


def _printable_id(name: str) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in name)
    return shorten_name(printable, MAX_ID_LETTERS)
