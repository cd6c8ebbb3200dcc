"""Sequence-to-sequence models with a common interface, `Seq2SeqModel`."""

from __future__ import annotations

from typing import assert_never

import torch

from seqattn.config import FastWeights, Model, Recurrent, Transformer, extension
from seqattn.errors import PluginError
from seqattn.models.base import (
    RNG,
    AttentionKind,
    AttentionMap,
    FeatureSpec,
    ModelOutput,
    SampledActions,
    Seq2SeqModel,
    WeightSemantics,
)
from seqattn.models.fast_weights import FastWeightsModel
from seqattn.models.layers import init_parameters
from seqattn.models.plugin_models import PLUGIN_MODELS
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.skip import Lengths, LinearSkip
from seqattn.models.transformer import TransformerModel


def build_model(
    config: Model, features: FeatureSpec | int, seed: int, lengths: Lengths | None = None
) -> Seq2SeqModel:
    """Build the model that a config selects in float32, and initialize its parameters. The model is
    in eval mode.

    Args:
        config: the `model` section.
        features: the features of source and target, or the number of features if source and target
            have the same features.
        seed: the seed of the run, which determines the initial parameters.
        lengths: the lengths of the longest source and the longest target, which `skip: linear`
            requires; None if the lengths are unknown.

    Raises:
        PluginError: if the code of a plugin raises an exception, if the config selects a skip
            connection that the plugin's model does not build, or if a module has parameters without
            an initial distribution; see `init_parameters`.
        ValueError: if `model.skip` is `linear` and `lengths` is None.
    """
    # The session may have another default type, set with torch.set_default_dtype.
    model = _construct(config, features, lengths).float()
    if config.skip != "none" and model.skip is None and type(config) in PLUGIN_MODELS:
        raise PluginError(
            f"model.skip: {config.skip}: the plugin's model {config.kind} builds no skip"
            " connection. Set model.skip: none, or assign a skip connection to `self.skip` in the"
            " constructor of the model."
        )
    init_parameters(model, seed)
    return model.eval()


def count_parameters(
    config: Model, features: FeatureSpec | int, lengths: Lengths | None = None
) -> int:
    """Count the parameter values of a model without allocating them.

    Args:
        config: the `model` section.
        features, lengths: see `build_model`.
    """
    with torch.device("meta"):
        model = _construct(config, features, lengths)
    return sum(parameter.numel() for parameter in model.parameters())


def _construct(config: Model, features: FeatureSpec | int, lengths: Lengths | None) -> Seq2SeqModel:
    features = FeatureSpec.same(features) if isinstance(features, int) else features
    with extension.plugin_errors(list(extension.used_sources(config)), "the model's constructor"):
        if type(config) in PLUGIN_MODELS:
            return PLUGIN_MODELS[type(config)](config, features, lengths)
        match config:
            case Recurrent():
                return RecurrentModel(config, features, lengths)
            case FastWeights():
                return FastWeightsModel(config, features, lengths)
            case Transformer():
                return TransformerModel(config, features, lengths)
            case _:
                assert_never(config)


__all__ = [
    "RNG",
    "AttentionKind",
    "AttentionMap",
    "FastWeightsModel",
    "FeatureSpec",
    "Lengths",
    "LinearSkip",
    "ModelOutput",
    "RecurrentModel",
    "SampledActions",
    "Seq2SeqModel",
    "TransformerModel",
    "WeightSemantics",
    "build_model",
    "count_parameters",
]
