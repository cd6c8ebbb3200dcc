"""Forced attention weights in the forecast of a model: rows of one decoder step, layer and head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from seqattn.config import Model
from seqattn.errors import UsageError
from seqattn.models import RecurrentModel, Seq2SeqModel, build_model
from seqattn.models.attention import ForcedWeights, Override
from tests.conftest import S, T

N, F = 3, 2
LENGTHS = torch.tensor([S, 4, 6])
KINDS: dict[str, dict[str, Any]] = {
    "dot": {"attention": {"score": "dot"}},
    "scaled": {"attention": {"score": "scaled_dot"}},
    "general": {"attention": {"score": "general", "project_values": True}},
    "additive": {"attention": {"score": "additive", "key_dim": 5}},
    "linear": {"attention": {"score": "linear"}},
    "coverage": {"attention": {"score": "coverage"}},
    "cosine": {"attention": {"score": "cosine"}},
    "uniform": {"attention": {"score": "uniform"}},
    "two heads": {"attention": {"score": "scaled_dot", "heads": 2}},
    "entmax": {"attention": {"score": "dot", "normalizer": "entmax", "alpha": 1.3}},
    "sparsemax": {"attention": {"score": "dot", "normalizer": "sparsemax"}},
    "hard": {"attention": {"score": "dot", "normalizer": "hard", "estimator": "reinforce"}},
    "local": {"attention": {"score": "dot", "location": {"kind": "local", "window": 3}}},
    "shift": {"attention": {"location": {"kind": "location_shift", "shift_range": 5}}},
    "shift heads": {"attention": {"heads": 2, "location": {"kind": "location_shift"}}},
    "monotonic": {"attention": {"location": {"kind": "monotonic", "offset": 0.0}}},
    "context input": {"context": "input", "cell": "lstm"},
    "context input heads": {"context": "input", "attention": {"heads": 2}},
    "input feeding": {"input_feeding": True, "layers": 2},
    "readout tanh": {"readout": "tanh", "attention": {"heads": 2}},
    "bidirectional": {"bidirectional": True, "layers": 2},
    "transformer": {"kind": "transformer", "model_dim": 12, "heads": 3, "layers": 2},
    "transformer, post": {"kind": "transformer", "model_dim": 12, "heads": 1, "norm": "post"},
}


def model_of(name: str) -> Seq2SeqModel:
    kind = KINDS[name]
    width = {} if kind.get("kind") == "transformer" else {"hidden_dim": 6}
    config: Model = TypeAdapter(Model).validate_python(kind | width)
    return build_model(config, F, 3).double()


def source() -> Tensor:
    numbers = torch.Generator().manual_seed(4)
    return torch.randn(N, S, F, generator=numbers, dtype=torch.float64)


def forecast(
    model: Seq2SeqModel, override: Override | ForcedWeights | None = None
) -> tuple[Tensor, Tensor]:
    """Values (N, T, F) and cross-attention weights (N, layers, A, T, S)."""
    with torch.no_grad():
        output = model.forecast(source(), T, source_lengths=LENGTHS, override=override)
    cross = [each.weights for each in output.attention if each.kind == "cross"]
    return output.values, torch.stack(cross, dim=1)


def own_rows(weights: Tensor) -> Tensor:
    return torch.full_like(weights, torch.nan)


@pytest.mark.parametrize("name", KINDS)
def test_the_weights_of_the_model_change_nothing(name: str) -> None:
    model = model_of(name)
    values, weights = forecast(model)
    forced_values, forced_weights = forecast(model, ForcedWeights(weights))
    assert torch.equal(forced_values, values)
    assert torch.equal(forced_weights, weights)


@pytest.mark.parametrize("name", KINDS)
def test_rows_of_nan_change_nothing(name: str) -> None:
    model = model_of(name)
    values, weights = forecast(model)
    forced_values, forced_weights = forecast(model, ForcedWeights(own_rows(weights)))
    assert torch.equal(forced_values, values)
    assert torch.equal(forced_weights, weights)


@pytest.mark.parametrize("mode", ["uniform", "one_hot:3", "zeros"])
@pytest.mark.parametrize("name", KINDS)
def test_the_rows_of_a_mode_equal_the_mode(name: str, mode: str) -> None:
    model = model_of(name)
    override = Override.parse(mode)
    values, weights = forecast(model, override)
    keep = torch.arange(S) < LENGTHS[:, None]
    rows = {
        "uniform": keep / LENGTHS[:, None],
        "one_hot:3": (torch.arange(S) == 2).expand(N, S),
        "zeros": torch.zeros(N, S),
    }[mode]
    rows = rows.to(weights.dtype)[:, None, None, None].expand(weights.shape)
    torch.testing.assert_close(weights, rows, rtol=0, atol=1e-7)
    forced_values, forced_weights = forecast(model, ForcedWeights(weights))
    assert torch.equal(forced_values, values)
    assert torch.equal(forced_weights, weights)


@pytest.mark.parametrize("name", KINDS)
def test_earlier_steps_do_not_see_a_forced_row(name: str) -> None:
    model, step = model_of(name), 3
    values, weights = forecast(model)
    force = own_rows(weights)
    row = torch.tensor([0.0, 0.0, 0.0, 1.0] + [0.0] * (S - 4), dtype=torch.float64)
    force[:, -1, -1, step] = row
    forced_values, forced_weights = forecast(model, ForcedWeights(force))
    assert torch.equal(forced_values[:, :step], values[:, :step])
    assert torch.equal(forced_weights[..., :step, :], weights[..., :step, :])
    assert (forced_weights[:, -1, -1, step] == row).all()
    if name != "hard":  # its own row may be the forced one
        assert not torch.allclose(forced_values[:, step], values[:, step])


@pytest.mark.parametrize("name", ["two heads", "shift heads", "transformer"])
def test_other_heads_and_layers_keep_their_weights_of_the_step(name: str) -> None:
    model = model_of(name)
    _, weights = forecast(model)
    force = own_rows(weights)
    force[:, -1, -1, 1] = 0
    _, forced = forecast(model, ForcedWeights(force))
    layers, heads = weights.shape[1:3]
    for layer in range(layers):
        for head in range(heads):
            if (layer, head) == (layers - 1, heads - 1):
                assert (forced[:, layer, head, 1] == 0).all()
            else:
                assert torch.equal(forced[:, layer, head, 1], weights[:, layer, head, 1])


def test_sequences_of_a_batch_have_rows_of_their_own() -> None:
    model = model_of("two heads")
    values, weights = forecast(model)
    force = own_rows(weights)
    force[1, 0, 0, 2, :4] = torch.tensor([0.5, 0.0, 0.0, 0.5])
    force[1, 0, 0, 2, 4:] = 0
    forced, _ = forecast(model, ForcedWeights(force))
    assert torch.equal(forced[[0, 2]], values[[0, 2]])
    assert not torch.equal(forced[1], values[1])


def test_the_next_location_shift_starts_from_the_forced_row() -> None:
    """Equation 7 of Graves et al. 2014: the gate mixes the content with the row before."""
    model = model_of("shift")
    assert isinstance(model, RecurrentModel) and model.attention is not None
    location = model.attention.location
    assert location is not None
    with torch.no_grad():  # gate 0, shift by 0, gamma 1 + softplus(-50) = 1: the row before
        location.control.weight.zero_()
        location.control.bias.copy_(torch.tensor([-50.0, -50.0, -50, -50, 50, -50, -50]))
    _, weights = forecast(model)
    force = own_rows(weights)
    row = torch.tensor([0.0, 0.25, 0.75, 0.0] + [0.0] * (S - 4), dtype=torch.float64)
    force[:, 0, 0, 2] = row
    _, forced = forecast(model, ForcedWeights(force))
    torch.testing.assert_close(forced[:, 0, 0, 3], row.expand(N, S), rtol=0, atol=1e-9)


# --- rows of zeros: the context is 0 --------------------------------------------------------------


def numpy_gru_forecast(model: RecurrentModel, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A GRU with dot attention and `context: output`: weighted sum and readout in NumPy, with
    weights (T, S) that are given."""

    def step(cell: Any, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return cell.step(cell.project(torch.from_numpy(x)), torch.from_numpy(h)).numpy()

    h, states = np.zeros((1, model.hidden)), []
    for x in points:
        h = step(model.encoder, x[None], h)
        states.append(h[0])
    values, x = [], points[-1]
    for row in rows:
        h = step(model.decoder, x[None], h)
        context = row @ np.array(states)
        readout = np.concatenate([context, h[0]])
        x = model.output.weight.detach().numpy() @ readout + model.output.bias.detach().numpy()
        values.append(x)
    return np.array(values)


@pytest.mark.parametrize("rows", ["zeros", "mixed"])
def test_forced_rows_follow_a_forecast_in_numpy(rows: str) -> None:
    model = model_of("dot")
    assert isinstance(model, RecurrentModel)
    points = source()[:1]
    numbers = np.zeros((T, S)) if rows == "zeros" else np.random.default_rng(3).random((T, S))
    force = torch.from_numpy(numbers)[None, None, None]
    with torch.no_grad():
        found = model.forecast(points, T, override=ForcedWeights(force)).values[0]
    expected = numpy_gru_forecast(model, points[0].numpy(), numbers)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["general", "transformer", "transformer, post"])
def test_zeros_give_the_context_of_values_of_zero(name: str) -> None:
    model, without = model_of(name), model_of(name)
    projection = (
        without.attention.value
        if isinstance(without, RecurrentModel) and without.attention is not None
        else without.decoder[-1].cross.value  # type: ignore[union-attr,index]
    )
    assert projection is not None
    heads = 3 if name == "transformer" else 1
    width = len(projection.weight) // heads
    with torch.no_grad():
        projection.weight[-width:] = 0
        projection.bias[-width:] = 0
    layer, head = 0 if name == "general" else 1, heads - 1
    values, weights = forecast(model, Override.parse(f"zeros:{layer + 1}:{head + 1}"))
    torch.testing.assert_close(values, forecast(without)[0], rtol=0, atol=1e-9)
    assert (weights[:, layer, head] == 0).all()


@pytest.mark.parametrize(
    ("mode", "zero"),
    [("zeros", (slice(None), slice(None))), ("zeros:2", (1, slice(None))), ("zeros:2:3", (1, 2)),
     ("zeros:1:2", (0, 1))],
)  # fmt: skip
def test_zeros_of_a_layer_and_of_a_head(mode: str, zero: tuple[Any, Any]) -> None:
    _, weights = forecast(model_of("transformer"), Override.parse(mode))
    is_zero = torch.zeros(2, 3, dtype=torch.bool)
    is_zero[zero] = True
    sums = weights.sum(dim=-1).amax(dim=(0, 3))
    assert torch.equal(sums == 0, is_zero)


def test_zeros_of_the_only_head_of_a_recurrent_model() -> None:
    model = model_of("dot")
    for mode in ("zeros:1", "zeros:1:1"):
        assert torch.equal(forecast(model, Override.parse(mode))[0],
                           forecast(model, Override.parse("zeros"))[0])  # fmt: skip


# --- what does not fit ----------------------------------------------------------------------------


def test_forced_weights_that_do_not_fit() -> None:
    model = model_of("two heads")
    for shape in ((N, 1, 2, T, S + 1), (N, 1, 3, T, S), (N, 0, 2, T, S), (N + 1, 1, 2, T, S),
                  (N, 1, 2, T - 1, S), (N, 2, T, S)):  # fmt: skip
        with pytest.raises(ValueError, match="forced weights"):
            forecast(model, ForcedWeights(torch.zeros(shape)))


def test_models_without_weights_to_replace() -> None:
    plain: Model = TypeAdapter(Model).validate_python({"attention": None, "hidden_dim": 6})
    fast: Model = TypeAdapter(Model).validate_python({"kind": "fast_weights", "hidden_dim": 6})
    source = torch.zeros(2, 3, F).double()
    for config, message in ((plain, "no attention"), (fast, "signed read strengths")):
        model = build_model(config, F, 3).double()
        with pytest.raises(UsageError, match=message):
            model.attention_shape()
        with pytest.raises(UsageError, match=message):
            model.forecast(source, 4, override=Override.parse("uniform"))
    assert model_of("two heads").attention_shape() == (1, 2)
    assert model_of("transformer").attention_shape() == (2, 3)


def test_names_of_zeros() -> None:
    for text in (
        "zeros:",
        "zeros:a",
        "zeros:-1",
        "zeros:0",
        "zeros:1:0",
        "zeros:1:",
        "zeros:1:1:2",
        "zero",
    ):
        with pytest.raises(UsageError, match="zeros"):
            Override.parse(text)
    with pytest.raises(UsageError, match=r"zeros:3: .*2 layers.*1 and 2"):
        Override.parse("zeros:3").check(4, (2, 3))
    with pytest.raises(UsageError, match=r"zeros:2:4: .*3 heads.*1 and 3"):
        Override.parse("zeros:2:4").check(4, (2, 3))
    Override.parse("zeros:2:3").check(4, (2, 3))
