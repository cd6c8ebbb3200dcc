"""Figures of sequences with their targets and forecasts."""

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
    grid_shape,
    label_axes,
    panel_grid,
    set_layout,
    shorten_name,
    tick_width,
    title_height,
    with_style,
)

Floats = NDArray[np.floating]
MAX_NUMBERED_POINTS = 8
MAX_TICK_INTERVALS = 5  # on each axis
TITLE_SIZE, TICK_SIZE = 8.5, 7.0  # points
PANEL_SIDE, ROW_HEIGHT, LONG_PANEL_WIDTH = 2.15, 1.25, 6.5  # inches
MAX_MARKED_POINTS = 60  # the markers of a line with more points would overlap
MAX_FEATURES, MAX_COLUMNS = 6, 5  # of a figure with one row per feature, one column per sequence
MAX_LABEL_LETTERS = 20  # longer names of features are shortened

SOURCE: dict[str, Any] = {"color": BLACK, "marker": "o", "lw": 1.4}
TRUTH: dict[str, Any] = {"color": BLUE, "marker": "o", "mfc": "white", "lw": 1.2, "ls": (0, (4, 2))}
FORECAST: dict[str, Any] = {"color": VERMILION, "marker": "X", "mew": 0, "lw": 1.2}


@with_style
def paths_figure(
    source: Sequence[Floats],
    target: Sequence[Floats],
    forecast: Sequence[Floats],
    *,
    titles: Sequence[str],
    features: Sequence[str],
    target_features: Sequence[str] | None = None,
    use_rmse: bool = False,
    units: Units | None = None,
) -> Figure:
    """Draw sequences with their forecasts, and write the errors of the forecasts into the titles.

    If the source and the target have the same two features, and the features have equal units and
    similar spreads, each sequence is drawn as a path in the plane of the two features. Otherwise,
    each feature is drawn over the steps. A single feature gets one panel per sequence. If there are
    several features, each feature gets one row of panels, with the target features first. In this
    case, only the first sequences and features are drawn. The line of a forecast starts at the last
    source point of the same feature. A forecast with an unknown target has no error.

    Args:
        source: one (S, F) array per sequence, without padding.
        target: one (T, G) array per sequence, with T = 0 if the target is unknown.
        forecast: one (T, G) array per sequence.
        titles: one title per sequence.
        features: the names of the F source features.
        target_features: the names of the G target features; None if the source and the target have
            the same features.
        use_rmse: whether to write the root mean squared error in the units of the data, instead of
            the mean squared error.
        units: the unit of each feature, by feature name. A feature without a unit has no entry.
    """
    target_features, units = features if target_features is None else target_features, units or {}
    sequences = zip(source, target, forecast, titles, strict=True)
    examples = [_Example(*arrays) for arrays in sequences]
    if can_share_axes(features, target_features, [*source, *target, *forecast], units):
        return _plane_figure(examples, features, use_rmse, units)
    return _steps_figure(examples, features, target_features, use_rmse, units)


@dataclass(frozen=True)
class _Example:
    """A sequence to draw.

    Attributes:
        source: (S, F), the source.
        target: (T, G), the target, or (0, G) if the target is unknown.
        forecast: (T, G), the forecast.
        title: the title of the sequence.
    """

    source: Floats
    target: Floats
    forecast: Floats
    title: str

    def __len__(self) -> int:
        return len(self.source) + len(self.forecast)

    def points(self) -> list[Floats]:
        return [self.source, self.target, self.forecast]


def _plane_figure(
    examples: Sequence[_Example], features: Sequence[str], use_rmse: bool, units: Units
) -> Figure:
    """Draw each sequence in its own panel, as a path in the plane of two features."""
    shape = grid_shape(len(examples), 2.5)
    figure, panels = _make_panels(shape, len(examples))
    unit = units.get(features[0])
    titles = [
        example.title + _error_line(example.target, example.forecast, use_rmse, unit)
        for example in examples
    ]
    for axes, example, title in zip(panels, examples, titles, strict=True):
        _draw_plane(axes, *example.points())
        axes.set_title(title, fontsize=TITLE_SIZE)
    _set_common_limits(panels, [points for example in examples for points in example.points()])
    _, columns = shape
    for index, axes in enumerate(panels):
        is_lowest = index + columns >= len(examples)
        axes.tick_params(labelbottom=is_lowest, labelleft=index % columns == 0)
    above = title_height(titles, TITLE_SIZE)
    ticks = _tick_label_space(panels[:1])
    set_layout(
        figure, (PANEL_SIDE, PANEL_SIDE), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _draw_legend(figure, panels[0], columns, examples),
        gaps=(0.2, above + 0.2),
    )  # fmt: skip
    label_axes(figure, *(with_unit(name, units) for name in features))
    return figure


def _steps_figure(
    examples: Sequence[_Example],
    features: Sequence[str],
    target_features: Sequence[str],
    use_rmse: bool,
    units: Units,
) -> Figure:
    """Draw the features over the steps, with one panel for each feature of each sequence.

    If there are several features, each feature has one row. The panels of a single feature may fill
    several rows.
    """
    all_features = list(dict.fromkeys([*target_features, *features]))
    names = all_features[:MAX_FEATURES]
    if single_feature := len(names) == 1:
        rows, columns = grid_shape(len(examples), 2.5)
    else:
        rows, columns = len(names), min(MAX_COLUMNS, len(examples))
        examples = examples[:columns]
    figure, panels = _make_panels((rows, columns), len(names) * len(examples))
    titles = list[str]()
    for axes, (name, example) in zip(panels, itertools.product(names, examples), strict=True):
        target, forecast = (
            _feature_values(points, target_features, name)
            for points in (example.target, example.forecast)
        )
        S = len(example.source)
        _draw_steps(axes, S, _feature_values(example.source, features, name), target, forecast)
        if len(example.forecast):
            axes.axvline(S + 0.5, color=GREY, lw=0.6, ls=":")
        error = _error_line(target, forecast, use_rmse, units.get(name))
        titles.append(example.title + error if name == names[0] else error)
        axes.set_title(titles[-1] if name == names[0] else error.strip(), fontsize=TITLE_SIZE)
        axes.tick_params(labelbottom=name == names[-1])
    ticks = _tick_label_space(panels)
    above = title_height(titles, TITLE_SIZE)
    is_long = columns == 1 and max(map(len, examples)) > MAX_MARKED_POINTS
    width = LONG_PANEL_WIDTH if is_long else PANEL_SIDE
    height, gap = PANEL_SIDE, above + 0.3
    if not single_feature:
        height, gap = ROW_HEIGHT, title_height("M", TITLE_SIZE) + 0.1
    set_layout(
        figure, (width, height), (rows, columns), left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + _draw_legend(figure, panels[0], columns, examples),
        gaps=(0.2 + ticks, gap),
    )  # fmt: skip
    if single_feature:
        label_axes(figure, "step", with_unit(names[0], units))
        return figure
    for axes, name in zip(panels[::columns], names, strict=True):
        axes.set_ylabel(with_unit(name, units, shorten_name(name, MAX_LABEL_LETTERS)), fontsize=9)
        axes.yaxis.set_label_coords(-(ticks + 0.1) / width, 0.5)
    omitted = len(all_features) - len(names)
    more = f" ({omitted} more features are not drawn)" if omitted else ""
    label_axes(figure, f"step{more}", "")
    return figure


def _make_panels(shape: tuple[int, int], count: int) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of panels, and return the figure and the first `count` panels.

    The panels have a few ticks at round numbers, with small labels.

    Args:
        shape: the number of rows and the number of columns.
        count: the number of panels to use. The other panels stay empty.
    """
    figure, panels = panel_grid(shape, count)
    for axes in panels:
        axes.tick_params(labelsize=TICK_SIZE, length=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(MAX_TICK_INTERVALS, steps=[1, 2, 5, 10]))
            axis.get_offset_text().set_fontsize(TICK_SIZE)
    return figure, panels


def _tick_label_space(panels: Sequence[Axes]) -> float:
    """Return the space that the tick labels of the vertical axes need, in inches."""
    return 0.1 + max(tick_width(axes.yaxis, TICK_SIZE) for axes in panels)


def _error_line(
    target: Floats | None, forecast: Floats | None, use_rmse: bool, unit: str | None
) -> str:
    """Return the error as a line of a title, or "" if the target is unknown.

    Args:
        target: the target values; None if the feature is not a target feature.
        forecast: the forecast values; None if the feature is not a target feature.
        use_rmse: whether to return the root mean squared error instead of the mean squared error.
        unit: the unit of the root mean squared error; None if the unit is unknown.
    """
    if target is None or forecast is None or not len(target) or not np.isfinite(target).any():
        return ""
    error = float(np.nanmean(np.square(forecast - target))) ** (0.5 if use_rmse else 1)
    digits = f"{error:.4f}" if 1e-3 <= error < 1e4 or error == 0 else f"{error:.3g}"
    return f"\nRMSE {digits} {unit or ''}".rstrip() if use_rmse else f"\nMSE {digits}"


def _draw_legend(figure: Figure, axes: Axes, columns: int, examples: Sequence[_Example]) -> float:
    """Draw the legend, and return the height of the legend in inches.

    If the figure has several columns of panels, the legend has a single row.
    """
    lines = {"given": SOURCE}
    lines |= (
        {"true continuation": TRUTH} if any(len(example.target) for example in examples) else {}
    )
    lines |= {"forecast": FORECAST} if any(len(example.forecast) for example in examples) else {}
    if len(lines) == 1:
        return 0.0
    handles = [axes.plot([], [], label=name, **style)[0] for name, style in lines.items()]
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2, fontsize=9,
        ncols=3 if columns > 1 else 1,
    )  # fmt: skip
    return 0.18 * (1 if columns > 1 else len(lines))


def _draw_plane(axes: Axes, source: Floats, target: Floats, forecast: Floats) -> None:
    size = 6.0 if len(source) + len(forecast) <= MAX_NUMBERED_POINTS else 3.0
    for points, style in ((target, TRUTH), (forecast, FORECAST)):
        path = np.vstack([source[-1:], points])
        axes.plot(*path.T, **{**style, "marker": None}, zorder=2)
        axes.plot(*points.T, **{**style, "ls": "none"}, ms=size, zorder=4)
    axes.plot(*source.T, **SOURCE, ms=size, zorder=3)
    if len(source) + len(forecast) <= MAX_NUMBERED_POINTS:
        center = np.nanmean(np.vstack([source, target, forecast]), axis=0)
        for number, point in enumerate([*source, *(target if len(target) else forecast)], start=1):
            if not np.isfinite(point).all():
                continue
            direction = np.sign(point - center)
            axes.annotate(
                str(number), point, xytext=tuple(9 * direction), textcoords="offset points",
                ha="center", va="center", fontsize=8, color=BLACK,
            )  # fmt: skip
    axes.set_aspect("equal")


def _feature_values(points: Floats, names: Sequence[str], name: str) -> Floats | None:
    """Return the values of a feature, (L,); None if the points do not have the feature.

    Args:
        points: (L, F), the points.
        names: the names of the F features of the points.
        name: the name of the feature.
    """
    return points[:, list(names).index(name)] if name in names else None


def _draw_steps(
    axes: Axes, S: int, source: Floats | None, target: Floats | None, forecast: Floats | None
) -> None:
    """Draw one feature over the steps.

    Args:
        axes: the panel.
        S: the number of source steps.
        source: (S,), the source values; None if the feature is not a source feature.
        target: (T,), the target values, with NaN for unobserved values; None if the feature is not
            a target feature.
        forecast: (T,), the forecast values; None if the feature is not a target feature.
    """
    total = S + (0 if forecast is None else len(forecast))
    size = 4.0 if total <= MAX_NUMBERED_POINTS else 2.0 if total <= MAX_MARKED_POINTS else 0.0
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


def _set_common_limits(panels: Sequence[Axes], points: Sequence[Floats]) -> None:
    """Set the same axis limits for all panels, so that readers can compare the paths."""
    all_features = np.vstack(points)
    all_features = all_features[np.isfinite(all_features).all(axis=1)]
    if not len(all_features):
        return
    center = (all_features.max(axis=0) + all_features.min(axis=0)) / 2
    radius = 0.5 * float(np.ptp(all_features, axis=0).max()) * 1.18 or 1.0
    for axes in panels:
        axes.set_xlim(center[0] - radius, center[0] + radius)
        axes.set_ylim(center[1] - radius, center[1] + radius)
