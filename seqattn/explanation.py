"""One attention step of a trained model as arithmetic that a pocket calculator can follow.

Every stage is worked out from the *printed* numbers of the stages above it, rounded to the same
decimals: whoever types them in gets what is printed below. The result therefore differs from the
model's own by some rounding, and both are shown.

Letters: S source length, F features, H width of the state, K width in which queries meet keys,
A heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.attention import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    GeneralScore,
    LocalWindow,
    LocationShiftAddressing,
    Memory,
    Reinforce,
    ScaledDotScore,
    Sparsemax,
    StraightThrough,
    UniformScore,
)
from seqattn.attention.scores import split_heads
from seqattn.errors import UsageError
from seqattn.layers import Linear
from seqattn.models import (
    FastWeightsModel,
    LinearSkip,
    RecurrentModel,
    Seq2SeqModel,
    TransformerModel,
)
from seqattn.models.fast_weights import StateMemory

DECIMALS = 4
WIDEST_MAP = 8
"""Rows and columns of the largest map that is printed: beyond it, nobody types the product in."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """A table: what is worked out, by what formula, row by row.

    Attributes:
        name: what it is.
        formula: how it follows from the stages above; empty where it is given.
        columns: names.
        rows: a name and its numbers, one for each column.
    """

    name: str
    formula: str
    columns: list[str]
    rows: list[tuple[str, list[float]]]


@dataclass
class Explanation:
    """All stages of one step.

    Attributes:
        title: which sequence and step, of which model.
        stages: from the source to the output.
        said: the point that follows from the printed numbers, (F,); empty where more layers
            follow than are shown.
        model_says: the model's own, (F,).
        vectors: for a picture: query (K,), keys (S, K), values (S, V), context (V,), weights (S,).
        cosines: whether the angle between query and key is what counts.
        computed_by_model: names of the stages that do not follow from printed numbers alone,
            because the parameters behind them are not printed.
    """

    title: str
    stages: list[Stage] = field(default_factory=list)
    said: list[float] = field(default_factory=list)
    model_says: list[float] = field(default_factory=list)
    vectors: dict[str, Array] = field(default_factory=dict)
    cosines: bool = False
    computed_by_model: list[str] = field(default_factory=list)

    def from_model(self, name: str, formula: str, rows: Sequence[str], numbers: Any,
                   columns: Sequence[str] | None = None) -> Array:  # fmt: skip
        """Add a stage whose numbers the model computed from parameters that are not printed."""
        self.computed_by_model.append(name)
        return self.given(name, formula, rows, numbers, columns)

    def mapped(self, name: str, formula: str, affine: Linear, inputs: Array, rows: Sequence[str],
               of_model: Array, head: slice) -> Array:  # fmt: skip
        """Add an affine map of printed vectors, and before it the map, if it is small enough.

        Args:
            formula: "q = W_q h + b_q": the map's names stand in it.
            affine: H to width.
            inputs: (rows, H) as printed.
            of_model: (rows, head's width) the model's own result, shown where the map is not.
            head: which outputs of the map belong to the head that is shown.

        Returns:
            (rows, head's width) as printed.
        """
        weight, bias = _rounded(affine.weight)[head], None
        if affine.bias is not None:
            bias = _rounded(affine.bias)[head]
        if max(weight.shape) > WIDEST_MAP:
            return self.from_model(name, f"{formula}; the map is in the checkpoint", rows, of_model)
        columns = _numbered(weight.shape[1])
        table = weight
        if bias is not None:
            table, columns = np.column_stack([weight, bias]), [*columns, "bias"]
        self.given(f"{name}: the map", "", _numbered(len(weight)), table, columns)
        return self.given(name, formula, rows, inputs @ weight.T + (0 if bias is None else bias))

    def given(self, name: str, formula: str, rows: Sequence[str], numbers: Any,
              columns: Sequence[str] | None = None) -> Array:  # fmt: skip
        """Add a stage; its numbers as they were printed, (rows, columns)."""
        printed = np.atleast_2d(_rounded(numbers))
        columns = list(columns) if columns is not None else [
            str(i) for i in range(1, printed.shape[1] + 1)
        ]  # fmt: skip
        table = [(row, line.tolist()) for row, line in zip(rows, printed, strict=True)]
        self.stages.append(Stage(name, formula, columns, table))
        return printed


def explain(
    model: Seq2SeqModel, source: Array, *, step: int, layer: int = 0, head: int = 0,
    features: Sequence[str], said: Sequence[str] = (), title: str,
) -> Explanation:  # fmt: skip
    """One step of free running, taken apart.

    Args:
        source: (S, F), without padding.
        step: of the forecast, counted from 1.
        layer, head: which to show where there are several, counted from 0.
        features: F names, of the source.
        said: those of the target; without, the same.
        title: which sequence this is.

    Raises:
        UsageError: a layer or head that the model does not have, or a model without attention.
    """
    made = Explanation(f"{title}, forecast step {step}")
    S = len(source)
    made.given("Source points", "", _points(S), source, features)
    with torch.inference_mode():
        like, features = next(model.parameters()), said or features
        tensor = torch.as_tensor(source, dtype=like.dtype, device=like.device).unsqueeze(0)
        forecast = model.forecast(tensor, step).values
        if isinstance(model, RecurrentModel):
            _recurrent(made, model, tensor, forecast, layer, head, features)
        elif isinstance(model, FastWeightsModel):
            _one_of("--layer", layer, 1)
            _one_of("--head", head, 1)
            _fast_weights(made, model, tensor, forecast, features)
        elif isinstance(model, TransformerModel):
            _transformer(made, model, tensor, step, layer, head)
        if model.skip is not None:
            _skip(made, model.skip, tensor, forecast, features)
    made.model_says = _rounded(forecast[0, -1]).tolist()
    return made


def _skip(
    made: Explanation, skip: LinearSkip, source: Tensor, forecast: Tensor, features: Sequence[str]
) -> None:
    """What network and skip add to the point, and their sum.

    Args:
        source: (1, S, F).
        forecast: (1, T, F), up to the step that is shown.
    """
    *_, step, _ = forecast.shape
    share = skip(source, None, step)[0, -1]
    network = np.array(made.said)
    if not made.said:  # more layers follow than are shown
        network = made.from_model("Network's share", "from the layers that follow", ["network"],
                                  forecast[0, -1] - share, features)[0]  # fmt: skip
    weight, bias = _rounded(skip.weight[step - 1].flatten(-2)), _rounded(skip.bias[step - 1])
    formula = f"W x + b of this step; x = all {source.shape[1]} source points, one after the other"
    if max(weight.shape) > WIDEST_MAP:
        linear = made.from_model("Skip's share", f"{formula}; the map is in the checkpoint",
                                 ["skip"], share, features)[0]  # fmt: skip
    else:
        x = made.given("Source points in one row", "", ["x"], _rounded(source[0]).reshape(-1))[0]
        columns = [*_numbered(weight.shape[1]), "bias"]
        made.given("Skip: the map", "", features, np.column_stack([weight, bias]), columns)
        linear = made.given("Skip's share", formula, ["skip"], weight @ x + bias, features)[0]
    table = np.stack([network, linear, network + linear])
    parts = made.given("Parts of the forecast", "forecast = network + skip",
                       ["network", "skip", "forecast"], table, features)  # fmt: skip
    made.said = parts[2].tolist()


# --- recurrent models -----------------------------------------------------------------------------


def _recurrent(
    made: Explanation, model: RecurrentModel, source: Tensor, forecast: Tensor, layer: int,
    head: int, features: Sequence[str],
) -> None:  # fmt: skip
    """
    Args:
        forecast: (1, T, F), up to the step that is shown.
    """
    attention = model.attention
    if attention is None:
        raise UsageError("This model has no attention (model.attention: null).")
    _one_of("--layer", layer, 1)
    _one_of("--head", head, attention.heads)
    memory, state, point = model.encode(source, None)
    states, _ = model.read(source, None)
    for said in forecast[:, :-1].unbind(-2):
        _, _, state = model.step(point, state, memory)
        point = said
    assert memory is not None
    projected = model.decoder.project(point)
    if model.context_is_input:
        asks = model.top(state.cells)
        look = attention.look(asks.unsqueeze(-2), memory, state.last)
        joined = projected + model.decoder.project_context(look.context.squeeze(-2))
        now = model.top(model.advance(joined, state.cells))
    else:
        if state.fed is not None:
            projected = projected + model.decoder.project_context(state.fed)
        now = asks = model.top(model.advance(projected, state.cells))
        look = attention.look(asks.unsqueeze(-2), memory, state.last)
    made.given("What the decoder is fed", "", ["point"], point, features)
    whose = "before this step" if model.context_is_input else "after reading that point"
    H = asks.shape[-1]
    made.from_model("Encoder states", "s, from the source points, by the recurrent cell",
                    _points(source.shape[1]), states[0], _numbered(H))  # fmt: skip
    made.from_model(f"Decoder state h, {whose}", "", ["h"], asks, _numbered(H))
    context = _content(made, attention, memory, states, asks, state.last, head)
    if attention.heads > 1:
        every = look.context.view(attention.heads, -1)
        others = np.array(_rounded(every))
        others[head] = context
        made.from_model("Contexts of all heads", f"this is head {head}, the others likewise",
                        [f"head {i}" for i in range(attention.heads)], others)  # fmt: skip
        context = others.reshape(-1)
    if model.context_is_input:
        made.from_model("New state h'", "from the point fed, the context and h, by the recurrent"
                        " cell", ["h'"], now, _numbered(H))  # fmt: skip
        read, name = _rounded(now)[0], "h'"
    elif model.combine is not None:
        joined_row = np.concatenate([context, _rounded(asks)[0]])
        made.given("Joined", "[context; h]", ["[c; h]"], joined_row)
        W, b = _rounded(model.combine.weight), _rounded(model.combine.bias)
        read = made.from_model(
            "Attentional vector a",
            "a = tanh(W_a [context; h] + b_a), W_a and b_a in the checkpoint", ["a"],
            np.tanh(W @ joined_row + b),
        )[0]  # fmt: skip
        name = "a"
    else:
        read, name = np.concatenate([context, _rounded(asks)[0]]), "[context; h]"
        made.given("Joined", "[context; h]", ["[c; h]"], read)
    _output(made, model, read, name, features)


def _output(
    made: Explanation, model: RecurrentModel | FastWeightsModel, read: Array, name: str,
    features: Sequence[str],
) -> None:  # fmt: skip
    weight, bias = _rounded(model.output.weight), _rounded(model.output.bias)
    columns = [*_numbered(weight.shape[1]), "bias"]
    made.given("Output layer W, b", "", list(features), np.column_stack([weight, bias]), columns)
    what = "Point that is said" if model.skip is None else "Network's share"
    said = made.given(what, f"y = W {name} + b", ["y"], weight @ read + bias,
                      features)  # fmt: skip
    made.said = said[0].tolist()


def _content(
    made: Explanation, attention: Attention, memory: Memory, states: Tensor, asks: Tensor,
    last: Tensor | None, head: int,
) -> Array:  # fmt: skip
    """Query, keys, scores, weights, values and their sum, of one head; returns the context.

    Args:
        states: (1, S, H) of the encoder.
        asks: (1, H) state of the decoder.
    """
    query, keys, scores = _scores(made, attention, memory, states, asks, head)
    values = _rounded(_one_head(memory.values, attention.heads, head))
    S = len(values)
    rows = _points(S)
    weights = _weights(made, attention, scores, rows, asks, last, head)
    if attention.value is None:
        values = made.given("Values", "the encoder's states", rows, values)
    else:
        outputs = _of_head(attention.value, attention.heads, head)
        values = made.mapped("Values", "v = W_v s + b_v of the encoder's states", attention.value,
                             _rounded(states[0]), rows, values, outputs)  # fmt: skip
    parts_: Array = made.given(
        "Weighted values", "weight times value", rows, weights[:, None] * values
    )
    context: Array = made.given("Context", "the sum of the weighted values", ["c"],
                                parts_.sum(axis=0))[0]  # fmt: skip
    made.vectors = {"keys": keys, "values": values, "context": context, "weights": weights}
    if query is not None:
        made.vectors["query"] = query
    return context


def _scores(
    made: Explanation, attention: Attention, memory: Memory, states: Tensor, asks: Tensor, head: int
) -> tuple[Array | None, Array, Array]:
    """Query (K,), or None where none is asked; keys (S, K) and scores (S,) of one head."""
    score, heads = attention.score, attention.heads
    s, h = _rounded(states[0]), _rounded(asks)
    keys = _one_head(memory.keys, heads, head)
    S, K = keys.shape
    rows = _points(S)
    match score:
        case UniformScore():
            zeros = made.given("Scores", "0 for every source point", rows, np.zeros((S, 1)),
                               ["score"])  # fmt: skip
            return None, _rounded(keys), zeros[:, 0]
        case DotScore():
            q = made.given("Query", "q = h", ["q"], _share(h, heads, head))[0]
            k = made.given("Keys", "k = s, the encoder's states", rows, keys)
        case GeneralScore():
            q = made.given("Query", "q = h", ["q"], _share(h, heads, head))[0]
            k = made.mapped("Keys", "k = W s of the encoder's states", score.key, s, rows,
                            _rounded(keys), _of_head(score.key, heads, head))  # fmt: skip
        case ScaledDotScore():
            q, k = _projected(made, score, s, h, rows, keys * math.sqrt(K), asks, head)
            root = float(_rounded(math.sqrt(K)))
            products = _rounded(k @ q)
            table = np.column_stack([products, np.full(S, root), products / root])
            made.cosines = True
            return q, k, made.given("Scores", f"score = q . k / sqrt(K), K = {K}", rows, table,
                                    ["q . k", "sqrt(K)", "score"])[:, 2]  # fmt: skip
        case CosineScore():
            return _cosine_scores(made, score, s, h, rows, keys, asks, head)
        case AdditiveScore():
            return _additive_scores(made, score, s, h, rows, keys, asks, head)
        case _:
            raise AssertionError(f"no words for {type(score).__name__}")
    made.cosines = True
    products = made.given("Scores", "score = q . k", rows, (k @ q)[:, None], ["score"])
    return q, k, products[:, 0]


def _projected(
    made: Explanation, score: ScaledDotScore | CosineScore, s: Array, h: Array, rows: list[str],
    keys: Tensor, asks: Tensor, head: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Query (K,) and keys (S, K): affine maps of the states, or the states themselves."""
    if score.query is None or score.key is None:
        q = made.given("Query", "q = h", ["q"], _share(h, score.heads, head))[0]
        return q, made.given("Keys", "k = s, the encoder's states", rows,
                             _share(s, score.heads, head))  # fmt: skip
    outputs = _of_head(score.query, score.heads, head)
    own = _share(_rounded(score.query(asks)), score.heads, head)
    q = made.mapped("Query", "q = W_q h + b_q", score.query, h, ["q"], own, outputs)[0]
    k = made.mapped("Keys", "k = W_k s + b_k of the encoder's states", score.key, s, rows,
                    _rounded(keys), outputs)  # fmt: skip
    return q, k


def _cosine_scores(
    made: Explanation, score: CosineScore, s: Array, h: Array, rows: list[str], keys: Tensor,
    asks: Tensor, head: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    lengths = 1.0 if score.key is None else _one_head(
        split_heads(score.key(torch.as_tensor(s).to(keys)[None]), score.heads), score.heads, head
    ).norm(dim=-1, keepdim=True)  # fmt: skip
    q, k = _projected(made, score, s, h, rows, keys * lengths, asks, head)
    q = made.given("Query, at length 1", "q / |q|", ["q"], q / (np.linalg.norm(q) or 1.0))[0]
    sizes = np.linalg.norm(k, axis=1, keepdims=True)
    k = made.given("Keys, at length 1", "k / |k|", rows, k / np.where(sizes > 0, sizes, 1))
    strength = float(_rounded((-score.log_temperature.value).exp())[0])
    cosines = _rounded(k @ q)
    table = np.column_stack([cosines, np.full(len(k), strength), cosines * strength])
    made.cosines = True
    scores = made.given(
        "Scores", "score = cos(q, k) times the learned strength, 1 / temperature", rows, table,
        ["cos", "strength", "score"],
    )  # fmt: skip
    return q, k, scores[:, 2]


def _additive_scores(
    made: Explanation, score: AdditiveScore, s: Array, h: Array, rows: list[str], keys: Tensor,
    asks: Tensor, head: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    outputs = _of_head(score.query, score.heads, head)
    own = _share(_rounded(score.query(asks)), score.heads, head)
    q = made.mapped("Query", "W h", score.query, h, ["W h"], own, outputs)[0]
    k = made.mapped("Keys", "U s + b", score.key, s, rows, _rounded(keys), outputs)
    v = made.given("Vector v", "", ["v"], score.combine.weight.view(score.heads, -1)[head])[0]
    met = made.given("What came of them", "tanh(W h + U s + b)", rows, np.tanh(k + q))
    scores = made.given("Scores", "score = v . tanh(W h + U s + b)", rows, (met @ v)[:, None],
                        ["score"])  # fmt: skip
    return q, k, scores[:, 0]


def _one_head(x: Tensor, heads: int, head: int) -> Tensor:
    """(1, S, W), or (1, A, S, W) with several heads, -> (S, W) of one of them."""
    return x[0, head] if heads > 1 else x[0]


def _of_head(affine: Linear, heads: int, head: int) -> slice:
    """Which outputs of a map belong to a head."""
    width = len(affine.weight) // heads
    return slice(head * width, (head + 1) * width)


def _share(x: Array, heads: int, head: int) -> Array:
    """(rows, W) -> (rows, W / A): a head's part."""
    width = x.shape[1] // heads
    return x[:, head * width : (head + 1) * width]


def _weights(
    made: Explanation, attention: Attention, scores: Array, rows: list[str], asks: Tensor,
    last: Tensor | None, head: int,
) -> Array:  # fmt: skip
    location, S = attention.location, len(scores)
    places = np.arange(S)
    inside = np.ones(S, dtype=bool)
    centre = 0.0
    if isinstance(location, LocalWindow):
        share = location.combine(location.predict(asks).tanh()).sigmoid()[0, head]
        formula = "p = (S - 1) sigmoid(v . tanh(W h)), from the checkpoint"
        centre = float(made.from_model("Place", formula, ["p"], share * (S - 1), ["p"])[0, 0])
        inside = np.abs(places - centre) <= location.window
    normalizer = attention.normalizer
    name = "Weights" if location is None else "Weights by contents"
    if isinstance(normalizer, Sparsemax):
        falling = np.sort(scores[inside])[::-1]
        k = np.arange(1, len(falling) + 1)
        count = int((1 + k * falling > falling.cumsum()).sum())
        tau = float(_rounded((falling[:count].sum() - 1) / count))
        weights = np.where(inside, np.clip(scores - tau, 0, None), 0)
        table = np.column_stack([scores, np.full(S, tau), weights])
        weights = made.given(
            name, f"sparsemax: weight = max(score - tau, 0), tau = (sum of the {count} largest"
            f" - 1) / {count}", rows, table, ["score", "tau", "weight"],
        )[:, 2]  # fmt: skip
    elif isinstance(normalizer, StraightThrough | Reinforce):
        weights = (places == int(scores.argmax())).astype(float)
        made.given(name, "hard: all weight on the largest score", rows,
                   np.column_stack([scores, weights]), ["score", "weight"])  # fmt: skip
    else:
        raised = _rounded(np.where(inside, np.exp(scores - scores[inside].max()), 0))
        table = np.column_stack([scores, raised, raised / raised.sum()])
        weights = made.given(
            name, "softmax: weight = exp(score - largest) / sum of these", rows, table,
            ["score", "exp(score - largest)", "weight"],
        )[:, 2]  # fmt: skip
    if isinstance(location, LocalWindow):
        bell = _rounded(np.exp(-2 * ((places - centre) / location.window) ** 2))
        table = np.column_stack([weights, bell, weights * bell])
        weights = made.given(
            "Weights", f"times exp(-(s - p)^2 / (2 (D/2)^2)), D = {location.window:g}, s from 0",
            rows, table, ["by contents", "window", "weight"],
        )[:, 2]  # fmt: skip
    elif isinstance(location, LocationShiftAddressing):
        control = location.control(asks)[0].view(attention.heads, -1)[head]
        gate, sharp, shift = control[0].sigmoid(), control[1], control[2:].softmax(-1)
        gamma = 1 + torch.nn.functional.softplus(sharp)
        reach = location.steps // 2
        names = ["g", "gamma", *(f"s({j:+d})" for j in range(-reach, reach + 1))]
        numbers = torch.cat([gate.view(1), gamma.view(1), shift])
        g, sharpness, *s = made.from_model("Gate, sharpness and shift", "from h, by the checkpoint",
                                           ["value"], numbers, names)[0]  # fmt: skip
        before = (places == S - 1).astype(float) if last is None else _rounded(
            last[0, head] if attention.heads > 1 else last[0]
        )  # fmt: skip
        gated = _rounded(g * weights + (1 - g) * before)
        moved = _rounded(sum(s[j + reach] * np.roll(gated, j) for j in range(-reach, reach + 1)))
        power = _rounded(moved**sharpness)
        table = np.column_stack([before, gated, moved, power, power / power.sum()])
        weights = made.given(
            "Weights", "gated = g content + (1 - g) previous; shifted(i) = sum of gated(i - j) s(j)"
            " round the ring; weight = shifted^gamma / sum of these", rows, table,
            ["previous", "gated", "shifted", "shifted^gamma", "weight"],
        )[:, 4]  # fmt: skip
    return np.asarray(weights, dtype=np.float64)


# --- fast weights ---------------------------------------------------------------------------------


def _fast_weights(
    made: Explanation, model: FastWeightsModel, source: Tensor, forecast: Tensor,
    features: Sequence[str],
) -> None:  # fmt: skip
    """
    Args:
        forecast: (1, T, F), up to the step that is shown.
    """
    *_, step, _ = forecast.shape
    S = source.shape[1]
    memory, state, point = model.encode(source, None, as_matrix=False)
    for said in forecast[:, :-1].unbind(-2):
        _, state, _, memory = model.step(model.decoder_input(point), state, memory)
        point = said
    assert isinstance(memory, StateMemory)
    made.given("What the decoder is fed", "", ["point"], point, features)
    held = model.decoder_input(point) + model.decoder_state(state)
    asks = model.settle_for(held, memory, model.inner_steps - 1, model.decoder_norm)
    rows = [*_points(S), *(f"step {t}" for t in range(1, step))]
    outside = made.from_model("What comes from outside", "W h + C x, held through the inner loop",
                              ["held"], held)[0]  # fmt: skip
    h = made.from_model("State that asks", f"after {model.inner_steps - 1} readings", ["h"],
                        asks)[0]  # fmt: skip
    states = made.from_model("States in memory", "", rows, memory.states[0])
    factors, products = _rounded(memory.factors[0]), _rounded(states @ h)
    table = np.column_stack([products, factors, products * factors])
    strengths = made.given("Strengths", "strength = rate decay^age (h(tau) . h)", rows, table,
                           ["h(tau) . h", "rate decay^age", "strength"])[:, 2]  # fmt: skip
    parts = made.given("Weighted states", "strength times state", rows, strengths[:, None] * states)
    read = made.given("What is read", "A h, the sum of the weighted states", ["A h"],
                      parts.sum(axis=0))[0]  # fmt: skip
    z, name = _rounded(outside + read), "held + A h"
    if model.decoder_norm is not None:
        gain = _rounded(model.decoder_norm.gain.value)
        bias = _rounded(model.decoder_norm.bias.value)
        table = np.stack([z, gain, bias])
        made.given("Layer norm's input, gain and bias", "held + A h", ["z", "gain", "bias"], table)
        mean, deviation = (float(_rounded(x)) for x in (z.mean(), np.sqrt(z.var() + 1e-5)))
        made.given("Mean and deviation of z", "", ["z"], [mean, deviation], ["mean", "deviation"])
        z = _rounded((z - mean) / deviation * gain + bias)
        name = "(z - mean) / deviation * gain + bias"
    new = made.given("New state", f"tanh({name})", ["h'"], np.tanh(z))[0]
    _output(made, model, new, "h'", features)
    made.vectors = {"query": h, "keys": states, "values": states, "context": read,
                    "weights": strengths}  # fmt: skip


# --- the Transformer ------------------------------------------------------------------------------


def _transformer(
    made: Explanation, model: TransformerModel, source: Tensor, step: int, layer: int, head: int
) -> None:
    _one_of("--layer", layer, len(model.decoder))
    look = model.cross_look(source, step, layer)
    _one_of("--head", head, look.keys.shape[1])
    S = source.shape[1]
    rows = _points(S)
    heads, width = look.keys.shape[1], look.keys.shape[-1]
    formula = f"layer {layer}, head {head}: q = W_q x + b_q of the decoder's state"
    q = made.from_model("Query", formula, ["q"], look.queries[0, head, -1])[0]
    keys = made.from_model("Keys", "k = W_k s + b_k of the encoder's output", rows,
                           look.keys[0, head])  # fmt: skip
    root = float(_rounded(np.sqrt(width)))
    products = _rounded(keys @ q)
    table = np.column_stack([products, np.full(S, root), products / root])
    scores = made.given("Scores", f"score = q . k / sqrt(K), K = {width}", rows, table,
                        ["q . k", "sqrt(K)", "score"])[:, 2]  # fmt: skip
    raised = _rounded(np.exp(scores - scores.max()))
    table = np.column_stack([scores, raised, raised / raised.sum()])
    weights = made.given("Weights", "softmax: weight = exp(score - largest) / sum of these", rows,
                         table, ["score", "exp(score - largest)", "weight"])[:, 2]  # fmt: skip
    values = made.from_model("Values", "v = W_v s + b_v of the encoder's output", rows,
                             look.values[0, head])  # fmt: skip
    parts = made.given("Weighted values", "weight times value", rows, weights[:, None] * values)
    context = made.given("Context", "the sum of the weighted values", ["c"],
                         parts.sum(axis=0))[0]  # fmt: skip
    every = np.array(_rounded(look.context[0, :, -1]))
    every[head] = context
    made.from_model("Contexts of all heads", f"this is head {head}, the others likewise",
                    [f"head {i}" for i in range(heads)], every)  # fmt: skip
    weight, bias = _rounded(look.out.weight), _rounded(look.out.bias)
    made.from_model("What cross-attention adds", "W_o [contexts] + b_o, W_o and b_o in the"
                    " checkpoint; the rest of the decoder follows", ["+"],
                    weight @ every.reshape(-1) + bias)  # fmt: skip
    made.vectors = {"query": q, "keys": keys, "values": values, "context": context,
                    "weights": weights}  # fmt: skip
    made.cosines = True


# --- small things ---------------------------------------------------------------------------------


def _rounded(numbers: Any) -> Array:
    """As printed."""
    array = numbers.detach().double().cpu().numpy() if isinstance(numbers, Tensor) else numbers
    rounded = np.round(np.asarray(array, dtype=np.float64), DECIMALS)
    return np.asarray(rounded + 0.0, dtype=np.float64)  # no -0


def _points(count: int) -> list[str]:
    return [f"point {s}" for s in range(1, count + 1)]


def _numbered(count: int) -> list[str]:
    return [str(i) for i in range(1, count + 1)]


def _one_of(option: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise UsageError(f"{option} {value}: this model has {count}, counted from 0.")
