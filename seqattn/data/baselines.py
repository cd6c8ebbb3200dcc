"""Parameter-free baseline forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from seqattn.data.metrics import InSample
from seqattn.data.naive import (
    check_season,
    drift,
    last_value,
    seasonal_naive,
    source_columns_of_targets,
)
from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import Floats, ForecastLike, Integers, Sequences
from seqattn.errors import counted

NaiveForecast = Callable[[Floats, Integers, int], Floats]
"""Function that returns a forecast (N, T, F), given the sources (N, S, F), the source lengths (N,)
and the number of steps T."""

NOISE_FLOOR = "noise floor (lower bound)"
"""The row of the noise floor in a table of losses. A model that sees only noisy sources may not be
able to reach this bound."""
TRAINING_MEAN = "mean of the training targets"
LAST_POINT = "last source point"
DRIFT = "drift"


@dataclass(frozen=True)
class LazyForecast:
    """A forecast for a part of the data set, computed on demand.

    Attributes:
        part: the sequences to forecast.
        make: function that computes the forecast (n, T, F) for n sequences.
    """

    part: Sequences
    make: Callable[[Sequences], Floats]

    def __getitem__(self, indices: slice, /) -> Floats:
        """Return the forecast (n, T, F) for the sequences in a slice."""
        return self.make(self.part.select(indices))


@dataclass(frozen=True)
class Baselines:
    """The parameter-free baselines for a part of the data set, with notes for the user.

    Attributes:
        forecasts: for each baseline name, the function that computes the forecast (n, T, F) for n
            sequences.
        notes: a note if a season is known but the seasonal naive baseline does not apply; otherwise
            empty.
    """

    forecasts: dict[str, Callable[[Sequences], Floats]]
    notes: tuple[str, ...]

    def forecast(self, name: str, part: Sequences) -> LazyForecast:
        """Return the forecast of the baseline `name` for a part of the data set."""
        return LazyForecast(part, self.forecasts[name])


def build_baselines(
    train: Sequences, test: Sequences, rule: tuple[str, NaiveForecast] | None,
    in_sample: InSample | None = None,
) -> Baselines:  # fmt: skip
    """Build the baselines for a test part.

    Args:
        train: the sequences from which the mean of each target step is computed.
        test: the sequences to forecast.
        rule: name and forecast function of the naive baseline of a generated task, or None if the
            task has no naive baseline.
        in_sample: statistics of series from files, or None for generated data. For data from files,
            the baselines include the drift forecast and, if the series have a season, the seasonal
            naive forecast. Both need sources that contain all target features.

    Raises:
        DataError: if the user set a season, but a source is shorter than the season or lacks a
            target feature.
    """
    T = test.target_steps
    means = mean_by_step(train, T)
    forecasts: dict[str, Callable[[Sequences], Floats]] = {
        TRAINING_MEAN: lambda part: np.repeat(means[None], len(part), axis=0)
    }
    notes = list[str]()
    columns = source_columns_of_targets(test)
    if columns is not None:  # None means that the sources lack a target feature
        forecasts[LAST_POINT] = lambda part: last_value(part, columns)
        if in_sample is not None:
            forecasts[DRIFT] = lambda part: drift(part, columns)
    if in_sample is not None and in_sample.season is not None:
        season, shortest = in_sample.season, int(test.source_lengths.min())
        if in_sample.origin == "given":
            check_season(test, season)
        if columns is None:
            notes.append("no seasonal naive forecast: sources lack a target feature")
        elif shortest < season:
            notes.append(
                f"no seasonal naive forecast: a source has only {shortest} points, the season"
                f" {season}"
            )
        else:
            forecasts[in_sample.seasonal_naive] = lambda part: seasonal_naive(part, columns, season)
    if rule is not None:
        name, forecast = rule
        forecasts[name] = lambda part: forecast(part.source, part.source_lengths, T)
    return Baselines(forecasts, tuple(notes))


def mean_by_step(part: Sequences, steps: int) -> Floats:
    """Return the mean of the observed target values at each step, as an array (steps, F).

    If a feature has no observed value at a step, its mean over all steps is returned for this step.
    """
    total, count = np.zeros((1, 1)), np.zeros((1, 1), dtype=np.int64)
    for _, chunk in part.chunks():
        cells = chunk.target_cells
        target = chunk.target if chunk.target_observed is None else np.where(cells, chunk.target, 0)
        # Padding contributes 0 to `total` and to `count`.
        total, count = total + target.sum(axis=0), count + cells.sum(axis=0)
    overall = total.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
    total, count = total[:steps], count[:steps]
    means = np.tile(overall, (steps, 1))
    means[: len(count)] = np.where(count > 0, total / np.maximum(count, 1), overall)
    return means


def forecast_mse(forecast: ForecastLike, part: Sequences, scale: Floats | None = None) -> float:
    """Return the mean squared error of a forecast over all observed target cells.

    Args:
        forecast: (N, T, F) forecast in the units of the targets.
        part: the sequences with the targets.
        scale: divisor of the errors, (F,) or (N, 1, F). If None, the errors keep the units of the
            targets.
    """
    return ErrorSums.of(forecast, part, scale).loss


def describe_standing(
    loss: float, baselines: Mapping[str, float], fitted: Mapping[str, float]
) -> str:
    """Return a sentence that names all baselines that a model does not beat, with their losses.

    If the model beats all baselines, the sentence names the best baseline.

    Args:
        loss: the loss of the model.
        baselines: the losses of one or more parameter-free forecasts, by name.
        fitted: the losses of forecasts with fitted parameters, by name.
    """
    every = sorted([*baselines.items(), *fitted.items()], key=lambda pair: pair[1])
    better = [f"{name} ({other:.4g})" for name, other in every if not loss < other]
    if better:
        of = counted(len(every), "baseline")
        return f"The model loses to {len(better)} of {of}: {', '.join(better)}."
    name, lowest = every[0]
    return f"The model beats every baseline; the best baseline is {name} ({lowest:.4g})."


def render_verdict(loss: float, baselines: Mapping[str, float], fitted: Mapping[str, float]) -> str:
    """Return a phrase that compares a loss with the losses of baselines, such as "beats the best
    parameter-free baseline (NAME, LOSS), but not linear least squares (fitted) (LOSS)".

    Args:
        loss: the loss of the model.
        baselines: the losses of one or more parameter-free forecasts, by name.
        fitted: the losses of forecasts with fitted parameters, by name.
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
