"""The readouts of `manual_backward.py`, which map decoder states to outputs, and their backward
passes.

Three classes compute the outputs y (R, N, T, F), with the methods of `Readout`:

    NoAttention     y = W h + b
    BilinearScores  dot products (dot, scaled_dot, general) and equal scores (uniform)
    AdditiveScores  v . tanh(W q + U k + b), in `manual_additive.py`

Each forward stage (F3, F4) is followed by its backward stage (B3, B4). The letters in shapes are
defined in `seqattn.models.op_tape`. For any x, dx is the gradient of the loss with respect to x.
Three identities simplify the passes with attention.

1. Every dot-product score is a bilinear form of a decoder state h and an encoder state e. With
   q = A h + a and k = B e + b (Vaswani et al. 2017, section 3.2.1),

       q . k / sqrt(K) = h^T M e + v . e + (a term that does not depend on e)
       M = A^T B / sqrt(K),  v = B^T a / sqrt(K)

   Softmax is invariant to a term that is equal for all e, so the gradient of b is zero. For
   `general` (h^T W e; Luong et al. 2015, section 3.1), M is its matrix W, and v = 0. For `uniform`,
   M = 0. For dot products without projections, M is a multiple of the identity.
2. Weights sum to 1, so the output projection W_c of the context can be applied to the values:
   W_c sum_s w_s (V e_s + u) = sum_s w_s (W_c V e_s) + W_c u.
3. The state's term of the output, W_h h + b, is one more linear map of the state, so it is computed
   in the same matmul as the scores or the projected query.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from seqattn.models.attention.scores import (
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
)
from seqattn.models.batch_buffers import BatchBuffers, FlatGradient
from seqattn.models.op_tape import OpTape


class Recurrence(Protocol):
    """The states that a readout reads, and the gradients that it adds to.

    Attributes:
        encoded, dencoded: the encoder states and their gradients, (S, R, N, H).
        decoded, ddecoded: the decoder states and their gradients, (T, R, N, H).
    """

    batch: BatchBuffers
    encoded: Tensor
    dencoded: Tensor
    decoded: Tensor
    ddecoded: Tensor


class Readout(Protocol):
    """The outputs of the decoder, and their backward pass.

    Attributes:
        y, dy: the outputs and their gradients, (R, N, T, F). The caller fills `dy`.
        block: the number of steps that fit into one call of `f4_read` or `b4_read`.
    """

    y: Tensor
    dy: Tensor
    block: int

    def f3_memory(self) -> None:
        """Compute, from the encoder states, the memory that the decoder reads."""

    def b3_memory(self) -> None:
        """Compute the gradients of the parameters, and add the gradients that flow through the
        memory to the gradients of the encoder states."""

    def f4_read(self, first: int, last: int) -> None:
        """Compute the outputs of the decoder steps `first` to `last - 1`."""

    def b4_read(self, first: int, last: int) -> None:
        """For the decoder steps `first` to `last - 1`, add the gradients that flow through the
        outputs to the gradients of the decoder states."""


class ReadoutOfAllSteps(Readout, Protocol):
    """A readout that can read all steps at once. In training, this saves operations, although the
    backward pass then starts before the gradients of all outputs are complete."""

    def b4_add(self, t: int, dy: Tensor) -> None:
        """Add another gradient, (R, N, F), of the output of step t, for which `b4_read` has been
        called. B4 is linear in the gradient of the output, so B4 runs for `dy` alone, and the
        results are added."""


class NoAttention:
    """The outputs of a decoder without attention, y = W h + b."""

    def __init__(self, tape: OpTape, parameters: FlatGradient, states: Recurrence) -> None:
        self.tape, self.states = tape, states
        self.weight, self.dweight = (
            of["output.weight"] for of in (parameters.weight, parameters.grad)
        )
        self.bias, self.dbias = (of["output.bias"] for of in (parameters.weight, parameters.grad))
        R, N, _, T, F, *_ = states.batch.shape
        self.block = T
        self.y_steps, self.dy_steps = (tape.new(T, R, N, F, runs=1) for _ in range(2))
        self.y, self.dy = self.y_steps.permute(1, 2, 0, 3), self.dy_steps.permute(1, 2, 0, 3)

    def f3_memory(self) -> None:
        """Do nothing, because the decoder does not read the encoder states."""

    def b3_memory(self) -> None:
        tape, dy = self.tape, self.tape.steps_as_rows(self.dy_steps)
        tape.matmul(self.dweight, dy.mT, tape.steps_as_rows(self.states.decoded))
        tape.record(torch.sum, dy, 1, out=self.dbias)

    def f4_read(self, first: int, last: int) -> None:
        tape, y = self.tape, self.y_steps[first:last]
        rows = tape.steps_as_rows(self.states.decoded[first:last])
        tape.record(y.copy_, self.bias.unsqueeze(1))
        tape.matmul_to_steps(y, rows, self.weight.mT, accumulate=True)

    def b4_read(self, first: int, last: int) -> None:
        rows = self.tape.steps_as_rows(self.dy_steps[first:last])
        dh = self.states.ddecoded[first:last]
        self.tape.matmul_to_steps(dh, rows, self.weight, accumulate=True)

    def b4_add(self, t: int, dy: Tensor) -> None:
        self.tape.matmul(self.states.ddecoded[t], dy, self.weight, self.states.ddecoded[t])
        self.tape.record(self.dy_steps[t].add_, dy)


class OutputOfValues:
    """The map W_c V from encoder states to the values of the output, and the bias b + W_c u
    (identity 2). Without a projection of the values, V is the identity and u = 0."""

    def __init__(self, tape: OpTape, parameters: FlatGradient, R: int, F: int, H: int) -> None:
        self.tape, self.w, self.d, self.H = tape, parameters.weight, parameters.grad, H
        self.has_value = "attention.value.weight" in self.w
        self.bias = tape.new(R, F, 1) if self.has_value else self.w["output.bias"].unsqueeze(2)

    def forward(self, W_cV: Tensor) -> None:
        """Compute W_c V (R, F, H) and the bias."""
        tape, w = self.tape, self.w
        W_c = w["output.weight"][..., : self.H]
        if self.has_value:
            V, u = w["attention.value.weight"], w["attention.value.bias"].unsqueeze(2)
            tape.matmul(W_cV, W_c, V)
            tape.matmul(self.bias, W_c, u, w["output.bias"].unsqueeze(2))
        else:
            tape.record(W_cV.copy_, W_c)

    def backward(self, dW_cV: Tensor) -> None:
        """Compute the gradient of W_c and, if the values are projected, the gradients of V and u.
        The gradient of the output bias must already be computed."""
        tape, w, d = self.tape, self.w, self.d
        dW_c, dbias = d["output.weight"][..., : self.H], d["output.bias"].unsqueeze(2)
        if self.has_value:
            W_c, V = w["output.weight"][..., : self.H], w["attention.value.weight"]
            u, du = w["attention.value.bias"].unsqueeze(1), d["attention.value.bias"].unsqueeze(2)
            tape.matmul(d["attention.value.weight"], W_c.mT, dW_cV)
            tape.matmul(du, W_c.mT, dbias)
            tape.matmul(dW_c, dW_cV, V.mT)
            tape.matmul(dW_c, dbias, u, dW_c)
        else:
            tape.record(dW_c.copy_, dW_cV)


class BilinearScores:
    """Attention whose scores are a bilinear form, with the new state as query (Luong et al. 2015,
    section 3), and y = W [c; h] + b:

        memory = [M; v; W_c V] e for all e, and [W_h; b] in F more rows
        joint  = bias + h keys^T                        S scores, and the state's term of y
        y      = (state's term) + softmax(scores) values

    Attributes:
        memory: array (S + F, R, N, H + 1 + F). The last axis contains the key (H numbers), the
            bias (1 number) and the value (F numbers).
        joint, djoint: `joint` and its gradient, (R, N, T, S + F). The last F columns are dy.
    """

    def __init__(
        self, tape: OpTape, parameters: FlatGradient, states: Recurrence, score: Score
    ) -> None:
        self.tape, self.states, self.w, self.d = tape, states, parameters.weight, parameters.grad
        R, N, S, T, F, H, *_ = states.batch.shape
        new, P, self.block = tape.new, H + 1 + F, T
        self.is_general = type(score) is GeneralScore
        self.is_projected = "attention.score.query.weight" in self.w
        self.output = OutputOfValues(tape, parameters, R, F, H)
        self.to_memory, self.dto_memory = new(R, P, H).zero_(), new(R, P, H)
        if type(score) in (DotScore, ScaledDotScore):  # M, unless there are projections
            divisor = math.sqrt(H) if type(score) is ScaledDotScore else 1
            self.to_memory[:, :H] = torch.diag(tape.one.expand(H)) / divisor
        self.memory, self.dmemory = (new(S + F, R, N, P, runs=1) for _ in range(2))
        self.keys, self.key_bias, self.values = self.unpack(self.memory)
        self.joint, self.djoint = new(R, N, T, S + F), new(R, N, T, S + F)
        self.weights, self.total, self.y = new(R, N, T, S), new(R, N, T, 1), new(R, N, T, F)
        self.dy, self.djoint_of_add = self.djoint[..., S:], new(R, N, 1, S + F)

    def unpack(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views: keys (R, N, S + F, H), biases (R, N, 1, S + F) and values (R, N, S, F)."""
        (_, _, S, _, _, H, *_), each = self.states.batch.shape, memory.permute(1, 2, 0, 3)
        return each[..., :H], each[..., H].unsqueeze(2), each[:, :, :S, H + 1 :]

    def f3_memory(self) -> None:
        """Compute keys, biases and values of the source, and keys and biases of the output."""
        tape, padding, memory = self.tape, self.states.batch.padding, self.memory
        _, _, S, _, _, H, *_ = self.states.batch.shape
        self.f3_weights()
        rows = tape.steps_as_rows(self.states.encoded)
        tape.matmul_to_steps(memory[:S], rows, self.to_memory.mT)
        if padding is not None:
            tape.record(memory[:S, ..., H].masked_fill_, padding.permute(2, 0, 1), -math.inf)
        output = self.w["output.weight"][..., H:].transpose(0, 1)
        tape.record(memory[S:, ..., :H].copy_, output.unsqueeze(2))
        tape.record(memory[S:, ..., H].copy_, self.output.bias.transpose(0, 1))

    def b3_memory(self) -> None:
        tape, dmemory = self.tape, self.dmemory
        _, _, S, _, _, H, *_ = self.states.batch.shape
        dkeys, dbias, dvalues = self.unpack(dmemory)
        # joint = bias + queries keys^T, y = ... + weights values, for all steps at once
        tape.matmul(dkeys, self.djoint.mT, self.states.decoded.permute(1, 2, 0, 3))
        tape.record(torch.sum, self.djoint, 2, keepdim=True, out=dbias)
        tape.matmul(dvalues, self.weights.mT, self.dy)
        # memory = to_memory e, and the output's keys and biases
        doutput = self.d["output.weight"][..., H:].transpose(0, 1)
        tape.record(torch.sum, dmemory[S:, ..., :H], 2, out=doutput)
        tape.record(torch.sum, dmemory[S:, ..., H], 2, out=self.d["output.bias"].T)
        rows, encoded = tape.steps_as_rows(dmemory[:S]), tape.steps_as_rows(self.states.encoded)
        tape.matmul(self.dto_memory, rows.mT, encoded)
        tape.matmul_to_steps(self.states.dencoded, rows, self.to_memory, accumulate=True)
        self.b3_weights()

    def f3_weights(self) -> None:
        """Compute the matrix [M; v; W_c V]."""
        tape, w, (*_, F, H, _, _) = self.tape, self.w, self.states.batch.shape
        M, v, W_cV = self.to_memory.split([H, 1, F], dim=1)
        if self.is_projected:
            A, B = w["attention.score.query.weight"], w["attention.score.key.weight"]
            a = w["attention.score.query.bias"].unsqueeze(1)
            tape.matmul(M, A.mT, B)
            tape.matmul(v, a, B)
            tape.record(self.to_memory[:, : H + 1].mul_, 1 / math.sqrt(B.shape[1]))
        elif self.is_general:
            tape.record(M.copy_, w["attention.score.key.weight"])
        self.output.forward(W_cV)

    def b3_weights(self) -> None:
        tape, w, d, (*_, F, H, _, _) = self.tape, self.w, self.d, self.states.batch.shape
        dM, dv, dW_cV = self.dto_memory.split([H, 1, F], dim=1)
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
        self.output.backward(dW_cV)

    def f4_read(self, first: int, last: int) -> None:
        tape, (_, _, S, *_) = self.tape, self.states.batch.shape
        queries = self.states.decoded[first:last].permute(1, 2, 0, 3)
        joint, weights = self.joint[:, :, first:last], self.weights[:, :, first:last]
        tape.matmul(joint, queries, self.keys.mT, self.key_bias)
        tape.softmax(weights, joint[..., :S])
        tape.matmul(self.y[:, :, first:last], weights, self.values, joint[..., S:])

    def b4_read(self, first: int, last: int) -> None:
        self.add_gradients(first, last, self.djoint[:, :, first:last])

    def b4_add(self, t: int, dy: Tensor) -> None:
        (_, _, S, *_), djoint = self.states.batch.shape, self.djoint_of_add
        self.tape.record(djoint[..., S:].copy_, dy.unsqueeze(2))
        self.add_gradients(t, t + 1, djoint)
        self.tape.record(self.djoint[:, :, t : t + 1].add_, djoint)

    def add_gradients(self, first: int, last: int, djoint: Tensor) -> None:
        """Compute the first S columns of djoint (R, N, steps, S + F) from the last F columns, and
        add the gradient of the queries to dh."""
        tape, (_, _, S, *_) = self.tape, self.states.batch.shape
        weights, total = self.weights[:, :, first:last], self.total[:, :, first:last]
        tape.matmul(djoint[..., :S], djoint[..., S:], self.values.mT)
        tape.softmax_backward(djoint[..., :S], weights, total)
        dqueries = self.states.ddecoded[first:last].permute(1, 2, 0, 3)
        tape.matmul(dqueries, djoint, self.keys, dqueries)
