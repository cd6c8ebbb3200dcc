"""Signals that stop training after the current step is saved, or that end a command whose output
nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from seqattn.cli.output import check_stdout, note

CLEANUPS = (
    ("seqattn.runs.storage", "remove_unfinished"),
    ("seqattn.runs.fork_server", "remove_socket_folders"),
    ("seqattn.data.tables.connection", "remove_folders"),
)
"""The functions that remove the temporary files of a module, if the module is loaded."""


@dataclass
class StopRequest:
    """A request to stop training. The request consists of the stop signals received so far.

    Attributes:
        started: whether training has started. Before training starts, a signal ends the process at
            once.
        signals: the numbers of the signals received since training started.
    """

    started: bool = False
    signals: list[int] = field(default_factory=list)


@contextlib.contextmanager
def defer_stop_signals() -> Iterator[StopRequest]:
    """Defer SIGINT and SIGTERM in the `with` block, and yield the record of these signals.

    Before training starts, a signal ends the process at once. After that, the first signal is only
    recorded, and the second signal ends the process at once. SIGHUP is ignored, so training
    continues when the terminal is closed.
    """
    request = StopRequest()

    def record(number: int, frame: Any) -> None:
        if request.signals or not request.started:
            exit_on_signal(number, "leaving at once.")
        request.signals.append(number)
        note(f"{signal.Signals(number).name}: finishing the step and saving.")

    before = {number: signal.signal(number, record) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_on_signal(number: int, message: str) -> NoReturn:
    """End the process because of a signal, with exit code 128 + `number`.

    The function removes temporary files. A file that is being replaced keeps its old content.
    """
    _remove_temporary_files()
    note(f"seqattn: {signal.Signals(number).name}: {message}")
    os._exit(128 + number)


def end_on_closed_pipe() -> None:
    """Let SIGPIPE end the process (exit code 141) when the reader closes stdout (`| head`).

    A command that writes files must not call this function before it has written all of them.

    Raises:
        StorageError: see `seqattn.cli.output.check_stdout`.
    """
    check_stdout()
    if hasattr(signal, "SIGPIPE"):
        sys.stdout.flush()
        signal.signal(signal.SIGPIPE, exit_without_message)


def exit_without_message(number: int, frame: Any) -> NoReturn:
    """Remove temporary files, and end the process with exit code 128 + `number`."""
    _remove_temporary_files()
    os._exit(128 + number)


def _remove_temporary_files() -> None:
    for module, function in CLEANUPS:
        # A module that is being imported may not have defined the function yet.
        if remove := getattr(sys.modules.get(module), function, None):
            remove()
