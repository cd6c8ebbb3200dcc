"""Atomic writes: a reader sees the old file or the new file, and never a part of a file.

A file is written under a temporary name in the same folder, flushed to disk, and renamed, so that
the guarantee also holds after a power failure. At most one process can hold the lock of a folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from seqattn.config.files import open_regular, read_regular_file
from seqattn.errors import FolderLockedError, StorageError, UsageError

TMP_SUFFIX = ".part"
"""The suffix of temporary files."""
CHUNK_BYTES = 2**16
"""The number of bytes that are read at a time to verify a file."""
MAX_FSYNCS = 8
"""The maximum number of files for which one fsync per file is as fast as one sync of the system."""
_unfinished = set[Path]()
_creation = threading.RLock()
"""The lock for creating a temporary file, which `remove_unfinished` never releases."""
LOCK_NAME = ".lock"
"""The name of the lock file in a folder."""


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
    """Replace a file in one step, after the new content has been flushed to disk. If the write
    fails, the old file is unchanged. In a transaction, the file is replaced at the end of the
    transaction.

    Args:
        backup_path: the new path of the old file. A file that already has this path is replaced.
            With None, the old file is removed.
        verify: whether to read the new file and compare it with `content` before the old file is
            replaced.
        before_commit: function that is called when the new content has been flushed to disk,
            directly before the old file is replaced. In a transaction, all files of the transaction
            have been flushed. The function may remove files that the new file makes outdated.
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
    """Create a file and the missing folders of its path, and return the descriptor of the file.

    In a transaction, no folder is created: its files belong to a run, whose folder another process
    may have removed.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        if _transaction.pending is not None:
            raise
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
    """Return the path of the temporary file that a process writes before it replaces a file."""
    return path.with_name(f".{path.name}.{process}{TMP_SUFFIX}")


def remove_unfinished() -> None:
    """Remove the temporary files of this process, and prevent other threads from creating new ones.
    Call this function before an exit that skips all other cleanup."""
    _creation.acquire(timeout=1)  # the disk of another thread may not respond
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically, with an indentation of two spaces. NaN is a `ValueError`."""
    atomic_write(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


class BackgroundWriter:
    """A thread that runs one write at a time. At the end of a `with` block, the writer waits for
    the last write."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.pending: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Wait until the previous write has ended, and start the next write."""
        self.wait()
        self.pending = self.pool.submit(write)

    def wait(self) -> None:
        """Wait until the pending write has ended."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def raise_if_failed(self) -> None:
        """Raise the error of the pending write if this write has already failed."""
        if self.pending is not None and self.pending.done():
            self.wait()

    def __enter__(self) -> BackgroundWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.wait()
        except OSError:
            if kind is None:
                raise
        finally:
            self.pool.shutdown()


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock a folder during the `with` block, and remove the temporary files of killed processes.

    Readers need no lock.
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
        timeout: the maximum time to wait for another process, in seconds.
        remedy: what the error message suggests as an alternative to waiting.

    Raises:
        FolderLockedError: if another process holds the lock.
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
        with (
            contextlib.suppress(OSError),  # only used in messages; a full disk is detected later
            os.fdopen(open_regular(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file,
        ):
            file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
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
        pass
    return True


def _lock_owner(path: Path) -> str:
    try:
        owner = json.loads(read_regular_file(path))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:100]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


# --- output files, which a user names in an option or in a Python call ---------------------------


def write_output(path: Path, content: bytes) -> None:
    """Write the content of an output file; see `output_file`."""
    with output_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Open an output file for writing in several pieces.

    When the block ends, a regular file is replaced atomically. Symbolic links are followed, so the
    linked file is replaced and the links are kept. Any other output (a pipe or a device) is written
    directly, so a reader may see an incomplete file.

    Raises:
        OSError: if the file cannot be written.
        StorageError: if the file is a pipe, and the reader of the pipe closed it early.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.exists() or path.is_file():
        with open_atomic(Path(os.path.realpath(path))) as file:
            yield file
        return
    sys.stdout.flush()  # earlier prints come first if the file is standard output
    try:
        with path.open("wb") as file:
            yield file
    except BrokenPipeError:  # otherwise, the error would look like an error of stdout
        raise StorageError(
            f"{path}: {os.strerror(errno.EPIPE)}: its reader closed it before all was written."
        ) from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Check that no output of a command is also an input or another output of the command, and that
    no output has the suffix of a compressed file.

    Args:
        outputs: a mapping from each output option to the path of the output, or to None if the
            option was not given.
        inputs: a mapping from the description of each input, which messages contain, to the path of
            the input, or to None if the input was not given.

    Raises:
        UsageError: if an output would replace an input or another output, or if its name ends in
            `.gz` or `.zst`.
    """
    written = dict[str, Path]()
    for option, path in outputs.items():
        if path is None:
            continue
        if path.suffix.lower() in (".gz", ".zst"):
            raise UsageError(
                f"{option} {path}: seqattn does not compress files. Leave out"
                f" {path.suffix}, and compress the file afterwards."
            )
        for description, other in (*inputs.items(), *written.items()):
            if other is not None and _same_file(path, other):
                raise UsageError(
                    f"{option} {path}: is the same file as {description} ({other}), which it would"
                    " replace. Choose another file."
                )
        written[option] = path


def _same_file(one: Path, other: Path) -> bool:
    """Return whether two paths name the same file. If both files exist, the function compares their
    device numbers and inodes. Otherwise, it compares the resolved paths.

    The result is False for pipes and devices, because a write does not replace pipes and devices.
    """
    try:
        return one.samefile(other) and (one.is_file() or one.is_dir())
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
