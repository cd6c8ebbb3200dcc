"""Sequences as they are: what was given, what followed, and what was forecast."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.data.sequences import can_share_axes
from seqattn.data.units import Units, with_unit
from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILION,
    arrange,
    grid,
    name_axes,
    panel_grid,
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

SOURCE: dict[str, Any] = {"color": BLACK, "marker": "o", "lw": 1.4}
TRUTH: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "white", "lw": 1.2, "ls": (0, (4, 2))}
FORECAST: dict[str, Any] = {"color": VERMILION, "marker": "X", "mew": 0, "lw": 1.2}


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
    examples = [_Example(*each) for each in zip(source, target, forecast, titles, strict=True)]
    if can_share_axes(features, said, [*source, *target, *forecast], units):
        return _in_planes(examples, features, rooted, units)
    return _over_steps(examples, features, said, rooted, units)


@dataclass(frozen=True)
class _Example:
    """A sequence to draw: source (S, F), true target (T, G) or (0, G), forecast (T, G)."""

    source: Floats
    target: Floats
    forecast: Floats
    title: str

    def __len__(self) -> int:
        return len(self.source) + len(self.forecast)

    def points(self) -> list[Floats]:
        return [self.source, self.target, self.forecast]


def _in_planes(
    examples: Sequence[_Example], features: Sequence[str], rooted: bool, units: Units
) -> Figure:
    """A panel a sequence, which is a path in the plane of two features."""
    shape = grid(len(examples), 2.5)
    figure, panels = _panels(shape, len(examples))
    unit = units.get(features[0])
    heads = [each.title + _error(each.target, each.forecast, rooted, unit) for each in examples]
    for axes, example, head in zip(panels, examples, heads, strict=True):
        _draw_plane(axes, *example.points())
        axes.set_title(head, fontsize=TITLE)
    _share_limits(panels, [points for each in examples for points in each.points()])
    _, columns = shape
    for place, axes in enumerate(panels):
        is_lowest = place + columns >= len(examples)
        axes.tick_params(labelbottom=is_lowest, labelleft=place % columns == 0)
    above = title_height(heads, TITLE)
    ticks = _tick_space(panels[:1])
    arrange(
        figure, (SIDE, SIDE), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _draw_legend(figure, panels[0], columns, examples),
        gaps=(0.2, above + 0.2),
    )  # fmt: skip
    name_axes(figure, *(with_unit(name, units) for name in features))
    return figure


def _over_steps(
    examples: Sequence[_Example],
    features: Sequence[str],
    said: Sequence[str],
    rooted: bool,
    units: Units,
) -> Figure:
    """A panel a sequence where there is one feature; else a row a feature, a column a sequence."""
    every = list(dict.fromkeys([*said, *features]))
    names = every[:MOST_FEATURES]
    if alone := len(names) == 1:
        rows, columns = grid(len(examples), 2.5)
    else:
        rows, columns = len(names), min(MOST_COLUMNS, len(examples))
        examples = examples[:columns]
    figure, panels = _panels((rows, columns), len(names) * len(examples))
    heads = list[str]()
    for axes, (name, example) in zip(panels, itertools.product(names, examples), strict=True):
        target, forecast = (
            _column(points, said, name) for points in (example.target, example.forecast)
        )
        S = len(example.source)
        _draw_steps(axes, S, _column(example.source, features, name), target, forecast)
        if len(example.forecast):
            axes.axvline(S + 0.5, color=GREY, lw=0.6, ls=":")
        error = _error(target, forecast, rooted, units.get(name))
        heads.append(example.title + error if name == names[0] else error)
        axes.set_title(heads[-1] if name == names[0] else error.strip(), fontsize=TITLE)
        axes.tick_params(labelbottom=name == names[-1])
    ticks = _tick_space(panels)
    above = title_height(heads, TITLE)
    width = WIDE if columns == 1 and max(map(len, examples)) > MARKED_UP_TO else SIDE
    height, gap = (SIDE, above + 0.3) if alone else (LOW, title_height("M", TITLE) + 0.1)
    arrange(
        figure, (width, height), (rows, columns), left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _draw_legend(figure, panels[0], columns, examples),
        gaps=(0.2 + ticks, gap),
    )  # fmt: skip
    if alone:
        name_axes(figure, "step", with_unit(names[0], units))
        return figure
    for axes, name in zip(panels[::columns], names, strict=True):
        axes.set_ylabel(with_unit(name, units, shortened(name, LONGEST)), fontsize=9)
        axes.yaxis.set_label_coords(-(ticks + 0.1) / width, 0.5)
    left_out = len(every) - len(names)
    name_axes(figure, f"step ({left_out} more features are not drawn)" if left_out else "step", "")
    return figure


def _panels(shape: tuple[int, int], count: int) -> tuple[Figure, list[Axes]]:
    """A figure and its first panels, with small and round ticks."""
    figure, panels = panel_grid(shape, count)
    for axes in panels:
        axes.tick_params(labelsize=SMALL, length=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 5, 10]))
            axis.get_offset_text().set_fontsize(SMALL)
    return figure, panels


def _tick_space(panels: Sequence[Axes]) -> float:
    """Inches left of a panel for its tick labels."""
    return 0.1 + max(tick_width(axes.yaxis, SMALL) for axes in panels)


def _error(target: Floats | None, forecast: Floats | None, rooted: bool, unit: str | None) -> str:
    """A line for a title, or nothing where there is no true target.

    Args:
        unit: of the root of the error.
    """
    if target is None or forecast is None or not len(target) or not np.isfinite(target).any():
        return ""
    error = float(np.nanmean(np.square(forecast - target))) ** (0.5 if rooted else 1)
    digits = f"{error:.4f}" if 1e-3 <= error < 1e4 or error == 0 else f"{error:.3g}"
    return f"\nRMSE {digits} {unit or ''}".rstrip() if rooted else f"\nMSE {digits}"


def _draw_legend(figure: Figure, axes: Axes, columns: int, examples: Sequence[_Example]) -> float:
    """What the lines mean, in a row where there is room; its height in inches."""
    lines = {"given": SOURCE}
    lines |= {"true continuation": TRUTH} if any(len(each.target) for each in examples) else {}
    lines |= {"forecast": FORECAST} if any(len(each.forecast) for each in examples) else {}
    if len(lines) == 1:
        return 0.0
    handles = [axes.plot([], [], label=name, **style)[0] for name, style in lines.items()]
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2, fontsize=9,
        ncols=3 if columns > 1 else 1,
    )  # fmt: skip
    return 0.18 * (1 if columns > 1 else len(lines))


def _draw_plane(axes: Axes, source: Floats, target: Floats, forecast: Floats) -> None:
    size = 6.0 if len(source) + len(forecast) <= NUMBERED_UP_TO else 3.0
    for points, style in ((target, TRUTH), (forecast, FORECAST)):
        path = np.vstack([source[-1:], points])
        axes.plot(*path.T, **{**style, "marker": None}, zorder=2)
        axes.plot(*points.T, **{**style, "ls": "none"}, ms=size, zorder=4)
    axes.plot(*source.T, **SOURCE, ms=size, zorder=3)
    if len(source) + len(forecast) <= NUMBERED_UP_TO:
        middle = np.nanmean(np.vstack([source, target, forecast]), axis=0)
        for number, point in enumerate([*source, *(target if len(target) else forecast)], start=1):
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
    axes: Axes, S: int, source: Floats | None, target: Floats | None, forecast: Floats | None
) -> None:
    """One feature over the steps: (S,) source, (T,) true, (T,) forecast, None where it is not
    there; NaN where a true point was not observed."""
    total = S + (0 if forecast is None else len(forecast))
    size = 4.0 if total <= NUMBERED_UP_TO else 2.0 if total <= MARKED_UP_TO else 0.0
    if source is not None:
        axes.plot(np.arange(1, S + 1), source, **SOURCE, ms=size)
    for points, style in ((target, TRUTH), (forecast, FORECAST)):
        if points is None:
            continue
        steps = np.arange(S + 1, S + len(points) + 1)
        path, places = points, steps
        if source is not None:
            path, places = np.concatenate([source[-1:], points]), np.arange(S, S + len(points) + 1)
        axes.plot(places, path, **{**style, "marker": None})
        axes.plot(steps, points, **{**style, "ls": "none"}, ms=size)


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
