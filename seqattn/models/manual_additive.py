"""Additive attention as a readout of `manual_backward.py`; see `manual_readout.py`.

The letters in shapes are defined in `seqattn.models.op_tape`.
"""

from __future__ import annotations

import math

import torch

from seqattn.models.batch_buffers import FlatGradient
from seqattn.models.manual_readout import OutputOfValues, Recurrence
from seqattn.models.op_tape import OpTape

# The largest number of elements of `s` in a block of steps. A larger block does not fit into the
# caches of common CPUs. No block size changes a result by more than rounding.
MAX_BLOCK_SIZE = 2**20


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
