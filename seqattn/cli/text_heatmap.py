"""Heatmaps of attention weights as text. One or two block characters represent each weight."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.cli.output import show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.plots import run_pictures
from seqattn.plots.attention import scale_end
from seqattn.plots.captions import METHOD_CAPTIONS, weights_caption
from seqattn.plots.texts import shown_symbols
from seqattn.runs.array_files import shorten_name, shorten_names

if TYPE_CHECKING:
    from seqattn.plots.run_pictures import Panel

BLOCKS, ASCII_BLOCKS = " ░▒▓█", " .:*#"
MAX_NUMBERED_COLUMNS = 12
"""Maximum number of columns of a heatmap that also shows each weight as a number."""
CELL_WIDTH = 9
"""Width of a cell with two blocks and the printed weight, in characters."""
NARROW_CELL_WIDTH = 6
"""Width of a cell with one block and the printed weight."""
MAX_SHARE_WIDTH, MIN_SHARE_WIDTH = 9, 5
"""Largest and smallest width of a cell with a percentage."""
NAME_WIDTH = 13
"""Width of the names of the rows, if they are not longer."""
MAX_NAME_LETTERS = 12


@dataclass(frozen=True)
class TextScale:
    """The blocks of several heatmaps.

    Attributes:
        blocks: five characters for weights from 0 to `end`.
        end: the absolute weight of a full block.
        noun: what the numbers are.
        corner: the heading of the names of the rows.
    """

    blocks: str
    end: float
    noun: str = "weights"
    corner: str = "weight of"

    @classmethod
    def of(cls, panels: Sequence[Panel], *, signed: bool) -> TextScale:
        """Return the common scale of panels: up to 1, or up to the largest weight if it is less
        than one half, or if the weights are signed."""
        largest = max(map(_largest_weight, panels)) or 1.0
        if signed:
            return cls(_encodable_blocks(), largest, "absolute read strengths")
        return cls(_encodable_blocks(), scale_end(largest))

    def block(self, weight: float) -> str:
        return self.blocks[min(4, int(min(1.0, abs(weight) / self.end) * 4 + 0.5))]

    @property
    def legend(self) -> str:
        levels = [f"{k / 4 * self.end:.2g}" for k in (1, 2, 3, 4)]
        largest = "" if self.end == 1 else ", the largest"
        return (
            f"{self.blocks[1]} to {self.blocks[4]}: {self.noun} of about"
            f" {', '.join(levels[:3])} and {levels[3]}{largest}"
        )


def print_weights(
    weights: Mapping[str, Any], titles: list[str], kind: str, layer: int | None, head: int | None
) -> None:
    """Print a heatmap for each sequence, layer and head.

    Args:
        weights: the arrays of an attention file; see `seqattn.runs.attention_arrays`.
        titles: the title of each sequence.
        kind: "cross", "encoder_self" or "decoder_self".
        layer: the index of the layer, counted from 0; None for all layers.
        head: the index of the head, counted from 0; None for all heads.
    """
    panels = run_pictures.attention_panels(
        weights, titles, len(titles), kind=kind, layer=layer, head=head
    )
    meaning = str(weights["meaning"])
    print_panels(
        {"": panels}, meaning if meaning in METHOD_CAPTIONS else kind, signed=meaning == "strength"
    )


def print_panels(panels: Mapping[str, Sequence[Panel]], kind: str, *, signed: bool) -> None:
    """Print heatmaps with a common scale, and what the scale and the weights mean.

    If there are at most `MAX_NUMBERED_COLUMNS` columns, and if the terminal is wide enough, the
    weights are also printed as numbers.

    Args:
        panels: the panels, by the heading above them.
        kind: "cross", "encoder_self" or "decoder_self"; or "rollout" or "flow", see
            `weights_caption`.
        signed: whether the weights are signed read strengths.
    """
    end_on_closed_pipe()
    scale = TextScale.of([panel for each in panels.values() for panel in each], signed=signed)
    for heading, each in panels.items():
        if heading:
            show(f"--- {heading} ---")
        for panel in each:
            show(panel.title.replace("\n", ", "))
            for line in _heatmap(panel, scale):
                show(line)
            show()
    if kind == "decoder_self":
        _show_sentence(
            "Rows and columns are numbered by the predicted step; its input is the step before."
        )
    _show_sentence(scale.legend)
    _show_sentence(weights_caption(kind, signed=signed))


def print_text_weights(
    weights: NDArray[np.float32], source: Sequence[str], target: Sequence[str], way: str
) -> None:
    """Print the heatmap of one output.

    Args:
        weights: (T, S) weights.
        source, target: the symbols of the columns and of the rows.
        way: how the output was found, for the legend.
    """
    scale = TextScale(_encodable_blocks(), 1.0)
    panel = run_pictures.Panel(
        weights, "", len(source), None, 0, 0, shown_symbols(target), shown_symbols(source)
    )
    for line in _heatmap(panel, scale):
        show(line)
    _show_sentence(f"{scale.legend}; {way}")


def print_shares(
    shares: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], corner: str
) -> None:
    """Print the heatmap of signed shares (T, S) of 1, and its scale.

    Args:
        shares: the shares; NaN where there is none.
        rows: the names of the T rows.
        columns: the names of the S columns; empty to number them.
        corner: the heading of the names of the rows.
    """
    panel = run_pictures.Panel(
        shares, "", shares.shape[1], None, 0, 0, shown_symbols(rows),
        shown_symbols(columns) if columns else None,
    )  # fmt: skip
    scale = replace(TextScale.of([panel], signed=False), noun="absolute shares", corner=corner)
    for line in _heatmap(panel, scale):
        show(line)
    missing = "; /: no share" if np.isnan(shares).any() else ""
    _show_sentence(f"{scale.legend}{missing}")


def _show_sentence(text: str) -> None:
    """Print a text with line breaks between words."""
    show(textwrap.fill(text, _terminal_width(), break_on_hyphens=False, break_long_words=False))


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _encodable_blocks() -> str:
    """Return five characters that represent weights from 0 to the maximum.

    The encoding of stdout can represent all five characters.
    """
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII_BLOCKS
    return BLOCKS


def _heatmap(panel: Panel, scale: TextScale) -> Iterator[str]:
    """Yield the lines of a heatmap that fits the terminal: the names of the columns, the rows, and
    what they leave out."""
    rows = _row_names(panel)
    margin = max(NAME_WIDTH, 1 + max(map(len, rows), default=0))
    S = panel.weights.shape[1]
    available = max(1, _terminal_width() - 2 - margin)
    width = _cell_width(S, available)
    shown = min(S, available // width)
    heads, notes = _column_names(panel, shown, width)
    yield f"  {scale.corner:<{margin}}{heads}".rstrip()
    for name, row in zip(rows, panel.weights[:, :shown], strict=True):
        cells = "".join(_cell(float(weight), scale, width) for weight in row)
        yield f"  {name:<{margin}}{cells}".rstrip()
    if shown < S:
        notes = [f"the first {shown} of {S} columns; a wider terminal shows more", *notes]
    for text in notes:
        yield from textwrap.wrap(
            text, _terminal_width(), initial_indent="  ", subsequent_indent="  ",
            break_on_hyphens=False,
        )  # fmt: skip


def _column_names(panel: Panel, shown: int, width: int) -> tuple[str, list[str]]:
    """Return the line above the cells, and a list of the symbols if they do not fit into it.

    The line has the symbol or the number of each column. If the cells are too narrow, it has the
    first and the last number.

    Args:
        panel: the panel.
        shown: the number of columns.
        width: the width of a cell.
    """
    first, space = panel.first_column + 1, max(1, width - 1)
    numbers = [str(first + s) for s in range(shown)]
    notes = list[str]()
    heads = numbers
    if panel.column_names is not None:
        names = panel.column_names[:shown]
        heads = [shorten_name(name, space) for name in names] if space > 1 else list(names)
        if len(set(heads)) < len(set(names)) or max(map(len, heads)) > space:
            heads = numbers
            pairs = zip(numbers, names, strict=True)
            notes = ["columns: " + ", ".join(f"{number} {name}" for number, name in pairs)]
    if max(map(len, heads)) > space:
        return f"{first} to {first + shown - 1}", notes
    return "".join(f"{head:>{width}}" for head in heads), notes


def _cell_width(columns: int, available: int) -> int:
    """Return the width of a cell: the widest one with which all columns fit, or 1."""
    widths = (CELL_WIDTH, NARROW_CELL_WIDTH) if columns <= MAX_NUMBERED_COLUMNS else ()
    return next((width for width in (*widths, 2) if columns * width <= available), 1)


def _largest_weight(panel: Panel) -> float:
    """Return the largest absolute weight of a panel, or 0 if all its weights are NaN."""
    observed = np.abs(panel.weights[~np.isnan(panel.weights)])
    return float(observed.max(initial=0.0))


def _row_names(panel: Panel) -> list[str]:
    """Return the names of the rows, such as "point 3", or "step 3" if the alignment is known, or
    the symbols of the rows."""
    if panel.row_names is not None:
        return shorten_names(panel.row_names, MAX_NAME_LETTERS)
    word = "point" if panel.alignment is None else "step"
    return [f"{word} {panel.first_row + row + 1}" for row in range(len(panel.weights))]


def _cell(weight: float, scale: TextScale, width: int) -> str:
    """Format a weight as blocks, or as "/" if the weight is NaN. A cell of more than two characters
    also contains the weight as a number."""
    if math.isnan(weight):
        return f"{'/':>{width}}"
    block = scale.block(weight) * (1 if width in (1, NARROW_CELL_WIDTH) else 2)
    if width <= 2:
        return block
    if width == NARROW_CELL_WIDTH:
        return f"{f'{block}{weight:.2f}':>{width}}"
    return f"{block:>3}{weight:6.2f}"


def print_largest_weights(
    weights: Mapping[str, Any], titles: list[str], layer: int | None, head: int | None
) -> None:
    """Print how often each source step has the largest weight at each target step. Equal largest
    weights of a sequence share this sequence.

    The function prints nothing if the sequences have different lengths, if the weights are signed,
    if there are more than `MAX_NUMBERED_COLUMNS` columns, or if they do not fit the terminal.
    """
    panels = run_pictures.attention_panels(weights, titles, len(titles), layer=layer, head=head)
    shapes = {panel.weights.shape for panel in panels}
    ((_, columns), *others) = shapes
    if others or columns > MAX_NUMBERED_COLUMNS or str(weights["meaning"]) == "strength":
        return
    width = min(MAX_SHARE_WIDTH, (_terminal_width() - 2 - NAME_WIDTH) // columns)
    if width < MIN_SHARE_WIDTH:
        return
    panels_each = len(panels) // len(titles)  # one panel for each layer and head
    show()
    _show_sentence(
        f"all {len(titles)} sequences: share in which a source step has the largest weight"
    )
    for k in range(panels_each):
        if layer_and_head := panels[k].title.removeprefix(titles[0]).strip():
            show(f"  {layer_and_head}")
        heads = "".join(f"{panels[k].first_column + c + 1:>{width}}" for c in range(columns))
        show(f"  {'weight of':<{NAME_WIDTH}}{heads}")
        of_head = np.stack([panel.weights for panel in panels[k::panels_each]])
        shares = largest_weight_shares(of_head).mean(axis=0)
        for name, row in zip(_row_names(panels[k]), shares, strict=True):
            cells = "".join(f"{share:{width}.0%}" for share in row)
            show(f"  {name:<{NAME_WIDTH}}{cells}")
