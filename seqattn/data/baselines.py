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
from seqattn.data.sequences import AT_ONCE, Floats, Integers, Sequences, stretches

Rule = Callable[[Floats, Integers, int], Floats]
"""(source (N, S, F), source_lengths (N,), steps T) -> forecast (N, T, F)."""

TRAINING_MEAN = "mean of the training targets"
LAST_POINT = "last source point"
DRIFT = "drift"
LEAST_SQUARES = "linear least squares (fitted)"


@dataclass(frozen=True)
class Baselines:
    """The parameter-free baselines of a part, and what should be said of one that is not there.

    Attributes:
        made: name -> what makes its forecast (n, T, F) of some sequences of the part.
        notes: sentences.
    """

    made: dict[str, Callable[[Sequences], Floats]]
    notes: tuple[str, ...]

    def forecast(self, name: str, part: Sequences) -> Floats:
        """(N, T, F) of all sequences of the part."""
        return np.concatenate([self.made[name](some) for _, some in part.chunks()])


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


def least_squares(
    train: Sequences, test: Sequences, scaling: Scaling | None = None
) -> Floats | None:
    """An affine map from all source points to all target points, fitted on the training part.

    It has parameters, so it is no parameter-free baseline; it says how much of a task is linear.
    Each target cell is fitted to the training sequences in which it was observed. The design is
    centred and scaled, so that neither offset nor unit of a feature costs precision.

    Args:
        scaling: where each sequence has a shift and a scale of its own, the map is one of what
            they make of source and target, as a model is.

    Returns:
        (N, T, F), or None where lengths vary or differ from the training's, since an affine map
        has one shape.
    """
    alike = (train.source_steps, train.target_steps) == (test.source_steps, test.target_steps)
    if not (alike and train.is_one_shape and test.is_one_shape):
        return None
    trained, tested = _Table(train, scaling), _Table(test, scaling)
    inputs = _Columns.of(rows for rows, _ in trained.stretches())
    outputs = _Columns.of(rows for _, rows in trained.stretches())
    weights = _weights(trained, inputs, outputs)
    never = (outputs.count == 0).reshape(test.target_steps, len(test.said))
    means = _mean_by_step(train, test.target_steps) if never.any() else None
    found = []
    for some, own in tested.parts():
        rows = outputs.unscaled(inputs.design(tested.inputs(some, own[0])) @ weights)
        forecast = own[1].unscaled(rows.reshape(len(some), test.target_steps, len(test.said)))
        if means is not None:
            forecast[:, never] = means[never]
        found.append(forecast)
    return np.concatenate(found)


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
    found: list[Floats] = [np.zeros((0, width + len(columns))) for columns in every]
    for given, said in table.stretches():
        design, targets = inputs.design(given), outputs.scaled(said)
        for k, columns in enumerate(every):
            seen = ~np.isnan(targets[:, columns]).any(axis=1)
            rows = np.column_stack([design[seen], targets[seen][:, columns]])
            rows = np.concatenate([found[k], rows])
            if len(rows) > rows.shape[1] and len(design) < len(table.part):
                rows = np.asarray(np.linalg.qr(rows, mode="r"))
            found[k] = rows
    return found


class _Table:
    """A part as inputs and outputs, a sequence a row: what an affine map sees of it."""

    def __init__(self, part: Sequences, scaling: Scaling | None) -> None:
        self.part, self.scaling = part, scaling or Scaling.identity(part)

    def parts(self) -> Iterator[tuple[Sequences, tuple[Scaler, Scaler]]]:
        """Some sequences, and the own shift and scale of each, of source and target."""
        for _, some in self.part.chunks():
            for first, rows in stretches(some.source):
                here = some.at(slice(first, first + len(rows))) if len(rows) < len(some) else some
                yield here, self.scaling.of_each(here)

    def stretches(self) -> Iterator[tuple[Floats, Floats]]:
        """((n, S F) inputs, (n, T F) outputs) of some sequences."""
        for some, own in self.parts():
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


def mean_squared_error(forecast: Floats, part: Sequences, scale: Floats | None = None) -> float:
    """Mean over all observed target cells.

    Args:
        scale: (F,) or (N, 1, F) what an error counts 1 of; None: the part's units.
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
