"""The buffers that recorded operations read and write: the batch, the parameters and their
gradients, and the loss.

The letters in shapes are defined in `seqattn.models.op_tape`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqattn.models.op_tape import OpTape


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
