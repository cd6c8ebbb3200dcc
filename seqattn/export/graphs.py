"""A trained model, split into two traceable modules: the encoder and one decoder step.

Inputs and outputs of a graph are named tensors and cannot be None or other objects. The tensors
have no axis of runs, because a graph computes the forecasts of one run at a time. The lengths of
the sources are a required input of the encoder. Sources and points are in the units of the data. A
*point* is one step of the target, a vector or a symbol. The *memory* consists of the encoder
outputs that all steps read. The *state* consists of the tensors that each step passes to the next
step.

In shapes, N is the number of sequences, S the source length, T the target length, F the number of
source features, G the number of target features, V the size of the target vocabulary, H the width
of the state, A the number of heads, and t the number of previous steps. Symbols are int64 numbers
with one feature, so F or G is 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from seqattn.data import DataSpec
from seqattn.errors import UsageError
from seqattn.export.units import Tensors, build_units
from seqattn.models import (
    AttentionKind,
    FastWeightsModel,
    RecurrentModel,
    Seq2SeqModel,
    TransformerModel,
)
from seqattn.models.attention import AttentionMemory, WeightIntervention
from seqattn.models.cells import Cell
from seqattn.models.fast_weights import StateMemory
from seqattn.models.positions import LearnedPositionalEmbedding
from seqattn.models.recurrent import DecoderMemory, DecoderState
from seqattn.models.transformer import KVCache

SOURCE, LENGTHS = "source", "source_lengths"
POINT, NEXT, FORECAST = "point", "next_", "forecast"
OBSERVED = "source_observed"
"""Input (N, S, F) of the encoder: True at observed source cells, False at filled ones."""
FORCE = "force"
"""Input (N, layers, A, S) of a step of the live graph: weights that replace the model's own. NaN
keeps the weight of the model."""
GIVEN = "given"
"""Input (N, 1) of a step of the live graph whose points are symbols: the symbol that the step
writes. -1 keeps the model's own."""
TRACE = "trace/"
"""Prefix of the names of intermediate results."""
WEIGHTS: dict[AttentionKind, str] = {
    "cross": "weights",
    "encoder_self": "encoder_self",
    "decoder_self": "decoder_self",
}
"""Mapping from attention kind to the name of its weights in graphs and in attention.npz."""


@dataclass(frozen=True)
class EncodedSource:
    """The encoder's output.

    Attributes:
        point: the first decoder input (N, G).
        memory, state: see the module's docstring; the first axis of every tensor is N.
        maps: encoder self-attention weights, (N, layers, A, S, S); empty if there are none.
        trace: intermediate results; see `seqattn.export.live_parts`.
    """

    point: Tensor
    memory: Tensors
    state: Tensors
    maps: Tensors
    trace: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class StepOutput:
    """The output of one decoder step.

    Attributes:
        values: what the network computes, the forecast in scaled units (N, G) or logits (N, V).
        state: the new state, with the same names as the previous state.
        maps: weights of this step by name, (N, layers, A, S or t + 1).
        trace: intermediate results; see `seqattn.export.live_parts`.
    """

    values: Tensor
    state: Tensors
    maps: Tensors
    trace: Tensors = field(default_factory=dict)


class Parts(ABC):
    """The encoder and the decoder step of a model, in scaled units or of symbols."""

    growing: frozenset[str] = frozenset()
    """Names of the state tensors that grow with each step. Axis -2 of these tensors has length
    t."""

    @abstractmethod
    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        """Encode sources (N, S, F) with lengths (N,)."""

    @abstractmethod
    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        """Run one decoder step with the input `point` (N, G)."""

    def intervention(self, memory: Tensors) -> WeightIntervention | None:
        """Return the intervention that replaces the weights of a step, or None; see
        `AttentionMemory.intervention`."""
        return None


# --- the families ---------------------------------------------------------------------------------


class RecurrentParts(Parts):
    """The parts of the recurrent encoder-decoder. The encoder cells run in `scan_cell`."""

    def __init__(self, model: RecurrentModel) -> None:
        self.model = model
        for module in model.modules():
            if isinstance(module, Cell):
                module.scan = scan_cell
                if module.num_state_tensors > 1:
                    module.output = partial(_copy_output, module.output)  # type: ignore[method-assign]

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        model = self.model
        encoded = model.encode(source, lengths)
        N, _ = encoded.start_token.shape
        memory, state = Tensors(), Tensors()
        for layer, cell in enumerate(encoded.state.cells):
            state[f"cell_{layer}"] = cell
        if model.uses_input_feeding:
            state["fed"] = encoded.state.cells[0].new_zeros(N, model.hidden)
        if model.attention is not None and (attention := encoded.memory.attention) is not None:
            keys, keep = attention.keys, attention.keep
            assert keep is not None
            memory = {"keys": keys, "values": attention.values, "keep": keep}
            if encoded.memory.symbols is not None:
                memory["symbols"] = encoded.memory.symbols
            *lead, S, _ = keys.shape
            initial = model.attention.initial_weights(keep, keys.new_zeros(*lead, 1, S))
            if initial is not None:
                state["last"] = initial.clone()
        return EncodedSource(encoded.start_token, memory, state, {})

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        cells = tuple(state[f"cell_{layer}"] for layer in range(1 + len(self.model.decoder_above)))
        decoder_state = DecoderState(cells, state.get("fed"), state.get("last"))
        attention_memory = None
        if self.model.attention is not None:
            attention_memory = AttentionMemory(
                memory["keys"], memory["values"], memory["keep"], self.intervention(memory)
            )
        decoder_memory = DecoderMemory(attention_memory, memory.get("symbols"))
        output, attended, after = self.model.step(point, decoder_state, decoder_memory)
        new = {f"cell_{layer}": cell for layer, cell in enumerate(after.cells)}
        if after.attentional is not None:
            new["fed"] = after.attentional
        if after.prev_weights is not None:
            new["last"] = after.prev_weights
        maps = Tensors()
        if attended is not None:
            weights = attended.weights.squeeze(-2)  # (N, [A,] S)
            maps["weights"] = weights.unsqueeze(1) if weights.dim() == 3 else weights[:, None, None]
        return StepOutput(output.squeeze(-2), new, maps)


class FastWeightsParts(Parts):
    """The parts of the model with fast weights, which are stored as a list of states. These states
    are summed in the same order as in `StateMemory`, because the layer norms of the inner loop
    amplify rounding errors."""

    growing = frozenset({"written", "written_factors"})

    def __init__(self, model: FastWeightsModel) -> None:
        self.model = model

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        model = self.model
        N, S, _ = source.shape
        steps = torch.arange(S, device=source.device)
        keep = steps < lengths.unsqueeze(-1)
        source = source.masked_fill(~keep.unsqueeze(-1), 0)
        embedded = model.source_modality.embed(source)

        def step(carry: list[Tensor], xs: list[Tensor]) -> tuple[list[Tensor], Tensor]:
            (state, states, factors, last), (projected, x, valid, index) = carry, xs
            memory = StateMemory(states, factors)
            preactivation = projected + model.encoder_state(state)
            new, _ = model.inner_loop(preactivation, memory, model.encoder_norm)
            written = memory.write(new, valid, model.decay, model.rate)
            is_row = steps == index  # the list always has S rows
            states = written.states[:, -1:].where(is_row.unsqueeze(-1), states)
            factors = written.factors[:, -1:].where(is_row, written.factors[:, :-1])
            state = new.where(valid.unsqueeze(-1), state)
            last = x.where(valid.unsqueeze(-1), last)
            return [state, states, factors, last], new.clone()

        init = [embedded.new_zeros(N, model.hidden), embedded.new_zeros(N, S, model.hidden),
                embedded.new_zeros(N, S), torch.zeros_like(source[:, 0])]  # fmt: skip
        xs = [model.encoder_input(embedded).transpose(0, 1), source.transpose(0, 1), keep.mT, steps]
        (hidden, states, factors, last), _ = _scan(step, init, xs)
        state = {
            "hidden": hidden, "factors": factors,
            "written": states[:, :0].clone(), "written_factors": states[:, :0, :1].clone(),
        }  # fmt: skip
        start_token = model.target_modality.start_token(last)
        return EncodedSource(start_token, {"states": states}, state, {})

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        _, S, _ = memory["states"].shape
        fast_weights = StateMemory(
            torch.cat([memory["states"], state["written"]], dim=-2),
            torch.cat([state["factors"], state["written_factors"].squeeze(-1)], dim=-1),
        )
        projected = self.model.decoder_input(self.model.target_modality.embed(point))
        output, hidden, weights, after = self.model.step(projected, state["hidden"], fast_weights)
        assert isinstance(after, StateMemory) and weights is not None
        new = {
            "hidden": hidden, "factors": after.factors[:, :S],
            "written": after.states[:, S:], "written_factors": after.factors[:, S:].unsqueeze(-1),
        }  # fmt: skip
        return StepOutput(output, new, {"weights": weights[:, None, None, :S]})


class TransformerParts(Parts):
    """The parts of the Transformer. The state consists of the keys and values of the decoder's
    self-attention in the previous steps."""

    def __init__(self, model: TransformerModel, max_length: int) -> None:
        self.model = model
        self.layers = range(len(model.decoder))
        for module in model.modules():
            if isinstance(module, LearnedPositionalEmbedding) and module.max_length < max_length:
                # Traced examples may be longer than any source, so pad the embeddings with NaN.
                missing = max_length - module.max_length
                padding = module.weight.new_full((missing, model.width), torch.nan)
                module.weight = nn.Parameter(torch.cat([module.weight, padding]))
                module.max_length = max_length
        self.growing = frozenset(
            f"{name}_{layer}" for layer in self.layers for name in ("target_keys", "target_values")
        )

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded = self.model.encode(source, lengths, with_weights=True)
        assert encoded.keep is not None
        memory: Tensors = {"keep": encoded.keep}
        state = Tensors()
        for layer, (keys, values) in enumerate(encoded.memory):
            memory |= {f"keys_{layer}": keys, f"values_{layer}": values}
            empty = keys[..., :0, :].clone()
            state |= {f"target_keys_{layer}": empty, f"target_values_{layer}": empty.clone()}
        maps = {"encoder_self": torch.stack(encoded.weights, dim=1)}
        return EncodedSource(encoded.start_token, memory, state, maps)

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        known = [KVCache(memory[f"keys_{k}"], memory[f"values_{k}"]) for k in self.layers]
        caches = [
            KVCache(state[f"target_keys_{k}"], state[f"target_values_{k}"]) for k in self.layers
        ]
        output, self_weights, cross_weights, after = self.model.step(
            point, known, memory["keep"], caches, with_weights=True,
            intervention=self.intervention(memory),
        )  # fmt: skip
        new = Tensors()
        for layer, (keys, values) in enumerate(after):
            new |= {f"target_keys_{layer}": keys, f"target_values_{layer}": values}
        maps = {"weights": torch.stack(cross_weights, dim=1).squeeze(-2),
                "decoder_self": torch.stack(self_weights, dim=1).squeeze(-2)}  # fmt: skip
        return StepOutput(output, new, maps)


def split_model(model: Seq2SeqModel, max_length: int) -> Parts:
    """Split a model into its two parts. The model is modified and can no longer be trained.

    Args:
        model: the model.
        max_length: length of the longest sequence in the traced examples.

    Raises:
        UsageError: if the model comes from a plugin.
    """
    match model:
        case RecurrentModel():
            return RecurrentParts(model)
        case FastWeightsModel():
            return FastWeightsParts(model)
        case TransformerModel():
            return TransformerParts(model, max_length)
        case _:
            raise no_parts(model)


def no_parts(model: Seq2SeqModel) -> UsageError:
    """Return the error for a plugin's model, which cannot be split into an encoder and a step."""
    return UsageError(
        f"{type(model).__name__} is a model of a plugin, which cannot be exported as ONNX, because"
        " seqattn cannot split it into an encoder and a step."
    )


def _copy_output(output: Callable[[Tensor], Tensor], state: Tensor) -> Tensor:
    """Return a contiguous copy of the output of a cell. The output may be a slice of the state, and
    the exporter cannot represent its strides."""
    return output(state).clone(memory_format=torch.contiguous_format)


def scan_cell(cell: Cell, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Run a cell over whole sequences (N, L, inputs) of length L with torch's `scan`, which is
    traced as a loop; see `Cell.scan`."""
    N, _, _ = inputs.shape
    projected = cell.project(inputs).transpose(0, 1)
    weight, bias, kernel = cell.weight_hh, cell.bias_hh, cell.eager_step()

    def step(carry: list[Tensor], xs: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        state = kernel(xs[0], carry[0], weight, bias)
        # `scan` compares strides, and the stride of an axis of size 1 is arbitrary.
        return [state.clone(memory_format=torch.contiguous_format)], state.clone()

    init = [inputs.new_zeros(N, cell.num_state_tensors * cell.hidden)]
    (last,), states = _scan(step, init, [projected])
    return states.transpose(0, 1), last


def _scan(
    step: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], Tensor]],
    init: list[Tensor],
    xs: list[Tensor],
) -> tuple[list[Tensor], Tensor]:
    """Run `scan`, and return the final carry and the stacked outputs of all steps, (L, ...)."""
    from torch._higher_order_ops.scan import scan

    carry, ys = scan(step, init, xs, dim=0)
    return cast("list[Tensor]", carry), cast("Tensor", ys)


# --- the graphs -----------------------------------------------------------------------------------


class Graph(nn.Module, ABC):
    """The base class of the graphs. A graph is a module with named input and output tensors in a
    fixed order."""

    def __init__(self, model: Seq2SeqModel, parts: Parts, spec: DataSpec) -> None:
        super().__init__()
        self.model, self.parts = model, parts
        self.source, self.target = build_units(spec)

    @abstractmethod
    def outputs(self, inputs: Tensors) -> Tensors:
        """Compute the named outputs from the named inputs."""

    def forward(self, inputs: Tensors) -> Tensors:
        return self.outputs(inputs)


class EncoderGraph(Graph):
    """The encoder, which maps source (N, S, F) and source_lengths (N,) to the inputs of the first
    step. The mask source_observed (N, S, F) is a third input if the scaling depends on it. A
    Transformer's encoder also returns `encoder_self`."""

    def outputs(self, inputs: Tensors) -> Tensors:
        lengths = inputs[LENGTHS]
        scaled, shift, scale = self.source.scale_source(
            inputs[SOURCE], lengths, inputs.get(OBSERVED)
        )
        target_scaling = self.target.select_scaling(shift, scale)
        encoded = self.parts.encode(scaled, lengths)
        point = self.target.unscale_point(encoded.point, target_scaling)
        return {POINT: point, **target_scaling, **encoded.memory, **encoded.state, **encoded.maps,
                **encoded.trace}  # fmt: skip


class StepGraph(Graph):
    """One decoder step, which maps point, memory and state to next_point, the weights and the next
    state. If points are symbols, the logits are an output too, and next_point is the most probable
    symbol or, in a live graph, the given one."""

    def outputs(self, inputs: Tensors) -> Tensors:
        scaled = self.target.scale_point(inputs[POINT], inputs)
        output = self.parts.step(scaled, inputs, inputs)
        read = self.model.target_modality.read(output.values)
        point = self.target.unscale_point(read, inputs)
        if GIVEN in inputs:
            point = inputs[GIVEN].where(inputs[GIVEN] >= 0, point)
        state = {NEXT + name: rows for name, rows in output.state.items()}
        return {NEXT + POINT: point, **self.target.name_logits(output.values), **output.maps,
                **output.trace, **state}  # fmt: skip
