"""Scores: how well a key suits a query.

A score is two functions, because everything about a source can be worked out once, before the
first query comes. Letters: N sequences, S source length, T queries, H width of the encoder's
and decoder's states, K width in which queries meet keys. All may carry leading axes.

To add a score: a variant in `seqattn/config/knobs.py`, a class here, its arm in `build_score`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import assert_never

from torch import Tensor, nn

from seqattn.config import (
    AdditiveAttention,
    Attention,
    DotAttention,
    GeneralAttention,
    ScaledDotAttention,
    UniformAttention,
)
from seqattn.layers import Affine, product


class Score(nn.Module, ABC):
    """The interface of every score."""

    @abstractmethod
    def keys(self, encoded: Tensor) -> Tensor:
        """Encoder states (..., N, S, H) -> keys (..., N, S, K); once for each source."""

    @abstractmethod
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Decoder states (..., N, T, H) and keys -> scores (..., N, T, S)."""


class UniformScore(Score):
    """Every key suits every query: score 0."""

    def keys(self, encoded: Tensor) -> Tensor:
        return encoded

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        *_, T, _ = queries.shape
        *lead, S, _ = keys.shape
        return queries.new_zeros(*lead, T, S)


class DotScore(Score):
    """q . k (Luong et al. 2015, "Effective Approaches to Attention-based NMT", eq. 8, dot)."""

    def keys(self, encoded: Tensor) -> Tensor:
        return encoded

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(queries, keys.mT)


class ScaledDotScore(Score):
    """q . k / sqrt(K) (Vaswani et al. 2017, "Attention Is All You Need", eq. 1).

    Queries and keys are affine maps of the states, or (width None) the states themselves.
    """

    def __init__(self, hidden: int, width: int | None) -> None:
        super().__init__()
        self.query = Affine(hidden, width) if width is not None else None
        self.key = Affine(hidden, width) if width is not None else None

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        *_, K = keys.shape
        return keys / math.sqrt(K)  # here it is done once for each source, not for each query

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        return product(projected, keys.mT)


class GeneralScore(Score):
    """q . W k (Luong et al. 2015, eq. 8, general)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.key = Affine(hidden, hidden, bias=False)

    def keys(self, encoded: Tensor) -> Tensor:
        return self.key(encoded)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return product(queries, keys.mT)


class AdditiveScore(Score):
    """v . tanh(W q + U k) (Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning
    to Align and Translate", appendix A.1.2; Luong et al. 2015 call it concat).

    The paper's s is our query q, its h our key k; U k is worked out once for each source.
    """

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.query = Affine(hidden, width, bias=False)
        self.key = Affine(hidden, width)
        self.combine = Affine(width, 1, bias=False)

    def keys(self, encoded: Tensor) -> Tensor:
        return self.key(encoded)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        met = self.query(queries).unsqueeze(-2) + keys.unsqueeze(-3)  # (..., N, T, S, K)
        return self.combine(met.tanh()).squeeze(-1)


def build_score(config: Attention, hidden: int) -> Score:
    """The score that a config names, for states of width `hidden`."""
    match config:
        case UniformAttention():
            return UniformScore()
        case DotAttention():
            return DotScore()
        case ScaledDotAttention():
            width = (config.key_dim or hidden) if config.project_query_key else None
            return ScaledDotScore(hidden, width)
        case GeneralAttention():
            return GeneralScore(hidden)
        case AdditiveAttention():
            return AdditiveScore(hidden, config.key_dim or hidden)
        case _:
            assert_never(config)
