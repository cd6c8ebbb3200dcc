"""What happens to the other groups if a worker, its parent or the disk fails."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqattn.config import resolve
from seqattn.config.plugins import load_plugin
from seqattn.errors import DataError, DistributedError, Interrupted, StorageError
from seqattn.experiments import Callbacks, workers
from seqattn.runs import RunFolder, fork_server
from seqattn.runs.storage import atomic
from tests.conftest import ROOT
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
from tests.faults.disk import mounted
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

    def kill_one(_: Any) -> None:
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
from seqattn.runs.storage import core_count

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

    sent = pickle.loads(pickle.dumps(workers._picklable(MineError("a", 3))))
    assert (str(sent), sent.exit_code) == ("a: 3", 3)
    full = OSError(28, "No space left on device", "file")
    assert workers._picklable(full) is full


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


def test_data_that_cannot_be_sent_stop_the_other_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[bytes]()

    def dumps(jobs: Any, protocol: int) -> bytes:
        if sent:
            raise TypeError("cannot pickle 'mmap.mmap' object")
        sent.append(pickle.dumps(jobs, protocol))
        return sent[0]

    monkeypatch.setattr(workers, "pickle", SimpleNamespace(dumps=dumps, HIGHEST_PROTOCOL=5))
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
    monkeypatch.setattr(workers, "start_fork_server", lambda: context)
    parted = runs(tmp_path, "data.n_train=5000", seeds=1)
    main = sys.modules["__main__"]
    with monkeypatch.context() as patch:
        patch.setattr(main, "__spec__", None)
        patch.setattr(main, "__file__", str(script), raising=False)
        with pytest.raises(DistributedError, match="ended abruptly.* if __name__ == "):
            train(parted, 2)
    assert not multiprocessing.active_children()


def test_stop_signals_are_blocked_while_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that spawn starts imports torch before it can ignore signals."""
    blocked = set[int]()

    def submit(*_: Any) -> None:
        blocked.update(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise OSError("no process")

    monkeypatch.setattr(workers.ProcessPoolExecutor, "submit", submit)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(DistributedError, match="a worker process cannot be started: no process"):
        train(runs(tmp_path, seeds=1), 2)
    assert blocked >= {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


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
        fork_server._wait_for_parent()
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
