"""One attention step as vectors: what the query meets, and what the context is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.plots.style import BLACK, BLUE, GREY, VERMILION, arrange, styled

Floats = NDArray[np.float64]
MOST_LINES = 12


@styled
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
    """Two panels: query and keys from the origin, and the context as a chain of weighted values.

    Two numbers are drawn as they are. Wider vectors are drawn on the two directions that hold most
    of them (a principal component analysis about the origin, so that it stays where it is); the
    panel says how much of their squared length that is.

    Args:
        query: (K,), or None where keys are not asked.
        keys: (S, K).
        values: (S, V).
        context: (V,), the sum of weights times values.
        weights: (S,).
        cosines: whether to write the cosine of query and key beside each key.
    """
    figure = Figure()
    left, right = figure.subplots(1, 2)
    vectors = keys if query is None else np.vstack([query, keys])
    drawn, share = _in_plane(vectors)
    _frame(left, drawn)
    if query is not None:
        _arrow(left, drawn[0], VERMILION, "query", lw=2.2)
        drawn = drawn[1:]
    for key in drawn:
        _arrow(left, key, BLUE)
    _name_tips(left, drawn, BLUE)
    if query is not None and cosines:
        lengths = np.linalg.norm(keys, axis=1) * np.linalg.norm(query)
        angles = keys @ query / np.where(lengths > 0, lengths, 1.0)
        _list(left, "cosine of query and key", angles)
    left.set_title(f"Query and keys{_projection_note(share, vectors)}", fontsize=9)

    drawn, share = _in_plane(np.vstack([values, context]))
    for value in drawn[:-1]:
        _arrow(right, value, GREY, lw=1.0, dashed=True)
    _name_tips(right, drawn[:-1], BLACK)
    _list(right, "weight of value", weights)
    corner = np.zeros(2)
    for weight, value in zip(weights, drawn[:-1], strict=True):
        if np.linalg.norm(weight * value) > 0.03 * np.abs(drawn).max():  # else all head
            _arrow(right, weight * value, BLUE, start=corner)
        corner = corner + weight * value
    _arrow(right, drawn[-1], VERMILION, "context", lw=2.2, at_middle=True)
    _frame(right, np.vstack([drawn, np.zeros((1, 2))]))
    right.set_title(f"Values, weighted and summed{_projection_note(share, values)}", fontsize=9)
    arrange(figure, (3.8, 3.8), (1, 2), left=0.5, right=0.2, bottom=0.4, top=0.75, gaps=(0.6, 0.0))
    figure.suptitle(title, x=0.02, ha="left", fontsize=9)
    return figure


def _in_plane(vectors: Floats) -> tuple[Floats, float]:
    """Vectors (n, K) as (n, 2), and the share of their squared length that is left."""
    n, K = vectors.shape
    if K <= 2:
        return np.hstack([vectors, np.zeros((n, 2 - K))]), 1.0
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    plane = directions[:2]
    plane = plane * np.where(plane.sum(axis=1) < 0, -1.0, 1.0)[:, None]  # one sign of the two
    total = float((lengths**2).sum())
    drawn = vectors @ plane.T
    if drawn.shape[1] < 2:
        drawn = np.hstack([drawn, np.zeros((n, 2 - drawn.shape[1]))])
    return drawn, float((lengths[:2] ** 2).sum()) / total if total else 1.0


def _projection_note(share: float, vectors: Floats) -> str:
    K = vectors.shape[-1]
    return "" if K <= 2 else f"\n{K} numbers each, on their two main directions ({share:.0%})"


def _arrow(
    axes: Axes, vector: Floats, color: str, word: str = "", *, lw: float = 1.4,
    dashed: bool = False, start: Sequence[float] | Floats = (0.0, 0.0), at_middle: bool = False,
) -> None:  # fmt: skip
    begin = np.asarray(start)
    end = begin + vector
    axes.annotate(
        "", xy=tuple(end), xytext=tuple(begin),
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0,
                    "ls": "--" if dashed else "-"},
    )  # fmt: skip
    length = float(np.linalg.norm(vector)) or 1.0
    place = begin + vector / 2 if at_middle else end
    away = (np.array([-vector[1], vector[0]]) if at_middle else vector) / length
    axes.annotate(
        word, xy=tuple(place), xytext=tuple((22 if at_middle else 14) * away),
        textcoords="offset points", ha="center", va="center", fontsize=8,
        color=color if color != GREY else BLACK,
    )  # fmt: skip


def _name_tips(axes: Axes, vectors: Floats, color: str) -> None:
    """Numbers at the tips; where tips meet, one word for all of them."""
    near = 0.08 * float(np.abs(vectors).max() or 1.0)
    left = list(range(len(vectors)))
    while left:
        together = [s for s in left if np.linalg.norm(vectors[s] - vectors[left[0]]) < near]
        left = [s for s in left if s not in together]
        tip = vectors[together].mean(axis=0)
        length = float(np.linalg.norm(tip)) or 1.0
        axes.annotate(
            ", ".join(str(s + 1) for s in together), xy=tuple(tip),
            xytext=tuple(11 * tip / length), textcoords="offset points", ha="center", va="center",
            fontsize=8, color=color,
        )  # fmt: skip


def _list(axes: Axes, what: str, numbers: Floats) -> None:
    """A list in the corner, of the first few."""
    lines = [f"{s + 1}:  {number:.2f}" for s, number in enumerate(numbers[:MOST_LINES])]
    lines += ["..."] if len(numbers) > MOST_LINES else []
    axes.text(0.02, 0.98, "\n".join([what, *lines]), transform=axes.transAxes, va="top",
              fontsize=8, color=BLACK)  # fmt: skip


def _frame(axes: Axes, points: Floats) -> None:
    reach = 1.35 * (float(np.abs(points).max()) or 1.0)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.axhline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.axvline(0, color="#dddddd", lw=0.6, zorder=0)
    axes.tick_params(labelsize=7, length=2)
