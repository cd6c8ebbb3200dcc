"""A figure that shows the losses over the epochs, and a figure that shows the importance of
hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from seqattn.plots.log_scale import (
    NOT_DRAWN,
    Reference,
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
    VERMILION,
    set_layout,
    text_width,
    tick_width,
    with_style,
)

NOISE_FLOOR = "noise floor"


@with_style
def importance_figure(importance: Mapping[str, float], title: str) -> Figure:
    """Draw one bar per config key, with the most important key at the top.

    Args:
        importance: the importance of each config key; the values sum to 1.
        title: the title of the figure.
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
    noise_floor: float | None,
    baseline: tuple[str, float] | None,
    title: str,
    scaled: bool = False,
) -> Figure:
    """Draw the training and validation losses on a logarithmic scale.

    The noise floor and the best baseline are drawn as horizontal lines. If one of these reference
    losses is 0, or far below the other losses, only the legend shows it. If no loss is above 0, the
    scale is linear, and every reference loss has a line.

    Args:
        history: the losses, which are mean squared errors.
        best_epoch: the epoch to mark, counted from 1; 0 to mark no epoch.
        noise_floor: the mean squared error of a forecast that knows the sequences without noise;
            None if it is unknown.
        baseline: the name and the mean squared error of the best parameter-free baseline; None for
            a figure without a baseline.
        title: the title of the figure.
        scaled: whether the errors are in scaled units instead of the units of the data.
    """
    figure = Figure()
    axes = figure.subplots()
    _draw_curves(axes, history, best_epoch)
    losses = [history.training, history.validation, history.validation_teacher_forced]
    references = [] if noise_floor is None else [(NOISE_FLOOR, noise_floor)]
    references += [] if baseline is None else [baseline]
    shown, omitted = split_references(references, positive_losses(losses))
    labels = _draw_references(axes, shown)
    for name, loss in omitted:
        axes.plot([], [], " ", label=f"{name} {loss:.4g}: {NOT_DRAWN}")
    scale = set_loss_scale(axes, losses)
    _set_loss_ticks(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"mean squared error{', scaled units' if scaled else ''}{scale}")
    axes.set_title(title, loc="left", color=BLACK)
    axes.grid(axis="y", which="both", color="#e8e8e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9, frameon=True, edgecolor="none")
    right = 0.15 + text_width((line for label in labels for line in label.splitlines()), 8)
    left = 0.35 + tick_width(axes.yaxis, 9)
    set_layout(figure, (6.9 - right, 3.6), (1, 1), left=left, right=right, bottom=0.5, top=0.3)
    return figure


def _draw_curves(axes: Axes, history: LossHistory, best_epoch: int) -> None:
    """Draw the curves of the three losses, and mark the best epoch unless `best_epoch` is 0."""
    epochs, validation = history.epochs, history.validation
    marker = "o" if len(epochs) < 2 else None  # a line through one point would be invisible
    axes.plot(epochs, history.training, color=GREY, lw=1.2, marker=marker, label="training")
    axes.plot(
        epochs, history.validation_teacher_forced, color=ORANGE, lw=1.4, ls=(0, (5, 2)),
        marker=marker, label="validation, teacher-forced",
    )  # fmt: skip
    axes.plot(epochs, validation, color=BLUE, lw=1.8, marker=marker,
              label="validation, free running")  # fmt: skip
    if best_epoch:
        best = validation[list(epochs).index(best_epoch)]
        axes.plot(
            [best_epoch], [best], "D", color=BLUE, mfc="white", ms=7, mew=1.6, zorder=5,
            label=f"best epoch: {best_epoch} ({best:.4g})",
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
            xytext=(4, 0), textcoords="offset points", ha="left", color=color, fontsize=8,
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
