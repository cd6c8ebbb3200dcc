"""Search for the line of a row in a text file, and conversion of text for the database."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from seqattn.data.tables.header import without_comments
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
    header. If the delimiter is a space, replace several spaces between two cells with one space.

    Args:
        lines: all lines of the file.
        form: format of the file.
        removed: list to which the numbers of the removed lines are appended.
    """
    expected = 1
    for at, line in _table_lines(lines, form):
        removed += range(expected, at)
        expected = at + 1
        is_spaced = form.delimiter == " " and line.strip()
        yield (_with_single_spaces(line) if is_spaced else line).encode()


def _with_single_spaces(line: str) -> str:
    cells = next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
    row = io.StringIO()
    csv.writer(row, delimiter=" ", lineterminator="\n").writerow(cells)
    return row.getvalue()


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
