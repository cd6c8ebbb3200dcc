"""Affine maps from sources to targets, fitted on the training part: least squares and ridge.

Ridge regression (Hoerl and Kennard 1970, "Ridge Regression: Biased Estimation for Nonorthogonal
Problems") is least squares with the rows sqrt(penalty) I appended to the design matrix. Both are
solved from the R factor of a QR decomposition, which is updated block by block.

Letters: N sequences, n sequences of a block, S source steps, T target steps, F source features, G
target features, K penalties.
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
"""Rows per column beyond which the R factor of a QR decomposition replaces the rows."""


def least_squares(
    train: Sequences, test: Sequences, scaling: Scaling | None = None
) -> LazyForecast | None:
    """Forecast with an affine map from all source values to all target values.

    The map is fitted on the training part, so this is not a parameter-free baseline; it measures
    how much of a task is linear. Each target cell is fitted to the training sequences in which it
    was observed. The design matrix is centred and scaled, so that offsets and units of features
    cost no precision.

    Args:
        train: the sequences to fit.
        test: the sequences to forecast.
        scaling: its shift and scale per sequence are applied before the map, as for a model.

    Returns:
        the forecast of the test part; None if lengths vary or differ between the two parts, since
        an affine map has fixed sizes.
    """
    T, F = test.target_steps, len(test.target_features)
    alike = (train.source_steps, train.target_steps) == (test.source_steps, T)
    if not (alike and train.has_equal_lengths and test.has_equal_lengths):
        return None
    trained = DesignTable(train, scaling)
    system = LinearSystem.of(trained)
    inputs, outputs = system.inputs, system.outputs
    (weights,) = system.solve((0.0,))
    never = (outputs.count == 0).reshape(T, F)
    means = mean_by_step(train, T) if never.any() else None

    def forecast(part: Sequences) -> Floats:
        found = np.empty((len(part), T, F))
        for at, batch, scalers in DesignTable(part, scaling).parts():
            design = inputs.design(trained.inputs(batch, scalers[0]))
            rows = outputs.inverse_transform(design @ weights)
            found[at] = scalers[1].inverse_transform(rows.reshape(len(batch), T, F))
        if means is not None:
            found[:, never] = means[never]
        return found

    return LazyForecast(test, forecast)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The linear systems of the map from the inputs to the outputs of a table.

    Attributes:
        table: the inputs and outputs.
        inputs, outputs: ranges of their columns.
        sets: indices of the output columns that share one system: all columns without missing cells
            together, and each other column alone.
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
        """(K, S F + 1, T G) weights for the scaled columns, one solution per penalty.

        Args:
            penalties: relative to the mean eigenvalue of the centred Gram matrix of the inputs.
            scaling: the penalty applies to weights in these units; None: in the user's units.
        """
        width = len(self.inputs.centre) + 1
        unit = self.inputs.unit(None if scaling is None else scaling.source)
        found = np.zeros((len(penalties), width, len(self.outputs.centre)))
        at_once = max(1, MAX_BLOCK_VALUES // width**2)
        for first in range(0, len(self.sets), at_once):
            batch = self.sets[first : first + at_once]
            for columns, triangle in zip(batch, self._triangles(batch), strict=True):
                for k, penalty in enumerate(penalties):
                    found[k][:, columns] = _solve(triangle, width, penalty, unit)
        return found

    def _triangles(self, every: SequenceOf[NDArray[np.int64]]) -> list[Floats]:
        """For each set of output columns the rows that have all of them, or the R factor of their
        QR decomposition, which has no more rows than columns and the same solution."""
        width = len(self.inputs.centre) + 1
        pending: list[list[Floats]] = [[] for _ in every]
        for source_rows, target_rows in self.table.row_blocks():
            design, targets = self.inputs.design(source_rows), self.outputs.transform(target_rows)
            for k, (rows, columns) in enumerate(zip(pending, every, strict=True)):
                observed = ~np.isnan(targets[:, columns]).any(axis=1)
                rows.append(np.column_stack([design[observed], targets[observed][:, columns]]))
                if k + 1 == len(every):  # NumPy needs three times the memory of the matrix
                    del source_rows, target_rows, design, targets
                if sum(map(len, rows)) > MAX_ROWS_PER_COLUMN * (width + len(columns)):
                    joined = np.concatenate(rows)
                    rows.clear()
                    rows.append(np.asarray(np.linalg.qr(joined, mode="r")))
                    del joined
        return [np.concatenate(rows) for rows in pending]


def _solve(triangle: Floats, width: int, penalty: float, unit: Floats) -> Floats:
    """(width, columns) solution of one system.

    Args:
        triangle: (n, width + columns) scaled inputs, a column of ones, and outputs; or the R factor
            of these.
        width: number of inputs, plus one for the column of ones.
        penalty: see `LinearSystem.solve`.
        unit: (width - 1,) length of a scaled input's unit in the units of the penalty.
    """
    rows = float(np.square(triangle[:, width - 1]).sum())
    if penalty and rows:
        below = np.zeros((width - 1, triangle.shape[1]))
        weights = _penalty_weights(triangle[:, :width], rows, unit)
        np.fill_diagonal(below, np.sqrt(penalty) * weights)
        triangle = np.vstack([triangle, below])
    return np.asarray(np.linalg.lstsq(triangle[:, :width], triangle[:, width:], rcond=None)[0])


def _penalty_weights(design: Floats, rows: float, unit: Floats) -> Floats:
    """(width - 1,) factors of the weights in a penalty of 1: the square root of the mean eigenvalue
    of the centred Gram matrix, in the units of the scaled columns.

    Args:
        design: (n, width) inputs and a column of ones, or their R factor.
        rows: number of rows before the decomposition.
        unit: see `_solve`.
    """
    inputs, ones = design[:, :-1], design[:, -1]
    widest = unit.max(initial=0)
    share = unit / widest if widest else unit  # so that no square overflows
    squares = np.square(inputs).sum(axis=0) - np.square(ones @ inputs) / rows
    eigenvalue = (np.maximum(squares, 0) * np.square(share)).mean()
    found = np.divide(np.sqrt(eigenvalue), share, where=share > 0, out=np.ones_like(share))
    return np.asarray(found)


class DesignTable:
    """A part as a table of inputs and outputs with one row per sequence."""

    def __init__(self, part: Sequences, scaling: Scaling | None) -> None:
        self.part, self.scaling = part, scaling or Scaling.identity(part)

    def parts(self) -> Iterator[tuple[slice, Sequences, tuple[Scaler, Scaler]]]:
        """Yields (slice of indices, sequences, (source scaler, target scaler) per sequence)."""
        for indices, batch in self.part.chunks():
            for first, rows in row_blocks(batch.source):
                at = slice(first, first + len(rows))
                block = batch.select(at) if len(rows) < len(batch) else batch
                within = slice(indices.start + at.start, indices.start + at.stop)
                yield within, block, self.scaling.sequence_scalers(block)

    def row_blocks(self) -> Iterator[tuple[Floats, Floats]]:
        """Yields ((n, S F) inputs, (n, T G) outputs), block by block."""
        for _, batch, scalers in self.parts():
            yield self.inputs(batch, scalers[0]), self.outputs(batch, scalers[1])

    def inputs(self, part: Sequences, per_sequence: Scaler) -> Floats:
        """(n, S F) the scaled sources, one row per sequence."""
        return self._flat(per_sequence.transform(part.source))

    def outputs(self, part: Sequences, per_sequence: Scaler) -> Floats:
        """(n, T G) the scaled targets, one row per sequence; NaN where a cell was not observed."""
        points = per_sequence.transform(part.target)
        if part.target_observed is not None:
            points = np.where(part.target_observed, points, np.nan)
        return self._flat(points)

    @staticmethod
    def _flat(points: NDArray[np.floating]) -> Floats:
        return np.asarray(points.reshape(len(points), -1), dtype=np.float64)


@dataclass(frozen=True)
class ColumnRanges:
    """The range of each column of a table, and its number of observed rows.

    Attributes:
        centre, spread: (columns,) centre and half width of the range; the spread is infinite where
            a column varies by rounding at most, which scales it to 0.
        count: (columns,) observed rows.
    """

    centre: Floats
    spread: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, row_blocks: Iterable[Floats]) -> ColumnRanges:
        """The ranges of the columns of all blocks.

        Args:
            row_blocks: (n, columns) each, NaN where a cell was not observed.
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
        """(n, columns + 1) the scaled columns and a column of ones."""
        return np.column_stack([self.transform(values), np.ones(len(values))])

    def unit(self, scaler: Scaler | None) -> Floats:
        """(columns,) length of a scaled column's unit in the units of a scaler; 0 where the column
        varies by rounding at most.

        Args:
            scaler: of the features, which repeat along the columns; None: the identity.
        """
        unit = np.where(np.isinf(self.spread), 0, self.spread)
        return unit if scaler is None else unit / self.tile(scaler.scale)

    def tile(self, by_feature: Floats) -> Floats:
        """Repeat values (features,) along the columns: (columns,)."""
        return np.tile(by_feature, len(self.centre) // len(by_feature))

    def transform(self, values: Floats) -> Floats:
        """Scale columns to the range -1 to 1."""
        return np.asarray((values - self.centre) / self.spread)

    def inverse_transform(self, values: Floats) -> Floats:
        """Scale columns back to their range."""
        spread = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(values * spread + self.centre)
