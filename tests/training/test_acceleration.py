"""Compiled steps: when they are compiled, and what the log says; and CUDA graphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from seqattn.config import resolve
from seqattn.data import load_data
from seqattn.models import build_model, teacher_forcing
from seqattn.models.layers import Linear
from seqattn.training import Batch, TrainingRun, acceleration, to_tensors
from seqattn.training.acceleration import (
    Computation,
    GraphedLoss,
    RefuseWaiting,
    StepCompiler,
    uses_graphs,
)
from seqattn.training.learner import StepRNG
from seqattn.training.objective import AutogradLoss, LossFn, build_loss
from seqattn.training.state import StackedParams
from tests.grouped import small_config
from tests.training_session import trained

ENDS = (3, 3, 7, 7)
"""Epochs of the runs of a group: a smaller group continues after the third."""


def compilations(monkeypatch: pytest.MonkeyPatch, durations: Any) -> list[int]:
    """Train a group with these durations of epochs, and return the epochs that compiled a step.

    Nothing is compiled: only the decisions are tested.
    """
    compiled, finished = list[int](), itertools.count(1)
    after_epoch, epoch = StepCompiler.after_epoch, 0

    def timed(compiler: StepCompiler, _: float, epochs_left: int, batch: Any) -> None:
        nonlocal epoch
        epoch = next(finished)
        after_epoch(compiler, next(durations), epochs_left, batch)

    def compile_step(loss_fn: AutogradLoss, batch: Any) -> None:
        compiled.append(epoch)
        loss_fn.name += ", a step compiled"

    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(StepCompiler, "after_epoch", timed)
    monkeypatch.setattr(AutogradLoss, "compile", compile_step)
    runs = []
    for seed, epochs in enumerate(ENDS):
        config = small_config(
            model={"attention": {"score": "cosine"}}, training={"compile": "auto", "epochs": epochs}
        )
        data, model = load_data(config.data), build_model(config.model, 2, seed)
        parts = to_tensors(data.train), to_tensors(data.validation)
        runs.append(TrainingRun(model, *parts, config.training, seed))
    assert [len(run.history) for run in trained(runs)] == list(ENDS)
    assert epoch == max(ENDS)
    return compiled


def test_no_speed_up_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch takes longer than the one before, so the second shows no speed-up."""
    assert compilations(monkeypatch, itertools.count(1.0)) == [1]


def run_of(precision: str, epochs: int, seed: int) -> TrainingRun:
    config = small_config(
        model={"attention": {"score": "cosine"}},  # autograd
        training={"compile": "auto", "epochs": epochs, "precision": precision},
    )
    data, model = load_data(config.data), build_model(config.model, 2, seed)
    train, validation = to_tensors(data.train), to_tensors(data.validation)
    return TrainingRun(model, train, validation, config.training, seed)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("runs", [1, 4])
def test_a_failed_compile_is_logged_once_with_its_reason(
    precision: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that end at different epochs, so that a smaller group goes on and tries again; every
    epoch takes longer than the one before."""

    def broken(*inputs: Any) -> Any:
        raise RuntimeError("no compiler here")

    after_epoch, seconds = StepCompiler.after_epoch, itertools.count(1)

    def slower(compiler: StepCompiler, _: float, epochs_left: int, batch: Any) -> None:
        after_epoch(compiler, next(seconds), epochs_left, batch)

    monkeypatch.setattr(torch, "compile", lambda plain, backend: broken)
    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(StepCompiler, "after_epoch", slower)
    messages: list[str] = []
    trained([run_of(precision, 4 + 3 * k, k) for k in range(runs)], log=messages.append)
    name = "autograd in bfloat16" if precision == "bfloat16" else "autograd"
    assert messages[0] == name
    assert len(messages) == 2
    assert messages[1].startswith(f"{name}: training.compile: torch could not compile a step here")
    assert "no compiler here" in messages[1]


N, S, T, F = 5, 4, 6, 2

MODELS: dict[str, dict[str, Any]] = {
    "manual": {"kind": "recurrent", "hidden_dim": 6},
    "lstm": {"kind": "recurrent", "hidden_dim": 6, "cell": "lstm"},
    "input feeding": {"kind": "recurrent", "hidden_dim": 6, "input_feeding": True},
    "fast weights": {"kind": "fast_weights"},
}
MASKS = {
    "step": torch.tensor([True, False, True, True, False, True]),
    "sequence": torch.tensor([True, False, True, True, False]).unsqueeze(-1),
    "element": torch.arange(N * T).view(N, T) % 3 > 0,
    "always": torch.ones(T, dtype=torch.bool),
    "never": torch.zeros(T, dtype=torch.bool),
}


def capture(function: Computation) -> Computation:
    """Return a function that repeats a pass, which a replay of its kernels would do."""
    function()
    return function


def loss_of(kind: str, runs: int = 1) -> tuple[StackedParams, LossFn]:
    config = resolve({"model": MODELS[kind]}).config
    models = [build_model(config.model, F, seed) for seed in range(runs)]
    return build_loss([model.double() for model in models])


def batch_of(runs: int = 1, sequences: int = N, seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    lead = () if runs == 1 else (runs,)
    source = torch.randn(*lead, sequences, S, F, generator=rng, dtype=torch.float64)
    target = torch.randn(*lead, sequences, T, F, generator=rng, dtype=torch.float64)
    return Batch(source, target)


@pytest.fixture(autouse=True)
def _masks_stay_the_same() -> Iterator[None]:
    before = {name: mask.clone() for name, mask in MASKS.items()}
    yield
    assert all(mask.equal(before[name]) for name, mask in MASKS.items())


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every mask that is not True at every step as a mask on a GPU."""
    monkeypatch.setattr(teacher_forcing, "has_unknown_values", lambda mask: not bool(mask.all()))


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", MODELS)
def test_a_graph_computes_the_loss_and_gradient_of_every_mask(kind: str, mask: str) -> None:
    params, loss_fn = loss_of(kind)
    graphed = GraphedLoss(loss_fn, capture)
    other, eager = loss_of(kind)
    for seed in range(3):
        batch = batch_of(seed=seed)
        forced = MASKS[mask].roll(seed, dims=0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(teacher_forcing, "has_unknown_values", lambda mask: False)
            expected = eager.value_and_grad(batch, forced)
        torch.testing.assert_close(graphed.value_and_grad(batch, forced), expected)
        torch.testing.assert_close(params.gradient, other.gradient)
    assert len(graphed.passes) == 1


def test_each_shape_and_each_kind_of_mask_has_one_graph() -> None:
    captured = 0

    def count(function: Computation) -> Computation:
        nonlocal captured
        captured += 1
        return capture(function)

    graphed = GraphedLoss(loss_of("manual")[1], count)
    for sequences in (N, 3, N, 3):
        for mask in ("step", "always", "never"):
            graphed.value_and_grad(batch_of(sequences=sequences), MASKS[mask])
        graphed.eval_losses(batch_of(sequences=sequences))
    assert captured == 2 * 3  # two shapes: always, any other mask, validation


@pytest.mark.parametrize("runs", [1, 3])
def test_validation_is_that_of_the_loss(runs: int) -> None:
    graphed, eager = GraphedLoss(loss_of("manual", runs)[1], capture), loss_of("manual", runs)[1]
    for seed in range(2):
        batch = batch_of(runs, seed=seed)
        for one, other in zip(graphed.eval_losses(batch), eager.eval_losses(batch), strict=True):
            torch.testing.assert_close(one, other)


def test_results_are_copies() -> None:
    """A replay overwrites the results of the replay before it."""
    result = torch.zeros(())

    class Counting:
        name = "counting"

        def value_and_grad(self, batch: Batch, mask: Tensor, rng: object = None) -> Tensor:
            return result.add_(1)

        def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
            return result, result

    graphed = GraphedLoss(Counting(), capture)
    losses = [graphed.value_and_grad(batch_of(), MASKS["step"]) for _ in range(3)]
    assert [float(loss) for loss in losses] == [2, 3, 4]  # the capture took the first


def test_a_model_that_draws_numbers_is_trained_without_graphs() -> None:
    config = resolve({"model": {"kind": "recurrent", "hidden_dim": 6, "dropout": 0.5}}).config
    losses = []
    for is_graphed in (False, True):
        params, loss_fn = build_loss([build_model(config.model, F, 1)])
        loss_fn = GraphedLoss(loss_fn, capture) if is_graphed else loss_fn
        batch = batch_of().map(Tensor.float)
        for step in range(2):
            rng = StepRNG([1], 0, step, params.weights)
            losses.append(loss_fn.value_and_grad(batch, MASKS["step"], rng))
            losses.append(params.gradient.clone())
        losses += loss_fn.eval_losses(batch)
    assert loss_fn.name == (
        "autograd, CUDA graphs for some passes only (a step draws random numbers)"
    )
    assert all(one.equal(other) for one, other in zip(losses[:6], losses[6:], strict=True))


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, torch.cuda.OutOfMemoryError])
def test_a_failed_capture_is_named_and_the_step_computed(kind: type[Exception]) -> None:
    def fail(function: Computation) -> Computation:
        function()
        try:
            raise kind("operation not permitted when stream is capturing\nmore")
        finally:
            raise RuntimeError("operation failed due to a previous error")

    graphed = GraphedLoss(loss_of("manual")[1], fail)
    assert graphed.name == "manual backward, CUDA graphs"
    for _ in range(2):
        loss = graphed.value_and_grad(batch_of(), MASKS["step"])
        assert loss.equal(loss_of("manual")[1].value_and_grad(batch_of(), MASKS["step"]))
    assert graphed.name == (
        "manual backward, no CUDA graphs (operation not permitted when stream is capturing)"
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.usefixtures("hidden")
def test_no_model_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefuseWaiting, "device_type", "cpu")
    params, loss_fn = loss_of(kind, 2)
    batch, mask = batch_of(2), MASKS["step"]
    expected = loss_fn.value_and_grad(batch, mask)
    gradient = params.gradient.clone()
    monkeypatch.setattr(teacher_forcing, "has_unknown_values", lambda mask: True)
    with RefuseWaiting():
        found = loss_fn.value_and_grad(batch, mask)
        loss_fn.eval_losses(batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(params.gradient, gradient)


class OwnLinear(Linear):
    """A part that a plugin could have; its module is not in seqattn."""


def test_compiled_models_and_models_of_plugins_are_not_captured() -> None:
    config = resolve({"model": MODELS["manual"]}).config
    model = build_model(config.model, F, 1)
    assert uses_graphs(config.training, model)
    for change in ({"cuda_graphs": False}, {"compile": "auto"}):
        assert not uses_graphs(config.training.model_copy(update=change), model)
    model.output.__class__ = OwnLinear
    assert not uses_graphs(config.training, model)


def test_a_batch_keeps_its_tensors() -> None:
    """The graph writes only into its own copies."""
    graphed = GraphedLoss(loss_of("manual")[1], capture)
    batch = batch_of()
    before = batch.map(Tensor.clone)
    lengths = replace(batch, source_lengths=torch.tensor([4, 3, 2, 1, 4]))
    for each in (batch, lengths, batch):
        graphed.value_and_grad(each, MASKS["step"])
    assert batch.source.equal(before.source) and batch.target.equal(before.target)
    assert len(graphed.passes) == 2
