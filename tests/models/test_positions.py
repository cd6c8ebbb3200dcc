"""The positions inside self-attention: what they depend on, and what they leave alone. The module
test_equations.py compares the forecasts of trained models with NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seqattn.config import Transformer
from seqattn.models import build_model
from seqattn.models.positions import (
    LinearBiases,
    RelativePositions,
    RelativeVectors,
    RotaryPositions,
    offsets,
)
from seqattn.models.transformer import MultiHeadAttention, TransformerModel
from tests.conftest import F, N, S, T

A, K = 3, 10
KINDS = ("relative", "alibi", "rotary")


def model(**keys: Any) -> TransformerModel:
    config = Transformer(model_dim=A * K, heads=A, feedforward_dim=19, **keys)
    made = build_model(config, F, 1).double()
    assert isinstance(made, TransformerModel)
    return made


def random(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_offsets_of_the_last_queries() -> None:
    assert offsets(2, 4, torch.zeros(1)).tolist() == [[-2, -1, 0, 1], [-3, -2, -1, 0]]


def test_linear_biases_by_hand() -> None:
    """Eight heads have the slopes 1/2, 1/4, ..., 1/256, as in the figure of the paper."""
    found = LinearBiases().add_scores(torch.zeros(N, 8, 1, 4), torch.zeros(N, 8, 1, K))
    for head in range(8):
        slope = 1 / 2 ** (head + 1)
        assert found[0, head, 0].tolist() == [-3 * slope, -2 * slope, -slope, 0]


def test_rotary_products_depend_on_the_difference() -> None:
    """And keep the lengths. A difference of 0 leaves the product as it is."""
    rotary, (q, k) = RotaryPositions(), random(2, N, A, 1, K)
    products = {
        (i, j): (rotary.rotate(q, i) * rotary.rotate(k, j)).sum(-1)
        for i in (0, 3)
        for j in (0, 3, 6)
    }
    torch.testing.assert_close(products[0, 3], products[3, 6])
    torch.testing.assert_close(products[3, 3], (q * k).sum(-1))
    assert not torch.allclose(products[0, 3], products[3, 0])
    torch.testing.assert_close(rotary.rotate(q, 5).norm(dim=-1), q.norm(dim=-1))


def test_relative_vectors_by_the_formula() -> None:
    """Equations 3 and 4 of Shaw et al. 2018, one pair of a query and a key after the other."""
    places, L = RelativePositions(K, max_distance=2), 5
    for vectors in (places.keys, places.values):
        assert isinstance(vectors, RelativeVectors)
        vectors.weight = torch.nn.Parameter(random(5, K))
    queries, keys, values = random(3, N, A, L, K)
    scores = places.add_scores(queries @ keys.mT / math.sqrt(K), queries)
    weights = scores.softmax(-1)
    context = places.add_values(weights @ values, weights)
    for i in range(L):
        expected = torch.zeros(N, A, K, dtype=torch.float64)
        for j in range(L):
            place = min(max(j - i, -2), 2) + 2
            score = (queries[:, :, i] * (keys[:, :, j] + places.keys.weight[place])).sum(-1)
            torch.testing.assert_close(scores[:, :, i, j], score / math.sqrt(K))
            moved = values[:, :, j] + places.values.weight[place]
            expected = expected + weights[:, :, i, j, None] * moved
        torch.testing.assert_close(context[:, :, i], expected)


@pytest.mark.parametrize("positions", KINDS)
def test_the_order_of_a_source_matters(positions: str) -> None:
    source = random(N, S, F)
    mixed = torch.cat([source[:, :-1].flip(1), source[:, -1:]], dim=1)
    made = model(positions=positions)
    assert not torch.allclose(made.forecast(source, T).values, made.forecast(mixed, T).values)


@pytest.mark.parametrize("positions", KINDS)
def test_no_length_is_too_long(positions: str) -> None:
    made = model(positions=positions)
    assert made.forecast(random(1, 200, F), 90).values.isfinite().all()
    assert made.max_length is None


@pytest.mark.parametrize("positions", KINDS)
@pytest.mark.parametrize("with_weights", [True, False])
def test_padding_before_a_source_changes_nothing(positions: str, with_weights: bool) -> None:
    """The encoder sees differences only: a source that is moved has the same states."""
    made = model(positions=positions)
    attend = made.encoder[0].attend
    assert isinstance(attend, MultiHeadAttention)
    x = random(N, S, A * K)
    keep = torch.ones(N, S + 4, dtype=torch.bool)
    keep[:, :4] = False
    moved = torch.cat([random(N, 4, A * K), x], dim=1)
    alone, _ = attend.attend(x, attend.cache(x), None, with_weights=with_weights)
    late, _ = attend.attend(moved, attend.cache(moved), keep, with_weights=with_weights)
    torch.testing.assert_close(late[:, 4:], alone)


@pytest.mark.parametrize("positions", KINDS)
def test_cross_attention_has_no_positions(positions: str) -> None:
    """The encoder's states in another order give the same result."""
    made = model(positions=positions)
    cross = made.decoder[0].cross
    assert isinstance(cross, MultiHeadAttention)
    x, encoded = random(N, T, A * K), random(N, S, A * K)
    first, second = (
        cross.attend(x, cross.cache(states), None, with_weights=True)[0]
        for states in (encoded, encoded.flip(1))
    )
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("positions", [*KINDS, "sinusoidal", "learned", "none"])
def test_steps_from_the_cache_are_those_of_teacher_forcing(positions: str) -> None:
    made = model(positions=positions, longest=99 if positions == "learned" else None)
    source, target = random(N, S, F), random(N, T, F)
    lengths = torch.tensor([1, 11, 2, 3, 5, 7, 10])
    forced = made.forward(
        source, target, source_lengths=lengths, teacher_forcing=torch.ones(T, dtype=torch.bool)
    ).values
    start = made.begin(source, T, source_lengths=lengths, with_attention=True)
    state, found = start.state, []
    inputs = [start.decoder_input, *target.unbind(1)[:-1]]
    for decoder_input in inputs:
        step = made.decoder_step(decoder_input, start.memory, state, with_attention=False)
        found.append(step.output)
        state = step.state
    np.testing.assert_allclose(torch.cat(found, 1).detach(), forced.detach(), atol=1e-12)


def test_each_layer_and_side_learns_its_own_vectors() -> None:
    names = [name for name, _ in model(positions="relative", layers=2).named_parameters()]
    assert [name for name in names if ".places." in name] == [
        f"{side}.{layer}.attend.places.{part}.weight"
        for side in ("encoder", "decoder") for layer in (0, 1) for part in ("keys", "values")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"positions": "rotary", "model_dim": 15, "heads": 3}, "each head has the odd width 5"),
        ({"positions": "alibi", "max_distance": 3}, "requires positions: relative"),
        ({"positions": "rotary", "longest": 9}, "requires positions: learned"),
    ],
)
def test_other_positions_refuse_these_keys(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Transformer(**keys)
