"""Translation of symbols, written again in NumPy with loops over sequences and steps, against the
models: outputs, loss, and the gradient of every parameter by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqattn.data.tokens import BEGIN, PAD
from seqattn.models import FeatureSpec
from tests.models.test_tokens import MODELS, built

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
W, V, H, E = 7, 6, 3, 2
SOURCES, TARGETS = [[4, 6, 5, 4], [5, 3]], [[4, 5, 2], [3, 2]]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    raised = np.exp(x - x.max())
    found: Array = raised / raised.sum()
    return found


def gru(w: Weights, side: str, x: Array, h: Array) -> Array:
    """One step of a GRU in the form of torch (Cho et al. 2014, with the reset gate after the
    product)."""
    gi = w[f"{side}.weight_ih"] @ x + w[f"{side}.bias_ih"]
    gh = w[f"{side}.weight_hh"] @ h + w[f"{side}.bias_hh"]
    reset, update = sigmoid(gi[:H] + gh[:H]), sigmoid(gi[H : 2 * H] + gh[H : 2 * H])
    new = np.tanh(gi[2 * H :] + reset * gh[2 * H :])
    return (1 - update) * new + update * h


def projected(w: Weights, name: str, x: Array) -> Array:
    found: Array = w[f"attention.score.{name}.weight"] @ x
    return found + w.get(f"attention.score.{name}.bias", np.zeros(1))


def scaled_dot(w: Weights, h: Array, s: Array) -> float:
    return float(projected(w, "query", h) @ projected(w, "key", s) / np.sqrt(H))


def general(w: Weights, h: Array, s: Array) -> float:
    return float(h @ projected(w, "key", s))


def additive(w: Weights, h: Array, s: Array) -> float:
    hidden = np.tanh(projected(w, "query", h) + projected(w, "key", s))
    return float((w["attention.score.combine.weight"] @ hidden)[0])


def cosine(w: Weights, h: Array, s: Array) -> float:
    q, k = projected(w, "query", h), projected(w, "key", s)
    cos = q @ k / (np.linalg.norm(q) * np.linalg.norm(k))
    return float(cos / np.exp(w["attention.score.log_temperature.value"][0]))


def linear(w: Weights, h: Array, s: Array) -> float:
    q, k = projected(w, "query", h), projected(w, "key", s)
    phi = [np.where(x > 0, x + 1, np.exp(x)) for x in (q, k)]
    return float(np.log(phi[0] @ phi[1]))


Score = Callable[[Weights, Array, Array], float]
SCORES: dict[str, Score | None] = {
    "uniform": lambda w, h, s: 0.0,
    "dot": lambda w, h, s: float(h @ s),
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "cosine": cosine,
    "linear": linear,
    "none": None,
}


def read(w: Weights, source: list[int], target: list[int], score: Score | None) -> list[Array]:
    """The logits of each target step of one sequence, with the true symbols as inputs."""
    h, states, logits = np.zeros(H), [], []
    for symbol in source:
        h = gru(w, "encoder", w["source_modality.embedding.weight"][symbol], h)
        states.append(h)
    for symbol in [BEGIN, *target[:-1]]:
        h = gru(w, "decoder", w["target_modality.embedding.weight"][symbol], h)
        readout = h
        if score is not None:
            weights = softmax(np.array([score(w, h, s) for s in states]))
            context = sum((a * s for a, s in zip(weights, states, strict=True)), np.zeros(H))
            readout = np.concatenate([context, h])
        logits.append(w["output.weight"] @ readout + w["output.bias"])
    return logits


def loss_of(w: Weights, score: Score | None) -> float:
    """The mean cross-entropy over all target symbols."""
    losses = [
        -float(np.log(softmax(logits)[symbol]))
        for source, target in zip(SOURCES, TARGETS, strict=True)
        for logits, symbol in zip(read(w, source, target, score), target, strict=True)
    ]
    return float(np.mean(losses))


@pytest.mark.parametrize("name", SCORES)
def test_outputs_loss_and_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    section: Any = None if name == "none" else {"score": name}
    monkeypatch.setitem(MODELS, name, {"hidden_dim": H, "embedding": {"dim": E},
                                       "attention": section})  # fmt: skip
    model = built(name, features=FeatureSpec(1, 1, (0,), source_symbols=W, target_symbols=V))
    score = SCORES[name]
    parameters = dict(model.named_parameters())
    weights = {key: p.detach().numpy().copy() for key, p in parameters.items()}
    source, target = (
        torch.tensor([row + [PAD] * (len(rows[0]) - len(row)) for row in rows]).unsqueeze(-1)
        for rows in (SOURCES, TARGETS)
    )
    lengths = torch.tensor([len(row) for row in SOURCES])
    keep = torch.arange(3) < torch.tensor([[3], [2]])
    truth = torch.ones(3, dtype=torch.bool)
    outputs = model(source, target, source_lengths=lengths, teacher_forcing=truth).values
    for n, (one, other) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = np.stack(read(weights, one, other, score))
        np.testing.assert_allclose(outputs[n, : len(other)].detach(), expected, atol=1e-12)
    loss = model.target_modality.loss(outputs, target, keep)
    assert float(loss.detach()) == pytest.approx(loss_of(weights, score), abs=1e-12)
    loss.backward()
    for key, parameter in parameters.items():
        slopes = np.zeros_like(weights[key])
        for place in np.ndindex(slopes.shape):
            value = weights[key][place]
            changed = []
            for step in (1e-6, -1e-6):
                weights[key][place] = value + step
                changed.append(loss_of(weights, score))
            weights[key][place] = value
            slopes[place] = (changed[0] - changed[1]) / 2e-6
        assert parameter.grad is not None or not slopes.any()
        if parameter.grad is not None:
            np.testing.assert_allclose(parameter.grad, slopes, atol=1e-8, err_msg=key)
