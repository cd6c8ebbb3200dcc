"""The readouts of `manual_backward.py`, which map decoder states to outputs, and their backward
passes.

Three classes compute the outputs y (R, N, T, F), with the methods of `Readout`:

    NoAttention     y = W h + b
    BilinearScores  dot products (dot, scaled_dot, general) and equal scores (uniform), with any
                    number of heads
    AdditiveScores  v . tanh(W q + U k + b)

Each forward stage (F3, F4) is followed by its backward stage (B3, B4). The letters in shapes are
defined in `seqattn.models.op_tape`. For any x, dx is the gradient of the loss with respect to x.
Four identities simplify the passes with attention.

1. Every dot-product score is a bilinear form of a decoder state h and an encoder state e, plus
   terms that depend on at most one of them. With q = W_q h + b_q and k = W_k e + b_k (Vaswani et
   al. 2017, section 3.2.1),

       q . k / sqrt(K) = h^T M e + v . e + (a term that does not depend on e)
       M = W_q^T W_k / sqrt(K),  v = W_k^T b_q / sqrt(K)

   Softmax is invariant to a term that is equal for all e, so the gradient of b_k is zero. For
   `general` (h^T W e; Luong et al. 2015, section 3.1), M = W and v = 0. For `uniform`, M = 0 and
   v = 0. For dot products without projections, M is a multiple of the identity, and v = 0.
2. Weights sum to 1, so the output projection W_c of the context can be applied to the values
   V e_s + u:
   W_c sum_s w_s (V e_s + u) = sum_s w_s (W_c V e_s) + W_c u.
3. The state's term of the output, W_h h + b, is one more linear map of the state, so it is computed
   in the same matmul as the scores or the projected query.
4. Head j of A heads uses the j-th block of K / A features of q and k, of H / A features of V e + u,
   and of H / A columns of W_c (Vaswani et al. 2017, section 3.2.2). Identities 1 and 2 hold for the
   blocks of each head: M_j and v_j follow from the blocks of W_q, b_q and W_k, and the values of
   head j are the block of W_c times the block of V e_s. The outputs of the heads add up. Attention
   with A heads over S states is therefore computed like attention with one head over A * S states,
   except that softmax normalizes the S weights of each head.
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
from seqattn.models.op_tape import BatchBuffers, FlatGradient, OpTape

# The largest number of elements of `s` in a block of steps. A larger block does not fit into the
# caches of common CPUs. No block size changes a result by more than rounding.
MAX_BLOCK_SIZE = 2**20


class Recurrence(Protocol):
    """The states that a readout reads, and the gradients of the states, to which the readout adds.

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
        block: the largest number of steps of one call of `f4_read` or `b4_read`.
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
        """Process another gradient dy (R, N, F) of the output of step t, after `b4_read` has
        processed this step. B4 is linear in the gradient of the output, so B4 runs for dy alone,
        and the results are added to the results of `b4_read`."""


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


def blocks(width: int, heads: int) -> list[slice]:
    """Return, for each head, the slice of the `width` features that the head uses."""
    size = width // heads
    return [slice(head * size, (head + 1) * size) for head in range(heads)]


class OutputOfValues:
    """The map W_c V of each head from encoder states to the values of the output, and the bias
    b + W_c u (identities 2 and 4). Without a projection of the values, V is the identity and u = 0.
    """

    def __init__(
        self, tape: OpTape, parameters: FlatGradient, R: int, F: int, H: int, heads: int = 1
    ) -> None:
        self.tape, self.w, self.d, self.H = tape, parameters.weight, parameters.grad, H
        self.blocks = blocks(H, heads)
        self.has_value = "attention.value.weight" in self.w
        self.bias = tape.new(R, F, 1) if self.has_value else self.w["output.bias"].unsqueeze(2)

    def forward(self, *W_cV: Tensor) -> None:
        """Compute W_c V (R, F, H) of each head, and the bias. Without a projection of the values,
        only the block of columns of the head is written."""
        tape, w = self.tape, self.w
        W_c = w["output.weight"][..., : self.H]
        for of_head, block in zip(W_cV, self.blocks, strict=True):
            if self.has_value:
                tape.matmul(of_head, W_c[..., block], w["attention.value.weight"][:, block])
            else:
                tape.record(of_head[..., block].copy_, W_c[..., block])
        if self.has_value:
            u = w["attention.value.bias"].unsqueeze(2)
            tape.matmul(self.bias, W_c, u, w["output.bias"].unsqueeze(2))

    def backward(self, *dW_cV: Tensor) -> None:
        """Compute the gradient of W_c and, if the values are projected, the gradients of V and u.
        The gradient of the output bias must already be computed."""
        tape, w, d = self.tape, self.w, self.d
        dW_c, dbias = d["output.weight"][..., : self.H], d["output.bias"].unsqueeze(2)
        if not self.has_value:
            for of_head, block in zip(dW_cV, self.blocks, strict=True):
                tape.record(dW_c[..., block].copy_, of_head[..., block])
            return
        W_c, (V, dV) = (
            w["output.weight"][..., : self.H],
            (of["attention.value.weight"] for of in (w, d)),
        )
        u, du = w["attention.value.bias"].unsqueeze(1), d["attention.value.bias"].unsqueeze(2)
        for of_head, block in zip(dW_cV, self.blocks, strict=True):
            tape.matmul(dV[:, block], W_c[..., block].mT, of_head)
            tape.matmul(dW_c[..., block], of_head, V[:, block].mT)
        tape.matmul(du, W_c.mT, dbias)
        tape.matmul(dW_c, dbias, u, dW_c)


class BilinearScores:
    """Attention whose scores are a bilinear form, with the new state as query (Luong et al. 2015,
    section 3), and y = W [c; h] + b. With A heads (identity 4):

        memory = [M; v; W_c V] e for all heads and all e, and [W_h; b] in F more rows
        joint  = bias + h keys^T                        A * S scores, and the state's term of y
        y      = (state's term) + softmax(scores of each head) values

    Attributes:
        memory: array (A * S + F, R, N, H + 1 + F). The last axis contains the key (H numbers), the
            bias (1 number) and the value (F numbers).
        joint, djoint: `joint` and its gradient, (R, N, T, A * S + F). The last F columns of
            `djoint` are dy.
        C: the number of scores of a query, A * S.
    """

    def __init__(
        self, tape: OpTape, parameters: FlatGradient, states: Recurrence, score: Score
    ) -> None:
        self.tape, self.states, self.w, self.d = tape, states, parameters.weight, parameters.grad
        R, N, S, T, F, H, *_ = states.batch.shape
        A, new, P, self.block = score.heads, tape.new, H + 1 + F, T
        self.A, self.C = A, (C := A * S)
        self.is_general = type(score) is GeneralScore
        self.is_projected = "attention.score.query.weight" in self.w
        self.output = OutputOfValues(tape, parameters, R, F, H, A)
        self.to_memory = [new(R, P, H).zero_() for _ in range(A)]
        self.dto_memory = [new(R, P, H) for _ in range(A)]
        if type(score) in (DotScore, ScaledDotScore):  # M, unless there are projections
            divisor = math.sqrt(H // A) if type(score) is ScaledDotScore else 1
            identity = torch.diag(tape.one.expand(H)) / divisor
            for to_memory, block in zip(self.to_memory, blocks(H, A), strict=True):
                to_memory[:, block] = identity[block]
        self.memory, self.dmemory = (new(C + F, R, N, P, runs=1) for _ in range(2))
        self.keys, self.key_bias, self.values = self.unpack(self.memory)
        self.joint, self.djoint = new(R, N, T, C + F), new(R, N, T, C + F)
        self.weights, self.total, self.y = new(R, N, T, C), new(R, N, T, A, 1), new(R, N, T, F)
        self.dy, self.djoint_of_add = self.djoint[..., C:], new(R, N, 1, C + F)

    def unpack(self, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views: keys (R, N, A * S + F, H), biases (R, N, 1, A * S + F) and values (R, N,
        A * S, F)."""
        (*_, H, _, _), each = self.states.batch.shape, memory.permute(1, 2, 0, 3)
        return each[..., :H], each[..., H].unsqueeze(2), each[:, :, : self.C, H + 1 :]

    def by_head(self, columns: Tensor) -> Tensor:
        """Return a view (R, N, steps, A, S) of the first A * S columns of `columns`."""
        found: Tensor = columns[..., : self.C].unflatten(-1, (self.A, -1))
        return found

    def f3_memory(self) -> None:
        """Compute keys, biases and values of the source, and keys and biases of the output."""
        tape, padding, C = self.tape, self.states.batch.padding, self.C
        memory, (*_, H, _, _) = self.memory, self.states.batch.shape
        self.f3_weights()
        rows = tape.steps_as_rows(self.states.encoded)
        for of_head, to_memory in zip(memory[:C].chunk(self.A), self.to_memory, strict=True):
            tape.matmul_to_steps(of_head, rows, to_memory.mT)
            if padding is not None:
                tape.record(of_head[..., H].masked_fill_, padding.permute(2, 0, 1), -math.inf)
        output = self.w["output.weight"][..., H:].transpose(0, 1)
        tape.record(memory[C:, ..., :H].copy_, output.unsqueeze(2))
        tape.record(memory[C:, ..., H].copy_, self.output.bias.transpose(0, 1))

    def b3_memory(self) -> None:
        tape, dmemory, C, (*_, H, _, _) = self.tape, self.dmemory, self.C, self.states.batch.shape
        dkeys, dbias, dvalues = self.unpack(dmemory)
        # joint = bias + queries keys^T, y = ... + weights values, for all steps at once
        tape.matmul(dkeys, self.djoint.mT, self.states.decoded.permute(1, 2, 0, 3))
        tape.record(torch.sum, self.djoint, 2, keepdim=True, out=dbias)
        tape.matmul(dvalues, self.weights.mT, self.dy)
        # memory = to_memory e, and the output's keys and biases
        doutput = self.d["output.weight"][..., H:].transpose(0, 1)
        tape.record(torch.sum, dmemory[C:, ..., :H], 2, out=doutput)
        tape.record(torch.sum, dmemory[C:, ..., H], 2, out=self.d["output.bias"].T)
        encoded = tape.steps_as_rows(self.states.encoded)
        for dof_head, to_memory, dto_memory in zip(
            dmemory[:C].chunk(self.A), self.to_memory, self.dto_memory, strict=True
        ):
            rows = tape.steps_as_rows(dof_head)
            tape.matmul(dto_memory, rows.mT, encoded)
            tape.matmul_to_steps(self.states.dencoded, rows, to_memory, accumulate=True)
        self.b3_weights()

    def f3_weights(self) -> None:
        """Compute the matrix [M; v; W_c V] of each head."""
        tape, w, (*_, F, H, _, _) = self.tape, self.w, self.states.batch.shape
        parts = (each.split([H, 1, F], dim=1) for each in self.to_memory)
        M, v, W_cV = zip(*parts, strict=True)
        if self.is_projected:
            W_q, W_k = w["attention.score.query.weight"], w["attention.score.key.weight"]
            b_q = w["attention.score.query.bias"].unsqueeze(1)
            scale = 1 / math.sqrt(W_k.shape[1] // self.A)
            for head, block in enumerate(blocks(W_k.shape[1], self.A)):
                tape.matmul(M[head], W_q[:, block].mT, W_k[:, block])
                tape.matmul(v[head], b_q[..., block], W_k[:, block])
                tape.record(self.to_memory[head][:, : H + 1].mul_, scale)
        elif self.is_general:
            for of_head, block in zip(M, blocks(H, self.A), strict=True):
                tape.record(of_head[:, block].copy_, w["attention.score.key.weight"][:, block])
        self.output.forward(*W_cV)

    def b3_weights(self) -> None:
        tape, w, d, (*_, F, H, _, _) = self.tape, self.w, self.d, self.states.batch.shape
        parts = (each.split([H, 1, F], dim=1) for each in self.dto_memory)
        dM, dv, dW_cV = zip(*parts, strict=True)
        if self.is_projected:
            W_q, dW_q = (of["attention.score.query.weight"] for of in (w, d))
            b_q, db_q = (of["attention.score.query.bias"].unsqueeze(2) for of in (w, d))
            W_k, dW_k = (of["attention.score.key.weight"] for of in (w, d))
            scale = 1 / math.sqrt(W_k.shape[1] // self.A)
            tape.record(d["attention.score.key.bias"].zero_)  # gradient clipping writes into it
            for head, block in enumerate(blocks(W_k.shape[1], self.A)):
                tape.record(self.dto_memory[head][:, : H + 1].mul_, scale)
                tape.matmul(dW_q[:, block], W_k[:, block], dM[head].mT)
                tape.matmul(db_q[:, block], W_k[:, block], dv[head].mT)
                tape.matmul(dW_k[:, block], W_q[:, block], dM[head])
                tape.matmul(dW_k[:, block], b_q[:, block], dv[head], dW_k[:, block])
        elif self.is_general:
            for dof_head, block in zip(dM, blocks(H, self.A), strict=True):
                tape.record(d["attention.score.key.weight"][:, block].copy_, dof_head[:, block])
        self.output.backward(*dW_cV)

    def f4_read(self, first: int, last: int) -> None:
        tape, C = self.tape, self.C
        queries = self.states.decoded[first:last].permute(1, 2, 0, 3)
        joint, weights = self.joint[:, :, first:last], self.weights[:, :, first:last]
        tape.matmul(joint, queries, self.keys.mT, self.key_bias)
        tape.softmax(self.by_head(weights), self.by_head(joint))
        tape.matmul(self.y[:, :, first:last], weights, self.values, joint[..., C:])

    def b4_read(self, first: int, last: int) -> None:
        self.add_gradients(first, last, self.djoint[:, :, first:last])

    def b4_add(self, t: int, dy: Tensor) -> None:
        djoint = self.djoint_of_add
        self.tape.record(djoint[..., self.C :].copy_, dy.unsqueeze(2))
        self.add_gradients(t, t + 1, djoint)
        self.tape.record(self.djoint[:, :, t : t + 1].add_, djoint)

    def add_gradients(self, first: int, last: int, djoint: Tensor) -> None:
        """Compute the first A * S columns of djoint (R, N, steps, A * S + F) from the last F
        columns, and add the gradient of the queries to dh."""
        tape, C = self.tape, self.C
        weights, total = self.weights[:, :, first:last], self.total[:, :, first:last]
        tape.matmul(djoint[..., :C], djoint[..., C:], self.values.mT)
        tape.softmax_backward(self.by_head(djoint), self.by_head(weights), total)
        dqueries = self.states.ddecoded[first:last].permute(1, 2, 0, 3)
        tape.matmul(dqueries, djoint, self.keys, dqueries)


class AdditiveScores:
    """Attention with the additive score (Bahdanau et al. 2015, appendix A.1.2, plus the bias b),
    the new state h as query, and y = W_c c + W_h h + b_y:

        memory = [2 U; W_c V] e                     K values of the key, F of the value
        query  = [2 W; W_h] h + [2 b; b_y]          K values of the query, F of the state's term
        s      = sigmoid(query + key)               for each pair of a query and a key
        y      = (state's term) + softmax(2 v . s) values

    Because tanh(x) = 2 sigmoid(2 x) - 1, the score 2 v . s is v . tanh(W h + U e + b) plus the sum
    of v, which does not change the softmax. The sum of dscore over the source is 0, so the gradient
    of v is 2 sum dscore s. With D = dscore s (1 - s), the gradient of W h is 4 v times the sum of D
    over the source steps, and the gradient of U e is 4 v times the sum of D over the decoder steps.

    In float32, the gradient of v is less precise than with tanh if W h + U e + b is near 0 for all
    pairs, because s is then near 1/2. With W, U and b at a hundredth of their initial values, the
    relative error of this gradient was 3e-4. With autograd, the error was 6e-7.

    The array `s` is the largest array of the model. Stages F4 and B4 therefore process the decoder
    steps in blocks, so that the part of `s` for one block stays in the cache. The array s (1 - s)
    exists for one block only.

    Attributes:
        memory: array (S, R, N, K + F).
        query: array (T, R, N, K + F).
        s: array (T, R, N, S, K).
        derivative: s (1 - s) of a block, (block, R, N, S, K).
        scores, weights: arrays (T, R, N, S).
    """

    def __init__(self, tape: OpTape, parameters: FlatGradient, states: Recurrence) -> None:
        self.tape, self.states, self.w, self.d = tape, states, parameters.weight, parameters.grad
        R, N, S, T, F, H, *_ = states.batch.shape
        new, self.K = tape.new, (K := self.w["attention.score.key.bias"].shape[1])
        self.v2 = new(R, 1, K)  # 2 v
        self.output = OutputOfValues(tape, parameters, R, F, H)
        self.to_memory, self.dto_memory = new(R, K + F, H), new(R, K + F, H)
        self.to_query, self.dto_query = new(R, K + F, H), new(R, K + F, H)
        self.query_bias, self.dquery_bias = new(R, K + F), new(R, K + F)
        self.memory, self.dmemory = (new(S, R, N, K + F, runs=1) for _ in range(2))
        self.query, self.dquery = (new(T, R, N, K + F, runs=1) for _ in range(2))
        self.keys, self.values = self.memory.permute(1, 2, 0, 3).split([K, F], dim=-1)
        self.block = min(T, max(1, MAX_BLOCK_SIZE // (R * N * S * K)))
        self.s, self.derivative = (new(t, R, N, S, K, runs=1) for t in (T, self.block))
        self.scores, self.dscores, self.weights = (new(T, R, N, S, runs=1) for _ in range(3))
        self.total = new(T, R, N, 1, runs=1)
        self.y, self.dy = new(R, N, T, F), new(R, N, T, F)
        self.dv_of_steps = new(T, R, 1, K, runs=1)
        self.dkeys = self.dmemory.permute(1, 2, 0, 3)[..., :K]

    def f3_memory(self) -> None:
        """Compute the keys and the values of the source."""
        tape, w, K, (*_, H, _, _) = self.tape, self.w, self.K, self.states.batch.shape
        tape.record(torch.mul, w["attention.score.combine.weight"], 2, out=self.v2)
        tape.record(torch.mul, w["attention.score.key.weight"], 2, out=self.to_memory[:, :K])
        self.output.forward(self.to_memory[:, K:])
        tape.record(torch.mul, w["attention.score.query.weight"], 2, out=self.to_query[:, :K])
        tape.record(self.to_query[:, K:].copy_, w["output.weight"][..., H:])
        tape.record(torch.mul, w["attention.score.key.bias"], 2, out=self.query_bias[:, :K])
        tape.record(self.query_bias[:, K:].copy_, self.output.bias.squeeze(2))
        rows = tape.steps_as_rows(self.states.encoded)
        tape.matmul_to_steps(self.memory, rows, self.to_memory.mT)
        tape.record(self.dkeys.zero_)  # B4 adds the gradient of each block of steps

    def b3_memory(self) -> None:
        tape, d, K, (*_, H, _, _) = self.tape, self.d, self.K, self.states.batch.shape
        tape.record(self.dkeys.mul_, self.v2.unsqueeze(1))
        dvalues = self.dmemory.permute(1, 2, 0, 3)[..., K:]
        tape.matmul(dvalues, self.weights.permute(1, 2, 3, 0), self.dy)
        dv = d["attention.score.combine.weight"]
        tape.record(torch.sum, self.dv_of_steps, 0, out=dv)
        tape.record(dv.mul_, 2)
        # memory = to_memory e, query = to_query h + query_bias
        rows, encoded = tape.steps_as_rows(self.dmemory), tape.steps_as_rows(self.states.encoded)
        tape.matmul(self.dto_memory, rows.mT, encoded)
        tape.matmul_to_steps(self.states.dencoded, rows, self.to_memory, accumulate=True)
        rows = tape.steps_as_rows(self.dquery)
        tape.matmul(self.dto_query, rows.mT, tape.steps_as_rows(self.states.decoded))
        tape.record(torch.sum, rows, 1, out=self.dquery_bias)
        tape.record(torch.mul, self.dto_memory[:, :K], 2, out=d["attention.score.key.weight"])
        tape.record(torch.mul, self.dto_query[:, :K], 2, out=d["attention.score.query.weight"])
        tape.record(d["output.weight"][..., H:].copy_, self.dto_query[:, K:])
        tape.record(torch.mul, self.dquery_bias[:, :K], 2, out=d["attention.score.key.bias"])
        tape.record(d["output.bias"].copy_, self.dquery_bias[:, K:])
        self.output.backward(self.dto_memory[:, K:])

    def f4_read(self, first: int, last: int) -> None:
        tape, K, padding = self.tape, self.K, self.states.batch.padding
        query, s, scores = self.query[first:last], self.s[first:last], self.scores[first:last]
        rows = tape.steps_as_rows(self.states.decoded[first:last])
        tape.record(query.copy_, self.query_bias.unsqueeze(1))
        tape.matmul_to_steps(query, rows, self.to_query.mT, accumulate=True)
        tape.record(torch.add, query[..., :K].unsqueeze(3), self.keys, out=s)
        tape.record(s.sigmoid_)
        v2 = self.v2.mT.expand(last - first, -1, -1, -1)  # (steps, R, K, 1)
        tape.matmul(scores.flatten(2).unsqueeze(3), s.flatten(2, 3), v2)
        if padding is not None:
            tape.record(scores.masked_fill_, padding, -math.inf)
        tape.softmax(self.weights[first:last], scores)
        state_term = query[..., K:].permute(1, 2, 0, 3)
        y, weights = self.y[:, :, first:last], self.weights[first:last].permute(1, 2, 0, 3)
        tape.matmul(y, weights, self.values, state_term)

    def b4_read(self, first: int, last: int) -> None:
        tape, s, dscores = self.tape, self.s[first:last], self.dscores[first:last]
        dy, derivative = self.dy[:, :, first:last], self.derivative[: last - first]
        dquery, dstate_term = self.dquery[first:last].split([self.K, dy.shape[3]], dim=3)
        tape.matmul(dscores.permute(1, 2, 0, 3), dy, self.values.mT)
        tape.softmax_backward(dscores, self.weights[first:last], self.total[first:last])
        # sums over the pairs: for v, for each query and for each key
        of_pairs = dscores.flatten(2).unsqueeze(2)  # (steps, R, 1, N * S)
        tape.matmul(self.dv_of_steps[first:last], of_pairs, s.flatten(2, 3))
        tape.record(torch.addcmul, s, s, s, value=-1, out=derivative)
        tape.matmul(dquery.unsqueeze(3), dscores.unsqueeze(3), derivative)
        for of_step, dscores_of_step in zip(derivative, dscores, strict=True):
            tape.record(self.dkeys.addcmul_, of_step, dscores_of_step.unsqueeze(3))
        tape.record(dquery.mul_, self.v2)
        tape.record(dstate_term.copy_, dy.permute(2, 0, 1, 3))
        rows = tape.steps_as_rows(self.dquery[first:last])
        tape.matmul_to_steps(self.states.ddecoded[first:last], rows, self.to_query, accumulate=True)
