from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqattn.models import SampledActions
from seqattn.models.attention import (
    AdditiveScore,
    Attention,
    AttentionMemory,
    CosineScore,
    DotScore,
    GeneralScore,
    LocalWindow,
    LocationShiftAddressing,
    Normalizer,
    Reinforce,
    ScaledDotScore,
    Score,
    Softmax,
    StraightThrough,
    UniformScore,
    softmax,
    sparsemax,
    weighted_sum,
)
from seqattn.models.cells import GRU, LSTM, RNN, Bidirectional, Cell
from seqattn.models.layers import Linear, affine, init_parameters
from seqattn.training.objective import reinforce_loss
from tests.conftest import ROOT, F, H, K, N, S, T

Golden = dict[str, dict[str, Any]]


def close(found: Tensor, case: dict[str, Any]) -> None:
    np.testing.assert_allclose(
        found.detach().numpy(), case["expected"], atol=case["tolerance"]["atol"], rtol=0
    )


def notebook_gru(weights: dict[str, Any], prefix: str = "") -> GRU:
    """The notebook's `basic_rnn` as our GRU."""
    hidden = len(weights[f"{prefix}basic_rnn.weight_hh_l0"][0])
    inputs = len(weights[f"{prefix}basic_rnn.weight_ih_l0"][0])
    gru = GRU(inputs, hidden)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        numbers = torch.tensor(weights[f"{prefix}basic_rnn.{name}_l0"])
        getattr(gru, name).data = numbers
    return gru


def first_query(golden: Golden) -> tuple[Tensor, Tensor]:
    """The notebook's first query (1, 1, 2) and its values (1, 2, 2)."""
    inputs = golden["query"]["inputs"]
    values = torch.tensor(inputs["values"])
    decoder = notebook_gru(inputs["weights"])
    point = torch.tensor([[-1.0, 1.0]])
    return decoder.step(decoder.project(point), values[:, -1]).unsqueeze(1), values


# --- the notebook, number by number -------------------------------------------------------------


def test_encoder_states(golden: Golden) -> None:
    case = golden["values"]
    gru = notebook_gru(case["inputs"]["weights"])
    source = torch.tensor(case["inputs"]["source"])
    states, _ = gru.unroll(gru.project_steps(source))
    close(states, case)


def test_first_query(golden: Golden) -> None:
    query, _ = first_query(golden)
    close(query, golden["query"])


def test_uniform_weights_average_the_values(golden: Golden) -> None:
    query, values = first_query(golden)
    attention = Attention(UniformScore())
    memory = attention.precompute_memory(values, None)
    context = weighted_sum(attention.attention_weights(query, memory)[0].weights, memory.values)
    close(context, golden["ctx-mean"])
    close(torch.cat([context, query], dim=-1), golden["concat"])


def test_dot_products_and_their_weights(golden: Golden) -> None:
    query, values = first_query(golden)
    products = DotScore().scores(query, values)
    close(products, golden["products"])
    close(softmax(products, None), golden["alphas"])


def test_scaled_dot_products_weights_and_context(golden: Golden) -> None:
    query, values = first_query(golden)
    attention = Attention(ScaledDotScore(2, None))
    memory = attention.precompute_memory(values, None)
    weights = attention.attention_weights(query, memory)[0].weights
    close(attention.score.scores(query, memory.keys), golden["scaled"])
    close(weights, golden["scaled-alphas"])
    close(weighted_sum(weights, memory.values), golden["scaled-context"])


def test_the_picture_of_query_and_keys(golden: Golden) -> None:
    inputs = golden["vis-prod"]["inputs"]
    query = torch.tensor(inputs["q"])[None, None]
    keys = torch.tensor(inputs["k"])
    attention = Attention(DotScore())
    weights = attention.attention_weights(query, attention.precompute_memory(keys, None))[0].weights
    close(attention.score.scores(query, keys), golden["vis-prod"])
    close(weights, golden["vis-scores"])
    close(weighted_sum(weights, keys), golden["vis-context"])
    norms = keys.norm(dim=-1).ravel()
    cosines = attention.score.scores(query, keys).ravel() / (query.norm() * norms)
    close(torch.cat([cosines, query.norm()[None], norms]), golden["vis-latex-cos"])


def test_softmax_sharpens_with_scale(golden: Golden) -> None:
    x = torch.tensor(golden["softmax-scale"]["inputs"]["x"])
    close(softmax(torch.stack([x, 100 * x])[None], None)[0], golden["softmax-scale"])


def masked_case(case: dict[str, Any]) -> Tensor:
    """Weights of a case with the notebook's Attention(2): projected queries and keys."""
    inputs = case["inputs"]
    score = ScaledDotScore(2, 2)
    assert score.query is not None
    assert score.key is not None
    for name, layer in (("linear_query", score.query), ("linear_key", score.key)):
        assert layer.bias is not None
        layer.weight.data = torch.tensor(inputs["weights"][f"{name}.weight"])
        layer.bias.data = torch.tensor(inputs["weights"][f"{name}.bias"])
    attention = Attention(score)
    keep = torch.tensor(inputs["mask"])[:, 0] if "mask" in inputs else None
    memory = attention.precompute_memory(torch.tensor(inputs["keys"]), keep)
    return attention.attention_weights(torch.tensor(inputs["query"]), memory)[0].weights


@pytest.mark.parametrize("case", ["masked-alphas", "unmasked-alphas"])
def test_masked_and_unmasked_weights(golden: Golden, case: str) -> None:
    close(masked_case(golden[case]), golden[case])


def test_a_row_with_nothing_to_attend_to_is_not_uniform(golden: Golden) -> None:
    case = golden["all-masked"]
    assert case["role"] == "must_not_match"
    found = masked_case(case)
    assert not np.allclose(found.detach().numpy(), case["expected"], atol=0.1)
    assert torch.isnan(found).all()  # loud: a loss made of it stops the training


def test_every_must_case_of_the_notebook_is_held_somewhere(golden: Golden) -> None:
    # A case that is added to the file must be added to a test: this one counts them.
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    required_cases = [
        name for name, case in golden.items() if case["role"] in ("must", "must_not_match")
    ]
    assert len(required_cases) == 23
    assert [name for name in required_cases if f'"{name}"' not in tests] == []


# --- derived by hand ----------------------------------------------------------------------------


def test_softmax_by_hand() -> None:
    # Scores 0, log 2, log 3 are weights in the ratio 1 : 2 : 3; without the last, 1 : 2.
    scores = torch.tensor([[[0.0, math.log(2), math.log(3)]]])
    assert softmax(scores, None)[0, 0].tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    keep = torch.tensor([[True, True, False]])
    weights = softmax(scores, keep)[0, 0].tolist()
    assert weights[:2] == pytest.approx([1 / 3, 2 / 3])
    assert weights[2] == 0.0


def test_softmax_stands_large_scores() -> None:
    scores = torch.tensor([[[1e4, 1e4 - math.log(3.0)]]], dtype=torch.float64)
    assert softmax(scores, None)[0, 0].tolist() == pytest.approx([0.75, 0.25])
    half = torch.tensor([[[6e4, 6e4]]], dtype=torch.float16)
    assert softmax(half, torch.tensor([[True, False]]))[0, 0].tolist() == [1.0, 0.0]


@pytest.fixture
def states() -> tuple[Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(5)
    queries = torch.randn(N, T, H, generator=numbers, dtype=torch.float64)
    return queries, torch.randn(N, S, H, generator=numbers, dtype=torch.float64)


def filled(score: Score) -> Score:
    init_parameters(score, 3)
    return score.double()


def test_scores_by_loops(states: tuple[Tensor, Tensor]) -> None:
    """Each score written out for one pair at a time, as its paper has it."""
    queries, encoded = states
    general, additive = filled(GeneralScore(H)), filled(AdditiveScore(H, K))
    scaled, bare = filled(ScaledDotScore(H, K)), ScaledDotScore(H, None)
    assert isinstance(general, GeneralScore)
    assert isinstance(additive, AdditiveScore)
    assert isinstance(scaled, ScaledDotScore)
    assert scaled.query is not None
    assert scaled.key is not None
    rules = {
        UniformScore(): lambda q, k: torch.tensor(0.0),
        DotScore(): lambda q, k: (q * k).sum(),
        bare: lambda q, k: (q * k).sum() / math.sqrt(H),
        scaled: lambda q, k: (scaled.query(q) * scaled.key(k)).sum() / math.sqrt(K),
        general: lambda q, k: q @ general.key.weight @ k,
        additive: lambda q, k: (
            additive.combine.weight[0]
            @ torch.tanh(additive.query.weight @ q + additive.key.weight @ k + additive.key.bias)
        ),
    }
    for score, rule in rules.items():
        found = score.scores(queries, score.keys(encoded))
        assert found.shape == (N, T, S)
        for n, t, s in [(0, 0, 0), (6, 12, 10), (3, 5, 7), (1, 11, 2)]:
            expected = rule(queries[n, t], encoded[n, s])  # type: ignore[no-untyped-call]
            assert found[n, t, s].item() == pytest.approx(expected.item(), abs=1e-12)


def test_additive_has_the_shape_of_its_hidden_layer() -> None:
    shapes = {name: tuple(p.shape) for name, p in AdditiveScore(H, K).named_parameters()}
    assert shapes == {
        "query.weight": (K, H), "key.weight": (K, H), "key.bias": (K,), "combine.weight": (1, K),
    }  # fmt: skip


def test_masked_keys_get_no_gradient(states: tuple[Tensor, Tensor]) -> None:
    queries, encoded = states
    encoded.requires_grad_()
    keep = torch.arange(S) < torch.tensor([1, 11, 2, 3, 5, 7, 10])[:, None]
    weights = softmax(DotScore().scores(queries, encoded), keep)
    assert weights.sum(-1).detach().numpy() == pytest.approx(np.ones((N, T)))
    assert (weights.detach()[~keep.unsqueeze(1).expand(N, T, S)] == 0).all()
    upstream = torch.randn(N, T, S, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (weights * upstream).sum().backward()
    assert encoded.grad is not None
    assert (encoded.grad[~keep] == 0).all()
    assert encoded.grad[keep].abs().max() > 1e-3


def test_project_values_averages_projected_values(states: tuple[Tensor, Tensor]) -> None:
    _, encoded = states
    value = Linear(H, H)
    init_parameters(value, 1)
    value = value.double()
    attention = Attention(DotScore(), value=value)
    memory = attention.precompute_memory(encoded, None)
    assert isinstance(memory, AttentionMemory)
    expected = encoded @ value.weight.T + value.bias
    torch.testing.assert_close(memory.values, expected)
    torch.testing.assert_close(memory.keys, encoded)
    unused = dict(Attention(DotScore()).named_parameters())
    assert unused == {}  # a projection that is not required_cases for does not exist


# --- the building blocks ------------------------------------------------------------------------


def test_affine_serves_one_run_and_many() -> None:
    weight, bias, x = torch.randn(2, H, F), torch.randn(2, H), torch.randn(2, N, S, F)
    for b in (bias, None):
        both = affine(x, weight, b)
        for k in range(2):
            alone = affine(x[k], weight[k], None if b is None else b[k])
            torch.testing.assert_close(both[k], alone)


def test_initialisation_is_torchs_and_its_own_stream() -> None:
    wide = Linear(1000, 400)
    init_parameters(wide, 11)
    bound = 1 / math.sqrt(1000)
    weight = wide.weight.detach()
    assert weight.abs().max() <= bound
    # A uniform distribution over (-b, b) has standard deviation b / sqrt(3).
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    torchs = torch.nn.Linear(1000, 400)
    assert torchs.weight.std().item() == pytest.approx(weight.std().item(), rel=0.02)
    again = Linear(1000, 400)
    torch.manual_seed(99)  # the global stream has no say
    init_parameters(again, 11)
    assert torch.equal(again.weight, wide.weight)
    init_parameters(again, 12)
    assert not torch.equal(again.weight, wide.weight)
    assert wide.bias is not None
    assert again.bias is not None
    assert not torch.equal(wide.bias, again.bias)


# --- normalizers ----------------------------------------------------------------------------------


def test_sparsemax_by_hand() -> None:
    # Scores 0.8, 0.6, -1: the first two share what tau = (1.4 - 1) / 2 = 0.2 leaves, the third is
    # below tau. Scores 3, 0, 0: the first is more than 1 above all others and takes everything.
    scores = torch.tensor([[[0.8, 0.6, -1.0], [3.0, 0.0, 0.0], [0.5, 0.5, 0.5]]])
    expected = [[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3] * 3]
    np.testing.assert_allclose(sparsemax(scores, None)[0], expected, atol=1e-6)
    keep = torch.tensor([[False, True, True]])
    np.testing.assert_allclose(
        sparsemax(scores, keep)[0], [[0, 1, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], atol=1e-6
    )
    assert torch.isnan(sparsemax(scores, torch.zeros(1, 3, dtype=torch.bool))).all()


def test_sparsemax_of_large_scores_sums_to_one() -> None:
    """In float32 the sum of three scores around 1e7 is known to 4 at best."""
    scores = torch.tensor([[[0.0, 1, -3], [0, 0, -1], [0, 0, 0]]])
    keep = torch.tensor([[True, True, False]])
    for large in (1e7, -1e7, 3e38):
        moved = scores + large
        expected = [[0, 1, 0], [0.5, 0.5, 0], [1 / 3] * 3] if large < 1e8 else [[1 / 3] * 3] * 3
        np.testing.assert_allclose(sparsemax(moved, None)[0], expected, atol=1e-6)
        assert sparsemax(moved, keep).sum(-1).tolist() == [[1, 1, 1]]


def test_sparsemax_is_the_nearest_point_of_the_simplex(states: tuple[Tensor, Tensor]) -> None:
    """Against the condition that makes it so: no other point of the simplex is nearer, which for
    a projection p of z means (z - p) . (q - p) <= 0 for every corner q."""
    queries, encoded = states
    scores = DotScore().scores(queries, encoded)
    weights = sparsemax(scores, None)
    assert ((weights == 0).sum(-1) > 0).any()
    rest = scores - weights
    inner = rest - (rest * weights).sum(-1, keepdim=True)
    assert inner.max() < 1e-12


def test_slopes_of_sparsemax(states: tuple[Tensor, Tensor]) -> None:
    """Section 2.5 of the paper, and finite differences."""
    queries, encoded = states
    scores = DotScore().scores(queries, encoded).detach().requires_grad_()
    upstream = torch.randn(N, T, S, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = sparsemax(scores, None)
    weights.backward(upstream)
    support = (weights > 0).double()
    mean = (upstream * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, support * (upstream - mean), atol=1e-12, rtol=0)
    keep = torch.arange(S) < torch.tensor([1, 11, 2, 3, 5, 7, 10])[:, None]
    assert torch.autograd.gradcheck(
        lambda z: sparsemax(z, keep[:2]), (scores[:2, :2].detach().requires_grad_(),)
    )


def soft_scores() -> tuple[Tensor, Tensor]:
    """Four rows of scores, and 20,000 uniform numbers for each."""
    scores = torch.tensor([[0.0, math.log(2), math.log(5)], [3.0, -3.0, 0.0],
                           [0.0, 0.0, 0.0], [-1.0, 1.0, 9.0]], dtype=torch.float64)  # fmt: skip
    numbers = torch.rand(4, 20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return scores[:, None].expand(4, 20_000, 3), numbers


@pytest.mark.parametrize("normalizer", [StraightThrough(), Reinforce()])
def test_hard_choices_are_drawn_from_the_softmax(normalizer: Normalizer) -> None:
    scores, numbers = soft_scores()
    sampled = normalizer.normalize(scores, None, numbers).weights
    assert ((sampled == 0) | (sampled == 1)).all()
    # 20,000 draws: the standard error of a share is at most 0.0035.
    torch.testing.assert_close(sampled.mean(dim=1), scores.softmax(-1)[:, 0], atol=0.015, rtol=0)
    best = normalizer.normalize(scores[:, :1] * 1.0, None, None).weights
    assert best[[0, 1, 3], 0].argmax(-1).tolist() == [2, 0, 2]
    for padding in (0, 2):
        keep = torch.tensor([[k != padding for k in range(3)]] * 4)
        for edge in (0.0, 1 - 2**-53, 1.0):  # float32 rounds the largest number below 1 to 1
            at_the_edge = normalizer.normalize(scores, keep, torch.full_like(numbers, edge)).weights
            assert (at_the_edge[..., padding] == 0).all()
            assert (at_the_edge.sum(-1) == 1).all()


def test_straight_through_goes_back_as_the_soft_weights_would() -> None:
    scores, numbers = soft_scores()
    scores = scores[:, :7].clone().requires_grad_()
    upstream = torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sampled = StraightThrough().normalize(scores, None, numbers[:, :7]).weights
    (found,) = torch.autograd.grad(sampled, scores, upstream)
    (soft,) = torch.autograd.grad(scores.softmax(-1), scores, upstream)
    torch.testing.assert_close(found, soft)


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_reinforce_has_the_slope_of_the_expected_error(baseline: float) -> None:
    """Two steps with three choices each, whose errors depend on both: the mean over many draws
    against the derivative of the sum over all nine outcomes, whatever the baseline."""
    numbers = torch.Generator().manual_seed(6)
    scores = torch.randn(1, 2, 3, generator=numbers, dtype=torch.float64, requires_grad=True)
    first = torch.tensor([0.2, 1.1, 0.5], dtype=torch.float64)
    second = torch.tensor([[0.9, 0.1, 0.4], [0.0, 2.0, 0.3], [0.6, 0.2, 1.0]], dtype=torch.float64)
    p = scores.softmax(-1)[0]
    expected_error = (p[0] * first).sum() + (p[0][:, None] * p[1] * second).sum()
    (exact,) = torch.autograd.grad(expected_error / 2, scores)  # a mean over two steps

    draws = 200_000
    many = scores.expand(draws, 2, 3)
    normalizer = Reinforce().double()
    assert normalizer.baseline is not None
    normalizer.baseline.value.data.fill_(baseline)
    uniform = torch.rand(draws, 2, generator=numbers, dtype=torch.float64)
    weights, log_prob = normalizer.normalize(many, None, uniform)
    assert log_prob is not None
    a, b = weights.argmax(-1).unbind(-1)
    errors = torch.stack([first[a], second[a, b]], dim=-1)
    choices = SampledActions(log_prob, normalizer.baseline.broadcast_to(log_prob))
    surrogate = reinforce_loss(choices, errors, None)
    found, of_baseline = torch.autograd.grad(surrogate, [scores, normalizer.baseline.value])
    torch.testing.assert_close(found, exact, atol=0.005, rtol=0)
    assert exact.abs().max() > 0.03
    # The baseline is pulled down the grad of mean (G - b steps)^2.
    rest = torch.stack([errors.sum(-1), errors[:, 1]], dim=-1)
    steps = torch.tensor([2.0, 1.0])
    pull = (-2 * steps * (rest - baseline * steps)).sum(-1).mean() / 2
    torch.testing.assert_close(of_baseline[0], pull)


def test_reinforcement_leaves_padding_out() -> None:
    log_prob = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    choices = SampledActions(log_prob, torch.zeros(1, 1))
    keep = torch.tensor([[True, True, False], [True, False, False]])
    errors = torch.tensor([[0.5, 0.25, math.nan], [1.0, math.inf, 9.0]])
    reinforce_loss(choices, errors, keep).backward()
    assert log_prob.grad is not None
    # G_t is what is still to come; three real steps.
    expected = [[0.75 / 3, 0.25 / 3, 0], [1 / 3, 0, 0]]
    np.testing.assert_allclose(log_prob.grad, expected, atol=1e-7)


# --- heads, cosine, places ------------------------------------------------------------------------


@pytest.mark.usefixtures("in_float64")
def test_heads_against_torchs_multihead_attention() -> None:
    """Copied weights, the padding mask included: weights per head and context to 1e-12."""
    heads, width = 3, 15
    theirs = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    score = ScaledDotScore(width, width, heads)
    value = Linear(width, width)
    assert score.query is not None
    assert score.key is not None
    with torch.no_grad():
        for part, layer in enumerate((score.query, score.key, value)):
            assert layer.bias is not None
            rows = slice(part * width, (part + 1) * width)
            theirs.in_proj_bias.uniform_(-1, 1)
            layer.weight.copy_(theirs.in_proj_weight[rows])
            layer.bias.copy_(theirs.in_proj_bias[rows])
        for part, layer in enumerate((score.query, score.key, value)):
            assert layer.bias is not None
            layer.bias.copy_(theirs.in_proj_bias[part * width : (part + 1) * width])
    attention = Attention(score, value=value)
    queries, states = torch.randn(N, T, width), torch.randn(N, S, width)
    keep = torch.arange(S) < torch.tensor([1, 11, 2, 3, 5, 7, 10])[:, None]
    expected, weights = theirs(
        queries, states, states, key_padding_mask=~keep, average_attn_weights=False
    )
    attended = attention.attend(queries, attention.precompute_memory(states, keep))
    torch.testing.assert_close(attended.weights, weights, atol=1e-12, rtol=0)
    found = theirs.out_proj(attended.context)  # the recurrent decoder's output layer is its own
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_of_every_score_are_scores_of_their_share(heads: int) -> None:
    """A head on its share of the width against the same score built as narrow as the share."""
    width, share = 15, 15 // heads
    queries, states = (torch.randn(2, L, width, dtype=torch.float64) for L in (T, S))
    for score in (DotScore(heads), CosineScore(width, None, heads, temperature=0.3),
                  ScaledDotScore(width, None, heads)):  # fmt: skip
        init_parameters(score, 1)
        score.double()
        found = score.scores(queries, score.keys(states))
        assert found.shape == ((2, heads, T, S) if heads > 1 else (2, T, S))
        for head in range(heads):
            narrow: Score = {
                DotScore: lambda: DotScore(),
                CosineScore: lambda: CosineScore(share, None, temperature=0.3),
                ScaledDotScore: lambda: ScaledDotScore(share, None),
            }[type(score)]()  # type: ignore[operator]
            init_parameters(narrow, 1)
            narrow.double()
            part = slice(head * share, (head + 1) * share)
            alone = narrow.scores(queries[..., part], narrow.keys(states[..., part]))
            mine = found[:, head] if heads > 1 else found
            torch.testing.assert_close(mine, alone)
    additive, general = filled(AdditiveScore(width, 6, heads)), filled(GeneralScore(width, heads))
    assert isinstance(additive, AdditiveScore)
    assert isinstance(general, GeneralScore)
    found = additive.scores(queries, additive.keys(states)).view(2, heads, T, S)
    hidden = additive.query(queries).unsqueeze(2) + additive.key(states).unsqueeze(1)
    terms = hidden.tanh() * additive.combine.weight[0]  # (2, T, S, 6), before they are summed
    expected = terms.unflatten(-1, (heads, -1)).sum(-1).permute(0, 3, 1, 2)
    torch.testing.assert_close(found, expected)
    found = general.scores(queries, general.keys(states)).view(2, heads, T, S)
    keys = general.key(states)
    products = (queries.unsqueeze(2) * keys.unsqueeze(1)).unflatten(-1, (heads, -1)).sum(-1)
    torch.testing.assert_close(found, products.permute(0, 3, 1, 2))


def test_cosine_by_hand() -> None:
    score = CosineScore(2, None, temperature=0.5)
    init_parameters(score, 1)
    queries = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    keys = torch.tensor([[[6.0, 8.0], [-3.0, -4.0], [4.0, -3.0]]])
    found = score.scores(queries, score.keys(keys))
    np.testing.assert_allclose(found[0].detach(), [[2, -2, 0], [0, 0, 0]], atol=1e-6)
    found[0, 0, 0].backward()
    grad = score.log_temperature.value.grad
    assert grad is not None
    assert grad.item() == pytest.approx(-2)  # d exp(-t) = -exp(-t): hotter is flatter


def focus(gate: float, sharpness: float, shift: list[float]) -> LocationShiftAddressing:
    """Whose control is the same for every query."""
    made = LocationShiftAddressing(H, 1, len(shift))
    made.control.weight.data.zero_()
    assert made.control.bias is not None
    made.control.bias.data = torch.tensor([gate, sharpness, *shift])
    return made


def test_a_focus_shifts_round_the_ring_of_each_source() -> None:
    """Gate closed (contents have no say), all chance on +1 and gamma close to 1: from the last real
    point to the first, the second, and so on, with every source's own length."""
    made = focus(-50.0, -50.0, [-50.0, -50.0, 50.0])
    keep = torch.arange(5) < torch.tensor([5, 2])[:, None]
    content = torch.full((2, 4, 5), 0.2)
    weights, last = made.shift(torch.zeros(2, 4, H), content, keep, None)
    np.testing.assert_allclose(weights[0].argmax(-1), [0, 1, 2, 3])
    np.testing.assert_allclose(weights[1].argmax(-1), [0, 1, 0, 1])
    np.testing.assert_allclose(weights.detach().max(-1).values, np.ones((2, 4)), atol=1e-5)
    assert torch.equal(last, weights[:, -1])
    again, _ = made.shift(torch.zeros(2, 1, H), content[:, :1], keep, last)
    np.testing.assert_allclose(again[:, 0].argmax(-1), [4, 0])


def test_gate_shift_and_sharpness_by_hand() -> None:
    """One step written out: g = 0.5, shifts -1, 0, 1 with 1/4, 1/2, 1/4, gamma = 1 + log 2."""
    made = focus(0.0, 0.0, [0.0, math.log(2), 0.0])
    content = torch.tensor([[[0.6, 0.4, 0.0]]])
    previous = torch.tensor([[0.0, 0.0, 1.0]])
    gated = np.array([0.3, 0.2, 0.5])
    shifted = 0.25 * np.roll(gated, -1) + 0.5 * gated + 0.25 * np.roll(gated, 1)
    sharp = shifted ** (1 + math.log(2))
    weights, _ = made.shift(torch.zeros(1, 1, H), content, None, previous)
    np.testing.assert_allclose(weights[0, 0].detach(), sharp / sharp.sum(), atol=1e-6)


def test_a_very_sharp_focus_is_still_a_distribution() -> None:
    made = focus(50.0, 300.0, [0.0, 0.0, 0.0])
    content = torch.full((1, 1, 1000), 1e-3)
    weights, _ = made.shift(torch.zeros(1, 1, H), content, None, None)
    assert weights.sum().item() == pytest.approx(1, abs=1e-4)


def test_a_local_window_by_hand() -> None:
    """Luong's eq. 10 written out, for p = (L - 1) / 2: scores 0 within D = 2, so that the rest is
    the Gaussian of standard deviation 1 and the edges of the window."""
    made = LocalWindow(H, 1, 2)
    made.predict.weight.data.zero_()
    made.combine.weight.data.zero_()
    keep = torch.arange(9) < torch.tensor([9, 4])[:, None]
    weights, _ = made.attention_weights(
        Softmax(), torch.zeros(2, 1, H), torch.zeros(2, 1, 9), keep, None
    )
    weights = weights[:, 0].detach()
    away = np.arange(9) - 4
    expected = np.where(np.abs(away) <= 2, np.exp(-(away**2) / 2) / 5, 0)
    np.testing.assert_allclose(weights[0], expected, atol=1e-6)
    away = np.arange(9) - 1.5
    expected = np.where(np.arange(9) < 4, np.exp(-(away**2) / 2) / 4, 0)
    np.testing.assert_allclose(weights[1], expected, atol=1e-6)
    assert weights[0].sum() < 1  # eq. 10 gives nothing back


# --- cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [GRU, LSTM, RNN])
def test_a_cell_is_torchs_cell(cell: type[Cell]) -> None:
    ours, theirs = cell(F, H), getattr(torch.nn, cell.__name__)(F, H, batch_first=True)
    init_parameters(ours, 7)
    theirs.load_state_dict({f"{name}_l0": p.detach() for name, p in ours.named_parameters()})
    source, start = torch.randn(N, S, F), torch.randn(N, ours.num_state_tensors * H)
    given = (
        start[None]
        if ours.num_state_tensors == 1
        else tuple(part[None] for part in start.split(H, -1))
    )
    for ours_given, theirs_given in ((start, given), (None, None)):
        states, last = theirs(source, theirs_given)
        found, found_last = ours.unroll(ours.project_steps(source), ours_given)
        torch.testing.assert_close(ours.output(found), states)
        joined = (
            last[0]
            if ours.num_state_tensors == 1
            else torch.cat([part[0] for part in last], dim=-1)
        )
        torch.testing.assert_close(found_last, joined)


@pytest.mark.parametrize("cell", [GRU, LSTM, RNN])
def test_both_directions_against_torch_one_length_at_a_time(cell: type[Cell]) -> None:
    reader = Bidirectional(cell, F, H)
    init_parameters(reader, 4)
    theirs = getattr(torch.nn, cell.__name__)(F, H, batch_first=True, bidirectional=True)
    theirs.load_state_dict(
        {f"{name}_l0{end}": p.detach()
         for part, end in ((reader.forwards, ""), (reader.backwards, "_reverse"))
         for name, p in part.named_parameters()}
    )  # fmt: skip
    lengths = torch.tensor([11, 1, 2, 3, 5, 7, 10])
    source = torch.randn(N, S, F)
    outputs, last = reader.forward(source, lengths)
    for n, length in enumerate(lengths.tolist()):
        states, ends = theirs(source[n : n + 1, :length])
        torch.testing.assert_close(outputs[n, :length], reader.merge(states[0]))
        ends = (ends,) if isinstance(ends, Tensor) else ends
        bridged = [bridge(end[:, 0].flatten())
                   for bridge, end in zip(reader.bridges, ends, strict=True)]  # fmt: skip
        bridged[0] = bridged[0].tanh()
        torch.testing.assert_close(last[n], torch.cat(bridged))
