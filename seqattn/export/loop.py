"""Free running as one ONNX graph: the encoder, followed by a Loop over the step.

In shapes, N is the number of sequences, A the number of heads, and T the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, compose, helper

from seqattn.export.graphs import FORECAST, NEXT, POINT

STEP = "step/"
STEPS, STEP_AXIS = "steps", "T"


def build_loop(
    encoder: ModelProto,
    step: ModelProto,
    state: tuple[str, ...],
    steps: int | None,
    per_step: Sequence[str] = (),
) -> ModelProto:
    """Build the free-running graph: the encoder, followed by a Loop over the step.

    The inputs include those of the encoder. The outputs are the forecast, the weights and the
    other results of all steps, and the encoder outputs that no step reads. The results of steps
    have an axis of steps before the last axis. For example, weights have the shape (N, layers, A,
    T, keys).

    Args:
        encoder, step: the graphs. Each input of the step, except `point`, the state and the inputs
            in `per_step`, refers to the value with the same name in the free-running graph.
        state: names of tensors that each step passes to the next.
        steps: the number of steps. With None, the free-running graph has an input `steps`.
        per_step: names of inputs of the step that the free-running graph takes for all steps at
            once. In the free-running graph, the first axis of these inputs is the axis of steps.
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
        graph.input.append(helper.make_tensor_value_info(name, _element_type(known[name]), of_all))
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
    point_type = _element_type(known[POINT])
    graph.output.append(helper.make_tensor_value_info(FORECAST, point_type, ["N", T, G]))
    graph.output.extend([*(_stacked_type(known[name], T) for name in results), *of_encoder])
    return model


def _loop_body(
    inner: GraphProto, carried: list[str], results: list[str], per_step: Sequence[str]
) -> GraphProto:
    """Build the body of the Loop from the step. The Loop stacks the forecasts and the results of
    all steps.

    Args:
        inner: the step's graph, which is modified in place.
        carried: names of the loop-carried values.
        results: names of the weights and of the other results.
        per_step: see `build_loop`.
    """
    for node in graph_nodes(inner.node):
        node.input[:] = [
            STEP + name if name in carried or name in per_step else name for name in node.input
        ]
    known = {value.name: value for value in (*inner.input, *inner.output)}
    nodes = [helper.make_node("Gather", [name, "made"], [STEP + name], axis=0) for name in per_step]
    nodes += [*inner.node, helper.make_node("Identity", [NEXT + POINT], [STEP + FORECAST])]
    for name in results:
        if name == "decoder_self":  # weights of the steps so far, padded with 0 for later ones
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


def _element_type(value: ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def _stacked_type(value: ValueInfoProto, T: int | str) -> ValueInfoProto:
    """Return the type of a result for all steps, given its type for one step, for example
    (N, layers, A, keys)."""
    *lead, last = _sizes(value)
    shape = [*lead, T, T if value.name == "decoder_self" else last]
    shape[0] = "N"
    return helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape)


def _pad_nodes(name: str, row: str) -> list[NodeProto]:
    """Build nodes that pad a row (N, layers, A, keys) with zeros up to the number of steps."""

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


def graph_nodes(nodes: Any) -> Iterator[NodeProto]:
    """Yield all nodes, including those of subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graph_nodes(attribute.g.node)
