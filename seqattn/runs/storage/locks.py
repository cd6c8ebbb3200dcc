"""The lock of a folder: one process writes there at a time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from seqattn.errors import FolderLockedError
from seqattn.runs.storage.atomic import PART
from seqattn.runs.storage.files import open_regular, read_file

LOCK = ".lock"
"""The lock file in a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock a folder for writing, and remove temporary files of killed processes. Readers need no
    lock.

    Raises:
        FolderLockedError: another process holds it.
        OSError: the folder cannot be written to.
    """
    with locked(folder):
        for unfinished in (*folder.glob(f".*{PART}"), *folder.glob(f"*/.*{PART}")):
            if not _is_being_written(unfinished):
                unfinished.unlink(missing_ok=True)
        yield


@contextlib.contextmanager
def locked(
    folder: Path, wait: float = 0.0, remedy: str = "choose another --name"
) -> Iterator[None]:
    """Hold a folder's lock. The kernel releases it when the process ends, however that ends.

    Args:
        wait: seconds to wait for another process.
        remedy: what the error message advises, besides waiting.

    Raises:
        FolderLockedError: another process holds it.
        OSError: the folder cannot be written to.
    """
    from filelock import FileLock, Timeout

    path = folder / LOCK
    try:
        lock = FileLock(path, timeout=wait)
        lock.acquire()
    except Timeout:
        raise FolderLockedError(
            f"{folder}: {_owner(path)} is writing there. Wait, or {remedy}."
        ) from None
    try:
        with contextlib.suppress(OSError):  # only for messages; a full disk is found later
            _write_owner(path)
        yield
    finally:
        lock.release()


def _is_being_written(unfinished: Path) -> bool:
    """Whether the process with the PID in a temporary file's name is alive on this machine: pages
    and pictures are written without the lock."""
    number = unfinished.name.removesuffix(PART).rpartition(".")[2]
    if os.name != "posix" or not (number.isascii() and number.isdigit()):
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def _write_owner(path: Path) -> None:
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))


def _owner(path: Path) -> str:
    try:
        owner = json.loads(read_file(path))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:100]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
