"""Tables as text, CSV and TSV; read by pyarrow, a stretch at a time."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

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
        _text_batches(pa, raw, name, header, columns, delimiter, form), columns, name
    )


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


class _CheckedText(io.RawIOBase):
    """A stream that refuses bytes that are no UTF-8, with their line, before they are parsed."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self.raw, self.name, self.line = raw, name, 2  # the header is behind
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        try:
            self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self.line + data.count(b"\n", 0, max(error.start, 0))
            raise DataError(
                f"{self.name}:{line}: byte {error.object[error.start]:#04x} is not UTF-8. Save the"
                " file as UTF-8."
            ) from None
        self.line += data.count(b"\n")
        return data


def _text_batches(
    pa: Any, raw: BinaryIO, name: str, header: list[str], columns: Columns, delimiter: str,
    form: Form,
) -> Iterator[Batch]:  # fmt: skip
    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "error"

    block = min(LONGEST_LINE, max(BLOCK, 64 * len(header)))
    first = 1
    try:
        reader = pa.csv.open_csv(
            _CheckedText(raw, name),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=block, column_names=header
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter,
                invalid_row_handler=remember,
                newlines_in_values=False,
                ignore_empty_lines=len(header) > 1,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=columns.needed,
                column_types=dict.fromkeys(columns.needed, pa.string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader if len(header) > 1 else _without_blank_end(pa, reader):
            if batch.num_rows == 0:
                continue
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
    except pa.ArrowInvalid as error:
        raise _not_csv(str(error), bad, name, len(header)) from None
    except StopIteration:
        return


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


def _not_csv(words: str, bad: list[Any], name: str, width: int) -> DataError:
    if bad:
        row = bad[0]
        number = f"row {row.number}" if row.number else "a row"
        text = row.text if len(row.text) <= SHOWN else f"{row.text[:SHOWN]}..."
        return DataError(
            f"{name}: {number} has {row.actual_columns} cells, the header has {width}: {text!r}."
        )
    if "Empty CSV" in words:
        return DataError(f"{name}: has a header but no rows.")
    if "straddling" in words or "block size" in words:
        return DataError(
            f"{name}: has a row of more than {BLOCK // 2**20} MiB; that is no table of sequences."
        )
    return DataError(f"{name}: is not valid CSV ({words.splitlines()[0][:200]}).")
