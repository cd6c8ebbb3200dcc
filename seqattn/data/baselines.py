"""Forecasts that need no training, to stand beside every loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

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


def seasonal_naive(part: Sequences, season: int) -> tuple[str, Rule]:
    """Each point as it was `season` steps before; where that was not given, a season more.

    Raises:
        DataError: what is to be said was not given, or no source is as long as a season.
    """
    places = [part.features.index(name) if name in part.features else -1 for name in part.said]
    if -1 in places:
        raise DataError(
            f"data.season: {part.said[places.index(-1)]!r} is to be said but not given, so there is"
            " no season before to repeat."
        )
    shortest = int(part.source_lengths.min())
    if shortest < season:
        raise DataError(f"data.season is {season}, but a source may have only {shortest} points.")

    def rule(source: Floats, lengths: Integers, steps: int) -> Floats:
        back = np.arange(steps) % season - season
        found: Floats = source[np.arange(len(source))[:, None], lengths[:, None] + back]
        return found[:, :, places]

    return f"seasonal naive, {season} steps", rule


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

    def design(part: Sequences, at: slice) -> Floats:
        source = part.source[at]
        return np.column_stack([source.reshape(len(source), -1), np.ones(len(source))])

    sides: tuple[Floats, Floats] | None = None
    for first, source in stretches(train.source):
        at = slice(first, first + len(source))
        inputs, outputs = design(train, at), train.target[at].reshape(len(source), -1)
        if sides is None:
            sides = inputs, outputs
            continue
        # The triangle of a QR decomposition stands for all rows before, and is no taller than wide.
        before = np.column_stack(sides)
        triangle: Floats = np.asarray(
            np.linalg.qr(np.concatenate([before, np.column_stack([inputs, outputs])]), mode="r")
        )
        sides = triangle[:, : inputs.shape[1]], triangle[:, inputs.shape[1] :]
    assert sides is not None
    weights, *_ = np.linalg.lstsq(*sides, rcond=None)
    forecast = [
        design(test, slice(first, first + len(source))) @ weights
        for first, source in stretches(test.source)
    ]
    return np.concatenate(forecast).reshape(len(test), *train.target.shape[1:])


def _mean_by_step(part: Sequences, steps: int) -> Floats:
    """(steps, F) mean real target point of each step; where there is none, of all steps."""
    means = np.tile(part.target[part.target_keep].mean(axis=0), (steps, 1))
    seen = part.target_keep.sum(axis=0)[:steps]
    known = np.flatnonzero(seen)
    means[known] = part.target.sum(axis=0)[known] / seen[known, None]  # padding is 0
    return means


def mean_squared_error(forecast: Floats, part: Sequences, scale: Floats | None = None) -> float:
    """Mean over all real target points and features.

    Args:
        scale: (F,) what an error counts 1 of; None: the part's units.
    """
    return float(_squared(forecast, part, scale)[part.target_keep].mean())


def errors_by_step(forecast: Floats, part: Sequences, scale: Floats | None = None) -> list[float]:
    """Mean squared error of each target step over the sequences that have it, T numbers."""
    squared = _squared(forecast, part, scale).mean(axis=-1)
    keep = part.target_keep
    return [float(squared[keep[:, t], t].mean()) for t in range(keep.shape[1])]


def errors_by_feature(forecast: Floats, part: Sequences) -> list[float]:
    """Root mean squared error of each target feature, in the part's units, F numbers."""
    squared = _squared(forecast, part, None)[part.target_keep]
    return [float(error) for error in np.sqrt(squared.mean(axis=0))]


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
