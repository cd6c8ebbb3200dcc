"""Functions that open regular files and never wait for a pipe or a device, and the limit on the
size of a file that is read whole."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TextIO

MAX_BYTES = 256 * 2**20
"""The maximum size, in bytes, of a text file that is read whole. The files that seqattn writes are
smaller: `metrics.csv`, for example, has less than 160 bytes per epoch."""
_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def open_to_append(path: Path) -> TextIO:
    """Open a text file for appending. Symbolic links are not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(open_regular(path, flags), "a", encoding="utf-8")


def read_regular_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Read the content of a regular file.

    Args:
        path: the file.
        max_bytes: the maximum size of the file in bytes.

    Raises:
        OSError: if the file cannot be read, is not a regular file, or is too large.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            message = f"Its {size:,} bytes exceed the limit of {max_bytes:,} bytes"
            raise OSError(errno.EFBIG, message, str(path))
        return file.read()


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor.

    Raises:
        OSError: if the file cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, f"Is {_KINDS[stat.S_IFMT(mode)]}, not a regular file", str(path))


def describe_absence(path: Path) -> str:
    """Return why a path is not that of a regular file, such as "no config.yaml" or "config.yaml is
    a named pipe"."""
    try:
        return f"{path.name} is {_KINDS[stat.S_IFMT(path.stat().st_mode)]}"
    except OSError:
        return f"{path.name} is a broken link" if path.is_symlink() else f"no {path.name}"
