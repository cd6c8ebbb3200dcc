"""Heatmaps of attention weights as text. One or two block characters represent each weight."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.cli.output import show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.plots import run_pictures
from seqattn.plots.attention import scale_end
from seqattn.plots.texts import shown_symbols

if TYPE_CHECKING:
    from seqattn.plots.run_pictures import Panel

BLOCKS, ASCII_BLOCKS = " ░▒▓█", " .:*#"
MAX_NUMBERED_COLUMNS = 12
"""Maximum number of columns of a heatmap that also shows each weight as a number."""
CELL_WIDTH = 9
"""Width of a cell with a block and the printed weight, in characters."""


def print_weights(
    weights: Mapping[str, Any], titles: list[str], kind: str, layer: int | None, head: int | None
) -> None:
    """Print a heatmap for each sequence, layer and head.

    If there are at most `MAX_NUMBERED_COLUMNS` columns, the weights are also printed as numbers.

    Args:
        weights: the arrays of an attention file; see `seqattn.runs.attention_arrays`.
        titles: the title of each sequence.
        kind: "cross", "encoder_self" or "decoder_self".
        layer: the index of the layer, counted from 0; None for all layers.
        head: the index of the head, counted from 0; None for all heads.
    """
    blocks = _encodable_blocks()
    end_on_closed_pipe()
    panels = run_pictures.attention_panels(
        weights, titles, len(titles), kind=kind, layer=layer, head=head
    )
    signed = str(weights["meaning"]) == "strength"
    is_relative = signed or scale_end(max(map(_largest_weight, panels))) < 1
    for panel in panels:
        show(panel.title.replace("\n", ", "))
        for line in _heatmap(panel, blocks, is_relative=is_relative):
            show(line)
        show()
    if kind == "decoder_self":
        show("Rows and columns are numbered by the predicted step; its input is the step before.")
    legend = "absolute read strength, relative to the largest"
    if not signed:
        legend = f"weight, to the nearest quarter{' of the largest' if is_relative else ''}"
    show(f"{blocks[1]} to {blocks[4]}: {legend}")


def print_text_weights(
    weights: NDArray[np.float32], source: Sequence[str], target: Sequence[str], way: str
) -> None:
    """Print the heatmap of one output.

    Args:
        weights: (T, S) weights.
        source, target: the symbols of the columns and of the rows.
        way: how the output was found, for the legend.
    """
    blocks = _encodable_blocks()
    panel = run_pictures.Panel(
        weights, "", len(source), None, 0, 0, shown_symbols(target), shown_symbols(source)
    )
    for line in _heatmap(panel, blocks, is_relative=False):
        show(line)
    show(f"{blocks[1]} to {blocks[4]}: weight, to the nearest quarter; {way}")


def _encodable_blocks() -> str:
    """Return five characters that represent weights from 0 to the maximum.

    The encoding of stdout can represent all five characters.
    """
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII_BLOCKS
    return BLOCKS


def _heatmap(panel: Panel, blocks: str, *, is_relative: bool) -> Iterator[str]:
    """Yield the lines of a heatmap.

    The first line contains the step number of each column, or only the first and the last step
    number if the weights are not printed as numbers, or the symbols as far as they fit. Each of the
    other lines shows one row of weights.

    Args:
        panel: the weights.
        blocks: five characters for weights from 0 to the maximum.
        is_relative: whether a full block represents the largest weight of the panel. If False, a
            full block represents a weight of 1.
    """
    S = panel.weights.shape[1]
    steps = [str(panel.first_column + s + 1) for s in range(S)]
    fits = shutil.get_terminal_size().columns >= 14 + 2 * S
    width = CELL_WIDTH if S <= MAX_NUMBERED_COLUMNS else 2 if fits else 1
    if panel.column_names is not None:
        shown = (f"{name[: width - (width > 2)]:>{width}}" for name in panel.column_names)
        yield f"  {'weight of':<13}{''.join(shown)}".rstrip()
    elif width == CELL_WIDTH:
        yield f"  {'weight of':<13}" + "".join(f"{step:>{CELL_WIDTH}}" for step in steps)
    else:
        yield f"  {'weight of':<13}{steps[0]} to {steps[-1]}"
    darkest = _largest_weight(panel) if is_relative else 1.0
    for t, row in enumerate(panel.weights):
        cells = "".join(_cell(float(weight), darkest or 1.0, blocks, width) for weight in row)
        yield f"  {_row_name(panel, t):<13}{cells}".rstrip()


def _largest_weight(panel: Panel) -> float:
    """Return the largest absolute weight of a panel, or 0 if all its weights are NaN."""
    observed = np.abs(panel.weights[~np.isnan(panel.weights)])
    return float(observed.max(initial=0.0))


def _row_name(panel: Panel, row: int) -> str:
    """Return the name of a row, such as "point 3", or "step 3" if the alignment is known, or the
    symbol of the row."""
    if panel.row_names is not None:
        return panel.row_names[row][:12]
    word = "point" if panel.alignment is None else "step"
    return f"{word} {panel.first_row + row + 1}"


def _cell(weight: float, darkest: float, blocks: str, width: int) -> str:
    """Format a weight as one or two block characters, or as "/" if the weight is NaN.

    If the width of the cell is `CELL_WIDTH`, the cell also contains the weight as a number.
    """
    if math.isnan(weight):
        return f"{'/':>{width}}"
    block = blocks[min(4, int(min(1.0, abs(weight) / darkest) * 4 + 0.5))] * min(width, 2)
    return f"{block:>3}{weight:6.2f}" if width == CELL_WIDTH else block


def print_largest_weights(
    weights: Mapping[str, Any], titles: list[str], layer: int | None, head: int | None
) -> None:
    """Print how often each source step has the largest weight at each target step. Equal largest
    weights of a sequence share this sequence.

    The function prints nothing if the sequences have different lengths, if the weights are signed,
    or if there are more than `MAX_NUMBERED_COLUMNS` columns.
    """
    panels = run_pictures.attention_panels(weights, titles, len(titles), layer=layer, head=head)
    shapes = {panel.weights.shape for panel in panels}
    ((_, columns), *others) = shapes
    if others or columns > MAX_NUMBERED_COLUMNS or str(weights["meaning"]) == "strength":
        return
    panels_each = len(panels) // len(titles)  # one panel for each layer and head
    show(f"\nall {len(titles)} sequences: share in which a source step has the largest weight")
    for k in range(panels_each):
        if layer_and_head := panels[k].title.removeprefix(titles[0]).strip():
            show(f"  {layer_and_head}")
        show(f"  {'weight of':<13}" + "".join(f"{panels[k].first_column + c + 1:>9}"
                                          for c in range(columns)))  # fmt: skip
        of_head = np.stack([panel.weights for panel in panels[k::panels_each]])
        for r, row in enumerate(largest_weight_shares(of_head).mean(axis=0)):
            shares = "".join(f"{share:9.0%}" for share in row)
            show(f"  {_row_name(panels[k], r):<13}{shares}")
