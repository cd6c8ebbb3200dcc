"""Whether the first row of a text names its columns."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Sequence

from seqattn.data.files.options import ReadOptions
from seqattn.errors import DataError

NUMBER = re.compile(r"[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
DATE = re.compile(r"\d{1,4}[-/.](\d{1,2}|Q[1-4]|[A-Za-z]{3})([-/.]\d{1,4})?([ T]\d{1,2}:\d.*)?")
MONTH = re.compile(
    r"([A-Za-z]{3,9}[ -]\d{1,2},? ?\d{0,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}"
    r"|[A-Za-z]{3,9}[ -]\d{2,4}|\d{4} ?[A-Za-z]{3}|\d{4} ?[Qq][1-4])( \d.*)?"
)
MAX_SHOWN = 60
"""Characters of a line in a message."""


def is_comment(line: str, comment: str) -> bool:
    return bool(comment) and line.lstrip().startswith(comment)


def is_like_value(cell: str) -> bool:
    """Whether a cell is a number or a date rather than a name."""
    return bool(NUMBER.fullmatch(cell) or DATE.fullmatch(cell) or MONTH.fullmatch(cell))


def requested_names(options: ReadOptions) -> set[str]:
    """Columns that are named, which a header must have; numbers could be values as well."""
    named = [*(options.features or ()), *options.ignore, *options.one_hot]
    for given in (options.series, options.time):
        named += [] if given is None or given == "auto" else given
    return {name for name in named if not is_like_value(name)}


def is_header(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Names, or the steps of a wide table; no header where values stand above values."""
    values = [cell for cell in cells if is_like_value(cell)]
    if not values:
        return any(cells)
    if len(set(values)) < len(values) or not rows:
        return False
    below = [row for row in rows if len(row) == len(cells)]
    return _has_names_above_values(cells, below) or _are_steps(cells, values, below)


def _are_steps(cells: Sequence[str], values: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether values in the first row are steps of a wide table, beside names that no row has."""
    names = [cell for cell in cells if cell and cell not in values]
    if not names:
        return _is_arithmetic(values) and int(values[0]) in (0, 1)
    is_word_below = names[0] in {row[cells.index(names[0])] for row in below}
    return not is_word_below and (_is_arithmetic(values) or _are_dates(values))


def _are_dates(cells: Sequence[str]) -> bool:
    if len(cells) < 2:
        return False
    return all(DATE.fullmatch(cell) and not NUMBER.fullmatch(cell) for cell in cells)


def _is_arithmetic(cells: Sequence[str]) -> bool:
    """Whether cells are whole numbers, each by one amount more than the one before."""
    if len(cells) < 2 or not all(map(str.isdecimal, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    step = numbers[1] - numbers[0]
    return step > 0 and all(b - a == step for a, b in itertools.pairwise(numbers))


def value_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The places at which all rows have numbers or dates."""
    return [
        place for place in range(len(rows[0]))
        if all(is_like_value(row[place].strip()) for row in rows)
    ]  # fmt: skip


def _has_names_above_values(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has words in most columns that hold values below it."""
    places = value_columns(below) if below else []
    words = [i for i in places if len(cells[i]) > 1 and not is_like_value(cells[i])]
    return len(words) * 2 > len(places)


def commented_header(
    lines: Sequence[str], comment: str, delimiter: str, width: int
) -> tuple[str, ...]:
    """Names in the last comment before the first row, if there are as many as columns."""
    for line in reversed(lines):
        if is_comment(line, comment):
            text = line.lstrip().removeprefix(comment).strip()
            cells = tuple(cell.strip() for cell in next(csv.reader([text], delimiter=delimiter)))
            return cells if len(cells) == width and all(cells) else ()
    return ()


def complete_header(
    cells: tuple[str, ...], rows: Sequence[tuple[int, Sequence[str]]], name: str
) -> tuple[str, ...]:
    """A header that lacks one name: that of the row numbers, as R writes it, or that of an empty
    last column.

    Raises:
        DataError: the rows have a cell too much.
    """
    below = [row for _, row in rows[1:] if len(row) > len(cells)]
    if all(not row[-1].strip() for row in below):
        return (*cells, "")
    if all(row[0].strip() == str(at) for at, row in enumerate(below, start=1)):
        return ("", *cells)
    at, row = rows[1]
    raise DataError(
        f"{name}: line {at + 1} has {len(row)} cells, the header has {len(cells)}:"
        f" {','.join(row)[:MAX_SHOWN]!r}. A cell that holds the separator needs quotes; is it a"
        " decimal comma?"
    )


def column_letters(place: int) -> str:
    """A, B, ..., Z, AA, AB, ...: as a spreadsheet calls its columns."""
    before = column_letters(place // 26 - 1) if place >= 26 else ""
    return before + chr(ord("A") + place % 26)
