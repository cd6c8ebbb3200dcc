"""A figure that shows the query, the keys, the values and the context of an attention step as
vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.plots.captions import weights_caption
from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    Label,
    draw_caption,
    place_labels,
    set_layout,
    with_style,
    wrap_text,
)

Floats = NDArray[np.float64]
MAX_LISTED = 12
LIST_WIDTH = 1.2  # of the list to the right of a panel, in inches
PANEL_SIDE = 3.8  # inches
LABEL_SIZE = 8.0  # points
ARROW_SAMPLES, ARROW_RADIUS = 12, 2.0  # labels avoid circles of 2 points along each arrow


@with_style
def vectors_figure(
    query: Floats | None,
    keys: Floats,
    values: Floats,
    context: Floats,
    weights: Floats,
    *,
    title: str,
    scores: tuple[str, Mapping[str, Floats]] | None = None,
    signed: bool = False,
    names: Sequence[str] = (),
) -> Figure:
    """Draw an attention step in two panels.

    The left panel shows the query and the keys. The right panel shows the context as a chain of
    weighted values. Vectors with more than two components are projected onto their first two
    principal directions, without centering, so that the origin stays fixed. The title of a panel
    gives the share of the squared length that a projection keeps. A list beside the right panel
    gives the weights. If there are more than `MAX_LISTED` source steps, only the vectors with the
    largest absolute weights are listed and numbered.

    Args:
        query: (K,), the query; None if the weights do not depend on a query.
        keys, values: the keys (S, K) and the values (S, V).
        context: (V,), the sum of the weighted values.
        weights: (S,), the attention weights.
        scores: the formula of the scores, and the numbers (S,) from which it computes them, by
            name, for a list beside the left panel; None for no list.
        signed: whether the weights are the read strengths of fast weights.
        names: the names of the source steps; empty to number them from 1.
    """
    names = names or [str(s + 1) for s in range(len(weights))]
    figure = Figure()
    left, right = figure.subplots(1, 2)
    width = 0.5 + 2 * (PANEL_SIDE + LIST_WIDTH) + 0.4
    below = draw_caption(figure, weights_caption(signed=signed), width)
    margins = {"left": 0.5, "right": LIST_WIDTH, "bottom": 0.4 + below, "top": 0.75}
    set_layout(figure, (PANEL_SIDE, PANEL_SIDE), (1, 2), gaps=(LIST_WIDTH + 0.4, 0.0), **margins)
    listed = _largest(weights)
    _draw_keys(left, query, keys, listed, names, scores)
    _draw_values(right, values, context, weights, listed, names)
    figure.suptitle(title, x=0.02, ha="left", fontsize=9)
    return figure


def _largest(weights: Floats) -> list[int]:
    """Return the indices of the `MAX_LISTED` largest absolute weights, in ascending order."""
    order = np.argsort(-np.abs(weights), kind="stable")[:MAX_LISTED]
    return sorted(int(s) for s in order)


def _draw_keys(
    axes: Axes, query: Floats | None, keys: Floats, listed: Sequence[int], names: Sequence[str],
    scores: tuple[str, Mapping[str, Floats]] | None,
) -> None:  # fmt: skip
    vectors = keys if query is None else np.vstack([query, keys])
    drawn, share = _project_to_plane(vectors)
    _set_axes(axes, drawn)
    arrow = None
    if query is not None:
        _draw_arrow(axes, drawn[0], VERMILION, lw=2.2)
        arrow, drawn = ("query", drawn[0]), drawn[1:]
    for key in drawn:
        _draw_arrow(axes, key, BLUE)
    _label_tips(axes, arrow, drawn, listed, names, BLUE)
    if scores is not None:
        formula, columns = scores
        _draw_list(axes, wrap_text(formula, LIST_WIDTH, LABEL_SIZE), columns, listed, names)
    axes.set_title(f"Query and keys{_projection_note(share, vectors)}", fontsize=9)


def _draw_values(
    axes: Axes, values: Floats, context: Floats, weights: Floats, listed: Sequence[int],
    names: Sequence[str],
) -> None:  # fmt: skip
    drawn, share = _project_to_plane(np.vstack([values, context]))
    _set_axes(axes, np.vstack([drawn, np.zeros((1, 2))]))
    for value in drawn[:-1]:
        _draw_arrow(axes, value, GREY, lw=1.0, dashed=True)
    corner, corners = np.zeros(2), list[Floats]()
    for weight, value in zip(weights, drawn[:-1], strict=True):
        part = weight * value
        if np.linalg.norm(part) > 0.03 * np.abs(drawn).max():  # a shorter arrow has only a head
            _draw_arrow(axes, part, BLUE, start=corner)
        corner = corner + part
        corners.append(corner)
    _draw_arrow(axes, drawn[-1], VERMILION, lw=2.2)
    arrow = "context", drawn[-1]
    _label_tips(axes, arrow, drawn[:-1], listed, names, BLACK, np.array(corners))
    _draw_list(axes, "weight of value", {"": weights}, listed, names)
    axes.set_title(f"Values, weighted and summed{_projection_note(share, values)}", fontsize=9)


def _project_to_plane(vectors: Floats) -> tuple[Floats, float]:
    """Project vectors (n, K) onto the plane of their first two principal directions.

    Returns:
        The projected vectors, (n, 2), and the share of the squared length that the projection
        keeps.
    """
    n, K = vectors.shape
    if K <= 2:
        return np.hstack([vectors, np.zeros((n, 2 - K))]), 1.0
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    plane = directions[:2]
    plane = plane * np.where(plane.sum(axis=1) < 0, -1.0, 1.0)[:, None]  # makes the signs unique
    total = float((lengths**2).sum())
    drawn = vectors @ plane.T
    if drawn.shape[1] < 2:
        drawn = np.hstack([drawn, np.zeros((n, 2 - drawn.shape[1]))])
    return drawn, float((lengths[:2] ** 2).sum()) / total if total else 1.0


def _projection_note(share: float, vectors: Floats) -> str:
    K = vectors.shape[-1]
    return "" if K <= 2 else f"\n{K} numbers each, on their two main directions ({share:.0%})"


def _draw_arrow(
    axes: Axes, vector: Floats, color: str, *, lw: float = 1.4, dashed: bool = False,
    start: Sequence[float] | Floats = (0.0, 0.0),
) -> None:  # fmt: skip
    origin = np.asarray(start)
    axes.annotate(
        "", xy=tuple(origin + vector), xytext=tuple(origin),
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0,
                    "ls": "--" if dashed else "-"},
    )  # fmt: skip


def _label_tips(
    axes: Axes, arrow: tuple[str, Floats] | None, vectors: Floats, listed: Sequence[int],
    names: Sequence[str], color: str, obstacles: Floats | None = None,
) -> None:  # fmt: skip
    """Write the name of each listed vector at the tip of the vector, and the name of the main
    arrow at its tip.

    Tips of listed vectors that nearly coincide share one label.

    Args:
        arrow: the name and the vector of the main arrow of the panel; None if there is none.
        vectors: (S, 2), the named vectors.
        listed: the indices of the vectors to label.
        names: the names of the S vectors.
        color: the color of the names.
        obstacles: (n, 2), further points that the names should not cover.
    """
    origin = np.zeros(2)
    labels = [] if arrow is None else [Label(arrow[0], arrow[1], origin, VERMILION)]
    near = 0.08 * float(np.abs(vectors).max() or 1.0)
    left = list(listed)
    while left:
        group = [s for s in left if np.linalg.norm(vectors[s] - vectors[left[0]]) < near]
        left = [s for s in left if s not in group]
        text = ", ".join(names[s] for s in group)
        labels.append(Label(text, vectors[group].mean(axis=0), origin, color))
    every = vectors if arrow is None else np.vstack([vectors, arrow[1]])
    along = (np.linspace(0, 1, ARROW_SAMPLES)[1:, None, None] * every).reshape(-1, 2)
    along = along if obstacles is None else np.vstack([along, obstacles])
    place_labels(axes, labels, LABEL_SIZE, along, ARROW_RADIUS)


def _draw_list(
    axes: Axes, what: str, columns: Mapping[str, Floats], listed: Sequence[int],
    names: Sequence[str],
) -> None:  # fmt: skip
    """Write a list to the right of a panel, with the columns of numbers (S,) that differ between
    source steps, and always with the last column."""
    *_, last = columns
    shown = {name: each for name, each in columns.items() if name == last or np.ptp(each) > 0}
    lines = [f"{names[s]}:  {'  '.join(f'{each[s]:.2f}' for each in shown.values())}"
             for s in listed]  # fmt: skip
    if len(listed) < len(columns[last]):
        what += f"\n({len(listed)} largest\nweights of {len(columns[last])})"
    if len(shown) > 1:
        what += f"\n{', '.join(shown)}"
    axes.text(1.03, 1.0, "\n".join([what, *lines]), transform=axes.transAxes, va="top",
              fontsize=LABEL_SIZE, color=BLACK)  # fmt: skip


def _set_axes(axes: Axes, points: Floats) -> None:
    limit = 1.35 * (float(np.abs(points).max()) or 1.0)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-limit, limit)
    axes.set_aspect("equal")
    axes.axhline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.axvline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.tick_params(labelsize=7, length=2)
