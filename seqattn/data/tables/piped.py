"""Reader of tables from a pipe. A table is read in blocks, so that forecasts can begin before the
pipe ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.chunk import MAX_LINE_BYTES, Chunk, Ragged, concat_chunks
from seqattn.data.json_lines import read_line_blocks
from seqattn.data.reading import ReadOptions
from seqattn.data.tables.casting import cleaned_text
from seqattn.data.tables.connection import named_file
from seqattn.data.tables.names import SERIES_NAMES, SURE_SERIES, TIME_NAMES, fold_name
from seqattn.data.tables.read import DELIMITERS, infer_layout, match_feature_names, table_chunks
from seqattn.data.tables.roles import LongLayout, check_later_rows
from seqattn.data.tables.table import ROWS, Table, clean_rows, open_text_table
from seqattn.data.tables.text import TextFormat
from seqattn.data.tables.wide import WideLayout
from seqattn.errors import AmbiguousData, DataError

BLOCK_BYTES = 2**22
"""Maximum number of bytes that are read at a time."""
MIN_LINES = 64
"""Number of lines from which roles are inferred, unless fewer lines are sufficient."""


def read_piped_table(raw: BinaryIO, name: str, options: ReadOptions, kind: str) -> Iterator[Chunk]:
    """Yield chunks of sequences as soon as these sequences are complete. In a long table, a
    sequence is complete when the next sequence begins or the pipe ends.

    The format and the roles are inferred from the first lines. The rows of a sequence must be
    contiguous.

    Raises:
        DataError: if the table cannot be used.
    """

    def too_long(lines: int) -> DataError:
        return DataError(
            f"{name}: line {lines + 1} is longer than {MAX_LINE_BYTES // 2**20} MiB; this is"
            " not a table of sequences."
        )

    form: TextFormat | None = None
    layout: LongLayout | WideLayout | None = None
    incomplete: Chunk | None = None
    rows = lines = 0
    blocks = (block for block, _ in read_line_blocks(raw, BLOCK_BYTES, MAX_LINE_BYTES, too_long))
    first_options = options
    for block in _merge_first(blocks, lambda head: _is_enough(head, name, first_options, kind)):
        if form is None:
            form = _text_format(block, name, options, kind)
        with named_file(".csv") as file:
            file.write(block)
            file.flush()
            with open_text_table(Path(file.name), name, form, lines) as table:
                count = len(table)
                table.line = _line_counter(rows)
                clean_rows(table, is_last=False)
                if layout is None:
                    options = match_feature_names(table, options)
                    layout, options = _infer_layout(table, options)
                elif isinstance(layout, LongLayout):
                    for column in layout.columns:
                        cleaned_text(table, column, options)
                    check_later_rows(table, layout)
                for chunk in table_chunks(table, layout, options, whole=True) if len(table) else ():
                    ready = chunk
                    if isinstance(layout, WideLayout):
                        options = _keep_decimal(table, layout, options, chunk)
                    else:
                        whole = _append_chunk(incomplete, chunk)
                        ready, incomplete = _split_last(whole, options, name)
                    if len(ready):
                        yield ready
        rows += count
        lines += block.count(b"\n")
        form = replace(form, skip=0, skips_quotes=False, has_header=False, notes=())
    if form is None:
        raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
    if incomplete is not None:
        yield incomplete


def _keep_decimal(
    table: Table, layout: WideLayout, options: ReadOptions, chunk: Chunk
) -> ReadOptions:
    """Return the options for the next block of a wide table, with the decimal mark of this block.
    If this block has neither a decimal mark nor a thousands separator, return the same options."""
    if options.decimal != "auto":
        return options
    decimal = "." if chunk.roles is None else chunk.roles.decimal
    texts = map(table.text, layout.cells)
    signs = " OR ".join(f"regexp_matches({text}, '[.,]')" for text in texts)
    (count,) = table.one(f"SELECT count(*) FILTER ({signs}) FROM {ROWS}")
    return replace(options, decimal=decimal) if count else options


def _text_format(block: bytes, name: str, options: ReadOptions, kind: str) -> TextFormat:
    form = TextFormat.of_head(block, name, options, DELIMITERS.get(kind))
    if form.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        raise DataError(
            f"{name}: is {form.encoding.upper()}, which cannot be read as it comes. Convert it:"
            f" iconv -f {form.encoding.upper()} -t UTF-8; or give a file."
        )
    return form


def _merge_first(blocks: Iterator[bytes], is_enough: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Merge the first blocks until `is_enough` is true for the merged block. Yield the merged block
    and all later blocks."""
    head = b""
    for block in blocks:
        head += block
        if is_enough(head):
            yield head
            head = b""
            break
    if head.strip():
        yield head
    yield from blocks


def _infer_layout(
    table: Table, options: ReadOptions
) -> tuple[LongLayout | WideLayout, ReadOptions]:
    """Infer the layout of the first block. Return it with the options that it needs: if the block
    is ambiguous and the training data show how to read it, it is read in the same way, and the
    table gets a note.

    Raises:
        AmbiguousData: if the training data do not show how to read an ambiguous block.
    """
    while True:
        try:
            return infer_layout(table, options), options
        except AmbiguousData as ambiguity:
            if options.roles is None:
                raise
            resolution = options.roles.resolve(ambiguity, options)
        table.notes.append(f"is {resolution.note('in the training')}")
        options = resolution.apply_to(options)


def _is_enough(head: bytes, name: str, options: ReadOptions, kind: str) -> bool:
    """Return whether the first lines are sufficient to find the series id column.

    A header and a row are sufficient if the options specify this column, if the header contains an
    unambiguous name for it, or if all columns are features or usual time columns. Otherwise,
    `MIN_LINES` lines are sufficient, or two lines with at least `BLOCK_BYTES` bytes.
    """
    lines = head.count(b"\n")
    if lines < 2 or lines >= MIN_LINES or len(head) >= BLOCK_BYTES:
        return lines >= 2
    if options.series != "auto" or (options.roles is not None and options.roles.series):
        return True
    header = {fold_name(cell) for cell in _text_format(head, name, options, kind).header}
    others = header - {fold_name(cell) for cell in options.features or ()} - set(TIME_NAMES)
    return not others or bool(header & set(SERIES_NAMES[:SURE_SERIES]))


def _line_counter(before: int) -> Any:
    return lambda row: f"row {before + row}"


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


def _split_last(chunk: Chunk, options: ReadOptions, name: str) -> tuple[Chunk, Chunk]:
    """Split a chunk into two chunks: all sequences except the last, and the last sequence. The
    first of the two chunks may be empty.

    Raises:
        DataError: if the last sequence has too many values.
    """
    points, n = chunk.points, len(chunk) - 1
    at = int(points.offsets[n])
    if options.max_values is not None and points.values[at:].size > options.max_values:
        raise DataError(
            f"{name}: the series {chunk.ids[-1]!r} has more than {options.max_values:,} numbers."
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
