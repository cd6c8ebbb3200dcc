"""Heatmaps of attention: a row a query step, a column an attended step."""

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

from seqattn.plots.style import (
    BLACK,
    GREY,
    ORANGE,
    arrange,
    grid,
    name_axes,
    panel_grid,
    styled,
    thinned,
    tick_width,
    title_height,
)

Weights = NDArray[np.floating]
Side = Literal["source", "target"]
AXES: dict[str, tuple[Side, Side]] = {
    "cross": ("target", "source"),
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
}
"""Kind -> what its rows are, and its columns."""
NUMBERS_UP_TO = 12  # cells a side: beyond it a number is too small to read
WORDS_UP_TO = 4  # ticks a side that say "Point 3" rather than "3"
MOST_TICKS = 8
LONG = 16  # columns beyond which weights are shared among so many that colours end at the largest
COLORS = "viridis"
DIVERGING = "RdBu_r"
DECODER_STEPS = "decoder steps, named by the point they forecast"
AXIS_NAMES = {"source": "source points (given)", "target": "target points (forecast)"}
TITLE, SMALL = 8.5, 7.0  # points


@styled
def attention_figure(
    weights: Sequence[Weights],
    *,
    titles: Sequence[str],
    signed: bool = False,
    kind: str = "cross",
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
        kind: cross, encoder_self or decoder_self.
        source_lengths: real source points of each panel, behind which targets are counted on;
            None: as many as a panel has columns with numbers.
        alignment: for each row of each panel the column where it should look, which is outlined;
            -1: nowhere in particular.
        columns: panels a row; None: as they fit.
        largest: of the weights of all figures that are to have one scale; None: of this one.
    """
    if source_lengths is None:
        source_lengths = [int(np.isfinite(panel).any(axis=0).sum()) for panel in weights]
    scale = _ColorScale(weights, signed, largest)
    size = _panel_size(weights, 3.8 if columns is None else 2.4)  # a row that must fit has more
    shape = grid(len(weights), size[0] + 0.6, most_width=18)
    if columns is not None:
        shape = (-(-len(weights) // columns), columns)
    figure, panels = panel_grid(shape, len(weights))
    for axes, panel, title, length in zip(panels, weights, titles, source_lengths, strict=True):
        _draw_heatmap(axes, panel, scale, first_points(kind, length))
        axes.set_title(title, fontsize=TITLE)
    for axes, aligned in zip(panels, alignment or (), strict=False):
        _outline(axes, aligned)
    ticks = 0.1 + max(tick_width(axes.yaxis, SMALL) for axes in panels)
    above = title_height(titles, TITLE)
    arrange(
        figure, size, shape, left=0.35 + ticks, right=scale.bar_width, bottom=0.5, top=above + 0.1,
        gaps=(0.15 + ticks, above + 0.3),
    )  # fmt: skip
    rows_are, columns_are = AXES[kind]
    below = DECODER_STEPS if kind == "decoder_self" else AXIS_NAMES[columns_are]
    outlined = "" if alignment is None else "; outlined: the true one"
    name_axes(figure, below + outlined, AXIS_NAMES[rows_are])
    scale.draw_bar(figure)
    return figure


def first_points(kind: str, source_length: int) -> tuple[int, int]:
    """Points of a sequence before the first row of its heatmap, and before the first column."""
    first = {"source": 0, "target": source_length}
    rows, columns = AXES[kind]
    return first[rows], first[columns]


def _panel_size(weights: Sequence[Weights], most: float) -> tuple[float, float]:
    """Width and height of every panel in inches, `most` at most."""
    rows = max(panel.shape[0] for panel in weights)
    columns = max(panel.shape[1] for panel in weights)
    return float(np.clip(0.62 * columns, 1.5, most)), float(np.clip(0.62 * rows, 1.1, most))


class _ColorScale:
    """From weights to colours.

    Attributes:
        bar_width: inches right of the panels for the colour bar and its ticks.
    """

    def __init__(self, weights: Sequence[Weights], signed: bool, largest: float | None) -> None:
        widest = largest or max(float(np.nanmax(np.abs(panel))) for panel in weights) or 1.0
        is_long = max(panel.shape[1] for panel in weights) > LONG
        highest = widest if signed or is_long else 1
        self.colors = DIVERGING if signed else COLORS
        self.norm = Normalize(-widest if signed else 0, highest)
        self.label = "read strength" if signed else "attention weight"
        long_ticks = highest < 0.1
        self.bar_width = 1.1 if long_ticks else 1.0 if signed else 0.85  # a minus sign is wide

    def text_color_on(self, weight: float) -> str:
        """Black or white, whichever has the higher contrast with a cell's colour (WCAG 2.2)."""
        *color, _ = colormaps[self.colors](np.clip(self.norm(weight), 0, 1))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
        return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"

    def draw_bar(self, figure: Figure) -> None:
        """The colour bar, as high as all panels."""
        width, panels = figure.get_size_inches()[0], figure.subplotpars
        left = 1 - (self.bar_width - 0.15) / width
        bar = figure.add_axes((left, panels.bottom, 0.14 / width, panels.top - panels.bottom))
        figure.colorbar(ScalarMappable(self.norm, self.colors), cax=bar, label=self.label)


def _draw_heatmap(axes: Axes, weights: Weights, scale: _ColorScale, first: tuple[int, int]) -> None:
    """
    Args:
        first: points before the first row, and before the first column.
    """
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="#b0b0b0", linewidth=0)
    axes.imshow(
        np.ma.masked_invalid(weights), cmap=scale.colors, norm=scale.norm, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    for axis, count, before in zip((axes.yaxis, axes.xaxis), weights.shape, first, strict=True):
        word = "Point " if count <= WORDS_UP_TO else ""
        places = thinned(count, MOST_TICKS)
        axis.set_ticks(places, [f"{word}{before + place + 1}" for place in places])
    axes.tick_params(labelsize=SMALL, length=2)
    if max(weights.shape) <= NUMBERS_UP_TO:
        size = 8.0 if max(weights.shape) <= 6 else 5.5
        for (row, column), weight in np.ndenumerate(weights):
            if np.isfinite(weight):
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=size,
                          color=scale.text_color_on(float(weight)))  # fmt: skip


def _outline(axes: Axes, columns: NDArray[np.int64]) -> None:
    """A frame round the cell of each row where it should look: light within dark, so that it shows
    on every colour; thin where cells are small."""
    thick = float(np.clip(20 / len(columns), 0.25, 1.3))
    for row, column in enumerate(columns):
        if column >= 0:
            for color, width in ((BLACK, 2 * thick), (ORANGE, thick)):
                frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec=color, lw=width)
                axes.add_patch(frame)
