"""Removal of empty columns and lines at the end of a table, and a check of the column names."""

from __future__ import annotations

from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import DataError


def clean_rows(table: Table, *, is_last: bool = True) -> None:
    """Remove unnamed empty columns at the end of a table. If a text file has a single column, also
    remove blank lines at its end.

    Args:
        table: the table, which is changed in place.
        is_last: whether the table includes the last rows of the file.

    Raises:
        DataError: if two columns have the same name.
    """
    header = list(table.header)
    while len(header) > 1 and header[-1] == "" and _is_empty(table, len(header) - 1):
        header.pop()
    table.header, table.types = tuple(header), table.types[: len(header)]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{table.name}: the column {twice[0]!r} occurs twice. Rename one of them.")
    if table.is_text and len(header) == 1 and is_last:
        table.change(
            f"DELETE FROM {ROWS} WHERE {ROW} > (SELECT coalesce(max({ROW}), 0) FROM {ROWS}"
            " WHERE trim(coalesce(c0, '')) <> '')"
        )


def _is_empty(table: Table, index: int) -> bool:
    text = table.text(table.header[index])
    (count,) = table.one(f"SELECT count(*) FROM {ROWS} WHERE trim(coalesce({text}, '')) <> ''")
    return int(count) == 0
