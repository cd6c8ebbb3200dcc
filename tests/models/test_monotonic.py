"""Hard monotonic attention: the expected alignment and the hard decisions against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.config import Config, Monotonic, Recurrent
from seqattn.models import build_model
from seqattn.models.attention import HardMonotonic, Softmax
from seqattn.models.attention.monotonic import standard_normal
from seqattn.models.layers import init_parameters

R, N, T, S, H = 2, 3, 5, 7, 4
LENGTHS = torch.tensor([7, 4, 1])
KEEP = torch.arange(S) < LENGTHS[:, None]
Array = NDArray[np.float64]


def location_of(heads: int = 1, *, offset: float = 0.3, noise: float = 0.7) -> HardMonotonic:
    location = HardMonotonic.from_config(Monotonic(offset=offset, noise=noise), H, heads).double()
    init_parameters(location, 1)
    return location


def drawn(*shape: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Scores of several sizes, and uniform numbers."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return scores, torch.rand(*shape, generator=generator, dtype=torch.float64)


def weights_of(
    location: HardMonotonic, scores: Tensor, u: Tensor | None, keep: Tensor | None = None,
    previous: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    queries = scores.new_zeros(*scores.shape[:-2], H)
    weights, last = location(Softmax(), queries, scores, keep, previous, u)
    assert last is not None
    return weights, last


def expected_alignment(p: Array, first: Array) -> Array:
    """Equation 9 of Raffel et al. 2017 for p (T, S), with a loop for each sum and product."""
    before, rows = first, []
    for p_i in p:
        row = np.zeros(len(p_i))
        for j in range(len(p_i)):
            for k in range(j + 1):
                passed = 1.0
                for step in range(k, j):
                    passed *= 1 - p_i[step]
                row[j] += before[k] * passed
            row[j] *= p_i[j]
        before = row
        rows.append(row)
    return np.stack(rows)


def decide(stops: NDArray[np.bool_], position: int | None = 0) -> Array:
    """Walk through the source, once for all T rows of decisions (T, S)."""
    rows = np.zeros(stops.shape)
    for row, decisions in zip(rows, stops, strict=True):
        while position is not None and not decisions[position]:
            position = position + 1 if position + 1 < len(decisions) else None
        if position is not None:
            row[position] = 1
    return rows


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("runs", [0, R])
def test_the_expected_alignment_by_its_sum(heads: int, runs: int) -> None:
    """In runs with offsets of their own, several heads, and sources of several lengths."""
    location = location_of(heads)
    lead = (runs,) if runs else ()
    offset = torch.linspace(-1, 1, max(runs, 1) * heads, dtype=torch.float64).view(*lead, heads)
    location.offset.value = torch.nn.Parameter(offset)
    axes = (N, heads) if heads > 1 else (N,)
    scores, u = drawn(*lead, *axes, T, S)
    scores = scores.masked_fill(~KEEP.view(N, *[1] * (heads > 1), 1, S), torch.nan)
    keep = KEEP.view(N, *[1] * (heads > 1), S)
    found, last = weights_of(location, scores, u, keep.expand(*lead, *keep.shape))
    noise = torch.distributions.Normal(0, 1).icdf(u)
    shape = (max(runs, 1), N, heads, T, S)
    energies = (scores + 0.7 * noise).view(shape) + offset.view(max(runs, 1), 1, heads, 1, 1)
    p, weights = (1 / (1 + (-energies).exp())).numpy(), found.detach().view(shape).numpy()
    for r, n, head in np.ndindex(*shape[:3]):
        L = int(LENGTHS[n])
        row = expected_alignment(p[r, n, head, :, :L], np.eye(L)[0])
        np.testing.assert_allclose(weights[r, n, head, :, :L], row, atol=1e-12)
        assert (weights[r, n, head, :, L:] == 0).all()
    assert torch.equal(last, found[..., -1, :])


def test_it_goes_on_from_any_weights() -> None:
    location, (scores, u) = location_of(noise=0.0), drawn(T, S)
    first = torch.linspace(0, 0.2, S, dtype=torch.float64)
    found, _ = weights_of(location, scores[None], u[None], None, first[None])
    p = torch.sigmoid(scores + 0.3).numpy()
    expected = expected_alignment(p, first.numpy())
    np.testing.assert_allclose(found[0].detach().numpy(), expected, atol=1e-12)


def test_the_expectation_is_the_mean_of_sampled_walks() -> None:
    location, (scores, u) = location_of(noise=0.0), drawn(T, S)
    found, _ = weights_of(location, scores[None] / 3, u[None])
    p = torch.sigmoid(scores / 3 + 0.3).numpy()
    walks, rng = 20_000, np.random.default_rng(1)
    mean = sum(decide(rng.random((T, S)) < p) for _ in range(walks)) / walks
    np.testing.assert_allclose(found[0].detach().numpy(), mean, atol=4 * 0.5 / walks**0.5)


@pytest.mark.parametrize("heads", [1, 2])
def test_hard_decisions_by_a_walk(heads: int) -> None:
    location = location_of(heads, offset=-1.0)
    axes = (N, heads) if heads > 1 else (N,)
    scores, _ = drawn(*axes, T, S)
    keep = KEEP.view(N, *[1] * (heads > 1), S)
    weights = weights_of(location, scores, None, keep)[0].view(N, heads, T, S).numpy()
    stops = (scores.view(N, heads, T, S) - 1 > 0).numpy()
    for n, head in np.ndindex(N, heads):
        L = int(LENGTHS[n])
        np.testing.assert_array_equal(weights[n, head, :, :L], decide(stops[n, head, :, :L]))
    assert (weights[~np.broadcast_to(KEEP[:, None, None], weights.shape)] == 0).all()
    assert {0.0, 1.0} == set(weights.sum(-1).ravel())


def test_saturated_probabilities_give_the_hard_result() -> None:
    """Also after sums of logarithms that are far larger than 1."""
    location = location_of(noise=0.0).float()
    scores, u = (x.float() for x in drawn(N, T, S))
    training, _ = weights_of(location, 1e4 * scores, u)
    hard, _ = weights_of(location, 1e4 * scores, None)
    torch.testing.assert_close(training, hard, atol=1e-6, rtol=0)
    mild = torch.full((1, 1, 200), -0.3)  # p = 1/2 at each of many steps after a certain step
    mild[..., 0] = -3e6
    found, _ = weights_of(location, mild, mild.new_zeros(1, 1, 200))
    torch.testing.assert_close(found[0, 0, 1:20], 0.5 ** torch.arange(1.0, 20))


def test_the_gradient_is_that_of_differences() -> None:
    location, (scores, u) = location_of(2), drawn(N, 2, 3, 4)
    keep, first = KEEP[:, None, :4], torch.rand(N, 2, 4, dtype=torch.float64)

    def weights(scores: Tensor, first: Tensor, offset: Tensor) -> Tensor:
        found: tuple[Tensor, Tensor] = torch.func.functional_call(
            location, {"offset.value": offset},
            (Softmax(), scores[:, 0], scores, keep, first), {"u": u},
        )  # fmt: skip
        return found[0]

    inputs = [x.detach().requires_grad_() for x in (scores, first, location.offset.value)]
    assert torch.autograd.gradcheck(weights, inputs)


@pytest.mark.parametrize("trains", [False, True])
def test_padding_and_single_queries_change_nothing(trains: bool) -> None:
    location, (scores, numbers) = location_of(), drawn(N, T, S)
    u = numbers if trains else None
    together, _ = weights_of(location, scores, u, KEEP)
    previous = None
    for t in range(T):
        now = slice(t, t + 1)
        alone, previous = weights_of(
            location, scores[:, now], None if u is None else u[:, now], KEEP, previous
        )
        torch.testing.assert_close(alone, together[:, now])
    for n, L in enumerate(LENGTHS.tolist()):
        short = None if u is None else u[n : n + 1, :, :L]
        alone, _ = weights_of(location, scores[n : n + 1, :, :L], short)
        torch.testing.assert_close(alone[0], together[n, :, :L])


def test_noise_is_normal_and_finite() -> None:
    u = torch.linspace(0, 1, 100_001)
    found = standard_normal(u)
    assert found.isfinite().all()
    torch.testing.assert_close(found[50_000], torch.tensor(0.0))
    assert float(found.std()) == pytest.approx(1, abs=1e-3)


class Counted:
    """Numbers that tell the draw: its name and its shape."""

    def __init__(self) -> None:
        self.draws: list[tuple[Any, ...]] = []

    def uniform(self, name: str, *shape: int) -> Tensor:
        self.draws.append((name, *shape))
        return torch.rand(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("sections", [
    {}, {"context": "input"}, {"input_feeding": True}, {"attention": {"heads": 2}},
])  # fmt: skip
def test_each_query_and_source_step_has_a_number_of_its_own(sections: dict[str, Any]) -> None:
    """Whatever the segments of teacher forcing are, and with an axis of heads if there are some."""
    heads = sections.get("attention", {}).get("heads", 1)
    location = {"location": {"kind": "monotonic"}}
    config = Recurrent.model_validate(sections | {"attention": {"heads": heads, **location}})
    model, rng = build_model(config, 2, 1), Counted()
    source, target = torch.randn(N, S, 2), torch.randn(N, T, 2)
    maps = []
    for forced in ([True] * T, [True, True, False, True, True]):
        output = model(
            source, target, source_lengths=LENGTHS, teacher_forcing=torch.tensor(forced),
            rng=rng,
        )  # fmt: skip
        maps.append(output.attention[0])
    assert rng.draws == [("sampling", N, *[heads] * (heads > 1), T, S)] * 2
    assert all(each.meaning == "partial" for each in maps)
    torch.testing.assert_close(maps[0].weights[..., :2, :], maps[1].weights[..., :2, :])
    hard = model(source, target, source_lengths=LENGTHS, teacher_forcing=torch.tensor([True] * T))
    assert set(hard.attention[0].weights.unique().tolist()) <= {0.0, 1.0}
    assert not set(maps[0].weights.unique().tolist()) <= {0.0, 1.0}


def test_other_normalizers_and_equal_scores_are_refused() -> None:
    for attention, message in (
        ({"normalizer": "sparsemax"}, "is sparsemax, but location: monotonic computes the weights"),
        ({"score": "uniform"}, "is monotonic, but score: uniform gives all steps the same score"),
    ):
        with pytest.raises(ValueError, match=message):
            Config.model_validate(
                {"model": {"attention": attention | {"location": {"kind": "monotonic"}}}}
            )
