"""Whether the rows of a table are in order."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.tables.table import ROW, ROWS, Table


def distinct(*sql: str) -> str:
    """The SQL of how many combinations of values there are, told apart by 64 bits of a hash."""
    return f"count(DISTINCT hash({', '.join(sql)}))"


def are_in_order(table: Table, keys: Sequence[str], step: str) -> bool:
    """Whether the rows of each series stand together, with times that increase; no series then
    has one time twice.

    Args:
        keys: SQL of what names the series of a row; none: all rows are of one.
        step: SQL of its time.
    """
    rows = f"count(*) = max({ROW})"  # none was left out: a row's number says its place
    groups = distinct(*keys) if keys else "least(count(*), 1)"
    is_whole, wanted = table.measure(rows, groups)
    if not is_whole:
        return False
    cells = [*keys, step]
    pairs = ", ".join(f"{sql} AS k{i}, lag({sql}) OVER () AS p{i}" for i, sql in enumerate(cells))
    last = len(keys)
    same = " AND ".join(f"k{i} = p{i}" for i in range(last)) or f"p{last} IS NOT NULL"
    sql = (
        f"SELECT count(*) FILTER (({same}) IS NOT TRUE), count(*) FILTER (({same}) AND"
        f" (k{last} > p{last}) IS NOT TRUE) FROM (SELECT {pairs} FROM {ROWS})"
    )
    changes, backwards = table.once(sql)
    return bool(changes == wanted and not backwards)
