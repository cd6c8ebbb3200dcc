"""The live graph of a run: one ONNX graph that a report page evaluates in the browser.

Parameters are inputs, so one graph serves all seeds of a config and all recorded epochs of a run.
Attention weights can be forced, that is, replaced by given weights, except in a model with fast
weights. Intermediate results are outputs; see `seqattn.export.live_parts`.

In shapes, N is the number of sequences, S the source length, T the number of steps, F the number of
source features, G the number of target features, V the size of the target vocabulary, A the number
of heads, and P the number of parameters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxscript import optimizer
from torch import Tensor

from seqattn.errors import UsageError
from seqattn.export.graphs import FORCE, GIVEN
from seqattn.export.live_parts import live_parts
from seqattn.export.loop import build_loop
from seqattn.export.onnx import TracedParts, example_length, name_outputs, trace_parts
from seqattn.training import LoadedModel

PARAMETERS = "parameters"
PARAMETER = "model."
"""Prefix of the parameters' names in graphs."""
GRAPH_ERRORS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError)
"""Errors of torch, onnx and onnxscript about graphs. Many of them are RuntimeErrors."""


@dataclass(frozen=True)
class LiveGraph:
    """A live graph and the order of its parameters.

    Attributes:
        graph: source (N, S, F), source_lengths (N,), parameters (P,), steps () and force (T, N,
            layers, A, S) -> forecast (N, T, G), weights (N, layers, A, T, S), the other weights of
            a Transformer, and intermediate results. Results of steps have an axis of size T before
            the last axis. The graph of a model without attention has no input `force` and no output
            `weights`. The graph of a model with fast weights has no input `force`.
            Source and forecast are float64 vectors in the units of the data, or int64 symbols,
            (N, S, 1) and (N, T, 1). A graph whose forecast is made of symbols has two more values.
            The input `given` (T, N, 1), int64, is the symbol that a step writes, and that the next
            step reads, instead of the most probable one; -1 keeps the model's own. The output
            `logits` (N, T, V) is what the model computes. The graph runs all steps: those after
            the end of a sequence are computed, but mean nothing.
        shapes: name -> shape of each parameter, in the order of the flat vector.
    """

    graph: ModelProto
    shapes: dict[str, tuple[int, ...]]


def flatten_parameters(values: Mapping[str, Tensor], shapes: Mapping[str, object]) -> Tensor:
    """Return the flat vector (P,) of named parameters, in the order of `shapes`."""
    return torch.cat([values[name].detach().float().reshape(-1) for name in shapes])


def trace_live(trained: LoadedModel) -> LiveGraph:
    """Trace the live graph of a trained model.

    Args:
        trained: the model.

    Raises:
        UsageError: if the model comes from a plugin, if torch cannot export it, or if onnx cannot
            build its graph.
    """
    model = copy.deepcopy(trained.model)
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    shape = attention_shape(trained)
    can_force = shape != (0, 0) and trained.config.model.kind != "fast_weights"
    has_given = trained.spec.target.vocabulary_size > 0
    per_step = [FORCE] * can_force + [GIVEN] * has_given
    try:
        parts = live_parts(model, example_length(model) + 1)
        traced = trace_parts(
            trained, model, parts, force_shape=shape if can_force else None, has_given=has_given,
            optimize=False,
        )  # fmt: skip
        return LiveGraph(_join_parts(traced, shapes, per_step), shapes)
    except GRAPH_ERRORS as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"torch {torch.__version__} and onnx {onnx.__version__} cannot build the graph of"
            f" model.kind {trained.config.model.kind}: {reason}"
        ) from error


def _join_parts(
    traced: TracedParts, shapes: Mapping[str, tuple[int, ...]], per_step: Sequence[str]
) -> ModelProto:
    """Join the encoder and the step into a graph with one flat input for all parameters."""
    padded = _parameters_to_inputs(traced.encoder, shapes)
    padded |= _parameters_to_inputs(traced.step, shapes)
    graph = build_loop(traced.encoder, traced.step, traced.state, None, per_step)
    _add_flat_parameters(graph, shapes, padded)
    names = [value.name for value in graph.graph.output]
    graph = optimizer.optimize(graph)
    name_outputs(graph, names)
    onnx.checker.check_model(graph)
    return graph


def attention_shape(trained: LoadedModel) -> tuple[int, int]:
    """Return the numbers of cross-attention layers and heads; (0, 0) if there are none."""
    model: Any = trained.config.model
    match model.kind:
        case "transformer":
            return model.layers, model.heads
        case "fast_weights":
            return 1, 1
        case "recurrent":
            return (0, 0) if model.attention is None else (1, model.attention.heads)
        case _:
            return 0, 0


def _parameters_to_inputs(
    model: ModelProto, parameters: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """Turn initializers that are parameters into inputs, and return the shapes of these inputs.
    Buffers, such as the symbols that a model copies, are constants of the graph."""
    shapes = dict[str, tuple[int, ...]]()
    for tensor in list(model.graph.initializer):
        if tensor.name.startswith(PARAMETER) and tensor.name[len(PARAMETER) :] in parameters:
            shapes[tensor.name] = tuple(tensor.dims)
            value = helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims)
            model.graph.input.append(value)
            model.graph.initializer.remove(tensor)
    return shapes


def _add_flat_parameters(
    model: ModelProto,
    shapes: Mapping[str, tuple[int, ...]],
    padded: Mapping[str, tuple[int, ...]],
) -> None:
    """Replace the inputs of single parameters with slices of one flat input.

    Args:
        shapes: name -> shape of each parameter, in the order of the flat vector.
        padded: name, with the prefix `PARAMETER`, -> shape of each parameter in the graph. In the
            graph, learned positional embeddings may have additional rows of NaN.
    """
    graph = model.graph
    kept = [value for value in graph.input if not value.name.startswith(PARAMETER)]
    del graph.input[:]
    total = sum(math.prod(shape) for shape in shapes.values())
    flat = helper.make_tensor_value_info(PARAMETERS, TensorProto.FLOAT, [total])
    graph.input.extend([*kept, flat])
    nodes, start = list[NodeProto](), 0

    def constant(name: str, values: Sequence[int]) -> str:
        tensor = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        graph.initializer.append(tensor)
        return name

    for name, shape in shapes.items():
        key, end = PARAMETER + name, start + math.prod(shape)
        first, last = constant(f"{key}/first", [start]), constant(f"{key}/last", [end])
        nodes.append(helper.make_node("Slice", [PARAMETERS, first, last], [f"{key}/flat"]))
        start, missing = end, padded.get(key, shape)[0] - shape[0]
        reshaped = f"{key}/short" if missing else key
        size = constant(f"{key}/shape", shape)
        nodes.append(helper.make_node("Reshape", [f"{key}/flat", size], [reshaped]))
        if missing:
            rows = np.full((missing, *shape[1:]), np.nan, np.float32)
            graph.initializer.append(numpy_helper.from_array(rows, f"{key}/missing"))
            concatenated = [reshaped, f"{key}/missing"]
            nodes.append(helper.make_node("Concat", concatenated, [key], axis=0))
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])


__all__ = ["LiveGraph", "attention_shape", "flatten_parameters", "trace_live"]
