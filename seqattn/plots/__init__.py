"""Functions that draw arrays as a matplotlib `Figure`, and functions that draw the pictures of runs
and comparisons."""

from seqattn.plots.attention import attention_figure
from seqattn.plots.losses import (
    LossHistory,
    band_figure,
    comparison_figure,
    importance_figure,
    loss_figure,
    sweep_figure,
)
from seqattn.plots.paths import Details, paths_figure
from seqattn.plots.style import as_bytes, as_gif
from seqattn.plots.vectors import vectors_figure

__all__ = [
    "Details",
    "LossHistory",
    "as_bytes",
    "as_gif",
    "attention_figure",
    "band_figure",
    "comparison_figure",
    "importance_figure",
    "loss_figure",
    "paths_figure",
    "sweep_figure",
    "vectors_figure",
]
