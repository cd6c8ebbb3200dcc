"""Where training meets folders: threads of groups that never began, checkpoints that lack a part,
groups of gathered data, results that cannot be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.numpy import load_file

from seqattn import experiments
from seqattn.config import resolve
from seqattn.data import load_data
from seqattn.errors import CheckpointError
from seqattn.experiments import group_training
from seqattn.experiments.run_environment import rounding_change
from seqattn.experiments.run_folders import FolderSession
from seqattn.models import build_model
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.runs.checksummed import save_checksummed
from seqattn.training import batches, load_state
from tests.real_files import FOLDER

SMALL = ["data.n_train=12", "data.n_validation=6", "data.n_test=6", "training.epochs=2",
         "training.batch_size=6"]  # fmt: skip


def test_a_group_that_never_began_has_no_threads_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its resume would take one thread without having measured."""
    runs = [
        (resolve(None, [*SMALL, f"model.hidden_dim={width}"]).config, RunFolder(tmp_path / name))
        for name, width in (("first", 4), ("second", 6))
    ]
    train = group_training.train_models

    def fails(*args: Any, **options: Any) -> Any:
        if len(done := list(tmp_path.glob("*/summary.json"))):
            raise AssertionError(done)
        raise KeyboardInterrupt

    monkeypatch.setattr(group_training, "choose_threads", lambda runs: (2, "measured"))
    with monkeypatch.context() as patch:
        patch.setattr(group_training, "train_models", fails)
        with pytest.raises(KeyboardInterrupt):
            experiments.train_many(runs)
    environments = [folder.read_environment() for _, folder in runs]
    assert [found.get("threads") for found in environments] == [2, None]
    assert train is group_training.train_models


def changed(file: Path, drop: str = "", **metadata: Any) -> None:
    """Write a checkpoint again without some tensors, with a checksum that is right."""
    found = read_checkpoint(file)
    tensors = {key: value for key, value in load_file(file).items()
               if not drop or not key.startswith(drop)}  # fmt: skip
    save_checksummed(file, tensors, {**found.metadata, **metadata})


@pytest.mark.parametrize(
    ("drop", "words"),
    [
        ("optimizer.output.bias", r"no optimizer buffers for output\.bias"),
        ("optimizer.", r"no optimizer buffers for encoder"),
        ("best.", "its training state is incomplete"),
    ],
)
def test_a_checkpoint_that_lacks_a_part_is_refused(drop: str, words: str, tmp_path: Path) -> None:
    """Adam from zero, or the newest weights as the best, would be another training."""
    config = resolve(None, SMALL).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    model = build_model(config.model, 2, 1)
    assert load_state(folder.last, model).epoch == 2
    changed(folder.last)
    assert load_state(folder.last, model).epoch == 2
    changed(folder.last, drop)
    with pytest.raises(CheckpointError, match=words):
        load_state(folder.last, model)


def test_runs_of_different_gathered_data_are_no_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_RESIDENT", 0)
    rows = "".join(f"{t},{t % 7 + t / 50:.3f}\n" for t in range(300))
    (tmp_path / "a.csv").write_text("step,x\n" + rows)
    sets = ["data.kind=file", f"data.path={tmp_path / 'a.csv'}", "data.window.source=12",
            "data.window.target=3", "data.split.by=time", "training.epochs=1", "model.hidden_dim=4"]  # fmt: skip
    runs = [
        (resolve(None, [*sets, f"data.scaling={scaling}"]).config, RunFolder(tmp_path / scaling))
        for scaling in ("none", "standard")
    ]
    jobs = experiments.train_many(runs, threads=1)
    assert all(job.summary is not None for job in jobs)
    assert len({job.group_id for job in jobs}) == 2


def test_gathered_and_loaded_sequences_are_not_stacked() -> None:
    path = next(FOLDER.glob("*.csv"))
    assert path.is_file()
    config = resolve(None, SMALL).config
    part = load_data(config.data).train
    whole = batches.to_tensors(part)
    lazy = batches.GatheredBatch.__new__(batches.GatheredBatch)
    for mixed in ([whole, lazy], [whole, whole, lazy]):
        with pytest.raises(ValueError, match="must share them"):
            batches.stack_batches(mixed)
    assert part.is_identity
    assert torch.equal(batches.stack_batches([whole, whole]).take(slice(0, 1)).source[0],
                       whole.source[:1])  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"threads": 2}, {"threads": 1}, "threads 2 -> 1"),
        ({"processes": 2}, {}, "processes 2 -> 1"),
        (
            {"processor": "A (AVX2)"},
            {"processor": "A (AVX512)"},
            "processor A (AVX2) -> A (AVX512).",
        ),
        ({}, {"processor": "A (AVX2)"}, None),
        ({}, {"threads": 1}, None),
        ({"threads": 1}, {}, None),
    ],
)
def test_other_threads_processes_or_processors_round_differently(
    before: dict[str, Any], now: dict[str, Any], words: str | None
) -> None:
    common = {"device": "cpu", "packages": {"torch": "2"}}
    found = rounding_change({**common, **before}, {**common, **now})
    assert (found is None) if words is None else (found is not None and words in found)


def test_checkpoints_that_were_skipped_stay_known(tmp_path: Path) -> None:
    """After a second resume the summary still names the checkpoint that the first one skipped."""
    config = resolve(None, [*SMALL, "training.checkpoint_seconds=1e-6"]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    folder.last.write_bytes(b"broken")
    longer = config.model_copy(
        update={"training": config.training.model_copy(update={"epochs": 3})}
    )
    _, summary = experiments.train_one(longer, tmp_path, plots=False, resume=True)
    assert len(summary["skipped_checkpoints"]) == 1
    more = config.model_copy(update={"training": config.training.model_copy(update={"epochs": 4})})
    _, again = experiments.train_one(more, tmp_path, plots=False, resume=True)
    assert again["skipped_checkpoints"] == summary["skipped_checkpoints"]
    log = (folder.path / "train.log").read_text()
    assert log.count("Skipped checkpoint: ") == 1
    assert json.loads(folder.environment.read_text())["skipped_checkpoints"]


def test_the_threads_of_a_resume_do_not_hide_a_skipped_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve(None, [*SMALL, "training.checkpoint_seconds=1e-6"]).config
    folder = RunFolder(tmp_path / config.name)
    experiments.train_many([(config, folder)], threads=1)
    folder.last.write_bytes(b"broken")
    content = json.loads(folder.environment.read_text())
    content.pop("threads")  # as versions left it that did not keep them
    folder.environment.write_text(json.dumps(content))
    monkeypatch.setattr(group_training, "choose_threads", lambda runs: (1, "measured"))
    experiments.train_many([(config, folder)], resume=True)
    content = json.loads(folder.environment.read_text())
    assert (content["threads"], len(content["skipped_checkpoints"])) == (1, 1)


def test_a_group_that_begins_saves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty save would put off the next one that is due."""
    saved = list[int]()
    real = FolderSession.save

    def counted(session: FolderSession, runs: Any) -> None:
        saved.append(len(runs))
        real(session, runs)

    monkeypatch.setattr(FolderSession, "save", counted)
    experiments.train_one(resolve(None, SMALL).config, tmp_path, plots=False)
    assert saved == []


def test_the_board_is_complete_where_only_results_are_missing(tmp_path: Path) -> None:
    """Early stopping leaves no epoch to train, so no save writes its scalars again."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    early = ["training.epochs=30", "logging.tensorboard=true",
             "training.early_stopping={patience: 1, min_delta: 9}"]  # fmt: skip
    config = resolve(None, [*SMALL, *early]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    epochs = [record.epoch for record in folder.read_metrics()]
    folder.summary.unlink()
    experiments.train_one(config, tmp_path, plots=False, resume=True)
    events = EventAccumulator(str(folder.tensorboard))
    events.Reload()
    assert [event.step for event in events.Scalars("loss/training")] == epochs


def test_an_unreadable_attention_history_is_logged(tmp_path: Path) -> None:
    config = resolve(None, [*SMALL, "training.record_attention=1"]).config
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    folder.film.write_bytes(b"broken")
    training = config.training.model_copy(update={"epochs": 3})
    longer = config.model_copy(update={"training": training})
    experiments.train_one(longer, tmp_path, plots=False, resume=True)
    assert "earlier attention is lost: " in (folder.path / "train.log").read_text()
