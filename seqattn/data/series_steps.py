"""The times of the rows from which sequences are cut.

In shapes, N is the number of sequences, n the number of selected sequences, and L the number of
steps in the longest sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.row_ranges import RowRanges
from seqattn.data.sequences import Integers, valid_mask
from seqattn.data.spacing import Spacing


@dataclass(frozen=True, eq=False)
class SeriesSteps:
    """The times of the rows from which windows are cut.

    Attributes:
        order: (rows,) time of each row, as numbers or dates, or None if steps are counted from 1.
        spacing: step interval of each series, or None if `order` is None.
        series_index: (N,) index of the series from which each window is cut.
    """

    order: NDArray[np.generic] | None
    spacing: Spacing | None
    series_index: Integers

    def select(self, indices: slice | Integers) -> SeriesSteps:
        """Return the times for the windows at the given indices."""
        return replace(self, series_index=self.series_index[indices])

    def spacings(self) -> Spacing | None:
        """Return the step interval of each window, or None if steps are counted from 1."""
        return None if self.spacing is None else self.spacing.select(self.series_index)

    def of_rows(self, rows: Integers) -> NDArray[np.generic] | None:
        """Return the times of the given rows, or None if steps are counted from 1."""
        has_steps = self.order is not None and self.spacing is not None
        return np.asarray(self.order[rows]) if has_steps else None  # type: ignore[index]

    def of_ranges(self, ranges: RowRanges, indices: slice) -> NDArray[Any]:
        """Return the times (n, L) of the row ranges at the given indices, with NaN or NaT in the
        padding. `order` must not be None."""
        assert self.order is not None
        L = ranges.longest
        rows = ranges.starts[indices][:, None] + np.arange(L)
        found = self.order[np.minimum(rows, len(self.order) - 1)]
        missing = np.datetime64("NaT") if found.dtype.kind == "M" else np.nan
        return np.where(valid_mask(ranges.lengths[indices], L), found, missing)
