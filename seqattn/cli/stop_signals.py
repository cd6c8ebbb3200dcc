"""Signals that stop training after the current step is finished and saved."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from seqattn.cli.output import note


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
    if (storage := sys.modules.get("seqattn.runs.storage")) is not None:
        storage.remove_unfinished()
    if (fork_server := sys.modules.get("seqattn.runs.fork_server")) is not None:
        fork_server.remove_socket_folders()
    note(f"seqattn: {signal.Signals(number).name}: {message}")
    os._exit(128 + number)
