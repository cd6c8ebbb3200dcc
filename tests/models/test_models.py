from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from seqattn.config import Config, Recurrent
from seqattn.models import ModelOutput, Seq2SeqModel, build_model, layers
from tests.conftest import F, H, K, N, S, T
from tests.models.test_attention import close

Golden = dict[str, dict[str, Any]]

SCORES: list[dict[str, Any] | None] = [
    None,
    {"score": "uniform"},
    {"score": "dot"},
    {"score": "scaled_dot", "key_dim": K},
    {"score": "scaled_dot", "project_query_key": False},
    {"score": "general"},
    {"score": "additive", "key_dim": K},
    {"score": "scaled_dot", "project_values": True},
]
KINDS = [
    (score, context)
    for score, context in itertools.product(SCORES, ("output", "input"))
    if not (score is None and context == "input")
]
NAMES = [f"{'-'.join(map(str, s.values())) if s else 'plain'}-{c}" for s, c in KINDS]
LENGTHS = torch.tensor([1, 11, 2, 3, 5, 7, 10])


def config(score: dict[str, Any] | None, context: str, hidden: int = H) -> Recurrent:
    section = {"hidden_dim": hidden, "attention": score, "context": context}
    return Config.model_validate({"model": section}).model


def model_of(kind: tuple[dict[str, Any] | None, str], seed: int = 3) -> Seq2SeqModel:
    return build_model(config(*kind), F, seed).double()


def sequences(seed: int = 1, steps: int = T) -> tuple[Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(seed)
    source = torch.randn(N, S, F, generator=numbers, dtype=torch.float64)
    return source, torch.randn(N, steps, F, generator=numbers, dtype=torch.float64)


def weights_of(forecast: ModelOutput) -> Tensor:
    (only,) = forecast.attention
    return only.weights.squeeze(-3)


def notebook_model(golden: Golden) -> Seq2SeqModel:
    numbers = golden["attn-decoder"]["inputs"]["weights"]
    model = build_model(config({"score": "scaled_dot"}, "output", hidden=2), 2, 0)
    ours = {}
    for side, name in itertools.product(
        ("encoder", "decoder"), ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ):
        ours[f"{side}.{name}"] = torch.tensor(numbers[f"{side}.basic_rnn.{name}_l0"])
    for part, kind in itertools.product(("query", "key"), ("weight", "bias")):
        ours[f"attention.score.{part}.{kind}"] = torch.tensor(
            numbers[f"decoder.attn.linear_{part}.{kind}"]
        )
    for kind in ("weight", "bias"):
        ours[f"output.{kind}"] = torch.tensor(numbers[f"decoder.regression.{kind}"])
    model.load_state_dict(ours)  # strict: nothing of ours is left as it was
    return model


@pytest.mark.parametrize("case", ["attn-decoder", "attn-decoder-8"])
def test_the_notebooks_decoder(golden: Golden, case: str) -> None:
    model = notebook_model(golden)
    source = torch.tensor([[[-1.0, -1.0], [-1.0, 1.0]]])
    close(model.forecast(source, 2).values, golden[case])
    never = torch.zeros(2, dtype=torch.bool)
    output = model(source, torch.full((1, 2, 2), 9.0), source_lengths=None, teacher_forcing=never)
    close(output.values, golden[case])


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("train-attn-10seeds", {"score": "scaled_dot", "project_values": True}),
        ("train-plain-10seeds", None),
    ],
)
def test_as_many_parameters_as_the_notebook(golden: Golden, case: str, kind: Any) -> None:
    model = build_model(config(kind, "output", hidden=2), 2, 0)
    assert sum(p.numel() for p in model.parameters()) == golden[case]["n_parameters"]


def test_a_projection_that_is_not_used_is_not_created() -> None:
    # The notebook always makes the value projection (6 numbers), and counts it among its 100.
    model = build_model(config({"score": "scaled_dot"}, "output", hidden=2), 2, 0)
    assert sum(p.numel() for p in model.parameters()) == 94


def test_the_same_seed_shares_what_two_models_share() -> None:
    with_attention = build_model(config({"score": "additive"}, "output"), F, 9)
    plain = build_model(config(None, "output"), F, 9)
    ours, theirs = with_attention.state_dict(), plain.state_dict()
    for name in ("encoder.weight_ih", "decoder.weight_hh", "decoder.bias_ih"):
        assert torch.equal(ours[name], theirs[name])


def test_nothing_is_kept_on_a_module() -> None:
    model = model_of(({"score": "dot"}, "input"))
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    model.forecast(sequences()[0], 3)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def refusals() -> Sequence[tuple[dict[str, Any], str]]:
    source, target = sequences()
    good = {
        "source": source, "target": target, "source_lengths": LENGTHS,
        "teacher_forcing": torch.ones(T, dtype=torch.bool),
    }  # fmt: skip
    return [
        ({**good, "source": source[..., :2]}, r"source must be \(\.\.\., N, S, 3\)"),
        ({**good, "source": source[:, :0]}, "with S >= 1"),
        ({**good, "target": target[:, :0]}, "T >= 1"),
        ({**good, "target": target[:3]}, "target must be"),
        ({**good, "source_lengths": LENGTHS[:3]}, "source_lengths must be"),
        ({**good, "source_lengths": LENGTHS * 0}, "must lie within 1 and 11"),
        ({**good, "source_lengths": LENGTHS + 1}, "must lie within 1 and 11"),
        ({**good, "teacher_forcing": torch.full((T,), 0.5)}, "must be a tensor of bool"),
    ]


@pytest.mark.parametrize(("arguments", "words"), refusals(), ids=range(len(refusals())))
def test_shapes_that_cannot_be_meant_are_refused(arguments: dict[str, Any], words: str) -> None:
    model = model_of(({"score": "dot"}, "output"))
    with pytest.raises(ValueError, match=words):
        model(arguments.pop("source"), arguments.pop("target"), **arguments)


def test_a_forecast_of_no_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be 1 or more, is 0"):
        model_of((None, "output")).forecast(sequences()[0], 0)


def test_teacher_forcing_has_no_default() -> None:
    source, target = sequences()
    with pytest.raises(TypeError, match="teacher_forcing"):
        model_of((None, "output"))(source, target, source_lengths=None)


@pytest.mark.parametrize("lead", [(64,), (2, 32)])
@pytest.mark.parametrize(("L", "K", "M"), [(1, 64, 2), (2, 2, 64), (2, 64, 2), (1, 3, 128)])
def test_a_product_is_a_product(
    lead: tuple[int, ...], L: int, K: int, M: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many small matrices with a wide side, whose sums are written out, too."""
    numbers = torch.Generator().manual_seed(1)
    factors = [
        torch.randn(*lead, *shape, generator=numbers, dtype=torch.float64, requires_grad=True)
        for shape in ((L, K), (K, M))
    ]
    found = layers.matmul(*factors)
    assert "Sum" in type(found.grad_fn).__name__
    grads = torch.autograd.grad(found.cos().sum(), factors)
    monkeypatch.setattr(layers, "MIN_SLOW_SIDE", 1000)
    expected = layers.matmul(*factors)
    assert "Sum" not in type(expected.grad_fn).__name__
    expected_grads = torch.autograd.grad(expected.cos().sum(), factors)
    torch.testing.assert_close((found, *grads), (expected, *expected_grads), atol=1e-12, rtol=0)
