"""A score, a normalizer, perhaps a sense of place, and the weighted sum, put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from seqattn.config.knobs import AttentionKnobs
from seqattn.models.attention.intervention import WeightIntervention
from seqattn.models.attention.location_based import Location, build_location
from seqattn.models.attention.normalizers import (
    Normalizer,
    NormalizerOutput,
    Softmax,
    build_normalizer,
    softmax,
)
from seqattn.models.attention.scores import Score, build_score, join_heads, split_heads
from seqattn.models.layers import Linear, product


@dataclass(frozen=True)
class Memory:
    """What a decoder can look at, worked out once for each source.

    Attributes:
        keys: (..., N, S, K), or with several heads (..., N, A, S, K / A).
        values: (..., N, S, H), or with several heads (..., N, A, S, H / A).
        keep: (..., N, S), with several heads (..., N, 1, S): True where attention may go; None:
            everywhere.
        hand: what takes the place of the weights; None: they are the model's own.
    """

    keys: Tensor
    values: Tensor
    keep: Tensor | None
    hand: WeightIntervention | None = None


class Look(NamedTuple):
    """What came of looking.

    Attributes:
        context: (..., N, T, H), the weighted sum of the values.
        weights: (..., N, T, S), with several heads (..., N, A, T, S).
        last: what the next look starts from, where places decide too; else None.
        log_prob: of the choices made, shaped like weights without S, where they are to be
            reinforced; else None.
    """

    context: Tensor
    weights: Tensor
    last: Tensor | None = None
    log_prob: Tensor | None = None


class Attention(nn.Module):
    """Attention over the states of an encoder.

    Weights and weighted sum are two steps, so that whoever decodes has the weights in hand:

        memory = attention.remember(encoded, keep)
        weights = attention.weigh(queries, memory).weights    # (..., N, T, S)
        context = weighted_sum(weights, memory.values)        # (..., N, T, H)

    `look` is all of it, for several heads too.

    Args:
        score: how well a key suits a query.
        normalizer: from scores to weights; None: softmax.
        location: how places decide too; None: not at all.
        value: what is averaged instead of the encoder's states.
    """

    def __init__(
        self,
        score: Score,
        *,
        normalizer: Normalizer | None = None,
        location: Location | None = None,
        value: Linear | None = None,
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.location = location
        self.value = value
        self.heads = score.heads

    @property
    def is_plain(self) -> bool:
        """Whether its weights are the softmax of one head's scores, and of no subclass."""
        return self.heads == 1 and self.location is None and type(self.normalizer) is Softmax

    def remember(self, encoded: Tensor, keep: Tensor | None) -> Memory:
        """Keys and values of encoder states (..., N, S, H)."""
        values = encoded if self.value is None else self.value(encoded)
        if self.heads > 1 and keep is not None:
            keep = keep.unsqueeze(-2)
        return Memory(self.score.keys(encoded), split_heads(values, self.heads), keep)

    def weigh(
        self,
        queries: Tensor,
        memory: Memory,
        last: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> tuple[NormalizerOutput, Tensor | None]:
        """How much each query takes from each source point.

        Args:
            queries: (..., N, T, H).
            last: of the look before; None: this is the first.
            numbers: uniform over [0, 1), shaped like weights without S, to draw hard choices
                with; None: nothing is left to chance.

        Returns:
            weights (..., N, T, S), with several heads (..., N, A, T, S), and what the next look
            starts from.
        """
        scores = self.score.scores(queries, memory.keys)
        if self.location is None:
            return self.normalizer.weigh(scores, memory.keep, numbers), None
        weights, last = self.location.weigh(self.normalizer, queries, scores, memory.keep, last)
        return NormalizerOutput(weights), last

    def look(
        self,
        queries: Tensor,
        memory: Memory,
        last: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> Look:
        """Context and weights of queries (..., N, T, H); see `weigh` for the arguments."""
        if self.is_plain and memory.hand is None:  # the same with fewer calls
            weights = softmax(self.score.scores(queries, memory.keys), memory.keep)
            return Look(weighted_sum(weights, memory.values), weights)
        (weights, log_prob), last = self.weigh(queries, memory, last, numbers)
        if memory.hand is not None:
            weights = memory.hand(weights, memory.keep)
            last = None if last is None else weights.select(-2, -1)
        context = join_heads(weighted_sum(weights, memory.values), self.heads)
        return Look(context, weights, last, log_prob)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """The context: weights (..., T, S) and values (..., S, H) -> (..., T, H)."""
    return product(weights, values)


def build_attention(config: AttentionKnobs, hidden: int) -> Attention:
    """The attention that a config describes, for states of width `hidden`."""
    return Attention(
        build_score(config, hidden),
        normalizer=build_normalizer(config),
        location=build_location(config.location, hidden, config.heads),
        value=Linear(hidden, hidden) if config.project_values else None,
    )
