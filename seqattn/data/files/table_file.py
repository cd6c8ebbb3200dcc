"""Writer of columns to a CSV, TSV, Parquet or Arrow file in blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.chunk import MAX_LINE_BYTES, first_line
from seqattn.data.files.temporary import path_of, unnamed_file
from seqattn.data.table_style import DEFAULT_STYLE, TableStyle
from seqattn.data.tables.connection import literal, sql_call
from seqattn.errors import UsageError, install_command

TEXT_FORMATS = ("csv", "tsv")
WRITTEN_ROWS = "rows_to_write"
TYPES = {"O": "VARCHAR", "i": "BIGINT", "M": "TIMESTAMP"}
DAY, SECOND = 86_400_000_000, 1_000_000


def import_pyarrow() -> Any:
    """Import and return pyarrow.

    Raises:
        UsageError: if pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            "Arrow files are written with pyarrow, which is not installed. Write Parquet or CSV, or"
            f" install pyarrow: {install_command('data')}"
        ) from None
    return pa


def quote_cell(text: str, separator: str = ",") -> str:
    """Return the text of a cell for a CSV file, in quotes if necessary."""
    if any(sign in text for sign in (separator, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


class TableFile:
    """A writer of rows to a file object, block by block.

    Arrow files are written with pyarrow. For other formats, DuckDB writes each block as text to an
    unnamed temporary file, which is removed even if the process is killed. To limit memory use, the
    rows of a Parquet file are collected as text in a temporary file and converted at the end.

    Args:
        file: the file object. Text and Arrow rows are written block by block. `close` writes all
            rows of a Parquet file.
        form: csv, tsv, parquet or arrow.
        names: names of the columns.
        style: style of a text file.

    Raises:
        UsageError: if the format is Arrow and pyarrow is not installed.
    """

    def __init__(
        self, file: BinaryIO, form: str, names: Sequence[str], style: TableStyle = DEFAULT_STYLE
    ) -> None:
        self.file, self.form, self.names, self.style = file, form, list(names), style
        self.is_text = form in TEXT_FORMATS
        self.separator = (self.is_text and style.separator) or ("\t" if form == "tsv" else ",")
        self.empty = "NA" if self.separator == " " else ""
        self.types: list[str] = []
        self.writer: Any = None
        if form == "arrow":
            self.pa = import_pyarrow()
            return
        import duckdb

        self.failures = duckdb.Error
        self.database = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": "1GB",
                "temp_directory": "",
                "threads": str(min(2, os.cpu_count() or 1)),
            }
        )
        self.spool: Any = None if self.is_text else unnamed_file()
        if self.is_text:
            head = self.separator.join(quote_cell(name, self.separator) for name in self.names)
            file.write(f"{head}\n".encode())

    def append(
        self, columns: Sequence[NDArray[Any]], counted: NDArray[np.int64] | None = None
    ) -> None:
        """Write a block of rows.

        Args:
            columns: arrays (rows,) of strings (dtype object), integers, floats or dates. NaN and
                NaT are empty cells. Dates form a single array, even if the style has several time
                columns.
            counted: (rows,) integers that replace NaT dates in a text file.
        """
        if self.form == "arrow":
            self._append_arrow(columns)
            return
        if not len(columns[0]):
            return
        types = [_sql_type(column) for column in columns]
        before = self.types or types
        self.types = [
            new if old == new else "DOUBLE" for old, new in zip(before, types, strict=True)
        ]
        arrays = {f"c{i}": _to_database_array(column) for i, column in enumerate(columns)}
        if counted is not None:
            arrays["counted"] = counted
        cells = [
            cell
            for i, column in enumerate(columns)
            for cell in self._cells(f"c{i}", column, counted is not None)
        ]
        self.database.register(WRITTEN_ROWS, arrays)
        with unnamed_file() as block_file:
            self._copy(
                f"SELECT {', '.join(cells)} FROM {WRITTEN_ROWS}", block_file, self._text_options()
            )
            self.database.unregister(WRITTEN_ROWS)
            (self.file if self.is_text else self.spool).write(block_file.read())

    def close(self) -> None:
        """Write the remaining content of the file, and close all temporary files. The file object
        stays open."""
        if self.form == "arrow":
            if self.writer is not None:
                self.writer.close()
            return
        try:
            if self.spool is not None and self.types:
                self.spool.flush()
                self._write_parquet()
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the database and all temporary files without writing the remaining content. The
        writer of an Arrow file has neither a database nor temporary files."""
        if self.form != "arrow":
            self.database.close()
            if self.spool is not None:
                self.spool.close()

    def _write_parquet(self) -> None:
        """Convert the text of all rows to Parquet."""
        source = sql_call(
            "read_csv", Path(path_of(self.spool)), auto_detect=False, header=False,
            delim=",", quote='"', escape='"', nullstr="", allow_quoted_nulls=False, parallel=False,
            max_line_size=MAX_LINE_BYTES, columns=dict(zip(self.names, self.types, strict=True)),
        )  # fmt: skip
        with unnamed_file() as made:
            self._copy(f"SELECT * FROM {source}", made, "FORMAT parquet")
            while block := made.read(2**20):
                self.file.write(block)

    def _copy(self, query: str, to: Any, options: str) -> None:
        """Write the result of a query to a file.

        Raises:
            OSError: if the file cannot be written, for example because the disk is full.
        """
        try:
            self.database.execute(
                f"COPY ({query}) TO {literal(path_of(to))} ({options}, USE_TMP_FILE false)"
            )
        except self.failures as error:
            raise OSError(f"the table could not be written: {first_line(error)}") from None

    def _text_options(self) -> str:
        return (
            f"FORMAT csv, HEADER false, DELIM {literal(self.separator)}, QUOTE '\"', ESCAPE '\"',"
            f" NULLSTR {literal(self.empty)}"
        )

    def _cells(self, name: str, column: NDArray[Any], may_count: bool) -> list[str]:
        """Return the SQL expressions for the text of a column."""
        if column.dtype.kind == "M":
            return self._dates(name, column, may_count)
        if column.dtype.kind != "f":
            return [name]
        text = f"CAST({name} AS VARCHAR)"
        if self.is_text and self.style.decimal != ".":
            text = f"replace({text}, '.', {literal(self.style.decimal)})"
        return [f"CASE WHEN isnan({name}) THEN NULL ELSE {text} END"]

    def _dates(self, name: str, column: NDArray[Any], may_count: bool) -> list[str]:
        """Return the SQL expressions for dates. A date is written in the formats of the style if no
        information is lost, otherwise in ISO 8601 format."""
        known = column[~np.isnat(column)].astype("datetime64[us]").astype(np.int64)
        are_days, are_seconds = (not (known % unit).any() for unit in (DAY, SECOND))
        iso = "%Y-%m-%d" if are_days else "%Y-%m-%dT%H:%M:%S"
        plain = f"strftime({name}, '{iso if are_seconds else iso + '.%f'}')"
        formats = self.style.time_formats if self.is_text else ()
        if formats:
            together = literal(" | ".join(formats))
            is_exact = f"try_strptime(strftime({name}, {together}), {together}) = {name}"
            if any("%q" in form for form in formats):
                is_exact = f"date_trunc('quarter', {name}) = {name}"
            first, *others = (_format_date_sql(name, form) for form in formats)
            others = [f"CASE WHEN {is_exact} THEN {text} END" for text in others]
            plain = f"CASE WHEN {is_exact} THEN {first} ELSE {plain} END"
        else:
            others = []
        if may_count:
            plain = f"coalesce({plain}, CAST(counted AS VARCHAR))"
        return [plain, *others]

    def _append_arrow(self, columns: Sequence[NDArray[Any]]) -> None:
        pa = self.pa
        arrays = [
            pa.array(_to_database_array(column), pa.string() if column.dtype.kind == "O" else None,
                     from_pandas=True)
            for column in columns
        ]  # fmt: skip
        table = pa.table(arrays, names=self.names)
        if self.writer is None:
            self.schema = table.schema
            self.writer = pa.ipc.new_file(self.file, self.schema)
        self.writer.write_table(table.cast(self.schema))


def _sql_type(column: NDArray[Any]) -> str:
    if column.dtype.kind == "f":
        return "FLOAT" if column.dtype.itemsize == 4 else "DOUBLE"
    return TYPES[column.dtype.kind]


def _to_database_array(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind == "M":
        column = column.astype("datetime64[us]")
    return np.ascontiguousarray(column)


def _format_date_sql(name: str, form: str) -> str:
    if "%q" not in form:
        return f"strftime({name}, {literal(form)})"
    before, after = (
        f"strftime({name}, {literal(part)})" if part else "''" for part in form.split("%q", 1)
    )
    return f"({before} || CAST(quarter({name}) AS VARCHAR) || {after})"
