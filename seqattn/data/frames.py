"""Functions that write DataFrames as Parquet files, which are then read like other files.

The DuckDB database reads pandas DataFrames directly, and polars DataFrames and pyarrow tables as
Arrow streams. This module does not import pandas, polars or pyarrow.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.data.reading import name_origin
from seqattn.data.tables.connection import connect, literal, quote_name
from seqattn.errors import DataError

NAME = "the DataFrame"
FILE = "DataFrame.parquet"
KINDS = {("pandas", "DataFrame"): "pandas", ("polars", "DataFrame"): "arrow",
         ("pyarrow", "Table"): "arrow"}  # fmt: skip
IN_MICROSECONDS = {"TIMESTAMPTZ_NS": "TIMESTAMPTZ", "TIMESTAMP_NS": "TIMESTAMP",
                   "TIME_NS": "TIME"}  # fmt: skip
"""Nanosecond types of the database, each with the corresponding type that the readers support."""
AS_TEXT = ("NULL", '"NULL"', "UUID", "BLOB")
"""Types of the database that are written to Parquet as text."""
CONVERSION_HINTS = {
    ("pandas", "Series"): "Give a DataFrame: series.to_frame('x')",
    ("polars", "Series"): "Give a DataFrame: series.to_frame('x')",
    ("polars", "LazyFrame"): "Collect it first: frame.collect()",
}


def frame_kind(value: Any) -> str | None:
    """Return the kind of a table object: "pandas", "arrow", or None for any other object.

    Raises:
        DataError: if the object is a Series or a LazyFrame.
    """
    for each in type(value).__mro__:
        key = each.__module__.partition(".")[0], each.__name__
        if key in KINDS:
            return KINDS[key]
        if key in CONVERSION_HINTS:
            raise DataError(f"expected a DataFrame, got a {'.'.join(key)}. {CONVERSION_HINTS[key]}")
    return None


def write_frame(frame: Any, path: Path) -> None:
    """Write a DataFrame as a Parquet file."""
    is_pandas = frame_kind(frame) == "pandas"
    plain = plain_pandas(frame) if is_pandas else frame
    rows: Any = plain
    if not is_pandas:
        _check_names(list(getattr(frame, "column_names", None) or frame.columns))
        if hasattr(frame, "with_columns"):  # the database does not support some types of polars
            types = {name: str(kind) for name, kind in frame.schema.items()}
            plain = frame.with_columns(
                frame[name].cast(str if kind != "Float16" else float)
                for name, kind in types.items() if kind in ("Null", "Int128", "UInt128", "Float16")
            )  # fmt: skip
        rows = plain.__arrow_c_stream__()
    with connect(NAME) as connection:
        # By default, only the first thousand cells of an object column determine its type.
        connection.execute(f"SET pandas_analyze_sample = {len(plain) + 1}")
        connection.register("frame_rows", rows)
        # The copy is necessary because a stream can be read only once.
        connection.execute("CREATE TEMP TABLE copied AS SELECT * FROM frame_rows")
        described = connection.execute("DESCRIBE copied").fetchall()
        cells = ", ".join(_parquet_cell(name, kind) for name, kind, *_ in described)
        connection.execute(
            f"COPY (SELECT {cells} FROM copied) TO {literal(str(path))} (FORMAT parquet)"
        )


def frame_notes(frame: Any) -> list[str]:
    """Return notes for the user on how a DataFrame is read."""
    if frame_kind(frame) != "pandas":
        return []
    index = frame.index
    if index.nlevels > 1 or index.names[0] is not None or index.dtype.kind not in "iu":
        return []
    if type(index).__name__ == "RangeIndex" or not len(index):
        return []
    return [
        f"{NAME}: its index has no name and is left out; to read it, name it:"
        f" frame.rename_axis({_index_example(1)})."
    ]


def plain_pandas(frame: Any) -> Any:
    """Return a pandas DataFrame whose columns are the levels of the index and the columns of the
    given DataFrame, with names and types that the database supports.

    An unnamed index with a single level of integers is left out, because it usually only counts
    rows. An unnamed level of dates or durations gets the name `time`, or another name if `time` is
    taken.

    Raises:
        DataError: if a name or a type is not supported.
    """
    if frame.columns.nlevels > 1:
        raise DataError(
            f"{NAME}: its columns have {frame.columns.nlevels} levels. Give each one name:"
            " frame.columns = ['_'.join(map(str, names)) for names in frame.columns]"
        )
    names = [_column_name(label) for label in frame.columns]
    levels = _index_columns(frame.index, names)
    _check_names([*(name for name, _ in levels), *names])
    plain = frame.set_axis(names, axis=1).reset_index(drop=True)
    for at, (name, values) in enumerate(levels):
        plain.insert(at, name, values)
    for name in plain.columns:
        plain[name] = _database_column(name, plain[name])
    return plain


def _index_columns(index: Any, names: list[str]) -> list[tuple[str, Any]]:
    """Return pairs (name, values) of the index levels that are read as columns.

    Raises:
        DataError: if a level that is not dates has no name.
    """
    found: list[tuple[str, Any]] = []
    for level in range(index.nlevels):
        values, label = index.get_level_values(level), index.names[level]
        if label is not None:
            name = _column_name(label)
        elif values.dtype.kind in "Mm" or str(values.dtype).startswith(("datetime", "period")):
            taken = {name.lower() for name in (*names, *(name for name, _ in found))}
            numbered = (f"time_of_index_{k}" for k in itertools.count(2))
            free = itertools.chain(["time", "time_of_index"], numbered)
            name = next(each for each in free if each not in taken)
        elif index.nlevels == 1 and (values.dtype.kind in "iu" or not len(index)):
            continue  # row numbers, possibly of filtered or sorted rows
        else:
            index_text = "its index" if index.nlevels == 1 else f"level {level} of its index"
            raise DataError(
                f"{NAME}: {index_text} has no name. Name it, such as"
                f" frame.rename_axis({_index_example(index.nlevels)}), or leave it out:"
                " frame.reset_index(drop=True)."
            )
        found.append((name, values))
    return found


def _index_example(levels: int) -> str:
    return "'series'" if levels == 1 else "['series', 'time']" if levels == 2 else "[...]"


def _column_name(label: Any) -> str:
    """Return the name of a column as text, in the form that pandas writes to a CSV file.

    Raises:
        DataError: if the name is a missing value.
    """
    if label is None or label != label or str(label) == "<NA>":
        raise DataError(f"{NAME}: a column is called {label!r}. Give it a name.")
    if isinstance(label, datetime.datetime):
        midnight = (label.hour, label.minute, label.second, label.microsecond) == (0, 0, 0, 0)
        return str(label.date()) if midnight else str(label)
    return str(label)


def _database_column(name: str, column: Any) -> Any:
    """Return a column of a pandas DataFrame with a type that the database reads without loss.

    Raises:
        DataError: if the column contains complex numbers or dates outside the range of
            microseconds.
    """
    dtype = column.dtype
    if str(dtype).startswith("Sparse"):
        return column.sparse.to_dense()
    if str(dtype).startswith("period"):
        return column.dt.to_timestamp()
    if hasattr(dtype, "categories") and dtype.categories.dtype.kind in "biuf":
        return column.astype(object)  # a code of an empty cell would turn integers into floats
    if dtype.kind == "f" and dtype.itemsize > 8:
        return column.astype(np.float64)
    if dtype.kind == "c":
        raise DataError(
            f"{NAME}: the column {name!r} contains complex numbers. Give real and imaginary"
            " parts as two columns."
        )
    if dtype.kind == "M" and isinstance(dtype, np.dtype) and str(dtype) != "datetime64[ns]":
        largest = np.iinfo(np.int64).max // {"s": 10**6, "ms": 10**3}.get(str(dtype)[11:-1], 1)
        values = column.to_numpy()
        if (~np.isnat(values) & (np.abs(values.astype(np.int64)) > largest)).any():
            raise DataError(f"{NAME}: the column {name!r} has dates beyond the year 294247.")
    return column


def _parquet_cell(name: str, kind: str) -> str:
    """Return an SQL expression for a column. The expression converts the column if Parquet or the
    readers do not support the type of the column."""
    cell = quote_name(name)
    if kind == "INTERVAL":
        return f"epoch({cell}) AS {cell}"
    if kind in IN_MICROSECONDS:
        return f"CAST({cell} AS {IN_MICROSECONDS[kind]}) AS {cell}"
    if kind.startswith("ENUM") or kind in AS_TEXT:
        return f"CAST({cell} AS VARCHAR) AS {cell}"
    return cell


def _check_names(names: list[str]) -> None:
    """Check the names of the columns.

    Raises:
        DataError: if there are no columns, a name is empty, or two names differ at most in case.
    """
    if not names:
        raise DataError(f"{NAME}: has no columns.")
    seen: dict[str, str] = {}
    for name in names:
        if not name:
            raise DataError(
                f"{NAME}: has a column without a name. Rename it, or leave it out:"
                " frame.drop(columns='')."
            )
        if name.lower() in seen:
            raise DataError(
                f"{NAME}: the columns {seen[name.lower()]!r} and {name!r} have one name"
                f"{'' if name == seen[name.lower()] else ' but for case'}. Rename one of them."
            )
        seen[name.lower()] = name


@contextlib.contextmanager
def temporary_parquet(frame: Any) -> Iterator[Path]:
    """Write a DataFrame to a Parquet file, which is removed when the context ends. In error
    messages, changes of the DataFrame take the place of changes of a file."""
    with tempfile.TemporaryDirectory(prefix="seqattn-") as home, name_origin("frame"):
        path = Path(home) / FILE
        write_frame(frame, path)
        yield path
