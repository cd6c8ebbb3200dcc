"""Forecasts that repeat or extrapolate the observed values of a source.

Sources: Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, section
5.2, for the naive, seasonal naive and drift methods.

Letters: N sequences, S source steps, T target steps, F target features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Integers, Sequences
from seqattn.errors import DataError


def source_columns_of_targets(part: Sequences) -> list[int] | None:
    """Index of each target feature among the source features; None if a source lacks one."""
    if not set(part.target_features) <= set(part.features):
        return None
    return [part.features.index(name) for name in part.target_features]


def last_value(part: Sequences, indices: list[int]) -> Floats:
    """(N, T, F): the last observed value of each source, at every step.

    Args:
        indices: of the target features among the source features.
    """
    _, last = _observed_ends(part, indices)
    return np.repeat(_values_at(part, last, indices)[:, None], part.target_steps, axis=1)


def drift(part: Sequences, indices: list[int]) -> Floats:
    """(N, T, F): the line through the first and the last observed value of each source; constant
    where a source has one observed value.

    Args:
        indices: of the target features among the source features.
    """
    first, last = _observed_ends(part, indices)
    low, high = _values_at(part, first, indices), _values_at(part, last, indices)
    increment = (high - low) / np.maximum(last - first, 1)
    steps = part.source_lengths[:, None, None] + np.arange(part.target_steps)[:, None]
    return np.asarray(high[:, None] + increment[:, None] * (steps - last[:, None]))


def seasonal_naive(part: Sequences, indices: list[int], season: int) -> Floats:
    """(N, T, F): the value one season earlier; if that was not observed, an observed value further
    whole seasons earlier; without any, the last observed value.

    Args:
        indices: of the target features among the source features.
        season: length in steps, at most that of the shortest source.
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
    """Check that every source can repeat a season that the user set.

    Raises:
        DataError: a target feature is no source feature, or a source is shorter than the season.
    """
    if source_columns_of_targets(part) is None:
        name = next(name for name in part.target_features if name not in part.features)
        raise DataError(
            f"data.season: {name!r} is a target but no source feature, so there is no season"
            " before to repeat."
        )
    shortest = int(part.source_lengths.min())
    if shortest < season:
        raise DataError(f"data.season is {season}, but a source may have only {shortest} points.")


def _observed_ends(part: Sequences, indices: list[int]) -> tuple[Integers, Integers]:
    """(N, F) first and last source step with an observed value; both the last step if there is
    none."""
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
    """(N, F) source values at steps (N, F)."""
    rows = np.arange(len(part))[:, None]
    return np.asarray(part.source[rows, steps, indices], dtype=np.float64)
