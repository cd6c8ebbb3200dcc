"""Loss over epochs, with the lines that a loss must be read against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from seqattn.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    arrange,
    styled,
    text_width,
    tick_width,
)


@styled
def importance_figure(importance: Mapping[str, float], title: str) -> Figure:
    """A bar a key, the most important above.

    Args:
        importance: key -> share, all together 1.
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


@styled
def loss_figure(
    epochs: Sequence[int],
    train: Sequence[float],
    validation: Sequence[float],
    validation_teacher_forced: Sequence[float],
    *,
    best_epoch: int,
    noise_floor: float | None,
    baseline: tuple[str, float] | None,
    title: str,
    scaled: bool = False,
) -> Figure:
    """Three losses on a log scale, floor and best baseline as labelled lines.

    Args:
        epochs, train, validation, validation_teacher_forced: one number an epoch.
        best_epoch: which to mark.
        noise_floor: mean squared error of knowing everything but the noise; None where unknown.
        baseline: name and mean squared error of the best parameter-free baseline.
        scaled: whether errors are in scaled units.
    """
    figure = Figure()
    axes = figure.subplots()
    marker = "o" if len(epochs) < 2 else None  # one epoch is a point, not an invisible line
    axes.plot(epochs, train, color=GREY, lw=1.2, marker=marker, label="training")
    axes.plot(
        epochs, validation_teacher_forced, color=ORANGE, lw=1.4, ls=(0, (5, 2)), marker=marker,
        label="validation, teacher-forced",
    )  # fmt: skip
    axes.plot(epochs, validation, color=BLUE, lw=1.8, marker=marker,
              label="validation, free running")  # fmt: skip
    if best_epoch:
        best = validation[list(epochs).index(best_epoch)]
        axes.plot(
            [best_epoch], [best], "D", color=BLUE, mfc="white", ms=7, mew=1.6, zorder=5,
            label=f"best epoch: {best_epoch} ({best:.4g})",
        )  # fmt: skip
    lines: list[tuple[str, float | None, str, str]] = [("noise floor", noise_floor, GREEN, "-.")]
    if baseline is not None:
        lines.append((baseline[0], baseline[1], VERMILION, ":"))
    shown = [(name, level, color, dashes) for name, level, color, dashes in lines if level]
    words = [f"{name}\n{level:.4g}" for name, level, _, _ in shown]
    for said, (_, level, color, dashes) in zip(words, shown, strict=True):
        axes.axhline(level, color=color, lw=1.2, ls=dashes, zorder=1)
        lowest = level == min(line[1] for line in shown)
        axes.annotate(
            said, (1, level), xycoords=("axes fraction", "data"),
            xytext=(4, 0), textcoords="offset points", ha="left", color=color, fontsize=8,
            va="top" if lowest and len(shown) > 1 else "bottom",
        )  # fmt: skip
    axes.set_yscale("log", nonpositive="mask")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    low, high = axes.get_ylim()
    if high / low < 3:  # not even a step of 1, 2 and 5 may be in sight
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif high / low < 1000:  # few decades: name the steps between, too
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(plain)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"mean squared error{', scaled units' if scaled else ''} (log scale)")
    axes.set_title(title, loc="left", color=BLACK)
    axes.grid(axis="y", which="both", color="#e8e8e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9, frameon=True, edgecolor="none")
    beside = 0.15 + text_width((line for said in words for line in said.splitlines()), 8)
    arrange(
        figure, (6.9 - beside, 3.6), (1, 1), left=0.35 + tick_width(axes.yaxis, 9), right=beside,
        bottom=0.5, top=0.3,
    )  # fmt: skip
    return figure
