"""Forecasts that need no training, to stand beside every loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from seqattn.data.sequences import Floats, Integers, Sequences

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
    last = test.source[np.arange(N), test.source_lengths - 1]
    found = {
        TRAINING_MEAN: np.broadcast_to(_mean_by_step(train, T), (N, T, F)),
        LAST_POINT: np.broadcast_to(last[:, None], (N, T, F)),
    }
    if rule is not None:
        name, forecast = rule
        found[name] = forecast(test.source, test.source_lengths, T)
    return found


def least_squares(train: Sequences, test: Sequences) -> Floats | None:
    """An affine map from all source points to all target points, fitted on the training part.

    It has parameters, so it is no parameter-free baseline; it says how much of a task is linear.

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

    def design(part: Sequences) -> Floats:
        return np.column_stack([part.source.reshape(len(part), -1), np.ones(len(part))])

    weights, *_ = np.linalg.lstsq(design(train), train.target.reshape(len(train), -1), rcond=None)
    return (design(test) @ weights).reshape(len(test), *train.target.shape[1:])


def _mean_by_step(part: Sequences, steps: int) -> Floats:
    """(steps, F) mean real target point of each step; where there is none, of all steps."""
    means = np.tile(part.target[part.target_keep].mean(axis=0), (steps, 1))
    seen = part.target_keep.sum(axis=0)[:steps]
    known = np.flatnonzero(seen)
    means[known] = part.target.sum(axis=0)[known] / seen[known, None]  # padding is 0
    return means


def mean_squared_error(forecast: Floats, part: Sequences) -> float:
    """Mean over all real target points and features."""
    return float(np.square(forecast - part.target)[part.target_keep].mean())


def errors_by_step(forecast: Floats, part: Sequences) -> list[float]:
    """Mean squared error of each target step over the sequences that have it, T numbers."""
    squared = np.square(forecast - part.target).mean(axis=-1)
    keep = part.target_keep
    return [float(squared[keep[:, t], t].mean()) for t in range(keep.shape[1])]


def noise_floor(part: Sequences) -> float | None:
    """The error of the ideal forecast, which knows everything but the noise; None where unknown."""
    return None if part.ideal is None else mean_squared_error(part.ideal, part)


def losses(train: Sequences, test: Sequences, rule: tuple[str, Rule] | None) -> Mapping[str, float]:
    """Baseline -> mean squared error on the test part."""
    return {
        name: mean_squared_error(forecast, test)
        for name, forecast in forecasts(train, test, rule).items()
    }
