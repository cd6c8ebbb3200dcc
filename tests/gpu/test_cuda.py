"""Training on a GPU: the numbers of the CPU, no waiting within an epoch, exact resume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seqattn.config import Config, resolve
from seqattn.experiments.group_training import build_runs
from seqattn.experiments.prepare import prepare_jobs
from seqattn.experiments.verify_resume import verify_resume
from seqattn.models import RNG, build_model
from seqattn.runs import RunFolder
from seqattn.training import Batch, ProcessGroup, RunProgress, TrainingRun, train_models
from seqattn.training.acceleration import GraphedLoss
from seqattn.training.learner import Learner, build_group
from seqattn.training.loop import train_step
from seqattn.training.objective import LossFn, build_loss, validate
from seqattn.training.state import TrainState
from tests.conftest import ROOT
from tests.training_session import trained

MECHANISMS = sorted(path.stem for path in (ROOT / "configs/mechanisms").glob("*.yaml"))
TOLERANCE = 1e-4
SAMPLED = {"deep", "hard_reinforce", "hard_straight_through", "monotonic"}
GRAPHS_OR_NOT = [True, False]

VARIANTS: dict[str, list[str]] = {
    "lengths": ["data.variable_length=true"],
    "dropout": ["model.dropout=0.2", "model.layers=2"],
    "coin for each sequence": ["training.teacher_forcing={coin: sequence, probability: 0.5}"],
    "coin for each sequence and step": [
        "training.teacher_forcing={coin: element, probability: 0.5}"
    ],
    "free running": ["training.teacher_forcing={probability: 0}"],
    "skip": ["model.skip=linear"],
    "autograd": ["model.input_feeding=true"],
    "lengths, lstm": ["data.variable_length=true", "model.cell=lstm"],
    "lengths, rnn": ["data.variable_length=true", "model.cell=rnn"],
    "lengths, autograd": ["data.variable_length=true", "model.input_feeding=true"],
    "clipped": ["training.clip_norm=0.1", "training.optimizer=sgd", "training.momentum=0.9"],
}


@pytest.fixture(autouse=True)
def gpu() -> None:
    assert torch.cuda.is_available(), "these tests need a GPU"


@contextmanager
def no_waiting() -> Iterator[None]:
    """Raise an error if an operation in the block waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def config_of(name: str, *sets: str) -> Config:
    """Read a shipped config, given as a path in the folder `configs` without its suffix."""
    return resolve(ROOT / f"configs/{name}.yaml", list(sets)).config


def runs_of(config: Config, device: str, seeds: range = range(1)) -> list[TrainingRun]:
    """Build runs as `seqattn train` does. No run folder is written."""
    configs = [config.model_copy(update={"seed": seed}) for seed in seeds]
    jobs = prepare_jobs([(each, RunFolder(Path("unused"))) for each in configs], resume=False)
    return build_runs(jobs, torch.device(device))


def group_of(config: Config, device: str, seeds: range = range(1)) -> tuple[TrainState, Learner]:
    return build_group([RunProgress(run) for run in runs_of(config, device, seeds)])


def numbers_after(config: Config, device: str, steps: int, seeds: range = range(1)) -> list[Tensor]:
    """The losses of some steps, the first gradient, and the two validation losses."""
    state, learner = group_of(config, device, seeds)
    plan = learner.plan_epoch(state)
    gradients = []
    for _ in range(steps):
        train_step(state, learner, plan)
        gradients.append(learner.params.gradient.clone())
    losses = torch.stack([loss.losses for loss in state.pending])
    validation = validate(learner.loss_fn, learner.validation, config.training.batch_size)
    if device == "cuda":
        assert isinstance(learner.loss_fn, GraphedLoss) == config.training.cuda_graphs
    return [losses.cpu(), gradients[0].cpu(), torch.tensor(validation)]


def assert_close(one: list[Tensor], other: list[Tensor]) -> None:
    for a, b in zip(one, other, strict=True):
        scale = max(float(a.abs().max()), 1e-3)
        assert float((a - b).abs().max()) / scale < TOLERANCE


@pytest.mark.parametrize("graphs", GRAPHS_OR_NOT)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_has_the_numbers_of_the_cpu(mechanism: str, graphs: bool) -> None:
    sets = [f"training.cuda_graphs={str(graphs).lower()}"]
    config = config_of(f"mechanisms/{mechanism}", *sets)
    assert_close(numbers_after(config, "cpu", 2), numbers_after(config, "cuda", 2))


@pytest.mark.parametrize("graphs", GRAPHS_OR_NOT)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_has_the_numbers_of_the_cpu(variant: str, graphs: bool) -> None:
    sets = [*VARIANTS[variant], f"training.cuda_graphs={str(graphs).lower()}"]
    config = config_of("squares", *sets)
    assert_close(numbers_after(config, "cpu", 3), numbers_after(config, "cuda", 3))
    if "autograd" in variant:
        assert "autograd" in group_of(config, "cuda")[1].loss_fn.name


@pytest.mark.parametrize("graphs", GRAPHS_OR_NOT)
def test_many_runs_have_the_numbers_of_each_alone(graphs: bool) -> None:
    config = config_of("squares", f"training.cuda_graphs={str(graphs).lower()}")
    losses, gradients, validation = numbers_after(config, "cuda", 3, range(8))
    for seed in range(8):
        alone = numbers_after(config, "cuda", 3, range(seed, seed + 1))
        together = [losses[:, seed], gradients[seed, None], validation[:, seed, None]]
        assert_close(alone, together)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("graphs", GRAPHS_OR_NOT)
@pytest.mark.parametrize("name", ["squares", "mechanisms/input_feeding", "mechanisms/transformer"])
def test_no_step_waits_for_the_gpu(name: str, graphs: bool) -> None:
    config = config_of(name, f"training.cuda_graphs={str(graphs).lower()}")
    state, learner = group_of(config, "cuda", range(3))
    plan = learner.plan_epoch(state)
    for _ in range(6):  # with graphs, the first steps of each kind are captured
        train_step(state, learner, plan)
    state.step = 0
    with no_waiting():
        for _ in range(6):
            train_step(state, learner, plan)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_waiting_is_noticed() -> None:
    numbers = torch.ones(3, device="cuda")
    with no_waiting(), pytest.raises(RuntimeError, match="synchroniz"):
        numbers.sum().item()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_which_mechanisms_are_captured(mechanism: str) -> None:
    config = config_of(f"mechanisms/{mechanism}")
    state, learner = group_of(config, "cuda")
    train_step(state, learner, learner.plan_epoch(state))
    validate(learner.loss_fn, learner.validation, config.training.batch_size)
    assert isinstance(learner.loss_fn, GraphedLoss)
    expected = {"a step draws random numbers"} if mechanism in SAMPLED else set()
    assert {*learner.loss_fn.failed.values()} == expected
    assert "validate" in {key[0] for key in learner.loss_fn.passes}


@pytest.mark.parametrize("manual", [True, False])
def test_unobserved_target_cells_have_the_numbers_of_the_cpu(manual: bool) -> None:
    numbers = torch.Generator().manual_seed(1)
    source, target = (torch.randn(9, 5, 2, generator=numbers) for _ in "xy")
    keep = torch.rand(9, 5, 2, generator=numbers) < 0.7
    batch = Batch(source, target.masked_fill(~keep, 0), torch.arange(1, 10).clamp(max=5), keep)
    mask = torch.arange(5) % 2 > 0
    found = []
    for device in ("cpu", "cuda"):
        model = build_model(config_of("squares").model, 2, 1).to(device)
        params, loss_fn = build_loss([model], manual_backward=manual)
        wrapped: LossFn = loss_fn if device == "cpu" else GraphedLoss(loss_fn)
        on_device = batch.map(lambda tensor: tensor.to(device))  # noqa: B023
        losses = [wrapped.value_and_grad(on_device, mask), *wrapped.eval_losses(on_device)]
        found.append([torch.stack(losses).cpu(), params.gradient.cpu()])
    assert_close(*found)


class Waiting:
    """A loss that waits for the GPU in validation."""

    name = "waiting"

    def __init__(self, inner: LossFn) -> None:
        self.inner = inner

    def value_and_grad(self, batch: Batch, mask: Tensor, rng: RNG | None = None) -> Tensor:
        return self.inner.value_and_grad(batch, mask, rng)

    def eval_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert float(batch.source.sum()) < 1e9  # waits
        return self.inner.eval_losses(batch)


def test_a_pass_that_waits_is_computed_without_a_graph_and_others_are_captured() -> None:
    stream = torch.cuda.current_stream()
    config = config_of("squares")
    expected = numbers_after(config, "cuda", 3)
    for _ in range(2):  # a second group captures after the failure of the first
        state, learner = group_of(config, "cuda")
        assert isinstance(learner.loss_fn, GraphedLoss)
        graphed = learner.loss_fn = GraphedLoss(Waiting(learner.loss_fn.inner))
        plan, gradients, validations = learner.plan_epoch(state), [], []
        for _ in range(3):
            train_step(state, learner, plan)
            gradients.append(learner.params.gradient.clone())
            validations.append(validate(graphed, learner.validation, config.training.batch_size))
        losses = torch.stack([loss.losses for loss in state.pending])
        found = [losses.cpu(), gradients[0].cpu(), torch.tensor(validations[-1])]
        assert_close(found, expected)
        assert {key[0] for key in graphed.passes} == {"train"}
        assert {key[0] for key in graphed.failed} == {"validate"}
        assert torch.cuda.current_stream() == stream
        state_of_run = state.get_run_state(0)
        for name, parameter in learner.params.model.named_parameters():
            assert state_of_run.weights[name].equal(
                parameter.detach().view_as(state_of_run.weights[name])
            )


def test_a_group_that_becomes_smaller_trains_on() -> None:
    config = config_of("squares", "data.n_train=72")
    runs = runs_of(config, "cuda", range(4))
    epochs = (2, 2, 2, 5)
    runs = [
        replace(run, config=run.config.model_copy(update={"epochs": number}))
        for run, number in zip(runs, epochs, strict=True)
    ]
    alone = runs_of(config, "cuda", range(3, 4))[0]
    alone = replace(alone, config=alone.config.model_copy(update={"epochs": 5}))
    together, (expected,) = trained(runs), trained([alone])
    assert [len(progress.history) for progress in together] == list(epochs)
    for one, other in zip(together[3].history, expected.history, strict=True):
        assert one.validation_loss == pytest.approx(other.validation_loss, rel=1e-3)


def test_weights_that_change_are_seen_by_a_graph() -> None:
    config = config_of("squares", "training.epochs=8")
    graphed = trained(runs_of(config, "cuda"))[0]
    plain = replace_graphs(config, on=False)
    eager = trained(runs_of(plain, "cuda"))[0]
    for one, other in zip(graphed.history, eager.history, strict=True):
        assert one.validation_loss == pytest.approx(other.validation_loss, rel=1e-3)
        assert one.train_loss == pytest.approx(other.train_loss, rel=1e-3)


def replace_graphs(config: Config, *, on: bool) -> Config:
    training = config.training.model_copy(update={"cuda_graphs": on})
    return config.model_copy(update={"training": training})


@pytest.mark.parametrize("more", [[], ["data.variable_length=true"]], ids=["one length", "lengths"])
@pytest.mark.parametrize("name", ["squares", *(f"mechanisms/{m}" for m in MECHANISMS)])
def test_a_stopped_run_resumes_bit_for_bit(name: str, more: list[str], tmp_path: Path) -> None:
    # The last batch of an epoch is smaller than the others.
    config = config_of(name, "training.epochs=2", "data.n_train=72", *more)
    result = verify_resume(config, tmp_path, stops=2, device="cuda")
    assert result.difference is None
    environment = json.loads((tmp_path / "at-once/environment.json").read_text())
    assert environment["device"] == "cuda"


def test_bfloat16_trains_about_as_well(tmp_path: Path) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        config = config_of("squares", f"training.precision={precision}", "training.epochs=30")
        losses[precision] = trained(runs_of(config, "cuda"))[0].best_loss
    assert losses["bfloat16"] < 1.5 * losses["float32"]


def test_a_process_group_over_nccl_trains_as_a_process_alone(
    tmp_path: Path,
) -> None:
    config = config_of("squares", "training.epochs=3")
    alone = trained(runs_of(config, "cuda"))[0]
    device = torch.device("cuda")
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    group = ProcessGroup(0, 1, device)
    try:
        group.check_same_training("config", b"data")
        assert group.broadcast(b"content") == b"content"
        shared = train_models(runs_of(config, "cuda"), processes=group)[0]
    finally:
        group.destroy()
    assert [record.validation_loss for record in shared.history] == pytest.approx(
        [record.validation_loss for record in alone.history], rel=1e-4
    )


def test_a_diverged_run_ends_with_an_error() -> None:
    config = config_of("squares", "training.learning_rate=1.0", "training.optimizer=sgd")
    run = runs_of(config, "cuda")[0]
    bad = Batch(run.train.source * 1e18, run.train.target * 1e18)  # type: ignore[union-attr]
    (progress,) = trained([replace(run, train=bad)])
    assert progress.ending == "diverged"
    assert progress.error is not None
