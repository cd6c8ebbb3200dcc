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
"""

from __future__ import annotations

import atexit
import signal
import time
from collections.abc import Sequence
from ctypes import c_int
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from seqattn.errors import DistributedError
from seqattn.experiments.group_training import Resources, describe_saved, log_end
from seqattn.experiments.job import Callbacks, Job
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.experiments.worker_count import expected_seconds
from seqattn.experiments.worker_main import ENDING_SECONDS, POLL_INTERVAL_SECONDS, work
from seqattn.experiments.worker_task import WorkerTask
from seqattn.runs.fork_server import blocked_stop_signals, start_fork_server
from seqattn.runs.storage import allow_open_files, physical_memory
from seqattn.runs.train_log import hold_lines

FILES_PER_WORKER = 3
"""The number of open files of this process for each worker: a connection and two ends of pipes."""


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        process: the process.
        group: the index of its group.
        memory: the estimated memory of the group in bytes.
        task: the task; None after the task is sent.
        is_ready: whether the worker has reported that it is ready.
    """

    process: Any
    group: int
    memory: int
    task: WorkerTask | None
    is_ready: bool = False


@dataclass
class _Pool:
    """The workers of one command, and their results.

    Attributes:
        groups: the groups to train.
        resources: see `train_in_workers`.
        callbacks: see `train_in_workers`.
        count: maximum number of workers at the same time.
        trained: the jobs, with their results, of each group whose worker has finished the training,
            by the index of the group.
        error: the first error of a worker.
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
        """Start a worker for the last group in `waiting`.

        Raises:
            EOFError, OSError: if the process cannot be started.
        """
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
    """Train groups in worker processes. Each worker uses one thread, unless `resources` contains a
    number of threads or a resumed run keeps its earlier number.

    Args:
        groups: the groups. This process has already locked and prepared their run folders.
        resources: the device and the threads of each worker.
        callbacks: progress callbacks and the stop signal.
        count: number of workers at the same time. Fewer workers run if their groups would use more
            than half of the memory of the machine.

    Returns:
        the jobs of each group with their summaries or errors, and with the states from which
        training started. If a stop has interrupted a group or has kept it from starting, the jobs
        of this group are unchanged.

    Raises:
        DistributedError: if a worker was killed or cannot be started, or if a group cannot be
            pickled. The other workers save their groups first.
        SeqattnError: see `train_group`.
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
        name = _signal_name(-exit_code)
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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names
        return f"signal {number}"
