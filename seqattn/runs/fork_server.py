"""The fork server, which starts worker processes, and the signals that it must not receive."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOADED = ["seqattn.cli", "seqattn.experiments.worker_processes"]
"""The modules that the fork server imports once for all workers."""


def start_fork_server() -> ForkServerContext | SpawnContext:
    """Start the fork server, unless it is running, and return the context that starts workers.

    The server imports torch, which takes about two seconds. This function does not wait for it. If
    the system has no fork server, or if the server cannot start, the context starts each worker as
    a new process, which imports torch itself.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    try:
        resource_tracker.ensure_running()  # changes the blocked signals itself
        with _blocked_stop_signals():
            forkserver.ensure_running()
    except OSError:  # for example, the path of the server's socket is too long
        return multiprocessing.get_context("spawn")
    return context


@contextlib.contextmanager
def _blocked_stop_signals() -> Iterator[None]:
    """Block stop signals in the `with` block. A process that starts in the block inherits this, so
    a signal to the whole process group cannot end it."""
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Ignore stop signals in this process. A worker calls this function at its start."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
