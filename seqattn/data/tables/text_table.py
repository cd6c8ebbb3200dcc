"""Functions that load a text file into the database."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqattn.data.files.chunk import MAX_LINE_BYTES, first_line
from seqattn.data.files.temporary import named_file
from seqattn.data.setting_names import setting
from seqattn.data.tables.connection import connect, read_lines, sql_call
from seqattn.data.tables.table import ROW, ROWS, Table, read_errors
from seqattn.data.tables.text_format import TextFormat
from seqattn.data.tables.text_lines import line_of_row, original_line, to_plain_lines
from seqattn.errors import DataError

ENCODINGS = ("utf-8", "utf-16", "latin-1")
"""Encodings that the database can read."""


@contextmanager
def open_text_table(
    path: Path, name: str, form: TextFormat, lines_before: int | None = None
) -> Iterator[Table]:
    """Load a CSV or TSV file.

    Args:
        path: the file.
        name: name of the file, for messages.
        form: format of the file.
        lines_before: number of lines before this block from a pipe, or None for a whole file.

    Raises:
        DataError: if the file cannot be read or its rows have different numbers of cells.
    """
    with connect(name) as connection, _readable_file(path, name, form) as file:
        width = len(form.header)
        options: dict[str, Any] = {
            "header": form.has_header, "auto_detect": False, "all_varchar": True,
            "delim": form.delimiter, "quote": '"', "escape": '"', "comment": "",
            "skip": file.skip, "encoding": file.encoding,
            "max_line_size": MAX_LINE_BYTES, "buffer_size": 2 * MAX_LINE_BYTES,
            "columns": {f"c{i}": "VARCHAR" for i in range(width)}, "hive_partitioning": False,
        }  # fmt: skip
        for more in ({}, {"strict_mode": False}):  # the second attempt allows mixed line endings
            try:
                source = sql_call("read_csv", file.path, **options, **more)
                connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE {ROWS} AS"
                    f" SELECT row_number() OVER () AS {ROW}, * FROM {source}"
                )
            except read_errors() as error:
                if more or "state machine" not in str(error):
                    raise _text_error(error, name, form, lines_before, file.removed) from None
            else:
                break

        def line(row: int) -> str:
            at = line_of_row(path, form, row)
            return f"row {row}" if at is None else f"line {at}"

        yield Table(
            connection, name, form.header, ("VARCHAR",) * width, line, True, list(form.notes),
            delimiter=form.delimiter,
        )  # fmt: skip


@dataclass(frozen=True)
class _ReadableFile:
    """A file that the database can read.

    Attributes:
        path: the file.
        encoding: its encoding.
        skip: number of lines to skip.
        removed: numbers of the lines that a copy lacks; empty for the original file.
    """

    path: Path
    encoding: str
    skip: int = 0
    removed: list[int] = field(default_factory=list)


@contextmanager
def _readable_file(path: Path, name: str, form: TextFormat) -> Iterator[_ReadableFile]:
    """Yield a file that the database can read.

    The file is a copy in UTF-8 if the database lacks the encoding or if spaces separate the cells.
    It is also a copy if the file has comments, because the database would also remove the end of a
    line after a comment sign, or if the skipped lines contain quotes, because the database counts
    a line break in quotes as part of a line.
    """
    is_plain = form.delimiter != " " and not form.comment and not form.skips_quotes
    if is_plain and form.encoding in ENCODINGS:
        yield _ReadableFile(path, form.encoding, form.skip)
        return
    removed: list[int] = []
    with _open_lines(path, name, form) as lines, named_file(".csv") as copy:
        try:
            copy.writelines(to_plain_lines(lines, form, removed))
        except UnicodeError as error:
            raise _encoding_error(name, form, error) from None
        except EOFError:
            raise DataError(f"{name}: is a damaged gzip file.") from None
        copy.flush()
        yield _ReadableFile(Path(copy.name), "utf-8", 0, removed)


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


def _encoding_error(where: str, form: TextFormat, error: Exception) -> DataError:
    found = (
        f" (byte {error.object[error.start]:#04x})" if isinstance(error, UnicodeDecodeError) else ""
    )
    return DataError(
        f"{where} is not {form.encoding.upper()}{found}. Save the file as UTF-8, or set its"
        f" encoding: {setting('encoding')}."
    )


def _text_error(
    error: Exception, name: str, form: TextFormat, lines_before: int | None,
    removed: Sequence[int],
) -> DataError:  # fmt: skip
    """Return the error for a text file that the database cannot read."""
    text = str(error)
    at = re.search(r"CSV Error on Line: (\d+)", text)
    original = re.search(r"Original Line: (.*)", text)
    line = original_line(int(at[1]), removed) + (lines_before or 0) if at else 0
    where = f"{name}: line {line}" if at else f"{name}:"
    shown = original[1][:60] if original else ""
    cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if cells:
        return DataError(
            f"{where} has {cells[2]} cells, the header has {cells[1]}: {shown!r}. Correct the"
            " line; a cell that contains the separator needs quotes."
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
            f"{where} is longer than {MAX_LINE_BYTES // 2**20} MiB; this is not a table of"
            " sequences."
        )
    return DataError(f"{where} is not valid CSV ({first_line(error)}).")
