"""Folder locks. At most one process can hold the lock of a folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from seqattn.config.files import open_regular, read_regular_file
from seqattn.errors import FolderLockedError
from seqattn.runs.storage.atomic import TMP_SUFFIX

LOCK_NAME = ".lock"
"""The name of the lock file in a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock a folder during the `with` block, and remove the temporary files of killed processes.

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
    """Lock a folder during the `with` block. The kernel releases the lock when the process ends,
    even if the process is killed.

    Args:
        folder: the folder.
        timeout: the maximum time to wait for another process, in seconds.
        remedy: what the error message suggests as an alternative to waiting.

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
    """Return whether the process that writes a temporary file is alive on this machine.

    The name of the file contains the PID of the process. An output that the user names is written
    without a lock, so another process can be writing to a locked folder.
    """
    number = unfinished.name.removesuffix(TMP_SUFFIX).rpartition(".")[2]
    if os.name != "posix" or not (number.isascii() and number.isdigit()):
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process belongs to another user
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
