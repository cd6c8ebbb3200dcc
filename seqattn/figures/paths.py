"""Sequences as they are: what was given, what followed, and what was forecast."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.data.sequences import share_a_plane
from seqattn.data.units import Units, with_unit
from seqattn.figures.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    arrange,
    grid,
    shortened,
    styled,
    tick_width,
    title_height,
)

Floats = NDArray[np.floating]
NUMBERED_UP_TO = 8
TICKS = 5  # intervals an axis, at most
TITLE, SMALL = 8.5, 7.0  # points
SIDE, LOW, WIDE = 2.15, 1.25, 6.5  # inches of a panel; where each feature has a row; of a long one
MARKED_UP_TO = 60  # points of a line; more would run into each other
MOST_FEATURES, MOST_COLUMNS = 6, 5  # drawn where each feature has a row
LONGEST = 20  # letters of a name beside such a row

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
    rooted: bool = False,
    units: Units | None = None,
) -> Figure:
    """Sequences with what was said of them, and its mean squared error where the truth is known.

    Two features of both source and target that spread alike are drawn in their plane. Others go
    over the steps: a single one in a panel a sequence, several in a column of panels each, since
    they have units of their own; target features come first there, and the first sequences and
    features alone are drawn. A forecast goes on from the source of the same feature.

    Args:
        source: an (S, F) array a sequence, without padding.
        target: (T, G) each; T = 0 where no truth is known.
        forecast: (T, G) each.
        titles: one a sequence.
        features: F names.
        said: G names; None: the same.
        rooted: give the root of the error, in the data's units.
        units: of the features that have one; two of different units share no plane.
    """
    said, units = features if said is None else said, units or {}
    if share_a_plane(features, said, [*source, *target, *forecast], units):
        return _in_planes(source, target, forecast, titles, features, rooted, units)
    return _over_steps(source, target, forecast, titles, features, said, rooted, units)


def _in_planes(
    source: Sequence[Floats], target: Sequence[Floats], forecast: Sequence[Floats],
    titles: Sequence[str], features: Sequence[str], rooted: bool, units: Units,
) -> Figure:  # fmt: skip
    shape = grid(len(source), 2.5)
    figure, panels = _panels(shape, len(source))
    heads = [
        title + _error(truth, predicted, rooted, units.get(features[0]))
        for title, truth, predicted in zip(titles, target, forecast, strict=True)
    ]
    for axes, given, truth, predicted, head in zip(panels, source, target, forecast, heads,
                                              strict=True):  # fmt: skip
        _draw_plane(axes, given, truth, predicted)
        axes.set_title(head, fontsize=TITLE)
    _share_limits(panels, [*source, *target, *forecast])
    _, columns = shape
    for place, axes in enumerate(panels):
        axes.tick_params(labelbottom=place + columns >= len(source), labelleft=place % columns == 0)
    above = title_height(heads, TITLE)
    ticks = 0.1 + tick_width(panels[0].yaxis, SMALL)
    arrange(
        figure, (SIDE, SIDE), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _legend(figure, panels[0], columns, target, forecast),
        across=0.2, down=above + 0.2,
    )  # fmt: skip
    _name_axes(figure, *(with_unit(name, units) for name in features))
    return figure


def _over_steps(
    source: Sequence[Floats], target: Sequence[Floats], forecast: Sequence[Floats],
    titles: Sequence[str], features: Sequence[str], said: Sequence[str], rooted: bool,
    units: Units,
) -> Figure:  # fmt: skip
    every = list(dict.fromkeys([*said, *features]))
    names = every[:MOST_FEATURES]
    if alone := len(names) == 1:
        shape = grid(len(source), 2.5)
    else:
        shape = len(names), min(MOST_COLUMNS, len(source))
        source, target, forecast = (rows[: shape[1]] for rows in (source, target, forecast))
        titles = titles[: shape[1]]
    rows, columns = shape
    figure, panels = _panels(shape, len(names) * len(source))
    heads = list[str]()
    places = itertools.product(enumerate(names), zip(source, target, forecast, titles, strict=True))
    for axes, ((row, name), (given, truth, predicted, title)) in zip(panels, places, strict=True):
        parts = (
            _column(given, features, name), _column(truth, said, name),
            _column(predicted, said, name),
        )  # fmt: skip
        _draw_steps(axes, len(given), *parts)
        if len(predicted):
            axes.axvline(len(given) + 0.5, color=GREY, lw=0.6, ls=":")
        heads.append((title if row == 0 else "") + _error(*parts[1:], rooted, units.get(name)))
        axes.set_title(heads[-1] if row == 0 else heads[-1].strip(), fontsize=TITLE)
        axes.tick_params(labelbottom=alone or row == rows - 1)
    ticks = 0.1 + max(tick_width(axes.yaxis, SMALL) for axes in panels)
    above = title_height(heads, TITLE)
    longest = max(
        len(given) + len(predicted) for given, predicted in zip(source, forecast, strict=True)
    )
    width = WIDE if columns == 1 and longest > MARKED_UP_TO else SIDE
    arrange(
        figure, (width, SIDE if alone else LOW), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _legend(figure, panels[0], columns, target, forecast), across=0.2 + ticks,
        down=above + 0.3 if alone else title_height("M", TITLE) + 0.1,
    )  # fmt: skip
    if alone:
        _name_axes(figure, "step", with_unit(names[0], units))
        return figure
    for axes, name in zip(panels[::columns], names, strict=True):
        axes.set_ylabel(with_unit(name, units, shortened(name, LONGEST)), fontsize=9)
        axes.yaxis.set_label_coords(-(ticks + 0.1) / width, 0.5)
    left_out = len(every) - len(names)
    _name_axes(figure, f"step ({left_out} more features are not drawn)" if left_out else "step", "")
    return figure


def _panels(shape: tuple[int, int], shown: int) -> tuple[Figure, list[Axes]]:
    """A figure, and the panels of it that are used."""
    figure = Figure()
    panels = list(figure.subplots(*shape, squeeze=False).ravel())
    for axes in panels[shown:]:
        axes.set_axis_off()
    for axes in panels[:shown]:
        axes.tick_params(labelsize=SMALL, length=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
            axis.get_offset_text().set_fontsize(SMALL)
    return figure, panels[:shown]


def _error(truth: Floats | None, said: Floats | None, rooted: bool, unit: str | None) -> str:
    """A line for a title, or nothing where there is no truth.

    Args:
        unit: of the root of the error.
    """
    if truth is None or said is None or not len(truth) or not np.isfinite(truth).any():
        return ""
    error = float(np.nanmean(np.square(said - truth))) ** (0.5 if rooted else 1)
    digits = f"{error:.4f}" if 1e-3 <= error < 1e4 or error == 0 else f"{error:.3g}"
    return f"\nRMSE {digits} {unit or ''}".rstrip() if rooted else f"\nMSE {digits}"


def _legend(
    figure: Figure, axes: Axes, columns: int, target: Sequence[Floats], forecast: Sequence[Floats]
) -> float:
    """What the lines mean, in a row where there is room; its height in inches."""
    looks = {"given": GIVEN}
    looks |= {"true continuation": TRUTH} if any(map(len, target)) else {}
    looks |= {"forecast": SAID} if any(map(len, forecast)) else {}
    if len(looks) == 1:
        return 0.0
    handles = [axes.plot([], [], label=name, **look)[0] for name, look in looks.items()]
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2, fontsize=9,
        ncols=3 if columns > 1 else 1,
    )  # fmt: skip
    return 0.18 * (1 if columns > 1 else len(looks))


def _name_axes(figure: Figure, below: str, beside: str) -> None:
    width, height = figure.get_size_inches()
    figure.supxlabel(below, y=0.07 / height, fontsize=9)
    figure.supylabel(beside, x=0.07 / width, fontsize=9)


def _draw_plane(axes: Axes, given: Floats, truth: Floats, said: Floats) -> None:
    size = 6.0 if len(given) + len(said) <= NUMBERED_UP_TO else 3.0
    for points, look in ((truth, TRUTH), (said, SAID)):
        path = np.vstack([given[-1:], points])
        axes.plot(*path.T, **{**look, "marker": None}, zorder=2)
        axes.plot(*points.T, **{**look, "ls": "none"}, ms=size, zorder=4)
    axes.plot(*given.T, **GIVEN, ms=size, zorder=3)
    if len(given) + len(said) <= NUMBERED_UP_TO:
        middle = np.nanmean(np.vstack([given, truth, said]), axis=0)
        for number, point in enumerate([*given, *(truth if len(truth) else said)], start=1):
            if not np.isfinite(point).all():
                continue
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
    axes: Axes, S: int, given: Floats | None, truth: Floats | None, said: Floats | None
) -> None:
    """One feature over the steps: (S,) given, (T,) true, (T,) said, None where it is not there; NaN
    where a true point was not observed."""
    total = S + (0 if said is None else len(said))
    size = 4.0 if total <= NUMBERED_UP_TO else 2.0 if total <= MARKED_UP_TO else 0.0
    if given is not None:
        axes.plot(np.arange(1, S + 1), given, **GIVEN, ms=size)
    for points, look in ((truth, TRUTH), (said, SAID)):
        if points is None:
            continue
        steps = np.arange(S + 1, S + len(points) + 1)
        path, places = points, steps
        if given is not None:
            path, places = np.concatenate([given[-1:], points]), np.arange(S, S + len(points) + 1)
        axes.plot(places, path, **{**look, "marker": None})
        axes.plot(steps, points, **{**look, "ls": "none"}, ms=size)


def _share_limits(panels: Sequence[Axes], points: Sequence[Floats]) -> None:
    """One scale for all panels, so that their sizes can be compared."""
    every = np.vstack(points)
    every = every[np.isfinite(every).all(axis=1)]
    if not len(every):
        return
    middle = (every.max(axis=0) + every.min(axis=0)) / 2
    half = 0.5 * float(np.ptp(every, axis=0).max()) * 1.18 or 1.0
    for axes in panels:
        axes.set_xlim(middle[0] - half, middle[0] + half)
        axes.set_ylim(middle[1] - half, middle[1] + half)
