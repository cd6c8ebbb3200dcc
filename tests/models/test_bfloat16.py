"""Training in bfloat16: matrix products are rounded to it, and nothing else is."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seqattn.config import Recurrent
from seqattn.experiments.contract.case import FEATURES, LENGTHS, ContractCase, T
from seqattn.models import Seq2SeqModel, build_model
from seqattn.models.attention import (
    LocalWindow,
    LocationShiftAddressing,
    entmax,
    softmax,
    sparsemax,
)
from seqattn.models.attention.location_based import valid_lengths
from seqattn.models.layers import init_parameters
from seqattn.models.positions import SinusoidalPositionalEncoding
from seqattn.training.learner import StepRNG
from tests.project.test_contract import ALLOWED, OTHERS, name_of, validated

PRODUCTS = {"linear", "bmm", "baddbmm", "matmul", "__matmul__", "scaled_dot_product_attention"}


class Rounded(TorchFunctionMode):
    """Notes which functions of torch give bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.functions = set[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        found = result if isinstance(result, tuple | list) else (result,)
        if any(isinstance(x, Tensor) and x.dtype == torch.bfloat16 for x in found):
            self.functions.add(func.__name__)
        return result


def sampled() -> list[dict[str, Any]]:
    """Every score x normalizer x location x heads; some of the other recurrent models; every kind
    of fast weights and of Transformer layer."""
    plain = [c for c in ALLOWED if c["context"] == "output" and not c.get("input_feeding")]
    attended = [config for config in plain if "cell" not in config]
    rest = [config for config in ALLOWED if config not in attended]
    return attended + rest[::7] + [c for c in OTHERS if c.get("layers", 1) == 1]


def model_of(config: dict[str, Any], seed: int = 1) -> Seq2SeqModel:
    return build_model(validated(config), FEATURES, seed)


@pytest.mark.parametrize("config", sampled(), ids=name_of)
def test_nothing_but_products_is_rounded(config: dict[str, Any]) -> None:
    """Forecasts with and without attention maps, and the loss of a step with every draw."""
    model = model_of(config)
    source, target = (x.float() for x in ContractCase(Recurrent()).random_sequences())
    forced_steps = torch.ones(T, dtype=torch.bool)
    draws = StepRNG([1], 0, 0, torch.zeros(1))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), Rounded() as rounded:
        free = model.forecast(source, T, source_lengths=LENGTHS)
        model.forecast(source, T, source_lengths=LENGTHS, with_attention=False)
        forced = model(
            source, target, source_lengths=LENGTHS, teacher_forcing=forced_steps, rng=draws
        )
    assert rounded.functions
    assert rounded.functions <= PRODUCTS
    assert free.values.dtype == forced.values.dtype == torch.float32
    for shown in (*free.attention, *forced.attention):
        assert shown.weights.dtype == torch.float32


# --- long sequences -------------------------------------------------------------------------------

LONG = 600
LONG_LENGTHS = torch.tensor([600, 257, 513])
LONG_KEEP = torch.arange(LONG) < LONG_LENGTHS[:, None]


def test_positions_and_lengths_are_those_of_float32() -> None:
    """bfloat16 holds whole numbers up to 256."""
    sinusoidal, like = SinusoidalPositionalEncoding(32), torch.zeros(3, LONG, 32)
    expected = sinusoidal.encode(0, LONG, like)
    with torch.autocast("cpu", torch.bfloat16):
        for x in (like, like.bfloat16()):
            assert torch.equal(sinusoidal.encode(0, LONG, x), expected)
            assert valid_lengths(LONG_KEEP, x[..., 0]).flatten().tolist() == [600, 257, 513]
            assert valid_lengths(None, x[:, 0]).tolist() == 32


@pytest.mark.parametrize("heads", [1, 2])
def test_places_are_those_of_float32(heads: int) -> None:
    """The same queries ask for the same places, and start from the same one."""
    local = LocalWindow(8, heads, 3)
    init_parameters(local, 1)
    queries = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    keep = LONG_KEEP if heads == 1 else LONG_KEEP.unsqueeze(1)
    lengths = valid_lengths(keep, LONG_KEEP).unsqueeze(-1)
    content = torch.zeros(3, *[heads] * (heads > 1), 5, LONG)
    shifted = LocationShiftAddressing(8, heads, 3)
    expected = local.centres(queries, lengths), shifted.initial_weights(keep, content)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(local.centres(queries, lengths), expected[0])
        assert torch.equal(shifted.initial_weights(keep, content), expected[1])
    assert expected[1].argmax(-1).view(3, -1)[:, 0].tolist() == [599, 256, 512]


@pytest.mark.parametrize("normalize", [softmax, sparsemax, partial(entmax, alpha=1.5)])
def test_weights_over_long_sources_sum_to_one(normalize: Any) -> None:
    scores = torch.zeros(3, 5, LONG)
    with torch.autocast("cpu", torch.bfloat16):
        for x in (scores, scores.bfloat16()):
            weights = normalize(x, LONG_KEEP)
            assert weights.dtype == torch.float32
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, 5), atol=1e-5, rtol=0)
            torch.testing.assert_close(weights[1, 0, :257], torch.full((257,), 1 / 257))


@pytest.mark.parametrize("attention", [
    {"location": {"kind": "local", "window": 5}}, {"location": {"kind": "location_shift"}},
    {"normalizer": "sparsemax"}, {"normalizer": "entmax"},
], ids=name_of)  # fmt: skip
def test_forecasts_from_long_sources_are_near_to_float32(attention: dict[str, Any]) -> None:
    model = build_model(Recurrent.model_validate({"attention": attention}), 2, 1)
    steps = torch.randn(3, LONG, 2, generator=torch.Generator().manual_seed(0))
    source = steps.cumsum(dim=1) / 10
    with torch.no_grad():
        expected = model.forecast(source, T, source_lengths=LONG_LENGTHS).values
        with torch.autocast("cpu", torch.bfloat16):
            found = model.forecast(source, T, source_lengths=LONG_LENGTHS).values
    assert not torch.equal(found, expected)
    assert (found - expected).abs().max() < 0.03 * expected.std()
