"""Groups in worker processes end with the files of groups in one process."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn.config import resolve
from seqattn.config.plugins import load_plugin
from seqattn.experiments import Callbacks, Launch, train_many, workers
from seqattn.experiments.group_training import Resources
from seqattn.experiments.grouping import group_jobs
from seqattn.experiments.prepare import prepare_jobs
from seqattn.runs import RunFolder
from tests.conftest import ROOT
from tests.experiments.worker_runs import (
    SCORES,
    Runs,
    alone,
    runs,
    train,
)
from tests.experiments.worker_runs import whole as whole
from tests.faults.groups import difference
from tests.plugins.conftest import _no_plugins as _no_plugins


def test_the_files_are_those_of_one_process(whole: Runs, tmp_path: Path) -> None:
    parted, records, begun = runs(tmp_path), [], []
    pids = set[int]()

    ended = list[Path]()

    def epoch(_: Path, record: Any) -> None:
        records.append(record)
        pids.update(child.pid for child in multiprocessing.active_children() if child.pid)

    callbacks = Callbacks(begin=lambda *of: begun.append(of), epoch=epoch, ended=ended.append)
    jobs = train(parted, 2, callbacks=callbacks)
    assert difference(whole, parted) is None
    assert [job.summary["seed"] for job in jobs] == [0, 1] * 3
    assert begun == [(0, 30, 6)]
    assert sorted(ended) == sorted(folder.path for _, folder in parted)
    assert sorted(record.epoch for record in records) == [k for k in range(1, 6) for _ in range(6)]
    assert len(pids) > 1, "this process trained alone"
    log = (parted[0][1].path / "train.log").read_text()
    assert "threads 1 (asked for)" in log


def test_a_plugin_is_loaded_in_each_worker(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/plugins/bilinear_tanh.py", tmp_path)
    load_plugin(tmp_path / "bilinear_tanh.py")
    (tmp_path / "bilinear_tanh.py").unlink()
    which = {"variants": ("bilinear_tanh", "general")}
    whole, parted = alone(tmp_path / "whole", **which), runs(tmp_path / "parted", **which)
    train(parted, 2)
    assert difference(whole, parted) is None


def test_workers_train_on_the_data_that_the_command_has_read(tmp_path: Path) -> None:
    table = tmp_path / "data.csv"
    rows = [f"{s},{t},{s * t % 7}" for s in range(12) for t in range(12)]
    whole, parted = ([
        (resolve(None, [
            f"model.attention.score={score}", "training.epochs=1", f"name={score}",
            f"data={{kind: file, path: {table}, window: {{source: 4, target: 2}}}}",
        ]).config, RunFolder(tmp_path / kind / score)) for score in SCORES
    ] for kind in ("whole", "parted"))  # fmt: skip
    table.write_text("\n".join(["series,time,value", *rows]))
    train_many(whole, threads=1)
    change = Callbacks(begin=lambda *_: table.write_text("series,time,value\n1,1,1") and None)
    train_many(parted, threads=1, launch=Launch(workers=2), callbacks=change)
    assert difference(whole, parted) is None


def test_only_groups_that_fit_into_memory_together_run_at_the_same_time(
    whole: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "physical_memory", lambda: 2)
    most = 0

    def count(*_: Any) -> None:
        nonlocal most
        most = max(most, len(multiprocessing.active_children()))

    parted = runs(tmp_path)
    train(parted, 3, callbacks=Callbacks(epoch=count))
    assert most == 1
    assert difference(whole, parted) is None


def test_the_number_of_workers_follows_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(
        these: Runs,
        jobs: int | None,
        *,
        device: str = "cpu",
        threads: int | None = None,
        cores: int = 2,
    ) -> int:
        monkeypatch.setattr(workers, "core_count", lambda: cores)
        groups = group_jobs(prepare_jobs(these, resume=True))
        return workers.worker_count(groups, Resources(torch.device(device), threads, {}), jobs)

    little, much = runs(tmp_path), runs(tmp_path, "data.n_train=20000", "training.epochs=500")
    assert [count(little, jobs) for jobs in (None, 1, 2, 8)] == [1, 1, 2, 3]
    assert [count(much, None, cores=cores) for cores in (1, 2, 3, 64)] == [1, 2, 3, 3]
    assert count(runs(tmp_path, variants=["general"]), 8) == 1
    # Threads share the cores with workers, and a large group can use all cores.
    assert [count(much, None, threads=n, cores=4) for n in (1, 2, 4)] == [3, 2, 1]
    large = runs(tmp_path, "data.n_train=20000", "training.epochs=500", "model.hidden_dim=256")
    assert [count(large, None, cores=cores) for cores in (3, 4)] == [3, 1]
    # This process is needed.
    assert count(much, 2, device="meta") == 1
    assert count(runs(tmp_path, "logging.mlflow=true"), 2) == 1
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    assert count(much, 2) == 1


def test_the_reason_for_one_process_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reason(*more: str, device: str = "cpu", variants: Iterable[str] = SCORES) -> str:
        these = runs(tmp_path, *more, variants=variants, seeds=1)
        groups = group_jobs(prepare_jobs(these, resume=False))
        return str(workers.reason_for_one_process(groups, Resources(torch.device(device), 1, {})))

    assert reason() == "None"
    assert "one group" in reason(variants=["general"])
    assert "not the CPU" in reason(device="meta")
    assert "MLflow" in reason("logging.mlflow=true")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    assert "standard input" in reason()
