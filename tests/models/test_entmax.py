"""Entmax against its definition, against its limits softmax and sparsemax, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from seqattn.config import Recurrent
from seqattn.models import build_model
from seqattn.models.attention import Entmax, entmax, softmax, sparsemax

Array = NDArray[np.float64]
ALPHAS = [1.01, 1.2, 1.5, 1.7, 2.0]
N, T, S = 3, 5, 11
LENGTHS = torch.tensor([11, 7, 1])
KEEP = torch.arange(S) < LENGTHS[:, None]


def reference_entmax(scores: Array, alpha: float) -> Array:
    """The weights (S,) by equation 10 of Peters et al. 2019: tau is the root of a monotone
    function."""
    scaled = (alpha - 1) * (scores - scores.max())

    def weights(tau: float) -> Array:
        return np.asarray(np.maximum(scaled - tau, 0) ** (1 / (alpha - 1)))

    return weights(brentq(lambda tau: weights(tau).sum() - 1, -1.0, 0.0, xtol=1e-15))


@pytest.fixture
def scores() -> Tensor:
    rows = torch.randn(N, T, S, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return 2 * rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_are_those_of_the_definition(
    alpha: float, dtype: torch.dtype, scores: Tensor
) -> None:
    found = entmax(scores.to(dtype), KEEP, alpha)
    assert (found[~KEEP.unsqueeze(1).expand_as(found)] == 0).all()
    for n, t in np.ndindex(N, T):
        expected = reference_entmax(scores[n, t, : LENGTHS[n]].numpy(), alpha)
        np.testing.assert_allclose(
            found[n, t, : LENGTHS[n]], expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-10
        )  # fmt: skip


@pytest.mark.parametrize("moved", [0.0, 1e4, -1e4])
def test_by_hand(moved: float) -> None:
    """Two scores with a difference d below 2: sqrt(w) = (+-d / 2 + sqrt(2 - d^2 / 4)) / 2."""
    d = 0.5
    larger = ((d / 2 + np.sqrt(2 - d * d / 4)) / 2) ** 2
    found = entmax(torch.tensor([[[moved + d, moved]]], dtype=torch.float64), None, 1.5)
    np.testing.assert_allclose(found[0, 0], [larger, 1 - larger], atol=1e-9)
    assert entmax(torch.tensor([[[2.0, 0.0]]]), None, 1.5).tolist() == [[[1, 0]]]
    assert torch.isnan(entmax(torch.zeros(1, 1, 3), torch.zeros(1, 3, dtype=torch.bool), 1.5)).all()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("count", [1, 2, 3, 257])
def test_equal_scores_get_equal_weights(count: int, alpha: float) -> None:
    found = entmax(torch.full((1, 1, count), -7.0), None, alpha)
    torch.testing.assert_close(found, torch.full((1, 1, count), 1 / count))


def test_the_two_ends(scores: Tensor) -> None:
    torch.testing.assert_close(entmax(scores, KEEP, 2.0), sparsemax(scores, KEEP))
    near = entmax(scores, KEEP, 1.0001)
    torch.testing.assert_close(near, softmax(scores, KEEP), atol=1e-3, rtol=0)
    counts = [int((entmax(scores, None, alpha) > 0).sum()) for alpha in (1.01, 1.5, 2.0)]
    assert counts == sorted(counts, reverse=True) and len(set(counts)) == 3


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 1.7])
def test_gradients_of_scores_and_alpha(alpha: float, scores: Tensor) -> None:
    one = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    scores = scores[:, :2].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: entmax(z, KEEP, alpha), (scores,))
    assert torch.autograd.gradcheck(
        lambda z, a: entmax(z, KEEP, a), (scores, one), atol=1e-4, rtol=1e-4
    )


def test_the_gradient_where_a_weight_is_zero() -> None:
    """A step far below the threshold has no weight and no slope, and the slopes sum to 0."""
    scores = torch.tensor([[[2.0, 0.5, -0.5, -9.0]]], requires_grad=True)
    weights = entmax(scores, None, 1.5)
    (grad,) = torch.autograd.grad(weights[..., 0].sum(), scores)
    assert weights[0, 0, 2:].tolist() == [0, 0] and grad[0, 0, 2:].tolist() == [0, 0]
    assert grad[0, 0, 0] > 0.1 and grad.sum() == pytest.approx(0, abs=1e-6)


def test_each_head_learns_its_own_alpha() -> None:
    """A head of run r with its own alpha has the weights of a fixed alpha."""
    normalizer = Entmax(None, heads=2)
    assert normalizer.theta is not None
    theta = torch.tensor([[-3.0, 0.0], [1.0, 4.0], [0.0, 0.5]])  # (R, A)
    normalizer.theta.value = torch.nn.Parameter(theta)
    scores = torch.randn(3, N, 2, T, S, generator=torch.Generator().manual_seed(2))
    keep = KEEP.unsqueeze(1).expand(3, N, 1, S)
    found = normalizer(scores, keep, None).weights
    alpha = 1.01 + 0.99 / (1 + np.exp(-theta.numpy()))
    for r, a in np.ndindex(3, 2):
        alone = entmax(scores[r, :, a], KEEP, float(alpha[r, a]))
        torch.testing.assert_close(found[r, :, a], alone, atol=1e-5, rtol=0)
    found[..., 0].sum().backward()
    assert normalizer.theta.value.grad is not None
    assert (normalizer.theta.value.grad != 0).all()


def test_a_learned_alpha_is_a_parameter_that_begins_at_the_middle() -> None:
    attention = {"heads": 4, "normalizer": "entmax", "alpha": "learned"}
    model = build_model(Recurrent.model_validate({"attention": attention}), 2, 1)
    theta = dict(model.named_parameters())["attention.normalizer.theta.value"]
    assert theta.tolist() == [0, 0, 0, 0]
