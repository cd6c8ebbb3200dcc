"""A file as a table of the database, with the location of each row in the file."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.data.chunk import MAX_LINE_BYTES, first_line
from seqattn.data.json_lines import check_json_lines
from seqattn.data.reading import Reading, setting
from seqattn.data.tables.connection import (
    connect,
    literal,
    named_file,
    quote_name,
    read_lines,
    sql_call,
)
from seqattn.data.tables.text import TextFormat, without_comments
from seqattn.errors import DataError, UsageError, install_command

if TYPE_CHECKING:
    import duckdb


def line_of_row(path: Path, form: TextFormat, row: int) -> int | None:
    """Return the number of the line on which a row begins, counted from 1. Return None if the file
    is compressed or has no such row.

    Args:
        path: the file.
        form: format of the file.
        row: number of the row, counted from 1 after the header.
    """
    if path.suffix.lower() in (".gz", ".zst"):
        return None
    with path.open(encoding=form.encoding, errors="replace", newline="") as file:
        line_numbers: list[int] = []

        def rows() -> Iterator[str]:
            for at, line in _table_lines(file, form):
                if line.strip() or len(form.header) == 1:
                    line_numbers.append(at)
                    yield line if line.strip() else '""\n'

        reader = csv.reader(rows(), delimiter=form.delimiter)
        target_row = row + form.has_header
        begin = 0
        for at, _ in enumerate(reader, start=1):
            if at == target_row:
                return line_numbers[begin]
            begin = reader.line_num
    return None


def _table_lines(lines: Iterable[str], form: TextFormat) -> Iterator[tuple[int, str]]:
    """Yield pairs (line number, line) without comments and without the lines before the header.
    Lines are counted from 1."""
    lines = iter(lines)
    for _ in itertools.islice(lines, form.skip):
        pass
    for at, line in without_comments(lines, form.comment, form.delimiter):
        yield form.skip + at + 1, line.removeprefix("\ufeff") if form.skip + at == 0 else line


def to_plain_lines(lines: Iterable[str], form: TextFormat, removed: list[int]) -> Iterator[bytes]:
    """Yield the lines of a table in UTF-8, without comments and without the lines before the
    header. All lines end with a line feed. If the delimiter is a space, replace several spaces
    between two cells with one space.

    Args:
        lines: all lines of the file.
        form: format of the file.
        removed: list to which the numbers of the removed lines are appended.
    """
    expected = 1
    for at, line in _table_lines(lines, form):
        removed += range(expected, at)
        expected = at + 1
        if form.delimiter == " " and line.strip():
            cells = next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
            row = io.StringIO()
            csv.writer(row, delimiter=" ", lineterminator="\n").writerow(cells)
            yield row.getvalue().encode()
        else:
            yield line.rstrip("\r\n").encode() + b"\n"


def original_line(line: int, removed: Sequence[int]) -> int:
    """Return the number of a line in the file.

    Args:
        line: number of the line in a copy of the file that lacks some lines.
        removed: numbers of the lines that the copy lacks, in increasing order.
    """
    for at in removed:
        if at > line:
            break
        line += 1
    return line


ENCODINGS = ("utf-8", "utf-16", "latin-1")
"""Encodings that the database can read."""


@contextmanager
def open_table(path: Path, name: str, kind: str, reading: Reading) -> Iterator[Table]:
    """Load a table file into DuckDB, and yield the table.

    Args:
        path: the file.
        name: name of the file, for messages.
        kind: csv, tsv, json, jsonl, parquet or arrow.
        reading: how to read the file.
    """
    if kind in ("csv", "tsv"):
        form = TextFormat.of_file(path, name, reading, kind)
        with open_text_table(path, name, form) as table:
            yield table
    else:
        with typed_table(path, name, kind) as table:
            yield table


@contextmanager
def open_text_table(path: Path, name: str, form: TextFormat) -> Iterator[Table]:
    """Load a CSV or TSV file.

    Args:
        path: the file.
        name: name of the file, for messages.
        form: format of the file.

    Raises:
        DataError: if the file cannot be read or its rows have different numbers of cells.
    """
    width = len(form.header)
    options: dict[str, Any] = {
        "header": form.has_header, "auto_detect": False, "all_varchar": True,
        "delim": form.delimiter, "quote": '"', "escape": '"', "comment": "",
        "max_line_size": MAX_LINE_BYTES, "buffer_size": 2 * MAX_LINE_BYTES,
        "columns": {f"c{i}": "VARCHAR" for i in range(width)}, "hive_partitioning": False,
    }  # fmt: skip
    with connect(name) as connection:
        for is_copy in (False, True):  # in the copy, all lines end alike
            with _readable_file(path, name, form, is_copy=is_copy) as (file, found, removed):
                try:
                    connection.execute(
                        f"CREATE OR REPLACE TEMP TABLE {ROWS} AS SELECT row_number() OVER () AS"
                        f" {ROW}, * FROM {sql_call('read_csv', file, **options, **found)}"
                    )
                except read_errors() as error:
                    source = sql_call("read_csv", file, **options, **found, store_rejects=True)
                    _check_rejected(connection, source, name, form, removed)
                    if is_copy:
                        raise DataError(
                            f"{name}: is not valid CSV ({first_line(error)})."
                        ) from None
                else:
                    break
        if width == 1:  # blank lines at the end are no rows
            connection.execute(
                f"DELETE FROM {ROWS} WHERE {ROW} > (SELECT coalesce(max({ROW}), 0) FROM {ROWS}"
                " WHERE trim(coalesce(c0, '')) <> '')"
            )

        def line(row: int) -> str:
            at = line_of_row(path, form, row)
            return f"row {row}" if at is None else f"line {at}"

        yield Table.of(
            connection, name, form.header, ("VARCHAR",) * width, line, form.notes, form.delimiter
        )


@contextmanager
def _readable_file(
    path: Path, name: str, form: TextFormat, *, is_copy: bool
) -> Iterator[tuple[Path, dict[str, Any], list[int]]]:
    """Yield a file that the database can read, the options `encoding` and `skip`, and the numbers
    of the lines that the file lacks.

    The file is a copy in UTF-8 if `is_copy` is True, if the database lacks the encoding or if
    spaces separate the cells. It is also a copy if the file has comments, because the database
    would also remove the end of a line after a comment sign, or if the skipped lines contain
    quotes, because the database counts a line break in quotes as part of a line.
    """
    is_plain = form.delimiter != " " and not form.comment and not form.skips_quotes
    if is_plain and form.encoding in ENCODINGS and not is_copy:
        yield path, {"encoding": form.encoding, "skip": form.skip}, []
        return
    removed: list[int] = []
    with _open_lines(path, name, form) as lines, named_file(".csv") as copy:
        try:
            copy.writelines(to_plain_lines(lines, form, removed))
        except UnicodeError as error:
            byte = error.object[error.start] if isinstance(error, UnicodeDecodeError) else None
            raise _encoding_error(name, form, byte) from None
        except EOFError:
            raise DataError(f"{name}: is a damaged gzip file.") from None
        copy.flush()
        yield Path(copy.name), {"encoding": "utf-8", "skip": 0}, removed


@contextmanager
def _open_lines(path: Path, name: str, form: TextFormat) -> Iterator[Iterable[str]]:
    """Open a text file, which may be compressed, and yield its lines."""
    if path.suffix.lower() != ".zst":
        opened = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(path, "rt", encoding=form.encoding, newline="") as lines:
            yield lines
        return
    if form.encoding != "utf-8":
        raise DataError(
            f"{name}: is {form.encoding.upper()}, and compressed with Zstandard. Decompress it"
            " first: zstd -d"
        )
    yield (f"{line}\n" for line in read_lines(path))


def _encoding_error(where: str, form: TextFormat, byte: int | None = None) -> DataError:
    found = "" if byte is None else f" (byte {byte:#04x})"
    return DataError(
        f"{where} is not {form.encoding.upper()}{found}. Save the file as UTF-8, or set its"
        f" encoding: {setting('encoding')}."
    )


def _check_rejected(
    connection: duckdb.DuckDBPyConnection, source: str, name: str, form: TextFormat,
    removed: Sequence[int],
) -> None:  # fmt: skip
    """Check that the database rejects no line of a text file.

    Args:
        connection: connection to the database.
        source: SQL that reads the file and stores the rejected lines.
        name: name of the file, for messages.
        form: format of the file.
        removed: numbers of the lines that a copy of the file lacks.

    Raises:
        DataError: if the database rejects a line.
    """
    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {ROWS} AS SELECT * FROM {source}")
    except read_errors():  # the whole file is rejected
        return
    found = connection.execute(
        "SELECT line, csv_line, CAST(error_type AS VARCHAR), error_message FROM reject_errors"
        " ORDER BY line LIMIT 1"
    ).fetchall()
    if not found:
        return
    line, text, kind, message = found[0]
    line = original_line(line, removed)
    where, shown = f"{name}: line {line}", repr(text.partition("\n")[0][:60])
    if kind in ("MISSING COLUMNS", "TOO MANY COLUMNS"):
        cells = next(csv.reader([text], delimiter=form.delimiter))
        raise DataError(
            f"{where} has {len(cells)} cells, the header has {len(form.header)}: {shown}. Correct"
            " the line; a cell that contains the separator needs quotes."
        )
    if kind == "UNQUOTED VALUE":
        raise DataError(f"{where} has a quote that is not closed: {shown}.")
    if kind == "INVALID ENCODING":
        raise _encoding_error(where, form)
    if kind == "LINE SIZE OVER MAXIMUM":
        raise DataError(
            f"{where} is longer than {MAX_LINE_BYTES // 2**20} MiB; this is not a table of"
            " sequences."
        )
    raise DataError(f"{where} is not valid CSV ({message.splitlines()[0]}).")


ROWS = "file_rows"
ROW = "file_row"
SECONDS_OF_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Length of each unit of durations in seconds."""


@dataclass(frozen=True, eq=False)
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
        delimiter: delimiter of a text file, or None for other files.
        notes: notes for the user, to which readers add.
        known: cached results of queries.
    """

    connection: duckdb.DuckDBPyConnection
    name: str
    header: tuple[str, ...]
    types: tuple[str, ...]
    line: Callable[[int], str]
    delimiter: str | None
    notes: list[str]
    known: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, name: str, header: tuple[str, ...],
        types: tuple[str, ...], line: Callable[[int], str], notes: Sequence[str],
        delimiter: str | None = None,
    ) -> Table:  # fmt: skip
        """Return the table of rows in a database, without unnamed empty columns at its end.

        Raises:
            DataError: if two columns have the same name.
        """
        width = len(header)
        while width > 1 and header[width - 1] == "":
            text = f"trim(coalesce(CAST(c{width - 1} AS VARCHAR), ''))"
            if connection.execute(f"SELECT count(*) FROM {ROWS} WHERE {text} <> ''").fetchall() != [
                (0,)
            ]:
                break
            width -= 1
        twice = sorted({cell for cell in header[:width] if header[:width].count(cell) > 1})
        if twice:
            raise DataError(f"{name}: the column {twice[0]!r} occurs twice. Rename one of them.")
        return cls(connection, name, header[:width], types[:width], line, delimiter, list(notes))

    @property
    def is_text(self) -> bool:
        """Whether the file is a text file."""
        return self.delimiter is not None

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute a query, and return all rows of its result."""
        return self.connection.execute(sql).fetchall()

    def one(self, sql: str) -> tuple[Any, ...]:
        """Execute a query, and return the first row of its result."""
        return self.query(sql)[0]

    def one_cached(self, sql: str) -> tuple[Any, ...]:
        """Return the first row of the result of a query. The result is cached."""
        if sql not in self.known:
            self.known[sql] = self.one(sql)
        return tuple(self.known[sql])

    def measure(self, *aggregates: str) -> tuple[Any, ...]:
        """Return aggregates over all rows. New aggregates are computed in one pass and cached."""
        new = [sql for sql in dict.fromkeys(aggregates) if sql not in self.known]
        if new:
            self.known.update(
                zip(new, self.one(f"SELECT {', '.join(new)} FROM {ROWS}"), strict=True)
            )
        return tuple(self.known[sql] for sql in aggregates)

    def store(self, sql: str, kind: str) -> str:
        """Add the values of an SQL expression to the rows as a column of a database type, so that
        they are computed once, and return the name of the column."""
        key = f"stored {kind}: {sql}"
        if key not in self.known:
            name = self.known[key] = f"stored{len(self.known)}"
            self.connection.execute(f"ALTER TABLE {ROWS} ADD COLUMN {name} {kind}")
            self.connection.execute(f"ALTER TABLE {ROWS} ALTER {name} TYPE {kind} USING {sql}")
        return str(self.known[key])

    def column(self, name: str) -> str:
        """Return an SQL expression for the cells of a column."""
        return f"c{self.header.index(name)}"

    def text(self, name: str) -> str:
        """Return an SQL expression for the cells of a column as text."""
        cell = self.column(name)
        return cell if self.has_text(name) else f"CAST({cell} AS VARCHAR)"

    def has_text(self, name: str) -> bool:
        """Return whether the cells of a column are text in the database."""
        return self.types[self.header.index(name)] == "VARCHAR"

    def __len__(self) -> int:
        return int(self.measure("count(*)")[0])


@contextmanager
def typed_table(path: Path, name: str, kind: str) -> Iterator[Table]:
    """Load a Parquet, Arrow or JSON file.

    Raises:
        DataError: if the file cannot be read.
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
        yield Table.of(connection, name, header, types, lambda row: f"row {row}", notes)


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
