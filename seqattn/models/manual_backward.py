"""The loss of the default model family, with a hand-written backward pass.

Autograd records every operation, and for small models the recording takes longer than the
arithmetic. This file contains the forward and backward pass of one model family, the GRU
encoder-decoder of `recurrent.py` with `context: output`, `readout: linear` and a dot-product score.
Each forward stage, F1 to F4, is followed by its backward stage, B1 to B4. The file is optional:
without it, autograd computes the gradient.

The letters in shapes are defined in `seqattn.models.op_tape`. For any x, dx is the gradient of the
loss with respect to x. A step maps the state in a slot to the state in the next slot:

    slot     0       1 to S     D + 1 to D + T
    state    zeros   encoder    decoder

Slot D contains the decoder's initial state. Without lengths, D = S, the slot of the encoder's last
state. With lengths, D = S + 1, and slot D contains a copy of the state at the last valid step.
Three identities simplify the two passes.

1. Every score of the family is a bilinear form of a decoder state h and an encoder state e. With
   q = A h + a and k = B e + b (Vaswani et al. 2017, section 3.2.1),

       q . k / sqrt(K) = h^T M e + v . e + (a term that does not depend on e)
       M = A^T B / sqrt(K),  v = B^T a / sqrt(K)

   Softmax is invariant to a term that is equal for all e, so the gradient of b is zero. For
   `general` (h^T W e; Luong et al. 2015, section 3.1), M is its matrix W, and v = 0. Without
   projections, M is a multiple of the identity.
2. Weights sum to 1, so the output projection W_c of the context can be applied to the values:
   W_c sum_s w_s (V e_s + u) = sum_s w_s (W_c V e_s) + W_c u.
3. The state's term of the output, W_h h + b, has the form of F more scores (keys W_h, bias b).

Therefore [M; v; W_c V] e gives the key, bias and value of a state e, and one matmul with the
decoder states computes both the scores and the state's term of the output.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqattn.models.attention import Attention, Softmax
from seqattn.models.attention.scores import DotScore, GeneralScore, ScaledDotScore, Score
from seqattn.models.batch_buffers import BatchBuffers, BufferShape, FlatGradient, MeanSquaredError
from seqattn.models.cells import GRU
from seqattn.models.layers import Linear
from seqattn.models.op_tape import GRUGates, OpTape
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.teacher_forcing import Segment, segments

# Measured thresholds. No threshold changes a result by more than rounding.
MAX_FUSED_TARGET_LENGTH = 8  # largest T for which all segments of a plan are one record
MIN_INNERMOST_RUNS, MAX_INNERMOST_WIDTH = 8, 4  # smallest R, largest H with the runs innermost

# Every module of a supported model has one of these classes. A subclass may compute something else.
SUPPORTED_CLASSES = frozenset({
    RecurrentModel, nn.ModuleList, GRU, Linear, Attention, Softmax,
    DotScore, ScaledDotScore, GeneralScore,
})  # fmt: skip


def supports(model: object) -> bool:
    """Return whether this file implements the backward pass of a model."""
    return (
        type(model) is RecurrentModel
        and all(type(module) in SUPPORTED_CLASSES for module in model.modules())
        and model.features.has_same_features
        and not model.decoder_above
        and model.dropout == 0
        and model.context_is_output
        and model.combine is None
        and model.attention is not None
        and model.attention.is_plain
    )


def prefers_runs_innermost(model: RecurrentModel, runs: int) -> bool:
    """Return whether the layout with the axis of runs innermost is faster. This is the case for
    very small matrices."""
    return runs >= MIN_INNERMOST_RUNS and model.encoder.hidden <= MAX_INNERMOST_WIDTH


class ManualLoss:
    """The mean squared error of a supported model, and the gradient of this error.

    Args:
        model: a model with parameters that are changed only in place. With several runs, the
            parameters have the shape (R, ...).
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


class GRUPass:
    """The GRUs of the encoder and the decoder (Cho et al. 2014, in the variant of `cells.GRU`):

        gi = W x + b,  gh = U h + c,  h' = gates of gi, gh and h; see `GRUGates`

    Attributes:
        states, dstates: the states and the gradients of the states, (slots + 1, R, N, H). The views
            `encoded` and `decoded` have the shape (S or T, R, N, H).
    """

    def __init__(self, tape: OpTape, parameters: FlatGradient, batch: BatchBuffers) -> None:
        self.tape, self.parameters, self.batch = tape, parameters, batch
        self.weight = parameters.weight
        R, N, S, T, _, H, *_ = batch.shape
        D, L, new = batch.shape.start, batch.shape.start + T, tape.new
        self.slots = {"encoder": slice(0, S), "decoder": slice(D, L)}
        self.gi = {"encoder": new(3, R, S * N, H, runs=1), "decoder": new(3, R, T * N, H, runs=1)}
        self.gi_of_slot = dict(enumerate(self.gi["encoder"].unflatten(2, (S, N)).unbind(2)))
        self.gi_of_slot |= enumerate(self.gi["decoder"].unflatten(2, (T, N)).unbind(2), D)
        self.states, self.dstates = (new(L + 1, R, N, H, runs=1) for _ in range(2))
        self.states[0] = 0
        self.gates = GRUGates(tape, self.states, self.dstates)
        self.encoded, self.dencoded = self.states[1 : S + 1], self.dstates[1 : S + 1]
        self.decoded, self.ddecoded = self.states[D + 1 :], self.dstates[D + 1 :]

    def f1_inputs(self) -> None:
        """Compute gi = W x + b for all steps at once."""
        self.batch.shift_right()
        for cell, slots in self.slots.items():
            self.affine(self.gi[cell], self.batch.x[:, slots].flatten(1, 2), cell, "ih")

    def b1_inputs(self) -> None:
        """Compute dW = dgi^T x and dU = dgh^T h over all steps, and the sums db of dgi and dc of
        dgh."""
        tape, grad = self.tape, self.parameters.grad
        self.gates.inputs_backward(slice(None))
        for cell, slots in self.slots.items():
            both = self.gates.dg[:, slots].flatten(3, 5).flatten(1, 2)  # (R, steps * N, 6H)
            dgi, dgh = both.chunk(2, dim=-1)
            x, h = self.batch.x[:, slots].flatten(1, 2), tape.steps_as_rows(self.states[slots])
            tape.matmul(grad[f"{cell}.weight_ih"], dgi.mT, x)
            tape.matmul(grad[f"{cell}.weight_hh"], dgh.mT, h)
            dbiases = self.parameters.adjacent(f"{cell}.bias_ih", f"{cell}.bias_hh")
            tape.record(torch.sum, both, 1, out=dbiases)

    def affine(self, out: Tensor, x: Tensor, cell: str, name: str) -> None:
        """Compute out (3, R, n, H) = W x + b (name: ih) or U x + c (name: hh) for x (R, n, in)."""
        weight, bias = self.weight[f"{cell}.weight_{name}"], self.weight[f"{cell}.bias_{name}"]
        self.tape.matmul_by_gate(out, x, weight, bias)

    def f2_encode(self) -> None:
        S, D, last_valid = self.batch.shape.S, self.batch.shape.start, self.batch.last_valid
        for slot in range(S):
            self.step(slot, "encoder")
        if last_valid is not None:  # states[D] = the state at the last valid source step
            self.tape.record(torch.gather, self.encoded, 0, last_valid, out=self.states[D : D + 1])

    def b2_encode(self) -> None:
        S, D, last_valid = self.batch.shape.S, self.batch.shape.start, self.batch.last_valid
        if last_valid is not None:  # states[D] = the state at the last valid source step
            self.tape.record(self.dencoded.scatter_add_, 0, last_valid, self.dstates[D : D + 1])
        for slot in reversed(range(S)):
            self.step_backward(slot, "encoder")

    def step(self, slot: int, cell: str) -> None:
        """Compute h' from gi and h."""
        gh = self.gates.gh[slot]
        if slot == 0:  # h = 0
            bias = self.weight[f"{cell}.bias_hh"]
            self.tape.record(gh.copy_, bias.unflatten(1, (3, -1)).transpose(0, 1).unsqueeze(2))
        else:
            self.affine(gh, self.states[slot], cell, "hh")
        self.gates.step(slot, self.gi_of_slot[slot])

    def step_backward(self, slot: int, cell: str) -> None:
        """Compute dgh and dh from dh'."""
        self.gates.step_backward(slot)
        if slot > 0:
            dh, dgh = self.dstates[slot], self.gates.dgh[:, slot].flatten(2, 3)
            self.tape.matmul(dh, dgh, self.weight[f"{cell}.weight_hh"], dh)


class AttentionPass:
    """Attention with the new state as query (Luong et al. 2015, section 3) and y = W [c; h] + b:

        memory = [M; v; W_c V] e for all e, and [W_h; b] in F more rows
        joint  = bias + h keys^T                        S scores, and the state's term of y
        y      = (state's term) + softmax(scores) values

    Attributes:
        memory: array (S + F, R, N, H + 1 + F). The last axis has the key (H), the bias (1) and the
            value (F).
        joint, djoint: `joint` and its gradient, (R, N, T, S + F). The last F columns are dy.
    """

    def __init__(self, tape: OpTape, parameters: FlatGradient, gru: GRUPass, score: Score) -> None:
        self.tape, self.gru, self.w, self.d = tape, gru, parameters.weight, parameters.grad
        R, N, S, T, F, H, *_ = gru.batch.shape
        new, P = tape.new, H + 1 + F
        self.is_general = type(score) is GeneralScore
        self.is_projected = "attention.score.query.weight" in self.w
        self.has_value = "attention.value.weight" in self.w
        self.to_memory, self.dto_memory = new(R, P, H).zero_(), new(R, P, H)
        if type(score) in (DotScore, ScaledDotScore):  # M, unless there are projections
            divisor = math.sqrt(H) if type(score) is ScaledDotScore else 1
            self.to_memory[:, :H] = torch.diag(tape.one.expand(H)) / divisor
        self.bias = new(R, F, 1) if self.has_value else self.w["output.bias"].unsqueeze(2)
        self.memory, self.dmemory = (new(S + F, R, N, P, runs=1) for _ in range(2))
        self.keys, self.key_bias, self.values = self.unpack(self.memory)
        self.joint, self.djoint = new(R, N, T, S + F), new(R, N, T, S + F)
        self.weights, self.total, self.y = new(R, N, T, S), new(R, N, T, 1), new(R, N, T, F)

    def unpack(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views of keys (R, N, S + F, H), biases (R, N, 1, S + F), values (R, N, S, F)."""
        (_, _, S, _, _, H, *_), each = self.gru.batch.shape, memory.permute(1, 2, 0, 3)
        return each[..., :H], each[..., H].unsqueeze(2), each[:, :, :S, H + 1 :]

    def f3_memory(self) -> None:
        """Compute keys, biases and values of the source, and keys and biases of the output."""
        tape, padding, memory = self.tape, self.gru.batch.padding, self.memory
        _, _, S, _, _, H, *_ = self.gru.batch.shape
        self.f3_weights()
        tape.matmul_to_steps(memory[:S], tape.steps_as_rows(self.gru.encoded), self.to_memory.mT)
        if padding is not None:
            tape.record(memory[:S, ..., H].masked_fill_, padding.permute(2, 0, 1), -math.inf)
        output = self.w["output.weight"][..., H:].transpose(0, 1)
        tape.record(memory[S:, ..., :H].copy_, output.unsqueeze(2))
        tape.record(memory[S:, ..., H].copy_, self.bias.transpose(0, 1))

    def b3_memory(self) -> None:
        tape, dmemory = self.tape, self.dmemory
        _, _, S, _, _, H, *_ = self.gru.batch.shape
        dkeys, dbias, dvalues = self.unpack(dmemory)
        # joint = bias + queries keys^T, y = ... + weights values, for all steps at once
        tape.matmul(dkeys, self.djoint.mT, self.gru.decoded.permute(1, 2, 0, 3))
        tape.record(torch.sum, self.djoint, 2, keepdim=True, out=dbias)
        tape.matmul(dvalues, self.weights.mT, self.djoint[..., S:])
        # memory = to_memory e, and the output's keys and biases
        doutput = self.d["output.weight"][..., H:].transpose(0, 1)
        tape.record(torch.sum, dmemory[S:, ..., :H], 2, out=doutput)
        tape.record(torch.sum, dmemory[S:, ..., H], 2, out=self.d["output.bias"].T)
        rows, encoded = tape.steps_as_rows(dmemory[:S]), tape.steps_as_rows(self.gru.encoded)
        tape.matmul(self.dto_memory, rows.mT, encoded)
        tape.matmul_to_steps(self.gru.dencoded, rows, self.to_memory, accumulate=True)
        self.b3_weights()

    def f3_weights(self) -> None:
        """Compute the matrix [M; v; W_c V], and the bias b + W_c u of the output."""
        tape, w, (*_, F, H, _, _) = self.tape, self.w, self.gru.batch.shape
        M, v, W_cV = self.to_memory.split([H, 1, F], dim=1)
        W_c = w["output.weight"][..., :H]
        if self.is_projected:
            A, B = w["attention.score.query.weight"], w["attention.score.key.weight"]
            a = w["attention.score.query.bias"].unsqueeze(1)
            tape.matmul(M, A.mT, B)
            tape.matmul(v, a, B)
            tape.record(self.to_memory[:, : H + 1].mul_, 1 / math.sqrt(B.shape[1]))
        elif self.is_general:
            tape.record(M.copy_, w["attention.score.key.weight"])
        if self.has_value:
            V, u = w["attention.value.weight"], w["attention.value.bias"].unsqueeze(2)
            tape.matmul(W_cV, W_c, V)
            tape.matmul(self.bias, W_c, u, w["output.bias"].unsqueeze(2))
        else:
            tape.record(W_cV.copy_, W_c)

    def b3_weights(self) -> None:
        tape, w, d, (*_, F, H, _, _) = self.tape, self.w, self.d, self.gru.batch.shape
        dM, dv, dW_cV = self.dto_memory.split([H, 1, F], dim=1)
        dW_c, dbias = d["output.weight"][..., :H], d["output.bias"].unsqueeze(2)
        if self.is_projected:
            A, dA = (of["attention.score.query.weight"] for of in (w, d))
            a, da = (of["attention.score.query.bias"].unsqueeze(2) for of in (w, d))
            B, dB = (of["attention.score.key.weight"] for of in (w, d))
            tape.record(self.dto_memory[:, : H + 1].mul_, 1 / math.sqrt(B.shape[1]))
            tape.matmul(dA, B, dM.mT)
            tape.matmul(da, B, dv.mT)
            tape.record(d["attention.score.key.bias"].zero_)  # gradient clipping writes into it
            tape.matmul(dB, A, dM)
            tape.matmul(dB, a, dv, dB)
        elif self.is_general:
            tape.record(d["attention.score.key.weight"].copy_, dM)
        if self.has_value:
            W_c, V = w["output.weight"][..., :H], w["attention.value.weight"]
            u, du = w["attention.value.bias"].unsqueeze(1), d["attention.value.bias"].unsqueeze(2)
            tape.matmul(d["attention.value.weight"], W_c.mT, dW_cV)
            tape.matmul(du, W_c.mT, dbias)
            tape.matmul(dW_c, dW_cV, V.mT)
            tape.matmul(dW_c, dbias, u, dW_c)
        else:
            tape.record(dW_c.copy_, dW_cV)

    def f4_attend(self, first: int, last: int) -> None:
        """Compute the attention and the output of the decoder steps `first` to `last - 1`."""
        tape, (_, _, S, *_) = self.tape, self.gru.batch.shape
        queries = self.gru.decoded[first:last].permute(1, 2, 0, 3)
        joint, weights = self.joint[:, :, first:last], self.weights[:, :, first:last]
        tape.matmul(joint, queries, self.keys.mT, self.key_bias)
        tape.softmax(weights, joint[..., :S])
        tape.matmul(self.y[:, :, first:last], weights, self.values, joint[..., S:])

    def b4_attend(self, first: int, last: int, djoint: Tensor | None = None) -> None:
        """Compute dh and the first S columns of djoint (R, N, steps, S + F) from the last F."""
        tape, (_, _, S, *_) = self.tape, self.gru.batch.shape
        djoint = self.djoint[:, :, first:last] if djoint is None else djoint
        weights, total = self.weights[:, :, first:last], self.total[:, :, first:last]
        tape.matmul(djoint[..., :S], djoint[..., S:], self.values.mT)
        tape.softmax_backward(djoint[..., :S], weights, total)
        dqueries = self.gru.ddecoded[first:last].permute(1, 2, 0, 3)
        tape.matmul(dqueries, djoint, self.keys, dqueries)


class ForwardBackward:
    """The forward pass and the backward pass for one batch shape."""

    def __init__(self, model: RecurrentModel, parameters: FlatGradient, shape: BufferShape) -> None:
        R, N, S, _, F, *_ = shape
        like = parameters.weight["output.weight"]
        assert model.attention is not None
        tape = self.tape = OpTape(like, runs_innermost=like.stride(0) == 1 and R > 1)
        self.run_segments = tape.run if shape.T <= MAX_FUSED_TARGET_LENGTH else tape.run_directly
        self.batch = BatchBuffers(tape, shape, has_runs=parameters.has_runs)
        self.gru = GRUPass(tape, parameters, self.batch)
        self.attention = AttentionPass(tape, parameters, self.gru, model.attention.score)
        self.error = MeanSquaredError(self.batch, self.attention.y)
        self.dfed, self.djoint_prev = tape.new(R, N, F), tape.new(R, N, 1, S + F)

    def encode(self) -> None:
        """Run the stages F1 to F3, which the tape stores as one record."""
        self.gru.f1_inputs()
        self.gru.f2_encode()
        self.attention.f3_memory()

    def decode(self, plan: tuple[Segment, ...]) -> None:
        """Run the stage F4 and compute the error."""
        self.run_segments(self.f4_decode, plan)
        self.tape.run(self.error.forward)

    def backward(self, plan: tuple[Segment, ...]) -> None:
        """Run the backward pass, from the gradient of the error to the stage B1."""
        self.tape.run(self.start_backward)
        self.run_segments(self.b4_decode, plan)
        self.tape.run(self.b3_to_b1)

    def b3_to_b1(self) -> None:
        self.attention.b3_memory()
        self.gru.b2_encode()
        self.gru.b1_inputs()

    def start_backward(self) -> None:
        self.error.backward(self.attention.djoint[..., self.batch.shape.S :])
        self.tape.record(self.gru.dstates.zero_)
        self.gru.gates.compute_jacobians()

    def f4_decode(self, plan: tuple[Segment, ...]) -> None:
        run, T, D = self.tape.run, self.batch.shape.T, self.batch.shape.start
        is_stepwise = all(last - first == 1 for first, last, _ in plan)
        for first, last, feed in plan:
            if feed != "forced":
                run(self.f4_input, first, feed)
            for slot in range(D + first, D + last):
                run(self.gru.step, slot, "decoder")
            if is_stepwise or last < T:  # the next step reads this output
                run(self.attention.f4_attend, last - 1, last)
        if not is_stepwise:  # recomputes the steps that were computed above
            run(self.attention.f4_attend, 0, T)

    def b4_decode(self, plan: tuple[Segment, ...]) -> None:
        run, T, D = self.tape.run, self.batch.shape.T, self.batch.shape.start
        is_stepwise = all(last - first == 1 for first, last, _ in plan)
        if not is_stepwise:
            run(self.attention.b4_attend, 0, T)
        for first, last, feed in reversed(plan):
            if is_stepwise:
                run(self.attention.b4_attend, first, last)
            for slot in reversed(range(D + first, D + last)):
                run(self.gru.step_backward, slot, "decoder")
            if feed != "forced":
                run(self.b4_input, first, feed, is_stepwise)

    def f4_input(self, t: int, feed: str) -> None:
        """Compute gi = W x + b, where x is the previous output or, if forced, the target."""
        x = self.batch.feed(t, self.attention.y[:, :, t - 1], mixed=feed == "mixed")
        self.gru.affine(self.gru.gi_of_slot[self.batch.shape.start + t], x, "decoder", "ih")

    def b4_input(self, t: int, feed: str, is_stepwise: bool) -> None:
        tape, S, slot = self.tape, self.batch.shape.S, self.batch.shape.start + t
        self.gru.gates.inputs_backward(slice(slot, slot + 1))
        dgi = self.gru.gates.dgi[:, slot].flatten(2, 3)
        weight = self.gru.weight["decoder.weight_ih"]
        djoint = self.attention.djoint[:, :, t - 1 : t]
        dy = djoint[:, :, 0, S:]
        if is_stepwise and feed == "free":
            tape.matmul(dy, dgi, weight, dy)
            return
        tape.matmul(self.dfed, dgi, weight)
        if feed == "mixed":
            tape.record(self.dfed.masked_fill_, self.batch.forced[t], 0)
        if is_stepwise:
            tape.record(dy.add_, self.dfed)
        else:  # B4 is linear in dy and ran without dfed, so add the result for dfed alone
            tape.record(self.djoint_prev[..., S:].copy_, self.dfed.unsqueeze(2))
            self.attention.b4_attend(t - 1, t, self.djoint_prev)
            tape.record(djoint.add_, self.djoint_prev)
