"""The main function of a worker process, which trains one group of runs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from seqattn.errors import Interrupted, SeqattnError
from seqattn.experiments.group_training import train_group
from seqattn.experiments.job import Callbacks
from seqattn.runs import EpochRecord
from seqattn.runs.fork_server import end_with_parent, ignore_stop_signals

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
    _end_children()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)  # the files are closed, and the ordinary end of a process with torch takes longer


def _end_children() -> None:
    """End the processes that plugins have started. Like Python at exit, this function waits for
    processes that are not daemons, but kills them after `ENDING_SECONDS`."""
    children = multiprocessing.active_children()
    end = time.monotonic() + ENDING_SECONDS
    for child in children:
        if not child.daemon:
            child.join(max(0.0, end - time.monotonic()))
        child.kill()
        child.join()


def _picklable(error: Exception) -> Exception:
    """Return an error that another process can unpickle, with the same message and exit code. An
    error becomes a `SeqattnError` if its class is neither in `seqattn.errors` nor built in, because
    such a class may need arguments other than a message."""
    if type(error).__module__ in {"seqattn.errors", "builtins"}:
        return error
    same = SeqattnError(str(error))
    same.exit_code = getattr(error, "exit_code", SeqattnError.exit_code)
    return same
