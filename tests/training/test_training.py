from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqattn.config import Config, Training
from seqattn.data import DataSpec, Vectors, load_data
from seqattn.errors import CheckpointError, NonFiniteError
from seqattn.models import Seq2SeqModel, build_model
from seqattn.models.modality import FeatureSpec
from seqattn.rng import rng_for
from seqattn.runs import EpochRecord
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed, save_checksummed
from seqattn.training import (
    Batch,
    LearningRate,
    RunProgress,
    RunState,
    TrainingRun,
    learner,
    load_model,
    load_state,
    optimization,
    sample_teacher_forcing,
    save_best,
    save_state,
    teacher_forcing_probability,
    to_tensors,
)
from seqattn.training.batches import batches_in_order, chunk_slices, epoch_permutations
from seqattn.training.checkpoints import read_training
from seqattn.training.objective import AutogradLoss, validate
from seqattn.training.optimization import Optimizer, PlateauDetector
from seqattn.training.state import StepLoss, TrainState
from tests import training_session
from tests.conftest import F, N, T

SECTION: dict[str, Any] = {
    "data": {"n_train": 43, "n_validation": 19, "n_test": 7, "variable_length": True},
    "model": {"hidden_dim": 5},
    "training": {"epochs": 4, "batch_size": 11, "checkpoint_seconds": 0},
}

mse_loss = FeatureSpec.same(2).modalities()[1].loss


def config(**training: Any) -> Config:
    return Config.model_validate({**SECTION, "training": {**SECTION["training"], **training}})


XY = DataSpec(Vectors.unscaled(("x", "y")), Vectors.unscaled(("x", "y")), 2, 2)


def started(config: Config) -> tuple[Seq2SeqModel, Batch, Batch, DataSpec]:
    data = load_data(config.data)
    model = build_model(config.model, 2, config.seed)
    return model, to_tensors(data.train), to_tensors(data.validation), DataSpec.of(data.train)


def one(
    model: Seq2SeqModel,
    data: Batch,
    validation: Batch,
    config: Training,
    *,
    seed: int,
    state: RunState | None = None,
    **options: Any,
) -> RunProgress:
    """Train one run to its end, or until it is stopped."""
    run = TrainingRun(model, data, validation, config, seed)
    states = {} if state is None else {run: state}
    (progress,) = training_session.trained([run], states=states, **options)
    if progress.error is not None:
        raise progress.error
    return progress


def trained(config: Config, **options: Any) -> RunState:
    model, data, validation, _ = started(config)
    progress = one(model, data, validation, config.training, seed=config.seed, **options)
    state = progress.state
    assert state is not None
    return state


def weights(state: RunState) -> dict[str, Tensor]:
    return state.weights


def shuffled(data: Batch, seed: int, epoch: int) -> Batch:
    (order,) = epoch_permutations([seed], epoch, len(data))
    return batches_in_order(data, order, [slice(0, len(data))])(0)


def validated(model: Seq2SeqModel, data: Batch) -> tuple[float, float]:
    (free,), (forced,), *_ = validate(AutogradLoss(model), data)
    return free, forced


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


# --- schedules ----------------------------------------------------------------------------------


def forcing(**section: Any) -> list[float]:
    settings = Training.model_validate({"teacher_forcing": section}).teacher_forcing
    return [teacher_forcing_probability(settings, epoch, 5) for epoch in range(7)]


def test_teacher_forcing_schedules_by_hand() -> None:
    assert forcing(schedule="constant", probability=0.3) == [0.3] * 7
    assert forcing(schedule="linear") == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0]
    assert forcing(schedule="linear", start=0.2, end=0.6, over_epochs=3) == pytest.approx(
        [0.2, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6]
    )
    assert forcing(schedule="linear", over_epochs=1) == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert forcing(schedule="exponential", decay=0.5) == [
        1,
        0.5,
        0.25,
        0.125,
        1 / 16,
        1 / 32,
        1 / 64,
    ]
    k = 4.0
    expected = [k / (k + math.exp(epoch / k)) for epoch in range(7)]
    assert forcing(schedule="inverse_sigmoid", k=k) == pytest.approx(expected)


def test_inverse_sigmoid_does_not_overflow() -> None:
    settings = Training.model_validate(
        {"teacher_forcing": {"schedule": "inverse_sigmoid", "k": 1.0}}
    )
    assert teacher_forcing_probability(settings.teacher_forcing, 10**6, 10**6) == pytest.approx(0)


def rates(losses: list[float], **section: Any) -> list[float]:
    settings = Training.model_validate({"epochs": 5, "learning_rate": 0.8, **section})
    rate = LearningRate(settings)
    return [rate.value, *values_after(rate, losses[:-1])]


def values_after(rate: LearningRate, losses: list[float]) -> list[float]:
    """The learning rate after each of these losses."""
    values = []
    for loss in losses:
        rate.update(loss)
        values.append(rate.value)
    return values


def test_learning_rate_schedules_by_hand() -> None:
    flat = [1.0] * 6
    assert rates(flat) == [0.8] * 6
    steps = rates(flat, learning_rate_schedule={"kind": "step", "every": 2, "factor": 0.5})
    assert steps == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2, 0.2])
    cosine = rates(flat, learning_rate_schedule={"kind": "cosine", "minimum": 0.2})
    half = [0.2 + 0.3 * (1 + math.cos(math.pi * share)) for share in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    assert cosine == pytest.approx(half)
    one = {"kind": "cosine", "minimum": 0.2, "over_epochs": 1}  # the way down is over at once
    assert rates(flat, learning_rate_schedule=one) == pytest.approx([0.8, *[0.2] * 5])
    # Losses 3, 2, then two that are no better: after them the rate is halved, and waits anew.
    plateau = {"kind": "plateau", "patience": 2, "factor": 0.5}
    found = rates([3.0, 2.0, 2.0, 2.5, 2.0, 2.0, 1.0], learning_rate_schedule=plateau)
    assert found == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2])


def test_a_schedule_that_goes_on_is_the_one_that_never_stopped() -> None:
    plateau = {"kind": "plateau", "patience": 1, "factor": 0.5}
    settings = Training.model_validate({"learning_rate_schedule": plateau})
    losses = [3.0, 3.0, 2.0, 2.0, 2.0, 1.0]
    whole = LearningRate(settings, [])
    expected = [whole.value, *values_after(whole, losses)]
    for done in range(1, len(losses)):
        rest = LearningRate(settings, losses[:done])
        assert [rest.value, *values_after(rest, losses[done:])] == expected[done:]


def test_patience() -> None:
    patient = PlateauDetector(2, min_delta=0.5)
    assert [patient.update(loss) for loss in (3.0, 2.6, 2.4, 2.2, 2.0)] == [
        False, False, False, False, True,
    ]  # fmt: skip


# --- coins --------------------------------------------------------------------------------------


def tossed(coin: str, probability: float, seed: int = 1, epoch: int = 0) -> np.ndarray:
    settings = Training.model_validate({"teacher_forcing": {"coin": coin}}).teacher_forcing
    numbers = rng_for(seed, "coins", epoch)
    return sample_teacher_forcing(
        settings, probability, numbers, sequences=2003, batches=1009, steps=7
    )


@pytest.mark.parametrize(
    ("coin", "shape"),
    [("step", (1009, 1, 7)), ("sequence", (2003, 1)), ("element", (2003, 7))],
)
def test_coins(coin: str, shape: tuple[int, ...]) -> None:
    heads = tossed(coin, 0.3)
    assert heads.shape == shape
    assert heads.mean() == pytest.approx(0.3, abs=0.04)
    assert not tossed(coin, 0.0).any()  # rand() < 0 never
    assert tossed(coin, 1.0).all()  # rand() < 1 always
    assert (tossed(coin, 0.3) == heads).all()
    assert (tossed(coin, 0.3, epoch=1) != heads).any()
    assert (tossed(coin, 0.3, seed=2) != heads).any()


def test_validation_tosses_no_coin() -> None:
    """A run that validates and one that does not see the same coins: they are a function."""
    state, again = trained(config(epochs=2)), trained(config(epochs=2))
    model, data, validation, _ = started(config(epochs=2))
    validated(model, validation)
    third = one(model, data, validation, config(epochs=2).training, seed=23).state
    assert third is not None
    assert same(weights(state), weights(again))
    assert same(weights(state), weights(third))


@pytest.mark.parametrize("coin", ["step", "sequence", "element"])
def test_each_coin_trains(coin: str) -> None:
    state = trained(config(teacher_forcing={"coin": coin}))
    assert state.history[-1].train_loss < state.history[0].train_loss


# --- batches and loss ---------------------------------------------------------------------------


def test_order_is_a_function_of_seed_and_epoch() -> None:
    _, data, _, _ = started(config())
    first = shuffled(data, 3, 0)
    assert torch.equal(shuffled(data, 3, 0).source, first.source)
    assert not torch.equal(shuffled(data, 3, 1).source, first.source)
    assert not torch.equal(shuffled(data, 4, 0).source, first.source)
    ordered = sorted(map(tuple, first.source.flatten(1).tolist()))
    assert ordered == sorted(map(tuple, data.source.flatten(1).tolist()))


def test_slices_cover_everything_once() -> None:
    assert list(chunk_slices(10, 4)) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert list(chunk_slices(8, 4)) == [slice(0, 4), slice(4, 8)]


def test_loss_is_the_mean_over_real_points() -> None:
    values, target = torch.randn(N, T, F), torch.randn(N, T, F)
    assert mse_loss(values, target, None) == pytest.approx(
        float(((values - target) ** 2).mean()), rel=1e-6
    )
    lengths = torch.tensor([1, 13, 2, 3, 5, 7, 11])
    keep = torch.arange(T) < lengths[:, None]
    expected = ((values - target) ** 2)[keep].mean()
    found = mse_loss(values.masked_fill(~keep[..., None], 1e9), target, keep)
    assert found == pytest.approx(float(expected), rel=1e-5)
    both = torch.stack([values, values * 2])
    each = mse_loss(both, torch.stack([target] * 2), torch.stack([keep] * 2))
    assert each.shape == (2,)
    assert each[0] == pytest.approx(float(expected), rel=1e-5)


def test_padding_trains_nothing() -> None:
    """More padding, and rubbish in it, ends with the same weights."""
    model, data, validation, _ = started(config())
    rubbish = torch.full((43, 3, 2), 7.0)
    assert data.target_keep is not None
    assert data.source_lengths is not None
    wide = Batch(
        torch.cat([data.source.masked_fill((data.source == 0), 5.0), rubbish], dim=1),
        torch.cat([data.target, rubbish], dim=1),
        data.source_lengths,
        torch.cat([data.target_keep, torch.zeros(43, 3, dtype=torch.bool)], dim=1),
    )
    # SGD, since Adam blows the rounding of the key bias, whose gradient is exactly 0, up to a step.
    always = config(teacher_forcing={"probability": 1.0}, optimizer="sgd").training
    narrow_run = one(model, data, validation, always, seed=1)
    other = build_model(config().model, 2, config().seed)
    wide_run = one(other, wide, validation, always, seed=1)
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=0)
    assert narrow_run.history[-1].train_loss == pytest.approx(
        wide_run.history[-1].train_loss, rel=1e-4
    )


# --- the loop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_one_step_is_the_optimizers_own(optimizer: str) -> None:
    """An epoch of one batch, against torch's optimizer and a loss written out."""
    section = config(epochs=1, batch_size=43, optimizer=optimizer, weight_decay=0.1,
                     momentum=0.5 if optimizer == "sgd" else 0.0, clip_norm=0.01,
                     teacher_forcing={"probability": 1.0})  # fmt: skip
    state = trained(section)
    model, data, _, _ = started(section)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    extra = {"momentum": 0.5} if optimizer == "sgd" else {}
    plain = kinds[optimizer](model.parameters(), lr=0.01, weight_decay=0.1, **extra)
    in_order = shuffled(data, section.seed, 0)
    forecast = model(in_order.source, in_order.target, source_lengths=in_order.source_lengths,
                 teacher_forcing=torch.ones(2, dtype=torch.bool)).values  # fmt: skip
    loss = ((forecast - in_order.target) ** 2)[in_order.target_keep].mean()
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))  # type: ignore[union-attr]
    assert norm > 0.01  # so the clip does something
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad *= 0.01 / norm
    plain.step()
    for name, theirs in model.named_parameters():
        torch.testing.assert_close(state.weights[name], theirs.detach(), atol=2e-5, rtol=0)
    assert state.history[0].train_loss == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize("kernels", ["fused", "functions"])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "momentum"])
def test_many_runs_step_like_torchs_own_optimizers(
    optimizer: str, inner: bool, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of (R, P) weights against an optimizer of its own, in float64, over changing
    gradients, with a rate for all and with rates of their own."""
    if kernels == "functions":
        monkeypatch.setattr(optimization, "KERNELS", {"adam": None, "adamw": None})
    name = optimizer.replace("momentum", "sgd")
    settings = config(optimizer=name, weight_decay=0.1,
                   momentum=0.9 if optimizer == "momentum" else 0.0).training  # fmt: skip
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    numbers = torch.Generator().manual_seed(1)
    weights = torch.randn(3, 7, generator=numbers, dtype=torch.float64)
    weights = weights.T.contiguous().T if inner else weights
    gradient = torch.zeros_like(weights)
    ours = Optimizer(settings, weights, gradient)
    rows = [torch.nn.Parameter(row.clone()) for row in weights]
    momentum = {"momentum": settings.momentum} if name == "sgd" else {}
    theirs = [kinds[name]([row], weight_decay=0.1, **momentum) for row in rows]
    for k in range(6):
        rates = [0.01 * (k + 1)] * 3 if k < 3 else [0.1, 0.01 * k, 0.0]
        gradient.copy_(torch.randn(3, 7, generator=numbers, dtype=torch.float64))
        for row, slope, own, rate in zip(rows, gradient, theirs, rates, strict=True):
            row.grad = slope.clone()
            own.param_groups[0]["lr"] = rate
            own.step()
        ours.step(rates)
        torch.testing.assert_close(weights, torch.stack([*map(torch.Tensor.detach, rows)]),
                                   atol=1e-13, rtol=0)  # fmt: skip


def test_training_learns_and_the_best_epoch_is_kept() -> None:
    state = trained(config(epochs=12))
    losses = [record.validation_loss for record in state.history]
    assert losses[-1] < 0.7 * losses[0]
    assert state.best_epoch == losses.index(min(losses)) + 1
    model, _, validation, _ = started(config())
    model.load_state_dict(state.best_weights)
    assert validated(model, validation)[0] == pytest.approx(min(losses), rel=1e-6)


def test_both_validation_losses_are_what_they_say() -> None:
    model, _, data, _ = started(config())
    free, forced = validated(model, data)
    alone = model.forecast(data.source, 2, source_lengths=data.source_lengths).values
    forecast = model(data.source, data.target, source_lengths=data.source_lengths,
                 teacher_forcing=torch.ones(2, dtype=torch.bool)).values  # fmt: skip
    assert free == pytest.approx(((alone - data.target) ** 2)[data.target_keep].mean().item())
    assert forced == pytest.approx(((forecast - data.target) ** 2)[data.target_keep].mean().item())
    assert free != forced


def test_early_stopping_stops_and_says_so() -> None:
    section = config(
        epochs=50, learning_rate=1e-9, early_stopping={"patience": 3, "min_delta": 0.1}
    )
    model, data, validation, _ = started(section)
    run = one(model, data, validation, section.training, seed=1)
    assert run.state is not None
    assert (run.state.epoch, run.ending, run.is_finished) == (4, "early stopping", True)
    again = one(model, data, validation, section.training, seed=1, state=run.state)
    assert again.state is not None
    assert (again.state.epoch, again.ending) == (4, "early stopping")


@pytest.mark.parametrize("fails", [False, True])
def test_after_a_training_parts_and_parameters_can_be_replaced(fails: bool) -> None:
    """While it goes on they are plain attributes of their modules; after it, however it ends, none
    is left that would hide another in its place."""
    section = config(epochs=1)
    model, data, validation, _ = started(section)
    plain = {name: set(vars(module)) for name, module in model.named_modules()}

    def save(state: RunState) -> None:
        assert all(vars(module).keys() >= module._modules.keys() for module in model.modules())
        if fails:
            raise OSError("full")

    with pytest.raises(OSError, match="full") if fails else contextlib.nullcontext():
        one(model, data, validation, section.training, seed=1, save=save)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == plain
    before = model.forecast(data.source, 2).values
    model._apply(lambda tensor: torch.nn.Parameter(tensor.detach() + 1))
    assert not torch.equal(model.forecast(data.source, 2).values, before)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_no_step_on_a_loss_that_is_not_finite(poison: float) -> None:
    section = config()
    model, data, validation, _ = started(section)
    data.target[17] = poison
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    steps: list[RunState] = []
    place = int((torch.isfinite(shuffled(data, 23, 0).target).all(-1).all(-1) == 0).nonzero()[0])
    with pytest.raises(NonFiniteError) as caught:
        one(model, data, validation, section.training, seed=23, save=steps.append)
    step = place // 11
    assert f"in epoch 1, step {step + 1}, at learning rate 0.01" in str(caught.value)
    assert "The weights were not updated with it" in str(caught.value)
    assert "training.clip_norm" in str(caught.value)
    assert steps[-1].step == step
    assert all(torch.isfinite(tensor).all() for tensor in steps[-1].weights.values())
    if step == 0:
        assert same(before, steps[-1].weights)


def test_a_validation_loss_that_is_not_finite_blames_no_batch() -> None:
    """All updates were made, and saved: a run that ended says where."""
    section = config()
    model, data, validation, _ = started(section)
    validation.target[3] = math.nan
    saved: list[RunState] = []
    with pytest.raises(
        NonFiniteError, match="^The validation loss is nan after epoch 1,"
    ) as caught:
        one(model, data, validation, section.training, seed=23, save=saved.append)
    assert "all its updates were made; the newest checkpoint was saved before" in str(caught.value)
    assert "training.clip_norm" in str(caught.value)
    assert "batch" not in str(caught.value)
    assert [(state.epoch, state.step) for state in saved] == [(0, 1), (0, 2), (0, 3), (0, 4)]


@pytest.mark.parametrize("more", [{}, {"clip_norm": 1.0}, {"optimizer": "sgd"}])
def test_no_step_on_a_gradient_that_is_not_finite(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loss is finite."""
    compute_gradient = learner.Learner.compute_gradient

    def infinite(self: learner.Learner, state: TrainState, plan: learner.EpochPlan) -> StepLoss:
        losses = compute_gradient(self, state, plan)
        if (state.epoch, state.step) == (1, 2):
            self.params.gradient[0, 3] = math.inf
        return losses

    monkeypatch.setattr(learner.Learner, "compute_gradient", infinite)
    section = config(**more)
    model, data, validation, _ = started(section)
    steps: list[RunState] = []
    with pytest.raises(NonFiniteError) as caught:
        one(model, data, validation, section.training, seed=23, save=steps.append)
    assert "The gradient's norm is inf in epoch 2, step 3, at" in str(caught.value)
    ids = str(caught.value).partition("11 training sequences: ")[2].partition(" and 3 more")[0]
    assert ids == ", ".join(map(str, epoch_permutations([23], 1, len(data))[0][22:30]))
    assert (steps[-1].epoch, steps[-1].step) == (1, 2)
    for kept in (steps[-1].weights, *steps[-1].buffers.values()):
        assert all(torch.isfinite(tensor).all() for tensor in kept.values())


# --- checkpoints --------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_stopped_at_any_step_and_resumed_ends_the_same(tmp_path: Path, optimizer: str) -> None:
    section = config(
        optimizer=optimizer, momentum=0.9 if optimizer == "sgd" else 0.0,
        learning_rate_schedule={"kind": "plateau", "patience": 1},
        teacher_forcing={"coin": "element"},
    )  # fmt: skip
    whole = trained(section)
    for stop_after in range(1, 16):
        model, data, validation, spec = started(section)
        calls = iter(range(1, 1000))
        file = tmp_path / "last.safetensors"
        one(
            model, data, validation, section.training, seed=section.seed,
            stop=lambda calls=calls, stop_after=stop_after: next(calls) >= stop_after,
            save=lambda state, spec=spec, file=file: save_state(file, state, section, spec),
        )  # fmt: skip
        model, data, validation, _ = started(section.model_copy(update={"seed": 99}))
        assert read_training(file).config == section
        state = load_state(file, model)
        assert state.epoch * 4 + state.step == stop_after
        run = one(model, data, validation, section.training, seed=section.seed, state=state)
        assert run.is_finished
        assert run.state is not None
        state = run.state
        assert same(weights(state), weights(whole))
        assert same(state.best_weights, whole.best_weights)
        losses = [[record.train_loss, record.validation_loss] for record in state.history]
        assert losses == [[r.train_loss, r.validation_loss] for r in whole.history]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    section = config(epochs=1)
    state = trained(section)
    file = tmp_path / "best.safetensors"
    save_best(file, state, section, XY)
    return file


def test_a_model_comes_back_as_it_was(checkpoint: Path) -> None:
    state = trained(config(epochs=1))
    read = load_model(checkpoint)
    assert same(read.model.state_dict(), state.best_weights)
    assert read.spec.as_plain() == XY.as_plain()
    assert read.epoch == 1
    assert read.config == config(epochs=1)


def test_a_checkpoint_names_no_path_import_or_class(checkpoint: Path) -> None:
    header = checkpoint.read_bytes()[:6000].decode("latin1")
    for word in ("/", "seqattn.", "torch.", "class", "import", "object"):
        assert word not in header.split('"encoder')[0].replace("\\/", "")


def refuse(file: Path, words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_model(file)
    assert words in str(caught.value)


def test_a_strangers_safetensors_is_refused(checkpoint: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, checkpoint)
    refuse(checkpoint, "not one that seqattn wrote")
    save_file({"weight": torch.zeros(2)}, checkpoint, {"seqattn": '{"version": 99}'})
    refuse(
        checkpoint,
        "has format version 99; this seqattn reads version 3 only",
    )
    save_file({"weight": torch.zeros(2)}, checkpoint, {"seqattn": "{"})
    refuse(checkpoint, "its header is not JSON")


def rewritten(file: Path, change: dict[str, Tensor | None], **metadata: Any) -> None:
    """A checkpoint with something else in it, and a checksum that says it is whole."""
    described, tensors = load_checksummed(file, VERSION)
    tensors |= {key: tensor.numpy() for key, tensor in change.items() if tensor is not None}
    kept = {key: tensor for key, tensor in tensors.items() if change.get(key, tensor) is not None}
    save_checksummed(file, kept, described | metadata)


def test_numbers_that_are_not_finite_are_refused(checkpoint: Path) -> None:
    rewritten(checkpoint, {"output.bias": torch.tensor([0.0, math.nan])})
    refuse(checkpoint, "output.bias contains numbers that are not finite")


def test_a_changed_tensor_is_refused(checkpoint: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(checkpoint, "pt") as opened:
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
        described = opened.metadata()
    tensors["output.bias"] = tensors["output.bias"].flip(0)
    save_file(tensors, checkpoint, described)
    refuse(checkpoint, "checksum mismatch")


def test_other_shapes_are_refused_by_name(checkpoint: Path) -> None:
    rewritten(checkpoint, {"output.bias": torch.zeros(3)})
    refuse(checkpoint, "output.bias is (3,) float32, but the config requires (2,) float32")


def test_other_types_names_and_configs_are_refused(checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    rewritten(checkpoint, {"output.bias": torch.zeros(2, dtype=torch.float64)})
    refuse(checkpoint, "output.bias is (2,) float64")
    checkpoint.write_bytes(content)
    rewritten(checkpoint, {"output.bias": None, "other": torch.zeros(1)})
    refuse(checkpoint, "it lacks output.bias and has other, which the model does not have")
    checkpoint.write_bytes(content)
    rewritten(checkpoint, {}, config={"model": {"hidden_dim": -3}})
    refuse(checkpoint, "model.hidden_dim: must be at least 1, got -3")
    checkpoint.write_bytes(content)
    rewritten(checkpoint, {}, layout={"features": 3})
    refuse(checkpoint, "do not describe the training data")


@pytest.mark.parametrize("key", ["kind", "config", "epoch", "layout", "version"])
def test_metadata_with_a_key_missing_is_refused(checkpoint: Path, key: str) -> None:
    rewritten(checkpoint, {}, **{key: None})
    with pytest.raises(CheckpointError):
        load_model(checkpoint)


@pytest.mark.parametrize(
    "change", [{"best_epoch": 9}, {"epoch": 7}, {"step": "x"}, {"loss_sum": None}, {"step": -1}]
)
def test_a_state_that_is_not_whole_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    file = tmp_path / "last.safetensors"
    save_state(file, trained(config(epochs=2)), config(epochs=2), XY)
    rewritten(file, {}, **change)
    model, *_ = started(config())
    with pytest.raises(CheckpointError, match="its training state is incomplete"):
        load_state(file, model)


def test_a_state_without_the_optimizers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "last.safetensors"
    save_state(file, trained(config(epochs=2)), config(epochs=2), XY)
    rewritten(file, {"optimizer.output.bias.exp_avg": None})
    model, *_ = started(config())
    with pytest.raises(CheckpointError, match="of output.bias it has exp_avg_sq, step, but adam"):
        load_state(file, model)


def test_a_model_cannot_be_resumed(checkpoint: Path) -> None:
    model, *_ = started(config())
    with pytest.raises(CheckpointError, match="contains a model without a training state"):
        load_state(checkpoint, model)


def test_the_history_survives_exactly(tmp_path: Path) -> None:
    state = trained(config(epochs=2))
    state.history[0] = EpochRecord(1, 0.1, 1 / 3, math.pi, 1e-300, 0.5, 2.0)
    file = tmp_path / "last.safetensors"
    save_state(file, state, config(epochs=2), XY)
    model, *_ = started(config())
    read = load_state(file, model)
    assert read.history == state.history
