"""Search for the line of a row in a text file, and conversion of text for the database."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from seqattn.data.tables.header import is_comment
from seqattn.data.tables.text_format import TextFormat


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
        text = (line for line in file)
        line_numbers: list[int] = []

        def rows() -> Iterator[str]:
            for at, line in enumerate(text, start=1):
                blank = not line.strip() and len(form.header) > 1
                if at > form.skip and not blank and not is_comment(line, form.comment):
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


def to_plain_text(raw: BinaryIO, form: TextFormat) -> Iterator[bytes]:
    """Yield the text of a file in UTF-8. If the delimiter is a space, replace several spaces
    between two cells with one space."""
    text = io.TextIOWrapper(raw, encoding=form.encoding, newline="")
    try:
        if form.delimiter != " ":
            for line in text:
                yield line.encode()
            return
        row = io.StringIO()
        for line in text:
            if not line.strip() or is_comment(line, form.comment):
                yield line.encode()
                continue
            cells = next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
            csv.writer(row, delimiter=" ", lineterminator="\n").writerow(cells)
            yield row.getvalue().encode()
            row.seek(0)
            row.truncate()
    finally:
        text.detach()
