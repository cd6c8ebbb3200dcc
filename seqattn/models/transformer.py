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

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, assert_never, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.attention import Override, WeightIntervention, softmax
from seqattn.attention.scores import join_heads, split_heads
from seqattn.cells import last_valid
from seqattn.config import Transformer
from seqattn.errors import UsageError
from seqattn.layers import LayerNorm, Linear, at_least_float32
from seqattn.models.base import (
    RNG,
    AttentionKind,
    AttentionMap,
    FeatureSpec,
    Forecast,
    Seq2SeqModel,
)
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_steps,
    check_target,
    forced_steps,
    shift_right,
)


class Dropout(NamedTuple):
    """Dropout of a forward pass.

    Attributes:
        draws: None: nothing is dropped.
        chance: of a number.
    """

    draws: RNG | None
    chance: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.draws is None or self.chance == 0:
            return x
        kept = self.draws.uniform("dropout", *x.shape[-3:]) >= self.chance
        return x * kept.to(x.dtype) / (1 - self.chance)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (eq. 1 and section 3.2.2): heads of width D / A on affine maps of
    queries, keys and values, joined and mapped once more."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.out = Linear(width, width)
        self.heads = heads

    def remember(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (..., N, A, L, D / A) of x (..., N, L, D)."""
        return self._split(self.key(x)), self._split(self.value(x))

    def queries(self, x: Tensor) -> Tensor:
        """(..., N, A, L, D / A) of x (..., N, L, D)."""
        return self._split(self.query(x))

    def look(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        keep: Tensor | None,
        *,
        causal: bool = False,
        with_weights: bool,
        hand: WeightIntervention | None = None,
        where: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """What queries from x (..., N, L, D) read, and with what weights.

        Args:
            keys, values: from `remember`, of length S.
            keep: (..., N, S), True where attention may go; None: everywhere.
            causal: query t may look at keys 0 to t only; L is S then.
            with_weights: torch's fused attention does the work where nobody asks for weights.
            hand: what takes the place of the weights, told where in the model they are.

        Returns:
            (..., N, L, D), and weights (..., N, A, L, S) or None.
        """
        queries = self.queries(x)
        *_, L, width = queries.shape
        if not with_weights and hand is None:
            mask = None if keep is None else keep[..., None, None, :]
            read = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=causal)
            return self.out(self._join(at_least_float32(read))), None
        scores = at_least_float32(queries @ keys.mT) / math.sqrt(width)
        if causal:
            ahead = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(ahead, -float("inf"))
        weights = softmax(scores, None if keep is None else keep.unsqueeze(-2))
        if hand is not None:
            weights = hand(weights, None if keep is None else keep.unsqueeze(-2), where)
        return self.out(self._join(at_least_float32(weights @ values))), weights

    def _split(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3) if self.heads == 1 else split_heads(x, self.heads)

    def _join(self, x: Tensor) -> Tensor:
        return x.squeeze(-3) if self.heads == 1 else join_heads(x, self.heads)


class FeedForward(nn.Module):
    """W_2 max(0, W_1 x + b_1) + b_2 at every position (eq. 2)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = Linear(width, hidden), Linear(hidden, width)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part."""

    def __init__(self, width: int, heads: int, hidden: int, norm: Literal["pre", "post"]) -> None:
        super().__init__()
        self.attend, self.feed = MultiHeadAttention(width, heads), FeedForward(width, hidden)
        self.attend_norm, self.feed_norm = LayerNorm(width), LayerNorm(width)
        self.pre = norm == "pre"

    def read(
        self, x: Tensor, keep: Tensor | None, drop: Dropout, with_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x (..., N, S, D) -> (..., N, S, D), and weights (..., N, A, S, S) or None."""
        inner = self.attend_norm(x) if self.pre else x
        keys, values = self.attend.remember(inner)
        part, weights = self.attend.look(inner, keys, values, keep, with_weights=with_weights)
        x = _added(x, drop(part), self.attend_norm, self.pre)
        part = self.feed(self.feed_norm(x) if self.pre else x)
        return _added(x, drop(part), self.feed_norm, self.pre), weights


class KVCache(NamedTuple):
    """Keys and values of the steps that a decoder layer has made: (..., N, A, t, D / A) each."""

    keys: Tensor
    values: Tensor


class DecoderLayer(nn.Module):
    """Self-attention that never looks ahead, cross-attention and a feed-forward part."""

    def __init__(self, width: int, heads: int, hidden: int, norm: Literal["pre", "post"]) -> None:
        super().__init__()
        self.attend, self.cross = MultiHeadAttention(width, heads), MultiHeadAttention(width, heads)
        self.feed = FeedForward(width, hidden)
        self.attend_norm, self.cross_norm = LayerNorm(width), LayerNorm(width)
        self.feed_norm = LayerNorm(width)
        self.pre = norm == "pre"

    def say(
        self,
        x: Tensor,
        memory: KVCache,
        keep: Tensor | None,
        drop: Dropout,
        with_weights: bool,
        before: KVCache | None = None,
        hand: WeightIntervention | None = None,
        where: int = 0,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, KVCache]:
        """All steps, or one more.

        Args:
            x: (..., N, L, D).
            memory: of the source, from `cross.remember`.
            keep: (..., N, S), True at real source points.
            before: of the steps before, where L is 1; None: x is all there is.
            hand, where: see `MultiHeadAttention.look`; on the cross-attention.

        Returns:
            (..., N, L, D); weights over the target (..., N, A, L, t) and over the source
            (..., N, A, L, S), or None; and keys and values with those of x.
        """
        inner = self.attend_norm(x) if self.pre else x
        own = KVCache(*self.attend.remember(inner))
        if before is not None:
            own = KVCache(*(torch.cat(pair, dim=-2) for pair in zip(before, own, strict=True)))
        causal = before is None and x.shape[-2] > 1
        part, looked_back = self.attend.look(
            inner, *own, None, causal=causal, with_weights=with_weights
        )
        x = _added(x, drop(part), self.attend_norm, self.pre)
        inner = self.cross_norm(x) if self.pre else x
        part, looked_over = self.cross.look(
            inner, *memory, keep, with_weights=with_weights, hand=hand, where=where
        )
        x = _added(x, drop(part), self.cross_norm, self.pre)
        part = self.feed(self.feed_norm(x) if self.pre else x)
        return _added(x, drop(part), self.feed_norm, self.pre), looked_back, looked_over, own


def _added(x: Tensor, part: Tensor, norm: LayerNorm, pre: bool) -> Tensor:
    return x + part if pre else norm(x + part)


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


class LearnedPositionalEmbedding(nn.Module):
    """A learned vector for each of the first places (Gehring et al. 2017). It starts from U(-b, b)
    with b = 1/sqrt(D), so that its expected squared length is 1/3 for every D; the paper draws from
    a normal distribution."""

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(longest, width))
        self.bound = 1 / math.sqrt(width)
        self.longest = longest

    def at(self, first: int, last: int, like: Tensor) -> Tensor:
        """Vectors of places `first` to `last - 1`, to be added to like (..., N, L, D)."""
        assert last <= self.longest
        places = self.weight[..., first:last, :]
        return places if places.dim() == 2 else places.unsqueeze(-3)


class SinusoidalPositionalEncoding(nn.Module):
    """sin(t / 10000^(2i / D)) and the cosine of the same in turn (section 3.5): no weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def at(self, first: int, last: int, like: Tensor) -> Tensor:
        """See `LearnedPositionalEmbedding.at`; (L, D)."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        place = torch.arange(first, last, dtype=dtype, device=like.device).unsqueeze(-1)
        even = torch.arange(0, self.width, 2, dtype=dtype, device=like.device)
        angles = place * torch.exp(even * (-math.log(10_000.0) / self.width))
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return waves[:, : self.width]  # an odd width ends on a sine


def _places(
    config: Transformer, width: int
) -> LearnedPositionalEmbedding | SinusoidalPositionalEncoding | None:
    match config.positions:
        case "learned":
            assert config.longest is not None
            return LearnedPositionalEmbedding(config.longest, width)
        case "sinusoidal":
            return SinusoidalPositionalEncoding(width)
        case "none":
            return None
        case _:
            assert_never(config.positions)


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
        self.source_places = _places(config, D)
        self.target_places = _places(config, D)
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
        x = drop(_placed(self.source_in(source), self.source_places, 0))
        looks = list[Tensor]()
        for layer in cast(list[EncoderLayer], self.encoder):
            x, weights = layer.read(x, keep, drop, with_weights)
            if weights is not None:
                # A padded query looks somewhere, and nobody reads what it saw.
                real = weights if keep is None else weights * keep[..., None, :, None]
                looks.append(real)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        memory = [KVCache(*layer.cross.remember(x)) for layer in self._decoder]
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
        x = drop(_placed(self.target_in(shift_right(start.point, target)), self.target_places, 0))
        back, over = list[Tensor](), list[Tensor]()
        for layer, memory in zip(self._decoder, start.memory, strict=True):
            x, looked_back, looked_over, _ = layer.say(x, memory, start.keep, drop, with_attention)
            if looked_back is not None and looked_over is not None:
                back.append(looked_back)
                over.append(looked_over)
        said, (added,) = self._said(x), self.skipped(source, source_lengths, [T])
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
        x = _placed(self.target_in(point.unsqueeze(-2)), self.target_places, t)
        back, over, new = list[Tensor](), list[Tensor](), list[KVCache]()
        for i, (layer, known, before) in enumerate(zip(self._decoder, memory, caches, strict=True)):
            x, looked_back, looked_over, cached = layer.say(
                x, known, keep, Dropout(None, 0), with_weights, before, hand, i
            )
            new.append(cached)
            if looked_back is not None and looked_over is not None:
                back.append(looked_back)
                over.append(looked_over)
        return self._said(x).squeeze(-2), back, over, new

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
        x = _placed(self.target_in(shift_right(start.point, values)), self.target_places, 0)
        drop = Dropout(None, 0)
        for below, memory in zip(self._decoder[:layer], start.memory, strict=False):
            x, *_ = below.say(x, memory, None, drop, False)
        here, (keys, found) = self._decoder[layer], start.memory[layer]
        inner = here.attend_norm(x) if here.pre else x
        part, _ = here.attend.look(
            inner, *here.attend.remember(inner), None, causal=steps > 1, with_weights=False
        )
        x = _added(x, part, here.attend_norm, here.pre)
        queries = here.cross.queries(here.cross_norm(x) if here.pre else x)
        context = F.scaled_dot_product_attention(queries, keys, found)
        return CrossAttentionTrace(queries, keys, found, context, here.cross.out)

    def _said(self, x: Tensor) -> Tensor:
        return self.output(x if self.decoder_norm is None else self.decoder_norm(x))

    @property
    def _decoder(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], self.decoder)


def _placed(
    x: Tensor, places: LearnedPositionalEmbedding | SinusoidalPositionalEncoding | None, first: int
) -> Tensor:
    return x if places is None else x + places.at(first, first + x.shape[-2], x)


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
