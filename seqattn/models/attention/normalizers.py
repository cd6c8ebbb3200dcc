"""Normalizers, which turn scores into attention weights. The mask `keep` is True at valid source
steps.

In shapes, N is the number of sequences, T the number of queries, S the source length, and `...` an
optional leading axis of runs. With several heads, an axis of heads follows N.

To add a normalizer, add its name to `seqattn/config/model.py` and define a class here that
registers this name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from seqattn.config.schema import ScoreConfig, Section
from seqattn.errors import PluginError
from seqattn.models.attention.arithmetic import Array, AttentionStep, Bools, Record, as_printed
from seqattn.models.layers import LearnedVector, at_least_float32, is_batch_innermost

WeightSemantics = Literal["distribution", "partial", "strength"]
MAX_FAST_SOURCE_LENGTH, MIN_FAST_SCORES = 8, 2048
MIN_ALPHA = 1.01
"""The smallest alpha of entmax. With alpha - 1 = 0.01, the threshold is raised to the power 100."""
NORMALIZERS: dict[tuple[str, str | None], type[Normalizer]] = {}
"""A mapping from the values of `normalizer` and `estimator` in a config to the class."""
PLUGIN_NORMALIZERS: dict[type[Section], type[Normalizer]] = {}
"""A mapping from config section to class, for the normalizers of plugins."""


class NormalizerOutput(NamedTuple):
    """Attention weights, and the log-probabilities of sampled positions.

    Attributes:
        weights: the weights (..., N, T, S).
        log_prob: the log-probability of each sampled position, (..., N, T); None without REINFORCE
            or without sampling.
    """

    weights: Tensor
    log_prob: Tensor | None = None


class Normalizer(nn.Module, ABC):
    """The interface of every normalizer.

    A subclass registers the name that selects the subclass, as in `class Softmax(Normalizer,
    name="softmax")`. A subclass that overrides `normalize` must also override `explain`; otherwise,
    the arithmetic of the subclass is not explained.

    Attributes:
        is_stochastic: whether the normalizer samples positions in training.
        baseline: the learned baseline of REINFORCE; None for other normalizers.
        meaning: the meaning of the weights, which `seqattn.models.base.AttentionMap` describes.
    """

    is_stochastic = False
    meaning: ClassVar[WeightSemantics] = "distribution"

    def __init_subclass__(cls, *, name: str | None = None, estimator: str | None = None) -> None:
        super().__init_subclass__()
        if name is not None:
            NORMALIZERS[name, estimator] = cls
        if "explain" not in vars(cls) and "normalize" in vars(cls):
            cls.explain = Normalizer.explain  # type: ignore[method-assign]

    def __init__(self) -> None:
        super().__init__()
        self.baseline: LearnedVector | None = None

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """Build the normalizer from a config section: that of the plugin, or that of the attention
        for a normalizer of seqattn."""
        return cls()

    def __call__(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        """Call `normalize`, and check the type of the result.

        Raises:
            PluginError: if `normalize` does not return a `NormalizerOutput`.
        """
        found = self.normalize(scores, keep, u)
        if not isinstance(found, NormalizerOutput):
            raise PluginError(
                f"{type(self).__name__}.normalize: must return"
                " seqattn.NormalizerOutput(weights), where the weights have the shape of the"
                f" scores; got {type(found).__name__}."
            )
        return found

    @abstractmethod
    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        """Compute attention weights from scores.

        Args:
            scores: the scores (..., N, [A,] T, S).
            keep: mask (..., N, [1,] S), True at valid source steps; None if all steps are valid.
            u: numbers uniform over [0, 1], (..., N, T), from which positions are sampled in
                training; None for no sampling.
        """

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        """Add the stage in which the weights of one head are computed from the scores of this head.

        The default implementation adds the model's weights without arithmetic.

        Args:
            step: the attention step to explain.
            name: the name of the stage.
            scores: the scores (S,), as printed.
            inside: mask (S,), False at masked positions.

        Returns:
            the weights (S,), as printed.
        """
        outside = torch.as_tensor(~inside, device=step.scores.device)
        computed = self(step.scores.masked_fill(outside, -float("inf")), None, None)
        return step.add_unexplained(name, self, computed.weights, "weight")


class Softmax(Normalizer, name="softmax"):
    """The default normalizer, which applies the function `softmax`."""

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        return NormalizerOutput(softmax(scores, keep))

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        return explain_softmax(step.record, name, scores, inside)


class Sparsemax(Normalizer, name="sparsemax"):
    """A normalizer that applies the function `sparsemax`, so weights can be exactly 0."""

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        return NormalizerOutput(sparsemax(scores, keep))

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        descending = np.sort(scores[inside])[::-1]
        k = np.arange(1, len(descending) + 1)
        count = int((1 + k * descending > descending.cumsum()).sum())
        tau = float(as_printed((descending[:count].sum() - 1) / count))
        weights = np.where(inside, np.clip(scores - tau, 0, None), 0)
        formula = (
            f"sparsemax: weight = max(score - tau, 0), tau = (sum of the {count} largest - 1)"
            f" / {count}"
        )
        columns = {"score": scores, "tau": tau, "weight": weights}
        return step.record.add_columns(name, formula, columns)


class Entmax(Normalizer, name="entmax"):
    """A normalizer that applies the function `entmax`, between softmax (alpha near 1) and sparsemax
    (alpha = 2), so weights can be exactly 0.

    A learned alpha is one number per head (Correia, Niculae and Martins 2019, "Adaptively Sparse
    Transformers", section 4): alpha = 1.01 + 0.99 sigmoid(theta), where theta is 0 at first. The
    paper has 1 + sigmoid(theta); the bound keeps 1 / (alpha - 1) finite.

    Args:
        alpha: the parameter of all heads; None to learn one for each head.
        heads: the number of heads, A.
    """

    def __init__(self, alpha: float | None, heads: int) -> None:
        super().__init__()
        self.fixed_alpha = alpha
        self.theta = LearnedVector(0.0, heads) if alpha is None else None

    @classmethod
    def from_config(cls, config: ScoreConfig) -> Self:
        alpha = 1.5 if config.alpha is None else config.alpha
        return cls(None if alpha == "learned" else alpha, config.heads)

    def alpha(self) -> Tensor | float:
        """Return alpha, as a number or in a shape that broadcasts to scores (..., N, [A,] T, S)."""
        if self.theta is None:
            assert self.fixed_alpha is not None
            return self.fixed_alpha
        return MIN_ALPHA + (2 - MIN_ALPHA) * self.theta.of_heads().sigmoid()

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        return NormalizerOutput(entmax(scores, keep, self.alpha()))

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        alpha = self.alpha()
        if isinstance(alpha, Tensor):
            alpha = alpha.flatten()[step.head]
        a = as_printed(alpha).item()
        scaled = torch.as_tensor(np.where(inside, (a - 1) * scores, -np.inf))
        tau = as_printed(entmax_threshold(scaled, 1 / (a - 1))).item()
        weights = np.where(inside, np.clip((a - 1) * scores - tau, 0, None) ** (1 / (a - 1)), 0)
        formula = (
            "entmax: weight = max((alpha - 1) score - tau, 0)^(1 / (alpha - 1)); with tau, the"
            " weights sum to 1"
        )
        columns = {"score": scores, "alpha": a, "tau": tau, "weight": weights}
        return step.record.add_columns(name, formula, columns)


class Hard(Normalizer):
    """Hard attention, which puts all weight of a query on one source step. In training, this step
    is sampled from the softmax of the scores. In validation and forecasts, the step with the
    largest score is used."""

    is_stochastic = True

    @abstractmethod
    def sample(self, soft: Tensor, u: Tensor) -> NormalizerOutput:
        """Sample one-hot weights from the weights `soft` (..., N, T, S) with uniform random numbers
        u (..., N, T)."""

    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        soft = softmax(scores, keep)
        if u is None:
            return NormalizerOutput(one_hot(soft.argmax(dim=-1), soft))
        return self.sample(soft, u)

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        largest = np.where(inside, scores, -np.inf).argmax()
        weights = (np.arange(len(scores)) == largest).astype(float)
        columns = {"score": scores, "weight": weights}
        return step.record.add_columns(name, "hard: all weight on the largest score", columns)


class StraightThrough(Hard, name="hard", estimator="straight_through"):
    """Hard attention with the straight-through gradient estimator (Bengio, Leonard and Courville
    2013, "Estimating or Propagating Gradients Through Stochastic Neurons"). The backward pass uses
    the gradient of the softmax. The estimator is biased and has low variance."""

    def sample(self, soft: Tensor, u: Tensor) -> NormalizerOutput:
        choice = one_hot(sample_categorical(soft, u), soft)
        return NormalizerOutput(choice + (soft - soft.detach()))  # the difference is exactly 0


class Reinforce(Hard, name="hard", estimator="reinforce"):
    """Hard attention with the REINFORCE gradient estimator (Williams 1992; Mnih et al. 2014,
    "Recurrent Models of Visual Attention", section 3.2; Xu et al. 2015, "Show, Attend and Tell",
    section 4.1). The estimator is unbiased and has high variance.

    The baseline is a parameter that gradient descent fits to the returns (Mnih et al. 2014, section
    3.2), so checkpoints and batches of runs store the baseline with the other parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.baseline = LearnedVector(0.0)

    def sample(self, soft: Tensor, u: Tensor) -> NormalizerOutput:
        choice = sample_categorical(soft.detach(), u)
        log_prob = soft.gather(-1, choice.unsqueeze(-1)).squeeze(-1).log()
        return NormalizerOutput(one_hot(choice, soft), log_prob)


def check_meaning(meaning: object, owner: str) -> None:
    """Check the meaning of the weights of a plugin.

    Raises:
        PluginError: if the meaning is not one of `WeightSemantics`.
    """
    known = get_args(WeightSemantics)
    if meaning not in known:
        raise PluginError(
            f"{owner}.meaning: expected one of {', '.join(map(repr, known))}; got {meaning!r}."
        )


def build_normalizer(config: ScoreConfig) -> Normalizer:
    """Build the normalizer that a config selects."""
    section: Any = config.normalizer  # a plugin's section is not part of the static type
    if isinstance(section, Section):
        found = PLUGIN_NORMALIZERS[type(section)].from_config(section)
        check_meaning(found.meaning, type(found).__name__)
        return found
    return NORMALIZERS[section, config.estimator].from_config(config)


def explain_softmax(record: Record, name: str, scores: Array, inside: Bools) -> Array:
    """Add a stage with the softmax of printed scores (S,). Return the printed weights (S,), which
    are 0 where `inside` (S,) is False."""
    exponentials = as_printed(np.where(inside, np.exp(scores - scores[inside].max()), 0))
    formula = "softmax: weight = exp(score - largest) / sum of these"
    columns = {
        "score": scores,
        "exp(score - largest)": exponentials,
        "weight": exponentials / exponentials.sum(),
    }
    return record.add_columns(name, formula, columns)


def mask_scores(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Convert bfloat16 scores (..., N, T, S) to float32, and replace scores with -inf where `keep`
    (..., N, S) is False."""
    scores = at_least_float32(scores)
    return scores if keep is None else scores.masked_fill(~keep.unsqueeze(-2), -float("inf"))


def softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Compute the softmax over the source. The weights are exactly 0 at masked positions.

    If all positions of a row are masked, the weights of the row are NaN rather than uniform over
    the padding. Such rows do not occur with loaded data, because loading rejects sources without
    steps.

    Args:
        scores: the scores (..., N, T, S).
        keep: mask (..., N, S), True at valid source steps; None if all steps are valid.

    Returns:
        the weights (..., N, T, S), in which each row sums to 1.
    """
    scores = mask_scores(scores, keep)
    *_, S = scores.shape
    # If rows are short, the softmax along another axis is faster, because torch takes at least 40
    # ns per row. A compiled graph must not depend on the shape.
    if (
        not torch.compiler.is_compiling()
        and S <= MAX_FAST_SOURCE_LENGTH
        and scores.numel() >= MIN_FAST_SCORES
    ):
        if scores.dim() == 4 and is_batch_innermost(scores):
            return scores.transpose(1, -1).softmax(dim=1).transpose(1, -1)
        return scores.movedim(-1, 0).softmax(dim=0).movedim(0, -1)
    return scores.softmax(dim=-1)


def sparsemax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Project the scores onto the simplex (Martins and Astudillo 2016, "From Softmax to Sparsemax",
    section 2.1 and algorithm 1). Scores far below the largest score get a weight of exactly 0.

    With the scores in descending order z_(1) >= z_(2) >= ..., the support size is the largest k
    with 1 + k z_(k) > z_(1) + ... + z_(k). The threshold is tau = (z_(1) + ... + z_(k) - 1) / k,
    and each weight is max(z - tau, 0). The largest score is subtracted first. The subtraction
    changes no weight, and prevents the term 1 from being lost to rounding in sums of large scores.

    On the support J = {j : weight_j > 0}, the gradient is the upstream gradient minus the mean of
    the upstream gradient over J. Outside J, the gradient is 0. This gradient corresponds to the
    Jacobian Diag(s) - s s^T / |J| of the paper's section 2.5, where s is 1 on J and 0 elsewhere. A
    score that equals tau has weight 0 and is not in J. Sparsemax is not differentiable at such a
    score, and the gradient used here is one of the generalized Jacobians of sparsemax.

    Args:
        scores: the scores (..., N, T, S).
        keep: mask (..., N, S), True at valid source steps; None if all steps are valid.

    Returns:
        the weights (..., N, T, S), in which each row sums to 1. A row is NaN if all positions of
            the row are masked.
    """
    z = mask_scores(scores, keep)
    z = z - z.detach().amax(dim=-1, keepdim=True)
    *_, S = z.shape
    descending = z.sort(dim=-1, descending=True).values
    sums = descending.cumsum(dim=-1)
    k = torch.arange(1, S + 1, dtype=z.dtype, device=z.device)
    support = (1 + k * descending > sums).sum(dim=-1, keepdim=True).clamp(min=1)
    tau = (sums.gather(-1, support - 1) - 1) / support
    weights = (z - tau).clamp(min=0)
    if not z.requires_grad:
        return weights
    # Autograd through tau would include scores that are equal to tau in the support J.
    weights = weights.detach()
    inside = weights > 0
    inside_scores = z.where(inside, 0)
    mean = inside_scores.sum(dim=-1, keepdim=True) / inside.sum(dim=-1, keepdim=True)
    centered = (inside_scores - mean) * inside
    return weights + (centered - centered.detach())  # the difference is exactly 0


def entmax(scores: Tensor, keep: Tensor | None, alpha: float | Tensor) -> Tensor:
    """Compute alpha-entmax (Peters, Niculae and Martins 2019, "Sparse Sequence-to-Sequence Models",
    eq. 9 and 10):

        weight = max((alpha - 1) z - tau, 0)^(1 / (alpha - 1))

    where tau is the number for which the weights sum to 1. The largest score is subtracted first,
    which changes no weight.

    With s = weight^(2 - alpha) where the weight is positive, and 0 elsewhere, the gradient with
    respect to the scores is s (g - (s . g) / (1 . s)), where g is the upstream gradient (Peters et
    al. 2019, proposition 2). The gradient with respect to alpha is that of Correia, Niculae and
    Martins 2019, proposition 1. Both sum to 0 over the source.

    Args:
        scores: the scores (..., N, T, S).
        keep: mask (..., N, S), True at valid source steps; None if all steps are valid.
        alpha: the parameter alpha, above 1 and at most 2: a number, or a tensor that broadcasts to
            the scores.

    Returns:
        the weights (..., N, T, S), in which each row sums to 1. A row is NaN if all positions of
            the row are masked.
    """
    z = mask_scores(scores, keep)
    z = z - z.detach().amax(dim=-1, keepdim=True)
    with torch.no_grad():
        a: Any = alpha.detach() if isinstance(alpha, Tensor) else alpha
        # tau is at least -1, so a scaled score of -2 has weight 0, as -inf has.
        scaled = ((a - 1) * z).clamp(min=-2)
        if isinstance(a, float) and a == 1.5:
            tau = entmax15_threshold(scaled)
        else:
            tau = entmax_threshold(scaled, 1 / (a - 1))
        weights: Tensor = (scaled - tau).clamp(min=0) ** (1 / (a - 1))
        weights = weights / weights.sum(dim=-1, keepdim=True)
    if not z.requires_grad and not (isinstance(alpha, Tensor) and alpha.requires_grad):
        return weights
    inside = weights > 0
    s = torch.where(inside, weights ** (2 - a), 0)
    share = s / s.sum(dim=-1, keepdim=True)
    inside_scores = z.where(inside, 0)
    linear = s * (inside_scores - (share * inside_scores).sum(dim=-1, keepdim=True))
    if isinstance(alpha, Tensor):
        linear = linear + derivative_of_alpha(weights, share, a) * alpha
    return weights + (linear - linear.detach())  # the difference is exactly 0


def derivative_of_alpha(weights: Tensor, share: Tensor, alpha: Tensor) -> Tensor:
    """Compute the derivative of entmax weights (..., S) with respect to alpha (Correia et al. 2019,
    proposition 1). The shares (..., S) are weight^(2 - alpha), divided by their sum."""
    entropy = -weights * weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    drift = entropy - share * entropy.sum(dim=-1, keepdim=True)
    return (weights - share) / (alpha - 1).square() + drift / (alpha - 1)


def entmax15_threshold(scaled: Tensor) -> Tensor:
    """Compute tau of entmax with alpha = 1.5 for scores (..., S) that are multiplied by alpha - 1,
    as (..., 1) (Peters et al. 2019, algorithm 2).

    With the scaled scores in descending order, let m be the mean and d the sum of squared
    deviations from the mean of the k largest. Then tau_k = m - sqrt((1 - d) / k), and tau is tau_k
    of the largest k for which the k-th score is at least tau_k.
    """
    *_, S = scaled.shape
    descending = scaled.sort(dim=-1, descending=True).values
    k = torch.arange(1, S + 1, dtype=scaled.dtype, device=scaled.device)
    mean = descending.cumsum(dim=-1) / k
    deviations = descending.square().cumsum(dim=-1) - k * mean.square()
    taus = mean - ((1 - deviations).clamp(min=0) / k).sqrt()
    support = (taus <= descending).sum(dim=-1, keepdim=True).clamp(min=1)
    return taus.gather(-1, support - 1)


def entmax_threshold(scaled: Tensor, exponent: float | Tensor) -> Tensor:
    """Compute tau of entmax by bisection (Blondel, Martins and Niculae 2019, "Learning Classifiers
    with Fenchel-Young Losses", algorithm 1): the number for which the sum of max(scaled -
    tau, 0)^exponent over the source is 1.

    Args:
        scaled: scores (..., S) that are multiplied by alpha - 1.
        exponent: 1 / (alpha - 1).

    Returns:
        tau (..., 1), to the precision of the dtype, and not above the exact number.
    """
    low = scaled.amax(dim=-1, keepdim=True) - 1
    width = 1.0
    for _ in range(1 - round(math.log2(torch.finfo(scaled.dtype).eps))):
        width /= 2
        total = ((scaled - (low + width)).clamp(min=0) ** exponent).sum(dim=-1, keepdim=True)
        low = torch.where(total >= 1, low + width, low)
    return low


def sample_categorical(weights: Tensor, u: Tensor) -> Tensor:
    """Sample positions (..., N, T) from weights (..., N, T, S). The function inverts the cumulative
    sum of the weights at u (..., N, T), which is uniform over [0, 1]. The function never samples a
    position with the weight 0 before the first or after the last positive weight, even if u is 0
    or 1."""
    sums = weights.cumsum(dim=-1)
    positive = u.clamp(min=torch.finfo(u.dtype).eps ** 2).unsqueeze(-1)
    return (sums < positive * sums[..., -1:]).sum(dim=-1)


def one_hot(positions: Tensor, like: Tensor) -> Tensor:
    """Build one-hot rows that are 1 at the positions (..., N, T), with the shape and dtype of
    `like` (..., N, T, S)."""
    return (positions.unsqueeze(-1) == torch.arange(like.shape[-1], device=like.device)).to(
        like.dtype
    )
