"""Chunks of whole sequences from a file, and the names, times and values in them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.reading import Reading, Resolution
from seqattn.data.sequences import Integers, row_blocks
from seqattn.errors import DataError


def step_text(step: Any) -> str:
    """Return a time as text for a file: a date in ISO 8601 format, or a number."""
    if isinstance(step, np.datetime64):
        text = str(step.astype(DATES)).removesuffix(".000000")
        return text.removesuffix("T00:00:00")
    number = float(step)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


MAX_VALUE = 1e15
"""Largest absolute value that a file may contain. The square of this value is finite in float32."""
MAX_LINE_BYTES = 16 * 2**20
"""Maximum length, in bytes, of a line of a text file. A longer line indicates a damaged file."""
DATES = "datetime64[us]"
Where = Callable[[int, int], str]
"""Function that returns the location of a cell in the file as text, given the row and the feature
of the cell."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """A ragged array: the concatenated rows of N sequences.

    Attributes:
        values: (rows, F) values; an empty cell is NaN.
        offsets: (N + 1,) index of the first row of each sequence, followed by the number of rows.
        features: names of the F features.
    """

    values: NDArray[np.floating]
    offsets: Integers
    features: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Integers:
        return np.diff(self.offsets)

    def of(self, k: int) -> NDArray[np.floating]:
        """Return the rows of sequence k as an array (L, F)."""
        return self.values[self.offsets[k] : self.offsets[k + 1]]

    def select(self, indices: Sequence[int] | Integers) -> Ragged:
        """Return the sequences at the given indices."""
        lengths = self.lengths[np.asarray(indices, dtype=np.int64)]
        offsets = to_offsets(lengths)
        values = np.empty((int(offsets[-1]), self.values.shape[1]), dtype=self.values.dtype)
        for k, first, last in zip(indices, offsets, offsets[1:], strict=False):
            values[first:last] = self.of(int(k))
        return Ragged(values, offsets, self.features)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole sequences in the order of the file.

    Attributes:
        ids: names of the N sequences.
        points: values of the requested columns.
        where: function that takes the row and the feature of a cell of `points`, and returns the
            location of this cell in the file as text.
        target: separate targets of the same sequences, or None if the file has none.
        where_target: function like `where`, but for the cells of `target`.
        order: (rows,) time of each row of `points`, as numbers or dates that increase within each
            sequence, or None if the order of the rows is the time order.
        groups: name of the group of each sequence, or None if there are no groups.
        notes: notes for the user on how the file was read.
        is_wide: whether each row of the table was a sequence.
        id_parts: the parts of each id if an id joins the values of several columns, otherwise None.
        reading: how the table was read, or None if the file is not a table.
        resolutions: how ambiguities of the table were resolved by another table.
    """

    ids: tuple[str, ...]
    points: Ragged
    where: Where
    target: Ragged | None = None
    where_target: Where | None = None
    order: NDArray[Any] | None = None
    groups: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    is_wide: bool = False
    id_parts: tuple[tuple[str, ...], ...] | None = None
    reading: Reading | None = None
    resolutions: tuple[Resolution, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def style(self) -> Reading:
        """The style for writing a forecast in the same form as the file."""
        return self.reading or Reading()

    def cells(self) -> Iterator[tuple[Ragged, Where]]:
        """Yield `points`, and `target` if it exists, each with the function for cell locations."""
        yield self.points, self.where
        if self.target is not None and self.where_target is not None:
            yield self.target, self.where_target


def to_offsets(lengths: Integers) -> Integers:
    """Return the offsets (N + 1,) of sequences with the given lengths (N,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def check_values(name: str, chunk: Chunk) -> None:
    """Check that no absolute value is infinite or above `MAX_VALUE`. Empty cells are allowed.

    Raises:
        DataError: if there is such a value.
    """
    for ragged, where in chunk.cells():
        for first, rows in row_blocks(ragged.values):
            with np.errstate(invalid="ignore"):
                bad = np.argwhere(np.abs(rows) > MAX_VALUE)
            if bad.size:
                row, feature = map(int, bad[0])
                value = float(rows[row, feature])
                what = f"{name}: {where(first + row, feature)} is {value}"
                if math.isinf(value):
                    raise DataError(f"{what}; it must be finite.")
                raise DataError(
                    f"{what}; the largest supported value is {MAX_VALUE:g}. Give it in larger"
                    " units."
                )


def first_line(error: BaseException) -> str:
    """Return the first line of an error message from a library, without a prefix such as "Parser
    Error: ". A long line is shortened. If the message is empty, return the type of the error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", lines[0])[:200]


class SeenIds:
    """A set of names that detects repeated names and needs 8 bytes of memory per name."""

    def __init__(self) -> None:
        self.sorted: list[NDArray[np.int64]] = []

    def find_repeat(self, ids: Sequence[str]) -> str | None:
        """Return the first name in `ids` that was seen before or occurs twice. If there is no such
        name, add the names to the set and return None."""
        new = np.fromiter(map(hash, ids), np.int64, len(ids))
        order = np.argsort(new, kind="stable")
        ranked = new[order]
        twice = order[1:][ranked[1:] == ranked[:-1]]
        for part in self.sorted:
            at = np.minimum(np.searchsorted(part, new), len(part) - 1)
            twice = np.concatenate([twice, np.flatnonzero(part[at] == new)])
        if twice.size:
            return ids[int(twice.min())]
        # The sizes of the arrays double, so that a search visits few arrays and each hash is sorted
        # only a few times.
        while self.sorted and len(self.sorted[-1]) <= len(ranked):
            ranked = np.sort(np.concatenate([self.sorted.pop(), ranked]))
        if ranked.size:
            self.sorted.append(ranked)
        return None


def concat_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Concatenate the chunks of one file."""
    first, *others = chunks
    if not others:
        return first
    sides = zip(*(chunk.cells() for chunk in chunks), strict=True)
    (points, where), *targets = map(_concat_ragged, sides)
    target, where_target = targets[0] if targets else (None, None)
    orders = [chunk.order for chunk in chunks if chunk.order is not None]
    return replace(
        first, ids=tuple(name for chunk in chunks for name in chunk.ids), points=points,
        where=where, target=target, where_target=where_target,
        order=np.concatenate(orders) if orders else None,
        groups=_concat_words(chunk.groups for chunk in chunks),
        notes=tuple(dict.fromkeys(note for chunk in chunks for note in chunk.notes)),
        id_parts=_concat_words(chunk.id_parts for chunk in chunks),
    )  # fmt: skip


def _concat_ragged(parts: Sequence[tuple[Ragged, Where]]) -> tuple[Ragged, Where]:
    """Concatenate ragged arrays, and combine their functions for cell locations."""
    starts = to_offsets(np.array([len(ragged.values) for ragged, _ in parts]))
    lengths = np.concatenate([ragged.lengths for ragged, _ in parts])
    values = np.concatenate([ragged.values for ragged, _ in parts])

    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[k][1](row - int(starts[k]), feature)

    return Ragged(values, to_offsets(lengths), parts[0][0].features), where


def _concat_words(parts: Iterable[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """Concatenate tuples, or return None if all of them are None."""
    known = [words for words in parts if words is not None]
    return tuple(itertools.chain.from_iterable(known)) if known else None
