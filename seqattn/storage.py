"""How files get onto the disk, whole or not at all, and come back from it.

A file is written beside its place under another name, flushed, and renamed: a reader sees the old
one or the new one and never half of one, and so does whoever comes after a power cut.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import shutil
import socket
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import CheckpointError, FolderLockedError, StorageError

PART = ".part"
"""How names of files end that are still being written."""
STRETCH = 2**16
PACKED_FROM = 2**20
"""Bytes of arrays from which on an archive is compressed: for fewer that takes longer than the
disk."""
READ_WHOLE = 2**26
"""Bytes up to which an array is read to its end, and so held against its checksum."""
KEPT_WHOLE = 2**20
"""Bytes up to which an array of which a few rows are wanted is kept whole."""
MOST_UNPACKED = 2 * 2**30
"""Bytes that an archive of arrays may unpack to."""


BESIDE = 200
"""Open files that a process wants beside the locks of its runs."""
FEW = 8
"""Files up to which waiting for each is as fast as asking the system to write everything."""
LOCK = ".lock"
"""The file in a run folder by which its one writer is known."""


@dataclass(frozen=True)
class _PendingFile:
    """A temporary file that is to take its place.

    Attributes:
        keep_as: where the file that it replaces stays.
        content: what must be read back from it before that; None: nothing is read back.
    """

    temporary: Path
    path: Path
    keep_as: Path | None = None
    content: bytes | None = None

    def check(self) -> None:
        """Hold what was flushed against what was written."""
        if self.content is not None and not _holds(self.temporary, self.content):
            raise OSError(errno.EIO, "What was read back is not what was written", str(self.path))

    def show(self) -> None:
        if self.keep_as is not None:
            self._keep(self.keep_as)
        self.temporary.replace(self.path)

    def _keep(self, name: Path) -> None:
        """A second name for the old file, so that at no moment there is none under its own."""
        link = name.with_name(f".{name.name}.{os.getpid()}{PART}")
        try:
            link.unlink(missing_ok=True)
            os.link(self.path, link)
            link.replace(name)
        except FileNotFoundError:  # there is no old one
            return
        except OSError:  # a file system that knows no second names
            self.path.replace(name)
        # Two names of one file are not renamed onto each other (POSIX); then this one is left.
        link.unlink(missing_ok=True)


class _WriteTransaction(threading.local):
    """What a thread has begun to write together."""

    waiting: list[_PendingFile] | None = None


_together = _WriteTransaction()
_unfinished = set[Path]()


@contextlib.contextmanager
def write_transaction() -> Iterator[None]:
    """Files written inside show at the end, once all are safe on the disk: waiting for the disk
    once is much shorter than once a file, where many runs end at the same time.

    Raises:
        OSError: the disk refused one of them, and none shows. Where it is a renaming that it
            refused, those before it show.
    """
    if _together.waiting is not None:
        yield
        return
    waiting: list[_PendingFile] = []
    _together.waiting = waiting
    try:
        yield
        _together.waiting = None
        if len(waiting) > FEW and hasattr(os, "sync"):
            os.sync()  # all at once; what the disk refused is said below, file by file
        for written in waiting:
            with _named(written.path), written.temporary.open("rb") as file:
                os.fsync(file.fileno())
                written.check()
        for written in waiting:
            with _named(written.path):
                written.show()
        for folder in dict.fromkeys(written.path.parent for written in waiting):
            _fsync_folder(folder)
    except BaseException:
        for written in waiting:
            written.temporary.unlink(missing_ok=True)
        raise
    finally:
        _together.waiting = None
        _unfinished.difference_update(written.temporary for written in waiting)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that was to be written, and not its temporary name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def atomic_write(
    path: Path, content: bytes, *, keep_as: Path | None = None, read_back: bool = False
) -> None:
    """Replace a file by another in one step, safe on the disk before it shows.

    Args:
        keep_as: the file that was at `path` stays under this name, and replaces what was there.
        read_back: read the new file and hold it against `content` before anything is replaced.

    Raises:
        OSError: the disk refused; the old file is as it was.
    """
    with open_atomic(path, keep_as, content if read_back else None) as file:
        file.write(content)


@contextlib.contextmanager
def open_atomic(
    path: Path, keep_as: Path | None = None, content: bytes | None = None
) -> Iterator[BinaryIO]:
    """The same for content that is written a stretch at a time.

    Args:
        content: what must be read back before anything is replaced.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe is not ours to replace
            raise OSError(errno.EINVAL, "Is there already, and is no regular file", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        descriptor = _new(temporary)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    _unfinished.add(temporary)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if _together.waiting is not None:
                _together.waiting.append(_PendingFile(temporary, path, keep_as, content))
                return
            os.fsync(file.fileno())
        written = _PendingFile(temporary, path, keep_as, content)
        written.check()
        written.show()
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, BrokenPipeError):  # of what was printed meanwhile: a file is no pipe
            raise
        if isinstance(error, OSError) and error.filename is None:  # of a write: nobody said where
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        if _together.waiting is None:
            _unfinished.discard(temporary)
    _fsync_folder(path.parent)


def _new(temporary: Path) -> int:
    """Open a file that is not there yet, and make the folder for it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(temporary, flags, 0o666)
    except FileNotFoundError:
        temporary.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # of a process that had our number and was killed
        temporary.unlink()
    return os.open(temporary, flags, 0o666)


def _holds(path: Path, content: bytes) -> bool:
    """Read a file, a stretch at a time: memory for all of it would have to be found first."""
    descriptor, at = os.open(path, os.O_RDONLY), 0
    try:
        while part := os.read(descriptor, STRETCH):
            if part != content[at : at + len(part)]:
                return False
            at += len(part)
        return at == len(content)
    finally:
        os.close(descriptor)


def _fsync_folder(folder: Path) -> None:
    """Names are safe on the disk only once their folder is."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        finally:
            os.close(descriptor)


class BackgroundWriter:
    """Writes that go on in a thread beside what else is done, one after the other: most of a write
    is waiting for the disk. Use as a context; at its end all is written."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.pending: Future[None] | None = None

    def begin(self, write: Callable[[], None]) -> None:
        """Begin to write once what was begun before is done.

        Raises:
            OSError: that failed.
        """
        self.wait()
        self.pending = self.pool.submit(write)

    def wait(self) -> None:
        """Until all is written.

        Raises:
            OSError: something could not be.
        """
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def ask(self) -> None:
        """Raise what went wrong, if anything did by now."""
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


def remove_unfinished() -> None:
    """Remove what is being written, for a process that is about to end where it stands."""
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def open_to_append(path: Path) -> TextIO:
    """A text file to be gone on with; never through a link, and nothing that is no file.

    Raises:
        OSError: it is, or cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(_opened(path, flags), "a", encoding="utf-8")


def read_file(path: Path) -> bytes:
    """A file's content; a pipe or a device in its place is not waited for.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _opened(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Is no regular file", str(path))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    atomic_write(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """An NPZ file; texts are unicode arrays, so it opens without pickle."""
    with open_atomic(path) as file:
        save_arrays(file, arrays)


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of an NPZ file."""
    buffer = io.BytesIO()
    save_arrays(buffer, arrays)
    return buffer.getvalue()


def save_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Packed where they are large; packing small files takes longer than the disk."""
    large = sum(array.nbytes for array in arrays.values()) > PACKED_FROM
    save = np.savez_compressed if large else np.savez
    save(file, allow_pickle=False, **arrays)


def read_arrays(path: Path, most: int | None = None) -> dict[str, NDArray[Any]]:
    """All arrays of an NPZ file.

    Args:
        most: rows that are wanted of arrays with three axes or more. Of those with more than
            `KEPT_WHOLE` bytes no others are kept, and of those with more than `READ_WHOLE` no
            others are read, nor is their checksum looked at. None: all.

    Raises:
        CheckpointError: missing, or no NPZ of plain arrays.
    """
    try:
        with (
            os.fdopen(_opened(path, os.O_RDONLY), "rb") as file,
            zipfile.ZipFile(file) as archive,
        ):
            odd = [name for name in archive.namelist() if not name.endswith(".npy")]
            if odd:
                raise ValueError(f"{odd[0]!r} in it is no array")
            sizes = [_size_of(archive, entry, most) for entry in archive.infolist()]
            if sum(sizes) > MOST_UNPACKED:
                raise ValueError(f"it unpacks to {sum(sizes) / 2**30:.1f} GiB")
            return {
                name.removesuffix(".npy"): _array_of(archive, name, most)
                for name in archive.namelist()
            }
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file. Has the training finished?") from None
    except Exception as error:  # whatever a broken archive may raise, from five modules
        raise CheckpointError(f"{path}: cannot be read back as arrays ({error}).") from None


def _size_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int | None) -> int:
    """Bytes of an array of an archive, or of its first rows."""
    if most is None or entry.file_size <= KEPT_WHOLE:
        return entry.file_size
    with archive.open(entry) as member:
        shape, _, dtype = _header(member)
    rows = (min(most, shape[0]), *shape[1:]) if len(shape) >= 3 else shape
    return math.prod(rows) * dtype.itemsize


def _array_of(archive: zipfile.ZipFile, name: str, most: int | None) -> NDArray[Any]:
    with archive.open(name) as member:
        whole = archive.getinfo(name).file_size
        if most is not None and whole > KEPT_WHOLE:
            shape, is_fortran, dtype = _header(member)
            if len(shape) >= 3 and not is_fortran and shape[0] > most and not dtype.hasobject:
                size = most * math.prod(shape[1:]) * dtype.itemsize
                rows = np.frombuffer(member.read(size), dtype).reshape(most, *shape[1:])
                while whole <= READ_WHOLE and member.read(STRETCH):
                    pass  # to its end, where it is held against its checksum
                return rows
            member.seek(0)
        found: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis changes fastest, and dtype of an NPY file."""
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(member)
    return found


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Hold a folder as the only one who writes there, and remove what killed processes left
    unfinished. Readers need no lock.

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
    """Hold a folder's lock. It is one of the kernel: it ends with its process, however that ends.

    Args:
        wait: seconds, where another process holds it.
        remedy: what else to do than to wait.

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
            f"{folder}: {_holder(path)} is writing there. Wait, or {remedy}."
        ) from None
    try:
        with contextlib.suppress(OSError):  # for people; a full disk stops later, and loudly
            _sign(path)
        yield
    finally:
        lock.release()


def _is_being_written(unfinished: Path) -> bool:
    """Whether the process whose number a temporary file has in its name is alive on this machine:
    pages and pictures are written without the lock, where they go to files of their own."""
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


def _sign(path: Path) -> None:
    with os.fdopen(_opened(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))


def _holder(path: Path) -> str:
    try:
        owner = json.loads(read_file(path))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:100]!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def check_free_space(needed: Mapping[Path, int]) -> None:
    """
    Args:
        needed: bytes that must be free where each folder is, or will be; those of one disk are
            added up.

    Raises:
        StorageError: fewer are.
    """
    disks: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        place = folder
        while not place.exists() and place != place.parent:
            place = place.parent
        disk = place.stat().st_dev
        disks[disk] = place, size + disks.get(disk, (place, 0))[1]
    for place, total in disks.values():
        free = shutil.disk_usage(place).free
        if free < total:
            raise StorageError(
                f"{place}: {free / 2**20:.1f} MiB are free there, but two checkpoints of each run"
                f" need {total / 2**20:.1f} MiB. Make room, or choose another --output-dir."
            )


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files as far as that takes.

    Raises:
        StorageError: the system does not allow as many.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted, endless = count + BESIDE, resource.RLIM_INFINITY
    if soft == endless or wanted <= soft:
        return
    if hard != endless and count >= hard:
        raise StorageError(
            f"{count:,} runs at once need as many open files, but this process may have no more"
            f" than {hard:,} (ulimit -n). Train fewer at once, or raise that."
        )
    with contextlib.suppress(ValueError, OSError):  # then a file that cannot be opened says so
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == endless else min(wanted, hard), hard)
        )


def physical_memory() -> int:
    """Bytes of memory that there are for us: the machine's, or the control group's if it has less.
    Where nobody says, 4 GiB."""
    found = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    with contextlib.suppress(ValueError, OSError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found, default=4 * 2**30)
