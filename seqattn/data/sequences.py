"""A set of sequences: padded arrays and lengths, source and target apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqattn.data.spacing import Spacing
from seqattn.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_BLOCK_VALUES = 2**22
"""Numbers of an array that are worked on in one go."""
MAX_SPREAD_RATIO = 20
"""Times that one feature may spread as widely as another beside which it is drawn in a plane."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences of points. Padding is 0; the lengths say what is real.

    A point has F features. Where source and target have different ones, F is
    one number in the source and another in the target.

    Attributes:
        source: (N, S, F) points of the sources.
        source_lengths: (N,) real points of each source, 1 or more.
        target: (N, T, F) points to be forecast; T may be 0 where no truth is known.
        target_lengths: (N,) real points of each target.
        features: F names, of the source.
        ids: N names.
        labels: N words on each sequence for a plot's title ("clockwise"), or empty.
        ideal: (N, T, F) what one would say who knows the task but not the noise, where there is
            such a thing; its error is the noise floor.
        alignment: (N, T) the source step, counted from 0, that tells each target step; -1 where
            no single one does, and at padding. None where the task has none.
        target_features: names of the target's features; without, those of the source.
        last_steps: (N,) what the file calls the last step of each source, numbers or dates. None
            where steps are counted from 1.
        spacing: how far apart the steps of each sequence are; None where they are counted.
        source_observed: (N, S, F) True where a source cell was observed, and not filled; False at
            padding. None: all real cells were.
        target_observed: (N, T, F) likewise of the target. What an unobserved target cell holds is
            never read: it may be NaN.

    Raises:
        DataError: a source of no points, a length beyond the array, a value that is not finite.
    """

    source: Floats
    source_lengths: Integers
    target: Floats
    target_lengths: Integers
    features: tuple[str, ...]
    ids: Sequence[str]
    labels: tuple[str, ...] = ()
    ideal: Floats | None = None
    alignment: Integers | None = None
    target_features: tuple[str, ...] = ()
    last_steps: NDArray[np.generic] | None = None
    spacing: Spacing | None = None
    source_observed: NDArray[np.bool_] | None = None
    target_observed: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not self.target_features:
            object.__setattr__(self, "target_features", self.features)
        N, S, F = self.source.shape
        _, T, _ = self.target.shape
        if self.target.shape != (N, T, len(self.target_features)) or len(self.features) != F:
            raise ValueError("source, target and features disagree on N or F")
        if len(self.ids) != N or (self.alignment is not None and self.alignment.shape != (N, T)):
            raise ValueError("ids and alignment disagree with source and target on N or T")
        for observed, shape in (
            (self.source_observed, (N, S, F)),
            (self.target_observed, self.target.shape),
        ):
            if observed is not None and observed.shape != shape:
                raise ValueError(f"observed cells must have shape {shape}, have {observed.shape}")
        self._check_points("source", self.source, self.source_lengths, 1, None)
        self._check_points("target", self.target, self.target_lengths, 0, self.target_observed)

    def _check_points(
        self, what: str, points: Floats, lengths: Integers, least: int,
        observed: NDArray[np.bool_] | None,
    ) -> None:  # fmt: skip
        """
        Args:
            what: source or target.
            least: points of each.
            observed: cells that must be finite; None: all.

        Raises:
            DataError: a length beyond the array, or a value that is not finite.
        """
        N, most, _ = points.shape
        if lengths.shape != (N,):
            raise ValueError(f"{what}_lengths must have shape ({N},), has {lengths.shape}")
        wrong = np.flatnonzero((lengths < least) | (lengths > most))
        if wrong.size:
            k = int(wrong[0])
            raise DataError(
                f"sequence {self.ids[k]!r}: its {what} has {lengths[k]} points, but attention"
                f" needs {least} to {most} here."
            )
        for first, rows in row_blocks(points):
            finite = np.isfinite(rows)
            if observed is not None:
                finite |= ~observed[first : first + len(rows)]
            if not finite.all():
                k, step, feature = map(int, np.argwhere(~finite)[0])
                names = self.features if what == "source" else self.target_features
                raise DataError(
                    f"sequence {self.ids[first + k]!r}: point {step + 1} of its {what} is not"
                    f" finite in {names[feature]!r}."
                )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_steps(self) -> int:
        """Points of the longest source."""
        return int(self.source.shape[1])

    @property
    def target_steps(self) -> int:
        """Points of the longest target."""
        return int(self.target.shape[1])

    @property
    def is_one_shape(self) -> bool:
        """Whether all sources are of one length, and all targets."""
        return bool(
            (self.source_lengths == self.source_steps).all()
            and (self.target_lengths == self.target_steps).all()
        )

    @property
    def masks_sources(self) -> bool:
        """Whether some real source cells were not observed."""
        return self.source_observed is not None

    @property
    def masks_targets(self) -> bool:
        """Whether some real target cells were not observed."""
        return self.target_observed is not None

    def at(self, places: slice | Integers) -> Sequences:
        """The sequences at some places."""
        few = range(len(self))[places] if isinstance(places, slice) else places.tolist()
        return Sequences(
            self.source[places],
            self.source_lengths[places],
            self.target[places],
            self.target_lengths[places],
            self.features,
            tuple(self.ids[k] for k in few),
            tuple(self.labels[k] for k in few) if self.labels else (),
            None if self.ideal is None else self.ideal[places],
            None if self.alignment is None else self.alignment[places],
            self.target_features,
            None if self.last_steps is None else self.last_steps[places],
            None if self.spacing is None else self.spacing.at(places),
            None if self.source_observed is None else self.source_observed[places],
            None if self.target_observed is None else self.target_observed[places],
        )

    def chunks(self) -> Iterator[tuple[slice, Sequences]]:
        """All of it, some sequences after the other where they are gathered as they are needed:
        (places, sequences in memory)."""
        yield slice(0, len(self)), self

    def observed_targets(self) -> Iterator[NDArray[np.bool_]]:
        """`target_cells` of all sequences, some after the other."""
        yield self.target_cells

    @property
    def source_keep(self) -> NDArray[np.bool_]:
        """(N, S): True where a source point is real."""
        return valid_mask(self.source_lengths, self.source.shape[1])

    @property
    def target_keep(self) -> NDArray[np.bool_]:
        """(N, T): True where a target point is real."""
        return valid_mask(self.target_lengths, self.target.shape[1])

    @property
    def source_cells(self) -> NDArray[np.bool_]:
        """(N, S, F): True where a source cell is real and was observed."""
        if self.source_observed is not None:
            return self.source_observed
        return np.broadcast_to(self.source_keep[:, :, None], self.source.shape)

    @property
    def target_cells(self) -> NDArray[np.bool_]:
        """(N, T, F): True where a target cell is real and was observed."""
        if self.target_observed is not None:
            return self.target_observed
        return np.broadcast_to(self.target_keep[:, :, None], self.target.shape)


class ForecastLike(Protocol):
    """(N, T, F) forecasts of a part, of which some are asked for."""

    def __getitem__(self, places: slice, /) -> Floats: ...


def valid_mask(lengths: Integers, size: int) -> NDArray[np.bool_]:
    """(N, size): True at the first `length` places of each row."""
    return np.arange(size) < lengths[:, None]


def row_blocks(values: NDArray[np.floating]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """An array some rows at a time, so that what is worked out of them stays small: (first row,
    rows)."""
    numbers = math.prod(values.shape[1:])
    at_once = max(1, MAX_BLOCK_VALUES // max(1, numbers))
    for first in range(0, len(values), at_once):
        yield first, values[first : first + at_once]


def pad_sequences(rows: Sequence[Floats], features: int) -> tuple[Floats, Integers]:
    """Rows of (L, F) with unequal L as one (N, longest L, F) array and its lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    points = np.zeros((len(rows), int(lengths.max(initial=0)), features))
    for place, row in zip(points, rows, strict=True):
        place[: len(row)] = row
    return points, lengths


def can_share_axes(
    features: Sequence[str],
    target_features: Sequence[str],
    points: Sequence[NDArray[np.floating]],
    units: Mapping[str, str] | None = None,
) -> bool:
    """Whether points can be drawn in one plane of equal scales: the same two features are given and
    said, in one unit, and neither spreads over more than 20 times as much as the other.

    Args:
        features: F names, of the source.
        target_features: G names, of the target.
        points: (..., F) and (..., G) arrays of all that is drawn; what is not finite is padding.
        units: of the features that have one.
    """
    if len(features) != 2 or list(features) != list(target_features):
        return False
    if units and units.get(features[0]) != units.get(features[1]):
        return False
    every = np.concatenate([np.reshape(each, (-1, 2)) for each in points])
    every = every[np.isfinite(every).all(axis=1)]
    if not len(every):
        return True
    narrow, wide = sorted(np.std(every, axis=0, dtype=np.float64))
    return bool(wide <= MAX_SPREAD_RATIO * narrow)
