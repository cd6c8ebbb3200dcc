"""Facts about the columns of a table. The roles of the columns are inferred from these facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seqattn.data.reading import Reading
from seqattn.data.tables.casting import infer_columns
from seqattn.data.tables.columns import Column, LeftOutColumn, Reason, check_names
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.times import TimeColumn, to_time_column
from seqattn.errors import NoRows


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


ROUNDING = 1e-12
"""Relative rounding error of float64 that is allowed in equal steps."""
MIN_ROWS = 8
"""Minimum number of rows at which equal steps indicate a time column."""
MIN_STORED_ROWS = 10_000
"""Minimum number of rows of a table in which the numbers and times of text columns are stored."""


class TableFacts:
    """Queries about the columns of one table, and the inferences made so far.

    Attributes:
        rows: number of rows.
        columns: the columns by name, without the columns in `data.ignore`.
        ignored: the reason for leaving out each ignored column, by column name.
        reasons: the reasons for the inferred series id and time columns, as phrases.
    """

    def __init__(self, table: Table, reading: Reading) -> None:
        self.table, self.reading = table, reading
        self.ignored = dict.fromkeys(reading.ignore, LeftOutColumn(Reason.BY_USER))
        self.reasons: list[str] = []
        assigned = [*reading.ignore, *(reading.number_columns or ()), *reading.one_hot]
        check_names(table, assigned, "data.features, data.ignore or data.one_hot")
        self.rows = len(table)
        if not self.rows:
            raise NoRows(f"{table.name}: has a header but no rows.")
        names = [name for name in table.header if name not in self.ignored]
        self.columns = infer_columns(table, reading, names)
        for name, column in self.columns.items():
            kind = {"number": "DOUBLE", "time": "TIMESTAMP"}.get(column.kind)
            if kind and table.has_text(name) and self.rows >= MIN_STORED_ROWS:
                self.columns[name] = replace(column, sql=table.store(column.sql, kind))
        numbers = [column for column in self.columns.values() if column.kind == "number"]
        table.measure(*(s for c in numbers for s in (c.empty_count, c.broken_count, *c.range)))

    def without_role(self, *taken: str) -> list[str]:
        """Return the names of the columns without a role, except the columns in `taken`."""
        assigned = {*taken, *(self.reading.features or ()), *self.reading.one_hot}
        if self.reading.group is not None:
            assigned.add(self.reading.group)
        return [name for name in self.columns if name not in self.ignored and name not in assigned]

    def count(self, sql: str) -> int:
        """Return the value of an aggregate that counts rows."""
        return int(self.table.measure(sql)[0])

    def distinct(self, *sql: str) -> int:
        """Return the number of distinct combinations of the values of SQL expressions."""
        return self.count(distinct(*sql))

    def is_integer(self, name: str) -> bool:
        """Return whether all cells of a column are integers."""
        column = self.columns[name]
        if column.kind != "number" or column.bad[0]:
            return False
        return not self.count(column.broken_count)

    def is_monotonic(self, name: str) -> bool:
        """Return whether the numbers of a column increase in at least three quarters of the rows,
        or decrease in at least three quarters."""
        if self.columns[name].kind != "number":
            return False
        others = (self._steps(name, f"step {sign} 0 OR step IS NULL") for sign in ("<=", ">="))
        return min(others) * 4 <= self.rows

    def has_digits(self, name: str) -> bool:
        """Return whether all cells of a column of words contain a digit."""
        text = self.columns[name].text
        return not self.count(f"count(*) FILTER (NOT regexp_matches({text}, '[0-9]'))")

    def increments_by_one(self, name: str) -> bool:
        """Return whether the numbers of a column increase by one in every row of a table with at
        least three rows."""
        if self.columns[name].kind != "number" or self.rows <= 2:
            return False
        return not self._steps(name, "step IS DISTINCT FROM 1")

    def _steps(self, name: str, which: str) -> int:
        """Return the number of rows, not counting the first row, for which an SQL condition is
        true.

        Args:
            name: name of the column.
            which: condition on `step`, the difference from the previous row. The condition must be
                true if `step` is NULL.
        """
        value = self.columns[name].sql
        (count,) = self.table.one_cached(
            f"SELECT count(*) FILTER ({which}) FROM (SELECT {value} - lag({value}) OVER () AS step"
            f" FROM {ROWS})"
        )
        return int(count) - 1

    def is_contiguous(self, name: str) -> bool:
        """Return whether the rows with the same value in a column are always contiguous."""
        text = self.columns[name].text
        changes = self.table.one(
            f"SELECT count(*) FILTER (word IS DISTINCT FROM before) FROM (SELECT {text} AS word,"
            f" lag({text}) OVER () AS before FROM {ROWS})"
        )[0]
        return bool(changes == self.distinct(text))

    def identifies_rows(self, names: Sequence[str], time: TimeColumn) -> bool:
        """Return whether the given columns and the time together identify each row. In addition,
        each combination of values in the given columns must have more than two rows on average."""
        texts = [self.columns[name].text for name in names]
        if not self.rows > 2 * self.distinct(*texts):
            return False
        in_order = are_in_order(self.table, texts, time.sql)
        return in_order or self.distinct(*texts, time.sql) == self.rows

    def is_constant_in(self, series: Sequence[str], column: Column) -> bool:
        """Return whether a column has no empty cells and a single value in each of several series.
        If each series has only one row, return False."""
        texts = [self.columns[name].text for name in series]
        first = " AND ".join(
            f"{text} = (SELECT {text} FROM {ROWS} ORDER BY {ROW} LIMIT 1)" for text in texts
        )
        some = f"(SELECT {column.text} AS v FROM {ROWS} WHERE {first} LIMIT 1000)"
        if self.table.one(f"SELECT count(DISTINCT v) FROM {some}")[0] > 1:
            return False  # this quick check is enough for most features
        groups = self.distinct(*texts)
        return (
            1 < groups < self.rows
            and self.distinct(*texts, column.text) == groups
            and not self.count(column.empty_count)
        )

    def to_time_column(self, name: str) -> TimeColumn:
        """Use the function `to_time_column` to convert a column to the times of the rows."""
        return to_time_column(self.table, self.columns[name], self.reading)

    def find_counter(self, series: Sequence[str]) -> TimeColumn | None:
        """Find a column of numbers that grows by a constant amount within each series. Return None
        if there is no such column, if the table has fewer than `MIN_ROWS` rows, or if the user set
        `data.time`."""
        if self.reading.time != "auto" or self.rows < MIN_ROWS:
            return None
        keys = ", ".join(self.columns[name].text for name in series)
        over = f"({f'PARTITION BY {keys} ' if keys else ''}ORDER BY {ROW})"
        for name in self.without_role(*series):
            if self.columns[name].kind != "number" or self.columns[name].bad[0]:
                continue
            value = self.columns[name].sql
            smallest, largest_step, empty, largest = self.table.one(
                "SELECT min(step), max(step), count(*) FILTER (v IS NULL), max(abs(v)) FROM"
                f" (SELECT {value} AS v, {value} - lag({value}) OVER {over} AS step FROM {ROWS})"
            )
            if empty or smallest is None or smallest <= 0:
                continue
            if largest_step - smallest <= ROUNDING * largest:
                self.reasons.append(
                    f"time: {name!r}, because it grows by {smallest:g} in every row"
                )
                return self.to_time_column(name)
        return None
