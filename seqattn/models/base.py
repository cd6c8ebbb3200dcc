"""The interface of every model: a forward pass for training, a free-running forecast, and outputs
that can contain the attention weights.

In shapes, N is the number of sequences, S the source length, T the target length, F the number of
features, and A the number of heads. In a shape, `...` is an optional leading axis of R runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional
from torch import Tensor, nn

from seqattn.errors import UsageError
from seqattn.models.attention import AttentionOverride
from seqattn.models.attention.intervention import AttentionKind as AttentionKind
from seqattn.models.attention.normalizers import WeightSemantics as WeightSemantics
from seqattn.models.layers import Linear, TiedLinear
from seqattn.models.modality import RNG as RNG
from seqattn.models.modality import Endings, Modality
from seqattn.models.modality import FeatureSpec as FeatureSpec
from seqattn.models.skip import LinearSkip
from seqattn.models.teacher_forcing import check_source, check_steps


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention layer, and the meaning of these weights.

    Attributes:
        weights: the weights (..., N, A, queries, keys). The weights of keys in the padding of the
            source are 0.
        kind: the kind of attention. "cross" means that the target attends to the source, (T, S).
            "encoder_self" means that the source attends to itself, (S, S). "decoder_self" means
            that the target attends to itself, (T, T), with weight 0 for later steps.
        meaning: the meaning of the model's own weights. With "distribution", the weights are
            non-negative, and the weights of each valid query sum to 1. With "partial", the weights
            are non-negative, and the weights of each query sum to at most 1. With "strength", the
            weights are signed, and each weight is the coefficient of a past state in the vector
            that is read from the fast weights.
        layer: the index of the layer among the layers of the same kind, counted from 0.
    """

    weights: Tensor
    kind: AttentionKind = "cross"
    meaning: WeightSemantics = "distribution"
    layer: int = 0


@dataclass(frozen=True)
class SampledActions:
    """The values that REINFORCE (Williams 1992) needs for hard attention.

    Attributes:
        log_prob: log-probability of the positions sampled at each step, (..., N, T).
        baseline: learned estimate of the squared error of one step, in a shape that broadcasts to
            `log_prob`.
    """

    log_prob: Tensor
    baseline: Tensor


class ModelOutput:
    """A forecast, and the attention weights from which the forecast was computed.

    Attributes:
        values: the outputs (..., N, T, width of an output). For vectors, they are the forecast
            (..., N, T, F); in general, `Modality.read` turns them into steps.
        attention: one map per attention layer; empty for a model without attention, or if no
            weights were requested.
        actions: the values that REINFORCE needs; None without REINFORCE or without sampling.
        pending: during a forward pass of training, the states (..., N, T, width) and the output
            layer that maps them to the outputs, so that a loss can be computed together with the
            layer; None otherwise, and as soon as the outputs have been read.
    """

    def __init__(
        self,
        values: Tensor,
        attention: tuple[AttentionMap, ...] = (),
        actions: SampledActions | None = None,
    ) -> None:
        self.pending: PendingOutputs | None = None
        self._values, self.attention, self.actions = values, attention, actions

    @classmethod
    def of_states(
        cls, states: Tensor, layer: Linear | TiedLinear,
        attention: tuple[AttentionMap, ...], actions: SampledActions | None = None,
    ) -> ModelOutput:  # fmt: skip
        """Build the output from the states that the output layer maps. In training, the layer is
        applied only if the outputs are read."""
        if not (torch.is_grad_enabled() and layer.training):
            return cls(layer(states), attention, actions)
        output = cls(states, attention, actions)
        output.pending = PendingOutputs(states, layer)
        return output

    @property
    def values(self) -> Tensor:
        if self.pending is not None:
            self._values, self.pending = self.pending.layer(self._values), None
        return self._values


class PendingOutputs(NamedTuple):
    """The states (..., N, T, width) that an output layer maps to outputs, and the layer."""

    states: Tensor
    layer: Linear | TiedLinear


class DecoderStart(NamedTuple):
    """A decoder before its first step in free running.

    Attributes:
        decoder_input: the first decoder input (..., N, F); see `Modality.start_token`.
        memory: what all steps read, such as the keys and values of the source: a tensor, or tuples
            of tensors, each with the axis N after the axis of runs. None and whole numbers are
            allowed at any place, and so are objects with a method `take(rows)` that returns the
            memory of the given sequences of a single run.
        state: what a step changes, in the same form as the memory.
        maps: the attention of the encoder.
    """

    decoder_input: Tensor
    memory: Any
    state: Any
    maps: tuple[AttentionMap, ...] = ()


class DecoderStep(NamedTuple):
    """One step of a decoder in free running.

    Attributes:
        output: the output (..., N, 1, width of an output) without the skip connection.
        maps: the attention of the step, one query for each layer; empty if it was not requested.
        state: the state after the step.
    """

    output: Tensor
    maps: tuple[AttentionMap, ...]
    state: Any


class Seq2SeqModel(nn.Module, ABC):
    """The interface of every model. A model stores its parameters, but no intermediate results.

    Attributes:
        features: the features of source and target.
        source_modality: what a source step is. `build_model` sets this attribute and the next one
            if the constructor of a model does not.
        target_modality: what a target step is.
        max_length: the greatest length of a source or a target that the network accepts; None if
            there is no such limit.
        shares_memory: whether `decoder_step` accepts B times as many inputs and states as the
            memory has sequences, so that B of them in a row read the memory of one sequence.
        skip: the skip connection, a linear map of the source that is added to the output of the
            network; None if the model has no skip connection.
    """

    features: FeatureSpec
    source_modality: Modality
    target_modality: Modality
    max_length: int | None = None
    shares_memory = False

    def __init__(self) -> None:
        super().__init__()
        self.skip: LinearSkip | None = None

    @property
    def frozen_parameters(self) -> frozenset[str]:
        """The names of the parameters that no optimizer changes."""
        if self.skip is None or self.skip.is_trainable:
            return frozenset()
        return frozenset(f"skip.{name}" for name, _ in self.skip.named_parameters())

    def attention_shape(self) -> tuple[int, int]:
        """Return the number of layers and the number of heads of the attention weights over the
        source, which an override can replace.

        Raises:
            UsageError: if the model has no weights that can be replaced.
        """
        raise UsageError("the model has no attention weights that can be replaced.")

    def skip_outputs(
        self, source: Tensor, lengths: Tensor | None, segment_lengths: Sequence[int]
    ) -> Sequence[Tensor | None]:
        """Return the output of the skip connection for each segment of decoder steps.

        Args:
            source, lengths: the arguments `source` and `source_lengths` of `forward`.
            segment_lengths: the number of steps of each segment, in the order of the segments.

        Returns:
            one tensor (..., N, steps, F) per segment, or one None per segment if the model has no
                skip connection.

        Raises:
            DataError: if a source has a length for which the skip connection has no weights.
            UsageError: if the skip connection has no weights for some of the steps.
        """
        if self.skip is None:
            return [None] * len(segment_lengths)
        output = self.skip(source, lengths, sum(segment_lengths))
        return torch.split(output, list(segment_lengths), dim=-2)

    @abstractmethod
    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        teacher_forcing: Tensor,
        with_attention: bool = True,
        rng: RNG | None = None,
    ) -> ModelOutput:
        """Run the training pass, which forecasts T steps. The mask `teacher_forcing` selects the
        steps with teacher forcing.

        Args:
            source: the sources (..., N, S, F).
            target: the targets (..., N, T, F). The number of features F may differ between source
                and target; see `FeatureSpec`.
            source_lengths: number of valid steps of each source, (..., N); None if all S steps are
                valid.
            teacher_forcing: booleans that broadcast to (..., N, T), on the CPU, or on the GPU if
                the pass is captured as a CUDA graph. If the value of a step t > 0 is True, the
                input of step t is the target at step t - 1. If the value is False, the input is the
                model's own output at step t - 1. The input of step 0 is always the start token; see
                `FeatureSpec.start_token`.
            with_attention: whether the output contains attention weights; False is faster.
            rng: source of the random numbers for dropout and hard attention. With None, as in
                validation, there is no dropout, and hard attention selects the most probable
                position.

        Raises:
            ValueError: if shapes or lengths do not fit together.
            DataError: if a source has a length for which the skip connection has no weights.
            UsageError: if the model does not accept the lengths.
        """

    def begin(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None,
        with_attention: bool,
        override: AttentionOverride | None = None,
    ) -> DecoderStart:
        """Encode the source for a free-running decoder of at most `steps` steps; see `forecast`.

        A model that overrides `forecast` need not define this method and `decoder_step`. It then
        has greedy forecasts only.

        Raises:
            UsageError: if the model does not accept the lengths, or has no such decoder.
        """
        raise UsageError(
            f"{type(self).__name__} defines forecast, but not begin and decoder_step, which beam"
            " search and sampling need."
        )

    def decoder_step(
        self, decoder_input: Tensor, memory: Any, state: Any, *, with_attention: bool
    ) -> DecoderStep:
        """Run one step of a free-running decoder.

        Args:
            decoder_input: the decoder input (..., N, F).
            memory: the attribute `memory` of the result of `begin`.
            state: the state that `begin` or the previous step returned.
            with_attention: whether the result contains attention weights.
        """
        raise NotImplementedError

    def forecast(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None = None,
        with_attention: bool = True,
        override: AttentionOverride | None = None,
    ) -> ModelOutput:
        """Forecast `steps` steps from the source alone (free running, also called autoregressive).
        If the steps say where a sequence ends, the forecast stops when all sequences have ended.

        Args:
            source: the sources (..., N, S, F). Values after the last valid step have no effect.
            steps: the number of steps T, 1 or more.
            source_lengths: number of valid steps of each source, (..., N); None if all S steps are
                valid.
            with_attention: whether the output contains attention weights; False is faster.
            override: the override that replaces the attention weights; None keeps the model's own
                weights.

        Raises:
            ValueError: if shapes or lengths do not fit together, or if `steps` is less than 1.
            DataError: if a source has a length for which the skip connection has no weights.
            UsageError: if the model does not accept the lengths or the override.
        """
        check_source(source, source_lengths, self.features)
        check_steps(steps)
        if override is not None:
            self.attention_shape()  # raises a UsageError for a model without such attention
        start = self.begin(
            source, steps, source_lengths=source_lengths, with_attention=with_attention,
            override=override,
        )  # fmt: skip
        decoder_input, state = start.decoder_input, start.state
        values, rows = list[Tensor](), list[tuple[AttentionMap, ...]]()
        endings = Endings(self.target_modality)
        for skip in self.skip_outputs(source, source_lengths, [1] * steps):
            output, maps, state = self.decoder_step(
                decoder_input, start.memory, state, with_attention=with_attention
            )
            values.append(output if skip is None else output + skip)
            decoder_input = self.target_modality.read(values[-1].select(-2, 0))
            rows.append(maps)
            if endings.add(decoder_input):
                break
        return ModelOutput(torch.cat(values, dim=-2), _join_rows(rows, start.maps))


def _join_rows(
    rows: Sequence[tuple[AttentionMap, ...]], encoder: tuple[AttentionMap, ...]
) -> tuple[AttentionMap, ...]:
    """Join the maps of T steps, and put those of the encoder after the cross-attention. The weights
    of the target over itself get a 0 for each later step."""
    joined, T = list[AttentionMap](), len(rows)
    for layer in zip(*rows, strict=True):
        weights = [row.weights for row in layer]
        if layer[0].kind == "decoder_self":
            pad = torch.nn.functional.pad
            weights = [pad(row, (0, T - row.shape[-1])) for row in weights]
        joined.append(replace(layer[0], weights=torch.cat(weights, dim=-2)))
    cross = [one for one in joined if one.kind == "cross"]
    return (*cross, *encoder, *(one for one in joined if one.kind != "cross"))
