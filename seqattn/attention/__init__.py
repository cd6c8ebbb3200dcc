"""Attention: a score says how well a key suits a query, a normalizer turns scores into weights,
and the context is the weighted sum of the values."""

from seqattn.attention.attention import Attention, Memory, build_attention, weighted_sum
from seqattn.attention.normalizers import softmax
from seqattn.attention.scores import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
    UniformScore,
)

__all__ = [
    "AdditiveScore",
    "Attention",
    "DotScore",
    "GeneralScore",
    "Memory",
    "ScaledDotScore",
    "Score",
    "UniformScore",
    "build_attention",
    "softmax",
    "weighted_sum",
]
