"""What kind of text a table is: encoding, separators, lines before the header, header.

Found from the first lines of a file. The engine could guess most of this itself; it then reads a
file whose encoding it does not know without its header, and renames columns that differ in case.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import first_lines
from seqattn.data.tables.header import (
    SHOWN,
    commented_header,
    is_comment,
    is_header,
    letters,
    names_asked_for,
    with_one_more,
)
from seqattn.errors import DataError

csv.field_size_limit(2**25)  # longer than any line that is read
HEAD = 2**18
"""Bytes of a file that its format is found from."""
DELIMITERS = (",", ";", "\t", "|")
COMMENTS = ("#", "%", "//")


@dataclass(frozen=True)
class TextFormat:
    """
    Attributes:
        encoding: as Python calls it.
        delimiter: what separates the cells of a row.
        comment: what a line begins with that is no row; empty: nothing does.
        skip: lines before the header, or before the first row where there is no header.
        comments: how many of these are comments.
        header: names of the columns, as they stand in the file.
        has_header: whether `header` stands in the file.
        notes: what a user should be told.
    """

    encoding: str
    delimiter: str
    comment: str
    skip: int
    comments: int
    header: tuple[str, ...]
    has_header: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def of_file(cls, path: Path, options: ReadOptions, delimiter: str | None = None) -> TextFormat:
        """
        Args:
            delimiter: what the file's ending says; None: nothing.

        Raises:
            DataError: the file is no table of text.
        """
        return cls.of_head(_head(path, options), str(path), options, delimiter)

    @classmethod
    def of_head(
        cls, head: bytes, name: str, options: ReadOptions, delimiter: str | None = None
    ) -> TextFormat:
        """The same, from the first bytes of a file."""
        encoding, notes = _encoding(head, name, options)
        text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
        if not text.strip():
            raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
        lines = text.splitlines()
        if len(head) >= HEAD and len(lines) > 1:
            lines.pop()  # it may be cut
        comment = options.comment if options.comment is not None else _comment(lines)
        separator = options.delimiter or delimiter or _delimiter(lines, comment, options.skip_rows)
        rows = list(_rows(lines, separator, comment))
        rows = [(at, row) for at, row in rows if at >= options.skip_rows]
        if not rows:
            raise DataError(
                f"{name}: has no rows: all of its lines are empty or comments, or are skipped"
                " (data.comment, data.skip_rows; in data check: --comment, --skip-rows)."
            )
        width = _width([row for _, row in rows])
        begin = _first_row([row for _, row in rows], width)
        rows = rows[begin:]
        first = rows[0][0]
        comments = sum(is_comment(line, comment) for line in lines[:first])
        if comments:
            notes += (f"lines that begin with {comment!r} are comments",)
        if first > options.skip_rows:
            skipped = [
                line for line in lines[:first] if line.strip() and not is_comment(line, comment)
            ]
            if skipped:
                shown = skipped[0] if len(skipped[0]) <= SHOWN else f"{skipped[0][:SHOWN]}..."
                count = len(skipped)
                notes += (
                    f"{'1 line' if count == 1 else f'{count} lines'} before the header"
                    f" skipped: {shown!r}",
                )
        cells = tuple(cell.strip() for cell in rows[0][1])
        if len(cells) < width:
            header = with_one_more(cells, rows, name)
            return cls(encoding, separator, comment, first + 1, comments, header, False, notes)
        has_header = options.has_header
        if has_header is None and names_asked_for(options) & set(cells):
            has_header = True
        if has_header is None:
            has_header = is_header(cells, [row for _, row in rows[1:200]])
        if not has_header:
            commented = commented_header(lines[:first], comment, separator, len(cells))
            header = commented or tuple(map(letters, range(len(cells))))
            notes += (
                "the header stands in a comment"
                if commented
                else f"there is no header, so columns are called {header[0]} to {header[-1]}",
            )
            return cls(encoding, separator, comment, first, comments, header, False, notes)
        return cls(encoding, separator, comment, first, comments, cells, True, notes)


def _head(path: Path, options: ReadOptions) -> bytes:
    """The first bytes of a file, unpacked."""
    if path.suffix.lower() == ".zst":
        return "\n".join(first_lines(path, 2000)).encode()[:HEAD]
    opened: BinaryIO
    with path.open("rb") as opened:
        if path.suffix.lower() != ".gz":
            return opened.read(HEAD)
        try:
            with gzip.open(opened) as unpacked:
                return unpacked.read(HEAD)
        except (OSError, EOFError) as error:
            raise DataError(f"{path}: is no whole gzip file ({error}).") from None


def _encoding(head: bytes, name: str, options: ReadOptions) -> tuple[str, tuple[str, ...]]:
    if head.startswith(b"PK\x03\x04"):
        raise DataError(
            f"{name}: is a ZIP archive or an Excel workbook, not text. Save the sheet as CSV."
        )
    if re.match(rb"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise DataError(f"{name}: is a web page (HTML or XML), not a table.")
    if options.encoding is not None:
        try:
            if codecs.lookup(options.encoding)._is_text_encoding:
                return options.encoding, ()
        except (LookupError, ValueError):
            pass
        raise DataError(
            f"{name}: {options.encoding!r} is no encoding that is known. Set data.encoding (in data"
            " check: --encoding) to utf-8, latin-1, cp1252, utf-16 or another."
        )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", ("read as UTF-16",)
    if b"\0" in head:
        raise DataError(f"{name}: has zero bytes, so it is no text.")
    try:
        head[:-4].decode() if len(head) >= HEAD else head.decode()
    except UnicodeDecodeError as error:
        if any(byte < 9 or 13 < byte < 32 for byte in head[:4096]):
            raise DataError(
                f"{name}: byte {head[error.start]:#04x} is not UTF-8, and others are no text."
            ) from None
        windows = any(0x80 <= byte < 0xA0 for byte in head)
        encoding, called = ("cp1252", "Windows-1252") if windows else ("latin-1", "Latin-1")
        return encoding, (
            f"not UTF-8, so read as {called}; another encoding is set with data.encoding"
            " (in data check: --encoding)",
        )
    return "utf-8", ()


def _comment(lines: Sequence[str]) -> str:
    """What the first lines begin with that are no rows."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    return next((sign for sign in COMMENTS if first.startswith(sign)), "")


def _rows(lines: Sequence[str], delimiter: str, comment: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of rows; a broken end is left out."""
    places = [at for at, line in enumerate(lines) if line.strip() and not is_comment(line, comment)]
    spaced = delimiter == " "
    text = (f"{lines[at].strip() if spaced else lines[at]}\n" for at in places)
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=spaced)
    before = 0
    try:
        for row in reader:
            yield places[before], row
            before = reader.line_num
    except csv.Error:
        return


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Cells of most rows."""
    counts = Counter(len(row) for row in rows)
    return max(counts, key=lambda width: (counts[width], width))


def _first_row(rows: Sequence[Sequence[str]], width: int) -> int:
    """Where the table begins: at the first row of its width, or at a header that lacks one name."""
    for at, row in enumerate(rows):
        if len(row) == width:
            return at
        below = rows[at + 1] if at + 1 < len(rows) else []
        if len(row) == width - 1 > 0 and len(below) == width:
            return at
    return 0


def _delimiter(lines: Sequence[str], comment: str, skip: int) -> str:
    """The sign that cuts most rows into one number of cells, two at least."""
    best, found = (0.0, 1), ","
    for sign in DELIMITERS:
        rows = [row for at, row in _rows(lines[:500], sign, comment) if at >= skip]
        if not rows:
            continue
        width = _width(rows)
        share = sum(len(row) == width for row in rows) / len(rows)
        if width > 1 and (round(share, 3), width) > best:
            best, found = (round(share, 3), width), sign
    if best[1] > 1 or not lines:
        return found
    widths = [len(row) for at, row in _rows(lines[:500], " ", comment) if at >= skip]
    alike = len(set(widths[1:] or widths)) == 1 and widths[-1] - widths[0] in (0, 1)
    return " " if alike and min(widths) > 1 else ","
