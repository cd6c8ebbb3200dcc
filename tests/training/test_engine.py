"""The training engine: passes derived by hand against autograd, and many runs against each alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqattn import experiments
from seqattn.config import Config, Recurrent, all_keys, resolve
from seqattn.data import load_data
from seqattn.errors import ConfigError, UsageError
from seqattn.experiments import group_training, prepare
from seqattn.models import RecurrentModel, build_model, manual_readout
from seqattn.models import layers as layers_module
from seqattn.models.attention import normalizers
from seqattn.models.manual_backward import (
    ForwardBackward,
    ManualLoss,
    prefers_runs_innermost,
    supports,
)
from seqattn.models.modality import FeatureSpec
from seqattn.runs import RunFolder
from seqattn.training import (
    Batch,
    RunProgress,
    RunState,
    TrainingRun,
    acceleration,
    to_tensors,
    train_models,
)
from seqattn.training import objective as objective_module
from seqattn.training import threads as threads_module
from seqattn.training.acceleration import StepCompiler
from seqattn.training.learner import StepRNG, build_group
from seqattn.training.objective import AutogradLoss, ManualBackwardLoss, build_loss
from seqattn.training.state import StackedParams
from seqattn.training.threads import find_fastest_threads, restore_thread_count
from tests import training_session
from tests.conftest import F, H, K, N, S, T
from tests.training_session import trained

RUNS = 3

SCALED = {"score": "scaled_dot"}
COVERED: dict[str, dict[str, Any]] = {
    "plain": {"attention": None},
    "uniform": {"attention": {"score": "uniform"}},
    "dot": {"attention": {"score": "dot"}},
    "dot, values": {"attention": {"score": "dot", "project_values": True}},
    "scaled": {"attention": {"score": "scaled_dot", "project_query_key": False}},
    "projected": {"attention": SCALED},
    "narrow": {"attention": {"score": "scaled_dot", "key_dim": K, "project_values": True}},
    "general": {"attention": {"score": "general"}},
    "uniform heads": {"hidden_dim": 4, "attention": {"score": "uniform", "heads": 2}},
    "dot heads": {"hidden_dim": 4, "attention": {"score": "dot", "heads": 2}},
    "scaled heads": {
        "hidden_dim": 4,
        "attention": {"score": "scaled_dot", "project_query_key": False, "heads": 4},
    },
    "projected heads": {
        "hidden_dim": 4,
        "attention": {"score": "scaled_dot", "key_dim": 6, "project_values": True, "heads": 2},
    },
    "general heads": {
        "hidden_dim": 4,
        "attention": {"score": "general", "project_values": True, "heads": 2},
    },
    "lstm heads": {
        "hidden_dim": 4,
        "cell": "lstm",
        "attention": {"score": "scaled_dot", "heads": 2},
    },
    "additive": {"attention": {"score": "additive"}},
    "narrow, additive": {"attention": {"score": "additive", "key_dim": 3, "project_values": True}},
    "lstm": {"cell": "lstm", "attention": SCALED},
    "lstm, additive": {"cell": "lstm", "attention": {"score": "additive"}},
    "lstm, plain": {"cell": "lstm", "attention": None},
    "rnn": {"cell": "rnn", "attention": SCALED},
    "rnn, plain": {"cell": "rnn", "attention": None},
}

mse_loss = FeatureSpec.same(2).modalities()[1].loss


def every_model() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every score with every context, and no attention: from the config's own list of scores."""
    scores = {tag for path, _, tag in all_keys() if path == ("model", "attention", "score")}
    assert len(scores) >= 5
    for score in sorted(scores):
        for context in ("output", "input"):
            attention = {"score": score, "project_values": score == "general"}
            yield f"{score}, {context}", {"attention": attention, "context": context}
    yield "general, readout tanh", {"attention": {"score": "general"}, "readout": "tanh"}
    yield "plain", {"attention": None}


MODELS = dict(every_model())


def side_by_side(config: dict[str, Any], runs: int, features: int = F) -> StackedParams:
    models = [
        build_model(Recurrent.model_validate(config), features, k).double()
        for k in range(max(runs, 1))
    ]
    return StackedParams(models)


def batch_of(lead: tuple[int, ...], ragged: bool, seed: int = 0) -> tuple[Tensor, Tensor, Any, Any]:
    numbers = torch.Generator().manual_seed(seed)
    source = torch.randn(*lead, N, S, F, generator=numbers, dtype=torch.float64)
    target = torch.randn(*lead, N, T, F, generator=numbers, dtype=torch.float64)
    if not ragged:
        return source, target, None, None
    lengths = torch.randint(1, S + 1, (*lead, N), generator=numbers)
    targets = torch.randint(1, T + 1, (*lead, N, 1), generator=numbers)
    keep = torch.arange(T) < targets
    source[torch.arange(S) >= lengths.unsqueeze(-1)] = math.nan  # what nobody may read
    return source, target.masked_fill(~keep.unsqueeze(-1), 1e6), lengths, keep


def random_forcing(coin: str, lead: tuple[int, ...]) -> Tensor:
    numbers = torch.Generator().manual_seed(len(coin))
    shape = {"step": (1, T), "sequence": (N, 1), "element": (N, T)}.get(coin)
    if shape is None:
        return torch.full((T,), coin == "always")
    return torch.rand(*lead, *shape, generator=numbers) < 0.5


@pytest.mark.parametrize("coin", ["step", "sequence", "element", "always", "never"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("runs", [0, 1, RUNS])
@pytest.mark.parametrize("attention", list(COVERED))
def test_derived_gradients_are_autograds(
    attention: str, runs: int, ragged: bool, coin: str
) -> None:
    """Losses and the gradient of every parameter, twice: the second time from the operations that
    the first one recorded, and into memory that held something else."""
    lead = (runs,) if runs > 1 else ()
    config = {"hidden_dim": H} | COVERED[attention]
    stack = side_by_side(config, runs)
    model = stack.model
    assert isinstance(model, RecurrentModel)
    assert supports(model)
    derived = ManualLoss(model, stack.gradient)
    parameters = dict(model.named_parameters())
    for repeat in range(2):
        source, target, lengths, keep = batch_of(lead, ragged, repeat)
        forcing = random_forcing(coin, lead)
        plain = model(source, target, source_lengths=lengths, teacher_forcing=forcing)
        expected = mse_loss(plain.values, target, keep)
        stack.gradient.fill_(math.nan)
        found = derived.value_and_grad(
            source, target, source_lengths=lengths, target_keep=keep, teacher_forcing=forcing
        )
        torch.testing.assert_close(found, expected.detach(), atol=1e-10, rtol=1e-12)
        slopes = stack.as_named(stack.gradient)
        expected_grads = torch.autograd.grad(
            expected.sum(), [*parameters.values()], allow_unused=True
        )
        for (name, parameter), other in zip(parameters.items(), expected_grads, strict=True):
            scale = 1e-10 * max(1.0, float(expected.detach().max()))
            torch.testing.assert_close(
                slopes[name], torch.zeros_like(parameter) if other is None else other,
                atol=scale, rtol=0, msg=lambda text, name=name: f"{name}: {text}",
            )  # fmt: skip


@pytest.mark.parametrize("coin", ["step", "element", "always", "never"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_an_additive_score_in_blocks_of_few_steps(
    steps: int, ragged: bool, coin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = set[int]()

    def checked(self: ForwardBackward, plan: Any) -> None:
        blocks.add(self.readout.block)
        backward(self, plan)

    backward = ForwardBackward.backward
    monkeypatch.setattr(manual_readout, "MAX_BLOCK_SIZE", steps * RUNS * N * S * H)
    monkeypatch.setattr(ForwardBackward, "backward", checked)
    test_derived_gradients_are_autograds("additive", RUNS, ragged, coin)
    assert blocks == {steps} and steps < T


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("coin", ["step", "element"])
@pytest.mark.parametrize("attention", list(COVERED))
def test_runs_innermost_are_the_same(attention: str, ragged: bool, coin: str) -> None:
    config = Recurrent.model_validate({"hidden_dim": 2} | COVERED[attention])
    models = [build_model(config, F, k).double() for k in range(9)]
    assert prefers_runs_innermost(models[0], 9)
    stack, objective = build_loss([copy.deepcopy(model) for model in models])
    assert stack.runs_innermost
    assert isinstance(objective, ManualBackwardLoss)
    source, target, lengths, keep = batch_of((9,), ragged)
    forcing = random_forcing(coin, (9,))
    objective.value_and_grad(Batch(source, target, lengths, keep), forcing)
    for k, model in enumerate(models):
        of_run = [None if x is None else x[k] for x in (source, target, lengths, keep, forcing)]
        output = model(of_run[0], of_run[1], source_lengths=of_run[2], teacher_forcing=of_run[4])
        mse_loss(output.values, of_run[1], of_run[3]).backward()
        found = stack.get_row(stack.gradient, k)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-10, rtol=1e-9)


NARROW_ONES: dict[str, dict[str, Any]] = {
    **MODELS,
    "lstm": {"cell": "lstm"},
    "rnn, two ways, two layers": {"cell": "rnn", "bidirectional": True, "layers": 2},
    "heads, input feeding": {"input_feeding": True, "attention": {"heads": 5}},
    "sparsemax, location_shift": {
        "attention": {"normalizer": "sparsemax", "location": {"kind": "location_shift"}}
    },
    "monotonic": {"attention": {"location": {"kind": "monotonic", "offset": 0.5}}},
}


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", NARROW_ONES)
def test_sequences_innermost_are_the_same(
    name: str, ragged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many narrow runs have another order in memory than wide ones: in both the same numbers."""
    config = config_of(NARROW_ONES[name], {}, ragged, 1)
    source, target, lengths, keep = batch_of((RUNS,), ragged)
    source, target = source[..., :4, :2], target[..., :3, :2]  # short, as some ways ask for
    if ragged:
        lengths, keep = lengths.clamp(max=4), keep[..., :3]
    batch = Batch(source, target, lengths, keep)
    monkeypatch.setattr(normalizers, "MIN_FAST_SCORES", 1)
    losses, slopes, inner = list[Tensor](), list[Tensor](), list[bool]()
    for narrow in (0, H):
        monkeypatch.setattr(layers_module, "MAX_INNERMOST_WIDTH", narrow)
        models = [build_model(config.model, 2, seed).double() for seed in range(RUNS)]
        stack, objective = build_loss(models, manual_backward=False)
        assert isinstance(stack.model, RecurrentModel)
        inner.append(
            layers_module.is_batch_innermost(stack.model.encode(source, lengths).state.cells[0])
        )
        found, gradients = [*objective.eval_losses(batch)], list[Tensor]()
        for coins in (random_forcing("element", (RUNS,))[..., :3], torch.ones(3, dtype=torch.bool)):
            found.append(objective.value_and_grad(batch, coins))
            gradients.append(stack.gradient.clone())
        losses.append(torch.stack(found))
        slopes.append(torch.stack(gradients))
    assert inner == [False, not ragged and name != "rnn, two ways, two layers"]
    torch.testing.assert_close(*losses, atol=1e-12, rtol=0)
    torch.testing.assert_close(*slopes, atol=1e-12, rtol=0)
    assert slopes[0].abs().amax() > 1e-3


def test_validation_is_the_plain_models() -> None:
    for lead, ragged in (((), False), ((), True), ((RUNS,), True)):
        stack = side_by_side({"hidden_dim": H}, RUNS if lead else 1)
        source, target, lengths, keep = batch_of(lead, ragged)
        derived = ManualLoss(stack.model, stack.gradient)  # type: ignore[arg-type]
        free, forced = derived.eval_losses(source, target, source_lengths=lengths, target_keep=keep)
        alone = stack.model.forecast(source, T, source_lengths=lengths).values
        output = stack.model(
            source, target, source_lengths=lengths, teacher_forcing=torch.ones(T, dtype=torch.bool)
        ).values
        torch.testing.assert_close(free, mse_loss(alone, target, keep))
        torch.testing.assert_close(forced, mse_loss(output, target, keep))


def test_what_is_not_covered_goes_to_autograd() -> None:
    heads = {"hidden_dim": 4, "attention": {"score": "additive", "heads": 2}}
    _, objective = build_loss([build_model(Recurrent.model_validate(heads), F, 1)])
    assert isinstance(objective, AutogradLoss)
    for name, section in MODELS.items():
        model = build_model(Recurrent.model_validate({"hidden_dim": H, **section}), F, 1)
        score, *place = name.split(", ")
        is_manual = name == "plain" or (
            score not in ("cosine", "coverage", "linear") and place == ["output"]
        )
        _, objective = build_loss([model])
        assert isinstance(objective, ManualBackwardLoss if is_manual else AutogradLoss), name


def test_very_many_pairs_go_to_autograd() -> None:
    """Where scores fill the memory, three numbers for each pair are two too many."""
    model = build_model(Recurrent.model_validate({"hidden_dim": H}), F, 1)
    _, objective = build_loss([model], pairs=2**26)
    assert isinstance(objective, AutogradLoss)


@pytest.mark.parametrize(
    ("heads", "steps", "pairs", "is_manual"),
    [
        (1, 2**20, 2**25, True), (4, 512, 2**10, True), (4, 1024, 2**10, False),
        (8, 512, 2**10, False), (4, 512, 2**23, True), (4, 512, 2**24, False),
    ],
)  # fmt: skip
def test_many_scores_of_several_heads_go_to_autograd(
    heads: int, steps: int, pairs: int, is_manual: bool
) -> None:
    """A score of a head takes as many multiplications as that of a model with one head."""
    config = Recurrent.model_validate({"hidden_dim": 16, "attention": {"heads": heads}})
    _, objective = build_loss([build_model(config, F, 1)], source_steps=steps, pairs=pairs)
    assert isinstance(objective, ManualBackwardLoss if is_manual else AutogradLoss)


# --- many runs are each of them alone -----------------------------------------------------------


def config_of(model: dict[str, Any], training: dict[str, Any], ragged: bool, seed: int) -> Config:
    return Config.model_validate(
        {
            "seed": seed,
            "data": {"n_train": 43, "n_validation": 19, "n_test": 7, "variable_length": ragged},
            "model": {"hidden_dim": H, **model},
            "training": {"epochs": 6, "batch_size": 11, **training},
        }
    )


def run_of(config: Config, dtype: torch.dtype) -> TrainingRun:
    data = load_data(config.data)
    model = build_model(config.model, 2, config.seed).to(dtype)
    return TrainingRun(
        model, to_tensors(data.train, dtype=dtype), to_tensors(data.validation, dtype=dtype),
        config.training, config.seed,
    )  # fmt: skip


def losses_of(run: RunProgress) -> Tensor:
    rows = [
        [r.train_loss, r.validation_loss, r.validation_loss_teacher_forced] for r in run.history
    ]
    return torch.tensor(rows, dtype=torch.float64)


def check_alone(configs: list[Config], *, manual_backward: bool = True,
                dtype: torch.dtype = torch.float64,
                tolerance: float = 1e-9) -> list[RunProgress]:  # fmt: skip
    together = train_models(
        [run_of(config, dtype) for config in configs], manual_backward=manual_backward
    )
    for config, run in zip(configs, together, strict=True):
        (alone,) = train_models([run_of(config, dtype)], manual_backward=manual_backward)
        assert (run.is_finished, run.ending, run.best_epoch) == (
            alone.is_finished, alone.ending, alone.best_epoch
        )  # fmt: skip
        torch.testing.assert_close(losses_of(run), losses_of(alone), atol=tolerance, rtol=0)
        assert run.state is not None
        assert alone.state is not None
        for name, weight in alone.state.best_weights.items():
            torch.testing.assert_close(run.state.best_weights[name], weight,
                                       atol=100 * tolerance, rtol=0)  # fmt: skip
    return together


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
def test_run_k_of_many_is_the_run_alone(model: str, ragged: bool) -> None:
    """In float64 to 1e-9 in every epoch's losses; the last batch has 10 of 11 sequences."""
    configs = [config_of(MODELS[model], {"epochs": 3}, ragged, seed) for seed in range(RUNS)]
    runs = check_alone(configs)
    assert not torch.equal(losses_of(runs[0]), losses_of(runs[1]))


@pytest.mark.parametrize("coin", ["step", "sequence", "element"])
@pytest.mark.parametrize("is_manual", [True, False])
def test_each_run_keeps_its_coins(coin: str, is_manual: bool) -> None:
    forcing = {"teacher_forcing": {"coin": coin}}
    check_alone(
        [config_of({}, forcing, True, seed) for seed in range(RUNS)], manual_backward=is_manual
    )


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_each_run_keeps_its_clipping_rate_and_early_stop(optimizer: str) -> None:
    """Runs that stop at different epochs, on rates of their own, and a group that shrinks."""
    training = {
        "epochs": 40, "optimizer": optimizer, "momentum": 0.9 if optimizer == "sgd" else 0.0,
        "clip_norm": 0.05, "learning_rate_schedule": {"kind": "plateau", "patience": 1},
        "early_stopping": {"patience": 3, "min_delta": 0.01},
        "learning_rate": 0.3 if optimizer == "sgd" else 0.01,
    }  # fmt: skip
    runs = check_alone([config_of({}, training, False, seed) for seed in range(7)])
    assert len({len(run.history) for run in runs}) > 2
    assert any(run.ending == "early stopping" for run in runs)


def test_runs_may_differ_in_what_is_not_their_shape() -> None:
    configs = [
        config_of({}, {"learning_rate": 0.003 * (1 + seed), "epochs": 5 + seed,
                       "teacher_forcing": {"probability": seed / 3}}, True, seed)
        for seed in range(RUNS)
    ]  # fmt: skip
    configs[1] = configs[1].model_copy(
        update={"data": configs[1].data.model_copy(update={"noise": 0.3})}
    )
    runs = check_alone(configs)
    assert [len(run.history) for run in runs] == [5, 6, 7]


@pytest.mark.parametrize("hidden", [2, 5])
def test_in_float32_ten_epochs_agree_to_1e_4(hidden: int) -> None:
    configs = [config_of({"hidden_dim": hidden}, {"epochs": 10}, False, seed) for seed in range(9)]
    check_alone(configs, dtype=torch.float32, tolerance=1e-4)


def test_by_hand_and_autograd_train_to_the_same_losses() -> None:
    for ragged in (False, True):
        config = config_of({}, {}, ragged, 1)
        runs = [
            train_models([run_of(config, torch.float64)], manual_backward=is_manual)[0]
            for is_manual in (True, False)
        ]
        torch.testing.assert_close(losses_of(runs[0]), losses_of(runs[1]), atol=1e-9, rtol=0)


@pytest.mark.parametrize("why", ["target", "rate"])
def test_a_run_that_diverges_ends_alone(why: str) -> None:
    """Its loss is named with epoch and step, no update was made with it, the others go on."""
    configs = [config_of({}, {"epochs": 3}, False, seed) for seed in range(RUNS)]
    runs = [run_of(config, torch.float64) for config in configs]
    saved: list[Any] = []
    if why == "target":
        target = runs[1].train.target.clone()
        target[17] = math.inf
        runs[1] = replace(runs[1], train=Batch(runs[1].train.source, target))
    else:
        steep = {"learning_rate": 1e300, "optimizer": "adam"}
        runs[1] = replace(runs[1], config=runs[1].config.model_copy(update=steep))
    found = trained(runs, save=lambda state: saved.append(state) if is_second(state) else None)
    broken = found[1]
    assert broken.error is not None
    assert "in epoch 1, step" in str(broken.error)
    assert all(tensor.isfinite().all() for tensor in saved[-1].weights.values())
    for k in (0, 2):
        (alone,) = train_models([run_of(configs[k], torch.float64)])
        torch.testing.assert_close(losses_of(found[k]), losses_of(alone), atol=1e-9, rtol=0)


def is_second(state: RunState) -> bool:
    return state.slot is not None and state.slot.row == 1


def test_together_only_from_one_position() -> None:
    runs = [run_of(config_of({}, {"epochs": 2}, False, seed), torch.float64) for seed in range(2)]
    (ended,) = train_models(runs[:1])
    assert ended.state is not None
    with pytest.raises(ValueError, match="same epoch and step"):
        train_models(runs, states={runs[0]: ended.state})


def stopped_and_resumed(configs: list[Config], stop_after: int) -> list[RunProgress]:
    """Stop after so many steps, and train new models from there to the end."""
    calls = iter(range(1, 100))
    halves = trained(
        [run_of(config, torch.float64) for config in configs],
        stop=lambda: next(calls) >= stop_after,
    )
    assert not any(run.ending for run in halves)
    rest = [run_of(config, torch.float64) for config in configs]
    states = {run: half.state for run, half in zip(rest, halves, strict=True)}
    assert None not in states.values()
    return train_models(rest, states=states)  # type: ignore[arg-type]


def test_a_group_resumes_where_it_stopped() -> None:
    configs = [config_of({}, {"epochs": 3}, True, seed) for seed in range(RUNS)]
    whole = train_models([run_of(config, torch.float64) for config in configs])
    for stop_after in (1, 4, 6):
        rest = stopped_and_resumed(configs, stop_after)
        for run, other in zip(rest, whole, strict=True):
            assert run.is_finished
            torch.testing.assert_close(losses_of(run), losses_of(other), atol=1e-12, rtol=0)


# --- chance ---------------------------------------------------------------------------------------

DRAWING = {
    "dropout": 0.3,
    "attention": {"normalizer": "hard", "estimator": "reinforce"},
    "hidden_dim": 4,
}


def test_a_save_that_is_due_at_an_epochs_end_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One save an epoch is one save, with the epoch's validation in it."""
    run = run_of(config_of({}, {"epochs": 3, "checkpoint_seconds": 1}, False, 1), torch.float32)
    steps = math.ceil(len(run.train) / run.config.batch_size)
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    monkeypatch.setattr(training_session.time, "monotonic", lambda: taken / steps)
    saved = list[tuple[int, int]]()
    trained([run], stop=step, save=lambda state: saved.append((state.epoch, state.step)))
    assert saved == [(1, 0), (2, 0), (3, 0)]


def test_a_group_of_which_some_stopped_early_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the last epoch and before the results: nothing is trained again."""
    training = {"epochs": 30, "learning_rate": 0.01,
                "early_stopping": {"patience": 1, "min_delta": 0.02}}  # fmt: skip
    configs = experiments.seeds_of(config_of({}, training, False, 1), tmp_path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(group_training, "write_results", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            experiments.train_many(configs, threads=1)
    before = [folder.last.read_bytes() for _, folder in configs]
    jobs = experiments.train_many(configs, threads=1, resume=True)
    assert not [line for job in jobs for line in job.skipped_checkpoints]
    assert len({job.position for job in jobs}) > 1, "the case is not what it should be"
    assert [folder.last.read_bytes() for _, folder in configs] == before
    assert all(job.summary for job in jobs)


def test_a_resume_may_change_what_teaches_nothing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key of every kind of config, changed alone."""

    def is_refused(before: Config, now: Config) -> bool:
        try:
            prepare.check_resumable(RunFolder(tmp_path), before, now, 0)
        except ConfigError:
            return True
        return False

    config = resolve(None, []).config
    for text in ("training.learning_rate=0.02", "training.batch_size=8", "data.noise=0.2",
                 "model.hidden_dim=4", "training.teacher_forcing.probability=0.7", "seed=5"):  # fmt: skip
        assert is_refused(config, resolve(None, [text]).config), text
    assert not is_refused(config, resolve(None, ["training.checkpoint_seconds=1"]).config)
    keys = {".".join(path) for path, _, _ in all_keys()}
    assert len(keys) > 80
    taken = set[str]()
    for key in keys:
        monkeypatch.setattr(prepare, "config_differences", lambda *_, key=key: {key: (1, 2)})
        if not is_refused(config, config):
            taken.add(key)
    assert taken == {
        "name", "plugins", "data.path", "data.validation_path", "data.test_path", "data.units",
        "training.epochs",
        "training.checkpoint_seconds", "training.record_attention", "logging.tensorboard",
        "logging.mlflow", "logging.mlflow_uri", "logging.wandb", "logging.wandb_mode",
        "logging.wandb_project",
    }  # fmt: skip


def test_draws_are_a_function_of_where_they_are_made() -> None:
    """Every seed, epoch, step, name and call has numbers of its own, and has them again."""
    like = torch.zeros(1, dtype=torch.float64)

    def drawn() -> list[Tensor]:
        found = []
        for seed, epoch, step in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1023, 7)]:
            draws = StepRNG([seed], epoch, step, like)
            found += [draws.uniform(name, 5) for name in ("sampling", "dropout", "dropout")]  # type: ignore[arg-type]
        return found

    first, again = drawn(), drawn()
    assert all(map(torch.equal, first, again))
    assert len({tuple(numbers.tolist()) for numbers in first}) == 15
    both = StepRNG([1, 2], 0, 0, like).uniform("sampling", 5)
    assert torch.equal(both, torch.stack([first[0], first[3]]))


def test_a_run_with_dropout_and_hard_choices_resumes_exactly() -> None:
    config = config_of(DRAWING, {"epochs": 3}, True, 1)
    (whole,) = train_models([run_of(config, torch.float64)])
    for stop_after in (1, 4, 6):
        (rest,) = stopped_and_resumed([config], stop_after)
        assert torch.equal(losses_of(rest), losses_of(whole))


# --- bfloat16 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_rounds_the_steps_and_nothing_else(name: str, lengths: bool) -> None:
    """Near to float32 but not it; the weights stay float32."""
    losses = {}
    for precision in ("float32", "bfloat16"):
        training = {"epochs": 2, "precision": precision}
        runs = [run_of(config_of(MODELS[name], training, lengths, seed), torch.float32)
                for seed in range(2)]  # fmt: skip
        log_lines: list[str] = []
        ended = trained(runs, log=log_lines.append)
        assert ("bfloat16" in log_lines[0]) == (precision == "bfloat16")
        assert all(p.dtype == torch.float32 for p in runs[1].model.parameters())
        losses[precision] = losses_of(ended[1])
    torch.testing.assert_close(losses["bfloat16"], losses["float32"], rtol=0.05, atol=0)
    assert not torch.equal(losses["bfloat16"], losses["float32"])


# --- compiling ------------------------------------------------------------------------------------


@pytest.fixture
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of torch.compile but the C++ compiler, which takes half a minute."""
    monkeypatch.setattr(objective_module, "BACKEND", "aot_eager")
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [{}, MODELS["additive, input"]])
def test_a_compiled_step_trains_the_same(model: dict[str, Any], quick_compiler: None) -> None:
    losses = []
    for compiling in ("off", "on"):
        run = run_of(config_of(model, {"epochs": 2, "compile": compiling}, True, 1), torch.float64)
        log_lines: list[str] = []
        losses.append(losses_of(*trained([run], log=log_lines.append)))
        assert ("a step compiled" in log_lines[0]) == (compiling == "on")
    torch.testing.assert_close(*losses, atol=1e-9, rtol=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("after", "ends_as"), [(0.5, "autograd, a step compiled"), (2.0, "autograd")]
)
def test_auto_compiles_when_that_is_shorter_and_goes_back_where_it_is_slower(
    after: float, ends_as: str, quick_compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs take a second, and once compiled half of it, or two. The first compiled epoch, which
    compiles again for other shapes, is not measured."""
    after_epoch, took, ended = StepCompiler.after_epoch, iter(()), list[str]()

    def timed(compiler: StepCompiler, seconds: float, epochs_left: int, batch: Any) -> None:
        after_epoch(compiler, next(took), epochs_left, batch)
        ended.append(compiler.loss_fn.name)

    monkeypatch.setattr(StepCompiler, "after_epoch", timed)
    config = config_of(MODELS["cosine, output"], {"epochs": 4, "compile": "auto"}, False, 1)
    log_lines: list[str] = []
    took = iter([1.0, after, after, after])
    trained([run_of(config, torch.float64)], log=log_lines.append)
    assert log_lines == ["autograd"]  # a second of training is no reason to compile
    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 0.0)
    log_lines.clear()
    ended.clear()
    took = iter([1.0, after, after, after])
    trained([run_of(config, torch.float64)], log=log_lines.append)
    assert log_lines[:2] == ["autograd", "autograd, a step compiled"]
    assert log_lines[2:] == ["autograd; compilation disabled (no speed-up)"] * (after > 1)
    assert ended == [*["autograd, a step compiled"] * 2, *[ends_as] * 2]


def test_a_failed_compilation_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(objective_module, "BACKEND", broken)
    torch.compiler.reset()
    run = run_of(config_of({}, {"compile": "on"}, False, 1), torch.float64)
    with pytest.raises(UsageError, match="could not compile a step here.*set training.compile=off"):
        train_models([run])


# --- threads --------------------------------------------------------------------------------------


def test_small_work_gets_one_thread_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    run = run_of(config_of({}, {}, False, 1), torch.float32)
    weights = {k: v.clone() for k, v in run.model.state_dict().items()}
    assert find_fastest_threads([run])[0] == 1
    monkeypatch.setattr(threads_module, "core_count", lambda: 2)
    monkeypatch.setattr(threads_module, "MIN_MULTIPLICATIONS", 0)
    assert find_fastest_threads([run]) == (1, "too few steps to measure the time with more")
    monkeypatch.setattr(threads_module, "MIN_STEPS", 0)
    count, why = find_fastest_threads([run])
    assert count == 1
    assert "ms with 1" in why
    monkeypatch.setattr(threads_module, "MIN_STEP_SECONDS", 0.0)
    monkeypatch.setattr(threads_module, "MAX_TIME_RATIO", 1e9)
    assert find_fastest_threads([run])[0] == 2
    assert all(torch.equal(weights[k], v) for k, v in run.model.state_dict().items())
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [({1: 0.1, 2: 0.07, 4: 0.15}, [4, 4, 1]), ({1: 9.0, 2: 12.0}, [2, 1]), ({1: 9.0, 2: 8.0}, [2, 2])],
)  # fmt: skip
def test_the_measurement_ends_at_the_first_step_that_is_clearly_slower(
    seconds: dict[int, float], steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step with more threads can take minutes beside a busy process, and long steps need fewer
    repeats."""
    taken, clock = list[int](), [0.0]

    def step(*_: object) -> None:
        taken.append(torch.get_num_threads())
        clock[0] += seconds[taken[-1]]

    monkeypatch.setattr(threads_module, "core_count", lambda: 2 * len(seconds) - 2)
    monkeypatch.setattr(threads_module, "MIN_MULTIPLICATIONS", 0)
    monkeypatch.setattr(threads_module, "MIN_STEPS", 0)
    monkeypatch.setattr(threads_module, "train_step", step)
    monkeypatch.setattr(threads_module.time, "perf_counter", lambda: clock[0])
    run = run_of(config_of({}, {}, False, 1), torch.float32)
    with restore_thread_count():
        find_fastest_threads([run])
    assert [taken.count(threads) for threads in seconds] == steps


def test_each_run_takes_from_its_own_sequences() -> None:
    parts = [torch.arange(10.0).view(5, 1, 2) + 100 * k for k in range(RUNS)]
    places = torch.tensor([[4, 0], [1, 1], [2, 3]])
    own = Batch(torch.stack(parts), torch.stack(parts)).gather(places)
    same = Batch(*[parts[0].expand(RUNS, 5, 1, 2)] * 2).gather(places)
    for k in range(RUNS):
        assert torch.equal(own.source[k], parts[k][places[k]])
        assert torch.equal(same.target[k], parts[0][places[k]])


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_group_finds_what_is_not_finite_and_saves_the_best_of_each(number: float) -> None:
    runs = [run_of(config_of({}, {}, False, seed), torch.float32) for seed in range(RUNS)]
    state, _ = build_group([RunProgress(run) for run in runs])
    assert state.finite_rows() == [True] * RUNS
    for rows in (state.params.weights, *state.moments.values()):
        kept = rows[1, 2].clone()
        rows[1, 2] = number
        assert state.finite_rows() == [True, False, True]
        rows[1, 2] = kept
    state.best.fill_(7.0)
    state.epoch, state.progress[1].best_epoch = 2, 1
    assert all((best == 7).all() for best in state.get_run_state(1).best_weights.values())
