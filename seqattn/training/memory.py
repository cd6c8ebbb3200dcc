"""How much a training step keeps, by rough rules on the safe side."""

from __future__ import annotations

from typing import assert_never

from seqattn.config import (
    AdditiveAttention,
    Config,
    FastWeights,
    Generated,
    LocationShift,
    Model,
    OwnFile,
    Recurrent,
    Transformer,
)
from seqattn.models import parameters_of

POINT = 2  # features of a generated point


def numbers_of_a_sequence(model: Model, S: int, T: int) -> int:
    """Numbers that forward and backward pass keep of one sequence of a batch.

    A recurrent state: 40 of its width a step, for each layer and direction. A pair of points: 6 a
    head, an additive score K more four times over, a sense of place a few. Fast weights: the states
    in memory, or the matrix, at every step. A Transformer: each part of a layer, and every pair.

    Args:
        S, T: lengths of source and target.
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
            D, A = model.model_dim, model.heads
            of_point = 40 * D + 6 * model.feedforward_dim
            return 2 * model.layers * ((S + T) * of_point + 6 * A * (S * S + T * T + S * T))
        case _:
            assert_never(model)


def bytes_needed(config: Config, S: int, T: int) -> dict[str, int]:
    """What a training on generated sequences takes at least, by rough rules: what for -> bytes.

    Sequences in NumPy, as tensors and in an epoch's order; parameters with gradient, two averages,
    the best epoch's and a position to go back to; what a step keeps of its batch; and the attention
    in the test sequences.

    Args:
        S, T: of the longest source and target.
    """
    data, model = config.data, config.model
    if isinstance(data, OwnFile):
        raise TypeError("a file's sequences are counted when they are read")
    batch = min(config.training.batch_size, data.n_train)
    maps = 0
    if model.has_attention:
        heads, layers = 1, 1
        if isinstance(model, Transformer):
            heads, layers = model.heads, 3 * model.layers
        elif isinstance(model, Recurrent) and model.attention is not None:
            heads = model.attention.heads
        maps = data.n_test * heads * layers * max(S, T) ** 2
    return {
        "the sequences": bytes_of_sequences(data, S, T),
        "the parameters": 4 * 7 * parameters_of(model, POINT),
        "a step": 4 * batch * numbers_of_a_sequence(model, S, T),
        "the attention in the test sequences": 4 * 2 * maps,
    }


def bytes_of_sequences(data: Generated, S: int, T: int) -> int:
    """Generated sequences in NumPy, as tensors and in an epoch's order.

    Args:
        S, T: of the longest source and target.
    """
    n = data.n_train + data.n_validation + data.n_test
    return n * (S + T) * POINT * (2 * 8 + 2 * 4)
