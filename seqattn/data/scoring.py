"""Errors of a forecast, added up some sequences at a time.

Letters: N sequences, n of them that are at hand, T target steps, F target features.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, ForecastLike, Sequences


class ErrorSums:
    """Sums of the errors of a forecast over the observed target cells of a part.

    What is added together is added by NumPy, and these sums in the order in which they come, so
    that the same chunks of a part always have the same sums, to the last bit.

    Args:
        part: whose forecast it is.
        scale: (F,) or (N, 1, F) what an error counts 1 of in `loss` and `by_step`; None: the part's
            units.
        by_step: whether `by_step` is asked for.
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
        """Of a whole part.

        Args:
            forecast: (N, T, F) in the part's units.
        """
        found = cls(part, scale, by_step=by_step)
        for places, some in part.chunks():
            found.add(places, some, forecast[places])
        return found

    def add(self, places: slice, some: Sequences, forecast: Floats) -> None:
        """Take in some sequences.

        Args:
            places: of the n sequences within the part.
            some: these sequences.
            forecast: (n, T, F) in the part's units.
        """
        cells, errors = some.target_cells, forecast - some.target
        for f in range(len(self.squares.total)):
            seen = errors[..., f][cells[..., f]]
            self.squares.add(f, np.square(seen))
            self.absolute.add(f, np.abs(seen))
        if self.scale is not None:
            errors = errors / (self.scale[places] if self.scale.ndim == 3 else self.scale)
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
        """Mean absolute error of each target feature, in the part's units; None likewise."""
        return self.absolute.means

    @property
    def rmse(self) -> list[float | None]:
        """Root mean squared error of each target feature, in the part's units; None likewise."""
        return [None if mean is None else math.sqrt(mean) for mean in self.squares.means]


class _Sums:
    """Sums of several quantities, and how many values each is of."""

    def __init__(self, size: int) -> None:
        self.total, self.count = [0.0] * size, [0] * size

    def add(self, k: int, values: NDArray[np.floating]) -> None:
        self.total[k] += float(values.sum())
        self.count[k] += values.size

    @property
    def means(self) -> list[float | None]:
        """None where there is no value."""
        pairs = zip(self.total, self.count, strict=True)
        return [total / count if count else None for total, count in pairs]
