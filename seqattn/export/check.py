"""Functions that compare exported graphs, run in ONNX Runtime, with the traced model.

What is compared depends on the kind of the sequences; see `seqattn.export.kinds`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto

from seqattn.data import Sequences
from seqattn.data.sequences import valid_mask
from seqattn.export.graphs import FORECAST, LENGTHS, NEXT, OBSERVED, POINT, SOURCE
from seqattn.export.kinds import Arrays, export_kind
from seqattn.export.onnx import Graphs
from seqattn.models import attention_weights_per_sequence
from seqattn.training import LoadedModel
from seqattn.training.batches import chunk_slices

MAX_DIFFERENCE = 1e-5
NOISE_FACTOR = 10  # tolerance / difference between float32 and float64
MAX_SOURCES, EXTRA_LENGTH, SMALL_SET = 64, 3, 7
MAX_BATCH_WEIGHTS = 2**22
"""Maximum number of attention weights in a batch. These weights need 16 MiB, and memory holds about
ten copies of them."""


@dataclass(frozen=True)
class CheckResult:
    """The differences between the graphs and the model for one set of sources.

    Attributes:
        graph: the graphs that were run, "free_running" or "encoder and step".
        sources: a description of the sources.
        differences: the largest absolute difference of each output, by the name of the output; see
            `seqattn.export.kinds`.
        noise: the largest difference between the outputs of the model in float32 and in float64.
            This difference measures rounding errors, which grow over the steps of a forecast.
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
    """Compare the outputs of the graphs with those of the model for the same sources.

    Args:
        graphs: the exported graphs.
        trained: the model from which the graphs were traced.
        steps: the number of forecast steps.
        test: the test sequences; None if the data cannot be read or contain no test sequences.
        max_length: the length of the longest source that the model accepts; None if there is no
            limit.

    Returns:
        Two results for each set of sources: one for the free-running graph, and one for the encoder
        graph and the step graph together.
    """
    batch_size = sequences_per_batch(trained, trained.spec.source_length, steps)
    sets = _build_test_sets(trained, min(MAX_SOURCES, 4 * batch_size), test, max_length)
    free_running = build_session(graphs.free_running)
    encoder_and_step = build_session(graphs.encoder), build_session(graphs.step)
    results, kind = list[CheckResult](), export_kind(trained)
    float64_model = copy.deepcopy(trained.model).double()
    for description, sources in sets.items():
        noise, differences = 0.0, dict[str, dict[str, float]]()
        for rows in chunk_slices(len(sources), batch_size):
            part = sources.select(rows)
            inputs = _inputs(free_running, part)
            for name in ("free_running", "encoder and step"):
                found = (
                    _run(free_running, inputs)
                    if name == "free_running"
                    else step_by_step(*encoder_and_step, inputs, steps, graphs.state)
                )
                expected = kind.outputs_of_model(trained.model, part, found)
                if name == "free_running":
                    exact = kind.outputs_of_model(float64_model, part, found)
                    noise = _nan_max(
                        noise, *(_max_difference(exact[key], expected[key]) for key in expected)
                    )
                    del exact
                compared = kind.outputs_of_graph(found, expected, part)
                of_graph = differences.setdefault(name, {})
                for key, array in expected.items():
                    difference = _max_difference(compared[key], array)
                    of_graph[key] = _nan_max(of_graph.get(key, 0.0), difference)
                del found, compared, expected
        results += [CheckResult(name, description, each, noise)
                    for name, each in differences.items()]  # fmt: skip
    return results


def _build_test_sets(
    trained: LoadedModel, count: int, test: Sequences | None, max_length: int | None
) -> dict[str, Sequences]:
    """Return the sets of sources for the comparison, as a mapping from a description to a set.

    One set contains test sequences if there are any. The other sets contain random sources. The
    random sources have different lengths, unless the model accepts only one length.

    Args:
        trained: the exported model.
        count: the maximum number of test sequences, and the number of sources in the last set.
        test: the test sequences; None if the data cannot be read or contain no test sequences.
        max_length: the length of the longest source that the model accepts; None if there is no
            limit.
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
    """Return the largest batch size with at most `MAX_BATCH_WEIGHTS` attention weights, at least 1.

    Args:
        trained: the model.
        S: the source length.
        T: the number of forecast steps.
    """
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
    """Run the encoder graph once, and then run the step graph for each forecast step.

    The outputs have the same names and shapes as the outputs of the graph `free_running`.

    Args:
        encoder: the session of the encoder graph.
        step: the session of the step graph.
        inputs: the inputs of the encoder graph.
        steps: the number of forecast steps, T.
        state: the names of the state tensors among the inputs of the step graph.
    """
    known = _run(encoder, inputs)
    step_inputs = [argument.name for argument in step.get_inputs()]
    forecast, maps = list[NDArray[Any]](), dict[str, list[NDArray[Any]]]()
    for t in range(steps):
        outputs = _run(step, {name: known[name] for name in step_inputs})
        known |= {name: outputs[NEXT + name] for name in (POINT, *state)}
        forecast.append(outputs[NEXT + POINT])
        for name, row in outputs.items():
            if name.startswith(NEXT):
                continue
            if name == "decoder_self":
                row = np.pad(row, [(0, 0)] * 3 + [(0, steps - 1 - t)])
            maps.setdefault(name, []).append(row)
    found = {name: np.stack(rows, axis=-2) for name, rows in maps.items()}
    if "encoder_self" in known:
        found["encoder_self"] = known["encoder_self"]
    return {FORECAST: np.stack(forecast, axis=1), **found}


def forecasts(graph: ModelProto, part: Sequences, batch_size: int) -> NDArray[Any]:
    """Run a free-running graph on the sources of a part, and return the forecasts (N, T, G) for
    G target features."""
    session, batches = build_session(graph), list[NDArray[Any]]()
    for rows in chunk_slices(len(part), batch_size):
        batch = part.select(rows)
        (forecast,) = session.run([FORECAST], _inputs(session, batch))
        batches.append(forecast)
    return np.concatenate(batches)


def build_session(graph: ModelProto) -> onnxruntime.InferenceSession:
    """Create an ONNX Runtime session that uses one CPU thread and prints only errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _run(session: onnxruntime.InferenceSession, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _inputs(session: onnxruntime.InferenceSession, part: Sequences) -> Arrays:
    """Return the inputs of a graph for the sources of a part, by name."""
    source = part.source.astype(np.result_type(part.source, np.int64))  # float64 if not symbols
    every = {SOURCE: source, LENGTHS: part.source_lengths, OBSERVED: part.source_cells}
    return {argument.name: every[argument.name] for argument in session.get_inputs()}


def _max_difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max())


def _random_sources(trained: LoadedModel, n: int, max_length: int) -> Sequences:
    """Return n random sources; see `ExportKind.random_values`.

    The lengths of the sources are between 1 and `max_length`. If the model has a linear skip
    connection, all lengths are `max_length`.
    """
    spec = trained.spec
    lengths = np.arange(n, dtype=np.int64)[::-1] % max_length + 1
    lengths[0] = max_length
    if trained.model.skip is not None:
        lengths[:] = max_length
    points, observed = export_kind(trained).random_values(lengths)
    points = np.where(valid_mask(lengths, max_length)[:, :, None], points, 0)
    return Sequences(
        points, lengths, np.zeros((n, 0, len(spec.target_features)), points.dtype),
        np.zeros(n, dtype=np.int64), spec.source_features, tuple(map(str, range(n))),
        target_features=spec.target_features, source_observed=observed,
        source_space=spec.source, target_space=spec.target,
    )  # fmt: skip


def build_example(trained: LoadedModel, steps: int, test: Sequences | None) -> Arrays:
    """Build the test case for an export: up to four sources, and the outputs of the model."""
    count, S = 4, trained.spec.source_length
    part = _random_sources(trained, count, S) if test is None else test.select(slice(0, count))
    return export_kind(trained).example(part, steps)
