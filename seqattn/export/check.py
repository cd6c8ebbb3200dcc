"""Graphs held against the model they were made from, by ONNX Runtime.

The model forecasts through the library's own door, scaling and all; the graphs get the same
sources in the user's units. Differences are in the model's units, where features count alike.
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
from seqattn.export.onnx import FORECAST, LENGTHS, SOURCE, Graphs
from seqattn.training import LoadedModel
from seqattn.training.batches import slices
from seqattn.training.memory import attention_weights_per_sequence

Arrays = dict[str, NDArray[Any]]
MOST = 1e-5
AS_NOISE = 10  # times what the model in float32 is from itself in float64, if that is more
REAL, LONGER, SHORT = 64, 3, 7
SEED = 0
MOST_WEIGHTS = 2**22
"""Weights of sequences that are looked at together: 16 MiB, of which some ten copies are held."""
LEVELS = 100  # how far levels are apart, where each sequence has its own


@dataclass(frozen=True)
class Row:
    """How far graphs are from the model.

    Attributes:
        graph: what ran: free_running, or encoder and step.
        sources: what they were given, in words.
        differences: the largest of the forecast, in the model's units, and of each kind of weights.
        noise: how far the model is from itself in float64, the largest of all: what is built step
            on step may make much of the last digit.
    """

    graph: str
    sources: str
    differences: dict[str, float]
    noise: float

    @property
    def is_right(self) -> bool:
        return self.largest <= max(MOST, AS_NOISE * self.noise)

    @property
    def largest(self) -> float:
        return _larger(*self.differences.values())


def check(
    graphs: Graphs, trained: LoadedModel, steps: int, test: Sequences | None, longest: int | None
) -> list[Row]:
    """Run graphs and model on the same sources.

    Args:
        test: real sources; None where they are not to be had.
        longest: points of the longest source that the model can take; None: any number.

    Returns:
        a row for each graph and set of sources.
    """
    together = sequences_together(trained, trained.spec.source_length, steps)
    sets = _sets(trained, min(REAL, 4 * together), test, longest)
    free = session_of(graphs.free_running)
    parts = session_of(graphs.encoder), session_of(graphs.step)
    scaling, rows = trained.spec.scaling, list[Row]()
    precise = copy.deepcopy(trained.model).double()
    for words, whole in sets.items():
        noise, apart = 0.0, dict[str, dict[str, float]]()
        for places in slices(len(whole), together):
            part = all_observed(whole.select(places))
            unit = scaling.target_scale(part)
            expected = _in_units(free_run(trained.model, part, steps, scaling=scaling), unit)
            closer = _in_units(free_run(precise, part, steps, scaling=scaling), unit)
            noise = _larger(noise, *(_apart(closer[what], expected[what]) for what in expected))
            del closer
            given = {SOURCE: part.source.astype(np.float64), LENGTHS: part.source_lengths}
            for name in ("free_running", "encoder and step"):
                found = (
                    _run(free, given)
                    if name == "free_running"
                    else step_by_step(*parts, given, steps, graphs.state)
                )
                found[FORECAST] = found[FORECAST] / unit
                of_graph = apart.setdefault(name, {})
                for what, array in expected.items():
                    of_graph[what] = _larger(of_graph.get(what, 0.0), _apart(found[what], array))
                del found
        rows += [Row(name, words, differences, noise) for name, differences in apart.items()]
    return rows


def _sets(
    trained: LoadedModel, many: int, test: Sequences | None, longest: int | None
) -> dict[str, Sequences]:
    """Sources of every length that the model takes, by what they are.

    Args:
        many: sequences of the largest sets.
        test, longest: see `check`.
    """
    sets, S = dict[str, Sequences](), trained.spec.source_length
    if test is not None and len(test):
        part = test.select(slice(0, many))
        sets[f"{len(part)} test sequences"] = part
    if trained.model.skip is not None:
        sets[f"{many} random of {S} points"] = _random(trained, many, S)
        return sets
    limit = S + LONGER if longest is None else min(S + LONGER, longest)
    sets["1 random point"] = _random(trained, 1, 1)
    sets[f"{SHORT} random, up to {limit} points"] = _random(trained, SHORT, limit)
    sets[f"{many} random, up to {S} points"] = _random(trained, many, S)
    return sets


def sequences_together(trained: LoadedModel, S: int, T: int) -> int:
    """How many sequences are looked at together, so that their weights take bounded memory."""
    return max(
        1, MOST_WEIGHTS // max(1, attention_weights_per_sequence(trained.config.model, S, T))
    )


def _larger(*numbers: float) -> float:
    return float(np.max(numbers))  # NaN stays NaN


def step_by_step(
    encoder: onnxruntime.InferenceSession,
    step: onnxruntime.InferenceSession,
    given: Mapping[str, NDArray[Any]],
    steps: int,
    state: Sequence[str],
) -> Arrays:
    """Free running with the encoder and one step after the other: what `free_running` gives."""
    known = _run(encoder, given)
    wanted = [argument.name for argument in step.get_inputs()]
    said, maps = list[NDArray[Any]](), dict[str, list[NDArray[Any]]]()
    for t in range(steps):
        made = _run(step, {name: known[name] for name in wanted})
        known |= {name: made[NEXT + name] for name in (POINT, *state)}
        said.append(made[NEXT + POINT])
        for name in set(made) & set(WEIGHTS.values()):
            row = made[name]
            if name == "decoder_self":
                row = np.pad(row, [(0, 0)] * 3 + [(0, steps - 1 - t)])
            maps.setdefault(name, []).append(row)
    found = {name: np.stack(rows, axis=-2) for name, rows in maps.items()}
    if "encoder_self" in known:
        found["encoder_self"] = known["encoder_self"]
    return {FORECAST: np.stack(said, axis=1), **found}


def forecasts(graph: ModelProto, part: Sequences, together: int) -> NDArray[np.float64]:
    """What a graph of free running says (N, T, F) of a part's sources.

    Args:
        together: sequences that it is given at a time, since it works out all their weights.
    """
    session, said = session_of(graph), list[NDArray[np.float64]]()
    for places in slices(len(part), together):
        some = part.select(places)
        given = {SOURCE: some.source.astype(np.float64), LENGTHS: some.source_lengths}
        (forecast,) = session.run([FORECAST], given)
        said.append(forecast)
    return np.concatenate(said)


def session_of(graph: ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime, on the CPU and silent."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _run(session: onnxruntime.InferenceSession, given: Mapping[str, NDArray[Any]]) -> Arrays:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(given)), strict=True))


def _maps(run: FreeRunningForecast) -> Arrays:
    return {WEIGHTS[kind]: weights for kind, weights in run.maps.items()}


def all_observed(part: Sequences) -> Sequences:
    """A part as the graphs see it, which are not told what cells of a source were filled."""
    return replace(part, source_observed=None)


def _in_units(run: FreeRunningForecast, unit: NDArray[np.float64]) -> Arrays:
    """Forecast, as wide as in the model's units, and weights.

    Args:
        unit: (N, 1, F) what 1 in the model's units is.
    """
    return {FORECAST: run.values / unit, **_maps(run)}


def _apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(one - other).max())


def _random(trained: LoadedModel, n: int, longest: int) -> Sequences:
    """Sources of normal numbers in the model's units, of every length that it takes; where each
    has a level or a size of its own, those are anywhere."""
    spec, numbers = trained.spec, np.random.default_rng(SEED)
    lengths = np.arange(n, dtype=np.int64)[::-1] % longest + 1
    lengths[0] = longest
    if trained.model.skip is not None:
        lengths[:] = longest
    scaler, F = spec.scaling.source, len(spec.source_features)
    points = scaler.inverse_transform(numbers.standard_normal((n, longest, F)))
    if spec.scaling.relative:
        points[np.arange(n), lengths - 1] = 0
    if spec.scaling.instance:
        points *= np.exp(numbers.standard_normal((n, 1, F)))
    if spec.scaling.relative or spec.scaling.instance:
        points += numbers.standard_normal((n, 1, F)) * LEVELS * scaler.scale
    points[np.arange(longest) >= lengths[:, None]] = 0
    return Sequences(
        points, lengths, np.zeros((n, 0, len(spec.target_features))), np.zeros(n, dtype=np.int64),
        spec.source_features, tuple(map(str, range(n))), target_features=spec.target_features,
    )  # fmt: skip


def example(trained: LoadedModel, steps: int, test: Sequences | None) -> Arrays:
    """Some sources, NaN behind their end, with the model's forecast and weights."""
    few = slice(0, 4)
    part = _random(trained, 4, trained.spec.source_length) if test is None else test.select(few)
    part = all_observed(part)
    right = free_run(trained.model, part, steps, scaling=trained.spec.scaling)
    source = np.where(part.source_keep[:, :, None], part.source, np.nan)
    return {SOURCE: source, FORECAST: right.values, **_maps(right)}
