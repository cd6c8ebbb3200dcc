"""The loss of the default family, with its backward pass derived by hand.

Autograd records every operation, and for small models the record costs more than the arithmetic.
Here both passes of one model family are written out: the GRU encoder-decoder of `recurrent.py`
with `context: output`, `readout: linear` and a score made of dot products. In `_Passes`, forward
methods F1 to F6 each stand above the method B1 to B6 that undoes it; read F1 to F6 down and B6 to
B1 up. Nothing else knows of this file, and without it all works the same, slower.

Letters: R runs, N sequences, S source length, T target length, F features, H width of the state;
L steps. Step l leads from the state in slot l to the one in slot l + 1:

    slot     0       1 .. S     D + 1 .. D + T
    state    zeros   encoder    decoder

The decoder starts from slot D. Where all sources have S points that is S, the encoder's last state;
else it is S + 1, and step S does nothing but move the state at the last real point there. Three
identities keep the passes short.

1. Every score of the family is one bilinear form of decoder state h and encoder state e. With
   q = A h + a and k = B e + b,

       q . k / sqrt(K) = h . M e + v . e + (what is the same for all e)
       M = A^T B / sqrt(K),  v = B^T a / sqrt(K)

   A softmax does not see what is the same for all, so b has gradient zero. `general` is M = W,
   v = 0; without projections M is the identity.
2. Weights sum to 1, so what is done to a context can be done to the values before:
   W_c sum_s w_s (V e_s + u) = sum_s w_s (W_c V e_s) + W_c u.
3. The direct share of the output, W_h h + b, looks like F more scores: keys W_h, bias b.

So a state e shows everything at once, `look e` with look = [M; v; W_c V], and one matmul gives
scores and direct output together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqattn.attention import Attention, DotScore, GeneralScore, ScaledDotScore, Softmax
from seqattn.cells import GRU
from seqattn.layers import Linear
from seqattn.models.recurrent import RecurrentModel
from seqattn.models.teacher_forcing import forced_steps

Segment = tuple[int, int, str]  # first target step, the one after the last, how the first is fed

# From measuring; none of them changes a result by more than rounding.
MOST_PROGRAMS = 4096  # lists of operations that are remembered for one shape of batch
LONG = 8  # target steps, from which on a plan has no list of its own
NARROW = 8  # columns of a product that is turned around
INNER_FROM, INNER_UP_TO = 8, 4  # runs that are laid innermost, and width of the state up to which
MOST_TERMS = 200_000  # of a sum of products without a matmul, then
LARGE = 2048  # numbers from which on tanh takes a detour


COVERED_CLASSES = frozenset({
    RecurrentModel, nn.ModuleList, GRU, Linear, Attention, Softmax,
    DotScore, ScaledDotScore, GeneralScore,
})  # fmt: skip
"""Classes of all modules of a covered model. A subclass is not covered: it may compute something
else."""


def supports(model: object) -> bool:
    """Whether this file has the backward pass of a model."""
    return (
        type(model) is RecurrentModel
        and all(type(module) in COVERED_CLASSES for module in model.modules())
        and model.points.are_alike
        and not model.decoder_above
        and model.dropout == 0
        and model.context_is_output
        and model.combine is None
        and model.attention is not None
        and model.attention.is_plain
    )


def wants_runs_inner(model: RecurrentModel, runs: int) -> bool:
    """Whether the runs should be innermost in memory: for matrices so small that multiplying
    column by column, all runs at once, is faster than any matmul."""
    return runs >= INNER_FROM and model.encoder.hidden <= INNER_UP_TO


class ManualLoss:
    """The mean squared error of a covered model under teacher forcing.

    Called, it is a loss like any other, ready for `backward`. `value_and_grad` goes both ways at
    once: for a dozen tiny parameters autograd's own bookkeeping would take a third of the time.

    Args:
        model: its parameters, with a leading axis (R, ...) where runs are trained side by side.
            From here on they must stay where they are in memory.
        gradient: where `value_and_grad` is to leave the gradient, (R, P), in the parameters' order
            and with zeros in it; None: in memory of its own.
    """

    def __init__(self, model: RecurrentModel, gradient: Tensor | None = None) -> None:
        assert model.attention is not None
        self.score, self.value = model.attention.score, model.attention.value
        parameters = dict(model.named_parameters())
        self.has_runs = model.output.weight.dim() == 3
        self.weight = {
            name: p.detach() if self.has_runs else p.detach().unsqueeze(0)
            for name, p in parameters.items()
        }
        self.like = self.weight["output.weight"]
        self.R, self.F, self.H = self.like.shape[0], model.points.said, model.encoder.hidden
        self.runs_innermost = self.like.stride(0) == 1 and self.R > 1
        sizes = [w[0].numel() for w in self.weight.values()]
        if gradient is None:
            gradient = self.new(self.R, sum(sizes)).zero_()
        self.gradient = gradient
        pieces = self.gradient.split(sizes, dim=1)
        self.slope = {
            name: piece.unflatten(1, w.shape[1:])
            for (name, w), piece in zip(self.weight.items(), pieces, strict=True)
        }
        self.parameters = list(parameters.values())
        self.passes: dict[tuple[int, int, int, bool, int], _Passes] = {}

    def new(self, *shape: int, runs: int = 0) -> Tensor:
        """Memory; `runs` is the axis of runs, which lies innermost where that pays."""
        if not self.runs_innermost:
            return self.like.new_empty(shape)
        inner = shape[:runs] + shape[runs + 1 :] + shape[runs : runs + 1]
        return self.like.new_empty(inner).movedim(-1, runs)

    def bias_grad(self, cell: str) -> Tensor:
        """The gradient of a GRU's two biases, which lie side by side, (R, 6H)."""
        first, second = (self.slope[f"{cell}.bias_{of}"] for of in ("ih", "hh"))
        place = first.storage_offset() // (self.R if self.runs_innermost else 1)
        both = self.gradient[:, place : place + 6 * self.H]
        assert both[:, 3 * self.H :].data_ptr() == second.data_ptr()
        return both

    def __call__(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        target_keep: Tensor | None,
        teacher_forcing: Tensor,
    ) -> Tensor:
        """The loss of each run, (R,), or () where parameters have no runs.

        Args:
            target_keep: (..., N, T), True at real target points, or (..., N, T, F), True at
                observed cells; None: all.
            source, target, source_lengths, teacher_forcing: see `Seq2SeqModel.forward`.
        """
        passes = self._reading(source, target, source_lengths, target_keep)
        passes.stretches = passes.plan(teacher_forcing)
        loss: Tensor = _Loss.apply(passes, *self.parameters)  # type: ignore[no-untyped-call]
        return loss

    def value_and_grad(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        target_keep: Tensor | None,
        teacher_forcing: Tensor,
    ) -> Tensor:
        """The same loss, with nothing of autograd in it; each run's gradient is in `gradient`."""
        passes = self._reading(source, target, source_lengths, target_keep)
        passes.stretches = passes.plan(teacher_forcing)
        passes.forward()
        loss = passes.loss_out.clone()
        passes.backward(passes.ones)
        return loss

    def both_losses(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        target_keep: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The loss free running and with every step told the truth, without a way back."""
        passes = self._reading(source, target, source_lengths, target_keep)
        T = target.shape[-2]
        passes.stretches = ((0, T, "told"),)
        passes.forward()
        forced = passes.loss_out.clone()
        # The first step is the same; from the second on each is fed its own word.
        passes.stretches = tuple((t, t + 1, "own") for t in range(1, T))
        passes.forward(again=True)
        return passes.loss_out.clone(), forced

    def _reading(
        self, source: Tensor, target: Tensor, lengths: Tensor | None, keep: Tensor | None
    ) -> _Passes:
        """The passes over batches of this shape, with this one taken in."""
        *_, N, S, _ = source.shape
        *_, T, _ = target.shape
        masked = 0 if keep is None else self.F if keep.dim() == target.dim() else 1
        shape = N, S, T, lengths is not None, masked
        passes = self.passes.get(shape)
        if passes is None:
            passes = self.passes[shape] = _Passes(self, *shape)
        passes.read(source, target, lengths, keep)
        return passes


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: _Passes, *parameters: Tensor) -> Tensor:
        ctx.passes, ctx.used = passes, passes.used
        passes.forward()
        return passes.loss_out.clone()

    @staticmethod
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        passes: _Passes = ctx.passes
        if ctx.used != passes.used:
            raise RuntimeError("another batch has used the buffers since: go backward before it")
        if torch.is_grad_enabled():
            raise RuntimeError("there is no second derivative here: use the plain model")
        passes.backward(dloss)
        model = passes.model
        return None, *(d.clone() if model.has_runs else d[0].clone() for d in model.slope.values())


class _Passes:
    """Both passes over one shape of batch, in buffers that are allocated once.

    Operations write into buffers and read views of them, so they are the same objects every time:
    `do` carries an operation out and remembers it with its views, and the next batch repeats the
    list. A method run by `repeat` may therefore neither decide by the numbers it sees nor make a
    tensor in any other way than into a buffer.
    """

    def __init__(
        self, model: ManualLoss, N: int, S: int, T: int, ragged_source: bool, masked: int
    ) -> None:
        """
        Args:
            masked: features of the target's mask: 0 where there is none, 1 where it is of points,
                all where it is of cells.
        """
        R, F, H = model.R, model.F, model.H
        D = self.decoder = S + 1 if ragged_source else S
        L, P = D + T, H + 1 + F
        new = self.new = model.new
        self.model, self.w, self.d = model, model.weight, model.slope
        self.R, self.N, self.S, self.T, self.F, self.H = R, N, S, T, F, H
        self.used = 0
        self.programs: dict[tuple[object, ...], list[Callable[[], object]]] = {}
        self.calls: list[Callable[[], object]] = []

        self.x, self.target = new(R, L, N, F), new(R, N, T, F)
        fed = self.x[:, :S].transpose(1, 2)
        self.source_in, self.target_in = (
            (fed, self.target) if model.has_runs else (fed[0], self.target[0])
        )
        self.keep = new(R, N, S).bool() if ragged_source else None
        self.last_valid = new(1, R, N, H, runs=1).long() if ragged_source else None
        self.skip = new(R, N, T, masked).bool() if masked else None
        self.stretches: tuple[Segment, ...] = ()
        self.plans: dict[tuple[tuple[bool, ...], ...], tuple[Segment, ...]] = {}
        self.coins = new(T, R, N, 1, runs=1).bool()

        self.gi_encoder, self.gi_decoder = new(3, R, S * N, H, runs=1), new(3, R, T * N, H, runs=1)
        self.gi = [
            *self.gi_encoder.unflatten(2, (S, N)).unbind(2),
            *([self.gi_encoder[:, :, :N]] * (D - S)),  # of a step that computes nothing
            *self.gi_decoder.unflatten(2, (T, N)).unbind(2),
        ]
        self.gh, self.gates = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)
        self.n, self.by_n, self.temporary = (new(L, R, N, H, runs=1) for _ in range(3))
        self.by_gates, self.bend = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)
        self.states, self.dstates = (new(L + 1, R, N, H, runs=1) for _ in range(2))
        self.dg = new(R, L, N, 2, 3, H)
        self.dgi, self.dgh = self.dg.unbind(3)

        self.states[0] = 0
        self.look, self.dlook = new(R, P, H).zero_(), new(R, P, H)
        if type(model.score) in (DotScore, ScaledDotScore):  # what M stays without projections
            identity = torch.eye(H, dtype=model.like.dtype, device=model.like.device)
            scaled = type(model.score) is ScaledDotScore
            self.look[:, :H] = identity / math.sqrt(H) if scaled else identity
        self.shown, self.dshown = (new(S + F, R, N, P, runs=1) for _ in range(2))
        self.joint, self.djoint = new(R, N, T, S + F), new(R, N, T, S + F)
        self.dmore = new(R, N, 1, S + F)
        self.weights, self.total = new(R, N, T, S), new(R, N, T, 1)
        self.y, self.diff, self.squares, self.dx = *(new(R, N, T, F) for _ in "123"), new(R, N, F)
        self.output_bias, self.one = new(R, F, 1), torch.ones_like(model.like[0, 0, 0])
        self.minus_one = -self.one
        self.share, self.dloss, self.loss, self.ones = new(R), new(R), new(R), new(R).fill_(1)
        self.share.fill_(1 / (N * T * F))
        self.twice_share = 2 * self.share
        self.loss_out = self.loss if model.has_runs else self.loss[0]

    # --- how a pass is run ------------------------------------------------------------------------

    def read(
        self,
        source: Tensor,
        target: Tensor,
        source_lengths: Tensor | None,
        target_keep: Tensor | None,
    ) -> None:
        """Take in a batch."""
        self.used += 1
        if target_keep is not None and self.skip is not None:
            self.skip.copy_(~target_keep.view(self.skip.shape))
            if target_keep.dim() < target.dim():  # unobserved cells hold what is fed for them
                target = target.masked_fill(~target_keep.unsqueeze(-1), 0)
            points = (~self.skip).sum(dim=(1, 2, 3)).clamp(min=1) * (self.F // self.skip.shape[3])
            torch.reciprocal(points.to(self.share.dtype), out=self.share)
            torch.mul(self.share, 2, out=self.twice_share)
        if source_lengths is not None and self.keep is not None and self.last_valid is not None:
            R, N, S, H = self.R, self.N, self.S, self.H
            lengths = source_lengths.view(R, N, 1)
            torch.lt(torch.arange(S, device=source.device), lengths, out=self.keep)
            source = source.masked_fill(~self.keep.view(*source.shape[:-1], 1), 0)
            self.last_valid.copy_((lengths - 1).expand(R, N, H))
        self.source_in.copy_(source)
        self.target_in.copy_(target)

    def plan(self, teacher_forcing: Tensor) -> tuple[Segment, ...]:
        """Where stretches begin and end; between two steps that need the model's own word all is
        known. `forced`: from the start; `own`: all fed their own word; `mixed`: some the truth."""
        R, N, T = self.R, self.N, self.T
        everyone, anyone = forced_steps(teacher_forcing, T)
        pattern = tuple(everyone), tuple(anyone)
        stretches = self.plans.get(pattern)
        if stretches is None:
            own = [t for t in range(1, T) if not everyone[t]]
            stretches = tuple(
                (first, last, "told" if first == 0 else "mixed" if anyone[first] else "own")
                for first, last in zip([0, *own], [*own, T], strict=True)
            )
            if len(self.plans) < MOST_PROGRAMS:
                self.plans[pattern] = stretches
        if anyone != everyone:
            forced = teacher_forcing.expand(*teacher_forcing.shape[:-2], N, T)
            self.coins.copy_(forced.expand(R, N, T).permute(2, 0, 1).unsqueeze(-1))
        return stretches

    def forward(self, *, again: bool = False) -> None:
        """F1 to F5; `again` repeats the decoder for another plan of the same batch."""
        with torch.inference_mode():
            if not again:
                self.repeat(self.begin)
            if self.T > LONG:
                self.f4_decode(self.stretches)
            else:
                self.repeat(self.f4_decode, self.stretches)
            self.repeat(self.f5_compare)

    def backward(self, dloss: Tensor) -> None:
        with torch.inference_mode():
            self.dloss.copy_(dloss)
            self.repeat(self.b5_compare)
            if self.T > LONG:
                self.b4_decode(self.stretches)
            else:
                self.repeat(self.b4_decode, self.stretches)
            self.repeat(self.finish)

    def begin(self) -> None:
        self.f1_feed()
        self.f2_encode()
        self.f3_show()

    def finish(self) -> None:
        self.b3_show()
        self.b2_encode()
        self.b1_feed()

    def part(self, part: Callable[..., None], *arguments: object) -> None:
        """Of short targets a whole plan is one list of operations; long ones have too many plans,
        so there every part has its own."""
        if self.T > LONG:
            self.repeat(part, *arguments)
        else:
            part(*arguments)

    def repeat(self, part: Callable[..., None], *arguments: object) -> None:
        calls = self.programs.get((part.__name__, *arguments))
        if calls is not None:
            for call in calls:
                call()
            return
        self.calls = []
        part(*arguments)
        if len(self.programs) < MOST_PROGRAMS:
            self.programs[part.__name__, *arguments] = self.calls

    def do(self, operation: Callable[..., object], *arguments: Any, **options: Any) -> None:
        call = partial(operation, *arguments, **options)
        call()
        self.calls.append(call)

    def product(self, out: Tensor, a: Tensor, b: Tensor, plus: Tensor | None = None) -> None:
        """out = plus + a b, for batches of matrices (R, ..., m, k) and (R, ..., k, n); `plus` may
        be `out` itself."""
        do, (m, k), n = self.do, a.shape[-2:], b.shape[-1]
        if self.model.runs_innermost:
            if k <= NARROW:
                columns, rows = a.split(1, dim=-1), b.split(1, dim=-2)
                for i, (column, row) in enumerate(zip(columns, rows, strict=True)):
                    if i > 0 or plus is not None:
                        do(torch.addcmul, plus if i == 0 else out, column, row, out=out)
                    else:
                        do(torch.mul, column, row, out=out)
                return
            if a.numel() * n <= MOST_TERMS:
                terms = self.new(*out.shape, k)
                do(torch.mul, a.unsqueeze(-2), b.mT.unsqueeze(-3), out=terms)
                self.total_of(terms, out, plus)
                return
        # Two habits of bmm on the CPU are gone around: into an `out` that is not in one piece it
        # multiplies one by one all but tiny matrices, and a narrow result takes several times as
        # long as its transpose.
        a, b, into = self.merged(a), self.merged(b), out.flatten(0, -3)
        in_place = into.data_ptr() == out.data_ptr()
        if in_place and (m * k * n < 400 or (out.is_contiguous() and n > NARROW)):
            if plus is None:
                do(torch.bmm, a, b, out=into)
            elif plus is out:
                do(into.baddbmm_, a, b)
            else:
                added = plus.expand_as(out).flatten(0, -3)
                assert added.data_ptr() == plus.data_ptr()  # a copy would never change again
                do(torch.baddbmm, added, a, b, out=into)
            return
        if n <= NARROW < m:
            piece = a.new_empty(a.shape[0], n, m)
            do(torch.bmm, b.mT, a.mT, out=piece)
            piece = piece.mT
        else:
            piece = a.new_empty(a.shape[0], m, n)
            do(torch.bmm, a, b, out=piece)
        piece = piece.unflatten(0, out.shape[:-2])
        if plus is None:
            do(out.copy_, piece)
        else:
            do(torch.add, plus, piece, out=out)

    def total_of(self, terms: Tensor, out: Tensor, plus: Tensor | None) -> None:
        if plus is None:
            self.do(torch.sum, terms, -1, out=out)
        else:
            total = self.new(*out.shape)
            self.do(torch.sum, terms, -1, out=total)
            self.do(torch.add, plus, total, out=out)

    def merged(self, x: Tensor) -> Tensor:
        """(R, ..., m, n) -> (R * ..., m, n): a view, or where memory does not allow it a copy."""
        flat = x.flatten(0, -3)
        if flat.data_ptr() != x.data_ptr():
            self.do(flat.view(x.shape).copy_, x)
        return flat

    def runs_first(self, x: Tensor) -> Tensor:
        """(steps, R, N, width) -> (R, steps * N, width): a view, or with several runs a copy."""
        swapped = x.transpose(0, 1)
        flat = swapped.flatten(1, 2)
        if flat.data_ptr() != x.data_ptr():
            flat = self.new(*flat.shape)
            self.do(flat.view_as(swapped).copy_, swapped)
        return flat

    # --- F1, B1: what is fed, W x + b of all gates and steps at once ------------------------------

    def f1_feed(self) -> None:
        R, N, S, T, F = self.R, self.N, self.S, self.T, self.F
        do, x, D = self.do, self.x, self.decoder
        # x = the source, its last real point,
        if self.last_valid is None:
            do(x[:, D].copy_, x[:, S - 1])
        else:
            places = self.last_valid[..., :1].transpose(0, 1).expand(R, 1, N, F)
            do(torch.gather, x[:, :S], 1, places, out=x[:, D : D + 1])
        if T > 1:  # and the truth, which a step that is not told replaces
            do(x[:, D + 1 :].copy_, self.target[:, :, :-1].transpose(1, 2))
        # gi = W x + b
        for cell, steps, gi in (
            ("encoder", slice(0, S), self.gi_encoder),
            ("decoder", slice(D, None), self.gi_decoder),
        ):
            weight, bias = self.w[f"{cell}.weight_ih"], self.w[f"{cell}.bias_ih"]
            self.project(gi, x[:, steps].flatten(1, 2), weight, bias)

    def b1_feed(self) -> None:
        S = self.S
        do, d, D = self.do, self.d, self.decoder
        # The reset and update gate add gi and gh, so theirs are the same; n has its own.
        do(self.dgi[..., :2, :].copy_, self.dgh[..., :2, :])
        dn = self.dgi[..., 2, :].transpose(0, 1)
        do(torch.mul, self.by_n, self.dstates[1:], out=dn)
        for cell, steps in (("encoder", slice(0, S)), ("decoder", slice(D, None))):
            both = self.dg[:, steps].flatten(3, 5).flatten(1, 2)  # (R, steps * N, 6H)
            dgi, dgh = both.chunk(2, dim=-1)
            before = self.runs_first(self.states[:-1][steps])
            # gi = W x + b, gh = U h + c
            self.product(d[f"{cell}.weight_ih"], dgi.mT, self.x[:, steps].flatten(1, 2))
            self.product(d[f"{cell}.weight_hh"], dgh.mT, before)
            do(torch.sum, both, 1, out=self.model.bias_grad(cell))

    def project(self, out: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
        """W x + b, gate by gate: x (R, n, in), weight (R, 3H, in) -> out (3, R, n, H)."""
        R, H = self.R, self.H
        weights = weight.unflatten(1, (3, H)).permute(1, 0, 3, 2)  # (3, R, in, H)
        biases = bias.unflatten(1, (3, H)).transpose(0, 1).unsqueeze(2)  # (3, R, 1, H)
        if self.model.runs_innermost and x.shape[-1] <= NARROW:
            self.product(out, x.unsqueeze(0), weights, biases)
        elif R == 1:
            self.do(torch.baddbmm, biases[:, 0], x.expand(3, -1, -1), weights[:, 0], out=out[:, 0])
        else:
            joined = self.new(*x.shape[:-1], 3 * H)
            self.product(joined, x, weight.mT, bias.unsqueeze(1))
            self.do(out.copy_, joined.unflatten(-1, (3, H)).permute(2, 0, 1, 3))

    # --- F2, B2: the encoder ----------------------------------------------------------------------

    def f2_encode(self) -> None:
        S = self.S
        for step in range(S):
            self.gru_step(step, "encoder")
        if self.last_valid is not None:
            # start = the state at the last real source point
            encoded, start = self.states[1 : S + 1], self.states[S + 1 : S + 2]
            self.do(torch.gather, encoded, 0, self.last_valid, out=start)

    def b2_encode(self) -> None:
        S = self.S
        if self.last_valid is not None:
            # start = the state at the last real source point
            dencoded, dstart = self.dstates[1 : S + 1], self.dstates[S + 1 : S + 2]
            self.do(dencoded.scatter_add_, 0, self.last_valid, dstart)
        for step in reversed(range(S)):
            self.gru_step_back(step, "encoder")

    def gru_step(self, step: int, cell: str) -> None:
        """h' = (1 - z) n + z h; see `seqattn.cells.GRU`."""
        do, h, gi, gh = self.do, self.states[step], self.gi[step], self.gh[step]
        weight, bias, gates, n = (
            self.w[f"{cell}.weight_hh"],
            self.w[f"{cell}.bias_hh"],
            self.gates[step],
            self.n[step],
        )
        if step == 0:  # from zeros
            do(gh.copy_, bias.unflatten(1, (3, -1)).transpose(0, 1).unsqueeze(2))
        else:
            self.project(gh, h, weight, bias)
        do(torch.add, gi[:2], gh[:2], out=gates)
        do(gates.sigmoid_)  # r, z
        do(torch.addcmul, gi[2], gates[0], gh[2], out=n)
        self.tanh_(n)
        do(torch.lerp, n, h, gates[1], out=self.states[step + 1])

    def tanh_(self, x: Tensor) -> None:
        """tanh x = 2 sigmoid(2 x) - 1; from some size on torch's sigmoid is so much faster on the
        CPU that the detour pays."""
        do = self.do
        if x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() >= LARGE:
            do(x.add_, x)
            do(x.sigmoid_)
            do(torch.add, self.minus_one, x, alpha=2, out=x)
        else:
            do(x.tanh_)

    def gru_step_back(self, step: int, cell: str) -> None:
        """From the gradient of h' to those of U h + c and of h."""
        do, dh_next, dh = self.do, self.dstates[step + 1], self.dstates[step]
        dgh = self.dgh[:, step]
        do(torch.mul, self.by_gates[step], dh_next, out=dgh.permute(2, 0, 1, 3))
        if step > 0:
            do(dh.addcmul_, dh_next, self.gates[step, 1])
            self.product(dh, dgh.flatten(2, 3), self.w[f"{cell}.weight_hh"], dh)

    def gate_jacobians(self) -> None:
        """By what h' = (1 - z) n + z h changes with its gates, of all steps at once:

        z                (h - n) z (1 - z)
        n                (1 - z) (1 - n^2) =: a
        r                a (U_n h + c_n) r (1 - r)
        U_n h + c_n      a r
        """
        do, (r, z), n, a = self.do, self.gates.unbind(1), self.n, self.by_n
        by_r, by_z, by_gh_n = self.by_gates.unbind(1)
        bend_r, bend_z = self.bend.unbind(1)
        do(torch.addcmul, self.gates, self.gates, self.gates, value=-1, out=self.bend)
        do(torch.addcmul, self.one, n, n, value=-1, out=self.temporary)
        do(torch.addcmul, self.temporary, self.temporary, z, value=-1, out=a)
        do(torch.sub, self.states[:-1], n, out=by_z)
        do(by_z.mul_, bend_z)
        do(torch.mul, a, self.gh[:, 2], out=by_r)
        do(by_r.mul_, bend_r)
        do(torch.mul, a, r, out=by_gh_n)

    # --- F3, B3: what an encoder state shows to those who ask: key, bias, word --------------------

    def f3_show(self) -> None:
        R, N, S, H = self.R, self.N, self.S, self.H
        do, w, look = self.do, self.w, self.look
        context, direct = w["output.weight"].split(H, dim=2)
        # look = [M; v; W_c V], output bias = b + W_c u
        if "attention.score.query.weight" in w:
            A, B = w["attention.score.query.weight"], w["attention.score.key.weight"]
            a, scale = w["attention.score.query.bias"].unsqueeze(1), 1 / math.sqrt(B.shape[1])
            M, v = look[:, :H], look[:, H : H + 1]
            self.product(M, A.mT, B)
            self.product(v, a, B)
            do(look[:, : H + 1].mul_, scale)
        elif type(self.model.score) is GeneralScore:
            do(look[:, :H].copy_, w["attention.score.key.weight"])
        bias = w["output.bias"].unsqueeze(2)
        if self.model.value is None:
            do(look[:, H + 1 :].copy_, context)
        else:
            V, u = w["attention.value.weight"], w["attention.value.bias"].unsqueeze(2)
            self.product(look[:, H + 1 :], context, V)
            self.product(self.output_bias, context, u, bias)
            bias = self.output_bias
        # shown = look e, and below it the output's own keys and bias
        encoded = self.runs_first(self.states[1 : S + 1])
        shown = self.shown[:S].transpose(0, 1)  # (R, S, N, P)
        if shown.flatten(1, 2).data_ptr() == shown.data_ptr():
            self.product(shown.flatten(1, 2), encoded, look.mT)
        else:
            joined = self.new(R, S * N, look.shape[1])
            self.product(joined, encoded, look.mT)
            do(shown.copy_, joined.unflatten(1, (S, N)))
        if self.keep is not None:
            hidden = ~self.keep.permute(2, 0, 1)
            do(torch.logical_not, self.keep.permute(2, 0, 1), out=hidden)
            do(self.shown[:S, ..., H].masked_fill_, hidden, -math.inf)
        do(self.shown[S:, ..., :H].copy_, direct.transpose(0, 1).unsqueeze(2))
        do(self.shown[S:, ..., H].copy_, bias.transpose(0, 1))

    def b3_show(self) -> None:
        R, N, S, H = self.R, self.N, self.S, self.H
        do, w, d, dlook = self.do, self.w, self.d, self.dlook
        dcontext, ddirect = d["output.weight"].split(H, dim=2)
        dbias = d["output.bias"]
        # joint = bias + asks keys^T, y = ... + weights words: all stretches at once
        dkeys, dshown_bias, dwords = self.of_shown(self.dshown)
        asks = self.states[self.decoder + 1 :].permute(1, 2, 0, 3)
        self.product(dkeys, self.djoint.mT, asks)
        do(torch.sum, self.djoint, 2, keepdim=True, out=dshown_bias)
        self.product(dwords, self.weights.mT, self.djoint[..., S:])
        # shown = look e, and below it the output's own keys and bias
        do(torch.sum, self.dshown[S:, ..., :H], 2, out=ddirect.transpose(0, 1))
        do(torch.sum, self.dshown[S:, ..., H], 2, out=dbias.T)
        dshown, encoded = self.runs_first(self.dshown[:S]), self.runs_first(self.states[1 : S + 1])
        self.product(dlook, dshown.mT, encoded)
        dencoded = self.dstates[1 : S + 1].transpose(0, 1)  # (R, S, N, H)
        if dencoded.flatten(1, 2).data_ptr() == dencoded.data_ptr():
            dencoded = dencoded.flatten(1, 2)
            self.product(dencoded, dshown, self.look, dencoded)
        else:
            joined = self.new(R, S * N, H)
            self.product(joined, dshown, self.look)
            do(dencoded.add_, joined.unflatten(1, (S, N)))
        # look = [M; v; W_c V], output bias = b + W_c u
        dM, dv, dcontext_v = dlook[:, :H], dlook[:, H : H + 1], dlook[:, H + 1 :]
        if "attention.score.query.weight" in w:
            A, B = w["attention.score.query.weight"], w["attention.score.key.weight"]
            a, scale = w["attention.score.query.bias"].unsqueeze(2), 1 / math.sqrt(B.shape[1])
            dA, dB = d["attention.score.query.weight"], d["attention.score.key.weight"]
            da = d["attention.score.query.bias"].unsqueeze(2)
            do(dlook[:, : H + 1].mul_, scale)
            self.product(dA, B, dM.mT)
            self.product(da, B, dv.mT)
            do(d["attention.score.key.bias"].zero_)  # whoever has the gradient may write into it
            self.product(dB, A, dM)
            self.product(dB, a, dv, dB)
        elif type(self.model.score) is GeneralScore:
            do(d["attention.score.key.weight"].copy_, dM)
        if self.model.value is None:
            do(dcontext.copy_, dcontext_v)
        else:
            context, V = w["output.weight"][:, :, :H], w["attention.value.weight"]
            u = w["attention.value.bias"].unsqueeze(1)
            self.product(d["attention.value.weight"], context.mT, dcontext_v)
            self.product(d["attention.value.bias"].unsqueeze(2), context.mT, dbias.unsqueeze(2))
            self.product(dcontext, dcontext_v, V.mT)
            self.product(dcontext, dbias.unsqueeze(2), u, dcontext)

    def of_shown(self, shown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (R, N, S + F, H), biases (R, N, 1, S + F) and words (R, N, S, F): views."""
        S, H = self.S, self.H
        each = shown.permute(1, 2, 0, 3)
        return each[..., :H], each[..., H].unsqueeze(2), each[:, :, :S, H + 1 :]

    # --- F4, B4: a stretch of the decoder, from a step that is fed its own word to the next -------

    def f4_decode(self, stretches: tuple[Segment, ...]) -> None:
        one_by_one = all(last - first == 1 for first, last, _ in stretches)
        for first, last, kind in stretches:
            if kind != "told":
                self.part(self.f4_feed, first, kind)
            for step in range(self.decoder + first, self.decoder + last):
                self.part(self.gru_step, step, "decoder")
            if one_by_one or last < self.T:  # its word is fed to the next step
                self.part(self.f4_attend, last - 1, last)
        if not one_by_one:  # all others, and these again, at once
            self.part(self.f4_attend, 0, self.T)

    def b4_decode(self, stretches: tuple[Segment, ...]) -> None:
        one_by_one = all(last - first == 1 for first, last, _ in stretches)
        if not one_by_one:
            self.part(self.b4_attend, 0, self.T)
        for first, last, kind in reversed(stretches):
            if one_by_one:
                self.part(self.b4_attend, first, last)
            for step in reversed(range(self.decoder + first, self.decoder + last)):
                self.part(self.gru_step_back, step, "decoder")
            if kind != "told":
                self.part(self.b4_feed, first, kind, one_by_one)

    def f4_feed(self, t: int, kind: str) -> None:
        fed, said = self.x[:, self.decoder + t], self.y[:, :, t - 1]
        # x = said, or the truth where the coin says so
        if kind == "mixed":
            self.do(torch.where, self.coins[t], fed, said, out=fed)
        else:
            self.do(fed.copy_, said)
        # gi = W x + b
        weight, bias = self.w["decoder.weight_ih"], self.w["decoder.bias_ih"]
        self.project(self.gi[self.decoder + t], fed, weight, bias)

    def b4_feed(self, t: int, kind: str, one_by_one: bool) -> None:
        do, step, S = self.do, self.decoder + t, self.S
        # gi = W x + b
        dgi, dgh = self.dgi[:, step], self.dgh[:, step]
        do(dgi[..., :2, :].copy_, dgh[..., :2, :])
        do(torch.mul, self.by_n[step], self.dstates[step + 1], out=dgi[..., 2, :])
        weight, dsaid = self.w["decoder.weight_ih"], self.djoint[:, :, t - 1, S:]
        # x = said, or the truth where the coin says so
        if one_by_one and kind == "own":
            self.product(dsaid, dgi.flatten(2, 3), weight, dsaid)
            return
        self.product(self.dx, dgi.flatten(2, 3), weight)
        if kind == "mixed":
            do(self.dx.masked_fill_, self.coins[t], 0)
        if one_by_one:
            do(dsaid.add_, self.dx)
        else:  # its attention has been gone through without this share: go with it alone
            do(self.dmore[..., S:].copy_, self.dx.unsqueeze(2))
            self.attend_back(t - 1, t, self.dmore)
            do(self.djoint[:, :, t - 1 : t].add_, self.dmore)

    def f4_attend(self, first: int, last: int) -> None:
        S = self.S
        keys, bias, words = self.of_shown(self.shown)
        asks = self.states[self.decoder + 1 + first : self.decoder + 1 + last].permute(1, 2, 0, 3)
        joint, weights = self.joint[:, :, first:last], self.weights[:, :, first:last]
        # joint = bias + asks keys^T, the scores and the output's direct share
        self.product(joint, asks, keys.mT, bias)
        # weights = softmax(scores)
        # (the axes in the order of memory: torch would rearrange them)
        axes = (1, 2, 3, 0) if self.model.runs_innermost else (0, 1, 2, 3)
        scores = joint[..., :S].permute(axes)
        self.do(torch.softmax, scores, axes.index(3), out=weights.permute(axes))
        # y = direct + weights words
        self.product(self.y[:, :, first:last], weights, words, joint[..., S:])

    def b4_attend(self, first: int, last: int) -> None:
        self.attend_back(first, last, self.djoint[:, :, first:last])

    def attend_back(self, first: int, last: int, djoint: Tensor) -> None:
        """From the gradient of y, in the last columns of `djoint`, to all of it and the states."""
        do, S, (keys, _, words) = self.do, self.S, self.of_shown(self.shown)
        weights, total = self.weights[:, :, first:last], self.total[:, :, first:last]
        ds, dy = djoint[..., :S], djoint[..., S:]
        # y = direct + weights words
        self.product(ds, dy, words.mT)
        # weights = softmax(scores): ds = weights * (dw - sum(weights * dw))
        do(ds.mul_, weights)
        do(torch.sum, ds, -1, keepdim=True, out=total)
        do(ds.addcmul_, weights, total, value=-1)
        # joint = bias + asks keys^T
        slots = slice(self.decoder + 1 + first, self.decoder + 1 + last)
        dasks = self.dstates[slots].permute(1, 2, 0, 3)
        self.product(dasks, djoint, keys, dasks)

    # --- F5, B5: the mean squared error -----------------------------------------------------------

    def f5_compare(self) -> None:
        R = self.R
        do, diff = self.do, self.diff
        # loss = share * sum(diff^2), diff = y - target where the target is real
        do(torch.sub, self.y, self.target, out=diff)
        if self.skip is not None:
            do(diff.masked_fill_, self.skip, 0)
        if R == 1:
            flat = diff.view(1, 1, -1)
            do(torch.bmm, flat, flat.mT, out=self.loss.view(1, 1, 1))
        else:
            do(torch.mul, diff, diff, out=self.squares)
            do(torch.sum, self.squares, (1, 2, 3), out=self.loss)
        do(self.loss.mul_, self.share)

    def b5_compare(self) -> None:
        R, S = self.R, self.S
        do, dloss = self.do, self.dloss
        # loss = share * sum(diff^2)
        do(dloss.mul_, self.twice_share)
        do(torch.mul, self.diff, dloss.view(R, 1, 1, 1), out=self.djoint[..., S:])
        do(self.dstates.zero_)
        self.gate_jacobians()
