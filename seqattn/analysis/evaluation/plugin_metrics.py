"""The metrics that plugins register."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from seqattn.config import plugins
from seqattn.data import Sequences
from seqattn.data.sequences import Floats
from seqattn.errors import PluginError

Metric = Callable[[Floats, Floats], float]
"""A function (forecast, target) of two arrays (N, T, F) that returns a number."""
PLUGIN_METRICS: dict[str, tuple[Metric, plugins.Source]] = {}
"""The metrics of plugins and their sources, by name."""


def register_metric(name: str) -> Callable[[Metric], Metric]:
    """Return a decorator that registers a metric.

    A metric is a function (forecast, target) that returns a number. Its arguments are the
    free-running forecasts and the targets of all sequences, as two arrays (N, T, F) in the units of
    the data. Both arrays are NaN at padding and at unobserved target cells.

    Args:
        name: the name of the metric in the output of `seqattn evaluate`.

    Raises:
        PluginError: if the name is not valid or exists already. The decorator raises this error.
    """

    def register(metric: Metric) -> Metric:
        def apply() -> None:
            PLUGIN_METRICS[name] = metric, plugins.source_of(metric.__module__)

        plugins.register("metric", name, metric.__module__, apply, ())
        return metric

    return register


class PluginMetrics:
    """The forecasts and targets of all sequences, from which the metrics of plugins are computed.
    If no plugin has registered a metric, the object stores nothing."""

    def __init__(self) -> None:
        self.chunks: list[tuple[Floats, Floats]] = []

    def add(self, part: Sequences, forecast: Floats) -> None:
        """Add the forecasts (n, T, F) and the targets of n sequences."""
        if PLUGIN_METRICS:
            cells = part.target_cells
            self.chunks.append(
                (np.where(cells, forecast, np.nan), np.where(cells, part.target, np.nan))
            )

    def results(self) -> dict[str, float | None]:
        """Return the value of each metric by name, or None instead of a value that is not finite.

        Raises:
            PluginError: if a metric raises an exception, or does not return a number.
        """
        if not PLUGIN_METRICS:
            return {}
        forecast, target = (np.concatenate(arrays) for arrays in zip(*self.chunks, strict=True))
        found = dict[str, float | None]()
        for name, (metric, source) in PLUGIN_METRICS.items():
            try:
                value = float(metric(forecast.copy(), target.copy()))
            except Exception as error:
                raise PluginError(
                    f"{source}: the metric {name} failed: {type(error).__name__}: {error}"
                ) from error
            found[name] = value if math.isfinite(value) else None
        return found
