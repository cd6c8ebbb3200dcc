"""Recorded operations: replayed on new numbers, by every route, against float64 autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqattn.models import op_tape
from seqattn.models.cells import gru_step
from seqattn.models.manual_backward import GRUGates
from seqattn.models.op_tape import BatchBuffers, BufferShape, MeanSquaredError, OpTape

R, N, S, T, F, H = 3, 5, 11, 7, 2, 13
CLOSE: dict[str, Any] = {"atol": 1e-12, "rtol": 1e-12}
LAYOUTS = pytest.mark.parametrize("inner", [False, True], ids=["runs first", "runs innermost"])


def tape_of(inner: bool, runs: int = R) -> OpTape:
    return OpTape(torch.zeros(runs, 1, 1, dtype=torch.float64), inner)


def random_(x: Tensor) -> Tensor:
    return x.copy_(torch.randn(x.shape, dtype=x.dtype))


def calls_of(tape: OpTape) -> list[str]:
    """Names of all operations that were recorded."""
    return [call.func.__name__ for program in tape.programs.values() for call in program]  # type: ignore[attr-defined]


# --- record and replay ----------------------------------------------------------------------------


def test_a_replay_is_the_same_operations_on_new_numbers() -> None:
    tape = tape_of(False)
    x, y, called = torch.zeros(R), torch.zeros(R), list[float]()

    def scale(factor: float) -> None:
        called.append(factor)
        tape.record(torch.mul, x, factor, out=y)

    for value in (2.0, 5.0):
        for factor in (3.0, 7.0):
            x.fill_(value)
            tape.run(scale, factor)
            assert y.tolist() == [value * factor] * R
    assert called == [3.0, 7.0], "one record for each argument"


def test_a_part_is_recorded_into_the_record_it_is_a_part_of() -> None:
    tape, x = tape_of(False), torch.zeros(R)

    def add(number: float) -> None:
        tape.record(x.add_, number)

    def both() -> None:
        tape.run(add, 1.0)
        tape.run(add, 2.0)

    for _ in range(3):
        tape.run(both)
    assert x.tolist() == [9.0] * R
    assert len(tape.programs) == 1
    tape.run_directly(both)
    assert x.tolist() == [12.0] * R
    assert len(tape.programs) == 3


def test_a_record_that_failed_is_not_replayed() -> None:
    tape, x, fails = tape_of(False), torch.zeros(R), [True]

    def add() -> None:
        tape.record(x.add_, 1.0)
        if fails:
            fails.pop()
            raise MemoryError

    with pytest.raises(MemoryError):
        tape.run(add)
    assert not tape.programs
    tape.run(add)
    tape.run(add)
    assert x.tolist() == [3.0] * R
    assert len(tape.programs) == 1, "it records again"


def test_records_end_at_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_tape, "MAX_PROGRAMS", 2)
    tape, x = tape_of(False), torch.zeros(R)

    def add(number: int) -> None:
        tape.record(x.add_, number)

    for number in (1, 2, 3, 3):
        tape.run(add, number)
    assert x.tolist() == [9.0] * R
    assert len(tape.programs) == 2


# --- products -------------------------------------------------------------------------------------


ROUTES: dict[str, tuple[bool, tuple[int, int, int], dict[str, int], str]] = {
    "column by column": (True, (5, 7, 3), {}, "addcmul"),
    "as a sum of products": (True, (5, 11, 3), {}, "sum"),
    "runs innermost, by bmm": (True, (5, 11, 3), {"MAX_PRODUCT_TERMS": 0}, "bmm"),
    "bmm of little": (False, (5, 7, 3), {}, "bmm"),
    "bmm of much": (False, (17, 11, 13), {}, "bmm"),
    "bmm of the transpose": (False, (29, 11, 3), {}, "bmm"),
}


@pytest.mark.parametrize("plus", ["none", "itself", "other", "row"])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("between", [(), (N,)])
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_to_a_product_is_matmul(
    route: str, between: tuple[int, ...], gaps: bool, plus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the numbers it was recorded with, and replayed on others in the same memory."""
    inner, (m, k, n), limits, operation = ROUTES[route]
    for name, limit in limits.items():
        monkeypatch.setattr(op_tape, name, limit)
    tape = tape_of(inner)
    a, b = tape.new(R, *between, m, k), tape.new(R, *between, k, n)
    out = tape.new(R, *between, m, n + 2)[..., :n] if gaps else tape.new(R, *between, m, n)
    added = {"none": None, "itself": out, "other": tape.new(R, *between, m, n),
             "row": tape.new(R, *between, 1, n)}[plus]  # fmt: skip
    for _ in range(2):
        for x in (a, b, out):
            random_(x)
        if added is not None:
            random_(added)
        expected = a @ b + (0 if added is None else added)
        tape.run(tape.matmul, out, a, b, added)
        torch.testing.assert_close(out, expected, **CLOSE)
    assert len(tape.programs) == 1
    assert any(operation in name for name in calls_of(tape))


@LAYOUTS
@pytest.mark.parametrize("runs", [1, R])
@pytest.mark.parametrize("columns", [F, S])
def test_a_product_by_gate_is_an_affine_map(inner: bool, runs: int, columns: int) -> None:
    tape = tape_of(inner, runs)
    x, out = tape.new(runs, N, columns), tape.new(3, runs, N, H, runs=1)
    weight, bias = tape.new(runs, 3 * H, columns), tape.new(runs, 3 * H)
    for _ in range(2):
        for given in (x, weight, bias):
            random_(given)
        tape.run(tape.matmul_by_gate, out, x, weight, bias)
        expected = (x @ weight.mT + bias.unsqueeze(1)).unflatten(-1, (3, H)).permute(2, 0, 1, 3)
        torch.testing.assert_close(out, expected, **CLOSE)


@LAYOUTS
@pytest.mark.parametrize("runs", [1, R])
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_product_to_steps(inner: bool, runs: int, accumulate: bool) -> None:
    tape = tape_of(inner and runs > 1, runs)
    x, out = tape.new(S, runs, N, H, runs=1), tape.new(S, runs, N, F, runs=1)
    b = tape.new(runs, H, F)

    def multiply() -> None:
        tape.matmul_to_steps(out, tape.steps_as_rows(x), b, accumulate=accumulate)

    for _ in range(2):
        for given in (x, out, b):
            random_(given)
        expected = x @ b + (out if accumulate else 0)
        tape.run(multiply)
        torch.testing.assert_close(out, expected, **CLOSE)


# --- operations and their gradients ---------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 2 * op_tape.MIN_SIGMOID_TANH_SIZE])
def test_tanh_by_both_routes(size: int) -> None:
    x = torch.linspace(-9, 9, size)
    expected = x.double().tanh()
    tape = OpTape(torch.zeros(1, 1, 1), runs_innermost=False)
    tape.run(tape.tanh_, x)
    torch.testing.assert_close(x.double(), expected, atol=3e-7, rtol=0)
    assert ("sigmoid_" in calls_of(tape)) == (size > op_tape.MIN_SIGMOID_TANH_SIZE)


@LAYOUTS
def test_softmax_and_its_gradient(inner: bool) -> None:
    tape = tape_of(inner)
    scores, weights, grad = (tape.new(R, N, T, S) for _ in range(3))
    total = tape.new(R, N, T, 1)
    for _ in range(2):
        given = random_(scores).clone().requires_grad_()
        tape.run(tape.softmax, weights, scores)
        torch.testing.assert_close(weights, given.softmax(-1).detach(), **CLOSE)
        upstream = random_(grad).clone()
        tape.run(tape.softmax_backward, grad, weights, total)
        (expected,) = torch.autograd.grad(given.softmax(-1), given, upstream)
        torch.testing.assert_close(grad, expected, **CLOSE)


def plain_gates(gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
    """The plain models' cell, with gh as its bias and no weight: (R, N, 3H) and (R, N, H)."""
    is_stepwise = [
        gru_step(gi[k, i, None], h[k, i, None], gh.new_zeros(3 * H, H), gh[k, i])
        for k in range(R)
        for i in range(N)
    ]
    return torch.cat(is_stepwise).view(R, N, H)


@LAYOUTS
def test_gates_and_their_gradients(inner: bool) -> None:
    """Two steps with a random gradient of each state, against the cell of the plain models."""
    tape, L = tape_of(inner), 2
    states, dstates = (tape.new(L + 1, R, N, H, runs=1) for _ in range(2))
    gi, gates = tape.new(L, 3, R, N, H, runs=2), GRUGates(tape, states, dstates)

    def forward() -> None:
        for step in range(L):
            gates.step(step, gi[step])

    def backward() -> None:
        gates.start_backward()
        for step in reversed(range(L)):
            gates.step_backward(step)
        gates.inputs_backward(slice(None))

    for _ in range(2):
        for given in (gi, gates.gh, states[0], dstates):
            random_(given)
        upstream = dstates.clone()
        x, gh = (given.clone().requires_grad_() for given in (gi, gates.gh))
        h, expected = states[0].clone(), list[Tensor]()
        for step in range(L):
            of_x, of_h = (given[step].permute(1, 2, 0, 3).flatten(2) for given in (x, gh))
            h = plain_gates(of_x, of_h, h)
            expected.append(h)
        tape.run(forward)
        torch.testing.assert_close(states[1:], torch.stack(expected).detach(), **CLOSE)
        tape.run(backward)
        expected_grads = torch.autograd.grad(torch.stack(expected), [x, gh], upstream[1:])
        for found, expected_grad in zip((gates.dgi, gates.dgh), expected_grads, strict=True):
            torch.testing.assert_close(found, expected_grad.permute(2, 0, 3, 1, 4), **CLOSE)


def batch_buffers(
    inner: bool, runs: int, mask: int, ragged: bool
) -> tuple[BatchBuffers, Callable[[], tuple[Tensor, Tensor, Any, Any]]]:
    shape = BufferShape(runs, N, S, T, F, H, ragged, mask)
    batch = BatchBuffers(tape_of(inner, runs), shape, has_runs=True)

    def load() -> tuple[Tensor, Tensor, Any, Any]:
        source, target = (torch.randn(runs, N, L, F).double() for L in (S, T))
        lengths = torch.randint(1, S + 1, (runs, N)) if ragged else None
        keep = torch.rand(runs, N, T) < 0.6 if mask == 1 else torch.rand(runs, N, T, F) < 0.6
        arguments = source, target, lengths, keep if mask else None
        assert BufferShape.of(*arguments, R=runs, H=H) == shape
        batch.load(*arguments)
        return arguments

    return batch, load


@LAYOUTS
@pytest.mark.parametrize("runs", [1, R])
@pytest.mark.parametrize("mask", [0, 1, F])
def test_the_error_and_its_gradient(inner: bool, runs: int, mask: int) -> None:
    batch, load = batch_buffers(inner and runs > 1, runs, mask, ragged=False)
    y, dy = batch.tape.new(runs, N, T, F), batch.tape.new(runs, N, T, F)
    error = MeanSquaredError(batch, y)
    for _ in range(2):
        _, target, _, keep = load()
        given = random_(y).clone().requires_grad_()
        counts = torch.ones(runs, N, T, F) if keep is None else keep.view(runs, N, T, -1).double()
        counts = counts.expand(runs, N, T, F)
        squares = ((given - target) ** 2 * counts).sum(dim=(1, 2, 3))
        expected = squares / counts.sum(dim=(1, 2, 3))
        batch.tape.run(error.forward)
        torch.testing.assert_close(error.loss(), expected.detach(), **CLOSE)
        batch.tape.run(error.backward, dy)
        (expected_grads,) = torch.autograd.grad(expected.sum(), given)
        torch.testing.assert_close(dy, expected_grads, **CLOSE)


@LAYOUTS
@pytest.mark.parametrize("ragged", [False, True])
def test_a_decoder_is_fed_the_last_real_point_and_then_the_truth(inner: bool, ragged: bool) -> None:
    batch, load = batch_buffers(inner, R, 0, ragged)
    start = batch.shape.start
    for _ in range(2):
        source, target, lengths, _ = load()
        batch.tape.run(batch.shift_right)
        last = torch.full((R, N), S - 1) if lengths is None else lengths - 1
        expected = source.gather(2, last[..., None, None].expand(R, N, 1, F)).squeeze(2)
        assert torch.equal(batch.x[:, start], expected)
        assert torch.equal(batch.x[:, start + 1 :].transpose(1, 2), target[:, :, :-1])
        y, forced = torch.randn(R, N, F).double(), torch.rand(R, N, T) < 0.5
        batch.load_teacher_forcing(forced)
        assert torch.equal(batch.feed(2, y, mixed=True), target[:, :, 1].where(forced[..., 2:3], y))
        assert torch.equal(batch.feed(3, y, mixed=False), y)
