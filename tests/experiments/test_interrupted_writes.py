"""Stops between two files of a run folder, and commands that continue afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from seqattn.config import Config, resolve
from seqattn.errors import UsageError
from seqattn.experiments import Callbacks, groups_to_train, ray_cluster, train_many
from seqattn.runs import RunFolder
from seqattn.runs.storage.atomic import _PendingFile
from tests.faults.groups import Killed

SMALL = ["data.n_train=16", "data.n_validation=8", "data.n_test=8", "model.hidden_dim=3"]
STOPPING = "training.early_stopping={patience: 1, min_delta: 0.5}"


def config_of(*sets: str) -> Config:
    return resolve(None, [*SMALL, *sets]).config


def killed_before(name: str) -> Any:
    """Raise instead of the rename of a file with this name."""
    commit = _PendingFile.commit

    def dying(written: _PendingFile) -> None:
        if written.path.name == name:
            raise Killed
        commit(written)

    return mock.patch.object(_PendingFile, "commit", dying)


def test_metrics_that_a_last_save_lacks_come_with_the_results(tmp_path: Path) -> None:
    run = config_of(STOPPING, "training.epochs=9"), RunFolder(tmp_path / "run")
    with killed_before("metrics.csv"), pytest.raises(Killed):
        train_many([run], threads=1)
    assert run[1].last.exists()
    assert not run[1].metrics.exists()
    for _ in range(2):
        (job,) = train_many([run], threads=1, resume=True)
        assert job.summary is not None
        assert job.summary["stopped_early"]
        assert len(run[1].read_metrics()) == job.summary["epochs"]


def test_a_folder_from_a_cluster_is_a_run_folder_before_it_has_other_files(tmp_path: Path) -> None:
    runs = [(config_of("training.epochs=1", f"seed={seed}"), RunFolder(tmp_path / str(seed)))
            for seed in (1, 2)]  # fmt: skip
    train_many([(config, RunFolder(tmp_path / f"away{k}")) for k, (config, _) in enumerate(runs)],
               threads=1)  # fmt: skip
    files = [ray_cluster._read_files(tmp_path / f"away{k}") for k in range(2)]
    contents = [(folder, each) for (_, folder), each in zip(runs, files, strict=True)]
    for name in ("environment.json", "last.safetensors", "metrics.csv"):
        with killed_before(name), pytest.raises(Killed):
            ray_cluster._write_run_folders(contents, Callbacks())
        assert sum(map(len, groups_to_train(runs))) == 2, name
    jobs = train_many(runs, threads=1, resume=True)
    assert all(job.summary is not None for job in jobs)


def test_a_cluster_does_not_clear_a_folder_of_something_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.last.parent.mkdir(parents=True)
    folder.last.write_bytes(b"precious")
    with pytest.raises(UsageError, match="is not a run folder"):
        groups_to_train([(config_of(), folder)])
    assert folder.last.read_bytes() == b"precious"


def test_an_overwritten_run_loses_its_summary_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config_of("training.batch_size=8", "training.checkpoint_seconds=0"), RunFolder(tmp_path)
    (job,) = train_many([run], threads=1)
    unlink, removed = Path.unlink, list[str]()

    def note(path: Path, missing_ok: bool = False) -> None:
        if path.exists():
            removed.append(path.name)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", note)
    job.folder.clear()
    assert removed[0] == "summary.json"
    assert removed[-4:] == ["metrics.csv", "previous.safetensors", "last.safetensors",
                            "best.safetensors"]  # fmt: skip
