"""Functions that count distinct values and check whether the rows of a table are sorted."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.data.tables.table import ROW, ROWS, Table


def distinct(*sql: str) -> str:
    """Return an SQL expression that counts the distinct combinations of values by their 64-bit
    hashes."""
    return f"count(DISTINCT hash({', '.join(sql)}))"


def are_in_order(table: Table, keys: Sequence[str], step: str) -> bool:
    """Return whether the rows of each series are contiguous and have strictly increasing times. If
    rows before the last row were removed from the table, return False.

    Args:
        table: the rows.
        keys: SQL expressions for the series id columns; empty if all rows are one series.
        step: SQL expression for the time.
    """
    rows = f"count(*) = max({ROW})"  # False if a row before the last row was removed
    groups = distinct(*keys) if keys else "least(count(*), 1)"
    is_complete, num_series = table.measure(rows, groups)
    if not is_complete:
        return False
    cells = [*keys, step]
    pairs = ", ".join(f"{sql} AS k{i}, lag({sql}) OVER () AS p{i}" for i, sql in enumerate(cells))
    last = len(keys)
    same = " AND ".join(f"k{i} = p{i}" for i in range(last)) or f"p{last} IS NOT NULL"
    sql = (
        f"SELECT count(*) FILTER (({same}) IS NOT TRUE), count(*) FILTER (({same}) AND"
        f" (k{last} > p{last}) IS NOT TRUE) FROM (SELECT {pairs} FROM {ROWS})"
    )
    changes, backwards = table.one_cached(sql)
    return bool(changes == num_series and not backwards)
