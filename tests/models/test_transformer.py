"""The Transformer against torch's own layers under copied weights, and its positions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqattn.config import Transformer
from seqattn.errors import UsageError
from seqattn.models import build_model
from seqattn.models.layers import LayerNorm, init_parameters
from seqattn.models.positions import SinusoidalPositionalEncoding
from seqattn.models.transformer import (
    DecoderLayer,
    Dropout,
    EncoderLayer,
    MultiHeadAttention,
    TransformerModel,
)
from tests.conftest import F, N, S, T

HEADS, WIDTH, HIDDEN = 3, 15, 19
CLOSE: dict[str, Any] = {"atol": 1e-12, "rtol": 0}
LENGTHS = torch.tensor([1, 11, 2, 3, 5, 7, 10])
KEEP = torch.arange(S) < LENGTHS[:, None]
NO_DROP = Dropout(None, 0)


def config_of(**keys: Any) -> Transformer:
    return Transformer(model_dim=WIDTH, heads=HEADS, feedforward_dim=HIDDEN, **keys)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_bias.uniform_(-1, 1)
        theirs.out_proj.bias.uniform_(-1, 1)
        for part, layer in enumerate((ours.query, ours.key, ours.value)):
            rows = slice(part * WIDTH, (part + 1) * WIDTH)
            layer.weight.copy_(theirs.in_proj_weight[rows])
            assert layer.bias is not None
            layer.bias.copy_(theirs.in_proj_bias[rows])
        ours.out.weight.copy_(theirs.out_proj.weight)
        assert ours.out.bias is not None
        ours.out.bias.copy_(theirs.out_proj.bias)


def copy_norm(ours: LayerNorm, theirs: nn.LayerNorm) -> None:
    with torch.no_grad():
        ours.gain.value.copy_(theirs.weight.uniform_(0.5, 2))
        ours.bias.value.copy_(theirs.bias.uniform_(-1, 1))


def copy_feed(ours: Any, theirs: Any) -> None:
    with torch.no_grad():
        for one, other in ((ours.first, theirs.linear1), (ours.second, theirs.linear2)):
            one.weight.copy_(other.weight)
            one.bias.copy_(other.bias)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("with_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_is_torchs_multihead_attention(masked: bool, with_weights: bool) -> None:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = MultiHeadAttention(WIDTH, HEADS)
    copy_attention(ours, theirs)
    x, memory = torch.randn(N, T, WIDTH), torch.randn(N, S, WIDTH)
    keep = KEEP if masked else None
    expected, weights = theirs(
        x, memory, memory, key_padding_mask=~KEEP if masked else None, average_attn_weights=False
    )
    found, seen = ours.attend(x, ours.cache(memory), keep, with_weights=with_weights)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert (seen is None) != with_weights
    if seen is not None:
        torch.testing.assert_close(seen, weights, **CLOSE)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("with_weights", [True, False])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_encoder_layer_is_torchs(norm: Any, with_weights: bool) -> None:
    torch.manual_seed(2)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0, batch_first=True, norm_first=norm == "pre"
    )
    ours = EncoderLayer(config_of(norm=norm))
    copy_attention(ours.attend, theirs.self_attn)
    copy_feed(ours.feed, theirs)
    copy_norm(ours.attend_norm, theirs.norm1)
    copy_norm(ours.feed_norm, theirs.norm2)
    x = torch.randn(N, S, WIDTH)
    found, _ = ours.forward(x, KEEP, NO_DROP, with_weights)
    expected = theirs(x, src_key_padding_mask=~KEEP)
    torch.testing.assert_close(found[KEEP], expected[KEEP], **CLOSE)
    torch.testing.assert_close(ours.forward(x, None, NO_DROP, with_weights)[0], theirs(x), **CLOSE)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("with_weights", [True, False])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoder_layer_is_torchs(norm: Any, with_weights: bool) -> None:
    """All at once under a causal mask, and one step after the other from the cache."""
    torch.manual_seed(3)
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0, batch_first=True, norm_first=norm == "pre"
    )
    ours = DecoderLayer(config_of(norm=norm))
    copy_attention(ours.attend, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    copy_feed(ours.feed, theirs)
    for mine, other in ((ours.attend_norm, theirs.norm1), (ours.cross_norm, theirs.norm2),
                        (ours.feed_norm, theirs.norm3)):  # fmt: skip
        copy_norm(mine, other)
    x, source = torch.randn(N, T, WIDTH), torch.randn(N, S, WIDTH)
    expected = theirs(
        x, source, tgt_mask=nn.Transformer.generate_square_subsequent_mask(T),
        tgt_is_causal=True, memory_key_padding_mask=~KEEP,
    )  # fmt: skip
    memory = ours.cross.cache(source)
    found, back, _, _ = ours.forward(x, memory, KEEP, NO_DROP, with_weights)
    torch.testing.assert_close(found, expected, **CLOSE)
    if back is not None:
        assert (back[..., torch.ones(T, T, dtype=torch.bool).triu(1)] == 0).all()
    cache = None
    for t in range(T):
        one, _, _, cache = ours.forward(x[:, t : t + 1], memory, KEEP, NO_DROP, with_weights, cache)
        torch.testing.assert_close(one, expected[:, t : t + 1], **CLOSE)


@pytest.mark.parametrize("width", [WIDTH, 8])
def test_sinusoids_by_the_formula(width: int) -> None:
    found = SinusoidalPositionalEncoding(width).encode(3, 5, torch.zeros(1, dtype=torch.float64))
    for row, place in enumerate((3, 4)):
        for column in range(width):
            angle = place / 10_000 ** (2 * (column // 2) / width)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert found[row, column].item() == pytest.approx(expected, abs=1e-12)


def model(**keys: Any) -> TransformerModel:
    made = build_model(config_of(**keys), F, 1).double()
    assert isinstance(made, TransformerModel)
    return made


def test_without_positions_a_source_is_a_set() -> None:
    """But for its last point, which the decoder starts from."""
    source = torch.randn(N, S, F, dtype=torch.float64)
    mixed = torch.cat([source[:, :-1].flip(1), source[:, -1:]], dim=1)
    for positions, same in (("none", True), ("sinusoidal", False)):
        made = model(positions=positions)
        first, second = (made.forecast(x, T).values for x in (source, mixed))
        assert torch.allclose(first, second, atol=1e-10) == same


def test_learned_positions_end_somewhere() -> None:
    made = model(positions="learned", longest=S)
    source = torch.randn(N, S, F, dtype=torch.float64)
    made.forecast(source, S)
    with pytest.raises(UsageError, match=r"learned 11 positions .* one has 24. Train one"):
        made.forecast(source, T + S)
    with pytest.raises(UsageError, match=r"learned 11 positions .* one has 12"):
        made.forecast(torch.cat([source, source[:, :1]], dim=1), 2)


def test_dropout_keeps_the_mean_and_ends_with_training() -> None:
    class Numbers:
        def uniform(self, name: str, *shape: int) -> Tensor:
            assert name == "dropout"
            return torch.rand(*shape, generator=generator)

    generator = torch.Generator().manual_seed(1)
    x = torch.ones(N, 500, 400)
    dropped = Dropout(Numbers(), 0.3)(x)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert Dropout(None, 0.3)(x) is x


@pytest.mark.usefixtures("in_float64")
def test_layer_norm_is_torchs() -> None:
    ours, theirs = LayerNorm(F), nn.LayerNorm(F)
    init_parameters(ours, 1)
    x = torch.randn(N, S, F)
    torch.testing.assert_close(ours(x), theirs(x), **CLOSE)
    copy_norm(ours, theirs)
    torch.testing.assert_close(ours(x), theirs(x), **CLOSE)
