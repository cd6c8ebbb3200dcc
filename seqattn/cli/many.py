"""Started by torchrun: one process among several of one training."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seqattn.cli.output import note
from seqattn.errors import DistributedError, UsageError

if TYPE_CHECKING:
    from seqattn.cli.terminal import StopRequest
    from seqattn.runs import RunFolder
    from seqattn.training import ProcessGroup


def are_several() -> bool:
    """Whether torchrun's environment says that there are more processes than this one."""
    size = os.environ.get("WORLD_SIZE", "1")
    return size.isascii() and size.isdigit() and int(size) > 1 and "RANK" in os.environ


def check_one_run(verb: str) -> None:
    """
    Raises:
        UsageError: a command that trains many runs was started as several processes.
    """
    if are_several():
        raise UsageError(
            f"{verb} trains many runs in one process; several processes share the batches of one"
            " run. Leave torchrun out."
        )


def launcher() -> str:
    """Who started this process: the same for processes that torchrun has started again."""
    return f"{socket.gethostname()} {os.getppid()}"


def goes_on(folder: RunFolder) -> bool:
    """Whether torchrun has started these processes again after one was lost, and the run that is
    there is the one they were at."""
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
    return again and folder.is_run and folder.read_environment().get("launcher") == launcher()


@contextlib.contextmanager
def process_group(
    device: str, seeds: int | None, told: StopRequest
) -> Iterator[ProcessGroup | None]:
    """The processes of this training; None where it has only this one. One that loses the others
    ends here: with the exit code of DistributedError, or with the signal's where it was told to
    stop, as the others probably were.

    Raises:
        UsageError: many seeds are asked for, in several processes.
        DistributedError: the others cannot be reached.
    """
    if not are_several():
        yield None
        return
    if seeds is not None:
        raise UsageError(
            "--seeds trains side by side in one process; several processes share the batches of one"
            " run. Leave --seeds or torchrun out."
        )
    from seqattn.experiments import choose_device
    from seqattn.training import ProcessGroup

    world = ProcessGroup.init(choose_device(device))
    assert world is not None
    try:
        yield world
    except DistributedError as error:
        # What is left of the connections may wait for a process that is gone, even at the end.
        note(f"seqattn: {error}")
        os._exit(128 + told.numbers[0] if told.numbers else error.exit_code)
    finally:
        world.destroy()
