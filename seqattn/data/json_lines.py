"""Reader of JSON Lines files with one sequence per line, and of text in blocks of whole lines.

Each line is an object with the key `source`, and optionally with the keys `target` and `id`:

{"id": "a", "source": [[-1.02, -0.97], [-1.05, 1.01]], "target": [[1.0, 1.0]]}

A step is a list of numbers, or a single number if there is only one feature. An empty cell is null.
"""

from __future__ import annotations

import gzip
import io
import json
import select
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from seqattn.data.arrays import default_names, default_target_names
from seqattn.data.chunk import MAX_LINE_BYTES, Chunk, Ragged, to_offsets
from seqattn.data.missing_values import SentinelCounter, na_numbers
from seqattn.data.reading import Reading
from seqattn.data.sequences import Floats, Integers
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


BOM = b"\xef\xbb\xbf"


@contextmanager
def open_lines(path: Path) -> Iterator[BinaryIO]:
    """Open a JSON Lines file for reading, decompressed if it is a gzip file.

    Raises:
        DataError: if the gzip file is damaged.
    """
    if path.suffix.lower() != ".gz":
        with path.open("rb") as plain:
            yield plain
        return
    try:
        with gzip.open(path) as unpacked:
            yield cast("BinaryIO", unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is a damaged gzip file ({error}).") from None


def parse_json(line: bytes, place: str, **hooks: Any) -> Any:
    """Parse a line as JSON.

    Raises:
        DataError: if the line is not valid JSON.
    """
    try:
        return json.loads(line, **hooks)
    except UnicodeDecodeError:
        raise DataError(f"{place}: is not UTF-8. Save the file as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: is not valid JSON ({str(error)[:200]}).") from None


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """Parse a line as a JSON object.

    Raises:
        DataError: if the line is not a JSON object with a source.
    """
    # NaN and Infinity are not valid JSON. Some programs write NaN for an empty cell.
    content: Any = parse_json(
        line, place, object_pairs_hook=lambda pairs: _unique_keys(pairs, place),
        parse_constant=lambda word: None if word == "NaN" else float(word),
    )  # fmt: skip
    if not isinstance(content, dict):
        raise DataError(f'{place}: is not an object; expected {{"source": [[...], ...]}}.')
    if "source" not in content:
        raise DataError(
            f"{place}: has no 'source'; it has {', '.join(sorted(content)) or 'nothing'}."
        )
    return content


def _unique_keys(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise DataError(f"{place}: has {twice!r} twice.")
    return parsed


BLOCK_BYTES = 2**20  # size in bytes of the blocks that are read
MAX_CHUNK_VALUES = 2**18  # number of values at which a chunk ends


def has_nested_points(path: Path) -> bool:
    """Return whether the first line indicates that each line contains a sequence, not a row. A file
    compressed with Zstandard always contains rows.
    """
    if path.suffix.lower() == ".zst":
        return False
    with open_lines(path) as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")
        first = next(filter(bytes.strip, lines), b"").removeprefix(BOM)
    try:
        content = parse_json(first, str(path))
    except DataError:  # the reader reports the error later
        return b'"source"' in first or not first.lstrip().startswith(b"{")
    if not isinstance(content, dict):
        return True
    return any(isinstance(content.get(key), list) for key in ("source", "target"))


def check_json_lines(path: Path, name: str) -> None:
    """Check that each line of a file is valid JSON.

    Raises:
        DataError: if a line is too long or is not valid JSON.
    """
    number = 0
    with open_lines(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(f"{name}:{number}: is longer than {MAX_LINE_BYTES // 2**20} MiB.")
            line = line.removeprefix(BOM) if number == 1 else line
            if line.strip():
                parse_json(line, f"{name}:{number}")


def read_json_lines(raw: BinaryIO, name: str, reading: Reading) -> Iterator[Chunk]:
    """Yield the chunks of a JSON Lines file.

    Raises:
        DataError: if a line cannot be used, or if the file is empty.
    """
    reader = _Reader(name, reading)
    pending, size = list[_Line](), 0
    number = 0

    def too_long(lines: int) -> DataError:
        return DataError(f"{name}:{lines + 1}: is longer than {MAX_LINE_BYTES // 2**20} MiB.")

    for block, pauses in read_line_blocks(raw, BLOCK_BYTES, MAX_LINE_BYTES, too_long):
        for line in io.BytesIO(block):
            number += 1
            if number == 1:
                line = line.removeprefix(BOM)
            if not line.strip():
                continue
            parsed = reader.line(line, number)
            pending.append(parsed)
            size += parsed.source.size + (0 if parsed.target is None else parsed.target.size)
            if size >= MAX_CHUNK_VALUES:
                yield reader.chunk(pending)
                pending, size = [], 0
        if pauses and pending:
            yield reader.chunk(pending)
            pending, size = [], 0
    if pending:
        yield reader.chunk(pending)
    reader.marks.check()
    if reader.widths is None:
        raise DataError(
            f'{name}: is empty. Expected an object a line, such as {{"source": [[0.0, 1.0]]}}.'
        )


class _Line(NamedTuple):
    """A sequence with a source (S, F) and a target (T, G). If the line has no target, `target` is
    None."""

    number: int
    id: str
    source: Floats
    target: Floats | None
    group: str | None


class _Reader:
    """A parser of the lines of a file. All lines must have the same number of features.

    Attributes:
        marks: the numbers that may represent missing values.
        widths: the number of source features, and the number of target features or None if there is
            no target. `widths` is None before the first line.
    """

    def __init__(self, name: str, reading: Reading) -> None:
        self.name, self.reading = name, reading
        self.marks = SentinelCounter(name, reading)
        self.widths: tuple[int, int | None] | None = None

    def line(self, line: bytes, number: int) -> _Line:
        place = f"{self.name}:{number}"
        content = parse_object(line, place)
        id_ = content.get("id", str(number))
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            raise DataError(f"{place}: 'id' must be a text or a whole number.")
        source = self.points(content["source"], "source", place)
        target = content.get("target")
        if target is not None:
            target = self.points(target, "target", place)
        self._check_widths(source.shape[1], None if target is None else target.shape[1], place)
        key = self.reading.group
        group = content.get(key) if key else None
        if key and not isinstance(group, str | int):
            raise DataError(f"{place}: has no group {key!r}.")
        return _Line(number, str(id_), source, target, None if group is None else str(group))

    def _check_widths(self, source: int, target: int | None, place: str) -> None:
        """Check the number of features.

        Raises:
            DataError: if the number differs from the number in earlier lines or from the number of
                feature names, or if only some lines have a target.
        """
        names = self.reading.features
        if self.widths is None and names is not None and len(names) != source:
            raise DataError(
                f"{place}: its points have {source} features, but there are"
                f" {len(names)} names: {', '.join(names)}."
            )
        self.widths = self.widths or (source, target)
        if (target is None) != (self.widths[1] is None):
            raise DataError(
                f"{place}: {'has no' if target is None else 'has a'} 'target', the lines before"
                f" have {'none' if self.widths[1] is None else 'one'}."
            )
        for side, width, expected in zip(
            ("source", "target"), (source, target), self.widths, strict=True
        ):
            if width != expected:
                raise DataError(
                    f"{place}: the points of its {side} have {width} features, those"
                    f" before have {expected}."
                )

    @staticmethod
    def points(given: Any, side: str, place: str) -> Floats:
        """Return the values of a list of steps as an array (L, F), with NaN for null."""
        if not isinstance(given, list) or not given:
            raise DataError(f"{place}: {side!r} must be a list of at least one point.")
        rows = [point if isinstance(point, list) else [point] for point in given]
        width = len(rows[0])
        for step, row in enumerate(rows, start=1):
            if len(row) != width or not width:
                raise DataError(
                    f"{place}: point {step} of {side!r} has {len(row)} numbers, the first has"
                    f" {width}."
                )
            for feature, value in enumerate(row, start=1):
                if value is None or type(value) in (int, float):
                    continue
                raise DataError(
                    f"{place}: point {step} of {side!r}, number {feature}, is"
                    f" {json.dumps(value)[:40]}, not a number."
                )
        try:
            return np.array(rows, dtype=np.float64)
        except OverflowError:
            raise DataError(f"{place}: {side!r} has a number that is too large.") from None

    def chunk(self, pending: list[_Line]) -> Chunk:
        assert self.widths is not None
        F, G = self.widths
        lines = [line.number for line in pending]
        names = self.reading.features or default_names(F)
        points = self._to_ragged([line.source for line in pending], names)
        target, where_target = None, None
        if G is not None:
            target_names = default_target_names(names, G)
            targets = [line.target for line in pending if line.target is not None]
            target = self._to_ragged(targets, target_names)
            where_target = _describe_place(lines, target.offsets, target_names, "target")
        return Chunk(
            ids=tuple(line.id for line in pending), points=points,
            where=_describe_place(lines, points.offsets, names, "source"), target=target,
            where_target=where_target, notes=self.marks.add(points, target),
            groups=tuple(line.group for line in pending if line.group is not None) or None,
        )  # fmt: skip

    def _to_ragged(self, rows: list[Floats], names: tuple[str, ...]) -> Ragged:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        values = np.concatenate(rows)
        values[np.isin(values, na_numbers(self.reading))] = np.nan
        return Ragged(values, to_offsets(lengths), tuple(names))


def _describe_place(lines: list[int], offsets: Integers, names: tuple[str, ...], side: str) -> Any:
    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        step = row - int(offsets[k]) + 1
        return f"line {lines[k]}, point {step} of its {side}, {names[feature]!r}"

    return where
