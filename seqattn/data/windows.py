"""Sources and targets as stretches of rows of one array, gathered when they are asked for.

A set of windows that overlap takes no more memory than the rows that they are cut from, and rows
that are mapped from a file are read batch by batch.

Letters: N sequences, n of them that are gathered, L steps of the longest, C columns, F features.
"""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from seqattn.data.row_ranges import RowRanges, interpolate_linearly
from seqattn.data.sequences import Floats, Integers, Sequences, valid_mask
from seqattn.data.spacing import Spacing

CHUNK_NUMBERS = 2**18
"""Numbers that are gathered together."""


class WindowNames(collections.abc.Sequence[str]):
    """What sequences are called: as their series, or series@step, where their target begins.

    Args:
        of_series: names of all series.
        series_index: (N,) the series of each.
        step: the step of the sequence at a place, in words; None: the name of the series alone.
    """

    def __init__(
        self,
        of_series: Sequence[str],
        series_index: Integers,
        step: Callable[[int], str] | None = None,
    ) -> None:
        self.of_series, self.series_index, self.step = of_series, series_index, step

    def __len__(self) -> int:
        return len(self.series_index)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(len(self))[place])
        k = range(len(self))[place]
        name = self.of_series[int(self.series_index[k])]
        return name if self.step is None else f"{name}@{self.step(k)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, collections.abc.Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    __hash__ = None  # type: ignore[assignment]

    def at(self, places: slice | Integers) -> WindowNames:
        chosen = np.arange(len(self))[places] if isinstance(places, slice) else places
        step = self.step
        return WindowNames(
            self.of_series, self.series_index[places],
            None if step is None else lambda place: step(int(chosen[place])),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SeriesSteps:
    """The steps that windows lie on.

    Attributes:
        order: (rows,) of the rows of all series; None: they are counted.
        spacing: of all series; None: there is no order.
        series_index: (N,) the series of each window.
    """

    order: NDArray[np.generic] | None
    spacing: Spacing | None
    series_index: Integers

    def at(self, places: slice | Integers) -> SeriesSteps:
        """Those of some windows."""
        return replace(self, series_index=self.series_index[places])

    def spacings(self) -> Spacing | None:
        """Of each window."""
        return None if self.spacing is None else self.spacing.at(self.series_index)

    def of_rows(self, rows: Integers) -> NDArray[np.generic] | None:
        """What rows are called; None: they are counted."""
        has_steps = self.order is not None and self.spacing is not None
        return np.asarray(self.order[rows]) if has_steps else None  # type: ignore[index]


class Windows(Sequences):
    """N sequences whose points are gathered each time they are asked for.

    It stands for `Sequences`: whoever asks for an array of all of them gets it, and pays for it.
    `chunks` and `at` give some at a time. Empty source cells are filled linearly between points of
    their own source; at an end the nearest value stays.

    Args:
        sources, targets: one of each for every sequence.
        names: of the sequences.
        steps: that they lie on.
        has_empty: whether any cell of the arrays is NaN.
    """

    def __init__(
        self,
        sources: RowRanges,
        targets: RowRanges,
        names: WindowNames,
        steps: SeriesSteps,
        *,
        has_empty: bool,
    ) -> None:
        given = {"sources": sources, "targets": targets, "names": names, "steps": steps,
                 "has_empty": has_empty, "features": sources.features,
                 "target_features": targets.features}  # fmt: skip
        for name, value in given.items():  # the class above is frozen
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
        """Whether the rows are mapped from a file."""
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
        return self._source(slice(None))[1] if self.masks_sources else None

    @functools.cached_property
    def _whole_target(self) -> tuple[Floats, NDArray[np.bool_] | None]:
        return self._target(slice(None))

    @property
    def target(self) -> Floats:
        return self._whole_target[0]

    @property
    def target_observed(self) -> NDArray[np.bool_] | None:
        return self._whole_target[1] if self.masks_targets else None

    @functools.cached_property
    def masks_sources(self) -> bool:
        return self._hides_some(self.sources)

    @functools.cached_property
    def masks_targets(self) -> bool:
        return self._hides_some(self.targets)

    @property
    def last_steps(self) -> NDArray[np.generic] | None:
        return self._last_steps(slice(None))

    @property
    def spacing(self) -> Spacing | None:
        return self.steps.spacings()

    def at(self, places: slice | Integers) -> Sequences:
        return self._gathered(places, self._last_steps(places), self.steps.at(places).spacings())

    def subset(self, places: Integers) -> Windows:
        """Some of the sequences, not gathered either."""
        return Windows(
            self.sources.at(places), self.targets.at(places), self.names.at(places),
            self.steps.at(places), has_empty=self.has_empty,
        )  # fmt: skip

    def points_at(self, places: slice | Integers) -> Sequences:
        """As `at`, without steps and spacing: what a training step needs."""
        return self._gathered(places, None, None)

    def chunks(self) -> Iterator[tuple[slice, Sequences]]:
        for places in self._places():
            yield places, self.points_at(places)

    def _places(self) -> Iterator[slice]:
        of_source = self.source_steps * len(self.features)
        of_target = self.target_steps * len(self.target_features)
        size = max(1, CHUNK_NUMBERS // max(1, of_source + of_target))
        for first in range(0, len(self), size):
            yield slice(first, min(first + size, len(self)))

    def known_sources(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """(places, (n, F) whether a feature was observed in each source), some after the other."""
        for places in self._places():
            keep = self._keep(self.sources, places)
            found = self.sources.gather(places)
            yield places, np.asarray((keep & ~np.isnan(found)).any(axis=1))

    def observed_targets(self) -> Iterator[NDArray[np.bool_]]:
        for places in self._places():
            yield self._target(places)[1]

    def _gathered(
        self, places: slice | Integers, last_steps: NDArray[np.generic] | None,
        spacing: Spacing | None,
    ) -> Sequences:  # fmt: skip
        source, source_observed = self._source(places)
        target, target_observed = self._target(places)
        return Sequences(
            source, self.sources.lengths[places], target, self.targets.lengths[places],
            self.features, self.names.at(places), target_features=self.target_features,
            last_steps=last_steps, spacing=spacing,
            source_observed=source_observed if self.masks_sources else None,
            target_observed=target_observed if self.masks_targets else None,
        )  # fmt: skip

    def _last_steps(self, places: slice | Integers) -> NDArray[np.generic] | None:
        return self.steps.of_rows(self.sources.starts[places] + self.sources.lengths[places] - 1)

    def _source(self, places: slice | Integers) -> tuple[Floats, NDArray[np.bool_]]:
        found, seen = self._observed(self.sources, places)
        if self.has_empty:
            keep = self._keep(self.sources, places)
            lacks = (keep & ~seen).any(axis=(1, 2))
            if lacks.any():
                at = self.sources.steps(places, self.steps.order)[lacks]
                filled = interpolate_linearly(found[lacks], seen[lacks], at)
                found[lacks] = np.where(keep[lacks], filled, 0)
        return found, seen

    def _target(self, places: slice | Integers) -> tuple[Floats, NDArray[np.bool_]]:
        return self._observed(self.targets, places)

    def _observed(
        self, side: RowRanges, places: slice | Integers
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """(n, L, F) real cells of one side, 0 beyond its end, and which were observed."""
        found, keep = side.gather(places), self._keep(side, places)
        seen = np.broadcast_to(keep, found.shape)
        if self.has_empty:
            seen = keep & ~np.isnan(found)
        if not keep.all():
            found = np.where(keep, found, found.dtype.type(0))
        return found, seen  # type: ignore[return-value]

    @staticmethod
    def _keep(side: RowRanges, places: slice | Integers) -> NDArray[np.bool_]:
        """(n, L, 1): True where a row is within its stretch."""
        return valid_mask(side.lengths[places], side.longest)[:, :, None]

    def _hides_some(self, side: RowRanges) -> bool:
        """Whether a real cell of one side was not observed."""
        if not self.has_empty:
            return False
        for places in self._places():
            if (self._keep(side, places) & np.isnan(side.gather(places))).any():
                return True
        return False
