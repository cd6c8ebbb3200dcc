"""Functions that write DataFrames as Parquet files, which are then read like other files.

pandas DataFrames are copied to NumPy column by column. The DuckDB database reads polars DataFrames
and pyarrow tables as Arrow streams. This module does not import pandas, polars or pyarrow.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seqattn.data.pandas_columns import columns_of_pandas, index_note
from seqattn.data.tables.connection import connect, literal, quote_name
from seqattn.errors import DataError, SeqattnError

NAME = "the DataFrame"
RENAME_IN_FILE = re.compile(r"Rename the column in the file[;.].*", re.DOTALL)
"""Pattern of hints in error messages that apply to files but not to DataFrames, such as a hint to
use `--set`."""
RENAME_IN_FRAME = "Rename a column of the DataFrame, or its index."
FILE = "DataFrame.parquet"
ROWS = "frame_rows"
KINDS = {("pandas", "DataFrame"): "pandas", ("polars", "DataFrame"): "arrow",
         ("pyarrow", "Table"): "arrow"}  # fmt: skip
IN_MICROSECONDS = {"TIMESTAMPTZ_NS": "TIMESTAMPTZ", "TIMESTAMP_NS": "TIMESTAMP",
                   "TIME_NS": "TIME"}  # fmt: skip
"""Nanosecond types of the database, each with the corresponding type that the readers support."""
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
    """Write a DataFrame as a Parquet file.

    Raises:
        DataError: if the DataFrame has no columns, a column without a name, two column names that
            differ at most in case, or a cell of an unsupported type.
    """
    with connect(NAME) as connection:
        if frame_kind(frame) == "pandas":
            columns = columns_of_pandas(frame)
            names = [column.name for column in columns]
            _check_names(names)
            # By default, only the first thousand cells of an object column determine its type.
            connection.execute("SET pandas_analyze_sample = 0")
            arrays: dict[str, Any] = {}
            cells = []
            for i, column in enumerate(columns):
                arrays[f"c{i}"] = column.values
                cell = column.sql.format(f"c{i}")
                if column.missing is not None:
                    arrays[f"m{i}"] = column.missing
                    cell = f"CASE WHEN m{i} THEN NULL ELSE {cell} END"
                cells.append(f"{cell} AS {quote_name(column.name)}")
            connection.register(ROWS, arrays)
        else:
            names = list(getattr(frame, "column_names", None) or frame.columns)
            _check_names(names)
            connection.register(ROWS, _arrow_stream(frame))
            # The copy is necessary because a stream can be read only once.
            connection.execute(f"CREATE TEMP TABLE copied AS SELECT * FROM {ROWS}")
            cells = [_arrow_cell(*row[:2]) for row in _describe_columns(connection)]
        source = ROWS if frame_kind(frame) == "pandas" else "copied"
        connection.execute(
            f"COPY (SELECT {', '.join(cells)} FROM {source}) TO {literal(str(path))}"
            " (FORMAT parquet)"
        )


def frame_notes(frame: Any) -> list[str]:
    """Return notes for the user on how a DataFrame is read."""
    note = index_note(frame.index) if frame_kind(frame) == "pandas" else None
    return [] if note is None else [f"{NAME}: {note}."]


def _arrow_stream(frame: Any) -> Any:
    """Return a DataFrame as an Arrow stream. Columns with types that the database does not support
    are cast to other types."""
    types = {name: str(kind) for name, kind in getattr(frame, "schema", {}).items()} if hasattr(
        frame, "with_columns") else {}  # fmt: skip
    recast = [
        frame[name].cast(str if kind != "Float16" else float)
        for name, kind in types.items() if kind in ("Null", "Int128", "UInt128", "Float16")
    ]  # fmt: skip
    return (frame.with_columns(recast) if recast else frame).__arrow_c_stream__()


def _describe_columns(connection: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = connection.execute("DESCRIBE copied").fetchall()
    return found


def _arrow_cell(name: str, kind: str) -> str:
    """Return an SQL expression for a column. The expression converts the column if Parquet or the
    readers do not support the type of the column."""
    cell = quote_name(name)
    if kind == "INTERVAL":
        return f"epoch({cell}) AS {cell}"
    if kind in IN_MICROSECONDS:
        return f"CAST({cell} AS {IN_MICROSECONDS[kind]}) AS {cell}"
    if kind.startswith("ENUM") or kind in ("NULL", '"NULL"', "UUID"):
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
    messages, the text "the DataFrame" replaces the path of the file."""
    with tempfile.TemporaryDirectory(prefix="seqattn-") as home:
        path = Path(home) / FILE
        try:
            write_frame(frame, path)
            yield path
        except SeqattnError as error:
            if error.args:
                words = str(error.args[0]).replace(str(path), NAME)
                error.args = (RENAME_IN_FILE.sub(RENAME_IN_FRAME, words), *error.args[1:])
            raise
