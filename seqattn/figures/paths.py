"""Sequences as they are: what was given, what followed, and what was forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.figures.style import BLACK, BLUE, GREY, VERMILION, grid, styled

Floats = NDArray[np.floating]
NUMBERED_UP_TO = 8

GIVEN: dict[str, Any] = {"color": BLACK, "marker": "o", "lw": 1.4}
TRUTH: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "white", "lw": 1.2, "ls": (0, (4, 2))}
SAID: dict[str, Any] = {"color": VERMILION, "marker": "X", "mew": 0, "lw": 1.2}


@styled
def paths_figure(
    source: Sequence[Floats],
    target: Sequence[Floats],
    forecast: Sequence[Floats],
    *,
    titles: Sequence[str],
    features: Sequence[str],
) -> Figure:
    """A panel a sequence. Two features are drawn in their plane, others over the steps.

    Args:
        source: an (S, F) array a panel, without padding.
        target: (T, F) each; T = 0 where no truth is known.
        forecast: (T, F) each.
        titles: one a panel; the error goes here.
        features: F names.
    """
    rows, columns = grid(len(source), 2.5)
    figure = Figure(figsize=(2.5 * columns, 2.75 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    in_plane = len(features) == 2
    for axes, given, truth, said, title in zip(
        panels[: len(source)], source, target, forecast, titles, strict=True
    ):
        (_draw_plane if in_plane else _draw_steps)(axes, given, truth, said)
        axes.set_title(title, fontsize=8.5)
        axes.tick_params(labelsize=7, length=2)
    for axes in panels[len(source) :]:
        axes.set_axis_off()
    if in_plane:
        _share_limits(list(panels[: len(source)]), [*source, *target, *forecast])
        for place, axes in enumerate(panels[: len(source)]):
            below_is_empty = place + columns >= len(source)
            axes.tick_params(labelbottom=below_is_empty, labelleft=place % columns == 0)
        figure.supxlabel(features[0], fontsize=9)
        figure.supylabel(features[1], fontsize=9)
    else:
        figure.supxlabel("step", fontsize=9)
        figure.supylabel(", ".join(features[:6]) + (", ..." if len(features) > 6 else ""))
    legend = {"given": GIVEN, "true continuation": TRUTH, "forecast": SAID}
    if not any(len(truth) for truth in target):
        del legend["true continuation"]
    handles = [panels[0].plot([], [], label=name, **look)[0] for name, look in legend.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=9)
    return figure


def _draw_plane(axes: Axes, given: Floats, truth: Floats, said: Floats) -> None:
    size = 6.0 if len(given) + len(said) <= NUMBERED_UP_TO else 3.0
    for points, look in ((truth, TRUTH), (said, SAID)):
        path = np.vstack([given[-1:], points])
        axes.plot(*path.T, **{**look, "marker": None}, zorder=2)
        axes.plot(*points.T, **{**look, "ls": "none"}, ms=size, zorder=4)
    axes.plot(*given.T, **GIVEN, ms=size, zorder=3)
    if len(given) + len(said) <= NUMBERED_UP_TO:
        middle = np.vstack([given, truth, said]).mean(axis=0)
        for number, point in enumerate([*given, *(truth if len(truth) else said)], start=1):
            away = np.sign(point - middle)
            axes.annotate(
                str(number), point, xytext=tuple(9 * away), textcoords="offset points",
                ha="center", va="center", fontsize=8, color=BLACK,
            )  # fmt: skip
    axes.set_aspect("equal")


def _draw_steps(axes: Axes, given: Floats, truth: Floats, said: Floats) -> None:
    S, F = given.shape
    size = 4.0 if S + len(said) <= NUMBERED_UP_TO else 2.0
    for feature in range(F):
        faded: dict[str, Any] = {"alpha": 1.0 if F == 1 else 0.35 + 0.65 * feature / max(1, F - 1)}
        axes.plot(np.arange(1, S + 1), given[:, feature], **GIVEN, ms=size, **faded)
        for points, look in ((truth, TRUTH), (said, SAID)):
            steps = np.arange(S, S + len(points) + 1)
            path = np.concatenate([given[-1:, feature], points[:, feature]])
            axes.plot(steps, path, **{**look, "marker": None}, **faded)
            axes.plot(steps[1:], path[1:], **{**look, "ls": "none"}, ms=size, **faded)
    axes.axvline(S + 0.5, color=GREY, lw=0.6, ls=":")


def _share_limits(panels: Sequence[Axes], points: Sequence[Floats]) -> None:
    """One scale for all panels, so that their sizes can be compared."""
    every = np.vstack(points)
    middle = (every.max(axis=0) + every.min(axis=0)) / 2
    half = 0.5 * float(np.ptp(every, axis=0).max()) * 1.18 or 1.0
    for axes in panels:
        axes.set_xlim(middle[0] - half, middle[0] + half)
        axes.set_ylim(middle[1] - half, middle[1] + half)
