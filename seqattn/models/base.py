"""What every model is: two doors, and a forecast that carries its own explanation.

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

from seqattn.models.attention import Override
from seqattn.models.skip import LinearSkip

if TYPE_CHECKING:
    from seqattn.data import DataSpec

AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
WeightSemantics = Literal["distribution", "partial", "strength"]


class RNG(Protocol):
    """Random numbers for one training step, from the run's own named streams."""

    def uniform(self, name: Literal["sampling", "dropout"], *shape: int) -> Tensor:
        """Uniform over [0, 1), of a shape that has no axis of runs; the runs, if there are any,
        come first, each with the numbers it would draw alone. Every call draws new ones."""
        ...


@dataclass(frozen=True)
class FeatureSpec:
    """What a source point and a target point have.

    Attributes:
        given: features of a source point.
        said: features of a target point.
        carried: for each feature of a target point its place in a source point, or -1.
    """

    given: int
    said: int
    carried: tuple[int, ...]

    @classmethod
    def alike(cls, features: int) -> FeatureSpec:
        """The same features on both sides."""
        return cls(features, features, tuple(range(features)))

    @classmethod
    def of(cls, spec: DataSpec) -> FeatureSpec:
        """Those of sequences that a schema describes."""
        F, G = len(spec.source_features), len(spec.target_features)
        return cls(F, G, spec.scaling.source_index_of_target)

    @property
    def are_alike(self) -> bool:
        return self.carried == tuple(range(self.given)) and self.given == self.said

    def start_token(self, point: Tensor) -> Tensor:
        """What a decoder is fed first: of the last source point (..., N, given) what could have
        been said, and 0 for what is not given; (..., N, said)."""
        if self.are_alike:
            return point
        with_none = torch.cat([point, torch.zeros_like(point[..., :1])], dim=-1)
        return with_none[..., list(self.carried)]


@dataclass(frozen=True)
class AttentionMap:
    """Where one attention layer looked, and what its numbers mean.

    Attributes:
        weights: (..., N, A, queries, keys); 0 at padding.
        kind: what looked at what: "cross" is the decoder at the source, (T, S); "encoder_self" the
            source at itself, (S, S); "decoder_self" the target at itself, (T, T), 0 ahead.
        meaning: "distribution": non-negative, each row sums to 1 over the keys; "partial":
            non-negative, each row sums to 1 at most; "strength": signed, how strongly each state
            was read from a fast memory.
        layer: which layer of its kind, from 0.
    """

    weights: Tensor
    kind: AttentionKind = "cross"
    meaning: WeightSemantics = "distribution"
    layer: int = 0


@dataclass(frozen=True)
class SampledActions:
    """Hard choices that were drawn, and by what they are to be reinforced.

    Attributes:
        log_prob: (..., N, T), the logarithm of the chance of what was chosen at each step.
        baseline: (..., 1, 1), the mean squared error a step that a choice is measured by.
    """

    log_prob: Tensor
    baseline: Tensor


@dataclass(frozen=True)
class Forecast:
    """What a model says, and where it looked while saying it.

    Attributes:
        values: (..., N, T, F).
        attention: one map a layer; empty for a model without attention.
        choices: to be reinforced; None for a model that draws none.
    """

    values: Tensor
    attention: tuple[AttentionMap, ...] = ()
    choices: SampledActions | None = None


class Seq2SeqModel(nn.Module, ABC):
    """The interface of every model. It holds weights and nothing else: whatever was worked out
    on the way is in the forecast.

    Attributes:
        points: what it is given, and what it says.
        longest: points of the longest source, and of the longest target, that it can take; None:
            any number.
        skip: what is added to the network's output; None: nothing.
    """

    points: FeatureSpec
    longest: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.skip: LinearSkip | None = None

    @property
    def frozen(self) -> frozenset[str]:
        """Names of the parameters that no optimizer changes."""
        if self.skip is None or self.skip.trained:
            return frozenset()
        return frozenset(f"skip.{name}" for name, _ in self.skip.named_parameters())

    def skipped(
        self, source: Tensor, lengths: Tensor | None, stretches: Sequence[int]
    ) -> Sequence[Tensor | None]:
        """What the skip adds to each stretch of steps, (..., N, steps, F); None without a skip.

        Args:
            source, lengths: as for `forward`.
            stretches: steps of each, one after the other from the first.

        Raises:
            DataError, UsageError: lengths or steps that the skip has no weights for.
        """
        if self.skip is None:
            return [None] * len(stretches)
        added = self.skip(source, lengths, sum(stretches))
        return torch.split(added, list(stretches), dim=-2)

    @abstractmethod
    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        teacher_forcing: Tensor,
        with_attention: bool = True,
        draws: RNG | None = None,
    ) -> Forecast:
        """For training: forecast T steps, told the truth wherever a coin says so.

        Args:
            source: (..., N, S, F).
            target: (..., N, T, F), where F may differ from that of the source; see `FeatureSpec`.
            source_lengths: (..., N) real points of each source; None: all S.
            teacher_forcing: booleans on the CPU that broadcast to (..., N, T). True: step t is
                fed the true point of step t - 1; False: the model's own. Step 0 is fed the last
                source point either way. There is no default: training always says which.
            with_attention: False leaves the forecast's attention empty, where nobody looks.
            draws: what dropout and hard choices are drawn from; None: nothing is left to chance,
                as in validation.

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
        override: Override | None = None,
    ) -> Forecast:
        """Free running: forecast `steps` points from the source alone.

        Args:
            source: (..., N, S, F); what stands beyond a length is never read.
            steps: T, 1 or more.
            source_lengths: (..., N) real points of each source; None: all S.
            override: looks elsewhere than the model would; None: the model looks for itself.

        Raises:
            ValueError: shapes or lengths that do not fit.
            UsageError: an override for a model whose weights are none that could be replaced.
        """
