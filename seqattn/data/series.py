"""Series from files, before they are cut into sources and targets."""

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
from seqattn.errors import DataError


@dataclass(eq=False)
class Series:
    """N series with one row per step and NaN in unobserved cells.

    Attributes:
        name: name of the file or path, for messages.
        ids: names of the N series.
        points: the rows of all series.
        order: (rows,) time of each row, as numbers or dates, or None if the order of the rows is
            the time order.
        spacing: step interval of each series, or None if it was not inferred.
        groups: name of the group of each series, for a split by group, or None if there are no
            groups.
        target: separate targets from the file, or None if the file has no separate targets.
        empty: number of unobserved cells, including the cells of missing rows; always 0 unless
            `data.missing` is `interpolate`.
        dropped: mask (N,) that is True for each series that is left out after the split because of
            missing rows or empty cells, or None if no series is left out.
        notes: notes for the user on how the files were read.
        digests: SHA-256 digest of each file by file name.
        roles: roles of the columns in a table, or None if no table was read.
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
        """Names of the series that are left out."""
        if self.dropped is None:
            return []
        return [self.ids[int(k)] for k in np.flatnonzero(self.dropped)]

    def without_dropped(self) -> Series:
        """Return the series that are not left out."""
        if self.dropped is None or not self.dropped.any():
            return self
        return replace(self._select(~self.dropped), dropped=None)

    def without_empty(self) -> tuple[Series, list[str]]:
        """Return the series that have rows, and the names of the other series. If the file has
        separate targets, return all series.

        Raises:
            DataError: if no series has rows.
        """
        has_rows = self.points.lengths > 0
        if self.target is not None or has_rows.all():
            return self, []
        if not has_rows.any():
            raise DataError(f"{self.name}: no sequence has a value.")
        empty = [self.ids[int(k)] for k in np.flatnonzero(~has_rows)]
        return self._select(has_rows), empty

    def _select(self, keep: NDArray[np.bool_]) -> Series:
        """Return the series for which `keep` (N,) is True."""
        indices = np.flatnonzero(keep)
        rows = np.flatnonzero(np.repeat(keep, self.points.lengths))
        return replace(
            self, ids=tuple(self.ids[int(k)] for k in indices), points=self.points.select(indices),
            order=None if self.order is None else self.order[rows],
            spacing=None if self.spacing is None else self.spacing.select(indices),
            groups=None if self.groups is None else tuple(self.groups[int(k)] for k in indices),
            target=None if self.target is None else self.target.select(indices),
            dropped=None if self.dropped is None else self.dropped[indices],
        )  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        return self.points.features

    def step(self, row: int, k: int) -> str:
        """Return the time of a row of series k as text. If `order` is None, return the number of
        the row in the series, counted from 1."""
        if self.order is None:
            return str(row - int(self.points.offsets[k]) + 1)
        return step_text(self.order[row])


@dataclass(frozen=True, eq=False)
class Spans:
    """A row range for each series in a part of the data set.

    Attributes:
        series_index: (n,) index of the series to which each range belongs.
        starts: (n,) index of the first row of each range.
        lengths: (n,) number of rows in each range.
    """

    series_index: Integers
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.series_index)

    def frequency(self, series: Series) -> Frequency | None:
        """Return the step interval that all series of the part share, or None if intervals differ
        or are unknown."""
        return None if series.spacing is None else series.spacing.select(self.series_index).common()

    def without_dropped(self, series: Series) -> Spans:
        """Return the ranges of the series that are not left out."""
        if series.dropped is None:
            return self
        left = ~series.dropped[self.series_index]
        return Spans(self.series_index[left], self.starts[left], self.lengths[left])

    @classmethod
    def of_series(cls, series: Series, indices: Sequence[int] | Integers | None = None) -> Spans:
        """Return the ranges of whole series.

        Args:
            series: all series.
            indices: indices of the series in the part, or None for all series.
        """
        offsets = series.points.offsets
        starts, lengths = np.asarray(offsets[:-1]), np.diff(offsets)
        if (
            len(lengths) and (lengths == lengths[0]).all()
        ):  # a broadcast view avoids a copy for millions of series
            lengths = np.broadcast_to(lengths[0], len(lengths))
        if indices is None:
            return cls(np.arange(len(series)), starts, lengths)
        series_index = np.asarray(indices, dtype=np.int64)
        return cls(series_index, starts[series_index], lengths[series_index])


def infer_spacing(
    chunk: Chunk, trained: Frequency | None = None, assumed: tuple[int, float] | None = None
) -> Spacing | None:
    """Infer the step interval of each sequence, or return None if the chunk has no times.

    Args:
        chunk: the sequences.
        trained: step interval of the sequences that a model was trained on, as in `Spacing.infer`.
        assumed: step interval of short sequences, as in `Spacing.infer`.
    """
    if chunk.order is None:
        return None
    return Spacing.infer(chunk.order, chunk.points.offsets, trained, assumed)


def select_rows(chunk: Chunk, keep: NDArray[np.bool_]) -> Chunk:
    """Return the chunk with only the rows for which `keep` is True, and without separate targets.

    If the chunk has no times, the times of the result are the row numbers in the original
    sequences, counted from 1.
    """
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


def keep_last_rows(chunk: Chunk, max_rows: int) -> Chunk:
    """Return the chunk with only the last `max_rows` rows of each sequence."""
    points = chunk.points
    if (points.lengths <= max_rows).all():
        return chunk
    ends = np.repeat(points.offsets[1:], points.lengths)
    return select_rows(chunk, ends - np.arange(len(ends)) <= max_rows)


def remap_where(where: Where, rows: Integers) -> Where:
    """Return a function for the locations of cells in the given rows of an array. The argument
    `where` is such a function for all rows of the array."""
    return lambda row, feature: where(int(rows[row]), feature)


def has_separate_columns(config: OwnFile) -> bool:
    """Return whether the config defines source and target as columns of the same rows."""
    lengths = (config.source_length, config.target_length, config.window)
    return config.source_features is not None and not any(lengths)


def ended_mask(ragged: Ragged, config: OwnFile) -> NDArray[np.bool_]:
    """Return a mask (rows, columns), True at cells after the end of their source or target.

    A source ends at the last row with a value in any source column, and a target ends at the last
    row with a value in any target column.
    """
    ended = np.zeros(ragged.values.shape, dtype=bool)
    for names in (config.source_features, config.target_features):
        indices = [ragged.features.index(name) for name in names or () if name in ragged.features]
        if not indices:
            continue  # the input of a forecast may lack the target features
        empty = np.isnan(ragged.values[:, indices]).all(axis=1)
        for k in np.flatnonzero(any_per_series(empty, ragged.offsets)):
            first, last = int(ragged.offsets[k]), int(ragged.offsets[k + 1])
            real = last
            while real > first and empty[real - 1]:
                real -= 1
            ended[real:last, indices] = True
    return ended


def any_per_series(flags: NDArray[np.bool_], offsets: Integers) -> NDArray[np.bool_]:
    """Return a boolean array (N, ...) that is True for a series with at least one True row. The
    result is False for a series without rows.

    Args:
        flags: (rows, ...) booleans.
        offsets: (N + 1,) index of the first row of each series, followed by the number of rows.
    """
    found = np.zeros((len(offsets) - 1, *flags.shape[1:]), dtype=bool)
    has_rows = np.diff(offsets) > 0
    if has_rows.any():  # reduceat would use the next row for a series without rows
        found[has_rows] = np.logical_or.reduceat(flags, offsets[:-1][has_rows])
    return found


def block_slices(lengths: Integers, rows: int) -> list[slice]:
    """Return slices of consecutive series. The series of a slice have at most `rows` rows in total,
    unless the slice contains only one series."""
    ends = np.cumsum(lengths)
    found, first = list[slice](), 0
    while first < len(lengths):
        limit = (int(ends[first - 1]) if first else 0) + rows
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        found.append(slice(first, last))
        first = last
    return found
