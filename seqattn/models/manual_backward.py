"""The loss of a common family of recurrent models, with a hand-written backward pass.

Autograd records every operation, and for small models the recording takes longer than the
arithmetic. This file contains the forward and backward passes of one model family: the
encoder-decoder of `recurrent.py` with one layer of GRUs, LSTMs or simple recurrent networks and
with `readout: linear`. A model of this family has either no attention or attention with `context:
output`. A uniform or dot-product score can have any number of heads, and an additive score has one
head. The function `supports` checks all conditions. Each forward stage below (F1, F2) is followed
by its backward stage (B1, B2). The stages F3, F4, B3 and B4 are in `manual_readout.py`. The file is
optional: without it, autograd computes the gradient.

The letters in shapes are defined in `seqattn.models.op_tape`; L is the number of steps. In a step,
a cell computes the new state h' from the state h, from the input term gi = W x + b, and from the
recurrent term gh = U h + c. For any x, dx is the gradient of the loss with respect to x. A step
maps the state in a slot to the state in the next slot:

    slot     0       1 to S     D + 1 to D + T
    state    zeros   encoder    decoder

Slot D contains the decoder's initial state. Without lengths, D = S, the slot of the encoder's last
state. With lengths, D = S + 1, and slot D contains a copy of the state at the last valid step.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from seqattn.models.attention import Attention, Softmax
from seqattn.models.attention.scores import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
    UniformScore,
)
from seqattn.models.cells import GRU, LSTM, RNN, Cell
from seqattn.models.layers import Linear
from seqattn.models.manual_readout import (
    AdditiveScores,
    BilinearScores,
    NoAttention,
    Readout,
    ReadoutOfAllSteps,
    Recurrence,
)
from seqattn.models.modality import VectorModality
from seqattn.models.op_tape import BatchBuffers, BufferShape, FlatGradient, MeanSquaredError, OpTape
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.teacher_forcing import Segment, segments

# Measured thresholds. No threshold changes a result by more than rounding.
MAX_FUSED_TARGET_LENGTH = 8  # largest T for which all segments of a plan are one record
MAX_PAIRS = 2**25  # largest number of weights in a batch; see `is_faster`
MAX_HEAD_TERMS = 2**15  # largest (A - 1) * S * H for A heads; see `is_faster`
MIN_INNERMOST_RUNS, MAX_INNERMOST_WIDTH = 8, 4  # smallest R, largest H with the runs innermost
# Every module of a supported model has one of these classes. A subclass may compute something else.
SUPPORTED_CLASSES = frozenset({
    RecurrentModel, nn.ModuleList, GRU, LSTM, RNN, Linear, Attention, Softmax,
    UniformScore, DotScore, ScaledDotScore, GeneralScore, AdditiveScore, VectorModality,
})  # fmt: skip


class Gates:
    """The elementwise operations of L steps of a cell with G gates.

    Attributes:
        num_gates: the number of gates, G.
        gh: the values of gh at all steps, (L, G, R, N, H). The caller fills them.
        dgi, dgh: the gradients of gi and gh, (R, L, N, G, H). Both are views of the buffer `dg` (R,
            L, N, 2, G, H).
    """

    num_gates: int
    gh: Tensor
    dg: Tensor
    dgi: Tensor
    dgh: Tensor

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        """
        Args:
            tape: the tape that records all operations.
            states: the state h before each step, (L + 1, R, N, H). The state h of step l is the
                state h' of step l - 1.
            dstates: the gradient of `states`, (L + 1, R, N, H).
        """

    def step(self, step: int, gi: Tensor) -> None:
        """Compute h' from gi (G, R, N, H), `gh` and h."""

    def start_backward(self) -> None:
        """Compute the derivatives of all steps, before the first call of `step_backward`."""

    def step_backward(self, step: int) -> None:
        """Compute dgh from dh', and add to dh the terms that do not flow through gh."""

    def inputs_backward(self, steps: slice) -> None:
        """Compute dgi from dh' and dgh."""

    def copy_state(self, index: Tensor, steps: slice, target: int) -> None:
        """Copy the part of the state that is not h. The default implementation, for cells whose
        whole state is h, does nothing.

        Args:
            index: for each sequence, the slot to copy, counted from 0 at the first slot of `steps`,
                (1, R, N, H).
            steps: the slots from which `index` selects.
            target: the slot that receives the copy.
        """

    def copy_state_backward(self, index: Tensor, steps: slice, target: int) -> None:
        """Add the gradient of the copy to the gradient of the copied slots."""


class GRUGates(Gates):
    """The gates of a GRU (Cho et al. 2014, in the variant of `cells.GRU`):

        r = sigmoid(gi_r + gh_r),  z = sigmoid(gi_z + gh_z),  n = tanh(gi_n + r gh_n)
        h' = (1 - z) n + z h

    The elementwise derivatives of h' with respect to each operand are:

        gi_n: a = (1 - z) (1 - n^2)        gh_n: a r        h: z
        gi_r and gh_r: a gh_n r (1 - r)    gi_z and gh_z: (h - n) z (1 - z)

    Attributes:
        states: the state h before each step, (L + 1, R, N, H). The state h of step l is the state
            h' of step l - 1.
        dstates: the gradient of `states`, (L + 1, R, N, H).
        gh: the values of gh at all steps, (L, 3, R, N, H).
        dgi, dgh: the gradients of gi and gh, (R, L, N, 3, H). Both are views of the buffer `dg` (R,
            L, N, 2, 3, H).
        dh_dgi_n: the derivatives of h' with respect to gi_n, (L, R, N, H).
        dh_dgh: the derivatives of h' with respect to gh, (L, 3, R, N, H).
    """

    num_gates = 3

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 3, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.gh, self.gates = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)
        self.n, self.dh_dgi_n, self.tanh_grad = (new(L, R, N, H, runs=1) for _ in range(3))
        self.dh_dgh, self.sigmoid_grad = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)

    def step(self, step: int, gi: Tensor) -> None:
        """Compute h' from gi (3, R, N, H), `gh` and h."""
        record, gh, gates, n = self.tape.record, self.gh[step], self.gates[step], self.n[step]
        record(torch.add, gi[:2], gh[:2], out=gates)
        record(gates.sigmoid_)
        record(torch.addcmul, gi[2], gates[0], gh[2], out=n)
        self.tape.tanh_(n)
        record(torch.lerp, n, self.states[step], gates[1], out=self.states[step + 1])

    def step_backward(self, step: int) -> None:
        """Compute dgh from dh', and add the term z * dh' to dh."""
        dh_next, dgh = self.dstates[step + 1], self.dgh[:, step].permute(2, 0, 1, 3)
        self.tape.record(torch.mul, self.dh_dgh[step], dh_next, out=dgh)
        if step > 0:  # the initial state is constant
            self.tape.record(self.dstates[step].addcmul_, dh_next, self.gates[step, 1])

    def inputs_backward(self, steps: slice) -> None:
        """Compute dgi from dh' and dgh. The gates r and z depend on gi + gh, so dgi and dgh are
        equal for these two gates."""
        dgi, dgi_n = self.dgi[:, steps], self.dgi[:, steps, :, 2].transpose(0, 1)
        self.tape.record(dgi[..., :2, :].copy_, self.dgh[:, steps, :, :2])
        self.tape.record(torch.mul, self.dh_dgi_n[steps], self.dstates[1:][steps], out=dgi_n)

    def start_backward(self) -> None:
        """Compute `dh_dgi_n` and `dh_dgh` for all steps at once."""
        record, gates, (r, z) = self.tape.record, self.gates, self.gates.unbind(1)
        n, a = self.n, self.dh_dgi_n
        dh_dgh_r, dh_dgh_z, dh_dgh_n = self.dh_dgh.unbind(1)
        sigmoid_grad_r, sigmoid_grad_z = self.sigmoid_grad.unbind(1)
        record(torch.addcmul, gates, gates, gates, value=-1, out=self.sigmoid_grad)
        record(torch.addcmul, self.tape.one, n, n, value=-1, out=self.tanh_grad)
        record(torch.addcmul, self.tanh_grad, self.tanh_grad, z, value=-1, out=a)
        record(torch.sub, self.states[:-1], n, out=dh_dgh_z)
        record(dh_dgh_z.mul_, sigmoid_grad_z)
        record(torch.mul, a, self.gh[:, 2], out=dh_dgh_r)
        record(dh_dgh_r.mul_, sigmoid_grad_r)
        record(torch.mul, a, r, out=dh_dgh_n)


class LSTMGates(Gates):
    """The gates of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
    2000, in the variant of `cells.LSTM`):

        i, f, o = sigmoid(gi + gh), g = tanh(gi_g + gh_g)
        c' = f c + i g
        h' = o tanh(c')

    The gradients are as follows. Here, di, df, dg and do are the gradients with respect to the
    arguments of the sigmoids and of tanh, not with respect to their results:

        dc' += dh' o (1 - tanh(c')^2)                dc += dc' f
        di = dc' g i (1 - i)                         df = dc' c f (1 - f)
        dg = dc' i (1 - g^2)                         do = dh' tanh(c') o (1 - o)

    The constructor and the attributes `num_gates`, `gh`, `dgi` and `dgh` are described in `Gates`.

    Attributes:
        memory, dmemory: the memory cell c before each step, and its gradient, (L + 1, R, N, H).
        gates: the values of i, f, g and o, (L, 4, R, N, H).
        factors: the factors of dc' in di, df and dg, and of dh' in do, (L, 4, R, N, H).
        dc_dh: the factor of dh' in dc', (L, R, N, H).
    """

    num_gates = 4

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 4, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.memory, self.dmemory = (new(L + 1, R, N, H, runs=1) for _ in range(2))
        self.memory[0] = 0
        self.tanh_memory, self.dc_dh = (new(L, R, N, H, runs=1) for _ in range(2))
        self.gh, self.gates, self.factors = (new(L, 4, R, N, H, runs=2) for _ in range(3))

    def step(self, step: int, gi: Tensor) -> None:
        record, gates, memory = self.tape.record, self.gates[step], self.memory[step + 1]
        i, f, g, o = gates.unbind(0)
        record(torch.add, gi, self.gh[step], out=gates)
        record(gates[:2].sigmoid_)
        self.tape.tanh_(g)
        record(o.sigmoid_)
        record(torch.mul, f, self.memory[step], out=memory)
        record(memory.addcmul_, i, g)
        record(self.tanh_memory[step].copy_, memory)
        self.tape.tanh_(self.tanh_memory[step])
        record(torch.mul, o, self.tanh_memory[step], out=self.states[step + 1])

    def start_backward(self) -> None:
        record, one, tanh_memory = self.tape.record, self.tape.one, self.tanh_memory
        i, _, g, o = self.gates.unbind(1)
        of_i, of_f, of_g, of_o = self.factors.unbind(1)
        record(self.dmemory.zero_)
        record(torch.addcmul, self.gates, self.gates, self.gates, value=-1, out=self.factors)
        record(of_i.mul_, g)
        record(of_f.mul_, self.memory[:-1])
        record(of_o.mul_, tanh_memory)
        record(torch.addcmul, one, g, g, value=-1, out=of_g)
        record(of_g.mul_, i)
        record(torch.addcmul, one, tanh_memory, tanh_memory, value=-1, out=self.dc_dh)
        record(self.dc_dh.mul_, o)

    def step_backward(self, step: int) -> None:
        record, dh_next, dc_next = self.tape.record, self.dstates[step + 1], self.dmemory[step + 1]
        dgh, factors = self.dgh[:, step].permute(2, 0, 1, 3), self.factors[step]
        record(dc_next.addcmul_, dh_next, self.dc_dh[step])
        record(torch.mul, factors[:3], dc_next, out=dgh[:3])
        record(torch.mul, factors[3], dh_next, out=dgh[3])
        if step > 0:  # the initial state is constant
            record(self.dmemory[step].addcmul_, dc_next, self.gates[step, 1])

    def inputs_backward(self, steps: slice) -> None:
        self.tape.record(self.dgi[:, steps].copy_, self.dgh[:, steps])

    def copy_state(self, index: Tensor, steps: slice, target: int) -> None:
        out = self.memory[target : target + 1]
        self.tape.record(torch.gather, self.memory[steps], 0, index, out=out)

    def copy_state_backward(self, index: Tensor, steps: slice, target: int) -> None:
        copied = self.dmemory[target : target + 1]
        self.tape.record(self.dmemory[steps].scatter_add_, 0, index, copied)


class RNNGates(Gates):
    """The elementwise operation of a simple recurrent network (Elman 1990): h' = tanh(gi + gh).

    The constructor and the attributes are described in `Gates`.
    """

    num_gates = 1

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 1, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.gh, self.tanh_grad = new(L, 1, R, N, H, runs=2), new(L, R, N, H, runs=1)

    def step(self, step: int, gi: Tensor) -> None:
        self.tape.record(torch.add, gi[0], self.gh[step, 0], out=self.states[step + 1])
        self.tape.tanh_(self.states[step + 1])

    def start_backward(self) -> None:
        h = self.states[1:]
        self.tape.record(torch.addcmul, self.tape.one, h, h, value=-1, out=self.tanh_grad)

    def step_backward(self, step: int) -> None:
        dgh = self.dgh[:, step, :, 0]
        self.tape.record(torch.mul, self.tanh_grad[step], self.dstates[step + 1], out=dgh)

    def inputs_backward(self, steps: slice) -> None:
        self.tape.record(self.dgi[:, steps].copy_, self.dgh[:, steps])


def supports(model: object) -> bool:
    """Return whether this file implements the backward pass of a model."""
    return (
        type(model) is RecurrentModel
        and all(type(module) in SUPPORTED_CLASSES for module in model.modules())
        and model.features.has_same_features
        and not model.decoder_above
        and model.dropout == 0
        and model.combine is None
        and (model.attention is None or (model.context_is_output and _has_readout(model.attention)))
    )


def _has_readout(attention: Attention) -> bool:
    """Return whether a readout implements an attention whose modules all have classes in
    `SUPPORTED_CLASSES`."""
    return attention.location is None and (
        attention.heads == 1 or type(attention.score) is not AdditiveScore
    )


def is_faster(model: RecurrentModel, source_steps: int, pairs: int) -> bool:
    """Return whether training a supported model is faster with this file than with autograd.

    If there are very many attention weights, memory access takes most of the time, and this file is
    not faster. With A heads, this file computes each score from all H features of a state, but the
    model computes each score from H / A features. Autograd is therefore faster for wide states and
    long sources.

    Args:
        model: a supported model.
        source_steps: the source length S of a batch.
        pairs: number of (source step, target step) pairs in a batch of all runs.
    """
    heads = 1 if model.attention is None else model.attention.heads
    terms = (heads - 1) * source_steps * model.encoder.hidden
    return heads * pairs <= MAX_PAIRS and terms <= MAX_HEAD_TERMS


def prefers_runs_innermost(model: RecurrentModel, runs: int) -> bool:
    """Return whether the layout with the axis of runs innermost is faster. This is the case for
    many runs with very small matrices."""
    return runs >= MIN_INNERMOST_RUNS and model.encoder.hidden <= MAX_INNERMOST_WIDTH


class ManualLoss:
    """The mean squared error of a supported model, and the gradient of this error.

    Args:
        model: a supported model, whose parameters must be changed only in place. With several runs,
            the parameters have the shape (R, ...).
        gradient: the output buffer of `value_and_grad`, (R, P), with P values in parameter order.
    """

    def __init__(self, model: RecurrentModel, gradient: Tensor) -> None:
        self.model = model
        self.parameters = FlatGradient(model, gradient, has_runs=model.output.weight.dim() == 3)
        self.R, self.H = gradient.shape[0], model.encoder.hidden
        self.passes: dict[BufferShape, ForwardBackward] = {}

    def value_and_grad(
        self, source: Tensor, target: Tensor, *, source_lengths: Tensor | None,
        target_keep: Tensor | None, teacher_forcing: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the loss, (R,), or () without an axis of runs. Write the gradients to `gradient`.

        Args:
            target_keep: mask (..., N, T), True at valid target steps, or (..., N, T, F), True at
                observed values; None if all values are valid.
            source, target, source_lengths, teacher_forcing: see `Seq2SeqModel.forward`.
        """
        passes = self._load(source, target, source_lengths, target_keep)
        plan = segments(teacher_forcing, target.shape[-2])
        if any(segment.feed == "mixed" for segment in plan):
            passes.batch.load_teacher_forcing(teacher_forcing)
        with torch.inference_mode():
            passes.tape.run(passes.encode)
            passes.decode(plan)
            passes.backward(plan)
        return passes.error.loss()

    def eval_losses(
        self, source: Tensor, target: Tensor, *, source_lengths: Tensor | None,
        target_keep: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Compute the free-running and the teacher-forced loss, without gradients."""
        passes = self._load(source, target, source_lengths, target_keep)
        T = target.shape[-2]
        with torch.inference_mode():
            passes.tape.run(passes.encode)
            passes.decode((Segment(0, T, "forced"),))
            forced = passes.error.loss()
            # Both losses have the same step 0. In free running, the previous output is the input.
            passes.decode(tuple(Segment(t, t + 1, "free") for t in range(1, T)))
        return passes.error.loss(), forced

    def _load(
        self, source: Tensor, target: Tensor, lengths: Tensor | None, keep: Tensor | None
    ) -> ForwardBackward:
        """Load a batch into the passes for the shape of the batch, and return these passes."""
        shape = BufferShape.of(source, target, lengths, keep, R=self.R, H=self.H)
        passes = self.passes.get(shape)
        if passes is None:
            passes = self.passes[shape] = ForwardBackward(self.model, self.parameters, shape)
        passes.batch.load(source, target, lengths, keep)
        return passes


GATES: dict[type[Cell], type[Gates]] = {GRU: GRUGates, LSTM: LSTMGates, RNN: RNNGates}


class CellsPass:
    """The cells of the encoder and the decoder:

        gi = W x + b,  gh = U h + c,  h' = gates of gi, gh and the state; see `Gates`

    Attributes:
        states, dstates: the states in all slots, and the gradients of the states, (D + T + 1, R, N,
            H). The view `encoded` is (S, R, N, H), and the view `decoded` is (T, R, N, H).
    """

    def __init__(
        self, tape: OpTape, parameters: FlatGradient, batch: BatchBuffers, gates: type[Gates]
    ) -> None:
        self.tape, self.parameters, self.batch = tape, parameters, batch
        self.weight, G = parameters.weight, gates.num_gates
        R, N, S, T, _, H, *_ = batch.shape
        D, L, new = batch.shape.start, batch.shape.start + T, tape.new
        self.slots = {"encoder": slice(0, S), "decoder": slice(D, L)}
        self.gi = {"encoder": new(G, R, S * N, H, runs=1), "decoder": new(G, R, T * N, H, runs=1)}
        self.gi_of_slot = dict(enumerate(self.gi["encoder"].unflatten(2, (S, N)).unbind(2)))
        self.gi_of_slot |= enumerate(self.gi["decoder"].unflatten(2, (T, N)).unbind(2), D)
        self.states, self.dstates = (new(L + 1, R, N, H, runs=1) for _ in range(2))
        self.states[0] = 0
        self.gates: Gates = gates(tape, self.states, self.dstates)
        self.encoded, self.dencoded = self.states[1 : S + 1], self.dstates[1 : S + 1]
        self.decoded, self.ddecoded = self.states[D + 1 :], self.dstates[D + 1 :]

    def f1_inputs(self) -> None:
        """Compute gi = W x + b for all steps at once."""
        self.batch.shift_right()
        for cell, slots in self.slots.items():
            self.affine(self.gi[cell], self.batch.x[:, slots].flatten(1, 2), cell, "ih")

    def b1_inputs(self) -> None:
        """Compute the gradients of the parameters for all steps at once: dW = dgi^T x and
        dU = dgh^T h; db is the sum of dgi, and dc is the sum of dgh."""
        tape, grad = self.tape, self.parameters.grad
        self.gates.inputs_backward(slice(None))
        for cell, slots in self.slots.items():
            both = self.gates.dg[:, slots].flatten(3, 5).flatten(1, 2)  # (R, steps * N, 2GH)
            dgi, dgh = both.chunk(2, dim=-1)
            x, h = self.batch.x[:, slots].flatten(1, 2), tape.steps_as_rows(self.states[slots])
            tape.matmul(grad[f"{cell}.weight_ih"], dgi.mT, x)
            tape.matmul(grad[f"{cell}.weight_hh"], dgh.mT, h)
            dbiases = self.parameters.adjacent(f"{cell}.bias_ih", f"{cell}.bias_hh")
            tape.record(torch.sum, both, 1, out=dbiases)

    def affine(self, out: Tensor, x: Tensor, cell: str, name: str) -> None:
        """Write W x + b, or U x + c if `name` is `hh` instead of `ih`, into out (G, R, n, H). The
        input x is (R, n, in)."""
        weight, bias = self.weight[f"{cell}.weight_{name}"], self.weight[f"{cell}.bias_{name}"]
        self.tape.matmul_by_gate(out, x, weight, bias)

    def f2_encode(self) -> None:
        S, D, last_valid = self.batch.shape.S, self.batch.shape.start, self.batch.last_valid
        for slot in range(S):
            self.step(slot, "encoder")
        if last_valid is not None:  # states[D] = the state at the last valid source step
            self.tape.record(torch.gather, self.encoded, 0, last_valid, out=self.states[D : D + 1])
            self.gates.copy_state(last_valid, slice(1, S + 1), D)

    def b2_encode(self) -> None:
        S, D, last_valid = self.batch.shape.S, self.batch.shape.start, self.batch.last_valid
        if last_valid is not None:  # states[D] = the state at the last valid source step
            self.tape.record(self.dencoded.scatter_add_, 0, last_valid, self.dstates[D : D + 1])
            self.gates.copy_state_backward(last_valid, slice(1, S + 1), D)
        for slot in reversed(range(S)):
            self.step_backward(slot, "encoder")

    def step(self, slot: int, cell: str) -> None:
        """Compute h' from gi and h."""
        gh = self.gates.gh[slot]
        if slot == 0:  # h = 0
            bias = self.weight[f"{cell}.bias_hh"]
            self.tape.record(
                gh.copy_, bias.unflatten(1, (self.gates.num_gates, -1)).transpose(0, 1).unsqueeze(2)
            )
        else:
            self.affine(gh, self.states[slot], cell, "hh")
        self.gates.step(slot, self.gi_of_slot[slot])

    def step_backward(self, slot: int, cell: str) -> None:
        """Compute dgh and dh from dh'."""
        self.gates.step_backward(slot)
        if slot > 0:
            dh, dgh = self.dstates[slot], self.gates.dgh[:, slot].flatten(2, 3)
            self.tape.matmul(dh, dgh, self.weight[f"{cell}.weight_hh"], dh)


class ForwardBackward:
    """The forward pass and the backward pass for one batch shape."""

    def __init__(self, model: RecurrentModel, parameters: FlatGradient, shape: BufferShape) -> None:
        R, N, _, _, F, *_ = shape
        like = parameters.weight["output.weight"]
        tape = self.tape = OpTape(like, runs_innermost=like.stride(0) == 1 and R > 1)
        self.run_segments = tape.run if shape.T <= MAX_FUSED_TARGET_LENGTH else tape.run_directly
        self.batch = BatchBuffers(tape, shape, has_runs=parameters.has_runs)
        self.cells = CellsPass(tape, parameters, self.batch, GATES[type(model.decoder)])
        score = None if model.attention is None else model.attention.score
        self.readout = build_readout(tape, parameters, self.cells, score)
        self.error = MeanSquaredError(self.batch, self.readout.y)
        self.dfed = tape.new(R, N, F)

    def encode(self) -> None:
        """Run stages F1 to F3, which the tape stores as one record."""
        self.cells.f1_inputs()
        self.cells.f2_encode()
        self.readout.f3_memory()

    def decode(self, plan: tuple[Segment, ...]) -> None:
        """Run stage F4 and compute the error."""
        self.run_segments(self.f4_decode, plan)
        self.tape.run(self.error.forward)

    def backward(self, plan: tuple[Segment, ...]) -> None:
        """Run the backward pass, from the gradient of the error to stage B1."""
        self.tape.run(self.start_backward)
        self.run_segments(self.b4_decode, plan)
        self.tape.run(self.b3_to_b1)

    def b3_to_b1(self) -> None:
        self.readout.b3_memory()
        self.cells.b2_encode()
        self.cells.b1_inputs()

    def start_backward(self) -> None:
        self.error.backward(self.readout.dy)
        self.tape.record(self.cells.dstates.zero_)
        self.cells.gates.start_backward()

    def f4_decode(self, plan: tuple[Segment, ...]) -> None:
        run, T, D = self.tape.run, self.batch.shape.T, self.batch.shape.start
        all_steps = self.readout_of_all_steps(plan)
        for first, last, feed in plan:
            if feed != "forced":
                run(self.f4_input, first, feed)
            for slot in range(D + first, D + last):
                run(self.cells.step, slot, "decoder")
            if all_steps is None:
                for block in self.blocks(first, last):
                    run(self.readout.f4_read, *block)
            elif last < T:  # the next step reads this output
                run(all_steps.f4_read, last - 1, last)
        if all_steps is not None:  # recomputes the steps that were computed above
            run(all_steps.f4_read, 0, T)

    def b4_decode(self, plan: tuple[Segment, ...]) -> None:
        run, T, D = self.tape.run, self.batch.shape.T, self.batch.shape.start
        all_steps = self.readout_of_all_steps(plan)
        if all_steps is not None:
            run(all_steps.b4_read, 0, T)
        for first, last, feed in reversed(plan):
            if all_steps is None:
                for block in self.blocks(first, last):
                    run(self.readout.b4_read, *block)
            for slot in reversed(range(D + first, D + last)):
                run(self.cells.step_backward, slot, "decoder")
            if feed != "forced":
                run(self.b4_input, first, feed, all_steps is not None)

    def readout_of_all_steps(self, plan: tuple[Segment, ...]) -> ReadoutOfAllSteps | None:
        """Return the readout if it processes all steps at once, after the last segment of the plan.
        Return None if it processes the steps of each segment at the end of the segment."""
        is_stepwise = all(last - first == 1 for first, last, _ in plan)
        if is_stepwise or not isinstance(self.readout, BilinearScores | NoAttention):
            return None
        return self.readout

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Split the steps `first` to `last - 1` into blocks of at most `readout.block` steps. All
        blocks except the last block end at multiples of `readout.block`, so the tape records few
        different blocks."""
        while first < last:
            end = min(last, first - first % self.readout.block + self.readout.block)
            yield first, end
            first = end

    def f4_input(self, t: int, feed: str) -> None:
        """Compute gi = W x + b, where x is the previous output or the previous target."""
        x = self.batch.feed(t, self.readout.y[:, :, t - 1], mixed=feed == "mixed")
        self.cells.affine(self.cells.gi_of_slot[self.batch.shape.start + t], x, "decoder", "ih")

    def b4_input(self, t: int, feed: str, all_steps: bool) -> None:
        tape, slot = self.tape, self.batch.shape.start + t
        self.cells.gates.inputs_backward(slice(slot, slot + 1))
        dgi = self.cells.gates.dgi[:, slot].flatten(2, 3)
        weight, dy = self.cells.weight["decoder.weight_ih"], self.readout.dy[:, :, t - 1]
        if not all_steps and feed == "free":
            tape.matmul(dy, dgi, weight, dy)
            return
        tape.matmul(self.dfed, dgi, weight)
        if feed == "mixed":
            tape.record(self.dfed.masked_fill_, self.batch.forced[t], 0)
        if all_steps:  # B4 of step t - 1 has run without dfed
            assert isinstance(self.readout, BilinearScores | NoAttention)
            self.readout.b4_add(t - 1, self.dfed)
        else:  # B4 of step t - 1 follows
            tape.record(dy.add_, self.dfed)


def build_readout(
    tape: OpTape, parameters: FlatGradient, states: Recurrence, score: Score | None
) -> Readout:
    """Return the readout for a score; None stands for a model without attention."""
    if score is None:
        return NoAttention(tape, parameters, states)
    if type(score) is AdditiveScore:
        return AdditiveScores(tape, parameters, states)
    return BilinearScores(tape, parameters, states, score)
