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
from seqattn.data.tables.connection import read_first_lines
from seqattn.data.tables.header import (
    MAX_SHOWN,
    column_letters,
    commented_header,
    complete_header,
    is_comment,
    is_header,
    requested_names,
)
from seqattn.errors import DataError

csv.field_size_limit(2**25)  # longer than any line that is read
HEAD_BYTES = 2**18
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
        return cls.of_head(_read_head(path, options), str(path), options, delimiter)

    @classmethod
    def of_head(
        cls, head: bytes, name: str, options: ReadOptions, delimiter: str | None = None
    ) -> TextFormat:
        """The same, from the first bytes of a file."""
        encoding, notes = _detect_encoding(head, name, options)
        lines = _decode_lines(head, encoding, name)
        comment = options.comment if options.comment is not None else _detect_comment(lines)
        separator = (
            options.delimiter or delimiter or _detect_delimiter(lines, comment, options.skip_rows)
        )
        rows = [
            (at, row)
            for at, row in _split_rows(lines, separator, comment)
            if at >= options.skip_rows
        ]
        if not rows:
            raise DataError(
                f"{name}: has no rows: all of its lines are empty or comments, or are skipped"
                " (data.comment, data.skip_rows; in data check: --comment, --skip-rows)."
            )
        width = _most_frequent_width([row for _, row in rows])
        rows = rows[_first_row([row for _, row in rows], width) :]
        first = rows[0][0]
        before = lines[:first]
        comments = sum(is_comment(line, comment) for line in before)
        notes += _skipped_line_notes(before, comment, is_skipped=first > options.skip_rows)
        cells = tuple(cell.strip() for cell in rows[0][1])
        if len(cells) < width:
            header = complete_header(cells, rows, name)
            return cls(encoding, separator, comment, first + 1, comments, header, False, notes)
        if _has_header(cells, [row for _, row in rows[1:200]], options):
            return cls(encoding, separator, comment, first, comments, cells, True, notes)
        header = commented_header(before, comment, separator, len(cells))
        if header:
            notes += ("the header stands in a comment",)
        else:
            header = tuple(map(column_letters, range(len(cells))))
            notes += (f"there is no header, so columns are called {header[0]} to {header[-1]}",)
        return cls(encoding, separator, comment, first, comments, header, False, notes)


def _decode_lines(head: bytes, encoding: str, name: str) -> list[str]:
    """
    Raises:
        DataError: there is no text.
    """
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    if not text.strip():
        raise DataError(f"{name}: is empty. Expected a header row, such as series,time,x,y")
    lines = text.splitlines()
    return (
        lines[:-1] if len(head) >= HEAD_BYTES and len(lines) > 1 else lines
    )  # the last may be cut


def _skipped_line_notes(lines: Sequence[str], comment: str, *, is_skipped: bool) -> tuple[str, ...]:
    """What a user should be told of the lines before the header.

    Args:
        is_skipped: whether more are left out than the user asked for.
    """
    filled = [line for line in lines if line.strip()]
    others = [line for line in filled if not is_comment(line, comment)]
    notes = [f"lines that begin with {comment!r} are comments"] if len(others) < len(filled) else []
    if others and is_skipped:
        shown = others[0] if len(others[0]) <= MAX_SHOWN else f"{others[0][:MAX_SHOWN]}..."
        count = "1 line" if len(others) == 1 else f"{len(others)} lines"
        notes.append(f"{count} before the header skipped: {shown!r}")
    return tuple(notes)


def _has_header(cells: Sequence[str], rows: Sequence[Sequence[str]], options: ReadOptions) -> bool:
    """Whether the first row is one, as the user says or by what stands there."""
    if options.has_header is not None:
        return options.has_header
    return bool(requested_names(options) & set(cells)) or is_header(cells, rows)


def _read_head(path: Path, options: ReadOptions) -> bytes:
    """The first bytes of a file, unpacked."""
    if path.suffix.lower() == ".zst":
        return "\n".join(read_first_lines(path, 2000)).encode()[:HEAD_BYTES]
    opened: BinaryIO
    with path.open("rb") as opened:
        if path.suffix.lower() != ".gz":
            return opened.read(HEAD_BYTES)
        try:
            with gzip.open(opened) as unpacked:
                return unpacked.read(HEAD_BYTES)
        except (OSError, EOFError) as error:
            raise DataError(f"{path}: is no whole gzip file ({error}).") from None


def _detect_encoding(head: bytes, name: str, options: ReadOptions) -> tuple[str, tuple[str, ...]]:
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
        head[:-4].decode() if len(head) >= HEAD_BYTES else head.decode()
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


def _detect_comment(lines: Sequence[str]) -> str:
    """What the first lines begin with that are no rows."""
    first = next((line.lstrip() for line in lines if line.strip()), "")
    return next((sign for sign in COMMENTS if first.startswith(sign)), "")


def _split_rows(
    lines: Sequence[str], delimiter: str, comment: str
) -> Iterator[tuple[int, list[str]]]:
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


def _most_frequent_width(rows: Sequence[Sequence[str]]) -> int:
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


def _detect_delimiter(lines: Sequence[str], comment: str, skip: int) -> str:
    """The sign that cuts most rows into one number of cells, two at least."""
    found = {
        sign: _regularity(
            [row for at, row in _split_rows(lines[:500], sign, comment) if at >= skip]
        )
        for sign in DELIMITERS
    }
    several = {sign: share for sign, share in found.items() if share[1] > 1}
    if several:
        return max(several, key=lambda sign: several[sign])
    widths = [len(row) for at, row in _split_rows(lines[:500], " ", comment) if at >= skip]
    if not widths:
        return ","
    alike = len(set(widths[1:] or widths)) == 1 and widths[-1] - widths[0] in (0, 1)
    return " " if alike and min(widths) > 1 else ","


def _regularity(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """(share of the rows that have the most frequent number of cells, this number)."""
    if not rows:
        return 0.0, 0
    width = _most_frequent_width(rows)
    return round(sum(len(row) == width for row in rows) / len(rows), 3), width
