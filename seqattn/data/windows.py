"""Sources and targets as row ranges of arrays, gathered on demand.

Overlapping windows need no more memory than the rows that they cover. Rows of a memory-mapped file
are read batch by batch.

In shapes, N is the number of sequences, n the number of gathered sequences, L the number of steps
in the longest sequence, and F the number of features.
"""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from seqattn.data.row_ranges import RowRanges, interpolate_linearly
from seqattn.data.sequences import Floats, Integers, Sequences, valid_mask
from seqattn.data.series_steps import SeriesSteps
from seqattn.data.spaces import Space, Vectors
from seqattn.data.spacing import Spacing

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
        steps: times of the rows.
        has_empty: whether cells of the sources or targets may be NaN.
        source_space, target_space: see `Sequences`.
    """

    def __init__(
        self, sources: RowRanges, targets: RowRanges, names: WindowNames, steps: SeriesSteps, *,
        has_empty: bool, source_space: Space | None = None, target_space: Space | None = None,
    ) -> None:  # fmt: skip
        fields = {"sources": sources, "targets": targets, "names": names, "steps": steps,
                  "has_empty": has_empty, "features": sources.features,
                  "target_features": targets.features,
                  "source_space": source_space or Vectors.unscaled(sources.features),
                  "target_space": target_space or Vectors.unscaled(targets.features)}  # fmt: skip
        for name, value in fields.items():  # the base class is frozen
            object.__setattr__(self, name, value)

    sources: RowRanges
    targets: RowRanges
    names: WindowNames
    steps: SeriesSteps
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
        return self._last_steps(slice(None))

    @property
    def spacing(self) -> Spacing | None:
        return self.steps.spacings()

    def times(self, indices: slice) -> tuple[NDArray[Any], NDArray[Any]] | None:
        if self.steps.order is None or not self._continues:
            return None
        return self.steps.of_ranges(self.sources, indices), self.steps.of_ranges(
            self.targets, indices
        )

    @functools.cached_property
    def _continues(self) -> bool:
        """Whether each target is cut from the same series as its source, after the source."""
        ends = self.sources.starts + self.sources.lengths
        return self.sources.values is self.targets.values and bool(
            (self.targets.starts >= ends).all()
        )

    def select(self, indices: slice | Integers) -> Sequences:
        spacing = self.steps.select(indices).spacings()
        return self._gather(indices, self._last_steps(indices), spacing)

    def subset(self, indices: Integers) -> Windows:
        """Return the sequences with the given indices, without gathering their values."""
        return Windows(
            self.sources.select(indices), self.targets.select(indices), self.names.select(indices),
            self.steps.select(indices), has_empty=self.has_empty,
            source_space=self.source_space, target_space=self.target_space,
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
        )  # fmt: skip

    def _last_steps(self, indices: slice | Integers) -> NDArray[np.generic] | None:
        return self.steps.of_rows(self.sources.starts[indices] + self.sources.lengths[indices] - 1)

    def _source(self, indices: slice | Integers) -> tuple[Floats, NDArray[np.bool_]]:
        values, observed = self._observed(self.sources, indices)
        if self.has_empty:
            keep = self._valid(self.sources, indices)
            lacks = (keep & ~observed).any(axis=(1, 2))
            if lacks.any():
                at = self.sources.steps(indices, self.steps.order)[lacks]
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
