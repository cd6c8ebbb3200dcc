"""Affine maps from sources to targets, fitted on the training part: least squares, and ridge.

Ridge regression (Hoerl and Kennard 1970, "Ridge Regression: Biased Estimation for Nonorthogonal
Problems") is least squares with rows sqrt(penalty) I below the design. Both are solved from the
triangle of a QR decomposition, which is made some sequences at a time.

Letters: N sequences, n of them that are at hand, S source steps, T target steps, F features of a
source point, G of a target point, K penalties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.baselines import LazyForecast, mean_by_step
from seqattn.data.scaling import Scaler, Scaling
from seqattn.data.sequences import MAX_BLOCK_VALUES, Floats, Sequences, row_blocks

LEAST_SQUARES = "linear least squares (fitted)"
MAX_ROWS_PER_COLUMN = 2
"""Rows for each column, from which on a triangle stands for them."""


def least_squares(
    train: Sequences, test: Sequences, scaling: Scaling | None = None
) -> LazyForecast | None:
    """An affine map from all source points to all target points, fitted on the training part.

    It has parameters, so it is no parameter-free baseline; it says how much of a task is linear.
    Each target cell is fitted to the training sequences in which it was observed. The design is
    centred and scaled, so that neither offset nor unit of a feature costs precision.

    Args:
        scaling: where each sequence has a shift and a scale of its own, the map is one of what
            they make of source and target, as a model is.

    Returns:
        the forecast of the test part, or None where lengths vary or differ from the training's,
        since an affine map has one shape.
    """
    T, F = test.target_steps, len(test.target_features)
    alike = (train.source_steps, train.target_steps) == (test.source_steps, T)
    if not (alike and train.is_one_shape and test.is_one_shape):
        return None
    trained = DesignTable(train, scaling)
    system = LinearSystem.of(trained)
    inputs, outputs = system.inputs, system.outputs
    (weights,) = system.solve((0.0,))
    never = (outputs.count == 0).reshape(T, F)
    means = mean_by_step(train, T) if never.any() else None

    def forecast(part: Sequences) -> Floats:
        found = np.empty((len(part), T, F))
        for at, some, own in DesignTable(part, scaling).parts():
            rows = outputs.unscaled(inputs.design(trained.inputs(some, own[0])) @ weights)
            found[at] = own[1].unscaled(rows.reshape(len(some), T, F))
        if means is not None:
            found[:, never] = means[never]
        return found

    return LazyForecast(test, forecast)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The linear systems of a table's map.

    Attributes:
        inputs, outputs: ranges of the table's columns.
        sets: places of output columns that are solved for at once, from the same rows: those that
            all rows have, and each of the others.
    """

    table: DesignTable
    inputs: ColumnRanges
    outputs: ColumnRanges
    sets: list[NDArray[np.int64]]

    @classmethod
    def of(cls, table: DesignTable) -> LinearSystem:
        inputs = ColumnRanges.of(rows for rows, _ in table.row_blocks())
        outputs = ColumnRanges.of(rows for _, rows in table.row_blocks())
        whole = outputs.count == len(table.part)
        every = [np.flatnonzero(whole), *np.flatnonzero(~whole)[:, None]]
        return cls(table, inputs, outputs, [columns for columns in every if len(columns)])

    def solve(self, penalties: SequenceOf[float], scaling: Scaling | None = None) -> Floats:
        """(K, S F + 1, T G) of the scaled columns.

        Args:
            penalties: shares of the mean eigenvalue of the centred Gram matrix of the inputs.
            scaling: of the units that weights have a penalty in.
        """
        width = len(self.inputs.centre) + 1
        unit = self.inputs.unit(None if scaling is None else scaling.source)
        found = np.zeros((len(penalties), width, len(self.outputs.centre)))
        at_once = max(1, MAX_BLOCK_VALUES // width**2)
        for first in range(0, len(self.sets), at_once):
            some = self.sets[first : first + at_once]
            for columns, triangle in zip(some, self._triangles(some), strict=True):
                for k, penalty in enumerate(penalties):
                    found[k][:, columns] = _solve(triangle, width, penalty, unit)
        return found

    def _triangles(self, every: SequenceOf[NDArray[np.int64]]) -> list[Floats]:
        """For each set of output columns the rows that have them all, or the triangle of their QR
        decomposition, which stands for them and is no taller than wide."""
        width = len(self.inputs.centre) + 1
        waiting: list[list[Floats]] = [[] for _ in every]
        for source_rows, target_rows in self.table.row_blocks():
            design, targets = self.inputs.design(source_rows), self.outputs.scaled(target_rows)
            for k, (rows, columns) in enumerate(zip(waiting, every, strict=True)):
                seen = ~np.isnan(targets[:, columns]).any(axis=1)
                rows.append(np.column_stack([design[seen], targets[seen][:, columns]]))
                if k + 1 == len(every):  # NumPy needs three times what it decomposes
                    del source_rows, target_rows, design, targets
                if sum(map(len, rows)) > MAX_ROWS_PER_COLUMN * (width + len(columns)):
                    joined = np.concatenate(rows)
                    rows.clear()
                    rows.append(np.asarray(np.linalg.qr(joined, mode="r")))
                    del joined
        return [np.concatenate(rows) for rows in waiting]


def _solve(triangle: Floats, width: int, penalty: float, unit: Floats) -> Floats:
    """(width, columns) solution of one system.

    Args:
        triangle: (n, width + columns) scaled inputs, the last of them ones, and outputs; or the
            triangle that stands for them.
        penalty: see `LinearSystem.solve`.
        unit: (width - 1,) what 1 of a scaled input is in the units of the penalty.
    """
    rows = float(np.square(triangle[:, width - 1]).sum())
    if penalty and rows:
        below = np.zeros((width - 1, triangle.shape[1]))
        weights = _penalty_weights(triangle[:, :width], rows, unit)
        np.fill_diagonal(below, np.sqrt(penalty) * weights)
        triangle = np.vstack([triangle, below])
    return np.asarray(np.linalg.lstsq(triangle[:, :width], triangle[:, width:], rcond=None)[0])


def _penalty_weights(design: Floats, rows: float, unit: Floats) -> Floats:
    """(width - 1,) what weights are multiplied with in a penalty of 1: the square root of the mean
    eigenvalue of the centred Gram matrix, in the units of the scaled columns.

    Args:
        rows: how many the design, or its triangle, stands for.
    """
    inputs, ones = design[:, :-1], design[:, -1]
    widest = unit.max(initial=0)
    share = unit / widest if widest else unit  # so that no square overflows
    squares = np.square(inputs).sum(axis=0) - np.square(ones @ inputs) / rows
    eigenvalue = (np.maximum(squares, 0) * np.square(share)).mean()
    found = np.divide(np.sqrt(eigenvalue), share, where=share > 0, out=np.ones_like(share))
    return np.asarray(found)


class DesignTable:
    """A part as inputs and outputs, a sequence a row: what an affine map sees of it."""

    def __init__(self, part: Sequences, scaling: Scaling | None) -> None:
        self.part, self.scaling = part, scaling or Scaling.identity(part)

    def parts(self) -> Iterator[tuple[slice, Sequences, tuple[Scaler, Scaler]]]:
        """Places of some sequences, these, and the own shift and scale of each, of source and
        target."""
        for places, some in self.part.chunks():
            for first, rows in row_blocks(some.source):
                at = slice(first, first + len(rows))
                here = some.at(at) if len(rows) < len(some) else some
                within = slice(places.start + at.start, places.start + at.stop)
                yield within, here, self.scaling.of_each(here)

    def row_blocks(self) -> Iterator[tuple[Floats, Floats]]:
        """((n, S F) inputs, (n, T F) outputs) of some sequences."""
        for _, some, own in self.parts():
            yield self.inputs(some, own[0]), self.outputs(some, own[1])

    def inputs(self, part: Sequences, own: Scaler) -> Floats:
        """(n, S F)"""
        return self._flat(own.scaled(part.source))

    def outputs(self, part: Sequences, own: Scaler) -> Floats:
        """(n, T F), NaN where a cell was not observed."""
        points = own.scaled(part.target)
        if part.target_observed is not None:
            points = np.where(part.target_observed, points, np.nan)
        return self._flat(points)

    @staticmethod
    def _flat(points: NDArray[np.floating]) -> Floats:
        return np.asarray(points.reshape(len(points), -1), dtype=np.float64)


@dataclass(frozen=True)
class ColumnRanges:
    """The range of each column of a table, and how many rows have it.

    Attributes:
        centre, spread: (columns,) middle and half of the range; the spread is infinite where a
            column varies by rounding at most, so that it is scaled to 0.
        count: (columns,) observed rows.
    """

    centre: Floats
    spread: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, row_blocks: Iterable[Floats]) -> ColumnRanges:
        """
        Args:
            row_blocks: (n, columns), NaN where a cell was not observed.
        """
        low, high, count = np.full(1, np.inf), np.full(1, -np.inf), np.zeros(1, dtype=np.int64)
        for values in row_blocks:
            low = np.fmin(low, np.fmin.reduce(values, axis=0))
            high = np.fmax(high, np.fmax.reduce(values, axis=0))
            count = count + (~np.isnan(values)).sum(axis=0)
        low, high = np.where(count > 0, [low, high], 0)
        spread = (high - low) / 2
        rounding = np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        return cls(low + spread, np.where(spread > rounding, spread, np.inf), count)

    def design(self, values: Floats) -> Floats:
        """Scaled columns, and one of ones."""
        return np.column_stack([self.scaled(values), np.ones(len(values))])

    def unit(self, scaler: Scaler | None) -> Floats:
        """(columns,) what 1 of a scaled column is in the units that a scaler makes; 0 where the
        column varies by rounding at most.

        Args:
            scaler: of the features, which repeat along the columns; None: it changes nothing.
        """
        unit = np.where(np.isinf(self.spread), 0, self.spread)
        return unit if scaler is None else unit / self.tiled(scaler.scale)

    def tiled(self, by_feature: Floats) -> Floats:
        """(columns,) of (features,)."""
        return np.tile(by_feature, len(self.centre) // len(by_feature))

    def scaled(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre) / self.spread)

    def unscaled(self, values: Floats) -> Floats:
        spread = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(values * spread + self.centre)
