"""Detection of the header of a text file."""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from seqattn.data.files.options import ReadOptions
from seqattn.errors import DataError

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


def requested_names(options: ReadOptions) -> set[str]:
    """Return the names of the series, time, feature, one-hot and ignored columns in the options. A
    row that contains one of these names is a header. Names that look like values are left out."""
    named = [*(options.features or ()), *options.ignore, *options.one_hot]
    for columns in (options.series, options.time):
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
    return _is_arithmetic(values) or _are_dates(values) or _are_years(cells, values, below)


def _are_years(cells: Sequence[str], values: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the values in the first row are increasing years, which may have gaps, and
    the rows below contain other numbers."""
    rows = [values, *([row[cells.index(value)] for value in values] for row in below)]
    are_years, *others = (all(map(YEAR.fullmatch, row)) for row in rows)
    is_increasing = all(a < b for a, b in itertools.pairwise(values))
    return are_years and len(values) > 1 and is_increasing and not all(others)


def _are_dates(cells: Sequence[str]) -> bool:
    if len(cells) < 2:
        return False
    return all(
        (DATE.fullmatch(cell) or MONTH.fullmatch(cell)) and not NUMBER.fullmatch(cell)
        for cell in cells
    )


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
