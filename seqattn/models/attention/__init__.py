"""Attention mechanisms. A score function computes a score for each pair of a query and a key, and a
normalizer turns the scores into weights. Location-based addressing can shift the weights, or
restrict them to a window. The context is the weighted sum of the values."""

from seqattn.models.attention.attention import (
    Attention,
    AttentionMemory,
    AttentionOutput,
    build_attention,
    weighted_sum,
)
from seqattn.models.attention.intervention import (
    AttentionOverride,
    ForcedWeights,
    Override,
    WeightIntervention,
)
from seqattn.models.attention.location_based import LocalWindow, Location, LocationShiftAddressing
from seqattn.models.attention.monotonic import HardMonotonic
from seqattn.models.attention.normalizers import (
    Entmax,
    Normalizer,
    Reinforce,
    Softmax,
    Sparsemax,
    StraightThrough,
    entmax,
    softmax,
    sparsemax,
)
from seqattn.models.attention.scores import (
    AdditiveScore,
    CosineScore,
    CoverageScore,
    DotScore,
    GeneralScore,
    LinearScore,
    ScaledDotScore,
    Score,
    UniformScore,
)

__all__ = [
    "AdditiveScore", "Attention", "AttentionMemory", "AttentionOutput", "AttentionOverride",
    "CosineScore", "CoverageScore", "DotScore", "Entmax", "ForcedWeights", "GeneralScore",
    "HardMonotonic", "LinearScore", "LocalWindow", "Location", "LocationShiftAddressing",
    "Normalizer", "Override", "Reinforce", "ScaledDotScore", "Score", "Softmax", "Sparsemax",
    "StraightThrough", "UniformScore", "WeightIntervention", "build_attention", "entmax", "softmax",
    "sparsemax", "weighted_sum",
]  # fmt: skip
