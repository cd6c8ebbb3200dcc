"""The parts of a model for its live graph, in which intermediate results are outputs.

The attention weights of a recurrent model and of a Transformer can be forced, that is, replaced by
given weights.

In shapes, N is the number of sequences, S the source length, A the number of heads, H the width of
the state, K the width of queries and keys, V the width of values, and E the width of an embedded
symbol.

The names of intermediate results start with `trace/`:

| name | shape | quantity |
| --- | --- | --- |
| `states` | (N, S, H) | encoder states |
| `keys`, `values` | (N, layers, A, S, K or V) | keys and values of the source |
| `query` | (N, layers, H) | decoder state that is the query |
| `scores` | (N, layers, A, S) | scores before the normalizer |
| `context` | (N, layers, A, V) | weighted sum of the values |
| `readout` | (N, width) | input of the output layer |
| `input`, `output` | (N, features) | decoder input, and output without the linear skip |
| `embedded_source` | (N, S, E) | learned vectors of the source symbols |
| `embedded_input` | (N, E) | learned vector of the symbol that is the decoder input |

Not every model has all of these results, and only symbols have learned vectors. If the target is
made of symbols, `input` is (N, 1) numbers of symbols, and `output` are the logits (N, symbols). A
Transformer multiplies the learned vectors by the square root of E, maps them to its width if the
widths differ, and adds the positions. The query of a Transformer is (N, layers, A, K), after its
projection. Instead of `scores`, a model with fast weights has `factors` (N, layers, A, S): rate *
decay^age of each encoder state in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from seqattn.export.graphs import (
    FORCE,
    TRACE,
    EncodedSource,
    FastWeightsParts,
    Parts,
    RecurrentParts,
    StepOutput,
    TransformerParts,
    no_parts,
)
from seqattn.export.units import Tensors
from seqattn.models import (
    AttentionKind,
    FastWeightsModel,
    RecurrentModel,
    Seq2SeqModel,
    TransformerModel,
)
from seqattn.models.attention import WeightIntervention
from seqattn.models.attention.scores import join_heads
from seqattn.models.fast_weights import StateMemory
from seqattn.models.layers import concat_features
from seqattn.models.modality import Modality, TokenModality
from seqattn.models.transformer import DecoderLayer


class ForceInput:
    """A callable that replaces the weights of one step.

    Args:
        force: (N, layers, A, S), NaN for the model's own weights.
    """

    kind: AttentionKind = "cross"

    def __init__(self, force: Tensor) -> None:
        self.force = force

    def __call__(self, weights: Tensor, keep: Tensor | None, layer: int = 0) -> Tensor:
        """Return the weights (N, [A,] 1, S) that replace `weights` (N, [A,] 1, S)."""
        force = self.force[:, layer]
        force = force if weights.dim() == 3 else force.unsqueeze(-2)
        return torch.where(force.isnan(), weights, force)


class LiveRecurrentParts(RecurrentParts):
    """The parts of a recurrent model for its live graph; see the module's docstring."""

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded, attention = super().encode(source, lengths), self.model.attention
        if attention is None:
            return encoded
        keys, values = encoded.memory["keys"], encoded.memory["values"]
        if attention.value is None:
            states = join_heads(values, attention.heads)
        else:
            embedded = self.model.source_modality.embed(_without_padding(source, lengths))
            states, _ = self.model.encode_states(embedded, lengths)
        return replace(encoded, trace=_named(
            states=states.clone(), keys=self._by_head(keys), values=self._by_head(values),
        ))  # fmt: skip

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        output, attention = super().step(point, memory, state), self.model.attention
        if attention is None:
            return output
        cells = self._cells(state if self.model.context_is_input else output.state)
        query = self.model.top_layer_output(cells)
        last = state.get("last")
        scores = attention.scores(query.unsqueeze(-2), memory["keys"], last).squeeze(-2)
        weights = output.maps["weights"][:, 0]  # (N, A, S)
        values = memory["values"] if attention.heads > 1 else memory["values"].unsqueeze(1)
        context = (weights.unsqueeze(-1) * values).sum(-2)
        return replace(output, trace=_named(
            query=query.unsqueeze(1), scores=_with_axes(scores),
            context=context.unsqueeze(1), readout=self._readout(context, query, output.state),
            input=point.clone(), output=output.values.clone(),
        ))  # fmt: skip

    def intervention(self, memory: Tensors) -> WeightIntervention:
        return ForceInput(memory[FORCE])

    def _readout(self, context: Tensor, query: Tensor, new: Tensors) -> Tensor:
        model = self.model
        if model.context_is_input:
            return model.top_layer_output(self._cells(new)).clone()
        if "fed" in new:
            return new["fed"].clone()
        joined = concat_features([context.flatten(1), query])
        return joined if model.combine is None else model.combine(joined).tanh()

    def _cells(self, state: Tensors) -> tuple[Tensor, ...]:
        return tuple(state[f"cell_{layer}"] for layer in range(1 + len(self.model.decoder_above)))

    def _by_head(self, x: Tensor) -> Tensor:
        heads = 1 if self.model.attention is None else self.model.attention.heads
        return x.unsqueeze(1).clone() if heads > 1 else x[:, None, None].clone()


class LiveFastWeightsParts(FastWeightsParts):
    """The parts of a model with fast weights for its live graph; see the module's docstring.

    The weights of this model are read strengths. They cannot be forced, because they are not a
    distribution.
    """

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded = super().encode(source, lengths)
        return replace(encoded, trace=_named(states=encoded.memory["states"].clone()))

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        output, model = super().step(point, memory, state), self.model
        *_, S, _ = memory["states"].shape
        written = StateMemory(
            torch.cat([memory["states"], state["written"]], dim=-2),
            torch.cat([state["factors"], state["written_factors"].squeeze(-1)], dim=-1),
        )
        embedded = model.target_modality.embed(point)
        z = model.decoder_input(embedded) + model.decoder_state(state["hidden"])
        query = model.iterate_inner_loop(z, written, model.inner_steps - 1, model.decoder_norm)
        read, _ = written.read(query)
        return replace(output, trace=_named(
            query=query.unsqueeze(1), factors=state["factors"][:, None, None, :S].clone(),
            context=read[:, None, None], readout=output.state["hidden"].clone(),
            input=point.clone(), output=output.values.clone(),
        ))  # fmt: skip


class LiveTransformerParts(TransformerParts):
    """The parts of a Transformer for its live graph; see the module's docstring."""

    def __init__(self, model: TransformerModel, max_length: int) -> None:
        super().__init__(model, max_length)
        self._queries = list[Tensor]()
        for layer in cast("list[DecoderLayer]", model.decoder):
            layer.cross.queries = partial(self._record, layer.cross.queries)  # type: ignore[method-assign]

    def _record(self, compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        self._queries.append(compute(x))
        return self._queries[-1]

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded = super().encode(source, lengths)
        stacked = {
            name: torch.stack([encoded.memory[f"{name}_{k}"] for k in self.layers], dim=1)
            for name in ("keys", "values")
        }
        return replace(encoded, trace=_named(**stacked))

    def intervention(self, memory: Tensors) -> WeightIntervention:
        return ForceInput(memory[FORCE])

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        self._queries.clear()
        output = super().step(point, memory, state)
        query = torch.stack(self._queries, dim=1)  # (N, layers, A, 1, K)
        self._queries.clear()
        *_, K = query.shape
        keys, values = (
            torch.stack([memory[f"{name}_{k}"] for k in self.layers], dim=1)
            for name in ("keys", "values")
        )
        scores = (query * keys).sum(-1) / math.sqrt(K)
        context = (output.maps["weights"].unsqueeze(-1) * values).sum(-2)
        return replace(output, trace=_named(
            query=query.squeeze(-2), scores=scores, context=context,
            input=point.clone(), output=output.values.clone(),
        ))  # fmt: skip


class EmbeddingParts(Parts):
    """The parts of a model with the vectors of symbols among the intermediate results. Vectors that
    are no symbols are no result, because the network reads them as they are.

    Args:
        network: the parts without this result.
        model: the model.
    """

    def __init__(self, network: Parts, model: Seq2SeqModel) -> None:
        self.network, self.model, self.growing = network, model, network.growing

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded, modality = self.network.encode(source, lengths), self.model.source_modality
        embedded = _embedded("embedded_source", modality, _without_padding(source, lengths))
        return replace(encoded, trace={**encoded.trace, **embedded})

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        output = self.network.step(point, memory, state)
        embedded = _embedded("embedded_input", self.model.target_modality, point)
        return replace(output, trace={**output.trace, **embedded})


def live_parts(model: Seq2SeqModel, max_length: int) -> Parts:
    """Return the parts of a model for its live graph; see `seqattn.export.graphs.split_model`."""
    match model:
        case RecurrentModel():
            return EmbeddingParts(LiveRecurrentParts(model), model)
        case FastWeightsModel():
            return EmbeddingParts(LiveFastWeightsParts(model), model)
        case TransformerModel():
            return EmbeddingParts(LiveTransformerParts(model, max_length), model)
        case _:
            raise no_parts(model)


def _embedded(name: str, modality: Modality, steps: Tensor) -> Tensors:
    if isinstance(modality, TokenModality):
        return _named(**{name: modality.embed(steps)})
    return {}


def _without_padding(source: Tensor, lengths: Tensor) -> Tensor:
    """Return a source (N, S, F) with 0 after the end of each sequence."""
    valid = torch.arange(source.shape[-2], device=source.device) < lengths.unsqueeze(-1)
    return source.masked_fill(~valid.unsqueeze(-1), 0)


def _with_axes(scores: Tensor) -> Tensor:
    """Return scores (N, [A,] S) with axes of layers and heads, (N, layers, A, S)."""
    return scores.unsqueeze(1) if scores.dim() == 3 else scores[:, None, None]


def _named(**tensors: Tensor) -> Tensors:
    return {TRACE + name: tensor for name, tensor in tensors.items()}
