"""Sequence-to-sequence models with a common interface, `Seq2SeqModel`: how they are built, and how
many numbers they store.

Here, S is the source length, T the target length, H the width of a recurrent state, D the width of
a Transformer, and K the width of the keys.
"""

from __future__ import annotations

from typing import assert_never

import torch

from seqattn.config import (
    AdditiveAttention,
    CoverageAttention,
    FastWeights,
    LocationShift,
    Model,
    Monotonic,
    Recurrent,
    Transformer,
    plugins,
)
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
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.registration import PLUGIN_MODELS
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
    features = FeatureSpec.same(features) if isinstance(features, int) else features
    model = _construct(config, features, lengths).float()
    if not hasattr(model, "target_modality"):  # the constructor of a plugin may leave them out
        model.source_modality, model.target_modality = features.modalities()
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
    """Count the parameter values of a model without allocating them."""
    with torch.device("meta"):
        model = _construct(config, features, lengths)
    return sum(parameter.numel() for parameter in model.parameters())


def _construct(config: Model, features: FeatureSpec | int, lengths: Lengths | None) -> Seq2SeqModel:
    features = FeatureSpec.same(features) if isinstance(features, int) else features
    with plugins.plugin_errors(list(plugins.used_sources(config)), "the model's constructor"):
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


def activations_per_sequence(model: Model, S: int, T: int, *, alone: bool = True) -> int:
    """Estimate how many numbers the forward and the backward pass store for one sequence of a
    batch. The estimate is meant to be an upper bound.

    - A recurrent model stores 40 * H numbers per step, for each layer and direction. For each pair
      of a source step and a target step, a recurrent model also stores 6 numbers per head. Each
      head after the first adds 2 * H numbers per source step. An additive score adds 4 * K numbers
      per pair, and location-based addressing adds at least 8 numbers per pair and head. Monotonic
      attention adds 2 * S more, for the pairs of source steps.
    - At every step and in every iteration of the inner loop, a model with fast weights stores the
      past states or the matrix, whichever is smaller.
    - A Transformer stores the activations of every sublayer. If the run is trained alone, torch's
      fused attention stores no attention weights. In a batch of runs, and with positions that fused
      attention does not support, a Transformer stores two to four numbers per attention weight.

    Args:
        alone: whether the run is trained alone, not in a batch with other runs.
    """
    if type(model) in PLUGIN_MODELS:
        return model.activations_per_sequence(S, T)
    match model:
        case Recurrent():
            H, attention, of_pair, of_heads = model.hidden_dim, model.attention, 6, 0
            if attention is not None:
                of_pair *= attention.heads
                of_heads = 2 * (attention.heads - 1) * S * H  # keys and their gradients
                if isinstance(attention, AdditiveAttention | CoverageAttention):
                    of_pair += 4 * (attention.key_dim or H)
                if attention.location is not None:
                    place, of_place = attention.location, 8
                    if isinstance(place, LocationShift):
                        of_place += 4 * place.shift_range
                    elif isinstance(place, Monotonic):
                        of_place += 8 + 2 * S
                    of_pair += attention.heads * of_place
            of_state = 40 * model.layers * (2 if model.bidirectional else 1)
            return (S + T) * of_state * H + T * S * of_pair + of_heads
        case FastWeights():
            H, L = model.hidden_dim, S + T
            return L * H * (40 + 6 * (1 + model.inner_steps) * min(L, H))
        case Transformer():
            D, hidden, L = model.model_dim, model.feedforward_dim, model.layers
            of_part = 14 * D + 2 * hidden if alone else 28 * D + 3 * hidden
            of_dropout = 10 * D if model.dropout else 0
            per_weight = {"relative": 4, "alibi": 2}.get(model.positions, 0 if alone else 2)
            of_pairs = per_weight * attention_weights_per_sequence(model, S, T)
            # The term 6 * D is the additional memory of one layer's backward pass.
            return (S + T) * (L * (of_part + of_dropout) + 6 * D) + of_pairs
        case _:
            assert_never(model)


def attention_weights_per_sequence(model: Model, S: int, T: int) -> int:
    """Count the attention weights of one sequence over all layers, heads and kinds of attention."""
    if not model.has_attention:
        return 0
    if type(model) in PLUGIN_MODELS:
        return model.attention_weights_per_sequence(S, T)
    match model:
        case Recurrent():
            return T * S * (1 if model.attention is None else model.attention.heads)
        case FastWeights():
            return T * S
        case Transformer():
            return model.layers * model.heads * (T * S + S * S + T * T)
        case _:
            assert_never(model)


__all__ = [
    "RNG", "AttentionKind", "AttentionMap", "FastWeightsModel", "FeatureSpec", "Lengths",
    "LinearSkip", "ModelOutput", "RecurrentModel", "SampledActions", "Seq2SeqModel",
    "TransformerModel", "WeightSemantics", "activations_per_sequence",
    "attention_weights_per_sequence", "build_model", "count_parameters",
]  # fmt: skip
