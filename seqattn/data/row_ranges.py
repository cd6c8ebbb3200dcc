"""Ranges of rows in one array, which is in memory or in a memory-mapped file.

In shapes, N is the number of ranges, n the number of gathered ranges, L the number of rows in the
longest range, C the number of columns and F the number of features.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Integers

READAHEAD_BYTES = 2**21
"""Maximum number of bytes that the operating system maps for each read, for example as a large
folio in Linux."""
MAX_MAPPED_BYTES = 2**26
"""Estimated size of the mapped pages in resident memory above which the pages are released, in
bytes."""


class MappedPages:
    """The pages of a memory-mapped array, with methods that read rows and release pages.

    Pages that were read count as resident memory of the process until this class releases the pages
    or the system reclaims them.

    Args:
        values: an array, which may be memory-mapped.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        base: Any = values
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        self.mapping = getattr(base, "_mmap", None)
        self.read = 0
        self.file: int | None = None
        # Windows has no os.pread.
        if self.mapping is not None and values.flags.c_contiguous and hasattr(os, "pread"):
            first, mapped = (one.__array_interface__["data"][0] for one in (values, base))
            self.offset = base.offset + first - mapped
            # If the file was removed, `gather` reads through the mapping.
            with contextlib.suppress(OSError):
                self.file = os.open(base.filename, os.O_RDONLY)
                weakref.finalize(self, os.close, self.file)

    def read_scattered(
        self, values: NDArray[Any], starts: Integers, length: int
    ) -> NDArray[Any] | None:
        """Read scattered ranges from the file, as an array (n, length, C). Mapping a page for each
        range would take ten times as long.

        Args:
            values: the whole array (rows, C).
            starts: (n,) index of the first row of each range.
            length: number of rows in a range.

        Returns:
            the ranges, or None if the array cannot be read from a file, if there are no ranges, or
            if a range extends beyond the end of the array.
        """
        size, row = length * values.strides[0], values.strides[0]
        if self.file is None or not len(starts) or int(starts.max()) + length > len(values):
            return None
        ranges = [os.pread(self.file, size, self.offset + row * k) for k in starts.tolist()]
        content = bytearray().join(ranges)
        if len(content) != size * len(starts):
            return None
        found = np.frombuffer(content, dtype=values.dtype)
        return found.reshape(len(starts), length, values.shape[1])

    def count(self, ranges: int, size: int) -> None:
        """Add up the estimated number of bytes that were mapped while ranges were read, and release
        all pages when the sum exceeds `MAX_MAPPED_BYTES`.

        Args:
            ranges: number of ranges that were read.
            size: size of a range in bytes.
        """
        self.read += ranges * (size + READAHEAD_BYTES)
        if self.mapping is not None and self.read > MAX_MAPPED_BYTES:
            if hasattr(mmap, "MADV_DONTNEED"):  # Windows releases pages when memory is short
                self.mapping.madvise(mmap.MADV_DONTNEED)
            self.read = 0


@dataclass(frozen=True, eq=False)
class RowRanges:
    """N ranges of rows in an array.

    Attributes:
        values: (rows, C) array with NaN in unobserved cells.
        columns: column indices of the F features.
        features: names of the F features.
        starts: (N,) index of the first row of each range.
        lengths: (N,) number of rows in each range.
    """

    values: NDArray[np.floating]
    columns: tuple[int, ...]
    features: tuple[str, ...]
    starts: Integers
    lengths: Integers

    def select(self, indices: Integers) -> RowRanges:
        """Return the ranges at the given indices."""
        return replace(self, starts=self.starts[indices], lengths=self.lengths[indices])

    @functools.cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @functools.cached_property
    def pages(self) -> MappedPages:
        return MappedPages(self.values)

    def steps(self, indices: slice | Integers, order: NDArray[Any] | None) -> Floats:
        """Return the time of each row of the given ranges as an array (n, L) of numbers. The times
        come from `order`; if `order` is None, the times are row numbers."""
        rows = self.starts[indices][:, None] + np.arange(self.longest)
        rows = np.minimum(rows, len(self.values) - 1)
        return (rows if order is None else _step_numbers(order[rows])).astype(np.float64)

    def gather(self, indices: slice | Integers) -> NDArray[np.floating]:
        """Return the rows of the given ranges as an array (n, L, F). Values beyond the length of a
        range are undefined."""
        values, starts, L = np.asarray(self.values), self.starts[indices], self.longest
        if not isinstance(indices, slice):
            found = self.pages.read_scattered(values, starts, L)
            if found is not None:
                return self._select_columns(found)
        by_row, by_column = values.strides
        begins = max(len(values) - L + 1, 0)
        every = np.lib.stride_tricks.as_strided(  # a view of every range of L rows
            values, (begins, L, values.shape[1]), (by_row, by_row, by_column), writeable=False
        )
        inside = starts < begins
        if inside.all():
            found = every[starts]
        else:
            found = np.zeros((len(starts), L, values.shape[1]), dtype=values.dtype)
            found[inside] = every[starts[inside]]
            for k in np.flatnonzero(~inside):
                rows = values[starts[k] : starts[k] + L]
                found[k, : len(rows)] = rows
        self.pages.count(len(starts), L * by_row)
        return self._select_columns(found)

    def _select_columns(self, found: NDArray[np.floating]) -> NDArray[np.floating]:
        """Select the columns of the features, and return an array (n, L, F)."""
        if self.columns == tuple(range(self.values.shape[1])):
            return found
        return found[:, :, list(self.columns)]


def interpolate_linearly(
    points: NDArray[Any], known: NDArray[np.bool_], at: Floats
) -> NDArray[Any]:
    """Interpolate unknown cells linearly between the nearest known values of the same sequence and
    feature.

    Before the first known value and after the last, the nearest known value is repeated. If a
    sequence has no known value of a feature, all values of this feature in the sequence become NaN.

    Args:
        points: (n, L, F) values.
        known: mask (n, L, F) that is True at known values.
        at: (n, L) time of each step.
    """
    L = points.shape[1]
    found = np.where(known, points, np.nan).astype(np.float64)
    # Indices of the c pairs (sequence, feature) that have an unknown cell.
    series_index, feature = np.nonzero(~known.all(axis=1))
    observed, steps = known[series_index, :, feature], np.arange(L)  # (c, L)
    before = np.maximum.accumulate(np.where(observed, steps, -1), axis=1)
    after = np.minimum.accumulate(np.where(observed, steps, L)[:, ::-1], axis=1)[:, ::-1]
    column, step = np.nonzero(~observed & observed.any(axis=1, keepdims=True))
    before, after = before[column, step], after[column, step]
    low, high = np.where(before < 0, after, before), np.where(after >= L, before, after)
    series_index, feature = series_index[column], feature[column]
    first, last = points[series_index, low, feature], points[series_index, high, feature]
    begin, end = at[series_index, low], at[series_index, high]
    rate = np.divide(last - first, end - begin, out=np.zeros(len(step)), where=high > low)
    found[series_index, step, feature] = rate * (at[series_index, step] - begin) + first
    return found


def _step_numbers(order: NDArray[Any]) -> NDArray[Any]:
    """Return times as numbers. Dates become integers in the unit of their dtype."""
    return order.astype(np.int64) if order.dtype.kind == "M" else order
