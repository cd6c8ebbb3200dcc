"""Linear attention is a fast weight memory: the weights over the source, and a matrix that every
source step writes, give the same context."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.config import LinearAttention
from seqattn.models.attention import LinearScore, build_attention, softmax
from seqattn.models.layers import init_parameters

Array = NDArray[np.float64]
N, T, S, H = 3, 5, 7, 6
LENGTHS = [7, 4, 1]
KEEP = torch.arange(S) < torch.tensor(LENGTHS)[:, None]


def phi(x: Array) -> Array:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def fast_weight_context(keys: Array, values: Array, query: Array) -> Array:
    """Write one pair of key (K,) and value (V,) after the other into a matrix and a vector, and
    read both with the query (K,)."""
    matrix, normalizer = np.zeros((values.shape[1], keys.shape[1])), np.zeros(keys.shape[1])
    for key, value in zip(phi(keys), values, strict=True):
        matrix, normalizer = matrix + np.outer(value, key), normalizer + key
    return np.asarray(matrix @ phi(query) / (normalizer @ phi(query)))


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("projected", [True, False])
def test_attention_reads_what_fast_weights_read(projected: bool, heads: int) -> None:
    config = LinearAttention(heads=heads, project_query_key=projected, project_values=projected)
    attention = build_attention(config, H).double()
    init_parameters(attention, 1)
    generator = torch.Generator().manual_seed(1)
    encoded, queries = (
        2 * torch.randn(N, length, H, generator=generator, dtype=torch.float64) for length in (S, T)
    )
    found = attention.attend(queries, attention.precompute_memory(encoded, KEEP))
    p = {name: each.detach().numpy() for name, each in attention.named_parameters()}

    def mapped(x: Tensor, name: str) -> Array:
        rows = x.numpy()
        return rows @ p[f"{name}.weight"].T + p[f"{name}.bias"] if projected else rows

    q, k, v = mapped(queries, "score.query"), mapped(encoded, "score.key"), mapped(encoded, "value")
    for n, t, head in np.ndindex(N, T, heads):
        own = slice(head * H // heads, (head + 1) * H // heads)
        L = LENGTHS[n]
        context = fast_weight_context(k[n, :L, own], v[n, :L, own], q[n, t, own])
        np.testing.assert_allclose(found.context[n, t, own].detach(), context, atol=1e-12)


def test_very_negative_numbers_have_weights() -> None:
    """All products are too small for float32: the weights are equal instead of NaN."""
    score = LinearScore(H, None)
    states = torch.full((1, S, H), -200.0)
    weights = softmax(score.scores(states[:, :1], score.keys(states)), None)
    torch.testing.assert_close(weights, torch.full((1, 1, S), 1 / S))
