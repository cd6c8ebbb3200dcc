"""A tape of tensor operations on preallocated buffers. The operations are recorded for the first
batch of a shape and replayed for all other batches of this shape. A tape is similar to a CUDA
graph, but it works on any device.

`manual_backward.py` consists of operations on a tape. An operation writes into a buffer and reads
views of buffers. The buffers are the same tensors for every batch of a shape, so a list of
operations with their arguments can be replayed for each batch. A replay executes no Python code
except the calls of these operations.

In shapes, R is the number of runs, N the number of sequences, S the source length, T the target
length, F the number of features, and H the width of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

# Measured thresholds. No threshold changes a result by more than rounding; for `tanh_`, this is the
# rounding of numbers near 1, so the relative error of a tanh near 0 is larger.
MAX_PROGRAMS = 4096  # largest number of programs of a tape
MAX_NARROW = 8  # largest k or n of a product for which one bmm is not fastest
MAX_PRODUCT_TERMS = 200_000  # largest R * m * k * n of an elementwise product
MAX_STRIDED_TERMS = 400  # m * k * n below which bmm is fast despite a strided output
MIN_SIGMOID_TANH_SIZE = 2048  # smallest size for which tanh is computed from sigmoid


class OpTape:
    """A tape that records operations, replays these operations, and allocates their buffers.

    The method `run` executes a function that consists of operations (`record`, `matmul`, ...), and
    records these operations. A second call of `run` with the same function and arguments replays
    the record. The function must therefore not branch on values in a buffer, and each operation
    must write its result into a tensor that already exists.

    Args:
        like: a tensor with three axes that has the dtype and the device of the buffers.
        runs_innermost: whether the axis of runs is innermost in memory.
    """

    def __init__(self, like: Tensor, runs_innermost: bool) -> None:
        self.like, self.runs_innermost = like, runs_innermost
        self.one = torch.ones_like(like[0, 0, 0])
        self.minus_one = -self.one
        self.programs: dict[tuple[object, ...], list[Callable[[], object]]] = {}
        self.recording: list[Callable[[], object]] | None = None

    def new(self, *shape: int, runs: int = 0) -> Tensor:
        """Allocate a buffer without initializing it.

        Args:
            shape: the shape of the buffer.
            runs: the index of the axis of runs in the buffer.
        """
        if not self.runs_innermost:
            return self.like.new_empty(shape)
        inner = shape[:runs] + shape[runs + 1 :] + shape[runs : runs + 1]
        return self.like.new_empty(inner).movedim(-1, runs)

    # --- record and replay ------------------------------------------------------------------------

    def run(self, function: Callable[..., None], *arguments: object) -> None:
        """Replay the record of `function(*arguments)`. If there is no record, execute and record
        the call.

        If `function` itself calls `run`, the operations are added to the record of the outer call.
        The key of a record consists of the function's qualified name and the arguments, so that a
        tape has no reference to the objects that use the tape.
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

    def run_directly(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function that calls `run`, without recording the whole call as one record."""
        function(*arguments)

    def record(self, operation: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Execute one operation, and record it with its arguments."""
        call = partial(operation, *arguments, **options)
        call()
        if self.recording is not None:
            self.recording.append(call)

    # --- operations whose fastest implementation depends on the sizes -----------------------------

    def tanh_(self, x: Tensor) -> None:
        """Compute tanh(x) in place. On the CPU, torch computes the sigmoid of a large float32
        tensor much faster than the tanh. The three operations of 2 sigmoid(2 x) - 1 = tanh(x) are
        then faster than one tanh."""
        if (
            x.device.type == "cpu"
            and x.dtype == torch.float32
            and x.numel() >= MIN_SIGMOID_TANH_SIZE
        ):
            self.record(x.add_, x)
            self.record(x.sigmoid_)
            self.record(torch.add, self.minus_one, x, alpha=2, out=x)
        else:
            self.record(x.tanh_)

    def softmax(self, out: Tensor, scores: Tensor) -> None:
        """Compute the softmax over the last axis. `torch.softmax` copies a tensor that is not
        contiguous, so the axes are permuted to their order in memory."""
        axes = sorted(range(out.dim()), key=out.stride, reverse=True)
        last = axes.index(out.dim() - 1)
        self.record(torch.softmax, scores.permute(axes), last, out=out.permute(axes))

    def softmax_backward(self, grad: Tensor, weights: Tensor, total: Tensor) -> None:
        """Replace `grad`, the gradient of the weights, with the gradient of the scores, weights *
        (grad - sum(weights * grad)). The tensor `total` is a buffer for the sum."""
        self.record(grad.mul_, weights)
        self.record(torch.sum, grad, -1, keepdim=True, out=total)
        self.record(grad.addcmul_, weights, total, value=-1)

    def matmul(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None = None) -> None:
        """Compute `out = plus + a @ b`.

        Args:
            out: the buffer of the result, (R, ..., m, n).
            a: the left factor, (R, ..., m, k).
            b: the right factor, (R, ..., k, n).
            plus: the tensor to add, which broadcasts to `out` and may be `out` itself; None to add
                nothing.
        """
        if self.runs_innermost and a.shape[-1] <= MAX_NARROW:
            self._matmul_by_columns(out, a, b, plus)
        elif self.runs_innermost and a.numel() * b.shape[-1] <= MAX_PRODUCT_TERMS:
            self._matmul_by_terms(out, a, b, plus)
        else:
            self._matmul_by_bmm(out, a, b, plus)

    def matmul_by_gate(self, out: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
        """Compute W x + b, with the axis of gates as the first axis of the result.

        Args:
            out: the buffer of the result, (gates, R, n, H).
            x: the inputs (R, n, in).
            weight, bias: the weight W, (R, gates * H, in), and the bias b, (R, gates * H).
        """
        gates, (R, n, columns) = len(out), x.shape
        weights = weight.unflatten(1, (gates, -1)).permute(1, 0, 3, 2)  # (gates, R, in, H)
        biases = bias.unflatten(1, (gates, -1)).transpose(0, 1).unsqueeze(2)  # (gates, R, 1, H)
        if self.runs_innermost and columns <= MAX_NARROW:
            self.matmul(out, x.unsqueeze(0), weights, biases)
        elif R == 1:
            x = x.expand(gates, -1, -1)
            self.record(torch.baddbmm, biases[:, 0], x, weights[:, 0], out=out[:, 0])
        else:
            joined = self.new(R, n, weight.shape[1])
            self.matmul(joined, x, weight.mT, bias.unsqueeze(1))
            self.record(out.copy_, joined.unflatten(-1, (gates, -1)).permute(2, 0, 1, 3))

    def _matmul_by_columns(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """Compute the sum over k of the outer products of column k of a and row k of b."""
        columns, rows = a.split(1, dim=-1), b.split(1, dim=-2)
        for i, (column, row) in enumerate(zip(columns, rows, strict=True)):
            before = plus if i == 0 else out
            if before is None:
                self.record(torch.mul, column, row, out=out)
            else:
                self.record(torch.addcmul, before, column, row, out=out)

    def _matmul_by_terms(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """Compute all products a_ik * b_kj in one operation, and sum the products over k."""
        terms = self.new(*out.shape, a.shape[-1])
        self.record(torch.mul, a.unsqueeze(-2), b.mT.unsqueeze(-3), out=terms)
        total = out if plus is None else self.new(*out.shape)
        self.record(torch.sum, terms, -1, out=total)
        if plus is not None:
            self.record(torch.add, plus, total, out=out)

    def _matmul_by_bmm(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None) -> None:
        """Call `torch.bmm`, but avoid the two cases in which it is slow on the CPU. If `out` is not
        contiguous, `torch.bmm` multiplies the matrices one by one. Computing a narrow result takes
        several times as long as computing the transpose of this result."""
        (m, k), n = a.shape[-2:], b.shape[-1]
        a, b, flat = self._flatten_batch(a), self._flatten_batch(b), out.flatten(0, -3)
        is_fast = m * k * n < MAX_STRIDED_TERMS or (out.is_contiguous() and n > MAX_NARROW)
        if is_fast and shares_memory(flat, out):
            if plus is None:
                self.record(torch.bmm, a, b, out=flat)
            elif plus is out:
                self.record(flat.baddbmm_, a, b)
            else:
                added = plus.expand_as(out).flatten(0, -3)
                assert shares_memory(added, plus)  # a copy would be outdated in a replay
                self.record(torch.baddbmm, added, a, b, out=flat)
            return
        if n <= MAX_NARROW < m:
            product = a.new_empty(a.shape[0], n, m)
            self.record(torch.bmm, b.mT, a.mT, out=product)
            product = product.mT
        else:
            product = a.new_empty(a.shape[0], m, n)
            self.record(torch.bmm, a, b, out=product)
        product = product.unflatten(0, out.shape[:-2])
        if plus is None:
            self.record(out.copy_, product)
        else:
            self.record(torch.add, plus, product, out=out)

    def matmul_to_steps(
        self, out: Tensor, rows: Tensor, b: Tensor, *, accumulate: bool = False
    ) -> None:
        """Compute `out = rows @ b` or `out += rows @ b`.

        Args:
            out: the buffer of the result, (steps, R, N, n).
            rows: the left factor, (R, steps * N, k); see `steps_as_rows`.
            b: the right factor, (R, k, n).
            accumulate: whether the product is added to `out`.
        """
        by_run = out.transpose(0, 1)
        flat = by_run.flatten(1, 2)
        if shares_memory(flat, out):
            self.matmul(flat, rows, b, flat if accumulate else None)
            return
        product = self.new(*flat.shape)
        self.matmul(product, rows, b)
        self.record(by_run.add_ if accumulate else by_run.copy_, product.view_as(by_run))

    def steps_as_rows(self, x: Tensor) -> Tensor:
        """Reshape (steps, R, N, width) to (R, steps * N, width). The result is a view if the
        strides allow a view, and otherwise a copy."""
        by_run = x.transpose(0, 1)
        flat = by_run.flatten(1, 2)
        if not shares_memory(flat, x):
            flat = self.new(*flat.shape)
            self.record(flat.view_as(by_run).copy_, by_run)
        return flat

    def _flatten_batch(self, x: Tensor) -> Tensor:
        """Reshape (R, ..., m, n) to (R * ..., m, n). The result is a view if the strides allow a
        view, and otherwise a copy."""
        flat = x.flatten(0, -3)
        if not shares_memory(flat, x):
            self.record(flat.view(x.shape).copy_, x)
        return flat


def shares_memory(view: Tensor, x: Tensor) -> bool:
    """Return whether a reshaped tensor is a view of x rather than a copy."""
    return view.data_ptr() == x.data_ptr()
