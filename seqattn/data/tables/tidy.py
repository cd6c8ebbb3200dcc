"""Removal of table rows that are not data, and a check that column names are unique."""

from __future__ import annotations

from seqattn.data.tables.column import NA_VALUES
from seqattn.data.tables.connection import literal
from seqattn.data.tables.header import is_like_value, value_columns
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.errors import DataError

TOTALS = ("total", "totals", "sum", "mean", "average", "count", "gesamt", "summe", "totaal")
"""First words that indicate a row of totals at the end of a table."""


def clean_rows(table: Table, *, is_first: bool = True, is_last: bool = True) -> None:
    """Remove unnamed empty columns at the end of a table. In a text file, also remove repeated
    headers, rows of totals and a row of units, and add notes for the user.

    Args:
        table: the table, which is changed in place.
        is_first: whether the table includes the first rows of the file.
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
    if table.is_text:
        if len(header) == 1 and is_last:
            table.change(  # blank lines at the end are not rows
                f"DELETE FROM {ROWS} WHERE {ROW} > (SELECT coalesce(max({ROW}), 0) FROM {ROWS}"
                " WHERE trim(coalesce(c0, '')) <> '')"
            )
        _drop_repeated_headers(table)
        _drop_totals(table)
        if is_first:
            _drop_units(table)


def _is_empty(table: Table, index: int) -> bool:
    text = table.text(table.header[index])
    (count,) = table.one(f"SELECT count(*) FROM {ROWS} WHERE trim(coalesce({text}, '')) <> ''")
    return int(count) == 0


def _drop_repeated_headers(table: Table) -> None:
    """Remove rows that repeat the header, as in concatenated files."""
    if not all(map(is_like_value, table.texts)):
        return  # a typed column cannot contain the name of the column
    same = " AND ".join(
        f"trim(coalesce({table.text(name)}, '')) = {literal(name)}" for name in table.header
    )
    rows = [row for (row,) in table.query(f"SELECT {ROW} FROM {ROWS} WHERE {same} ORDER BY {ROW}")]
    if rows:
        table.notes.append(f"{table.line(rows[0])} repeats the header and is left out")
        table.change(f"DELETE FROM {ROWS} WHERE {same}")


def _drop_totals(table: Table) -> None:
    """Remove the last rows if they begin with a word such as Total and the rows before them begin
    with a value."""
    first = table.text(table.header[0])
    rows = table.query(
        f"SELECT {ROW}, trim(coalesce({first}, '')) FROM {ROWS} ORDER BY {ROW} DESC LIMIT 40"
    )
    totals = []
    for row, cell in rows:
        if cell.lower().rstrip(":").split(" ")[0] not in TOTALS:
            break
        totals.append((row, cell))
    others = [cell for _, cell in rows[len(totals) :]]
    if not totals or len(others) < 3 or not all(map(is_like_value, others)):
        return
    row, cell = totals[-1]
    table.notes.append(f"{table.line(row)} begins with {cell!r}, so it is not data and is left out")
    table.change(f"DELETE FROM {ROWS} WHERE {ROW} >= {row}")


def _drop_units(table: Table) -> None:
    """Remove the first row if it contains units above columns of values."""
    columns = [table.text(name) for name in table.header]
    rows = table.query(f"SELECT {', '.join(columns)} FROM {ROWS} ORDER BY {ROW} LIMIT 20")
    if len(rows) < 3:
        return
    first, *others = ([(cell or "").strip() for cell in row] for row in rows)
    units = {index: first[index] for index in value_columns(others)}
    if not units or any(map(is_like_value, first)) or not _are_units(units, others):
        return
    shown = ", ".join(f"{table.header[i]} in {unit}" for i, unit in units.items() if unit)
    table.notes.append(f"{table.line(1)} contains units, not values ({shown}), and is left out")
    table.change(f"DELETE FROM {ROWS} WHERE {ROW} = 1")


def _are_units(units: dict[int, str], others: list[list[str]]) -> bool:
    """Return whether words above columns of values are units. The words must not all be empty, and
    must not occur in the rows below."""
    below = {row[index] for row in others for index in units}
    words = set(units.values())
    return not below & words and not {word.lower() for word in words} <= set(NA_VALUES)
