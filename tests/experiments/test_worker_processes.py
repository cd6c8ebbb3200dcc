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
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import seqattn
from seqattn.cli import comparing
from seqattn.config import Config, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.config.plugins import load_plugin
from seqattn.errors import DataError, DistributedError, Interrupted, StorageError, UsageError
from seqattn.experiments import Callbacks, Launch, train_many, worker_main, worker_processes
from seqattn.experiments import worker_count as choice
from seqattn.experiments.group_training import Resources
from seqattn.experiments.grouping import group_jobs
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.experiments.prepare import prepare_jobs
from seqattn.experiments.worker_task import SILENT_WARNINGS, WorkerTask
from seqattn.runs import RunFolder, fork_server
from seqattn.runs.storage import atomic
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

    sent = pickle.loads(pickle.dumps(worker_main._picklable(MineError("a", 3))))
    assert (str(sent), sent.exit_code) == ("a: 3", 3)
    full = OSError(28, "No space left on device", "file")
    assert worker_main._picklable(full) is full


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


WINDOWED = "window: {source: 4, target: 2}, split: {by: time}"


def file_runs(table: Path, home: Path, layout: str, cache: str) -> Runs:
    return [
        (resolve(None, [
            f"model.attention.score={score}", "training.epochs=1", f"name={score}",
            f"data={{kind: file, path: {table}, cache: {cache}, {layout}}}",
        ]).config, RunFolder(home / score)) for score in SCORES[:2]
    ]  # fmt: skip


def test_data_on_disk_are_trained_in_one_process(tmp_path: Path) -> None:
    """The mapped file of a cache cannot be pickled, and a copy would need memory."""
    table, messages = tmp_path / "data.csv", list[str]()
    rows = [f"{s},{t},{s * t % 7}" for s in range(12) for t in range(60)]
    table.write_text("\n".join(["series,time,value", *rows]))
    here = Resources(torch.device("cpu"), 1, {})
    for layout in (WINDOWED, "source_length: 8"):
        for cache in ("always", "never"):
            groups = group_jobs(
                prepare_jobs(file_runs(table, tmp_path, layout, cache), resume=False)
            )
            assert choice.worker_count(groups, here, 2) == (1 if cache == "always" else 2), layout
    mapped = file_runs(table, tmp_path, WINDOWED, "always")
    jobs = train(mapped, 2, callbacks=Callbacks(message=messages.append))
    assert all(job.summary is not None for job in jobs)
    assert [line for line in messages if "2 workers were requested" in line] == [
        "2 workers were requested, but none is started: the data are read from the disk cache, or"
        " are too large for memory."
    ]


def test_the_reason_for_one_process_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reason(*more: str, device: str = "cpu", variants: Iterable[str] = SCORES) -> str:
        these = runs(tmp_path, *more, variants=variants, seeds=1)
        groups = group_jobs(prepare_jobs(these, resume=False))
        return str(choice.reason_for_one_process(groups, Resources(torch.device(device), 1, {})))

    assert reason() == "None"
    assert "one group" in reason(variants=["general"])
    assert "not the CPU" in reason(device="meta")
    assert "MLflow" in reason("logging.mlflow=true")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    assert "standard input" in reason()


def test_data_that_cannot_be_sent_stop_the_other_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sent = WorkerTask.of, list[WorkerTask]()

    def of(jobs: Any, resources: Resources) -> WorkerTask:
        if sent:
            raise TypeError("cannot pickle 'mmap.mmap' object")
        sent.append(real(jobs, resources))
        return sent[0]

    monkeypatch.setattr(WorkerTask, "of", of)
    parted = slow(runs(tmp_path, seeds=1))
    with pytest.raises(DistributedError, match=r"cannot be sent .*mmap.*--jobs 1 uses no worker"):
        train(parted, 2)
    assert not multiprocessing.active_children()
    logs = [folder.path / "train.log" for _, folder in parted]
    assert [log.read_text().splitlines()[-1][-7:] for log in logs if log.exists()] == ["stopped"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_that_ends_before_its_task_is_read_is_an_error(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main script of such a worker fails, for example because it has no guard. The task is
    larger than the buffer of a pipe."""
    script = tmp_path / "script.py"
    script.write_text("import os\nos._exit(3)\n")
    context = fork_server.start_fork_server()
    if method == "spawn":
        context = multiprocessing.get_context("spawn")
    monkeypatch.setattr(worker_processes, "start_fork_server", lambda: context)
    parted = runs(tmp_path, "data.n_train=5000", seeds=1)
    main = sys.modules["__main__"]
    with monkeypatch.context() as patch:
        patch.setattr(main, "__spec__", None)
        patch.setattr(main, "__file__", str(script), raising=False)
        with pytest.raises(DistributedError, match="with exit code 3.* if __name__ == "):
            train(parted, 2)
    assert not multiprocessing.active_children()


def test_stop_signals_are_blocked_while_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that spawn starts imports torch before it can ignore signals. A worker that cannot
    start leaves no open connection."""
    blocked, ends = set[int](), list[Any]()

    class Context:
        RawValue = staticmethod(multiprocessing.get_context("spawn").RawValue)

        @staticmethod
        def Pipe() -> Any:  # noqa: N802
            ends.extend(multiprocessing.Pipe())
            return ends

        @staticmethod
        def Process(**_: Any) -> Any:  # noqa: N802
            return Context

        @staticmethod
        def start() -> None:
            blocked.update(signal.pthread_sigmask(signal.SIG_BLOCK, []))
            raise OSError("no process")

    monkeypatch.setattr(worker_processes, "start_fork_server", Context)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(DistributedError, match="a worker process cannot be started: no process"):
        train(runs(tmp_path, seeds=1), 2)
    assert blocked >= {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert [end.closed for end in ends] == [True, True]


def test_the_loss_of_a_worker_is_described() -> None:
    def describe(code: int, *, was_ready: bool = True) -> str:
        return worker_processes._describe_loss(code, was_ready=was_ready)

    assert "ended by signal 45." in describe(-45)
    assert "ended by SIGSEGV." in describe(-11)
    assert "--jobs 1 uses less memory" in describe(-9)
    assert "__main__" in describe(1, was_ready=False)
    assert "__main__" not in describe(3) + describe(-9, was_ready=False)


STARTS = """
import multiprocessing, os, signal, subprocess
import seqattn

def serve(connection):
    connection.send(1.0)

@seqattn.register_metric("starts")
def starts(forecast, target):
    mode = os.environ["STARTS_MODE"]
    if mode == "exit":
        raise SystemExit(3)
    here, there = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(there,)).start()
    waiting = multiprocessing.Process(target=signal.pause)
    waiting.start()
    waiting.terminate()
    waiting.join()
    program = subprocess.Popen(["sleep", "60"])
    program.terminate()
    multiprocessing.Process(target=signal.pause, daemon=True).start()  # ends with this process
    return here.recv() + float(mode) - waiting.exitcode - program.wait()
"""


def test_a_plugin_starts_processes_and_exits_as_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_server.start_fork_server()
    monkeypatch.setenv("STARTS_MODE", "2.0")  # is newer than the fork server
    (tmp_path / "starts.py").write_text(STARTS)
    load_plugin(tmp_path / "starts.py")
    which: dict[str, Any] = {"variants": SCORES[:2], "seeds": 1}
    for job in train(runs(tmp_path / "two", "training.epochs=1", **which), 2):
        assert job.summary["plugin_metrics"]["starts"] == 1.0 + 2.0 + 2 * signal.SIGTERM
    monkeypatch.setenv("STARTS_MODE", "exit")
    with pytest.raises(RuntimeError, match=r"(?s)a worker process failed:.*SystemExit: 3"):
        train(runs(tmp_path / "exit", "training.epochs=1", **which), 2)


def test_a_worker_has_the_settings_of_the_parent_and_no_warnings_of_configs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONLY_IN_THE_WORKER", "1")
    monkeypatch.setattr(multiprocessing, "set_start_method", lambda *_, **__: None)
    wanted = {**os.environ, "ONLY_IN_THE_PARENT": "1"}
    del wanted["ONLY_IN_THE_WORKER"]
    monkeypatch.setattr(os, "environ", dict(os.environ))
    task = WorkerTask([], {}, b"", Resources(torch.device("cpu"), 1, {}), wanted, None)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        task.set_up_process()
        for category in (*SILENT_WARNINGS, UserWarning):
            warnings.warn("text", category, stacklevel=1)
    assert [warning.category for warning in shown] == [UserWarning]
    assert os.environ == wanted


def test_a_worker_that_ends_with_its_parent_removes_its_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Parent:
        def join(self) -> None:
            pass

    def leave(_: int) -> None:
        assert not part.exists()
        raise SystemExit

    part = tmp_path / ".last.safetensors.1.part"
    part.touch()
    monkeypatch.setattr(atomic, "_unfinished", {part})
    monkeypatch.setattr(multiprocessing, "parent_process", Parent)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(atomic, "_creation", threading.RLock())
    with pytest.raises(SystemExit):
        worker_main._end_with_parent()
    late = threading.Thread(target=atomic.atomic_write, args=(tmp_path / "late", b""), daemon=True)
    late.start()
    late.join(0.05)
    assert not [*tmp_path.iterdir()], "a file was created after the others were removed"
    atomic._creation.release()
    late.join()


def test_an_interrupt_in_python_saves_and_is_logged(tmp_path: Path) -> None:
    parted = slow(runs(tmp_path, variants=SCORES[:2], seeds=1))

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parted, 2, callbacks=Callbacks(epoch=interrupt))
    assert not multiprocessing.active_children()
    logs = [(folder.path / "train.log").read_text() for _, folder in parted]
    assert all(log.splitlines()[-1].endswith("ended: KeyboardInterrupt") for log in logs)
    assert any(folder.last.exists() for _, folder in parted)


@pytest.mark.parametrize("workers", [0, -1, 1.0, 2.5, "2", 10**7])
def test_the_number_of_workers_in_python_is_checked(workers: Any, tmp_path: Path) -> None:
    for function, more in ((seqattn.compare, {}), (seqattn.train_seeds, {"seeds": 2})):
        with pytest.raises(UsageError, match="workers .*: expected"):
            function("compare/scores", output_dir=tmp_path, workers=workers, **more)
    assert not [*tmp_path.iterdir()]


def test_the_memory_of_a_worker_includes_its_task_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[tuple[WorkerTask, int]]()

    def start(pool: Any, task: WorkerTask, memory: int) -> None:
        started.append((task, memory))
        pool.stop.value = 1

    monkeypatch.setattr(worker_processes._Pool, "_start_worker", start)
    groups = group_jobs(prepare_jobs(runs(tmp_path), resume=False))
    pool = worker_processes._Pool(groups, Resources(torch.device("cpu"), 1, {}), Callbacks(), 2)
    group = groups[pool.waiting[-1]]
    pool._start_workers()
    ((task, memory),) = started
    assert memory == 2 * estimate_run_memory(group[0]) + 2 * len(task.jobs)
