"""Groups in worker processes end with the files of groups in one process, whatever happens to a worker."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn.cli import comparing
from seqattn.config import Config, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.config.plugins import load_plugin
from seqattn.errors import DataError, DistributedError, Interrupted, StorageError
from seqattn.experiments import Callbacks, Launch, train_many, worker_processes
from seqattn.experiments import worker_count as choice
from seqattn.experiments.group_training import Resources
from seqattn.experiments.grouping import group_jobs
from seqattn.experiments.prepare import prepare_jobs
from seqattn.runs import RunFolder, fork_server
from seqattn.training.threads import core_count
from tests.conftest import ROOT
from tests.faults.disk import mounted
from tests.faults.groups import difference
from tests.plugins.conftest import _no_plugins as _no_plugins

Runs = list[tuple[Config, RunFolder]]
SIZES = [
    "data.n_train=24", "data.n_validation=20", "data.n_test=9", "training.batch_size=8",
    "training.epochs=5", "training.checkpoint_seconds=0.05",
]  # fmt: skip
SCORES = ("general", "additive", "scaled_dot")


def runs(home: Path, *more: str, variants: Iterable[str] = SCORES, seeds: int = 2) -> Runs:
    """Each score has its own shapes, so it is a group of all seeds."""
    return [
        (
            resolve(None, [
                *SIZES, f"model.attention.score={score}", f"seed={seed}", f"name={score}{seed}",
                "model.hidden_dim=5", *more,
            ]).config,
            RunFolder(home / score / f"seed-{seed}"),
        )
        for score in variants
        for seed in range(seeds)
    ]  # fmt: skip


def train(these: Runs, workers: int, **more: Any) -> list[Any]:
    return train_many(these, threads=1, resume=True, launch=Launch(workers=workers), **more)


def alone(home: Path, *more: str, **which: Any) -> Runs:
    whole = runs(home, *more, **which)
    train(whole, 1)
    return whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """What one process writes."""
    return alone(tmp_path_factory.mktemp("whole"))


def test_the_files_are_those_of_one_process(whole: Runs, tmp_path: Path) -> None:
    parted, records, begun = runs(tmp_path), [], []
    pids = set[int]()

    def epoch(record: Any) -> None:
        records.append(record)
        pids.update(child.pid for child in multiprocessing.active_children() if child.pid)

    jobs = train(parted, 2, callbacks=Callbacks(begin=lambda *of: begun.append(of), epoch=epoch))
    assert difference(whole, parted) is None
    assert [job.summary["seed"] for job in jobs] == [0, 1] * 3
    assert begun == [(0, 30)]
    assert sorted(record.epoch for record in records) == [k for k in range(1, 6) for _ in range(6)]
    assert len(pids) > 1, "this process trained alone"
    log = (parted[0][1].path / "train.log").read_text()
    assert "threads 1 (asked for)" in log


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

    def kill_one(_: Any) -> None:
        children = multiprocessing.active_children()
        if not killed and len(children) > 1:
            pid = children[0].pid
            assert pid is not None
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(DistributedError, match=r"ended by SIGKILL, perhaps because memory ran out"):
        train(slow(parted), 2, callbacks=Callbacks(epoch=kill_one))
    assert killed
    assert not multiprocessing.active_children()
    files = [folder.path / "train.log" for _, folder in parted]
    logs = [file.read_text() for file in files if file.exists()]
    assert any("ended: a worker process was ended by SIGKILL" in log for log in logs)
    assert any("stopped" in log or "finished" in log for log in logs)
    train(slow(parted), 2)
    assert difference(slow(alone(tmp_path / "whole", *SLOW)), parted) is None


SLOW = ("training.epochs=200",)


def slow(these: Runs) -> Runs:
    """The same runs with so many epochs that a signal meets them while they train."""
    return [
        (
            config.model_copy(
                update={"training": config.training.model_copy(update={"epochs": 200})}
            ),
            folder,
        )
        for config, folder in these
    ]


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


def test_a_full_disk_in_one_worker_stops_the_others_with_the_message(tmp_path: Path) -> None:
    parted = slow(runs(tmp_path / "parted", "training.record_attention=1"))
    small = parted[0][1].path
    small.mkdir(parents=True)
    assert mounted(small, 4 * 2**20)

    def fill(_: Any) -> None:
        """Other programs fill the disk."""
        with contextlib.suppress(OSError), (small / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    try:
        with pytest.raises((StorageError, OSError), match="No space left on device"):
            train(parted, 2, callbacks=Callbacks(epoch=fill))
        assert not multiprocessing.active_children()
        others = [folder for _, folder in parted[2:] if folder.is_run]
        assert others
        assert all(folder.last.exists() or folder.summary.exists() for folder in others)
    finally:
        subprocess.run(["umount", small], check=True)


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


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def descendants(pid: int) -> set[int]:
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parents[int(each.name)] = int(
                    (each / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
    monkeypatch.setattr(worker_processes, "physical_memory", lambda: 2)
    most = 0

    def count(_: Any) -> None:
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
        monkeypatch.setattr(choice, "core_count", lambda: cores)
        groups = group_jobs(prepare_jobs(these, resume=True))
        return choice.worker_count(groups, Resources(torch.device(device), threads, {}), jobs)

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


def test_an_early_start_is_made_for_work_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[bool]()
    monkeypatch.setattr(fork_server, "start_fork_server", lambda: started.append(True))
    (tmp_path / "config.yaml").write_text("compare: {variants: {a: {}, b: {model.cell: rnn}}}\n")

    def starts(jobs: int | None, epochs: int) -> bool:
        started.clear()
        plan = plan_comparison(
            tmp_path / "config.yaml", [f"training.epochs={epochs}", "name=c"], [], seeds=2
        )
        comparing._start_workers_early(plan, tmp_path, jobs)
        return bool(started)

    assert [starts(1, 10_000), starts(None, 1), starts(2, 1)] == [False, False, True]
    assert starts(None, 10_000) == (core_count() > 1)
    for name in ("a", "b"):
        for seed in (1, 2, 23, 24):
            folder = tmp_path / "c" / name / f"seed-{seed}"
            folder.mkdir(parents=True)
            (folder / "summary.json").write_text("{}")
    assert not starts(None, 10_000)


def test_a_fork_server_that_cannot_start_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from multiprocessing import forkserver

    def refuse() -> None:
        raise OSError("AF_UNIX path too long")

    monkeypatch.setattr(forkserver, "ensure_running", refuse)
    assert fork_server.start_fork_server().get_start_method() == "spawn"


METRIC = """
import seqattn
import numpy as np

@seqattn.register_metric("largest")
def largest(forecast, target):
    print("from the metric")
    return float(np.nanmax(forecast))
"""


def test_a_plugin_that_no_config_names_is_loaded_in_each_worker(tmp_path: Path) -> None:
    """The command has --plugin, and the config uses none of its names."""
    (tmp_path / "metric.py").write_text(METRIC)
    (tmp_path / "config.yaml").write_text(
        "name: c\nseed: 1\ndata: {n_train: 24, n_validation: 20, n_test: 9}\n"
        "training: {epochs: 1}\n"
        "compare: {seeds: 2, variants: {a: {model.hidden_dim: 3}, b: {model.hidden_dim: 4}}}\n"
    )
    outputs, printed = [], []
    for jobs in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "seqattn", "compare", "config.yaml", "--plugin", "metric.py",
             "--jobs", jobs, "--threads", "1", "--quiet", "--output-dir", jobs],
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env={key: value for key, value in environment().items() if key != "PYTHONUNBUFFERED"},
        )  # fmt: skip
        printed.append(done.stdout.count("from the metric"))
        summary = json.loads((tmp_path / jobs / "c/a/seed-1/summary.json").read_text())
        outputs.append(summary["plugin_metrics"]["largest"])
    assert outputs[0] == outputs[1]
    assert printed[0] == printed[1] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_while_workers_start_saves(
    number: signal.Signals, tmp_path: Path
) -> None:
    """The fork server imports torch for a second or two when the signal arrives."""
    (tmp_path / "config.yaml").write_text(
        "name: c\nseed: 1\ndata: {n_train: 24, n_validation: 20, n_test: 9}\n"
        "training: {epochs: 100000}\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", """
import sys
from pathlib import Path
from seqattn.config import resolve
from seqattn.cli.stop_signals import defer_stop_signals
from seqattn.cli.progress import show_progress
from seqattn.errors import SeqattnError
from seqattn.experiments import Launch, train_many
from seqattn.runs import RunFolder, fork_server
from seqattn.training.threads import core_count

runs = [
    (resolve(Path("config.yaml"), [f"model.hidden_dim={size}"]).config, RunFolder(Path(f"r/{size}")))
    for size in (3, 4)
]
with defer_stop_signals() as request, show_progress("c", True, request) as callbacks:
    try:
        train_many(runs, threads=1, callbacks=callbacks, launch=Launch(workers=2))
    except SeqattnError as error:
        sys.exit(error.exit_code)
"""],
        cwd=tmp_path, env=environment(), start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: (tmp_path / "r/4/environment.json").exists())
    time.sleep(0.3)
    os.killpg(parent.pid, number)
    _, errors = parent.communicate(timeout=60)
    assert parent.returncode == 128 + number, errors
    assert "Traceback" not in errors


def test_an_error_of_a_plugin_keeps_its_message_and_exit_code() -> None:
    class MineError(DataError):
        def __init__(self, name: str, number: int) -> None:
            super().__init__(f"{name}: {number}")

    sent = pickle.loads(pickle.dumps(worker_processes._picklable(MineError("a", 3))))
    assert (str(sent), sent.exit_code) == ("a: 3", 3)
    full = OSError(28, "No space left on device", "file")
    assert worker_processes._picklable(full) is full


def test_a_bug_in_a_worker_shows_its_traceback(tmp_path: Path) -> None:
    text = (ROOT / "examples/plugins/bilinear_tanh.py").read_text()
    text = text.replace('"bilinear_tanh"', '"breaks_in_workers"').replace(
        "import math", "import math, os"
    )
    broken = f"        if os.getpid() != {os.getpid()}: raise KeyError('mine')\n"
    text = text.replace("        products = self", broken + "        products = self")
    (tmp_path / "broken.py").write_text(text)
    load_plugin(tmp_path / "broken.py")
    with pytest.raises(
        RuntimeError, match=r"(?s)a worker process failed:.*broken.py.*KeyError: 'mine'"
    ):
        train(runs(tmp_path, variants=("breaks_in_workers", "general")), 2)


def test_jobs_are_read_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("compare: {seeds: 2, variants: {a: {}}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "seqattn", "compare", "config.yaml"], cwd=tmp_path,
        env=environment() | {"SEQATTN_JOBS": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Invalid value for '--jobs'" in done.stderr
