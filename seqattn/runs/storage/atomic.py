"""Atomic writes: a reader sees the old file or the new one, and never a part of one.

A file is written under a temporary name in the same folder, flushed to the disk, and renamed, so
this holds after a power cut, too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

PART = ".part"
"""The suffix of temporary names."""
CHUNK = 2**16
"""Bytes that are read back at a time."""
MOST_FSYNCS = 8
"""Files up to which flushing each is as fast as one sync of everything."""


@dataclass(frozen=True)
class _PendingFile:
    """A temporary file that is to be renamed to `path`.

    Attributes:
        keep_as: a name for the file that it replaces; None: that file is removed.
        content: what must be read back before the renaming; None: nothing is read back.
    """

    temporary: Path
    path: Path
    keep_as: Path | None = None
    content: bytes | None = None

    def check(self) -> None:
        """Compare what was flushed with what was written."""
        if self.content is not None and not _holds(self.temporary, self.content):
            raise OSError(errno.EIO, "What was read back is not what was written", str(self.path))

    def show(self) -> None:
        if self.keep_as is not None:
            self._keep(self.keep_as)
        self.temporary.replace(self.path)

    def _keep(self, name: Path) -> None:
        """Link the old file under a second name, so that `path` exists at every moment."""
        link = name.with_name(f".{name.name}.{os.getpid()}{PART}")
        try:
            link.unlink(missing_ok=True)
            os.link(self.path, link)
            link.replace(name)
        except FileNotFoundError:  # there is no old file
            return
        except OSError:  # a file system without hard links
            self.path.replace(name)
        # POSIX does not rename one link of a file onto another; then this one is left.
        link.unlink(missing_ok=True)


class _WriteTransaction(threading.local):
    """The files of the open transaction of a thread; None: no transaction is open."""

    pending: list[_PendingFile] | None = None


_transaction = _WriteTransaction()
_unfinished = set[Path]()


@contextlib.contextmanager
def write_transaction() -> Iterator[None]:
    """Files written inside appear at the end, once all are flushed: where many runs end at the same
    time, one wait for the disk is much shorter than one for each file.

    Raises:
        OSError: a write failed, and no file appears; or a renaming failed, and the files before it
            appear.
    """
    if _transaction.pending is not None:
        yield
        return
    pending: list[_PendingFile] = []
    _transaction.pending = pending
    try:
        yield
        _transaction.pending = None
        if len(pending) > MOST_FSYNCS and hasattr(os, "sync"):
            os.sync()  # all at once; the fsync of each file below finds its error
        for written in pending:
            with _named(written.path), written.temporary.open("rb") as file:
                os.fsync(file.fileno())
                written.check()
        for written in pending:
            with _named(written.path):
                written.show()
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
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that was to be written, and not a temporary name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def atomic_write(
    path: Path, content: bytes, *, keep_as: Path | None = None, read_back: bool = False
) -> None:
    """Replace a file in one step, once the new content is flushed.

    Args:
        keep_as: a name for the old file; what had this name is replaced.
        read_back: read the new file and compare it with `content` before anything is replaced.

    Raises:
        OSError: a write failed; the old file is unchanged.
    """
    with open_atomic(path, keep_as, content if read_back else None) as file:
        file.write(content)


@contextlib.contextmanager
def open_atomic(
    path: Path, keep_as: Path | None = None, content: bytes | None = None
) -> Iterator[BinaryIO]:
    """`atomic_write` for content that comes in several writes.

    Args:
        content: what must be read back before anything is replaced.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe is not ours to replace
            raise OSError(errno.EINVAL, "Is there already, and is no regular file", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    with _named(path):
        descriptor = _new(temporary)
    _unfinished.add(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if _transaction.pending is not None:
                _transaction.pending.append(_PendingFile(temporary, path, keep_as, content))
                return
            os.fsync(file.fileno())
        written = _PendingFile(temporary, path, keep_as, content)
        written.check()
        written.show()
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, BrokenPipeError):  # from printing in the block: a file is no pipe
            raise
        if isinstance(error, OSError) and error.filename is None:  # from a write: it has no path
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        if _transaction.pending is None:
            _unfinished.discard(temporary)
    _fsync_folder(path.parent)


def _new(temporary: Path) -> int:
    """Create a file, and its folder where that is missing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        temporary.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # of a killed process with our PID
        temporary.unlink()
    return os.open(temporary, flags, 0o666)


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file has this content; it is read in chunks, which takes little memory."""
    descriptor, at = os.open(path, os.O_RDONLY), 0
    try:
        while part := os.read(descriptor, CHUNK):
            if part != content[at : at + len(part)]:
                return False
            at += len(part)
        return at == len(content)
    finally:
        os.close(descriptor)


def _fsync_folder(folder: Path) -> None:
    """A renaming is on the disk only once its folder is."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _named(folder):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_unfinished() -> None:
    """Remove the temporary files of this process, which is about to exit without cleaning up."""
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    atomic_write(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
