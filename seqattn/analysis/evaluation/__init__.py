"""What a trained model does on its own: free-running forecasts, their errors beside the
baselines, and where it looked."""

from __future__ import annotations

from seqattn.analysis.evaluation.forecasts import (
    CHUNK,
    CHUNK_PAIRS,
    AttentionCallback,
    ForecastChunk,
    FreeRunningForecast,
    Maps,
    free_run,
    loss_of,
)
from seqattn.analysis.evaluation.references import References
from seqattn.analysis.evaluation.scores import Evaluation, evaluate, evaluate_and_forecast

__all__ = [
    "CHUNK",
    "CHUNK_PAIRS",
    "AttentionCallback",
    "Evaluation",
    "ForecastChunk",
    "FreeRunningForecast",
    "Maps",
    "References",
    "evaluate",
    "evaluate_and_forecast",
    "free_run",
    "loss_of",
]
