"""Attention rollout and attention flow, held against sums over paths and against minimum cuts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from seqattn.analysis.attention_flow import (
    attention_flow,
    attention_rollout,
    attribute_to_sources,
)
from seqattn.errors import UsageError
from seqattn.runs import attention_arrays

Floats = NDArray[np.float64]
Maps = tuple[Floats, Floats, Floats]


def random_maps(L: int, A: int, T: int, S: int, *leading: int, seed: int = 0) -> Maps:
    """Weights of the encoder, the decoder (causal) and across, whose rows sum to 1."""
    numbers = np.random.RandomState(seed)
    encoder, decoder, cross = (
        numbers.exponential(size=(*leading, L, A, *shape)) for shape in ((S, S), (T, T), (T, S))
    )
    decoder = np.tril(decoder)
    return tuple(  # type: ignore[return-value]
        each / each.sum(axis=-1, keepdims=True) for each in (encoder, decoder, cross)
    )


def repeated(*layers: list[list[float]]) -> Floats:
    """Weights (layers, 2 heads, rows, columns) whose mean over heads is given."""
    one = np.array(layers)
    return np.stack([0.5 * one, 1.5 * one], axis=1)


def edges_of(encoder: Floats, decoder: Floats, cross: Floats) -> dict[tuple[str, str], float]:
    """The graph by the names of its nodes, written down edge by edge."""
    L, _, T, S = cross.shape
    edges = dict[tuple[str, str], float]()
    for k in range(L):
        a, b, c = (each[k].mean(axis=0) for each in (encoder, decoder, cross))
        for i, j in itertools.product(range(S), range(S)):
            edges[f"e{k},{j}", f"e{k + 1},{i}"] = 0.5 * a[i, j] + 0.5 * (i == j)
        for t, u in itertools.product(range(T), range(T)):
            if k:
                edges[f"d{k},{u}", f"m{k},{t}"] = 0.5 * b[t, u] + 0.5 * (t == u)
        for t in range(T):
            edges[f"m{k},{t}", f"d{k + 1},{t}"] = 0.5
            for s in range(S):
                edges[f"e{L},{s}", f"d{k + 1},{t}"] = 0.5 * c[t, s]
    return {pair: weight for pair, weight in edges.items() if weight > 0}


def test_the_rollout_is_the_sum_over_all_paths() -> None:
    L, A, T, S = 3, 2, 5, 4
    maps = random_maps(L, A, T, S, 2)
    found = attention_rollout(*maps)
    for n in range(2):
        edges = edges_of(*(each[n] for each in maps))
        sums = np.zeros((T, S))

        def walk(node: str, weight: float, s: int, sums: Floats = sums,
                 edges: dict[tuple[str, str], float] = edges) -> None:  # fmt: skip
            if node.startswith(f"d{L},"):
                sums[int(node[3:]), s] += weight
            for (origin, reader), each in edges.items():
                if origin == node:
                    walk(reader, weight * each, s)

        for s in range(S):
            walk(f"e0,{s}", 1.0, s)
        np.testing.assert_allclose(sums.sum(axis=1), 1 - 0.5**L, rtol=1e-12)
        np.testing.assert_allclose(found[n], sums / (1 - 0.5**L), rtol=1e-12)


def test_closed_forms_of_the_rollout() -> None:
    _, decoder, cross = random_maps(1, 2, 3, 5)
    encoder = random_maps(1, 2, 3, 5, seed=1)[0]
    # One layer: what the cross-attention reads, of which half was mixed by the encoder.
    expected = cross[0].mean(axis=0) @ (0.5 * encoder[0].mean(axis=0) + 0.5 * np.eye(5))
    np.testing.assert_allclose(attention_rollout(encoder, decoder, cross), expected, rtol=1e-12)
    # Self-attention only to itself: the mean of the layers, of which each is halved by later ones.
    _, _, cross = random_maps(2, 3, 4, 5)
    itself = [np.broadcast_to(np.eye(size), (2, 3, size, size)) for size in (5, 4)]
    expected = (cross[0] + 2 * cross[1]).mean(axis=0) / 3
    np.testing.assert_allclose(attention_rollout(*itself, cross), expected, rtol=1e-12)
    uniform = [np.full((2, 3, *shape), 1 / shape[1]) for shape in ((5, 5), (4, 4), (4, 5))]
    np.testing.assert_allclose(attention_rollout(*uniform), 0.2, rtol=1e-12)


ENCODER = repeated([[1, 0], [1, 0]], [[0, 1], [0, 1]])
DECODER = repeated([[1, 0], [0.2, 0.8]], [[1, 0], [1, 0]])
CROSS = repeated([[1, 0], [0, 1]], [[0, 1], [0.5, 0.5]])


def test_two_layers_by_hand() -> None:
    # A'_1 = [1 0; 1/2 1/2], A'_2 = [1/2 1/2; 0 1], so R_2 = [3/4 1/4; 1/2 1/2].
    # D_1 = C_1 R_2 / 2 = [3/8 1/8; 1/4 1/4], B'_2 = [1 0; 1/2 1/2],
    # B'_2 D_1 / 2 = [3/16 1/16; 5/32 3/32], C_2 R_2 / 2 = [1/4 1/4; 5/16 3/16].
    expected = np.array([[7 / 16, 5 / 16], [15 / 32, 9 / 32]]) / 0.75
    np.testing.assert_allclose(attention_rollout(ENCODER, DECODER, CROSS), expected, rtol=1e-12)
    # Source 1 has the way of state 1 (1/2) and that of state 2 (1/2), and both fit into the edges of
    # each output step, 1/2 by layer 1 and 1/2 by layer 2. Source 2 leaves only by an edge of 1/2.
    flow = attention_flow(ENCODER, DECODER, CROSS)
    np.testing.assert_allclose(flow, [[1, 0.5], [1, 0.5]], atol=1e-7)


@pytest.mark.parametrize(("L", "T", "S"), [(1, 2, 3), (2, 2, 2)])
def test_the_flow_is_the_minimum_cut(L: int, T: int, S: int) -> None:
    maps = random_maps(L, 2, T, S, seed=2)
    edges, flow = edges_of(*maps), attention_flow(*maps)
    nodes = sorted({node for pair in edges for node in pair})
    for t, s in itertools.product(range(T), range(S)):
        first, last = f"e0,{s}", f"d{L},{t}"
        others = [node for node in nodes if node not in (first, last)]
        # Each row is a set of nodes on the side of the first one.
        sides = (np.arange(2 ** len(others))[:, None] >> np.arange(len(others))) & 1 == 1
        of = {node: sides[:, k] for k, node in enumerate(others)}
        of |= {first: np.ones(len(sides), bool), last: np.zeros(len(sides), bool)}
        cuts = sum(weight * (of[a] & ~of[b]) for (a, b), weight in edges.items())
        assert flow[t, s] == pytest.approx(cuts.min(), abs=1e-6)
        into = sum(weight for (_, node), weight in edges.items() if node == last)
        out = sum(weight for (node, _), weight in edges.items() if node == first)
        assert 0 < flow[t, s] <= min(into, out) + 1e-9


def test_the_flow_of_one_layer_without_mixing_is_half_of_the_weights() -> None:
    _, decoder, cross = random_maps(1, 2, 3, 5)
    itself = np.broadcast_to(np.eye(5), (1, 2, 5, 5))
    expected = cross[0].mean(axis=0) / 2
    np.testing.assert_allclose(attention_flow(itself, decoder, cross), expected, atol=1e-7)


@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_padding_gets_nothing_and_changes_nothing(method: str) -> None:
    L, A, T, S = 2, 3, 5, 4
    long, short = random_maps(L, A, T, S), random_maps(L, A, 3, 2, seed=3)
    padded = [
        np.stack([one, np.pad(other, [(0, 0), (0, 0), *((0, one.shape[k] - other.shape[k])
                                                        for k in (2, 3))])])
        for one, other in zip(long, short, strict=True)
    ]  # fmt: skip
    compute = attention_rollout if method == "rollout" else attention_flow
    expected = compute(*short)
    alone = compute(*(each[1] for each in padded))
    np.testing.assert_allclose(alone[:3, :2], expected, atol=1e-7)
    assert (alone[3:] == 0).all()
    assert (alone[:, 2:] == 0).all()
    arrays = attention_arrays(
        padded[2], ids=("long", "short"), source_lengths=np.array([4, 2]),
        target_lengths=np.array([5, 3]), meaning="distribution", encoder_self=padded[0],
        decoder_self=padded[1],
    )  # fmt: skip
    found = attribute_to_sources(arrays, method)  # type: ignore[arg-type]
    assert found["weights"].shape == (2, 1, 1, T, S)
    shares = found["weights"][1, 0, 0]
    np.testing.assert_allclose(
        shares[:3, :2], expected / expected.sum(axis=1, keepdims=True), atol=1e-6
    )
    assert np.isnan(shares[3:]).all()
    assert np.isnan(shares[:, 2:]).all()
    np.testing.assert_allclose(np.nansum(found["weights"][0], axis=-1), 1, rtol=1e-6)
    assert str(found["meaning"]) == method


def test_recurrent_models_have_no_rollout() -> None:
    arrays = attention_arrays(
        np.full((1, 1, 1, 3, 2), 0.5), ids=("one",), source_lengths=np.array([2]),
        target_lengths=np.array([3]), meaning="distribution",
    )  # fmt: skip
    with pytest.raises(
        UsageError, match=r"--show rollout: needs the self-attention of a Transformer"
    ):
        attribute_to_sources(arrays, "rollout")
