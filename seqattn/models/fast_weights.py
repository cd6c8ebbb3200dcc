"""A recurrent net that remembers by fast weights (Ba, Hinton, Mnih, Leibo and Ionescu 2016, "Using
Fast Weights to Attend to the Recent Past").

After every step the new state h(t) is written into a memory that fades:

    A(t) = decay A(t-1) + rate h(t) h(t)^T                              (eq. 1)

and the next state settles in an inner loop that reads it, while what comes from outside is held:

    held  = W h(t) + C x(t)
    h_0   = f(LN(held)),    h_(s+1) = f(LN(held + A(t) h_s))            (eq. 2 and section 3.1)

with f = tanh. One memory serves encoder and decoder, which have slow weights of their own: what
the source wrote is what the target reads.

Reading is attention (section 3): A(t) h is the sum over the past of h(tau) times a strength

    rate decay^(t - tau) (h(tau) . h)

so no H x H matrix is needed while there are fewer states than H. The strengths of the last
reading are this model's attention weights. They are signed, and sum to nothing in particular.

Letters: N sequences, S source length, T target length, F features, H width of the state, L states
in memory; any leading axes of runs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seqattn.config import FastWeights
from seqattn.errors import UsageError
from seqattn.models.attention import Override
from seqattn.models.base import RNG, AttentionMap, FeatureSpec, Forecast, Seq2SeqModel
from seqattn.models.layers import LayerNorm, Linear, product
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_steps,
    check_target,
    decoder_input,
    forced_steps,
    shift_right,
)


class StateMemory(NamedTuple):
    """The memory as the states that were written: reading is attention over them.

    Attributes:
        states: (..., N, L, H).
        factors: (..., N, L), what is left of each: rate decay^age; 0 where nothing was written.
    """

    states: Tensor
    factors: Tensor

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """A h for h (..., N, H), and the strength of each past state in it, (..., N, L)."""
        strengths = self.factors * product(self.states, state.unsqueeze(-1)).squeeze(-1)
        return product(strengths.unsqueeze(-2), self.states).squeeze(-2), strengths

    def write(self, state: Tensor, keep: Tensor | None, decay: float, rate: float) -> StateMemory:
        """The memory after a state (..., N, H) was written, where `keep` (..., N) is True."""
        real = _ones(state) if keep is None else keep.to(state.dtype)
        left = self.factors * (1 - real * (1 - decay)).unsqueeze(-1)
        return StateMemory(
            torch.cat([self.states, state.unsqueeze(-2)], dim=-2),
            torch.cat([left, (rate * real).unsqueeze(-1)], dim=-1),
        )


class Matrix(NamedTuple):
    """The memory as the matrix A itself.

    Attributes:
        A: (..., N, H, H).
    """

    A: Tensor

    def read(self, state: Tensor) -> tuple[Tensor, None]:
        """A h for h (..., N, H); a matrix has forgotten which state is which."""
        return product(self.A, state.unsqueeze(-1)).squeeze(-1), None

    def write(self, state: Tensor, keep: Tensor | None, decay: float, rate: float) -> Matrix:
        """The memory after a state (..., N, H) was written, where `keep` (..., N) is True."""
        written = decay * self.A + rate * state.unsqueeze(-1) * state.unsqueeze(-2)
        return Matrix(written if keep is None else written.where(keep[..., None, None], self.A))


Memory = StateMemory | Matrix


class FastWeightsModel(Seq2SeqModel):
    """See the module's docstring for the equations."""

    def __init__(
        self, config: FastWeights, points: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        H = config.hidden_dim
        self.points, self.hidden = points, H
        self.decay, self.rate, self.inner_steps = config.decay, config.rate, config.inner_steps
        self.encoder_input, self.encoder_state = Linear(points.given, H), Linear(H, H, bias=False)
        self.encoder_norm = LayerNorm(H) if config.layer_norm else None
        self.decoder_input, self.decoder_state = Linear(points.said, H), Linear(H, H, bias=False)
        self.decoder_norm = LayerNorm(H) if config.layer_norm else None
        self.output = Linear(H, points.said)
        self.skip = build_skip(config.skip, lengths, points.given, points.said, self.output)

    def settle(
        self, held: Tensor, memory: Memory, norm: LayerNorm | None
    ) -> tuple[Tensor, Tensor | None]:
        """The inner loop.

        Args:
            held: W h + C x, (..., N, H).

        Returns:
            the new state (..., N, H), and the strengths of the last reading (..., N, L) or None.
        """
        read, strengths = memory.read(self.settle_for(held, memory, self.inner_steps - 1, norm))
        return self._bent(held + read, norm), strengths

    def settle_for(
        self, held: Tensor, memory: Memory, steps: int, norm: LayerNorm | None
    ) -> Tensor:
        """The state (..., N, H) after some readings of the inner loop."""
        state = self._bent(held, norm)
        for _ in range(steps):
            read, _ = memory.read(state)
            state = self._bent(held + read, norm)
        return state

    def _bent(self, held: Tensor, norm: LayerNorm | None) -> Tensor:
        return (held if norm is None else norm(held)).tanh()

    def encode(
        self, source: Tensor, lengths: Tensor | None, *, as_matrix: bool
    ) -> tuple[Memory, Tensor, Tensor]:
        """Memory, state and point after the last real source point. Padding is not read, not
        written, and nothing fades meanwhile."""
        *lead, S, _ = source.shape
        keep = None
        if lengths is not None:
            keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)
        state = source.new_zeros(*lead, self.hidden)
        point = source.select(-2, 0)
        memory: Memory = (
            Matrix(source.new_zeros(*lead, self.hidden, self.hidden))
            if as_matrix
            else StateMemory(source.new_zeros(*lead, 0, self.hidden), source.new_zeros(*lead, 0))
        )
        for t, projected in enumerate(self.encoder_input(source).unbind(-2)):
            new, _ = self.settle(projected + self.encoder_state(state), memory, self.encoder_norm)
            real = None if keep is None else keep[..., t]
            memory = memory.write(new, real, self.decay, self.rate)
            here = source.select(-2, t)
            state = new if real is None else new.where(real.unsqueeze(-1), state)
            point = here if real is None else here.where(real.unsqueeze(-1), point)
        return memory, state, self.points.start_token(point)

    def step(
        self, projected: Tensor, state: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor | None, Memory]:
        """One step of the decoder.

        Args:
            projected: C x of what it is fed, (..., N, H).
            state: (..., N, H).

        Returns:
            the point it says (..., N, F) but for what a skip adds, its new state, the strengths of
            its last reading over all states in memory (..., N, L) or None, and the memory with the
            new state.
        """
        state, strengths = self.settle(
            projected + self.decoder_state(state), memory, self.decoder_norm
        )
        return (
            self.output(state),
            state,
            strengths,
            memory.write(state, None, self.decay, self.rate),
        )

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
        *_, S, _ = source.shape
        *_, T, _ = target.shape
        as_matrix = self._as_matrix(S, T, with_attention)
        memory, state, point = self.encode(source, source_lengths, as_matrix=as_matrix)
        skipped = self.skipped(source, source_lengths, [1] * T)
        known = self.decoder_input(shift_right(point, target))
        everyone, anyone = forced_steps(teacher_forcing, T)
        said, values, looks = point, list[Tensor](), list[Tensor]()
        for t, added in enumerate(skipped):
            if t == 0 or everyone[t]:
                projected = known.select(-2, t)
            else:
                fed = decoder_input(teacher_forcing, target, said, t) if anyone[t] else said
                projected = self.decoder_input(fed)
            said, state, strengths, memory = self.step(projected, state, memory)
            said = said if added is None else said + added.squeeze(-2)
            values.append(said)
            if strengths is not None:
                looks.append(strengths[..., :S])
        return _forecast(values, looks if with_attention else [])

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
        if override is not None:
            raise UsageError(
                "model.kind fast_weights reads signed strengths from one memory: they are no"
                " weights over the source that another distribution could take the place of."
            )
        *_, S, _ = source.shape
        as_matrix = self._as_matrix(S, steps, with_attention)
        memory, state, said = self.encode(source, source_lengths, as_matrix=as_matrix)
        values, looks = list[Tensor](), list[Tensor]()
        for added in self.skipped(source, source_lengths, [1] * steps):
            said, state, strengths, memory = self.step(self.decoder_input(said), state, memory)
            said = said if added is None else said + added.squeeze(-2)
            values.append(said)
            if strengths is not None:
                looks.append(strengths[..., :S])
        return _forecast(values, looks if with_attention else [])

    def _as_matrix(self, S: int, T: int, with_attention: bool) -> bool:
        """The matrix where it is smaller than the states, unless somebody asks for strengths."""
        return self.inner_steps > 0 and self.hidden < S + T and not with_attention


def _forecast(values: list[Tensor], looks: list[Tensor]) -> Forecast:
    said = torch.stack(values, dim=-2)
    if not looks:
        return Forecast(said)
    weights = torch.stack(looks, dim=-2).unsqueeze(-3)
    return Forecast(said, (AttentionMap(weights, meaning="strength"),))


def _ones(state: Tensor) -> Tensor:
    return state.new_ones(state.shape[:-1])
