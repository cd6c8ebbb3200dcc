"""Tables as text, CSV and TSV; read by pyarrow, a stretch at a time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.files.blocks import blocks_of_lines
from seqattn.data.files.cells import arrow, names_and_order, numbers_of_texts
from seqattn.data.files.columns import SHOWN, Columns
from seqattn.data.files.piece import LONGEST_LINE, Form, Piece
from seqattn.data.files.rows import Batch, pieces_of
from seqattn.errors import DataError

BLOCK = 2**20  # bytes of text a stretch; a row that needs more gets more, up to LONGEST_LINE
DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


def read_text_table(raw: BinaryIO, name: str, form: Form, *, tabs: bool) -> Iterator[Piece]:
    """Pieces of a CSV or TSV file.

    Args:
        raw: from its first byte on.
        tabs: cells are separated by tabs, unless `form` says otherwise.

    Raises:
        DataError: with row and column, and what would do.
    """
    pa = arrow()
    delimiter = form.delimiter or ("\t" if tabs else ",")
    header = header_of(raw, name, delimiter)
    hint = _few_separators(header, delimiter) or _no_header(header, form)
    columns = Columns.find(header, form, name, hint)
    yield from pieces_of(
        _text_batches(pa, raw, name, header, columns, delimiter, form), columns, name,
        most=form.most,
    )  # fmt: skip


def header_of(raw: BinaryIO, name: str, delimiter: str) -> list[str]:
    """The first row that is not blank.

    Raises:
        DataError: there is none, or it is no text.
    """
    line = b"\n"
    first = True
    while line and not line.strip(b"\r\n \t"):
        line = raw.readline(LONGEST_LINE + 1)
        if first:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{name}:1: is UTF-16, not UTF-8. Save the file as UTF-8.")
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
    if not line:
        raise DataError(f"{name}: is empty. Expected a header row: sequence,step,x,y")
    if len(line) > LONGEST_LINE:
        raise DataError(f"{name}:1: the first row is longer than {LONGEST_LINE // 2**20} MiB.")
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:1: byte {line[error.start]:#04x} in the first row is not UTF-8. Save the file"
            " as UTF-8."
        ) from None
    if "\0" in text:
        raise DataError(f"{name}:1: has zero bytes; that is no text.")
    if "\r" in text:
        raise DataError(f"{name}:1: ends its rows with carriage returns alone. Save it with \\n.")
    try:
        (row,) = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    except (csv.Error, ValueError) as error:
        raise DataError(f"{name}:1: is not valid CSV: {error}.") from None
    return [cell.strip() for cell in row]


def _few_separators(header: Sequence[str], delimiter: str) -> str:
    """What to say of a header that another sign seems to separate; else nothing."""
    if len(header) > 1:
        return ""
    for sign, word in DELIMITERS.items():
        if sign in header[0] and sign != delimiter:
            shown = "\\t" if sign == "\t" else sign
            return (
                f"its columns are separated by {word}, it seems, not by"
                f" {DELIMITERS.get(delimiter, repr(delimiter))}; set data.delimiter to '{shown}'"
                " (in data check: --delimiter)"
            )
    return ""


def _no_header(header: Sequence[str], form: Form) -> str:
    """What to say of a first row that is all numbers; nothing where they count steps."""
    if not all(re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", cell) for cell in header):
        return ""
    steps = [int(cell) for cell in header if cell.isdecimal()]
    counted = steps == list(range(steps[0], steps[0] + len(header))) if steps else False
    if (counted and len(header) > 1) or (form.features and set(form.features) <= set(header)):
        return ""
    return "its first row is all numbers, so it lacks a header, such as sequence,step,x,y"


def _text_batches(
    pa: Any, raw: BinaryIO, name: str, header: list[str], columns: Columns, delimiter: str,
    form: Form,
) -> Iterator[Batch]:  # fmt: skip
    first = 1
    size = min(LONGEST_LINE, max(BLOCK, 64 * len(header)))
    tables = _tables(pa, raw, name, header, columns, delimiter, size)
    for batch in tables if len(header) > 1 else _without_blank_end(pa, tables):
        cells = [
            numbers_of_texts(pa, batch.column(cell), name, first, cell, form.decimal)
            for cell in columns.cells
        ]
        yield Batch(
            first,
            np.column_stack(cells),
            *names_and_order(pa, batch, columns, name, first, form),
        )
        first += batch.num_rows


def _tables(
    pa: Any, raw: BinaryIO, name: str, header: list[str], columns: Columns, delimiter: str,
    size: int,
) -> Iterator[Any]:  # fmt: skip
    """Record batches of texts, one for each block of lines.

    Each block is parsed by itself, from memory that belongs to Arrow. `pyarrow.csv.open_csv` would
    read ahead in a thread that needs the interpreter, and abort the process when it ends first.
    """
    rows, line = 0, 2  # the header is behind

    def too_long(lines: int) -> DataError:
        return DataError(
            f"{name}:{2 + lines}: has a row of more than {size / 2**20:.0f} MiB; that is no"
            " table of sequences."
        )

    for block, _ in blocks_of_lines(raw, size, size, too_long):
        if not block:
            continue
        _check_utf8(block, name, line)
        line += block.count(b"\n")
        try:
            batch = _parsed(pa, block, name, header, columns, delimiter, rows)
        except pa.ArrowInvalid as error:
            words = str(error).splitlines()[0][:200]
            raise DataError(f"{name}: is not valid CSV ({words}).") from None
        rows += batch.num_rows
        if batch.num_rows:
            yield batch


def _parsed(
    pa: Any, block: bytes, name: str, header: list[str], columns: Columns, delimiter: str,
    rows: int,
) -> Any:  # fmt: skip
    """A block of lines as a record batch of texts.

    Args:
        rows: how many there were before, for messages.

    Raises:
        DataError: a row has too few or too many cells, or a quote is not closed.
        ArrowInvalid: anything else is wrong.
    """
    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "error"

    needed = columns.needed
    quotes_open = block.count(b'"') % 2 == 1 and block.endswith(b"\n")
    if quotes_open:
        needed = list(dict.fromkeys([*needed, header[-1]]))
    buffer = pa.allocate_buffer(len(block))
    memoryview(buffer).cast("B")[:] = block
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(buffer),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=len(block), column_names=header
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter,
                invalid_row_handler=remember,
                newlines_in_values=False,
                ignore_empty_lines=len(header) > 1,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=needed,
                column_types=dict.fromkeys(needed, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        if bad:
            raise _wrong_width(bad[0], name, len(header), rows) from None
        raise
    # A cell at the end of a row never ends in a line break, unless its quote is not closed.
    if quotes_open and len(table) and table.column(header[-1])[-1].as_py().endswith("\n"):
        raise DataError(
            f"{name}: row {rows + len(table)} has a quote that is not closed, or a line break"
            " between quotes. Cells have no line breaks."
        )
    return pa.RecordBatch.from_arrays(
        [table.column(column).combine_chunks() for column in columns.needed], columns.needed
    )


def _check_utf8(block: bytes, name: str, line: int) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}: byte {block[error.start]:#04x} is not UTF-8. Save the file as UTF-8."
        ) from None


def _without_blank_end(pa: Any, batches: Any) -> Iterator[Any]:
    """Of a table of one column, where a blank line is an empty cell, but none at the very end."""
    blank = 0
    for batch in batches:
        texts = batch.column(0)
        filled = np.flatnonzero(pa.compute.not_equal(texts, "").to_numpy(zero_copy_only=False))
        if not filled.size:
            blank += len(texts)
            continue
        end = int(filled[-1]) + 1
        column = pa.concat_arrays([pa.array([""] * blank, pa.string()), texts.slice(0, end)])
        yield pa.RecordBatch.from_arrays([column], batch.schema.names)
        blank = len(texts) - end


def _wrong_width(row: Any, name: str, width: int, rows: int) -> DataError:
    text = row.text if len(row.text) <= SHOWN else f"{row.text[:SHOWN]}..."
    return DataError(
        f"{name}: row {rows + row.number} has {row.actual_columns} cells, the header has {width}:"
        f" {text!r}."
    )
