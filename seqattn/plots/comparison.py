"""Figures that show the losses, learning curves and sweeps of variants with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from seqattn.plots.log_scale import (
    NOT_DRAWN,
    positive_losses,
    set_loss_scale,
    split_references,
)
from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    with_style,
)
from seqattn.runs.array_files import shorten_names

MAX_NAME_LETTERS = 34  # longer names of variants are shortened
COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
FINITE_STAND_IN = 1e300  # replaces inf: np.percentile cannot interpolate to inf
INTERVAL_STYLE: dict[str, Any] = {"lw": 2.4, "solid_capstyle": "butt"}
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1, 1, 1)))


@with_style
def comparison_figure(
    names: Sequence[str],
    losses: Sequence[NDArray[np.float64]],
    intervals: Sequence[tuple[float, float, float]],
    *,
    lines: Sequence[tuple[str, float]],
    title: str,
    unit: str = "",
    no_interval_reason: str = "",
) -> Figure:
    """Draw the losses of several variants, with one row per variant.

    Each row shows a point for each seed, and the median with its interval below the points.

    Args:
        names: the names of the variants.
        losses: the losses of the seeds of each variant. The loss of a diverged seed is inf. The
            number of diverged seeds is written to the right of the row.
        intervals: for each variant, the median, the lower bound of the interval, and the upper
            bound of the interval. Both bounds are NaN if there is no interval. An interval with the
            upper bound inf ends at the right edge of the axes.
        lines: the names and values of the reference losses, which are drawn as vertical lines. On a
            logarithmic axis, a reference loss that is 0 or far below the other losses appears only
            in the legend.
        title: the title of the figure.
        unit: the end of the axis label, such as ", scaled units".
        no_interval_reason: the reason that the legend gives if no variant has an interval.
    """
    height = 1.5 + 0.62 * len(names) + 0.22 * len(lines)
    figure = Figure(figsize=(8.2, height), layout="constrained")
    axes = figure.add_subplot()
    jitter = np.random.RandomState(0)
    for row, (points, (median, low, high)) in enumerate(zip(losses, intervals, strict=True)):
        color = COLORS[row % len(COLORS)]
        heights = row - 0.1 + jitter.uniform(-0.16, 0.16, size=len(points))
        axes.plot(points, heights, "o", ms=3.6, color=color, alpha=0.55, mew=0)
        if low > 0 and np.isfinite(high):
            axes.plot([low, high], [row + 0.24] * 2, "-", color=color, **INTERVAL_STYLE)
        axes.plot([median], [row + 0.24], "D", color=color, mfc="white", ms=5.5, mew=1.5)
        if diverged := int(np.isinf(points).sum()):
            axes.text(1.01, row, f"{diverged} diverged", transform=axes.get_yaxis_transform(),
                      va="center", fontsize=8)  # fmt: skip
    _draw_vertical_lines(axes, lines, losses)
    axes.set_yticks(range(len(names)), shorten_names(names, MAX_NAME_LETTERS))
    axes.set_ylim(len(names) - 0.5, -0.5)
    scale = set_loss_scale(axes, losses, vertical=False)
    _draw_cut_intervals(axes, intervals)
    _set_log_ticks(axes)
    axes.set_xlabel(f"mean squared error on the test sequences, free running{unit}{scale}")
    axes.set_title(title, loc="left")
    axes.plot([], [], "o", ms=3.6, color=BLACK, alpha=0.55, mew=0, label="a seed")
    has_intervals = any(not np.isnan(low) for _, low, _ in intervals)
    label = "median, 95% interval" if has_intervals else f"median ({no_interval_reason})"
    axes.plot([], [], "D-" if has_intervals else "D", color=BLACK, mfc="white", ms=5.5, lw=2.4,
              label=label)  # fmt: skip
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _draw_cut_intervals(axes: Axes, intervals: Sequence[tuple[float, float, float]]) -> None:
    """Draw the intervals that begin at 0 or end at infinity, up to the edges of the axes.

    A logarithmic axis cannot show these bounds.
    """
    left, right = axes.get_xlim()
    for row, (_, low, high) in enumerate(intervals):
        if low <= 0 or (np.isfinite(low) and np.isinf(high)):
            color = COLORS[row % len(COLORS)]
            ends = [max(low, left), min(high, right)]
            axes.plot(ends, [row + 0.24] * 2, "-", color=color, **INTERVAL_STYLE)
    axes.set_xlim(left, right)


def _draw_vertical_lines(
    axes: Axes, lines: Sequence[tuple[str, float]], losses: Sequence[NDArray[np.float64]]
) -> None:
    """Draw a vertical line for each reference loss that the axis can show.

    The other reference losses appear only in the legend.
    """
    shown, omitted = split_references(lines, positive_losses(losses))
    for name, loss in omitted:
        axes.plot([], [], " ", label=f"{name} {loss:.4g}: {NOT_DRAWN}")
    for index, (name, loss) in enumerate(sorted(shown, key=lambda line: line[1])):
        dashes = DASHES[1:][index % len(DASHES[1:])]
        axes.axvline(loss, color=GREY, lw=1.1, ls=dashes, zorder=0, label=f"{name} {loss:.4g}")


@with_style
def band_figure(
    names: Sequence[str], losses: Sequence[NDArray[np.float64]], *, title: str, unit: str = ""
) -> Figure:
    """Draw the median loss of each variant over the epochs, and a band between the quartiles.

    A line ends when at least half of the seeds have diverged. The band of a line ends when at least
    a quarter of the seeds have diverged.

    Args:
        names: the names of the variants.
        losses: for each variant, the losses (seeds, epochs). The losses are inf after the last
            epoch of a diverged seed.
        title: the start of the title; the function appends "median and quartiles over seeds".
        unit: the end of the axis label, such as ", scaled units".
    """
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.add_subplot()
    labels = shorten_names(names, MAX_NAME_LETTERS)
    for index, (label, runs) in enumerate(zip(labels, losses, strict=True)):
        color, dashes = COLORS[index % len(COLORS)], DASHES[index % len(DASHES)]
        epochs = np.arange(1, runs.shape[1] + 1)
        low, median, high = quartiles(runs)
        marker = "o" if len(epochs) < 2 else None
        axes.fill_between(epochs, low, high, color=color, alpha=0.15, lw=0)
        axes.plot(epochs, median, color=color, ls=dashes, lw=1.6, marker=marker, label=label)
    scale = set_loss_scale(axes, losses)
    _set_log_ticks(axes, vertical=True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"mean squared error{unit}{scale}")
    axes.set_title(f"{title}; median and quartiles over seeds", loc="left")
    axes.legend(fontsize=8, ncols=1 + len(names) // 9)
    return figure


def quartiles(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the quartiles over seeds.

    Args:
        runs: (seeds, epochs), the losses. The losses are inf after the last epoch of a diverged
            seed.

    Returns:
        The three quartiles at each epoch, (3, epochs). A quartile that is not finite is NaN.
    """
    beyond = np.nan_to_num(runs, posinf=FINITE_STAND_IN)
    found: NDArray[np.float64] = np.percentile(beyond, [25, 50, 75], axis=0)
    largest = np.where(np.isfinite(runs), runs, 0.0).max(axis=0)
    return np.where(found <= largest, found, np.nan)


@with_style
def sweep_figure(
    names: Sequence[str],
    sweep_values: Sequence[NDArray[np.float64]],
    losses: Sequence[Sequence[NDArray[np.float64]]],
    accuracies: Sequence[Sequence[NDArray[np.float64]]],
    *,
    key: str,
    reference: tuple[str, NDArray[np.float64], NDArray[np.float64]] | None,
    title: str,
    unit: str = "",
) -> Figure:
    """Draw the losses of several variants against the values of a config key.

    Each seed is a point, and a line connects the medians over seeds. If alignment accuracies are
    known, a second panel shows them.

    Args:
        names: the names of the lines.
        sweep_values: for each line, the values of the key.
        losses: for each line and value, the losses of the seeds. The loss of a diverged seed is
            inf. A line has a gap at values for which at least half of the seeds diverged.
        accuracies: for each line and value, the alignment accuracies of the seeds, or an empty
            array if the accuracies are unknown.
        key: the config key.
        reference: the name of a reference line, the values of the key, and the losses at these
            values; None for a figure without a reference line.
        title: the title of the figure.
        unit: the second line of the axis label of the losses, such as ", scaled units".
    """
    has_accuracies = any(len(seeds) for seeds_by_value in accuracies for seeds in seeds_by_value)
    figure = Figure(figsize=(7.0, 6.2 if has_accuracies else 4.2), layout="constrained")
    heights = [3.0, 1.6] if has_accuracies else [1.0]
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    top, bottom = panels[0, 0], panels[-1, 0]
    _draw_medians(top, names, sweep_values, losses)
    if reference is not None:
        name, values, levels = reference
        top.plot(values, levels, color=GREY, lw=1.1, ls=DASHES[1], zorder=0, label=name)
    scale = set_loss_scale(top, [seeds for by_value in losses for seeds in by_value])
    _set_log_ticks(top, vertical=True)
    top.set_ylabel(f"mean squared error, test\n{f'{unit}{scale}'.removeprefix(',').strip()}")
    top.set_title(title, loc="left")
    top.plot([], [], "o", ms=4, color=BLACK, alpha=0.5, mew=0, label="a seed")
    top.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    if has_accuracies:
        _draw_medians(bottom, names, sweep_values, accuracies)
        bottom.set_ylim(-0.05, 1.05)
        bottom.set_ylabel("largest weight on\nthe true step")
    ticks = sorted({float(value) for values in sweep_values for value in values})
    if min(ticks) > 0 and max(ticks) / min(ticks) >= 8:
        bottom.set_xscale("log", base=2)
    bottom.set_xticks(ticks, [f"{x:g}" for x in ticks])
    bottom.minorticks_off()
    bottom.set_xlabel(key)
    return figure


def _draw_medians(
    axes: Axes,
    names: Sequence[str],
    sweep_values: Sequence[NDArray[np.float64]],
    results: Sequence[Sequence[NDArray[np.float64]]],
) -> None:
    """Draw a point for each seed, and a line through the medians over seeds; see `sweep_figure`.

    A line without results is left out.
    """
    lines = zip(shorten_names(names, MAX_NAME_LETTERS), sweep_values, results, strict=True)
    for index, (label, values, seeds_by_value) in enumerate(lines):
        color, dashes = COLORS[index % len(COLORS)], DASHES[index % len(DASHES)]
        points = [(x, seeds) for x, seeds in zip(values, seeds_by_value, strict=True) if len(seeds)]
        if not points:
            continue
        axes.plot([x for x, _ in points], [np.median(seeds) for _, seeds in points],
                  label=label, color=color, ls=dashes, lw=1.6)  # fmt: skip
        for x, seeds in points:
            axes.plot([x] * len(seeds), seeds, "o", ms=4, color=color, alpha=0.5, mew=0)


def _set_log_ticks(axes: Axes, *, vertical: bool = False) -> None:
    """Set the ticks of a logarithmic axis, with labels in the format `g`, such as 0.05 and 1e-05.

    The ticks are at 1, 2 and 5 times powers of ten. If fewer than three of these ticks are visible,
    the ticks are at equally spaced values instead. The caller must not change the limits of the
    axis later. A linear axis is not changed.
    """
    if (axes.get_yscale() if vertical else axes.get_xscale()) != "log":
        return
    axis = axes.yaxis if vertical else axes.xaxis
    low, high = axes.get_ylim() if vertical else axes.get_xlim()
    locator: Locator = LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12)
    if sum(low <= tick <= high for tick in locator.tick_values(low, high)) < 3:
        locator = MaxNLocator(4)
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
