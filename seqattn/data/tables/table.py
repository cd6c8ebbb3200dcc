"""A file as a table of the database, with the location of each row in the file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.data.files.chunk import MAX_LINE_BYTES, first_line
from seqattn.data.files.lines import check_json_lines
from seqattn.data.tables.connection import connect, literal, quote_name, sql_call
from seqattn.errors import DataError, UsageError, install_command

if TYPE_CHECKING:
    import duckdb

ROWS = "file_rows"
ROW = "file_row"
SECONDS_OF_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Length of each unit of durations in seconds."""


@dataclass(eq=False)
class Table:
    """Rows of a file in a database.

    The table `ROWS` has the column `ROW`, which is the number of each row in the file, counted from
    1. The other columns c0, c1, ... are the columns of the file.

    Attributes:
        connection: connection to the database.
        name: name of the file, for messages.
        header: names of the columns.
        types: database types of the columns; VARCHAR for a column that is read as text.
        line: function that takes the number of a row, and returns the location of this row in the
            file as text.
        is_text: whether the file is a text file.
        notes: notes for the user.
        empty_words: for each text column that was cleaned, by column name, up to three different
            texts of cells that count as empty, such as "NA".
        delimiter: delimiter of a text file, or None for other files.
        known: cached results of queries, which are valid until the rows change.
    """

    connection: duckdb.DuckDBPyConnection
    name: str
    header: tuple[str, ...]
    types: tuple[str, ...]
    line: Callable[[int], str]
    is_text: bool
    notes: list[str] = field(default_factory=list)
    empty_words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    delimiter: str | None = None
    known: dict[str, Any] = field(default_factory=dict)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute a query, and return all rows of its result."""
        return self.connection.execute(sql).fetchall()

    def one(self, sql: str) -> tuple[Any, ...]:
        """Execute a query, and return the first row of its result."""
        return self.query(sql)[0]

    def one_cached(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of the result of a query. The result is cached until the rows
        change."""
        if sql not in self.known:
            self.known[sql] = self.one(sql)
        return tuple(self.known[sql])

    def measure(self, *aggregates: str) -> tuple[Any, ...]:
        """Return aggregates over all rows. New aggregates are computed in one pass and cached."""
        new = [sql for sql in dict.fromkeys(aggregates) if sql not in self.known]
        if new:
            self.known |= zip(new, self.one(f"SELECT {', '.join(new)} FROM {ROWS}"), strict=True)
        return tuple(self.known[sql] for sql in aggregates)

    def change(self, sql: str) -> None:
        """Execute a statement that changes the rows."""
        self.connection.execute(sql)
        self.known.clear()

    def column(self, name: str) -> str:
        """Return an SQL expression for the cells of a column."""
        return f"c{self.header.index(name)}"

    def text(self, name: str) -> str:
        """Return an SQL expression for the cells of a column as text."""
        cell = self.column(name)
        is_text = self.types[self.header.index(name)] == "VARCHAR"
        return cell if is_text else f"CAST({cell} AS VARCHAR)"

    def __len__(self) -> int:
        return int(self.measure("count(*)")[0])


@contextmanager
def typed_table(path: Path, name: str, kind: str) -> Iterator[Table]:
    """Load a Parquet, Arrow or JSON file.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if the file is an Arrow file and pyarrow is not installed.
    """
    with connect(name) as connection:
        try:
            source = _typed_source(connection, path, name, kind)
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            header = tuple(str(row[0]) for row in described)
            types = tuple(str(row[1]) for row in described)
            check_flat(name, dict(zip(header, types, strict=True)))
            notes = list[str]()
            has_integers = kind == "parquet" and "BIGINT" in types
            units = _read_durations(connection, path, notes) if has_integers else {}
            types = tuple("DOUBLE" if n in units else t for n, t in zip(header, types, strict=True))
            columns = ", ".join(
                f"{quote_name(cell)}{f' * {literal(units[cell])}' if cell in units else ''} AS c{i}"
                for i, cell in enumerate(header)
            )
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {ROWS} AS"
                f" SELECT row_number() OVER () AS {ROW}, * FROM (SELECT {columns} FROM {source})"
            )
        except read_errors() as error:
            label = {"parquet": "Parquet", "arrow": "Arrow"}.get(kind, "JSON")
            if kind == "jsonl":
                check_json_lines(path, name)
            raise DataError(f"{name}: is a damaged {label} file ({first_line(error)}).") from None
        yield Table(connection, name, header, types, lambda row: f"row {row}", False, notes)


def _read_durations(
    connection: duckdb.DuckDBPyConnection, path: Path, notes: list[str]
) -> dict[str, float]:
    """Return the length in seconds of the unit of each duration column, by column name.

    Parquet stores durations as integers. Programs that write Parquet with Arrow also store the
    Arrow schema as metadata, which pyarrow reads. Without pyarrow, a note is appended to `notes`.
    """
    found = connection.execute(
        f"SELECT value FROM {sql_call('parquet_kv_metadata', path)} WHERE key = 'ARROW:schema'"
    ).fetchall()
    if not found:
        return {}
    try:
        import pyarrow as pa
    except ImportError:
        notes.append(
            "durations would be read as integers, because pyarrow is not installed; install it:"
            f" {install_command('data')}"
        )
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(bytes(found[0][0]))))
    except (pa.ArrowException, OSError, ValueError):  # Arrow did not write this schema
        return {}
    return {
        field.name: SECONDS_OF_UNIT[field.type.unit]
        for field in schema if pa.types.is_duration(field.type)
    }  # fmt: skip


def check_flat(name: str, types: Mapping[str, str]) -> None:
    """Check that no column contains lists or records.

    Args:
        name: name of the file, for messages.
        types: database type of each column, by name.

    Raises:
        DataError: if a column contains lists or records.
    """
    for column, kind in types.items():
        if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
            raise DataError(
                f"{name}: column {column!r} contains {kind} in each cell, but a cell must be one"
                " number, time or word. Write one row for each step, or JSON Lines with one"
                ' sequence in each line: {"source": [[1.0], [2.0]], "target": [[3.0]]}.'
            )


def _typed_source(connection: duckdb.DuckDBPyConnection, path: Path, name: str, kind: str) -> str:
    if kind == "parquet":
        return _source_with_folder_columns(connection, "read_parquet", path)
    if kind in ("json", "jsonl"):
        return _source_with_folder_columns(
            connection, "read_json", path, maximum_object_size=MAX_LINE_BYTES
        )
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            f"{name}: Arrow files are read with pyarrow, which is not installed. Write the file"
            f" as Parquet, or install pyarrow: {install_command('data')}"
        ) from None
    with pa.memory_map(str(path)) as mapped:
        try:
            found = pa.ipc.open_file(mapped).read_all()
        except pa.ArrowInvalid:
            mapped.seek(0)
            found = pa.ipc.open_stream(mapped).read_all()
        found.validate(full=True)  # a damaged offset could read beyond the buffer
    for i, column in enumerate(found.schema):
        if pa.types.is_float16(column.type):  # the database cannot read this type
            found = found.set_column(i, column.name, found.column(i).cast(pa.float32()))
    connection.register("arrow_table", found)
    return "arrow_table"


def _source_with_folder_columns(
    connection: duckdb.DuckDBPyConnection, function: str, path: Path, **options: Any
) -> str:
    """Return SQL that calls a table function on a file. A folder such as `station=A` adds a column
    to the table, unless the file has a column with this name."""
    folders = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    if folders:  # the database would replace a column of the file by the name of the folder
        source = sql_call(function, path, hive_partitioning=False, **options)
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        names = {str(row[0]).lower() for row in described}
        if any(key.lower() in names for key, _ in folders):
            added = {key: value for key, value in folders if key.lower() not in names}
            columns = [f"{literal(value)} AS {quote_name(key)}" for key, value in added.items()]
            return f"(SELECT {', '.join(['*', *columns])} FROM {source})"
    return sql_call(function, path, **options)


def read_errors() -> tuple[type[Exception], ...]:
    """Return the types of the errors that a damaged file can cause."""
    import duckdb

    errors: tuple[type[Exception], ...] = (duckdb.Error, OSError, ValueError, ImportError)
    try:
        import pyarrow as pa
    except ImportError:
        return errors
    return (*errors, pa.ArrowException)
