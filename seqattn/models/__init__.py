"""Sequence-to-sequence models behind one contract."""

from __future__ import annotations

from typing import assert_never

import torch

from seqattn.config import FastWeights, Model, Recurrent, Transformer
from seqattn.models.base import (
    RNG,
    AttentionKind,
    AttentionMap,
    FeatureSpec,
    Forecast,
    SampledActions,
    Seq2SeqModel,
    WeightSemantics,
)
from seqattn.models.fast_weights import FastWeightsModel
from seqattn.models.layers import init_parameters
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.skip import Lengths, LinearSkip
from seqattn.models.transformer import TransformerModel


def build_model(
    config: Model, points: FeatureSpec | int, seed: int, lengths: Lengths | None = None
) -> Seq2SeqModel:
    """The model that a config describes, freshly initialised.

    Args:
        config: the `model` section.
        points: what source and target points have; a number where it is the same.
        seed: the run's seed; the weights are a function of it.
        lengths: points of every source and target, for `skip: linear`; None: they vary.
    """
    model = _made(config, points, lengths)
    init_parameters(model, seed)
    return model


def parameters_of(config: Model, points: FeatureSpec | int, lengths: Lengths | None = None) -> int:
    """How many numbers a model learns, without making it."""
    with torch.device("meta"):
        model = _made(config, points, lengths)
    return sum(parameter.numel() for parameter in model.parameters())


def _made(config: Model, points: FeatureSpec | int, lengths: Lengths | None) -> Seq2SeqModel:
    points = FeatureSpec.alike(points) if isinstance(points, int) else points
    model: Seq2SeqModel
    match config:
        case Recurrent():
            model = RecurrentModel(config, points, lengths)
        case FastWeights():
            model = FastWeightsModel(config, points, lengths)
        case Transformer():
            model = TransformerModel(config, points, lengths)
        case _:
            assert_never(config)
    return model


__all__ = [
    "RNG",
    "AttentionKind",
    "AttentionMap",
    "FastWeightsModel",
    "FeatureSpec",
    "Forecast",
    "Lengths",
    "LinearSkip",
    "RecurrentModel",
    "SampledActions",
    "Seq2SeqModel",
    "TransformerModel",
    "WeightSemantics",
    "build_model",
    "parameters_of",
]
