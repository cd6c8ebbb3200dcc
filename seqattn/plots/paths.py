"""Figures of sequences with their targets and forecasts.

In the plane of two features, a sequence is drawn in one of three ways:

- usually, as a path that the target and the forecast continue;
- as points, if each target point repeats a source point. A path through the targets would cover the
  path through the source, so the targets are drawn as rings around the source points;
- as pairs of a key and a value, followed by a query, for the task `recall`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.data.units import Units, can_share_axes, with_unit
from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    Label,
    grid_shape,
    label_axes,
    panel_grid,
    place_labels,
    set_date_ticks,
    set_layout,
    tick_width,
    title_height,
    with_style,
)
from seqattn.runs.array_files import shorten_names

Floats = NDArray[np.floating]
MAX_NUMBERED_POINTS = 8  # of a path
MAX_NUMBERED_MATCHES = 40  # of the source and target points of a sequence
MAX_LARGE_NUMBERS = 16  # more numbers in a panel are smaller
NUMBER_SIZE, SMALL_NUMBER_SIZE = 8.0, 7.0  # points

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
MAX_TICK_INTERVALS = 5  # on each axis
TITLE_SIZE, TICK_SIZE = 8.5, 7.0  # points
PANEL_SIDE, ROW_HEIGHT, LONG_PANEL_WIDTH = 2.15, 1.25, 6.5  # inches
MATCHES_SIDE = 2.6  # inches, of a panel with numbered points or pairs
MAX_DATE_TICKS = 4
DATE_SPACE = 0.15  # inches, for a line below an axis, such as the part that all dates share
MAX_MARKED_POINTS = 60  # the markers of a line with more points would overlap
MAX_FEATURES, MAX_COLUMNS = 6, 5  # of a figure with one row per feature, one column per sequence
MAX_LABEL_LETTERS = 20  # longer names of features are shortened


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


@dataclass(frozen=True)
class Details:
    """Additional information about the sequences of a figure.

    Attributes:
        units: the unit of each feature, by feature name. A feature without a unit has no entry.
        times: for each sequence, the times of its source and target steps, as numbers or dates;
            None if the steps are counted from 1. The first S values are the times of the source.
        repeats_source: whether each target point repeats a source point, as in the task `copy`.
        has_pairs: whether a source consists of keys and values, followed by a query, as in the task
            `recall`.
    """

    units: Units = field(default_factory=dict)
    times: Sequence[NDArray[Any]] | None = None
    repeats_source: bool = False
    has_pairs: bool = False

    @property
    def styles(self) -> Styles:
        """The styles of the points in a plane, by their names in the legend."""
        return PAIRS if self.has_pairs else MATCHES if self.repeats_source else PATH


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
    details: Details | None = None,
) -> Figure:
    """Draw sequences with their forecasts, and write the errors of the forecasts into the titles.

    If the features are the coordinates of a plane (see `can_share_axes`), each sequence is drawn in
    this plane. Otherwise, each feature is drawn over the steps, or over the times of the steps if
    these are known. A single feature gets one panel per sequence. If there are several features,
    each feature gets one row of panels, with the target features first. In this case, only the
    first `MAX_COLUMNS` sequences and the first `MAX_FEATURES` features are drawn. The line of a
    forecast starts at the last source point if the source has the feature. If the target of a
    sequence is unknown, the title contains no error.

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
        details: additional information about the sequences.
    """
    target_features = features if target_features is None else target_features
    details = details or Details()
    sequences = zip(source, target, forecast, titles, strict=True)
    examples = [_Example(*arrays) for arrays in sequences]
    if details.times is not None:
        examples = [replace(example, times=times)
                    for example, times in zip(examples, details.times, strict=True)]  # fmt: skip
    if can_share_axes(features, target_features, [*source, *target, *forecast], details.units):
        return _plane_figure(examples, features, use_rmse, details)
    return _steps_figure(examples, features, target_features, use_rmse, details.units)


@dataclass(frozen=True)
class _Example:
    """A sequence to draw.

    Attributes:
        source: (S, F), the source.
        target: (T, G), the target, or (0, G) if the target is unknown.
        forecast: (T, G), the forecast.
        title: the title of the sequence.
        times: (S + T,), the times of the steps, or None if the steps are counted from 1.
    """

    source: Floats
    target: Floats
    forecast: Floats
    title: str
    times: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.source) + len(self.forecast)

    def points(self) -> list[Floats]:
        return [self.source, self.target, self.forecast]

    @property
    def places(self) -> NDArray[Any]:
        """The horizontal positions (S + T,) of the steps."""
        if self.times is None:
            return np.arange(1, len(self) + 1)
        places = self.times[: len(self)]
        return places.astype("datetime64[us]") if places.dtype.kind == "M" else places

    @property
    def has_dates(self) -> bool:
        return self.places.dtype.kind == "M"


def _plane_figure(
    examples: Sequence[_Example], features: Sequence[str], use_rmse: bool, details: Details
) -> Figure:
    """Draw each sequence in its own panel, in the plane of two features."""
    units = details.units
    side = MATCHES_SIDE if details.styles is not PATH else PANEL_SIDE
    shape = grid_shape(len(examples), side + 0.35)
    figure, panels = _make_panels(shape, len(examples))
    unit = units.get(features[0])
    titles = [
        example.title + _error_line(example.target, example.forecast, use_rmse, unit)
        for example in examples
    ]
    draw = (
        draw_pairs if details.has_pairs else draw_matches if details.repeats_source else draw_path
    )
    numbers = [draw(axes, *example.points())
               for axes, example in zip(panels, examples, strict=True)]  # fmt: skip
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TITLE_SIZE)
    set_common_limits(panels, [points for example in examples for points in example.points()])
    _, columns = shape
    for index, axes in enumerate(panels):
        is_lowest = index + columns >= len(examples)
        axes.tick_params(labelbottom=is_lowest, labelleft=index % columns == 0)
    above = title_height(titles, TITLE_SIZE)
    ticks = _tick_label_space(panels[:1])
    legend = _draw_legend(figure, panels[0], columns, examples, details.styles)
    set_layout(
        figure, (side, side), shape, left=0.35 + ticks, right=0.15, bottom=0.5,
        top=above + 0.2 + legend, gaps=(0.2, above + 0.2),
    )  # fmt: skip
    for write in numbers:
        write()
    label_axes(figure, *(with_unit(name, units) for name in features))
    return figure


def _steps_figure(
    examples: Sequence[_Example],
    features: Sequence[str],
    target_features: Sequence[str],
    use_rmse: bool,
    units: Units,
) -> Figure:
    """Draw features over the steps, with one panel for each drawn feature of each drawn sequence.

    If there are several features, each drawn feature has one row; see `paths_figure`. The panels of
    a single feature may fill several rows.
    """
    all_features = list(dict.fromkeys([*target_features, *features]))
    names = all_features[:MAX_FEATURES]
    omitted = ""
    if single_feature := len(names) == 1:
        rows, columns = grid_shape(len(examples), 2.5)
    else:
        rows, columns = len(names), min(MAX_COLUMNS, len(examples))
        omitted = _omissions(len(examples), len(all_features))
        examples = examples[:columns]
    figure, panels = _make_panels((rows, columns), len(names) * len(examples))
    below = DATE_SPACE * (any(example.has_dates for example in examples) + bool(omitted))
    titles = list[str]()
    for axes, (name, example) in zip(panels, itertools.product(names, examples), strict=True):
        target, forecast = (
            _feature_values(points, target_features, name)
            for points in (example.target, example.forecast)
        )
        source = _feature_values(example.source, features, name)
        _draw_steps(axes, example, source, target, forecast)
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
        figure, (width, height), (rows, columns), left=0.35 + ticks, right=0.15, bottom=0.5 + below,
        top=above + 0.2 + _draw_legend(figure, panels[0], columns, examples, PATH),
        gaps=(0.2 + ticks, gap + below * single_feature),
    )  # fmt: skip
    word = "step" if examples[0].times is None else "time"
    if single_feature:
        label_axes(figure, word, with_unit(names[0], units))
        return figure
    shown_names = shorten_names(names, MAX_LABEL_LETTERS)
    for axes, name, shown in zip(panels[::columns], names, shown_names, strict=True):
        axes.set_ylabel(with_unit(name, units, shown), fontsize=9)
        axes.yaxis.set_label_coords(-(ticks + 0.1) / width, 0.5)
    label_axes(figure, f"{word}{omitted}", "")
    return figure


def _omissions(sequences: int, features: int) -> str:
    """Return the end of an axis label that says how many sequences and features are not drawn."""
    pairs = (("sequences", sequences, MAX_COLUMNS), ("features", features, MAX_FEATURES))
    found = [f"{most} of {count} {noun}" for noun, count, most in pairs if count > most]
    return f"\nthe first {' and '.join(found)}" if found else ""


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
    """Return the error as a line of a title, or "" if no target value is known.

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


def _draw_legend(
    figure: Figure, axes: Axes, columns: int, examples: Sequence[_Example], styles: Styles
) -> float:
    """Draw the legend, and return the height of the legend in inches.

    The entries are in one row if the grid has enough columns, and otherwise one below the other.
    A legend with a single entry is not drawn.
    """
    has_target = any(len(example.target) for example in examples)
    has_forecast = any(len(example.forecast) for example in examples)
    lines = {
        name: style for name, style in styles.items()
        if (has_target or not name.startswith("true")) and
        (has_forecast or not name.startswith("forecast"))
    }  # fmt: skip
    if len(lines) == 1:
        return 0.0
    handles = [axes.plot([], [], label=name, **style)[0] for name, style in lines.items()]
    is_row = columns > 1 and len(lines) <= 2 * columns
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1), borderaxespad=0.2, fontsize=9,
        ncols=len(lines) if is_row else 1,
    )  # fmt: skip
    return 0.18 * (1 if is_row else len(lines))


def _feature_values(points: Floats, names: Sequence[str], name: str) -> Floats | None:
    """Return the values of a feature, (L,); None if the points do not have the feature.

    Args:
        points: (L, F), the points.
        names: the names of the F features of the points.
        name: the name of the feature.
    """
    return points[:, list(names).index(name)] if name in names else None


def _draw_steps(
    axes: Axes,
    example: _Example,
    source: Floats | None,
    target: Floats | None,
    forecast: Floats | None,
) -> None:
    """Draw one feature of a sequence, with a dotted line between source and target.

    Args:
        example: the sequence.
        source: (S,), the source values; None if the feature is not a source feature.
        target: (T,), the target values, with NaN for unobserved values; None if the feature is not
            a target feature.
        forecast: (T,), the forecast values; None if the feature is not a target feature.
    """
    S, places = len(example.source), example.places
    total = S + (0 if forecast is None else len(forecast))
    size = 4.0 if total <= MAX_NUMBERED_POINTS else 2.0 if total <= MAX_MARKED_POINTS else 0.0
    if source is not None:
        axes.plot(places[:S], source, **SOURCE, ms=size)
    for points, style in ((target, TRUTH), (forecast, FORECAST)):
        if points is None:
            continue
        steps = places[S : S + len(points)]
        path, path_places = points, steps
        if source is not None:
            path = np.concatenate([source[-1:], points])
            path_places = places[S - 1 : S + len(points)]
        axes.plot(path_places, path, **{**style, "marker": None})
        axes.plot(steps, points, **{**style, "ls": "none"}, ms=size)
    if len(example.forecast):
        axes.axvline(places[S - 1] + (places[S] - places[S - 1]) / 2, color=GREY, lw=0.6, ls=":")
    if example.has_dates:
        set_date_ticks(axes.xaxis, MAX_DATE_TICKS)
