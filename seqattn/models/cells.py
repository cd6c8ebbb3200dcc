"""Recurrent cells, written over the last axes: one step, and a stretch of known inputs.

Shapes may carry leading axes: (N, F), (N, L, F) or, for R runs side by side, (R, N, L, F) with
every weight (R, out, in). Letters: N sequences, L steps, H width of what a cell says, W width of
its state: H, but 2H for the LSTM, whose state is its output and its memory side by side.

Everything that depends on inputs alone is one matmul over all steps (`project_steps`), so a step
is what is left. In between, a cell may keep features before sequences, (R, gates H, N), where that
is faster (see `seqattn.models.layers`): what was projected is for its own `step` and `run` alone.

Weights have torch's layout and are initialised like torch's: U(-b, b), b = 1/sqrt(H).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, assert_never

import torch
from torch import Tensor, nn

from seqattn.models.layers import Linear, affine, affine_of_columns, uses_batch_innermost

Kernel = Callable[..., Tensor]
ScanFn = Callable[["Cell", Tensor], tuple[Tensor, Tensor]]
"""(cell, inputs (..., N, L, inputs)) -> states (..., N, L, W), and the last of them."""


class Cell(nn.Module, ABC):
    """The interface of every cell.

    Attributes:
        gates: how many affine maps of the input a step takes.
        parts: W / H.
        hidden: H.
        kernel: what makes a step; a compiled one may take its place.
        reading: what reads whole sequences; None: a step after the other. A graph that is to take
            sources of any length has a loop of its own here.
    """

    gates: ClassVar[int]
    parts: ClassVar[int] = 1

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(self.gates * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(self.gates * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(self.gates * hidden))
        self.bias_hh = nn.Parameter(torch.empty(self.gates * hidden))
        self.hidden = hidden
        self.bound = 1 / math.sqrt(hidden)
        self.kernel: Kernel = self.eager_step()
        self.reading: ScanFn | None = None

    @staticmethod
    @abstractmethod
    def eager_step() -> Kernel:
        """The function of one step: (projected, state or None, weight_hh, bias_hh) -> state.

        Its tensors are (..., N, features), or (R, features, N) where its
        weight `uses_batch_innermost`.
        """

    def output(self, state: Tensor) -> Tensor:
        """What a cell says, (..., H), from its state (..., W)."""
        return state

    def project(self, inputs: Tensor) -> Tensor:
        """W x + b of all gates: (..., N, inputs) -> what a step takes.

        Where a context joins the input later, the columns of the points come first: give the
        points here and add `project_context`.
        """
        *_, columns = inputs.shape
        weight: Tensor = self.weight_ih
        if columns != weight.shape[-1]:  # a slice costs time, here and backward
            weight = weight[..., :columns]
        return self._mapped(inputs, weight, self.bias_ih)

    def project_context(self, context: Tensor) -> Tensor:
        """The share of the input's last columns, no bias: (..., N, C) -> to add to `project`'s."""
        return self._mapped(context, self.weight_ih[..., -context.shape[-1] :], None)

    def _mapped(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if weight.dim() == 3 and uses_batch_innermost(self.weight_hh):
            return affine_of_columns(inputs.mT, weight, bias)
        return affine(inputs, weight, bias)

    def project_steps(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """`project` for L known inputs (..., N, L, inputs) at once -> what L steps take.

        The steps are moved to the front first, while they are narrow: each step's gates then lie
        in one piece, and what comes backward is put together without being rearranged.
        """
        *_, N, L, _ = inputs.shape
        if L == 1:
            return (self.project(inputs.squeeze(-2)),)
        projected = self.project(inputs.transpose(-3, -2).flatten(-3, -2))
        return torch.unsafe_split(
            projected, N, dim=-1 if uses_batch_innermost(self.weight_hh) else -2
        )

    def step(self, projected: Tensor, state: Tensor | None) -> Tensor:
        """One step: projected input and state (..., N, W) -> new state (..., N, W)."""
        if uses_batch_innermost(self.weight_hh):
            columns = None if state is None else state.mT
            return self.kernel(projected, columns, self.weight_hh, self.bias_hh).mT
        return self.kernel(projected, state, self.weight_hh, self.bias_hh)

    def run(self, steps: Sequence[Tensor], state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """All steps of known inputs.

        Args:
            steps: L projected inputs.
            state: (..., N, W), or None for zeros.

        Returns:
            states (..., N, L, W), and the last of them (..., N, W).
        """
        weight, bias = self.weight_hh, self.bias_hh
        inner = uses_batch_innermost(weight)
        if inner and state is not None:
            state = state.mT
        states = list[Tensor]()
        for projected in steps:
            state = self.kernel(projected, state, weight, bias)
            states.append(state)
        last = states[-1].mT if inner else states[-1]
        if len(states) == 1:
            return last.unsqueeze(-2), last
        together = torch.stack(states, dim=-2)
        return together.transpose(1, 3) if inner else together, last

    def read(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Read whole sequences from a state of zeros.

        Args:
            inputs: (..., N, L, inputs), anything finite as padding.
            lengths: (..., N), or None where all L are real.

        Returns:
            what the cell said (..., N, L, H), and its state at the last real step (..., N, W).
        """
        if self.reading is None:
            states, last = self.run(self.project_steps(inputs))
        else:
            states, last = self.reading(self, inputs)
        return self.output(states), last if lengths is None else last_valid(states, lengths)


class GRU(Cell):
    """A gated recurrent unit (Cho et al. 2014) in torch's variant.

    With r, z, n stacked in the weights' rows, x_t the input and h the state:

        r = sigmoid(W_r x_t + b_r + U_r h + c_r)
        z = sigmoid(W_z x_t + b_z + U_z h + c_z)
        n = tanh(W_n x_t + b_n + r * (U_n h + c_n))
        h' = (1 - z) * n + z * h
    """

    gates = 3

    @staticmethod
    def eager_step() -> Kernel:
        return gru_step


class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
    2000), as torch has it.

    With i, f, g, o stacked in the weights' rows, h the output and c the memory:

        i, f, o = sigmoid(W x_t + b + U h + d), each with its own rows
        g = tanh(W_g x_t + b_g + U_g h + d_g)
        c' = f * c + i * g
        h' = o * tanh(c')
    """

    gates, parts = 4, 2

    @staticmethod
    def eager_step() -> Kernel:
        return lstm_step

    def output(self, state: Tensor) -> Tensor:
        return state[..., : self.hidden]


class RNN(Cell):
    """The plain recurrent net (Elman 1990): h' = tanh(W x_t + b + U h + c)."""

    gates = 1

    @staticmethod
    def eager_step() -> Kernel:
        return rnn_step


class Bidirectional(nn.Module):
    """A cell that reads forwards and one that reads backwards (Schuster and Paliwal 1997), with a
    bridge to a decoder of one cell's width.

        said_s = M [forwards_s; backwards_s] + m
        last   = tanh(B [forwards_L; backwards_1] + b)

    as in Bahdanau et al. 2015, appendix A.2.2, who take backwards_1 alone. An LSTM's memory
    crosses a bridge of its own, without the tanh.
    """

    def __init__(self, cell: type[Cell], inputs: int, hidden: int) -> None:
        super().__init__()
        self.forwards, self.backwards = cell(inputs, hidden), cell(inputs, hidden)
        self.merge = Linear(2 * hidden, hidden)
        self.bridges = nn.ModuleList([Linear(2 * hidden, hidden) for _ in range(cell.parts)])
        self.hidden, self.parts = hidden, cell.parts

    def read(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `Cell.read`. The way back starts at the last real point."""
        said, last = self.forwards.read(inputs, lengths)
        back, first = self.backwards.read(reverse_padded(inputs, lengths), lengths)
        merged = self.merge(torch.cat([said, reverse_padded(back, lengths)], dim=-1))
        bridged = list[Tensor]()
        ends = zip(last.chunk(self.parts, -1), first.chunk(self.parts, -1), strict=True)
        for part, (bridge, both) in enumerate(zip(self.bridges, ends, strict=True)):
            crossed = bridge(torch.cat(both, dim=-1))
            bridged.append(crossed.tanh() if part == 0 else crossed)
        return merged, bridged[0] if self.parts == 1 else torch.cat(bridged, dim=-1)


def gru_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """The equations of `GRU`.

    Args:
        projected: W x + b of all gates, (..., N, 3H), or (R, 3H, N) where the weight
            `uses_batch_innermost`.
        state: h, (..., N, H), or (R, H, N); None is a state of zeros, whose matmul is left out.
        weight, bias: U (..., 3H, H) and c (..., 3H).
    """
    H, features = weight.shape[-1], axis_of_features(weight)
    recurrent = _of_state(state, weight, bias)
    # "unsafe" only for who writes into the pieces; without that guard they are cheaper.
    gates_x, new_x = torch.unsafe_split_with_sizes(projected, (2 * H, H), dim=features)
    gates_h, new_h = torch.unsafe_split_with_sizes(recurrent, (2 * H, H), dim=features)
    reset, update = torch.unsafe_chunk((gates_x + gates_h).sigmoid(), 2, dim=features)
    new = (new_x + reset * new_h).tanh()  # addcmul would be slower backward
    if state is None:
        return new - update * new
    return torch.lerp(new, state, update)  # new + update * (state - new)


def lstm_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """The equations of `LSTM`; state and result are [h; c], (..., N, 2H), or (R, 2H, N).

    Args:
        projected: W x + b of all gates, (..., N, 4H), or (R, 4H, N); see `gru_step`.
        state: None is a state of zeros.
        weight, bias: U (..., 4H, H) and d (..., 4H).
    """
    H, features = weight.shape[-1], axis_of_features(weight)
    before, memory = (None, None) if state is None else state.split(H, dim=features)
    gates = projected + _of_state(before, weight, bias)
    into, forget, new, out = torch.unsafe_chunk(gates, 4, dim=features)
    kept = into.sigmoid() * new.tanh()
    if memory is not None:
        kept = kept + forget.sigmoid() * memory
    return torch.cat([out.sigmoid() * kept.tanh(), kept], dim=features)


def rnn_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """The equation of `RNN`; shapes as in `gru_step`, with one map instead of three."""
    return (projected + _of_state(state, weight, bias)).tanh()


def axis_of_features(weight: Tensor) -> int:
    """Where a kernel with this recurrent weight finds the features."""
    return -2 if uses_batch_innermost(weight) else -1


def _of_state(state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    inner = uses_batch_innermost(weight)
    if state is None:
        return bias.unsqueeze(-1 if inner else -2)
    return (affine_of_columns if inner else affine)(state, weight, bias)


def last_valid(rows: Tensor, lengths: Tensor) -> Tensor:
    """The last real row of each sequence: (..., N, L, W) -> (..., N, W)."""
    *lead, _, W = rows.shape
    place = (lengths - 1)[..., None, None]
    return rows.gather(-2, place.expand(*lead, 1, W)).squeeze(-2)


def reverse_padded(rows: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence's real rows in reverse, its padding where it was: (..., N, L, W)."""
    if lengths is None:
        return rows.flip(-2)
    *_, L, _ = rows.shape
    places = torch.arange(L, device=rows.device)
    mirrored = lengths.unsqueeze(-1) - 1 - places
    found = mirrored.where(mirrored >= 0, places)
    return rows.gather(-2, found.unsqueeze(-1).expand(rows.shape))


def cell_type(name: Literal["gru", "lstm", "rnn"]) -> type[Cell]:
    """The cell that a config names."""
    found: Any
    match name:
        case "gru":
            found = GRU
        case "lstm":
            found = LSTM
        case "rnn":
            found = RNN
        case _:
            assert_never(name)
    return found  # type: ignore[no-any-return]
