"""Rows of a table as sequences.

Long form, a point a row; rows of one sequence stand together:

    sequence,step,x,y
    a,1,-1.02,-0.97
    a,2,-1.05,1.01

Wide form, a sequence a row; empty cells at the end of a row are no points:

    sequence,x_1,y_1,x_2,y_2
    a,-1.02,-0.97,-1.05,1.01
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.columns import Columns
from seqattn.data.files.piece import DATES, Piece, Ragged, offsets_of
from seqattn.data.sequences import Floats
from seqattn.errors import DataError


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a table.

    Attributes:
        first: number of its first row, counted from 1 without the header.
        numbers: (rows, cells), NaN where a cell is empty.
        sequence, order, group: arrays of pyarrow, of texts, of numbers or dates, of texts.
    """

    first: int
    numbers: Floats
    sequence: Any
    order: Any
    group: Any


def pieces_of(
    batches: Iterator[Batch],
    columns: Columns,
    name: str,
    alone: str | None = None,
    most: int | None = None,
) -> Iterator[Piece]:
    """
    Args:
        name: of the file, for messages.
        alone: what the one sequence of a file is called where no column says it; None: as the file.
        most: numbers of one sequence, where a row is a point; None: any.

    Raises:
        DataError: with row and column.
    """
    found = False
    for piece in (
        _long_pieces(batches, columns, name, most)
        if columns.is_long
        else _wide_pieces(batches, columns)
    ):
        if columns.is_long and columns.sequence is None and alone is not None:
            piece = replace(piece, ids=(alone,))
        found = True
        yield replace(piece, notes=columns.notes, is_wide=not columns.is_long)
    if not found:
        raise DataError(f"{name}: has a header but no rows.")


def _wide_pieces(batches: Iterator[Batch], columns: Columns) -> Iterator[Piece]:
    F = len(columns.features)
    for batch in batches:
        n, cells = batch.numbers.shape
        values: Floats = batch.numbers.reshape(n, cells // F, F)
        empty = np.asarray(np.isnan(values).all(axis=2))
        lengths = cells // F - np.where(
            empty.all(axis=1), cells // F, empty[:, ::-1].argmin(axis=1)
        )
        offsets = offsets_of(lengths)

        def where(row: int, feature: int, offsets: Any = offsets, first: int = batch.first) -> str:
            k = int(np.searchsorted(offsets, row, side="right")) - 1
            column = columns.cells[(row - int(offsets[k])) * F + feature]
            return f"row {first + k}, column {column!r}"

        ids = (
            tuple(batch.sequence.to_pylist())
            if batch.sequence is not None
            else tuple(str(batch.first + k) for k in range(n))
        )
        full = bool((lengths == cells // F).all())
        rows = values.reshape(-1, F) if full else values[np.arange(cells // F) < lengths[:, None]]
        yield Piece(
            ids=ids,
            points=Ragged(rows, offsets, columns.features),
            where=where,
            groups=None if batch.group is None else tuple(batch.group.to_pylist()),
        )


def _long_pieces(
    batches: Iterator[Batch], columns: Columns, name: str, most: int | None
) -> Iterator[Piece]:
    """Rows as whole sequences: the last of a stretch waits for the next."""
    waiting: list[_Rows] = []
    for batch in batches:
        rows = _Rows.of(batch)
        if waiting and rows.names[0] != waiting[-1].names[-1]:
            yield _Rows.joined(waiting).piece(columns, name)
            waiting = []
        if len(rows.names) == 1:
            waiting.append(rows)
            if most is not None and sum(part.values.size for part in waiting) > most:
                raise DataError(
                    f"{name}: the sequence that begins in row {waiting[0].numbers[0]} has more than"
                    f" {most:,} numbers. Write it to a file, and give that instead."
                )
            continue
        last = int(rows.starts[-1])
        whole = [*waiting, rows.part(0, last)]
        yield _Rows.joined(whole).piece(columns, name)
        waiting = [rows.part(last, len(rows.values))]
    if waiting:
        yield _Rows.joined(waiting).piece(columns, name)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a long table, and where each sequence begins.

    Attributes:
        numbers: of each row, counted from 1 without the header.
        names, starts: of each run of rows with one name.
        groups: a word a row, or None.
    """

    values: Floats
    order: Any
    numbers: NDArray[np.int64]
    names: list[str]
    starts: NDArray[np.int64]
    groups: Any

    @classmethod
    def of(cls, batch: Batch) -> _Rows:
        n = len(batch.numbers)
        names, starts = [""], np.zeros(1, dtype=np.int64)
        if batch.sequence is not None:
            import pyarrow.compute as pc

            runs = pc.run_end_encode(batch.sequence)
            names = runs.values.to_pylist()
            ends = runs.run_ends.to_numpy(zero_copy_only=False).astype(np.int64)
            starts = np.concatenate([[0], ends[:-1]])
        groups = None if batch.group is None else batch.group.to_numpy(zero_copy_only=False)
        return cls(
            batch.numbers, batch.order, np.arange(batch.first, batch.first + n), names, starts,
            groups,
        )  # fmt: skip

    def part(self, first: int, last: int) -> _Rows:
        chosen = (self.starts >= first) & (self.starts < last)
        return _Rows(
            self.values[first:last],
            None if self.order is None else self.order[first:last],
            self.numbers[first:last],
            [name for name, is_in in zip(self.names, chosen, strict=True) if is_in],
            self.starts[chosen] - first,
            None if self.groups is None else self.groups[first:last],
        )

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """One after the other; a name that goes on is one sequence."""
        if len(parts) == 1:
            return parts[0]
        names, starts, rows = list[str](), list[int](), 0
        for part in parts:
            for name, start in zip(part.names, part.starts.tolist(), strict=True):
                if not names or names[-1] != name:
                    names.append(name)
                    starts.append(rows + start)
            rows += len(part.values)

        def together(found: list[Any]) -> Any:
            return None if found[0] is None else np.concatenate(found)

        return cls(
            np.concatenate([part.values for part in parts]),
            together([part.order for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            names,
            np.array(starts, dtype=np.int64),
            together([part.groups for part in parts]),
        )

    def piece(self, columns: Columns, name: str) -> Piece:
        offsets = np.concatenate([self.starts, [len(self.values)]]).astype(np.int64)
        numbers = self.numbers
        if self.order is not None:
            self._refuse_disorder(offsets, columns, name)
        groups = None
        if self.groups is not None:
            groups = tuple(str(word) for word in self.groups[self.starts])
            first_of_row = np.repeat(self.groups[self.starts], np.diff(offsets))
            other = np.flatnonzero(first_of_row != self.groups)
            if other.size:
                row = int(other[0])
                raise DataError(
                    f"{name}: row {numbers[row]}, column {columns.group!r} is {self.groups[row]!r},"
                    f" but the sequence began with {first_of_row[row]!r}."
                )

        def where(row: int, feature: int) -> str:
            return f"row {numbers[row]}, column {columns.cells[feature]!r}"

        stem = Path(name).stem or "sequence"
        ids = tuple(self.names) if columns.sequence is not None else (stem,)
        return Piece(
            ids=ids,
            points=Ragged(self.values, offsets, columns.features),
            where=where,
            order=self.order,
            groups=groups,
        )

    def _refuse_disorder(self, offsets: NDArray[np.int64], columns: Columns, name: str) -> None:
        order = self.order
        ahead = order[1:] > order[:-1]
        ahead[offsets[1:-1] - 1] = True
        wrong = np.flatnonzero(~ahead)
        if not wrong.size:
            return
        row = int(wrong[0]) + 1
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        here, before = (step_text(order[i]) for i in (row, row - 1))
        twice = "stands there twice" if here == before else f"comes after {before}"
        whose = f" of sequence {self.names[k]!r}" if columns.sequence is not None else ""
        raise DataError(
            f"{name}: row {self.numbers[row]}, column {columns.order!r}: step {here}{whose}"
            f" {twice}. Rows of one sequence stand together, in order, each step once."
        )


def step_text(step: Any) -> str:
    """A step as it would stand in a file."""
    if isinstance(step, np.datetime64):
        text = str(step.astype(DATES)).removesuffix(".000000")
        return text.removesuffix("T00:00:00")
    number = float(step)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
