"""Functions that draw the attention history of a run as a picture with one column per drawn epoch,
or as an animation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.plots.attention import Layout
from seqattn.plots.run_pictures import Panel, attention_panels, draw_panels
from seqattn.plots.style import as_gif
from seqattn.runs.array_files import sequence_titles
from seqattn.runs.storage import write_output

Arrays = Mapping[str, NDArray[Any]]
STRIP_EPOCHS = 8  # number of columns in a picture of an attention history
MAX_STRIP_SEQUENCES = 4
MAX_FRAMES = 60


def attention_history_picture(
    history: Arrays, examples: int, *, layer: int = 0, head: int = 0
) -> Figure:
    """Draw the attention history, with one row per sequence and one column per drawn epoch.

    The figure has at most `STRIP_EPOCHS` columns, for evenly spaced recorded epochs, and at most
    `MAX_STRIP_SEQUENCES` rows.

    Args:
        history: the arrays of `film.npz`, with weights (epochs, sequences, layers, heads, T, S).
        examples: the maximum number of sequences.
        layer, head: the index of the layer and the index of the head.

    Raises:
        UsageError: if the model does not have this layer or this head.
    """
    frames = _history_frames(history, STRIP_EPOCHS, min(examples, MAX_STRIP_SEQUENCES), layer, head)
    row_titles = [panel.title for panel in frames[0].panels]
    in_rows = [
        replace(panel, title="" if row else frame.epoch)
        for row in range(len(row_titles))
        for frame in frames
        for panel in [frame.panels[row]]
    ]
    return draw_panels(in_rows, history, Layout(columns=len(frames), row_titles=row_titles))


def save_animation(history: Arrays, path: Path, *, layer: int = 0, head: int = 0) -> None:
    """Write the attention history of the first sequences as an animated GIF.

    Args:
        history: the arrays of `film.npz`, with weights (epochs, sequences, layers, heads, T, S).
        path: the file to write.
        layer, head: the index of the layer and the index of the head.

    Raises:
        UsageError: if the model does not have this layer or this head.
    """
    frames = _history_frames(history, MAX_FRAMES, MAX_STRIP_SEQUENCES, layer, head)
    largest = float(np.nanmax(np.abs(history["weights"][:, :MAX_STRIP_SEQUENCES, layer, head])))
    figures = [
        draw_panels(frame.panels, history, Layout(max_weight=largest, heading=frame.epoch))
        for frame in frames
    ]
    write_output(path, as_gif(figures))


@dataclass(frozen=True)
class _Frame:
    """The heatmaps of an attention history at one epoch.

    Attributes:
        epoch: the name of the epoch, such as "after epoch 3".
        panels: one panel per sequence.
    """

    epoch: str
    panels: list[Panel]


def _history_frames(
    history: Arrays, max_frames: int, examples: int, layer: int, head: int
) -> list[_Frame]:
    """Return the heatmaps at evenly spaced recorded epochs, including the first and the last.

    Raises:
        UsageError: if the model does not have this layer or this head.
    """
    count, titles = len(history["weights"]), sequence_titles(history, "validation")
    frames = []
    for k in np.unique(np.linspace(0, count - 1, min(count, max_frames)).round().astype(int)):
        frame = {**history, "weights": history["weights"][k]}
        drawn = attention_panels(frame, titles, examples, layer=layer, head=head)
        epoch = int(history["epochs"][k])
        name = f"after epoch {epoch}" if epoch else "before training"
        frames.append(_Frame(name, drawn))
    return frames
