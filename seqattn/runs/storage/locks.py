"""Folder locks: at most one process writes to a folder at a time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from seqattn.errors import FolderLockedError
from seqattn.runs.storage.atomic import TMP_SUFFIX
from seqattn.runs.storage.files import open_regular, read_regular_file

LOCK_NAME = ".lock"
"""Name of the lock file in a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, and remove temporary files of killed processes.

    Readers need no lock.

    Raises:
        FolderLockedError: if another process holds the lock.
        OSError: if the folder cannot be written to.
    """
    with folder_lock(folder):
        for unfinished in (*folder.glob(f".*{TMP_SUFFIX}"), *folder.glob(f"*/.*{TMP_SUFFIX}")):
            if not _is_being_written(unfinished):
                unfinished.unlink(missing_ok=True)
        yield


@contextlib.contextmanager
def folder_lock(
    folder: Path, timeout: float = 0.0, remedy: str = "choose another --name"
) -> Iterator[None]:
    """Hold a folder's lock; the kernel releases it when the process ends in any way.

    Args:
        timeout: seconds to wait for another process.
        remedy: advice of the error message besides waiting.

    Raises:
        FolderLockedError: if another process holds the lock.
        OSError: if the folder cannot be written to.
    """
    from filelock import FileLock, Timeout

    path = folder / LOCK_NAME
    try:
        lock = FileLock(path, timeout=timeout)
        lock.acquire()
    except Timeout:
        raise FolderLockedError(
            f"{folder}: {_lock_owner(path)} is writing there. Wait, or {remedy}."
        ) from None
    try:
        with contextlib.suppress(OSError):  # only used in messages; a full disk is detected later
            _write_owner(path)
        yield
    finally:
        lock.release()


def _is_being_written(unfinished: Path) -> bool:
    """Whether the process with the PID in a temporary file's name is alive on this machine.

    Reports and pictures are written without the lock.
    """
    number = unfinished.name.removesuffix(TMP_SUFFIX).rpartition(".")[2]
    if os.name != "posix" or not (number.isascii() and number.isdigit()):
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def _write_owner(path: Path) -> None:
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))


def _lock_owner(path: Path) -> str:
    try:
        owner = json.loads(read_regular_file(path))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:100]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
