"""Figures of losses: curves over the epochs, comparisons, sweeps, and the importances of a search.

The axis of the losses is logarithmic if a loss is above 0. A logarithmic axis cannot show a loss of
0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from seqattn.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    set_epoch_ticks,
    set_layout,
    text_width,
    tick_width,
    title_height,
    with_style,
    wrap_text,
)
from seqattn.runs.array_files import shorten_names

Reference = tuple[str, float]
"""The name and the loss of a reference line."""

MIN_SHARE = 1e-6
"""A reference loss below this share of the smallest loss is not drawn, because the axis would then
leave too little space for the other losses."""
NOT_DRAWN = "not on the log scale"
SQUARED_ERROR = "mean squared error"
NOISE_FLOOR = "noise floor"
TITLE_SIZE, LEGEND_SIZE = 9.0, 9.0  # points
MAX_NAME_LETTERS = 34  # longer names of variants are shortened
COLORS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
FINITE_STAND_IN = 1e300  # replaces inf: np.percentile cannot interpolate to inf
INTERVAL_STYLE: dict[str, Any] = {"lw": 2.4, "solid_capstyle": "butt"}
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1, 1, 1)))


def positive_losses(losses: Iterable[ArrayLike]) -> NDArray[np.float64]:
    """Return the finite losses above 0 of all arrays as one flat array."""
    flat = [np.asarray(values, np.float64).ravel() for values in losses]
    every = np.concatenate(flat) if flat else np.empty(0)
    found: NDArray[np.float64] = every[np.isfinite(every) & (every > 0)]
    return found


def split_references(
    references: Sequence[Reference], losses: NDArray[np.float64]
) -> tuple[list[Reference], list[Reference]]:
    """Separate the references that the axis can show from the other references.

    Args:
        references: the names and losses of the reference lines.
        losses: the positive losses of the figure. If there are no positive losses, the axis is
            linear and shows every reference. Otherwise, the axis is logarithmic.

    Returns:
        The references that the axis can show, and the other references.
    """
    if not losses.size:
        return list(references), []
    least = MIN_SHARE * losses.min()
    shown = [(name, loss) for name, loss in references if loss >= least]
    return shown, [(name, loss) for name, loss in references if not loss >= least]


def set_loss_scale(axes: Axes, losses: Sequence[ArrayLike], *, vertical: bool = True) -> str:
    """Make the axis of the losses logarithmic if a loss is above 0, and return a note on the scale.

    Args:
        losses: all losses of the axes.
        vertical: whether the losses are on the vertical axis.

    Returns:
        A note for the label of the axis, such as " (log scale)"; "" for a linear axis. If a
        logarithmic axis omits losses of 0, the note contains the number of these losses.
    """
    if not positive_losses(losses).size:
        return ""
    if vertical:
        axes.set_yscale("log", nonpositive="mask")
    else:
        axes.set_xscale("log", nonpositive="mask")
    zeros = sum(int((np.asarray(values, np.float64) <= 0).sum()) for values in losses)
    return (
        f" (log scale, without {zeros} {'loss' if zeros == 1 else 'losses'} of 0)"
        if zeros
        else " (log scale)"
    )


@with_style
def importance_figure(importance: Mapping[str, float], title: str) -> Figure:
    """Draw one bar per config key, with the most important key at the top.

    Args:
        importance: the importance of each config key; the values sum to 1.
    """
    figure = Figure(figsize=(6.5, 0.9 + 0.32 * len(importance)), layout="constrained")
    axes = figure.subplots()
    rows = sorted(importance.items(), key=lambda pair: pair[1])
    bars = axes.barh([key for key, _ in rows], [share for _, share in rows], color=BLUE)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set_xlim(0, 1.1 * max(importance.values(), default=1.0) or 1.0)
    axes.set_xlabel("share of the difference between the best quarter and all (PED-ANOVA)")
    axes.set_title(title)
    return figure


@dataclass(frozen=True)
class LossHistory:
    """The losses of a run. Each list has one value per epoch."""

    epochs: Sequence[int]
    training: Sequence[float]
    validation: Sequence[float]
    validation_teacher_forced: Sequence[float]


@with_style
def loss_figure(
    history: LossHistory,
    *,
    best_epoch: int,
    best_by: str = "",
    noise_floor: float | None,
    baseline: tuple[str, float] | None,
    title: str,
    scaled: bool = False,
    loss_name: str = SQUARED_ERROR,
) -> Figure:
    """Draw the training and validation losses on a logarithmic scale.

    The noise floor and the best baseline are drawn as horizontal lines. If one of these reference
    losses is 0, or far below the other losses, only the legend shows it. If no loss is above 0, the
    scale is linear, and every reference loss has a line.

    Args:
        history: the losses.
        best_epoch: the epoch to mark, counted from 1; 0 to mark no epoch.
        best_by: the measure that selected this epoch, as `describe_monitored` says.
        noise_floor: the loss of a forecast that knows the sequences without noise; None if it is
            unknown.
        baseline: the name and the loss of the best parameter-free baseline; None for a figure
            without a baseline.
        scaled: whether the errors are in scaled units instead of the units of the data.
        loss_name: the name of the loss.
    """
    figure = Figure()
    axes = figure.subplots()
    _draw_curves(axes, history, best_epoch, best_by)
    losses = [history.training, history.validation, history.validation_teacher_forced]
    references = [] if noise_floor is None else [(NOISE_FLOOR, noise_floor)]
    references += [] if baseline is None else [baseline]
    shown, omitted = split_references(references, positive_losses(losses))
    labels = _draw_references(axes, shown)
    for name, loss in omitted:
        axes.plot([], [], " ", label=f"{name} {loss:.4g}: {NOT_DRAWN}")
    scale = set_loss_scale(axes, losses)
    _set_loss_ticks(axes)
    set_epoch_ticks(axes.xaxis, history.epochs)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"{loss_name}{', scaled units' if scaled else ''}{scale}")
    title = wrap_text(title, 6.4, TITLE_SIZE)
    axes.set_title(title, loc="left", color=BLACK)
    axes.grid(axis="y", which="both", color="#e8e8e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    rows = math.ceil(len(axes.get_legend_handles_labels()[0]) / 2)
    figure.legend(loc="lower center", fontsize=LEGEND_SIZE, ncols=2, borderaxespad=0.2)
    right = 0.15 + text_width(
        (line for label in labels for line in label.splitlines()), LEGEND_SIZE
    )
    left = 0.35 + tick_width(axes.yaxis, 9)
    set_layout(
        figure, (6.9 - right, 3.6), (1, 1), left=left, right=right, bottom=0.55 + 0.18 * rows,
        top=0.05 + title_height([title], TITLE_SIZE),
    )  # fmt: skip
    return figure


def _draw_curves(axes: Axes, history: LossHistory, best_epoch: int, best_by: str) -> None:
    """Draw the curves of the three losses, and mark the best epoch unless `best_epoch` is 0."""
    epochs, validation = history.epochs, history.validation
    marker = "o" if len(epochs) < 2 else None  # a line through one point would be invisible
    axes.plot(epochs, history.training, color=GREY, lw=1.2, marker=marker, label="training")
    is_forced = list(validation) == list(history.validation_teacher_forced)
    if not is_forced:
        axes.plot(
            epochs, history.validation_teacher_forced, color=ORANGE, lw=1.4, ls=(0, (5, 2)),
            marker=marker, label="validation, teacher-forced",
        )  # fmt: skip
    axes.plot(epochs, validation, color=BLUE, lw=1.8, marker=marker,
              label=f"validation, {'teacher-forced' if is_forced else 'free running'}")  # fmt: skip
    if best_epoch:
        best = validation[list(epochs).index(best_epoch)]
        axes.plot(
            [best_epoch], [best], "D", color=BLUE, mfc="white", ms=7, mew=1.6, zorder=5,
            label=f"best epoch{best_by}: {best_epoch} ({best:.4g})",
        )  # fmt: skip


def _draw_references(axes: Axes, lines: Sequence[Reference]) -> list[str]:
    """Draw a horizontal line for each reference loss, and return the labels of the lines.

    The labels are to the right of the axes.
    """
    labels = [f"{name}\n{loss:.4g}" for name, loss in lines]
    lowest = min((loss for _, loss in lines), default=0.0)
    for label, (name, loss) in zip(labels, lines, strict=True):
        color, dashes = (GREEN, "-.") if name == NOISE_FLOOR else (VERMILION, ":")
        axes.axhline(loss, color=color, lw=1.2, ls=dashes, zorder=1)
        axes.annotate(
            label, (1, loss), xycoords=("axes fraction", "data"),
            xytext=(4, 0), textcoords="offset points", ha="left", color=color, fontsize=LEGEND_SIZE,
            va="top" if loss == lowest and len(lines) > 1 else "bottom",
        )  # fmt: skip
    return labels


def _set_loss_ticks(axes: Axes) -> None:
    """Set the ticks of a logarithmic loss axis, with labels in the format `g`, such as 0.05.

    An axis with few decades also gets ticks between the powers of ten. A linear axis is not
    changed.
    """
    if axes.get_yscale() != "log":
        return
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    low, high = axes.get_ylim()
    if high / low < 3:  # such a range may contain no tick at 1, 2 or 5
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif high / low < 1000:  # with few decades, also label the ticks at 2 and 5
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(plain)


@with_style
def comparison_figure(
    names: Sequence[str],
    losses: Sequence[NDArray[np.float64]],
    intervals: Sequence[tuple[float, float, float]],
    *,
    lines: Sequence[tuple[str, float]],
    title: str,
    unit: str = "",
    loss_name: str = SQUARED_ERROR,
    no_interval_reason: str = "",
    is_rate: bool = False,
) -> Figure:
    """Draw the losses of several variants, with one row per variant.

    Each row shows a point for each seed, and the median with its interval below the points.

    Args:
        losses: the losses of the seeds of each variant. The loss of a diverged seed is inf. The
            number of diverged seeds is written to the right of the row.
        intervals: for each variant, the median, the lower bound of the interval, and the upper
            bound of the interval. Both bounds are NaN if there is no interval. An interval with the
            upper bound inf ends at the right edge of the axes.
        lines: the names and values of the reference losses, which are drawn as vertical lines. On a
            logarithmic axis, a reference loss that is 0 or far below the other losses appears only
            in the legend.
        unit: the end of the axis label, such as ", scaled units".
        no_interval_reason: the reason that the legend gives if no variant has an interval.
        is_rate: whether the losses are shares of errors, whose axis is linear, because 0 matters.
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
                      va="center", fontsize=LEGEND_SIZE)  # fmt: skip
    _draw_vertical_lines(axes, lines, losses)
    labels = shorten_names(names, MAX_NAME_LETTERS)
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.5, -0.5)
    scale = "" if is_rate else set_loss_scale(axes, losses, vertical=False)
    _draw_cut_intervals(axes, intervals)
    if not is_rate:
        _set_log_ticks(axes)
    axes.set_xlabel(f"{loss_name} on the test sequences{unit}{scale}")
    width = figure.get_size_inches()[0] - text_width(labels, TITLE_SIZE) - 0.3
    axes.set_title(wrap_text(title, width, TITLE_SIZE), loc="left")
    axes.plot([], [], "o", ms=3.6, color=BLACK, alpha=0.55, mew=0, label="a seed")
    has_intervals = any(not np.isnan(low) for _, low, _ in intervals)
    label = "median, 95% interval" if has_intervals else f"median ({no_interval_reason})"
    axes.plot([], [], "D-" if has_intervals else "D", color=BLACK, mfc="white", ms=5.5, lw=2.4,
              label=label)  # fmt: skip
    figure.legend(loc="outside lower center", ncols=3, fontsize=LEGEND_SIZE)
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
    names: Sequence[str],
    losses: Sequence[NDArray[np.float64]],
    *,
    title: str,
    unit: str = "",
    loss_name: str = SQUARED_ERROR,
) -> Figure:
    """Draw the median loss of each variant over the epochs, and a band between the quartiles.

    A line ends when at least half of the seeds have diverged. The band of a line ends when at least
    a quarter of the seeds have diverged.

    Args:
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
    set_epoch_ticks(axes.xaxis, range(1, 1 + max(runs.shape[1] for runs in losses)))
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"{loss_name}{unit}{scale}")
    title = wrap_text(f"{title}; median and quartiles over seeds", 6.5, TITLE_SIZE)
    axes.set_title(title, loc="left")
    columns = int(figure.get_size_inches()[0] / (text_width(labels, LEGEND_SIZE) + 0.6))
    figure.legend(loc="outside lower center", fontsize=LEGEND_SIZE, ncols=min(4, columns))
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
    loss_name: str = SQUARED_ERROR,
    is_rate: bool = False,
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
        unit: the second line of the axis label of the losses, such as ", scaled units".
        is_rate: see `comparison_figure`.
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
    scale = ""
    if not is_rate:
        scale = set_loss_scale(top, [seeds for by_value in losses for seeds in by_value])
        _set_log_ticks(top, vertical=True)
    top.set_ylabel(f"{loss_name}, test\n{f'{unit}{scale}'.removeprefix(',').strip()}")
    top.set_title(wrap_text(title, 6.0, TITLE_SIZE), loc="left")
    top.plot([], [], "o", ms=4, color=BLACK, alpha=0.5, mew=0, label="a seed")
    top.legend(fontsize=LEGEND_SIZE, loc="center left", bbox_to_anchor=(1.01, 0.5))
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
