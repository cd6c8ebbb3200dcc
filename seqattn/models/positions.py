"""The positions of a Transformer. Absolute positions are added to the inputs of encoder and
decoder. The other kinds act inside self-attention, where only differences of positions matter.

In shapes, N is the number of sequences, A the number of heads, L the number of queries, S the
number of keys, D the width of a layer, K = D / A the width of a head, and `...` an optional leading
axis of runs. Query i and key j have the positions i and j, counted from 0. The L queries of
self-attention are the last L of the S steps.
"""

from __future__ import annotations

import math
from typing import assert_never

import torch
from torch import Tensor, nn

from seqattn.config import Transformer
from seqattn.models.layers import at_least_float32

BASE = 10_000.0
"""The base of the wavelengths of sinusoidal and rotary positions."""
DEFAULT_MAX_DISTANCE = 16
"""The largest distance of relative positions in Shaw et al. 2018, section 4.1."""


class LearnedPositionalEmbedding(nn.Module):
    """A learned vector for each of the first `max_length` positions (Gehring et al. 2017,
    "Convolutional Sequence to Sequence Learning", section 3.1). Each vector is initialized from
    U(-b, b) with b = 1/sqrt(D), so its expected squared norm is 1/3 for every D. The paper uses a
    normal distribution."""

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, width))
        self.init_bound = 1 / math.sqrt(width)
        self.max_length = max_length

    def encode(self, first: int, last: int, like: Tensor) -> Tensor:
        """Return the vectors of positions `first` to `last - 1` in a shape that broadcasts to
        `like` (..., N, L, D)."""
        assert last <= self.max_length
        embeddings = self.weight[..., first:last, :]
        return embeddings if embeddings.dim() == 2 else embeddings.unsqueeze(-3)


class SinusoidalPositionalEncoding(nn.Module):
    """A sinusoidal encoding without parameters (Vaswani et al. 2017, section 3.5). At position t,
    feature 2i is sin(t / 10000^(2i / D)), and feature 2i + 1 is the cosine of the same angle."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def encode(self, first: int, last: int, like: Tensor) -> Tensor:
        """Return the encodings (L, D) of positions `first` to `last - 1` in the dtype of `like`, or
        in float32 if this dtype is narrower."""
        waves = torch.stack(sines_and_cosines(first, last, self.width, like), dim=-1).flatten(-2)
        return waves[:, : self.width]  # if the width is odd, the last feature is a sine


AbsolutePositions = LearnedPositionalEmbedding | SinusoidalPositionalEncoding


def sines_and_cosines(first: int, last: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of the angles t / 10000^(2i / width) for the positions t from `first`
    to `last - 1` and i = 0, 1, ..., each (L, width / 2), rounded up, in float32 or wider."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    place = torch.arange(first, last, dtype=dtype, device=like.device).unsqueeze(-1)
    even = torch.arange(0, width, 2, dtype=dtype, device=like.device)
    angles = place * torch.exp(even * (-math.log(BASE) / width))
    return angles.sin(), angles.cos()


def add_positions(x: Tensor, positions: AbsolutePositions | None, first: int) -> Tensor:
    """Add the encodings of positions `first` to `first + L - 1` to x (..., N, L, D)."""
    return x if positions is None else x + positions.encode(first, first + x.shape[-2], x)


class AttentionPositions(nn.Module):
    """The positions inside attention. This class itself has none, as cross-attention, and as the
    self-attention of a Transformer with absolute positions.

    Attributes:
        is_fusable: whether torch's fused attention computes the result from `rotate` alone.
    """

    is_fusable = True

    def rotate(self, x: Tensor, first: int) -> Tensor:
        """Return the queries or keys x (..., N, A, L, K) of the positions `first` to `first + L -
        1`, rotated."""
        return x

    def add_scores(self, scores: Tensor, queries: Tensor) -> Tensor:
        """Add to the scaled scores (..., N, A, L, S) what depends on the difference of positions.

        Args:
            scores: the scaled scores of content.
            queries: the queries (..., N, A, L, K).
        """
        return scores

    def add_values(self, context: Tensor, weights: Tensor) -> Tensor:
        """Add to the weighted sum of the values, (..., N, A, L, K), what depends on the difference
        of positions.

        Args:
            context: the weighted sum.
            weights: the weights (..., N, A, L, S).
        """
        return context


class RotaryPositions(AttentionPositions):
    """Rotary positions (Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position
    Embedding", eq. 14 and 15). At position t, the elements 2i and 2i + 1 of a query or key are
    rotated by the angle t / 10000^(2i / K), so a product of query and key depends on the difference
    of their positions. The width K is even."""

    def rotate(self, x: Tensor, first: int) -> Tensor:
        *_, L, K = x.shape
        sin, cos = sines_and_cosines(first, first + L, K, x)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class LinearBiases(AttentionPositions):
    """ALiBi, attention with linear biases (Press, Smith and Lewis 2022, "Train Short, Test Long",
    section 3). Head a = 1, ..., A adds -2^(-8a / A) |i - j| to the scaled score of query i and key
    j. The paper has the causal case, j <= i. The encoder uses the distance in both directions."""

    is_fusable = False

    def add_scores(self, scores: Tensor, queries: Tensor) -> Tensor:
        *_, A, L, S = scores.shape
        heads = torch.arange(1, A + 1, dtype=scores.dtype, device=scores.device)
        factors = torch.exp2(-8 * heads / A)[:, None, None]
        return scores - factors * offsets(L, S, scores).abs().to(scores.dtype)


class RelativePositions(AttentionPositions):
    """Relative positions (Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position
    Representations", eq. 3 to 5). For each difference j - i, clipped to +-k, a learned vector is
    added to key j, and another one to value j. All heads share the vectors.

    Args:
        width: the width K of a head.
        max_distance: the largest distance k. All keys that are further away have the vectors of
            this distance.
    """

    is_fusable = False

    def __init__(self, width: int, max_distance: int) -> None:
        super().__init__()
        self.keys = RelativeVectors(width, max_distance)
        self.values = RelativeVectors(width, max_distance)

    def add_scores(self, scores: Tensor, queries: Tensor) -> Tensor:
        *_, L, S = scores.shape
        *_, K = queries.shape
        return scores + per_query(queries, self.keys(L, S).mT) / math.sqrt(K)

    def add_values(self, context: Tensor, weights: Tensor) -> Tensor:
        *_, L, S = weights.shape
        return context + per_query(weights, self.values(L, S))


class RelativeVectors(nn.Module):
    """A learned vector for each of the differences -k to k, in this order, initialized from U(-b,
    b) with b = 1/sqrt(K)."""

    def __init__(self, width: int, max_distance: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, width))
        self.init_bound = 1 / math.sqrt(width)
        self.max_distance = max_distance

    def __call__(self, L: int, S: int) -> Tensor:
        """Return the vectors of L queries and S keys, (..., L, S, K)."""
        k = self.max_distance
        vectors: Tensor = self.weight[..., offsets(L, S, self.weight).clamp(-k, k) + k, :]
        return vectors


def offsets(L: int, S: int, like: Tensor) -> Tensor:
    """Return the differences j - i of the positions of S keys and of the last L of them as queries,
    whole numbers (L, S), on the device of `like`."""
    keys = torch.arange(S, device=like.device)
    return keys - keys[S - L :].unsqueeze(-1)


def per_query(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply the rows of all sequences and heads for query i by matrix i: (..., N, A, L, W) and
    (..., L, W, M) -> (..., N, A, L, M)."""
    *_, N, A, _, _ = x.shape
    rows = x.flatten(-4, -3).transpose(-3, -2)  # (..., L, N A, W)
    products: Tensor = at_least_float32(rows @ matrices).transpose(-3, -2)
    return products.reshape(*products.shape[:-3], N, A, *products.shape[-2:])


def build_absolute_positions(config: Transformer) -> AbsolutePositions | None:
    """Build what is added to the inputs of encoder or decoder; None if nothing is."""
    match config.positions:
        case "learned":
            assert config.longest is not None
            return LearnedPositionalEmbedding(config.longest, config.model_dim)
        case "sinusoidal":
            return SinusoidalPositionalEncoding(config.model_dim)
        case "relative" | "alibi" | "rotary" | "none":
            return None
        case _:
            assert_never(config.positions)


def build_attention_positions(config: Transformer) -> AttentionPositions:
    """Build the positions inside one self-attention."""
    match config.positions:
        case "relative":
            k = DEFAULT_MAX_DISTANCE if config.max_distance is None else config.max_distance
            return RelativePositions(config.model_dim // config.heads, k)
        case "alibi":
            return LinearBiases()
        case "rotary":
            return RotaryPositions()
        case "sinusoidal" | "learned" | "none":
            return AttentionPositions()
        case _:
            assert_never(config.positions)
