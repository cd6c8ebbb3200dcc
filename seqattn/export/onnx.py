"""ONNX graphs of the encoder, of one decoder step, and of a free-running forecast.

The torch exporter traces the encoder and one decoder step. In the free-running graph, an ONNX
`Loop` repeats the decoder step. A trace of all steps would take minutes, and its graph would grow
with the length of the forecast.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
import torch
from onnx import ModelProto, helper

from seqattn.errors import UsageError
from seqattn.export.graphs import (
    FORCE,
    GIVEN,
    LENGTHS,
    NEXT,
    OBSERVED,
    POINT,
    SOURCE,
    TRACE,
    EncoderGraph,
    Graph,
    Parts,
    StepGraph,
    split_model,
)
from seqattn.export.loop import build_loop, graph_nodes
from seqattn.export.skip import SkipParts
from seqattn.export.units import Tensors, is_instance
from seqattn.models import Seq2SeqModel
from seqattn.training import LoadedModel

N, S, PREVIOUS_STEPS = 3, 5, 7  # sizes of the traced examples: all are different and above 1
TESTED_TORCH = (2, 13)
"""The version of torch that the tests use."""


@dataclass(frozen=True)
class Graphs:
    """The ONNX graphs of a model.

    Attributes:
        encoder: the graph of the encoder.
        step: the graph of one decoder step.
        free_running: the graph of a free-running forecast.
        memory: the names of the encoder outputs that are inputs of every step.
        state: the names of the tensors that each step passes to the next step.
    """

    encoder: ModelProto
    step: ModelProto
    free_running: ModelProto
    memory: tuple[str, ...]
    state: tuple[str, ...]

    def by_name(self) -> dict[str, ModelProto]:
        return {"encoder": self.encoder, "step": self.step, "free_running": self.free_running}


def trace_graphs(trained: LoadedModel, steps: int) -> Graphs:
    """Trace the graphs of a trained model.

    If the forecast depends on which source cells were filled, the encoder and the free-running
    graph have an input `source_observed`: with `data.normalize: instance`, mean and standard
    deviation of a source leave out the cells that `data.missing: interpolate` filled.

    Args:
        trained: the model.
        steps: the number of free-running steps.

    Raises:
        UsageError: if the model comes from a plugin, or if torch cannot export it.
    """
    model = copy.deepcopy(trained.model)
    traced = trace_parts(
        trained, model, split_model(model, example_length(model) + 1),
        has_mask=is_instance(trained.spec.source) and trained.fills_missing,
    )  # fmt: skip
    free_running = build_loop(traced.encoder, traced.step, traced.state, steps)
    onnx.checker.check_model(free_running)
    return Graphs(traced.encoder, traced.step, free_running, traced.memory, traced.state)


@dataclass(frozen=True)
class TracedParts:
    """The graphs of the encoder and of one decoder step. The class `Graphs` describes the
    attributes."""

    encoder: ModelProto
    step: ModelProto
    memory: tuple[str, ...]
    state: tuple[str, ...]


def example_length(model: Seq2SeqModel) -> int:
    """Return the length of the longest example with which the graphs are traced."""
    return max(_source_length(model), PREVIOUS_STEPS)


def _source_length(model: Seq2SeqModel) -> int:
    return S if model.skip is None else model.skip.lengths.source


def trace_parts(
    trained: LoadedModel, model: Seq2SeqModel, parts: Parts, *,
    force_shape: tuple[int, int] | None = None, has_given: bool = False, optimize: bool = True,
    has_mask: bool = False,
) -> TracedParts:  # fmt: skip
    """Trace the encoder and one decoder step of a model.

    Args:
        trained: the trained model.
        model: a copy of `trained.model`. The tracing changes this copy.
        parts: the parts of the copy, without the linear skip connection.
        force_shape: the number of layers and the number of heads of the input `force` of the step;
            None if the step has no such input.
        has_given: whether the step has an input `given`.
        optimize: whether the exporter folds constants; see `trace`.
        has_mask: whether the encoder has an input `source_observed`.

    Raises:
        UsageError: if torch cannot export the model.
    """
    if model.skip is not None:
        parts = SkipParts(parts, model.skip)
    length, length_varies = _source_length(model), model.skip is None
    encoder_graph = EncoderGraph(model, parts, trained.spec).eval()
    step_graph = StepGraph(model, parts, trained.spec).eval()
    features, kind = len(trained.spec.source_features), trained.config.model.kind
    with torch.no_grad():
        example = _build_inputs(encoder_graph, features, N, length)
        if has_mask:
            example[OBSERVED] = torch.ones(N, length, features, dtype=torch.bool)
        encoded = encoder_graph(example)
        axes = _find_axes(encoder_graph, features, length, length_varies)
        source_axes = {0: "N", 1: "S"} if length_varies else {0: "N"}
        encoder_axes = {SOURCE: source_axes, LENGTHS: {0: "N"}, OBSERVED: source_axes}
        encoder = trace(kind, encoder_graph, example, encoded, encoder_axes, optimize=optimize)
        inputs = {name: rows for name, rows in encoded.items() if name in axes}
        for name in encoder_graph.parts.growing:
            inputs[name] = torch.zeros(_lengthen(inputs[name].shape, PREVIOUS_STEPS))
            axes[name] |= {inputs[name].dim() - 2: "t"}
        if force_shape is not None:
            inputs[FORCE] = torch.full((N, *force_shape, length), torch.nan)
            axes[FORCE] = {0: "N", 3: "S"} if length_varies else {0: "N"}
        if has_given:
            inputs[GIVEN], axes[GIVEN] = torch.full((N, 1), -1), {0: "N"}
        outputs = step_graph(inputs)
        step = trace(kind, step_graph, inputs, outputs, axes, optimize=optimize)
    state = tuple(name for name in inputs if NEXT + name in outputs and name != POINT)
    memory = tuple(name for name in inputs if name not in (POINT, FORCE, GIVEN, *state))
    return TracedParts(encoder, step, memory, state)


def _build_inputs(graph: Graph, features: int, n: int, s: int) -> Tensors:
    lengths = torch.arange(n) % s + 1
    return {SOURCE: torch.zeros(n, s, features, dtype=graph.source.dtype), LENGTHS: lengths}


def _find_axes(
    encoder: Graph, features: int, s: int, length_varies: bool
) -> dict[str, dict[int, str]]:
    """For each step input, find the axes whose size depends on N or S.

    Args:
        encoder: the encoder graph.
        features: the number of source features.
        s: the source length of the example.
        length_varies: whether the model accepts other source lengths.

    Returns:
        For each step input, by name, the letter ("N" or "S") of each of these axes, by axis index.
    """
    shapes = [
        {
            name: rows.shape
            for name, rows in encoder(_build_inputs(encoder, features, n, length)).items()
        }
        for n, length in ((N, s), (N + 1, s), (N, s + length_varies))
    ]
    return {
        name: {
            axis: letter
            for letter, other in (("N", shapes[1]), ("S", shapes[2]))
            for axis, (size, changed) in enumerate(zip(shape, other[name], strict=True))
            if size != changed
        }
        for name, shape in shapes[0].items()
        if name != "encoder_self" and not name.startswith(TRACE)
    }


def _lengthen(shape: torch.Size, t: int) -> list[int]:
    *lead, _, width = shape
    return [*lead, t, width]


def trace(
    kind: str, graph: Graph, inputs: Tensors, outputs: Tensors, axes: dict[str, dict[int, str]],
    *, optimize: bool = True,
) -> ModelProto:  # fmt: skip
    """Trace a graph with the torch exporter.

    Args:
        kind: the config value of `model.kind`, for messages.
        graph: the module to trace.
        inputs: example inputs, by name.
        outputs: the outputs of the module for these inputs, by name.
        axes: for each input, by name, the letters of the axes with a variable size, by axis index.
        optimize: whether the exporter folds constants. If False, every parameter of the module is
            an initializer with the name of the parameter.

    Raises:
        UsageError: if torch cannot export the graph.
    """
    with _silence_exporter():
        # torch.scan compiles its body, and the compiler remembers the sizes of an earlier model's
        # tensors: an axis that varies here would be traced with the fixed size it had there.
        torch.compiler.reset()
        try:
            program = torch.onnx.export(
                graph, kwargs={"inputs": inputs}, dynamo=True, verbose=False, optimize=optimize,
                dynamic_shapes={"inputs": {name: axes[name] for name in inputs}},
                input_names=[*inputs], output_names=[*outputs],
            )  # fmt: skip
        except Exception as error:  # the exporter raises many types of exceptions
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            raise UsageError(
                f"torch {torch.__version__} cannot export model.kind {kind}: {reason}"
                f"{_hint_newer_torch(torch.__version__)}"
            ) from error
    assert program is not None
    model = program.model_proto
    _strip_metadata(model)
    name_outputs(model, list(outputs))
    return model


def _hint_newer_torch(version: str) -> str:
    """Return a line that recommends the tested version of torch or a newer version; "" if `version`
    is new enough."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found >= TESTED_TORCH:
        return ""
    return f"\nInstall torch {'.'.join(map(str, TESTED_TORCH))} or a newer version, and try again."


def name_outputs(model: ModelProto, names: Sequence[str]) -> None:
    """Rename the outputs of a graph.

    The exporter and the optimizer change the names of equal outputs. For example, the keys and the
    values are equal outputs if both are the encoder states.

    Args:
        model: the model that contains the graph.
        names: the new names, in the order of the outputs.
    """
    graph = model.graph
    found = [value.name for value in graph.output]
    if found == list(names):
        return
    renamed = {name: f"result/{name}" for name in found}
    for node in graph_nodes(graph.node):
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value, name in zip(graph.output, names, strict=True):
        graph.node.append(helper.make_node("Identity", [renamed[value.name]], [name]))
        value.name = name


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    """Suppress the progress output and the warnings of the exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _strip_metadata(model: ModelProto) -> None:
    """Remove the source locations of operations, and the shapes of intermediate values.

    If the shapes remained in a graph, every change of the graph would have to update them.
    """
    for node in graph_nodes(model.graph.node):
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                attribute.g.ClearField("value_info")
    model.graph.ClearField("value_info")
    for value in (*model.graph.input, *model.graph.output):
        value.ClearField("metadata_props")
    for tensor in model.graph.initializer:
        tensor.ClearField("metadata_props")
    model.ClearField("metadata_props")
    model.graph.ClearField("metadata_props")
    model.producer_name, model.producer_version = "seqattn", ""
