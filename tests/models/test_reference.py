"""The referee: golden numbers, finite differences, torch's autograd, and the project's own scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.models.attention import (
    AdditiveScore,
    Attention,
    GeneralScore,
    ScaledDotScore,
    weighted_sum,
)
from seqattn.models.fast_weights import MatrixMemory, StateMemory
from seqattn.models.layers import init_parameters
from tests.conftest import ROOT
from tests.models.numpy_reference import (
    Array,
    Gradients,
    ScoreName,
    additive_forward,
    attention_backward,
    attention_forward,
    causal_mask,
    general_forward,
    glorot_weights,
    linear_backward,
    linear_forward,
    scaled_dot_backward,
    scaled_dot_forward,
    softmax_backward,
    softmax_forward,
    weighted_sum_backward,
    weighted_sum_forward,
)

SCORES: tuple[ScoreName, ...] = ("scaled_dot", "general", "additive")
T, S, Q, C, V, K, O = 3, 5, 7, 11, 13, 2, 17  # noqa: E741 - the letters of the module


def cases(name: str) -> dict[str, dict[str, Any]]:
    found = json.loads((ROOT / f"tests/fixtures/{name}.json").read_text())
    return {case["id"]: case for case in found}


def close(found: Any, case: dict[str, Any], expected: Any = None) -> None:
    np.testing.assert_allclose(
        found, case["expected"] if expected is None else expected, **{
            key: case["tolerance"][key] for key in ("atol", "rtol")
        },
    )  # fmt: skip


# --- golden numbers -------------------------------------------------------------------------------

PRINTED = cases("numpy-attention")
WALK = cases("numpy-self-attention")
ARTICLE = cases("attention-from-scratch")
NOTES = cases("attention-notes")


@pytest.fixture(scope="module")
def multiplied() -> dict[str, Array]:
    """The source's attention with its mask multiplied onto the scores, a mistake: the arithmetic is
    tested through it, from the same parts, and no config offers it."""
    inputs = PRINTED["output"]["inputs"]
    x, mask = np.array(inputs["Q"]), np.array(inputs["mask"])
    queries, query_cache = linear_forward(x, np.array(inputs["w_Q"]))
    keys, key_cache = linear_forward(x, np.array(inputs["w_K"]))
    values, value_cache = linear_forward(x, np.array(inputs["w_V"]))
    scores, score_cache = scaled_dot_forward(queries, keys)
    weights, softmax_cache = softmax_forward(scores * mask)
    output, sum_cache = weighted_sum_forward(weights, values)
    doutput = output
    dweights, dvalues = weighted_sum_backward(doutput, sum_cache)
    dscores = softmax_backward(dweights, softmax_cache) * mask
    dqueries, dkeys = scaled_dot_backward(dscores, score_cache)
    return {
        "output": output,
        "weights": weights,
        "g_Q": linear_backward(dqueries, query_cache)[0],
        "g_K": linear_backward(dkeys, key_cache)[0],
        "g_V": linear_backward(dvalues, value_cache)[0],
    }


def test_printed_output_weights_and_gradients(multiplied: dict[str, Array]) -> None:
    close(multiplied["output"], PRINTED["output"])
    close(multiplied["weights"], PRINTED["weights"])
    close(multiplied["g_Q"][0], PRINTED["gQ-row0"])
    close(multiplied["g_K"][0], PRINTED["gK-row0"])
    close(multiplied["g_V"], PRINTED["gV"])


def test_a_row_that_is_certain_has_no_gradient(multiplied: dict[str, Array]) -> None:
    """Exactly, some 1e-25. The source's explicit Jacobian gives other digits and the wrong sign."""
    assert np.abs(PRINTED["row1-exact"]["expected"]["g_Q"]).max() < 1e-20
    assert np.abs(multiplied["g_Q"][1]).max() < 1e-20
    assert np.abs(multiplied["g_K"][1]).max() < 1e-20


def test_the_class_with_gradients_by_seed() -> None:
    numbers = np.random.RandomState(0)
    limit = math.sqrt(6 / (2 + 3))
    weights = {name: numbers.uniform(-limit, limit, size=(2, 3)) for name in ("W_Q", "W_K", "W_V")}
    x, doutput = numbers.randn(3, 2), numbers.randn(3, 3)
    output, cache = attention_forward(x, x, x, weights)
    found = attention_backward(doutput, cache)
    case = PRINTED["gradcheck"]
    expected = case["expected"]
    close(output, case, expected["output"])
    close(found.query, case, expected["g_Q"])
    close(found.key, case, expected["g_K"])
    close(found.value, case, expected["g_V"])
    for name in ("Q", "K", "V"):
        close(found.weights[f"W_{name}"], case, expected[f"g_w_{name}"])


def test_the_walk_through_self_attention() -> None:
    case = WALK["q0k0"]
    q, k = (np.array([case["inputs"][name]]) for name in ("q0", "k0"))
    close(scaled_dot_forward(q, k)[0][0, 0] * math.sqrt(8), case)
    products = np.array(WALK["var"]["inputs"]["QK"])
    close(products.var(), WALK["var"])
    # Products q = QK^T and k = 1 reach the scale of a width of 8 through the same function.
    eye = np.eye(4, 8)
    scores, _ = scaled_dot_forward(products @ eye, eye)
    close(scores.var(), WALK["var-scaled"])
    close(causal_mask(4, 4), WALK["mask"])


def test_the_walks_softmax() -> None:
    case = WALK["softmax-from-printed-exp"]
    raised = np.array(case["inputs"]["exp_x_T"]).T  # the source prints its transpose
    close(raised.sum(axis=-1), WALK["expsum"])
    scores = np.log(raised, out=np.full((4, 4), 7.0), where=raised > 0)
    close(softmax_forward(scores, causal_mask(4, 4))[0], case)


@pytest.fixture
def article() -> tuple[Array, dict[str, Array]]:
    inputs = ARTICLE["matrix"]["inputs"]
    words = np.array(inputs["words"], dtype=float)
    return words, {name: np.array(inputs[name], dtype=float) for name in ("W_Q", "W_K", "W_V")}


def test_attention_of_four_words(article: tuple[Array, dict[str, Array]]) -> None:
    words, weights = article
    output, (attention, *_) = attention_forward(words, words, words, weights)
    close(output, ARTICLE["matrix"])
    close(attention, ARTICLE["weights"])
    alone, _ = attention_forward(words[:1], words, words, weights)
    close(alone[0], ARTICLE["word1"])
    numbers = np.random.RandomState(42)
    close([numbers.randint(3, size=(3, 3)) for _ in range(3)], ARTICLE["rng"])


@pytest.mark.parametrize("name", ["wrong-scale", "flat-softmax"])
def test_known_wrong_answers_are_not_given(name: str) -> None:
    case = NOTES[name]
    assert case["role"] == "must_not_match"
    q, k, v = (np.array(case["inputs"][part], dtype=float) for part in "QKV")
    weights, _ = softmax_forward(scaled_dot_forward(q, k)[0])
    found, _ = weighted_sum_forward(weights, v)
    close(found, ARTICLE["matrix"])
    assert np.abs(found - case["expected"]).max() > 0.01


def test_three_scoring_functions() -> None:
    inputs = {key: np.array(value) for key, value in NOTES["scores"]["inputs"].items()}
    query, keys = inputs["h_t"][None], inputs["h_s"]
    W, U = inputs["W_concat"].T[:2], inputs["W_concat"].T[2:]  # [h_t; h_s] in two halves
    found = [
        scaled_dot_forward(query, keys)[0] * math.sqrt(2),
        general_forward(query, keys, inputs["W_general"])[0],
        additive_forward(query, keys, W, U, np.zeros(2), inputs["v"])[0],
    ]
    close([scores[0] for scores in found], NOTES["scores"])


def test_fast_weights_and_that_they_are_attention() -> None:
    """The memory as a matrix, and reading it as attention over the states that were written."""
    inputs = NOTES["fastweights-A"]["inputs"]
    assert NOTES["fastweights-is-attention"]["inputs"] == inputs
    states = torch.tensor(inputs["H"], dtype=torch.float64).unsqueeze(1)  # three steps, N = 1
    decay, rate = inputs["decay"], inputs["lr"]
    matrix = MatrixMemory(torch.zeros(1, 3, 3, dtype=torch.float64))
    past = StateMemory(states.new_zeros(1, 0, 3), states.new_zeros(1, 0))
    for state in states:
        matrix = matrix.write(state, None, decay, rate)
        past = past.write(state, None, decay, rate)
    close(matrix.A[0], NOTES["fastweights-A"])
    W, C, x = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("W_h", "C", "x"))
    state = torch.tanh(W @ states[-1, 0] + C @ x).unsqueeze(0)
    close(matrix.read(state)[0][0], NOTES["fastweights-is-attention"])
    read, read_weights = past.read(state)
    close(read[0], NOTES["fastweights-is-attention"])
    expected_weights = [rate * decay ** (2 - t) * float(states[t, 0] @ state[0]) for t in range(3)]
    np.testing.assert_allclose(read_weights[0], expected_weights, atol=1e-15)


def test_every_must_case_is_held() -> None:
    """Each file's cases by role, and each named by a test of this project."""
    files = [PRINTED, WALK, ARTICLE, NOTES]
    required = [name for file in files for name, case in file.items()
             if case["role"].startswith("must")]  # fmt: skip
    assert [len(file) for file in files] == [9, 6, 4, 5]
    assert len(required) == 22
    tests = Path(__file__).read_text()
    missing = [
        name for name in required if f'"{name}"' not in tests.partition("def test_every_must")[0]
    ]
    assert missing == []


# --- gradients ------------------------------------------------------------------------------------

SITUATIONS: dict[str, tuple[tuple[int, ...], int, int, str]] = {
    "plain": ((), T, S, "all"),
    "one query": ((), 1, S, "all"),
    "one key": ((), T, 1, "all"),
    "one of each": ((2,), 1, 1, "all"),
    "batch": ((2,), T, S, "all"),
    "batch and heads": ((2, 3), T, S, "all"),
    "fully kept": ((2,), T, S, "every"),
    "partly masked": ((2,), T, S, "some"),
    "one key left": ((2,), T, S, "one"),
    "causal": ((2,), S, S, "causal"),
    "causal and masked": ((2,), S, S, "causal some"),
}


def situation(name: str) -> tuple[dict[str, Array], dict[str, Any], Array]:
    """Inputs, options, and a random upstream gradient (a sum would be blind to softmax)."""
    lead, queries, keys, kind = SITUATIONS[name]
    numbers = np.random.default_rng(5)
    inputs = {
        "query": numbers.normal(size=(*lead, queries, Q)),
        "key": numbers.normal(size=(*lead, keys, C)),
        "value": numbers.normal(size=(*lead, keys, V)),
    }
    options: dict[str, Any] = {"causal": "causal" in kind}
    if kind != "all" and kind != "causal":
        keep = np.ones((*lead, keys), dtype=bool)
        if "some" in kind:
            keep[0, 2:], keep[1, 4:] = False, False
        elif kind == "one":
            keep[...] = False
            keep[0, 3] = keep[1, 0] = True
        options["keep"] = keep
    return inputs, options, numbers.normal(size=(*lead, queries, O))


def weights_of(score: ScoreName, *, values: bool = True) -> dict[str, Array]:
    drawn = glorot_weights(
        score, query=Q, key=C, value=V, width=K, output=O if values else None, seed=3
    )
    if score == "additive":
        drawn["b"] = np.random.default_rng(4).normal(size=K)
    return drawn


def named(gradients: Gradients) -> dict[str, Array]:
    inputs = {"query": gradients.query, "key": gradients.key, "value": gradients.value}
    return inputs | gradients.weights


EVERYWHERE = [(score, name) for score in SCORES for name in SITUATIONS]


def in_torch(
    tensors: dict[str, torch.Tensor], score: ScoreName, keep: Any, causal: bool
) -> torch.Tensor:
    """The same attention, written with torch's own operations only."""
    query, key, value = (tensors[name] for name in ("query", "key", "value"))
    if score == "scaled_dot":
        queries, keys = query @ tensors["W_Q"], key @ tensors["W_K"]
        scores = torch.einsum("...tk,...sk->...ts", queries, keys) * K**-0.5
    elif score == "general":
        scores = torch.einsum("...tq,qc,...sc->...ts", query, tensors["W"], key)
    else:
        projected_queries, projected_keys = query @ tensors["W"], key @ tensors["U"] + tensors["b"]
        hidden = torch.tanh(projected_queries.unsqueeze(-2) + projected_keys.unsqueeze(-3))
        scores = (hidden * tensors["v"]).sum(-1)
    if keep is not None:
        scores = scores.masked_fill(~torch.from_numpy(keep).unsqueeze(-2), -math.inf)
    if causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -math.inf)
    values = value @ tensors["W_V"] if "W_V" in tensors else value
    return torch.softmax(scores, dim=-1) @ values


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("score", "name"), EVERYWHERE)
def test_against_autograd(score: ScoreName, name: str, values: bool) -> None:
    inputs, options, doutput = situation(name)
    weights = weights_of(score, values=values)
    doutput = doutput if values else doutput[..., :V]
    output, cache = attention_forward(**inputs, weights=weights, score=score, **options)
    found = named(attention_backward(doutput, cache))
    tensors = {
        key: torch.tensor(array, requires_grad=True) for key, array in (inputs | weights).items()
    }
    expected = in_torch(tensors, score, options.get("keep"), options["causal"])
    np.testing.assert_allclose(output, expected.detach().numpy(), atol=1e-12)
    expected.backward(torch.from_numpy(doutput))
    assert set(found) == set(tensors)
    for key, tensor in tensors.items():
        assert tensor.grad is not None
        np.testing.assert_allclose(found[key], tensor.grad.numpy(), atol=1e-10, err_msg=key)


# --- the referee at work --------------------------------------------------------------------------


def transposed(parameter: Any) -> Array:
    array: Array = parameter.detach().numpy().T
    return array


def the_scores() -> Iterator[tuple[ScoreName, Any, Callable[[Any], dict[str, Array]]]]:
    yield "scaled_dot", ScaledDotScore(Q, K), lambda score: {
        "W_Q": transposed(score.query.weight), "W_K": transposed(score.key.weight),
    }  # fmt: skip
    yield "general", GeneralScore(Q), lambda score: {"W": score.key.weight.detach().numpy()}
    yield "additive", AdditiveScore(Q, K), lambda score: {
        "W": transposed(score.query.weight), "U": transposed(score.key.weight),
        "b": transposed(score.key.bias), "v": score.combine.weight.detach().numpy()[0],
    }  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("which", range(3))
def test_the_projects_attention_against_the_referee(which: int, masked: bool) -> None:
    """Values and gradients of queries and encoder states, which are keys and values at once."""
    name, score, weights_from = list(the_scores())[which]
    init_parameters(score, 2)
    attention = Attention(score.double())
    for parameter_name, parameter in score.named_parameters():
        if name == "scaled_dot" and parameter_name.endswith("bias"):
            parameter.data.zero_()  # the referee's projections have none
    numbers = np.random.default_rng(8)
    queries, states = numbers.normal(size=(2, T, Q)), numbers.normal(size=(2, S, Q))
    doutput = numbers.normal(size=(2, T, Q))
    keep = np.array([[True, True, False, False, False], [True] * 5]) if masked else None
    queries_tensor = torch.tensor(queries, requires_grad=True)
    seen = torch.tensor(states, requires_grad=True)
    memory = attention.precompute_memory(seen, None if keep is None else torch.from_numpy(keep))
    weights = attention.attention_weights(queries_tensor, memory)[0].weights
    weighted_sum(weights, memory.values).backward(torch.from_numpy(doutput))
    _, cache = attention_forward(
        queries, states, states, weights_from(score), score=name, keep=keep
    )
    found = attention_backward(doutput, cache)
    np.testing.assert_allclose(weights.detach().numpy(), cache[0], atol=1e-12)
    assert queries_tensor.grad is not None
    assert seen.grad is not None
    np.testing.assert_allclose(queries_tensor.grad.numpy(), found.query, atol=1e-10)
    np.testing.assert_allclose(seen.grad.numpy(), found.key + found.value, atol=1e-10)


# --- rules ----------------------------------------------------------------------------------------
