"""Sums of the errors of a forecast, accumulated chunk by chunk.

Letters: N sequences, n sequences of a chunk, T target steps, F target features.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, ForecastLike, Sequences


class ErrorSums:
    """Sums of the errors of a forecast over the observed target cells of a part.

    NumPy adds up the errors of a chunk, and the sums of chunks are added in order: the same chunks
    give the same sums, bit for bit.

    Args:
        part: the sequences that are forecast.
        scale: (F,) or (N, 1, F) divides the errors in `loss` and `by_step`; None: they stay in the
            part's units.
        by_step: whether to accumulate `by_step`.
    """

    def __init__(
        self, part: Sequences, scale: Floats | None = None, *, by_step: bool = False
    ) -> None:
        self.scale = scale
        self.total, self.count = 0.0, 0
        self.steps = _Sums(part.target_steps if by_step else 0)
        self.squares = _Sums(len(part.target_features))
        self.absolute = _Sums(len(part.target_features))

    @classmethod
    def of(
        cls, forecast: ForecastLike, part: Sequences, scale: Floats | None = None, *,
        by_step: bool = False,
    ) -> ErrorSums:  # fmt: skip
        """The sums of a whole part.

        Args:
            forecast: (N, T, F) in the part's units.
        """
        found = cls(part, scale, by_step=by_step)
        for indices, chunk in part.chunks():
            found.add(indices, chunk, forecast[indices])
        return found

    def add(self, indices: slice, chunk: Sequences, forecast: Floats) -> None:
        """Add the errors of some sequences.

        Args:
            indices: slice of the n sequences within the part.
            chunk: these sequences.
            forecast: (n, T, F) in the part's units.
        """
        cells, errors = chunk.target_cells, forecast - chunk.target
        for f in range(len(self.squares.total)):
            observed = errors[..., f][cells[..., f]]
            self.squares.add(f, np.square(observed))
            self.absolute.add(f, np.abs(observed))
        if self.scale is not None:
            errors = errors / (self.scale[indices] if self.scale.ndim == 3 else self.scale)
        squared = np.square(errors)
        self.total += float(squared[cells].sum())
        self.count += int(cells.sum())
        for t in range(len(self.steps.total)):
            self.steps.add(t, squared[:, t][cells[:, t]])

    @property
    def loss(self) -> float:
        """Mean squared error over all cells; NaN where none was observed."""
        return self.total / self.count if self.count else math.nan

    @property
    def by_step(self) -> list[float | None]:
        """Mean squared error of each target step; None where no cell of it was observed."""
        return self.steps.means

    @property
    def mae(self) -> list[float | None]:
        """Mean absolute error of each target feature in the part's units; None without an observed
        cell."""
        return self.absolute.means

    @property
    def rmse(self) -> list[float | None]:
        """Root mean squared error of each target feature in the part's units; None without an
        observed cell."""
        return [None if mean is None else math.sqrt(mean) for mean in self.squares.means]


class _Sums:
    """Sums of several quantities, and the number of values in each."""

    def __init__(self, size: int) -> None:
        self.total, self.count = [0.0] * size, [0] * size

    def add(self, k: int, values: NDArray[np.floating]) -> None:
        self.total[k] += float(values.sum())
        self.count[k] += values.size

    @property
    def means(self) -> list[float | None]:
        """The mean of each quantity; None without values."""
        pairs = zip(self.total, self.count, strict=True)
        return [total / count if count else None for total, count in pairs]
