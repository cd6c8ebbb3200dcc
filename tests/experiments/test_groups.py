"""Runs side by side of which some have ended, and runs that diverged."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn.analysis import doctor
from seqattn.config import resolve
from seqattn.data import DataSpec, load_data
from seqattn.errors import CheckpointError
from seqattn.experiments import Callbacks, api, groups_to_train, train_many
from seqattn.experiments.ray_cluster import _write_run_folders
from seqattn.models import FeatureSpec, build_model
from seqattn.plots import run_pictures
from seqattn.report.content import run_content
from seqattn.runs import RunFolder
from seqattn.runs.storage.atomic import _PendingFile
from seqattn.training import RunProgress, TrainingRun, to_tensors
from seqattn.training.learner import EpochPlan, Learner, build_group
from seqattn.training.loop import train_step
from seqattn.training.state import Slot, TrainState
from tests.faults.groups import SETUPS, Killed, Runs
from tests.faults.groups import train as trained

SIZES = ["data.n_train=12", "data.n_validation=7", "data.n_test=5", "model.hidden_dim=3",
         "training.batch_size=5", "training.epochs=3"]  # fmt: skip


def run_of(seed: int, *sets: str) -> TrainingRun:
    config = resolve(None, [*SIZES, *sets]).config
    data = load_data(config.data)
    model = build_model(config.model, FeatureSpec.of(DataSpec.of(data.train)), seed)
    parts = to_tensors(data.train), to_tensors(data.validation)
    return TrainingRun(model, *parts, config.training, seed, group_id="g")


def group_of(runs: Sequence[TrainingRun]) -> tuple[TrainState, Learner]:
    return build_group([RunProgress(run) for run in runs])


def with_rates(learner: Learner, rates: Sequence[float]) -> None:
    """Give each row a learning rate of its own."""
    for run, rate in zip(learner.rate_schedules, rates, strict=True):
        run.config = run.config.model_copy(update={"learning_rate": rate})


def kernels_of(state: TrainState, plan: EpochPlan) -> tuple[Any, ...]:
    """All that a row could tell the others by, without what only its own numbers depend on."""
    masks = [mask.tolist() for mask in plan.teacher_forcing]
    return (plan.learning_rates, masks, len(state.progress))


@pytest.mark.parametrize("more", [[], ["training.teacher_forcing.coin=element"]])
def test_rows_that_have_ended_decide_nothing(more: list[str]) -> None:
    """They are not told from rows that nobody ever had."""
    half = ["training.teacher_forcing.probability=0.5", *more]
    runs = [run_of(seed, *half) for seed in range(5)]
    state, learner = group_of(runs)
    state.progress[0].ending = state.progress[3].ending = "all epochs"
    with_rates(learner, [9.0, 0.1, 0.1, 0.7, 0.1])
    plan = learner.plan_epoch(state)
    assert plan.learning_rates == [0.1] * 5
    left = [
        RunProgress(runs[k], replace(state.get_run_state(k), slot=Slot("g", k, 5)))
        for k in (1, 2, 4)
    ]
    again, relearner = build_group(left)
    with_rates(relearner, [0.0, 0.1, 0.1, 0.0, 0.1])
    assert again.active_rows == state.active_rows == [1, 2, 4]
    assert kernels_of(again, relearner.plan_epoch(again)) == kernels_of(state, plan)


def test_what_an_ended_row_holds_reaches_no_other() -> None:
    ends = []
    for number in (0.0, math.nan, math.inf):
        state, learner = group_of([run_of(seed, "training.clip_norm=1") for seed in range(3)])
        weights = state.params.weights
        weights[1].mul_(number).add_(number)
        state.progress[1].ending = "all epochs"
        with_rates(learner, [0.01, 0.5, 0.01])
        plan = learner.plan_epoch(state)
        for _ in range(3):
            train_step(state, learner, plan)
        ends.append(weights[[0, 2]].clone())
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


# --- runs that diverged ---------------------------------------------------------------------------


def epochs_of(runs: Runs, **more: Any) -> tuple[list[int], list[str], list[Any]]:
    epochs, messages = list[int](), list[str]()
    callbacks = Callbacks(
        epoch=lambda _, record: epochs.append(record.epoch), message=messages.append
    )
    return epochs, messages, train_many(runs, threads=1, resume=True, callbacks=callbacks, **more)


def test_a_run_that_diverged_says_so_and_is_not_trained_again(tmp_path: Path) -> None:
    runs = SETUPS["diverging"](tmp_path)
    first = train_many(runs, threads=1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    epochs, messages, jobs = epochs_of(runs)
    assert epochs == []
    assert "2 of 5 runs diverged in an earlier call and are not trained again." in messages
    assert [job.error is None for job in jobs] == [True, False, True, False, True]
    assert {path: path.read_bytes() for path in before} == before
    folder = runs[1][1]
    found = folder.read_summary()
    assert found["diverged"] == str(first[1].error)
    assert found["test_loss"] is None
    error = first[1].error
    assert error is not None
    assert found["diverged_at"] == {"epoch": error.epoch, "step": error.step}
    assert f"in epoch {error.epoch}, step {error.step}," in found["diverged"]
    assert found["epochs"] == len(folder.read_metrics()) == 2
    assert {"name", "seed", "best_epoch", "parameters", "model", "seconds", "data"} <= found.keys()
    assert folder.divergence() == found["diverged"]
    with pytest.raises(CheckpointError, match="diverged, so it has no results. The "):
        list(run_pictures.draw_run(folder))
    assert doctor.sibling_losses(folder) == [math.inf]
    page = run_content(folder, examine=False)
    assert page["summary"] is None
    assert any(line.startswith("The training diverged, so") for line in page["notices"])
    opened = api.load(folder.path)
    assert opened.summary["test_loss"] is None
    for draw in (opened.plot_loss, opened.plot_predictions):
        with pytest.raises(CheckpointError, match="diverged, so it has no results"):
            draw()


def test_a_test_loss_that_is_not_finite_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqattn.experiments import run_folders

    scored = run_folders.evaluate

    def nothing(*args: Any, **more: Any) -> Any:
        return replace(scored(*args, **more), loss=math.nan)

    monkeypatch.setattr(run_folders, "evaluate", nothing)
    runs = [(resolve(None, SIZES).config, RunFolder(tmp_path / "one"))]
    (job,) = train_many(runs, threads=1)
    assert job.error is not None
    assert runs[0][1].read_summary()["diverged_at"] is None
    epochs, _, (again,) = epochs_of(runs)
    assert epochs == []
    assert str(job.error) in str(again.error)


# --- groups of a cluster --------------------------------------------------------------------------


def test_a_group_that_came_back_in_part_begins_again_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained on another machine, and was written down up to the n-th file."""
    away, here = (SETUPS["diverging"](tmp_path / name) for name in ("away", "here"))
    trained(away)
    files = [
        {str(path.relative_to(folder.path)): path.read_bytes()
         for path in folder.path.rglob("*") if path.is_file() and path.name[0] != "."}
        for _, folder in away
    ]  # fmt: skip
    came = list(zip((folder for _, folder in here), files, strict=True))
    show, shown, last = _PendingFile.commit, 0, 0

    def dying(written: _PendingFile) -> None:
        nonlocal shown
        shown += 1
        if shown == last:
            raise Killed
        show(written)

    monkeypatch.setattr(_PendingFile, "commit", dying)
    count = sum(map(len, files))
    for last in (9, 25, count - 8, count - 4, count - 3, count):
        shown = 0
        with pytest.raises(Killed):
            _write_run_folders(came, Callbacks())
        sizes = [len(group) for group in groups_to_train(here)]
        # Once the first of them has results, all that is missing is known from the checkpoints.
        assert sizes == ([5] if last <= count - 3 else []), last
    last = 0
    _write_run_folders(came, Callbacks())
    assert groups_to_train(here) == []
    assert [json.loads(each["summary.json"])["test_loss"] is None for each in files] == [
        folder.divergence() is not None for _, folder in here
    ]
