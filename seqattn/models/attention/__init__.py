"""Attention: a score says how well a key suits a query, a normalizer turns scores into weights,
places may have a say, and the context is the weighted sum of the values."""

from seqattn.models.attention.attention import (
    Attention,
    Look,
    Memory,
    build_attention,
    weighted_sum,
)
from seqattn.models.attention.intervention import Override, WeightIntervention
from seqattn.models.attention.location_based import LocalWindow, Location, LocationShiftAddressing
from seqattn.models.attention.normalizers import (
    Normalizer,
    Reinforce,
    Softmax,
    Sparsemax,
    StraightThrough,
    softmax,
    sparsemax,
)
from seqattn.models.attention.scores import (
    AdditiveScore,
    CosineScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
    UniformScore,
)

__all__ = [
    "AdditiveScore",
    "Attention",
    "CosineScore",
    "DotScore",
    "GeneralScore",
    "LocalWindow",
    "Location",
    "LocationShiftAddressing",
    "Look",
    "Memory",
    "Normalizer",
    "Override",
    "Reinforce",
    "ScaledDotScore",
    "Score",
    "Softmax",
    "Sparsemax",
    "StraightThrough",
    "UniformScore",
    "WeightIntervention",
    "build_attention",
    "softmax",
    "sparsemax",
    "weighted_sum",
]
