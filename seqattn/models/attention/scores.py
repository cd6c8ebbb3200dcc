"""Score functions, which compute the compatibility of a query and a key.

A score needs two methods: `keys` computes the keys of a source, and `scores` computes the scores of
queries and keys. In shapes, N is the number of sequences, S the source length, T the number of
queries, H the width of encoder and decoder states, K the width of queries and keys, A the number of
heads, and `...` an optional leading axis of runs. With several heads (Vaswani et al. 2017, section
3.2.2), each head uses K / A features of query and key. Keys then have the shape (..., N, A, S,
K / A), and scores have the shape (..., N, A, T, S).

To add a score, add its section to `seqattn/config/model.py` and define a class here that
registers this section.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.config import (
    AdditiveAttention,
    CosineAttention,
    CoverageAttention,
    DotAttention,
    GeneralAttention,
    LinearAttention,
    ScaledDotAttention,
    ScoreConfig,
    UniformAttention,
)
from seqattn.errors import ConfigError, counted
from seqattn.models.attention.arithmetic import Array, AttentionStep, Record, as_printed
from seqattn.models.functions import additive_scores, computes_scores
from seqattn.models.layers import LearnedVector, Linear, fast_tanh, matmul

SCORES: dict[type[ScoreConfig], type[Score]] = {}
"""A mapping from config section to class."""


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Split the last axis into heads: (..., L, W) -> (..., A, L, W / A). With one head, return x
    itself."""
    return x if heads == 1 else x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def join_heads(x: Tensor, heads: int) -> Tensor:
    """Concatenate the heads: (..., A, L, w) -> (..., L, A * w). With one head, return x itself."""
    return x if heads == 1 else x.transpose(-2, -3).flatten(-2)


class ExplainedScores(NamedTuple):
    """The printed scores of one head, and the printed query and keys from which the scores were
    computed.

    Attributes:
        query: the query (K,); None if the scores do not depend on the query, or if their arithmetic
            is not explained.
        keys: the keys (S, K).
        scores: the scores (S,).
    """

    query: Array | None
    keys: Array
    scores: Array


class Score(nn.Module, ABC):
    """The interface of every score.

    A subclass registers the config section that selects the subclass, as in `class DotScore(Score,
    config=DotAttention)`. A subclass that overrides `keys` or `scores` must also override
    `explain`; otherwise, the arithmetic of the subclass is not explained.

    Args:
        heads: the number of heads, A. A score that splits queries and keys into heads passes
            `config.heads` to `super().__init__`. With the default, the score has one head, and a
            config with more heads is refused.
    """

    def __init_subclass__(cls, *, config: type[ScoreConfig] | None = None) -> None:
        super().__init_subclass__()
        if config is not None:
            SCORES[config] = cls
        if "explain" not in vars(cls) and {"keys", "scores"} & vars(cls).keys():
            cls.explain = Score.explain  # type: ignore[method-assign]

    def __init__(self, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads

    @classmethod
    def from_config(cls, config: Any, hidden: int) -> Self:
        """Build the score from a config section, for states of width `hidden`."""
        return cls(config.heads)

    @abstractmethod
    def keys(self, encoded: Tensor) -> Tensor:
        """Compute the keys of a source. The method is called once per source.

        Args:
            encoded: the encoder states (..., N, S, H).

        Returns:
            the keys, (..., N, S, K), or (..., N, A, S, K / A) with several heads.
        """

    @abstractmethod
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute the scores of queries and keys.

        Args:
            queries: the decoder states (..., N, T, H).
            keys: the keys that the method `keys` returned.

        Returns:
            the scores, (..., N, T, S), or (..., N, A, T, S) with several heads.
        """

    def explain(self, step: AttentionStep) -> ExplainedScores:
        """Add the stages in which the scores of one head are computed from encoder and decoder
        states.

        The default implementation adds the model's scores without arithmetic.
        """
        scores = step.add_unexplained("Scores", self, step.scores, "score")
        return ExplainedScores(None, as_printed(step.of_head(step.keys)), scores)


class UniformScore(Score, config=UniformAttention):
    """The score 0 for every key. Softmax and sparsemax turn equal scores into equal weights, so the
    context is the mean of the values unless location-based addressing changes the weights."""

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(encoded, self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        *_, T, _ = queries.shape
        *lead, S, _ = keys.shape
        return queries.new_zeros(*lead, T, S)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        keys = as_printed(step.of_head(step.keys))
        columns = {"score": np.zeros(len(keys))}
        scores = step.record.add_scores("0 for every source point", columns)
        return ExplainedScores(None, keys, scores)


class DotScore(Score, config=DotAttention):
    """The dot product q . k (Luong et al. 2015, "Effective Approaches to Attention-based Neural
    Machine Translation", section 3.1, dot)."""

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(encoded, self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return matmul(split_heads(queries, self.heads), keys.mT)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        return explain_products(step.record, step.add_state_as_query(), step.add_states_as_keys())


class ProjectedScore(Score):
    """A score that is computed from linear projections of the states, or from the states themselves
    if `width` is None."""

    def __init__(self, hidden: int, width: int | None, heads: int = 1) -> None:
        super().__init__(heads)
        self.query = Linear(hidden, width) if width is not None else None
        self.key = Linear(hidden, width) if width is not None else None

    def explain_maps(self, step: AttentionStep, keys: Tensor) -> tuple[Array, Array]:
        """Add the query (K,) and the keys (S, K) of one head, and return the printed query and
        keys.

        Args:
            step: the attention step to explain.
            keys: the model's keys (S, K).
        """
        if self.query is None or self.key is None:
            return step.add_state_as_query(), step.add_states_as_keys()
        query = step.map_query("q = W_q h + b_q", self.query)
        formula = "k = W_k s + b_k of the encoder's states"
        return query, step.map_states("Keys", formula, self.key, keys)


class ScaledDotScore(ProjectedScore, config=ScaledDotAttention):
    """The scaled dot product q . k / sqrt(K) (Vaswani et al. 2017, "Attention Is All You Need", eq.
    1).

    Queries and keys are linear projections of the states, or the states themselves if `width` is
    None. With several heads, K is the width of one head.
    """

    @classmethod
    def from_config(cls, config: ScaledDotAttention, hidden: int) -> Self:
        width = (config.key_dim or hidden) if config.project_query_key else None
        return cls(hidden, width, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        keys = split_heads(keys, self.heads)
        *_, K = keys.shape
        return keys / math.sqrt(K)  # once per source instead of once per query

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        return matmul(split_heads(projected, self.heads), keys.mT)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        keys = step.of_head(step.keys)
        *_, K = keys.shape
        return explain_scaled_products(step.record, *self.explain_maps(step, keys * math.sqrt(K)))


class GeneralScore(Score, config=GeneralAttention):
    """The bilinear form q^T W k (Luong et al. 2015, section 3.1, general). Each head uses its own
    slice of q and of W k."""

    def __init__(self, hidden: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.key = Linear(hidden, hidden, bias=False)

    @classmethod
    def from_config(cls, config: GeneralAttention, hidden: int) -> Self:
        return cls(hidden, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(self.key(encoded), self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return matmul(split_heads(queries, self.heads), keys.mT)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        query = step.add_state_as_query()
        formula = "k = W s of the encoder's states"
        keys = step.map_states("Keys", formula, self.key, step.of_head(step.keys))
        return explain_products(step.record, query, keys)


class AdditiveScore(Score, config=AdditiveAttention):
    """The additive score v . tanh(W q + U k + b) (Bahdanau et al. 2015, "Neural Machine Translation
    by Jointly Learning to Align and Translate", appendix A.1.2, plus the bias b). Luong et al. 2015
    call this score concat.

    Bahdanau et al. call the query s and the key h. The term U k + b is computed once per source.
    Each head uses its own slice of the hidden layer and of v.
    """

    def __init__(self, hidden: int, width: int, heads: int = 1) -> None:
        super().__init__(heads)
        self.query = Linear(hidden, width, bias=False)
        self.key = Linear(hidden, width)
        self.combine = Linear(width, 1, bias=False)

    @classmethod
    def from_config(cls, config: AdditiveAttention, hidden: int) -> Self:
        return cls(hidden, config.key_dim or hidden, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        return split_heads(self.key(encoded), self.heads)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = split_heads(self.query(queries), self.heads)
        if self.heads == 1 and computes_scores(projected, keys):
            return additive_scores(projected, keys, self.combine.weight.squeeze(-2))
        hidden = fast_tanh(projected.unsqueeze(-2) + keys.unsqueeze(-3))  # (..., N, [A,] T, S, K)
        if self.heads == 1:
            return self.combine(hidden).squeeze(-1)
        v: Tensor = self.combine.weight.unflatten(-1, (self.heads, -1))  # ([R,] 1, A, K / A)
        return (hidden * v.unsqueeze(-2).unsqueeze(-2)).sum(-1)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        record, v = step.record, self.combine.weight.view(self.heads, -1)[step.head]
        query = step.map_query("W h", self.query, row="W h")
        keys = step.map_states("Keys", "U s + b", self.key, step.of_head(step.keys))
        printed_v = record.add_row("Vector v", "", "v", v)
        hidden = record.add("Hidden layer", "tanh(W h + U s + b)", np.tanh(keys + query))
        columns = {"score": hidden @ printed_v}
        scores = record.add_scores("score = v . tanh(W h + U s + b)", columns)
        return ExplainedScores(query, keys, scores)


class CoverageScore(AdditiveScore, config=CoverageAttention):
    """The additive score with coverage: v . tanh(W q + U k + w coverage + b), where the coverage of
    a source step is the sum of the weights that this step has had at the previous target steps
    (See, Liu and Manning 2017, "Get To The Point", eq. 10 and 11; Tu et al. 2016, "Modeling
    Coverage for Neural Machine Translation", section 3.1). Each head has its own coverage and its
    own slice of w."""

    def __init__(self, hidden: int, width: int, heads: int = 1) -> None:
        super().__init__(hidden, width, heads)
        self.coverage = Linear(1, width, bias=False)

    def scores(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """Compute the scores of queries and keys.

        Args:
            queries, keys: see `Score.scores`.
            coverage: the coverage (..., N, [A,] S), the same for all queries; None for zeros, as at
                the first step.
        """
        if coverage is None:
            return super().scores(queries, keys)
        w = self.coverage.weight.unflatten(-2, (self.heads, -1)).mT  # ([R,] A, 1, K / A)
        w = w if w.dim() == 3 else w.unsqueeze(1)
        if self.heads == 1:
            w = w.squeeze(-3)
        return super().scores(queries, keys + coverage.unsqueeze(-1) * w)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        record, v = step.record, self.combine.weight.view(self.heads, -1)[step.head]
        query = step.map_query("W h", self.query, row="W h")
        keys = step.map_states("Keys", "U s + b", self.key, step.of_head(step.keys))
        coverage = np.zeros((len(keys), 1))
        if step.previous is not None:
            coverage = as_printed(step.of_head(step.previous))[:, None]
        coverage = record.add("Coverage", "the sum of the past weights", coverage, None, ["c"])
        w = record.add_row(
            "Vector w", "", "w", self.coverage.weight.view(self.heads, -1)[step.head]
        )
        printed_v = record.add_row("Vector v", "", "v", v)
        formula = "tanh(W h + U s + w c + b)"
        hidden = record.add("Hidden layer", formula, np.tanh(keys + query + coverage * w))
        columns = {"score": hidden @ printed_v}
        return ExplainedScores(query, keys, record.add_scores(f"score = v . {formula}", columns))


class CosineScore(ProjectedScore, config=CosineAttention):
    """The cosine of query and key, divided by a temperature: cos(q, k) / temperature (Graves, Wayne
    and Danihelka 2014, "Neural Turing Machines", eq. 5 and 6). The paper multiplies by the key
    strength beta = 1 / temperature.

    Here the temperature is one learned number for all steps, parameterized by its logarithm.
    Queries and keys are linear projections of the states, or the states themselves if `width` is
    None. If the query or the key is zero, the score is 0.
    """

    def __init__(
        self, hidden: int, width: int | None, heads: int = 1, *, temperature: float = 1.0
    ) -> None:
        super().__init__(hidden, width, heads)
        self.log_temperature = LearnedVector(math.log(temperature))

    @classmethod
    def from_config(cls, config: CosineAttention, hidden: int) -> Self:
        width = hidden if config.project_query_key else None
        return cls(hidden, width, config.heads, temperature=config.temperature)

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        return F.normalize(split_heads(keys, self.heads), dim=-1)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        unit = F.normalize(split_heads(projected, self.heads), dim=-1)
        strength = (-self.log_temperature.broadcast_to(unit)).exp()
        return matmul(unit * strength, keys.mT)

    def explain(self, step: AttentionStep) -> ExplainedScores:
        record, keys = step.record, step.of_head(step.keys)
        if self.key is not None:  # undo the normalization of `keys`
            states = torch.as_tensor(as_printed(step.states)).to(keys)
            projected = step.of_head(split_heads(self.key(states), self.heads))
            keys = keys * projected.norm(dim=-1, keepdim=True)
        q, k = self.explain_maps(step, keys)
        q = record.add_row("Query, at length 1", "q / |q|", "q", q / (np.linalg.norm(q) or 1.0))
        lengths = np.linalg.norm(k, axis=1, keepdims=True)
        k = record.add("Keys, at length 1", "k / |k|", k / np.where(lengths > 0, lengths, 1))
        cosines, strength = as_printed(k @ q), as_printed((-self.log_temperature.value).exp())
        formula = "score = cos(q, k) times the learned strength, 1 / temperature"
        columns = {"cos": cosines, "strength": strength, "score": cosines * strength}
        return ExplainedScores(q, k, record.add_scores(formula, columns))


class LinearScore(ProjectedScore, config=LinearAttention):
    """The score log(phi(q) . phi(k)) with phi(x) = elu(x) + 1 (Katharopoulos, Vyas, Pappas and
    Fleuret 2020, "Transformers are RNNs", eq. 4 and 7). Softmax turns these scores into the weights
    of the paper, phi(q) . phi(k_j) / sum over i of phi(q) . phi(k_i).

    The context of one query is then A phi(q) / (z . phi(q)) with the fast weights A = sum over j of
    v_j phi(k_j)^T and with z = sum over j of phi(k_j) (eq. 5 and 6; Schmidhuber 1992; Schlag, Irie
    and Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight Programmers", section 3.1).
    Here the weights themselves are computed, so that they can be shown and replaced.
    """

    @classmethod
    def from_config(cls, config: LinearAttention, hidden: int) -> Self:
        return cls(hidden, hidden if config.project_query_key else None, config.heads)

    def keys(self, encoded: Tensor) -> Tensor:
        keys = encoded if self.key is None else self.key(encoded)
        return positive_features(split_heads(keys, self.heads))

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        projected = queries if self.query is None else self.query(queries)
        products = matmul(positive_features(split_heads(projected, self.heads)), keys.mT)
        return products.clamp(min=torch.finfo(products.dtype).tiny).log()

    def explain(self, step: AttentionStep) -> ExplainedScores:
        states = step.states if self.key is None else self.key(step.states)
        q, k = self.explain_maps(step, step.of_head(split_heads(states, self.heads)))
        formula = "phi(x) = x + 1 if x > 0, otherwise exp(x)"
        q = step.record.add_row("Query, positive", formula, "phi(q)", explain_features(q))
        k = step.record.add("Keys, positive", formula, explain_features(k))
        products = as_printed(k @ q)
        columns = {"phi(q) . phi(k)": products, "score": np.log(np.maximum(products, 1e-4))}
        scores = step.record.add_scores("score = log(phi(q) . phi(k))", columns)
        return ExplainedScores(q, k, scores)


def positive_features(x: Tensor) -> Tensor:
    """Compute phi(x) = elu(x) + 1, which is positive."""
    return F.elu(x) + 1


def explain_features(x: Array) -> Array:
    """Compute phi of printed numbers."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def build_score(config: ScoreConfig, hidden: int) -> Score:
    """Build the score that a config section selects, for states of width `hidden`.

    Raises:
        ConfigError: if a plugin score has a different number of heads than the config.
    """
    score = SCORES[type(config)].from_config(config, hidden)
    if score.heads != config.heads:
        name = str(getattr(config, "score", ""))
        raise ConfigError(
            f"model.attention.heads: is {config.heads}, but the score {name} has"
            f" {counted(score.heads, 'head')}. Set it to {score.heads}, or pass config.heads to"
            f" super().__init__ in the class {type(score).__name__}, and split queries and keys"
            " into heads."
        )
    return score


def explain_products(record: Record, query: Array, keys: Array) -> ExplainedScores:
    """Add the scores q . k for a printed query (K,) and printed keys (S, K)."""
    return ExplainedScores(query, keys, record.add_scores("score = q . k", {"score": keys @ query}))


def explain_scaled_products(record: Record, query: Array, keys: Array) -> ExplainedScores:
    """Add the scores q . k / sqrt(K) for a printed query (K,) and printed keys (S, K)."""
    _, K = keys.shape
    root, products = as_printed(math.sqrt(K)), as_printed(keys @ query)
    columns = {"q . k": products, "sqrt(K)": root, "score": products / root}
    scores = record.add_scores(f"score = q . k / sqrt(K), K = {K}", columns)
    return ExplainedScores(query, keys, scores)
