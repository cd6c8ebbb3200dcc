"""What a step of a source or of a target is for a model.

A `Modality` is the part of a model that depends on the kind of the steps: how a step enters the
network, which input the decoder gets first, how many numbers the output layer computes, how an
output becomes the next input, and what the error of an output is. The rest of a model, its body, is
the same for all kinds. The name and the idea are from Kaiser et al. 2017, "One Model To Learn Them
All", section 2.4 (modality nets).

In shapes, N is the number of sequences, L a number of steps, T the target length, F the number of
features of a step, E the width of an embedded step, and `...` an optional leading axis of R runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast

import torch
import torch.nn.functional
from torch import Tensor, nn

from seqattn.config import EmbeddingConfig, Training
from seqattn.data.tokens import BEGIN, END, UNKNOWN, Tokens
from seqattn.models.functions import computes_loss, cross_entropy_of_states
from seqattn.models.layers import Embedding, Linear, TiedLinear, at_least_float32

if TYPE_CHECKING:
    from seqattn.data import DataSpec

DEFAULT_EMBEDDING = EmbeddingConfig()


class RNG(Protocol):
    """A source of the random numbers of one training step. Each run has its own named streams of
    random numbers."""

    def uniform(self, name: Literal["sampling", "dropout", "feedback"], *shape: int) -> Tensor:
        """Draw new numbers from the uniform distribution over [0, 1].

        Args:
            name: name of the stream.
            shape: the shape of the result for one run. With several runs, the result has a leading
                axis of runs, and each run gets the numbers that it would get if it were trained
                alone.
        """
        ...


@dataclass(frozen=True)
class FeatureSpec:
    """The features of the source and of the target.

    Attributes:
        source_dim: the number of features of a source step.
        target_dim: the number of features of a target step.
        source_index_of_target: the index of each target feature among the source features, or -1 if
            the source does not have the feature.
        source_symbols: size of the vocabulary of the source, or 0 if its steps are vectors.
        target_symbols: size of the vocabulary of the target, or 0 if its steps are vectors.
        copied_symbols: for each source symbol, the target symbol with the same text, or the unknown
            symbol if there is none; None unless source and target are symbols.
    """

    source_dim: int
    target_dim: int
    source_index_of_target: tuple[int, ...]
    source_symbols: int = 0
    target_symbols: int = 0
    copied_symbols: tuple[int, ...] | None = None

    @classmethod
    def same(cls, features: int) -> FeatureSpec:
        """Build the spec of a source and a target that have the same features."""
        return cls(features, features, tuple(range(features)))

    @classmethod
    def of(cls, spec: DataSpec) -> FeatureSpec:
        """Build the spec from the features of a `DataSpec`."""
        F, G = len(spec.source_features), len(spec.target_features)
        sizes = spec.source.vocabulary_size, spec.target.vocabulary_size
        copied = None
        if isinstance(spec.source, Tokens) and isinstance(spec.target, Tokens):
            copied = tuple(spec.target.numbers(spec.source.symbols, ends=False).tolist())
        return cls(F, G, spec.source_index_of_target, *sizes, copied)

    @property
    def has_same_features(self) -> bool:
        return (
            self.source_index_of_target == tuple(range(self.source_dim))
            and not (self.source_symbols or self.target_symbols)
            and self.source_dim == self.target_dim
        )

    def modalities(
        self, width: int = 1, embedding: EmbeddingConfig | None = None
    ) -> tuple[Modality, Modality]:
        """Build the modality of the source and the modality of the target.

        Args:
            width: width of an embedded symbol if the config sets no other width.
            embedding: the section `model.embedding`; None for its defaults.
        """
        of_symbols = embedding or DEFAULT_EMBEDDING
        sides = (self.source_dim, self.source_symbols), (self.target_dim, self.target_symbols)
        source, target = (
            TokenModality(symbols, of_symbols.dim or width, of_symbols)
            if symbols
            else VectorModality(self, features)
            for features, symbols in sides
        )
        return source, target

    def start_token(self, last_source: Tensor) -> Tensor:
        """Return the first decoder input, (..., N, target_dim).

        The first decoder input consists of the target features of the last valid source step. A
        target feature that the source does not have is 0.

        Args:
            last_source: the last valid source step, (..., N, source_dim).
        """
        if self.has_same_features:
            return last_source
        with_zero = torch.cat([last_source, torch.zeros_like(last_source[..., :1])], dim=-1)
        return with_zero[..., list(self.source_index_of_target)]


class Modality(nn.Module, ABC):
    """The steps of one side of a model, the source or the target.

    Attributes:
        input_width: the width E of an embedded step.
        output_width: how many numbers the output layer computes for a target step.
    """

    input_width: int
    output_width: int
    vectors: Tensor | None = None
    """The vectors (..., V, E) of all symbols; None if the steps are vectors themselves."""
    is_scored_free_running = True
    """Whether the loss of validation is computed in free running. For symbols, the probability of a
    true symbol after a wrong one says little."""

    @abstractmethod
    def embed(self, steps: Tensor) -> Tensor:
        """Return the steps (..., L, F) as the network reads them, (..., L, E)."""

    @abstractmethod
    def input_layer(self, width: int) -> nn.Module:
        """Build a layer that maps steps (..., L, F) to (..., L, width), for a model that adds
        positions to its inputs."""

    @abstractmethod
    def output_layer(self, width: int) -> Linear | TiedLinear:
        """Build a layer that maps states (..., width) to outputs (..., output_width)."""

    @abstractmethod
    def start_token(self, last_source: Tensor) -> Tensor:
        """Return the first decoder input (..., N, F), given the last valid source step (..., N,
        features of the source)."""

    @abstractmethod
    def read(self, outputs: Tensor) -> Tensor:
        """Return the steps (..., F) that outputs (..., output_width) stand for. In free running,
        they are the next decoder input."""

    def has_ended(self, steps: Tensor) -> Tensor | None:
        """Return which sequences (..., N) end with the steps (..., N, F); None if the steps of this
        kind never say that a sequence ends."""
        return None

    def configure(self, config: Training) -> None:
        """Take over the keys of the section `training` that concern the steps of targets."""

    def drop_words(self, steps: Tensor, rng: RNG | None) -> Tensor:
        """Return the steps (..., N, L, F) that the network reads in training, some of which may be
        replaced at random; see `EmbeddingConfig.word_dropout`."""
        return steps

    def embedding_dropout(self, rng: RNG | None, N: int, L: int, like: Tensor) -> Tensor | None:
        """Draw the dropout factors (..., N, L, E) of embedded steps in the dtype of `like`; None
        for no dropout."""
        return None

    def draw_feedback(self, rng: RNG | None, N: int, T: int) -> Tensor | None:
        """Draw the random numbers (..., N, T) from which `feed` samples steps; None if steps are
        not sampled."""
        return None

    def feed(self, outputs: Tensor, u: Tensor | None, step: int) -> Tensor:
        """Return the inputs (..., N, F) of a step in training that the previous outputs determine.

        Args:
            outputs: the outputs (..., N, output_width) of the previous step.
            u: the result of `draw_feedback`.
            step: the step that gets the inputs.
        """
        return self.read(outputs)

    @abstractmethod
    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the error of each target cell, (..., N, T, F).

        Args:
            outputs: (..., N, T, output_width) outputs of the model.
            target: (..., N, T, F) targets.
        """

    def observe(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return what an evaluation keeps of the outputs of a teacher-forced pass, (..., N, T, K):
        the outputs, by default.

        Args:
            outputs: (..., N, T, output_width) outputs of the model.
            target: (..., N, T, F) targets.
        """
        return outputs

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        """Return the mean error of each run over all valid target cells, (...). The mean is 0 if no
        cell was observed.

        Args:
            outputs: (..., N, T, output_width) outputs of the model.
            target: (..., N, T, F) targets.
            keep: mask (..., N, T), True at valid target steps, or (..., N, T, F), True at observed
                cells. None means that all cells are valid.
        """
        return self.mean_error(self.errors(outputs, target), keep)

    def loss_of_states(
        self, states: Tensor, layer: Linear | TiedLinear, target: Tensor, keep: Tensor | None
    ) -> Tensor:
        """Return `loss` of the outputs to which the output layer maps the states (..., N, T,
        width)."""
        return self.loss(at_least_float32(layer(states)), target, keep)

    def mean_error(self, errors: Tensor, keep: Tensor | None) -> Tensor:
        """Return the mean of errors (..., N, T, F) over all valid cells; see `loss`."""
        if keep is None:
            return errors.mean(dim=(-3, -2, -1))
        if keep.dim() == errors.dim():
            total = errors.masked_fill(~keep, 0).sum(dim=(-3, -2, -1))
            return total / keep.sum(dim=(-3, -2, -1)).clamp(min=1)
        total = errors.masked_fill(~keep.unsqueeze(-1), 0).sum(dim=(-3, -2, -1))
        return total / (keep.sum(dim=(-2, -1)).clamp(min=1) * errors.shape[-1])


class Endings:
    """Which sequences of a free-running forecast have ended.

    Args:
        modality: the modality of the target.
    """

    def __init__(self, modality: Modality) -> None:
        self.modality = modality
        self.ended: Tensor | None = None

    def add(self, steps: Tensor) -> bool:
        """Add the next steps (..., N, F), and return whether all sequences have ended."""
        ended = self.modality.has_ended(steps)
        if ended is None:
            return False
        self.ended = ended if self.ended is None else self.ended | ended
        return bool(self.ended.all())


class VectorModality(Modality):
    """Steps that are vectors of F numbers. The network reads and writes the numbers themselves, and
    the error of a cell is the squared difference. There are no parameters.

    Args:
        features: the features of source and target.
        width: the number of features of this side.
    """

    def __init__(self, features: FeatureSpec, width: int) -> None:
        super().__init__()
        self.features, self.input_width, self.output_width = features, width, width

    def embed(self, steps: Tensor) -> Tensor:
        return steps

    def input_layer(self, width: int) -> nn.Module:
        return Linear(self.input_width, width)

    def output_layer(self, width: int) -> Linear | TiedLinear:
        return Linear(width, self.output_width)

    def start_token(self, last_source: Tensor) -> Tensor:
        return self.features.start_token(last_source)

    def read(self, outputs: Tensor) -> Tensor:
        return outputs

    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs - target).square()

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        if keep is None and outputs.dim() == 3:  # one operation instead of three
            return torch.nn.functional.mse_loss(outputs, target)
        return super().loss(outputs, target, keep)


class TokenModality(Modality):
    """Steps that are symbols of a vocabulary, as numbers (..., L, 1). The network reads learned
    vectors of the symbols, and its outputs are logits. The error of a step is the cross-entropy,
    the negative natural logarithm of the probability of the true symbol.

    The symbols of padding and of the begin of a sequence are never read from outputs.

    Args:
        symbols: size V of the vocabulary.
        width: width E of an embedded symbol.
        config: the section `model.embedding`.
    """

    is_scored_free_running = False

    def __init__(
        self, symbols: int, width: int, config: EmbeddingConfig = DEFAULT_EMBEDDING
    ) -> None:
        super().__init__()
        self.input_width, self.output_width, self.tied = width, symbols, config.tied
        self.dropout, self.word_dropout = config.dropout, config.word_dropout
        self.label_smoothing, self.samples_feedback = 0.0, False
        self.embedding = Embedding(symbols, width)

    def configure(self, config: Training) -> None:
        self.label_smoothing = config.label_smoothing
        self.samples_feedback = config.feedback == "sampled"

    def drop_words(self, steps: Tensor, rng: RNG | None) -> Tensor:
        if rng is None or self.word_dropout == 0:
            return steps
        dropped = rng.uniform("dropout", *steps.shape[-3:-1]) < self.word_dropout
        return steps.masked_fill(dropped.unsqueeze(-1) & (steps > UNKNOWN), UNKNOWN)

    def embedding_dropout(self, rng: RNG | None, N: int, L: int, like: Tensor) -> Tensor | None:
        if rng is None or self.dropout == 0:
            return None
        kept = rng.uniform("dropout", N, L, self.input_width) >= self.dropout
        return kept.to(like.dtype) / (1 - self.dropout)

    def draw_feedback(self, rng: RNG | None, N: int, T: int) -> Tensor | None:
        return rng.uniform("feedback", N, T) if rng is not None and self.samples_feedback else None

    def feed(self, outputs: Tensor, u: Tensor | None, step: int) -> Tensor:
        if u is None:
            return self.read(outputs)
        cumulative = outputs[..., END:].detach().softmax(dim=-1).cumsum(dim=-1)
        place = (cumulative < u[..., step, None] * cumulative[..., -1:]).sum(dim=-1, keepdim=True)
        return place.clamp(max=cumulative.shape[-1] - 1) + END

    def embed(self, steps: Tensor) -> Tensor:
        return self.embedding(steps.squeeze(-1))

    @property
    def vectors(self) -> Tensor:  # type: ignore[override]
        weight: Tensor = self.embedding.weight
        return weight

    def input_layer(self, width: int) -> nn.Module:
        return ScaledEmbedding(self, width)

    def output_layer(self, width: int) -> Linear | TiedLinear:
        if self.tied:
            return TiedLinear(self.embedding, width)
        return Linear(width, self.output_width)

    def start_token(self, last_source: Tensor) -> Tensor:
        return torch.full((*last_source.shape[:-1], 1), BEGIN, device=last_source.device)

    def read(self, outputs: Tensor) -> Tensor:
        return outputs[..., END:].argmax(dim=-1, keepdim=True) + END

    def has_ended(self, steps: Tensor) -> Tensor:
        return steps.squeeze(-1) == END

    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        return outputs.logsumexp(dim=-1, keepdim=True) - outputs.gather(-1, target)

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        """Return the mean cross-entropy; see `Modality.loss`.

        In training with label smoothing e, the target distribution gives 1 - e to the true symbol
        and e to all V symbols alike (Szegedy et al. 2016, "Rethinking the Inception Architecture
        for Computer Vision", section 7).
        """
        errors, e = self.errors(outputs, target), self.label_smoothing
        if self.training and e > 0:
            of_all = outputs.logsumexp(dim=-1, keepdim=True) - outputs.mean(dim=-1, keepdim=True)
            errors = (1 - e) * errors + e * of_all
        return self.mean_error(errors, keep)

    def loss_of_states(
        self, states: Tensor, layer: Linear | TiedLinear, target: Tensor, keep: Tensor | None
    ) -> Tensor:
        if type(layer) not in (Linear, TiedLinear) or not computes_loss(states, layer.weight):
            return super().loss_of_states(states, layer, target, keep)
        if isinstance(layer, TiedLinear) and layer.inner is not None:
            states = layer.inner(states)
        if (
            keep is not None and keep.dim() == target.dim()
        ):  # a mask of cells, of which a step has one
            keep = keep.squeeze(-1)
        share = states.new_ones(states.shape[:-1]) if keep is None else keep.to(states.dtype)
        share = share / share.sum(dim=(-2, -1), keepdim=True).clamp(min=1)
        e = self.label_smoothing if self.training else 0.0
        bias = cast("Tensor", layer.bias)
        return cross_entropy_of_states(states, layer.weight, bias, target, share, e)

    def observe(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the most probable symbols and the cross-entropies of the true symbols, (..., N, T,
        2)."""
        return torch.cat([self.read(outputs).double(), self.errors(outputs, target).double()], -1)


class ScaledEmbedding(nn.Module):
    """The embedding of a modality, times the square root of its width (Vaswani et al. 2017, section
    3.4).

    Args:
        modality: the modality whose embedding is used.
        width: width of the result. If it differs from the width of the embedding, a learned map
            follows.
    """

    def __init__(self, modality: TokenModality, width: int) -> None:
        super().__init__()
        E = modality.input_width
        self.source = [modality]  # in a list, so that its parameters do not count twice
        self.factor = math.sqrt(E)
        self.outer = None if width == E else Linear(E, width)

    def __call__(self, steps: Tensor) -> Tensor:
        x = self.source[0].embed(steps) * self.factor
        return x if self.outer is None else self.outer(x)
