"""Detection of the format of a text table: encoding, delimiter, lines before the header, header.

The format is detected from the first lines of a file. DuckDB could detect most of the format, but
it reads files in an unknown encoding without their header, and it renames columns if their names
differ only in case.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seqattn.data.files.columns import shorten
from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.connection import read_lines
from seqattn.data.tables.header import (
    MAX_SHOWN,
    column_letters,
    commented_header,
    complete_header,
    is_comment,
    is_header,
    is_like_value,
    requested_names,
    without_comments,
)
from seqattn.data.tables.text_encoding import detect_encoding
from seqattn.errors import DataError

csv.field_size_limit(2**25)  # more than the maximum line length
HEAD_BYTES = 2**18
"""Number of bytes at the start of a file from which its format is detected."""
DELIMITERS = (",", ";", "\t", "|")
SEPARATOR_LINE = re.compile(r'"?sep=([^\w"])"?', re.IGNORECASE)
"""Pattern of the first line of a file in which Excel declares the separator."""
COMMENTS = ("#", "%", "//")


@dataclass(frozen=True)
class TextFormat:
    """The format of a text table.

    Attributes:
        encoding: Python name of the encoding.
        delimiter: delimiter between the cells of a row.
        comment: prefix of comment lines, or "" if there are no comments.
        skip: number of lines before the header, or before the first row of values if there is no
            header or the header lacks a name.
        skips_quotes: whether the skipped lines contain quotes.
        header: names of the columns.
        has_header: whether the row after the skipped lines is the header.
        notes: notes for the user.
    """

    encoding: str
    delimiter: str
    comment: str
    skip: int
    skips_quotes: bool
    header: tuple[str, ...]
    has_header: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def of_file(cls, path: Path, options: ReadOptions, delimiter: str | None = None) -> TextFormat:
        """Detect the format of a file.

        Args:
            path: the file.
            options: the options for reading the file.
            delimiter: delimiter that the suffix of the file implies, or None if it implies none.

        Raises:
            DataError: if the file is not a text table.
        """
        return cls.of_head(_read_head(path, options), str(path), options, delimiter)

    @classmethod
    def of_head(
        cls, head: bytes, name: str, options: ReadOptions, delimiter: str | None = None
    ) -> TextFormat:
        """Detect the format from the first bytes of a file."""
        encoding, notes = detect_encoding(head, name, options, is_cut=len(head) >= HEAD_BYTES)
        lines = _decode_lines(head, encoding, name)
        separator, comment, skip = _detect_dialect(lines, options, delimiter)
        rows = [(at, row) for at, row in _rows(lines, separator, comment) if at >= skip]
        if not rows:
            raise DataError(
                f"{name}: has no rows: all of its lines are empty or comments, or are skipped"
                f" ({setting('comment')}, {setting('skip_rows')})."
            )
        width = _common_width([row for _, row in rows])
        rows = rows[_first_row([row for _, row in rows], width) :]
        rows = rows[_count_titles([row for _, row in rows]) :]
        first = rows[0][0]
        before = lines[:first]
        quotes = any('"' in line for line in before)
        notes += _skipped_line_notes(before, comment, is_skipped=first > skip)
        cells = tuple(cell.strip() for cell in rows[0][1])
        if len(cells) < width:
            header, skip = complete_header(cells, rows, name), rows[1][0]
            quotes |= skip > first + 1  # the header may contain a line break
            return cls(encoding, separator, comment, skip, quotes, header, False, notes)
        if _has_header(cells, [row for _, row in rows[1:200]], options):
            return cls(encoding, separator, comment, first, quotes, cells, True, notes)
        header = commented_header(before, comment, separator, len(cells))
        if header:
            notes += ("the header is in a comment",)
        else:
            header = tuple(map(column_letters, range(len(cells))))
            notes += (f"there is no header, so columns are called {header[0]} to {header[-1]}",)
        return cls(encoding, separator, comment, first, quotes, header, False, notes)


def _decode_lines(head: bytes, encoding: str, name: str) -> list[str]:
    """Decode the first lines.

    Raises:
        DataError: if the file is empty.
    """
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    if not text.strip():
        raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
    lines = re.split("\r\n|\r|\n", text.removesuffix("\n").removesuffix("\r"))
    is_cut = len(head) >= HEAD_BYTES and len(lines) > 1
    return lines[:-1] if is_cut else lines


def _skipped_line_notes(lines: Sequence[str], comment: str, *, is_skipped: bool) -> tuple[str, ...]:
    """Return notes for the user on the lines before the header.

    Args:
        lines: the lines before the header.
        comment: prefix of comments.
        is_skipped: whether more lines are skipped than the options specify.
    """
    filled = [line for line in lines if line.strip()]
    others = [line for line in filled if not is_comment(line, comment)]
    notes = [f"lines that begin with {comment!r} are comments"] if len(others) < len(filled) else []
    if others and is_skipped:
        shown = shorten(others[0], MAX_SHOWN)
        count = "1 line" if len(others) == 1 else f"{len(others)} lines"
        notes.append(f"{count} before the header skipped: {shown!r}")
    return tuple(notes)


def _has_header(cells: Sequence[str], rows: Sequence[Sequence[str]], options: ReadOptions) -> bool:
    """Return whether the first row is a header, according to the options or the cells of the
    row."""
    if options.has_header is not None:
        return options.has_header
    return bool(requested_names(options) & set(cells)) or is_header(cells, rows)


def _read_head(path: Path, options: ReadOptions) -> bytes:
    """Return the first bytes of a file, decompressed if the file is compressed."""
    if path.suffix.lower() == ".zst":
        return "\n".join(itertools.islice(read_lines(path), 2000)).encode()[:HEAD_BYTES]
    opened: BinaryIO
    with path.open("rb") as opened:
        if path.suffix.lower() != ".gz":
            return opened.read(HEAD_BYTES)
        try:
            with gzip.open(opened) as unpacked:
                return unpacked.read(HEAD_BYTES)
        except (OSError, EOFError) as error:
            raise DataError(f"{path}: is a damaged gzip file ({error}).") from None


def _detect_dialect(
    lines: Sequence[str], options: ReadOptions, delimiter: str | None
) -> tuple[str, str, int]:
    """Return the delimiter, the comment prefix and the number of lines to skip at least."""
    declared, skip = SEPARATOR_LINE.fullmatch(lines[0]), options.skip_rows
    if declared:
        delimiter, skip = declared[1], max(skip, 1)
    comment = options.comment
    if comment is None:
        comment = _detect_comment(lines[1:] if declared else lines)
    found = options.delimiter or delimiter or _detect_delimiter(lines, comment, skip)
    return found, comment, skip


def _detect_comment(lines: Sequence[str]) -> str:
    """Return the comment prefix of the first line that is not blank, or "" if this line is not a
    comment."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    return next((sign for sign in COMMENTS if first.startswith(sign)), "")


def _rows(lines: Sequence[str], delimiter: str, comment: str) -> Iterator[tuple[int, list[str]]]:
    """Yield pairs (line index, cells) of rows up to the first invalid row."""
    at_rows = [at for at, line in without_comments(lines, comment, delimiter) if line.strip()]
    is_spaced = delimiter == " "
    text = (f"{lines[at].strip() if is_spaced else lines[at]}\n" for at in at_rows)
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=is_spaced)
    before = 0
    try:
        for row in reader:
            yield at_rows[before], row
            before = reader.line_num
    except csv.Error:
        return


def _common_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the most frequent number of cells per row."""
    counts = Counter(len(row) for row in rows)
    return max(counts, key=lambda width: (counts[width], width))


def _first_row(rows: Sequence[Sequence[str]], width: int) -> int:
    """Return the index of the first row of the table. This row has `width` cells, or is a header
    that lacks one name. If there is no such row, return 0."""
    for at, row in enumerate(rows):
        if len(row) == width:
            return at
        below = rows[at + 1] if at + 1 < len(rows) else []
        if len(row) == width - 1 > 0 and len(below) == width:
            return at
    return 0


def _count_titles(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows before the header in which only the first cell has text, as in a
    spreadsheet with a title. The row after them must have a name in every column."""
    titles = itertools.takewhile(lambda row: len(row) > 1 and row[0] and not any(row[1:]), rows)
    count = len(list(titles))
    header = rows[count] if count < len(rows) else [""]
    return count if all(cell.strip() and not is_like_value(cell) for cell in header) else 0


def _detect_delimiter(lines: Sequence[str], comment: str, skip: int) -> str:
    """Return the delimiter for which the largest fraction of rows has the same number of cells.

    A delimiter qualifies only if it splits these rows into two or more cells. If no delimiter in
    `DELIMITERS` qualifies, return a space if spaces separate the cells, otherwise a comma.
    """
    found = {
        sign: _regularity([row for at, row in _rows(lines[:500], sign, comment) if at >= skip])
        for sign in DELIMITERS
    }
    several = {sign: share for sign, share in found.items() if share[1] > 1}
    if several:
        return max(several, key=lambda sign: several[sign])
    widths = [len(row) for at, row in _rows(lines[:500], " ", comment) if at >= skip]
    if not widths:
        return ","
    alike = len(set(widths[1:] or widths)) == 1 and widths[-1] - widths[0] in (0, 1)
    return " " if alike and min(widths) > 1 else ","


def _regularity(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Return the fraction of rows that have the most frequent number of cells, and that number."""
    if not rows:
        return 0.0, 0
    width = _common_width(rows)
    return round(sum(len(row) == width for row in rows) / len(rows), 3), width
