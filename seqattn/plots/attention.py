"""Attention heatmaps with one row per query step and one column per attended step."""

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
    grid_shape,
    label_axes,
    panel_grid,
    set_layout,
    tick_positions,
    tick_width,
    title_height,
    with_style,
)

Weights = NDArray[np.floating]
Side = Literal["source", "target"]
MAP_AXES: dict[str, tuple[Side, Side]] = {
    "cross": ("target", "source"),
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
}
"""For each kind of attention, the sequence along the rows and the sequence along the columns."""
MAX_NUMBERED_CELLS = 12  # with more rows or columns, the numbers would be too small to read
MAX_NAMED_TICKS = 4  # an axis with more ticks has the labels "3" instead of "Point 3"
MAX_TICKS = 8
MAX_UNIT_SCALE_COLUMNS = 16
"""Maximum number of columns for a colour scale that ends at 1. With more columns, the weights are
small, so the scale ends at the largest weight."""
COLORS = "viridis"
DIVERGING = "RdBu_r"
DECODER_STEPS = "decoder steps, named by the point they forecast"
AXIS_NAMES = {"source": "source points (given)", "target": "target points (forecast)"}
TITLE_SIZE, TICK_SIZE = 8.5, 7.0  # points


@with_style
def attention_figure(
    weights: Sequence[Weights],
    *,
    titles: Sequence[str],
    signed: bool = False,
    kind: str = "cross",
    source_lengths: Sequence[int] | None = None,
    alignment: Sequence[NDArray[np.int64]] | None = None,
    columns: int | None = None,
    max_weight: float | None = None,
) -> Figure:
    """Draw heatmaps of several sequences with a common colour scale.

    The scale runs from 0 to 1, or from 0 to the largest weight if there are many columns. For
    signed read strengths, the scale is symmetric about 0, and the colour of 0 is white. The target
    points are numbered after the source points. For example, after a source of 2 points, the first
    target point has the number 3. Cells at padding (NaN) are hatched.

    Args:
        weights: one array per panel, with the shape (T, S), (S, S) or (T, T).
        titles: one title per panel.
        signed: whether the weights are signed read strengths.
        kind: "cross", "encoder_self" or "decoder_self".
        source_lengths: the number of source points of each panel; None to count the columns with
            weights.
        alignment: for each panel, the true column of each row, or -1 if a row has none. The true
            columns are outlined.
        columns: the number of panels in a row of the figure; None for as many panels as fit.
        max_weight: the largest absolute weight on the scale; None for the largest absolute weight
            in `weights`. Figures with the same `max_weight` have the same scale.
    """
    if source_lengths is None:
        source_lengths = [int(np.isfinite(panel).any(axis=0).sum()) for panel in weights]
    scale = _ColorScale(weights, signed, max_weight)
    size = _panel_size(
        weights, 3.8 if columns is None else 2.4
    )  # panels are smaller if the caller sets the number of columns
    shape = grid_shape(len(weights), size[0] + 0.6, max_width=18)
    if columns is not None:
        shape = (-(-len(weights) // columns), columns)
    figure, panels = panel_grid(shape, len(weights))
    for axes, panel, title, length in zip(panels, weights, titles, source_lengths, strict=True):
        _draw_heatmap(axes, panel, scale, index_offsets(kind, length))
        axes.set_title(title, fontsize=TITLE_SIZE)
    for axes, aligned in zip(panels, alignment or (), strict=False):
        _outline_cells(axes, aligned)
    ticks = 0.1 + max(tick_width(axes.yaxis, TICK_SIZE) for axes in panels)
    above = title_height(titles, TITLE_SIZE)
    set_layout(
        figure, size, shape, left=0.35 + ticks, right=scale.bar_width, bottom=0.5, top=above + 0.1,
        gaps=(0.15 + ticks, above + 0.3),
    )  # fmt: skip
    rows_side, columns_side = MAP_AXES[kind]
    x_label = DECODER_STEPS if kind == "decoder_self" else AXIS_NAMES[columns_side]
    note = "" if alignment is None else "; outlined: the true one"
    label_axes(figure, x_label + note, AXIS_NAMES[rows_side])
    scale.draw_bar(figure)
    return figure


def index_offsets(kind: str, source_length: int) -> tuple[int, int]:
    """Return the number of points before the first row of a heatmap, and before the first column.

    The target points are numbered after the source points.
    """
    offsets = {"source": 0, "target": source_length}
    rows, columns = MAP_AXES[kind]
    return offsets[rows], offsets[columns]


def _panel_size(weights: Sequence[Weights], max_side: float) -> tuple[float, float]:
    """Return the width and the height of the panels in inches, both at most `max_side`."""
    rows = max(panel.shape[0] for panel in weights)
    columns = max(panel.shape[1] for panel in weights)
    return float(np.clip(0.62 * columns, 1.5, max_side)), float(np.clip(0.62 * rows, 1.1, max_side))


class _ColorScale:
    """A mapping from weights to colours.

    Attributes:
        bar_width: the width of the colour bar, including the labels of its ticks, in inches.
    """

    def __init__(self, weights: Sequence[Weights], signed: bool, max_weight: float | None) -> None:
        max_abs = max_weight or max(float(np.nanmax(np.abs(panel))) for panel in weights) or 1.0
        is_long = max(panel.shape[1] for panel in weights) > MAX_UNIT_SCALE_COLUMNS
        highest = max_abs if signed or is_long else 1
        self.colors = DIVERGING if signed else COLORS
        self.norm = Normalize(-max_abs if signed else 0, highest)
        self.label = "read strength" if signed else "attention weight"
        long_ticks = highest < 0.1
        # The labels of signed weights need space for a minus sign.
        self.bar_width = 1.1 if long_ticks else 1.0 if signed else 0.85

    def text_color_on(self, weight: float) -> str:
        """Return "black" or "white", whichever has more contrast with the colour of a weight (WCAG
        2.2)."""
        *color, _ = colormaps[self.colors](np.clip(self.norm(weight), 0, 1))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
        return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"

    def draw_bar(self, figure: Figure) -> None:
        """Draw the colour bar, which is as high as all panels together."""
        width, panels = figure.get_size_inches()[0], figure.subplotpars
        left = 1 - (self.bar_width - 0.15) / width
        bar = figure.add_axes((left, panels.bottom, 0.14 / width, panels.top - panels.bottom))
        figure.colorbar(ScalarMappable(self.norm, self.colors), cax=bar, label=self.label)


def _draw_heatmap(
    axes: Axes, weights: Weights, scale: _ColorScale, offsets: tuple[int, int]
) -> None:
    """Draw a heatmap in a panel.

    Args:
        axes: the panel.
        weights: (rows, columns), the weights.
        scale: the colour scale.
        offsets: the number of points before the first row and before the first column; see
            `index_offsets`.
    """
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="#b0b0b0", linewidth=0)
    axes.imshow(
        np.ma.masked_invalid(weights), cmap=scale.colors, norm=scale.norm, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    for axis, count, offset in zip((axes.yaxis, axes.xaxis), weights.shape, offsets, strict=True):
        word = "Point " if count <= MAX_NAMED_TICKS else ""
        ticks_at = tick_positions(count, MAX_TICKS)
        axis.set_ticks(ticks_at, [f"{word}{offset + index + 1}" for index in ticks_at])
    axes.tick_params(labelsize=TICK_SIZE, length=2)
    if max(weights.shape) <= MAX_NUMBERED_CELLS:
        size = 8.0 if max(weights.shape) <= 6 else 5.5
        for (row, column), weight in np.ndenumerate(weights):
            if np.isfinite(weight):
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=size,
                          color=scale.text_color_on(float(weight)))  # fmt: skip


def _outline_cells(axes: Axes, columns: NDArray[np.int64]) -> None:
    """Outline the true column of each row.

    An outline consists of a light line within a dark line, so it is visible on every colour. The
    lines are thinner if the cells are small.
    """
    line_width = float(np.clip(20 / len(columns), 0.25, 1.3))
    for row, column in enumerate(columns):
        if column >= 0:
            for color, width in ((BLACK, 2 * line_width), (ORANGE, line_width)):
                frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec=color, lw=width)
                axes.add_patch(frame)
