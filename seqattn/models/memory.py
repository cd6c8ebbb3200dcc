"""Estimates of the number of values that a model stores per sequence. The rules are approximate,
and overestimate the numbers rather than underestimate them.

Letters: S source length, T target length, H width of a state, D width of a Transformer, K width of
the keys.
"""

from __future__ import annotations

from typing import assert_never

from seqattn.config import (
    AdditiveAttention,
    FastWeights,
    LocationShift,
    Model,
    Recurrent,
    Transformer,
)


def activations_per_sequence(model: Model, S: int, T: int, *, alone: bool = True) -> int:
    """Estimate how many numbers forward and backward pass store for one sequence of a batch.

    - A recurrent model stores 40 numbers per step and unit of H, for each layer and direction. A
      recurrent model also stores 6 numbers per head for each pair of a source step and a target
      step. An additive score adds 4 K numbers per pair, and a location adds a few.
    - A model with fast weights stores, at every step and iteration of the inner loop, the past
      states or the matrix, whichever is smaller.
    - A Transformer stores the activations of every sublayer. torch's fused attention stores nothing
      per pair, but it works for one run only. Batched runs store two numbers per pair.

    Args:
        S, T: lengths of source and target.
        alone: whether the run is trained alone, not in a batch with other runs.
    """
    match model:
        case Recurrent():
            H, attention, of_pair = model.hidden_dim, model.attention, 6
            if attention is not None:
                of_pair *= attention.heads
                if isinstance(attention, AdditiveAttention):
                    of_pair += 4 * (attention.key_dim or H)
                if attention.location is not None:
                    place = attention.location
                    steps = place.shift_range if isinstance(place, LocationShift) else 0
                    of_pair += attention.heads * (4 * steps + 8)
            of_state = 40 * model.layers * (2 if model.bidirectional else 1)
            return (S + T) * of_state * H + T * S * of_pair
        case FastWeights():
            H, L = model.hidden_dim, S + T
            return L * H * (40 + 6 * (1 + model.inner_steps) * min(L, H))
        case Transformer():
            D, hidden, L = model.model_dim, model.feedforward_dim, model.layers
            of_part = 14 * D + 2 * hidden if alone else 28 * D + 3 * hidden
            of_dropout = 10 * D if model.dropout else 0
            of_pairs = 0 if alone else 2 * attention_weights_per_sequence(model, S, T)
            # The term 6 * D is the additional memory of one layer's backward pass.
            return (S + T) * (L * (of_part + of_dropout) + 6 * D) + of_pairs
        case _:
            assert_never(model)


def attention_weights_per_sequence(model: Model, S: int, T: int) -> int:
    """Count the attention weights of one sequence, over all layers, heads and kinds.

    Args:
        S, T: lengths of source and target.
    """
    if not model.has_attention:
        return 0
    match model:
        case Recurrent():
            return T * S * (1 if model.attention is None else model.attention.heads)
        case FastWeights():
            return T * S
        case Transformer():
            return model.layers * model.heads * (T * S + S * S + T * T)
        case _:
            assert_never(model)
