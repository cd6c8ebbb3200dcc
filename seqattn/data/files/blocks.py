"""Readers of text in blocks of whole lines. A block from a slow pipe contains only the lines that
have arrived so far."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from seqattn.errors import DataError

PIPE_WAIT_SECONDS = 0.2
"""Maximum time to wait for more bytes of a block, in seconds."""


def read_line_blocks(
    raw: BinaryIO, size: int, longest: int, too_long: Callable[[int], DataError]
) -> Iterator[tuple[bytes, bool]]:
    """Read the rest of a stream in blocks that end at the end of a line.

    A regular file is always divided into the same blocks. A block from a slow pipe contains the
    lines that arrived within `PIPE_WAIT_SECONDS`, so that these lines can be processed before the
    pipe ends.

    Args:
        raw: a buffered stream.
        size: maximum number of bytes to read for a block.
        longest: maximum length of a line in bytes.
        too_long: function that returns the error for a line that is too long, given the number of
            lines before this line.

    Yields:
        pairs (block, whether the sender pauses after the block).

    Raises:
        DataError: if a line is too long.
    """
    rest, lines = b"", 0
    while True:
        data, pauses = _read_block(raw, size)
        if not data:
            break
        end = data.rfind(b"\n") + 1
        if end or pauses:
            block = rest + data[:end] if end else b""
            lines += block.count(b"\n")
            yield block, pauses
        rest = data[end:] if end else rest + data
        if len(rest) > longest:
            raise too_long(lines)
    if rest:
        yield rest, False


def _read_block(raw: BinaryIO, size: int) -> tuple[bytes, bool]:
    """Read up to `size` bytes.

    Returns:
        the bytes, which are empty at the end of the stream, and whether the sender pauses after
        the bytes.
    """
    data = bytearray(raw.read1(size))  # type: ignore[attr-defined]
    until = time.monotonic() + PIPE_WAIT_SECONDS
    while data and len(data) < size:
        if not _has_more(raw, until):
            return bytes(data), True
        more = raw.read1(size - len(data))  # type: ignore[attr-defined]
        if not more:
            break
        data += more
    return bytes(data), False


def _has_more(raw: BinaryIO, until: float) -> bool:
    """Return whether more bytes or the end of the stream arrive before the time `until`. The result
    is True for a regular file, and for a stream that the system cannot wait for."""
    try:
        return bool(select.select([raw.fileno()], [], [], max(0.0, until - time.monotonic()))[0])
    except (OSError, ValueError):  # the stream is in memory, or the system does not support select
        return True
