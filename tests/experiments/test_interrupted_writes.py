"""Stops between two files of a run folder, and commands that continue afterwards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import optuna
import pytest

from seqattn.config import Config, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.errors import ConfigError, Interrupted, UsageError
from seqattn.experiments import Callbacks, Launch, groups_to_train, ray_cluster, train_many
from seqattn.experiments import compare as compare_module
from seqattn.experiments.compare import run_comparison
from seqattn.experiments.tuning import trial_loop
from seqattn.runs import RunFolder
from seqattn.runs.storage.atomic import _PendingFile
from seqattn.training.acceleration import StepCompiler
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


def test_all_tasks_that_have_ended_are_written_before_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ray:
        """Three tasks, all of which have ended."""

        @staticmethod
        def wait(tasks: list[int], num_returns: int = 1, timeout: float = 0) -> Any:
            return tasks[:num_returns], tasks[num_returns:]

    written = list[Any]()
    monkeypatch.setattr(ray_cluster, "_task_result", lambda ray, task: [{}])
    monkeypatch.setattr(
        ray_cluster, "_write_run_folders", lambda contents, callbacks: written.extend(contents)
    )
    tasks: dict[Any, Any] = {k: [(config_of(), RunFolder(Path(str(k))))] for k in range(3)}
    ray_cluster._collect(Ray, tasks, Callbacks(stop=lambda: 15))
    assert len(written) == 3


def test_the_revision_of_the_config_is_recorded_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = list[dict[str, Any]]()

    def train_on_cluster(configs: Any, *, provenance: dict[str, Any], **options: Any) -> None:
        recorded.append(provenance)
        raise Interrupted(15, "enough")

    monkeypatch.setattr(compare_module, "find_git_revision", lambda path: f"of {path}")
    monkeypatch.setattr(ray_cluster, "train_on_cluster", train_on_cluster)
    file = tmp_path / "c.yaml"
    file.write_text("name: c\n")
    planned = plan_comparison(file, SMALL, ["model.attention.score=dot,uniform"], seeds=2)
    with pytest.raises(Interrupted):
        run_comparison(
            planned, tmp_path, ray=SimpleNamespace(address=None),  # type: ignore[arg-type]
            launch=Launch(config_path=file, provenance={"command": "words"}),
        )  # fmt: skip
    assert recorded == [{"git_revision": f"of {file}", "command": "words"}]


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


@pytest.mark.parametrize("error", [ConfigError("refused"), optuna.TrialPruned()])
def test_a_trial_that_was_ended_elsewhere_does_not_end_the_search(error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise optuna.exceptions.UpdateFinishedTrialError

    messages = list[str]()
    loop = trial_loop.TrialLoop.__new__(trial_loop.TrialLoop)
    vars(loop).update(
        study=None, message=messages.append, search=None,
        _train=mock.Mock(side_effect=error),
    )  # fmt: skip
    trial: Any = SimpleNamespace(number=0, params={})
    with (
        mock.patch.object(trial_loop.trials, "end", fail),
        mock.patch.object(trial_loop.trials, "label_values", return_value={}),
        mock.patch.object(trial_loop.trials, "format_values", return_value=""),
    ):
        loop._run_trial(trial)
    assert messages == ["trial-0: ended by another process; its run folder is kept"]


def test_every_change_of_the_backend_is_logged() -> None:
    lines = list[str]()
    compiler = StepCompiler(lines.append)
    for name in ("autograd", "autograd", "autograd, a step compiled", "autograd"):
        loss_fn: Any = SimpleNamespace(name=name)
        compiler.start_group("off", loss_fn, mock.Mock())
    assert lines == ["autograd", "autograd, a step compiled", "autograd"]
