"""Operations on fixed buffers: recorded for the first batch of a shape, replayed for all others.

`manual_backward.py` is written in these operations. An operation writes into a buffer and reads
views of buffers. Both are the same objects for every batch, so a list of operations with their
arguments is a program, and replaying it skips all Python but the calls.

Letters: R runs, N sequences, S source length, T target length, F features, H width of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

# Measured; none of them changes a result by more than rounding.
MAX_PROGRAMS = 4096  # recorded for one shape of batch
NARROW = 8  # columns of a product up to which another route than one bmm is faster
MAX_TERMS = 200_000  # of a product that is written out as a sum of products
SMALL_PRODUCT = 400  # m k n below which bmm is as fast into memory with gaps
LARGE = 2048  # numbers from which on tanh is computed from sigmoid


class OpTape:
    """Records operations and replays them; allocates the buffers that they work on.

    `run` carries out a function of operations (`do`, `matmul`, ...) and records them; called again
    for the same function and arguments, it replays the record. The function may therefore not
    branch on the numbers in a buffer, and may make tensors in no other way than by `new`.

    Args:
        like: (R, ..., ...) of the buffers' dtype and device.
        runs_innermost: whether the axis of runs lies innermost in memory.
    """

    def __init__(self, like: Tensor, runs_innermost: bool) -> None:
        self.like, self.runs_innermost = like, runs_innermost
        self.one = torch.ones_like(like[0, 0, 0])
        self.minus_one = -self.one
        self.programs: dict[tuple[object, ...], list[Callable[[], object]]] = {}
        self.recording: list[Callable[[], object]] | None = None

    def new(self, *shape: int, runs: int = 0) -> Tensor:
        """Memory, not initialized; `runs` is the axis of runs."""
        if not self.runs_innermost:
            return self.like.new_empty(shape)
        inner = shape[:runs] + shape[runs + 1 :] + shape[runs : runs + 1]
        return self.like.new_empty(inner).movedim(-1, runs)

    # --- record and replay ------------------------------------------------------------------------

    def run(self, function: Callable[..., None], *arguments: object) -> None:
        """Replay the record of function(*arguments), or make it.

        Inside another `run` it becomes a part of that record. Records are found by the function's
        qualified name, so that a tape holds no reference to what uses it.
        """
        if self.recording is not None:
            function(*arguments)
            return
        key = (function.__qualname__, *arguments)
        program = self.programs.get(key)
        if program is not None:
            for call in program:
                call()
            return
        self.recording = program = []
        try:
            function(*arguments)
        finally:
            self.recording = None
        if len(self.programs) < MAX_PROGRAMS:
            self.programs[key] = program

    def run_parts(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function whose parts call `run`, so that each part is a record of its own."""
        function(*arguments)

    def do(self, operation: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Carry out one operation, and record it with its arguments."""
        call = partial(operation, *arguments, **options)
        call()
        if self.recording is not None:
            self.recording.append(call)

    # --- operations for which the fastest way depends on the sizes --------------------------------

    def tanh_(self, x: Tensor) -> None:
        """x = tanh x = 2 sigmoid(2 x) - 1; torch's sigmoid of many float32 numbers is so much
        faster on the CPU than its tanh that three operations are faster than one."""
        if x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() >= LARGE:
            self.do(x.add_, x)
            self.do(x.sigmoid_)
            self.do(torch.add, self.minus_one, x, alpha=2, out=x)
        else:
            self.do(x.tanh_)

    def softmax(self, out: Tensor, scores: Tensor) -> None:
        """The softmax over the last axis of scores (R, N, T, S). torch's own copies what is not in
        the order of memory, so it is given the axes in that order."""
        axes = (1, 2, 3, 0) if self.runs_innermost else (0, 1, 2, 3)
        self.do(torch.softmax, scores.permute(axes), axes.index(3), out=out.permute(axes))

    def softmax_back(self, grad: Tensor, weights: Tensor, total: Tensor) -> None:
        """In place from the gradient of the weights to that of the scores:
        weights * (grad - sum(weights * grad)); `total` is memory for the sum."""
        self.do(grad.mul_, weights)
        self.do(torch.sum, grad, -1, keepdim=True, out=total)
        self.do(grad.addcmul_, weights, total, value=-1)

    def matmul(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None = None) -> None:
        """out = plus + a b.

        Args:
            out: (R, ..., m, n).
            a: (R, ..., m, k).
            b: (R, ..., k, n).
            plus: broadcasts to `out`, and may be `out` itself; None: 0.
        """
        if self.runs_innermost and a.shape[-1] <= NARROW:
            self._matmul_by_columns(out, a, b, plus)
        elif self.runs_innermost and a.numel() * b.shape[-1] <= MAX_TERMS:
            self._matmul_by_terms(out, a, b, plus)
        else:
            self._matmul_by_bmm(out, a, b, plus)

    def matmul_by_gate(self, out: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
        """W x + b with the gates in front.

        Args:
            out: (gates, R, n, H).
            x: (R, n, in).
            weight, bias: (R, gates * H, in) and (R, gates * H).
        """
        gates, (R, n, columns) = len(out), x.shape
        weights = weight.unflatten(1, (gates, -1)).permute(1, 0, 3, 2)  # (gates, R, in, H)
        biases = bias.unflatten(1, (gates, -1)).transpose(0, 1).unsqueeze(2)  # (gates, R, 1, H)
        if self.runs_innermost and columns <= NARROW:
            self.matmul(out, x.unsqueeze(0), weights, biases)
        elif R == 1:
            x = x.expand(gates, -1, -1)
            self.do(torch.baddbmm, biases[:, 0], x, weights[:, 0], out=out[:, 0])
        else:
            joined = self.new(R, n, weight.shape[1])
            self.matmul(joined, x, weight.mT, bias.unsqueeze(1))
            self.do(out.copy_, joined.unflatten(-1, (gates, -1)).permute(2, 0, 1, 3))

    def _matmul_by_columns(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """The sum over k of the outer products of column k of a and row k of b."""
        columns, rows = a.split(1, dim=-1), b.split(1, dim=-2)
        for i, (column, row) in enumerate(zip(columns, rows, strict=True)):
            before = plus if i == 0 else out
            if before is None:
                self.do(torch.mul, column, row, out=out)
            else:
                self.do(torch.addcmul, before, column, row, out=out)

    def _matmul_by_terms(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """All products a_ik b_kj at once, and their sum."""
        terms = self.new(*out.shape, a.shape[-1])
        self.do(torch.mul, a.unsqueeze(-2), b.mT.unsqueeze(-3), out=terms)
        total = out if plus is None else self.new(*out.shape)
        self.do(torch.sum, terms, -1, out=total)
        if plus is not None:
            self.do(torch.add, plus, total, out=out)

    def _matmul_by_bmm(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """torch.bmm, which has two slow paths on the CPU: into an `out` with gaps in memory it
        multiplies the matrices one by one, and a narrow result takes several times as long as its
        transpose."""
        (m, k), n = a.shape[-2:], b.shape[-1]
        a, b, flat = self._flatten_batch(a), self._flatten_batch(b), out.flatten(0, -3)
        is_fast = m * k * n < SMALL_PRODUCT or (out.is_contiguous() and n > NARROW)
        if is_fast and shares_memory(flat, out):
            if plus is None:
                self.do(torch.bmm, a, b, out=flat)
            elif plus is out:
                self.do(flat.baddbmm_, a, b)
            else:
                added = plus.expand_as(out).flatten(0, -3)
                assert shares_memory(added, plus)  # a replay would add an outdated copy
                self.do(torch.baddbmm, added, a, b, out=flat)
            return
        if n <= NARROW < m:
            product = a.new_empty(a.shape[0], n, m)
            self.do(torch.bmm, b.mT, a.mT, out=product)
            product = product.mT
        else:
            product = a.new_empty(a.shape[0], m, n)
            self.do(torch.bmm, a, b, out=product)
        product = product.unflatten(0, out.shape[:-2])
        if plus is None:
            self.do(out.copy_, product)
        else:
            self.do(torch.add, plus, product, out=out)

    def matmul_to_steps(
        self, out: Tensor, rows: Tensor, b: Tensor, *, accumulate: bool = False
    ) -> None:
        """out = rows b, or out += rows b.

        Args:
            out: (steps, R, N, n).
            rows: (R, steps * N, k), see `steps_as_rows`.
            b: (R, k, n).
        """
        by_run = out.transpose(0, 1)
        flat = by_run.flatten(1, 2)
        if shares_memory(flat, out):
            self.matmul(flat, rows, b, flat if accumulate else None)
            return
        product = self.new(*flat.shape)
        self.matmul(product, rows, b)
        self.do(by_run.add_ if accumulate else by_run.copy_, product.view_as(by_run))

    def steps_as_rows(self, x: Tensor) -> Tensor:
        """(steps, R, N, width) -> (R, steps * N, width): a view, or with several runs a copy."""
        by_run = x.transpose(0, 1)
        flat = by_run.flatten(1, 2)
        if not shares_memory(flat, x):
            flat = self.new(*flat.shape)
            self.do(flat.view_as(by_run).copy_, by_run)
        return flat

    def _flatten_batch(self, x: Tensor) -> Tensor:
        """(R, ..., m, n) -> (R * ..., m, n): a view, or where memory does not allow it a copy."""
        flat = x.flatten(0, -3)
        if not shares_memory(flat, x):
            self.do(flat.view(x.shape).copy_, x)
        return flat


def shares_memory(view: Tensor, x: Tensor) -> bool:
    """Whether a reshaped tensor is a view of x, and no copy."""
    return view.data_ptr() == x.data_ptr()


class GRUGates:
    """The gates of a GRU (Cho et al. 2014, in the variant of `cells.GRU`) over L steps:

        r = sigmoid(gi_r + gh_r),  z = sigmoid(gi_z + gh_z),  n = tanh(gi_n + r gh_n)
        h' = (1 - z) n + z h

    and the derivatives of h' by what enters them:

        gi_n: a = (1 - z) (1 - n^2)     gh_n: a r
        gi_r, gh_r: a gh_n r (1 - r)    gi_z, gh_z: (h - n) z (1 - z)    h: z

    Attributes:
        states, dstates: (L + 1, R, N, H): h of step l, which is h' of step l - 1.
        gh: (L, 3, R, N, H).
        dgi, dgh: (R, L, N, 3, H), halves of dg (R, L, N, 2, 3, H).
    """

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 3, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.gh, self.gates = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)
        self.n, self.by_n, self.slope_n = (new(L, R, N, H, runs=1) for _ in range(3))
        self.by_gh, self.slope_gates = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)

    def step(self, step: int, gi: Tensor) -> None:
        """h' of gi (3, R, N, H), `gh` and h."""
        do, gh, gates, n = self.tape.do, self.gh[step], self.gates[step], self.n[step]
        do(torch.add, gi[:2], gh[:2], out=gates)
        do(gates.sigmoid_)
        do(torch.addcmul, gi[2], gates[0], gh[2], out=n)
        self.tape.tanh_(n)
        do(torch.lerp, n, self.states[step], gates[1], out=self.states[step + 1])

    def step_back(self, step: int) -> None:
        """From dh' to dgh, and what z h adds to dh; after `derivatives`."""
        dh_next, dgh = self.dstates[step + 1], self.dgh[:, step].permute(2, 0, 1, 3)
        self.tape.do(torch.mul, self.by_gh[step], dh_next, out=dgh)
        if step > 0:  # the first state is constant
            self.tape.do(self.dstates[step].addcmul_, dh_next, self.gates[step, 1])

    def inputs_back(self, steps: slice) -> None:
        """From dh' and dgh to dgi: r and z add gi and gh, so theirs are the same; n has its own."""
        dgi, dh_next = self.dgi[:, steps], self.dstates[1:][steps]
        self.tape.do(dgi[..., :2, :].copy_, self.dgh[:, steps, :, :2])
        self.tape.do(torch.mul, self.by_n[steps], dh_next, out=dgi[..., 2, :].transpose(0, 1))

    def derivatives(self) -> None:
        """Of all steps at once, into `by_n` and `by_gh`."""
        do, gates, (r, z) = self.tape.do, self.gates, self.gates.unbind(1)
        n, a = self.n, self.by_n
        by_gh_r, by_gh_z, by_gh_n = self.by_gh.unbind(1)
        slope_r, slope_z = self.slope_gates.unbind(1)
        do(torch.addcmul, gates, gates, gates, value=-1, out=self.slope_gates)
        do(torch.addcmul, self.tape.one, n, n, value=-1, out=self.slope_n)
        do(torch.addcmul, self.slope_n, self.slope_n, z, value=-1, out=a)
        do(torch.sub, self.states[:-1], n, out=by_gh_z)
        do(by_gh_z.mul_, slope_z)
        do(torch.mul, a, self.gh[:, 2], out=by_gh_r)
        do(by_gh_r.mul_, slope_r)
        do(torch.mul, a, r, out=by_gh_n)
