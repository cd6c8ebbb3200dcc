"""How many numbers a model keeps of one sequence, by rough rules on the safe side.

Letters: S source length, T target length, H width of a state, D width of a Transformer.
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
    """Numbers that forward and backward pass keep of one sequence of a batch.

    A recurrent state: 40 of its width a step, for each layer and direction. A pair of points: 6 a
    head, an additive score K more four times over, a sense of place a few. Fast weights: the states
    in memory, or the matrix, at every step. A Transformer: each part of a layer. torch's fused
    attention keeps no pair of points, but works for one run only; several keep two numbers a pair.

    Args:
        S, T: lengths of source and target.
        alone: whether the run is trained by itself, not side by side with others.
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
            # Of one layer at a time: what its backward pass holds besides.
            return (S + T) * (L * (of_part + of_dropout) + 6 * D) + of_pairs
        case _:
            assert_never(model)


def attention_weights_per_sequence(model: Model, S: int, T: int) -> int:
    """Attention weights of one sequence, of all layers, heads and kinds.

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
