"""Hard monotonic attention, which reads one source step at a time and never moves back.

In shapes, N is the number of sequences, S the source length, T the number of queries, A the number
of heads, and `...` an optional leading axis of runs. "[A,]" denotes an axis that exists only with
several heads.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from seqattn.config import Monotonic as MonotonicConfig
from seqattn.models.attention.arithmetic import Array, AttentionStep, as_printed
from seqattn.models.attention.location_based import Location
from seqattn.models.attention.normalizers import Normalizer, mask_scores
from seqattn.models.layers import LearnedVector, without_autocast


class HardMonotonic(Location, config=MonotonicConfig):
    """Hard monotonic attention (Raffel, Luong, Liu, Weiss and Eck 2017, "Online and Linear-Time
    Attention by Enforcing Monotonic Alignments"). From the source step of the previous query, the
    attention moves to later source steps, and stops at source step j with the probability p_j:

        e_j = score_j + r                                                           (11)
        p_j = sigmoid(e_j)                                                          (12)

    Without training, it stops at the first step with p_j > 1/2, which gets the weight 1. If there
    is none, all weights are 0, and stay 0 for all later queries. Before the first query, the
    attention is at the first source step.

    In training, the weights are the expectation over these random walks. With the weights alpha_i
    of query i:

        alpha_ij = p_ij * sum over k <= j of alpha_(i-1)k * product over l = k..j-1 of (1 - p_il)
                                                                                     (9)

    The product is exp(L_j - L_k), where L_j is the sum of log(1 - p_il) over l < j. Cumulative
    products (the paper's appendix C.1) take S instead of S^2 operations for each query, but divide
    by products that can underflow.

    In training, normal noise is added to e, so that the network learns a p near 0 or 1. As in the
    paper, r is learned, here for each head, and is negative at first, so that walks do not all stop
    at the beginning of the source before the network has learned anything. The paper's score is an
    additive score with a normalized vector v; here it is the configured score.
    """

    is_stochastic = True
    meaning = "partial"

    def __init__(self, heads: int, offset: float, noise: float) -> None:
        super().__init__()
        self.offset, self.noise = LearnedVector(offset, heads), noise

    @classmethod
    def from_config(cls, config: MonotonicConfig, hidden: int, heads: int) -> Self:
        return cls(heads, config.offset, config.noise)

    def initial_weights(self, keep: Tensor | None, content: Tensor) -> Tensor:
        """Return one-hot weights for the first source step, (..., N, [A,] S)."""
        first = torch.arange(content.shape[-1], device=content.device) == 0
        return first.to(content.dtype).expand(content.select(-2, 0).shape)

    def attention_weights(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None, *, u: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        energies = mask_scores(scores, keep) + self.offset.of_heads()
        *_, T, S = energies.shape
        if u is None:
            stops = (energies > 0).to(energies.dtype)
            passed = stops.cumsum(dim=-1) - stops
        else:
            energies = energies + self.noise * standard_normal(u.to(energies.dtype))
            stops = energies.sigmoid()
            log_pass = F.logsigmoid(-energies).double()  # differences of sums lose digits
            passed = log_pass.cumsum(dim=-1) - log_pass
        if previous is None:
            previous = self.initial_weights(keep, energies)
        steps = torch.arange(S, device=energies.device)
        is_back = steps.unsqueeze(-1) > steps  # [k, j]: step j is before step k
        weights = list[Tensor]()
        for t in range(T):
            before = passed.select(-2, t)
            between = before.unsqueeze(-2) - before.unsqueeze(-1)  # [k, j]: L_j - L_k
            if u is None:
                reach = ((between == 0) & ~is_back).to(energies.dtype)
            else:
                reach = between.to(energies.dtype).masked_fill(is_back, -float("inf")).exp()
            with without_autocast(energies):
                arrived = (previous.unsqueeze(-2) @ reach).squeeze(-2)
            previous = stops.select(-2, t) * arrived
            weights.append(previous)
        return torch.stack(weights, dim=-2), previous

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        r = as_printed(self.offset.value[step.head]).item()
        previous = (np.arange(len(scores)) == 0).astype(float)
        if step.previous is not None:
            previous = as_printed(step.of_head(step.previous))
        weights, moving = np.zeros(len(scores)), 0.0
        for j, stops in enumerate(scores + r > 0):
            moving += previous[j]
            if stops:
                weights[j], moving = moving, 0.0
        formula = (
            "p = 1 / (1 + exp(-(score + r))); each previous weight moves on to the first point with"
            " p > 1/2, starting at its own point"
        )
        columns = {
            "score": scores, "r": r, "p": 1 / (1 + np.exp(-(scores + r))), "previous": previous,
            "weight": weights,
        }  # fmt: skip
        return step.record.add_columns("Weights", formula, columns)


def standard_normal(u: Tensor) -> Tensor:
    """Map numbers that are uniform over [0, 1] to numbers from the standard normal
    distribution."""
    eps = torch.finfo(u.dtype).eps
    numbers: Tensor = torch.special.ndtri(u.clamp(eps, 1 - eps))
    return numbers
