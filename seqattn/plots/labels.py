"""Placement of short labels next to points.

If possible, labels cover neither each other nor points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from seqattn.plots.style import GREY, POINTS_PER_INCH, text_width

Floats = NDArray[np.float64]
DISTANCES = (4.0, 8.0, 13.0, 19.0, 26.0, 34.0)  # from a point to the edge of its label, in points
MAX_BARE_DISTANCE = 8.0  # a label at a larger distance has a line to its point
NUM_DIRECTIONS = 16
OUTSIDE = 1e3  # cost of an area outside the panel, relative to an overlap of the same area


@dataclass(frozen=True)
class Label:
    """A label of a point.

    Attributes:
        text: the text.
        point: (2,), the coordinates of the point in the units of the axes.
        away_from: (2,), a position in the same units. If there is space, the label is on the other
            side of the point.
        color: the color of the text.
    """

    text: str
    point: Floats
    away_from: Floats
    color: str


def place_labels(
    axes: Axes, labels: Sequence[Label], size: float, obstacles: Floats, radius: float
) -> None:
    """Draw labels next to their points.

    Each label is drawn at the nearest possible place where it is inside the panel and overlaps no
    earlier label and no obstacle. If there is no such place, the label is drawn at the place with
    the smallest sum of the overlap and `OUTSIDE` times the area outside the panel. The limits of
    the axes and the layout of the figure must not change later.

    Args:
        axes: the panel.
        labels: the labels, with the most important label first.
        size: the font size in points.
        obstacles: (n, 2), the coordinates of markers, in the units of the axes.
        radius: the radius of the markers in points.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = POINTS_PER_INCH / figure.dpi
    markers = axes.transData.transform(obstacles.reshape(-1, 2)) * scale
    boxes = np.hstack([markers - radius, markers + radius])
    panel = np.array(axes.get_window_extent().extents) * scale
    for label in labels:
        half = np.array([text_width([label.text], size) * POINTS_PER_INCH, size]) / 2
        point, away = axes.transData.transform([label.point, label.away_from]) * scale
        offsets, distances = _candidates(point - away, half)
        centers = point + offsets
        places = np.hstack([centers - half, centers + half])
        costs = _overlaps(places, boxes).sum(axis=1)
        area = 4 * half.prod()
        costs += OUTSIDE * (area - _overlaps(places, panel[None])[:, 0])
        best = int(np.argmin(np.round(costs, 3)))
        boxes = np.vstack([boxes, places[best]])
        is_far = distances[best] > MAX_BARE_DISTANCE
        text = axes.annotate(
            label.text, tuple(label.point), xytext=tuple(offsets[best]), fontsize=size,
            textcoords="offset points", ha="center", va="center_baseline", color=label.color,
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.4, "shrinkB": 0, "shrinkA": 0}
            if is_far else None, zorder=6,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])


def _candidates(preferred: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Return the possible offsets of the center of a label from its point, with the best offset
    first.

    Args:
        preferred: (2,), the preferred direction; zeros for no preference.
        half: (2,), half the width and half the height of the label.

    Returns:
        The offsets (n, 2) and the distances (n,) from the point to the edge of the label, in
        points.
    """
    angles = np.arange(NUM_DIRECTIONS) * 2 * np.pi / NUM_DIRECTIONS
    turn = angles - np.arctan2(preferred[1], preferred[0]) if preferred.any() else angles
    angles = angles[np.argsort(-np.cos(turn), kind="stable")]
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with np.errstate(divide="ignore"):
        to_edge = (half / np.abs(directions)).min(axis=1)  # from the center of the label
    distances = np.repeat(DISTANCES, NUM_DIRECTIONS)
    lengths = distances + np.tile(to_edge, len(DISTANCES))
    return np.tile(directions, (len(DISTANCES), 1)) * lengths[:, None], distances


def _overlaps(one: Floats, other: Floats) -> Floats:
    """Return the overlap areas (n, m) of each of n boxes with each of m boxes. Each row of an
    argument is a box (left, bottom, right, top)."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2))
