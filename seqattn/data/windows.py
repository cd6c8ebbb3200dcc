"""Sources and targets as row ranges of arrays, gathered on demand.

Overlapping windows need no more memory than the rows that they cover. Rows of a memory-mapped file
are read batch by batch.

In shapes, N is the number of ranges or sequences, n the number of gathered ones, L the number of
rows in the longest, C the number of columns and F the number of features.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import MAX_BLOCK_VALUES, Floats, Integers, Sequences, valid_mask
from seqattn.data.spaces import Space, Vectors
from seqattn.data.spacing import Spacing

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
    """N ranges of rows in an array of several series.

    Attributes:
        values: (rows, C) array with NaN in unobserved cells, or of numbers of symbols.
        columns: column indices of the F features.
        features: names of the F features.
        starts: (N,) index of the first row of each range.
        lengths: (N,) number of rows in each range.
        series_index: (N,) index of the series to which each range belongs.
        order: (rows,) time of each row, as numbers or dates, or None if steps are counted from 1.
        spacing: step interval of each series, or None if `order` is None.
    """

    values: NDArray[Any]
    columns: tuple[int, ...]
    features: tuple[str, ...]
    starts: Integers
    lengths: Integers
    series_index: Integers
    order: NDArray[np.generic] | None = None
    spacing: Spacing | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, k: int) -> Floats:
        """Return range k as an array (L, F)."""
        first = int(self.starts[k])
        self.pages.count(1, int(self.lengths[k]) * self.values.strides[0])
        rows = self.values[first : first + int(self.lengths[k]), list(self.columns)]
        return np.asarray(rows, dtype=np.float64)

    def differences(self, lag: int) -> Iterator[tuple[Floats, float]]:
        """Yield pairs (differences, largest absolute value) for blocks of rows, in order.

        The differences (n, F) are values minus the values `lag` steps earlier. A difference is NaN
        if either value was not observed. The largest absolute value is taken over the values of the
        block, not over the differences.
        """
        ends = np.cumsum(np.maximum(self.lengths - lag, 0))
        pairs = int(ends[-1]) if len(ends) else 0
        at_once = max(
            1, MAX_BLOCK_VALUES // 16 // max(1, len(self.columns))
        )  # the loop needs several arrays of this size
        for first in range(0, pairs, at_once):
            pair = np.arange(first, min(first + at_once, pairs))
            k = np.searchsorted(ends, pair, side="right")
            early = self.starts[k] + pair - (ends[k] - np.maximum(self.lengths[k] - lag, 0))
            before, after = (
                np.asarray(self.values[rows][:, list(self.columns)], dtype=np.float64)
                for rows in (early, early + lag)
            )
            self.pages.count(1, 2 * len(early) * self.values.strides[0])
            finite = np.nan_to_num(np.concatenate([before, after]))
            yield after - before, float(np.abs(finite).max(initial=0.0))

    def select(self, indices: Integers) -> RowRanges:
        """Return the ranges at the given indices."""
        return replace(
            self, starts=self.starts[indices], lengths=self.lengths[indices],
            series_index=self.series_index[indices],
        )  # fmt: skip

    def spacings(self, indices: slice | Integers) -> Spacing | None:
        """Return the step interval of each of the given ranges, or None if steps are counted from
        1."""
        return None if self.spacing is None else self.spacing.select(self.series_index[indices])

    def last_times(self, indices: slice | Integers) -> NDArray[np.generic] | None:
        """Return the time of the last row of each of the given ranges, or None if steps are counted
        from 1."""
        if self.order is None or self.spacing is None:
            return None
        return np.asarray(self.order[self.starts[indices] + self.lengths[indices] - 1])

    def times(self, indices: slice) -> NDArray[Any]:
        """Return the times (n, L) of the given ranges, with NaN or NaT in the padding. `order` must
        not be None."""
        assert self.order is not None
        rows = self.starts[indices][:, None] + np.arange(self.longest)
        found = self.order[np.minimum(rows, len(self.order) - 1)]
        missing = np.datetime64("NaT") if found.dtype.kind == "M" else np.nan
        return np.where(valid_mask(self.lengths[indices], self.longest), found, missing)

    @functools.cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @functools.cached_property
    def pages(self) -> MappedPages:
        return MappedPages(self.values)

    def steps(self, indices: slice | Integers) -> Floats:
        """Return the time of each row of the given ranges as an array (n, L) of numbers. If `order`
        is None, the times are row numbers."""
        rows = self.starts[indices][:, None] + np.arange(self.longest)
        rows = np.minimum(rows, len(self.values) - 1)
        times: NDArray[Any] = rows if self.order is None else self.order[rows]
        return times.astype(np.int64 if times.dtype.kind == "M" else np.float64).astype(np.float64)

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


CHUNK_NUMBERS = 2**18
"""Maximum number of values that `Windows.chunks` gathers at a time, unless one sequence has more.
"""


class WindowNames(collections.abc.Sequence[str]):
    """Names of sequences, in the form `series` or `series@step`. The step is the first target step.

    Args:
        of_series: names of all series.
        series_index: (N,) index of the series from which each sequence is cut.
        step: function that returns the first target step of sequence k as text, or None to use the
            names of the series alone.
    """

    def __init__(
        self, of_series: Sequence[str], series_index: Integers,
        step: Callable[[int], str] | None = None,
    ) -> None:  # fmt: skip
        self.of_series, self.series_index, self.step = of_series, series_index, step

    def __len__(self) -> int:
        return len(self.series_index)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(len(self))[index])
        k = range(len(self))[index]
        name = self.of_series[int(self.series_index[k])]
        return name if self.step is None else f"{name}@{self.step(k)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, collections.abc.Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    __hash__ = None  # type: ignore[assignment]

    def select(self, indices: slice | Integers) -> WindowNames:
        chosen = np.arange(len(self))[indices] if isinstance(indices, slice) else indices
        step = self.step
        return WindowNames(
            self.of_series, self.series_index[indices],
            None if step is None else lambda index: step(int(chosen[index])),
        )  # fmt: skip


class Windows(Sequences):
    """N sequences whose values are gathered on demand.

    The array attributes gather all sequences, which may not fit in memory; `chunks` and `select`
    gather only some sequences. Empty source cells are interpolated linearly between the observed
    values of the same source. At the ends of a source, the nearest observed value is repeated.

    Args:
        sources: the rows of each source.
        targets: the rows of each target.
        names: names of the sequences.
        has_empty: whether cells of the sources or targets may be NaN.
        source_space, target_space, target_texts: see `Sequences`.
    """

    def __init__(
        self, sources: RowRanges, targets: RowRanges, names: WindowNames, *,
        has_empty: bool, source_space: Space | None = None, target_space: Space | None = None,
        target_texts: NDArray[np.object_] | None = None,
    ) -> None:  # fmt: skip
        fields = {"sources": sources, "targets": targets, "names": names,
                  "has_empty": has_empty, "features": sources.features,
                  "target_features": targets.features,
                  "source_space": source_space or Vectors.unscaled(sources.features),
                  "target_space": target_space or Vectors.unscaled(targets.features),
                  "target_texts": target_texts}  # fmt: skip
        for name, value in fields.items():  # the base class is frozen
            object.__setattr__(self, name, value)

    sources: RowRanges
    targets: RowRanges
    names: WindowNames
    has_empty: bool
    labels = ()
    ideal = None
    alignment = None

    def __len__(self) -> int:
        return len(self.sources.starts)

    @property
    def is_on_disk(self) -> bool:
        """Whether the rows are in a memory-mapped file."""
        return self.sources.pages.mapping is not None

    @property
    def ids(self) -> Sequence[str]:
        return self.names

    @property
    def source_steps(self) -> int:
        return self.sources.longest

    @property
    def target_steps(self) -> int:
        return self.targets.longest

    @property
    def source_lengths(self) -> Integers:
        return self.sources.lengths

    @property
    def target_lengths(self) -> Integers:
        return self.targets.lengths

    @property
    def source(self) -> Floats:
        return self._source(slice(None))[0]

    @property
    def source_observed(self) -> NDArray[np.bool_] | None:
        return self._source(slice(None))[1] if self.has_masked_sources else None

    @functools.cached_property
    def _whole_target(self) -> tuple[Floats, NDArray[np.bool_] | None]:
        return self._target(slice(None))

    @property
    def target(self) -> Floats:
        return self._whole_target[0]

    @property
    def target_observed(self) -> NDArray[np.bool_] | None:
        return self._whole_target[1] if self.has_masked_targets else None

    @functools.cached_property
    def has_masked_sources(self) -> bool:
        return self._has_unobserved(self.sources)

    @functools.cached_property
    def has_masked_targets(self) -> bool:
        return self._has_unobserved(self.targets)

    @property
    def last_steps(self) -> NDArray[np.generic] | None:
        return self.sources.last_times(slice(None))

    @property
    def spacing(self) -> Spacing | None:
        return self.sources.spacings(slice(None))

    def times(self, indices: slice) -> tuple[NDArray[Any], NDArray[Any]] | None:
        if self.sources.order is None or not self._continues:
            return None
        return self.sources.times(indices), self.targets.times(indices)

    @functools.cached_property
    def _continues(self) -> bool:
        """Whether each target is cut from the same series as its source, after the source."""
        ends = self.sources.starts + self.sources.lengths
        return self.sources.values is self.targets.values and bool(
            (self.targets.starts >= ends).all()
        )

    def select(self, indices: slice | Integers) -> Sequences:
        return self._gather(
            indices, self.sources.last_times(indices), self.sources.spacings(indices)
        )

    def subset(self, indices: Integers) -> Windows:
        """Return the sequences with the given indices, without gathering their values."""
        return Windows(
            self.sources.select(indices), self.targets.select(indices), self.names.select(indices),
            has_empty=self.has_empty,
            source_space=self.source_space, target_space=self.target_space,
            target_texts=None if self.target_texts is None else self.target_texts[indices],
        )  # fmt: skip

    def select_points(self, indices: slice | Integers) -> Sequences:
        """Return the sequences as `select` does, but without times and spacing, which a training
        step does not need."""
        return self._gather(indices, None, None)

    def chunks(self) -> Iterator[tuple[slice, Sequences]]:
        for indices in self._chunk_slices():
            yield indices, self.select_points(indices)

    def _chunk_slices(self) -> Iterator[slice]:
        of_source = self.source_steps * len(self.features)
        of_target = self.target_steps * len(self.target_features)
        size = max(1, CHUNK_NUMBERS // max(1, of_source + of_target))
        for first in range(0, len(self), size):
            yield slice(first, min(first + size, len(self)))

    def observed_sources(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Yield pairs (slice of indices, array (n, F)). The array indicates whether each source has
        an observed value of each feature."""
        for indices in self._chunk_slices():
            keep = self._valid(self.sources, indices)
            values = self.sources.gather(indices)
            yield indices, np.asarray((keep & ~np.isnan(values)).any(axis=1))

    def observed_targets(self) -> Iterator[NDArray[np.bool_]]:
        for indices in self._chunk_slices():
            yield self._target(indices)[1]

    def _gather(
        self, indices: slice | Integers, last_steps: NDArray[np.generic] | None,
        spacing: Spacing | None,
    ) -> Sequences:  # fmt: skip
        source, source_observed = self._source(indices)
        target, target_observed = self._target(indices)
        return Sequences(
            source, self.sources.lengths[indices], target, self.targets.lengths[indices],
            self.features, self.names.select(indices), target_features=self.target_features,
            last_steps=last_steps, spacing=spacing,
            source_observed=source_observed if self.has_masked_sources else None,
            target_observed=target_observed if self.has_masked_targets else None,
            source_space=self.source_space, target_space=self.target_space,
            target_texts=None if self.target_texts is None else self.target_texts[indices],
        )  # fmt: skip

    def _source(self, indices: slice | Integers) -> tuple[Floats, NDArray[np.bool_]]:
        values, observed = self._observed(self.sources, indices)
        if self.has_empty:
            keep = self._valid(self.sources, indices)
            lacks = (keep & ~observed).any(axis=(1, 2))
            if lacks.any():
                at = self.sources.steps(indices)[lacks]
                filled = interpolate_linearly(values[lacks], observed[lacks], at)
                values[lacks] = np.where(keep[lacks], filled, 0)
        return values, observed

    def _target(self, indices: slice | Integers) -> tuple[Floats, NDArray[np.bool_]]:
        return self._observed(self.targets, indices)

    def _observed(
        self, rows: RowRanges, indices: slice | Integers
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the values (n, L, F) of sources or targets, with 0 at padding, and a mask of the
        observed cells."""
        values, keep = rows.gather(indices), self._valid(rows, indices)
        if values.dtype.kind != "f":  # numbers of symbols are stored in a small type
            values = values.astype(np.int64)
        observed = np.broadcast_to(keep, values.shape)
        if self.has_empty:
            observed = keep & ~np.isnan(values)
        if not keep.all():
            values = np.where(keep, values, values.dtype.type(0))
        return values, observed  # type: ignore[return-value]

    @staticmethod
    def _valid(rows: RowRanges, indices: slice | Integers) -> NDArray[np.bool_]:
        """Return a mask (n, L, 1) that is True at valid steps."""
        return valid_mask(rows.lengths[indices], rows.longest)[:, :, None]

    def _has_unobserved(self, rows: RowRanges) -> bool:
        """Return whether any valid cell was not observed."""
        if not self.has_empty:
            return False
        for indices in self._chunk_slices():
            if (self._valid(rows, indices) & np.isnan(rows.gather(indices))).any():
                return True
        return False
