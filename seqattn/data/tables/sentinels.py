"""Detection of numbers in a table that may represent missing values, such as -999."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seqattn.data.reading import ReadOptions
from seqattn.data.sentinels import MARKS, Others, Suspect, check_suspect
from seqattn.data.tables.columns import Column
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROWS, Table


def check_sentinels(
    table: Table, features: Mapping[str, Sequence[Column]], options: ReadOptions
) -> None:
    """Check features for numbers that may represent missing values. Outside training, such a number
    only causes a note.

    Args:
        table: the rows.
        features: the columns of each feature, by description of the feature in messages.
        options: the options for reading the table.

    Raises:
        AmbiguousData: if `data.na_values` is not set and a feature of a training table contains a
            number from `SENTINELS` that is far from its other values.
    """
    if options.na_values is not None:
        return
    for feature, columns in features.items():
        numbers = [column for column in columns if column.kind == "number"]
        if not _has_marks_in_range(table, numbers):
            continue
        for suspect in _suspects(table, [column.sql for column in numbers]):
            if note := check_suspect(table.name, feature, suspect, options):
                table.notes.append(note)


def _has_marks_in_range(table: Table, columns: Sequence[Column]) -> bool:
    """Return whether a number from `MARKS` lies in the range of the values of a feature."""
    bounds = table.measure(*(sql for column in columns for sql in column.range)) if columns else ()
    known = [bound for bound in bounds if bound is not None]
    return bool(known) and any(min(known) <= mark <= max(known) for mark in MARKS)


def _suspects(table: Table, values: Sequence[str]) -> list[Suspect]:
    """Return the numbers from `MARKS` in the columns of a feature. A float32 number counts as the
    float64 number that has the same text."""
    cells = f"(SELECT unnest([{', '.join(values)}]) AS v FROM {ROWS})"
    listed = ", ".join(map(literal, MARKS))
    found: dict[str, tuple[float, int]] = {}
    for value, count in table.query(
        f"SELECT v, count(*) FROM {cells} WHERE v IN ({listed}) GROUP BY v ORDER BY v"
    ):
        found[f"{value:g}"] = value, found.get(f"{value:g}", (0, 0))[1] + count
    if not found:
        return []
    marks = sorted(found.values())
    # One query measures the values between two neighboring numbers for all numbers at once.
    place = " + ".join(f"CAST(v > {literal(value)} AS INTEGER)" for value, _ in marks)
    parts = {
        int(at): Others(low, high, count)
        for at, low, high, count in table.query(
            f"SELECT {place} AS place, min(v), max(v), count(v) FROM {cells}"
            f" WHERE v NOT IN ({listed}) AND NOT isnan(v) GROUP BY place"
        )
    }
    return [
        Suspect(
            value, count,
            _join([part for at, part in parts.items() if at <= k]),
            _join([part for at, part in parts.items() if at > k]),
        )
        for k, (value, count) in enumerate(marks)
    ]  # fmt: skip


def _join(parts: Sequence[Others]) -> Others:
    """Return the values of several parts of a range."""
    if not parts:
        return Others(0.0, 0.0, 0)
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    return Others(low, high, sum(part.count for part in parts))
