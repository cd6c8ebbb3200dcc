"""Forecasts that need no training, to stand beside every loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.scaling import Scaling, no_offsets
from seqattn.data.sequences import Floats, Integers, Sequences, stretches
from seqattn.errors import DataError

Rule = Callable[[Floats, Integers, int], Floats]
"""(source (N, S, F), source_lengths (N,), steps T) -> forecast (N, T, F)."""

TRAINING_MEAN = "mean of the training targets"
LAST_POINT = "last source point"
LEAST_SQUARES = "linear least squares (fitted)"


def forecasts(
    train: Sequences, test: Sequences, rule: tuple[str, Rule] | None
) -> dict[str, Floats]:
    """The parameter-free baselines' forecasts of the test targets, (N, T, F) each.

    Args:
        train: what the mean is taken of, target step by target step.
        test: what is forecast.
        rule: name and forecast of the task's own rule, if it has one.
    """
    N, T, F = test.target.shape
    found = {TRAINING_MEAN: np.broadcast_to(_mean_by_step(train, T), (N, T, F))}
    carried = [test.features.index(name) for name in test.said if name in test.features]
    if len(carried) == F:  # else what is to be said was never given
        last = test.source[np.arange(N), test.source_lengths - 1][:, carried]
        found[LAST_POINT] = np.broadcast_to(last[:, None], (N, T, F))
    if rule is not None:
        name, forecast = rule
        found[name] = forecast(test.source, test.source_lengths, T)
    return found


def seasonal_naive(parts: Iterable[Sequences], season: int) -> tuple[str, Rule]:
    """Each point as it was `season` steps before; where that was not given, a season more. The rule
    refuses a shorter source.

    Args:
        parts: all that is to be forecast, of the same features.

    Raises:
        DataError: what is to be said was not given, or a source is shorter than a season.
    """
    part, *_ = parts = tuple(parts)
    places = [part.features.index(name) if name in part.features else -1 for name in part.said]
    if -1 in places:
        raise DataError(
            f"data.season: {part.said[places.index(-1)]!r} is to be said but not given, so there is"
            " no season before to repeat."
        )
    _check_season(season, np.concatenate([each.source_lengths for each in parts]))

    def rule(source: Floats, lengths: Integers, steps: int) -> Floats:
        _check_season(season, lengths)
        back = np.arange(steps) % season - season
        found: Floats = source[np.arange(len(source))[:, None], lengths[:, None] + back]
        return found[:, :, places]

    return f"seasonal naive, {season} steps", rule


def _check_season(season: int, lengths: Integers) -> None:
    shortest = int(lengths.min())
    if shortest < season:
        raise DataError(f"data.season is {season}, but a source may have only {shortest} points.")


def least_squares(
    train: Sequences, test: Sequences, scaling: Scaling | None = None
) -> Floats | None:
    """An affine map from all source points to all target points, fitted on the training part.

    It has parameters, so it is no parameter-free baseline; it says how much of a task is linear.
    Each target cell is fitted to the training sequences in which it was observed. The design is
    centred and scaled, so that neither offset nor unit of a feature costs precision.

    Args:
        scaling: where it is relative, each sequence's last source point is subtracted first and
            added again at the end, as for a model.

    Returns:
        (N, T, F), or None where lengths vary or differ from the training's, since an affine map
        has one shape.
    """
    for part in (train, test):
        if not (part.source_keep.all() and part.target_keep.all()):
            return None
    if train.source.shape[1:] != test.source.shape[1:]:
        return None
    if train.target.shape[1:] != test.target.shape[1:]:
        return None
    trained, tested = _Table(train, scaling), _Table(test, scaling)
    of_inputs, of_outputs = (
        _Columns.of(trained, trained.inputs),
        _Columns.of(trained, trained.outputs),
    )

    def design(table: _Table, at: slice) -> Floats:
        inputs = of_inputs.scaled(table.inputs(at))
        return np.column_stack([inputs, np.ones(len(inputs))])

    def fitted(columns: NDArray[np.int64], all_rows: bool) -> Floats:
        """Weights of target columns, which all rows have or, of one column, some."""
        triangle = np.zeros((0, len(of_inputs.centre) + 1 + len(columns)))
        for at in trained.stretches():
            outputs = of_outputs.scaled(trained.outputs(at))[:, columns]
            rows = np.column_stack([design(trained, at), outputs])
            rows = rows if all_rows else rows[~np.isnan(outputs[:, 0])]
            # The triangle of a QR decomposition stands for all rows before, and is no taller than
            # wide.
            triangle = np.concatenate([triangle, rows])
            if len(triangle) > triangle.shape[1] and at.stop < len(train):
                triangle = np.asarray(np.linalg.qr(triangle, mode="r"))
        width = len(of_inputs.centre) + 1
        found, *_ = np.linalg.lstsq(triangle[:, :width], triangle[:, width:], rcond=None)
        return np.asarray(found)

    weights = np.zeros((len(of_inputs.centre) + 1, len(of_outputs.centre)))
    whole = of_outputs.count == len(train)
    groups = [np.flatnonzero(whole), *(np.array([k]) for k in np.flatnonzero(~whole))]
    for columns in groups:
        if len(columns):
            weights[:, columns] = fitted(columns, bool(whole[columns[0]]))
    said = [of_outputs.unscaled(design(tested, at) @ weights) for at in tested.stretches()]
    forecast = np.concatenate(said).reshape(test.target.shape) + tested.offsets[1]
    never = (of_outputs.count == 0).reshape(test.target.shape[1:])
    forecast[:, never] = _mean_by_step(train, len(never))[never]
    return np.asarray(forecast)


class _Table:
    """A part as inputs and outputs, a sequence a row: what an affine map sees of it.

    Attributes:
        offsets: (N, 1, F) what is subtracted from source and target.
    """

    def __init__(self, part: Sequences, scaling: Scaling | None) -> None:
        self.part = part
        self.offsets = no_offsets(part) if scaling is None else scaling.offsets(part)

    def stretches(self) -> Iterator[slice]:
        for first, rows in stretches(self.part.source):
            yield slice(first, first + len(rows))

    def inputs(self, at: slice) -> Floats:
        """(n, S F)"""
        return self._flat(self.part.source[at] - self.offsets[0][at])

    def outputs(self, at: slice) -> Floats:
        """(n, T F), NaN where a cell was not observed."""
        points = self.part.target[at] - self.offsets[1][at]
        if self.part.target_observed is not None:
            points = np.where(self.part.target_observed[at], points, np.nan)
        return self._flat(points)

    @staticmethod
    def _flat(points: Floats) -> Floats:
        return points.reshape(len(points), -1)


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
    def of(cls, table: _Table, rows: Callable[[slice], Floats]) -> _Columns:
        low, high, count = np.full(1, np.inf), np.full(1, -np.inf), np.zeros(1, dtype=np.int64)
        for at in table.stretches():
            values = rows(at)
            low = np.fmin(low, np.fmin.reduce(values, axis=0))
            high = np.fmax(high, np.fmax.reduce(values, axis=0))
            count = count + (~np.isnan(values)).sum(axis=0)
        low, high = np.where(count > 0, [low, high], 0)
        spread = (high - low) / 2
        rounding = np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        return cls(low + spread, np.where(spread > rounding, spread, np.inf), count)

    def scaled(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre) / self.spread)

    def unscaled(self, values: Floats) -> Floats:
        spread = np.where(np.isinf(self.spread), 0, self.spread)
        return np.asarray(values * spread + self.centre)


def _mean_by_step(part: Sequences, steps: int) -> Floats:
    """(steps, F) mean observed target point of each step; where there is none, of all steps."""
    cells = part.target_cells
    target = part.target if part.target_observed is None else np.where(cells, part.target, 0)
    total, seen = target.sum(axis=0), cells.sum(axis=0)  # padding is 0
    overall = total.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    total, seen = total[:steps], seen[:steps]
    means = np.tile(overall, (steps, 1))
    means[: len(seen)] = np.where(seen > 0, total / np.maximum(seen, 1), overall)
    return means


def mean_squared_error(forecast: Floats, part: Sequences, scale: Floats | None = None) -> float:
    """Mean over all observed target cells.

    Args:
        scale: (F,) what an error counts 1 of; None: the part's units.
    """
    squared = _squared(forecast, part, scale)
    cells = part.target_keep if part.target_observed is None else part.target_observed
    return float(squared[cells].mean())


def errors_by_step(
    forecast: Floats, part: Sequences, scale: Floats | None = None
) -> list[float | None]:
    """Mean squared error of each target step over the cells that were observed, T numbers; None
    where none was."""
    squared, cells = _squared(forecast, part, scale), part.target_observed
    if cells is not None:
        return [_mean(squared[:, t][cells[:, t]]) for t in range(cells.shape[1])]
    squared, keep = squared.mean(axis=-1), part.target_keep
    return [_mean(squared[keep[:, t], t]) for t in range(keep.shape[1])]


def errors_by_feature(forecast: Floats, part: Sequences) -> list[float | None]:
    """Root mean squared error of each target feature over the cells that were observed, in the
    part's units, F numbers; None where none was."""
    squared, cells = _squared(forecast, part, None), part.target_observed
    if cells is not None:
        means = [_mean(squared[..., i][cells[..., i]]) for i in range(cells.shape[2])]
        return [None if mean is None else math.sqrt(mean) for mean in means]
    squared = squared[part.target_keep]
    return [float(error) for error in np.sqrt(squared.mean(axis=0))]


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None


def _squared(forecast: Floats, part: Sequences, scale: Floats | None) -> Floats:
    errors = forecast - part.target
    return np.square(errors if scale is None else errors / scale)
