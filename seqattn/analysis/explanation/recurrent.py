"""The arithmetic of one step of a recurrent decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from seqattn.analysis.explanation.copying import explain_copying
from seqattn.analysis.explanation.record import Explanation, check_index
from seqattn.errors import UsageError
from seqattn.models import RecurrentModel
from seqattn.models.attention import Attention, AttentionMemory, AttentionOutput
from seqattn.models.attention.arithmetic import Array, AttentionStep, as_printed
from seqattn.models.recurrent import DecoderState


def explain_recurrent(
    record: Explanation, model: RecurrentModel, source: Tensor, forecast: Tensor, layer: int,
    head: int, features: Sequence[str],
) -> None:  # fmt: skip
    """Explain the last step of a forecast that a recurrent model computed.

    Args:
        record: the explanation to which the stages are added.
        model: the model.
        source: (1, S, F), the source.
        forecast: (1, T, width of an output), the outputs up to the explained step.
        layer, head: the index of the layer and the index of the head, counted from 0.
        features: the names of the target features.

    Raises:
        UsageError: if the model has no attention, or if the layer or the head does not exist.
    """
    attention = model.attention
    if attention is None:
        raise UsageError("This model has no attention (model.attention: null).")
    check_index("--layer", layer, 1)
    check_index("--head", head, attention.heads)
    encoded, state, point = model.encode(source, None)
    states, _ = model.encode_states(model.source_modality.embed(source), None)
    memory = encoded.attention
    assert memory is not None
    for before in model.target_modality.read(forecast[:, :-1]).unbind(-2):
        _, _, state = model.step(point, state, encoded)
        point = before
    query, attended, new = _decoder_step(model, attention, memory, state, point)
    record.add_decoder_input(model.target_modality, point, features)
    formula = "s, from the source, by the recurrent cell"
    record.add_from_model("Encoder states", formula, states[0])
    when = "before this step" if model.context_is_input else "after reading that input"
    record.add_from_model(f"Decoder state h, {when}", "", query, ["h"])
    scores = attention.scores(query.unsqueeze(-2), memory.keys, state.prev_weights)
    step = AttentionStep(
        record=record, states=states, query=query, keys=memory.keys, scores=scores,
        weights=attended.weights, previous=state.prev_weights, heads=attention.heads, head=head,
    )  # fmt: skip
    context = _context_of_head(record, attention, step, memory)
    if attention.heads > 1:
        contexts = attended.context.view(attention.heads, -1)
        context = record.add_head_contexts(contexts, head, context)
    vector, name = _readout(record, model, query, context, new)
    if model.copier is None:
        record.add_output(model, vector, name, features, forecast[0, -1])
        return
    assert encoded.symbols is not None
    x = as_printed(model.target_modality.embed(point)[0])
    gated = np.concatenate([context, as_printed(new[0]), x])
    explain_copying(record, model, vector, name, gated, encoded.symbols[0], forecast[0, -1])


def _decoder_step(
    model: RecurrentModel, attention: Attention, memory: AttentionMemory, state: DecoderState,
    point: Tensor,
) -> tuple[Tensor, AttentionOutput, Tensor]:  # fmt: skip
    """Compute one step of the decoder.

    Args:
        model: the model.
        attention: the attention of the model.
        memory: the keys and values.
        state: the decoder state before the step.
        point: (1, F), the decoder input of the step.

    Returns:
        The query state (1, H), the output of the attention for this query, and the new state
        (1, H).
    """
    projected = model.decoder.project(model.target_modality.embed(point))
    weight = model.decoder.context_weight(model.hidden)
    if model.context_is_input:
        query = model.top_layer_output(state.cells)
        attended = attention.attend(query.unsqueeze(-2), memory, state.prev_weights)
        joined = projected + model.decoder.project_context(attended.context.squeeze(-2), weight)
        return query, attended, model.top_layer_output(model.step_layers(joined, state.cells))
    if state.attentional is not None:
        projected = projected + model.decoder.project_context(state.attentional, weight)
    query = model.top_layer_output(model.step_layers(projected, state.cells))
    return query, attention.attend(query.unsqueeze(-2), memory, state.prev_weights), query


def _context_of_head(
    record: Explanation, attention: Attention, step: AttentionStep, memory: AttentionMemory
) -> Array:
    """Explain the query, keys, scores, weights and values of a head, and return the context of the
    head, (V,)."""
    query, keys, scores = attention.score.explain(step)
    if attention.location is None:
        everywhere = np.ones(len(scores), dtype=bool)
        weights = attention.normalizer.explain(step, "Weights", scores, everywhere)
    else:
        weights = attention.location.explain(step, attention.normalizer, scores)
    values = step.of_head(memory.values)
    if attention.value is None:
        printed = record.add("Values", "the encoder's states", values)
    else:
        formula = "v = W_v s + b_v of the encoder's states"
        printed = step.map_states("Values", formula, attention.value, values)
    context = record.add_context(weights, printed)
    record.vectors = {"keys": keys, "values": printed, "context": context, "weights": weights}
    if query is not None:
        record.vectors["query"] = query
    return context


def _readout(
    record: Explanation, model: RecurrentModel, query: Tensor, context: Array, new: Tensor
) -> tuple[Array, str]:
    """Explain the stages after the attention, and return the input of the output layer.

    The second result is the name of this input in formulas.

    Args:
        record: the explanation to which the stages are added.
        model: the model.
        query: (1, H), the query state.
        context: (A * V,), the context.
        new: (1, H), the new state.
    """
    if model.context_is_input:
        formula = "from the decoder input, the context and h, by the recurrent cell"
        return record.add_from_model("New state h'", formula, new, ["h'"])[0], "h'"
    joined = np.concatenate([context, as_printed(query[0])])
    record.add_row("Joined", "[context; h]", "[c; h]", joined)
    if model.combine is None:
        return joined, "[context; h]"
    weight, bias = as_printed(model.combine.weight), as_printed(model.combine.bias)
    formula = "a = tanh(W_a [context; h] + b_a), W_a and b_a are in the checkpoint file of the run"
    attentional = np.tanh(weight @ joined + bias)[None]
    return record.add_from_model("Attentional vector a", formula, attentional, ["a"])[0], "a"
