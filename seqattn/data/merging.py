"""Merging of series that extend over several files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from seqattn.data.files import Chunk, Ragged, step_text, to_offsets
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, block_slices
from seqattn.errors import DataError

SORTED_ROWS = 2**20
"""Number of rows to sort at a time. A longer series is sorted as a whole."""


def merge_series(raw: Series, path: str) -> Iterator[Chunk]:
    """Merge series that extend over several files, and yield chunks of whole series with their rows
    in time order.

    Args:
        raw: series in which an id may occur several times, each time with different rows.
        path: path of the files, for messages.

    Raises:
        DataError: if a series has two rows with the same time, or belongs to two groups.
    """
    rank: dict[str, int] = {}
    series_index = np.array([rank.setdefault(name, len(rank)) for name in raw.ids])
    names, points, order = list(rank), raw.points, raw.order
    assert order is not None
    parts = np.argsort(series_index, kind="stable")
    sizes = np.bincount(series_index, weights=points.lengths).astype(np.int64)
    begins = np.searchsorted(series_index[parts], np.arange(len(names) + 1))
    for block in block_slices(sizes, SORTED_ROWS):
        chosen = parts[begins[block.start] : begins[block.stop]]
        rows = np.concatenate([np.arange(points.offsets[k], points.offsets[k + 1]) for k in chosen])
        of_row = np.repeat(series_index[chosen], points.lengths[chosen])
        rows = rows[np.lexsort((order[rows], of_row))]
        of_row = np.sort(of_row)
        yield _merge_block(raw, names, rows, of_row, block, path)


def _merge_block(
    raw: Series, names: list[str], rows: Integers, of_row: Integers, block: slice, path: str
) -> Chunk:
    assert raw.order is not None
    order, features = np.asarray(raw.order[rows]), raw.columns
    twice = np.flatnonzero((of_row[1:] == of_row[:-1]) & (order[1:] == order[:-1]))
    if twice.size:
        at = int(twice[0])
        raise DataError(
            f"{path}: the series {names[of_row[at]]!r} has two rows of {step_text(order[at])} in"
            " its files. Leave one of them out."
        )

    def where(row: int, feature: int) -> str:
        return (
            f"series {names[of_row[row]]!r} at {step_text(order[row])}, column"
            f" {features[feature]!r}"
        )

    offsets = to_offsets(np.bincount(of_row - block.start, minlength=block.stop - block.start))
    groups = None
    if raw.groups is not None:
        words: dict[str, str] = {}
        for name, word in zip(raw.ids, raw.groups, strict=True):
            if words.setdefault(name, word) != word:
                raise DataError(
                    f"{path}: the series {name!r} is of the groups {words[name]!r} and {word!r}."
                )
        groups = tuple(words[name] for name in names[block])
    points = Ragged(np.asarray(raw.points.values[rows]), offsets, features)
    return Chunk(tuple(names[block]), points, where, order=order, groups=groups, notes=raw.notes,
                 roles=raw.roles)  # fmt: skip
