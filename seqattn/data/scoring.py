"""Sums of the squared and absolute errors of a forecast, accumulated chunk by chunk.

In shapes, N is the number of sequences, n the number of sequences in a chunk, T the target length
and F the number of target features.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, ForecastLike, Sequences


class ErrorSums:
    """Sums of the squared and absolute errors of a forecast over the observed target cells.

    The sums of the chunks are added in order. The same division into chunks therefore gives the
    same sums, bit for bit.

    Args:
        part: the sequences to forecast.
        scale: divisor of the errors in `loss` and `by_step`, (F,) or (N, 1, F). If None, the errors
            keep the units of the targets.
        by_step: whether to accumulate the errors of each target step for the property `by_step`.
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
        """Compute the sums over a whole part.

        Args:
            forecast: (N, T, F) forecast in the units of the targets.
            part: the sequences with the targets.
            scale: divisor of the errors, as described for the class.
            by_step: whether to accumulate the errors of each target step.
        """
        found = cls(part, scale, by_step=by_step)
        for indices, chunk in part.chunks():
            found.add(indices, chunk, forecast[indices])
        return found

    def add(self, indices: slice, chunk: Sequences, forecast: Floats) -> None:
        """Add the errors of n sequences.

        Args:
            indices: slice of the n sequences within the part.
            chunk: the n sequences.
            forecast: (n, T, F) forecast in the units of the targets.
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
        """Mean squared error over all observed target cells, or NaN if there are none."""
        return self.total / self.count if self.count else math.nan

    @property
    def by_step(self) -> list[float | None]:
        """Mean squared error of each target step, or None for a step without observed cells. The
        list is empty if the class was created without `by_step`."""
        return self.steps.means

    @property
    def mae(self) -> list[float | None]:
        """Mean absolute error of each target feature in the units of the targets, or None for a
        feature without observed cells."""
        return self.absolute.means

    @property
    def rmse(self) -> list[float | None]:
        """Root mean squared error of each target feature in the units of the targets, or None for a
        feature without observed cells."""
        return [None if mean is None else math.sqrt(mean) for mean in self.squares.means]

    @property
    def measures(self) -> dict[str, list[float | None]]:
        """MAE and RMSE of each target feature in the units of the targets."""
        return {"mae": self.mae, "rmse": self.rmse}


class _Sums:
    """Sums of several quantities, with the number of values in each sum."""

    def __init__(self, size: int) -> None:
        self.total, self.count = [0.0] * size, [0] * size

    def add(self, k: int, values: NDArray[np.floating]) -> None:
        self.total[k] += float(values.sum())
        self.count[k] += values.size

    @property
    def means(self) -> list[float | None]:
        """Mean of each quantity, or None for a quantity without values."""
        pairs = zip(self.total, self.count, strict=True)
        return [total / count if count else None for total, count in pairs]
