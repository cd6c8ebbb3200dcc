"""Mean and standard deviation of each sequence, for `data.normalize: instance`.

Reversible instance normalization (RevIN: Kim et al. 2022, "Reversible Instance Normalization for
Accurate Time-Series Forecasting against Distribution Shift", ICLR, eq. 1 to 3): a source x becomes
(x - mean) / std with its own mean and standard deviation, the target likewise with the source's,
and the forecast is transformed back.

Two things differ from the paper. There is no learnable affine map (gamma and beta of eq. 2): every
model here reads its inputs through affine maps and ends in one, so that these weights absorb gamma
and beta, and no function would be added. There is no epsilon in the root: it would make the
transformation depend on the unit of the data. A constant feature is treated as such instead.

Letters: N sequences, S source length, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Sequences, row_blocks

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Range of values, of their size, that float64 may leave of values that are all the same."""


@dataclass(frozen=True, eq=False)
class InstanceStatistics:
    """Of each source and feature, over the cells that are real and were observed.

    Attributes:
        mean: (N, F) in the data's units.
        std: (N, F) with divisor n, above 0; 1 where `constant`.
        constant: (N, F) whether the feature changes by no more than float64 rounds.
    """

    mean: Floats
    std: Floats
    constant: NDArray[np.bool_]

    @classmethod
    def of(cls, part: Sequences) -> InstanceStatistics:
        """Padding, filled cells and the targets have no influence, and neither has S: all sums run
        from the first point to the last, one by one."""
        N, _, F = part.source.shape
        found = cls(np.zeros((N, F)), np.ones((N, F)), np.ones((N, F), dtype=bool))
        observed = part.source_cells
        for first, rows in row_blocks(part.source):
            here = slice(first, first + len(rows))
            found._fill(here, np.asarray(rows, dtype=np.float64), observed[here])
        return found

    def _fill(self, here: slice, rows: Floats, cells: NDArray[np.bool_]) -> None:
        """
        Args:
            rows, cells: (n, S, F) sources, and which of their cells count.
        """
        count = cells.sum(axis=1)
        divisor = np.maximum(count, 1)
        low = np.where(count > 0, np.where(cells, rows, np.inf).min(axis=1), 0)
        high = np.where(count > 0, np.where(cells, rows, -np.inf).max(axis=1), 0)
        constant = is_rounding_only(low, high)
        spread = np.where(constant, 1, high - low)
        # From 0 to 1: no square of them overflows or vanishes, and far levels cost no precision.
        unit = np.where(cells, (rows - low[:, None]) / spread[:, None], 0)
        mean = _sum_in_order(unit) / divisor
        squares = np.where(cells, np.square(unit - mean[:, None]), 0)
        self.mean[here] = np.where(low == high, low, low + spread * mean)
        self.std[here] = np.where(constant, 1, spread * np.sqrt(_sum_in_order(squares) / divisor))
        self.constant[here] = constant


def _sum_in_order(values: Floats) -> Floats:
    """(n, S, F) to (n, F), added up in order: zeros behind the end change no bit, as they do where
    numpy.sum adds in blocks."""
    return np.asarray(np.cumsum(values, axis=1)[:, -1])


def is_rounding_only(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Whether ranges are such as float64 may leave of values that are all the same."""
    return np.asarray(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
