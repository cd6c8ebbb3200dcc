"""A set of sequences: padded arrays and lengths, source and target apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences of points with F features. Padding is 0; the lengths say what is real.

    Attributes:
        source: (N, S, F) points that are given.
        source_lengths: (N,) real points of each source, 1 or more.
        target: (N, T, F) points to be said; T may be 0 where no truth is known.
        target_lengths: (N,) real points of each target.
        features: F names.
        ids: N names.
        labels: N words on each sequence for a plot's title ("clockwise"), or empty.
        ideal: (N, T, F) what one would say who knows the task but not the noise, where there is
            such a thing; its error is the noise floor.

    Raises:
        DataError: a source of no points, a length beyond the array, a value that is not finite.
    """

    source: Floats
    source_lengths: Integers
    target: Floats
    target_lengths: Integers
    features: tuple[str, ...]
    ids: tuple[str, ...]
    labels: tuple[str, ...] = ()
    ideal: Floats | None = None

    def __post_init__(self) -> None:
        N, S, F = self.source.shape
        _, T, _ = self.target.shape
        if self.target.shape != (N, T, F) or len(self.features) != F or len(self.ids) != N:
            raise ValueError("source, target, features and ids disagree on N or F")
        for what, points, lengths, least, most in (
            ("source", self.source, self.source_lengths, 1, S),
            ("target", self.target, self.target_lengths, 0, T),
        ):
            if lengths.shape != (N,):
                raise ValueError(f"{what}_lengths must have shape ({N},), has {lengths.shape}")
            wrong = np.flatnonzero((lengths < least) | (lengths > most))
            if wrong.size:
                k = int(wrong[0])
                raise DataError(
                    f"sequence {self.ids[k]!r}: its {what} has {lengths[k]} points, but attention"
                    f" needs {least} to {most} here."
                )
            bad = np.argwhere(~np.isfinite(points))
            if bad.size:
                k, step, feature = map(int, bad[0])
                raise DataError(
                    f"sequence {self.ids[k]!r}: point {step + 1} of its {what} is not finite in"
                    f" {self.features[feature]!r}."
                )

    def __len__(self) -> int:
        return len(self.source)

    def only(self, places: slice) -> Sequences:
        """The sequences at some places."""
        return Sequences(
            self.source[places],
            self.source_lengths[places],
            self.target[places],
            self.target_lengths[places],
            self.features,
            self.ids[places],
            self.labels[places],
            None if self.ideal is None else self.ideal[places],
        )

    @property
    def source_keep(self) -> NDArray[np.bool_]:
        """(N, S): True where a source point is real."""
        return real_points(self.source_lengths, self.source.shape[1])

    @property
    def target_keep(self) -> NDArray[np.bool_]:
        """(N, T): True where a target point is real."""
        return real_points(self.target_lengths, self.target.shape[1])


def real_points(lengths: Integers, size: int) -> NDArray[np.bool_]:
    """(N, size): True at the first `length` places of each row."""
    return np.arange(size) < lengths[:, None]


def padded(rows: Sequence[Floats], features: int) -> tuple[Floats, Integers]:
    """Rows of (L, F) with unequal L as one (N, longest L, F) array and its lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    points = np.zeros((len(rows), int(lengths.max(initial=0)), features))
    for place, row in zip(points, rows, strict=True):
        place[: len(row)] = row
    return points, lengths
