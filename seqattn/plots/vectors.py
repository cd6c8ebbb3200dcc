"""A figure that shows the query, the keys, the values and the context of an attention step as
vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.plots.style import BLACK, BLUE, GREY, VERMILION, set_layout, with_style

Floats = NDArray[np.float64]
MAX_LISTED = 12


@with_style
def vectors_figure(
    query: Floats | None,
    keys: Floats,
    values: Floats,
    context: Floats,
    weights: Floats,
    *,
    title: str,
    cosines: bool = False,
) -> Figure:
    """Draw an attention step in two panels.

    The left panel shows the query and the keys. The right panel shows the context as a chain of
    weighted values. Vectors with more than two components are projected onto their first two
    principal directions, without centring, so that the origin stays fixed. The title of a panel
    gives the share of the squared length that the projection keeps.

    Args:
        query: (K,), the query; None if the weights do not depend on a query.
        keys, values: the keys (S, K) and the values (S, V).
        context: (V,), the sum of the weighted values.
        weights: (S,), the attention weights.
        title: the title of the figure.
        cosines: whether to list the cosine of the angle between the query and each key.
    """
    figure = Figure()
    left, right = figure.subplots(1, 2)
    vectors = keys if query is None else np.vstack([query, keys])
    drawn, share = _project_to_plane(vectors)
    _set_axes(left, drawn)
    if query is not None:
        _draw_arrow(left, drawn[0], VERMILION, "query", lw=2.2)
        drawn = drawn[1:]
    for key in drawn:
        _draw_arrow(left, key, BLUE)
    _label_tips(left, drawn, BLUE)
    if query is not None and cosines:
        lengths = np.linalg.norm(keys, axis=1) * np.linalg.norm(query)
        angles = keys @ query / np.where(lengths > 0, lengths, 1.0)
        _draw_list(left, "cosine of query and key", angles)
    left.set_title(f"Query and keys{_projection_note(share, vectors)}", fontsize=9)

    drawn, share = _project_to_plane(np.vstack([values, context]))
    for value in drawn[:-1]:
        _draw_arrow(right, value, GREY, lw=1.0, dashed=True)
    _label_tips(right, drawn[:-1], BLACK)
    _draw_list(right, "weight of value", weights)
    corner = np.zeros(2)
    for weight, value in zip(weights, drawn[:-1], strict=True):
        part = weight * value
        if np.linalg.norm(part) > 0.03 * np.abs(drawn).max():  # a shorter arrow has only a head
            _draw_arrow(right, part, BLUE, start=corner)
        corner = corner + part
    _draw_arrow(right, drawn[-1], VERMILION, "context", lw=2.2, label_at_middle=True)
    _set_axes(right, np.vstack([drawn, np.zeros((1, 2))]))
    right.set_title(f"Values, weighted and summed{_projection_note(share, values)}", fontsize=9)
    margins = {"left": 0.5, "right": 0.2, "bottom": 0.4, "top": 0.75}
    set_layout(figure, (3.8, 3.8), (1, 2), gaps=(0.6, 0.0), **margins)
    figure.suptitle(title, x=0.02, ha="left", fontsize=9)
    return figure


def _project_to_plane(vectors: Floats) -> tuple[Floats, float]:
    """Project vectors onto the plane of their first two principal directions.

    Args:
        vectors: (n, K), the vectors.

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
    axes: Axes, vector: Floats, color: str, label: str = "", *, lw: float = 1.4,
    dashed: bool = False, start: Sequence[float] | Floats = (0.0, 0.0),
    label_at_middle: bool = False,
) -> None:  # fmt: skip
    origin = np.asarray(start)
    end = origin + vector
    axes.annotate(
        "", xy=tuple(end), xytext=tuple(origin),
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0,
                    "ls": "--" if dashed else "-"},
    )  # fmt: skip
    length = float(np.linalg.norm(vector)) or 1.0
    position = origin + vector / 2 if label_at_middle else end
    direction = (np.array([-vector[1], vector[0]]) if label_at_middle else vector) / length
    axes.annotate(
        label, xy=tuple(position), xytext=tuple((22 if label_at_middle else 14) * direction),
        textcoords="offset points", ha="center", va="center", fontsize=8,
        color=color if color != GREY else BLACK,
    )  # fmt: skip


def _label_tips(axes: Axes, vectors: Floats, color: str) -> None:
    """Write the number of each vector at the tip of the vector.

    Tips that nearly coincide share one label.
    """
    near = 0.08 * float(np.abs(vectors).max() or 1.0)
    left = list(range(len(vectors)))
    while left:
        group = [s for s in left if np.linalg.norm(vectors[s] - vectors[left[0]]) < near]
        left = [s for s in left if s not in group]
        tip = vectors[group].mean(axis=0)
        length = float(np.linalg.norm(tip)) or 1.0
        axes.annotate(
            ", ".join(str(s + 1) for s in group), xy=tuple(tip),
            xytext=tuple(11 * tip / length), textcoords="offset points", ha="center", va="center",
            fontsize=8, color=color,
        )  # fmt: skip


def _draw_list(axes: Axes, what: str, numbers: Floats) -> None:
    """Write a list of the first `MAX_LISTED` numbers in the upper left corner of a panel."""
    lines = [f"{s + 1}:  {number:.2f}" for s, number in enumerate(numbers[:MAX_LISTED])]
    lines += ["..."] if len(numbers) > MAX_LISTED else []
    axes.text(0.02, 0.98, "\n".join([what, *lines]), transform=axes.transAxes, va="top",
              fontsize=8, color=BLACK)  # fmt: skip


def _set_axes(axes: Axes, points: Floats) -> None:
    limit = 1.35 * (float(np.abs(points).max()) or 1.0)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-limit, limit)
    axes.set_aspect("equal")
    axes.axhline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.axvline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.tick_params(labelsize=7, length=2)
