"""Generated tasks, most of which have a known true alignment.

In `copy`, `reverse`, `sort`, `recall` and `lag`, at most one source step determines each target
step. The array `alignment` contains the index of this source step, or -1 if there is no such step.
`squares` and `polygons` have no alignment, because their target corners generally depend on several
source corners.

Except in `squares`, each kind of random draw, such as the noise, has its own generator. A change to
the noise level or to the minimum length therefore leaves all other draws unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from seqattn.config import (
    Copy,
    Dates,
    Drawn,
    Grammar,
    Lag,
    Numbers,
    Polygons,
    Recall,
    Reverse,
    Sort,
    Squares,
)
from seqattn.data import language, squares
from seqattn.data.baselines import NaiveForecast
from seqattn.data.plugin_tasks import PLUGIN_TASKS
from seqattn.data.sequences import Floats, Integers, Sequences, valid_mask
from seqattn.rng import rng_for

Task = Squares | Polygons | Copy | Reverse | Sort | Recall | Lag | Dates | Numbers | Grammar

FEATURES = ("x", "y")
DIRECTIONS = ("counter-clockwise", "clockwise")
MIN_RADIUS, MAX_RADIUS = 0.5, 1.5  # distance of polygon corners from the center


def generate(task: Task, n: int, seed: int) -> Sequences:
    """Generate `n` sequences of a task. The result depends only on the task, `n` and the seed.

    Raises:
        PluginError: if a plugin task raises an exception, if it does not return `n` sequences, or
            if `ideal` does not have the shape of the target.
    """
    if type(task) in PLUGIN_TASKS:
        return PLUGIN_TASKS[type(task)].sequences(task, n, seed)
    if isinstance(task, Drawn) and task.symbols is not None:
        return language.generate_language(task, n, seed)
    match task:
        case Squares():
            return squares.generate_squares(
                n, seed, noise=task.noise, source_length=task.source_length,
                variable_length=task.variable_length,
            )  # fmt: skip
        case Polygons():
            return _generate_polygons(task, n, seed)
        case Copy():
            return _generate_paths(task, n, seed, _identity_order)
        case Reverse():
            return _generate_paths(task, n, seed, _reverse_order)
        case Sort():
            return _generate_paths(task, n, seed, _sorted_order)
        case Recall():
            return _generate_recall(task, n, seed)
        case Lag():
            return _generate_lag(task, n, seed)
        case Dates() | Numbers() | Grammar():
            return language.generate_language(task, n, seed)
        case _:
            assert_never(task)


def naive_forecast_of(task: Task) -> tuple[str, NaiveForecast] | None:
    """Return the name and the forecast function of the naive baseline of a task.

    The baseline of a built-in task applies the rule of the task to the sources. Return None for
    `copy`, `reverse`, `sort` and `lag`, because the rules of these tasks give the lowest possible
    error, which is the noise floor. Also return None for tasks with symbols and for a plugin task
    without a baseline.
    """
    if type(task) in PLUGIN_TASKS:
        return PLUGIN_TASKS[type(task)].baseline
    if isinstance(task, Drawn) and task.symbols is not None:
        return None
    match task:
        case Squares():
            return "minus the source corner", squares.opposite_corner
        case Polygons():
            return "turn on by the last angle", rotate_on
        case Recall():
            return "value of the nearest key", nearest_key_value
        case Copy() | Reverse() | Sort() | Lag() | Dates() | Numbers() | Grammar():
            return None
        case _:
            assert_never(task)


# --- random paths ---------------------------------------------------------------------------------


def _generate_paths(
    task: Copy | Reverse | Sort, n: int, seed: int, order: Callable[[Floats, Integers], Integers]
) -> Sequences:
    """Generate sources of random points in a square, and targets with the same points in the order
    of the task, plus noise."""
    lengths = _draw_lengths(n, seed, task.min_length, task.length)
    source = _draw_points(n, seed, "points", task.length, lengths)
    return _build_from_alignment(source, lengths, lengths, order(source, lengths), task.noise, seed)


def _generate_lag(task: Lag, n: int, seed: int) -> Sequences:
    lengths = _draw_lengths(n, seed, task.min_length, task.length)
    source = _draw_points(n, seed, "points", task.length, lengths)
    alignment = _lagged_order(lengths, task.lag, task.steps)
    return _build_from_alignment(
        source, lengths, np.full(n, task.steps), alignment, task.noise, seed
    )


def _build_from_alignment(
    source: Floats, source_lengths: Integers, target_lengths: Integers, alignment: Integers,
    noise: float, seed: int,
) -> Sequences:  # fmt: skip
    """Build sequences in which target step t is the source step `alignment[:, t]` plus noise. If
    this index is -1 at a valid target step, the target step is only noise."""
    N, T = alignment.shape
    ideal = _gather_points(source, alignment)
    deviation = rng_for(seed, "data", "noise").standard_normal(ideal.shape) * noise
    target = np.where(valid_mask(target_lengths, T)[:, :, None], ideal + deviation, 0.0)
    return Sequences(
        source=source, source_lengths=source_lengths, target=target, target_lengths=target_lengths,
        features=FEATURES, ids=tuple(map(str, range(N))), ideal=ideal, alignment=alignment,
    )  # fmt: skip


def _identity_order(source: Floats, lengths: Integers) -> Integers:
    steps = np.arange(source.shape[1])
    return np.where(steps < lengths[:, None], steps, -1)


def _reverse_order(source: Floats, lengths: Integers) -> Integers:
    indices: Integers = lengths[:, None] - 1 - np.arange(source.shape[1])
    return np.maximum(indices, -1)


def _sorted_order(source: Floats, lengths: Integers) -> Integers:
    keep = valid_mask(lengths, source.shape[1])
    order = np.argsort(np.where(keep, source[:, :, 0], np.inf), axis=1, kind="stable")
    return np.where(keep, order, -1)


def _lagged_order(lengths: Integers, lag: int, steps: int) -> Integers:
    """Return the alignment (N, steps) of target step t with the source step `length + t - lag`, or
    -1 if there is no such source step."""
    indices = lengths[:, None] + np.arange(steps) - lag
    return np.where((indices >= 0) & (indices < lengths[:, None]), indices, -1)


def _gather_points(source: Floats, alignment: Integers) -> Floats:
    """Return the source steps at the indices (N, T) as an array (N, T, F), with 0 for index -1."""
    points = source[np.arange(len(source))[:, None], np.maximum(alignment, 0)]
    return np.where(alignment[:, :, None] >= 0, points, 0.0)


# --- recall ---------------------------------------------------------------------------------------


def _generate_recall(task: Recall, n: int, seed: int) -> Sequences:
    """Generate sources of alternating keys and values, followed by a noisy copy of one key as the
    query."""
    pairs = _draw_lengths(n, seed, task.min_pairs, task.pairs)
    lengths = 2 * pairs + 1
    S, rows = 2 * task.pairs + 1, np.arange(n)
    source = _draw_points(n, seed, "points", S, lengths)
    queried = (rng_for(seed, "data", "asked").random_sample(n) * pairs).astype(np.int64)
    deviation = rng_for(seed, "data", "noise").standard_normal((n, len(FEATURES))) * task.noise
    source[rows, lengths - 1] = source[rows, 2 * queried] + deviation
    alignment = (2 * queried + 1)[:, None]
    target = _gather_points(source, alignment)
    return Sequences(
        source=source, source_lengths=lengths, target=target,
        target_lengths=np.ones(n, dtype=np.int64), features=FEATURES, ids=tuple(map(str, range(n))),
        labels=tuple(f"pair {pair + 1} asked" for pair in queried), ideal=target.copy(),
        alignment=alignment,
    )  # fmt: skip


def nearest_key_value(source: Floats, lengths: Integers, steps: int) -> Floats:
    """Forecast the targets of `recall` from the sources alone. The forecast of every step is the
    value of the key that is nearest to the query.

    Args:
        source: (N, S, F) alternating keys and values, followed by the query.
        lengths: (N,) source lengths, which must be odd.
        steps: T, the target length.

    Returns:
        the forecast (N, T, F).
    """
    N, S, F = source.shape
    if S < 3:
        return np.zeros((N, steps, F))
    query = source[np.arange(N), lengths - 1]
    keys, values = source[:, 0 : S - 1 : 2], source[:, 1::2]
    keys = keys[:, : values.shape[1]]
    distances = np.square(keys - query[:, None]).sum(axis=-1)
    real = np.arange(keys.shape[1]) < (lengths[:, None] - 1) // 2
    nearest = np.where(real, distances, np.inf).argmin(axis=1)
    return np.repeat(values[np.arange(N), nearest][:, None], steps, axis=1)


# --- polygons -------------------------------------------------------------------------------------


def _generate_polygons(task: Polygons, n: int, seed: int) -> Sequences:
    corners = _draw_lengths(n, seed, task.min_corners, task.corners)
    angles = rng_for(seed, "data", "rotation").random_sample(n) * 2 * np.pi
    sizes = MIN_RADIUS + rng_for(seed, "data", "scale").random_sample(n) * (MAX_RADIUS - MIN_RADIUS)
    clockwise = rng_for(seed, "data", "direction").randint(2, size=n)
    starts = (rng_for(seed, "data", "start").random_sample(n) * corners).astype(np.int64)
    steps = np.arange(task.corners)
    turn = np.where(clockwise, -1, 1)[:, None] * (starts[:, None] + steps)
    at = angles[:, None] + 2 * np.pi * turn / corners[:, None]
    ideal = sizes[:, None, None] * np.stack([np.cos(at), np.sin(at)], axis=-1)
    points = ideal + rng_for(seed, "data", "noise").standard_normal(ideal.shape) * task.noise
    keep = valid_mask(corners, task.corners)[:, :, None]
    points, ideal = np.where(keep, points, 0.0), np.where(keep, ideal, 0.0)
    cut = task.source_length
    return Sequences(
        source=points[:, :cut].copy(),
        source_lengths=np.full(n, cut),
        target=points[:, cut:].copy(),
        target_lengths=corners - cut,
        features=FEATURES,
        ids=tuple(map(str, range(n))),
        labels=tuple(
            f"{count} corners, {DIRECTIONS[direction]}"
            for count, direction in zip(corners, clockwise, strict=True)
        ),
        ideal=ideal[:, cut:].copy(),
    )


def rotate_on(source: Floats, lengths: Integers, steps: int) -> Floats:
    """Forecast the targets of `polygons` from the sources alone. Each forecast corner is the
    previous corner, rotated about the center by the angle between the last two source corners.

    Args:
        source: (N, S, 2) corners.
        lengths: (N,) source lengths. For a source of one corner, the forecast repeats this corner.
        steps: T, the target length.

    Returns:
        the forecast (N, T, 2).
    """
    rows = np.arange(len(source))
    last, before = source[rows, lengths - 1], source[rows, np.maximum(lengths - 2, 0)]
    end, start = (p[:, 0] + 1j * p[:, 1] for p in (last, before))
    angle = np.angle(end * start.conj())
    forecast = end[:, None] * np.exp(1j * angle[:, None] * np.arange(1, steps + 1))
    return np.stack([forecast.real, forecast.imag], axis=-1)


# --- draws ----------------------------------------------------------------------------------------


def _draw_lengths(n: int, seed: int, low: int | None, high: int) -> Integers:
    """Draw n uniform integers from `low` to `high`. If `low` is None, all integers are `high`."""
    if low is None:
        return np.full(n, high, dtype=np.int64)
    shares: NDArray[np.float64] = rng_for(seed, "data", "lengths").random_sample(n)
    return (low + shares * (high - low + 1)).astype(np.int64)


def _draw_points(n: int, seed: int, name: str, longest: int, lengths: Integers) -> Floats:
    """Draw points (n, longest, 2) with coordinates that are uniformly distributed from -1 to 1.
    Padding is 0."""
    drawn = 2 * rng_for(seed, "data", name).random_sample((n, longest, len(FEATURES))) - 1
    return np.where(valid_mask(lengths, longest)[:, :, None], drawn, 0.0)
