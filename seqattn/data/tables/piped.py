"""Reader of tables from a pipe. A table is read in blocks, so that forecasts can begin before the
pipe ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.chunk import MAX_LINE_BYTES, MAX_PIPED, Chunk, Ragged, concat_chunks
from seqattn.data.json_lines import read_line_blocks
from seqattn.data.reading import Reading, join_names
from seqattn.data.tables.connection import named_file
from seqattn.data.tables.read import as_trained, find_roles
from seqattn.data.tables.table import Before, Table, open_text_table
from seqattn.data.tables.text import TextFormat
from seqattn.data.tables.wide import find_wide_table
from seqattn.errors import DataError

BLOCK_BYTES = 2**22
"""Maximum number of bytes that are read at a time."""
SAMPLE_COLUMNS = {"series": "sequence", "time": "step"}
"""The column of each role in the files of `seqattn data sample`."""


def read_piped_table(raw: BinaryIO, name: str, kind: str, reading: Reading) -> Iterator[Chunk]:
    """Yield chunks of sequences as soon as these sequences are complete. In a long table, a
    sequence is complete when the next sequence begins or the pipe ends.

    The rows of a sequence must be contiguous. The first block of lines completes the reading, in
    which all later blocks are read.

    Raises:
        DataError: if the table is empty.
    """

    def too_long(lines: int) -> DataError:
        return DataError(
            f"{name}: line {lines + 1} is longer than {MAX_LINE_BYTES // 2**20} MiB; this is"
            " not a table of sequences."
        )

    form: TextFormat | None = None
    incomplete: Chunk | None = None
    before, head = Before(0, 0), b""
    for block, _ in read_line_blocks(raw, BLOCK_BYTES, MAX_LINE_BYTES, too_long):
        head += block
        if not head.strip() or (form is None and head.count(b"\n") < 2):
            continue
        if form is None:
            form = _text_format(head, name, kind, reading)
        with named_file(".csv") as file:
            file.write(head)
            file.flush()
            with open_text_table(Path(file.name), name, form, before) as table:
                if not before.lines:
                    reading = _known_roles(table, as_trained(table, reading, reading.trained))
                for chunk in (
                    _block_chunks(table, reading) if len(table) or not before.lines else ()
                ):
                    reading = chunk.reading or reading
                    if not chunk.is_wide:
                        chunk, incomplete = _split_last(_append_chunk(incomplete, chunk), name)
                    if len(chunk):
                        yield chunk
                before = Before(before.rows + len(table), before.lines + head.count(b"\n"))
        head, form = b"", replace(form, skip=0, skips_quotes=False, has_header=False, notes=())
    if form is None:
        raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
    if incomplete is not None:
        yield incomplete


def _text_format(head: bytes, name: str, kind: str, reading: Reading) -> TextFormat:
    """Detect the format of a table from its first lines.

    Raises:
        DataError: if the encoding has several bytes per character.
    """
    form = TextFormat.of_head(head, name, reading, kind)
    if form.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        raise DataError(
            f"{name}: is {form.encoding.upper()}, which cannot be read as it comes. Convert it:"
            f" iconv -f {form.encoding.upper()} -t UTF-8; or give a file."
        )
    return form


def _block_chunks(table: Table, reading: Reading) -> Iterator[Chunk]:
    found, resolutions = find_roles(table, reading, reading.trained)
    for chunk in found.chunks(whole=True):
        yield replace(chunk, resolutions=resolutions)


def _known_roles(table: Table, reading: Reading) -> Reading:
    """Return the reading of a table with known series and time columns, because the first rows do
    not show them.

    Raises:
        DataError: if neither the user nor the training table nor the names of a sample determine a
            column.
    """
    if find_wide_table(table, reading) is not None:
        return reading
    for role, sample in SAMPLE_COLUMNS.items():
        if getattr(reading, role) != "auto":
            continue
        if sample not in table.header:
            raise DataError(
                f"{table.name}: the column of the {role} must be known, because the rows are read"
                f" as they come; found {join_names(table.header)}. Set it: --set data.{role}=COLUMN"
                f" or --set data.{role}=null; or give a file."
            )
        reading = replace(reading, **{role: (sample,)})  # type: ignore[arg-type]
    return reading


def _append_chunk(incomplete: Chunk | None, chunk: Chunk) -> Chunk:
    """Concatenate the incomplete last sequence and the next chunk, in which this sequence may
    continue.

    Raises:
        DataError: if the times of the sequence do not increase.
    """
    if incomplete is None:
        return chunk
    continues = incomplete.ids[-1] == chunk.ids[0]
    orders = incomplete.order, chunk.order
    if (
        continues
        and orders[0] is not None
        and orders[1] is not None
        and orders[1][0] <= orders[0][-1]
    ):
        raise DataError(
            f"{chunk.where(0, 0)}: its time comes before that of the row before, and what comes"
            " through a pipe cannot be sorted. Give a file."
        )
    together = concat_chunks([incomplete, chunk])
    if not continues:
        return together
    n, points = len(incomplete), together.points

    def without_repeat(words: Any) -> Any:
        return None if words is None else words[:n] + words[n + 1 :]

    return replace(
        together, ids=without_repeat(together.ids), groups=without_repeat(together.groups),
        id_parts=without_repeat(together.id_parts),
        points=Ragged(points.values, np.delete(points.offsets, n), points.features),
    )  # fmt: skip


def _split_last(chunk: Chunk, name: str) -> tuple[Chunk, Chunk]:
    """Split a chunk into two chunks: all sequences except the last, and the last sequence. The
    first of the two chunks may be empty.

    Raises:
        DataError: if the last sequence has too many values.
    """
    points, n = chunk.points, len(chunk) - 1
    at = int(points.offsets[n])
    if points.values[at:].size > MAX_PIPED:
        raise DataError(
            f"{name}: the series {chunk.ids[-1]!r} has more than {MAX_PIPED:,} numbers."
            " Write it to a file, and give that instead."
        )

    def slice_chunk(first: int, last: int, begin: int, end: int) -> Chunk:
        return replace(
            chunk, ids=chunk.ids[first:last],
            points=Ragged(points.values[begin:end], points.offsets[first : last + 1] - begin,
                          points.features),
            where=lambda row, feature: chunk.where(row + begin, feature),
            order=None if chunk.order is None else chunk.order[begin:end],
            groups=None if chunk.groups is None else chunk.groups[first:last],
            id_parts=None if chunk.id_parts is None else chunk.id_parts[first:last],
        )  # fmt: skip

    return slice_chunk(0, n, 0, at), slice_chunk(n, n + 1, at, len(points.values))
