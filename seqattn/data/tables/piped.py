"""A table that comes through a pipe: read in blocks, so that a slow sender is answered."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.files.blocks import blocks_of_lines
from seqattn.data.files.options import ReadOptions
from seqattn.data.files.piece import Piece, Ragged, offsets_of
from seqattn.data.tables.long import long_pieces
from seqattn.data.tables.table import LONGEST_LINE, table_of_text
from seqattn.data.tables.text_format import TextFormat
from seqattn.data.tables.tidy import tidied
from seqattn.data.tables.wide import wide_pieces
from seqattn.errors import DataError

BLOCK = 2**22
"""Bytes of text that are read at once."""
DELIMITERS = {"tsv": "\t"}


def read_piped_table(raw: BinaryIO, name: str, options: ReadOptions, kind: str) -> Iterator[Piece]:
    """Whole sequences as they come; the last waits for what follows.

    The first block says how the rest is read. Rows of one sequence stand together: a sequence that
    is over cannot be taken up again.

    Raises:
        DataError: with the row, and what would do.
    """
    from seqattn.data.tables import Understood, for_file, understand

    def too_long(lines: int) -> DataError:
        return DataError(
            f"{name}: line {lines + 1} is longer than {LONGEST_LINE // 2**20} MiB; that is no table"
            " of sequences."
        )

    form: TextFormat | None = None
    understood: Understood | None = None
    held: Piece | None = None
    head = b""
    rows = 0
    for block, _ in blocks_of_lines(raw, BLOCK, LONGEST_LINE, too_long):
        if form is None:
            head += block
            if head.count(b"\n") < 2:
                continue
            block = head
            form = TextFormat.of_head(block, name, options, DELIMITERS.get(kind))
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(block)
            file.flush()
            with table_of_text(Path(file.name), name, form) as table:
                count = len(table)
                table.line = _line_from(rows)
                tidied(table)
                if understood is None:
                    options = for_file(table, options)
                    understood = understand(table, options)
                else:
                    table.notes.clear()
                if len(table):
                    if understood.wide is not None:
                        yield from wide_pieces(table, understood.wide, options)
                    else:
                        assert understood.roles is not None
                        (piece,) = long_pieces(table, understood.roles, options, whole=True)
                        ready, held = _split_last(_joined(held, piece), options, name)
                        if ready is not None:
                            yield ready
        rows += count
        form = replace(form, skip=0, comments=0, has_header=False, notes=())
    if form is None:
        if not head.strip():
            raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
        raise DataError(f"{name}: has a header but no rows.")
    if held is not None:
        yield held


def _line_from(before: int) -> Any:
    return lambda row: f"row {before + row}"


def _joined(held: Piece | None, piece: Piece) -> Piece:
    """The sequence that was held back before those of the next block; its rows go on there.

    Raises:
        DataError: its times do not go on.
    """
    if held is None:
        return piece
    goes_on = held.ids[-1] == piece.ids[0]
    if goes_on and held.order is not None and piece.order is not None:
        if not piece.order[0] > held.order[-1]:
            raise DataError(
                f"{piece.where(0, 0)}: its time comes before that of the row before, and what comes"
                " through a pipe cannot be sorted. Give a file."
            )
    first, second = held.points, piece.points
    n = len(first.values)
    lengths = list(first.lengths) + list(second.lengths)
    if goes_on:
        lengths[len(first) - 1 : len(first) + 1] = [sum(lengths[len(first) - 1 : len(first) + 1])]

    def where(row: int, feature: int) -> str:
        return held.where(row, feature) if row < n else piece.where(row - n, feature)

    def both(a: Any, b: Any) -> Any:
        return None if a is None else a + b[1 if goes_on else 0 :]

    return Piece(
        ids=both(held.ids, piece.ids),
        points=Ragged(
            np.concatenate([first.values, second.values]),
            offsets_of(np.array(lengths, dtype=np.int64)), first.features,
        ),
        where=where,
        order=None if held.order is None else np.concatenate([held.order, piece.order]),
        groups=both(held.groups, piece.groups),
        notes=tuple(dict.fromkeys([*held.notes, *piece.notes])),
        style=held.style,
        id_parts=both(held.id_parts, piece.id_parts),
    )  # fmt: skip


def _split_last(piece: Piece, options: ReadOptions, name: str) -> tuple[Piece | None, Piece]:
    """All sequences but the last, and the last.

    Raises:
        DataError: the last has too many numbers.
    """
    points, n = piece.points, len(piece) - 1
    at = int(points.offsets[n])
    if options.most is not None and points.values[at:].size > options.most:
        raise DataError(
            f"{name}: the series {piece.ids[-1]!r} has more than {options.most:,} numbers. Write it"
            " to a file, and give that instead."
        )

    def part(first: int, last: int, begin: int, end: int) -> Piece:
        return replace(
            piece, ids=piece.ids[first:last],
            points=Ragged(points.values[begin:end], points.offsets[first : last + 1] - begin,
                          points.features),
            where=lambda row, feature: piece.where(row + begin, feature),
            order=None if piece.order is None else piece.order[begin:end],
            groups=None if piece.groups is None else piece.groups[first:last],
            id_parts=None if piece.id_parts is None else piece.id_parts[first:last],
        )  # fmt: skip

    last = part(n, n + 1, at, len(points.values))
    return (part(0, n, 0, at) if n else None), last
