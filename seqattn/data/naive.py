"""Forecasts that repeat or extrapolate the observed values of a source.

The naive, seasonal naive and drift methods are described in Hyndman and Athanasopoulos,
"Forecasting: Principles and Practice", 3rd edition, section 5.2.

In shapes, N is the number of sequences, S the source length, T the target length and F the number
of target features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Integers, Sequences
from seqattn.errors import DataError


def source_columns_of_targets(part: Sequences) -> list[int] | None:
    """Return the index of each target feature among the source features, or None if a target
    feature is not a source feature."""
    if not set(part.target_features) <= set(part.features):
        return None
    return [part.features.index(name) for name in part.target_features]


def last_value(part: Sequences, indices: list[int]) -> Floats:
    """Forecast the last observed value of each source at every step, as an array (N, T, F).

    Args:
        part: the sequences to forecast.
        indices: indices of the target features among the source features.
    """
    _, last = _observed_ends(part, indices)
    return np.repeat(_values_at(part, last, indices)[:, None], part.target_steps, axis=1)


def drift(part: Sequences, indices: list[int]) -> Floats:
    """Extrapolate the line through the first and the last observed value of each source, as an
    array (N, T, F). The forecast is constant for a source with only one observed value.

    Args:
        part: the sequences to forecast.
        indices: indices of the target features among the source features.
    """
    first, last = _observed_ends(part, indices)
    low, high = _values_at(part, first, indices), _values_at(part, last, indices)
    increment = (high - low) / np.maximum(last - first, 1)
    steps = part.source_lengths[:, None, None] + np.arange(part.target_steps)[:, None]
    return np.asarray(high[:, None] + increment[:, None] * (steps - last[:, None]))


def seasonal_naive(part: Sequences, indices: list[int], season: int) -> Floats:
    """For each target step, forecast the latest observed source value that is one or more whole
    seasons earlier.

    If there is no such value, forecast the last observed value of the source. The result is an
    array (N, T, F).

    Args:
        part: the sequences to forecast.
        indices: indices of the target features among the source features.
        season: season length in steps, at most the length of the shortest source.
    """
    T = part.target_steps
    phases = min(season, T)
    steps = part.source_lengths[:, None] - season + np.arange(phases)  # (N, phases)
    rows = np.arange(len(part))[:, None]
    found = np.array(part.source[rows, steps][..., indices], dtype=np.float64)
    if part.source_observed is not None:
        cells = part.source_observed[:, :, indices]
        unfilled = ~cells[rows, steps]
        while unfilled.any() and (steps := steps - season).max(initial=-1) >= 0:
            observed = unfilled & cells[rows, np.maximum(steps, 0)] & (steps >= 0)[..., None]
            found = np.where(observed, part.source[rows, np.maximum(steps, 0)][..., indices], found)
            unfilled &= ~observed
        found = np.where(unfilled, last_value(part, indices)[:, :1], found)
    return np.asarray(found[:, np.arange(T) % season])


def check_season(part: Sequences, season: int) -> None:
    """Check that every source contains the target features and is long enough to repeat a season
    that the user set.

    Raises:
        DataError: if a target feature is not a source feature, or if a source is shorter than the
            season.
    """
    if source_columns_of_targets(part) is None:
        name = next(name for name in part.target_features if name not in part.features)
        raise DataError(
            f"data.season: {name!r} is a target feature but not a source feature, so the"
            " sources contain no season of it to repeat."
        )
    shortest = int(part.source_lengths.min())
    if shortest < season:
        raise DataError(f"data.season is {season}, but a source may have only {shortest} points.")


def _observed_ends(part: Sequences, indices: list[int]) -> tuple[Integers, Integers]:
    """Return two arrays (N, F): the first and the last source step with an observed value. If there
    is no observed value, both arrays contain the last step of the source."""
    N, S = len(part), part.source_steps
    end = np.broadcast_to(part.source_lengths[:, None] - 1, (N, len(indices)))
    if part.source_observed is None:
        return np.zeros_like(end), end
    cells: NDArray[np.bool_] = part.source_observed[:, :, indices]
    observed = cells.any(axis=1)
    first = np.where(observed, cells.argmax(axis=1), end)
    last = np.where(observed, S - 1 - cells[:, ::-1].argmax(axis=1), end)
    return first, last


def _values_at(part: Sequences, steps: Integers, indices: list[int]) -> Floats:
    """Return the source values (N, F) at the given steps (N, F)."""
    rows = np.arange(len(part))[:, None]
    return np.asarray(part.source[rows, steps, indices], dtype=np.float64)
