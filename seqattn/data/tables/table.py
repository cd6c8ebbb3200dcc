"""A file as a table of the database: its columns as they stand, and where each row stands."""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.data.files.lines import refuse_first_broken_line
from seqattn.data.tables.connection import call, connected, first_line, literal, quoted
from seqattn.data.tables.durations import durations_of
from seqattn.data.tables.text_format import TextFormat
from seqattn.data.tables.text_lines import as_plain_text, line_of_row
from seqattn.errors import DataError

if TYPE_CHECKING:
    import duckdb

ROWS = "file_rows"
ROW = "file_row"
ENCODINGS = ("utf-8", "utf-16", "latin-1")
"""Those that the database reads itself."""
LONGEST_LINE = 16 * 2**20
"""Bytes of a row of text: nothing that a person or a program meant is longer."""


@dataclass(eq=False)
class Table:
    """Rows of a file, in a database.

    The table `ROWS` has the column `ROW`, the number of each row of the file counted from 1, and
    the columns c0, c1, ... of the file.

    Attributes:
        name: of the file, for messages.
        header: names of the columns.
        types: of the columns, as the database calls them; all VARCHAR where the file is text.
        line: says where a row stands in the file.
        notes: what a user should be told.
        empty_words: by column, what stands in its empty cells; of the columns whose words have
            been cleaned.
        delimiter: what separates the cells of a text; None: it is none.
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

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def one(self, sql: str) -> tuple[Any, ...]:
        return self.query(sql)[0]

    def column(self, name: str) -> str:
        """The column of a name, as it stands in SQL."""
        return f"c{self.header.index(name)}"

    def __len__(self) -> int:
        return int(self.one(f"SELECT count(*) FROM {ROWS}")[0])


@contextmanager
def table_of_text(
    path: Path, name: str, form: TextFormat, lines_before: int | None = None
) -> Iterator[Table]:
    """A CSV or TSV file.

    Args:
        lines_before: of a text that comes through a pipe, lines before those of `path`.

    Raises:
        DataError: it cannot be read, or its rows have different numbers of cells.
    """
    with connected(name) as connection, _readable(path, name, form) as (file, encoding):
        width = len(form.header)
        options: dict[str, Any] = {
            "header": False, "auto_detect": False, "all_varchar": True, "delim": form.delimiter,
            "quote": '"', "escape": '"', "comment": form.comment, "skip": form.skip - form.comments,
            "encoding": encoding, "max_line_size": LONGEST_LINE,
            "columns": {f"c{i}": "VARCHAR" for i in range(width)},
        }  # fmt: skip
        try:
            _load(connection, call("read_csv", file, **options))
        except _errors() as error:
            if "state machine" not in str(error):
                raise _text_error(error, name, form, lines_before) from None
            try:  # line ends of two kinds
                _load(connection, call("read_csv", file, **options, strict_mode=False))
            except _errors() as second:
                raise _text_error(second, name, form, lines_before) from None
        if form.has_header:
            connection.execute(f"DELETE FROM {ROWS} WHERE {ROW} = 1")
            connection.execute(f"UPDATE {ROWS} SET {ROW} = {ROW} - 1")

        def line(row: int) -> str:
            at = line_of_row(path, form, row)
            return f"row {row}" if at is None else f"line {at}"

        table = Table(
            connection,
            name,
            form.header,
            ("VARCHAR",) * width,
            line,
            True,
            list(form.notes),
            delimiter=form.delimiter,
        )
        yield table


@contextmanager
def typed_table(
    path: Path, name: str, kind: str, rows: tuple[int, int] | None = None
) -> Iterator[Table]:
    """A Parquet, Arrow or JSON file, whose columns have types.

    Args:
        rows: of a Parquet file, the first that is read, counted from 0, and how many; None: all.

    Raises:
        DataError: it cannot be read.
    """
    with connected(name) as connection:
        try:
            source = _typed_source(connection, path, name, kind)
            described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            header = tuple(str(row[0]) for row in described)
            types = tuple(str(row[1]) for row in described)
            units = durations_of(connection, path) if kind == "parquet" else {}
            types = tuple("DOUBLE" if n in units else t for n, t in zip(header, types, strict=True))
            columns = ", ".join(
                f"{quoted(cell)}{f' * {literal(units[cell])}' if cell in units else ''} AS c{i}"
                for i, cell in enumerate(header)
            )
            some = "" if rows is None else f" LIMIT {rows[1]} OFFSET {rows[0]}"
            _load(connection, f"(SELECT {columns} FROM {source}{some})")
        except _errors() as error:
            what = {"parquet": "Parquet", "arrow": "Arrow"}.get(kind, "JSON")
            if kind == "jsonl":
                refuse_first_broken_line(path, name)
            raise DataError(f"{name}: is no whole {what} file ({first_line(error)}).") from None
        yield Table(connection, name, header, types, lambda row: f"row {row}", False)


def _typed_source(connection: duckdb.DuckDBPyConnection, path: Path, name: str, kind: str) -> str:
    if kind == "parquet":
        return call("read_parquet", path)
    if kind in ("json", "jsonl"):
        return call("read_json", path, maximum_object_size=LONGEST_LINE)
    try:
        import pyarrow as pa
    except ImportError:
        raise DataError(
            f"{name}: Arrow files are read with pyarrow, which is not installed: pip install"
            " pyarrow (the extra seqattn[data]), or write the file as Parquet."
        ) from None
    with pa.memory_map(str(path)) as mapped:
        try:
            found = pa.ipc.open_file(mapped).read_all()
        except pa.ArrowInvalid:
            mapped.seek(0)
            found = pa.ipc.open_stream(mapped).read_all()
        found.validate(full=True)  # a broken offset would be followed out of memory
    connection.register("arrow_table", found)
    return "arrow_table"


def arrow_rows(path: Path) -> int:
    """Rows of an Arrow file; 1 where they cannot be counted, so that reading it says why."""
    errors: tuple[type[Exception], ...] = (*_errors(), ImportError)
    try:
        import pyarrow as pa

        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            batches = range(reader.num_record_batches)
            return sum(reader.get_batch(k).num_rows for k in batches)
    except errors:
        return 1


def _errors() -> tuple[type[Exception], ...]:
    import duckdb

    errors: tuple[type[Exception], ...] = (duckdb.Error, OSError, ValueError, ImportError)
    try:
        import pyarrow as pa
    except ImportError:
        return errors
    return (*errors, pa.ArrowException)


def _load(connection: duckdb.DuckDBPyConnection, source: str) -> None:
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {ROWS} AS"
        f" SELECT row_number() OVER () AS {ROW}, * FROM {source}"
    )


@contextmanager
def _readable(path: Path, name: str, form: TextFormat) -> Iterator[tuple[Path, str]]:
    """A file that the database reads, and its encoding: a copy where it has another encoding, or
    cells that any number of spaces separate."""
    if form.delimiter != " " and form.encoding in ENCODINGS:
        yield path, form.encoding
        return
    if path.suffix.lower() == ".zst":
        raise DataError(
            f"{name}: is {form.encoding.upper()} or separated by spaces, and packed with Zstandard."
            " Unpack it first: zstd -d"
        )
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as raw, tempfile.NamedTemporaryFile(suffix=".csv") as copy:
        try:
            copy.writelines(as_plain_text(raw, form))  # type: ignore[arg-type]
        except UnicodeError as error:
            raise _encoding_error(name, form, error) from None
        except EOFError:
            raise DataError(f"{name}: is no whole gzip file.") from None
        copy.flush()
        yield Path(copy.name), "utf-8"


def _encoding_error(where: str, form: TextFormat, error: Exception) -> DataError:
    found = (
        f" (byte {error.object[error.start]:#04x})" if isinstance(error, UnicodeDecodeError) else ""
    )
    return DataError(
        f"{where} is not {form.encoding.upper()}{found}. Save the file as UTF-8, or say its"
        " encoding: data.encoding (in data check: --encoding)."
    )


def _text_error(
    error: Exception, name: str, form: TextFormat, lines_before: int | None
) -> DataError:
    """What to say of a text that the database cannot read."""
    text = str(error)
    at = re.search(r"CSV Error on Line: (\d+)", text)
    original = re.search(r"Original Line: (.*)", text)
    where = f"{name}: line {int(at[1]) + (lines_before or 0)}" if at else f"{name}:"
    shown = original[1][:60] if original else ""
    cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if cells:
        return DataError(
            f"{where} has {cells[2]} cells, the header has {cells[1]}: {shown!r}. Correct the line;"
            " a cell that holds the separator needs quotes."
        )
    if "unterminated quote" in text:
        piped = ", or a line break in quotes, which cannot be read through a pipe"
        return DataError(
            f"{where} has a quote that is not closed{'' if lines_before is None else piped}:"
            f" {shown!r}."
        )
    if "unicode" in text.lower() or "encoding" in text.lower():
        return _encoding_error(where, form, error)
    if "Maximum line size" in text or "max_line_size" in text:
        return DataError(
            f"{where} is longer than {LONGEST_LINE // 2**20} MiB; that is no table of sequences."
        )
    return DataError(f"{where} is not valid CSV ({first_line(error)}).")
