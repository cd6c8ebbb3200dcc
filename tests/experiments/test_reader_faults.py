"""What a careful reader of the training code found: endings, threads, compilation, environment."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn import experiments
from seqattn.config import resolve
from seqattn.experiments import Callbacks, group_training
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.training.objective import AutogradLoss
from tests.conftest import SMALL

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


@pytest.mark.parametrize("fails", [False, True])
def test_training_restores_the_number_of_threads(fails: bool, tmp_path: Path) -> None:
    """Of the process, also after an error."""
    before = torch.get_num_threads()
    used = list[int]()

    def message(line: str) -> None:
        used.append(torch.get_num_threads())
        if fails:
            raise RuntimeError("no message")

    callbacks = Callbacks(message=message, epoch=lambda *_: message(""))
    try:
        torch.set_num_threads(3)
        with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
            train(tmp_path / "run", threads=2, callbacks=callbacks)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert used[-1] == 2


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the losses that are compiled. Nothing is compiled."""
    names = list[str]()
    monkeypatch.setattr(AutogradLoss, "compile", lambda loss_fn, batch: names.append(loss_fn.name))
    return names


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
