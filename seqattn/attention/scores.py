"""Scores: how well a key suits a query.

A score is two functions, because everything about a source can be worked out once, before the
first query comes. Letters: N sequences, S source length, T queries, H width of the encoder's
and decoder's states, K width in which queries meet keys, A heads. All may carry leading axes.
With several heads (Vaswani et al. 2017, section 3.2.2) each compares its own K / A numbers of
query and key, and shapes carry an axis of heads: keys (..., N, A, S, K / A), scores
(..., N, A, T, S).

To add a score: a variant in `seqattn/config/knobs/model.py`, a class here, its arm in
`build_score`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import assert_never

import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.config import (
    AdditiveAttention,
    Attention,
    CosineAttention,
    DotAttention,
    GeneralAttention,
    ScaledDotAttention,
    UniformAttention,
)
from seqattn.layers import LearnedVector, Linear, product


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(..., L, W) -> (..., A, L, W / A), or x itself for one head."""
    return x if heads == 1 else x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def join_heads(x: Tensor, heads: int) -> Tensor:
    """(..., A, L, w) -> (..., L, A w), or x itself for one head."""
    return x if heads == 1 else x.transpose(-2, -3).flatten(-2)


class Score(nn.Module, ABC):
    """The interface of every score.

    Args:
        heads: A.
    """

    def __init__(self, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def keys(self, encoded: Tensor) -> Tensor:
        """Encoder states (..., N, S, H) -> keys (..., N, S, K); once for each source."""

    @abstractmethod
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Decoder states (..., N, T, H) and keys -> scores (..., N, T, S)."""


class UniformScore(Score):
    """Every key suits every query: score 0."""

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(encoded, self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        *_, T, _ = queries.shape
        *lead, S, _ = keys.shape
        return queries.new_zeros(*lead, T, S)


class DotScore(Score):
    """q . k (Luong et al. 2015, "Effective Approaches to Attention-based NMT", 3.1, dot)."""

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(encoded, self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(split_heads(queries, self.heads), keys.mT)


class ScaledDotScore(Score):
    """q . k / sqrt(K) (Vaswani et al. 2017, "Attention Is All You Need", eq. 1).

    Queries and keys are affine maps of the states, or (width None) the states themselves. With
    several heads the root is of a head's width.
    """

    def __init__(self, hidden: int, width: int | None, heads: int = 1) -> None:
        super().__init__(heads)
        self.query = Linear(hidden, width) if width is not None else None
        self.key = Linear(hidden, width) if width is not None else None

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        keys = split_heads(keys, self.heads)
        *_, K = keys.shape
        return keys / math.sqrt(K)  # here it is done once for each source, not for each query

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        return product(split_heads(projected, self.heads), keys.mT)


class GeneralScore(Score):
    """q . W k (Luong et al. 2015, 3.1, general). A head takes its share of q and of W k."""

    def __init__(self, hidden: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.key = Linear(hidden, hidden, bias=False)

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(self.key(encoded), self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(split_heads(queries, self.heads), keys.mT)


class AdditiveScore(Score):
    """v . tanh(W q + U k + b) (Bahdanau et al. 2015, "Neural Machine Translation by Jointly
    Learning to Align and Translate", appendix A.1.2, plus the bias b; Luong et al. 2015 call it
    concat).

    The paper's s is our query q, its h our key k; U k + b is worked out once for each source. A
    head takes its share of the hidden layer and of v.
    """

    def __init__(self, hidden: int, width: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.query = Linear(hidden, width, bias=False)
        self.key = Linear(hidden, width)
        self.combine = Linear(width, 1, bias=False)

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(self.key(encoded), self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        asked = split_heads(self.query(queries), self.heads)
        met = (asked.unsqueeze(-2) + keys.unsqueeze(-3)).tanh()  # (..., N, [A,] T, S, K)
        if self.heads == 1:
            return self.combine(met).squeeze(-1)
        v: Tensor = self.combine.weight.unflatten(-1, (self.heads, -1))  # ([R,] 1, A, K / A)
        return (met * v.unsqueeze(-2).unsqueeze(-2)).sum(-1)


class CosineScore(Score):
    """cos(q, k) / temperature (Graves, Wayne and Danihelka 2014, "Neural Turing Machines", eq. 5
    and 6, where the temperature's reciprocal is the key strength beta).

    Here the temperature is one learned number for all steps, kept positive by its logarithm.
    Queries and keys are affine maps of the states, or (width None) the states themselves. A
    vector of length 0 suits nothing: its scores are 0.
    """

    def __init__(
        self, hidden: int, width: int | None, heads: int = 1, *, temperature: float = 1.0
    ) -> None:
        super().__init__(heads)
        self.query = Linear(hidden, width) if width is not None else None
        self.key = Linear(hidden, width) if width is not None else None
        self.log_temperature = LearnedVector(math.log(temperature))

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        return F.normalize(split_heads(keys, self.heads), dim=-1)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        directions = F.normalize(split_heads(projected, self.heads), dim=-1)
        strength = (-self.log_temperature.over(directions)).exp()
        return product(directions * strength, keys.mT)


def build_score(config: Attention, hidden: int) -> Score:
    """The score that a config names, for states of width `hidden`."""
    heads = config.heads
    match config:
        case UniformAttention():
            return UniformScore(heads)
        case DotAttention():
            return DotScore(heads)
        case ScaledDotAttention():
            width = (config.key_dim or hidden) if config.project_query_key else None
            return ScaledDotScore(hidden, width, heads)
        case GeneralAttention():
            return GeneralScore(hidden, heads)
        case AdditiveAttention():
            return AdditiveScore(hidden, config.key_dim or hidden, heads)
        case CosineAttention():
            width = hidden if config.project_query_key else None
            return CosineScore(hidden, width, heads, temperature=config.temperature)
        case _:
            assert_never(config)
