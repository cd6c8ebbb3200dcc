"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need"), for points instead of words.

An encoder of self-attention reads the source; a decoder of self-attention, which never looks
ahead, and of cross-attention to the source says the target. Points enter and leave by affine maps.
With `norm: post` a part is x -> LN(x + part(x)), as in the paper; with `norm: pre` it is
x -> x + part(LN(x)), with one more LN at the end of each stack (Xiong et al. 2020).

The decoder is fed what the other models are fed: the last real source point, then the target's
points. In training all steps are one pass over the true points, shifted by one. Free running goes
step by step and keeps the keys and values of the steps before.

Letters: N sequences, S source length, T target length, L a length, F features, D width of a layer,
A heads; any leading axes of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.config import Transformer
from seqattn.errors import UsageError
from seqattn.models.attention import Override, WeightIntervention
from seqattn.models.base import (
    RNG,
    AttentionKind,
    AttentionMap,
    FeatureSpec,
    Forecast,
    Seq2SeqModel,
)
from seqattn.models.cells import last_valid
from seqattn.models.layers import LayerNorm, Linear
from seqattn.models.noise import Dropout
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_steps,
    check_target,
    forced_steps,
    shift_right,
)
from seqattn.models.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    KVCache,
    LearnedPositionalEmbedding,
    MultiHeadAttention,
    SinusoidalPositionalEncoding,
    add_positions,
    add_residual,
    build_positions,
)

__all__ = [
    "CrossAttentionTrace",
    "DecoderLayer",
    "Dropout",
    "EncoderLayer",
    "EncoderOutput",
    "KVCache",
    "LearnedPositionalEmbedding",
    "MultiHeadAttention",
    "SinusoidalPositionalEncoding",
    "TransformerModel",
]


class CrossAttentionTrace(NamedTuple):
    """What one decoder layer's cross-attention works with, for one sequence.

    Attributes:
        queries: (N, A, T, D / A).
        keys, values: (N, A, S, D / A).
        context: (N, A, T, D / A), the weighted sums.
        out: the map that follows.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    context: Tensor
    out: Linear


class EncoderOutput(NamedTuple):
    """What the decoder starts from.

    Attributes:
        memory: keys and values of the source for each decoder layer.
        keep: (..., N, S), True at real source points; None: all are.
        point: (..., N, F), what the decoder is fed first: the last real one.
        weights: (..., N, A, S, S) of each encoder layer; empty where nobody asked.
    """

    memory: list[KVCache]
    keep: Tensor | None
    point: Tensor
    weights: list[Tensor]


class TransformerModel(Seq2SeqModel):
    """See the module's docstring."""

    def __init__(
        self, config: Transformer, points: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        D, A, hidden = config.model_dim, config.heads, config.feedforward_dim
        self.points, self.width, self.chance = points, D, config.dropout
        self.longest = config.longest
        self.source_in, self.target_in = Linear(points.given, D), Linear(points.said, D)
        self.source_places = build_positions(config, D)
        self.target_places = build_positions(config, D)
        self.encoder = nn.ModuleList(
            [EncoderLayer(D, A, hidden, config.norm) for _ in range(config.layers)]
        )
        self.decoder = nn.ModuleList(
            [DecoderLayer(D, A, hidden, config.norm) for _ in range(config.layers)]
        )
        pre = config.norm == "pre"
        self.encoder_norm = LayerNorm(D) if pre else None
        self.decoder_norm = LayerNorm(D) if pre else None
        self.output = Linear(D, points.said)
        self.skip = build_skip(config.skip, lengths, points.given, points.said, self.output)

    def encode(
        self,
        source: Tensor,
        lengths: Tensor | None,
        *,
        draws: RNG | None = None,
        with_weights: bool,
    ) -> EncoderOutput:
        """Read the source. Padding is never read."""
        *_, S, _ = source.shape
        keep, point = None, source.select(-2, -1)
        if lengths is not None:
            keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)
            point = last_valid(source, lengths)
        drop = Dropout(draws, self.chance)
        x = drop(add_positions(self.source_in(source), self.source_places, 0))
        looks = list[Tensor]()
        for layer in cast(list[EncoderLayer], self.encoder):
            x, weights = layer.read(x, keep, drop, with_weights)
            if weights is not None:
                # A padded query looks somewhere, and nobody reads what it saw.
                real = weights if keep is None else weights * keep[..., None, :, None]
                looks.append(real)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        memory = [layer.cross.cache(x) for layer in self._decoder]
        return EncoderOutput(memory, keep, self.points.start_token(point), looks)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        teacher_forcing: Tensor,
        with_attention: bool = True,
        draws: RNG | None = None,
    ) -> Forecast:
        """See `Seq2SeqModel.forward`.

        Raises:
            ValueError: a coin that fell on tails: all steps are one pass, so none can be fed the
                model's own word.
        """
        check_source(source, source_lengths, self.points)
        check_target(source, target, self.points, teacher_forcing)
        *_, T, _ = target.shape
        self._check_length(source, T)
        everyone, _ = forced_steps(teacher_forcing, T)
        if not all(everyone[1:]):  # the first step is fed the last source point either way
            raise ValueError("a transformer is always told the truth in training")
        start = self.encode(source, source_lengths, draws=draws, with_weights=with_attention)
        drop = Dropout(draws, self.chance)
        shifted = self.target_in(shift_right(start.point, target))
        said, back, over, _ = self._decode(
            drop(add_positions(shifted, self.target_places, 0)), start.memory, start.keep,
            [None] * len(self.decoder), drop=drop, with_weights=with_attention,
        )  # fmt: skip
        (added,) = self.skipped(source, source_lengths, [T])
        said = said if added is None else said + added
        return Forecast(said, _maps(over, start.weights, back))

    def forecast(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None = None,
        with_attention: bool = True,
        override: Override | None = None,
    ) -> Forecast:
        check_source(source, source_lengths, self.points)
        check_steps(steps)
        self._check_length(source, steps)
        start = self.encode(source, source_lengths, with_weights=with_attention)
        hand = None if override is None else override.begin()
        caches: Sequence[KVCache | None] = [None] * len(self.decoder)
        back, over = list[list[Tensor]](), list[list[Tensor]]()
        point, values = start.point, list[Tensor]()
        for t, added in enumerate(self.skipped(source, source_lengths, [1] * steps)):
            point, looked_back, looked_over, caches = self.step(
                point, start.memory, start.keep, caches, with_weights=with_attention, hand=hand
            )
            point = point if added is None else point + added.squeeze(-2)
            back.append([F.pad(weights, (0, steps - 1 - t)) for weights in looked_back])  # 0 ahead
            over.append(looked_over)
            values.append(point)

        def by_layer(looks: list[list[Tensor]]) -> list[Tensor]:
            return [torch.cat(layer, dim=-2) for layer in zip(*looks, strict=True)]

        maps = _maps(by_layer(over), start.weights, by_layer(back))
        return Forecast(torch.stack(values, dim=-2), maps)

    def step(
        self,
        point: Tensor,
        memory: Sequence[KVCache],
        keep: Tensor | None,
        caches: Sequence[KVCache | None],
        *,
        with_weights: bool,
        hand: WeightIntervention | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[KVCache]]:
        """One step of the decoder.

        Args:
            point: (..., N, F) what it is fed.
            memory, keep: from `encode`.
            caches: of each layer, from the step before; None before the first.

        Returns:
            the point it says (..., N, F) but for what a skip adds; weights over the target
            (..., N, A, 1, t) and over the source (..., N, A, 1, S) of each layer, empty where
            nobody asked; and new caches.
        """
        t = 0 if caches[0] is None else caches[0].keys.shape[-2]
        x = add_positions(self.target_in(point.unsqueeze(-2)), self.target_places, t)
        said, back, over, new = self._decode(
            x, memory, keep, caches, drop=Dropout(None, 0), with_weights=with_weights, hand=hand
        )
        return said.squeeze(-2), back, over, new

    def _decode(
        self,
        x: Tensor,
        memory: Sequence[KVCache],
        keep: Tensor | None,
        caches: Sequence[KVCache | None],
        *,
        drop: Dropout,
        with_weights: bool,
        hand: WeightIntervention | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[KVCache]]:
        """All layers and the output of steps x (..., N, L, D); see `step`."""
        over_target, over_source, new = list[Tensor](), list[Tensor](), list[KVCache]()
        for i, (layer, known, before) in enumerate(zip(self._decoder, memory, caches, strict=True)):
            replace = None if hand is None else partial(hand, where=i)
            x, back, over, cached = layer.decode(
                x, known, keep, drop, with_weights, before, replace
            )
            new.append(cached)
            if back is not None and over is not None:
                over_target.append(back)
                over_source.append(over)
        values = self.output(x if self.decoder_norm is None else self.decoder_norm(x))
        return values, over_target, over_source, new

    def _check_length(self, source: Tensor, steps: int) -> None:
        points = max(source.shape[-2], steps)
        if self.longest is not None and points > self.longest:
            raise UsageError(
                f"This Transformer has learned {self.longest} positions (model.longest), so no"
                f" source and no forecast can have more points; one has {points}. Train one with"
                " more, or with positions: sinusoidal."
            )

    def cross_look(self, source: Tensor, steps: int, layer: int) -> CrossAttentionTrace:
        """Free running for some steps, and what a layer's cross-attention met on the way.

        Args:
            source: (N, S, F), without padding.
        """
        values = self.forecast(source, steps, with_attention=False).values
        start = self.encode(source, None, with_weights=False)
        x = add_positions(self.target_in(shift_right(start.point, values)), self.target_places, 0)
        drop = Dropout(None, 0)
        for below, memory in zip(self._decoder[:layer], start.memory, strict=False):
            x, *_ = below.decode(x, memory, None, drop, False)
        here, (keys, found) = self._decoder[layer], start.memory[layer]
        inner = here.attend_norm(x) if here.pre else x
        cache = here.attend.cache(inner)
        part, _ = here.attend.attend(inner, cache, None, causal=steps > 1, with_weights=False)
        x = add_residual(x, part, here.attend_norm, here.pre)
        queries = here.cross.queries(here.cross_norm(x) if here.pre else x)
        context = F.scaled_dot_product_attention(queries, keys, found)
        return CrossAttentionTrace(queries, keys, found, context, here.cross.out)

    @property
    def _decoder(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], self.decoder)


def _maps(
    over: list[Tensor], encoder: list[Tensor], back: list[Tensor]
) -> tuple[AttentionMap, ...]:
    kinds: tuple[tuple[AttentionKind, list[Tensor]], ...] = (
        ("cross", over), ("encoder_self", encoder), ("decoder_self", back),
    )  # fmt: skip
    return tuple(
        AttentionMap(weights, kind=kind, layer=layer)
        for kind, layers in kinds
        for layer, weights in enumerate(layers)
    )
