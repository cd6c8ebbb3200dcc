"""What a careful reader of the training code found: endings, threads, compilation, environment."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import CheckpointError, ConfigError, UsageError
from seqattn.experiments import Callbacks, group_training
from seqattn.experiments.prepare import check_same_rates
from seqattn.models import build_model
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.training import acceleration
from seqattn.training.acceleration import StepCompiler
from seqattn.training.objective import AutogradLoss
from tests.conftest import ROOT, SMALL

PATIENT = ["training.early_stopping={patience: 2, min_delta: 1000}"]
"""No loss falls by 1000, so that the third epoch completes the plateau."""


def train(folder: Path, *settings: str, **options: Any) -> tuple[experiments.Job, list[str]]:
    """Train a small run, and return its job and the messages."""
    messages = list[str]()
    config = resolve(None, [*SMALL, *settings]).config
    options = {"threads": 1, "callbacks": Callbacks(message=messages.append), **options}
    (job,) = experiments.train_many([(config, RunFolder(folder))], **options)
    return job, messages


@pytest.mark.parametrize(("epochs", "early"), [(3, False), (4, True)])
def test_message_and_summary_agree_about_early_stopping(
    epochs: int, early: bool, tmp_path: Path
) -> None:
    """A plateau that the last epoch completes stops nothing."""
    job, messages = train(tmp_path / "run", *PATIENT, f"training.epochs={epochs}")
    assert job.summary is not None
    assert (job.summary["epochs"], job.summary["stopped_early"]) == (3, early)
    assert any("arly stopping" in line for line in messages) is early


def test_the_end_at_a_plateau_is_the_same_with_more_epochs(tmp_path: Path) -> None:
    """A resume with more epochs ends where a run that had them from the beginning ends."""
    train(tmp_path / "run", *PATIENT, "training.epochs=3")
    again, messages = train(tmp_path / "run", *PATIENT, "training.epochs=9", resume=True)
    fresh, _ = train(tmp_path / "fresh", *PATIENT, "training.epochs=9")
    for each in (again, fresh):
        assert each.is_trained
        assert each.summary is not None
        assert (each.summary["epochs"], each.summary["stopped_early"]) == (3, True)
    assert any("arly stopping" in line for line in messages)


@pytest.mark.parametrize("fails", [False, True])
def test_training_restores_the_number_of_threads(fails: bool, tmp_path: Path) -> None:
    """Of the process, also after an error."""
    before = torch.get_num_threads()
    used = list[int]()

    def message(line: str) -> None:
        used.append(torch.get_num_threads())
        if fails:
            raise RuntimeError("no message")

    callbacks = Callbacks(message=message, epoch=lambda record: message(""))
    try:
        torch.set_num_threads(3)
        with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
            train(tmp_path / "run", threads=2, callbacks=callbacks)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert used[-1] == 2


def test_early_stopping_of_a_group_is_reported_at_once_with_its_run(tmp_path: Path) -> None:
    events = list[str]()
    callbacks = Callbacks(
        epoch=lambda record: events.append(f"epoch {record.epoch}"), message=events.append
    )
    runs = [
        (resolve(None, [*SMALL, *PATIENT, "training.epochs=6", f"seed={seed}"]).config,
         RunFolder(tmp_path / f"seed-{seed}"))
        for seed in (23, 24)
    ]  # fmt: skip
    patient = runs[0][0].training.model_copy(update={"early_stopping": None})
    runs[0] = (runs[0][0].model_copy(update={"training": patient}), runs[0][1])
    experiments.train_many(runs, threads=1, callbacks=callbacks)
    line = f"{runs[1][1].path}: early stopping at epoch 3."
    assert [event for event in events if "stopping" in event] == [line]
    assert events[events.index(line) - 2 :][:4] == ["epoch 3", "epoch 3", line, "epoch 4"]
    runs[1][1].summary.unlink()
    events.clear()
    experiments.train_many(runs, threads=1, callbacks=callbacks, resume=True)
    assert [event for event in events if "stopping" in event] == [line]


COMPILED = ["model.attention=null", "training.compile=on"]  # without attention: autograd


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the losses that are compiled. Nothing is compiled."""
    names = list[str]()
    monkeypatch.setattr(AutogradLoss, "compile", lambda loss_fn, batch: names.append(loss_fn.name))
    return names


def test_a_run_that_lacks_only_its_results_compiles_nothing(
    compiled: list[str], tmp_path: Path
) -> None:
    job, _ = train(tmp_path / "run", *COMPILED)
    assert compiled == ["autograd"]
    expected = job.folder.read_summary()["test_loss"]
    job.folder.summary.unlink()
    compiled.clear()
    train(tmp_path / "run", *COMPILED, resume=True)
    assert compiled == []
    assert job.folder.read_summary()["test_loss"] == expected


def test_the_advice_after_a_failed_compilation_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resume has another machine, which cannot compile."""
    with monkeypatch.context() as patch:
        patch.setattr(AutogradLoss, "compile", lambda loss_fn, batch: None)
        train(tmp_path / "run", *COMPILED)

    def broken(*inputs: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", lambda plain, backend: broken)
    settings = [*COMPILED, "training.epochs=4"]
    with pytest.raises(UsageError, match="a resume cannot change this key"):
        train(tmp_path / "run", *settings, resume=True)
    with pytest.raises(ConfigError, match="training.compile: on -> off"):
        train(tmp_path / "run", *settings, "training.compile=off", resume=True)
    with pytest.raises(UsageError, match="you can set training.compile=off instead"):
        train(tmp_path / "new", *COMPILED)
    job, _ = train(tmp_path / "new", *COMPILED, "training.compile=off", resume=True)
    assert job.summary is not None


def test_a_resume_compares_its_threads_with_those_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last start, with other threads, ended before its first save."""
    job, _ = train(tmp_path / "run", threads=1)
    more = {"resume": True, "threads": 2}
    with monkeypatch.context() as patch:
        patch.setattr(group_training, "train_models", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(tmp_path / "run", "training.epochs=4", **more)
    assert job.folder.read_environment()["threads"] == 1
    words = "Changed since the checkpoint was saved: threads 1 -> 2."
    with monkeypatch.context() as patch:
        patch.setattr(group_training, "train_models", lambda *_, **__: 1 / 0)
        messages = list[str]()
        with pytest.raises(ZeroDivisionError):
            train(tmp_path / "run", "training.epochs=4", **more,
                  callbacks=Callbacks(message=messages.append))  # fmt: skip
    assert [line[: len(words)] for line in messages][:1] == [words]
    _, messages = train(tmp_path / "run", "training.epochs=4", resume=True, threads=None)
    assert not any("Changed since the checkpoint was saved" in line for line in messages)
    log = job.folder.log.read_text(encoding="utf-8")
    assert "threads 1 (as before)" in log
    assert job.folder.read_environment()["threads"] == 1
    counts = read_checkpoint(job.folder.last).metadata["environment"]
    assert (counts["threads"], counts["processes"]) == (1, 1)


def test_auto_compiles_nothing_after_the_epoch_that_ends_the_last_run(
    compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early stopping leaves epochs that no run trains."""
    monkeypatch.setattr(acceleration, "COMPILE_SECONDS", 1e-9)
    settings = ["model.attention=null", "training.compile=auto", "training.epochs=9"]
    impatient = "training.early_stopping={patience: 1, min_delta: 1000}"
    monkeypatch.setattr(StepCompiler, "after_epoch", _from_epoch(2, StepCompiler.after_epoch))
    job, _ = train(tmp_path / "run", *settings, impatient)
    assert job.summary is not None
    assert (job.summary["epochs"], compiled) == (2, [])


def _from_epoch(first: int, after_epoch: Callable[..., None]) -> Callable[..., None]:
    """Return `StepCompiler.after_epoch` without effect before an epoch."""
    epochs = itertools.count(1)

    def patched(*inputs: Any) -> None:
        if next(epochs) >= first:
            after_epoch(*inputs)

    return patched


def test_seconds_of_a_group_are_shares_of_its_time(tmp_path: Path) -> None:
    """As docs/run-folder.md describes the column `seconds`."""
    runs = [
        (resolve(None, [*SMALL, f"seed={seed}"]).config, RunFolder(tmp_path / f"seed-{seed}"))
        for seed in range(3)
    ]
    began = time.perf_counter()
    experiments.train_many(runs, threads=1)
    duration = time.perf_counter() - began
    seconds = [[record.seconds for record in folder.read_metrics()] for _, folder in runs]
    assert seconds[0] == seconds[1] == seconds[2]
    assert sum(map(sum, seconds)) < duration
    page = (ROOT / "docs/run-folder.md").read_text(encoding="utf-8")
    assert "the time of the group divided by the number of these runs" in page


@pytest.mark.parametrize(("later", "disabled"), [(0.5, False), (2.0, True)])
def test_auto_does_not_measure_the_epoch_that_compiles_for_other_shapes(
    later: float, disabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first compiled epoch compiles again for the last batch and for validation."""
    log = list[str]()
    loss_fn = AutogradLoss(build_model(resolve(None, SMALL).config.model, 2, 1))
    monkeypatch.setattr(AutogradLoss, "compile", lambda loss_fn, batch: None)
    compiler = StepCompiler(log.append)
    compiler.start_group("auto", loss_fn, lambda: None)  # type: ignore[arg-type]
    for duration in (1.0, 50.0, later):
        assert not any("no speed-up" in line for line in log)
        compiler.after_epoch(duration, 1000, lambda: None)  # type: ignore[arg-type]
    assert any("no speed-up" in line for line in log) is disabled


def test_a_change_of_rates_names_the_checkpoint_that_was_read(tmp_path: Path) -> None:
    job, _ = train(tmp_path / "run")
    record = job.state.history[0]
    state = replace(job.state, history=[replace(record, learning_rate=7.0)], epoch=1)
    for path in (job.folder.last, job.folder.previous):
        with pytest.raises(CheckpointError) as raised:
            check_same_rates(replace(job, state=state, checkpoint=path))
        assert str(raised.value).startswith(f"{path}: ")
