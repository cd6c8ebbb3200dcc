"""Sequence-to-sequence models behind one contract."""

from __future__ import annotations

from typing import assert_never

from seqattn.config import FastWeights, Model, Recurrent, Transformer
from seqattn.layers import initialise
from seqattn.models.contract import (
    AttentionMap,
    Choices,
    Draws,
    Forecast,
    MapKind,
    MapMeaning,
    SequenceModel,
)
from seqattn.models.fast_weights import FastWeightsModel
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.transformer import TransformerModel


def build_model(config: Model, features: int, seed: int) -> SequenceModel:
    """The model that a config describes, freshly initialised.

    Args:
        config: the `model` section.
        features: F of source and target points.
        seed: the run's seed; the weights are a function of it.
    """
    model: SequenceModel
    match config:
        case Recurrent():
            model = RecurrentModel(config, features)
        case FastWeights():
            model = FastWeightsModel(config, features)
        case Transformer():
            model = TransformerModel(config, features)
        case _:
            assert_never(config)
    initialise(model, seed)
    return model


__all__ = [
    "AttentionMap",
    "Choices",
    "Draws",
    "FastWeightsModel",
    "Forecast",
    "MapKind",
    "MapMeaning",
    "RecurrentModel",
    "SequenceModel",
    "TransformerModel",
    "build_model",
]
