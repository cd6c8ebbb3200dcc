"""Additive attention as a readout of `manual_backward.py`; see `manual_readout.py`.

The letters in shapes are defined in `seqattn.models.op_tape`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seqattn.models.batch_buffers import FlatGradient
from seqattn.models.manual_readout import OutputOfValues, Recurrence
from seqattn.models.op_tape import OpTape


class AdditiveScores:
    """Attention with the additive score (Bahdanau et al. 2015, appendix A.1.2, plus the bias b),
    the new state as query, and y = W [c; h] + b_y:

        memory = [U; W_c V] e                   K values of the key, F of the value
        query  = [W; W_h] h + [b; b_y]          K values of the query, F of the state's term of y
        hidden = tanh(query + key)              for each pair of a query and a key
        y      = (state's term) + softmax(v . hidden) values

    With D = dscore (1 - hidden^2), the gradients of a query and a key are v sum_s D and v sum_t D.

    Attributes:
        memory: array (S, R, N, K + F).
        query: array (T, R, N, K + F).
        hidden, D: arrays (T, R, N, S, K).
        scores, weights: arrays (T, R, N, S).
    """

    def __init__(self, tape: OpTape, parameters: FlatGradient, states: Recurrence) -> None:
        self.tape, self.states, self.w, self.d = tape, states, parameters.weight, parameters.grad
        R, N, S, T, F, H, *_ = states.batch.shape
        new, self.K = tape.new, (K := self.w["attention.score.key.bias"].shape[1])
        self.v = self.w["attention.score.combine.weight"]  # (R, 1, K)
        self.output = OutputOfValues(tape, parameters, R, F, H)
        self.to_memory, self.dto_memory = new(R, K + F, H), new(R, K + F, H)
        self.to_query, self.dto_query = new(R, K + F, H), new(R, K + F, H)
        self.query_bias, self.dquery_bias = new(R, K + F), new(R, K + F)
        self.memory, self.dmemory = (new(S, R, N, K + F, runs=1) for _ in range(2))
        self.query, self.dquery = (new(T, R, N, K + F, runs=1) for _ in range(2))
        self.keys, self.values = self.memory.permute(1, 2, 0, 3).split([K, F], dim=-1)
        self.hidden, self.D = (new(T, R, N, S, K, runs=1) for _ in range(2))
        self.scores, self.dscores, self.weights = (new(T, R, N, S, runs=1) for _ in range(3))
        self.total = new(T, R, N, 1, runs=1)
        self.y, self.dy = new(R, N, T, F), new(R, N, T, F)
        self.dv_of_steps = new(T, R, 1, K, runs=1)
        self.of_add = (
            new(1, R, N, S, runs=1), new(1, R, N, S, K, runs=1), new(1, R, N, K + F, runs=1)
        )  # fmt: skip

    def f3_memory(self) -> None:
        """Compute the keys and the values of the source."""
        tape, w, K, (*_, H, _, _) = self.tape, self.w, self.K, self.states.batch.shape
        tape.record(self.to_memory[:, :K].copy_, w["attention.score.key.weight"])
        self.output.forward(self.to_memory[:, K:])
        tape.record(self.to_query[:, :K].copy_, w["attention.score.query.weight"])
        tape.record(self.to_query[:, K:].copy_, w["output.weight"][..., H:])
        tape.record(self.query_bias[:, :K].copy_, w["attention.score.key.bias"])
        tape.record(self.query_bias[:, K:].copy_, self.output.bias.squeeze(2))
        rows = tape.steps_as_rows(self.states.encoded)
        tape.matmul_to_steps(self.memory, rows, self.to_memory.mT)

    def b3_memory(self) -> None:
        tape, d, K, (*_, H, _, _) = self.tape, self.d, self.K, self.states.batch.shape
        dkeys, dvalues = self.dmemory.permute(1, 2, 0, 3).split([K, self.y.shape[-1]], dim=-1)
        tape.record(torch.sum, self.D, 0, out=dkeys)
        tape.record(dkeys.mul_, self.v.unsqueeze(1))
        tape.matmul(dvalues, self.weights.permute(1, 2, 3, 0), self.dy)
        # v . hidden, for all steps
        each = self.dscores.flatten(2).unsqueeze(2)  # (T, R, 1, N * S)
        tape.matmul(self.dv_of_steps, each, self.hidden.flatten(2, 3))
        tape.record(torch.sum, self.dv_of_steps, 0, out=d["attention.score.combine.weight"])
        # memory = to_memory e, query = to_query h + query_bias
        rows, encoded = tape.steps_as_rows(self.dmemory), tape.steps_as_rows(self.states.encoded)
        tape.matmul(self.dto_memory, rows.mT, encoded)
        tape.matmul_to_steps(self.states.dencoded, rows, self.to_memory, accumulate=True)
        rows = tape.steps_as_rows(self.dquery)
        tape.matmul(self.dto_query, rows.mT, tape.steps_as_rows(self.states.decoded))
        tape.record(torch.sum, rows, 1, out=self.dquery_bias)
        tape.record(d["attention.score.key.weight"].copy_, self.dto_memory[:, :K])
        tape.record(d["attention.score.query.weight"].copy_, self.dto_query[:, :K])
        tape.record(d["output.weight"][..., H:].copy_, self.dto_query[:, K:])
        tape.record(d["attention.score.key.bias"].copy_, self.dquery_bias[:, :K])
        tape.record(d["output.bias"].copy_, self.dquery_bias[:, K:])
        self.output.backward(self.dto_memory[:, K:])

    def f4_read(self, first: int, last: int) -> None:
        tape, K, padding = self.tape, self.K, self.states.batch.padding
        query, hidden = self.query[first:last], self.hidden[first:last]
        scores, weights = self.scores[first:last], self.weights[first:last]
        rows = tape.steps_as_rows(self.states.decoded[first:last])
        tape.record(query.copy_, self.query_bias.unsqueeze(1))
        tape.matmul_to_steps(query, rows, self.to_query.mT, accumulate=True)
        tape.record(torch.add, query[..., :K].unsqueeze(3), self.keys, out=hidden)
        tape.tanh_(hidden)
        v = self.v.mT.expand(last - first, -1, -1, -1)  # (steps, R, K, 1)
        tape.matmul(scores.flatten(2).unsqueeze(3), hidden.flatten(2, 3), v)
        if padding is not None:
            tape.record(scores.masked_fill_, padding, -math.inf)
        tape.softmax(weights, scores)
        state_term = query[..., K:].permute(1, 2, 0, 3)
        y, weights = self.y[:, :, first:last], weights.permute(1, 2, 0, 3)
        tape.matmul(y, weights, self.values, state_term)

    def b4_read(self, first: int, last: int) -> None:
        self.add_gradients(
            first, last, self.dy[:, :, first:last], self.dscores[first:last], self.D[first:last],
            self.dquery[first:last],
        )  # fmt: skip

    def b4_add(self, t: int, dy: Tensor) -> None:
        self.add_gradients(t, t + 1, dy.unsqueeze(2), *self.of_add)
        sums = (self.dscores, self.D, self.dquery)
        for total, addend in zip(sums, self.of_add, strict=True):
            self.tape.record(total[t : t + 1].add_, addend)
        self.tape.record(self.dy[:, :, t].add_, dy)

    def add_gradients(
        self, first: int, last: int, dy: Tensor, dscores: Tensor, D: Tensor, dquery: Tensor
    ) -> None:
        """Compute dscores, D and dquery of the decoder steps `first` to `last - 1` from dy
        (R, N, steps, F), and add to dh."""
        tape, K, hidden = self.tape, self.K, self.hidden[first:last]
        tape.matmul(dscores.permute(1, 2, 0, 3), dy, self.values.mT)
        tape.softmax_backward(dscores, self.weights[first:last], self.total[first:last])
        tape.record(torch.addcmul, tape.one, hidden, hidden, value=-1, out=D)
        tape.record(D.mul_, dscores.unsqueeze(4))
        tape.record(torch.sum, D, 3, out=dquery[..., :K])
        tape.record(dquery[..., :K].mul_, self.v)
        tape.record(dquery[..., K:].copy_, dy.permute(2, 0, 1, 3))
        rows = tape.steps_as_rows(dquery)
        dh = self.states.ddecoded[first:last]
        tape.matmul_to_steps(dh, rows, self.to_query, accumulate=True)
