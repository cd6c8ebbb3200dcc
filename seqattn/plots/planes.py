"""Functions that draw one sequence in the plane of two features.

A sequence is drawn in one of three ways:

- usually, as a path that the target and the forecast continue;
- as points, if each target point repeats a source point. A path through the targets would cover the
  path through the source, so the targets are drawn as rings around the source points;
- as pairs of a key and a value, followed by a query, for the task `recall`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from seqattn.plots.labels import Label, place_labels
from seqattn.plots.style import BLACK, BLUE, GREEN, VERMILION

Floats = NDArray[np.floating]
MAX_NUMBERED_POINTS = 8  # of a path
MAX_NUMBERED_MATCHES = 40  # of the source and target points of a sequence
MAX_LARGE_NUMBERS = 16  # more numbers in a panel are smaller
NUMBER_SIZE, SMALL_NUMBER_SIZE = 8.0, 6.0  # points

SOURCE: dict[str, Any] = {"color": BLACK, "marker": "o", "lw": 1.4}
TRUTH: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "white", "lw": 1.2, "ls": (0, (4, 2))}
FORECAST: dict[str, Any] = {"color": VERMILION, "marker": "X", "mew": 0, "lw": 1.2}
POINTS: dict[str, Any] = {"color": BLACK, "marker": "o", "ls": "none"}
RINGS: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "none", "mew": 1.2, "ls": "none"}
ERRORS: dict[str, Any] = {"color": VERMILION, "marker": "X", "mew": 0, "lw": 0.7}
KEYS: dict[str, Any] = {"color": BLACK, "marker": "s", "ls": "none"}
VALUES: dict[str, Any] = {"color": BLACK, "marker": "o", "mfc": "white", "lw": 0.9}
QUERY: dict[str, Any] = {"color": GREEN, "marker": "*", "ls": "none"}

Styles = dict[str, dict[str, Any]]
"""The style of each kind of point, by its name in the legend."""
PATH: Styles = {"given": SOURCE, "true continuation": TRUTH, "forecast": FORECAST}
MATCHES: Styles = {
    "given, numbered in black": POINTS,
    "true target, numbered in blue": RINGS,
    "forecast, with a line to its target": ERRORS,
}
PAIRS: Styles = {
    "key, numbered": KEYS,
    "its value": VALUES,
    "query": QUERY,
    "true target": RINGS,
    "forecast, with a line to its target": ERRORS,
}
Numbers = Callable[[], None]
"""A function that writes the numbers of the points. It must be called after the layout of the
figure is set."""


def draw_path(axes: Axes, source: Floats, target: Floats, forecast: Floats) -> Numbers:
    """Draw the source as a path that the target and the forecast continue."""
    is_numbered = len(source) + len(forecast) <= MAX_NUMBERED_POINTS
    size = 6.0 if is_numbered else 3.0
    for points, style in ((target, TRUTH), (forecast, FORECAST)):
        path = np.vstack([source[-1:], points])
        axes.plot(*path.T, **{**style, "marker": None}, zorder=2)
        axes.plot(*points.T, **{**style, "ls": "none"}, ms=size, zorder=4)
    axes.plot(*source.T, **SOURCE, ms=size, zorder=3)
    points = np.vstack([source, target if len(target) else forecast])
    numbers = [(str(k), point, BLACK) for k, point in enumerate(points, start=1)]
    return _numbers(axes, numbers if is_numbered else [], [source, target, forecast], size)


def draw_matches(axes: Axes, source: Floats, target: Floats, forecast: Floats) -> Numbers:
    """Draw the source as points and the target as rings, and join each forecast to its target."""
    is_numbered = len(source) + len(target) <= MAX_NUMBERED_MATCHES
    size = 4.0 if is_numbered else 2.5
    axes.plot(*source.T, **POINTS, ms=size, zorder=3)
    _draw_targets(axes, target, forecast, size)
    numbers = [
        (str(k), point, color)
        for points, color in ((source, BLACK), (target, BLUE))
        for k, point in enumerate(points, start=1)
    ]
    return _numbers(axes, numbers if is_numbered else [], [source, target, forecast], size + 4)


def draw_pairs(axes: Axes, source: Floats, target: Floats, forecast: Floats) -> Numbers:
    """Draw the keys, values and query of the task `recall`, and join each key to its value."""
    keys, values, query = source[0:-1:2], source[1::2], source[-1:]
    size = 5.0
    for key, value in zip(keys, values, strict=True):
        axes.plot(*np.stack([key, value]).T, **{**VALUES, "marker": None}, zorder=2)
    axes.plot(*values.T, **{**VALUES, "ls": "none"}, ms=size, zorder=3)
    axes.plot(*keys.T, **KEYS, ms=size, zorder=3)
    axes.plot(*query.T, **QUERY, ms=size + 5, zorder=5)
    _draw_targets(axes, target, forecast, size)
    numbers = [(str(k), key, BLACK) for k, key in enumerate(keys, start=1)]
    is_numbered = len(keys) <= MAX_NUMBERED_MATCHES
    return _numbers(axes, numbers if is_numbered else [], [source, target, forecast], size + 4)


def _draw_targets(axes: Axes, target: Floats, forecast: Floats, size: float) -> None:
    """Draw the forecasts, a ring at each target, and a line from each target to its forecast. If
    the target is unknown, draw only the forecasts."""
    axes.plot(*target.T, **RINGS, ms=size + 4, zorder=4)
    for truth, point in zip(target, forecast, strict=False):
        axes.plot(*np.stack([truth, point]).T, **{**ERRORS, "marker": None}, zorder=2)
    axes.plot(*forecast.T, **{**ERRORS, "ls": "none"}, ms=size + 1, zorder=5)


def _numbers(
    axes: Axes, numbers: Sequence[tuple[str, Floats, str]], points: Sequence[Floats], size: float
) -> Numbers:
    """Return a function that writes numbers next to points.

    Args:
        axes: the panel.
        numbers: the text, the point and the color of each number. The number of a point with an
            unobserved coordinate is left out.
        points: the arrays (n, 2) of all points in the panel. If possible, no number covers a point.
        size: the size of the markers in points.
    """
    axes.set_aspect("equal")
    markers = np.vstack(points).astype(np.float64)
    markers = markers[np.isfinite(markers).all(axis=1)]

    def write() -> None:
        known = [(text, np.asarray(point, np.float64), color) for text, point, color in numbers
                 if np.isfinite(point).all()]  # fmt: skip
        if not known:
            return
        center = markers.mean(axis=0)
        labels = [Label(text, point, center, color) for text, point, color in known]
        text_size = NUMBER_SIZE if len(known) <= MAX_LARGE_NUMBERS else SMALL_NUMBER_SIZE
        place_labels(axes, labels, text_size, markers, size / 2 + 0.5)

    return write


def set_common_limits(panels: Sequence[Axes], points: Sequence[Floats]) -> None:
    """Set the same axis limits for all panels, so that readers can compare the paths."""
    observed = np.vstack(points)
    observed = observed[np.isfinite(observed).all(axis=1)]
    if not len(observed):
        return
    center = (observed.max(axis=0) + observed.min(axis=0)) / 2
    radius = 0.5 * float(np.ptp(observed, axis=0).max()) * 1.18 or 1.0
    for axes in panels:
        axes.set_xlim(center[0] - radius, center[0] + radius)
        axes.set_ylim(center[1] - radius, center[1] + radius)
