"""The attention of a recurrent decoder: the score, the normalizer, optional location-based
addressing, and the weighted sum.

In shapes, N is the number of sequences, S the source length, T the number of queries, H the width
of encoder and decoder states, K the width of queries and keys, A the number of heads, and `...` an
optional leading axis of runs. "[A,]" denotes an axis that exists only with several heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqattn.config import ScoreConfig
from seqattn.models.attention.intervention import WeightIntervention
from seqattn.models.attention.location_based import Location, build_location
from seqattn.models.attention.normalizers import (
    Normalizer,
    NormalizerOutput,
    Softmax,
    build_normalizer,
    softmax,
)
from seqattn.models.attention.scores import (
    CoverageScore,
    Score,
    build_score,
    join_heads,
    split_heads,
)
from seqattn.models.layers import Linear, matmul


@dataclass(frozen=True)
class AttentionMemory:
    """The keys and values of a source, computed once for all queries.

    Attributes:
        keys: the keys (..., N, S, K), or (..., N, A, S, K / A) with several heads.
        values: the values (..., N, S, H), or (..., N, A, S, H / A) with several heads.
        keep: mask (..., N, S), or (..., N, 1, S) with several heads. As in torch's
            `scaled_dot_product_attention`, the mask is True at valid source steps and False at
            masked steps. None means that all steps are valid.
        intervention: the intervention that replaces the weights; None keeps the model's own
            weights.
    """

    keys: Tensor
    values: Tensor
    keep: Tensor | None
    intervention: WeightIntervention | None = None

    def take(self, rows: Tensor) -> AttentionMemory:
        """Return the memory of the given sequences, for a memory (N, ...) of a single run."""
        keys, values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        keep = None if self.keep is None else self.keep.index_select(0, rows)
        return AttentionMemory(keys, values, keep, self.intervention)


class AttentionOutput(NamedTuple):
    """The context and the weights of T queries.

    Attributes:
        context: the weighted sum of the values, (..., N, T, H).
        weights: the weights (..., N, T, S), or (..., N, A, T, S) with several heads.
        prev_weights: what the next weights depend on, (..., N, [A,] S): the weights of the last
            query for location-based addressing, the sum of all weights for a score with coverage;
            None if the next weights depend on neither.
        log_prob: the log-probability of each sampled position, in the shape of `weights` without
            the axis S; None without REINFORCE or without sampling.
    """

    context: Tensor
    weights: Tensor
    prev_weights: Tensor | None = None
    log_prob: Tensor | None = None


class Attention(nn.Module):
    """Attention over encoder states (Bahdanau et al. 2015, Luong et al. 2015). With one head, the
    computation is:

        memory = attention.precompute_memory(encoded, keep)
        (weights, _), _ = attention.attention_weights(queries, memory)    # (..., N, T, S)
        context = weighted_sum(weights, memory.values)                    # (..., N, T, H)

    The method `attend` returns the context and the weights, for any number of heads.

    Args:
        score: the score, which computes the compatibility of a query and a key.
        normalizer: the normalizer, which turns scores into weights; None for softmax.
        location: location-based addressing; None if the weights depend on content only.
        value: the projection from encoder states to values; None if the encoder states are the
            values.
    """

    def __init__(
        self,
        score: Score,
        *,
        normalizer: Normalizer | None = None,
        location: Location | None = None,
        value: Linear | None = None,
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.location = location
        self.value = value
        self.heads = score.heads
        # Whether the weights of a query depend on the weights of earlier queries.
        self.reads_past_weights = location is not None or isinstance(score, CoverageScore)

    def numbers_per_query(self, S: int) -> int:
        """Return how many random numbers each query and head needs in training, with S source
        steps: one for a normalizer that samples a position, S for a stochastic location, or 0."""
        if self.location is not None and self.location.is_stochastic:
            return S
        return int(self.normalizer.is_stochastic)

    @property
    def is_plain(self) -> bool:
        """Whether the weights are the softmax of the scores of a single head, and do not depend on
        past weights or on positions."""
        return self.heads == 1 and not self.reads_past_weights and type(self.normalizer) is Softmax

    def initial_weights(self, keep: Tensor | None, content: Tensor) -> Tensor | None:
        """Return the `prev_weights` of the first step, (..., N, [A,] S); None if the weights do not
        depend on past weights. `Location.initial_weights` describes the arguments."""
        if isinstance(self.score, CoverageScore):
            return torch.zeros_like(content.select(-2, 0))
        return None if self.location is None else self.location.initial_weights(keep, content)

    def scores(self, queries: Tensor, keys: Tensor, prev_weights: Tensor | None) -> Tensor:
        """Compute the scores of queries that all have the same past; see `Score.scores`."""
        if isinstance(self.score, CoverageScore):
            return self.score.scores(queries, keys, prev_weights)
        return self.score.scores(queries, keys)

    def precompute_memory(self, encoded: Tensor, keep: Tensor | None) -> AttentionMemory:
        """Compute the keys and values of encoder states (..., N, S, H)."""
        values = encoded if self.value is None else self.value(encoded)
        if self.heads > 1 and keep is not None:
            keep = keep.unsqueeze(-2)
        return AttentionMemory(self.score.keys(encoded), split_heads(values, self.heads), keep)

    def attention_weights(
        self,
        queries: Tensor,
        memory: AttentionMemory,
        prev_weights: Tensor | None = None,
        u: Tensor | None = None,
    ) -> tuple[NormalizerOutput, Tensor | None]:
        """Compute the attention weights of each query over the source.

        Args:
            queries: the queries (..., N, T, H).
            memory: the memory that `precompute_memory` returned.
            prev_weights: the `prev_weights` that the previous call returned; None at the first
                call.
            u: numbers uniform over [0, 1] on which the weights depend in training, in the shape of
                the weights, but with `numbers_per_query` as the last axis; None for weights that
                depend on no random numbers.

        Returns:
            a `NormalizerOutput` with the weights (..., N, T, S), or (..., N, A, T, S) with several
                heads; and the `prev_weights` for the next call, which are None unless the weights
                of the next call depend on them.
        """
        if isinstance(self.score, CoverageScore) and queries.shape[-2] > 1:
            return self._weights_step_by_step(queries, memory, prev_weights, u)
        scores = self.scores(queries, memory.keys, prev_weights)
        if self.location is not None:
            weights, prev_weights = self.location(
                self.normalizer, queries, scores, memory.keep, prev_weights, u
            )
            return NormalizerOutput(weights), prev_weights
        found = self.normalizer(scores, memory.keep, None if u is None else u.squeeze(-1))
        if isinstance(self.score, CoverageScore):
            return found, _covered(prev_weights, found.weights)
        return found, None

    def _weights_step_by_step(
        self,
        queries: Tensor,
        memory: AttentionMemory,
        coverage: Tensor | None,
        u: Tensor | None,
    ) -> tuple[NormalizerOutput, Tensor | None]:
        """Compute the weights of one query after another; see `attention_weights`."""
        outputs = list[NormalizerOutput]()
        for t in range(queries.shape[-2]):
            u_t = None if u is None else u[..., t : t + 1, :]
            query = queries[..., t : t + 1, :]
            found, coverage = self.attention_weights(query, memory, coverage, u_t)
            outputs.append(found)
        log_probs = [each.log_prob for each in outputs if each.log_prob is not None]
        weights = torch.cat([each.weights for each in outputs], dim=-2)
        log_prob = torch.cat(log_probs, dim=-1) if log_probs else None
        return NormalizerOutput(weights, log_prob), coverage

    def attend(
        self,
        queries: Tensor,
        memory: AttentionMemory,
        prev_weights: Tensor | None = None,
        u: Tensor | None = None,
    ) -> AttentionOutput:
        """Compute the context and the weights of queries (..., N, T, H). `attention_weights`
        describes the arguments.

        There may be B times as many queries (N * B, 1, H) as sequences. Then B queries in a row
        read the memory of the same sequence.
        """
        if queries.shape[-3] > memory.values.shape[-3 if self.heads == 1 else -4]:
            return self._attend_together(queries, memory)
        if self.is_plain and memory.intervention is None:  # the same result with fewer calls
            weights = softmax(self.score.scores(queries, memory.keys), memory.keep)
            return AttentionOutput(weighted_sum(weights, memory.values), weights)
        (weights, log_prob), new = self.attention_weights(queries, memory, prev_weights, u)
        if memory.intervention is not None:
            weights = self._intervene(memory.intervention, weights, memory.keep)
            if isinstance(self.score, CoverageScore):
                new = _covered(prev_weights, weights)
            elif new is not None:
                new = weights.select(-2, -1)
        context = join_heads(weighted_sum(weights, memory.values), self.heads)
        return AttentionOutput(context, weights, new, log_prob)

    def _attend_together(self, queries: Tensor, memory: AttentionMemory) -> AttentionOutput:
        """Compute the contexts of B queries for each sequence, (N * B, 1, H), without a copy of the
        memory for each query."""
        N = len(memory.values)
        together = queries.view(N, -1, queries.shape[-1])
        context, weights, *_ = self.attend(together, memory)
        if self.heads > 1:
            weights = weights.transpose(1, 2)
        weights = weights.reshape(-1, *weights.shape[2:]).unsqueeze(-2)
        return AttentionOutput(context.reshape(-1, 1, context.shape[-1]), weights)

    def _intervene(
        self, intervention: WeightIntervention, weights: Tensor, keep: Tensor | None
    ) -> Tensor:
        """Replace the weights (..., N, [A,] T, S). The intervention always receives weights with an
        axis of heads."""
        if self.heads > 1:
            return intervention(weights, keep)
        keep = None if keep is None else keep.unsqueeze(-2)
        return intervention(weights.unsqueeze(-3), keep).squeeze(-3)


def _covered(coverage: Tensor | None, weights: Tensor) -> Tensor:
    """Add weights (..., T, S) to the coverage (..., S)."""
    added = weights.sum(dim=-2)
    return added if coverage is None else coverage + added


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Compute the context from weights and values: (..., T, S) and (..., S, H) -> (..., T, H)."""
    return matmul(weights, values)


def build_attention(config: ScoreConfig, hidden: int) -> Attention:
    """Build the attention that a config selects, for states of width `hidden`."""
    return Attention(
        build_score(config, hidden),
        normalizer=build_normalizer(config),
        location=build_location(config.location, hidden, config.heads),
        value=Linear(hidden, hidden) if config.project_values else None,
    )
