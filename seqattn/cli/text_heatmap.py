"""Attention weights on a terminal: a block for each weight, darker for more."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.cli.output import leave_with_the_reader, show
from seqattn.plots import run_pictures

if TYPE_CHECKING:
    from seqattn.plots.run_pictures import Panel

BLOCKS, SIGNS = " ░▒▓█", " .:*#"
MOST_COLUMNS, LONG = 12, 16
CELL = 9
"""Width of a block with its number."""


def print_weights(
    weights: Mapping[str, Any], titles: list[str], kind: str, layer: int | None, head: int | None
) -> None:
    """Heatmaps of characters: a block for each weight, darker for more, and its number beside it
    where there is room."""
    blocks = _printable_blocks()
    leave_with_the_reader()
    panels = run_pictures.attention_panels(
        weights, titles, len(titles), kind=kind, layer=layer, head=head
    )
    signed = str(weights["meaning"]) == "strength"
    for panel in panels:
        show(panel.title.replace("\n", ", "))
        for line in _heatmap(panel, blocks, to_largest=signed or panel.weights.shape[1] > LONG):
            show(line)
        show()
    if kind == "decoder_self":
        show("A decoder step is named by the point it forecasts; it has read the point before.")
    meant = "strength, from little to the largest of either sign"
    if not signed:
        is_long = any(panel.weights.shape[1] > LONG for panel in panels)
        meant = f"weight, to the nearest quarter{' of the largest' if is_long else ''}"
    show(f"{blocks[1]} to {blocks[4]}: {meant}")


def _printable_blocks() -> str:
    """Five characters, from none to all of a weight, that standard output can encode."""
    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return SIGNS
    return BLOCKS


def _heatmap(panel: Panel, blocks: str, *, to_largest: bool) -> Iterator[str]:
    """A heading with the source steps, and a line a target step.

    Args:
        to_largest: the darkest block is the largest weight of the panel, not a weight of 1.
    """
    S = panel.weights.shape[1]
    points = [str(panel.first_column + s + 1) for s in range(S)]
    fits = shutil.get_terminal_size().columns >= 14 + 2 * S
    width = CELL if S <= MOST_COLUMNS else 2 if fits else 1
    if width == CELL:
        yield "  looks     at " + "".join(f"{point:>{CELL}}" for point in points)
    else:
        yield f"  looks     at {points[0]} to {points[-1]}"
    observed = np.abs(panel.weights[~np.isnan(panel.weights)])
    darkest = float(observed.max(initial=0.0)) if to_largest else 1.0
    for t, row in enumerate(panel.weights):
        cells = "".join(_cell(float(weight), darkest or 1.0, blocks, width) for weight in row)
        yield f"  point {panel.first_row + t + 1:<7}{cells}".rstrip()


def _cell(weight: float, darkest: float, blocks: str, width: int) -> str:
    """A weight as one or two blocks, and as a number in a cell that has the width for it."""
    if math.isnan(weight):
        return f"{'/':>{width}}"
    block = blocks[min(4, int(min(1.0, abs(weight) / darkest) * 4 + 0.5))] * min(width, 2)
    return f"{block:>3}{weight:6.2f}" if width == CELL else block


def print_largest_weights(
    weights: Mapping[str, Any], titles: list[str], layer: int | None, head: int | None
) -> None:
    """For each step of the forecast, in what share of all sequences each source step has the
    largest weight: a few examples need not be typical.

    Nothing where sequences have different lengths, weights are signed, or a row has no room.
    """
    panels = run_pictures.attention_panels(weights, titles, len(titles), layer=layer, head=head)
    shapes = {panel.weights.shape for panel in panels}
    ((_, columns), *others) = shapes
    if others or columns > MOST_COLUMNS or str(weights["meaning"]) == "strength":
        return
    each = len(panels) // len(titles)  # panels of a sequence: its layers and heads
    show(f"\nall {len(titles)} sequences: share in which a point has the largest weight")
    for k in range(each):
        if where := panels[k].title.removeprefix(titles[0]).strip():  # its layer and head
            show(f"  {where}")
        show("  looks     at " + "".join(f"{panels[k].first_column + c + 1:>9}"
                                          for c in range(columns)))  # fmt: skip
        for r, row in enumerate(largest_weight_shares(
            np.stack([panel.weights for panel in panels[k::each]])
        )):  # fmt: skip
            shares = "".join(f"{share:9.0%}" for share in row)
            show(f"  point {panels[k].first_row + r + 1:<7}{shares}")
