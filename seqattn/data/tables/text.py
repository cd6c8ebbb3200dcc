"""The format of a text table: encoding, delimiter, comments, lines before the header, header.

The format is detected from the first lines of a file. DuckDB could detect most of the format, but
it reads files in an unknown encoding without their header, and it renames columns if their names
differ only in case.
"""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seqattn.data.reading import Reading, setting, shorten
from seqattn.data.tables.connection import read_lines
from seqattn.errors import DataError


def detect_encoding(
    head: bytes, name: str, reading: Reading, *, is_cut: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the Python name of the encoding of a text file, and notes for the user.

    Args:
        head: the first bytes of the file.
        name: name of the file, for messages.
        reading: how to read the file.
        is_cut: whether the file has more bytes.

    Raises:
        DataError: if the file is not text, or if the encoding in the reading is unknown.
    """
    if head.startswith(b"PK\x03\x04"):
        raise DataError(
            f"{name}: is a ZIP archive or an Excel workbook, not text. Save the sheet as CSV."
        )
    if re.match(rb"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise DataError(f"{name}: is a web page (HTML or XML), not a table.")
    if reading.encoding is not None:
        return _requested_encoding(head, name, reading.encoding), ()
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _requested_encoding(head, name, "utf-16"), ("read as UTF-16",)
    if b"\0" in head:
        raise DataError(f"{name}: contains zero bytes, so it is not text.")
    try:
        head[:-4].decode() if is_cut else head.decode()
    except UnicodeDecodeError as error:
        if any(byte < 9 or 13 < byte < 32 for byte in head[:4096]):
            raise DataError(
                f"{name}: byte {head[error.start]:#04x} is not UTF-8, and others are no text."
            ) from None
        windows = any(0x80 <= byte < 0xA0 for byte in head)
        encoding, label = ("cp1252", "Windows-1252") if windows else ("latin-1", "Latin-1")
        return encoding, (
            f"not UTF-8, so read as {label}; another encoding is set with {setting('encoding')}",
        )
    return "utf-8", ()


def _requested_encoding(head: bytes, name: str, encoding: str) -> str:
    """Return the encoding that the user set, with the byte order of the file if the encoding is
    UTF-16.

    Raises:
        DataError: if there is no such encoding.
    """
    try:
        codec = codecs.lookup(encoding)
        if codec._is_text_encoding:
            is_reversed = codec.name == "utf-16" and head.startswith(codecs.BOM_UTF16_BE)
            return "utf-16be" if is_reversed else encoding
    except (LookupError, ValueError):
        pass
    raise DataError(
        f"{name}: {encoding!r} is not a known encoding. Set data.encoding (in data"
        " check: --encoding) to utf-8, latin-1, cp1252, utf-16 or another."
    )


NUMBER = re.compile(r"[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
DATE = re.compile(
    r"\d{1,4}[-/.](\d{1,2}|[A-Za-z]{3})([-/.]\d{1,4})?([ T]\d{1,2}:\d.*)?"
    r"|(0?[1-9]|1[0-2])[-/](19|20)\d{2}"
)
MONTH = re.compile(
    r"([A-Za-z]{3,9}[ -]\d{1,2},? ?\d{0,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}"
    r"|[A-Za-z]{3,9}[ -]\d{2,4}|\d{4} ?[A-Za-z]{3})( \d.*)?"
    r"|\d{4}[-/ ]?[Qq][1-4]|[Qq][1-4][-/ ]?\d{4}|[1-4][Qq][-/ ]?\d{4}"
    r"|\d{4}[-/ ]?[Ww]\d{2}([-/ ]?[1-7])?|[Ww]\d{2}[-/ ]\d{4}"
)
YEAR = re.compile(r"(1[5-9]|20)\d\d")
MAX_SHOWN = 60
"""Maximum number of characters of a line that a message shows."""


def is_comment(line: str, comment: str) -> bool:
    """Return whether a line begins with the comment prefix."""
    return bool(comment) and line.lstrip().startswith(comment)


def without_comments(
    lines: Iterable[str], comment: str, delimiter: str
) -> Iterator[tuple[int, str]]:
    """Yield pairs (line index, line) of the lines that are not comments. A line that begins inside
    a quoted cell is not a comment."""
    in_quotes = False
    for at, line in enumerate(lines):
        if in_quotes or not is_comment(line, comment):
            if '"' in line:
                in_quotes = _ends_in_quotes(f'"{line}' if in_quotes else line, delimiter)
            yield at, line


def _ends_in_quotes(line: str, delimiter: str) -> bool:
    """Return whether a quoted cell continues on the next line."""
    text = line.rstrip("\r\n")
    if _whole_cells(delimiter).fullmatch(text):  # faster than the reader
        return False
    text += "\n"  # the reader keeps the line end only in quotes
    try:
        cells = next(csv.reader([text], delimiter=delimiter, skipinitialspace=delimiter == " "))
    except csv.Error:  # a cell is too long; the database describes this error
        return False
    return cells[-1].endswith("\n")


@functools.cache
def _whole_cells(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of a line whose cells are in quotes or contain no quotes."""
    mark = re.escape(delimiter)
    cell = rf'(?:"[^"]*(?:""[^"]*)*"|[^"{mark}]*)'
    return re.compile(f"{cell}(?:{mark}{cell})*")


def is_like_value(cell: str) -> bool:
    """Return whether a cell is a number or a date rather than a name."""
    return bool(NUMBER.fullmatch(cell) or DATE.fullmatch(cell) or MONTH.fullmatch(cell))


def requested_names(reading: Reading) -> set[str]:
    """Return the names of the series, time, feature, one-hot and ignored columns in the reading. A
    row that contains one of these names is a header. Names that look like values are left out."""
    named = [*(reading.features or ()), *reading.ignore, *reading.one_hot]
    for columns in (reading.series, reading.time):
        named += [] if columns is None or columns == "auto" else columns
    return {name for name in named if not is_like_value(name)}


def is_header(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a header, that is, whether it contains column names or the
    steps of a wide table."""
    values = [cell for cell in cells if is_like_value(cell)]
    if not values:
        return any(cells)
    if len(set(values)) < len(values) or not rows:
        return False
    below = [row for row in rows if len(row) == len(cells)]
    return _has_names_above_values(cells, below) or _are_steps(cells, values, below)


def _are_steps(cells: Sequence[str], values: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the values in the first row are the steps of a wide table."""
    names = [cell for cell in cells if cell and cell not in values]
    if not names:
        return _is_arithmetic(values) and int(values[0]) in (0, 1)
    is_word_below = names[0] in {row[cells.index(names[0])] for row in below}
    if is_word_below:
        return False
    are_dates = len(values) > 1 and all(
        (DATE.fullmatch(cell) or MONTH.fullmatch(cell)) and not NUMBER.fullmatch(cell)
        for cell in values
    )
    return _is_arithmetic(values) or are_dates or _are_years(cells, values, below)


def _are_years(cells: Sequence[str], values: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the values in the first row are increasing years, which may have gaps, and
    the rows below contain other numbers."""
    rows = [values, *([row[cells.index(value)] for value in values] for row in below)]
    are_years, *others = (all(map(YEAR.fullmatch, row)) for row in rows)
    is_increasing = all(a < b for a, b in itertools.pairwise(values))
    return are_years and len(values) > 1 and is_increasing and not all(others)


def _is_arithmetic(cells: Sequence[str]) -> bool:
    """Return whether cells are integers that increase by a constant difference."""
    if len(cells) < 2 or not all(map(str.isdecimal, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    step = numbers[1] - numbers[0]
    return step > 0 and all(b - a == step for a, b in itertools.pairwise(numbers))


def _has_names_above_values(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has words of two or more characters in most of the columns that
    contain numbers or dates in all later rows."""
    indices = [
        index for index in range(len(cells))
        if below and all(is_like_value(row[index].strip()) for row in below)
    ]  # fmt: skip
    words = [i for i in indices if len(cells[i]) > 1 and not is_like_value(cells[i])]
    return len(words) * 2 > len(indices)


def commented_header(
    lines: Sequence[str], comment: str, delimiter: str, width: int
) -> tuple[str, ...]:
    """Return the names in the last comment before the first row if there is one name per column,
    otherwise an empty tuple."""
    for line in reversed(lines):
        if is_comment(line, comment):
            text = line.lstrip().removeprefix(comment).strip()
            cells = tuple(cell.strip() for cell in next(csv.reader([text], delimiter=delimiter)))
            return cells if len(cells) == width and all(cells) else ()
    return ()


def complete_header(
    cells: tuple[str, ...], rows: Sequence[tuple[int, Sequence[str]]], name: str
) -> tuple[str, ...]:
    """Complete a header that lacks one name.

    Such a header lacks the name of the column with the row numbers, as in files from R, or the name
    of an empty last column.

    Raises:
        DataError: if the extra cells are neither empty last cells nor row numbers.
    """
    below = [row for _, row in rows[1:] if len(row) > len(cells)]
    if all(not row[-1].strip() for row in below):
        return (*cells, "")
    if all(row[0].strip() == str(at) for at, row in enumerate(below, start=1)):
        return ("", *cells)
    at, row = rows[1]
    raise DataError(
        f"{name}: line {at + 1} has {len(row)} cells, the header has {len(cells)}:"
        f" {','.join(row)[:MAX_SHOWN]!r}. A cell that contains the separator, such as a decimal"
        " comma, needs quotes."
    )


def column_letters(index: int) -> str:
    """Return the name of a column in spreadsheets: A, B, ..., Z, AA, AB, ..."""
    before = column_letters(index // 26 - 1) if index >= 26 else ""
    return before + chr(ord("A") + index % 26)


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
    def of_file(cls, path: Path, name: str, reading: Reading, kind: str) -> TextFormat:
        """Detect the format of a file.

        Args:
            path: the file.
            name: name of the file, for messages.
            reading: how to read the file.
            kind: csv or tsv.

        Raises:
            DataError: if the file has no rows.
        """
        head = _read_head(path, reading)
        delimiter = "\t" if kind == "tsv" else None
        encoding, notes = detect_encoding(head, name, reading, is_cut=len(head) >= HEAD_BYTES)
        lines = _decode_lines(head, encoding, name)
        separator, comment, skip = _detect_dialect(lines, reading, delimiter)
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
        if _has_header(cells, [row for _, row in rows[1:200]], reading):
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
        is_skipped: whether more lines are skipped than the reading specify.
    """
    filled = [line for line in lines if line.strip()]
    others = [line for line in filled if not is_comment(line, comment)]
    notes = [f"lines that begin with {comment!r} are comments"] if len(others) < len(filled) else []
    if others and is_skipped:
        shown = shorten(others[0], MAX_SHOWN)
        count = "1 line" if len(others) == 1 else f"{len(others)} lines"
        notes.append(f"{count} before the header skipped: {shown!r}")
    return tuple(notes)


def _has_header(cells: Sequence[str], rows: Sequence[Sequence[str]], reading: Reading) -> bool:
    """Return whether the first row is a header, according to the reading or the cells of the
    row."""
    if reading.has_header is not None:
        return reading.has_header
    return bool(requested_names(reading) & set(cells)) or is_header(cells, rows)


def _read_head(path: Path, reading: Reading) -> bytes:
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
    lines: Sequence[str], reading: Reading, delimiter: str | None
) -> tuple[str, str, int]:
    """Return the delimiter, the comment prefix and the number of lines to skip at least."""
    declared, skip = SEPARATOR_LINE.fullmatch(lines[0]), reading.skip_rows
    if declared:
        delimiter, skip = declared[1], max(skip, 1)
    comment = reading.comment
    if comment is None:  # the sign with which the first line begins that is not blank
        filled = (line.lstrip() for line in lines[1 if declared else 0 :] if line.strip())
        first = next(filled, "")
        comment = next((sign for sign in COMMENTS if first.startswith(sign)), "")
    found = reading.delimiter or delimiter or _detect_delimiter(lines, comment, skip)
    return found, comment, skip


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
    found: dict[str, tuple[float, int]] = {}  # the fraction of such rows, and their width
    for sign in DELIMITERS:
        rows = [row for at, row in _rows(lines[:500], sign, comment) if at >= skip]
        width = _common_width(rows) if rows else 0
        if width > 1:
            alike = sum(len(row) == width for row in rows)
            found[sign] = round(alike / len(rows), 3), width
    if found:
        return max(found, key=lambda sign: found[sign])
    widths = [len(row) for at, row in _rows(lines[:500], " ", comment) if at >= skip]
    if not widths:
        return ","
    are_alike = len(set(widths[1:] or widths)) == 1 and widths[-1] - widths[0] in (0, 1)
    return " " if are_alike and min(widths) > 1 else ","
