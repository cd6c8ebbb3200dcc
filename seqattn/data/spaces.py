"""What a step of a source or of a target is, outside of a model.

A `Space` holds what is known about the steps of one side of a data set: their names, and how the
user's values become the values that a model reads, and back. Sequences, the schema of a data set
and a loaded model hold a source space and a target space.

`Vectors` are steps of F numbers. Forecasts, plots and errors are in the user's units. Losses are
computed from scaled values, so that all scaled features have similar weights in a loss regardless
of their units. The scaling has two stages. The first stage is a shift and a scale per sequence,
which are computed from the source alone and apply to its target too. The second stage is a shift
and a scale per feature, which are fitted to the training part.

`data.normalize: instance` as the first stage is reversible instance normalization (RevIN: Kim et
al. 2022, "Reversible Instance Normalization for Accurate Time-Series Forecasting against
Distribution Shift", ICLR, eq. 1 to 3). A source x becomes (x - mean) / std, with the mean and
standard deviation of this source. The target is transformed with the mean and standard deviation of
the source, and the forecast is transformed back. The implementation differs from the paper in two
ways. First, there is no learnable affine map (gamma and beta of eq. 2), because every model in this
package begins and ends with affine maps that can represent it. Second, the square root contains no
epsilon, because an epsilon would make the result depend on the unit of the data. Constant features
are handled separately instead.

In shapes, N is the number of sequences, n the number of sequences in a block, S the source length,
L the number of steps in a sequence, and F the number of features.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqattn.data.units import Units

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_BLOCK_VALUES = 2**22
"""Maximum number of values in a block of rows that are processed together, unless one row has more.
"""


def row_blocks(values: NDArray[np.floating]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield an array in blocks of rows, as pairs (index of the first row, rows). A block of several
    rows has at most `MAX_BLOCK_VALUES` values, so that temporary arrays stay small."""
    row_size = math.prod(values.shape[1:])
    at_once = max(1, MAX_BLOCK_VALUES // max(1, row_size))
    for first in range(0, len(values), at_once):
        yield first, values[first : first + at_once]


ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Largest relative range that float64 rounding can cause among equal values."""


def is_rounding_only(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Return whether `low` and `high` are so close that their difference may be a rounding error of
    float64."""
    return np.asarray(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))


@dataclass(frozen=True, eq=False)
class Scaler:
    """An affine map for each feature: (points - shift) / scale.

    Attributes:
        shift: number to subtract from each feature, (F,), or (N, 1, F) with one shift per sequence.
        scale: divisor above 0, with the same shape as `shift`.
    """

    shift: Floats
    scale: Floats

    @classmethod
    def identity(cls, *shape: int) -> Scaler:
        return cls(np.zeros(shape), np.ones(shape))

    @property
    def is_identity(self) -> bool:
        return bool((self.shift == 0).all() and (self.scale == 1).all())

    def transform(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return `(points - shift) / scale` for points (..., F)."""
        return points if self.is_identity else (points - self.shift) / self.scale

    def inverse_transform(self, points: Floats) -> Floats:
        """Return `points * scale + shift` for points (..., F)."""
        return points if self.is_identity else points * self.scale + self.shift

    def select(self, indices: slice) -> Scaler:
        """Return the scaler for a slice of the sequences. The original scaler must have one shift
        and one scale per sequence."""
        return Scaler(self.shift[indices], self.scale[indices])

    def reorder(self, indices: Sequence[int]) -> Scaler:
        """Return a scaler in which feature i has the shift and scale of feature `indices[i]`. An
        index of -1 gives the identity."""
        shift, scale = (
            np.insert(values, values.shape[-1], none, axis=-1)[..., list(indices)]
            for values, none in ((self.shift, 0.0), (self.scale, 1.0))
        )
        return Scaler(shift, scale)


@dataclass(frozen=True, eq=False)
class Scaling(Scaler):
    """The scaling of one side of a data set. The attributes `shift` and `scale` (F,) are the second
    stage, and the other two choose the first stage.

    A feature that belongs only to the target has no first stage, because the shift and scale per
    sequence are computed from the source. If a feature belongs to both source and target, its
    scaling is the same in both. Losses are in units of the target's `scale`, except losses during
    training if `instance` is True.

    Attributes:
        relative: whether to subtract the last source step of each sequence, so that the model does
            not depend on the level of a sequence.
        instance: whether to scale each source to mean 0 and standard deviation 1, and its target
            with the mean and standard deviation of the source. The shift of a source feature is
            then 0. A feature that is constant in a source is shifted, but keeps the scale of the
            training part.
    """

    relative: bool = False
    instance: bool = False

    def as_plain(self) -> dict[str, Any]:
        """Return JSON-serializable data that preserves every number exactly."""
        return {
            "shift": self.shift.tolist(), "scale": self.scale.tolist(),
            "relative": self.relative, "instance": self.instance,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], features: int) -> Scaling:
        """Build the scaling of `features` features from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError: if `plain` is not an output of `as_plain`, or if it has
                another number of features.
        """
        shift, scale = (np.array(plain[key], dtype=np.float64) for key in ("shift", "scale"))
        if shift.shape != (features,) or scale.shape != (features,):
            raise ValueError(f"the scaling has another number of features than {features}")
        if not (np.isfinite(shift).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("the scaling is not finite and above 0")
        relative, instance = plain["relative"], plain["instance"]
        if not (isinstance(relative, bool) and isinstance(instance, bool)):
            raise ValueError("relative and instance are true or false")
        return cls(shift, scale, relative, instance)


@dataclass(frozen=True, eq=False)
class InstanceStatistics:
    """Statistics of each source and feature over the valid observed cells.

    Attributes:
        mean: (N, F) mean in the units of the data.
        std: (N, F) population standard deviation, above 0. The value is 1 for constant features.
        constant: (N, F) booleans that are True if the feature varies at most by float64 rounding.
    """

    mean: Floats
    std: Floats
    constant: NDArray[np.bool_]

    @classmethod
    def of(cls, source: NDArray[np.floating], observed: NDArray[np.bool_]) -> InstanceStatistics:
        """Compute the statistics of all sources.

        The sums are computed in order from the first step to the last, so that the amount of
        padding does not change the rounding.

        Args:
            source: (N, S, F) values of the sources.
            observed: mask (N, S, F) that is True at valid observed cells, the only ones that
                contribute.
        """
        N, _, F = source.shape
        result = cls(np.zeros((N, F)), np.ones((N, F)), np.ones((N, F), dtype=bool))
        for first, rows in row_blocks(source):
            block = slice(first, first + len(rows))
            rows, cells = np.asarray(rows, dtype=np.float64), observed[block]
            count = cells.sum(axis=1)
            divisor = np.maximum(count, 1)
            low = np.where(count > 0, np.where(cells, rows, np.inf).min(axis=1), 0)
            high = np.where(count > 0, np.where(cells, rows, -np.inf).max(axis=1), 0)
            constant = is_rounding_only(low, high)
            spread = np.where(constant, 1, high - low)
            # Values are scaled to the range 0 to 1, so that squares do not overflow and a large
            # level does not reduce the precision.
            unit = np.where(cells, (rows - low[:, None]) / spread[:, None], 0)
            mean = _sum_in_order(unit) / divisor
            squares = np.where(cells, np.square(unit - mean[:, None]), 0)
            result.mean[block] = np.where(low == high, low, low + spread * mean)
            result.std[block] = np.where(
                constant, 1, spread * np.sqrt(_sum_in_order(squares) / divisor)
            )
            result.constant[block] = constant
        return result


def _sum_in_order(values: Floats) -> Floats:
    """Return the sum (n, F) of values (n, S, F), added in the order of the S steps.

    Trailing zeros do not change any bit of this sum, but they could change the result of
    `numpy.sum`, which adds in blocks.
    """
    return np.asarray(np.cumsum(values, axis=1)[:, -1])


class Space(ABC):
    """The steps of one side of a data set.

    Attributes:
        names: names of the F features of a step.
        units: unit of each feature that has a unit, by feature name.
    """

    names: tuple[str, ...]
    units: Units
    loss_name: ClassVar[str]
    """Name of the loss."""
    error_name: ClassVar[str]
    """Name of the error of outputs in free running."""

    @property
    def vocabulary_size(self) -> int:
        """Number of symbols, or 0 if the steps are not symbols."""
        return len(self.symbols)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols by number; empty if the steps are not symbols."""
        return ()

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """Whether a model reads and writes the user's values themselves."""

    @property
    @abstractmethod
    def scale(self) -> Floats:
        """Size (F,) of one unit of the loss in the user's units."""

    @property
    def is_per_sequence(self) -> bool:
        """Whether the scaling has a first stage, which differs between sequences."""
        return False

    def first_stage(
        self, source: NDArray[Any], lengths: Integers, observed: NDArray[np.bool_]
    ) -> Scaler:
        """Return the first stage of the scaling for sources, (N, 1, F).

        Args:
            source: (N, S, F) values of the sources.
            lengths: (N,) number of valid steps of each source.
            observed: mask (N, S, F) that is True at valid observed cells.
        """
        return Scaler.identity(len(source), 1, len(self.names))

    @abstractmethod
    def fitted_as(self, other: Space) -> Space:
        """Return this space with everything that `other` was fitted to: the training part of
        another data set."""

    @abstractmethod
    def needed_by_weights(self, side: str) -> dict[str, Any]:
        """Return what the space of another data set must have in common with this one if weights
        that were trained in this space are to be used there, by config key or in words.

        Args:
            side: "source" or "target".
        """

    @abstractmethod
    def encode(
        self, values: NDArray[Any], keep: NDArray[np.bool_], per_sequence: Scaler, like: DTypeLike
    ) -> NDArray[Any]:
        """Return the values of the model, with 0 in the padding.

        Args:
            values: (N, L, F) values of the user.
            keep: (N, L) mask that is True at valid steps.
            per_sequence: the first stage of the scaling, (N, 1, F).
            like: dtype of scaled values.
        """

    @abstractmethod
    def decode(self, values: NDArray[Any], per_sequence: Scaler) -> NDArray[Any]:
        """Return the user's values for values (..., N, L, F) of the model.

        Args:
            per_sequence: the first stage of the scaling, (N, 1, F).
        """

    def trim(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return forecasts (..., L, F) with padding after the end of each sequence, if the steps
        say where a sequence ends."""
        return values

    def forecast_lengths(self, values: NDArray[Any], wanted: Integers) -> Integers:
        """Return the number of steps of each forecast (N, L, F) that is wanted with the given
        number of steps (N,). A forecast of symbols has its own length, with the end."""
        return wanted

    def text(self, values: NDArray[Any]) -> str:
        """Return the steps (L, F) of a sequence as text, up to its end."""
        return " ".join(f"{value:g}" for value in np.ravel(values))

    @abstractmethod
    def as_plain(self) -> dict[str, Any]:
        """Return JSON-serializable data that preserves every number exactly."""


@dataclass(frozen=True, eq=False)
class Vectors(Space):
    """Steps of F numbers.

    Attributes:
        names: names of the F features.
        scaling: scaling from the user's units to the units of the model.
        units: unit of each feature that has a unit, by feature name.
    """

    loss_name = error_name = "mean squared error"
    names: tuple[str, ...]
    scaling: Scaling
    units: Units = field(default_factory=dict)

    @classmethod
    def unscaled(cls, names: tuple[str, ...]) -> Vectors:
        """Build the space of vectors that a model reads as they are."""
        return cls(names, Scaling(np.zeros(len(names)), np.ones(len(names))))

    @property
    def is_identity(self) -> bool:
        return self.scaling.is_identity and not self.is_per_sequence

    @property
    def scale(self) -> Floats:
        return self.scaling.scale

    @property
    def is_per_sequence(self) -> bool:
        return self.scaling.relative or self.scaling.instance

    def first_stage(
        self, source: NDArray[Any], lengths: Integers, observed: NDArray[np.bool_]
    ) -> Scaler:
        if self.scaling.relative:
            last = source[np.arange(len(source)), lengths - 1].astype(np.float64)
            return Scaler(last[:, None], np.ones_like(last[:, None]))
        found = InstanceStatistics.of(source, observed)
        scale = np.where(found.constant, 1, found.std / self.scaling.scale)
        return Scaler(found.mean[:, None], scale[:, None])

    def fitted_as(self, other: Space) -> Vectors:
        assert isinstance(other, Vectors)
        return replace(self, scaling=other.scaling)

    def needed_by_weights(self, side: str) -> dict[str, Any]:
        return {
            "data.relative": self.scaling.relative,
            "data.normalize: instance": self.scaling.instance,
        }

    def encode(
        self, values: NDArray[Any], keep: NDArray[np.bool_], per_sequence: Scaler, like: DTypeLike
    ) -> NDArray[np.floating]:
        if self.is_identity:
            return values
        result = np.empty(values.shape, dtype=like)
        for first, rows in row_blocks(values):
            block = slice(first, first + len(rows))
            result[block] = self.scaling.transform(per_sequence.select(block).transform(rows))
            result[block][~keep[block]] = 0
        return result

    def decode(self, values: NDArray[Any], per_sequence: Scaler) -> Floats:
        return per_sequence.inverse_transform(self.scaling.inverse_transform(values))

    def as_plain(self) -> dict[str, Any]:
        return {
            "kind": "vectors", "names": list(self.names), "scaling": self.scaling.as_plain(),
            "units": dict(self.units),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Vectors:
        """Build the space from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if `plain` is not an output of
                `as_plain`.
        """
        names = tuple(str(name) for name in plain["names"])
        units = {str(name): str(unit) for name, unit in plain["units"].items()}
        return cls(names, Scaling.from_plain(plain["scaling"], len(names)), units)


def source_indices_of(
    features: tuple[str, ...], target_features: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the index of each target feature among the source features, or -1 if the source lacks
    the feature."""
    return tuple(features.index(name) if name in features else -1 for name in target_features)
