"""The interface of every model: a forward pass for training, a free-running forecast, and outputs
that carry their attention weights.

Letters: N sequences, S source length, T target length, F features, A heads. Every shape may
carry a leading axis of runs R.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from seqattn.errors import UsageError
from seqattn.models.attention import AttentionOverride
from seqattn.models.skip import LinearSkip

if TYPE_CHECKING:
    from seqattn.data import DataSpec

AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
WeightSemantics = Literal["distribution", "partial", "strength"]


class RNG(Protocol):
    """Random numbers of one training step, from the named streams of each run."""

    def uniform(self, name: Literal["sampling", "dropout"], *shape: int) -> Tensor:
        """New numbers, uniform over [0, 1), at every call.

        Args:
            shape: shape for one run. With several runs, the result has a leading axis of runs, and
                each run gets the numbers that it would draw alone.
        """
        ...


@dataclass(frozen=True)
class FeatureSpec:
    """Features of the source and of the target.

    Attributes:
        source_dim: number of features of a source step.
        target_dim: number of features of a target step.
        source_index_of_target: for each target feature its index among the source features, or -1.
    """

    source_dim: int
    target_dim: int
    source_index_of_target: tuple[int, ...]

    @classmethod
    def same(cls, features: int) -> FeatureSpec:
        """The same features in source and target."""
        return cls(features, features, tuple(range(features)))

    @classmethod
    def of(cls, spec: DataSpec) -> FeatureSpec:
        """The features that a `DataSpec` describes."""
        F, G = len(spec.source_features), len(spec.target_features)
        return cls(F, G, spec.scaling.source_index_of_target)

    @property
    def has_same_features(self) -> bool:
        return (
            self.source_index_of_target == tuple(range(self.source_dim))
            and self.source_dim == self.target_dim
        )

    def start_token(self, last_source: Tensor) -> Tensor:
        """The first decoder input (..., N, target_dim): the target features of the last valid
        source step (..., N, source_dim), and 0 for those that the source does not have."""
        if self.has_same_features:
            return last_source
        with_zero = torch.cat([last_source, torch.zeros_like(last_source[..., :1])], dim=-1)
        return with_zero[..., list(self.source_index_of_target)]


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention layer and their meaning.

    Attributes:
        weights: (..., N, A, queries, keys); 0 at padding.
        kind: queries and keys of the layer. "cross": decoder to source, (T, S); "encoder_self":
            source to source, (S, S); "decoder_self": target to target, (T, T), 0 for later steps.
        meaning: "distribution": non-negative, each row sums to 1 over the keys; "partial":
            non-negative, each row sums to at most 1; "strength": signed, the coefficient of each
            past state in a read from fast weights.
        layer: index of the layer among those of its kind, from 0.
    """

    weights: Tensor
    kind: AttentionKind = "cross"
    meaning: WeightSemantics = "distribution"
    layer: int = 0


@dataclass(frozen=True)
class SampledActions:
    """Sampled positions of hard attention, for REINFORCE (Williams 1992).

    Attributes:
        log_prob: (..., N, T), log-probability of the position that was sampled at each step.
        baseline: (..., 1, 1), expected squared error of one step.
    """

    log_prob: Tensor
    baseline: Tensor


@dataclass(frozen=True)
class ModelOutput:
    """A forecast and the attention weights that produced it.

    Attributes:
        values: (..., N, T, F).
        attention: one map per layer; empty for a model without attention.
        actions: sampled positions to reinforce; None if the model samples none.
    """

    values: Tensor
    attention: tuple[AttentionMap, ...] = ()
    actions: SampledActions | None = None


class Seq2SeqModel(nn.Module, ABC):
    """The interface of every model. A module holds parameters only: intermediate results are in
    its output.

    Attributes:
        features: features of source and target.
        max_length: greatest length of a source and of a target; None: no limit.
        skip: a linear map from the source whose output is added to the network's; None: none.
    """

    features: FeatureSpec
    max_length: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.skip: LinearSkip | None = None

    @property
    def frozen_parameters(self) -> frozenset[str]:
        """Names of the parameters that no optimizer changes."""
        if self.skip is None or self.skip.is_trainable:
            return frozenset()
        return frozenset(f"skip.{name}" for name, _ in self.skip.named_parameters())

    def attention_shape(self) -> tuple[int, int]:
        """Return the numbers of layers and heads of the attention weights over the source, which an
        override replaces.

        Raises:
            UsageError: the model has no weights that can be replaced.
        """
        raise UsageError("the model has no attention (model.attention: null).")

    def skip_outputs(
        self, source: Tensor, lengths: Tensor | None, segment_lengths: Sequence[int]
    ) -> Sequence[Tensor | None]:
        """The output of the skip for each segment of decoder steps, (..., N, steps, F); None
        without a skip.

        Args:
            source, lengths: as for `forward`.
            segment_lengths: number of steps of each segment, in order from the first step.

        Raises:
            DataError, UsageError: lengths or steps that the skip has no weights for.
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
        """The training pass: forecast T steps with teacher forcing at some or all of them.

        Args:
            source: (..., N, S, F).
            target: (..., N, T, F), where F may differ from that of the source; see `FeatureSpec`.
            source_lengths: (..., N), number of valid steps of each source; None: all S.
            teacher_forcing: booleans on the CPU that broadcast to (..., N, T). True: the input of
                step t is the target at step t - 1; False: the model's own output there. The input
                of step 0 is the last valid source step in both cases.
            with_attention: False leaves `attention` of the output empty, which is faster.
            rng: random numbers for dropout and hard attention; None: no dropout and the best
                position, as in validation.

        Raises:
            ValueError: shapes or lengths that do not fit.
        """

    @abstractmethod
    def forecast(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None = None,
        with_attention: bool = True,
        override: AttentionOverride | None = None,
    ) -> ModelOutput:
        """Free running (autoregressive): forecast `steps` steps from the source alone.

        Args:
            source: (..., N, S, F); values beyond a sequence's length are never read.
            steps: T, 1 or more.
            source_lengths: (..., N), number of valid steps of each source; None: all S.
            override: replaces the attention weights; None: the model's own weights.

        Raises:
            ValueError: shapes or lengths that do not fit.
            UsageError: an override for a model whose weights cannot be replaced.
        """
