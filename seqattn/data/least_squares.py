"""An affine map from sources to targets, fitted on the training part.

Letters: N sequences, n of them that are at hand, S source steps, T target steps, F features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.baselines import LazyForecast, mean_by_step
from seqattn.data.scaling import Scaler, Scaling
from seqattn.data.sequences import AT_ONCE, Floats, Sequences, row_blocks

LEAST_SQUARES = "linear least squares (fitted)"
ENOUGH = 2
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
    trained = _Table(train, scaling)
    inputs = _Columns.of(rows for rows, _ in trained.row_blocks())
    outputs = _Columns.of(rows for _, rows in trained.row_blocks())
    weights = _weights(trained, inputs, outputs)
    never = (outputs.count == 0).reshape(T, F)
    means = mean_by_step(train, T) if never.any() else None

    def forecast(part: Sequences) -> Floats:
        found = np.empty((len(part), T, F))
        for at, some, own in _Table(part, scaling).parts():
            rows = outputs.unscaled(inputs.design(trained.inputs(some, own[0])) @ weights)
            found[at] = own[1].unscaled(rows.reshape(len(some), T, F))
        if means is not None:
            found[:, never] = means[never]
        return found

    return LazyForecast(test, forecast)


def _weights(table: _Table, inputs: _Columns, outputs: _Columns) -> Floats:
    """(S F + 1, T F) of the scaled columns: those that all rows have at once, others one by one,
    from the rows that have them."""
    width = len(inputs.centre) + 1
    found = np.zeros((width, len(outputs.centre)))
    whole = outputs.count == len(table.part)
    every = [columns for columns in (np.flatnonzero(whole), *np.flatnonzero(~whole)[:, None])
             if len(columns)]  # fmt: skip
    at_once = max(1, AT_ONCE // width**2)
    for first in range(0, len(every), at_once):
        some = every[first : first + at_once]
        for columns, triangle in zip(some, _triangles(table, inputs, outputs, some), strict=True):
            solved = np.linalg.lstsq(triangle[:, :width], triangle[:, width:], rcond=None)
            found[:, columns] = solved[0]
    return found


def _triangles(
    table: _Table, inputs: _Columns, outputs: _Columns, every: SequenceOf[NDArray[np.int64]]
) -> list[Floats]:
    """For each set of output columns the rows that have them all, or the triangle of their QR
    decomposition, which stands for them and is no taller than wide."""
    width = len(inputs.centre) + 1
    waiting: list[list[Floats]] = [[] for _ in every]
    for source_rows, target_rows in table.row_blocks():
        design, targets = inputs.design(source_rows), outputs.scaled(target_rows)
        for k, (rows, columns) in enumerate(zip(waiting, every, strict=True)):
            seen = ~np.isnan(targets[:, columns]).any(axis=1)
            rows.append(np.column_stack([design[seen], targets[seen][:, columns]]))
            if k + 1 == len(every):  # NumPy needs three times what it decomposes
                del source_rows, target_rows, design, targets
            if sum(map(len, rows)) > ENOUGH * (width + len(columns)):
                joined = np.concatenate(rows)
                rows.clear()
                rows.append(np.asarray(np.linalg.qr(joined, mode="r")))
                del joined
    return [np.concatenate(rows) for rows in waiting]


class _Table:
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
class _Columns:
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
    def of(cls, row_blocks: Iterable[Floats]) -> _Columns:
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

    def scaled(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre) / self.spread)

    def unscaled(self, values: Floats) -> Floats:
        spread = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(values * spread + self.centre)
