"""Attention heatmaps with one row per query step and one column per attended step."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqattn.plots.captions import weights_caption
from seqattn.plots.style import (
    GREY,
    POINTS_PER_INCH,
    draw_caption,
    grid_shape,
    label_axes,
    panel_grid,
    set_layout,
    tick_positions,
    tick_width,
    title_height,
    with_style,
    wrap_text,
)

Weights = NDArray[np.floating]
Side = Literal["source", "target"]
MAP_AXES: dict[str, tuple[Side, Side]] = {
    "cross": ("target", "source"),
    "relative": ("target", "source"),
    "encoder_self": ("source", "source"),
    "decoder_self": ("target", "target"),
}
"""For each kind of heatmap, whether the rows are source or target points, and the same for the
columns."""
MAX_NUMBERED_CELLS = 12  # with more rows or columns, the numbers would be too small to read
MAX_NAMED_TICKS = 4  # an axis with more positions has labels like "3" instead of "Point 3"
MAX_TICKS = 8
MIN_UNIT_SCALE_WEIGHT = 0.5
"""If the largest weight is below this value, most of a scale that ends at 1 would be unused, so the
scale ends at the largest weight."""
SCALE_NAMES = {
    None: "attention weight",
    "rollout": "attention rollout",
    "flow": "share of attention flow",
}
COLORS = "viridis"
DIVERGING = "RdBu_r"
DECODER_STEPS = "decoder steps, named by the point they forecast"
AXIS_NAMES = {"source": "source points (given)", "target": "target points (forecast)"}
TARGET_STEPS = "target steps (forecast)"
TURNED_LETTER = 0.055
"""Height of a letter of a turned symbol below a heatmap, in inches."""
RELATIVE_STEPS = "source points, counted from the true one (0, outlined)"
HEADING_SIZE, TITLE_SIZE, TICK_SIZE = 9.0, 8.5, 7.0  # points


@dataclass(frozen=True)
class Layout:
    """The scale and the arrangement of several heatmaps.

    Attributes:
        columns: the number of panels in a row of the figure; None for as many panels as fit.
        max_weight: the largest absolute weight that the scale must show; None for the largest
            absolute weight of all panels. Figures with the same `max_weight` have the same scale.
        row_titles: one title for each row of panels, to the left of the row; empty for no titles.
        heading: the title of the figure; "" for a figure without a title.
        method: "rollout" or "flow", if the panels show these instead of weights; None for weights.
    """

    columns: int | None = None
    max_weight: float | None = None
    row_titles: Sequence[str] = ()
    heading: str = ""
    method: str | None = None


@with_style
def attention_figure(
    weights: Sequence[Weights],
    *,
    titles: Sequence[str],
    signed: bool = False,
    kind: str = "cross",
    source_lengths: Sequence[int] | None = None,
    alignment: Sequence[NDArray[np.int64]] | None = None,
    layout: Layout = Layout(),
    names: Sequence[tuple[Sequence[str] | None, Sequence[str] | None]] = (),
    links: Sequence[NDArray[np.int64] | None] = (),
) -> Figure:
    """Draw heatmaps of attention weights, one per panel, with a common color scale.

    The scale runs from 0 to 1. If the largest weight is less than `MIN_UNIT_SCALE_WEIGHT`, the
    scale ends at the largest weight, and the label of the color bar states this weight. For signed
    read strengths, the scale is symmetric about 0. Cells at padding (NaN) are hatched.

    The numbers of the target points continue after the last source point. For example, after a
    source of 2 points, the first target point has the number 3. In cross-attention with an
    alignment, the target steps are counted from 1, so target step t and source point t have the
    same number.

    The caption of the figure says what weights are and what they are not; see `weights_caption`.

    Args:
        weights: one array per panel, with the shape (T, S), (S, S) or (T, T); for "relative",
            the shape (T, 2 D + 1) with the distances -D to D.
        titles: one title per panel. A panel with the title "" has no title.
        signed: whether the weights are the signed read strengths of a model of the kind
            `fast_weights`.
        kind: "cross", "encoder_self" or "decoder_self"; "relative" for cross-attention whose
            columns are distances from the true source point, which is the column in the middle.
        source_lengths: the number of source points of each panel; None to count the columns that
            are not all NaN.
        alignment: for each panel, the true column of each row, or -1 if a row has none. The true
            columns are outlined. None if the alignment is unknown.
        layout: the scale and the arrangement of the panels.
        names: for each panel, the names of its rows and the names of its columns; None to number
            them. Empty to number those of every panel.
        links: for each panel, its known links (k, 3): row, column, and 1 for a sure or 0 for a
            possible link; None for no links. Sure links are outlined, and possible ones dashed.
    """
    names = names or [(None, None)] * len(weights)
    if source_lengths is None:
        source_lengths = [int(np.isfinite(panel).any(axis=0).sum()) for panel in weights]
    has_symbols = _are_any_named(names)
    to_one = has_symbols and not signed and layout.method is None
    scale = _ColorScale(
        weights, signed, 1.0 if to_one else layout.max_weight, SCALE_NAMES[layout.method]
    )
    size, shape = _panel_sizes(weights, layout.columns)
    figure, panels = panel_grid(shape, len(weights))
    is_aligned = alignment is not None
    for axes, panel, title, length, of_axes in zip(
        panels, weights, titles, source_lengths, names, strict=True
    ):
        _draw_heatmap(axes, panel, scale)
        _set_ticks(axes, panel, kind, index_offsets(kind, length, is_aligned=is_aligned), of_axes)
        axes.set_title(title, fontsize=TITLE_SIZE)
    for axes, aligned in zip(panels, alignment or (), strict=False):
        _outline_cells(axes, _true_cells(aligned), len(aligned))
    for axes, of_panel, panel in zip(panels, links, weights, strict=False):
        _outline_cells(axes, () if of_panel is None else of_panel.tolist(), len(panel))
    ticks = 0.1 + max(tick_width(axes.yaxis, TICK_SIZE) for axes in panels)
    titles_width = _draw_row_titles(panels[:: shape[1]], layout.row_titles, ticks, size)
    above = _title_heights(titles, shape[1])
    label_height = TURNED_LETTER * _longest_turned_name(names)
    left, gap = 0.35 + ticks + titles_width, 0.15 + ticks
    width = left + shape[1] * size[0] + (shape[1] - 1) * gap + scale.bar_width
    below = draw_caption(figure, weights_caption(layout.method or kind, signed=signed), width)
    set_layout(
        figure, size, shape, left=left, right=scale.bar_width, bottom=0.5 + label_height + below,
        top=above[0] + 0.1 + _draw_heading(figure, layout.heading, width),
        gaps=(gap, max(above[1:], default=0.0) + 0.3 + label_height),
    )  # fmt: skip
    labels = _axis_names(kind, is_aligned=is_aligned)
    if has_symbols:
        labels = _names_of_symbols(labels[0], links)
    label_axes(figure, *labels, below=below)
    scale.draw_bar(figure)
    return figure


def _are_any_named(names: Sequence[tuple[Sequence[str] | None, Sequence[str] | None]]) -> bool:
    """Return whether the rows or the columns of a panel have names."""
    return any(one is not None for of_axes in names for one in of_axes)


def _true_cells(aligned: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return the cells (row, column, 1) of the true column of each row, if it has one."""
    return [(t, s, 1) for t, s in enumerate(aligned.tolist()) if s >= 0]


def index_offsets(kind: str, source_length: int, *, is_aligned: bool) -> tuple[int, int]:
    """Return the number of points before the first row of a heatmap, and the number of points
    before its first column.

    The numbers of the target points continue after the last source point. In cross-attention with
    an alignment, the target steps are counted from 1.

    Args:
        kind: the kind of heatmap; see `attention_figure`.
        source_length: the number of source points.
        is_aligned: whether the alignment is known.
    """
    counts_from_1 = kind == "relative" or (is_aligned and kind == "cross")
    offsets = {"source": 0, "target": 0 if counts_from_1 else source_length}
    rows, columns = MAP_AXES[kind]
    return offsets[rows], offsets[columns]


def _axis_names(kind: str, *, is_aligned: bool) -> tuple[str, str]:
    """Return the label of the horizontal axes and the label of the vertical axes."""
    rows_side, columns_side = MAP_AXES[kind]
    if kind == "relative":
        return RELATIVE_STEPS, TARGET_STEPS
    if kind == "cross" and is_aligned:
        return f"{AXIS_NAMES[columns_side]}; outlined: the true one", TARGET_STEPS
    x_label = DECODER_STEPS if kind == "decoder_self" else AXIS_NAMES[columns_side]
    return x_label, AXIS_NAMES[rows_side]


def _names_of_symbols(columns: str, links: Sequence[NDArray[np.int64] | None]) -> tuple[str, str]:
    """Return the labels of both axes if their steps are symbols."""
    has_links = any(one is not None for one in links)
    known = "; outlined: known links, dashed: possible ones" if has_links else ""
    return f"{columns.replace('points', 'symbols')}{known}", "output symbols, greedy"


def _title_heights(titles: Sequence[str], columns: int) -> list[float]:
    """Return the height of the titles of each row of panels, in inches."""
    rows = [titles[first : first + columns] for first in range(0, len(titles), columns)]
    return [title_height(row, TITLE_SIZE) if any(row) else 0.0 for row in rows]


def _draw_row_titles(
    panels: Sequence[Axes], titles: Sequence[str], ticks: float, size: tuple[float, float]
) -> float:
    """Write a title to the left of each row of panels, and return the width of the titles, in
    inches.

    Args:
        panels: the first panel of each row.
        titles: one title per row, or no titles.
        ticks: the width of the tick labels in inches.
        size: the width and the height of a panel in inches.
    """
    for axes, title in zip(panels, titles, strict=False):
        axes.set_ylabel(title, fontsize=TITLE_SIZE)
        axes.yaxis.set_label_coords(-(ticks + 0.08) / size[0], 0.5)
    lines = max((title.count("\n") + 1 for title in titles), default=0)
    return lines * TITLE_SIZE * 1.2 / POINTS_PER_INCH


def _draw_heading(figure: Figure, heading: str, width: float) -> float:
    """Write the title of a figure that will have a width in inches, and return the height of the
    title in inches."""
    if not heading:
        return 0.0
    wrapped = wrap_text(heading, 0.92 * width, HEADING_SIZE)
    figure.suptitle(wrapped, x=0.02, ha="left", va="top", fontsize=HEADING_SIZE)
    return title_height([wrapped], HEADING_SIZE)


def scale_end(largest: float) -> float:
    """Return the end of the scale of attention weights: 1, or the largest weight if it is less than
    `MIN_UNIT_SCALE_WEIGHT`."""
    return largest if largest < MIN_UNIT_SCALE_WEIGHT else 1.0


def _panel_sizes(
    weights: Sequence[Weights], columns: int | None
) -> tuple[tuple[float, float], tuple[int, int]]:
    """Choose the width and the height of the panels in inches, and the shape of the grid.

    Args:
        weights: the weights of each panel.
        columns: the number of columns of the grid; None to choose it. If it is given, the maximum
            size of a panel is smaller.
    """
    rows = max(panel.shape[0] for panel in weights)
    cells = max(panel.shape[1] for panel in weights)
    max_side = 3.8 if columns is None else 2.4
    size = (float(np.clip(0.62 * cells, 1.5, max_side)), float(np.clip(0.62 * rows, 1.1, max_side)))
    if columns is None:
        return size, grid_shape(len(weights), size[0] + 0.6, max_width=18)
    return size, (-(-len(weights) // columns), columns)


class _ColorScale:
    """A mapping from weights to colors.

    Attributes:
        bar_width: the width of the color bar with its labels, in inches.
    """

    def __init__(
        self, weights: Sequence[Weights], signed: bool, max_weight: float | None, name: str
    ) -> None:
        max_abs = max_weight or max(float(np.nanmax(np.abs(panel))) for panel in weights) or 1.0
        highest = max_abs if signed else scale_end(max_abs)
        self.colors = DIVERGING if signed else COLORS
        self.norm = Normalize(-max_abs if signed else 0, highest)
        self.label = "read strength" if signed else name
        if highest < 1 and not signed:
            self.label += f"\nup to the largest: {highest:.2g}"
        long_ticks = highest < 0.1
        # The tick labels of signed weights need space for a minus sign, and those of small weights
        # need space for more decimals.
        self.bar_width = 1.1 if long_ticks else 1.0 if signed or highest < 1 else 0.85
        self.bar_width += 0.15 * self.label.count("\n")

    def text_color_on(self, weight: float) -> str:
        """Return "black" or "white", whichever has more contrast with the color of a weight (WCAG
        2.2)."""
        *color, _ = colormaps[self.colors](np.clip(self.norm(weight), 0, 1))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
        return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"

    def draw_bar(self, figure: Figure) -> None:
        """Draw the color bar, which is as high as all panels together."""
        width, panels = figure.get_size_inches()[0], figure.subplotpars
        left = 1 - (self.bar_width - 0.15) / width
        bar = figure.add_axes((left, panels.bottom, 0.14 / width, panels.top - panels.bottom))
        ticks = MaxNLocator(5, steps=[1, 2, 5, 10])  # 0.25 would need more space than 0.2
        figure.colorbar(
            ScalarMappable(self.norm, self.colors), cax=bar, label=self.label, ticks=ticks
        )


def _draw_heatmap(axes: Axes, weights: Weights, scale: _ColorScale) -> None:
    """Draw a heatmap of weights (rows, columns) in a panel."""
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="#b0b0b0", linewidth=0)
    axes.imshow(
        np.ma.masked_invalid(weights), cmap=scale.colors, norm=scale.norm, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for spine in axes.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.6)
    if max(weights.shape) <= MAX_NUMBERED_CELLS:
        size = 8.0 if max(weights.shape) <= 6 else 7.0
        for (row, column), weight in np.ndenumerate(weights):
            if np.isfinite(weight):
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=size,
                          color=scale.text_color_on(float(weight)))  # fmt: skip


def _set_ticks(
    axes: Axes, weights: Weights, kind: str, offsets: tuple[int, int],
    names: tuple[Sequence[str] | None, Sequence[str] | None],
) -> None:  # fmt: skip
    """Name or number the rows and the columns of a heatmap.

    Args:
        weights: the weights, (rows, columns).
        kind: the kind of heatmap; see `attention_figure`.
        offsets: the number of points before the first row, and the number of points before the
            first column; see `index_offsets`.
        names: the names of the rows and of the columns; None to number them.
    """
    is_from_1 = kind in ("cross", "relative") and offsets[0] == 0
    for axis, count, offset, of_axis in zip(
        (axes.yaxis, axes.xaxis), weights.shape, offsets, names, strict=True
    ):
        if of_axis is not None:
            name_ticks(axes, axis, of_axis)
            continue
        if kind == "relative" and axis is axes.xaxis:
            middle = count // 2
            half = tick_positions(middle + 1, MAX_TICKS // 2)
            ticks_at = sorted({middle + sign * index for index in half for sign in (-1, 1)})
            axis.set_ticks(ticks_at, [f"{k - middle:+d}" if k != middle else "0" for k in ticks_at])
            continue
        noun = "Step" if axis is axes.yaxis and is_from_1 else "Point"
        word = f"{noun} " if count <= MAX_NAMED_TICKS else ""
        ticks_at = tick_positions(count, MAX_TICKS)
        axis.set_ticks(ticks_at, [f"{word}{offset + index + 1}" for index in ticks_at])
    axes.tick_params(labelsize=TICK_SIZE, length=2)


def _longest_turned_name(
    names: Sequence[tuple[Sequence[str] | None, Sequence[str] | None]],
) -> int:
    """Return the number of letters of the longest symbol below turned columns. A wide letter counts
    twice."""
    long_names = [columns for _, columns in names if columns and is_turned(columns)]
    return max((_letters(name) for columns in long_names for name in columns), default=0)


def _letters(name: str) -> int:
    return len(name) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in name)


def is_turned(names: Sequence[str]) -> bool:
    """Return whether the symbols below the columns are turned, because some of them are long."""
    return max(map(len, names), default=0) > 2


def name_ticks(axes: Axes, axis: Axis, names: Sequence[str]) -> None:
    """Write a symbol at each row or column. Long symbols below the columns are turned."""
    axis.set_ticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    if axis is axes.xaxis and is_turned(names):
        axes.tick_params(axis="x", labelrotation=90)


def _outline_cells(axes: Axes, cells: Sequence[Sequence[int]], rows: int) -> None:
    """Outline cells of a panel with a number of rows. A cell is its row, its column, and 1 for a
    solid or 0 for a dashed line.

    An outline consists of a white line on a wider black line, within the cell: one of both has a
    contrast of at least 4.5 with every color. The lines are thinner if there are many rows.
    """
    line_width = float(np.clip(20 / rows, 0.25, 1.3))
    for row, column, is_solid in cells:
        for color, width in (("black", 2.4 * line_width), ("white", line_width)):
            frame = Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, ec=color, lw=width)
            frame.set_linestyle("-" if is_solid or color == "black" else (0, (3, 3)))
            axes.add_patch(frame)
