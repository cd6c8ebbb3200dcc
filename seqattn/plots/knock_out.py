"""A figure of what each attention head contributes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.analysis.comparison.measures import name_measure
from seqattn.analysis.knock_out import RMSE
from seqattn.plots.attention import DIVERGING
from seqattn.plots.style import (
    GREY,
    draw_caption,
    label_axes,
    panel_grid,
    set_layout,
    title_height,
    with_style,
    wrap_text,
)

Floats = NDArray[np.float64]
KIND_NAMES = {
    "encoder_self": "encoder self-attention", "decoder_self": "decoder self-attention",
    "cross": "cross-attention",
}  # fmt: skip
CELL_WIDTH, CELL_HEIGHT = 0.62, 0.45  # inches
TITLE_SIZE, TICK_SIZE, NUMBER_SIZE = 8.5, 7.5, 7.5  # points
MIN_PANEL_WIDTH, MIN_PANEL_HEIGHT = 1.6, 1.5  # inches, for the title and the label of the scale
BAR_WIDTH = 1.25  # inches, of the color bar with its labels


@with_style
def knock_out_figure(
    differences: Mapping[str, Floats],
    measure: str,
    *,
    title: str,
    is_significant: Mapping[str, Floats],
    scaled: bool,
) -> Figure:
    """Draw the difference that the removal of each attention head makes, with a panel for each kind
    of attention, a row for each layer and a column for each head.

    The scale is symmetric about 0 and common to all panels. Each cell has its number, in bold if
    the difference is significant.

    Args:
        differences: for each kind of attention, the measure without the head minus the measure with
            all heads, (layers, heads).
        measure: "rmse" or "symbol_error_rate".
        title: the title of the figure.
        is_significant: for each kind, 1 for a significant difference and 0 for others, (layers,
            heads).
        scaled: whether the RMSE is in scaled units.
    """
    factor, name, unit = 100.0, name_measure(measure), "percentage points"
    if measure == RMSE:
        factor, name, unit = 1.0, "RMSE", "scaled units" if scaled else "units of the data"
    shown = {kind: factor * each for kind, each in differences.items()}
    largest = max(float(np.abs(each).max()) for each in shown.values()) or 1.0
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 6))
    norm, colors = Normalize(-largest, largest), colormaps[DIVERGING]
    figure, panels = panel_grid((1, len(shown)), len(shown))
    layers, heads = (max(each.shape[axis] for each in shown.values()) for axis in (0, 1))
    for axes, (kind, values) in zip(panels, shown.items(), strict=True):
        axes.imshow(values, cmap=colors, norm=norm, aspect="auto", interpolation="nearest")
        axes.set_title(KIND_NAMES[kind], fontsize=TITLE_SIZE)
        axes.set_xticks(range(values.shape[1]), [str(k + 1) for k in range(values.shape[1])])
        axes.set_yticks(range(values.shape[0]), [str(k + 1) for k in range(values.shape[0])])
        axes.tick_params(labelsize=TICK_SIZE, length=2)
        for spine in axes.spines.values():
            spine.set(visible=True, color=GREY, linewidth=0.6)
        for (row, column), value in np.ndenumerate(values):
            is_dark = abs(value) > 0.65 * largest  # both ends of the scale are dark
            axes.text(
                column, row, f"{value:+z.{decimals}f}", ha="center", va="center",
                fontsize=NUMBER_SIZE, color="white" if is_dark else "black",
                fontweight="bold" if is_significant[kind][row, column] else "normal",
            )  # fmt: skip
    size = (max(CELL_WIDTH * heads, MIN_PANEL_WIDTH), max(CELL_HEIGHT * layers, MIN_PANEL_HEIGHT))
    width = 0.6 + len(shown) * size[0] + (len(shown) - 1) * 0.35 + BAR_WIDTH
    caption = (
        f"Free-running {name} without the head minus that with all heads;"
        " positive: the head helps this model. Bold: p < 0.05, signed-rank test over the sequences,"
        " Holm's correction for all heads. The model was not trained again without the head."
    )
    below = draw_caption(figure, caption, width)
    heading = wrap_text(title, 0.92 * width, 9)
    figure.suptitle(heading, x=0.02, ha="left", va="top", fontsize=9)
    set_layout(
        figure, size, (1, len(shown)), left=0.6, right=BAR_WIDTH, bottom=0.5 + below,
        top=title_height([heading], 9) + 0.3, gaps=(0.35, 0.0),
    )  # fmt: skip
    label_axes(figure, "head", "layer", below=below)
    margins = figure.subplotpars
    bar = figure.add_axes((1 - (BAR_WIDTH - 0.15) / width, margins.bottom, 0.14 / width,
                           margins.top - margins.bottom))  # fmt: skip
    figure.colorbar(ScalarMappable(norm, colors), cax=bar, ticks=MaxNLocator(4))
    bar.set_ylabel(f"change of {name},\n{unit}", fontsize=TICK_SIZE)
    bar.tick_params(labelsize=TICK_SIZE)
    return figure
