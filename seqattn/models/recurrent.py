"""The recurrent encoder-decoder, with attention or without.

Letters: N sequences, S source length, T target length, F features, H width of the state, W width
of a cell's whole state (see `cells`), L steps of a stretch; any leading axes of runs. The
encoder reads the source into states (N, S, H). The decoder starts from the encoder's state at the
last real source point, is fed that point first, and then says one point a step.

`context: output` (Luong et al. 2015, section 3): the new state h_t is the query. The point is made
from context and state by the readout:

    readout: linear     y_t = W [c_t; h_t] + b
    readout: tanh       a_t = tanh(W_a [c_t; h_t] + b_a),   y_t = W a_t + b     (Luong, eq. 5)

The paper has the second, without biases; a_t is its attentional vector. The first is ours.
`input_feeding` (Luong et al. 2015, section 3.3): a_t also joins the next input, so its readout is
always the second.

`context: input` (Bahdanau et al. 2015, section 3.1 and appendix A.2): the previous state h_{t-1} is
the query, and the context joins the input of the next state. The point is W h_t + b; the paper's
readout (appendix A.2.2) also sees the context and the previous output, through a maxout layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from seqattn.config import Recurrent
from seqattn.models.attention import (
    Attention,
    LocalWindow,
    Look,
    Memory,
    Override,
    build_attention,
)
from seqattn.models.base import (
    RNG,
    AttentionMap,
    FeatureSpec,
    Forecast,
    SampledActions,
    Seq2SeqModel,
)
from seqattn.models.cells import Bidirectional, Cell, cell_type, last_valid
from seqattn.models.layers import Linear, joined
from seqattn.models.noise import NO_NOISE, Noise
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_steps,
    check_target,
    decoder_input,
    segments,
    shift_right,
)


class State(NamedTuple):
    """What the decoder carries from step to step.

    Attributes:
        cells: (..., N, W) of each layer.
        fed: (..., N, H) the last attentional vector, with input feeding; None: none yet.
        last: what attention's next look starts from; see `Attention`.
    """

    cells: tuple[Tensor, ...]
    fed: Tensor | None = None
    last: Tensor | None = None


class EncoderOutput(NamedTuple):
    """What the decoder starts from.

    Attributes:
        memory: what it can look at; None without attention.
        state: its first state.
        point: (..., N, F) what the decoder is fed first: the last real source point.
    """

    memory: Memory | None
    state: State
    point: Tensor


class RecurrentModel(Seq2SeqModel):
    """See the module's docstring for the equations."""

    def __init__(
        self, config: Recurrent, points: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        H, cell = config.hidden_dim, cell_type(config.cell)
        attended = config.attention is not None
        self.points, self.hidden, self.dropout = points, H, config.dropout
        self.context_is_input = attended and config.context == "input"
        self.context_is_output = attended and config.context == "output"
        self.feeds_input = config.input_feeding
        self.step_by_step = self.context_is_input or self.feeds_input
        self.is_deep = config.layers > 1  # asked at every step, so no list of modules is
        self.encoder = _reader(cell, points.given, H, config.bidirectional)
        self.encoder_above = nn.ModuleList(
            [_reader(cell, H, H, config.bidirectional) for _ in range(config.layers - 1)]
        )
        self.decoder = cell(points.said + (H if self.step_by_step else 0), H)
        self.decoder_above = nn.ModuleList([cell(H, H) for _ in range(config.layers - 1)])
        self.attention: Attention | None = (
            build_attention(config.attention, H) if config.attention is not None else None
        )
        has_vector = self.feeds_input or config.readout == "tanh"
        self.combine = Linear(2 * H, H) if has_vector else None
        two = self.context_is_output and not has_vector
        self.output = Linear(2 * H if two else H, points.said)
        self.skip = build_skip(config.skip, lengths, points.given, points.said, self.output)

    # --- the source -------------------------------------------------------------------------------

    def encode(
        self, source: Tensor, source_lengths: Tensor | None, draws: RNG | None = None
    ) -> EncoderOutput:
        """Read the source. Padding is never read: not its points, states or weights."""
        *_, S, _ = source.shape
        keep = None
        if source_lengths is not None:
            keep = torch.arange(S, device=source.device) < source_lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)  # so no NaN there can spread
        states, cells = self.read(source, source_lengths, draws)
        memory = None if self.attention is None else self.attention.remember(states, keep)
        if source_lengths is None:
            point = source.select(-2, -1)
        else:
            point = last_valid(source, source_lengths)
        return EncoderOutput(memory, State(cells), self.points.start_token(point))

    def read(
        self, source: Tensor, source_lengths: Tensor | None, draws: RNG | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The encoder's states (..., N, S, H) of its last layer, and the last state of each layer.

        Args:
            source: (..., N, S, F) with finite padding.
        """
        *_, N, S, _ = source.shape
        states, last = self.encoder.read(source, source_lengths)
        cells = [last]
        for layer in cast(list[Cell | Bidirectional], self.encoder_above) if self.is_deep else ():
            if draws is not None and self.dropout > 0:
                states = states * self._factors(draws, N, S, self.hidden)
            states, last = layer.read(states, source_lengths)
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
        draws: RNG | None = None,
    ) -> Forecast:
        check_source(source, source_lengths, self.points)
        check_target(source, target, self.points, teacher_forcing)
        *lead, T, _ = target.shape
        start = self.encode(source, source_lengths, draws)
        noise = NO_NOISE if draws is None else self._draw_noise(draws, lead[-1], T)
        parts = segments(teacher_forcing, T)
        inside = [t for first, last, _ in parts for t in range(first + 1, last)]  # fed the truth
        known, decoder = shift_right(start.point, target, inside), self.decoder
        steps = dict(zip([0, *inside], decoder.project_steps(known), strict=True))

        state, values, looks = start.state, list[Tensor](), list[Look]()
        skipped = self.skipped(source, source_lengths, [last - first for first, last, _ in parts])
        for (first, last, feed), added in zip(parts, skipped, strict=True):
            # Every input of a segment is known: one run, one attention, one output.
            if first > 0:
                fed = values[-1].select(-2, -1)
                if feed == "mixed":
                    fed = decoder_input(teacher_forcing, target, fed, first)
                steps[first] = decoder.project(fed)
            inputs = [steps[t] for t in range(first, last)]
            output, look, state = self._decode(
                inputs, state, start.memory, noise.steps(first, last)
            )
            values.append(output if added is None else output + added)
            if look is not None:
                looks.append(look)
        return _forecast(values, looks, self.attention, with_attention)

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
        memory, state, point = self.encode(source, source_lengths)
        if memory is not None and override is not None:
            memory = replace(memory, hand=override.begin())
        values, looks = list[Tensor](), list[Look]()
        for added in self.skipped(source, source_lengths, [1] * steps):
            said, look, state = self.step(point, state, memory)
            said = said if added is None else said + added
            point = said.select(-2, 0)
            values.append(said)
            if with_attention and look is not None:
                looks.append(look)
        return _forecast(values, looks, self.attention, with_attention)

    def step(
        self, point: Tensor, state: State, memory: Memory | None
    ) -> tuple[Tensor, Look | None, State]:
        """One step of the decoder.

        Args:
            point: (..., N, F) what it is fed.
            state: from `encode` or the step before.
            memory: from `encode`.

        Returns:
            the point it says (..., N, 1, F) but for what a skip adds, where it looked, and its new
            state.
        """
        return self._decode([self.decoder.project(point)], state, memory, NO_NOISE)

    def _decode(
        self, projected: list[Tensor], state: State, memory: Memory | None, noise: Noise
    ) -> tuple[Tensor, Look | None, State]:
        """A stretch of L projected inputs: values (..., N, L, F), where it looked
        (T is L there), and the state after it."""
        if self.step_by_step:
            return self._decode_step_by_step(projected, state, memory, noise)
        states, last = self.decoder.run(projected, state.cells[0])
        said = self.decoder.output(states)
        if not self.is_deep:
            cells: tuple[Tensor, ...] = (last,)
        else:
            lasts = [last]
            for i, (layer, before) in enumerate(zip(self._above, state.cells[1:], strict=True)):
                said = said * noise.layers[i] if noise.layers else said
                states, last = layer.run(layer.project_steps(said), before)
                said = layer.output(states)
                lasts.append(last)
            cells = tuple(lasts)
        if not self.context_is_output:
            return self.output(noise.on_readout(said)), None, State(cells)
        look = self._look(said, memory, state.last, noise.choices)
        read = joined([look.context, said])
        if self.combine is not None:
            read = self.combine(read).tanh()
        return self.output(noise.on_readout(read)), look, State(cells, None, look.last)

    def _decode_step_by_step(
        self, projected: list[Tensor], state: State, memory: Memory | None, noise: Noise
    ) -> tuple[Tensor, Look | None, State]:
        """The same where the context has a say in the next input."""
        said, looks = list[Tensor](), list[Look]()
        for t, step in enumerate(projected):
            here = noise.steps(t, t + 1)
            if self.context_is_input:
                asks = self.top(state.cells).unsqueeze(-2)
                look = self._look(asks, memory, state.last, here.choices)
                share = self.decoder.project_context(look.context.squeeze(-2))
                cells = self.advance(step + share, state.cells, here)
                state = State(cells, None, look.last)
                said.append(self.top(cells))
            else:
                if state.fed is not None:  # before the first step it is 0
                    step = step + self.decoder.project_context(state.fed)
                cells = self.advance(step, state.cells, here)
                now = self.top(cells).unsqueeze(-2)
                look = self._look(now, memory, state.last, here.choices)
                assert self.combine is not None
                vector = self.combine(joined([look.context, now])).tanh().squeeze(-2)
                state = State(cells, vector, look.last)
                said.append(vector)
            looks.append(look)
        values = self.output(noise.on_readout(torch.stack(said, dim=-2)))
        return values, _joined_looks(looks), state

    def advance(
        self, projected: Tensor, cells: tuple[Tensor, ...], noise: Noise = NO_NOISE
    ) -> tuple[Tensor, ...]:
        """The states of all layers after one step."""
        new = [self.decoder.step(projected, cells[0])]
        if not self.is_deep:
            return tuple(new)
        said = self.decoder.output(new[0])
        for i, (layer, before) in enumerate(zip(self._above, cells[1:], strict=True)):
            said = said * noise.layers[i].squeeze(-2) if noise.layers else said
            new.append(layer.step(layer.project(said), before))
            said = layer.output(new[-1])
        return tuple(new)

    def top(self, cells: tuple[Tensor, ...]) -> Tensor:
        """What the highest layer says, (..., N, H)."""
        top = self._above[-1] if self.is_deep else self.decoder
        return top.output(cells[-1])

    @property
    def _above(self) -> list[Cell]:
        return cast(list[Cell], self.decoder_above)

    def _look(
        self, queries: Tensor, memory: Memory | None, last: Tensor | None, numbers: Tensor | None
    ) -> Look:
        attention = self.attention
        assert attention is not None and memory is not None
        return attention.look(queries, memory, last, numbers)

    def _draw_noise(self, draws: RNG, N: int, T: int) -> Noise:
        """All random numbers of T steps; drawn at once, they do not depend on the coins."""
        choices, attention = None, self.attention
        if attention is not None and attention.normalizer.draws:
            A = attention.heads
            choices = draws.uniform("sampling", *((N, T) if A == 1 else (N, A, T)))
        if self.dropout == 0:
            return NO_NOISE if choices is None else Noise(choices)
        layers = tuple(self._factors(draws, N, T, self.hidden) for _ in self.decoder_above)
        return Noise(choices, layers, self._factors(draws, N, T, self.output.weight.shape[-1]))

    def _factors(self, draws: RNG, *shape: int) -> Tensor:
        """0 with the chance of dropout, else what keeps the mean."""
        kept = draws.uniform("dropout", *shape) >= self.dropout
        return kept.to(self.output.weight.dtype) / (1 - self.dropout)


def _reader(cell: type[Cell], inputs: int, hidden: int, two_way: bool) -> Cell | Bidirectional:
    return Bidirectional(cell, inputs, hidden) if two_way else cell(inputs, hidden)


def _joined_looks(looks: list[Look]) -> Look:
    """Looks of one query each as one look of all of them; their contexts have been used."""
    log_prob = None
    if looks[0].log_prob is not None:
        log_prob = torch.cat([look.log_prob for look in looks if look.log_prob is not None],
                               dim=-1)  # fmt: skip
    weights = torch.cat([look.weights for look in looks], dim=-2)
    return Look(looks[-1].context, weights, looks[-1].last, log_prob)


def _forecast(
    values: list[Tensor], looks: list[Look], attention: Attention | None, with_attention: bool
) -> Forecast:
    """The forecast of all steps from those of parts of them."""
    output = values[0] if len(values) == 1 else torch.cat(values, dim=-2)
    if not looks or attention is None:
        return Forecast(output)
    choices = None
    baseline = attention.normalizer.baseline
    if baseline is not None and looks[0].log_prob is not None:
        chances = [look.log_prob for look in looks if look.log_prob is not None]
        log_prob = torch.cat(chances, dim=-1)
        if attention.heads > 1:  # choices of several heads: their chances multiply
            log_prob = log_prob.sum(dim=-2)
        choices = SampledActions(log_prob, baseline.over(log_prob))
    if not with_attention:
        return Forecast(output, (), choices)
    weights = torch.cat([look.weights for look in looks], dim=-2)
    if attention.heads == 1:
        weights = weights.unsqueeze(-3)
    partial = isinstance(attention.location, LocalWindow)
    shown = AttentionMap(weights, meaning="partial" if partial else "distribution")
    return Forecast(output, (shown,), choices)
