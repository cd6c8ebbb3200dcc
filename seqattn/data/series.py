"""The user's series before they are cut: rows one after the other, evenly spaced, NaN where a cell
was not observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.files.chunk import Chunk, Ragged, Where, to_offsets
from seqattn.data.files.steps import step_text
from seqattn.data.sequences import Integers
from seqattn.data.spacing import Frequency, Spacing


@dataclass(eq=False)
class Series:
    """N series.

    Attributes:
        name: of what they were read from, for messages.
        ids: N names.
        points: their rows.
        order: (rows,) numbers or dates; None: rows are in order.
        spacing: how far apart the steps of each series are; None: there is no order.
        groups: a word for each, or None.
        target: what the file keeps apart as target of each; None: nothing.
        empty: cells that were not observed, those of rows that were missing among them.
        dropped: (N,) True of series that are left out because of empty cells, once they are split;
            None: none is.
        notes: what a user should be told.
        digests: SHA-256 of the files.
        roles: of the columns of a table; None: it was none.
    """

    name: str
    ids: Sequence[str]
    points: Ragged
    order: NDArray[np.generic] | None = None
    spacing: Spacing | None = None
    groups: Sequence[str] | None = None
    target: Ragged | None = None
    empty: int = 0
    dropped: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)
    roles: ColumnRoles | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dropped_names(self) -> list[str]:
        if self.dropped is None:
            return []
        return [self.ids[int(k)] for k in np.flatnonzero(self.dropped)]

    def kept(self) -> Series:
        """Without the series that are left out."""
        if self.dropped is None or not self.dropped.any():
            return self
        indices = np.flatnonzero(~self.dropped)
        rows = np.flatnonzero(np.repeat(~self.dropped, self.points.lengths))
        return replace(
            self, ids=tuple(self.ids[int(k)] for k in indices), points=self.points.select(indices),
            order=None if self.order is None else self.order[rows],
            spacing=None if self.spacing is None else self.spacing.select(indices),
            groups=None if self.groups is None else tuple(self.groups[int(k)] for k in indices),
            target=None if self.target is None else self.target.select(indices), dropped=None,
        )  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        return self.points.features

    def step(self, row: int, k: int) -> str:
        """What the step of a row of series k is called."""
        if self.order is None:
            return str(row - int(self.points.offsets[k]) + 1)
        return step_text(self.order[row])


@dataclass(frozen=True, eq=False)
class Spans:
    """Some rows of some series: a part of a split.

    Attributes:
        series_index: (n,) indices of the series.
        starts, lengths: (n,) rows.
    """

    series_index: Integers
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.series_index)

    def frequency(self, series: Series) -> Frequency | None:
        """How far apart the steps of all of them are; None: unlike, or they have no order."""
        return None if series.spacing is None else series.spacing.select(self.series_index).common()

    def kept(self, series: Series) -> Spans:
        """Without those of series that are left out."""
        if series.dropped is None:
            return self
        left = ~series.dropped[self.series_index]
        return Spans(self.series_index[left], self.starts[left], self.lengths[left])

    @classmethod
    def of_series(cls, series: Series, indices: Sequence[int] | Integers | None = None) -> Spans:
        """Whole series."""
        offsets = series.points.offsets
        starts, lengths = np.asarray(offsets[:-1]), np.diff(offsets)
        if len(lengths) and (lengths == lengths[0]).all():  # of millions of series, no copy
            lengths = np.broadcast_to(lengths[0], len(lengths))
        if indices is None:
            return cls(np.arange(len(series)), starts, lengths)
        series_index = np.asarray(indices, dtype=np.int64)
        return cls(series_index, starts[series_index], lengths[series_index])


def infer_spacing(chunk: Chunk, trained: Frequency | None = None) -> Spacing | None:
    """How far apart the steps of each sequence are; None: the piece has no order.

    Args:
        trained: of a model's training sequences; see `Spacing.found`.
    """
    if chunk.order is None:
        return None
    return Spacing.found(chunk.order, chunk.points.offsets, trained)


def select_rows(chunk: Chunk, keep: NDArray[np.bool_]) -> Chunk:
    """A piece with some of its rows, which keep their steps; its own target is left out."""
    points = chunk.points
    rows, series_index = np.flatnonzero(keep), np.repeat(np.arange(len(points)), points.lengths)
    order = chunk.order
    if order is None:
        order = np.arange(1, len(keep) + 1) - points.offsets[series_index].astype(np.float64)
    lengths = np.bincount(series_index[rows], minlength=len(points))
    return replace(
        chunk, points=Ragged(points.values[rows], to_offsets(lengths), points.features),
        where=remap_where(chunk.where, rows), order=order[rows], target=None, where_target=None,
    )  # fmt: skip


def keep_last_rows(chunk: Chunk, most: int) -> Chunk:
    """A piece with the last rows of each sequence."""
    points = chunk.points
    if (points.lengths <= most).all():
        return chunk
    ends = np.repeat(points.offsets[1:], points.lengths)
    return select_rows(chunk, ends - np.arange(len(ends)) <= most)


def remap_where(where: Where, rows: Integers) -> Where:
    """`where`, asked for rows of `values[rows]`."""
    return lambda row, feature: where(int(rows[row]), feature)


def has_separate_columns(config: OwnFile) -> bool:
    """Whether whole columns are source and others target, row by row."""
    lengths = (config.source_length, config.target_length, config.window)
    return config.source_features is not None and not any(lengths)


def ended_mask(ragged: Ragged, config: OwnFile) -> NDArray[np.bool_]:
    """(rows, C): True where a side of a sequence has ended: all its cells are empty to the end."""
    ended = np.zeros(ragged.values.shape, dtype=bool)
    for names in (config.source_features, config.target_features):
        indices = [ragged.features.index(name) for name in names or () if name in ragged.features]
        if not indices:
            continue  # a file to forecast from need not have the target features
        empty = np.isnan(ragged.values[:, indices]).all(axis=1)
        for k in np.flatnonzero(any_per_series(empty, ragged.offsets)):
            first, last = int(ragged.offsets[k]), int(ragged.offsets[k + 1])
            real = last
            while real > first and empty[real - 1]:
                real -= 1
            ended[real:last, indices] = True
    return ended


def any_per_series(flags: NDArray[np.bool_], offsets: Integers) -> NDArray[np.bool_]:
    """(N, ...) whether any row of each series is True; of one without rows False.

    Args:
        flags: (rows, ...).
        offsets: (N + 1,).
    """
    found = np.zeros((len(offsets) - 1, *flags.shape[1:]), dtype=bool)
    has_rows = np.diff(offsets) > 0
    if has_rows.any():  # reduceat takes the next row for a series without any
        found[has_rows] = np.logical_or.reduceat(flags, offsets[:-1][has_rows])
    return found


def block_slices(lengths: Integers, rows: int) -> list[slice]:
    """Series next to each other, of so many rows together, or one."""
    ends = np.cumsum(lengths)
    found, first = list[slice](), 0
    while first < len(lengths):
        limit = (int(ends[first - 1]) if first else 0) + rows
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        found.append(slice(first, last))
        first = last
    return found
