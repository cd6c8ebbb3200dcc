"""Pictures: arrays in, matplotlib `Figure` out. Nothing here knows torch or a run folder."""

from seqattn.figures.attention import attention_figure
from seqattn.figures.comparison import along_figure, band_figure, comparison_figure
from seqattn.figures.curves import LossHistory, importance_figure, loss_figure
from seqattn.figures.paths import paths_figure
from seqattn.figures.style import as_bytes, as_moving, formats, shortened
from seqattn.figures.vectors import vectors_figure

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
