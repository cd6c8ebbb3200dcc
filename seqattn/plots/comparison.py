"""Many seeds of several variants: every seed a point, every claim with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    shortened,
    styled,
)

LONGEST = 34  # letters of a variant's name
COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
HUGE = 1e300  # stands for inf, between which and a finite number NumPy finds no percentile
BAR: dict[str, Any] = {"lw": 2.4, "solid_capstyle": "butt"}
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1, 1, 1)))


@styled
def comparison_figure(
    names: Sequence[str],
    losses: Sequence[NDArray[np.float64]],
    intervals: Sequence[tuple[float, float, float]],
    *,
    lines: Sequence[tuple[str, float]],
    title: str,
    without: str = "",
) -> Figure:
    """A row a variant: a point a seed, and below the points their median with its interval.

    Args:
        losses: the seeds of each variant; those that diverged are inf, and are counted beside it.
        intervals: median, low and high of each variant; NaN without an interval. What is inf lies
            beyond the right edge.
        lines: names and losses to read them by, drawn from top to bottom.
        without: why no variant has an interval.
    """
    height = 1.5 + 0.62 * len(names) + 0.22 * len(lines)
    figure = Figure(figsize=(8.2, height), layout="constrained")
    axes = figure.add_subplot()
    jitter = np.random.RandomState(0)
    for row, (points, (median, low, high)) in enumerate(zip(losses, intervals, strict=True)):
        color = COLORS[row % len(COLORS)]
        heights = row - 0.1 + jitter.uniform(-0.16, 0.16, size=len(points))
        axes.plot(points, heights, "o", ms=3.6, color=color, alpha=0.55, mew=0)
        if np.isfinite(high):
            axes.plot([low, high], [row + 0.24] * 2, "-", color=color, **BAR)
        axes.plot([median], [row + 0.24], "D", color=color, mfc="white", ms=5.5, mew=1.5)
        if lost := int(np.isinf(points).sum()):
            axes.text(1.01, row, f"{lost} diverged", transform=axes.get_yaxis_transform(),
                      va="center", fontsize=8)  # fmt: skip
    for place, (name, loss) in enumerate(sorted(lines, key=lambda line: line[1])):
        dashes = DASHES[1:][place % len(DASHES[1:])]
        axes.axvline(loss, color=GREY, lw=1.1, ls=dashes, zorder=0, label=f"{name} {loss:.4g}")
    axes.set_yticks(range(len(names)), [shortened(name, LONGEST) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    left, right = axes.get_xlim()
    for row, (_, low, high) in enumerate(intervals):
        if np.isfinite(low) and np.isinf(high):
            axes.plot([low, right], [row + 0.24] * 2, "-", color=COLORS[row % len(COLORS)], **BAR)
    axes.set_xlim(left, right)
    _plain_log_ticks(axes)
    axes.set_xlabel("mean squared error on the test sequences, free running (log scale)")
    axes.set_title(title, loc="left")
    axes.plot([], [], "o", ms=3.6, color=BLACK, alpha=0.55, mew=0, label="a seed")
    some = any(not np.isnan(low) for _, low, _ in intervals)
    axes.plot([], [], "D-" if some else "D", color=BLACK, mfc="white", ms=5.5, lw=2.4,
              label="median, 95% interval" if some else f"median ({without})")  # fmt: skip
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


@styled
def band_figure(
    names: Sequence[str], losses: Sequence[NDArray[np.float64]], *, title: str
) -> Figure:
    """Median loss over epochs with the band between the quartiles, a line a variant.

    A line ends where half of the seeds have diverged, and its band where a quarter have.

    Args:
        losses: (seeds, epochs) of each variant; inf from where a seed diverged.
    """
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, runs) in enumerate(zip(names, losses, strict=True)):
        color, dashes = COLORS[place % len(COLORS)], DASHES[place % len(DASHES)]
        epochs = np.arange(1, runs.shape[1] + 1)
        low, median, high = quartiles(runs)
        marker = "o" if len(epochs) < 2 else None
        axes.fill_between(epochs, low, high, color=color, alpha=0.15, lw=0)
        axes.plot(epochs, median, color=color, ls=dashes, lw=1.6, marker=marker,
                  label=shortened(name, LONGEST))  # fmt: skip
    axes.set_yscale("log")
    _plain_log_ticks(axes, vertical=True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("mean squared error (log scale)")
    axes.set_title(f"{title}; median and quartiles over seeds", loc="left")
    axes.legend(fontsize=8, ncols=1 + len(names) // 9)
    return figure


def quartiles(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, epochs): quartiles over (seeds, epochs), NaN where they are not finite."""
    beyond = np.nan_to_num(runs, posinf=HUGE)
    found: NDArray[np.float64] = np.percentile(beyond, [25, 50, 75], axis=0)
    largest = np.where(np.isfinite(runs), runs, 0.0).max(axis=0)
    return np.where(found <= largest, found, np.nan)


@styled
def along_figure(
    names: Sequence[str],
    places: Sequence[NDArray[np.float64]],
    losses: Sequence[Sequence[NDArray[np.float64]]],
    accuracies: Sequence[Sequence[NDArray[np.float64]]],
    *,
    key: str,
    reference: tuple[str, NDArray[np.float64], NDArray[np.float64]] | None,
    title: str,
) -> Figure:
    """Loss over what was varied, a line a variant through the medians and a point a seed; below,
    how often attention found the true source step, where that is known.

    Args:
        places: of each variant, the numbers it was trained at.
        losses: of each variant and number, the seeds; those that diverged are inf. A line has no
            point where half of them have.
        accuracies: likewise; empty arrays where there is nothing to say.
        key: what was varied.
        reference: name, numbers and losses of a line to read them by.
    """
    has_accuracies = any(len(seeds) for of_arm in accuracies for seeds in of_arm)
    figure = Figure(figsize=(7.0, 6.2 if has_accuracies else 4.2), layout="constrained")
    heights = [3.0, 1.6] if has_accuracies else [1.0]
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    top, bottom = panels[0, 0], panels[-1, 0]
    _draw_medians(top, names, places, losses)
    if reference is not None:
        name, at, level = reference
        top.plot(at, level, color=GREY, lw=1.1, ls=DASHES[1], zorder=0, label=name)
    top.set_yscale("log")
    _plain_log_ticks(top, vertical=True)
    top.set_ylabel("mean squared error, test\n(log scale)")
    top.set_title(title, loc="left")
    top.plot([], [], "o", ms=4, color=BLACK, alpha=0.5, mew=0, label="a seed")
    top.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    if has_accuracies:
        _draw_medians(bottom, names, places, accuracies)
        bottom.set_ylim(-0.05, 1.05)
        bottom.set_ylabel("largest weight on\nthe true step")
    numbers = sorted({float(at) for row in places for at in row})
    if min(numbers) > 0 and max(numbers) / min(numbers) >= 8:
        bottom.set_xscale("log", base=2)
    bottom.set_xticks(numbers, [f"{x:g}" for x in numbers])
    bottom.minorticks_off()
    bottom.set_xlabel(key)
    return figure


def _draw_medians(
    axes: Axes,
    names: Sequence[str],
    places: Sequence[NDArray[np.float64]],
    values: Sequence[Sequence[NDArray[np.float64]]],
) -> None:
    """A line a variant through the medians over seeds, and a point a seed; nothing where a variant
    has no seeds. See `along_figure`."""
    for variant, (name, at, of_arm) in enumerate(zip(names, places, values, strict=True)):
        color, dashes = COLORS[variant % len(COLORS)], DASHES[variant % len(DASHES)]
        drawn = [(x, seeds) for x, seeds in zip(at, of_arm, strict=True) if len(seeds)]
        if not drawn:
            continue
        axes.plot([x for x, _ in drawn], [np.median(seeds) for _, seeds in drawn],
                  color=color, ls=dashes, lw=1.6, label=shortened(name, LONGEST))  # fmt: skip
        for x, seeds in drawn:
            axes.plot([x] * len(seeds), seeds, "o", ms=4, color=color, alpha=0.5, mew=0)


def _plain_log_ticks(axes: Axes, *, vertical: bool = False) -> None:
    """1, 2 and 5 of each decade, or where fewer than three of them are in sight even steps, as
    plain numbers. For axes that all is drawn on."""
    axis = axes.yaxis if vertical else axes.xaxis
    low, high = axes.get_ylim() if vertical else axes.get_xlim()
    locator: Locator = LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12)
    if sum(low <= tick <= high for tick in locator.tick_values(low, high)) < 3:
        locator = MaxNLocator(4)
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
