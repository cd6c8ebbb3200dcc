"""Sequences as they are: what was given, what followed, and what was forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.figures.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    arrange,
    grid,
    styled,
    tick_width,
    title_height,
)

Floats = NDArray[np.floating]
NUMBERED_UP_TO = 8
TICKS = 5  # intervals an axis, at most
TITLE, SMALL = 8.5, 7.0  # points

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
    said: Sequence[str] | None = None,
) -> Figure:
    """A panel a sequence. Two features that are given and said are drawn in their plane, others
    over the steps; there what is said goes on from what was given of the same feature.

    Args:
        source: an (S, F) array a panel, without padding.
        target: (T, G) each; T = 0 where no truth is known.
        forecast: (T, G) each.
        titles: one a panel; the error goes here.
        features: F names.
        said: G names; None: the same.
    """
    said = features if said is None else said
    names = list(dict.fromkeys([*features, *said]))
    rows, columns = shape = grid(len(source), 2.5)
    figure = Figure()
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    shown, unused = panels[: len(source)], panels[len(source) :]
    in_plane = len(features) == 2 and list(features) == list(said)
    for axes, given, truth, told, title in zip(shown, source, target, forecast, titles,
                                               strict=True):  # fmt: skip
        if in_plane:
            _draw_plane(axes, given, truth, told)
        else:
            for place, name in enumerate(names):
                faded = 1.0 if len(names) == 1 else 0.35 + 0.65 * place / (len(names) - 1)
                _draw_steps(
                    axes, given, _column(given, features, name), _column(truth, said, name),
                    _column(told, said, name), faded,
                )  # fmt: skip
            axes.axvline(len(given) + 0.5, color=GREY, lw=0.6, ls=":")
        axes.set_title(title, fontsize=TITLE)
        axes.tick_params(labelsize=SMALL, length=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
            axis.get_offset_text().set_fontsize(SMALL)
    for axes in unused:
        axes.set_axis_off()
    if in_plane:
        _share_limits(shown, [*source, *target, *forecast])
        for place, axes in enumerate(shown):
            below_is_empty = place + columns >= len(source)
            axes.tick_params(labelbottom=below_is_empty, labelleft=place % columns == 0)
        below, beside = features
    else:
        below, beside = "step", ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        beside += " (faint to dark)" if len(names) > 1 else ""
    measured = shown[:1] if in_plane else shown
    ticks = 0.1 + max(tick_width(axes.yaxis, SMALL) for axes in measured)
    above = title_height(titles, TITLE)
    legend = {"given": GIVEN, "true continuation": TRUTH, "forecast": SAID}
    if not any(len(truth) for truth in target):
        del legend["true continuation"]
    in_a_row = columns > 1
    arrange(
        figure, (2.15, 2.15), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + 0.18 * (1 if in_a_row else len(legend)),
        across=0.2 + (0.0 if in_plane else ticks), down=above + (0.2 if in_plane else 0.3),
    )  # fmt: skip
    width, height = figure.get_size_inches()
    figure.supxlabel(below, y=0.07 / height, fontsize=9)
    figure.supylabel(beside, x=0.07 / width, fontsize=9)
    handles = [panels[0].plot([], [], label=name, **look)[0] for name, look in legend.items()]
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2, fontsize=9,
        ncols=3 if in_a_row else 1,
    )  # fmt: skip
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


def _column(points: Floats, names: Sequence[str], name: str) -> Floats | None:
    """(L,) of points (L, F), or None where they do not have it."""
    return points[:, list(names).index(name)] if name in names else None


def _draw_steps(
    axes: Axes, source: Floats, given: Floats | None, truth: Floats | None, said: Floats | None,
    alpha: float,
) -> None:  # fmt: skip
    """One feature over the steps: (S,) given, (T,) true, (T,) said, None where it is not there."""
    S = len(source)
    size = 4.0 if S + (0 if said is None else len(said)) <= NUMBERED_UP_TO else 2.0
    if given is not None:
        axes.plot(np.arange(1, S + 1), given, **GIVEN, ms=size, alpha=alpha)
    for points, look in ((truth, TRUTH), (said, SAID)):
        if points is None:
            continue
        steps = np.arange(S + 1, S + len(points) + 1)
        path, places = points, steps
        if given is not None:
            path, places = np.concatenate([given[-1:], points]), np.arange(S, S + len(points) + 1)
        axes.plot(places, path, **{**look, "marker": None}, alpha=alpha)
        axes.plot(steps, points, **{**look, "ls": "none"}, ms=size, alpha=alpha)


def _share_limits(panels: Sequence[Axes], points: Sequence[Floats]) -> None:
    """One scale for all panels, so that their sizes can be compared."""
    every = np.vstack(points)
    middle = (every.max(axis=0) + every.min(axis=0)) / 2
    half = 0.5 * float(np.ptp(every, axis=0).max()) * 1.18 or 1.0
    for axes in panels:
        axes.set_xlim(middle[0] - half, middle[0] + half)
        axes.set_ylim(middle[1] - half, middle[1] + half)
