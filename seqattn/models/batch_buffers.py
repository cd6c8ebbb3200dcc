"""Fixed memory for what recorded operations read and write: a batch, parameters and a gradient.

Letters as in `seqattn.models.op_tape`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqattn.models.op_tape import OpTape


class FlatGradient:
    """The parameters of R runs and one matrix for their gradient.

    Attributes:
        weight: parameter's name -> (R, ...), its memory; R is 1 without an axis of runs.
        grad: parameter's name -> (R, ...), a view of `gradient`.
        gradient: (R, P), in the parameters' order.
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
        """The gradients of two vectors that lie side by side, as one: (R, both lengths)."""
        start, end = self.columns[first], self.columns[second]
        assert start.stop == end.start
        return self.gradient[:, start.start : end.stop]


class BatchShape(NamedTuple):
    """What two batches have in common that one record of operations serves.

    Attributes:
        R, N, S, T, F, H: see the module's docstring.
        ragged: whether sources have lengths.
        mask: features of the target's mask: 0 without one, 1 of points, F of cells.
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
    ) -> BatchShape:  # fmt: skip
        """Of a batch; see `ManualLoss.value_and_grad`."""
        (*_, N, S, F), (*_, T, _) = source.shape, target.shape
        mask = 0 if keep is None else F if keep.dim() == target.dim() else 1
        return cls(R, N, S, T, F, H, lengths is not None, mask)

    @property
    def start(self) -> int:
        """Slot of the state that the decoder starts from: S, the encoder's last; with lengths
        S + 1, a copy of each sequence's last valid state."""
        return self.S + 1 if self.ragged else self.S


class BatchBuffers:
    """A batch, copied to where recorded operations read it.

    Attributes:
        x: (R, slots, N, F), the input of the step from each slot; `load` fills the first S.
        target: (R, N, T, F).
        padding: (R, N, S), True at padding of the source; None: there is none.
        last_valid: (1, R, N, H), the last real source point, at each place of a state; or None.
        ignored: (R, N, T, mask), True where the error does not count; None: it counts everywhere.
        coins: (T, R, N, 1), True where a step is fed the truth.
        scale, twice_scale: (R,), 1 / number of target values that count; and 2 / this number.
    """

    def __init__(self, tape: OpTape, shape: BatchShape, *, has_runs: bool) -> None:
        R, N, S, T, F, H, ragged, mask = shape
        self.tape, self.shape, self.has_runs, new = tape, shape, has_runs, tape.new
        self.x, self.target = new(R, shape.start + T, N, F), new(R, N, T, F)
        source = self.x[:, :S].transpose(1, 2)
        self.source_in = source if has_runs else source[0]
        self.target_in = self.target if has_runs else self.target[0]
        self.padding = new(R, N, S).bool() if ragged else None
        self.last_valid = new(1, R, N, H, runs=1).long() if ragged else None
        self.ignored = new(R, N, T, mask).bool() if mask else None
        self.coins = new(T, R, N, 1, runs=1).bool()
        self.scale = new(R).fill_(1 / (N * T * F))
        self.twice_scale = 2 * self.scale

    def load(
        self, source: Tensor, target: Tensor, lengths: Tensor | None, keep: Tensor | None
    ) -> None:
        """Copy a batch; see `ManualLoss.value_and_grad`."""
        if keep is not None and self.ignored is not None:
            self.ignored.copy_(~keep.view(self.ignored.shape))
            if keep.dim() < target.dim():  # unobserved cells hold what is fed for them
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
        self.source_in.copy_(source)
        self.target_in.copy_(target)

    def shift_right(self) -> None:
        """Fill the decoder's inputs: the last real source point, and then the truth, which a step
        that is not forced replaces."""
        do, x, (R, N, S, T, F, *_), D = self.tape.do, self.x, self.shape, self.shape.start
        if self.last_valid is None:
            do(x[:, D].copy_, x[:, S - 1])
        else:
            places = self.last_valid[..., :1].transpose(0, 1).expand(R, 1, N, F)
            do(torch.gather, x[:, :S], 1, places, out=x[:, D : D + 1])
        if T > 1:
            do(x[:, D + 1 :].copy_, self.target[:, :, :-1].transpose(1, 2))

    def feed(self, t: int, y: Tensor, *, mixed: bool) -> Tensor:
        """The input of decoder step t (R, N, F), made the output y of the step before; `mixed`:
        but the truth where the coin says so."""
        x = self.x[:, self.shape.start + t]
        if mixed:
            self.tape.do(torch.where, self.coins[t], x, y, out=x)
        else:
            self.tape.do(x.copy_, y)
        return x

    def load_coins(self, teacher_forcing: Tensor) -> None:
        """Copy the coins of steps 0 to T - 1; see `Seq2SeqModel.forward`."""
        T, R, N, _ = self.coins.shape
        coins = teacher_forcing.expand(*teacher_forcing.shape[:-2], N, T)
        self.coins.copy_(coins.expand(R, N, T).permute(2, 0, 1).unsqueeze(-1))


class MeanSquaredError:
    """scale * sum(error^2) of each run, error = y - target where it counts and 0 elsewhere.

    Args:
        y: (R, N, T, F), where the outputs are.
    """

    def __init__(self, batch: BatchBuffers, y: Tensor) -> None:
        new = batch.tape.new
        self.batch, self.y, self.sum = batch, y, new(len(y))
        self.result = self.sum if batch.has_runs else self.sum[0]
        self.error, self.squares = new(*y.shape), new(*y.shape)

    def loss(self) -> Tensor:
        """A copy of the result of `forward`: (R,), or () without an axis of runs."""
        return self.result.clone()

    def forward(self) -> None:
        do, error = self.batch.tape.do, self.error
        do(torch.sub, self.y, self.batch.target, out=error)
        if self.batch.ignored is not None:
            do(error.masked_fill_, self.batch.ignored, 0)
        if len(error) == 1:
            flat = error.view(1, 1, -1)
            do(torch.bmm, flat, flat.mT, out=self.sum.view(1, 1, 1))
        else:
            do(torch.mul, error, error, out=self.squares)
            do(torch.sum, self.squares, (1, 2, 3), out=self.sum)
        do(self.sum.mul_, self.batch.scale)

    def backward(self, dy: Tensor) -> None:
        """Write the gradient of y."""
        scale = self.batch.twice_scale.view(-1, 1, 1, 1)
        self.batch.tape.do(torch.mul, self.error, scale, out=dy)
