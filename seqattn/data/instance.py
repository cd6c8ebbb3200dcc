"""Mean and standard deviation of each source, for `data.normalize: instance`.

Reversible instance normalization (RevIN: Kim et al. 2022, "Reversible Instance Normalization for
Accurate Time-Series Forecasting against Distribution Shift", ICLR, eq. 1 to 3): a source x becomes
(x - mean) / std with its own mean and standard deviation, the target likewise with the source's,
and the forecast is transformed back.

Two differences from the paper: there is no learnable affine map (gamma and beta of eq. 2), since
every model here begins and ends with affine maps that can represent it; and there is no epsilon in
the square root, which would make the result depend on the unit of the data. Constant features are
handled separately instead.

Letters: N sequences, S source length, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Sequences, row_blocks

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Largest relative range of float64 values that may be rounding of equal values."""


@dataclass(frozen=True, eq=False)
class InstanceStatistics:
    """Statistics of each source and feature over its valid observed cells.

    Attributes:
        mean: (N, F) in the data's units.
        std: (N, F) standard deviation with divisor n, above 0; 1 where `constant`.
        constant: (N, F) whether the feature varies by rounding of float64 at most.
    """

    mean: Floats
    std: Floats
    constant: NDArray[np.bool_]

    @classmethod
    def of(cls, part: Sequences) -> InstanceStatistics:
        """The statistics of all sources. Padding, filled cells, targets and S have no influence:
        sums run from the first step to the last in order."""
        N, _, F = part.source.shape
        result = cls(np.zeros((N, F)), np.ones((N, F)), np.ones((N, F), dtype=bool))
        observed = part.source_cells
        for first, rows in row_blocks(part.source):
            block = slice(first, first + len(rows))
            result._fill(block, np.asarray(rows, dtype=np.float64), observed[block])
        return result

    def _fill(self, block: slice, rows: Floats, cells: NDArray[np.bool_]) -> None:
        """Compute the statistics of a block of sources.

        Args:
            block: their slice of N.
            rows: (n, S, F) the sources.
            cells: (n, S, F) True at valid observed cells.
        """
        count = cells.sum(axis=1)
        divisor = np.maximum(count, 1)
        low = np.where(count > 0, np.where(cells, rows, np.inf).min(axis=1), 0)
        high = np.where(count > 0, np.where(cells, rows, -np.inf).max(axis=1), 0)
        constant = is_rounding_only(low, high)
        spread = np.where(constant, 1, high - low)
        # Scaled to 0..1, so that squares do not overflow and a large level costs no precision.
        unit = np.where(cells, (rows - low[:, None]) / spread[:, None], 0)
        mean = _sum_in_order(unit) / divisor
        squares = np.where(cells, np.square(unit - mean[:, None]), 0)
        self.mean[block] = np.where(low == high, low, low + spread * mean)
        self.std[block] = np.where(constant, 1, spread * np.sqrt(_sum_in_order(squares) / divisor))
        self.constant[block] = constant


def _sum_in_order(values: Floats) -> Floats:
    """(n, S, F) summed over S in order: trailing zeros change no bit, unlike in numpy.sum, which
    adds in blocks."""
    return np.asarray(np.cumsum(values, axis=1)[:, -1])


def is_rounding_only(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Whether ranges from `low` to `high` may be rounding of equal float64 values."""
    return np.asarray(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
