"""Functions that open regular files and never wait for a pipe or a device."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TextIO


def open_to_append(path: Path) -> TextIO:
    """Open a text file for appending. Symbolic links are not followed.

    Raises:
        OSError: if the file is a link, is not a regular file, or cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(open_regular(path, flags), "a", encoding="utf-8")


def read_regular_file(path: Path) -> bytes:
    """Read the content of a regular file.

    Raises:
        OSError: if the file cannot be read, or is not a regular file.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor.

    Raises:
        OSError: if the file cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Is not a regular file", str(path))
