"""Training of groups in worker processes, with one process for each group.

A worker trains its group with the function that trains a group in a single process, so the files of
a run do not depend on the number of workers, if the number of threads is the same. The parent
process, which starts the workers, checks all configs, holds the locks of the run folders, and shows
the progress. A worker writes the files of its runs.

A worker ignores stop signals. Instead, the parent process tells all workers to save and exit. If
the parent process is killed, its workers end at once, because its locks are released.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from ctypes import c_int
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from seqattn.config import OwnFile, as_plain
from seqattn.config.plugins import load_received, plugin_contents
from seqattn.data import Splits
from seqattn.data.tasks import naive_forecast_of
from seqattn.errors import DistributedError, Interrupted, SeqattnError
from seqattn.experiments.group_training import Resources, train_group
from seqattn.experiments.job import Callbacks, Job
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.experiments.worker_count import expected_seconds
from seqattn.runs import EpochRecord
from seqattn.runs.fork_server import ignore_stop_signals, start_fork_server
from seqattn.runs.storage import physical_memory

POLL_INTERVAL_SECONDS = 0.1
"""Time in seconds between two checks of the stop signal, and between two reports of a worker."""


@dataclass(frozen=True)
class _Task:
    """A group of jobs, as it is sent to a worker.

    Attributes:
        configs: the configs as plain data. A plugin's config section could not be received as an
            object before the plugin is loaded.
        plugins: the loaded plugins; see `plugin_contents`.
        jobs: the pickled jobs. Their data lack the naive baseline, which may be a function that
            cannot be pickled.
        resources: the device, threads and environment.
    """

    configs: list[dict[str, Any]]
    plugins: dict[str, bytes | None]
    jobs: bytes
    resources: Resources

    @classmethod
    def of(cls, jobs: Sequence[Job], resources: Resources) -> _Task:
        # Plain pickle copies tensors. The pickler of multiprocessing would share their memory,
        # which ends with the process.
        content = pickle.dumps(
            _replace_data(jobs, lambda job: replace(job.data, rule=None)), pickle.HIGHEST_PROTOCOL
        )
        return cls([as_plain(job.config) for job in jobs], plugin_contents(), content, resources)

    def load_jobs(self) -> list[Job]:
        """Load the plugins, and return the jobs.

        Raises:
            SeqattnError: for an error in a plugin.
        """
        load_received(self.plugins, self.configs)
        jobs: list[Job] = pickle.loads(self.jobs)  # noqa: S301 (from a process of this command)
        return _replace_data(jobs, _with_naive_baseline)


def _replace_data(jobs: Sequence[Job], new_data: Callable[[Job], Splits]) -> list[Job]:
    """Replace the data of each job. Jobs that share their data also share the new data."""
    data = {id(job.data): new_data(job) for job in jobs}
    return [replace(job, data=data[id(job.data)]) for job in jobs]


def _with_naive_baseline(job: Job) -> Splits:
    task = job.config.data
    return job.data if isinstance(task, OwnFile) else replace(
        job.data, rule=naive_forecast_of(task)
    )  # fmt: skip


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        process: the process.
        group: the index of its group.
        memory: the estimated memory of the group in bytes.
    """

    process: Any
    group: int
    memory: int


@dataclass
class _Pool:
    """The workers of one command, and their results.

    Attributes:
        groups: the groups to train.
        resources: see `train_in_workers`.
        callbacks: see `train_in_workers`.
        count: maximum number of workers at the same time.
        trained: the jobs of each group that has ended, with results, by the index of the group.
        error: the first error of a worker.
        waiting: the indices of the groups that wait for a worker, the longest group last.
        workers: the running workers by the connection on which they report.
    """

    groups: Sequence[Sequence[Job]]
    resources: Resources
    callbacks: Callbacks
    count: int
    trained: dict[int, list[Job]] = field(default_factory=dict)
    error: Exception | None = None
    waiting: list[int] = field(default_factory=list)
    workers: dict[Connection, _Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The longest groups start first, so that no long group starts when the others end.
        work = [expected_seconds(group) for group in self.groups]
        self.waiting = sorted(range(len(self.groups)), key=lambda k: work[k])
        self.context = start_fork_server()
        self.stop = self.context.RawValue(c_int, 0)

    def train(self) -> None:
        """Train all groups, until a worker fails or a stop is requested."""
        try:
            while self.workers or (self.waiting and not self.stop.value):
                self._start_workers()
                for connection in wait([*self.workers], timeout=POLL_INTERVAL_SECONDS):
                    self._receive(cast(Connection, connection))
                self.stop.value = self.stop.value or self.callbacks.stop()
        finally:
            for worker in self.workers.values():  # none is left, unless a callback failed
                worker.process.kill()
            for worker in self.workers.values():
                worker.process.join()

    def _start_workers(self) -> None:
        while self.waiting and not self.stop.value and len(self.workers) < self.count:
            group = self.groups[self.waiting[-1]]
            memory = len(group) * estimate_run_memory(group[0])
            used = sum(worker.memory for worker in self.workers.values())
            if self.workers and used + memory > physical_memory() // 2:
                return
            here, there = self.context.Pipe(duplex=False)
            process = self.context.Process(
                target=_work, args=(_Task.of(group, self.resources), there, self.stop), daemon=True
            )
            try:
                process.start()
            except (EOFError, OSError) as error:
                self._fail(DistributedError(f"a worker process cannot be started: {error}."))
                return
            self.workers[here] = _Worker(process, self.waiting.pop(), memory)
            there.close()  # otherwise the end of the worker would not close the connection

    def _receive(self, connection: Connection) -> None:
        """Receive a report of a worker, or notice its end."""
        worker = self.workers[connection]
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            kind, content = "lost", None
        if kind == "message":
            self.callbacks.message(content)
        elif kind == "epochs":
            for record in content:
                self.callbacks.epoch(record)
        else:
            del self.workers[connection]
            connection.close()
            worker.process.join()
            self._end(worker, kind, content)

    def _end(self, worker: _Worker, kind: str, content: Any) -> None:
        """Keep the result of a worker that has ended. After an error, the others are stopped."""
        group = self.groups[worker.group]
        if kind == "trained":
            self.trained[worker.group] = [
                replace(job, summary=summary, error=error)
                for job, (summary, error) in zip(group, content, strict=True)
            ]
        elif kind == "error":
            self._fail(content)
        elif kind == "lost":
            error = DistributedError(_describe_loss(worker.process.exitcode))
            for job in group:
                with contextlib.suppress(OSError):
                    job.folder.log_line(f"ended: {error}")
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Keep the first error, and tell the workers to save and exit."""
        self.error = self.error or error
        self.stop.value = self.stop.value or signal.SIGTERM


def train_in_workers(
    groups: Sequence[Sequence[Job]], resources: Resources, callbacks: Callbacks, count: int
) -> list[list[Job]]:
    """Train groups in worker processes, each with one thread unless `resources` has a number.

    Args:
        groups: the groups. Their run folders are locked by this process and prepared.
        resources: the device and the threads of each worker.
        callbacks: progress callbacks and the stop signal.
        count: number of workers at the same time. Fewer workers run if their groups would use more
            than half of the memory of the machine.

    Returns:
        the jobs of each group with their summaries or errors, and with the states from which
        training started. The jobs of a group that a stop has interrupted are unchanged.

    Raises:
        DistributedError: if a worker was killed. The other workers have saved their groups.
        SeqattnError: see `train_group`.
    """
    pool = _Pool(groups, replace(resources, workers=count), callbacks, count)
    pool.train()
    if pool.error is not None:
        raise pool.error
    return [pool.trained.get(k, list(group)) for k, group in enumerate(groups)]


def _describe_loss(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        remedy = "--jobs 1 uses less memory." if name == "SIGKILL" else ""
        reason = f"by {name}{', perhaps because memory ran out' if remedy else ''}"
    else:
        reason = f"with exit code {exit_code}"
        remedy = (
            'In a Python script, workers need the guard if __name__ == "__main__":, and workers=1'
            " needs none."
        )
    return (
        f"a worker process was ended {reason}. The checkpoints on disk are complete. Repeat the"
        f" compare command, or use train --resume, to continue. {remedy}".rstrip()
    )


# --- the worker -----------------------------------------------------------------------------------


class _Reports:
    """The reports of a worker to the process that started it. Epochs are sent together."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.records = connection, list[EpochRecord]()
        self.sent_at = time.monotonic()

    def epoch(self, record: EpochRecord) -> None:
        self.records.append(record)
        if time.monotonic() - self.sent_at > POLL_INTERVAL_SECONDS:
            self.send_epochs()

    def send_epochs(self) -> None:
        if self.records:
            self.connection.send(("epochs", self.records))
        self.records, self.sent_at = [], time.monotonic()

    def message(self, line: str) -> None:
        self.send_epochs()
        self.connection.send(("message", line))


def _work(task: _Task, connection: Connection, stop: Any) -> None:
    """Train a group and send the result. This function is the main function of a worker."""
    ignore_stop_signals()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reports = _Reports(connection)
    callbacks = Callbacks(epoch=reports.epoch, message=reports.message, stop=lambda: stop.value)
    try:
        trained = train_group(task.load_jobs(), task.resources, callbacks)
        result: tuple[str, Any] = "trained", [(job.summary, job.error) for job in trained]
    except Interrupted:
        result = "stopped", None
    except (SeqattnError, OSError) as error:
        result = "error", _picklable(error)
    except Exception:
        result = "error", RuntimeError(f"a worker process failed:\n{traceback.format_exc()}")
    reports.send_epochs()
    connection.send(result)
    connection.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)  # the files are closed, and the ordinary end of a process with torch takes longer


def _picklable(error: Exception) -> Exception:
    """Return an error that another process can unpickle, with the same message and exit code. A
    plugin's error class may need arguments other than a message."""
    if type(error).__module__ in {"seqattn.errors", "builtins"}:
        return error
    same = SeqattnError(str(error))
    same.exit_code = getattr(error, "exit_code", SeqattnError.exit_code)
    return same


def _end_with_parent() -> None:
    """End this process when the process that started it has ended. No state is saved, as if this
    process had been killed, too."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
