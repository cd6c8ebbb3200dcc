"""Where attention looked: a row a target step, a column a source step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from seqattn.figures.style import (
    BLACK,
    GREY,
    ORANGE,
    arrange,
    grid,
    styled,
    thinned,
    tick_width,
    title_height,
)

NUMBERS_UP_TO = 12  # cells a side: beyond it a number is too small to read
WORDS_UP_TO = 4  # ticks a side that say "Point 3" rather than "3"
MOST_TICKS = 8
LONG = 16  # columns beyond which weights are shared among so many that colours end at the largest
COLORS = "viridis"
DIVERGING = "RdBu_r"
Axis = Literal["source", "target"]
DECODER_STEPS = "decoder steps, named by the point they forecast"
LOOKED_AT = {"source": "source points (given)", "target": "target points (forecast)"}
TITLE, SMALL = 8.5, 7.0  # points


@styled
def attention_figure(
    weights: Sequence[NDArray[np.floating]],
    *,
    titles: Sequence[str],
    signed: bool = False,
    across: Axis = "source",
    down: Axis = "target",
    source_lengths: Sequence[int] | None = None,
    alignment: Sequence[NDArray[np.int64]] | None = None,
    columns: int | None = None,
    largest: float | None = None,
) -> Figure:
    """A heatmap a sequence, all on one scale.

    The scale runs from 0 to 1, or where many points share the weight to the largest; that of
    signed strengths is as wide on either side of 0, which is white. Points are numbered through: a
    source of 2 points is 1 and 2, its first target is 3. A
    cell at padding (NaN) is hatched, which no weight is.

    Args:
        weights: an array a panel: (T, S), (S, S) or (T, T).
        titles: one a panel.
        signed: whether the numbers are strengths of either sign.
        across, down: what columns and rows are.
        source_lengths: real source points of each panel, behind which targets are counted on;
            None: as many as a panel has columns with numbers.
        alignment: for each row of each panel the column where it should look, which is outlined;
            -1: nowhere in particular.
        columns: panels a row; None: as they fit.
        largest: of the weights of all figures that are to have one scale; None: of this one.
    """
    if source_lengths is None:
        source_lengths = [int(np.isfinite(panel).any(axis=0).sum()) for panel in weights]
    shades = _Shades(weights, signed, largest)
    S = max(panel.shape[1] for panel in weights)
    T = max(panel.shape[0] for panel in weights)
    most = 3.8 if columns is None else 2.4  # inches; a row that must fit has more of them
    width = float(np.clip(0.62 * S, 1.5, most))
    height = float(np.clip(0.62 * T, 1.1, most))
    shape = grid(len(weights), width + 0.6, most_width=18)
    if columns is not None:
        shape = (-(-len(weights) // columns), columns)
    figure = Figure()
    panels = list(figure.subplots(*shape, squeeze=False).ravel())
    shown = panels[: len(weights)]
    for axes, panel, title, given in zip(shown, weights, titles, source_lengths, strict=True):
        first = {"source": 0, "target": given}
        _draw(axes, panel, shades, first[across], first[down])
        axes.set_title(title, fontsize=TITLE)
    for axes, places in zip(shown, alignment or (), strict=False):
        _outline(axes, places)
    for axes in panels[len(weights) :]:
        axes.set_axis_off()
    ticks = 0.1 + max(tick_width(axes.yaxis, SMALL) for axes in shown)
    above = title_height(titles, TITLE)
    small = shades.scale.vmax is not None and shades.scale.vmax < 0.1  # so its ticks are long
    right = 1.1 if small else 1.0 if signed else 0.85  # a minus sign takes its place
    arrange(
        figure, (width, height), shape, left=0.35 + ticks, right=right, bottom=0.5, top=above + 0.1,
        across=0.15 + ticks, down=above + 0.3,
    )  # fmt: skip
    whole_width, whole_height = figure.get_size_inches()
    figure.supxlabel(
        _across(across, down) + ("" if alignment is None else "; outlined: the true one"),
        y=0.07 / whole_height,
        fontsize=9,
    )
    figure.supylabel(LOOKED_AT[down], x=0.07 / whole_width, fontsize=9)
    low, high = 0.5 / whole_height, 1 - (above + 0.1) / whole_height
    bar = figure.add_axes((1 - (right - 0.15) / whole_width, low, 0.14 / whole_width, high - low))
    label = "read strength" if signed else "attention weight"
    figure.colorbar(ScalarMappable(shades.scale, shades.colors), cax=bar, label=label)
    return figure


def _across(across: Axis, down: Axis) -> str:
    return DECODER_STEPS if across == down == "target" else LOOKED_AT[across]


def _outline(axes: Axes, places: NDArray[np.int64]) -> None:
    """A frame round the cell of each row where it should look: light within dark, so that it shows
    on every colour; thin where cells are small."""
    thick = float(np.clip(20 / len(places), 0.25, 1.3))
    for row, column in enumerate(places):
        if column >= 0:
            for color, width in ((BLACK, 2 * thick), (ORANGE, thick)):
                frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec=color, lw=width)
                axes.add_patch(frame)


class _Shades:
    """From numbers to colours."""

    def __init__(
        self, weights: Sequence[NDArray[np.floating]], signed: bool, largest: float | None
    ) -> None:
        widest = largest or max(float(np.nanmax(np.abs(panel))) for panel in weights) or 1.0
        is_long = max(panel.shape[1] for panel in weights) > LONG
        self.colors = DIVERGING if signed else COLORS
        self.scale = Normalize(-widest if signed else 0, widest if signed or is_long else 1)

    def ink_on(self, weight: float) -> str:
        """Black or white, whichever has the higher contrast with a cell's colour (WCAG 2.2)."""
        *color, _ = colormaps[self.colors](np.clip(self.scale(weight), 0, 1))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
        return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _draw(
    axes: Axes, weights: NDArray[np.floating], shades: _Shades, across: int, down: int
) -> None:
    rows, columns = weights.shape
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="#b0b0b0", linewidth=0)
    axes.imshow(
        np.ma.masked_invalid(weights), cmap=shades.colors, norm=shades.scale, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    for axis, count, first in ((axes.xaxis, columns, across), (axes.yaxis, rows, down)):
        word = "Point " if count <= WORDS_UP_TO else ""
        places = thinned(count, MOST_TICKS)
        axis.set_ticks(places, [f"{word}{first + place + 1}" for place in places])
    axes.tick_params(labelsize=SMALL, length=2)
    if max(rows, columns) <= NUMBERS_UP_TO:
        size = 8.0 if max(rows, columns) <= 6 else 5.5
        for (row, column), weight in np.ndenumerate(weights):
            if np.isfinite(weight):
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=size,
                          color=shades.ink_on(float(weight)))  # fmt: skip
