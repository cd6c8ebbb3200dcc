"""Forecasts that need no training, to stand beside every loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.metrics import InSample
from seqattn.data.naive import check_season, drift, last_value, places_of_targets, seasonal_naive
from seqattn.data.scaling import Scaler, Scaling
from seqattn.data.sequences import AT_ONCE, Floats, Forecast, Integers, Sequences, stretches

Rule = Callable[[Floats, Integers, int], Floats]
"""(source (N, S, F), source_lengths (N,), steps T) -> forecast (N, T, F)."""

TRAINING_MEAN = "mean of the training targets"
LAST_POINT = "last source point"
DRIFT = "drift"
LEAST_SQUARES = "linear least squares (fitted)"
ENOUGH = 2
"""Rows for each column, from which on a triangle stands for them."""


@dataclass(frozen=True)
class Made:
    """A forecast of a part that is made where it is asked for.

    Attributes:
        make: the forecast (n, T, F) of some sequences.
    """

    part: Sequences
    make: Callable[[Sequences], Floats]

    def __getitem__(self, places: slice, /) -> Floats:
        """(n, T, F)"""
        return self.make(self.part.at(places))


@dataclass(frozen=True)
class Baselines:
    """The parameter-free baselines of a part, and what should be said of one that is not there.

    Attributes:
        made: name -> what makes its forecast (n, T, F) of some sequences of the part.
        notes: sentences.
    """

    made: dict[str, Callable[[Sequences], Floats]]
    notes: tuple[str, ...]

    def forecast(self, name: str, part: Sequences) -> Made:
        """Of the sequences of the part."""
        return Made(part, self.made[name])


def baselines_of(
    train: Sequences,
    test: Sequences,
    rule: tuple[str, Rule] | None,
    in_sample: InSample | None = None,
) -> Baselines:
    """
    Args:
        train: what the mean is taken of, target step by target step.
        test: what is forecast.
        rule: name and forecast of the task's own rule, if it has one.
        in_sample: of the user's own series: the drift and, with a season, the seasonal naive
            forecast are added.

    Raises:
        DataError: a season that the user gave, and a source that is shorter.
    """
    T = test.target_steps
    means = _mean_by_step(train, T)
    made: dict[str, Callable[[Sequences], Floats]] = {
        TRAINING_MEAN: lambda part: np.repeat(means[None], len(part), axis=0)
    }
    notes = list[str]()
    carried = places_of_targets(test)
    if carried is not None:  # else what is to be said was never given
        made[LAST_POINT] = lambda part: last_value(part, carried)
        if in_sample is not None:
            made[DRIFT] = lambda part: drift(part, carried)
    if in_sample is not None and in_sample.season is not None:
        season, shortest = in_sample.season, int(test.source_lengths.min())
        if in_sample.origin == "given":
            check_season(test, season)
        if carried is None:
            notes.append("no seasonal naive forecast: what is to be said is not given")
        elif shortest < season:
            notes.append(
                f"no seasonal naive forecast: a source has only {shortest} points, the season"
                f" {season}"
            )
        else:
            made[in_sample.seasonal_naive] = lambda part: seasonal_naive(part, carried, season)
    if rule is not None:
        name, forecast = rule
        made[name] = lambda part: forecast(part.source, part.source_lengths, T)
    return Baselines(made, tuple(notes))


def least_squares(train: Sequences, test: Sequences, scaling: Scaling | None = None) -> Made | None:
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
    T, F = test.target_steps, len(test.said)
    alike = (train.source_steps, train.target_steps) == (test.source_steps, T)
    if not (alike and train.is_one_shape and test.is_one_shape):
        return None
    trained = _Table(train, scaling)
    inputs = _Columns.of(rows for rows, _ in trained.stretches())
    outputs = _Columns.of(rows for _, rows in trained.stretches())
    weights = _weights(trained, inputs, outputs)
    never = (outputs.count == 0).reshape(T, F)
    means = _mean_by_step(train, T) if never.any() else None

    def forecast(part: Sequences) -> Floats:
        found = np.empty((len(part), T, F))
        for at, some, own in _Table(part, scaling).parts():
            rows = outputs.unscaled(inputs.design(trained.inputs(some, own[0])) @ weights)
            found[at] = own[1].unscaled(rows.reshape(len(some), T, F))
        if means is not None:
            found[:, never] = means[never]
        return found

    return Made(test, forecast)


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
    for given, said in table.stretches():
        design, targets = inputs.design(given), outputs.scaled(said)
        for rows, columns in zip(waiting, every, strict=True):
            seen = ~np.isnan(targets[:, columns]).any(axis=1)
            rows.append(np.column_stack([design[seen], targets[seen][:, columns]]))
            if sum(map(len, rows)) > ENOUGH * (width + len(columns)):
                rows[:] = [np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))]
    return [np.concatenate(rows) for rows in waiting]


class _Table:
    """A part as inputs and outputs, a sequence a row: what an affine map sees of it."""

    def __init__(self, part: Sequences, scaling: Scaling | None) -> None:
        self.part, self.scaling = part, scaling or Scaling.identity(part)

    def parts(self) -> Iterator[tuple[slice, Sequences, tuple[Scaler, Scaler]]]:
        """Places of some sequences, these, and the own shift and scale of each, of source and
        target."""
        for places, some in self.part.chunks():
            for first, rows in stretches(some.source):
                at = slice(first, first + len(rows))
                here = some.at(at) if len(rows) < len(some) else some
                within = slice(places.start + at.start, places.start + at.stop)
                yield within, here, self.scaling.of_each(here)

    def stretches(self) -> Iterator[tuple[Floats, Floats]]:
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
    def of(cls, stretches: Iterable[Floats]) -> _Columns:
        """
        Args:
            stretches: (n, columns), NaN where a cell was not observed.
        """
        low, high, count = np.full(1, np.inf), np.full(1, -np.inf), np.zeros(1, dtype=np.int64)
        for values in stretches:
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


def _mean_by_step(part: Sequences, steps: int) -> Floats:
    """(steps, F) mean observed target point of each step; where there is none, of all steps."""
    total, seen = np.zeros((1, 1)), np.zeros((1, 1), dtype=np.int64)
    for _, some in part.chunks():
        cells = some.target_cells
        target = some.target if some.target_observed is None else np.where(cells, some.target, 0)
        total, seen = total + target.sum(axis=0), seen + cells.sum(axis=0)  # padding is 0
    overall = total.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    total, seen = total[:steps], seen[:steps]
    means = np.tile(overall, (steps, 1))
    means[: len(seen)] = np.where(seen > 0, total / np.maximum(seen, 1), overall)
    return means


def mean_squared_error(forecast: Forecast, part: Sequences, scale: Floats | None = None) -> float:
    """Mean over all observed target cells.

    Args:
        scale: (F,) or (N, 1, F) what an error counts 1 of; None: the part's units.
    """
    total, count = 0.0, 0
    for squared, cells in _squares(forecast, part, scale):
        seen = squared[cells]
        total, count = total + float(seen.sum()), count + seen.size
    return total / count if count else math.nan


def errors_by_step(
    forecast: Forecast, part: Sequences, scale: Floats | None = None
) -> list[float | None]:
    """Mean squared error of each target step over the cells that were observed, T numbers; None
    where none was."""
    T = part.target_steps
    total, count = [0.0] * T, [0] * T
    for squared, cells in _squares(forecast, part, scale):
        for t in range(T):
            seen = squared[:, t][cells[:, t]]
            total[t], count[t] = total[t] + float(seen.sum()), count[t] + seen.size
    return [_mean(total[t], count[t]) for t in range(T)]


def errors_by_feature(forecast: Forecast, part: Sequences) -> list[float | None]:
    """Root mean squared error of each target feature over the cells that were observed, in the
    part's units, F numbers; None where none was."""
    F = len(part.said)
    total, count = [0.0] * F, [0] * F
    for squared, cells in _squares(forecast, part, None):
        for f in range(F):
            seen = squared[..., f][cells[..., f]]
            total[f], count[f] = total[f] + float(seen.sum()), count[f] + seen.size
    means = [_mean(total[f], count[f]) for f in range(F)]
    return [None if mean is None else math.sqrt(mean) for mean in means]


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def _squares(
    forecast: Forecast, part: Sequences, scale: Floats | None
) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """((n, T, F) squared errors, which of them count) of some sequences after the other."""
    for places, some in part.chunks():
        errors = forecast[places] - some.target
        if scale is not None:
            errors = errors / (scale[places] if scale.ndim == 3 else scale)
        yield np.square(errors), some.target_cells


def verdict(loss: float, baselines: Mapping[str, float], fitted: Mapping[str, float]) -> str:
    """Whether a loss beats its baselines, in words: "beats the best parameter-free baseline
    (NAME, LOSS), but not linear least squares (fitted) (LOSS)".

    Args:
        baselines: parameter-free forecast -> loss, at least one.
        fitted: forecast with fitted parameters -> loss.
    """
    best = min(baselines, key=lambda name: baselines[name])
    beats = loss < baselines[best]
    words = f"{'beats' if beats else 'does not beat'} the best parameter-free baseline"
    words += f" ({best}, {baselines[best]:.4g})"
    if fitted:
        name = min(fitted, key=lambda each: fitted[each])
        also = loss < fitted[name]
        joined = {(True, True): " and", (True, False): ", but not",
                  (False, True): ", but beats", (False, False): " or"}[beats, also]  # fmt: skip
        words += f"{joined} {name} ({fitted[name]:.4g})"
    return words
