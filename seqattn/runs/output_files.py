"""Files that a user names on the command line, or in a call from Python."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from seqattn.errors import StorageError, UsageError
from seqattn.runs.storage import open_atomic

DESCRIPTORS = re.compile(r"/dev/fd|/proc/(self|thread-self|\d+)/fd")
MOST_LINKS = 40
"""Links in a row that operating systems follow."""


def write_output(path: Path, content: bytes) -> None:
    """A file that a user named, and its content; see `output_file`."""
    with output_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file that a user named, written a stretch at a time.

    A regular file is replaced in one step, once all is written. Symbolic links are followed: the
    file at their end is replaced, and the links stay. What is no regular file (a pipe, a device, or
    an open descriptor such as /dev/stdout, whatever that is) is written to as it stands, so a
    reader may see a part of it.

    Raises:
        OSError: it cannot be written.
        StorageError: it is a pipe, and its reader left before all was written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    descriptor = _descriptor(path)
    if descriptor is None and (not path.exists() or path.is_file()):
        with open_atomic(Path(os.path.realpath(path))) as file:
            yield file
        return
    sys.stdout.flush()  # what was printed before comes first, should it be the same place
    try:
        place = path if descriptor is None else os.dup(descriptor)
        with open(place, "wb") as file:  # noqa: PTH123  (a descriptor is no path)
            yield file
    except BrokenPipeError:  # kept as such it would be taken for that of standard output
        raise StorageError(
            f"{path}: {os.strerror(errno.EPIPE)}, the reader left before all was written."
        ) from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Hold the files that a command is about to write against those that it reads.

    Args:
        outputs: option -> path; None where it was not given.
        inputs: what each file is -> path.

    Raises:
        UsageError: writing one would destroy another.
    """
    written = dict[str, Path]()
    for option, path in outputs.items():
        if path is None:
            continue
        for what, other in (*inputs.items(), *written.items()):
            if other is not None and _same_file(path, other):
                raise UsageError(
                    f"{option} {path}: is the same file as {what} ({other}), which would be lost."
                    " Name another file."
                )
        written[option] = path


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths are of one file, by device and inode where both are there. What is no
    regular file is not lost by writing to it."""
    try:
        return one.samefile(other) and (one.is_file() or one.is_dir())
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _descriptor(path: Path) -> int | None:
    """The number of this process's open file that a path such as /dev/stdout stands for. Opened by
    its name, a regular file would be written from its beginning."""
    for _ in range(MOST_LINKS):
        home = os.path.realpath(path.parent)
        if DESCRIPTORS.fullmatch(home) and path.name.isdigit():
            own = home in ("/dev/fd", f"/proc/{os.getpid()}/fd")
            return int(path.name) if own else None
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None
