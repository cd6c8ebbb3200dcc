"""Scaling from the user's units to the units of the model, and back.

Forecasts, plots and errors are in the user's units. Losses are computed from scaled values, so that
all scaled features have similar weights in a loss regardless of their units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqattn.data.instance import InstanceStatistics, is_rounding_only
from seqattn.data.sequences import Floats, Sequences, row_blocks

Method = Literal["standard", "minmax", "robust"]


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
    def identity(cls, features: int) -> Scaler:
        return cls(np.zeros(features), np.ones(features))

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


@dataclass(frozen=True)
class FeatureScale:
    """The fitted shift and scale of one feature.

    Attributes:
        shift: number that is subtracted from the values of the feature.
        scale: positive number by which the shifted values are divided.
        constant: whether the feature varies at most by float64 rounding. The scale is then 1.
        quartiles_are_equal: whether the method is `robust` and the quartiles of a varying feature
            are equal. The scale is then the standard deviation of the feature.
    """

    shift: float
    scale: float
    constant: bool
    quartiles_are_equal: bool = False


def is_constant(low: float, high: float) -> bool:
    """Return whether `low` and `high` are so close that their difference may be a rounding error of
    float64."""
    return bool(is_rounding_only(np.array(low), np.array(high)))


@dataclass(frozen=True)
class Scaling:
    """Scaling from the user's units to the units of the model, in two stages.

    The first stage is a shift and a scale per sequence. The second stage is a shift and a scale per
    feature, which are fitted to the training part. If a feature belongs to both source and target,
    its scaling is the same in both. A feature that belongs only to the target has no shift or scale
    per sequence, because the shift and scale per sequence are computed from the source.

    Attributes:
        source: scaler of the source features.
        target: scaler of the target features. Losses are in units of `target.scale`, except
            losses during training if `instance` is True.
        source_index_of_target: index of each target feature among the source features, or -1 if the
            source lacks the feature.
        relative: whether to subtract the last source step of each sequence, so that the model does
            not depend on the level of a sequence.
        instance: whether to scale each source to mean 0 and standard deviation 1, and its target
            with the mean and standard deviation of the source, as described in
            `seqattn.data.instance`. `source.shift` is then 0. A feature that is constant in a
            source is shifted, but keeps the scale of the training part.
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
        """Return the scalers (N, 1, F) for sources and targets, with a shift and a scale per
        sequence.

        The shift and the scale are computed from the sources alone. If neither `relative` nor
        `instance` is set, the shift is 0 and the scale is 1.
        """
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
        """Return the size (N, 1, F) of one unit of the model in the user's units, for each sequence
        and target feature."""
        return np.asarray(self.sequence_scalers(part)[1].scale * self.target.scale)

    def transform(
        self, part: Sequences, like: DTypeLike = np.float64
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return the source (N, S, F) and the target (N, T, F) in the units of the model.

        Padding is 0. An unobserved target cell contains the decoder input for this cell, which
        `_forward_fill` computes.

        Args:
            part: the sequences.
            like: dtype of scaled values. If the scaling is the identity, the values keep their
                dtype.
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
        """Convert forecasts (..., N, T, F) of a part from the units of the model to the user's
        units."""
        if self.is_identity:
            return values
        values = self.target.inverse_transform(values)
        return self.sequence_scalers(part)[1].inverse_transform(values)

    def as_plain(self) -> dict[str, Any]:
        """Return JSON-serializable data that preserves every number exactly."""
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
        """Build the scaling from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError: if `plain` is not an output of `as_plain`, or if it has
                another number of features.
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
    """Return the target (N, T, F) with a decoder input in each unobserved cell.

    The decoder input is the last observed target value before the cell, or the last source value if
    there is no such target value. If the source lacks the feature, 0 replaces the source value.
    Later values are never used.
    """
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
    """Return the index of each target feature among the source features, or -1 if the source lacks
    the feature."""
    return tuple(features.index(name) if name in features else -1 for name in target_features)
