"""Functions that start the fork server for worker processes, and protect these processes from stop
signals."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.util
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from seqattn.runs.storage import remove_unfinished

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

TRAINING_MODULES = ("seqattn.cli", "seqattn.experiments.workers")
"""The modules that the fork server imports once for all workers."""
_socket_folders = set[str]()


def start_fork_server() -> ForkServerContext | SpawnContext:
    """Start the fork server, unless it is already running, and return the `multiprocessing` context
    that starts processes.

    The server imports torch, which takes one or two seconds. This function does not wait for the
    import. If the system does not support a fork server, or if the server cannot
    start, the function returns the context of the start method "spawn", with which each process
    imports the modules itself.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*TRAINING_MODULES])
    try:
        resource_tracker.ensure_running()  # changes the blocked signals itself
        with blocked_stop_signals():
            forkserver.ensure_running()
        _socket_folders.add(multiprocessing.util.get_temp_dir())
    except OSError:  # for example, the path of the server's socket is too long
        return multiprocessing.get_context("spawn")
    return context


def remove_socket_folders() -> None:
    """Remove the folder with the socket of the fork server. Call this function before an exit that
    skips all other cleanup."""
    for folder in _socket_folders:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def blocked_stop_signals() -> Iterator[None]:
    """Block stop signals in the `with` block. A process that starts in the block inherits the
    signal mask, so a stop signal to the whole process group cannot end the new process."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Ignore stop signals in this process. A worker calls this function at its start.

    SIGINT and SIGTERM are neither blocked nor set to `SIG_IGN`, because child processes would
    inherit either setting. Instead, both signals have a handler that does nothing. A fork of this
    process restores the default action of SIGTERM, so that SIGTERM can end the processes that a
    plugin starts.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _do_nothing)
        if hasattr(signal, "siginterrupt"):
            signal.siginterrupt(number, False)  # system calls go on
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

    def restore_in_child() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unblock()

    block, unblock = (
        partial(signal.pthread_sigmask, how, {signal.SIGTERM})
        for how in (signal.SIG_BLOCK, signal.SIG_UNBLOCK)
    )
    # A signal that arrives before the default is restored must wait.
    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore_in_child)


def end_with_parent() -> None:
    """End this process as soon as the process that started it has ended. This process then removes
    its temporary files, but saves no state."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    remove_unfinished()
    os._exit(1)


def _do_nothing(number: int, frame: Any) -> None:
    pass
