"""A figure that holds attention weights against other answers to what an output depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.analysis.attribution import (
    FRACTIONS,
    GRADIENT,
    INTEGRATED,
    RANDOM,
    WEIGHTS,
    recovered,
    shares_of_rows,
)
from seqattn.plots.attention import COLORS, DIVERGING, TICK_SIZE, name_ticks
from seqattn.plots.style import (
    BLACK,
    BLUE,
    CAPTION_COLOR,
    CAPTION_SIZE,
    GREY,
    VERMILION,
    with_style,
    wrap_text,
)
from seqattn.plots.texts import shown_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqattn.analysis.attributed_run import AttributedSequence, Faithfulness

CELL_WIDTH, CELL_HEIGHT, CURVES_HEIGHT = 0.2, 0.17, 1.7  # inches
MIN_WIDTH, MAX_WIDTH, MAX_PANEL = 5.2, 12.0, 4.0  # inches
RESTORED = "one true encoder state: share of the change it takes back"
LINES = {
    WEIGHTS: (BLUE, "-"), GRADIENT: (VERMILION, "--"), INTEGRATED: (BLACK, "-."),
    RANDOM: (GREY, ":"),
}  # fmt: skip
CAPTION = (
    "Contributions are shares of the absolute sum of a row. A contribution is a property of this"
    " model and of its input of zeros, to which the source is compared; it is not by itself an"
    " explanation."
)


@with_style
def attribution_figure(
    found: AttributedSequence, tested: Faithfulness | None, title: str
) -> Figure:
    """Draw the weights and the contributions of one sequence, the share of the output that each
    encoder state restores, and the removal curves, one panel below the other.

    Args:
        found: the sequence.
        tested: the removal curves; None to leave them out.
        title: the heading of the figure.
    """
    maps = shares_of_rows(found.attribution)
    rows = shown_symbols(found.output_names)
    if found.trace is not None:
        maps = {**maps, RESTORED: recovered(found.trace)}
    _, S = next(iter(maps.values())).shape
    heights = [min(MAX_PANEL, max(0.5, CELL_HEIGHT * len(one))) + 0.55 for one in maps.values()]
    if tested is not None:
        heights.append(CURVES_HEIGHT)
    width = float(np.clip(CELL_WIDTH * S + 1.6, MIN_WIDTH, MAX_WIDTH))
    figure = Figure(figsize=(width, sum(heights) + 0.9), layout="constrained")
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (name, values) in zip(panels, maps.items(), strict=False):
        of_layers = name == RESTORED
        layers = ["input", *(f"layer {k}" for k in range(1, len(values)))]
        _draw_map(figure, axes, values, layers if of_layers else rows, found.source_names)
        axes.set_title(name, loc="left")
        axes.set_ylabel("state" if of_layers else "output step")
    panels[len(maps) - 1].set_xlabel("source step")
    if tested is not None:
        _draw_curves(panels[-1], tested, of_text=bool(found.output_names))
    figure.suptitle(wrap_text(title, width - 0.3, 9.0), x=0.02, ha="left", fontsize=9)
    figure.supxlabel(
        wrap_text(CAPTION, width - 0.3, CAPTION_SIZE), fontsize=CAPTION_SIZE, color=CAPTION_COLOR,
        x=0.02, ha="left",
    )  # fmt: skip
    return figure


def _draw_map(
    figure: Figure, axes: Axes, values: NDArray[np.float64], rows: Sequence[str],
    columns: Sequence[str],
) -> None:  # fmt: skip
    is_signed = bool((values < 0).any())
    norm, colors = Normalize(-1 if is_signed else 0, 1), DIVERGING if is_signed else COLORS
    axes.imshow(values, cmap=colors, norm=norm, aspect="auto", interpolation="nearest")
    for axis, names in ((axes.yaxis, rows), (axes.xaxis, shown_symbols(columns))):
        if names:
            name_ticks(axes, axis, names)
        else:
            axis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
            axis.set_major_formatter(lambda place, _: f"{place + 1:.0f}")
    axes.tick_params(labelsize=TICK_SIZE, length=2)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    figure.colorbar(ScalarMappable(norm, colors), ax=axes, pad=0.01, aspect=12)


def _draw_curves(axes: Axes, tested: Faithfulness, *, of_text: bool) -> None:
    for name, curves in tested.curves.items():
        color, dashes = LINES[name]
        axes.plot(100 * FRACTIONS, curves.mean(axis=0), color=color, linestyle=dashes, label=name)
    count = len(tested.curves[RANDOM])
    axes.set_title(f"removal of source steps, mean of {count} test sequences", loc="left")
    axes.set_xlabel("removed source steps, percent, the most important first")
    axes.set_ylabel("lost probability" if of_text else "distance")
    axes.legend(fontsize=TICK_SIZE, loc="lower right")
