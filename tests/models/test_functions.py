"""The functions with backward passes by hand, against autograd and finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seqattn.models import ModelOutput, functions
from seqattn.models.functions import additive_scores, cross_entropy_of_states
from seqattn.models.layers import Embedding, Linear, TiedLinear, init_parameters
from seqattn.models.modality import FeatureSpec

RUNS = [(), (3,)]


def close(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("at_once", [10_000, 250, 22])  # a chunk of all, two runs, or a sequence
def test_additive_scores(
    runs: tuple[int, ...], queries: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "UNITS_AT_ONCE", at_once)
    q, k, v = random(*runs, 2, queries, 5), random(*runs, 2, 3, 5), random(*runs, 5)
    assert torch.autograd.gradcheck(additive_scores, (q, k, v))
    hidden = (q.unsqueeze(-2) + k.unsqueeze(-3)).tanh()
    close(additive_scores(q, k, v), (hidden * v[..., None, None, None, :]).sum(-1))


def test_additive_scores_with_sequences_innermost() -> None:
    """Narrow models of several runs have this layout, in which the plain operations are faster."""
    q, k, v = random(3, 2, 4, 8), random(3, 2, 5, 8), random(3, 8)
    inner = [x.transpose(1, -1).contiguous().transpose(1, -1) for x in (q, k)]
    close(additive_scores(*inner, v), additive_scores(q, k, v))
    large = torch.randn(3, 64, 20, 8)
    assert functions.computes_scores(large, large)
    large = large.transpose(1, -1).contiguous().transpose(1, -1)
    assert not functions.computes_scores(large, large)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("at_once", [10_000, 22])  # one chunk; chunks of 3 rows or of one row
def test_cross_entropy_of_states(
    runs: tuple[int, ...], smoothing: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "LOGITS_AT_ONCE", at_once)
    states, weight, bias = random(*runs, 2, 4, 5), random(*runs, 7, 5), random(*runs, 7)
    target, share = torch.randint(7, (*runs, 2, 4, 1)), torch.rand(*runs, 2, 4).double()

    def loss(*tensors: Tensor) -> Tensor:
        return cross_entropy_of_states(*tensors, target, share, smoothing)

    assert torch.autograd.gradcheck(loss, (states, weight, bias))
    logits = torch.einsum("...ntw,...vw->...ntv", states, weight) + bias[..., None, None, :]
    log_p = logits.log_softmax(-1)
    right = (1 - smoothing) * log_p.gather(-1, target).squeeze(-1) + smoothing * log_p.mean(-1)
    close(loss(states, weight, bias), -(right * share).sum(dim=(-2, -1)))


def test_a_probability_that_underflows_has_a_finite_loss() -> None:
    states, weight = torch.full((1, 1, 1), 1000.0), torch.tensor([[1.0], [-1.0]])
    target, share = torch.ones(1, 1, 1, dtype=torch.long), torch.ones(1, 1)
    loss = cross_entropy_of_states(states, weight, torch.zeros(2), target, share, 0.0)
    close(loss, torch.tensor(2000.0))


@pytest.mark.parametrize("tied", [None, 5, 6])
@pytest.mark.parametrize("masked", [None, "steps", "cells"])
def test_the_loss_of_states_is_the_loss_of_outputs(
    tied: int | None, masked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tied` is the width of the embedding whose vectors are the output layer's weights."""
    modality = FeatureSpec(1, 1, (-1,), 9, 9).modalities()[1]
    modality.label_smoothing = 0.1  # type: ignore[attr-defined]
    layer: Linear | TiedLinear = Linear(5, 9)
    parts = torch.nn.ModuleList([layer])
    if tied is not None:
        embedding = Embedding(9, tied)
        layer = TiedLinear(embedding, 5)
        parts = torch.nn.ModuleList([embedding, layer])
    init_parameters(parts, 1)
    parts.double()
    states, target = random(2, 4, 5), torch.randint(9, (2, 4, 1))
    valid = torch.tensor([[True] * 4, [True, False, False, False]])
    keep = {None: None, "steps": valid, "cells": valid.unsqueeze(-1)}[masked]
    parameters = [states, *parts.parameters()]
    plain = modality.loss(layer(states), target, keep)
    expected = torch.autograd.grad(plain, parameters)
    monkeypatch.setattr(functions, "MIN_LOGITS", 0)
    found = modality.loss_of_states(states, layer, target, keep)
    assert "_CrossEntropyOfStates" in type(found.grad_fn.next_functions[0][0]).__name__  # type: ignore[union-attr]
    close(found, plain)
    for ours, theirs in zip(torch.autograd.grad(found, parameters), expected, strict=True):
        close(ours, theirs)


def test_there_are_no_wrong_second_derivatives() -> None:
    q, k, v = random(2, 1, 5), random(2, 3, 5), random(5)
    scores = additive_scores(q, k, v)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(scores.sum(), q, create_graph=True)


def test_outputs_that_were_read_are_not_pending() -> None:
    """A plugin that changes the outputs in place changes the loss, too."""
    layer = Linear(5, 7)
    init_parameters(torch.nn.ModuleList([layer]), 1)
    output = ModelOutput.of_states(torch.randn(2, 4, 5), layer, ())
    assert output.pending is not None
    assert output.values.shape == (2, 4, 7)
    assert output.pending is None
    with pytest.raises(AttributeError):
        output.values = torch.zeros(2, 4, 7)  # type: ignore[misc]
    assert ModelOutput.of_states(torch.randn(2, 4, 5), layer.eval(), ()).pending is None
