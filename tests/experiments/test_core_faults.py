"""What a group writes about runs that have ended, and what a stop after the last training leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import Interrupted
from seqattn.experiments import Callbacks, group_training, ray_cluster
from seqattn.models import manual_backward
from seqattn.plots import run_pictures
from seqattn.runs import RunFolder
from seqattn.training import TrainingRun
from tests.conftest import SMALL

Runs = list[tuple[Any, RunFolder]]


def runs_of(folder: Path, settings: Mapping[str, str]) -> Runs:
    """A config with `SMALL` for each name, with one more setting."""
    return [
        (resolve(None, [*SMALL, more]).config, RunFolder(folder / name))
        for name, more in settings.items()
    ]


def gradient_lines(folder: RunFolder) -> list[str]:
    lines = folder.log.read_text(encoding="utf-8").splitlines()
    return [line.partition("gradients: ")[2] for line in lines if "gradients: " in line]


def test_the_backend_of_a_smaller_group_is_logged_for_its_runs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four runs exceed the limit of manual gradients, and two do not. A run that diverged or ended
    has nothing to do with the change."""
    (config, _), *_ = runs_of(tmp_path, {"any": "seed=0"})
    pairs = config.training.batch_size * 2 * 2  # S = T = 2
    monkeypatch.setattr(manual_backward, "MAX_PAIRS", 3 * pairs)
    build_runs = group_training.build_runs

    def with_a_wild_run(*args: Any) -> list[TrainingRun]:
        built = build_runs(*args)
        wild = built[1].config.model_copy(update={"learning_rate": 1e300})
        return [built[0], replace(built[1], config=wild), *built[2:]]

    monkeypatch.setattr(group_training, "build_runs", with_a_wild_run)
    runs = runs_of(tmp_path, {
        "short": "training.epochs=1", "wild": "training.epochs=3",
        "long": "training.epochs=4", "longer": "training.epochs=5",
    })  # fmt: skip
    jobs = experiments.train_many(runs, threads=1)
    assert [job.error is not None for job in jobs] == [False, True, False, False]
    short, wild, long, longer = (gradient_lines(folder) for _, folder in runs)
    assert long == longer
    assert len(long) == 2
    assert short == wild == long[:1]


def stop_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int = 1) -> Callbacks:
    """Callbacks that request a stop from the given call of a function on."""
    requested = list[int]()
    function = getattr(owner, name)

    def stopping(*args: Any, **options: Any) -> Any:
        requested.append(signal.SIGTERM)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, stopping)
    return Callbacks(stop=lambda: requested[0] if len(requested) >= call else 0)


def interrupted(train: Callable[[], object]) -> str:
    """The message of the stop that ends a training."""
    with pytest.raises(Interrupted) as raised:
        train()
    assert raised.value.exit_code == 128 + signal.SIGTERM
    return str(raised.value)


@pytest.mark.parametrize("count", [1, 3])
def test_a_stop_while_the_last_results_are_written_says_that_nothing_is_missing(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(tmp_path, {f"run-{seed}": f"seed={seed}" for seed in range(count)})
    with monkeypatch.context() as patch:
        callbacks = stop_in(patch, group_training, "write_results")
        message = interrupted(lambda: experiments.train_many(runs, threads=1, callbacks=callbacks))
    saved_to = runs[0][1].path if count == 1 else tmp_path
    assert message == f"SIGTERM: saved to {saved_to}; nothing is missing."
    files = [folder.summary.read_bytes() for _, folder in runs]
    again = experiments.train_many(runs, threads=1, resume=True)
    assert all(job.summary is not None for job in again)
    assert files == [folder.summary.read_bytes() for _, folder in runs]


def test_a_stop_while_results_are_written_names_what_a_resume_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures, or another group."""
    pictures = runs_of(tmp_path / "pictures", {"one": "seed=1"})
    groups = runs_of(
        tmp_path / "groups", {"four": "model.hidden_dim=4", "six": "model.hidden_dim=6"}
    )
    for runs, plots in ((pictures, True), (groups, False)):
        with monkeypatch.context() as patch:
            callbacks = stop_in(patch, group_training, "write_results")
            message = interrupted(
                lambda runs=runs, plots=plots, callbacks=callbacks: experiments.train_many(
                    runs, threads=1, plots=plots, callbacks=callbacks)
            )  # fmt: skip
        assert "--resume" in message
        assert runs[0][1].summary.exists()
    assert not pictures[0][1].loss_picture.exists()
    assert not groups[1][1].summary.exists()
    experiments.train_many(pictures, threads=1, plots=True, resume=True)
    experiments.train_many(groups, threads=1, resume=True)
    assert pictures[0][1].loss_picture.exists()
    assert groups[1][1].summary.exists()


@pytest.mark.parametrize(
    ("run", "words"), [(0, "--resume draws the missing pictures"), (1, "nothing is")]
)
def test_a_stop_in_the_last_picture_of_a_run_counts_the_other_runs(
    run: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = runs_of(tmp_path, {"a": "seed=1", "b": "seed=2"})
    experiments.train_many(runs, threads=1)
    callbacks = stop_in(monkeypatch, run_pictures, "as_bytes", call=3 * run + 3)
    message = interrupted(
        lambda: experiments.train_many(
            runs, threads=1, plots=True, resume=True, callbacks=callbacks
        )
    )
    assert words in message
    pictures = [folder.attention_picture.exists() for _, folder in runs]
    assert pictures == [True, run == 1]


def test_a_stop_of_a_cluster_keeps_the_tasks_that_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its message says that finished runs are kept."""

    class Ray:
        cancelled: ClassVar = list[str]()

        @staticmethod
        def wait(tasks: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
            return tasks[:1], tasks[1:]

        @classmethod
        def cancel(cls, task: str, force: bool) -> None:
            cls.cancelled.append(task)

    written = list[RunFolder]()
    monkeypatch.setattr(ray_cluster, "_task_result", lambda ray, task: [{}])
    monkeypatch.setattr(
        ray_cluster, "_write_run_folders",
        lambda runs, callbacks: written.extend(folder for folder, _ in runs),
    )  # fmt: skip
    tasks = {name: [(Any, RunFolder(Path(name)))] for name in ("first", "second")}
    callbacks = Callbacks(stop=lambda: signal.SIGTERM)
    message = interrupted(lambda: ray_cluster._collect(Ray, tasks, callbacks))
    assert "finished runs are kept" in message
    assert written == [RunFolder(Path("first"))]
    assert Ray.cancelled == ["second"]
    ray_cluster._collect(Ray, tasks, callbacks)  # nothing is left to cancel
    assert written[1:] == [RunFolder(Path("second"))]
