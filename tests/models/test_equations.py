"""The forecasts of trained models, computed in NumPy from the equations in docs/mechanisms.md and
from the parameters in the checkpoint. The code follows the page and uses no code of seqattn.

Each sequence is computed alone and without padding. tests/models/test_fast_weights.py holds the
equations of fast weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.optimize import brentq

from tests.conftest import ROOT, train_small

Array = NDArray[np.float64]
Weights = dict[str, Array]
Step = tuple[Array, Array]  # the output y, and the weights (A, L)
CONFIGS = [path for path in sorted((ROOT / "configs/mechanisms").glob("*.yaml"))
           if path.stem != "fast_weights"]  # fmt: skip
TASK = "data={kind: copy, length: 5, min_length: 2, n_train: 32, n_validation: 8, n_test: 12}"
SMALL = [TASK, "training.epochs=3", "training.batch_size=16", "training.learning_rate=0.02"]
MORE = {
    "bidirectional lstm": ["model.cell=lstm", "model.bidirectional=true", "model.layers=2"],
    "context input": ["model.context=input", "model.layers=2", "model.attention.score=additive",
                      "model.attention.heads=2"],
    "readout tanh": ["model.readout=tanh", "model.cell=rnn", "model.attention.key_dim=6"],
    "no maps": ["model.attention.project_query_key=false", "model.attention.heads=2",
                "model.attention.location={kind: location_shift, shift_range: 5}"],
    "shift in long sources": ["data.length=8", "model.attention.heads=2",
                              "model.attention.location={kind: location_shift}"],
    "monotonic heads": ["model.attention={score: general, heads: 4,"
                        " location: {kind: monotonic, offset: 0.5}}"],
    "monotonic input": ["model.attention.location={kind: monotonic, offset: 0.1}",
                        "model.context=input"],
    "cosine heads": ["model.attention={score: cosine, heads: 4, location: {kind: local}}"],
    "linear heads": ["model.attention={score: linear, heads: 2}"],
    "coverage heads": ["model.attention={score: coverage, heads: 2}"],
    "coverage input feeding": ["model.attention.score=coverage", "model.input_feeding=true"],
    "general heads": ["model.attention={score: general, heads: 4, normalizer: sparsemax}"],
    "entmax": ["model.attention={heads: 2, normalizer: entmax, alpha: learned}"],
    "no attention": ["model.attention=null"],
    "transformer post": ["model={kind: transformer, norm: post, positions: learned, longest: 5,"
                         " layers: 1, model_dim: 12, heads: 3}"],
    "transformer relative": ["model={kind: transformer, positions: relative, max_distance: 2,"
                             " model_dim: 12, heads: 3}"],
    "transformer alibi": ["model={kind: transformer, positions: alibi, model_dim: 15, heads: 5}"],
    "transformer rotary": ["model={kind: transformer, positions: rotary, model_dim: 12, heads: 3,"
                           " norm: post}"],
    "transformer without positions": ["model={kind: transformer, positions: none, model_dim: 6,"
                                      " heads: 1, layers: 3}"],
}  # fmt: skip


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def linear(p: Weights, name: str, x: Array) -> Array:
    return np.asarray(x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0.0))


# --- attention of a recurrent model ---------------------------------------------------------------


def scores_and_values(
    p: Weights, config: dict[str, Any], h: Array, states: Array, coverage: Array
) -> tuple[Array, Array]:
    """Return the scores (A, L) and the values (A, L, H / A)."""
    A, score = config["heads"], config["score"]

    def heads(x: Array) -> Array:  # (L, width) -> (A, L, width / A)
        return np.stack(np.split(x, A, axis=-1))

    values = linear(p, "attention.value", states) if config["project_values"] else states
    q, k, name = h[None], states, "attention.score"
    if score == "additive":
        hidden = np.tanh(linear(p, f"{name}.query", q) + linear(p, f"{name}.key", k))
        e = (heads(hidden) * heads(p[f"{name}.combine.weight"])).sum(-1)
        return e, heads(values)
    if score == "coverage":
        inside = heads(linear(p, f"{name}.query", q) + linear(p, f"{name}.key", k))
        inside = inside + coverage[:, :, None] * heads(p[f"{name}.coverage.weight"].T)
        return (np.tanh(inside) * heads(p[f"{name}.combine.weight"])).sum(-1), heads(values)
    if score == "general":
        k = linear(p, f"{name}.key", k)
    elif config.get("project_query_key", False):
        q, k = linear(p, f"{name}.query", q), linear(p, f"{name}.key", k)
    if score == "linear":
        q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    q, k = heads(q), heads(k)
    e = (k @ q.swapaxes(-1, -2))[..., 0]
    if score == "uniform":
        e = np.zeros_like(e)
    elif score == "linear":
        e = np.log(e)
    elif score == "scaled_dot":
        e = e / np.sqrt(k.shape[-1])
    elif score == "cosine":
        e = e / np.linalg.norm(q, axis=-1) / np.linalg.norm(k, axis=-1)
        e = e * np.exp(-p[f"{name}.log_temperature.value"])
    return e, heads(values)


def entmax(e: Array, alpha: float) -> Array:
    scaled = (alpha - 1) * e

    def weights(tau: float) -> Array:
        return np.asarray(np.maximum(scaled - tau, 0) ** (1 / (alpha - 1)))

    return weights(brentq(lambda tau: weights(tau).sum() - 1, scaled.max() - 1, scaled.max()))


def normalize(p: Weights, config: dict[str, Any], e: Array) -> Array:
    """Return the weights (A, L) of scores (A, L)."""
    normalizer = config["normalizer"]
    if normalizer == "softmax":
        return softmax(e)
    if normalizer == "hard":
        return np.eye(e.shape[-1])[e.argmax(-1)]
    rows = []
    if normalizer == "entmax":
        alphas = np.full(len(e), 1.5)
        if config["alpha"] == "learned":
            alphas = 1.01 + 0.99 * sigmoid(p["attention.normalizer.theta.value"])
        return np.stack([entmax(row, float(alpha)) for row, alpha in zip(e, alphas, strict=True)])
    assert normalizer == "sparsemax"
    for row in e:
        largest = np.sort(row[np.isfinite(row)])[::-1]
        k = max(k for k in range(1, len(largest) + 1)
                if 1 + k * largest[k - 1] > largest[:k].sum())  # fmt: skip
        rows.append(np.maximum(row - (largest[:k].sum() - 1) / k, 0))
    return np.stack(rows)


def attend(p: Weights, config: dict[str, Any], h: Array, states: Array, past: list[Array]) -> Step:
    """Return the context (H,) and the weights (A, L), after the weights of all past steps."""
    coverage = sum(past, np.zeros((config["heads"], len(states))))
    e, values = scores_and_values(p, config, h, states, coverage)
    A, L = e.shape
    location, name = config["location"], "attention.location"
    positions = np.arange(L)
    if location is None:
        w = normalize(p, config, e)
    elif location["kind"] == "local":
        D = location["window"]
        hidden = np.tanh(linear(p, f"{name}.predict", h))
        centre = (L - 1) * sigmoid(linear(p, f"{name}.combine", hidden))[:, None]  # (A, 1)
        distance = positions - centre
        w = normalize(p, config, np.where(np.abs(distance) > D, -np.inf, e))
        w = w * np.exp(-2 * distance**2 / D**2)
    elif location["kind"] == "monotonic":
        w = np.zeros((A, L))
        for a, row in enumerate(past[-1] if past else np.tile(positions == 0, (A, 1))):
            stops = e[a] + p[f"{name}.offset.value"][a] > 0
            after = np.flatnonzero(stops & (positions >= row.argmax()))
            if row.any() and after.size:
                w[a, after[0]] = 1
    else:
        n = location["shift_range"]
        numbers = linear(p, f"{name}.control", h).reshape(A, n + 2)
        g, gamma = sigmoid(numbers[:, :1]), 1 + np.log1p(np.exp(numbers[:, 1:2]))
        s = softmax(numbers[:, 2:])
        previous = past[-1] if past else np.tile(positions == L - 1, (A, 1)).astype(float)
        u = g * normalize(p, config, e) + (1 - g) * previous
        shifted = sum(
            s[:, m, None] * u[:, (positions - m + (n - 1) // 2) % L] for m in range(n)
        )  # fmt: skip
        w = np.maximum(shifted, np.finfo(np.float32).tiny) ** gamma
        w = w / w.sum(-1, keepdims=True)
    return (w[:, None] @ values).reshape(-1), w


# --- recurrent models -----------------------------------------------------------------------------


def cell_step(p: Weights, kind: str, name: str, x: Array, state: Array) -> Array:
    """Return the state after a step, (H,), or (2, H) with h and c of an LSTM."""
    weight, bias = p[f"{name}.weight_hh"], p[f"{name}.bias_hh"]
    h = state[0] if kind == "lstm" else state
    of_x, of_h = p[f"{name}.weight_ih"] @ x + p[f"{name}.bias_ih"], weight @ h + bias
    if kind == "rnn":
        return np.asarray(np.tanh(of_x + of_h))
    if kind == "lstm":
        i, f, g, o = np.split(of_x + of_h, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return np.stack([sigmoid(o) * np.tanh(c), c])
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(of_x, 3), np.split(of_h, 3)
    z, n = sigmoid(z_x + z_h), np.tanh(n_x + sigmoid(r_x + r_h) * n_h)
    return np.asarray((1 - z) * n + z * h)


def run_cell(p: Weights, config: dict[str, Any], name: str, inputs: Array) -> Array:
    """Return the states after each step, (L, H), or (L, 2, H) of an LSTM."""
    H = config["hidden_dim"]
    state, states = np.zeros((2, H) if config["cell"] == "lstm" else H), []
    for x in inputs:
        state = cell_step(p, config["cell"], name, x, state)
        states.append(state)
    return np.stack(states)


def encode(p: Weights, config: dict[str, Any], source: Array) -> tuple[Array, list[Array]]:
    """Return the outputs of the last layer (L, H), and the initial state of each decoder layer."""
    outputs, initial, is_lstm = source, [], config["cell"] == "lstm"
    for layer in layers("encoder", config):
        if not config["bidirectional"]:
            states = run_cell(p, config, layer, outputs)
            outputs = states[:, 0] if is_lstm else states
            initial.append(states[-1])
            continue
        forwards = run_cell(p, config, f"{layer}.forwards", outputs)
        backwards = run_cell(p, config, f"{layer}.backwards", outputs[::-1])[::-1]
        both = np.concatenate([forwards, backwards], axis=-1)
        ends = np.concatenate([forwards[-1], backwards[0]], axis=-1)  # (2H,) or (2, 2H)
        outputs = linear(p, f"{layer}.merge", both[:, 0] if is_lstm else both)
        h = np.tanh(linear(p, f"{layer}.bridges.0", ends[0] if is_lstm else ends))
        initial.append(np.stack([h, linear(p, f"{layer}.bridges.1", ends[1])]) if is_lstm else h)
    return outputs, initial


def layers(part: str, config: dict[str, Any]) -> Sequence[str]:
    return [part, *(f"{part}_above.{i}" for i in range(config["layers"] - 1))]


def recurrent_steps(p: Weights, config: dict[str, Any], source: Array) -> Callable[[Array], Step]:
    """Return a function of the input x_t that computes the steps one after another."""
    states, cells = encode(p, config, source)
    attention, past, fed = config["attention"], list[Array](), np.zeros(config["hidden_dim"])

    def last_output() -> Array:
        return cells[-1][0] if config["cell"] == "lstm" else cells[-1]

    def step_cells(x: Array) -> Array:
        for i, layer in enumerate(layers("decoder", config)):
            cells[i] = cell_step(p, config["cell"], layer, x, cells[i])
            x = cells[i][0] if config["cell"] == "lstm" else cells[i]
        return x

    def step(x: Array) -> Step:
        nonlocal fed
        if attention is None:
            return linear(p, "output", step_cells(x)), np.zeros((0, len(states)))
        if config["context"] == "input":
            context, w = attend(p, attention, last_output(), states, past)
            past.append(w)
            return linear(p, "output", step_cells(np.concatenate([x, context]))), w
        h = step_cells(np.concatenate([x, fed]) if config["input_feeding"] else x)
        context, w = attend(p, attention, h, states, past)
        past.append(w)
        read = np.concatenate([context, h])
        if config["input_feeding"] or config["readout"] == "tanh":
            fed = read = np.tanh(linear(p, "combine", read))
        return linear(p, "output", read), w

    return step


# --- Transformer ----------------------------------------------------------------------------------


def layer_norm(p: Weights, name: str, x: Array) -> Array:
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return np.asarray(x * p[f"{name}.gain.value"] + p[f"{name}.bias.value"])


def rotate(x: Array) -> Array:
    """Rotate pairs of elements of the rows of x (A, L, K), as complex numbers."""
    _, L, K = x.shape
    angles = np.arange(L)[:, None] / 10000 ** (np.arange(0, K, 2) / K)
    rotated = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([rotated.real, rotated.imag], -1).reshape(x.shape)


def multi_head(
    p: Weights, name: str, A: int, x: Array, y: Array, causal: bool = False, positions: str = "none"
) -> tuple[Array, Array]:
    q, k, v = (
        np.stack(np.split(linear(p, f"{name}.{part}", rows), A, axis=-1))
        for part, rows in (("query", x), ("key", y), ("value", y))
    )
    if positions == "rotary":
        q, k = rotate(q), rotate(k)
    e = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    difference = np.arange(len(y)) - np.arange(len(x))[:, None]  # j - i
    if positions == "alibi":
        e = e - 2.0 ** (-8 * np.arange(1, A + 1) / A)[:, None, None] * np.abs(difference)
    if positions == "relative":
        of_keys, of_values = (p[f"{name}.places.{part}.weight"] for part in ("keys", "values"))
        reach = len(of_keys) // 2
        row = np.clip(difference, -reach, reach) + reach
        e = e + np.einsum("aik,ijk->aij", q, of_keys[row]) / np.sqrt(q.shape[-1])
    if causal:
        e = np.where(np.tri(len(x), dtype=bool), e, -np.inf)
    w = softmax(e)
    context = w @ v
    if positions == "relative":
        context = context + np.einsum("aij,ijk->aik", w, of_values[row])
    return linear(p, f"{name}.out", np.concatenate(list(context), axis=-1)), w


def transformer_steps(p: Weights, config: dict[str, Any], source: Array) -> Callable[[Array], Step]:
    D, A, pre = config["model_dim"], config["heads"], config["norm"] == "pre"

    def embed(side: str, points: Array) -> Array:
        x, L = linear(p, f"{side}_in", points), len(points)
        if config["positions"] == "learned":
            return np.asarray(x + p[f"{side}_places.weight"][:L])
        if config["positions"] != "sinusoidal":
            return x
        angles = np.arange(L)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
        return np.asarray(x + np.stack([np.sin(angles), np.cos(angles)], -1).reshape(L, -1)[:, :D])

    def sublayer(x: Array, norm: str, f: Callable[[Array], Array]) -> Array:
        return x + f(layer_norm(p, norm, x)) if pre else layer_norm(p, norm, x + f(x))

    def feed(name: str) -> Callable[[Array], Array]:
        return lambda x: linear(p, f"{name}.second", np.maximum(linear(p, f"{name}.first", x), 0))

    encoded, kind = embed("source", source), config["positions"]
    for i in range(config["layers"]):
        at = f"encoder.{i}"
        encoded = sublayer(encoded, f"{at}.attend_norm",
                           lambda x, at=at: multi_head(p, f"{at}.attend", A, x, x, False, kind)[0])  # fmt: skip
        encoded = sublayer(encoded, f"{at}.feed_norm", feed(f"{at}.feed"))
    encoded = layer_norm(p, "encoder_norm", encoded) if pre else encoded
    inputs = list[Array]()

    def step(point: Array) -> Step:
        inputs.append(point)
        x, last = embed("target", np.stack(inputs)), np.zeros((A, 0))
        for i in range(config["layers"]):
            at = f"decoder.{i}"

            def cross(x: Array, at: str = at) -> Array:
                nonlocal last
                result, weights = multi_head(p, f"{at}.cross", A, x, encoded)
                last = weights[:, -1]
                return result

            x = sublayer(x, f"{at}.attend_norm",
                         lambda x, at=at: multi_head(p, f"{at}.attend", A, x, x, True, kind)[0])  # fmt: skip
            x = sublayer(x, f"{at}.cross_norm", cross)
            x = sublayer(x, f"{at}.feed_norm", feed(f"{at}.feed"))
        x = layer_norm(p, "decoder_norm", x) if pre else x
        return linear(p, "output", x[-1]), last

    return step


# --- the comparison -------------------------------------------------------------------------------


def check_run(run: Path) -> None:
    """Compare the forecasts, and the weights of the last layer, with the files of a run."""
    config = yaml.safe_load((run / "config.yaml").read_text())["model"]
    p = {name: array.astype(np.float64)
         for name, array in load_file(run / "checkpoints/best.safetensors").items()}  # fmt: skip
    found = np.load(run / "predictions.npz")
    has_weights = (run / "attention.npz").exists()
    weights = np.load(run / "attention.npz")["weights"] if has_weights else None
    start = {"recurrent": recurrent_steps, "transformer": transformer_steps}[config["kind"]]
    assert len({*found["source_lengths"]}) > 1
    for n, (L, T) in enumerate(zip(found["source_lengths"], found["target_lengths"], strict=True)):
        source = found["source"][n, :L]
        x, step = source[-1], start(p, config, source)
        for t in range(T):
            x, w = step(x)
            np.testing.assert_allclose(x, found["forecast"][n, t], atol=1e-5)
            if weights is not None:
                np.testing.assert_allclose(w, weights[n, -1, :, t, :L], atol=1e-5)


def train_and_check(folder: Path, *overrides: str) -> None:
    if any("transformer" in each for each in overrides):
        overrides = (*overrides, "training.teacher_forcing.probability=1")
    check_run(train_small(folder, "run", *SMALL, *overrides))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_forecasts_of_each_shipped_config(path: Path, tmp_path: Path) -> None:
    model = yaml.safe_load(path.read_text())["model"]
    train_and_check(tmp_path, f"model={json.dumps(model)}")


@pytest.mark.parametrize("name", MORE)
def test_the_forecasts_of_other_models(name: str, tmp_path: Path) -> None:
    width = [] if "transformer" in name else ["model.hidden_dim=8"]
    train_and_check(tmp_path, *width, *MORE[name])
