"""Many seeds of several variants: every seed a point, every claim with its spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from seqattn.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    styled,
)

COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1, 1, 1)))


@styled
def comparison_figure(
    names: Sequence[str],
    losses: Sequence[NDArray[np.float64]],
    intervals: Sequence[tuple[float, float, float]],
    *,
    lines: Sequence[tuple[str, float]],
    title: str,
) -> Figure:
    """A row a variant: a point a seed, and below the points their median with its interval.

    Args:
        losses: the seeds of each variant.
        intervals: median, low and high of each variant.
        lines: names and losses to read them by, drawn from top to bottom.
    """
    height = 1.5 + 0.62 * len(names) + 0.22 * len(lines)
    figure = Figure(figsize=(8.2, height), layout="constrained")
    axes = figure.add_subplot()
    jitter = np.random.RandomState(0)
    for row, (points, (median, low, high)) in enumerate(zip(losses, intervals, strict=True)):
        color = COLORS[row % len(COLORS)]
        heights = row - 0.1 + jitter.uniform(-0.16, 0.16, size=len(points))
        axes.plot(points, heights, "o", ms=3.6, color=color, alpha=0.55, mew=0)
        axes.plot([low, high], [row + 0.24] * 2, "-", color=color, lw=2.4, solid_capstyle="butt")
        axes.plot([median], [row + 0.24], "D", color=color, mfc="white", ms=5.5, mew=1.5)
    for place, (name, loss) in enumerate(sorted(lines, key=lambda line: line[1])):
        dashes = DASHES[1:][place % len(DASHES[1:])]
        axes.axvline(loss, color=GREY, lw=1.1, ls=dashes, zorder=0, label=f"{name} {loss:.4g}")
    axes.set_yticks(range(len(names)), [_shortened(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    _plain_log_ticks(axes)
    axes.set_xlabel("mean squared error on the test sequences, free running (log scale)")
    axes.set_title(title, loc="left")
    axes.plot([], [], "o", ms=3.6, color=BLACK, alpha=0.55, mew=0, label="a seed")
    axes.plot([], [], "D-", color=BLACK, mfc="white", ms=5.5, lw=2.4, label="median, 95% interval")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


@styled
def band_figure(
    names: Sequence[str], losses: Sequence[NDArray[np.float64]], *, title: str
) -> Figure:
    """Median loss over epochs with the band between the quartiles, a line a variant.

    Args:
        losses: (seeds, epochs) of each variant.
    """
    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, runs) in enumerate(zip(names, losses, strict=True)):
        color, dashes = COLORS[place % len(COLORS)], DASHES[place % len(DASHES)]
        epochs = np.arange(1, runs.shape[1] + 1)
        low, median, high = np.percentile(runs, [25, 50, 75], axis=0)
        marker = "o" if len(epochs) < 2 else None
        axes.fill_between(epochs, low, high, color=color, alpha=0.15, lw=0)
        axes.plot(epochs, median, color=color, ls=dashes, lw=1.6, marker=marker,
                  label=_shortened(name))  # fmt: skip
    axes.set_yscale("log")
    _plain_log_ticks(axes, vertical=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("mean squared error (log scale)")
    axes.set_title(f"{title}; median and quartiles over seeds", loc="left")
    axes.legend(fontsize=8, ncols=1 + len(names) // 9)
    return figure


def _plain_log_ticks(axes: Axes, *, vertical: bool = False) -> None:
    """1, 2 and 5 of each decade, as plain numbers."""
    axis = axes.yaxis if vertical else axes.xaxis
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _shortened(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:31]}..."
