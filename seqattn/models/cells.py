"""Recurrent cells (GRU, LSTM and RNN) and bidirectional encoders.

In shapes, R is the number of runs in one batch, N the number of sequences, L the number of steps, F
the number of features, H the width of a cell's output, and W the width of a cell's state. Tensors
may have leading axes, as in (N, F), (N, L, F) or, for R runs, (R, N, L, F). The weights of R runs
have the shape (R, out, in). For a GRU and an RNN, W equals H. The state of an LSTM consists of the
output and the memory cell, so W is 2H.

One matmul computes the projections of all known inputs (`project_steps`), and each step adds the
recurrent part. Projected inputs have the layout (R, gates * H, N), with the axis of features before
the axis of sequences, if this layout is faster (see `seqattn.models.layers`). Projected inputs must
therefore only be passed to `step` and `unroll` of the same cell.

Weights have torch's layout and torch's initial distribution, U(-b, b) with b = 1/sqrt(H).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self, assert_never

import torch
from torch import Tensor, nn

from seqattn.config import CellConfig
from seqattn.models.layers import (
    Linear,
    SymbolInputs,
    affine,
    affine_columns,
    fast_tanh,
    table_rows,
    uses_batch_innermost,
)

Kernel = Callable[..., Tensor]
ScanFn = Callable[["Cell", Tensor], tuple[Tensor, Tensor]]
"""A function of a cell and its inputs (..., N, L, inputs) that returns all states (..., N, L, W)
and the last state (..., N, W)."""
CellFactory = Callable[[int, int], "Cell"]
"""A function that builds a cell from the width of its inputs and the width H of its output."""
PLUGIN_CELLS: dict[type[CellConfig], type[Cell]] = {}
"""A mapping from config section to class, for the cells of plugins."""


class Cell(nn.Module, ABC):
    """The interface of every cell.

    Attributes:
        num_gates: the number of gates and candidates. Each weight matrix has `num_gates` * H rows.
        num_state_tensors: W / H, which is 2 for an LSTM and 1 for a GRU and an RNN.
        hidden: the width H of the output.
        compiled_step: a compiled function that computes one step of a training step; None for the
            function `eager_step()`, which computes all other steps.
        scan: a function that runs the cell over whole sequences; None for a Python loop over the
            steps. An exported graph accepts sources of any length only if `scan` is set.
    """

    num_gates: ClassVar[int]
    num_state_tensors: ClassVar[int] = 1

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(self.num_gates * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(self.num_gates * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(self.num_gates * hidden))
        self.bias_hh = nn.Parameter(torch.empty(self.num_gates * hidden))
        self.hidden = hidden
        self.init_bound = 1 / math.sqrt(hidden)
        self.compiled_step: Kernel | None = None
        self.scan: ScanFn | None = None

    @classmethod
    def from_config(cls, config: Any, inputs: int, hidden: int) -> Self:
        """Build a plugin cell from its config section."""
        return cls(inputs, hidden)

    @staticmethod
    @abstractmethod
    def eager_step() -> Kernel:
        """Return the function that computes one step: (projected, state or None, weight_hh,
        bias_hh) -> state.

        The function takes and returns tensors (..., N, features), or tensors (R, features, N) if
        `uses_batch_innermost` is True for `weight_hh`.
        """

    def kernel(
        self, projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor
    ) -> Tensor:
        """Compute one step; see `eager_step`. The function `eager_step()` may read the mode and
        other attributes of the cell, so it is not stored: a copy of the cell would call a function
        that reads the attributes of the original."""
        if self.compiled_step is not None and torch.is_grad_enabled():
            return self.compiled_step(projected, state, weight, bias)
        return self.eager_step()(projected, state, weight, bias)

    def output(self, state: Tensor) -> Tensor:
        """Return the cell's output (..., H) for the cell's state (..., W)."""
        return state

    def project(self, inputs: Tensor) -> Tensor:
        """Compute W x + b for all gates, where x (..., N, inputs) is the input of a step.

        If the cell's input is the concatenation of an input and a context, pass the input alone
        here and add the result of `project_context`. The last columns of W belong to the context.
        """
        *_, columns = inputs.shape
        weight: Tensor = self.weight_ih
        if columns != weight.shape[-1]:  # slicing takes time in the forward and the backward pass
            weight = weight[..., :columns]
        return self._project(inputs, weight, self.bias_ih)

    def context_weight(self, width: int) -> Tensor:
        """Return W_c, the last `width` columns of the input weight, which multiply a context."""
        weight: Tensor = self.weight_ih[..., -width:]
        return weight

    def project_context(self, context: Tensor, weight: Tensor) -> Tensor:
        """Compute W_c c without a bias, where c is the context.

        Args:
            context: the context c, (..., N, C).
            weight: the result of `context_weight`. Since the backward pass of a slice is slow, a
                loop over steps calls `context_weight` once.

        Returns:
            a term to add to the result of `project`.
        """
        return self._project(context, weight, None)

    def _project(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if weight.dim() == 3 and uses_batch_innermost(self.weight_hh):
            return affine_columns(inputs.mT, weight, bias)
        return affine(inputs, weight, bias)

    def project_steps(self, inputs: Tensor | SymbolInputs) -> tuple[Tensor, ...]:
        """Apply `project` to L known inputs (..., N, L, inputs) at once, and return the projected
        inputs of the L steps.

        Before the product, while the rows are still narrow, the method moves the axis of steps in
        front of the axis of sequences. The method can then split the product into steps without a
        copy, and the backward pass of the split only concatenates the gradients of the steps.
        """
        if isinstance(inputs, SymbolInputs):
            numbers = inputs.numbers.squeeze(-1).mT
            if not uses_batch_innermost(self.weight_hh):
                table = self.project(inputs.vectors)
                if table.dim() == 3:  # the steps of many runs are too large to be kept at once
                    return tuple(table_rows(table, step) for step in numbers.unbind(-2))
                return table_rows(table, numbers).unbind(-3)
            inputs = table_rows(inputs.vectors, numbers.mT)
        *_, N, L, _ = inputs.shape
        if L == 1:
            return (self.project(inputs.squeeze(-2)),)
        projected = self.project(inputs.transpose(-3, -2).flatten(-3, -2))
        return torch.unsafe_split(
            projected, N, dim=-1 if uses_batch_innermost(self.weight_hh) else -2
        )

    def step(self, projected: Tensor, state: Tensor | None) -> Tensor:
        """Compute the new state (..., N, W) from a projected input and the previous state
        (..., N, W)."""
        if uses_batch_innermost(self.weight_hh):
            columns = None if state is None else state.mT
            return self.kernel(projected, columns, self.weight_hh, self.bias_hh).mT
        return self.kernel(projected, state, self.weight_hh, self.bias_hh)

    def unroll(self, steps: Sequence[Tensor], state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run the cell over known inputs.

        Args:
            steps: the projected inputs of L steps.
            state: the initial state (..., N, W); None for a state of zeros.

        Returns:
            all states (..., N, L, W) and the last state (..., N, W).
        """
        weight, bias = self.weight_hh, self.bias_hh
        innermost = uses_batch_innermost(weight)
        if innermost and state is not None:
            state = state.mT
        states = list[Tensor]()
        for projected in steps:
            state = self.kernel(projected, state, weight, bias)
            states.append(state)
        last = states[-1].mT if innermost else states[-1]
        if len(states) == 1:
            return last.unsqueeze(-2), last
        stacked = torch.stack(states, dim=-2)
        return stacked.transpose(1, 3) if innermost else stacked, last

    def forward(
        self, inputs: Tensor | SymbolInputs, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Run the cell over whole sequences, from a state of zeros.

        Args:
            inputs: the inputs (..., N, L, inputs), with finite values in the padding.
            lengths: number of valid steps of each sequence, (..., N); None if all L steps are
                valid.

        Returns:
            the outputs (..., N, L, H), and the state at the last valid step (..., N, W).
        """
        if self.scan is None or isinstance(inputs, SymbolInputs):
            states, last = self.unroll(self.project_steps(inputs))
        else:
            states, last = self.scan(self, inputs)
        return self.output(states), last if lengths is None else last_valid(states, lengths)


class GRU(Cell):
    """A gated recurrent unit (Cho et al. 2014, "Learning Phrase Representations using RNN
    Encoder-Decoder for Statistical Machine Translation") in torch's variant.

    The rows of the weights are in the order r, z, n. With the input x_t and the state h, a step is:

        r = sigmoid(W_r x_t + b_r + U_r h + c_r)
        z = sigmoid(W_z x_t + b_z + U_z h + c_z)
        n = tanh(W_n x_t + b_n + r * (U_n h + c_n))
        h' = (1 - z) * n + z * h
    """

    num_gates = 3

    @staticmethod
    def eager_step() -> Kernel:
        return gru_step


class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
    2000) in torch's variant.

    The rows of the weights are in the order i, f, g, o. With the input x_t, the output h and the
    memory cell c, a step is:

        i, f, o = sigmoid(W x_t + b + U h + d), each with its own rows of the weights
        g = tanh(W_g x_t + b_g + U_g h + d_g)
        c' = f * c + i * g
        h' = o * tanh(c')
    """

    num_gates, num_state_tensors = 4, 2

    @staticmethod
    def eager_step() -> Kernel:
        return lstm_step

    def output(self, state: Tensor) -> Tensor:
        return state[..., : self.hidden]


class RNN(Cell):
    """A simple recurrent network (Elman 1990): h' = tanh(W x_t + b + U h + c)."""

    num_gates = 1

    @staticmethod
    def eager_step() -> Kernel:
        return rnn_step


class Bidirectional(nn.Module):
    """A bidirectional cell (Schuster and Paliwal 1997) with projections to the width of one cell:

        output_s = M [forwards_s; backwards_s] + m
        last     = tanh(B [forwards_L; backwards_1] + b)

    The vector `last` initializes the decoder, as in Bahdanau et al. 2015, appendix A.2.2, but the
    paper computes this vector from backwards_1 alone. The memory cell of an LSTM has its own
    projection, without the tanh.
    """

    def __init__(self, cell: CellFactory, inputs: int, hidden: int) -> None:
        super().__init__()
        self.forwards, self.backwards = cell(inputs, hidden), cell(inputs, hidden)
        self.merge = Linear(2 * hidden, hidden)
        self.hidden, self.num_state_tensors = hidden, self.forwards.num_state_tensors
        self.bridges = nn.ModuleList(
            [Linear(2 * hidden, hidden) for _ in range(self.num_state_tensors)]
        )

    def forward(
        self, inputs: Tensor | SymbolInputs, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Run both directions. The backward direction starts at the last valid step. `Cell.forward`
        describes the arguments."""
        outputs, last = self.forwards.forward(inputs, lengths)
        if isinstance(inputs, SymbolInputs):
            backwards: Tensor | SymbolInputs = SymbolInputs(
                reverse_padded(inputs.numbers, lengths), inputs.vectors
            )
        else:
            backwards = reverse_padded(inputs, lengths)
        reverse, first = self.backwards.forward(backwards, lengths)
        merged = self.merge(torch.cat([outputs, reverse_padded(reverse, lengths)], dim=-1))
        tensors, state = self.num_state_tensors, list[Tensor]()
        ends = zip(last.chunk(tensors, -1), first.chunk(tensors, -1), strict=True)
        for i, (bridge, both) in enumerate(zip(self.bridges, ends, strict=True)):
            projected = bridge(torch.cat(both, dim=-1))
            state.append(projected.tanh() if i == 0 else projected)
        return merged, state[0] if tensors == 1 else torch.cat(state, dim=-1)


def gru_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute one step of `GRU`.

    Args:
        projected: the projected input W x + b for all gates, (..., N, 3H), or (R, 3H, N) if
            `uses_batch_innermost` is True for the weight.
        state: the previous state h, (..., N, H) or (R, H, N). None means a state of zeros and saves
            a matmul.
        weight, bias: the recurrent weight U (..., 3H, H) and the recurrent bias c (..., 3H).
    """
    H, features = weight.shape[-1], axis_of_features(weight)
    recurrent = recurrent_term(state, weight, bias)
    # The unsafe functions are faster, and are unsafe only if their results are changed in place.
    gates_x, new_x = torch.unsafe_split_with_sizes(projected, (2 * H, H), dim=features)
    gates_h, new_h = torch.unsafe_split_with_sizes(recurrent, (2 * H, H), dim=features)
    reset, update = torch.unsafe_chunk((gates_x + gates_h).sigmoid(), 2, dim=features)
    new = fast_tanh(new_x + reset * new_h)  # addcmul has a slower backward pass
    if state is None:
        return new - update * new
    return torch.lerp(new, state, update)  # new + update * (state - new)


def lstm_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute one step of `LSTM`. The state and the result are [h; c], (..., N, 2H) or (R, 2H, N).

    Args:
        projected: the projected input W x + b for all gates, (..., N, 4H) or (R, 4H, N); see
            `gru_step`.
        state: the previous state; None for a state of zeros.
        weight, bias: the recurrent weight U (..., 4H, H) and the recurrent bias d (..., 4H).
    """
    H, features = weight.shape[-1], axis_of_features(weight)
    h, c = (None, None) if state is None else state.split(H, dim=features)
    gates = projected + recurrent_term(h, weight, bias)
    i, f, g, o = torch.unsafe_chunk(gates, 4, dim=features)
    memory = i.sigmoid() * g.tanh()
    if c is not None:
        memory = memory + f.sigmoid() * c
    return torch.cat([o.sigmoid() * memory.tanh(), memory], dim=features)


def rnn_step(projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute one step of `RNN`. The arguments are as in `gru_step`, with H in place of 3H."""
    return (projected + recurrent_term(state, weight, bias)).tanh()


def axis_of_features(weight: Tensor) -> int:
    """Return the axis of features in the inputs and states of a kernel with the given recurrent
    weight."""
    return -2 if uses_batch_innermost(weight) else -1


def recurrent_term(state: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute U h + c, where the state h is (..., N, H) or (R, H, N). If the state is None, return
    c in a shape that broadcasts to the result."""
    innermost = uses_batch_innermost(weight)
    if state is None:
        return bias.unsqueeze(-1 if innermost else -2)
    return (affine_columns if innermost else affine)(state, weight, bias)


def last_valid(rows: Tensor, lengths: Tensor) -> Tensor:
    """Return the last valid row of each sequence: (..., N, L, W) -> (..., N, W)."""
    *lead, _, W = rows.shape
    index = (lengths - 1)[..., None, None]
    return rows.gather(-2, index.expand(*lead, 1, W)).squeeze(-2)


def reverse_padded(rows: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse the valid rows of each sequence (..., N, L, W), and leave the padding in place."""
    if lengths is None:
        return rows.flip(-2)
    *_, L, _ = rows.shape
    positions = torch.arange(L, device=rows.device)
    reverse = lengths.unsqueeze(-1) - 1 - positions
    index = reverse.where(reverse >= 0, positions)
    return rows.gather(-2, index.unsqueeze(-1).expand(rows.shape))


def reads_symbols(layer: Cell | Bidirectional) -> bool:
    """Return whether a layer accepts `SymbolInputs`. A cell of a plugin may read its inputs."""
    cell = layer.forwards if type(layer) is Bidirectional else layer
    return type(cell) in (GRU, LSTM, RNN)


def cell_factory(config: Literal["gru", "lstm", "rnn"] | CellConfig) -> CellFactory:
    """Return a function that builds the cell selected by the config key `cell`."""
    if isinstance(config, CellConfig):
        return functools.partial(PLUGIN_CELLS[type(config)].from_config, config)
    match config:
        case "gru":
            return GRU
        case "lstm":
            return LSTM
        case "rnn":
            return RNN
        case _:
            assert_never(config)
