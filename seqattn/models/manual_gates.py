"""The gates of the recurrent cells of `manual_backward.py`, and their backward passes.

The letters in shapes are defined in `seqattn.models.op_tape`; L is the number of steps. In a step,
a cell computes the new state h' from the state h, from the input term gi = W x + b, and from the
recurrent term gh = U h + c. For any x, dx is the gradient of the loss with respect to x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqattn.models.op_tape import OpTape


class Gates:
    """The elementwise operations of L steps of a cell with G gates.

    Attributes:
        num_gates: the number of gates, G.
        gh: the values of gh at all steps, (L, G, R, N, H). The caller fills them.
        dgi, dgh: the gradients of gi and gh, (R, L, N, G, H). Both are views of the buffer `dg` (R,
            L, N, 2, G, H).
    """

    num_gates: int
    gh: Tensor
    dg: Tensor
    dgi: Tensor
    dgh: Tensor

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        """
        Args:
            tape: the tape that records all operations.
            states: the state h before each step, (L + 1, R, N, H). The state h of step l is the
                state h' of step l - 1.
            dstates: the gradient of `states`, (L + 1, R, N, H).
        """

    def step(self, step: int, gi: Tensor) -> None:
        """Compute h' from gi (G, R, N, H), `gh` and h."""

    def start_backward(self) -> None:
        """Compute the derivatives of all steps, before the first call of `step_backward`."""

    def step_backward(self, step: int) -> None:
        """Compute dgh from dh', and add to dh the terms that do not flow through gh."""

    def inputs_backward(self, steps: slice) -> None:
        """Compute dgi from dh' and dgh."""

    def copy_state(self, index: Tensor, steps: slice, target: int) -> None:
        """Copy the part of the state that is not h. The default implementation, for cells whose
        whole state is h, does nothing.

        Args:
            index: for each sequence, the slot to copy, counted from 0 at the first slot of `steps`,
                (1, R, N, H).
            steps: the slots from which `index` selects.
            target: the slot that receives the copy.
        """

    def copy_state_backward(self, index: Tensor, steps: slice, target: int) -> None:
        """Add the gradient of the copy to the gradient of the copied slots."""


class GRUGates(Gates):
    """The gates of a GRU (Cho et al. 2014, in the variant of `cells.GRU`):

        r = sigmoid(gi_r + gh_r),  z = sigmoid(gi_z + gh_z),  n = tanh(gi_n + r gh_n)
        h' = (1 - z) n + z h

    The elementwise derivatives of h' with respect to each operand are:

        gi_n: a = (1 - z) (1 - n^2)        gh_n: a r        h: z
        gi_r and gh_r: a gh_n r (1 - r)    gi_z and gh_z: (h - n) z (1 - z)

    Attributes:
        states: the state h before each step, (L + 1, R, N, H). The state h of step l is the state
            h' of step l - 1.
        dstates: the gradient of `states`, (L + 1, R, N, H).
        gh: the values of gh at all steps, (L, 3, R, N, H).
        dgi, dgh: the gradients of gi and gh, (R, L, N, 3, H). Both are views of the buffer `dg` (R,
            L, N, 2, 3, H).
        dh_dgi_n: the derivatives of h' with respect to gi_n, (L, R, N, H).
        dh_dgh: the derivatives of h' with respect to gh, (L, 3, R, N, H).
    """

    num_gates = 3

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 3, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.gh, self.gates = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)
        self.n, self.dh_dgi_n, self.tanh_grad = (new(L, R, N, H, runs=1) for _ in range(3))
        self.dh_dgh, self.sigmoid_grad = new(L, 3, R, N, H, runs=2), new(L, 2, R, N, H, runs=2)

    def step(self, step: int, gi: Tensor) -> None:
        """Compute h' from gi (3, R, N, H), `gh` and h."""
        record, gh, gates, n = self.tape.record, self.gh[step], self.gates[step], self.n[step]
        record(torch.add, gi[:2], gh[:2], out=gates)
        record(gates.sigmoid_)
        record(torch.addcmul, gi[2], gates[0], gh[2], out=n)
        self.tape.tanh_(n)
        record(torch.lerp, n, self.states[step], gates[1], out=self.states[step + 1])

    def step_backward(self, step: int) -> None:
        """Compute dgh from dh', and add the term z * dh' to dh."""
        dh_next, dgh = self.dstates[step + 1], self.dgh[:, step].permute(2, 0, 1, 3)
        self.tape.record(torch.mul, self.dh_dgh[step], dh_next, out=dgh)
        if step > 0:  # the initial state is constant
            self.tape.record(self.dstates[step].addcmul_, dh_next, self.gates[step, 1])

    def inputs_backward(self, steps: slice) -> None:
        """Compute dgi from dh' and dgh. The gates r and z depend on gi + gh, so dgi and dgh are
        equal for these two gates."""
        dgi, dgi_n = self.dgi[:, steps], self.dgi[:, steps, :, 2].transpose(0, 1)
        self.tape.record(dgi[..., :2, :].copy_, self.dgh[:, steps, :, :2])
        self.tape.record(torch.mul, self.dh_dgi_n[steps], self.dstates[1:][steps], out=dgi_n)

    def start_backward(self) -> None:
        """Compute `dh_dgi_n` and `dh_dgh` for all steps at once."""
        record, gates, (r, z) = self.tape.record, self.gates, self.gates.unbind(1)
        n, a = self.n, self.dh_dgi_n
        dh_dgh_r, dh_dgh_z, dh_dgh_n = self.dh_dgh.unbind(1)
        sigmoid_grad_r, sigmoid_grad_z = self.sigmoid_grad.unbind(1)
        record(torch.addcmul, gates, gates, gates, value=-1, out=self.sigmoid_grad)
        record(torch.addcmul, self.tape.one, n, n, value=-1, out=self.tanh_grad)
        record(torch.addcmul, self.tanh_grad, self.tanh_grad, z, value=-1, out=a)
        record(torch.sub, self.states[:-1], n, out=dh_dgh_z)
        record(dh_dgh_z.mul_, sigmoid_grad_z)
        record(torch.mul, a, self.gh[:, 2], out=dh_dgh_r)
        record(dh_dgh_r.mul_, sigmoid_grad_r)
        record(torch.mul, a, r, out=dh_dgh_n)


class LSTMGates(Gates):
    """The gates of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
    2000, in the variant of `cells.LSTM`):

        i, f, o = sigmoid(gi + gh), g = tanh(gi_g + gh_g)
        c' = f c + i g
        h' = o tanh(c')

    The gradients are as follows. Here, di, df, dg and do are the gradients with respect to the
    arguments of the sigmoids and of tanh, not with respect to their results:

        dc' += dh' o (1 - tanh(c')^2)                dc += dc' f
        di = dc' g i (1 - i)                         df = dc' c f (1 - f)
        dg = dc' i (1 - g^2)                         do = dh' tanh(c') o (1 - o)

    The constructor and the attributes `num_gates`, `gh`, `dgi` and `dgh` are described in `Gates`.

    Attributes:
        memory, dmemory: the memory cell c before each step, and its gradient, (L + 1, R, N, H).
        gates: the values of i, f, g and o, (L, 4, R, N, H).
        factors: the factors of dc' in di, df and dg, and of dh' in do, (L, 4, R, N, H).
        dc_dh: the factor of dh' in dc', (L, R, N, H).
    """

    num_gates = 4

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 4, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.memory, self.dmemory = (new(L + 1, R, N, H, runs=1) for _ in range(2))
        self.memory[0] = 0
        self.tanh_memory, self.dc_dh = (new(L, R, N, H, runs=1) for _ in range(2))
        self.gh, self.gates, self.factors = (new(L, 4, R, N, H, runs=2) for _ in range(3))

    def step(self, step: int, gi: Tensor) -> None:
        record, gates, memory = self.tape.record, self.gates[step], self.memory[step + 1]
        i, f, g, o = gates.unbind(0)
        record(torch.add, gi, self.gh[step], out=gates)
        record(gates[:2].sigmoid_)
        self.tape.tanh_(g)
        record(o.sigmoid_)
        record(torch.mul, f, self.memory[step], out=memory)
        record(memory.addcmul_, i, g)
        record(self.tanh_memory[step].copy_, memory)
        self.tape.tanh_(self.tanh_memory[step])
        record(torch.mul, o, self.tanh_memory[step], out=self.states[step + 1])

    def start_backward(self) -> None:
        record, one, tanh_memory = self.tape.record, self.tape.one, self.tanh_memory
        i, _, g, o = self.gates.unbind(1)
        of_i, of_f, of_g, of_o = self.factors.unbind(1)
        record(self.dmemory.zero_)
        record(torch.addcmul, self.gates, self.gates, self.gates, value=-1, out=self.factors)
        record(of_i.mul_, g)
        record(of_f.mul_, self.memory[:-1])
        record(of_o.mul_, tanh_memory)
        record(torch.addcmul, one, g, g, value=-1, out=of_g)
        record(of_g.mul_, i)
        record(torch.addcmul, one, tanh_memory, tanh_memory, value=-1, out=self.dc_dh)
        record(self.dc_dh.mul_, o)

    def step_backward(self, step: int) -> None:
        record, dh_next, dc_next = self.tape.record, self.dstates[step + 1], self.dmemory[step + 1]
        dgh, factors = self.dgh[:, step].permute(2, 0, 1, 3), self.factors[step]
        record(dc_next.addcmul_, dh_next, self.dc_dh[step])
        record(torch.mul, factors[:3], dc_next, out=dgh[:3])
        record(torch.mul, factors[3], dh_next, out=dgh[3])
        if step > 0:  # the initial state is constant
            record(self.dmemory[step].addcmul_, dc_next, self.gates[step, 1])

    def inputs_backward(self, steps: slice) -> None:
        self.tape.record(self.dgi[:, steps].copy_, self.dgh[:, steps])

    def copy_state(self, index: Tensor, steps: slice, target: int) -> None:
        out = self.memory[target : target + 1]
        self.tape.record(torch.gather, self.memory[steps], 0, index, out=out)

    def copy_state_backward(self, index: Tensor, steps: slice, target: int) -> None:
        copied = self.dmemory[target : target + 1]
        self.tape.record(self.dmemory[steps].scatter_add_, 0, index, copied)


class RNNGates(Gates):
    """The elementwise operation of a simple recurrent network (Elman 1990): h' = tanh(gi + gh).

    The constructor and the attributes are described in `Gates`.
    """

    num_gates = 1

    def __init__(self, tape: OpTape, states: Tensor, dstates: Tensor) -> None:
        (L, R, N, H), new = states[1:].shape, tape.new
        self.tape, self.states, self.dstates = tape, states, dstates
        self.dg = new(R, L, N, 2, 1, H)
        self.dgi, self.dgh = self.dg.unbind(3)
        self.gh, self.tanh_grad = new(L, 1, R, N, H, runs=2), new(L, R, N, H, runs=1)

    def step(self, step: int, gi: Tensor) -> None:
        self.tape.record(torch.add, gi[0], self.gh[step, 0], out=self.states[step + 1])
        self.tape.tanh_(self.states[step + 1])

    def start_backward(self) -> None:
        h = self.states[1:]
        self.tape.record(torch.addcmul, self.tape.one, h, h, value=-1, out=self.tanh_grad)

    def step_backward(self, step: int) -> None:
        dgh = self.dgh[:, step, :, 0]
        self.tape.record(torch.mul, self.tanh_grad[step], self.dstates[step + 1], out=dgh)

    def inputs_backward(self, steps: slice) -> None:
        self.tape.record(self.dgi[:, steps].copy_, self.dgh[:, steps])
