"""Pictures: arrays in, matplotlib `Figure` out. Nothing here knows torch or a run folder."""

from seqattn.plots.attention import attention_figure
from seqattn.plots.comparison import along_figure, band_figure, comparison_figure
from seqattn.plots.curves import LossHistory, importance_figure, loss_figure
from seqattn.plots.paths import paths_figure
from seqattn.plots.style import as_bytes, as_moving, formats, shortened
from seqattn.plots.vectors import vectors_figure

__all__ = [
    "LossHistory",
    "along_figure",
    "as_bytes",
    "as_moving",
    "attention_figure",
    "band_figure",
    "comparison_figure",
    "formats",
    "importance_figure",
    "loss_figure",
    "paths_figure",
    "shortened",
    "vectors_figure",
]
