"""The gradient of sparsemax where scores lie exactly at the threshold."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from seqattn.models.attention import sparsemax

TYPES = [torch.float32, torch.float64, torch.bfloat16]


def jacobian(scores: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Weights (S,), and their slopes (S, S), of scores (S,)."""
    scores = scores.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=scores.dtype == torch.bfloat16):
        weights = sparsemax(scores[None, None], None if keep is None else keep[None])[0, 0]
    rows = [torch.autograd.grad(weight, scores, retain_graph=True)[0] for weight in weights]
    return weights.detach(), torch.stack(rows)


def reference_sparsemax(
    scores: list[float], keep: list[bool] | None = None
) -> tuple[Tensor, Tensor]:
    """The same in fractions: weights by the definition, and Diag(s) - s s^T / |S| (Martins and
    Astudillo 2016, section 2.5) of the support S of positive weights."""
    real = [s for s in range(len(scores)) if keep is None or keep[s]]
    exact = {s: Fraction(scores[s]) for s in real}
    falling = sorted(exact.values(), reverse=True)
    count = max(k for k in range(1, len(falling) + 1) if 1 + k * falling[k - 1] > sum(falling[:k]))
    tau = (sum(falling[:count]) - 1) / count
    weights = [max(exact[s] - tau, Fraction(0)) if s in exact else Fraction(0)
               for s in range(len(scores))]  # fmt: skip
    s = torch.tensor([float(weight > 0) for weight in weights], dtype=torch.float64)
    numbers = torch.tensor([float(weight) for weight in weights], dtype=torch.float64)
    return numbers, s.diag() - s.outer(s) / s.sum()


def check(scores: list[float], dtype: torch.dtype, keep: list[bool] | None = None) -> None:
    found = jacobian(
        torch.tensor(scores, dtype=dtype), None if keep is None else torch.tensor(keep)
    )
    expected = reference_sparsemax(scores, keep)
    exact = 1e-12 if dtype == torch.float64 else 1e-6
    # Slopes with respect to bfloat16 scores are bfloat16.
    slopes = 1e-2 if dtype == torch.bfloat16 else exact
    torch.testing.assert_close(found[0].double(), expected[0], atol=exact, rtol=0)
    assert float(found[0].sum()) == pytest.approx(1, abs=exact)
    torch.testing.assert_close(found[1].double(), expected[1], atol=slopes, rtol=0)
    assert ((found[1] == 0) == (expected[1] == 0)).all()


def test_the_smallest_tie() -> None:
    weights, slopes = jacobian(torch.tensor([1.0, 0.0]))
    assert weights.tolist() == [1, 0]
    assert (slopes == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("above", [1, 2, 4, 8])
@pytest.mark.parametrize("at", [1, 2, 3, 7])
def test_scores_exactly_at_the_threshold(above: int, at: int, dtype: torch.dtype) -> None:
    """`above` equal scores share all weight, and `at` scores are as low as they may be; one more is
    far below. With k a power of two 1 / k is exact in every type."""
    scores = [0.0] * above + [-1 / above] * at + [-3.0]
    check(scores, dtype)
    check([2 + score for score in reversed(scores)], dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_unequal_scores_with_one_at_the_threshold(dtype: torch.dtype) -> None:
    check([0.75, 0.25, 0.0], dtype)  # tau = 0
    check([0.5, 0.0, 0.25, 0.25, 0.0], dtype)
    check([1.0, 0.5, 0.25, -4.0], dtype)  # tau = 0.25


@pytest.mark.parametrize("dtype", TYPES)
def test_ties_beside_masked_scores(dtype: torch.dtype) -> None:
    """What is masked has no weight and no grad, even the best score and one at the threshold."""
    check([1.0, 9.0, 0.0], dtype, [True, False, True])
    check([0.0, 0.0, 0.0, 0.0], dtype, [True, False, True, False])
    check([0.5, 0.5, 0.0, 0.0], dtype, [True, True, False, True])
    check([3.0, -2.0], dtype, [False, True])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 11])
def test_equal_scores_share_alike(count: int, dtype: torch.dtype) -> None:
    for score in (0.0, 0.5, -100.0):
        check([score] * count, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_support_of_the_slope_is_that_of_the_weights(dtype: torch.dtype) -> None:
    """Scores within rounding of the threshold: rows and columns of the Jacobian sum to 0."""
    numbers = torch.Generator().manual_seed(1)
    best = torch.rand(2000, 3, generator=numbers, dtype=dtype) / 3
    tau = (best.sum(-1, keepdim=True) - 1) / 3
    near = torch.nextafter(tau, torch.randint(-1, 2, tau.shape, generator=numbers).to(dtype))
    scores = torch.cat([best, tau, near], dim=-1).unsqueeze(0).requires_grad_()
    upstream = torch.randn(1, 2000, 5, generator=numbers, dtype=dtype)
    weights = sparsemax(scores, None)
    (grad,) = torch.autograd.grad(weights, scores, upstream)
    inside = (weights > 0).to(dtype)
    mean = (upstream * inside).sum(-1, keepdim=True) / inside.sum(-1, keepdim=True)
    exact = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(grad, inside * (upstream - mean), atol=exact, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), atol=1e-6, rtol=0)
