"""Affine maps from sources to targets, fitted by least squares or ridge regression.

Ridge regression (Hoerl and Kennard 1970, "Ridge Regression: Biased Estimation for Nonorthogonal
Problems") is least squares on an extended design matrix: the rows of sqrt(penalty) times the
identity matrix are appended, and the target of each appended row is 0. If there are many rows,
both methods keep only the R factor of a QR decomposition, which is updated block by block.

In shapes, N is the number of sequences, n the number of sequences in a block, S the source length,
T the target length, F the number of source features, G the number of target features and K the
number of penalties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.baselines import LazyForecast, mean_by_step
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import MAX_BLOCK_VALUES, Floats, Scaler, row_blocks

LEAST_SQUARES = "linear least squares (fitted)"
MAX_ROWS_PER_COLUMN = 2
"""Number of rows per column above which the R factor of a QR decomposition replaces the rows."""
RANK_TOLERANCE = 1e-10
"""Ratio of the smallest to the largest diagonal element of an R factor. Above this ratio, the
matrix counts as having full rank."""


def least_squares(train: Sequences, test: Sequences) -> LazyForecast | None:
    """Forecast with an affine map from all source values to all target values.

    The map is fitted to the training part, so this forecast is not a parameter-free baseline. The
    error of the forecast shows how well a linear map solves the task. Each target cell is fitted to
    the training sequences in which this cell was observed. The design matrix is centered and
    scaled, so that offsets and units of features do not reduce the precision. The first stage of
    the scaling, with a shift and a scale per sequence, is applied before the map, just as it is
    applied before a model.

    Args:
        train: the sequences to which the map is fitted.
        test: the sequences to forecast.

    Returns:
        the forecast of the test part, or None if the lengths vary within a part or differ between
        the two parts, because an affine map has fixed sizes.
    """
    T, F = test.target_steps, len(test.target_features)
    alike = (train.source_steps, train.target_steps) == (test.source_steps, T)
    if not (alike and train.has_equal_lengths and test.has_equal_lengths):
        return None
    system = LinearSystem.of(train)
    inputs, outputs = system.inputs, system.outputs
    (weights,) = system.solve((0.0,))
    never = (outputs.count == 0).reshape(T, F)
    means = mean_by_step(train, T) if never.any() else None

    def forecast(part: Sequences) -> Floats:
        found = np.empty((len(part), T, F))
        for at, batch, scalers in scaled_blocks(part):
            design = inputs.design(_flat(scalers[0].transform(batch.source)))
            rows = outputs.inverse_transform(design @ weights)
            found[at] = scalers[1].inverse_transform(rows.reshape(len(batch), T, F))
        if means is not None:
            found[:, never] = means[never]
        return found

    return LazyForecast(test, forecast)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The linear systems that determine the map from the scaled sources to the scaled targets.

    Attributes:
        part: the sequences to which the map is fitted, each of which is a row of a table.
        inputs: ranges of the input columns.
        outputs: ranges of the output columns.
        sets: indices of the output columns that share one system. All columns without missing cells
            form one set, and each of the other columns forms its own set.
    """

    part: Sequences
    inputs: ColumnRanges
    outputs: ColumnRanges
    sets: list[NDArray[np.int64]]

    @classmethod
    def of(cls, part: Sequences) -> LinearSystem:
        inputs = ColumnRanges.of(rows for rows, _ in _table_rows(part))
        outputs = ColumnRanges.of(rows for _, rows in _table_rows(part))
        whole = outputs.count == len(part)
        every = [np.flatnonzero(whole), *np.flatnonzero(~whole)[:, None]]
        return cls(part, inputs, outputs, [columns for columns in every if len(columns)])

    def solve(self, penalties: SequenceOf[float]) -> Floats:
        """Return weights (K, S * F + 1, T * G) for the scaled columns, one solution per penalty.

        Args:
            penalties: ridge penalties, relative to the mean eigenvalue of the centered Gram matrix
                of the inputs. The penalized weights are in the units of the model.
        """
        width = len(self.inputs.centre) + 1
        unit = self.inputs.unit(self.part.source_space.scale)
        found = np.zeros((len(penalties), width, len(self.outputs.centre)))
        at_once = max(1, MAX_BLOCK_VALUES // width**2)
        for first in range(0, len(self.sets), at_once):
            batch = self.sets[first : first + at_once]
            for columns, triangle in zip(batch, self._triangles(batch), strict=True):
                for k, penalty in enumerate(penalties):
                    found[k][:, columns] = _solve(triangle, width, penalty, unit)
        return found

    def _triangles(self, every: SequenceOf[NDArray[np.int64]]) -> list[Floats]:
        """Return one matrix for each set of output columns.

        The matrix consists of the rows in which all columns of the set were observed. When many
        rows have accumulated, the R factor of their QR decomposition replaces them. A system with
        the R factor has the same solution, and the R factor has at most as many rows as columns.
        """
        width = len(self.inputs.centre) + 1
        pending: list[list[Floats]] = [[] for _ in every]
        for source_rows, target_rows in _table_rows(self.part):
            design, targets = self.inputs.design(source_rows), self.outputs.transform(target_rows)
            for k, (rows, columns) in enumerate(zip(pending, every, strict=True)):
                observed = ~np.isnan(targets[:, columns]).any(axis=1)
                rows.append(np.column_stack([design[observed], targets[observed][:, columns]]))
                # The QR decomposition needs three times the memory of `joined`.
                if k + 1 == len(every):
                    del source_rows, target_rows, design, targets
                if sum(map(len, rows)) > MAX_ROWS_PER_COLUMN * (width + len(columns)):
                    joined = np.concatenate(rows)
                    rows.clear()
                    rows.append(np.asarray(np.linalg.qr(joined, mode="r")))
                    del joined
        return [np.concatenate(rows) for rows in pending]


def _solve(triangle: Floats, width: int, penalty: float, unit: Floats) -> Floats:
    """Return the solution (width, columns) of one linear system.

    Args:
        triangle: (n, width + columns) scaled inputs, a column of ones and the outputs, or the R
            factor of this matrix.
        width: number of inputs, plus 1 for the column of ones.
        penalty: ridge penalty as in `LinearSystem.solve`.
        unit: (width - 1,) size of one unit of each scaled input, in the units in which weights are
            penalized.
    """
    rows = float(np.square(triangle[:, width - 1]).sum())
    if penalty and rows:
        below = np.zeros((width - 1, triangle.shape[1]))
        weights = _penalty_weights(triangle[:, :width], rows, unit)
        np.fill_diagonal(below, np.sqrt(penalty) * weights)
        triangle = np.vstack([triangle, below])
        factor = np.asarray(np.linalg.qr(triangle, mode="r"))[:width]
        diagonal = np.abs(np.diag(factor[:, :width]))
        if diagonal.min() > RANK_TOLERANCE * diagonal.max():  # full rank: an SVD is not necessary
            return np.asarray(np.linalg.solve(factor[:, :width], factor[:, width:]))
    return np.asarray(np.linalg.lstsq(triangle[:, :width], triangle[:, width:], rcond=None)[0])


def _penalty_weights(design: Floats, rows: float, unit: Floats) -> Floats:
    """Return the diagonal (width - 1,) of the matrix that represents a penalty of 1. This matrix is
    appended to the design matrix.

    There is one element per scaled input column. Each element is the square root of the mean
    eigenvalue of the centered Gram matrix of the inputs, converted to the units of its column.

    Args:
        design: (n, width) inputs and a column of ones, or the R factor of this matrix.
        rows: number of rows before the QR decomposition.
        unit: (width - 1,) size of one unit of each scaled input, in the units in which weights are
            penalized.
    """
    inputs, ones = design[:, :-1], design[:, -1]
    widest = unit.max(initial=0)
    share = unit / widest if widest else unit  # prevents overflow of the squares
    squares = np.square(inputs).sum(axis=0) - np.square(ones @ inputs) / rows
    eigenvalue = (np.maximum(squares, 0) * np.square(share)).mean()
    found = np.divide(np.sqrt(eigenvalue), share, where=share > 0, out=np.ones_like(share))
    return np.asarray(found)


def scaled_blocks(part: Sequences) -> Iterator[tuple[slice, Sequences, tuple[Scaler, Scaler]]]:
    """Yield triples (slice of indices, sequences, (source scaler, target scaler)). The scalers have
    one shift and one scale per sequence."""
    for indices, batch in part.chunks():
        for first, rows in row_blocks(batch.source):
            at = slice(first, first + len(rows))
            block = batch.select(at) if len(rows) < len(batch) else batch
            within = slice(indices.start + at.start, indices.start + at.stop)
            yield within, block, block.sequence_scalers()


def _table_rows(part: Sequences) -> Iterator[tuple[Floats, Floats]]:
    """Yield the scaled sources (n, S * F) and targets (n, T * G), block by block, with one row per
    sequence. Unobserved target cells are NaN."""
    for _, batch, scalers in scaled_blocks(part):
        target = scalers[1].transform(batch.target)
        if batch.target_observed is not None:
            target = np.where(batch.target_observed, target, np.nan)
        yield _flat(scalers[0].transform(batch.source)), _flat(target)


def _flat(points: NDArray[np.floating]) -> Floats:
    return np.asarray(points.reshape(len(points), -1), dtype=np.float64)


@dataclass(frozen=True)
class ColumnRanges:
    """The range of each column of a table, and the number of observed rows in each column.

    Attributes:
        centre: (columns,) center of the range.
        spread: (columns,) half the width of the range. The spread is infinite if the column varies
            at most by rounding, so that the scaled column is 0.
        count: (columns,) number of observed rows.
    """

    centre: Floats
    spread: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, row_blocks: Iterable[Floats]) -> ColumnRanges:
        """Compute the ranges of the columns over all blocks.

        Args:
            row_blocks: arrays (n, columns) with NaN in unobserved cells.
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
        """Return the scaled columns and a column of ones as an array (n, columns + 1)."""
        return np.column_stack([self.transform(values), np.ones(len(values))])

    def unit(self, of_features: Floats) -> Floats:
        """Return an array (columns,) with the size of one unit of each scaled column, in units of
        the features. The size is 0 if the column varies at most by rounding.

        Args:
            of_features: (features,) size of one unit of each feature. The features repeat along the
                columns.
        """
        unit = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(unit / self.tile(of_features))

    def tile(self, by_feature: Floats) -> Floats:
        """Repeat the values (features,) along the columns, and return an array (columns,)."""
        return np.tile(by_feature, len(self.centre) // len(by_feature))

    def transform(self, values: Floats) -> Floats:
        """Scale the columns to the range -1 to 1."""
        return np.asarray((values - self.centre) / self.spread)

    def inverse_transform(self, values: Floats) -> Floats:
        """Scale the columns back to their original range."""
        spread = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(values * spread + self.centre)
