"""ONNX graphs of the encoder, of one decoder step, and of free running.

torch's exporter traces the encoder and one step, and an ONNX Loop repeats the step for free
running. A trace of all steps would take minutes, and the graph would grow with the length of the
forecast.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, compose, helper

from seqattn.errors import UsageError
from seqattn.export.graphs import (
    NEXT,
    POINT,
    EncoderGraph,
    Graph,
    StepGraph,
    Tensors,
    split_model,
)
from seqattn.export.skip import SkipParts
from seqattn.training import LoadedModel

LENGTHS = "source_lengths"
SOURCE = "source"
FORECAST = "forecast"
N, S, PREVIOUS_STEPS = 3, 5, 7  # sizes of traced examples, all different and above 1
STEP = "step/"
STEPS, STEP_AXIS = "steps", "T"
TESTED_TORCH = "torch 2.13"


@dataclass(frozen=True)
class Graphs:
    """The ONNX graphs of a model.

    Attributes:
        encoder, step, free_running: see `seqattn.export`.
        memory: names of the encoder outputs that are inputs of every step.
        state: names of the tensors that each step passes to the next step.
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

    Args:
        trained: the model.
        steps: number of free-running steps.

    Raises:
        UsageError: if torch cannot export the model.
    """
    model, scaling = copy.deepcopy(trained.model).eval(), trained.spec.scaling
    length = S if model.skip is None else model.skip.lengths.source
    parts = split_model(model, max(length, PREVIOUS_STEPS) + 1)
    if model.skip is not None:
        parts = SkipParts(parts, model.skip)
    encoder_graph = EncoderGraph(model, parts, scaling).eval()
    step_graph = StepGraph(model, parts, scaling).eval()
    features, kind = len(trained.spec.source_features), trained.config.model.kind
    with torch.no_grad():
        example = build_inputs(features, N, length)
        encoded = encoder_graph(example)
        length_varies = model.skip is None
        axes = find_axes(encoder_graph, features, length, length_varies)
        source_axes = {0: "N", 1: "S"} if length_varies else {0: "N"}
        encoder_axes = {SOURCE: source_axes, LENGTHS: {0: "N"}}
        encoder = trace(kind, encoder_graph, example, encoded, encoder_axes)
        inputs = {name: rows for name, rows in encoded.items() if name in axes}
        for name in encoder_graph.parts.growing:
            inputs[name] = torch.zeros(lengthen(inputs[name].shape, PREVIOUS_STEPS))
            axes[name] |= {inputs[name].dim() - 2: "t"}
        outputs = step_graph(inputs)
        step = trace(kind, step_graph, inputs, outputs, axes)
    state = tuple(name for name in inputs if NEXT + name in outputs and name != POINT)
    memory = tuple(name for name in inputs if name not in (POINT, *state))
    free_running = build_loop(encoder, step, state, steps)
    onnx.checker.check_model(free_running)
    return Graphs(encoder, step, free_running, memory, state)


def build_inputs(features: int, n: int, s: int) -> Tensors:
    lengths = torch.arange(n) % s + 1
    return {SOURCE: torch.zeros(n, s, features, dtype=torch.float64), LENGTHS: lengths}


def find_axes(
    encoder: Graph, features: int, s: int, length_varies: bool
) -> dict[str, dict[int, str]]:
    """Find the axes N and S of each step input, which are the axes whose size changes with N or S.

    Args:
        encoder: the encoder graph.
        features: number of source features.
        s: source length of the example.
        length_varies: whether sources may have other lengths.
    """
    shapes = [
        {name: rows.shape for name, rows in encoder(build_inputs(features, n, length)).items()}
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
        if name != "encoder_self"
    }


def lengthen(shape: torch.Size, t: int) -> list[int]:
    *lead, _, width = shape
    return [*lead, t, width]


def trace(
    kind: str, graph: Graph, inputs: Tensors, outputs: Tensors, axes: dict[str, dict[int, str]],
    *, optimize: bool = True,
) -> ModelProto:  # fmt: skip
    """Trace a graph by torch's exporter.

    Args:
        kind: `model.kind`, for messages.
        axes: input -> its axes whose size varies, by letter.
        optimize: fold constants. Without it, every parameter is an initializer of its name.

    Raises:
        UsageError: torch cannot export the graph.
    """
    with _silence_exporter():
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
                f"torch {torch.__version__} cannot export model.kind {kind}: {reason}\n"
                f"{TESTED_TORCH} can export it; install that version or a newer one."
            ) from error
    assert program is not None
    model = program.model_proto
    _strip_metadata(model)
    name_outputs(model, list(outputs))
    return model


def name_outputs(model: ModelProto, names: Sequence[str]) -> None:
    """Give the outputs of a graph these names, in order: exporter and optimizer rename outputs that
    are equal, such as keys and values that both are the encoder's states."""
    graph = model.graph
    found = [value.name for value in graph.output]
    if found == list(names):
        return
    renamed = {name: f"result/{name}" for name in found}
    for node in _nodes(graph.node):
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value, name in zip(graph.output, names, strict=True):
        graph.node.append(helper.make_node("Identity", [renamed[value.name]], [name]))
        value.name = name


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    """Suppress the exporter's progress output and its warnings about optional libraries."""
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
    """Remove the source locations of operations, and the shapes of intermediate values. The shapes
    would have to be updated when a graph is changed."""
    for node in _nodes(model.graph.node):
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


def _nodes(nodes: Any) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node)


# --- free running ---------------------------------------------------------------------------------


def build_loop(
    encoder: ModelProto,
    step: ModelProto,
    state: tuple[str, ...],
    steps: int | None,
    per_step: Sequence[str] = (),
) -> ModelProto:
    """Build the free-running graph: the encoder, followed by a Loop over the step.

    The inputs are source and lengths. The outputs are the forecast, the weights and the other
    results of all steps, with an axis of steps before the last: (N, layers, A, queries, keys).

    Args:
        encoder, step: the graphs. Inputs of the step that are neither its state nor outputs of the
            encoder become inputs of the result.
        state: names of tensors that each step passes to the next.
        steps: the number of steps; None for an input `steps` of the result.
        per_step: names of inputs of the step that the result takes for all steps at once, with a
            first axis of steps.
    """
    inner = compose.add_prefix(step, STEP, rename_inputs=False, rename_outputs=False).graph
    carried = [POINT, *state]
    known = {value.name: value for value in (*inner.input, *inner.output)}
    results = [value.name for value in inner.output if not value.name.startswith(NEXT)]
    body = _loop_body(inner, carried, results, per_step)
    model = ModelProto()
    model.CopyFrom(encoder)
    graph = model.graph
    graph.name = "free_running"
    graph.initializer.append(helper.make_tensor("go", TensorProto.BOOL, [], [True]))
    if steps is not None:
        graph.initializer.append(helper.make_tensor(STEPS, TensorProto.INT64, [], [steps]))
    else:
        graph.input.append(helper.make_tensor_value_info(STEPS, TensorProto.INT64, []))
    T = STEP_AXIS if steps is None else steps
    for name in per_step:
        _, *shape = _sizes(known[name])
        of_all = [T, "N", *shape]
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, of_all))
    stacked = [f"all/{name}" for name in (FORECAST, *results)]
    last = [f"last/{name}" for name in carried]
    loop_inputs = [STEPS, "go", *carried]
    graph.node.append(helper.make_node("Loop", loop_inputs, [*last, *stacked], body=body))
    ranks = [2, *(len(_sizes(known[name])) for name in results)]
    for name, rows, rank in zip((FORECAST, *results), stacked, ranks, strict=True):
        order = [*range(1, rank), 0, rank]
        graph.node.append(helper.make_node("Transpose", [rows], [name], perm=order))
    of_encoder = [value for value in graph.output if value.name not in known]
    del graph.output[:]
    *_, G = _sizes(known[POINT])
    graph.output.append(helper.make_tensor_value_info(FORECAST, TensorProto.DOUBLE, ["N", T, G]))
    graph.output.extend([*(_stacked_type(known[name], T) for name in results), *of_encoder])
    return model


def _loop_body(
    inner: GraphProto, carried: list[str], results: list[str], per_step: Sequence[str]
) -> GraphProto:
    """Build the body of the Loop from the step. The body stacks the outputs and the results of all
    steps.

    Args:
        inner: the step's graph, which is modified in place.
        carried: names of the loop-carried values.
        results: names of the weights and of the other results.
        per_step: see `build_loop`.
    """
    for node in _nodes(inner.node):
        node.input[:] = [
            STEP + name if name in carried or name in per_step else name for name in node.input
        ]
    known = {value.name: value for value in (*inner.input, *inner.output)}
    nodes = [helper.make_node("Gather", [name, "made"], [STEP + name], axis=0) for name in per_step]
    nodes += [*inner.node, helper.make_node("Identity", [NEXT + POINT], [STEP + FORECAST])]
    for name in results:
        if name == "decoder_self":  # weights of previous steps, padded with 0 for later ones
            nodes += _pad_nodes(name, STEP + name)
        else:
            nodes.append(helper.make_node("Identity", [name], [STEP + name]))
    nodes.append(helper.make_node("Identity", ["more"], ["still_more"]))
    inputs = [helper.make_tensor_value_info("made", TensorProto.INT64, []),
              helper.make_tensor_value_info("more", TensorProto.BOOL, []),
              *(_rename_value(known[name], STEP + name) for name in carried)]  # fmt: skip
    outputs = [helper.make_tensor_value_info("still_more", TensorProto.BOOL, []),
               *(_rename_value(known[NEXT + name], NEXT + name) for name in carried),
               _rename_value(known[NEXT + POINT], STEP + FORECAST),
               *(_rename_without_shape(known[name], STEP + name) for name in results)]  # fmt: skip
    return helper.make_graph(nodes, "step", inputs, outputs, initializer=inner.initializer)


def _sizes(value: ValueInfoProto) -> list[int | str]:
    """Return the size of each axis of a value: a number, or a letter."""
    return [size.dim_value or size.dim_param for size in value.type.tensor_type.shape.dim]


def _stacked_type(value: ValueInfoProto, T: int | str) -> ValueInfoProto:
    """Return the type of the results of all steps, given the type for one step, for example
    (N, layers, A, keys)."""
    *lead, last = _sizes(value)
    shape = [*lead, T, T if value.name == "decoder_self" else last]
    shape[0] = "N"
    return helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape)


def _pad_nodes(name: str, row: str) -> list[NodeProto]:
    """Build nodes that pad a row (N, layers, A, t) with zeros up to the number of steps."""

    def constant(suffix: str, values: list[int]) -> NodeProto:
        return helper.make_node("Constant", [], [f"{row}/{suffix}"], value_ints=values)

    return [
        constant("one", [1]), constant("none", [0] * 7), constant("at", [0]),
        helper.make_node("Unsqueeze", [STEPS, f"{row}/at"], [f"{row}/steps"]),
        helper.make_node("Unsqueeze", ["made", f"{row}/at"], [f"{row}/made"]),
        helper.make_node("Sub", [f"{row}/steps", f"{row}/made"], [f"{row}/left"]),
        helper.make_node("Sub", [f"{row}/left", f"{row}/one"], [f"{row}/ahead"]),
        helper.make_node("Concat", [f"{row}/none", f"{row}/ahead"], [f"{row}/pads"], axis=0),
        helper.make_node("Pad", [name, f"{row}/pads"], [row]),
    ]  # fmt: skip


def _rename_value(value: ValueInfoProto, name: str) -> ValueInfoProto:
    """Copy a value under another name, without the sizes of axes that grow from step to step."""
    renamed = ValueInfoProto()
    renamed.CopyFrom(value)
    renamed.name = name
    for size in renamed.type.tensor_type.shape.dim:
        if size.dim_param not in ("", "N", "S"):
            size.Clear()
    return renamed


def _rename_without_shape(value: ValueInfoProto, name: str) -> ValueInfoProto:
    """Copy a value under another name and without a shape."""
    renamed = _rename_value(value, name)
    renamed.type.tensor_type.ClearField("shape")
    return renamed
