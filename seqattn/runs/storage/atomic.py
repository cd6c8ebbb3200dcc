"""Atomic writes: a reader sees the old file or the new file, and never a part of a file.

A file is written under a temporary name in the same folder, flushed to disk, and renamed, so that
the guarantee also holds after a power failure.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

TMP_SUFFIX = ".part"
"""The suffix of temporary files."""
CHUNK_BYTES = 2**16
"""The number of bytes that are read at a time to verify a file."""
MAX_FSYNCS = 8
"""The maximum number of files for which one fsync per file is as fast as one sync of the system."""


@dataclass(frozen=True)
class _PendingFile:
    """A temporary file that will be renamed to `path`.

    Attributes:
        temporary: the path of the temporary file.
        path: the path of the file that the temporary file replaces.
        backup_path: the new path of the replaced file; None to remove the replaced file.
        content: the bytes that the temporary file must contain before the rename; None to skip the
            check.
        before_commit: function that is called directly before the rename, or None.
    """

    temporary: Path
    path: Path
    backup_path: Path | None = None
    content: bytes | None = None
    before_commit: Callable[[], None] | None = None

    def verify(self) -> None:
        """Compare the temporary file with `content`, unless `content` is None."""
        if self.content is not None and not _content_equals(self.temporary, self.content):
            raise OSError(errno.EIO, "The file differs from what was written", str(self.path))

    def commit(self) -> None:
        if self.before_commit is not None:
            self.before_commit()
        if self.backup_path is not None:
            self._hard_link(self.backup_path)
        self.temporary.replace(self.path)

    def _hard_link(self, name: Path) -> None:
        """Give the old file a second name, so that `path` exists at every moment. If the file
        system has no hard links, rename the old file instead."""
        link = name.with_name(f".{name.name}.{os.getpid()}{TMP_SUFFIX}")
        try:
            link.unlink(missing_ok=True)
            os.link(self.path, link)
            link.replace(name)
        except FileNotFoundError:  # there is no old file
            return
        except OSError:  # the file system has no hard links
            with contextlib.suppress(FileNotFoundError):
                self.path.replace(name)
        # POSIX does not rename a link onto another link of the same file, so the link may remain.
        link.unlink(missing_ok=True)


class _WriteTransaction(threading.local):
    """The pending files of a thread's open transaction, or None if the thread has no open
    transaction."""

    pending: list[_PendingFile] | None = None


_transaction = _WriteTransaction()
_unfinished = set[Path]()
_creation = threading.RLock()
"""The lock for creating a temporary file, which `remove_unfinished` never releases."""


@contextlib.contextmanager
def write_transaction() -> Iterator[None]:
    """When the outermost transaction ends, commit the files that the block has written: flush all
    files, and then rename them in the order in which they were written. If many runs end at the
    same time, a single wait for the disk is much shorter than a wait for each file.

    Raises:
        OSError: if a write failed, in which case no file is replaced, or if a rename failed, in
            which case only the files that were renamed earlier are replaced.
    """
    if _transaction.pending is not None:
        yield
        return
    pending: list[_PendingFile] = []
    _transaction.pending = pending
    try:
        yield
        _transaction.pending = None
        if len(pending) > MAX_FSYNCS and hasattr(os, "sync"):
            os.sync()  # flushes all files at once; fsync below raises the errors
        for written in pending:
            # Windows flushes only files that are open for writing.
            with _reraise_for(written.path), written.temporary.open("r+b") as file:
                os.fsync(file.fileno())
                written.verify()
        for written in pending:
            with _reraise_for(written.path):
                written.commit()
        for folder in dict.fromkeys(written.path.parent for written in pending):
            _fsync_folder(folder)
    except BaseException:
        for written in pending:
            written.temporary.unlink(missing_ok=True)
        raise
    finally:
        _transaction.pending = None
        _unfinished.difference_update(written.temporary for written in pending)


@contextlib.contextmanager
def _reraise_for(path: Path) -> Iterator[None]:
    """Reraise an `OSError` from the block with the final path instead of the temporary path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def atomic_write(
    path: Path,
    content: bytes,
    *,
    backup_path: Path | None = None,
    verify: bool = False,
    before_commit: Callable[[], None] | None = None,
) -> None:
    """Replace a file in one step, after the new content has been flushed to disk. In a transaction,
    the file is replaced at the end of the transaction.

    Args:
        path: the file.
        content: the new content.
        backup_path: the new path of the old file. A file that already has this path is replaced.
            With None, the old file is removed.
        verify: whether to read the new file and compare it with `content` before the old file is
            replaced.
        before_commit: function that is called when the new content has been flushed to disk,
            directly before the old file is replaced. In a transaction, all files of the transaction
            have been flushed. The function may remove files that the new file makes outdated.

    Raises:
        OSError: if the write failed. The old file is then unchanged.
    """
    with open_atomic(path, backup_path, content if verify else None, before_commit) as file:
        file.write(content)


@contextlib.contextmanager
def open_atomic(
    path: Path,
    backup_path: Path | None = None,
    content: bytes | None = None,
    before_commit: Callable[[], None] | None = None,
) -> Iterator[BinaryIO]:
    """Open a file for an atomic write in several pieces. The file is committed at the end of the
    block or of the open transaction.

    Args:
        path: the file.
        backup_path: see `atomic_write`.
        content: the bytes that the new file must contain before the old file is replaced; None to
            skip the check.
        before_commit: see `atomic_write`.

    Raises:
        OSError: if the write failed. The old file is then unchanged.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):  # never replace a device or a pipe
            raise OSError(errno.EINVAL, "Exists and is not a regular file", str(path))
    temporary = temporary_path(path, os.getpid())
    written = _PendingFile(temporary, path, backup_path, content, before_commit)
    with _reraise_for(path), _creation:
        descriptor = _create(temporary)
        _unfinished.add(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if _transaction.pending is not None:
                _transaction.pending.append(written)
                return
            os.fsync(file.fileno())
        written.verify()
        written.commit()
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, BrokenPipeError):  # raised by a print in the block
            raise
        if isinstance(error, OSError) and error.filename is None:  # errors of a write have no path
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
    finally:
        if _transaction.pending is None:
            _unfinished.discard(temporary)
    _fsync_folder(path.parent)


def _create(temporary: Path) -> int:
    """Create a file and the missing folders of its path, and return the descriptor of the file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        temporary.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # left by a killed process with the same PID
        temporary.unlink()
    return os.open(temporary, flags, 0o666)


def _content_equals(path: Path, content: bytes) -> bool:
    """Return whether a file has the given content. The file is read in chunks to limit memory
    use."""
    # In the text mode of Windows, os.read would change line ends.
    descriptor, offset = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), 0
    try:
        while part := os.read(descriptor, CHUNK_BYTES):
            if part != content[offset : offset + len(part)]:
                return False
            offset += len(part)
        return offset == len(content)
    finally:
        os.close(descriptor)


def _fsync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that renames in the folder survive a power failure."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _reraise_for(folder):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_path(path: Path, process: int) -> Path:
    """Return the path of the temporary file that a process writes before it replaces a file.

    Args:
        path: the file.
        process: the id of the process.
    """
    return path.with_name(f".{path.name}.{process}{TMP_SUFFIX}")


def remove_unfinished() -> None:
    """Remove the temporary files of this process, and prevent other threads from creating new ones.
    Call this function before an exit that skips all other cleanup."""
    _creation.acquire(timeout=1)  # the disk of another thread may not respond
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically, with an indentation of two spaces.

    Raises:
        ValueError: if a number is NaN or infinite.
        OSError: if the write failed. The old file is then unchanged.
    """
    atomic_write(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
