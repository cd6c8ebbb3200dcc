"""Scaling from the user's units to those of the model, and back.

Forecasts, plots and errors are in the user's units. Losses are computed on scaled values, so that
features in different units have equal weight.
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
    """An affine map per feature: (points - shift) / scale.

    Attributes:
        shift: (F,), or (N, 1, F) with one shift per sequence.
        scale: the same shape, above 0.
    """

    shift: Floats
    scale: Floats

    @classmethod
    def identity(cls, features: int) -> Scaler:
        return cls(np.zeros(features), np.ones(features))

    @property
    def is_identity(self) -> bool:
        return bool((self.shift == 0).all() and (self.scale == 1).all())

    def transform(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """(..., F) from the user's units to the model's."""
        return points if self.is_identity else (points - self.shift) / self.scale

    def inverse_transform(self, points: Floats) -> Floats:
        """(..., F) from the model's units to the user's."""
        return points if self.is_identity else points * self.scale + self.shift

    def select(self, indices: slice) -> Scaler:
        """The scaler of some sequences, of one with a shift and a scale per sequence."""
        return Scaler(self.shift[indices], self.scale[indices])

    def reorder(self, indices: Sequence[int]) -> Scaler:
        """The scaler whose feature i is feature `indices[i]` of this one; the identity at -1."""
        shift, scale = (
            np.insert(values, values.shape[-1], none, axis=-1)[..., list(indices)]
            for values, none in ((self.shift, 0.0), (self.scale, 1.0))
        )
        return Scaler(shift, scale)


@dataclass(frozen=True)
class FeatureScale:
    """The fitted shift and scale of one feature.

    Attributes:
        shift, scale: see `Scaler`.
        constant: whether the feature varies by rounding of float64 at most; the scale is then 1.
        quartiles_are_equal: whether the quartiles of a feature that varies are equal; the scale is
            then its standard deviation.
    """

    shift: float
    scale: float
    constant: bool
    quartiles_are_equal: bool = False


def is_constant(low: float, high: float) -> bool:
    """Whether the range from `low` to `high` may be rounding of equal float64 values."""
    return bool(is_rounding_only(np.array(low), np.array(high)))


@dataclass(frozen=True)
class Scaling:
    """From the user's units to the model's: first a shift and a scale per sequence, then those of
    each feature, fitted on the training part.

    A feature of both source and target is scaled the same on both sides. A feature of the target
    alone has no shift or scale per sequence, since these are computed from the source.

    Attributes:
        source, target: per feature. Losses are in units of the target's scale.
        source_index_of_target: index of each target feature among the source features, or -1.
        relative: subtract the last source step of each sequence, so that the level of a sequence
            does not matter to the model.
        instance: scale each source to mean 0 and standard deviation 1, its target likewise; see
            `seqattn.data.instance`. `source.shift` is then 0. A feature that is constant in a
            source is shifted, and scaled by the training part alone.
    """

    source: Scaler
    target: Scaler
    source_index_of_target: tuple[int, ...]
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

    def sequence_scalers(self, part: Sequences) -> tuple[Scaler, Scaler]:
        """Shift and scale per sequence, (N, 1, F), for sources and for targets: 0 and 1 without
        `relative` and `instance`. Computed from the sources alone."""
        N, F = len(part), len(part.features)
        shift, scale = np.zeros((N, 1, F)), np.ones((N, 1, F))
        for indices, chunk in part.chunks() if self.relative or self.instance else ():
            if self.relative:
                last = chunk.source_lengths - 1
                shift[indices, 0] = chunk.source[np.arange(len(chunk)), last]
            else:
                result = InstanceStatistics.of(chunk)
                shift[indices, 0] = result.mean
                scale[indices, 0] = np.where(result.constant, 1, result.std / self.source.scale)
        source = Scaler(shift, scale)
        return source, source.reorder(self.source_index_of_target)

    def target_scale(self, part: Sequences) -> Floats:
        """(N, 1, F) the length of the model's unit in the user's units, of each sequence and target
        feature."""
        return np.asarray(self.sequence_scalers(part)[1].scale * self.target.scale)

    def transform(
        self, part: Sequences, like: DTypeLike = np.float64
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Source (N, S, F) and target (N, T, F) in the model's units, padding 0. An unobserved
        target cell holds the decoder input for it; see `_forward_fill`.

        Args:
            like: dtype of the result; it is computed in float64.
        """
        source: NDArray[np.floating] = part.source
        target: NDArray[np.floating] = part.target
        if not self.is_identity:
            of_source, of_target = self.sequence_scalers(part)
            source = _transform_blocks(self.source, of_source, part.source, part.source_keep, like)
            target = _transform_blocks(self.target, of_target, part.target, part.target_keep, like)
        if part.target_observed is not None:
            target = _forward_fill(source, target, part, self.source_index_of_target)
        return source, target

    def inverse_transform(self, values: Floats, part: Sequences) -> Floats:
        """Forecasts (..., N, T, F) of a part, from the model's units to the user's."""
        if self.is_identity:
            return values
        values = self.target.inverse_transform(values)
        return self.sequence_scalers(part)[1].inverse_transform(values)

    def as_plain(self) -> dict[str, Any]:
        """As JSON-serializable data; every number reads back exactly."""
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
            KeyError, TypeError, ValueError: not the output of `as_plain`.
        """

        def of(side: str, names: Sequence[str]) -> Scaler:
            shift, scale = (np.array(plain[side][k], dtype=np.float64) for k in ("shift", "scale"))
            if shift.shape != (len(names),) or scale.shape != (len(names),):
                raise ValueError(f"the scaling of the {side} has another number of features")
            if not (np.isfinite(shift).all() and np.isfinite(scale).all() and (scale > 0).all()):
                raise ValueError(f"the scaling of the {side} is not finite and above 0")
            return Scaler(shift, scale)

        relative, instance = plain["relative"], plain.get("instance", False)
        if not (isinstance(relative, bool) and isinstance(instance, bool)):
            raise ValueError("relative and instance are true or false")
        indices = source_indices_of(tuple(features), tuple(target_features))
        return cls(
            of("source", features), of("target", target_features), indices, relative, instance
        )


def _transform_blocks(
    scaler: Scaler, per_sequence: Scaler, points: Floats, keep: NDArray[np.bool_], like: DTypeLike
) -> NDArray[np.floating]:
    result = np.empty(points.shape, dtype=like)
    for first, rows in row_blocks(points):
        block = slice(first, first + len(rows))
        result[block] = scaler.transform(per_sequence.select(block).transform(rows))
        result[block][~keep[block]] = 0
    return result


def _forward_fill(
    source: NDArray[np.floating], target: NDArray[np.floating], part: Sequences,
    source_index: tuple[int, ...],
) -> NDArray[np.floating]:  # fmt: skip
    """(N, T, F) target whose unobserved cells repeat the last observed value before them, or the
    last source value; 0, the initial decoder input, for a feature that no source has. Later values
    are never used."""
    N, T, _ = target.shape
    last = source[np.arange(N), part.source_lengths - 1]
    with_zero = np.concatenate([last, np.zeros((N, 1), dtype=last.dtype)], axis=1)
    first = with_zero[:, list(source_index)]
    known = np.concatenate([first[:, None], target], axis=1)
    step = np.where(part.target_cells, np.arange(1, T + 1)[:, None], 0)
    result = np.take_along_axis(known, np.maximum.accumulate(step, axis=1), axis=1)
    result[~part.target_keep] = 0
    return np.asarray(result)


def source_indices_of(
    features: tuple[str, ...], target_features: tuple[str, ...]
) -> tuple[int, ...]:
    """Index of each target feature among the source features, or -1."""
    return tuple(features.index(name) if name in features else -1 for name in target_features)
