"""Sequence-to-sequence models behind one contract."""

from __future__ import annotations

from seqattn.config import Recurrent
from seqattn.layers import initialise
from seqattn.models.contract import AttentionMap, Choices, Draws, Forecast, SequenceModel
from seqattn.models.recurrent import RecurrentModel


def build_model(config: Recurrent, features: int, seed: int) -> SequenceModel:
    """The model that a config describes, freshly initialised.

    Args:
        config: the `model` section.
        features: F of source and target points.
        seed: the run's seed; the weights are a function of it.
    """
    model = RecurrentModel(config, features)
    initialise(model, seed)
    return model


__all__ = [
    "AttentionMap",
    "Choices",
    "Draws",
    "Forecast",
    "RecurrentModel",
    "SequenceModel",
    "build_model",
]
