"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need") for vectors instead of tokens.

The encoder has self-attention over the source. The decoder has causal self-attention over the
target and cross-attention to the source. Linear layers replace the token embeddings and the output
softmax. With `norm: post`, a sublayer f maps x to LN(x + f(x)), as in the paper. With `norm: pre`,
the sublayer maps x to x + f(LN(x)), and each stack ends with one more LN (Xiong et al. 2020, "On
Layer Normalization in the Transformer Architecture").

As in the other models, the first decoder input comes from the last valid source step. In training,
each later input is the previous target step, and one pass computes all steps. Free running computes
one step at a time, with the keys and values of the previous steps in a cache.

In shapes, N is the number of sequences, S the source length, T the target length, L the number of
steps, F the number of features, D the width of a layer, A the number of heads, and `...` an
optional leading axis of runs. Section and equation numbers refer to Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqattn.config import Transformer
from seqattn.errors import UsageError
from seqattn.models.attention import AttentionOverride, WeightIntervention, softmax
from seqattn.models.attention.scores import join_heads, split_heads
from seqattn.models.base import (
    RNG,
    AttentionKind,
    AttentionMap,
    DecoderStart,
    DecoderStep,
    FeatureSpec,
    ModelOutput,
    Seq2SeqModel,
)
from seqattn.models.cells import last_valid
from seqattn.models.layers import LayerNorm, Linear, at_least_float32
from seqattn.models.positions import (
    AttentionPositions,
    add_positions,
    build_absolute_positions,
    build_attention_positions,
)
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_target,
    find_forced_steps,
    shift_right,
)

ReplaceWeights = Callable[[Tensor, Tensor | None], Tensor]
"""A function (weights, keep) -> weights. The weights are (..., L, S). The mask `keep` broadcasts to
(..., S), or is None."""


class Dropout(NamedTuple):
    """The dropout of a Transformer's forward pass.

    Attributes:
        rng: the source of the random numbers; None for no dropout.
        p: the probability that an element is set to zero.
    """

    rng: RNG | None
    p: float

    def __call__(self, x: Tensor) -> Tensor:
        if self.rng is None or self.p == 0:
            return x
        kept = self.rng.uniform("dropout", *x.shape[-3:]) >= self.p
        return x * kept.to(x.dtype) / (1 - self.p)


class KVCache(NamedTuple):
    """The keys and values of S source steps or of S decoder steps. Keys and values have the shape
    (..., N, A, S, D / A)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention (eq. 1 and section 3.2.2). Each of the A heads has the width D / A and
    its own linear projections of queries, keys and values. The results of the heads are
    concatenated and projected.

    Args:
        width: the width D.
        heads: the number of heads, A.
        places: the positions inside the attention; None for none.
    """

    def __init__(self, width: int, heads: int, places: AttentionPositions | None = None) -> None:
        super().__init__()
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.out = Linear(width, width)
        self.heads = heads
        self.places = AttentionPositions() if places is None else places

    def cache(self, x: Tensor, first: int = 0) -> KVCache:
        """Compute the keys and values of x (..., N, L, D), whose positions begin at `first`."""
        keys = self.places.rotate(self._split(self.key(x)), first)
        return KVCache(keys, self._split(self.value(x)))

    def queries(self, x: Tensor) -> Tensor:
        """Compute the queries (..., N, A, L, D / A) of x (..., N, L, D), without rotation."""
        return self._split(self.query(x))

    def attend(
        self,
        x: Tensor,
        cache: KVCache,
        keep: Tensor | None,
        *,
        causal: bool = False,
        with_weights: bool,
        replace: ReplaceWeights | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the attention of L vectors to the cached keys and values.

        Args:
            x: the L vectors from which the queries are computed, (..., N, L, D).
            cache: the keys and values of S steps.
            keep: mask (..., N, S), True at valid keys; None if all keys are valid.
            causal: whether query t may attend to keys 0 to t only; L must then equal S.
            with_weights: whether to return the weights; False allows torch's fused attention.
            replace: a function that replaces the weights; None keeps the weights.

        Returns:
            the result (..., N, L, D), and the weights (..., N, A, L, S), or None if no weights were
                requested.
        """
        keys, values = cache
        queries = self.queries(x)
        *_, L, width = queries.shape
        queries = self.places.rotate(queries, keys.shape[-2] - L)
        if not with_weights and replace is None and self.places.is_fusable:
            mask = None if keep is None else keep[..., None, None, :]
            context = F.scaled_dot_product_attention(queries, keys, values, mask, is_causal=causal)
            return self.out(self._join(at_least_float32(context))), None
        scores = at_least_float32(queries @ keys.mT) / math.sqrt(width)
        scores = self.places.add_scores(scores, queries)
        if causal:
            ahead = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(ahead, -float("inf"))
        weights = softmax(scores, None if keep is None else keep.unsqueeze(-2))
        if replace is not None:
            weights = replace(weights, None if keep is None else keep.unsqueeze(-2))
        context = self.places.add_values(at_least_float32(weights @ values), weights)
        return self.out(self._join(context)), weights if with_weights else None

    def _split(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3) if self.heads == 1 else split_heads(x, self.heads)

    def _join(self, x: Tensor) -> Tensor:
        return x.squeeze(-3) if self.heads == 1 else join_heads(x, self.heads)


class FeedForward(nn.Module):
    """The map W_2 max(0, W_1 x + b_1) + b_2 at every position (eq. 2)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = Linear(width, hidden), Linear(hidden, width)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class EncoderLayer(nn.Module):
    """An encoder layer: a self-attention sublayer, followed by a feed-forward sublayer (section
    3.1)."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        width, places = config.model_dim, build_attention_positions(config)
        self.attend = MultiHeadAttention(width, config.heads, places)
        self.feed = FeedForward(width, config.feedforward_dim)
        self.attend_norm, self.feed_norm = LayerNorm(width), LayerNorm(width)
        self.pre_norm = config.norm == "pre"

    def forward(
        self, x: Tensor, keep: Tensor | None, dropout: Dropout, with_weights: bool,
        replace: ReplaceWeights | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Apply the layer to x (..., N, S, D). Return the output (..., N, S, D), and the weights
        (..., N, A, S, S), or None if no weights were requested. The function `replace` replaces the
        weights; see `MultiHeadAttention.attend`."""
        inner = self.attend_norm(x) if self.pre_norm else x
        cache = self.attend.cache(inner)
        sublayer, weights = self.attend.attend(
            inner, cache, keep, with_weights=with_weights, replace=replace
        )
        x = add_residual(x, dropout(sublayer), self.attend_norm, self.pre_norm)
        sublayer = self.feed(self.feed_norm(x) if self.pre_norm else x)
        return add_residual(x, dropout(sublayer), self.feed_norm, self.pre_norm), weights


class DecoderLayer(nn.Module):
    """A decoder layer: a causal self-attention sublayer, a cross-attention sublayer and a
    feed-forward sublayer (section 3.1)."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        width, places = config.model_dim, build_attention_positions(config)
        self.attend = MultiHeadAttention(width, config.heads, places)
        self.cross = MultiHeadAttention(width, config.heads)
        self.feed = FeedForward(width, config.feedforward_dim)
        self.attend_norm, self.cross_norm = LayerNorm(width), LayerNorm(width)
        self.feed_norm = LayerNorm(width)
        self.pre_norm = config.norm == "pre"

    def forward(
        self,
        x: Tensor,
        memory: KVCache,
        keep: Tensor | None,
        dropout: Dropout,
        with_weights: bool,
        prev: KVCache | None = None,
        replace: ReplaceWeights | None = None,
        replace_self: ReplaceWeights | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, KVCache]:
        """Apply the layer to all steps at once, or to one step after the cached steps.

        Args:
            x: the input of the layer, (..., N, L, D).
            memory: the keys and values of the source, computed by `cross.cache`.
            keep: mask (..., N, S), True at valid source steps; None if all steps are valid.
            dropout: the dropout, which is applied to the output of each sublayer.
            with_weights: whether to return the weights.
            prev: the keys and values of the previous steps; None if there are no previous steps.
                With `prev`, L must be 1.
            replace: a function that replaces the weights of the cross-attention; see
                `MultiHeadAttention.attend`.
            replace_self: the same for the self-attention.

        Returns:
            the output (..., N, L, D); the weights over the target (..., N, A, L, t), where t is the
                number of steps in the new cache; the weights over the source (..., N, A, L, S); and
                the new cache, which is `prev` extended by the keys and values of x. Both weights
                are None if no weights were requested.
        """
        inner = self.attend_norm(x) if self.pre_norm else x
        cache = self.attend.cache(inner, 0 if prev is None else prev.keys.shape[-2])
        if prev is not None:
            cache = KVCache(*(torch.cat(pair, dim=-2) for pair in zip(prev, cache, strict=True)))
        causal = prev is None and x.shape[-2] > 1
        sublayer, self_weights = self.attend.attend(
            inner, cache, None, causal=causal, with_weights=with_weights, replace=replace_self
        )
        x = add_residual(x, dropout(sublayer), self.attend_norm, self.pre_norm)
        inner = self.cross_norm(x) if self.pre_norm else x
        sublayer, cross_weights = self.cross.attend(
            inner, memory, keep, with_weights=with_weights, replace=replace
        )
        x = add_residual(x, dropout(sublayer), self.cross_norm, self.pre_norm)
        sublayer = self.feed(self.feed_norm(x) if self.pre_norm else x)
        x = add_residual(x, dropout(sublayer), self.feed_norm, self.pre_norm)
        return x, self_weights, cross_weights, cache


def add_residual(x: Tensor, sublayer: Tensor, norm: LayerNorm, pre_norm: bool) -> Tensor:
    """Add the output of a sublayer to the input x of the sublayer. Normalize the sum unless
    `pre_norm` is True."""
    return x + sublayer if pre_norm else norm(x + sublayer)


class CrossAttentionTrace(NamedTuple):
    """The tensors of one decoder layer's cross-attention.

    Attributes:
        queries: the queries (N, A, T, D / A).
        keys, values: the keys and the values, each (N, A, S, D / A).
        context: the weighted sums of the values, (N, A, T, D / A).
        out: the output projection.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    context: Tensor
    out: Linear


class TransformerEncoderOutput(NamedTuple):
    """The encoder's output.

    Attributes:
        memory: the keys and values of the source for each decoder layer.
        keep: mask (..., N, S), True at valid source steps; None if all steps are valid.
        start_token: the first decoder input (..., N, F); see `Modality.start_token`.
        weights: the self-attention weights (..., N, A, S, S) of each encoder layer; empty if no
            weights were requested.
    """

    memory: list[KVCache]
    keep: Tensor | None
    start_token: Tensor
    weights: list[Tensor]


class TransformerModel(Seq2SeqModel):
    """An encoder-decoder Transformer, which the docstring of the module describes."""

    def __init__(
        self, config: Transformer, features: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        D = config.model_dim
        self.features, self.width, self.dropout = features, D, config.dropout
        self.source_modality, self.target_modality = source, target = features.modalities(
            D, config.embedding
        )
        self.max_length = config.longest
        self.source_in, self.target_in = source.input_layer(D), target.input_layer(D)
        self.source_places = build_absolute_positions(config)
        self.target_places = build_absolute_positions(config)
        self.encoder = nn.ModuleList([EncoderLayer(config) for _ in range(config.layers)])
        self.decoder = nn.ModuleList([DecoderLayer(config) for _ in range(config.layers)])
        pre_norm = config.norm == "pre"
        self.encoder_norm = LayerNorm(D) if pre_norm else None
        self.decoder_norm = LayerNorm(D) if pre_norm else None
        self.output = target.output_layer(D)
        self.skip = build_skip(config.skip, lengths, features, self.output)

    def attention_shape(self) -> tuple[int, int]:
        return len(self._decoder), self._decoder[0].cross.heads

    def encode(
        self,
        source: Tensor,
        lengths: Tensor | None,
        *,
        rng: RNG | None = None,
        with_weights: bool,
        intervention: WeightIntervention | None = None,
    ) -> TransformerEncoderOutput:
        """Encode the source (..., N, S, F). The padding of the source is masked."""
        *_, S, _ = source.shape
        keep, last = None, source.select(-2, -1)
        if lengths is not None:
            keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)
            last = last_valid(source, lengths)
        dropout = Dropout(rng, self.dropout)
        read = self.source_modality.drop_words(source, rng)
        x = dropout(add_positions(self.source_in(read), self.source_places, 0))
        all_weights = list[Tensor]()
        for i, layer in enumerate(cast("list[EncoderLayer]", self.encoder)):
            replace = _replacement(intervention, "encoder_self", i)
            x, weights = layer.forward(x, keep, dropout, with_weights, replace)
            if weights is not None:  # the rows of padded queries are never used
                valid = weights if keep is None else weights * keep[..., None, :, None]
                all_weights.append(valid)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        memory = [layer.cross.cache(x) for layer in self._decoder]
        start_token = self.target_modality.start_token(last)
        return TransformerEncoderOutput(memory, keep, start_token, all_weights)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        teacher_forcing: Tensor,
        with_attention: bool = True,
        rng: RNG | None = None,
    ) -> ModelOutput:
        """Run the training pass; see `Seq2SeqModel.forward`.

        Raises:
            ValueError: if `teacher_forcing` is False for a sequence at any step after the first, or
                if T > 1 and `teacher_forcing` is not on the CPU. All steps are computed in one
                pass, so the output of a step cannot be the input of the next step.
        """
        check_source(source, source_lengths, self.features)
        check_target(source, target, self.features, teacher_forcing)
        *_, T, _ = target.shape
        self._check_length(source, T)
        all_forced, _ = find_forced_steps(teacher_forcing, T)
        if not all(all_forced[1:]):  # the first input is the start token in any case
            raise ValueError(
                "a Transformer trains with teacher forcing at every step, given as a mask on the"
                " CPU"
            )
        start = self.encode(source, source_lengths, rng=rng, with_weights=with_attention)
        dropout = Dropout(rng, self.dropout)
        read = self.target_modality.drop_words(target, rng)
        inputs = self.target_in(shift_right(start.start_token, read))
        states, self_weights, cross_weights, _ = self._decode(
            dropout(add_positions(inputs, self.target_places, 0)), start.memory, start.keep,
            [None] * len(self.decoder), dropout=dropout, with_weights=with_attention,
        )  # fmt: skip
        (skip,) = self.skip_outputs(source, source_lengths, [T])
        maps = _attention_maps(cross_weights, start.weights, self_weights)
        if skip is None:
            return ModelOutput.of_states(states, self.output, maps)
        return ModelOutput(self.output(states) + skip, maps)

    def begin(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None,
        with_attention: bool,
        override: AttentionOverride | None = None,
    ) -> DecoderStart:
        self._check_length(source, steps)
        intervention = None if override is None else override.start()
        start = self.encode(
            source, source_lengths, with_weights=with_attention, intervention=intervention
        )
        return DecoderStart(
            start.start_token, (start, intervention), (None,) * len(self.decoder),
            _attention_maps([], start.weights, []),
        )  # fmt: skip

    def decoder_step(
        self,
        decoder_input: Tensor,
        memory: tuple[TransformerEncoderOutput, WeightIntervention | None],
        state: tuple[KVCache | None, ...],
        *,
        with_attention: bool,
    ) -> DecoderStep:
        start, intervention = memory
        output, over_target, over_source, caches = self.step(
            decoder_input, start.memory, start.keep, state, with_weights=with_attention,
            intervention=intervention,
        )  # fmt: skip
        maps = _attention_maps(over_source, [], over_target)
        return DecoderStep(output.unsqueeze(-2), maps, tuple(caches))

    def step(
        self,
        decoder_input: Tensor,
        memory: Sequence[KVCache],
        keep: Tensor | None,
        caches: Sequence[KVCache | None],
        *,
        with_weights: bool,
        intervention: WeightIntervention | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[KVCache]]:
        """Run one step of the decoder.

        Args:
            decoder_input: the decoder input (..., N, F).
            memory, keep: the attributes `memory` and `keep` of the result of `encode`.
            caches: for each layer, the keys and values of the previous steps, or None at the first
                step.
            with_weights: whether to return the weights.
            intervention: the intervention that replaces the weights of the cross-attention or of
                the decoder's self-attention; None keeps these weights.

        Returns:
            the output (..., N, F) without the skip connection; for each layer, the weights over the
                target (..., N, A, 1, t), where t is the number of steps so far, including this
                step; for each layer, the weights over the source (..., N, A, 1, S); and the new
                caches. The two lists of weights are empty if no weights were requested.
        """
        t = 0 if caches[0] is None else caches[0].keys.shape[-2]
        x = add_positions(self.target_in(decoder_input.unsqueeze(-2)), self.target_places, t)
        state, self_weights, cross_weights, new = self._decode(
            x, memory, keep, caches, dropout=Dropout(None, 0), with_weights=with_weights,
            intervention=intervention,
        )  # fmt: skip
        return self.output(state).squeeze(-2), self_weights, cross_weights, new

    def _decode(
        self,
        x: Tensor,
        memory: Sequence[KVCache],
        keep: Tensor | None,
        caches: Sequence[KVCache | None],
        *,
        dropout: Dropout,
        with_weights: bool,
        intervention: WeightIntervention | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[KVCache]]:
        """Run all layers for L steps x (..., N, L, D), and return the states (..., N, L, D) that
        the output layer maps; see `step`."""
        self_weights, cross_weights, new = list[Tensor](), list[Tensor](), list[KVCache]()
        for i, (layer, known, prev) in enumerate(zip(self._decoder, memory, caches, strict=True)):
            x, over_target, over_source, cache = layer.forward(
                x, known, keep, dropout, with_weights, prev,
                _replacement(intervention, "cross", i),
                _replacement(intervention, "decoder_self", i),
            )  # fmt: skip
            new.append(cache)
            if over_target is not None and over_source is not None:
                self_weights.append(over_target)
                cross_weights.append(over_source)
        states = x if self.decoder_norm is None else self.decoder_norm(x)
        return states, self_weights, cross_weights, new

    def _check_length(self, source: Tensor, steps: int) -> None:
        length = max(source.shape[-2], steps)
        if self.max_length is not None and length > self.max_length:
            raise UsageError(
                f"This Transformer has learned {self.max_length} positions (model.longest), so no"
                f" source and no forecast can have more points; one has {length}. Train one with"
                " more, or with positions: sinusoidal."
            )

    def trace_cross_attention(self, source: Tensor, steps: int, layer: int) -> CrossAttentionTrace:
        """Return the tensors of one layer's cross-attention in a free-running forecast.

        Args:
            source: the sources (N, S, F), without padding.
            steps: the number of forecast steps, 1 or more.
            layer: the index of the decoder layer, counted from 0.
        """
        outputs = self.forecast(source, steps, with_attention=False).values
        start = self.encode(source, None, with_weights=False)
        steps_read = self.target_modality.read(outputs)
        inputs = self.target_in(shift_right(start.start_token, steps_read))
        x = add_positions(inputs, self.target_places, 0)
        no_dropout = Dropout(None, 0)
        for lower, memory in zip(self._decoder[:layer], start.memory, strict=False):
            x, *_ = lower.forward(x, memory, None, no_dropout, False)
        traced, (keys, source_values) = self._decoder[layer], start.memory[layer]
        inner = traced.attend_norm(x) if traced.pre_norm else x
        cache = traced.attend.cache(inner)
        sublayer, _ = traced.attend.attend(inner, cache, None, causal=steps > 1, with_weights=False)
        x = add_residual(x, sublayer, traced.attend_norm, traced.pre_norm)
        queries = traced.cross.queries(traced.cross_norm(x) if traced.pre_norm else x)
        context = F.scaled_dot_product_attention(queries, keys, source_values)
        return CrossAttentionTrace(queries, keys, source_values, context, traced.cross.out)

    @property
    def _decoder(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", self.decoder)


def _replacement(
    intervention: WeightIntervention | None, kind: AttentionKind, layer: int
) -> ReplaceWeights | None:
    """Return the function that replaces the weights of a layer of a kind of attention; None if the
    intervention does not apply to this kind."""
    if intervention is None or intervention.kind != kind:
        return None
    return partial(intervention, layer=layer)


def _attention_maps(
    cross: list[Tensor], encoder: list[Tensor], decoder: list[Tensor]
) -> tuple[AttentionMap, ...]:
    """Build the maps of all layers: first cross-attention, then encoder and decoder
    self-attention."""
    kinds: tuple[tuple[AttentionKind, list[Tensor]], ...] = (
        ("cross", cross), ("encoder_self", encoder), ("decoder_self", decoder),
    )  # fmt: skip
    return tuple(
        AttentionMap(weights, kind=kind, layer=layer)
        for kind, layers in kinds
        for layer, weights in enumerate(layers)
    )
