"""Training of groups in worker processes, with one process for each group.

A worker trains its group with the function that a command without workers also uses. With the same
number of threads, the results of a run therefore do not depend on the number of workers. The parent
process, which starts the workers, checks all configs, holds the locks of the run folders, and shows
the progress. A worker writes the files of its runs.

When the parent process starts a worker, it passes only small objects. If it passed a large object
and the worker ended too early, the parent process could be blocked. A worker reports when it is
ready, and then receives its task.

A worker ignores stop signals. Instead, the parent process tells all workers to save and exit. If
the parent process is killed, its workers end at once, because the locks of the run folders are then
released and another process may write to these folders.

The expected time of a group follows from the sizes of its data and its model. The two time
constants were fitted to four workloads of `scripts/bench.py` with manual gradients: A, B, C, and 64
seeds of A. For these workloads, the estimates are 0.8 to 1.2 times the measured times. Models that
are trained by autograd need two to four times the estimated time. The estimates decide only which
groups start first, and whether workers save more time than their start takes. Errors in the
estimates therefore do not change results.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from ctypes import c_int
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from seqattn.config import OwnFile, PluginChangedWarning, as_plain
from seqattn.config.plugins import SOURCES, load_received, plugin_contents
from seqattn.data import Windows
from seqattn.data.tasks import naive_forecast_of
from seqattn.errors import DistributedError, Interrupted, SeqattnError
from seqattn.experiments.group_training import Resources, describe_saved, log_end, train_group
from seqattn.experiments.job import Callbacks, Job
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.models import activations_per_sequence
from seqattn.runs import EpochRecord
from seqattn.runs.folder import hold_lines
from seqattn.runs.fork_server import (
    blocked_stop_signals,
    end_with_parent,
    ignore_stop_signals,
    start_fork_server,
)
from seqattn.runs.storage import allow_open_files, core_count, physical_memory
from seqattn.training.batches import is_gathered
from seqattn.training.threads import MIN_MULTIPLICATIONS

SECONDS_PER_STEP = 0.5e-3
"""Time in seconds of a training step without the time for its values."""
SECONDS_PER_VALUE = 1.5e-9
"""Time in seconds for each value that the forward pass stores."""
START_SECONDS = 2.0
"""Time in seconds to start the workers, mostly to import torch. If the number of workers is
not given, workers are used only if they save more than this time."""
MAX_WORKERS = 1024 if os.name == "posix" else 60
"""Windows waits for at most 63 connections and processes at once."""


def expected_seconds(jobs: Sequence[Job]) -> float:
    """Estimate the time in seconds of the epochs that a group has left, on one thread."""
    first = jobs[0]
    steps = _epochs_left(first) * first.data.batches(first.config.training.batch_size)
    values = sum(
        _epochs_left(job) * len(job.data.train) * activations_per_sequence(
            job.config.model, *job.lengths, alone=len(jobs) == 1
        )
        for job in jobs
    )  # fmt: skip
    return SECONDS_PER_STEP * steps + SECONDS_PER_VALUE * values


def _epochs_left(job: Job) -> int:
    return max(0, job.config.training.epochs - job.position[0])


def worker_count(groups: Sequence[Sequence[Job]], resources: Resources, jobs: int | None) -> int:
    """Return how many workers train groups at the same time; 1 if this process trains all groups.
    The requested number of workers is `jobs`; None to choose the number."""
    if jobs == 1 or reason_for_one_process(groups, resources) is not None:
        return 1
    if jobs is not None:
        return min(jobs, len(groups), MAX_WORKERS)
    threads = [resources.threads]  # those of a resumed run are as before
    threads += [job.environment_of_state.get("threads") for group in groups for job in group]
    cores = core_count() // max(number or 1 for number in threads)
    possible = min(len(groups), cores, MAX_WORKERS)
    if possible <= 1:
        return 1
    if possible < cores:
        # One large group at a time on all cores may be faster, unless all groups are so small that
        # training uses one thread and does not measure the speed with more threads.
        for group in groups:
            steps = sum(group[0].lengths) * group[0].config.training.batch_size
            if 3 * len(group) * group[0].parameters * steps >= MIN_MULTIPLICATIONS:
                return 1
    expected = [expected_seconds(group) for group in groups]
    saved = sum(expected) - max(max(expected), sum(expected) / possible)
    return possible if saved > START_SECONDS else 1


def reason_for_one_process(groups: Sequence[Sequence[Job]], resources: Resources) -> str | None:
    """Return why workers cannot train the groups, as the end of a sentence; None if they can.

    Runs on a GPU and runs that several processes share must be trained in this process. MLflow and
    Weights & Biases record all runs of a command from one process. Data that are read from disk
    during training would need another copy on disk for each worker. A worker cannot import a plugin
    or a main module that has no file.
    """
    if len(groups) <= 1:
        return "the runs are trained side by side, as one group"
    if resources.device.type != "cpu":
        return "the device is not the CPU"
    if resources.processes is not None:
        return "several processes share the run"
    if (reason := _reason_of_main_module()) is not None:
        return reason
    jobs = [*itertools.chain(*groups)]
    if any(job.config.logging.mlflow or job.config.logging.wandb for job in jobs):
        return "MLflow or Weights & Biases records the runs"
    for data in {id(job.data): job.data for job in jobs}.values():
        parts = (data.train, data.validation, data.test, data.baseline_part)
        is_on_disk = any(isinstance(part, Windows) and part.is_on_disk for part in parts)
        if is_on_disk or any(map(is_gathered, parts[:2])):
            return "the data are read from the disk cache, or are too large for memory"
    return None


def _reason_of_main_module() -> str | None:
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is not None and not Path(main).is_file():
        return "the main script has no file, for example because it comes from standard input"
    if any(source.module == "__main__" and not source.path for source in SOURCES.values()):
        return "a plugin is defined in a notebook or in an interactive session"
    return None


# --- the task of a worker -------------------------------------------------------------------------


SILENT_WARNINGS = (PluginChangedWarning,)
"""The warnings about configs and runs that a worker does not show, because the parent process has
checked the same configs and runs."""


@dataclass(frozen=True)
class WorkerTask:
    """A group of jobs, as it is sent to a worker.

    Attributes:
        configs: the configs as plain data, because a worker cannot unpickle a plugin's config
            section before it has loaded the plugin.
        jobs: the pickled jobs. Their data lack the naive baseline, which may be a function that
            cannot be pickled.
        variables: the environment variables of the parent process. A worker starts with the
            variables of the fork server, which may be older.
        start_method: the start method of `multiprocessing` that the parent process has selected;
            None for the default of the system. Without this value, a worker would use the method
            with which it was started.
    """

    configs: list[dict[str, Any]]
    plugins: dict[str, bytes | None]
    jobs: bytes
    resources: Resources
    variables: Mapping[str, str]
    start_method: str | None

    @classmethod
    def of(cls, jobs: Sequence[Job], resources: Resources) -> WorkerTask:
        # Plain pickle copies tensors. The pickler of multiprocessing would share their memory,
        # which ends with the process.
        data = {id(job.data): replace(job.data, rule=None) for job in jobs}  # shared as before
        content = pickle.dumps(
            [replace(job, data=data[id(job.data)]) for job in jobs], pickle.HIGHEST_PROTOCOL
        )
        return cls(
            configs=[as_plain(job.config) for job in jobs],
            plugins=plugin_contents(),
            jobs=content,
            resources=resources,
            variables=dict(os.environ),
            start_method=multiprocessing.get_start_method(allow_none=True),
        )

    def set_up_process(self) -> None:
        """Give this process the settings of the parent process. Plugins may depend on them."""
        for name in set(os.environ) - set(self.variables):
            del os.environ[name]
        os.environ.update(self.variables)
        multiprocessing.set_start_method(self.start_method, force=True)
        for category in SILENT_WARNINGS:
            warnings.simplefilter("ignore", category)

    def load_jobs(self) -> list[Job]:
        """Load the plugins, and return the jobs with the naive baseline of their tasks."""
        load_received(self.plugins, self.configs)
        jobs: list[Job] = pickle.loads(self.jobs)  # noqa: S301 (from a process of this command)
        data = {id(job.data): job.data for job in jobs}
        for job in jobs:
            if not isinstance(task := job.config.data, OwnFile):
                data[id(job.data)] = replace(job.data, rule=naive_forecast_of(task))
        return [replace(job, data=data[id(job.data)]) for job in jobs]


# --- in a worker process --------------------------------------------------------------------------


POLL_INTERVAL_SECONDS = 0.1
"""Time in seconds between two checks of the stop signal, and between two reports of a worker."""
ENDING_SECONDS = 5.0
"""Time in seconds after which processes that should end are killed."""


class _Reports:
    """The reports of a worker to the process that started it. The records of several epochs may be
    sent as one message."""

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


def work(connection: Connection, stop: Any) -> None:
    """Receive a task, train the group, and send the result. Each worker process runs this
    function."""
    ignore_stop_signals()
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=connection.close)  # so that its end is noticed
    end_with_parent()
    reports = _Reports(connection)
    callbacks = Callbacks(epoch=reports.epoch, message=reports.message, stop=lambda: stop.value)
    try:
        connection.send(("ready", None))
        task = connection.recv()
        task.set_up_process()
        trained = train_group(task.load_jobs(), task.resources, callbacks)
        result: tuple[str, Any] = "trained", [(job.summary, job.error) for job in trained]
    except Interrupted:
        result = "stopped", None
    except (SeqattnError, OSError) as error:
        result = "error", _picklable(error)
    except BaseException:  # a plugin may also raise SystemExit
        result = "error", RuntimeError(f"a worker process failed:\n{traceback.format_exc()}")
    with contextlib.suppress(OSError):  # the parent process has closed the connection
        reports.send_epochs()
        connection.send(result)
    connection.close()
    # Like Python at exit, this process waits for processes of plugins that are not daemons.
    end = time.monotonic() + ENDING_SECONDS
    for child in multiprocessing.active_children():
        if not child.daemon:
            child.join(max(0.0, end - time.monotonic()))
        child.kill()
        child.join()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)  # the files are closed, and the ordinary end of a process with torch takes longer


def _picklable(error: Exception) -> Exception:
    """Return an error that another process can unpickle, with the same message and exit code. An
    error becomes a `SeqattnError` if its class is neither in `seqattn.errors` nor built in, because
    such a class may need arguments other than a message."""
    if type(error).__module__ in {"seqattn.errors", "builtins"}:
        return error
    same = SeqattnError(str(error))
    same.exit_code = getattr(error, "exit_code", SeqattnError.exit_code)
    return same


# --- in the process that starts the workers -------------------------------------------------------


FILES_PER_WORKER = 3
"""The number of open files of this process for each worker: a connection and two ends of pipes."""


@dataclass
class _Worker:
    """A worker process."""

    process: Any
    group: int
    memory: int
    task: WorkerTask | None
    is_ready: bool = False


@dataclass
class _Pool:
    """The workers of one command, and their results.

    Attributes:
        trained: the jobs, with their results, of each group whose worker has finished the training,
            by the index of the group.
        waiting: the indices of the groups that wait for a worker, sorted by expected time; the
            group with the longest time is last.
        next_task: the task of the last group in `waiting`; None if it is not pickled yet.
        workers: the running workers by the connection on which they report.
    """

    groups: Sequence[Sequence[Job]]
    resources: Resources
    callbacks: Callbacks
    count: int
    trained: dict[int, list[Job]] = field(default_factory=dict)
    error: Exception | None = None
    waiting: list[int] = field(default_factory=list)
    next_task: WorkerTask | None = None
    workers: dict[Connection, _Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The longest groups start first, so that no long group starts when the others end.
        work = [expected_seconds(group) for group in self.groups]
        self.waiting = sorted(range(len(self.groups)), key=lambda k: work[k])
        self.context = start_fork_server()
        self.stop = self.context.RawValue(c_int, 0)

    def train(self) -> None:
        """Train the groups until all have ended, a worker fails, or a stop is requested."""
        atexit.register(self._kill)  # Python may exit while another thread waits here
        try:
            while self.workers or (self.waiting and not self.stop.value):
                self._start_workers()
                self._receive_reports()
                self.stop.value = self.stop.value or self.callbacks.stop()
        except BaseException as error:  # of a callback, or KeyboardInterrupt
            self._end_workers(error)
            raise
        finally:
            self._kill()
            atexit.unregister(self._kill)
            for connection in self.workers:
                connection.close()
            self.workers.clear()

    def _end_workers(self, error: BaseException) -> None:
        """Tell the workers to save and exit, wait for a short time, kill the workers that still
        run, and log the error."""
        running = [worker.group for worker in self.workers.values()]
        self.callbacks = Callbacks()
        self.stop.value = self.stop.value or signal.SIGTERM
        end = time.monotonic() + ENDING_SECONDS
        try:
            while self.workers and time.monotonic() < end:
                self._receive_reports()
        finally:
            self._kill()
            for group in running:
                if group not in self.trained:
                    log_end(self.groups[group], error)

    def _kill(self) -> None:
        """Kill the workers that still run, and start no more workers."""
        self.stop.value = self.stop.value or signal.SIGTERM
        left = [*self.workers.values()]
        for worker in left:
            worker.process.kill()
        for worker in left:
            worker.process.join()

    def _start_workers(self) -> None:
        while self.waiting and not self.stop.value and len(self.workers) < self.count:
            group = self.groups[self.waiting[-1]]
            try:
                task = self.next_task = self.next_task or WorkerTask.of(group, self.resources)
            except Exception as error:  # data or a state of a plugin may not be picklable
                self._fail(
                    DistributedError(
                        f"{group[0].folder.path}: the run cannot be sent to a worker process"
                        f" ({type(error).__name__}: {error}). --jobs 1 uses no worker."
                    )
                )
                return
            # A worker has the pickled jobs and the jobs at the same time.
            memory = len(group) * estimate_run_memory(group[0]) + 2 * len(task.jobs)
            used = sum(worker.memory for worker in self.workers.values())
            if self.workers and used + memory > physical_memory() // 2:
                return
            try:
                self._start_worker(task, memory)
            except (EOFError, OSError) as error:
                self._fail(DistributedError(f"a worker process cannot be started: {error}."))
                return

    def _start_worker(self, task: WorkerTask, memory: int) -> None:
        """Start a worker for the last group in `waiting`."""
        here, there = self.context.Pipe()
        process = self.context.Process(target=work, args=(there, self.stop))
        try:
            with blocked_stop_signals():
                process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()  # otherwise the end of the worker would not close the connection
        self.workers[here] = _Worker(process, self.waiting.pop(), memory, task)
        self.next_task = None

    def _receive_reports(self) -> None:
        for connection in wait([*self.workers], timeout=POLL_INTERVAL_SECONDS):
            self._receive(cast("Connection", connection))

    def _receive(self, connection: Connection) -> None:
        """Receive a report from a worker, or notice the end of the worker."""
        worker = self.workers[connection]
        try:
            kind, content = connection.recv()
            if kind == "ready":
                worker.is_ready = True
                connection.send(worker.task)
                worker.task = None
                return
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
        """Keep the result of a worker that has ended. After an error, stop the other workers."""
        group = self.groups[worker.group]
        if kind == "trained":
            self.trained[worker.group] = [
                replace(job, summary=summary, error=error)
                for job, (summary, error) in zip(group, content, strict=True)
            ]
        elif kind == "error":
            self._fail(content)
        elif kind == "lost":
            error = DistributedError(
                _describe_loss(worker.process.exitcode, group, was_ready=worker.is_ready)
            )
            log_end(group, error)
            self._fail(error)
        else:
            assert kind == "stopped"  # the group is saved, and the caller reports the stop

    def _fail(self, error: Exception) -> None:
        """Keep the first error, and tell the workers to save and exit."""
        self.error = self.error or error
        self.stop.value = self.stop.value or signal.SIGTERM


def train_in_workers(
    groups: Sequence[Sequence[Job]], resources: Resources, callbacks: Callbacks, count: int
) -> list[list[Job]]:
    """Train groups in up to `count` worker processes at the same time. Fewer workers run if their
    groups would use more than half of the memory of the machine. Each worker uses one thread,
    unless `resources` contains a number of threads or a resumed run keeps its earlier number. This
    process has already locked and prepared the run folders.

    Returns:
        the jobs of each group with their summaries or errors, and with the states from which
        training started. If a stop has interrupted a group or has kept it from starting, the jobs
        of this group are unchanged.

    Raises:
        DistributedError: if a worker was killed or cannot be started, or if a group cannot be
            pickled. The other workers save their groups first.
    """
    allow_open_files(sum(map(len, groups)) + FILES_PER_WORKER * count)
    pool = _Pool(groups, replace(resources, workers=count), callbacks, count)
    # Only a worker knows whether its run has replaced the earlier run, whose log must not change.
    with hold_lines([job.folder.path for group in groups for job in group if job.replaces]):
        pool.train()
    if pool.error is not None:
        raise pool.error
    return [pool.trained.get(k, list(group)) for k, group in enumerate(groups)]


def _describe_loss(exit_code: int | None, jobs: Sequence[Job], *, was_ready: bool) -> str:
    remedy = ""
    if exit_code is not None and exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:  # the real-time signals have no names
            name = f"signal {-exit_code}"
        reason = f"by {name}"
        if name == "SIGKILL":
            reason = f"{reason}, perhaps because memory ran out"
            remedy = "--jobs 1 uses less memory."
    else:
        reason = f"with exit code {exit_code}"
        if not was_ready:  # for example, because the main script starts workers itself
            remedy = (
                'In a Python script, workers need the guard if __name__ == "__main__":, and'
                " workers=1 needs none."
            )
    return f"a worker process was ended {reason}. {describe_saved(jobs)} {remedy}".rstrip()
