"""Checks of a plugin's metrics and doctor checks, which are single functions."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np

from seqattn.analysis.doctor import PLUGIN_CHECKS, collect_evidence
from seqattn.analysis.doctor.check import State as FindingState
from seqattn.analysis.evaluation.plugin_metrics import PLUGIN_METRICS
from seqattn.config import resolve
from seqattn.data import DataSpec, load_data
from seqattn.experiments.contract.case import TARGET_DIM, N, T
from seqattn.experiments.contract.result import CheckFailedError
from seqattn.models import FeatureSpec, build_model
from seqattn.training import LoadedModel

TARGET_LENGTHS = np.array([5, 2, 3])
VERDICT_LENGTHS = {"fine": 2, "unknown": 2, "found": 4}
"""The number of fields of a verdict for each state."""


def check_metric(name: str) -> str:
    """Check that a metric returns a finite and reproducible number, ignores padding, and does not
    change its arguments.

    Raises:
        CheckFailedError: if the metric lacks one of these properties.
    """
    metric, _ = PLUGIN_METRICS[name]
    rng = np.random.RandomState(1)
    forecast, target = rng.standard_normal((2, N, T, TARGET_DIM))
    padding = np.arange(T) >= TARGET_LENGTHS[:, None]
    forecast[padding] = target[padding] = math.nan
    arguments = forecast.copy(), target.copy()
    value = metric(*arguments)
    if not isinstance(value, float | int | np.floating | np.integer):
        raise CheckFailedError(
            f"The metric returns {type(value).__name__} instead of a number. Reduce the result over"
            " all axes."
        )
    if not math.isfinite(value):
        raise CheckFailedError(
            f"The metric is {value:g} for forecasts and targets with NaN in the padding: it reads"
            " padding. Use np.nanmean and np.nansum, or a mask ~np.isnan(target)."
        )
    for argument, before in zip(arguments, (forecast, target), strict=True):
        if not np.array_equal(argument, before, equal_nan=True):
            raise CheckFailedError("The metric changes its arguments. Copy an array first.")
    if (again := metric(forecast.copy(), target.copy())) != value:
        raise CheckFailedError(
            f"The metric is {value:.6g} and then {again:.6g} for the same arguments."
        )
    more = ((0, 0), (0, T), (0, 0))
    padded = metric(*(np.pad(each, more, constant_values=math.nan) for each in (forecast, target)))
    if not math.isclose(padded, value, rel_tol=1e-9, abs_tol=1e-12):
        raise CheckFailedError(
            f"The metric is {value:.6g}, and {padded:.6g} with {T} more steps of padding: it counts"
            " padding, for example as an error of 0. Leave out the cells in which the target is"
            " NaN."
        )
    return f"{float(value):.4g} for random forecasts"


def check_doctor_check(name: str) -> str:
    """Check that a doctor check returns a valid verdict for a model with attention and, unless the
    check needs attention weights, for a model without attention.

    Raises:
        CheckFailedError: if a verdict is not valid.
    """
    (check,) = [each for each in PLUGIN_CHECKS if each.name == name]
    states = []
    for attention in ("{score: scaled_dot}", "null"):
        if attention == "null" and check.needs_weights:
            continue
        small = ["data.n_train=16", "data.n_validation=8", "data.n_test=8"]
        config = resolve(None, [*small, f"model.attention={attention}"]).config
        data = load_data(config.data)
        spec = DataSpec.of_splits(data)
        model = build_model(config.model, FeatureSpec.of(spec), 1)
        verdict = check.judge(collect_evidence(LoadedModel(model, config, spec, 1), data))
        if (
            not isinstance(verdict, tuple)
            or not verdict
            or verdict[0] not in get_args(FindingState)
        ):
            raise CheckFailedError(
                f"The check returns {verdict!r} instead of a tuple that starts with"
                f" {', '.join(map(repr, VERDICT_LENGTHS))}."
            )
        count = VERDICT_LENGTHS[verdict[0]]
        if len(verdict) != count or not all(isinstance(text, str) for text in verdict):
            raise CheckFailedError(
                f"The check returns {len(verdict)} fields with {verdict[0]!r} instead of {count}"
                " texts: ('fine', number), ('unknown', reason) or ('found', number, meaning,"
                " change)."
            )
        states.append(verdict[0])
    return f"{' and '.join(states)} for an untrained model"
