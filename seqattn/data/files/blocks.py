"""Reads text in blocks of whole lines; from a slow pipe, the lines that have arrived."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from seqattn.errors import DataError

PIPE_WAIT_SECONDS = 0.2
"""Seconds to wait for more bytes of a block."""


def read_line_blocks(
    raw: BinaryIO, size: int, longest: int, too_long: Callable[[int], DataError]
) -> Iterator[tuple[bytes, bool]]:
    """Read the rest of a stream in blocks that end at the end of a line.

    Blocks of a file depend on the file alone. A block of a slow pipe has the bytes that arrived
    within `PIPE_WAIT_SECONDS`, so that they can be answered before the pipe ends.

    Args:
        raw: a buffered stream.
        size: bytes of a block.
        longest: most bytes of a line.
        too_long: makes the error for a longer line from the number of lines before it.

    Yields:
        (block, whether the sender pauses after it).

    Raises:
        DataError: a line is too long.
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
    """Up to `size` bytes, none at the end of the stream; and whether the sender pauses after
    them."""
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
    """Whether more bytes or the end arrive before a time; True if the stream is no pipe."""
    try:
        return bool(select.select([raw.fileno()], [], [], max(0.0, until - time.monotonic()))[0])
    except (OSError, ValueError):  # a stream in memory, or no support by the system
        return True
