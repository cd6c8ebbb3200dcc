"""Functions that convert sequences to series with one row per step.

The config key `data.missing` determines the effect of a missing row or an empty cell: an error, a
dropped sequence, or NaN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files.chunk import Chunk, Ragged, Where, to_offsets
from seqattn.data.files.steps import step_text
from seqattn.data.sequences import Integers, row_blocks
from seqattn.data.series import (
    Series,
    any_per_series,
    ended_mask,
    has_separate_columns,
    keep_last_rows,
)
from seqattn.data.spacing import Spacing
from seqattn.data.undashed import as_dashed_date
from seqattn.errors import DataError, counted

UNEVEN = "If rows are one step apart whatever their times, set data.spacing to uneven."
OR_SET = ", or set data.missing to drop_sequence or interpolate."


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

    Raises:
        DataError: if the config rejects a missing row or an empty cell, or if such a row or cell
            cannot be filled.
    """
    if config.spacing == "uneven":
        chunk, spacing = replace(chunk, order=None), None
    regularizer = _Regularizer(chunk, name, spacing)
    or_set = OR_SET if has_key else "."
    regularizer.insert_missing_rows(config, or_set)
    if last is not None:
        regularizer.chunk = keep_last_rows(regularizer.chunk, last)
    regularizer.check_cells(config, or_set)
    return regularizer.series()


class _Regularizer:
    """A chunk to which missing rows are added and in which empty cells are checked."""

    def __init__(self, chunk: Chunk, name: str, spacing: Spacing | None) -> None:
        self.chunk, self.name, self.spacing = chunk, name, spacing
        self.dropped: NDArray[np.bool_] = np.zeros(len(chunk), dtype=bool)
        self.empty = 0

    def series(self) -> Series:
        chunk = self.chunk
        return Series(
            self.name, chunk.ids, chunk.points, chunk.order, self.spacing, chunk.groups,
            chunk.target, self.empty, self.dropped if self.dropped.any() else None, chunk.notes,
            roles=chunk.roles,
        )  # fmt: skip

    # --- missing rows -----------------------------------------------------------------------------

    def insert_missing_rows(self, config: OwnFile, or_set: str) -> None:
        """Insert empty rows where steps are missing. Depending on `data.missing`, drop or reject
        the sequences with missing steps instead."""
        order, spacing, offsets = self.chunk.order, self.spacing, self.chunk.points.offsets
        if order is None or spacing is None or len(order) < 2:
            return
        steps = spacing.distances(order, offsets)
        gaps = np.flatnonzero(steps != 1)
        if not gaps.size:
            return
        self._check_for_undashed_dates(int(gaps[0]))
        series_index = np.searchsorted(offsets, gaps, side="right") - 1
        if config.missing == "drop_sequence" and config.window is None:
            self.dropped[series_index] = True
            return
        odd = np.flatnonzero((steps[gaps] != np.round(steps[gaps])) | (steps[gaps] < 1))
        if odd.size or config.missing == "refuse":
            first = int(odd[0]) if odd.size else 0
            self._raise_gap(int(gaps[first]), int(series_index[first]), bool(odd.size), or_set)
        more = np.zeros(len(order), dtype=np.int64)
        more[gaps + 1] = steps[gaps].astype(np.int64) - 1
        if int(more.sum()) > 10 * len(order) + 1000:
            raise DataError(
                f"{self.name}: steps {spacing.frequency(int(series_index[0]))} apart would need"
                f" {int(more.sum()):,} rows more between {len(order):,}. {UNEVEN}"
            )
        self._insert(more, order, spacing)

    def _check_for_undashed_dates(self, at: int) -> None:
        assert self.chunk.order is not None
        found = as_dashed_date(self.chunk.order)
        if found is not None:
            kind, written = found
            first, second = self.chunk.order[at : at + 2]
            one, other = step_text(first), step_text(second)
            raise DataError(
                f"{self.name}: steps such as {step_text(self.chunk.order[0])} look like {kind},"
                f" and as numbers {one} and {other} are {step_text(second - first)} apart. Write"
                f" them as {written}. {UNEVEN}"
            )

    def _raise_gap(self, at: int, k: int, is_odd: bool, or_set: str) -> None:
        assert self.chunk.order is not None and self.spacing is not None
        frequency = self.spacing.frequency(k)
        found = (
            f"{self.name}: {self.chunk.where(at + 1, 0).partition(',')[0]}: step"
            f" {step_text(self.chunk.order[at + 1])} follows step {step_text(self.chunk.order[at])}"
        )
        if is_odd:
            raise DataError(
                f"{found}, and their distance is not a multiple of {frequency}, so the missing rows"
                f" cannot be inserted. Make the steps even. {UNEVEN}"
            )
        has_dates = or_set == OR_SET and self.chunk.order.dtype.kind == "M"
        raise DataError(
            f"{found}, but steps are {frequency} apart. Add {self._describe_missing(at, k)}{or_set}"
            + (f" {UNEVEN}" if has_dates else "")
        )

    def _describe_missing(self, at: int, k: int) -> str:
        """Return the times of the rows that are missing after row `at`, which belongs to sequence
        k, and the number of rows that are missing elsewhere, as text."""
        order, spacing = self.chunk.order, self.spacing
        assert order is not None and spacing is not None
        missing = spacing.distances(order, self.chunk.points.offsets).astype(np.int64) - 1
        here, everywhere = int(missing[at]), int(missing.sum())
        ends = spacing.step_after(np.array([k, k]), order[[at, at]], np.array([1, here]))
        first, last = (step_text(step) for step in ends)
        joined = f"{first} {'to' if here > 2 else 'and'} {last}"
        words = (
            f"the missing row (step {first})" if here == 1
            else f"the {here:,} missing rows (steps {joined})"
        )  # fmt: skip
        others = everywhere - here
        return words if others == 0 else f"{words} and {counted(others, 'missing row')} elsewhere"

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

    def check_cells(self, config: OwnFile, or_set: str) -> None:
        """Count the empty cells. Depending on `data.missing`, drop or reject the sequences with
        empty cells instead."""
        has_columns = has_separate_columns(config)
        for ragged, where in self.chunk.cells():
            if not _has_empty(ragged):
                continue
            missing = np.isnan(ragged.values)
            if has_columns and ragged is self.chunk.points:
                missing &= ~ended_mask(ragged, config)
            if not missing.any():
                continue
            if config.missing == "refuse":
                self._raise_empty_cell(missing, where, or_set)
            if config.missing == "interpolate":
                self.empty += int(missing.sum())
                if ragged is self.chunk.points:
                    self._check_has_values(missing, config)
            if config.missing == "drop_sequence" and config.window is None:
                lacking = np.flatnonzero(missing.any(axis=1))
                self.dropped[np.searchsorted(ragged.offsets, lacking, side="right") - 1] = True

    def _raise_empty_cell(self, missing: NDArray[np.bool_], where: Where, or_set: str) -> None:
        row, feature = (int(i) for i in np.argwhere(missing)[0])
        others = int(missing.sum()) - 1
        also = f", and so {'is' if others == 1 else 'are'} {counted(others, 'more cell')}"
        raise DataError(
            f"{self.name}: {where(row, feature)} is empty{also if others else ''}."
            f" Fill {'them' if others else 'it'}{or_set}"
        )

    def _check_has_values(self, missing: NDArray[np.bool_], config: OwnFile) -> None:
        """Check that each source feature with empty cells in a series has a value in this series.

        Raises:
            DataError: if a series has no value of such a feature, so it cannot be interpolated.
        """
        points = self.chunk.points
        is_source = np.isin(points.features, list(config.source_features or points.features))
        known = any_per_series(~np.isnan(points.values), points.offsets)
        lacks = any_per_series(missing, points.offsets)
        bad = np.argwhere(~known & lacks & is_source)
        if bad.size:
            k, feature = (int(i) for i in bad[0])
            rows = slice(int(points.offsets[k]), int(points.offsets[k + 1]))
            row = rows.start + int(missing[rows, feature].argmax())
            raise DataError(
                f"{self.name}: {self.chunk.where(row, feature)} is empty, and so is every other"
                f" cell of {points.features[feature]!r} in sequence"
                f" {self.chunk.ids[k]!r}, so it cannot be interpolated."
            )


def _has_empty(ragged: Ragged) -> bool:
    return any(np.isnan(rows).any() for _, rows in row_blocks(ragged.values))
