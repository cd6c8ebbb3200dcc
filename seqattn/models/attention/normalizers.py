"""Normalizers: from scores to weights. `keep` is True where attention may go.

To add a normalizer: its name in `seqattn/config/knobs/model.py`, and a class here of that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqattn.config.knobs import AttentionKnobs
from seqattn.models.attention.arithmetic import Array, AttentionStep, Bools, Record, rounded
from seqattn.models.layers import LearnedVector, at_least_float32, is_batch_innermost

SHORT, MANY = 8, 2048
NORMALIZERS: dict[tuple[str, str | None], type[Normalizer]] = {}
"""Name and estimator, as in a config -> the normalizer."""


class NormalizerOutput(NamedTuple):
    """What a normalizer says.

    Attributes:
        weights: (..., N, T, S).
        log_prob: (..., N, T), the logarithm of the chance of what was drawn, where choices are
            to be reinforced; else None.
    """

    weights: Tensor
    log_prob: Tensor | None = None


class Normalizer(nn.Module, ABC):
    """The interface of every normalizer.

    A subclass says its name, `class Softmax(Normalizer, name="softmax")`, and is then what
    `build_normalizer` makes of it. What a subclass changes, it explains anew.

    Attributes:
        draws: whether training draws random numbers.
        baseline: what a choice must beat, where choices are reinforced; else None.
    """

    draws = False

    def __init_subclass__(cls, *, name: str | None = None, estimator: str | None = None) -> None:
        super().__init_subclass__()
        if name is not None:
            NORMALIZERS[name, estimator] = cls
        if "explain" not in vars(cls) and "weigh" in vars(cls):
            cls.explain = Normalizer.explain  # type: ignore[method-assign]

    def __init__(self) -> None:
        super().__init__()
        self.baseline: LearnedVector | None = None

    @abstractmethod
    def weigh(
        self, scores: Tensor, keep: Tensor | None, numbers: Tensor | None
    ) -> NormalizerOutput:
        """Weights from scores.

        Args:
            scores: (..., N, T, S).
            keep: (..., N, S), or None where every source point is real.
            numbers: uniform over [0, 1), (..., N, T), while training a normalizer that draws;
                None: nothing is left to chance.
        """

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        """Write how the weights of one head follow from its scores.

        A normalizer without a method of its own shows what the model computed.

        Args:
            name: of the stage.
            scores: (S,) as printed.
            inside: (S,), False where attention may not go.

        Returns:
            weights (S,) as printed.
        """
        outside = torch.as_tensor(~inside, device=step.scores.device)
        own = self.weigh(step.scores.masked_fill(outside, -float("inf")), None, None)
        return step.unexplained(name, self, own.weights, "weight")


class Softmax(Normalizer, name="softmax"):
    """See `softmax`."""

    def weigh(
        self, scores: Tensor, keep: Tensor | None, numbers: Tensor | None
    ) -> NormalizerOutput:
        return NormalizerOutput(softmax(scores, keep))

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        return explain_softmax(step.record, name, scores, inside)


class Sparsemax(Normalizer, name="sparsemax"):
    """See `sparsemax`."""

    def weigh(
        self, scores: Tensor, keep: Tensor | None, numbers: Tensor | None
    ) -> NormalizerOutput:
        return NormalizerOutput(sparsemax(scores, keep))

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        falling = np.sort(scores[inside])[::-1]
        k = np.arange(1, len(falling) + 1)
        count = int((1 + k * falling > falling.cumsum()).sum())
        tau = float(rounded((falling[:count].sum() - 1) / count))
        weights = np.where(inside, np.clip(scores - tau, 0, None), 0)
        formula = (
            f"sparsemax: weight = max(score - tau, 0), tau = (sum of the {count} largest - 1)"
            f" / {count}"
        )
        columns = {"score": scores, "tau": tau, "weight": weights}
        return step.record.add_columns(name, formula, columns)


class Hard(Normalizer):
    """One source point a step, drawn from the softmax in training; else that of the best score."""

    draws = True

    @abstractmethod
    def draw(self, soft: Tensor, numbers: Tensor) -> NormalizerOutput:
        """Weights drawn from the softmax `soft` (..., N, T, S) by uniform numbers (..., N, T)."""

    def weigh(
        self, scores: Tensor, keep: Tensor | None, numbers: Tensor | None
    ) -> NormalizerOutput:
        soft = softmax(scores, keep)
        if numbers is None:
            return NormalizerOutput(one_hot(soft.argmax(dim=-1), soft))
        return self.draw(soft, numbers)

    def explain(self, step: AttentionStep, name: str, scores: Array, inside: Bools) -> Array:
        largest = np.where(inside, scores, -np.inf).argmax()
        weights = (np.arange(len(scores)) == largest).astype(float)
        columns = {"score": scores, "weight": weights}
        return step.record.add_columns(name, "hard: all weight on the largest score", columns)


class StraightThrough(Hard, name="hard", estimator="straight_through"):
    """One source point a step, drawn from the softmax; backward as if the soft weights had been
    used (the straight-through estimator of Bengio, Leonard and Courville 2013, "Estimating or
    Propagating Gradients Through Stochastic Neurons"). Biased, but of little variance.
    """

    def draw(self, soft: Tensor, numbers: Tensor) -> NormalizerOutput:
        choice = one_hot(chosen(soft, numbers), soft)
        return NormalizerOutput(choice + (soft - soft.detach()))  # the bracket is exactly 0


class Reinforce(Hard, name="hard", estimator="reinforce"):
    """One source point a step, drawn from the softmax; the chance of a choice that turned out
    better than the baseline is raised (Williams 1992; Mnih et al. 2014, "Recurrent Models of
    Visual Attention", section 3.2; Xu et al. 2015, "Show, Attend and Tell", section 4.1).
    Unbiased, but of much variance.

    The baseline moves with training: it is a parameter, pulled towards the returns (Mnih et al.
    2014, section 3.2), so checkpoints, resuming and runs side by side need nothing of their own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.baseline = LearnedVector(0.0)

    def draw(self, soft: Tensor, numbers: Tensor) -> NormalizerOutput:
        choice = chosen(soft.detach(), numbers)
        log_prob = soft.gather(-1, choice.unsqueeze(-1)).squeeze(-1).log()
        return NormalizerOutput(one_hot(choice, soft), log_prob)


def build_normalizer(config: AttentionKnobs) -> Normalizer:
    """The normalizer that a config names."""
    return NORMALIZERS[config.normalizer, config.estimator]()


def explain_softmax(record: Record, name: str, scores: Array, inside: Bools) -> Array:
    """Write the softmax of printed scores (S,), 0 where `inside` (S,) is False; weights (S,)."""
    raised = rounded(np.where(inside, np.exp(scores - scores[inside].max()), 0))
    formula = "softmax: weight = exp(score - largest) / sum of these"
    columns = {"score": scores, "exp(score - largest)": raised, "weight": raised / raised.sum()}
    return record.add_columns(name, formula, columns)


def masked(scores: Tensor, keep: Tensor | None) -> Tensor:
    """Scores, in float32 at least, with -inf where attention may not go."""
    scores = at_least_float32(scores)
    return scores if keep is None else scores.masked_fill(~keep.unsqueeze(-2), -float("inf"))


def softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """exp(score) over its sum along the source; exactly 0 where attention may not go.

    A row with nothing to attend to has no weights: it comes out as NaN, never as uniform weights
    over padding. Such rows are refused where data are loaded.

    Args:
        scores: (..., N, T, S).
        keep: (..., N, S), or None where every source point is real.

    Returns:
        (..., N, T, S), each row summing to 1.
    """
    scores = masked(scores, keep)
    *_, S = scores.shape
    # torch takes 40 ns a row, however short the row is. A graph must not depend on the shape.
    if not torch.compiler.is_compiling() and S <= SHORT and scores.numel() >= MANY:
        if scores.dim() == 4 and is_batch_innermost(scores):
            return scores.transpose(1, -1).softmax(dim=1).transpose(1, -1)
        return scores.movedim(-1, 0).softmax(dim=0).movedim(0, -1)
    return scores.softmax(dim=-1)


def sparsemax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """The point of the simplex that is nearest to the scores (Martins and Astudillo 2016, "From
    Softmax to Sparsemax", section 2.1 and algorithm 1): scores far below the best get exactly 0.

    With the scores in falling order z_(1) >= z_(2) >= ..., the support is the longest beginning
    with 1 + k z_(k) > z_(1) + ... + z_(k); tau is what makes the rest sum to 1; and a weight is
    max(z - tau, 0). The largest score is taken off first: it changes no weight, and sums of large
    scores would round 1 away.

    The gradient is the upstream gradient less its mean over the support S = {j : weight_j > 0}, and
    0 elsewhere: the Jacobian Diag(s) - s s^T / |S| of the paper's section 2.5, where s is 1 on S. A
    score exactly at tau has weight 0 and is outside S; sparsemax has a kink there, and this is one
    of its generalized Jacobians.

    Args:
        scores: (..., N, T, S).
        keep: (..., N, S), or None where every source point is real.

    Returns:
        (..., N, T, S), each row summing to 1; NaN for a row with nothing to attend to.
    """
    z = masked(scores, keep)
    z = z - z.detach().amax(dim=-1, keepdim=True)
    *_, S = z.shape
    falling = z.sort(dim=-1, descending=True).values
    sums = falling.cumsum(dim=-1)
    k = torch.arange(1, S + 1, dtype=z.dtype, device=z.device)
    support = (1 + k * falling > sums).sum(dim=-1, keepdim=True).clamp(min=1)
    tau = (sums.gather(-1, support - 1) - 1) / support
    weights = (z - tau).clamp(min=0)
    if not z.requires_grad:
        return weights
    # Autograd would go through tau and count scores at tau as support: only the weights decide.
    weights = weights.detach()
    inside = weights > 0
    held = z.where(inside, 0)
    slope = (held - held.sum(dim=-1, keepdim=True) / inside.sum(dim=-1, keepdim=True)) * inside
    return weights + (slope - slope.detach())  # the bracket is exactly 0


def chosen(weights: Tensor, numbers: Tensor) -> Tensor:
    """The place (..., N, T) that each row of weights (..., N, T, S) gives to a uniform number
    (..., N, T): the first at which the sum of the weights so far is not below it. Never a place of
    weight 0 behind the last real one."""
    sums = weights.cumsum(dim=-1)
    return (sums < numbers.unsqueeze(-1) * sums[..., -1:]).sum(dim=-1)


def one_hot(places: Tensor, like: Tensor) -> Tensor:
    """1 at a place (..., N, T) and 0 elsewhere, shaped and typed like `like` (..., N, T, S)."""
    return (places.unsqueeze(-1) == torch.arange(like.shape[-1], device=like.device)).to(like.dtype)
