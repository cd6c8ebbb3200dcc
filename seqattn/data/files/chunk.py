"""What a file holds, some whole sequences at a time."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.style import DEFAULT_STYLE, TableStyle
from seqattn.data.sequences import Integers, row_blocks
from seqattn.errors import DataError

if TYPE_CHECKING:
    from seqattn.data.column_roles import ColumnRoles

MAX_VALUE = 1e15
"""Models work in float32, where the square of a value must still be finite."""
MAX_LINE_BYTES = 16 * 2**20
"""Bytes of a row of text: nothing that a person or a program meant is longer."""
MAX_PIPED = 2**24
"""Numbers of one sequence that comes through a pipe, and of all that must be held at once: a pipe
may have no end."""
DATES = "datetime64[us]"
Where = Callable[[int, int], str]
"""(row, feature) -> the place in the file."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of several sequences one after the other.

    Attributes:
        values: (rows, F); NaN where a cell is empty.
        offsets: (N + 1,) where each sequence begins, and where the last ends.
        features: F names.
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
        """(L, F) of a sequence."""
        return self.values[self.offsets[k] : self.offsets[k + 1]]

    def select(self, indices: Sequence[int] | Integers) -> Ragged:
        """The sequences at some indices."""
        lengths = self.lengths[np.asarray(indices, dtype=np.int64)]
        offsets = to_offsets(lengths)
        values = np.empty((int(offsets[-1]), self.values.shape[1]), dtype=self.values.dtype)
        for k, first, last in zip(indices, offsets, offsets[1:], strict=False):
            values[first:last] = self.of(int(k))
        return Ragged(values, offsets, self.features)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole sequences, in the order of the file.

    Attributes:
        ids: their names.
        points: what stands in the columns asked for.
        target: what the file itself keeps apart as target, of the same sequences; None: nothing.
        order: (rows,) of `points`, numbers or dates that count up in each sequence; None: rows are
            in order.
        groups: a word a sequence, or None.
        where: says where in the file a cell of `points` stands: (row of `points`, feature).
        where_target: likewise of `target`.
        notes: what a reader should be told of how the file was understood.
        is_wide: whether a table had a sequence a row.
        id_parts: of ids that are made of several columns, the word of each; None: there are none.
        roles: of the columns of a table; None: it was none.
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
    roles: ColumnRoles | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def style(self) -> TableStyle:
        """What a forecast is written in."""
        return DEFAULT_STYLE if self.roles is None else self.roles.style

    def cells(self) -> Iterator[tuple[Ragged, Where]]:
        """What was read, and how to say where it stands."""
        yield self.points, self.where
        if self.target is not None and self.where_target is not None:
            yield self.target, self.where_target


def to_offsets(lengths: Integers) -> Integers:
    found = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def check_values(name: str, chunk: Chunk) -> None:
    """Refuse infinite and huge numbers; empty cells may stay.

    Raises:
        DataError: with the place of the first.
    """
    for ragged, where in chunk.cells():
        for first, rows in row_blocks(ragged.values):
            with np.errstate(invalid="ignore"):
                bad = np.argwhere(np.abs(rows) > MAX_VALUE)
            if bad.size:
                row, feature = map(int, bad[0])
                raise_bad_value(f"{name}: {where(first + row, feature)}", float(rows[row, feature]))


def raise_bad_value(place: str, value: float) -> None:
    """
    Raises:
        DataError: always.
    """
    if math.isinf(value):
        raise DataError(f"{place} is {value}; it must be finite.")
    raise DataError(
        f"{place} is {value:g}; values up to {MAX_VALUE:g} can be worked with. Give it in larger"
        " units."
    )


def first_line(error: BaseException) -> str:
    """What a library says of a broken file, short."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", lines[0])[:200]


class SeenIds:
    """Names that were read, 8 bytes each: a name that comes again is noticed in any stretch of a
    file, without keeping all of them."""

    def __init__(self) -> None:
        self.sorted: list[NDArray[np.int64]] = []

    def find_repeat(self, ids: Sequence[str]) -> str | None:
        """The first of these names that was there before, or stands here twice."""
        new = np.fromiter(map(hash, ids), np.int64, len(ids))
        order = np.argsort(new, kind="stable")
        ranked = new[order]
        twice = order[1:][ranked[1:] == ranked[:-1]]
        for part in self.sorted:
            at = np.minimum(np.searchsorted(part, new), len(part) - 1)
            twice = np.concatenate([twice, np.flatnonzero(part[at] == new)])
        if twice.size:
            return ids[int(twice.min())]
        # Parts of doubling size, so that few are searched and each number is sorted few times.
        while self.sorted and len(self.sorted[-1]) <= len(ranked):
            ranked = np.sort(np.concatenate([self.sorted.pop(), ranked]))
        if ranked.size:
            self.sorted.append(ranked)
        return None


def concat_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Pieces of one file as one."""
    first, *others = chunks
    if not others:
        return first
    sides = zip(*(chunk.cells() for chunk in chunks), strict=True)
    (points, where), *targets = map(_concat_ragged, sides)
    target, where_target = targets[0] if targets else (None, None)
    orders = [chunk.order for chunk in chunks if chunk.order is not None]
    return replace(
        first,
        ids=tuple(name for chunk in chunks for name in chunk.ids),
        points=points,
        where=where,
        target=target,
        where_target=where_target,
        order=np.concatenate(orders) if orders else None,
        groups=_concat_words(chunk.groups for chunk in chunks),
        notes=tuple(dict.fromkeys(note for chunk in chunks for note in chunk.notes)),
        id_parts=_concat_words(chunk.id_parts for chunk in chunks),
    )


def _concat_ragged(parts: Sequence[tuple[Ragged, Where]]) -> tuple[Ragged, Where]:
    """Rows one after the other, and where each stands."""
    starts = to_offsets(np.array([len(ragged.values) for ragged, _ in parts]))
    lengths = np.concatenate([ragged.lengths for ragged, _ in parts])
    values = np.concatenate([ragged.values for ragged, _ in parts])

    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[k][1](row - int(starts[k]), feature)

    return Ragged(values, to_offsets(lengths), parts[0][0].features), where


def _concat_words(parts: Iterable[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """None where there are none."""
    known = [words for words in parts if words is not None]
    return tuple(itertools.chain.from_iterable(known)) if known else None
