"""Comparison of exported graphs in ONNX Runtime with the traced model.

`free_run` computes the forecasts of the model, including the scaling of the data. The graphs get
the same sources in the units of the data. Differences are in scaled units, so that all features
have the same weight.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

from seqattn.analysis.evaluation import FreeRunningForecast, free_run
from seqattn.data import Sequences
from seqattn.export.graphs import NEXT, POINT, WEIGHTS
from seqattn.export.loop import FORECAST
from seqattn.export.onnx import LENGTHS, SOURCE, Graphs
from seqattn.models.memory import attention_weights_per_sequence
from seqattn.training import LoadedModel
from seqattn.training.batches import chunk_slices

Arrays = dict[str, NDArray[Any]]
MAX_DIFFERENCE = 1e-5
NOISE_FACTOR = 10  # tolerance, as a multiple of the difference between float32 and float64
MAX_SOURCES, EXTRA_LENGTH, SMALL_SET = 64, 3, 7
SEED = 0
MAX_BATCH_WEIGHTS = 2**22
"""Largest number of attention weights in a batch. The weights take 16 MiB, and about ten copies of
the weights are in memory."""
LEVEL_SPREAD = 100  # standard deviation of levels, if each sequence has its own level


@dataclass(frozen=True)
class CheckResult:
    """The differences between graphs and model on one set of sources.

    Attributes:
        graph: the graphs that were run, "free_running" or "encoder and step".
        sources: description of the sources.
        differences: largest absolute difference of the forecast, in scaled units, and of each kind
            of weights.
        noise: largest difference between the model in float32 and in float64. The difference
            measures rounding errors, which grow over the steps of a forecast.
    """

    graph: str
    sources: str
    differences: dict[str, float]
    noise: float

    @property
    def is_within_tolerance(self) -> bool:
        return self.largest <= max(MAX_DIFFERENCE, NOISE_FACTOR * self.noise)

    @property
    def largest(self) -> float:
        return _nan_max(*self.differences.values())


def check_graphs(
    graphs: Graphs, trained: LoadedModel, steps: int, test: Sequences | None, max_length: int | None
) -> list[CheckResult]:
    """Compare graphs and model on the same sources.

    Args:
        graphs: the exported graphs.
        trained: the model from which the graphs were traced.
        steps: number of forecast steps.
        test: the test part; None if it cannot be read.
        max_length: length of the longest source that the model accepts; None if there is no limit.

    Returns:
        a result for each graph and set of sources.
    """
    batch_size = sequences_per_batch(trained, trained.spec.source_length, steps)
    sets = _build_test_sets(trained, min(MAX_SOURCES, 4 * batch_size), test, max_length)
    free_running = build_session(graphs.free_running)
    encoder_and_step = build_session(graphs.encoder), build_session(graphs.step)
    scaling, results = trained.spec.scaling, list[CheckResult]()
    float64_model = copy.deepcopy(trained.model).double()
    for description, sources in sets.items():
        noise, differences = 0.0, dict[str, dict[str, float]]()
        for rows in chunk_slices(len(sources), batch_size):
            part = as_fully_observed(sources.select(rows))
            unit = scaling.target_scale(part)
            expected = _in_scaled_units(free_run(trained.model, part, steps, scaling=scaling), unit)
            exact = _in_scaled_units(free_run(float64_model, part, steps, scaling=scaling), unit)
            noise = _nan_max(noise, *(_max_difference(exact[k], expected[k]) for k in expected))
            del exact
            inputs = {SOURCE: part.source.astype(np.float64), LENGTHS: part.source_lengths}
            for name in ("free_running", "encoder and step"):
                found = (
                    _run(free_running, inputs)
                    if name == "free_running"
                    else step_by_step(*encoder_and_step, inputs, steps, graphs.state)
                )
                found[FORECAST] = found[FORECAST] / unit
                of_graph = differences.setdefault(name, {})
                for key, array in expected.items():
                    difference = _max_difference(found[key], array)
                    of_graph[key] = _nan_max(of_graph.get(key, 0.0), difference)
                del found
        results += [CheckResult(name, description, each, noise)
                    for name, each in differences.items()]  # fmt: skip
    return results


def _build_test_sets(
    trained: LoadedModel, count: int, test: Sequences | None, max_length: int | None
) -> dict[str, Sequences]:
    """Build sets of test sources, by description. Together the sets have every length that the
    model accepts.

    Args:
        trained: the exported model.
        count: number of sequences in the largest sets.
        test, max_length: see `check_graphs`.
    """
    sets, S = dict[str, Sequences](), trained.spec.source_length
    if test is not None and len(test):
        part = test.select(slice(0, count))
        sets[f"{len(part)} test sequences"] = part
    if trained.model.skip is not None:
        sets[f"{count} random of {S} points"] = _random_sources(trained, count, S)
        return sets
    limit = S + EXTRA_LENGTH if max_length is None else min(S + EXTRA_LENGTH, max_length)
    sets["1 random point"] = _random_sources(trained, 1, 1)
    sets[f"{SMALL_SET} random, up to {limit} points"] = _random_sources(trained, SMALL_SET, limit)
    sets[f"{count} random, up to {S} points"] = _random_sources(trained, count, S)
    return sets


def sequences_per_batch(trained: LoadedModel, S: int, T: int) -> int:
    """Return the batch size for at most `MAX_BATCH_WEIGHTS` attention weights."""
    weights = attention_weights_per_sequence(trained.config.model, S, T)
    return max(1, MAX_BATCH_WEIGHTS // max(1, weights))


def _nan_max(*numbers: float) -> float:
    return float(np.max(numbers))  # unlike max(), this is NaN if any number is NaN


def step_by_step(
    encoder: onnxruntime.InferenceSession,
    step: onnxruntime.InferenceSession,
    inputs: Mapping[str, NDArray[Any]],
    steps: int,
    state: Sequence[str],
) -> Arrays:
    """Run the encoder graph and then the step graph repeatedly (free running). The outputs have the
    names and shapes of the outputs of the graph `free_running`.

    Args:
        encoder, step: sessions of the two graphs.
        inputs: inputs of the encoder.
        steps: number of forecast steps, T.
        state: names of the state tensors in the inputs of the step.
    """
    known = _run(encoder, inputs)
    step_inputs = [argument.name for argument in step.get_inputs()]
    forecast, maps = list[NDArray[Any]](), dict[str, list[NDArray[Any]]]()
    for t in range(steps):
        outputs = _run(step, {name: known[name] for name in step_inputs})
        known |= {name: outputs[NEXT + name] for name in (POINT, *state)}
        forecast.append(outputs[NEXT + POINT])
        for name in set(outputs) & set(WEIGHTS.values()):
            row = outputs[name]
            if name == "decoder_self":
                row = np.pad(row, [(0, 0)] * 3 + [(0, steps - 1 - t)])
            maps.setdefault(name, []).append(row)
    found = {name: np.stack(rows, axis=-2) for name, rows in maps.items()}
    if "encoder_self" in known:
        found["encoder_self"] = known["encoder_self"]
    return {FORECAST: np.stack(forecast, axis=1), **found}


def forecasts(graph: ModelProto, part: Sequences, batch_size: int) -> NDArray[np.float64]:
    """Compute the forecasts (N, T, F) of a free-running graph for the sources of a part."""
    session, batches = build_session(graph), list[NDArray[np.float64]]()
    for rows in chunk_slices(len(part), batch_size):
        batch = part.select(rows)
        inputs = {SOURCE: batch.source.astype(np.float64), LENGTHS: batch.source_lengths}
        (forecast,) = session.run([FORECAST], inputs)
        batches.append(forecast)
    return np.concatenate(batches)


def build_session(graph: ModelProto) -> onnxruntime.InferenceSession:
    """Build an ONNX Runtime session on the CPU with one thread and without log output."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _run(session: onnxruntime.InferenceSession, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _weights_by_name(run: FreeRunningForecast) -> Arrays:
    return {WEIGHTS[kind]: weights for kind, weights in run.maps.items()}


def as_fully_observed(part: Sequences) -> Sequences:
    """Remove the mask of observed source values from a part, because graphs have no input for
    it."""
    return replace(part, source_observed=None)


def _in_scaled_units(run: FreeRunningForecast, unit: NDArray[np.float64]) -> Arrays:
    """Return the forecast in scaled units, and the weights.

    Args:
        run: forecast and weights in the units of the data.
        unit: (N, 1, F), size of one scaled unit in units of the data.
    """
    return {FORECAST: run.values / unit, **_weights_by_name(run)}


def _max_difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max())


def _random_sources(trained: LoadedModel, n: int, max_length: int) -> Sequences:
    """Draw standard normal sources in scaled units.

    The lengths of the sources are between 1 and `max_length`, or all equal to `max_length` if the
    model has a skip connection. With `data.relative` or `data.normalize: instance`, each sequence
    has a random level. With `data.normalize: instance`, each sequence also has a random scale.
    """
    spec, rng = trained.spec, np.random.default_rng(SEED)
    lengths = np.arange(n, dtype=np.int64)[::-1] % max_length + 1
    lengths[0] = max_length
    if trained.model.skip is not None:
        lengths[:] = max_length
    scaler, F = spec.scaling.source, len(spec.source_features)
    points = scaler.inverse_transform(rng.standard_normal((n, max_length, F)))
    if spec.scaling.relative:
        points[np.arange(n), lengths - 1] = 0
    if spec.scaling.instance:
        points *= np.exp(rng.standard_normal((n, 1, F)))
    if spec.scaling.relative or spec.scaling.instance:
        points += rng.standard_normal((n, 1, F)) * LEVEL_SPREAD * scaler.scale
    points[np.arange(max_length) >= lengths[:, None]] = 0
    return Sequences(
        points, lengths, np.zeros((n, 0, len(spec.target_features))), np.zeros(n, dtype=np.int64),
        spec.source_features, tuple(map(str, range(n))), target_features=spec.target_features,
    )  # fmt: skip


def build_example(trained: LoadedModel, steps: int, test: Sequences | None) -> Arrays:
    """Build the example: four sources, NaN beyond their end, with the model's forecast and
    weights."""
    count, S = 4, trained.spec.source_length
    part = _random_sources(trained, count, S) if test is None else test.select(slice(0, count))
    part = as_fully_observed(part)
    expected = free_run(trained.model, part, steps, scaling=trained.spec.scaling)
    source = np.where(part.source_keep[:, :, None], part.source, np.nan)
    return {SOURCE: source, FORECAST: expected.values, **_weights_by_name(expected)}
