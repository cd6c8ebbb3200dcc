"""Text as blocks of whole lines: full ones of a file, and of a slow pipe what has come so far."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from seqattn.errors import DataError

PIPE_WAIT_SECONDS = 0.2
"""Seconds that a block waits for the rest of its bytes."""


def read_line_blocks(
    raw: BinaryIO, size: int, longest: int, too_long: Callable[[int], DataError]
) -> Iterator[tuple[bytes, bool]]:
    """All that is left of a stream, in blocks that end where a line ends.

    Blocks of a file depend on nothing but the file. A pipe whose sender is slow gives what has come
    within `PIPE_WAIT_SECONDS`, so that it can be answered before the pipe ends.

    Args:
        raw: buffered.
        size: bytes that are read at once.
        longest: bytes of a line.
        too_long: makes the error for a longer one, given how many lines come before it.

    Yields:
        a block, and whether the sender pauses after it.

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
    """Up to `size` bytes, one at least unless the stream ends; and whether it pauses after them."""
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
    """Whether bytes, or the end, come before a time; True of what is no pipe."""
    try:
        return bool(select.select([raw.fileno()], [], [], max(0.0, until - time.monotonic()))[0])
    except (OSError, ValueError):  # in memory, or a system that cannot ask
        return True
