"""The recurrent encoder-decoder (Sutskever et al. 2014, Cho et al. 2014), with or without
attention.

In shapes, N is the number of sequences, S the source length, T the target length, F the number of
features, H the width of a cell's output, W the width of a cell's state, L the number of steps in a
segment, A the number of heads, and `...` an optional leading axis of runs.

The encoder maps the source to states (..., N, S, H). The decoder starts from the final state of the
encoder, and the first decoder input comes from the last valid source step.

With `context: output` (Luong et al. 2015, section 3), the query is the new state h_t. The readout
maps the context c_t and the state h_t to the output y_t:

    readout: linear     y_t = W [c_t; h_t] + b
    readout: tanh       a_t = tanh(W_a [c_t; h_t] + b_a),   y_t = W a_t + b     (Luong, eq. 5)

The paper uses the tanh readout, without biases, and calls a_t the attentional vector. The linear
readout is not from the paper. With `input_feeding` (Luong et al. 2015, section 3.3), the readout is
always the tanh readout, and a_t is concatenated with the next input.

With `context: input` (Bahdanau et al. 2015, section 3.1 and appendix A.2), the query is the
previous state h_{t-1}, and the context is concatenated with the decoder input. The output is
W h_t + b. The paper's readout (appendix A.2.2) is a maxout layer that also reads the context and
the previous output.

With `copying`, the outputs are log-probabilities of symbols; see `seqattn.models.copying`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from seqattn.config import Recurrent
from seqattn.models.attention import (
    Attention,
    AttentionMemory,
    AttentionOutput,
    AttentionOverride,
    build_attention,
)
from seqattn.models.base import (
    RNG,
    AttentionMap,
    DecoderStart,
    DecoderStep,
    FeatureSpec,
    ModelOutput,
    SampledActions,
    Seq2SeqModel,
)
from seqattn.models.cells import (
    Bidirectional,
    Cell,
    CellFactory,
    cell_factory,
    last_valid,
    reads_symbols,
)
from seqattn.models.copying import Copier, build_copier
from seqattn.models.layers import (
    Linear,
    SymbolInputs,
    concat_features,
    fast_tanh,
    table_rows,
    uses_batch_innermost,
)
from seqattn.models.modality import Modality
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_target,
    segments,
    select_decoder_input,
    shift_right,
)


class Noise(NamedTuple):
    """The random numbers of L decoder steps of a recurrent model.

    Attributes:
        attention: numbers uniform over [0, 1] on which the attention weights depend in training,
            (..., N, [A,] L, `Attention.numbers_per_query`); None if they depend on none. Rounding
            to float32 can make a number 1.0. [A,] is an axis that exists only with several heads.
        layer_dropout: for each decoder layer except the first, the dropout factors of the layer's
            input, (..., N, L, H); empty for no dropout.
        readout_dropout: dropout factors of the readout's input, (..., N, L, width of this input);
            None for no dropout.
    """

    attention: Tensor | None = None
    layer_dropout: tuple[Tensor, ...] = ()
    readout_dropout: Tensor | None = None

    def slice_steps(self, first: int, last: int) -> Noise:
        """Return the random numbers of the steps `first` to `last - 1`."""
        if self is NO_NOISE:
            return self
        return Noise(
            None if self.attention is None else self.attention[..., first:last, :],
            tuple(factors[..., first:last, :] for factors in self.layer_dropout),
            None if self.readout_dropout is None else self.readout_dropout[..., first:last, :],
        )

    def drop_readout(self, x: Tensor) -> Tensor:
        """Apply dropout to the readout's input x (..., N, L, width)."""
        return x if self.readout_dropout is None else x * self.readout_dropout


NO_NOISE = Noise()


def dropout_factors(rng: RNG, p: float, like: Tensor, *shape: int) -> Tensor:
    """Draw dropout factors in the dtype of `like`. A factor is 0 with probability p; otherwise, the
    factor is 1 / (1 - p)."""
    kept = rng.uniform("dropout", *shape) >= p
    return kept.to(like.dtype) / (1 - p)


class DecoderState(NamedTuple):
    """The decoder state between two steps.

    Attributes:
        cells: one state (..., N, W) per layer.
        attentional: the previous attentional vector (..., N, H); None before the first step, or if
            the model does not use input feeding.
        prev_weights: the previous attention weights; see `AttentionOutput`.
    """

    cells: tuple[Tensor, ...]
    attentional: Tensor | None = None
    prev_weights: Tensor | None = None


class DecoderMemory(NamedTuple):
    """What all steps of a decoder read.

    Attributes:
        attention: keys and values of the source; None without attention.
        symbols: the target symbols (..., N, S) for which the source steps stand; None for a model
            that copies no symbols.
        table: in free running, the projected inputs (V, gates * H) of all target symbols; None to
            project the input of each step.
    """

    attention: AttentionMemory | None
    symbols: Tensor | None = None
    table: Tensor | None = None

    def take(self, rows: Tensor) -> DecoderMemory:
        """Return the memory of the given sequences of a single run."""
        attention = None if self.attention is None else self.attention.take(rows)
        symbols = None if self.symbols is None else self.symbols.index_select(0, rows)
        return DecoderMemory(attention, symbols, self.table)


class RecurrentEncoderOutput(NamedTuple):
    """The encoder's output.

    Attributes:
        memory: what the decoder reads of the source.
        state: the initial decoder state.
        start_token: the first decoder input (..., N, F); see `Modality.start_token`.
    """

    memory: DecoderMemory
    state: DecoderState
    start_token: Tensor


class Decoded(NamedTuple):
    """A segment of L decoder steps before the output layer.

    Attributes:
        readout: the states (..., N, L, readout_width) that the output layer maps.
        attention: the context and the weights of L queries; None without attention.
        state: the state after the segment.
        hidden: the outputs (..., N, L, H) of the last decoder layer.
    """

    readout: Tensor
    attention: AttentionOutput | None
    state: DecoderState
    hidden: Tensor


class RecurrentModel(Seq2SeqModel):
    """A recurrent encoder-decoder. The docstring of the module gives the equations."""

    def __init__(
        self, config: Recurrent, features: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        H, cell, two_way = config.hidden_dim, cell_factory(config.cell), config.bidirectional
        has_attention = config.attention is not None
        self.features, self.hidden, self.dropout = features, H, config.dropout
        self.source_modality, self.target_modality = source, target = features.modalities(
            H, config.embedding
        )
        self.context_is_input = has_attention and config.context == "input"
        self.context_is_output = has_attention and config.context == "output"
        self.uses_input_feeding = config.input_feeding
        self.is_sequential = self.context_is_input or self.uses_input_feeding
        self.is_deep = config.layers > 1  # faster than len(ModuleList) at every step
        self.encoder = _encoder_layer(cell, source.input_width, H, bidirectional=two_way)
        self.encoder_above = nn.ModuleList(
            [_encoder_layer(cell, H, H, bidirectional=two_way) for _ in range(config.layers - 1)]
        )
        self.decoder = cell(target.input_width + (H if self.is_sequential else 0), H)
        self.decoder_above = nn.ModuleList([cell(H, H) for _ in range(config.layers - 1)])
        self.attention: Attention | None = (
            build_attention(config.attention, H) if config.attention is not None else None
        )
        has_attentional = self.uses_input_feeding or config.readout == "tanh"
        self.combine = Linear(2 * H, H) if has_attentional else None
        reads_context = self.context_is_output and not has_attentional
        self.readout_width = 2 * H if reads_context else H
        self.output = target.output_layer(self.readout_width)
        self.copier: Copier | None = None
        if config.copying:
            width = 2 * H + target.input_width
            self.copier = build_copier(cast("Attention", self.attention), width, features)
        self.skip = build_skip(config.skip, lengths, features, self.output)
        self.shares_memory = self.attention is None or not self.attention.reads_past_weights

    def attention_shape(self) -> tuple[int, int]:
        return super().attention_shape() if self.attention is None else (1, self.attention.heads)

    # --- the source -------------------------------------------------------------------------------

    def encode(
        self, source: Tensor, source_lengths: Tensor | None, rng: RNG | None = None
    ) -> RecurrentEncoderOutput:
        """Encode the source (..., N, S, F). Values in the padding do not affect the result."""
        keep = None
        if source_lengths is not None:
            steps = torch.arange(source.shape[-2], device=source.device)
            keep = steps < source_lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)  # NaN in padding must not spread
        modality, (N, S, _) = self.source_modality, source.shape[-3:]
        read = modality.drop_words(source, rng)
        factors = modality.embedding_dropout(rng, N, S, self.output.weight)
        inputs = _embed(modality, self.encoder, read, factors, slice(None))
        states, cells = self.encode_states(inputs, source_lengths, rng)
        memory = None if self.attention is None else self.attention.precompute_memory(states, keep)
        symbols = None if self.copier is None else self.copier.symbols(source)
        last = source.select(-2, -1)
        if source_lengths is not None:
            last = last_valid(source, source_lengths)
        start_token = self.target_modality.start_token(last)
        return RecurrentEncoderOutput(
            DecoderMemory(memory, symbols), DecoderState(cells), start_token
        )

    def encode_states(
        self, source: Tensor | SymbolInputs, source_lengths: Tensor | None, rng: RNG | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return all outputs (..., N, S, H) of the last encoder layer, and the last state of each
        layer.

        Args:
            source: the embedded sources (..., N, S, E), with finite values in the padding, or the
                same as `SymbolInputs`.
        """
        states, last = self.encoder.forward(source, source_lengths)
        *_, N, S, _ = states.shape
        cells = [last]
        for layer in cast("list[Cell | Bidirectional]", self.encoder_above) if self.is_deep else ():
            if rng is not None and self.dropout > 0:
                weight = self.output.weight
                states = states * dropout_factors(rng, self.dropout, weight, N, S, self.hidden)
            states, last = layer.forward(states, source_lengths)
            cells.append(last)
        return states, tuple(cells)

    # --- the target -------------------------------------------------------------------------------

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
        check_source(source, source_lengths, self.features)
        check_target(source, target, self.features, teacher_forcing)
        *lead, T, _ = target.shape
        start = self.encode(source, source_lengths, rng)
        noise = NO_NOISE if rng is None else _draw_noise(self, rng, source, T)
        plan = segments(teacher_forcing, T)
        forced = [t for first, last, _ in plan for t in range(first + 1, last)]
        modality, decoder = self.target_modality, self.decoder
        read = modality.drop_words(target, rng)
        factors = modality.embedding_dropout(rng, lead[-1], T, self.output.weight)
        u = modality.draw_feedback(rng, lead[-1], T)
        known, inputs = [0, *forced], shift_right(start.start_token, read, forced)
        embedded = _embed(modality, decoder, inputs, factors, known)
        projected = dict(zip(known, decoder.project_steps(embedded), strict=True))
        vectors = self._input_vectors(known, embedded)

        state, values, attended = start.state, list[Tensor](), list[AttentionOutput]()
        skips = self.skip_outputs(source, source_lengths, [last - first for first, last, _ in plan])
        for (first, last, feed), skip in zip(plan, skips, strict=True):
            # All inputs of a segment are known, so the segment is decoded in one call.
            if first > 0:
                fed = modality.feed(values[-1].select(-2, -1), u, first)
                if feed == "mixed":
                    fed = select_decoder_input(teacher_forcing, read, fed, first)
                embedded = _embed(modality, decoder, fed.unsqueeze(-2), factors, [first])
                (projected[first],) = decoder.project_steps(embedded)
                vectors |= self._input_vectors([first], embedded)
            decoded = self._decode(
                [projected[t] for t in range(first, last)], state, start.memory.attention,
                noise.slice_steps(first, last),
            )  # fmt: skip
            state = decoded.state
            if decoded.attention is not None:
                attended.append(decoded.attention)
            if len(plan) > 1 or skip is not None or self.copier is not None:
                steps = range(first, last)
                values.append(self._outputs(decoded, vectors, steps, start.memory, skip))
        about = self._maps(attended, with_attention), self._sampled_actions(attended)
        if not values:
            return ModelOutput.of_states(decoded.readout, self.output, *about)
        return ModelOutput(torch.cat(values, dim=-2), *about)

    def begin(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None,
        with_attention: bool,
        override: AttentionOverride | None = None,
    ) -> DecoderStart:
        memory, state, start_token = self.encode(source, source_lengths)
        if override is not None:
            attention = cast("AttentionMemory", memory.attention)
            memory = memory._replace(attention=replace(attention, intervention=override.start()))
        vectors, decoder = self.target_modality.vectors, self.decoder
        is_innermost = uses_batch_innermost(decoder.weight_hh)
        if vectors is not None and _pays_a_table(vectors, decoder, source.shape[-3]):
            memory = memory._replace(table=None if is_innermost else decoder.project(vectors))
        return DecoderStart(start_token, memory, state)

    def decoder_step(
        self,
        decoder_input: Tensor,
        memory: DecoderMemory,
        state: DecoderState,
        *,
        with_attention: bool,
    ) -> DecoderStep:
        output, attention, state = self.step(decoder_input, state, memory)
        maps = self._maps([] if attention is None else [attention], with_attention)
        return DecoderStep(output, maps, state)

    def step(
        self, decoder_input: Tensor, state: DecoderState, memory: DecoderMemory
    ) -> tuple[Tensor, AttentionOutput | None, DecoderState]:
        """Run one step of the decoder.

        Args:
            decoder_input: the decoder input (..., N, F).
            state: the state that `encode` or the previous step returned.
            memory: the memory that `encode` returned.

        Returns:
            the output (..., N, 1, F) without the skip connection; the context and the weights, or
                None without attention; and the new state.
        """
        if memory.table is None:
            projected = self.decoder.project(self.target_modality.embed(decoder_input))
        else:
            projected = table_rows(memory.table, decoder_input.squeeze(-1))
        decoded = self._decode([projected], state, memory.attention, NO_NOISE)
        if self.copier is None:
            return self.output(decoded.readout), decoded.attention, decoded.state
        vectors = {0: self.target_modality.embed(decoder_input)}
        output = self._outputs(decoded, vectors, range(1), memory)
        return output, decoded.attention, decoded.state

    def _input_vectors(
        self, steps: Sequence[int], embedded: Tensor | SymbolInputs
    ) -> dict[int, Tensor]:
        """Return the embedded inputs (..., N, E) of the given steps, which the gate of copying
        reads, by step; empty for a model that copies no symbols.

        Args:
            embedded: the result of `_embed` for these steps.
        """
        if self.copier is None:
            return {}
        if isinstance(embedded, SymbolInputs):
            embedded = table_rows(embedded.vectors, embedded.numbers.squeeze(-1))
        return dict(zip(steps, embedded.unbind(-2), strict=True))

    def _outputs(
        self, decoded: Decoded, vectors: Mapping[int, Tensor], steps: range, memory: DecoderMemory,
        skip: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the outputs (..., N, L, width of an output) of a segment.

        Args:
            decoded: the segment.
            vectors: the embedded inputs by step; see `_input_vectors`.
            steps: the steps of the segment.
            memory: the memory that `encode` returned.
            skip: the output of the skip connection, which is added.
        """
        outputs = self.output(decoded.readout)
        if self.copier is not None:
            assert decoded.attention is not None and memory.symbols is not None
            read = torch.stack([vectors[t] for t in steps], dim=-2)
            gated = torch.cat([decoded.attention.context, decoded.hidden, read], dim=-1)
            outputs = self.copier(outputs, gated, decoded.attention.weights, memory.symbols)
        return outputs if skip is None else outputs + skip

    def _decode(
        self, projected: list[Tensor], state: DecoderState, memory: AttentionMemory | None,
        noise: Noise,
    ) -> Decoded:  # fmt: skip
        """Decode a segment of L projected inputs."""
        if self.is_sequential:
            return self._decode_sequentially(projected, state, memory, noise)
        states, last = self.decoder.unroll(projected, state.cells[0])
        hidden = self.decoder.output(states)
        if not self.is_deep:
            cells: tuple[Tensor, ...] = (last,)
        else:
            lasts = [last]
            layers = zip(self._upper_layers, state.cells[1:], strict=True)
            for i, (layer, prev) in enumerate(layers):
                hidden = hidden * noise.layer_dropout[i] if noise.layer_dropout else hidden
                states, last = layer.unroll(layer.project_steps(hidden), prev)
                hidden = layer.output(states)
                lasts.append(last)
            cells = tuple(lasts)
        if not self.context_is_output:
            return Decoded(noise.drop_readout(hidden), None, DecoderState(cells), hidden)
        attended = self._attend(hidden, memory, state, noise.attention)
        readout = concat_features([attended.context, hidden])
        if self.combine is not None:
            readout = fast_tanh(self.combine(readout))
        new_state = DecoderState(cells, None, attended.prev_weights)
        return Decoded(noise.drop_readout(readout), attended, new_state, hidden)

    def _decode_sequentially(
        self, projected: list[Tensor], state: DecoderState, memory: AttentionMemory | None,
        noise: Noise,
    ) -> Decoded:  # fmt: skip
        """Decode a segment like `_decode`, for models with `context: input` or with input feeding.
        The input of a step then depends on the attention of this step or of the previous step."""
        readouts, hidden, attended = list[Tensor](), list[Tensor](), list[AttentionOutput]()
        weight = self.decoder.context_weight(self.hidden)
        for t, step in enumerate(projected):
            step_noise = noise.slice_steps(t, t + 1)
            if self.context_is_input:
                query = self.top_layer_output(state.cells).unsqueeze(-2)
                attention = self._attend(query, memory, state, step_noise.attention)
                context = self.decoder.project_context(attention.context.squeeze(-2), weight)
                cells = self.step_layers(step + context, state.cells, step_noise)
                state = DecoderState(cells, None, attention.prev_weights)
                readouts.append(self.top_layer_output(cells))
                hidden.append(readouts[-1])
            else:
                if state.attentional is not None:  # None stands for zeros
                    step = step + self.decoder.project_context(state.attentional, weight)
                cells = self.step_layers(step, state.cells, step_noise)
                query = self.top_layer_output(cells).unsqueeze(-2)
                attention = self._attend(query, memory, state, step_noise.attention)
                assert self.combine is not None
                attentional = self.combine(concat_features([attention.context, query])).tanh()
                attentional = attentional.squeeze(-2)
                state = DecoderState(cells, attentional, attention.prev_weights)
                readouts.append(attentional)
                hidden.append(query.squeeze(-2))
            attended.append(attention)
        readout = noise.drop_readout(torch.stack(readouts, dim=-2))
        outputs = readout if self.copier is None else torch.stack(hidden, dim=-2)
        return Decoded(readout, _concat_outputs(attended), state, outputs)

    def step_layers(
        self, projected: Tensor, cells: tuple[Tensor, ...], noise: Noise = NO_NOISE
    ) -> tuple[Tensor, ...]:
        """Compute the states of all decoder layers after one step.

        Args:
            projected: the projected input of the first layer.
            cells: the state (..., N, W) of each layer before the step.
            noise: the random numbers of the step.
        """
        new = [self.decoder.step(projected, cells[0])]
        if not self.is_deep:
            return tuple(new)
        hidden = self.decoder.output(new[0])
        for i, (layer, prev) in enumerate(zip(self._upper_layers, cells[1:], strict=True)):
            if noise.layer_dropout:
                hidden = hidden * noise.layer_dropout[i].squeeze(-2)
            new.append(layer.step(layer.project(hidden), prev))
            hidden = layer.output(new[-1])
        return tuple(new)

    def top_layer_output(self, cells: tuple[Tensor, ...]) -> Tensor:
        """Return the output (..., N, H) of the last decoder layer, given the states of all
        layers."""
        layer = self._upper_layers[-1] if self.is_deep else self.decoder
        return layer.output(cells[-1])

    def _maps(
        self, attended: list[AttentionOutput], with_attention: bool
    ) -> tuple[AttentionMap, ...]:
        """Return the map of the attention weights of consecutive segments, if it was requested."""
        if self.attention is None or not attended or not with_attention:
            return ()
        weights = torch.cat([segment.weights for segment in attended], dim=-2)
        if self.attention.heads == 1:
            weights = weights.unsqueeze(-3)
        weighting = self.attention.location or self.attention.normalizer
        return (AttentionMap(weights, meaning=weighting.meaning),)

    def _sampled_actions(self, attended: list[AttentionOutput]) -> SampledActions | None:
        """Return the values for REINFORCE if the segments have sampled positions."""
        baseline = None if self.attention is None else self.attention.normalizer.baseline
        log_probs = [one.log_prob for one in attended if one.log_prob is not None]
        if baseline is None or not log_probs:
            return None
        log_prob = torch.cat(log_probs, dim=-1)
        if self.attention is not None and self.attention.heads > 1:
            log_prob = log_prob.sum(dim=-2)  # heads sample independently
        return SampledActions(log_prob, baseline.broadcast_to(log_prob))

    @property
    def _upper_layers(self) -> list[Cell]:
        return cast("list[Cell]", self.decoder_above)

    def _attend(
        self, queries: Tensor, memory: AttentionMemory | None, state: DecoderState, u: Tensor | None
    ) -> AttentionOutput:
        assert self.attention is not None and memory is not None
        return self.attention.attend(queries, memory, state.prev_weights, u)


def _embed(
    modality: Modality, layer: Cell | Bidirectional, inputs: Tensor, factors: Tensor | None,
    steps: list[int] | slice,
) -> Tensor | SymbolInputs:  # fmt: skip
    """Embed the inputs (..., N, L, F) that a layer reads at the given steps, and apply the dropout
    factors (..., N, T, E) of these steps."""
    if factors is not None:
        return modality.embed(inputs) * factors[..., steps, :]
    *_, N, L, _ = inputs.shape
    if modality.vectors is None or not _pays_a_table(modality.vectors, layer, N * L):
        return modality.embed(inputs)
    return SymbolInputs(inputs, modality.vectors)


def _pays_a_table(vectors: Tensor, layer: Cell | Bidirectional, steps: int) -> bool:
    """Return whether a layer maps the vectors (..., V, E) of all symbols in less time than so many
    steps. An export needs the products of the steps."""
    few = vectors.shape[-2] <= steps
    return few and reads_symbols(layer) and not torch.compiler.is_compiling()


def _draw_noise(model: RecurrentModel, rng: RNG, source: Tensor, T: int) -> Noise:
    """Draw all random numbers of T decoder steps for sources (..., N, S, F) at once, so that the
    numbers do not depend on teacher forcing."""
    *_, N, S, _ = source.shape
    u, attention, p = None, model.attention, model.dropout
    if attention is not None and (numbers := attention.numbers_per_query(S)):
        A = attention.heads
        u = rng.uniform("sampling", N, *(() if A == 1 else (A,)), T, numbers)
    if p == 0:
        return NO_NOISE if u is None else Noise(u)
    weight = model.output.weight
    layers = [dropout_factors(rng, p, weight, N, T, model.hidden) for _ in model.decoder_above]
    return Noise(u, tuple(layers), dropout_factors(rng, p, weight, N, T, model.readout_width))


def _encoder_layer(
    cell: CellFactory, inputs: int, hidden: int, *, bidirectional: bool
) -> Cell | Bidirectional:
    return Bidirectional(cell, inputs, hidden) if bidirectional else cell(inputs, hidden)


def _concat_outputs(attended: list[AttentionOutput]) -> AttentionOutput:
    """Join the outputs of L single queries into one output of L queries."""
    log_prob = None
    if attended[0].log_prob is not None:
        log_prob = torch.cat([each.log_prob for each in attended if each.log_prob is not None],
                               dim=-1)  # fmt: skip
    contexts, weights = (
        torch.cat(parts, dim=-2) for parts in zip(*(each[:2] for each in attended), strict=True)
    )
    return AttentionOutput(contexts, weights, attended[-1].prev_weights, log_prob)
