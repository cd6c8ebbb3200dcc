"""The number of activations and of attention weights of a model per sequence. The number of
activations is an estimate that is meant to be an upper bound.

Here, S is the source length, T the target length, H the width of a recurrent state, D the width of
a Transformer, and K the width of the keys.
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
from seqattn.models.plugin_models import PLUGIN_MODELS


def activations_per_sequence(model: Model, S: int, T: int, *, alone: bool = True) -> int:
    """Estimate how many numbers the forward and the backward pass store for one sequence of a
    batch.

    - A recurrent model stores 40 * H numbers per step, for each layer and direction. For each pair
      of a source step and a target step, a recurrent model also stores 6 numbers per head. Each
      head after the first adds 2 * H numbers per source step. An additive score adds 4 * K numbers
      per pair, and location-based addressing adds at least 8 numbers per pair and head.
    - At every step and in every iteration of the inner loop, a model with fast weights stores the
      past states or the matrix, whichever is smaller.
    - A Transformer stores the activations of every sublayer. If the run is trained alone, torch's
      fused attention stores no attention weights. In a batch of runs, a Transformer stores two
      numbers per attention weight.

    Args:
        S, T: the length of the source and the length of the target.
        alone: whether the run is trained alone, not in a batch with other runs.
    """
    if type(model) in PLUGIN_MODELS:
        return model.activations_per_sequence(S, T)
    match model:
        case Recurrent():
            H, attention, of_pair, of_heads = model.hidden_dim, model.attention, 6, 0
            if attention is not None:
                of_pair *= attention.heads
                of_heads = 2 * (attention.heads - 1) * S * H  # keys and their gradients
                if isinstance(attention, AdditiveAttention):
                    of_pair += 4 * (attention.key_dim or H)
                if attention.location is not None:
                    place = attention.location
                    steps = place.shift_range if isinstance(place, LocationShift) else 0
                    of_pair += attention.heads * (4 * steps + 8)
            of_state = 40 * model.layers * (2 if model.bidirectional else 1)
            return (S + T) * of_state * H + T * S * of_pair + of_heads
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
    """Count the attention weights of one sequence over all layers, heads and kinds of attention.

    Args:
        S, T: the length of the source and the length of the target.
    """
    if not model.has_attention:
        return 0
    if type(model) in PLUGIN_MODELS:
        return model.attention_weights_per_sequence(S, T)
    match model:
        case Recurrent():
            return T * S * (1 if model.attention is None else model.attention.heads)
        case FastWeights():
            return T * S
        case Transformer():
            return model.layers * model.heads * (T * S + S * S + T * T)
        case _:
            assert_never(model)
