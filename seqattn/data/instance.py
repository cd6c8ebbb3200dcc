"""Mean and standard deviation of each source, for `data.normalize: instance`.

The method is reversible instance normalization (RevIN: Kim et al. 2022, "Reversible Instance
Normalization for Accurate Time-Series Forecasting against Distribution Shift", ICLR, eq. 1 to 3).
A source x becomes (x - mean) / std, with the mean and standard deviation of this source. The target
is transformed with the mean and standard deviation of the source, and the forecast is transformed
back.

The implementation differs from the paper in two ways. First, there is no learnable affine map
(gamma and beta of eq. 2), because every model in this package begins and ends with affine maps that
can represent it. Second, the square root contains no epsilon, because an epsilon would make the
result depend on the unit of the data. Constant features are handled separately instead.

In shapes, N is the number of sequences, S the source length and F the number of features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Sequences, row_blocks

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Largest relative range that float64 rounding can cause among equal values."""


@dataclass(frozen=True, eq=False)
class InstanceStatistics:
    """Statistics of each source and feature over the valid observed cells.

    Attributes:
        mean: (N, F) mean in the units of the data.
        std: (N, F) population standard deviation, above 0. The value is 1 for constant features.
        constant: (N, F) booleans that are True if the feature varies at most by float64 rounding.
    """

    mean: Floats
    std: Floats
    constant: NDArray[np.bool_]

    @classmethod
    def of(cls, part: Sequences) -> InstanceStatistics:
        """Compute the statistics of all sources.

        Only valid observed source cells contribute. The sums are computed in order from the first
        step to the last, so that the amount of padding does not change the rounding.
        """
        N, _, F = part.source.shape
        result = cls(np.zeros((N, F)), np.ones((N, F)), np.ones((N, F), dtype=bool))
        observed = part.source_cells
        for first, rows in row_blocks(part.source):
            block = slice(first, first + len(rows))
            result._fill(block, np.asarray(rows, dtype=np.float64), observed[block])
        return result

    def _fill(self, block: slice, rows: Floats, cells: NDArray[np.bool_]) -> None:
        """Compute the statistics of a block of n sources.

        Args:
            block: slice of the block along the first axis.
            rows: (n, S, F) values of the sources.
            cells: mask (n, S, F) that is True at valid observed cells.
        """
        count = cells.sum(axis=1)
        divisor = np.maximum(count, 1)
        low = np.where(count > 0, np.where(cells, rows, np.inf).min(axis=1), 0)
        high = np.where(count > 0, np.where(cells, rows, -np.inf).max(axis=1), 0)
        constant = is_rounding_only(low, high)
        spread = np.where(constant, 1, high - low)
        # Values are scaled to the range 0 to 1, so that squares do not overflow and a large level
        # does not reduce the precision.
        unit = np.where(cells, (rows - low[:, None]) / spread[:, None], 0)
        mean = _sum_in_order(unit) / divisor
        squares = np.where(cells, np.square(unit - mean[:, None]), 0)
        self.mean[block] = np.where(low == high, low, low + spread * mean)
        self.std[block] = np.where(constant, 1, spread * np.sqrt(_sum_in_order(squares) / divisor))
        self.constant[block] = constant


def _sum_in_order(values: Floats) -> Floats:
    """Return the sum (n, F) of values (n, S, F), added in the order of the S steps.

    Trailing zeros do not change any bit of this sum, but they could change the result of
    `numpy.sum`, which adds in blocks.
    """
    return np.asarray(np.cumsum(values, axis=1)[:, -1])


def is_rounding_only(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Return whether `low` and `high` are so close that their difference may be a rounding error of
    float64."""
    return np.asarray(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
