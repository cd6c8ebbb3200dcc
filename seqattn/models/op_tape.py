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
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

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


class FlatGradient:
    """The parameters of R runs, and one matrix with the gradients of all parameters.

    Attributes:
        weight: views of the parameters by name, (R, ...), where R is 1 if the parameters have no
            axis of runs.
        grad: views of `gradient` by parameter name, (R, ...).
        gradient: the gradients (R, P), where P is the number of parameter values of a run. The
            columns are in the order of the parameters.
    """

    def __init__(self, model: nn.Module, gradient: Tensor, *, has_runs: bool) -> None:
        self.gradient, self.has_runs = gradient, has_runs
        self.weight = dict[str, Tensor]()
        self.grad = dict[str, Tensor]()
        self.columns = dict[str, slice]()
        end = 0
        for name, parameter in model.named_parameters():
            weight = parameter.detach() if has_runs else parameter.detach().unsqueeze(0)
            columns = slice(end, end := end + weight[0].numel())
            self.weight[name], self.columns[name] = weight, columns
            self.grad[name] = gradient[:, columns].unflatten(1, weight.shape[1:])

    def adjacent(self, first: str, second: str) -> Tensor:
        """Return the gradients of two adjacent parameter vectors as one view, (R, sum of the
        lengths of the two vectors)."""
        start, end = self.columns[first], self.columns[second]
        assert start.stop == end.start
        return self.gradient[:, start.start : end.stop]


class BufferShape(NamedTuple):
    """The sizes that determine the buffers and the recorded operations of a batch.

    Attributes:
        R, N, S, T, F, H: see `seqattn.models.op_tape`.
        ragged: whether the batch has source lengths.
        mask: size of the last axis of the target mask. The size is 0 if there is no mask, 1 if the
            mask has one value per step, and F if the mask has one value per step and feature.
    """

    R: int
    N: int
    S: int
    T: int
    F: int
    H: int
    ragged: bool
    mask: int

    @classmethod
    def of(
        cls, source: Tensor, target: Tensor, lengths: Tensor | None, keep: Tensor | None,
        *, R: int, H: int,
    ) -> BufferShape:  # fmt: skip
        """Determine the sizes of a batch. `ManualLoss.value_and_grad` describes the mask `keep` as
        `target_keep`, and `Seq2SeqModel.forward` describes the other tensors."""
        (*_, N, S, F), (*_, T, _) = source.shape, target.shape
        mask = 0 if keep is None else F if keep.dim() == target.dim() else 1
        return cls(R, N, S, T, F, H, lengths is not None, mask)

    @property
    def start(self) -> int:
        """The slot of the decoder's initial state. Without source lengths, the slot is S, which is
        the slot of the last encoder state. With source lengths, the slot is S + 1, which contains a
        copy of each sequence's last valid state."""
        return self.S + 1 if self.ragged else self.S


class BatchBuffers:
    """The buffers of a batch.

    Attributes:
        x: the inputs (R, slots, N, F). Slot k contains the input of the step that starts from the
            state in slot k. The method `load` fills the first S slots.
        target: the targets (R, N, T, F).
        padding: mask (R, N, S), True at padding of the source; None without source lengths.
        last_valid: index of the last valid source step of each sequence, (1, R, N, H), as an
            argument of `torch.gather`; None without source lengths.
        ignored: mask (R, N, T, 1 or F), True at the target values that the loss ignores; None if
            the loss uses all target values.
        forced: mask (T, R, N, 1), True at the steps with teacher forcing.
        scale: the reciprocal of the number of target values that the loss uses, (R,).
        twice_scale: twice the value of `scale`, (R,).
    """

    def __init__(self, tape: OpTape, shape: BufferShape, *, has_runs: bool) -> None:
        R, N, S, T, F, H, ragged, mask = shape
        self.tape, self.shape, self.has_runs, new = tape, shape, has_runs, tape.new
        self.x, self.target = new(R, shape.start + T, N, F), new(R, N, T, F)
        source = self.x[:, :S].transpose(1, 2)
        self.source_buffer = source if has_runs else source[0]
        self.target_buffer = self.target if has_runs else self.target[0]
        self.padding = new(R, N, S).bool() if ragged else None
        self.last_valid = new(1, R, N, H, runs=1).long() if ragged else None
        self.ignored = new(R, N, T, mask).bool() if mask else None
        self.forced = new(T, R, N, 1, runs=1).bool()
        self.scale = new(R).fill_(1 / (N * T * F))
        self.twice_scale = 2 * self.scale

    def load(
        self, source: Tensor, target: Tensor, lengths: Tensor | None, keep: Tensor | None
    ) -> None:
        """Copy a batch into the buffers. `ManualLoss.value_and_grad` describes the arguments."""
        if keep is not None and self.ignored is not None:
            self.ignored.copy_(~keep.view(self.ignored.shape))
            # Padded steps become 0. Unobserved values remain, because they are decoder inputs.
            if keep.dim() < target.dim():
                target = target.masked_fill(~keep.unsqueeze(-1), 0)
            features = self.target.shape[-1] // self.ignored.shape[-1]
            counted = (~self.ignored).sum(dim=(1, 2, 3)).clamp(min=1) * features
            torch.reciprocal(counted.to(self.scale.dtype), out=self.scale)
            torch.mul(self.scale, 2, out=self.twice_scale)
        if lengths is not None and self.padding is not None and self.last_valid is not None:
            R, N, S = self.padding.shape
            lengths = lengths.view(R, N, 1)
            torch.ge(torch.arange(S, device=source.device), lengths, out=self.padding)
            source = source.masked_fill(self.padding.view(*source.shape[:-1], 1), 0)
            self.last_valid.copy_((lengths - 1).expand(self.last_valid.shape))
        self.source_buffer.copy_(source)
        self.target_buffer.copy_(target)

    def shift_right(self) -> None:
        """Fill the decoder inputs. The first input is the last valid source step, and each later
        input is the previous target step. At steps without teacher forcing, the method `feed`
        replaces the input later."""
        record, x, (R, N, S, T, F, *_), D = self.tape.record, self.x, self.shape, self.shape.start
        if self.last_valid is None:
            record(x[:, D].copy_, x[:, S - 1])
        else:
            index = self.last_valid[..., :1].transpose(0, 1).expand(R, 1, N, F)
            record(torch.gather, x[:, :S], 1, index, out=x[:, D : D + 1])
        if T > 1:
            record(x[:, D + 1 :].copy_, self.target[:, :, :-1].transpose(1, 2))

    def feed(self, t: int, y: Tensor, *, mixed: bool) -> Tensor:
        """Write the output y of step t - 1 into the input of decoder step t, and return this input.

        Args:
            t: the decoder step.
            y: the output of step t - 1, (R, N, F).
            mixed: whether some sequences are teacher-forced at step t; the inputs of these
                sequences are not changed.

        Returns:
            the input of step t, (R, N, F).
        """
        x = self.x[:, self.shape.start + t]
        if mixed:
            self.tape.record(torch.where, self.forced[t], x, y, out=x)
        else:
            self.tape.record(x.copy_, y)
        return x

    def load_teacher_forcing(self, teacher_forcing: Tensor) -> None:
        """Copy the mask of teacher-forced steps into the buffer `forced`; see
        `Seq2SeqModel.forward`."""
        T, R, N, _ = self.forced.shape
        forced = teacher_forcing.expand(*teacher_forcing.shape[:-2], N, T)
        forced = forced.expand(R, N, T).permute(2, 0, 1).unsqueeze(-1)
        self.forced.copy_(forced, non_blocking=True)


class MeanSquaredError:
    """The mean squared error of each run over the unmasked target values. This error is
    `batch.scale` times the sum of the squared errors.

    Args:
        batch: the buffers with the targets.
        y: the buffer of the model's outputs, (R, N, T, F).
    """

    def __init__(self, batch: BatchBuffers, y: Tensor) -> None:
        new = batch.tape.new
        self.batch, self.y, self.sum = batch, y, new(len(y))
        self.result = self.sum if batch.has_runs else self.sum[0]
        self.error, self.squares = new(*y.shape), new(*y.shape)

    def loss(self) -> Tensor:
        """Return a copy of the result of `forward`, (R,), or () without an axis of runs."""
        return self.result.clone()

    def forward(self) -> None:
        """Compute the loss from the outputs `y`."""
        record, error = self.batch.tape.record, self.error
        record(torch.sub, self.y, self.batch.target, out=error)
        if self.batch.ignored is not None:
            record(error.masked_fill_, self.batch.ignored, 0)
        if len(error) == 1:
            flat = error.view(1, 1, -1)
            record(torch.bmm, flat, flat.mT, out=self.sum.view(1, 1, 1))
        else:
            record(torch.mul, error, error, out=self.squares)
            record(torch.sum, self.squares, (1, 2, 3), out=self.sum)
        record(self.sum.mul_, self.batch.scale)

    def backward(self, dy: Tensor) -> None:
        """Write the gradient of the loss with respect to y into dy (R, N, T, F)."""
        scale = self.batch.twice_scale.view(-1, 1, 1, 1)
        self.batch.tape.record(torch.mul, self.error, scale, out=dy)
