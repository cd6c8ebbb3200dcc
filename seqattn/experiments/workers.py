"""Training of groups in worker processes, with one process for each group.

A worker trains its group with the function that a command without workers also uses. With the same
number of threads, the results of a run therefore do not depend on the number of workers. The parent
process, which starts the workers, checks all configs, holds the locks of the run folders, and shows
the progress. A worker writes the files of its runs.

A worker is a process pool with one process and one task. If a worker is killed, its group is
therefore known, and the other workers save their groups. A worker ignores stop signals. Instead,
the parent process tells all workers to save and exit. If the parent process is killed, its workers
end at once, because the locks of the run folders are then released and another process may write to
these folders.

The expected time of a group follows from the sizes of its data and its model. The two time
constants were fitted to four workloads of `scripts/bench.py` with manual gradients: A, B, C, and 64
seeds of A. For these workloads, the estimates are 0.8 to 1.2 times the measured times. Models that
are trained by autograd need two to four times the estimated time. The estimates decide only which
groups start first, and whether workers save more time than their start takes. Errors in the
estimates therefore do not change results.
"""

from __future__ import annotations

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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_int
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from seqattn.config import FromFiles, PluginChangedWarning, as_plain
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
MAX_WORKERS = 1024


def expected_seconds(jobs: Sequence[Job]) -> float:
    """Estimate the time in seconds of the epochs that a group has left, on one thread."""
    first = jobs[0]
    steps = _epochs_left(first) * first.data.batches(_batch_size(first))
    values = sum(
        _epochs_left(job) * len(job.data.train) * activations_per_sequence(
            job.config.model, *job.lengths, alone=len(jobs) == 1
        )
        for job in jobs
    )  # fmt: skip
    return SECONDS_PER_STEP * steps + SECONDS_PER_VALUE * values


def _batch_size(job: Job) -> int:
    """Return the number of the longest sequences in a batch."""
    return job.config.training.sequences_per_batch(max(job.lengths))


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
            steps = sum(group[0].lengths) * _batch_size(group[0])
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


# --- in a worker process --------------------------------------------------------------------------


POLL_INTERVAL_SECONDS = 0.1
"""Time in seconds between two checks of the stop signal, and between two reports of a worker."""
SILENT_WARNINGS = (PluginChangedWarning,)
"""The warnings about configs and runs that a worker does not show, because the parent process has
checked the same configs and runs."""
_connection: Connection
_stop: Any


@dataclass(frozen=True)
class _Task:
    """A group of jobs, as it is sent to a worker.

    Attributes:
        configs: the configs as plain data, because a worker cannot unpickle a plugin's config
            section before it has loaded the plugin.
        plugins: the plugins to load; see `plugin_contents`.
        jobs: the pickled jobs. Their data lack the naive baseline, which may be a function that
            cannot be pickled.
        resources: the resources of the group.
    """

    configs: Sequence[Mapping[str, Any]]
    plugins: Mapping[str, bytes | None]
    jobs: bytes
    resources: Resources


def _set_up_worker(
    connection: Connection, stop: Any, variables: Mapping[str, str], start_method: str | None
) -> None:
    """Prepare this process for a task. Plugins may depend on the settings of the parent process.

    Args:
        connection: the connection on which the worker reports.
        stop: the stop signal, a shared integer; 0 to go on.
        variables: the environment variables of the parent process. A worker starts with those of
            the fork server, which may be older.
        start_method: the start method of `multiprocessing` that the parent process has selected;
            None for the default of the system. Without it, processes that a plugin starts would
            have the signal mask of the fork server.
    """
    global _connection, _stop
    _connection, _stop = connection, stop
    ignore_stop_signals()
    end_with_parent()
    os.environ.clear()
    os.environ.update(variables)
    multiprocessing.set_start_method(start_method, force=True)
    for category in SILENT_WARNINGS:
        warnings.simplefilter("ignore", category)


def _train_task(task: _Task) -> list[tuple[Any, Any]] | None:
    """Train a group, and return the summary and the error of each job; None if a stop signal has
    interrupted the training."""
    records, sent_at = list[tuple[Path, EpochRecord]](), time.monotonic()

    def send_epochs() -> None:
        nonlocal sent_at
        _connection.send(("epochs", [*records]))
        records.clear()
        sent_at = time.monotonic()

    def epoch(folder: Path, record: EpochRecord) -> None:
        records.append((folder, record))
        if time.monotonic() - sent_at > POLL_INTERVAL_SECONDS:
            send_epochs()

    def message(line: str) -> None:
        send_epochs()
        _connection.send(("message", line))

    def ended(folder: Path) -> None:
        send_epochs()
        _connection.send(("ended", folder))

    try:
        send_epochs()  # the worker has started
        load_received(task.plugins, task.configs)
        group: list[Job] = pickle.loads(task.jobs)  # noqa: S301 (from a process of this command)
        data = {id(job.data): job.data for job in group}
        for job in group:
            if not isinstance(section := job.config.data, FromFiles):
                data[id(job.data)] = replace(job.data, rule=naive_forecast_of(section))
        group = [replace(job, data=data[id(job.data)]) for job in group]
        trained = train_group(group, task.resources, Callbacks(
            epoch=epoch, ended=ended, message=message, stop=lambda: int(_stop.value)
        ))  # fmt: skip
        return [(job.summary, job.error) for job in trained]
    except Interrupted:
        return None
    except (SeqattnError, OSError) as error:
        raise _picklable(error) from None
    except BaseException:  # a plugin may also raise SystemExit
        raise RuntimeError(f"a worker process failed:\n{traceback.format_exc()}") from None
    finally:
        with contextlib.suppress(OSError):  # the parent process has closed the connection
            send_epochs()


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


FILES_PER_WORKER = 10
"""The number of open files of this process for each worker: the ends of pipes and queues."""


@dataclass
class _Worker:
    """A process pool that trains one group.

    Attributes:
        group: the index of the group.
        jobs: the jobs of the group.
        memory: the estimated memory of the worker in bytes.
        pool: the pool of one process.
        future: the result of `_train_task`.
        connection: the connection on which the worker reports.
        has_started: whether the worker has sent a report.
    """

    group: int
    jobs: Sequence[Job]
    memory: int
    pool: ProcessPoolExecutor
    future: Future[Any]
    connection: Connection
    has_started: bool = False

    def receive_reports(self, callbacks: Callbacks) -> None:
        """Pass the reports that have arrived to the callbacks."""
        while True:
            try:
                if not self.connection.poll():
                    return
                kind, content = self.connection.recv()
            except (EOFError, OSError):  # the worker has ended
                return
            self.has_started = True
            if kind == "message":
                callbacks.message(content)
            elif kind == "ended":
                callbacks.ended(content)
            else:
                for folder, record in content:
                    callbacks.epoch(folder, record)

    def end(self) -> list[Job]:
        """Wait for the end of the process, and return the jobs with their summaries and errors, or
        unchanged after a stop.

        Raises:
            DistributedError: if the worker was killed.
        """
        self.pool.shutdown()
        self.connection.close()
        try:
            trained = self.future.result()
        except BrokenProcessPool:
            remedy = "--jobs 1 uses less memory."
            if not self.has_started:  # for example, because the main script starts workers itself
                remedy = (
                    'In a Python script, workers need the guard if __name__ == "__main__":, and'
                    " workers=1 needs none."
                )
            error = DistributedError(
                "a worker process ended abruptly, perhaps because memory ran out."
                f" {describe_saved(self.jobs)} {remedy}"
            )
            log_end(self.jobs, error)
            raise error from None
        if trained is None:
            return [*self.jobs]
        return [replace(job, summary=summary, error=error)
                for job, (summary, error) in zip(self.jobs, trained, strict=True)]  # fmt: skip


class _Workers:
    """The workers of one command, and their results.

    Attributes:
        trained: the jobs of each group, with their results if a worker has trained the group.
        failure: the first error of a worker; None if there was none.
        waiting: the indices of the groups that wait for a worker; the group with the longest
            expected time is last and starts first, so that no long group starts when the others
            end.
        running: the workers that train.
        stop: the stop signal of all workers, a shared integer; 0 to go on.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[Job]],
        resources: Resources,
        callbacks: Callbacks,
        count: int,
    ) -> None:
        self.groups, self.resources = groups, resources
        self.callbacks, self.count = callbacks, count
        self.trained = [[*group] for group in groups]
        self.failure: Exception | None = None
        seconds = [expected_seconds(group) for group in groups]
        self.waiting = sorted(range(len(groups)), key=seconds.__getitem__)
        self.running = list[_Worker]()
        self.context = start_fork_server()
        self.stop = self.context.RawValue(c_int, 0)
        self._task: _Task | None = None

    def train(self) -> None:
        """Train the groups until all have ended, a worker fails, or a stop is requested."""
        try:
            while self.running or (self.waiting and not self.stop.value):
                try:
                    self._start_workers()
                except DistributedError as error:
                    self.failure = self.failure or error
                wait([each.future for each in self.running], POLL_INTERVAL_SECONDS, FIRST_COMPLETED)
                for worker in [*self.running]:
                    self._receive(worker)
                self.stop.value = self.stop.value or (
                    signal.SIGTERM if self.failure else self.callbacks.stop()
                )
        except BaseException as error:  # of a callback, or KeyboardInterrupt
            self._save_groups(error)
            raise

    def _save_groups(self, error: BaseException) -> None:
        """Tell the workers to save and exit, wait for them, and log the error."""
        self.stop.value = self.stop.value or signal.SIGTERM
        for worker in self.running:
            while not worker.future.done():
                worker.receive_reports(Callbacks())
                wait([worker.future], POLL_INTERVAL_SECONDS)
            worker.pool.shutdown()
            if worker.future.exception() is not None or worker.future.result() is None:
                log_end(worker.jobs, error)

    def _start_workers(self) -> None:
        """Start workers for the next groups, as far as their number and their memory allow.

        Raises:
            DistributedError: if a group cannot be pickled, or a worker cannot be started.
        """
        while self.waiting and not self.stop.value and len(self.running) < self.count:
            group = self.groups[self.waiting[-1]]
            task = self._task = self._task or _pack_task(group, self.resources)
            # A worker has the pickled jobs and the jobs at the same time.
            memory = len(group) * estimate_run_memory(group[0]) + 2 * len(task.jobs)
            used = sum(worker.memory for worker in self.running)
            if self.running and used + memory > physical_memory() // 2:
                return
            here, there = self.context.Pipe(duplex=False)
            method = multiprocessing.get_start_method(allow_none=True)
            settings = (there, self.stop, dict(os.environ), method)
            pool = ProcessPoolExecutor(1, self.context, _set_up_worker, settings)
            try:
                with there, blocked_stop_signals():
                    future = pool.submit(_train_task, task)
            except (EOFError, OSError) as error:
                here.close()
                raise DistributedError(f"a worker process cannot be started: {error}.") from None
            self.running.append(_Worker(self.waiting.pop(), group, memory, pool, future, here))
            self._task = None

    def _receive(self, worker: _Worker) -> None:
        """Pass the reports of a worker to the callbacks, and keep its result if it has ended."""
        has_ended = worker.future.done()  # all its reports have arrived
        worker.receive_reports(self.callbacks)
        if not has_ended:
            return
        self.running.remove(worker)
        try:
            self.trained[worker.group] = worker.end()
        except Exception as error:
            self.failure = self.failure or error


def train_in_workers(
    groups: Sequence[Sequence[Job]], resources: Resources, callbacks: Callbacks, count: int
) -> list[list[Job]]:
    """Train groups in up to `count` worker processes at the same time. Fewer workers run if their
    groups would use more than half of the memory of the machine. Each worker uses one thread,
    unless `resources` contains a number of threads or a resumed run keeps its earlier number. This
    process has already locked and prepared the run folders. If a worker fails, the other workers
    save their groups, and the function raises the error.

    Returns:
        the jobs of each group with their summaries or errors, and with the states from which
        training started. If a stop has interrupted a group or has kept it from starting, the jobs
        of this group are unchanged.
    """
    allow_open_files(sum(map(len, groups)) + FILES_PER_WORKER * count)
    workers = _Workers(groups, replace(resources, workers=count), callbacks, count)
    # Only a worker knows whether its run has replaced the earlier run, whose log must not change.
    with hold_lines([job.folder.path for group in groups for job in group if job.replaces]):
        workers.train()
    if workers.failure is not None:
        raise workers.failure
    return workers.trained


def _pack_task(jobs: Sequence[Job], resources: Resources) -> _Task:
    """Return a group as a task for a worker.

    Raises:
        DistributedError: if the jobs cannot be pickled, such as data or a state of a plugin.
    """
    # Plain pickle copies tensors. The pickler of multiprocessing would share their memory, which
    # ends with the process.
    data = {id(job.data): replace(job.data, rule=None) for job in jobs}  # shared as before
    try:
        content = pickle.dumps(
            [replace(job, data=data[id(job.data)]) for job in jobs], pickle.HIGHEST_PROTOCOL
        )
    except Exception as error:
        raise DistributedError(
            f"{jobs[0].folder.path}: the run cannot be sent to a worker process"
            f" ({type(error).__name__}: {error}). --jobs 1 uses no worker."
        ) from None
    return _Task([as_plain(job.config) for job in jobs], plugin_contents(), content, resources)
