"""The coverage of the additive score: what it sums, and that one call equals single steps. The
module test_equations.py compares the forecasts of trained models with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqattn.config import CoverageAttention
from seqattn.models.attention import Attention, AttentionOverride, Override, build_attention
from seqattn.models.layers import init_parameters

N, T, S, H = 3, 5, 7, 6
KEEP = torch.arange(S) < torch.tensor([7, 4, 1])[:, None]


def attention_of(**keys: Any) -> Attention:
    attention = build_attention(CoverageAttention(**keys), H).double()
    init_parameters(attention, 1)
    return attention


def states_and_queries() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((N, S, H), (N, T, H))
    encoded, queries = (
        2 * torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    return encoded, queries


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_weights_by_the_formula(heads: int) -> None:
    """Equations 10 and 11 of See et al. 2017, one target step and one source step at a time."""
    attention, (encoded, queries) = attention_of(heads=heads), states_and_queries()
    found = attention.attend(queries, attention.precompute_memory(encoded, KEEP))
    weights = found.weights.detach().view(N, heads, T, S).numpy()
    p = {name: each.detach().numpy() for name, each in attention.score.named_parameters()}
    for n, head in np.ndindex(N, heads):
        own, L = slice(head * H // heads, (head + 1) * H // heads), int(KEEP[n].sum())
        coverage = np.zeros(L)
        for t in range(T):
            query = p["query.weight"] @ queries[n, t].numpy()
            scores = np.zeros(L)
            for j in range(L):
                key = p["key.weight"] @ encoded[n, j].numpy() + p["key.bias"]
                inside = query + key + p["coverage.weight"][:, 0] * coverage[j]
                scores[j] = p["combine.weight"][0, own] @ np.tanh(inside)[own]
            expected = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(weights[n, head, t, :L], expected, atol=1e-12)
            coverage = coverage + expected
    assert found.prev_weights is not None
    torch.testing.assert_close(found.prev_weights, found.weights.sum(-2))


@pytest.mark.parametrize("heads", [1, 2])
def test_all_queries_at_once_are_single_queries(heads: int) -> None:
    attention, (encoded, queries) = attention_of(heads=heads), states_and_queries()
    memory = attention.precompute_memory(encoded, KEEP)
    together, coverage = attention.attend(queries, memory), None
    for t in range(T):
        alone = attention.attend(queries[:, t : t + 1], memory, coverage)
        coverage = alone.prev_weights
        torch.testing.assert_close(alone.weights, together.weights[..., t : t + 1, :])
        torch.testing.assert_close(alone.context, together.context[:, t : t + 1])
    torch.testing.assert_close(coverage, together.prev_weights)


@pytest.mark.parametrize("heads", [1, 2])
def test_replaced_weights_count(heads: int) -> None:
    """Weights that an override replaces are those that cover the source."""
    attention, (encoded, queries) = attention_of(heads=heads), states_and_queries()
    memory = attention.precompute_memory(encoded, None)
    override: AttentionOverride = Override.parse("one_hot:3")
    forced = type(memory)(memory.keys, memory.values, None, override.start())
    coverage = None
    for t in range(T):
        coverage = attention.attend(queries[:, t : t + 1], forced, coverage).prev_weights
    expected = torch.zeros(S, dtype=torch.float64)
    expected[2] = T
    assert coverage is not None
    torch.testing.assert_close(coverage, expected.expand_as(coverage))


def test_without_coverage_it_is_the_additive_score() -> None:
    attention, (encoded, queries) = attention_of(), states_and_queries()
    memory = attention.precompute_memory(encoded, KEEP)
    first = attention.attend(queries[:, :1], memory).weights
    zeros = torch.zeros(N, S, dtype=torch.float64)
    torch.testing.assert_close(attention.attend(queries[:, :1], memory, zeros).weights, first)
