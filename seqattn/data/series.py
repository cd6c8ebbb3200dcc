"""Series from files, with one row per step, before they are cut into sources and targets.

The config key `data.missing` determines the effect of a missing row or an empty cell: an error, a
dropped sequence, or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.chunk import Chunk, Ragged, Where, step_text, to_offsets
from seqattn.data.reading import Reading
from seqattn.data.sequences import Integers, row_blocks
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import DataError, counted


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
        reading: how the table was read, or None if no table was read.
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
    reading: Reading | None = None

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
        return self.select(~series.dropped[self.series_index])

    def select(self, keep: NDArray[np.bool_]) -> Spans:
        """Return the ranges for which `keep` (n,) is True."""
        return Spans(self.series_index[keep], self.starts[keep], self.lengths[keep])

    def cut(self, first: Integers, rest: Integers) -> tuple[Spans, Spans]:
        """Return the first rows of each range, and the rest.

        Args:
            first: (n,) number of first rows.
            rest: (n,) number of other rows.
        """
        return (
            Spans(self.series_index, self.starts, first),
            Spans(self.series_index, self.starts + first, rest),
        )

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
        where=lambda row, feature: chunk.where(int(rows[row]), feature), order=order[rows],
        target=None, where_target=None,
    )  # fmt: skip


def keep_last_rows(chunk: Chunk, max_rows: int) -> Chunk:
    """Return the chunk with only the last `max_rows` rows of each sequence."""
    points = chunk.points
    if (points.lengths <= max_rows).all():
        return chunk
    ends = np.repeat(points.offsets[1:], points.lengths)
    return select_rows(chunk, ends - np.arange(len(ends)) <= max_rows)


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


UNEVEN = "If rows are one step apart whatever their times, set data.spacing to uneven."


def regularize(
    chunk: Chunk, name: str, config: OwnFile, spacing: Spacing | None, *, has_key: bool = True,
    last: int | None = None,
) -> Series:  # fmt: skip
    """Convert the sequences of a chunk to series with one row per step.

    Args:
        chunk: whole sequences.
        name: name of the file, for messages.
        config: the data section of the config. The key `missing` determines the effect of a missing
            row or an empty cell.
        spacing: step interval of each sequence, or None if consecutive rows are one step apart.
        has_key: whether messages suggest the key `data.missing`. Configs of generated tasks do not
            have this key.
        last: maximum number of rows to keep at the end of each sequence, or None to keep all.
    """
    if config.spacing == "uneven":
        chunk, spacing = replace(chunk, order=None), None
    regularizer = _Regularizer(chunk, name, config, spacing, has_key=has_key)
    regularizer.insert_missing_rows()
    if last is not None:
        regularizer.chunk = keep_last_rows(regularizer.chunk, last)
    regularizer.check_cells()
    return regularizer.series()


class _Regularizer:
    """A chunk to which missing rows are added and in which empty cells are checked."""

    def __init__(
        self, chunk: Chunk, name: str, config: OwnFile, spacing: Spacing | None, *, has_key: bool
    ) -> None:
        self.chunk, self.name, self.config, self.spacing = chunk, name, config, spacing
        self.has_key = has_key
        self.dropped: NDArray[np.bool_] = np.zeros(len(chunk), dtype=bool)
        self.empty = 0

    def series(self) -> Series:
        chunk = self.chunk
        return Series(
            self.name, chunk.ids, chunk.points, chunk.order, self.spacing, chunk.groups,
            chunk.target, self.empty, self.dropped if self.dropped.any() else None, chunk.notes,
            reading=chunk.reading,
        )  # fmt: skip

    @property
    def _or_set(self) -> str:
        """The end of a message, with the values of `data.missing` if there is this key."""
        return ", or set data.missing to drop_sequence or interpolate." if self.has_key else "."

    # --- missing rows -----------------------------------------------------------------------------

    def insert_missing_rows(self) -> None:
        """Insert empty rows where steps are missing. Depending on `data.missing`, drop or reject
        the sequences with missing steps instead."""
        config = self.config
        order, spacing, offsets = self.chunk.order, self.spacing, self.chunk.points.offsets
        if order is None or spacing is None or len(order) < 2:
            return
        steps = spacing.distances(order, offsets)
        gaps = np.flatnonzero(steps != 1)
        if not gaps.size:
            return
        series_index = np.searchsorted(offsets, gaps, side="right") - 1
        if config.missing == "drop_sequence" and config.window is None:
            self.dropped[series_index] = True
            return
        odd = np.flatnonzero((steps[gaps] != np.round(steps[gaps])) | (steps[gaps] < 1))
        if odd.size or config.missing == "refuse":
            first = int(odd[0]) if odd.size else 0
            self._raise_gap(int(gaps[first]), int(series_index[first]), bool(odd.size))
        more = np.zeros(len(order), dtype=np.int64)
        more[gaps + 1] = steps[gaps].astype(np.int64) - 1
        if int(more.sum()) > 10 * len(order) + 1000:
            raise DataError(
                f"{self.name}: steps {spacing.frequency(int(series_index[0]))} apart would need"
                f" {int(more.sum()):,} rows more between {len(order):,}. {UNEVEN}"
            )
        self._insert(more, order, spacing)

    def _raise_gap(self, at: int, k: int, is_odd: bool) -> None:
        order, spacing = self.chunk.order, self.spacing
        assert order is not None and spacing is not None
        frequency = spacing.frequency(k)
        found = (
            f"{self.name}: {self.chunk.where(at + 1, 0).partition(',')[0]}: step"
            f" {step_text(order[at + 1])} follows step {step_text(order[at])}"
        )
        if is_odd:
            raise DataError(
                f"{found}, and their distance is not a multiple of {frequency}, so the missing rows"
                f" cannot be inserted. Make the steps even. {UNEVEN}"
            )
        missing = spacing.distances(order, self.chunk.points.offsets).astype(np.int64) - 1
        here, others = int(missing[at]), int(missing.sum() - missing[at])
        ends = spacing.step_after(np.array([k, k]), order[[at, at]], np.array([1, here]))
        first, last = (step_text(step) for step in ends)
        words = f"the missing row (step {first})"
        if here > 1:
            joined = f"{first} {'to' if here > 2 else 'and'} {last}"
            words = f"the {here:,} missing rows (steps {joined})"
        if others:
            words += f" and {counted(others, 'missing row')} elsewhere"
        has_dates = self.has_key and order.dtype.kind == "M"
        raise DataError(
            f"{found}, but steps are {frequency} apart. Add {words}{self._or_set}"
            + (f" {UNEVEN}" if has_dates else "")
        )

    def _insert(self, more: Integers, order: NDArray[np.generic], spacing: Spacing) -> None:
        """Insert empty rows.

        Args:
            more: (rows,) number of rows to insert before each row.
            order: (rows,) time of each row.
            spacing: step interval of each sequence.
        """
        positions = np.arange(len(order)) + np.cumsum(more)
        total = len(order) + int(more.sum())
        values = np.full((total, self.chunk.points.values.shape[1]), np.nan)
        values[positions] = self.chunk.points.values
        source = np.full(total, -1)
        source[positions] = np.arange(len(order))
        # For each new row, find the last old row before it and the distance between the two rows.
        latest = np.maximum.accumulate(np.where(source >= 0, np.arange(total), 0))
        new = np.flatnonzero(source < 0)
        base = source[latest[new]]
        series_index = np.searchsorted(self.chunk.points.offsets, base, side="right") - 1
        steps = np.empty(total, dtype=order.dtype)
        steps[positions] = order
        steps[new] = spacing.step_after(series_index, order[base], new - latest[new])
        where = self.chunk.where

        def new_where(row: int, feature: int) -> str:
            after = row
            while source[after] < 0:
                after += 1
            if after == row:
                return where(int(source[row]), feature)
            return f"a missing row before {where(int(source[after]), feature)}"

        before = np.concatenate([[0], np.cumsum(more)])
        lengths = np.diff(self.chunk.points.offsets + before[self.chunk.points.offsets])
        points = Ragged(values, to_offsets(lengths), self.chunk.points.features)
        self.chunk = replace(self.chunk, points=points, order=steps, where=new_where)

    # --- empty cells ------------------------------------------------------------------------------

    def check_cells(self) -> None:
        """Count the empty cells. Depending on `data.missing`, drop or reject the sequences with
        empty cells instead.

        Raises:
            DataError: if a source feature with empty cells has no value in a series, so that it
                cannot be interpolated.
        """
        config, has_columns = self.config, has_separate_columns(self.config)
        for ragged, where in self.chunk.cells():
            if not any(np.isnan(rows).any() for _, rows in row_blocks(ragged.values)):
                continue
            missing = np.isnan(ragged.values)
            if has_columns and ragged is self.chunk.points:
                missing &= ~ended_mask(ragged, config)
            if not missing.any():
                continue
            if config.missing == "refuse":
                self._raise_empty_cell(missing, where)
            if config.missing == "interpolate":
                self.empty += int(missing.sum())
                if ragged is not self.chunk.points:
                    continue
                known = any_per_series(~np.isnan(ragged.values), ragged.offsets)
                lacks = any_per_series(missing, ragged.offsets)
                sources = np.isin(ragged.features, list(config.source_features or ragged.features))
                bad = np.argwhere(~known & lacks & sources).tolist()
                if bad:
                    k, feature = bad[0]
                    first, last = (int(at) for at in ragged.offsets[k : k + 2])
                    row = first + int(missing[first:last, feature].argmax())
                    raise DataError(
                        f"{self.name}: {where(row, feature)} is empty, and so is every other cell"
                        f" of {ragged.features[feature]!r} in sequence {self.chunk.ids[k]!r}, so it"
                        " cannot be interpolated."
                    )
            if config.missing == "drop_sequence" and config.window is None:
                lacking = np.flatnonzero(missing.any(axis=1))
                self.dropped[np.searchsorted(ragged.offsets, lacking, side="right") - 1] = True

    def _raise_empty_cell(self, missing: NDArray[np.bool_], where: Where) -> None:
        row, feature = (int(i) for i in np.argwhere(missing)[0])
        others = int(missing.sum()) - 1
        also = f", and so {'is' if others == 1 else 'are'} {counted(others, 'more cell')}"
        raise DataError(
            f"{self.name}: {where(row, feature)} is empty{also if others else ''}."
            f" Fill {'them' if others else 'it'}{self._or_set}"
        )
