"""The layers of the Transformer: positional encodings, attention with a cache, encoder layers and
decoder layers.

Section and equation numbers refer to Vaswani et al. 2017. The symbols in shapes are defined in
`seqattn.models.transformer`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.config import Transformer
from seqattn.models.attention import softmax
from seqattn.models.attention.scores import join_heads, split_heads
from seqattn.models.layers import LayerNorm, Linear, at_least_float32
from seqattn.models.noise import Dropout

ReplaceWeights = Callable[[Tensor, Tensor | None], Tensor]
"""A function (weights, keep) -> weights. The weights are (..., L, S). The mask `keep` broadcasts to
(..., S), or is None."""


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
    """A sinusoidal encoding without parameters (section 3.5). At position t, feature 2i is sin(t /
    10000^(2i / D)), and feature 2i + 1 is the cosine of the same angle."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def encode(self, first: int, last: int, like: Tensor) -> Tensor:
        """Return the encodings (L, D) of positions `first` to `last - 1` in the dtype of `like`, or
        in float32 if this dtype is narrower."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        place = torch.arange(first, last, dtype=dtype, device=like.device).unsqueeze(-1)
        even = torch.arange(0, self.width, 2, dtype=dtype, device=like.device)
        angles = place * torch.exp(even * (-math.log(10_000.0) / self.width))
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return waves[:, : self.width]  # if the width is odd, the last feature is a sine


Positions = LearnedPositionalEmbedding | SinusoidalPositionalEncoding


def build_positions(config: Transformer, width: int) -> Positions | None:
    """Build the positional encoding that a config selects; return None if the config selects
    none."""
    match config.positions:
        case "learned":
            assert config.longest is not None
            return LearnedPositionalEmbedding(config.longest, width)
        case "sinusoidal":
            return SinusoidalPositionalEncoding(width)
        case "none":
            return None
        case _:
            assert_never(config.positions)


def add_positions(x: Tensor, positions: Positions | None, first: int) -> Tensor:
    """Add the encodings of positions `first` to `first + L - 1` to x (..., N, L, D)."""
    return x if positions is None else x + positions.encode(first, first + x.shape[-2], x)


class KVCache(NamedTuple):
    """The keys and values of S source steps or of S decoder steps. Keys and values have the shape
    (..., N, A, S, D / A)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention (eq. 1 and section 3.2.2). Each of the A heads has the width D / A and
    its own linear projections of queries, keys and values. The results of the heads are
    concatenated and projected."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.out = Linear(width, width)
        self.heads = heads

    def cache(self, x: Tensor) -> KVCache:
        """Compute the keys and values of x (..., N, L, D)."""
        return KVCache(self._split(self.key(x)), self._split(self.value(x)))

    def queries(self, x: Tensor) -> Tensor:
        """Compute the queries (..., N, A, L, D / A) of x (..., N, L, D)."""
        return self._split(self.query(x))

    def attend(
        self,
        x: Tensor,
        cache: KVCache,
        keep: Tensor | None,
        *,
        causal: bool = False,
        with_weights: bool,
        replace: ReplaceWeights | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the attention of L vectors to the cached keys and values.

        Args:
            x: the L vectors from which the queries are computed, (..., N, L, D).
            cache: the keys and values of S steps.
            keep: mask (..., N, S), True at valid keys; None if all keys are valid.
            causal: whether query t may attend to keys 0 to t only; L must then equal S.
            with_weights: whether to return the weights; False allows torch's fused attention.
            replace: a function that replaces the weights; None keeps the weights.

        Returns:
            the result (..., N, L, D), and the weights (..., N, A, L, S), or None if torch's fused
                attention was used.
        """
        keys, values = cache
        queries = self.queries(x)
        *_, L, width = queries.shape
        if not with_weights and replace is None:
            mask = None if keep is None else keep[..., None, None, :]
            context = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=causal)
            return self.out(self._join(at_least_float32(context))), None
        scores = at_least_float32(queries @ keys.mT) / math.sqrt(width)
        if causal:
            ahead = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(ahead, -float("inf"))
        weights = softmax(scores, None if keep is None else keep.unsqueeze(-2))
        if replace is not None:
            weights = replace(weights, None if keep is None else keep.unsqueeze(-2))
        return self.out(self._join(at_least_float32(weights @ values))), weights

    def _split(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3) if self.heads == 1 else split_heads(x, self.heads)

    def _join(self, x: Tensor) -> Tensor:
        return x.squeeze(-3) if self.heads == 1 else join_heads(x, self.heads)


class FeedForward(nn.Module):
    """The map W_2 max(0, W_1 x + b_1) + b_2 at every position (eq. 2)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = Linear(width, hidden), Linear(hidden, width)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class EncoderLayer(nn.Module):
    """An encoder layer: a self-attention sublayer, followed by a feed-forward sublayer (section
    3.1)."""

    def __init__(self, width: int, heads: int, hidden: int, norm: Literal["pre", "post"]) -> None:
        super().__init__()
        self.attend, self.feed = MultiHeadAttention(width, heads), FeedForward(width, hidden)
        self.attend_norm, self.feed_norm = LayerNorm(width), LayerNorm(width)
        self.pre_norm = norm == "pre"

    def forward(
        self, x: Tensor, keep: Tensor | None, dropout: Dropout, with_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the layer to x (..., N, S, D). Return the output (..., N, S, D), and the weights
        (..., N, A, S, S), or None if no weights were requested."""
        inner = self.attend_norm(x) if self.pre_norm else x
        cache = self.attend.cache(inner)
        sublayer, weights = self.attend.attend(inner, cache, keep, with_weights=with_weights)
        x = add_residual(x, dropout(sublayer), self.attend_norm, self.pre_norm)
        sublayer = self.feed(self.feed_norm(x) if self.pre_norm else x)
        return add_residual(x, dropout(sublayer), self.feed_norm, self.pre_norm), weights


class DecoderLayer(nn.Module):
    """A decoder layer: a causal self-attention sublayer, a cross-attention sublayer and a
    feed-forward sublayer (section 3.1)."""

    def __init__(self, width: int, heads: int, hidden: int, norm: Literal["pre", "post"]) -> None:
        super().__init__()
        self.attend, self.cross = MultiHeadAttention(width, heads), MultiHeadAttention(width, heads)
        self.feed = FeedForward(width, hidden)
        self.attend_norm, self.cross_norm = LayerNorm(width), LayerNorm(width)
        self.feed_norm = LayerNorm(width)
        self.pre_norm = norm == "pre"

    def forward(
        self,
        x: Tensor,
        memory: KVCache,
        keep: Tensor | None,
        dropout: Dropout,
        with_weights: bool,
        prev: KVCache | None = None,
        replace: ReplaceWeights | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, KVCache]:
        """Apply the layer to all steps at once, or to one step after the cached steps.

        Args:
            x: the input of the layer, (..., N, L, D).
            memory: the keys and values of the source, computed by `cross.cache`.
            keep: mask (..., N, S), True at valid source steps; None if all steps are valid.
            dropout: the dropout, which is applied to the output of each sublayer.
            with_weights: whether to return the weights.
            prev: the keys and values of the previous steps; None if there are no previous steps.
                With `prev`, L must be 1.
            replace: a function that replaces the weights of the cross-attention; see
                `MultiHeadAttention.attend`.

        Returns:
            the output (..., N, L, D); the weights over the target (..., N, A, L, t), where t is the
                number of steps in the new cache; the weights over the source (..., N, A, L, S); and
                the new cache, which is `prev` extended by the keys and values of x. The weights
                over the target are None if no weights were requested. The weights over the source
                are None if they were neither requested nor replaced.
        """
        inner = self.attend_norm(x) if self.pre_norm else x
        cache = self.attend.cache(inner)
        if prev is not None:
            cache = KVCache(*(torch.cat(pair, dim=-2) for pair in zip(prev, cache, strict=True)))
        causal = prev is None and x.shape[-2] > 1
        sublayer, self_weights = self.attend.attend(
            inner, cache, None, causal=causal, with_weights=with_weights
        )
        x = add_residual(x, dropout(sublayer), self.attend_norm, self.pre_norm)
        inner = self.cross_norm(x) if self.pre_norm else x
        sublayer, cross_weights = self.cross.attend(
            inner, memory, keep, with_weights=with_weights, replace=replace
        )
        x = add_residual(x, dropout(sublayer), self.cross_norm, self.pre_norm)
        sublayer = self.feed(self.feed_norm(x) if self.pre_norm else x)
        x = add_residual(x, dropout(sublayer), self.feed_norm, self.pre_norm)
        return x, self_weights, cross_weights, cache


def add_residual(x: Tensor, sublayer: Tensor, norm: LayerNorm, pre_norm: bool) -> Tensor:
    """Add the output of a sublayer to the input x of the sublayer. Normalize the sum unless
    `pre_norm` is True."""
    return x + sublayer if pre_norm else norm(x + sublayer)
