"""Sequences of one part, and where in the file each number stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files import Piece, Ragged, offsets_of, step_text
from seqattn.data.sequences import Floats
from seqattn.data.spacing import Frequency, Spacing


@dataclass(eq=False)
class Series:
    """Sequences of one part, before they are cut into source and target.

    Attributes:
        ids, groups: names.
        points: what was read.
        where: (row, feature) -> the place in the file.
        target: what the file keeps apart as target.
        order: (rows,) steps, or None.
        spacing: how far apart the steps of each sequence are; None: there is no order.
        dropped: sequences, or windows, that were left out because of empty cells.
        too_short: sequences that were left out because they have too few points.
        was_empty: (rows, F) the cells of `points` that were filled; None: none was.
    """

    name: str
    ids: list[str]
    points: Ragged
    where: Callable[[int, int], str]
    target: Ragged | None = None
    where_target: Callable[[int, int], str] | None = None
    order: NDArray[np.generic] | None = None
    spacing: Spacing | None = None
    was_empty: NDArray[np.bool_] | None = None
    filled: int = 0
    dropped: list[str] = field(default_factory=list)
    too_short: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


def spacing_of(piece: Piece, trained: Frequency | None = None) -> Spacing | None:
    """How far apart the steps of each sequence are; None: the piece has no order.

    Args:
        trained: of a model's training sequences; see `Spacing.found`.
    """
    if piece.order is None:
        return None
    return Spacing.found(piece.order, piece.points.offsets, trained)


def series_of(piece: Piece, places: Sequence[int], name: str, spacing: Spacing | None) -> Series:
    """Some sequences of a piece.

    Args:
        spacing: of the piece's.
    """
    points, whole = piece.points, len(places) == len(piece)
    target, where_target = piece.target, piece.where_target
    if target is not None and where_target is not None and not whole:
        target, where_target = target.at(places), _found_at(where_target, target, places)
    return Series(
        name, [piece.ids[k] for k in places],
        points if whole else points.at(places),
        piece.where if whole else _found_at(piece.where, points, places),
        target, where_target,
        piece.order if piece.order is None or whole else piece.order[rows_of(points, places)],
        None if spacing is None else spacing.at(np.asarray(places, dtype=np.int64)),
    )  # fmt: skip


def numbered(series: Series) -> Floats:
    """(rows,) the step of each as a number; without, its place."""
    order = series.order
    if order is None:
        return np.arange(len(series.points.values), dtype=np.float64)
    return order.astype("int64" if order.dtype.kind == "M" else "float64").astype(np.float64)


def rows_of(ragged: Ragged, places: Sequence[int]) -> NDArray[np.int64]:
    """The rows of some sequences."""
    offsets = ragged.offsets
    found = [np.arange(offsets[k], offsets[k + 1]) for k in places]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def of_rows(piece: Piece, keep: NDArray[np.bool_]) -> Piece:
    """A piece with some of its rows, which keep their steps; its own target is left out."""
    points = piece.points
    rows, whose = np.flatnonzero(keep), np.repeat(np.arange(len(points)), points.lengths)
    order = piece.order
    if order is None:
        order = np.arange(1, len(keep) + 1) - points.offsets[whose].astype(np.float64)
    lengths = np.bincount(whose[rows], minlength=len(points))
    return replace(
        piece, points=Ragged(points.values[rows], offsets_of(lengths), points.features),
        where=moved(piece.where, rows), order=order[rows], target=None, where_target=None,
    )  # fmt: skip


def last_rows(piece: Piece, most: int) -> Piece:
    """A piece with the last rows of each sequence."""
    points = piece.points
    if (points.lengths <= most).all():
        return piece
    ends = np.repeat(points.offsets[1:], points.lengths)
    return of_rows(piece, ends - np.arange(len(ends)) <= most)


def keep_last_rows(series: Series, most: int) -> None:
    """The same for a series whose target is not kept apart."""
    points = series.points
    if (points.lengths <= most).all():
        return
    ends = np.repeat(points.offsets[1:], points.lengths)
    rows = np.flatnonzero(ends - np.arange(len(ends)) <= most)
    lengths = np.minimum(points.lengths, most)
    series.points = Ragged(points.values[rows], offsets_of(lengths), points.features)
    series.where = moved(series.where, rows)
    series.order = None if series.order is None else series.order[rows]


def moved(where: Callable[[int, int], str], rows: NDArray[np.int64]) -> Callable[[int, int], str]:
    """`where`, asked for rows of `values[rows]`."""
    return lambda row, feature: where(int(rows[row]), feature)


def _found_at(
    where: Callable[[int, int], str], ragged: Ragged, places: Sequence[int]
) -> Callable[[int, int], str]:
    """`where`, asked for rows of `ragged.at(places)`; with an index a sequence, not one a row."""
    starts = ragged.offsets[np.asarray(places, dtype=np.int64)]
    offsets = offsets_of(ragged.lengths[np.asarray(places, dtype=np.int64)])

    def of_row(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        return where(int(starts[k]) + row - int(offsets[k]), feature)

    return of_row


def first_and_last(series: Series, k: int) -> tuple[str, str]:
    """The steps at which a sequence begins and ends, as they stand in the file."""
    if series.order is None:
        offsets = series.points.offsets  # not all lengths, for each of them
        return "1", str(int(offsets[k + 1] - offsets[k]))
    steps = series.order[series.points.offsets[k] : series.points.offsets[k + 1]]
    return (step_text(steps[0]), step_text(steps[-1])) if len(steps) else ("", "")
