"""Regular files, opened without waiting for a pipe or a device in their place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TextIO


def open_to_append(path: Path) -> TextIO:
    """Open a text file to append to it; links are not followed.

    Raises:
        OSError: it is a link or no regular file, or cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(open_regular(path, flags), "a", encoding="utf-8")


def read_file(path: Path) -> bytes:
    """A file's content.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def open_regular(path: Path, flags: int) -> int:
    """A file descriptor.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Is no regular file", str(path))
