"""Evaluation of trained models: free-running forecasts, errors of models and baselines, and
attention metrics."""

from __future__ import annotations

from seqattn.analysis.evaluation.forced_weights import (
    ForcedRows,
    ForecastOverride,
    as_override,
    parse_override,
)
from seqattn.analysis.evaluation.forecasts import (
    MAX_CHUNK_PAIRS,
    MAX_CHUNK_SEQUENCES,
    AttentionCallback,
    ForecastChunk,
    FreeRunningForecast,
    Maps,
    free_run,
    free_running_error,
)
from seqattn.analysis.evaluation.plugin_metrics import register_metric
from seqattn.analysis.evaluation.references import ReferenceLosses
from seqattn.analysis.evaluation.scores import Evaluation, evaluate, evaluate_and_forecast

__all__ = [
    "MAX_CHUNK_PAIRS",
    "MAX_CHUNK_SEQUENCES",
    "AttentionCallback",
    "Evaluation",
    "ForcedRows",
    "ForecastChunk",
    "ForecastOverride",
    "FreeRunningForecast",
    "Maps",
    "ReferenceLosses",
    "as_override",
    "evaluate",
    "evaluate_and_forecast",
    "free_run",
    "free_running_error",
    "parse_override",
    "register_metric",
]
