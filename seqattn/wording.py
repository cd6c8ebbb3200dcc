"""Numbers and nouns in messages."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 seed`, `0 seeds`, `1,200 seeds`.

    Args:
        noun: for one.
        plural: for all other numbers; with an s without.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
