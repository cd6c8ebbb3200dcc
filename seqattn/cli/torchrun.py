"""Distributed training, in which torchrun starts several processes for one run."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqattn.cli.output import note
from seqattn.errors import DistributedError, UsageError

if TYPE_CHECKING:
    from seqattn.cli.stop_signals import StopRequest
    from seqattn.runs import RunFolder
    from seqattn.training import ProcessGroup


def is_distributed() -> bool:
    """Return whether torchrun started this process together with other processes."""
    size = os.environ.get("WORLD_SIZE", "1")
    return size.isascii() and size.isdigit() and int(size) > 1 and "RANK" in os.environ


def check_not_distributed(command: str) -> None:
    """Check that torchrun did not start several processes of a command that trains many runs.

    Raises:
        UsageError: if torchrun started several processes of this command.
    """
    if is_distributed():
        raise UsageError(
            f"{command}: trains many runs in one process, but torchrun splits the batches of one"
            " run over processes. Run it without torchrun."
        )


def launcher_id() -> str:
    """Return a string with the host name and the process id of torchrun.

    The string remains the same if torchrun restarts the training processes.
    """
    return f"{socket.gethostname()} {os.getppid()}"


def is_torchrun_restart(folder: RunFolder) -> bool:
    """Return whether torchrun restarted the processes of the run in the folder.

    With its option `--max-restarts`, torchrun restarts all processes after one of them fails.
    """
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
    if not (restarted and folder.is_run):
        return False
    return folder.read_environment().get("launcher") == launcher_id()


@contextlib.contextmanager
def join_process_group(
    device: str, seeds: int | None, stop_request: StopRequest
) -> Iterator[ProcessGroup | None]:
    """Join the processes of a distributed training run, and yield the process group.

    The function yields None if the run has only one process. If this process loses the connection
    to the other processes, it ends with the exit code of `DistributedError`. However, if this
    process received a stop signal earlier, it ends with the exit code of the signal, because the
    other processes have probably received the signal as well.

    Args:
        device: "auto", "cpu" or "cuda".
        seeds: the value of `--seeds`; None if the option is not given.
        stop_request: the stop signals received so far.

    Raises:
        UsageError: if the run has several processes and `--seeds` is given.
        DistributedError: if this process cannot reach the other processes.
    """
    if not is_distributed():
        yield None
        return
    if seeds is not None:
        raise UsageError(
            "--seeds trains many runs in one process, but torchrun splits the batches of one run"
            " over processes. Leave out --seeds or torchrun."
        )
    from seqattn.experiments import choose_device
    from seqattn.training import ProcessGroup

    processes = ProcessGroup.init(choose_device(device))
    assert processes is not None
    try:
        yield processes
    except DistributedError as error:
        # An ordinary exit closes the connections, and this may wait for a process that has ended.
        note(f"seqattn: {error}")
        os._exit(128 + stop_request.signals[0] if stop_request.signals else error.exit_code)
    finally:
        processes.destroy()
