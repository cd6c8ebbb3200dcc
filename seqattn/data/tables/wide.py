"""Reader of wide tables, in which each row is a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.column_roles import WIDE_LAYOUT, ColumnRoles
from seqattn.data.files.chunk import Chunk, Ragged, to_offsets
from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.casting import infer_columns, trimmed
from seqattn.data.tables.checks import check_cells, first_non_number
from seqattn.data.tables.column import Column
from seqattn.data.tables.names import check_names
from seqattn.data.tables.sentinels import check_sentinels
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.wide_layout import WideLayout
from seqattn.errors import DataError, NoRows

CHUNK_CELLS = 2**22
"""Maximum number of cells in a chunk of several rows."""


def wide_chunks(table: Table, wide: WideLayout, options: ReadOptions) -> Iterator[Chunk]:
    """Yield the sequences of a wide table in chunks.

    Raises:
        DataError: if a cell is not a number, if a series id or a group is missing, or if the table
            has no rows.
    """
    columns = _cell_columns(table, wide, options)
    if options.group is not None:
        check_names(table, [options.group], "data.group")
    F = len(wide.features)
    (last,) = table.measure(f"max({ROW})")
    if last is None:
        raise NoRows(f"{table.name}: has a header but no rows.")
    names = [*wide.series, *([] if options.group is None else [options.group])]
    values = ", ".join(f"{column.sql} AS v{i}" for i, column in enumerate(columns.values()))
    extra = "".join(f", {trimmed(table.text(name))} AS w{i}" for i, name in enumerate(names))
    at_once = max(1, CHUNK_CELLS // len(wide.cells))
    decimal = "," if any(column.decimal == "," for column in columns.values()) else "."
    for first in range(1, last + 1, at_once):
        values_ = table.connection.execute(
            f"SELECT {ROW} AS r, {values}{extra} FROM {ROWS} WHERE {ROW} >= {first} AND"
            f" {ROW} < {first + at_once} ORDER BY {ROW}"
        ).fetchnumpy()
        rows = np.asarray(values_["r"])
        if not len(rows):
            continue
        cells = np.stack(
            [np.ma.filled(values_[f"v{i}"], np.nan) for i in range(len(wide.cells))], axis=1
        ).reshape(len(rows), -1, F)
        words = {
            name: _filled_words(table, values_[f"w{i}"], rows, name, wide)
            for i, name in enumerate(names)
        }
        yield _wide_chunk(table, wide, rows, cells, words, options.group, decimal)


def _cell_columns(table: Table, wide: WideLayout, options: ReadOptions) -> dict[str, Column]:
    """Return the columns of numbers by name, ordered as `wide.cells`.

    Raises:
        DataError: if a cell is not a number.
        AmbiguousData: if a feature of a training table contains a number such as -999 that is far
            from its other values.
    """
    columns = infer_columns(table, replace(options, time=None), wide.cells)  # numbers, no times
    for column in columns.values():
        check_cells(table, column)
        if column.kind in ("words", "time"):
            word = first_non_number(table, column, options)
            raise DataError(
                f"{table.name}: {word}. Correct the cell; or, if a row is not a sequence, set"
                " data.layout to long."
            )
    F, each = len(wide.features), tuple(columns.values())
    features = {f"feature {name!r}": each[i::F] for i, name in enumerate(wide.features)}
    check_sentinels(table, features, options)
    return columns


def _filled_words(
    table: Table, values_: Any, rows: NDArray[Any], name: str, wide: WideLayout
) -> tuple[str, ...]:
    """Return the words of a column that must have no empty cells, unless several columns form the
    id."""
    values_ = np.ma.filled(values_, "")
    empty = np.flatnonzero(values_ == "")
    if empty.size and (name not in wide.series or len(wide.series) == 1):
        line = table.line(int(rows[empty[0]]))
        raise DataError(f"{table.name}: {line}, column {name!r} is empty.")
    return tuple(map(str, values_))


def _wide_chunk(
    table: Table, wide: WideLayout, rows: NDArray[Any], cells: NDArray[Any],
    words: dict[str, tuple[str, ...]], group: str | None, decimal: str,
) -> Chunk:  # fmt: skip
    """Convert rows to sequences. Steps without values at the end of a row are padding."""
    n, L, F = cells.shape
    empty = np.isnan(cells).all(axis=2)
    lengths = L - np.where(empty.all(axis=1), L, empty[:, ::-1].argmin(axis=1))
    offsets = to_offsets(lengths)
    valid = np.arange(L) < lengths[:, None]
    values = cells[valid]

    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        column = wide.cells[(row - int(offsets[k])) * F + feature]
        return f"{table.line(int(rows[k]))}, column {column!r}"

    parts = tuple(zip(*(words[name] for name in wide.series), strict=True))
    return Chunk(
        ids=tuple("/".join(filter(None, part)) for part in parts) or tuple(map(str, rows.tolist())),
        points=Ragged(values, offsets, wide.features),
        where=where,
        order=None if wide.steps is None else np.broadcast_to(wide.steps, (n, L))[valid],
        groups=None if group is None else words[group],
        notes=(*table.notes, *wide.notes),
        is_wide=True,
        id_parts=parts if len(wide.series) > 1 else None,
        roles=ColumnRoles(
            WIDE_LAYOUT,
            wide.series,
            delimiter=table.delimiter,
            decimal=decimal,
            has_decimals=table.is_text and bool((np.abs(values - np.round(values)) > 0).any()),
        ),
    )
