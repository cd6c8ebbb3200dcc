"""What happens to the other groups if a worker, its parent or the disk fails."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seqattn.config import resolve
from seqattn.errors import DistributedError, Interrupted
from seqattn.experiments import Callbacks
from seqattn.runs import RunFolder
from tests.experiments.worker_runs import (
    SCORES,
    SLOW,
    Runs,
    alone,
    descendants,
    environment,
    is_alive,
    runs,
    slow,
    train,
    wait_until,
)
from tests.experiments.worker_runs import whole as whole
from tests.faults.groups import difference
from tests.plugins.conftest import _no_plugins as _no_plugins


def test_a_diverging_group_does_not_stop_the_others(tmp_path: Path) -> None:
    more = ["training.optimizer=sgd", "training.learning_rate=90", "training.momentum=0.5"]
    calm = ["training.learning_rate=0.01"]

    def mixed(home: Path) -> Runs:
        return [*runs(home, *more, variants=["general"]), *runs(home, *calm, variants=["additive"])]

    first, second = mixed(tmp_path / "one"), mixed(tmp_path / "two")
    before, now = train(first, 1), train(second, 2)
    assert [str(job.error).partition(":")[2] for job in before[:2]] == [
        str(job.error).partition(":")[2] for job in now[:2]
    ]
    assert all(job.error is not None for job in now[:2])
    assert all(job.summary is not None for job in now[2:])
    assert difference(first, second) is None


def test_a_killed_worker_is_named_and_the_others_are_saved(whole: Runs, tmp_path: Path) -> None:
    parted = runs(tmp_path)
    killed = list[int]()

    def kill_one(*_: Any) -> None:
        children = multiprocessing.active_children()
        if not killed and len(children) > 1:
            pid = children[0].pid
            assert pid is not None
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(DistributedError, match=r"ended abruptly, perhaps because memory ran out"):
        train(slow(parted), 2, callbacks=Callbacks(epoch=kill_one))
    assert killed
    assert not multiprocessing.active_children()
    files = [folder.path / "train.log" for _, folder in parted]
    logs = [file.read_text() for file in files if file.exists()]
    assert any("ended: a worker process ended abruptly" in log for log in logs)
    assert any("stopped" in log or "finished" in log for log in logs)
    train(slow(parted), 2)
    assert difference(slow(alone(tmp_path / "whole", *SLOW)), parted) is None


def test_a_stop_saves_all_workers_and_a_resume_ends_the_same(tmp_path: Path) -> None:
    parted, asked = slow(runs(tmp_path / "parted")), list[int]()

    def stop() -> int:
        asked.append(1)
        saved = sum(folder.previous.exists() for _, folder in parted)
        return signal.SIGINT if saved > 2 else 0

    with pytest.raises(Interrupted) as caught:
        train(parted, 2, callbacks=Callbacks(stop=stop))
    assert caught.value.exit_code == 130
    assert not multiprocessing.active_children()
    assert any(folder.last.exists() and not folder.summary.exists() for _, folder in parted)
    train(parted, 2)
    assert difference(alone(tmp_path / "whole", *SLOW), parted) is None


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "name: c\nseed: 1\ndata: {n_train: 24, n_validation: 20, n_test: 9}\nmodel: {hidden_dim: 5}\n"
        "training: {batch_size: 8, epochs: 400, checkpoint_seconds: 0.2}\n"
        "compare: {seeds: 2, variants: {a: {model.attention.score: general},"
        " b: {model.attention.score: additive}}}\n"
    )

    def command(output: str, jobs: int) -> list[str]:
        return [
            sys.executable, "-m", "seqattn", "compare", "config.yaml", "--jobs", str(jobs),
            "--threads", "1", "--output-dir", output, "--quiet",
        ]  # fmt: skip

    parent = subprocess.Popen(command("parted", 2), cwd=tmp_path, env=environment())
    folders = [RunFolder(tmp_path / "parted/c" / name / "seed-1") for name in "ab"]
    wait_until(lambda: all(folder.last.exists() for folder in folders))
    workers = descendants(parent.pid)
    assert len(workers) >= 3  # the fork server and two workers
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in workers), 10)
    assert not all(folder.summary.exists() for folder in folders)
    subprocess.run(command("parted", 2), cwd=tmp_path, env=environment(), check=True)
    subprocess.run(command("whole", 1), cwd=tmp_path, env=environment(), check=True)
    one, two = ([RunFolder(tmp_path / output / "c" / name / f"seed-{seed}") for name in "ab"
                 for seed in (1, 2)] for output in ("whole", "parted"))  # fmt: skip
    config = resolve(None, []).config
    assert difference([(config, each) for each in one], [(config, each) for each in two]) is None


def test_an_interrupt_in_python_saves_and_is_logged(tmp_path: Path) -> None:
    parted = slow(runs(tmp_path, variants=SCORES[:2], seeds=1))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parted, 2, callbacks=Callbacks(epoch=interrupt))
    assert not multiprocessing.active_children()
    logs = [(folder.path / "train.log").read_text() for _, folder in parted]
    assert all(log.splitlines()[-1].endswith("ended: KeyboardInterrupt") for log in logs)
    assert any(folder.last.exists() for _, folder in parted)
