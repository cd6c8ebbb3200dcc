"""A score, a normalizer and the weighted sum, put together."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from seqattn.attention.normalizers import softmax
from seqattn.attention.scores import Score, build_score
from seqattn.config import Attention as AttentionConfig
from seqattn.layers import Affine, product


@dataclass(frozen=True)
class Memory:
    """What a decoder can look at, worked out once for each source.

    Attributes:
        keys: (..., N, S, K).
        values: (..., N, S, H).
        keep: (..., N, S), True where attention may go; None: everywhere.
    """

    keys: Tensor
    values: Tensor
    keep: Tensor | None


class Attention(nn.Module):
    """Content-based soft attention over the states of an encoder.

    Weights and weighted sum are two steps, so that whoever decodes has the weights in hand:

        memory = attention.remember(encoded, keep)
        weights = attention.weigh(queries, memory)        # (..., N, T, S)
        context = weighted_sum(weights, memory.values)    # (..., N, T, H)
    """

    def __init__(self, score: Score, *, value: Affine | None = None) -> None:
        super().__init__()
        self.score = score
        self.value = value

    def remember(self, encoded: Tensor, keep: Tensor | None) -> Memory:
        """Keys and values of encoder states (..., N, S, H)."""
        values = encoded if self.value is None else self.value(encoded)
        return Memory(self.score.keys(encoded), values, keep)

    def weigh(self, queries: Tensor, memory: Memory) -> Tensor:
        """How much each query (..., N, T, H) takes from each source point: (..., N, T, S)."""
        return softmax(self.score.scores(queries, memory.keys), memory.keep)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """The context: weights (..., N, T, S) and values (..., N, S, H) -> (..., N, T, H)."""
    return product(weights, values)


def build_attention(config: AttentionConfig, hidden: int) -> Attention:
    """The attention that a config describes, for states of width `hidden`."""
    value = Affine(hidden, hidden) if config.project_values else None
    return Attention(build_score(config, hidden), value=value)
