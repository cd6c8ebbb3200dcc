"""Forecasts that need no training, to stand beside every loss."""

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

NaiveForecast = Callable[[Floats, Integers, int], Floats]
"""(source (N, S, F), source_lengths (N,), steps T) -> forecast (N, T, F)."""

TRAINING_MEAN = "mean of the training targets"
LAST_POINT = "last source point"
DRIFT = "drift"


@dataclass(frozen=True)
class LazyForecast:
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
    """The parameter-free baselines of a part, and notes on those that are not there.

    Attributes:
        forecasts: name -> what makes its forecast (n, T, F) of some sequences of the part.
        notes: sentences.
    """

    forecasts: dict[str, Callable[[Sequences], Floats]]
    notes: tuple[str, ...]

    def forecast(self, name: str, part: Sequences) -> LazyForecast:
        """Of the sequences of the part."""
        return LazyForecast(part, self.forecasts[name])


def build_baselines(
    train: Sequences,
    test: Sequences,
    rule: tuple[str, NaiveForecast] | None,
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
    means = mean_by_step(train, T)
    forecasts: dict[str, Callable[[Sequences], Floats]] = {
        TRAINING_MEAN: lambda part: np.repeat(means[None], len(part), axis=0)
    }
    notes = list[str]()
    carried = source_columns_of_targets(test)
    if carried is not None:  # else no source has the target features
        forecasts[LAST_POINT] = lambda part: last_value(part, carried)
        if in_sample is not None:
            forecasts[DRIFT] = lambda part: drift(part, carried)
    if in_sample is not None and in_sample.season is not None:
        season, shortest = in_sample.season, int(test.source_lengths.min())
        if in_sample.origin == "given":
            check_season(test, season)
        if carried is None:
            notes.append("no seasonal naive forecast: sources lack a target feature")
        elif shortest < season:
            notes.append(
                f"no seasonal naive forecast: a source has only {shortest} points, the season"
                f" {season}"
            )
        else:
            forecasts[in_sample.seasonal_naive] = lambda part: seasonal_naive(part, carried, season)
    if rule is not None:
        name, forecast = rule
        forecasts[name] = lambda part: forecast(part.source, part.source_lengths, T)
    return Baselines(forecasts, tuple(notes))


def mean_by_step(part: Sequences, steps: int) -> Floats:
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


def forecast_mse(forecast: ForecastLike, part: Sequences, scale: Floats | None = None) -> float:
    """Mean over all observed target cells.

    Args:
        scale: (F,) or (N, 1, F) what an error counts 1 of; None: the part's units.
    """
    return ErrorSums.of(forecast, part, scale).loss


def describe_verdict(
    loss: float, baselines: Mapping[str, float], fitted: Mapping[str, float]
) -> str:
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
