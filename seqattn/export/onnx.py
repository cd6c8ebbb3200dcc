"""The two parts of a model as ONNX, by torch's own exporter, and free running as a loop of them.

Tracing all steps of free running would take minutes and a graph as long as the forecast; here one
step is traced, and a Loop of ONNX repeats it.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator
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
    Named,
    StepGraph,
    parts_of,
)
from seqattn.export.skip import SkippedParts
from seqattn.training import LoadedModel

LENGTHS = "source_lengths"
SOURCE = "source"
FORECAST = "forecast"
N, S, T_SO_FAR = 3, 5, 7  # of the examples that are traced; no two alike, none of them special
STEP = "step/"
KNOWN = "torch 2.13"


@dataclass(frozen=True)
class Graphs:
    """A model as graphs.

    Attributes:
        encoder, step, free_running: see `seqattn export --help`.
        memory, state: names of what goes from the encoder to every step, and of what goes from
            step to step.
    """

    encoder: ModelProto
    step: ModelProto
    free_running: ModelProto
    memory: tuple[str, ...]
    state: tuple[str, ...]

    def by_name(self) -> dict[str, ModelProto]:
        return {"encoder": self.encoder, "step": self.step, "free_running": self.free_running}


def graphs_of(trained: LoadedModel, steps: int) -> Graphs:
    """The graphs of a trained model.

    Args:
        steps: of free running.

    Raises:
        UsageError: torch's exporter refuses the model.
    """
    model, scaling = copy.deepcopy(trained.model).eval(), trained.spec.scaling
    points = S if model.skip is None else model.skip.lengths.source
    parts = parts_of(model, max(points, T_SO_FAR) + 1)
    if model.skip is not None:
        parts = SkippedParts(parts, model.skip)
    reading = EncoderGraph(model, parts, scaling).eval()
    saying = StepGraph(model, parts, scaling).eval()
    features, kind = len(trained.spec.source_features), trained.config.model.kind
    with torch.no_grad():
        given = _example(features, N, points)
        begun = reading(given)
        may_vary = model.skip is None
        axes = _axes(reading, features, points, may_vary)
        of_source = {0: "N", 1: "S"} if may_vary else {0: "N"}
        encoder = _traced(kind, reading, given, begun, {SOURCE: of_source, LENGTHS: {0: "N"}})
        begun = {name: rows for name, rows in begun.items() if name in axes}
        growing = reading.parts.growing
        for name in growing:
            begun[name] = torch.zeros(_longer(begun[name].shape, T_SO_FAR))
            axes[name] |= {begun[name].dim() - 2: "t"}
        made = saying(begun)
        step = _traced(kind, saying, begun, made, axes)
    state = tuple(name for name in begun if NEXT + name in made and name != POINT)
    memory = tuple(name for name in begun if name not in (POINT, *state))
    free = _looped(encoder, step, state, steps)
    return Graphs(encoder, step, free, memory, state)


def _example(features: int, n: int, s: int) -> Named:
    lengths = torch.arange(n) % s + 1
    return {SOURCE: torch.zeros(n, s, features, dtype=torch.float64), LENGTHS: lengths}


def _axes(reading: Graph, features: int, s: int, may_vary: bool) -> dict[str, dict[int, str]]:
    """Which axes of what a step takes are N and which are S: those that change with them.

    Args:
        s: points of a source in the example.
        may_vary: whether sources may have another number of points.
    """
    shapes = [
        {name: rows.shape for name, rows in reading(_example(features, n, points)).items()}
        for n, points in ((N, s), (N + 1, s), (N, s + may_vary))
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


def _longer(shape: torch.Size, t: int) -> list[int]:
    *lead, _, width = shape
    return [*lead, t, width]


def _traced(
    kind: str, graph: Graph, inputs: Named, outputs: Named, axes: dict[str, dict[int, str]]
) -> ModelProto:
    with _in_silence():
        try:
            program = torch.onnx.export(
                graph, kwargs={"inputs": inputs}, dynamo=True, verbose=False,
                dynamic_shapes={"inputs": {name: axes[name] for name in inputs}},
                input_names=[*inputs], output_names=[*outputs],
            )  # fmt: skip
        except Exception as error:  # whatever a library of this size raises
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            raise UsageError(
                f"torch {torch.__version__} cannot export model.kind {kind}: {reason}\n"
                f"{KNOWN} can; an older one may not."
            ) from error
    assert program is not None
    model = program.model_proto
    _forget(model)
    return model


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """The exporter prints its progress, and warns of libraries that nobody needs here."""
    chatty = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in chatty]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in chatty:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(chatty, before, strict=True):
                logger.setLevel(level)


def _forget(model: ModelProto) -> None:
    """Leave out where in whose files each operation was found, and shapes of what is in between,
    which whoever changes a graph would have to change, too."""
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


def _looped(
    encoder: ModelProto, step: ModelProto, state: tuple[str, ...], steps: int
) -> ModelProto:
    """The encoder, and a Loop of the step: source and its lengths -> the forecast, and the weights
    of all steps, (N, layers, A, queries, keys)."""
    inner = compose.add_prefix(step, STEP, rename_inputs=False, rename_outputs=False).graph
    carried = [POINT, *state]
    known = {value.name: value for value in (*inner.input, *inner.output)}
    maps = [value.name for value in inner.output if not value.name.startswith(NEXT)]
    body = _loop_body(inner, carried, maps, steps)
    whole = ModelProto()
    whole.CopyFrom(encoder)
    graph = whole.graph
    graph.name = "free_running"
    graph.initializer.extend(
        [helper.make_tensor("steps", TensorProto.INT64, [], [steps]),
         helper.make_tensor("go", TensorProto.BOOL, [], [True])]
    )  # fmt: skip
    stacked = [f"all/{name}" for name in (FORECAST, *maps)]
    results = [*(f"last/{name}" for name in carried), *stacked]
    graph.node.append(helper.make_node("Loop", ["steps", "go", *carried], results, body=body))
    graph.node.append(helper.make_node("Transpose", [stacked[0]], [FORECAST], perm=[1, 0, 2]))
    for name, rows in zip(maps, stacked[1:], strict=True):
        graph.node.append(helper.make_node("Transpose", [rows], [name], perm=[1, 2, 3, 0, 4]))
    own = [value for value in graph.output if value.name == "encoder_self"]
    del graph.output[:]
    F = known[POINT].type.tensor_type.shape.dim[1].dim_value
    shape = ["N", steps, F]
    graph.output.append(helper.make_tensor_value_info(FORECAST, TensorProto.DOUBLE, shape))
    graph.output.extend([*(_of_all_steps(known[name], steps) for name in maps), *own])
    onnx.checker.check_model(whole)
    return whole


def _loop_body(inner: GraphProto, carried: list[str], maps: list[str], steps: int) -> GraphProto:
    """A step as the body of a Loop, which keeps the point and the weights of each step.

    Args:
        inner: the step, which is changed.
        carried: names of what goes from step to step.
        maps: names of the weights.
    """
    for node in _nodes(inner.node):
        node.input[:] = [STEP + name if name in carried else name for name in node.input]
    known = {value.name: value for value in (*inner.input, *inner.output)}
    nodes = [*inner.node, helper.make_node("Identity", [NEXT + POINT], [STEP + FORECAST])]
    for name in maps:
        if name == "decoder_self":  # so far; 0 ahead
            nodes += _padded(name, STEP + name, steps)
        else:
            nodes.append(helper.make_node("Identity", [name], [STEP + name]))
    nodes.append(helper.make_node("Identity", ["more"], ["still_more"]))
    inputs = [helper.make_tensor_value_info("made", TensorProto.INT64, []),
              helper.make_tensor_value_info("more", TensorProto.BOOL, []),
              *(_called(known[name], STEP + name) for name in carried)]  # fmt: skip
    outputs = [helper.make_tensor_value_info("still_more", TensorProto.BOOL, []),
               *(_called(known[NEXT + name], NEXT + name) for name in carried),
               _called(known[NEXT + POINT], STEP + FORECAST),
               *(_bare(known[name], STEP + name) for name in maps)]  # fmt: skip
    return helper.make_graph(nodes, "step", inputs, outputs, initializer=inner.initializer)


def _of_all_steps(value: ValueInfoProto, steps: int) -> ValueInfoProto:
    """The type of the weights of all steps, from that of one step's (N, layers, A, keys)."""
    _, layers, heads, keys = (size.dim_value for size in value.type.tensor_type.shape.dim)
    keys_of_all = steps if value.name == "decoder_self" else keys or "S"
    shape = ["N", layers, heads, steps, keys_of_all]
    return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape)


def _padded(name: str, row: str, steps: int) -> list[NodeProto]:
    """Nodes that fill a row (N, layers, A, t) with zeros up to `steps`."""

    def constant(what: str, values: list[int]) -> NodeProto:
        return helper.make_node("Constant", [], [f"{row}/{what}"], value_ints=values)

    return [
        constant("all", [steps - 1]), constant("none", [0] * 7), constant("at", [0]),
        helper.make_node("Unsqueeze", ["made", f"{row}/at"], [f"{row}/made"]),
        helper.make_node("Sub", [f"{row}/all", f"{row}/made"], [f"{row}/ahead"]),
        helper.make_node("Concat", [f"{row}/none", f"{row}/ahead"], [f"{row}/pads"], axis=0),
        helper.make_node("Pad", [name, f"{row}/pads"], [row]),
    ]  # fmt: skip


def _called(value: ValueInfoProto, name: str) -> ValueInfoProto:
    """The same type under another name; an axis that grows has no size there."""
    found = ValueInfoProto()
    found.CopyFrom(value)
    found.name = name
    for size in found.type.tensor_type.shape.dim:
        if size.dim_param not in ("", "N", "S"):
            size.Clear()
    return found


def _bare(value: ValueInfoProto, name: str) -> ValueInfoProto:
    """The same type under another name, of any shape."""
    found = _called(value, name)
    found.type.tensor_type.ClearField("shape")
    return found
