"""From the user's units to numbers a model likes, and back.

Whatever leaves the program is in the user's units again: forecasts, plots, errors. Losses are
those that training makes small, of scaled numbers, so that features in different units count alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqattn.data.instance import InstanceStatistics, is_rounding_only
from seqattn.data.sequences import Floats, Sequences, row_blocks

Method = Literal["none", "standard", "minmax", "robust"]


@dataclass(frozen=True, eq=False)
class Scaler:
    """(points - shift) / scale, feature by feature.

    Attributes:
        shift: (F,), or (N, 1, F) where each sequence has its own.
        scale: likewise, above 0.
    """

    shift: Floats
    scale: Floats

    @classmethod
    def identity(cls, features: int) -> Scaler:
        return cls(np.zeros(features), np.ones(features))

    @property
    def is_identity(self) -> bool:
        return bool((self.shift == 0).all() and (self.scale == 1).all())

    def scaled(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """(..., F) in the user's units to the model's."""
        return points if self.is_identity else (points - self.shift) / self.scale

    def unscaled(self, points: Floats) -> Floats:
        """(..., F) in the model's units to the user's."""
        return points if self.is_identity else points * self.scale + self.shift

    def at(self, places: slice) -> Scaler:
        """Those of some sequences, where each has its own."""
        return Scaler(self.shift[places], self.scale[places])

    def carried(self, places: Sequence[int]) -> Scaler:
        """The scaler of other features: each that of the feature at its place, none at -1."""
        shift, scale = (
            np.insert(values, values.shape[-1], none, axis=-1)[..., list(places)]
            for values, none in ((self.shift, 0.0), (self.scale, 1.0))
        )
        return Scaler(shift, scale)


@dataclass(frozen=True)
class FeatureScale:
    """A feature's scale.

    Attributes:
        shift, scale: see `Scaler`.
        constant: whether it changes by no more than float64 rounds; its scale is 1 then.
        quartiles_are_equal: of a feature that changes, so that its standard deviation is its scale.
    """

    shift: float
    scale: float
    constant: bool
    quartiles_are_equal: bool = False


def is_constant(low: float, high: float) -> bool:
    """Whether a range is one that float64 may leave of values that are all the same."""
    return bool(is_rounding_only(np.array(low), np.array(high)))


@dataclass(frozen=True)
class Scaling:
    """From the user's units to the model's: first a shift and a scale of each sequence's own, then
    those of each feature, fitted on the training part.

    A feature of both source and target is scaled alike on both sides. Of a feature of the target
    alone a source knows nothing: no sequence has a shift or a scale of its own for it.

    Attributes:
        source, target: of each feature. The target's scale is what losses count 1 of.
        carried: for each target feature its place among the source's, or -1.
        relative: a sequence's own shift is its last source point: then a level that was never seen
            in training is none for the model.
        instance: a sequence's own shift and scale make the mean of its source 0 and its standard
            deviation 1; see `seqattn.data.instance`. `source.shift` is 0 then. A feature that is
            constant in a source is shifted, and has the scale of the training part alone.
    """

    source: Scaler
    target: Scaler
    carried: tuple[int, ...]
    relative: bool = False
    instance: bool = False

    @classmethod
    def identity(cls, part: Sequences) -> Scaling:
        return cls(
            Scaler.identity(len(part.features)),
            Scaler.identity(len(part.target_features)),
            source_indices_of(part.features, part.target_features),
        )

    @property
    def is_identity(self) -> bool:
        fitted = self.source.is_identity and self.target.is_identity
        return fitted and not self.relative and not self.instance

    def of_each(self, part: Sequences) -> tuple[Scaler, Scaler]:
        """The own shift and scale of each sequence, (N, 1, F), of its source and of its target;
        0 and 1 where it has none. Only the source is read."""
        N, F = len(part), len(part.features)
        shift, scale = np.zeros((N, 1, F)), np.ones((N, 1, F))
        for places, some in part.chunks() if self.relative or self.instance else ():
            if self.relative:
                last = some.source_lengths - 1
                shift[places, 0] = some.source[np.arange(len(some)), last]
            else:
                found = InstanceStatistics.of(some)
                shift[places, 0] = found.mean
                scale[places, 0] = np.where(found.constant, 1, found.std / self.source.scale)
        source = Scaler(shift, scale)
        return source, source.carried(self.carried)

    def units(self, part: Sequences) -> Floats:
        """(N, 1, F) what 1 in the model's units is in the user's, of each sequence and target
        feature."""
        return np.asarray(self.of_each(part)[1].scale * self.target.scale)

    def scaled(
        self, part: Sequences, like: DTypeLike = np.float64
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Source (N, S, F) and target (N, T, F) in the model's units, padding 0. A target cell that
        was not observed holds what a decoder is to be fed for it; see `_forward_fill`.

        Args:
            like: the type of the numbers returned; they are worked out in float64.
        """
        source: NDArray[np.floating] = part.source
        target: NDArray[np.floating] = part.target
        if not self.is_identity:
            of_source, of_target = self.of_each(part)
            source = _transform_blocks(self.source, of_source, part.source, part.source_keep, like)
            target = _transform_blocks(self.target, of_target, part.target, part.target_keep, like)
        if part.target_observed is not None:
            target = _forward_fill(source, target, part, self.carried)
        return source, target

    def unscaled(self, values: Floats, part: Sequences) -> Floats:
        """Forecasts (..., N, T, F) of a part in the user's units."""
        if self.is_identity:
            return values
        return self.of_each(part)[1].unscaled(self.target.unscaled(values))

    def as_plain(self) -> dict[str, Any]:
        """For JSON; every number reads back as the same."""
        return {
            "source": {"shift": self.source.shift.tolist(), "scale": self.source.scale.tolist()},
            "target": {"shift": self.target.shift.tolist(), "scale": self.target.scale.tolist()},
            "relative": self.relative,
            "instance": self.instance,
        }

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], features: Sequence[str], target_features: Sequence[str]
    ) -> Scaling:
        """
        Raises:
            KeyError, TypeError, ValueError: it is not what `as_plain` wrote.
        """

        def of(side: str, names: Sequence[str]) -> Scaler:
            shift, scale = (np.array(plain[side][k], dtype=np.float64) for k in ("shift", "scale"))
            if shift.shape != (len(names),) or scale.shape != (len(names),):
                raise ValueError(f"the scaling of the {side} has another number of features")
            if not (np.isfinite(shift).all() and np.isfinite(scale).all() and (scale > 0).all()):
                raise ValueError(f"the scaling of the {side} is not finite and above 0")
            return Scaler(shift, scale)

        relative, instance = plain["relative"], plain.get("instance", False)  # older ones lack it
        if not (isinstance(relative, bool) and isinstance(instance, bool)):
            raise ValueError("relative and instance are true or false")
        carried = source_indices_of(tuple(features), tuple(target_features))
        return cls(
            of("source", features), of("target", target_features), carried, relative, instance
        )


def _transform_blocks(
    scaler: Scaler, own: Scaler, points: Floats, keep: NDArray[np.bool_], like: DTypeLike
) -> NDArray[np.floating]:
    found = np.empty(points.shape, dtype=like)
    for first, rows in row_blocks(points):
        here = slice(first, first + len(rows))
        found[here] = scaler.scaled(own.at(here).scaled(rows))
        found[here][~keep[here]] = 0
    return found


def _forward_fill(
    source: NDArray[np.floating], target: NDArray[np.floating], part: Sequences,
    carried: tuple[int, ...],
) -> NDArray[np.floating]:  # fmt: skip
    """(N, T, F) target whose unobserved cells repeat the last value that is known before them, from
    the target or else from the source's last point; 0, as a decoder is fed first, for a feature
    that is not given. Nothing that follows is used."""
    N, T, _ = target.shape
    last = source[np.arange(N), part.source_lengths - 1]
    first = np.concatenate([last, np.zeros((N, 1), dtype=last.dtype)], axis=1)[:, list(carried)]
    known = np.concatenate([first[:, None], target], axis=1)
    step = np.where(part.target_cells, np.arange(1, T + 1)[:, None], 0)
    found = np.take_along_axis(known, np.maximum.accumulate(step, axis=1), axis=1)
    found[~part.target_keep] = 0
    return np.asarray(found)


def source_indices_of(
    features: tuple[str, ...], target_features: tuple[str, ...]
) -> tuple[int, ...]:
    """For each target feature its place among the source's, or -1."""
    return tuple(features.index(name) if name in features else -1 for name in target_features)
