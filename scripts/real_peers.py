"""Measurements of neuralforecast and statsforecast on the windows of scripts/real_data.py.

The neural models are trained on the training part only. The learning rate, the scaling of windows
and the number of steps are chosen on the validation part with seed 1, one after the other. Then
seeds 1 to 5 are trained with the chosen options. Every neural model forecasts each test window from
the S source points of the window. AutoETS and AutoARIMA are fitted once, to all points before the
first forecast point of the test part. The other statistical models are fitted to each history. All
statistical models forecast the target of a window from the whole history before it.
"""

from __future__ import annotations

import logging
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from real_series import DataSet, Floats, SeriesParts, WindowArrays, filled, rmse

NEURAL = ("DLinear", "NLinear", "NHITS", "PatchTST")
STATISTICAL = ("SeasonalNaive", "AutoETS", "AutoARIMA", "MSTL")
AXES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("learning_rate", (1e-3, 1e-4, 1e-2)),
    ("scaler_type", ("identity", "standard")),
    ("max_steps", (200, 50, 500, 1000)),
)
LONGEST = {"PatchTST": 500}  # maximum number of steps; PatchTST is by far the slowest model
LONG_SOURCE = 200  # points; with longer sources, steps are slow, so the maximum is lower
LONGEST_OF_LONG = {"PatchTST": 200, "NHITS": 500}
LONGEST_SEASON = 24  # AutoETS does not accept a longer season, and AutoARIMA would take hours
LONGEST_MSTL = 52  # MSTL would take an hour with a season of 336 steps


def long_frame(series: list[Floats]) -> Any:
    """Return series, each (L, F), as the table of univariate series that neuralforecast expects."""
    import pandas as pd

    columns = [column for values in series for column in values.T]
    lengths = [len(column) for column in columns]
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"{k:07d}" for k in range(len(columns))], lengths),
            "ds": np.concatenate([np.arange(n) for n in lengths]),
            "y": np.concatenate(columns),
        }
    )


class Neural:
    """A model of neuralforecast for one data set.

    The data are standardized with the mean and standard deviation of the training part.
    """

    def __init__(self, name: str, data: DataSet, parts: SeriesParts) -> None:
        self.name, self.data = name, data
        train = [filled(values) for values in parts.series["train"]]
        together = np.concatenate(train)
        self.shift, self.scale = together.mean(axis=0), together.std(axis=0)
        self.frame = long_frame([(values - self.shift) / self.scale for values in train])

    def forecast(
        self, options: dict[str, Any], seed: int, windows: list[WindowArrays]
    ) -> list[Floats]:
        """Train once, and forecast the windows of several parts.

        Args:
            options: the options of the model.
            seed: the seed of the training.
            windows: the windows of each part.

        Returns:
            The forecasts of each part, (N, T, F), in the units of the data.
        """
        import neuralforecast.models as models
        from neuralforecast import NeuralForecast
        from neuralforecast.losses.pytorch import MSE

        model = getattr(models, self.name)(
            h=self.data.target, input_size=self.data.source, loss=MSE(), random_seed=seed,
            windows_batch_size=32 if self.name == "PatchTST" else 128, accelerator="cpu",
            val_check_steps=10**6, logger=False, enable_progress_bar=False,
            enable_checkpointing=False, enable_model_summary=False, **options,
        )  # fmt: skip
        trained = NeuralForecast(models=[model], freq=1)
        trained.fit(self.frame)
        return [self._predict(trained, part) for part in windows]

    def _predict(self, trained: Any, part: WindowArrays) -> Floats:
        N, _, F = part.source.shape
        scaled = (part.source - self.shift) / self.scale
        table = trained.predict(df=long_frame(list(scaled))).sort_values(["unique_id", "ds"])
        values = table[self.name].to_numpy(np.float64).reshape(N, F, self.data.target)
        return np.asarray(values.transpose(0, 2, 1) * self.scale + self.shift)

    def chosen(
        self, validation: WindowArrays, test: WindowArrays
    ) -> tuple[dict[str, Any], float, Floats]:
        """Choose the options with the lowest validation error, one axis after the other.

        Returns:
            The options, the validation error of the model with these options and seed 1, and the
            forecasts of this model for the test part.
        """
        known = dict[tuple[Any, ...], tuple[float, Floats]]()

        def error(options: dict[str, Any]) -> float:
            key = tuple(options.values())
            if key not in known:
                forecast, of_test = self.forecast(options, 1, [validation, test])
                known[key] = rmse(forecast, validation.target), of_test
            return known[key][0]

        longest = LONGEST_OF_LONG if self.data.source > LONG_SOURCE else LONGEST
        best = {axis: values[0] for axis, values in AXES}
        for axis, values in AXES:
            usable = [v for v in values if axis != "max_steps" or v <= longest.get(self.name, v)]
            best = min(({**best, axis: value} for value in usable), key=error)
        return best, *known[tuple(best.values())]


def neural(
    data: DataSet,
    parts: SeriesParts,
    windows: dict[str, WindowArrays],
    seeds: int,
    names: list[str],
) -> dict[str, Any]:
    """Measure the median, lowest and highest test error over seeds of each neural model."""
    warnings.filterwarnings("ignore")
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    found = dict[str, Any]()
    validation, test = windows["validation"], windows["test"]
    for name in names:
        began = time.perf_counter()
        model = Neural(name, data, parts)
        options, on_validation, first = model.chosen(validation, test)
        more = [model.forecast(options, seed, [test])[0] for seed in range(2, seeds + 1)]
        errors = [rmse(each, test.target) for each in (first, *more)]
        found[name] = {
            "rmse": statistics.median(errors), "min": min(errors), "max": max(errors),
            "options": options, "validation": on_validation,
            "seconds": round(time.perf_counter() - began),
        }  # fmt: skip
        print(f"  {name}: {found[name]}", flush=True)
    return found


def _models(season: int, fitted: Floats) -> dict[str, Callable[[Floats, int], Floats]]:
    """Return the statistical models by name, each as a function that forecasts from a history.

    AutoETS and AutoARIMA are fitted only once, to `fitted`. The other models are fitted to each
    history.
    """
    from statsforecast.models import MSTL, AutoARIMA, AutoETS, SeasonalNaive

    def each(model: Any) -> Callable[[Floats, int], Floats]:
        return lambda history, h: np.asarray(model.forecast(y=history, h=h)["mean"])

    def once(model: Any) -> Callable[[Floats, int], Floats]:
        model.fit(fitted)
        return lambda history, h: np.asarray(model.forward(y=history, h=h)["mean"])

    found = {"SeasonalNaive": each(SeasonalNaive(season_length=season))}
    if season <= LONGEST_SEASON:
        found["AutoETS"] = once(AutoETS(season_length=season))
        found["AutoARIMA"] = once(AutoARIMA(season_length=season))
    if 1 < season <= LONGEST_MSTL:
        found["MSTL"] = each(MSTL(season_length=season))
    return found


def statistical(data: DataSet, parts: SeriesParts, test: WindowArrays) -> dict[str, Any]:
    """Measure the test error of each statistical model.

    The result is empty if each part has separate series.
    """
    if parts.whole is None:
        return {}
    warnings.filterwarnings("ignore")
    whole = filled(parts.whole)[:, 0]
    begins = len(whole) - data.test
    origins = test.origins - data.source + begins  # positions in the whole series
    found = dict[str, Any]()
    for name, forecast in _models(data.season, whole[:begins]).items():
        began = time.perf_counter()
        forecasts = np.stack([forecast(whole[:origin], data.target) for origin in origins])
        found[name] = {
            "rmse": rmse(forecasts[:, :, None], test.target),
            "seconds": round(time.perf_counter() - began),
        }
        print(f"  {name}: {found[name]}", flush=True)
    return found
