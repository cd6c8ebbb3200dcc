"""A recurrent network with fast weights (Ba, Hinton, Mnih, Leibo and Ionescu 2016, "Using Fast
Weights to Attend to the Recent Past").

After every step, the new state h(t) is written into a decaying memory:

    A(t) = decay A(t-1) + rate h(t) h(t)^T                              (eq. 1)

An inner loop that reads the memory computes the next state:

    z    = W h(t) + C x(t)                                   (constant during the inner loop)
    h_0  = f(LN(z)),    h_(s+1) = f(LN(z + A(t) h_s))                   (eq. 2 and section 3.1)

Here f = tanh, and LN is layer normalization, which is optional. The encoder and the decoder have
separate slow weights and share one memory, from which the decoder reads the encoder's states.

Reading is a form of attention (section 3): A(t) h is the sum of the past states h(tau), each
multiplied by its read strength:

    rate * decay^(t - tau) * (h(tau) . h)

A list of the past states can therefore replace the matrix A (H, H), and is smaller as long as fewer
than H states have been written. The attention weights of this model are the read strengths of the
source states in the last iteration of the inner loop. Read strengths are signed and not normalized.

In shapes, N is the number of sequences, S the source length, T the target length, F the number of
features, H the width of the state, L the number of states in memory, and `...` an optional leading
axis of runs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from seqattn.config import FastWeights
from seqattn.errors import UsageError
from seqattn.models.attention import AttentionOverride
from seqattn.models.base import (
    RNG,
    AttentionMap,
    DecoderStart,
    DecoderStep,
    FeatureSpec,
    ModelOutput,
    Seq2SeqModel,
)
from seqattn.models.layers import LayerNorm, Linear, matmul
from seqattn.models.skip import Lengths, build_skip
from seqattn.models.teacher_forcing import (
    check_source,
    check_target,
    find_forced_steps,
    select_decoder_input,
    shift_right,
)


class StateMemory(NamedTuple):
    """The memory, stored as a list of the written states. Reading is attention over these states.

    Attributes:
        states: the written states (..., N, L, H).
        factors: the factor of each written state, (..., N, L). The factor of padding is 0. Every
            other factor is rate * decay^age, where the age is the number of later writes.
    """

    states: Tensor
    factors: Tensor

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute A h for a state h (..., N, H). Return the product, and the read strengths of the
        written states, (..., N, L)."""
        weights = self.factors * matmul(self.states, state.unsqueeze(-1)).squeeze(-1)
        return matmul(weights.unsqueeze(-2), self.states).squeeze(-2), weights

    def write(self, state: Tensor, keep: Tensor | None, decay: float, rate: float) -> StateMemory:
        """Return the memory after a write of a state (..., N, H). If `keep` (..., N) is given,
        the write changes only the memory of the sequences for which `keep` is True."""
        valid = state.new_ones(state.shape[:-1]) if keep is None else keep.to(state.dtype)
        factors = self.factors * (1 - valid * (1 - decay)).unsqueeze(-1)
        return StateMemory(
            torch.cat([self.states, state.unsqueeze(-2)], dim=-2),
            torch.cat([factors, (rate * valid).unsqueeze(-1)], dim=-1),
        )


class MatrixMemory(NamedTuple):
    """The memory, stored as the matrix A.

    Attributes:
        A: the matrix (..., N, H, H).
    """

    A: Tensor

    def read(self, state: Tensor) -> tuple[Tensor, None]:
        """Compute A h for a state h (..., N, H). The second result is None, because the read
        strengths of individual states cannot be computed from the matrix."""
        return matmul(self.A, state.unsqueeze(-1)).squeeze(-1), None

    def write(self, state: Tensor, keep: Tensor | None, decay: float, rate: float) -> MatrixMemory:
        """Return the memory after a write of a state (..., N, H). If `keep` (..., N) is given,
        the write changes only the memory of the sequences for which `keep` is True."""
        A = decay * self.A + rate * state.unsqueeze(-1) * state.unsqueeze(-2)
        return MatrixMemory(A if keep is None else A.where(keep[..., None, None], self.A))


FastWeightMemory = StateMemory | MatrixMemory


class FastWeightsModel(Seq2SeqModel):
    """An encoder-decoder with fast weights. The docstring of the module gives the equations."""

    def __init__(
        self, config: FastWeights, features: FeatureSpec, lengths: Lengths | None = None
    ) -> None:
        super().__init__()
        H = config.hidden_dim
        self.features, self.hidden = features, H
        self.source_modality, self.target_modality = source, target = features.modalities(
            H, config.embedding
        )
        self.decay, self.rate, self.inner_steps = config.decay, config.rate, config.inner_steps
        self.encoder_input = Linear(source.input_width, H)
        self.encoder_state = Linear(H, H, bias=False)
        self.encoder_norm = LayerNorm(H) if config.layer_norm else None
        self.decoder_input = Linear(target.input_width, H)
        self.decoder_state = Linear(H, H, bias=False)
        self.decoder_norm = LayerNorm(H) if config.layer_norm else None
        self.output = target.output_layer(H)
        self.skip = build_skip(config.skip, lengths, features, self.output)

    def attention_shape(self) -> tuple[int, int]:
        raise UsageError(
            "model.kind fast_weights has signed read strengths, not a distribution over the"
            " source, so no other distribution can replace them."
        )

    def inner_loop(
        self, preactivation: Tensor, memory: FastWeightMemory, norm: LayerNorm | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run all iterations of the inner loop.

        Args:
            preactivation: the preactivation z = W h + C x, (..., N, H).
            memory: the memory to read.
            norm: the layer normalization LN; None for no normalization.

        Returns:
            the new state (..., N, H), and the read strengths of the last iteration, (..., N, L), or
                None if the memory is a matrix.
        """
        query = self.iterate_inner_loop(preactivation, memory, self.inner_steps - 1, norm)
        read, read_weights = memory.read(query)
        return self._activation(preactivation + read, norm), read_weights

    def iterate_inner_loop(
        self, preactivation: Tensor, memory: FastWeightMemory, steps: int, norm: LayerNorm | None
    ) -> Tensor:
        """Compute the state h_s (..., N, H) after s = `steps` iterations."""
        state = self._activation(preactivation, norm)
        for _ in range(steps):
            read, _ = memory.read(state)
            state = self._activation(preactivation + read, norm)
        return state

    def _activation(self, z: Tensor, norm: LayerNorm | None) -> Tensor:
        return (z if norm is None else norm(z)).tanh()

    def encode(
        self, source: Tensor, lengths: Tensor | None, *, use_matrix: bool
    ) -> tuple[FastWeightMemory, Tensor, Tensor]:
        """Encode the source. Return the memory and the state after the last valid source step, and
        the start token of the decoder.

        Padding is not written to the memory, and the memory does not decay at padded steps.
        """
        *lead, S, _ = source.shape
        keep = None
        if lengths is not None:
            keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)
        embedded, last = self.source_modality.embed(source), source.select(-2, 0)
        state = embedded.new_zeros(*lead, self.hidden)
        memory: FastWeightMemory = (
            MatrixMemory(embedded.new_zeros(*lead, self.hidden, self.hidden))
            if use_matrix
            else StateMemory(
                embedded.new_zeros(*lead, 0, self.hidden), embedded.new_zeros(*lead, 0)
            )
        )
        for t, projected in enumerate(self.encoder_input(embedded).unbind(-2)):
            preactivation = projected + self.encoder_state(state)
            new, _ = self.inner_loop(preactivation, memory, self.encoder_norm)
            valid = None if keep is None else keep[..., t]
            memory = memory.write(new, valid, self.decay, self.rate)
            x = source.select(-2, t)
            state = new if valid is None else new.where(valid.unsqueeze(-1), state)
            last = x if valid is None else x.where(valid.unsqueeze(-1), last)
        return memory, state, self.target_modality.start_token(last)

    def step(
        self, projected: Tensor, state: Tensor, memory: FastWeightMemory
    ) -> tuple[Tensor, Tensor, Tensor | None, FastWeightMemory]:
        """Run one step of the decoder.

        Args:
            projected: the projected decoder input C x, (..., N, H).
            state: the previous state, (..., N, H).
            memory: the memory before the step.

        Returns:
            the output (..., N, F) without the skip connection; the new state; the read strengths of
                all states in memory, (..., N, L), or None if the memory is a matrix; and the memory
                after the write of the new state.
        """
        preactivation = projected + self.decoder_state(state)
        state, read_weights = self.inner_loop(preactivation, memory, self.decoder_norm)
        # The output is computed before the write, because the order of these two lines determines
        # the order in which autograd sums gradients.
        output = self.output(state)
        return output, state, read_weights, memory.write(state, None, self.decay, self.rate)

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
        *_, S, _ = source.shape
        *_, T, _ = target.shape
        use_matrix = self._use_matrix(S, T, with_attention)
        read = self.source_modality.drop_words(source, rng)
        memory, state, start = self.encode(read, source_lengths, use_matrix=use_matrix)
        skips = self.skip_outputs(source, source_lengths, [1] * T)
        modality = self.target_modality
        read = modality.drop_words(target, rng)
        known = self.decoder_input(modality.embed(shift_right(start, read)))
        u = modality.draw_feedback(rng, target.shape[-3], T)
        all_forced, any_forced = find_forced_steps(teacher_forcing, T)
        values, weights = list[Tensor](), list[Tensor]()
        for t, skip in enumerate(skips):
            if t == 0 or all_forced[t]:
                projected = known.select(-2, t)
            else:
                x = modality.feed(values[-1], u, t)
                if any_forced[t]:
                    x = select_decoder_input(teacher_forcing, read, x, t)
                projected = self.decoder_input(modality.embed(x))
            output, state, read_weights, memory = self.step(projected, state, memory)
            output = output if skip is None else output + skip.squeeze(-2)
            values.append(output)
            if read_weights is not None:
                weights.append(read_weights[..., :S])
        return _strength_output(values, weights if with_attention else [])

    def begin(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None,
        with_attention: bool,
        override: AttentionOverride | None = None,
    ) -> DecoderStart:
        *_, S, _ = source.shape
        use_matrix = self._use_matrix(S, steps, with_attention)
        fast_weights, state, start_token = self.encode(
            source, source_lengths, use_matrix=use_matrix
        )
        return DecoderStart(start_token, S, (state, fast_weights))

    def decoder_step(
        self,
        decoder_input: Tensor,
        memory: int,
        state: tuple[Tensor, FastWeightMemory],
        *,
        with_attention: bool,
    ) -> DecoderStep:
        projected = self.decoder_input(self.target_modality.embed(decoder_input))
        output, hidden, read_weights, fast_weights = self.step(projected, *state)
        maps: tuple[AttentionMap, ...] = ()
        if with_attention and read_weights is not None:
            over_source = read_weights[..., None, None, :memory]
            maps = (AttentionMap(over_source, meaning="strength"),)
        return DecoderStep(output.unsqueeze(-2), maps, (hidden, fast_weights))

    def _use_matrix(self, S: int, T: int, with_attention: bool) -> bool:
        """Return whether the memory should be a matrix. This is the case if the matrix is smaller
        than the list of states and no attention weights are requested."""
        return self.hidden < S + T and not with_attention


def _strength_output(values: list[Tensor], weights: list[Tensor]) -> ModelOutput:
    output = torch.stack(values, dim=-2)
    if not weights:
        return ModelOutput(output)
    stacked = torch.stack(weights, dim=-2).unsqueeze(-3)
    return ModelOutput(output, (AttentionMap(stacked, meaning="strength"),))
