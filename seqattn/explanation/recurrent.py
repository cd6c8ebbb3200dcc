"""One step of a recurrent decoder as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from seqattn.attention import Attention, Look, Memory
from seqattn.attention.arithmetic import Array, AttentionStep, numbered, point_names, rounded
from seqattn.errors import UsageError
from seqattn.explanation.record import Explanation, check_index
from seqattn.models import RecurrentModel


class DecoderStep(NamedTuple):
    """What the model computed in the step that is explained, unrounded.

    Attributes:
        point: (1, F), what the decoder is fed.
        encoder_states: (1, S, H).
        memory: keys and values of the attention.
        previous: the weights of the step before, where places decide, too; else None.
        query: (1, H), the state that attends.
        attended: context and weights.
        state: (1, H), the decoder's new state.
    """

    point: Tensor
    encoder_states: Tensor
    memory: Memory
    previous: Tensor | None
    query: Tensor
    attended: Look
    state: Tensor


def explain_recurrent(
    made: Explanation, model: RecurrentModel, source: Tensor, forecast: Tensor, layer: int,
    head: int, features: Sequence[str],
) -> None:  # fmt: skip
    """Write the last step of a forecast.

    Args:
        source: (1, S, F).
        forecast: (1, T, F), up to the step that is shown.
        layer, head: which to show, counted from 0.
        features: F names, of the target.

    Raises:
        UsageError: no attention, or no such layer or head.
    """
    attention = model.attention
    if attention is None:
        raise UsageError("This model has no attention (model.attention: null).")
    check_index("--layer", layer, 1)
    check_index("--head", head, attention.heads)
    step = _last_step(model, attention, source, forecast)
    made.add_row("What the decoder is fed", "", "point", step.point, features)
    when = "before this step" if model.context_is_input else "after reading that point"
    columns = numbered(step.query.shape[-1])
    made.add_from_model("Encoder states", "s, from the source points, by the recurrent cell",
                        point_names(source.shape[1]), step.encoder_states[0], columns)  # fmt: skip
    made.add_from_model(f"Decoder state h, {when}", "", ["h"], step.query, columns)
    context = _context_of_head(made, attention, step, head)
    if attention.heads > 1:
        contexts = step.attended.context.view(attention.heads, -1)
        context = made.add_contexts_of_heads(contexts, head, context)
    made.add_output(model, *_readout(made, model, step, context), features)


def _last_step(
    model: RecurrentModel, attention: Attention, source: Tensor, forecast: Tensor
) -> DecoderStep:
    """Run the decoder on its own forecast (1, T, F), up to its last step."""
    memory, state, point = model.encode(source, None)
    encoder_states, _ = model.read(source, None)
    for output in forecast[:, :-1].unbind(-2):
        _, _, state = model.step(point, state, memory)
        point = output
    assert memory is not None
    projected = model.decoder.project(point)
    if model.context_is_input:
        query = model.top(state.cells)
        attended = attention.look(query.unsqueeze(-2), memory, state.last)
        joined = projected + model.decoder.project_context(attended.context.squeeze(-2))
        new = model.top(model.advance(joined, state.cells))
    else:
        if state.fed is not None:
            projected = projected + model.decoder.project_context(state.fed)
        new = query = model.top(model.advance(projected, state.cells))
        attended = attention.look(query.unsqueeze(-2), memory, state.last)
    return DecoderStep(point, encoder_states, memory, state.last, query, attended, new)


def _context_of_head(
    made: Explanation, attention: Attention, decoder: DecoderStep, head: int
) -> Array:
    """Query, keys, scores, weights, values and their sum, of one head; returns the context."""
    memory = decoder.memory
    step = AttentionStep(
        decoder.encoder_states, decoder.query, memory.keys,
        attention.score.scores(decoder.query.unsqueeze(-2), memory.keys),
        decoder.attended.weights, decoder.previous, attention.heads, head,
    )  # fmt: skip
    query, keys, scores, made.cosines = attention.score.explain(made, step)
    if attention.location is None:
        everywhere = np.ones(len(scores), dtype=bool)
        weights = attention.normalizer.explain(made, "Weights", scores, everywhere, step)
    else:
        weights = attention.location.explain(made, attention.normalizer, scores, step)
    values = rounded(step.of_head(memory.values))
    if attention.value is None:
        values = made.add("Values", "the encoder's states", step.points, values)
    else:
        values = made.add_map("Values", "v = W_v s + b_v of the encoder's states", attention.value,
                              step.printed_states, step.points, values,
                              step.outputs(attention.value))  # fmt: skip
    context = made.add_context(weights, values)
    made.vectors = {"keys": keys, "values": values, "context": context, "weights": weights}
    if query is not None:
        made.vectors["query"] = query
    return context


def _readout(
    made: Explanation, model: RecurrentModel, step: DecoderStep, context: Array
) -> tuple[Array, str]:
    """What the output layer reads, and its name."""
    if model.context_is_input:
        formula = "from the point fed, the context and h, by the recurrent cell"
        columns = numbered(step.state.shape[-1])
        return made.add_from_model("New state h'", formula, ["h'"], step.state, columns)[0], "h'"
    joined = np.concatenate([context, rounded(step.query)[0]])
    made.add_row("Joined", "[context; h]", "[c; h]", joined)
    if model.combine is None:
        return joined, "[context; h]"
    weight, bias = rounded(model.combine.weight), rounded(model.combine.bias)
    formula = "a = tanh(W_a [context; h] + b_a), W_a and b_a in the checkpoint"
    attentional = np.tanh(weight @ joined + bias)
    return made.add_from_model("Attentional vector a", formula, ["a"], attentional)[0], "a"
