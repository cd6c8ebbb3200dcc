from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqattn.attention import (
    AdditiveScore,
    Attention,
    DotScore,
    GeneralScore,
    Memory,
    ScaledDotScore,
    Score,
    UniformScore,
    softmax,
    weighted_sum,
)
from seqattn.cells import GRU
from seqattn.layers import Affine, affine, initialise
from tests.conftest import F, H, K, N, S, T

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
    states, _ = gru.run(gru.project_steps(source))
    close(states, case)


def test_first_query(golden: Golden) -> None:
    query, _ = first_query(golden)
    close(query, golden["query"])


def test_uniform_weights_average_the_values(golden: Golden) -> None:
    query, values = first_query(golden)
    attention = Attention(UniformScore())
    memory = attention.remember(values, None)
    context = weighted_sum(attention.weigh(query, memory)[0].weights, memory.values)
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
    memory = attention.remember(values, None)
    weights = attention.weigh(query, memory)[0].weights
    close(attention.score.scores(query, memory.keys), golden["scaled"])
    close(weights, golden["scaled-alphas"])
    close(weighted_sum(weights, memory.values), golden["scaled-context"])


def test_the_picture_of_query_and_keys(golden: Golden) -> None:
    inputs = golden["vis-prod"]["inputs"]
    query = torch.tensor(inputs["q"])[None, None]
    keys = torch.tensor(inputs["k"])
    attention = Attention(DotScore())
    weights = attention.weigh(query, attention.remember(keys, None))[0].weights
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
    memory = attention.remember(torch.tensor(inputs["keys"]), keep)
    return attention.weigh(torch.tensor(inputs["query"]), memory)[0].weights


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
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    asked = [name for name, case in golden.items() if case["role"] in ("must", "must_not_match")]
    assert len(asked) == 23
    assert [name for name in asked if f'"{name}"' not in tests] == []


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
    initialise(score, 3)
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
    value = Affine(H, H)
    initialise(value, 1)
    value = value.double()
    attention = Attention(DotScore(), value=value)
    memory = attention.remember(encoded, None)
    assert isinstance(memory, Memory)
    expected = encoded @ value.weight.T + value.bias
    torch.testing.assert_close(memory.values, expected)
    torch.testing.assert_close(memory.keys, encoded)
    unused = dict(Attention(DotScore()).named_parameters())
    assert unused == {}  # a projection that is not asked for does not exist


# --- the building blocks ------------------------------------------------------------------------


def test_gru_is_torchs_gru() -> None:
    ours, theirs = GRU(F, H), torch.nn.GRU(F, H, batch_first=True)
    initialise(ours, 7)
    theirs.load_state_dict({f"{name}_l0": p.detach() for name, p in ours.named_parameters()})
    source, start = torch.randn(N, S, F), torch.randn(N, H)
    states, last = theirs(source, start[None])
    found, found_last = ours.run(ours.project_steps(source), start)
    torch.testing.assert_close(found, states)
    torch.testing.assert_close(found_last, last[0])
    from_zero, _ = theirs(source)
    torch.testing.assert_close(ours.run(ours.project_steps(source))[0], from_zero)


def test_affine_serves_one_run_and_many() -> None:
    weight, bias, x = torch.randn(2, H, F), torch.randn(2, H), torch.randn(2, N, S, F)
    for b in (bias, None):
        both = affine(x, weight, b)
        for k in range(2):
            alone = affine(x[k], weight[k], None if b is None else b[k])
            torch.testing.assert_close(both[k], alone)


def test_initialisation_is_torchs_and_its_own_stream() -> None:
    wide = Affine(1000, 400)
    initialise(wide, 11)
    bound = 1 / math.sqrt(1000)
    weight = wide.weight.detach()
    assert weight.abs().max() <= bound
    # A uniform distribution over (-b, b) has standard deviation b / sqrt(3).
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    torchs = torch.nn.Linear(1000, 400)
    assert torchs.weight.std().item() == pytest.approx(weight.std().item(), rel=0.02)
    again = Affine(1000, 400)
    torch.manual_seed(99)  # the global stream has no say
    initialise(again, 11)
    assert torch.equal(again.weight, wide.weight)
    initialise(again, 12)
    assert not torch.equal(again.weight, wide.weight)
    assert wide.bias is not None
    assert again.bias is not None
    assert not torch.equal(wide.bias, again.bias)
