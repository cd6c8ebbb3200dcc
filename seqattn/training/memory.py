"""How much a training step keeps, by rough rules on the safe side."""

from __future__ import annotations

from typing import assert_never

from seqattn.config import (
    AdditiveAttention,
    Config,
    FastWeights,
    LocationShift,
    Model,
    OwnFile,
    Recurrent,
    Transformer,
)
from seqattn.models import Lengths, count_parameters

POINT = 2  # features of a generated point
NAME = 150  # bytes of a sequence's name and label
COPIES_OF_PARAMETERS = 24  # optimizer 5, best and snapshot 5, evaluation 1, a checkpoint 13
SPOOLED = 2**24  # weights that wait in memory, see `seqattn.analysis.evaluation.attention_file`
CHUNK = 2048  # test sequences that are forecast together at most,
CHUNK_PAIRS = 2**22  # and pairs of their points, see `seqattn.analysis.evaluation`
COPIES_OF_A_CHUNK = 6  # how many times their weights are there


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


def bytes_needed(
    config: Config,
    S: int,
    T: int,
    counts: tuple[int, int, int] | None = None,
    features: int = POINT,
) -> dict[str, int]:
    """What a training takes beyond the libraries: what for -> bytes. The rules were held against
    measured peaks (`tests/walks/test_memory.py`), but those of a step stay on the safe side.

    Sequences in NumPy, as tensors and in an epoch's order, with their names; parameters with what
    an optimizer, a snapshot and a checkpoint that is being written keep of them; and the larger of
    what a step keeps of its batch, and, after the training, attention weights of test sequences,
    most of which wait on the disk.

    Args:
        S, T: of the longest source and target.
        counts: training, validation and test sequences in memory; None: those that a config of
            generated sequences names.
        features: of a point.
    """
    data, model = config.data, config.model
    if counts is None:
        if isinstance(data, OwnFile):
            raise TypeError("a file's sequences are counted when they are read")
        counts = data.n_train, data.n_validation, data.n_test
    train, _, test = counts
    batch = min(config.training.batch_size, max(train, 1))
    of_sequence = attention_weights_per_sequence(model, S, T)
    together = min(test, CHUNK, max(1, CHUNK_PAIRS // (S + T) ** 2))
    looked = min(test * of_sequence, SPOOLED) + COPIES_OF_A_CHUNK * together * of_sequence
    one_after_the_other = {
        "a step": 4 * batch * activations_per_sequence(model, S, T),
        "the attention in the test sequences": 4 * looked,
    }
    largest = max(one_after_the_other, key=lambda what: one_after_the_other[what])
    parameters = count_parameters(model, features, Lengths(S, T))
    return {
        "the sequences": bytes_of_sequences(sum(counts), S, T, features),
        "the parameters": 4 * COPIES_OF_PARAMETERS * parameters,
        largest: one_after_the_other[largest],
    }


def bytes_of_sequences(n: int, S: int, T: int, features: int = POINT) -> int:
    """Sequences in NumPy, as tensors and in an epoch's order, with their names.

    Args:
        S, T: of the longest source and target.
        features: of a point.
    """
    return n * ((S + T) * features * (2 * 8 + 2 * 4) + NAME)
