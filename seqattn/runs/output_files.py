"""Functions for output files that a user names in an option or in a Python call."""

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
MAX_LINKS = 40
"""The maximum number of symbolic links to follow, as in Linux."""


def write_output(path: Path, content: bytes) -> None:
    """Write the content of an output file; see `output_file`."""
    with output_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Open an output file for writing in several pieces.

    When the block ends, a regular file is replaced atomically. Symbolic links are followed, so the
    linked file is replaced and the links are kept. Any other output (a pipe, a device, or an open
    descriptor such as /dev/stdout) is written directly, so a reader may see an incomplete file.

    Raises:
        OSError: if the file cannot be written.
        StorageError: if the file is a pipe, and the reader of the pipe closed it early.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    descriptor = _descriptor(path)
    if descriptor is None and (not path.exists() or path.is_file()):
        with open_atomic(Path(os.path.realpath(path))) as file:
            yield file
        return
    sys.stdout.flush()  # earlier prints come first if the file is standard output
    try:
        target = path if descriptor is None else os.dup(descriptor)
        with open(target, "wb") as file:  # noqa: PTH123  (may be a descriptor)
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


def _descriptor(path: Path) -> int | None:
    """Return the open descriptor of this process that a path such as /dev/stdout names, or None if
    the path does not name a descriptor.

    The caller writes to the descriptor instead of opening the path. If the descriptor is redirected
    to a regular file, opening the path would truncate the file.
    """
    for _ in range(MAX_LINKS):
        parent = os.path.realpath(path.parent)
        if DESCRIPTORS.fullmatch(parent) and path.name.isdigit():
            is_ours = parent in ("/dev/fd", f"/proc/{os.getpid()}/fd")
            return int(path.name) if is_ours else None
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None
