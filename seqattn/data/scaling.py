"""From the user's units to numbers a model likes, and back.

Whatever leaves the program is in the user's units again: forecasts, plots, errors. Losses are
those that training makes small, of scaled numbers, so that features in different units count alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Sequences

Method = Literal["none", "standard", "minmax", "robust"]


@dataclass(frozen=True, eq=False)
class Scaler:
    """(points - shift) / scale, feature by feature.

    Attributes:
        shift: (F,) in the user's units.
        scale: (F,) in the user's units, above 0.
    """

    shift: Floats
    scale: Floats

    @classmethod
    def identity(cls, features: int) -> Scaler:
        return cls(np.zeros(features), np.ones(features))

    @classmethod
    def fit(cls, method: Method, points: Floats) -> Scaler:
        """Fit to the points of a training part.

        standard: mean and standard deviation. minmax: the smallest becomes -1 and the largest 1.
        robust: median, and the distance between the quartiles. A feature that does not change has
        scale 1.

        Args:
            points: (L, F), all of them real.
        """
        if method == "none":
            return cls.identity(points.shape[1])
        points = np.asarray(points, dtype=np.float64)
        match method:
            case "standard":
                shift, scale = points.mean(axis=0), points.std(axis=0)
            case "minmax":
                low, high = points.min(axis=0), points.max(axis=0)
                shift, scale = (low + high) / 2, (high - low) / 2
            case "robust":
                low, shift, high = np.percentile(points, [25, 50, 75], axis=0)
                scale = high - low
        # What does not change has a spread of rounding errors at most.
        constant = scale <= 1e-12 * np.maximum(np.abs(points).max(axis=0), 1e-300)
        return cls(shift, np.where(constant, 1.0, scale))

    @property
    def is_identity(self) -> bool:
        return bool((self.shift == 0).all() and (self.scale == 1).all())

    def scaled(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """(..., F) in the user's units to the model's."""
        return points if self.is_identity else (points - self.shift) / self.scale

    def unscaled(self, points: Floats) -> Floats:
        """(..., F) in the model's units to the user's."""
        return points if self.is_identity else points * self.scale + self.shift


@dataclass(frozen=True)
class Scaling:
    """Both sides of sequences, and whether each is taken relative to its last source point.

    A feature that is given and to be said is scaled alike on both sides.

    Attributes:
        source, target: of their features.
        carried: for each target feature its place among the source's, or -1.
        relative: each sequence's last source point is subtracted first, from source and target,
            and added again at the end: then a level that was never seen in training is none for
            the model. Features that are only said are left as they are.
    """

    source: Scaler
    target: Scaler
    carried: tuple[int, ...]
    relative: bool = False

    @classmethod
    def identity(cls, part: Sequences) -> Scaling:
        return cls(
            Scaler.identity(len(part.features)),
            Scaler.identity(len(part.said)),
            places_in(part.features, part.said),
        )

    @property
    def is_identity(self) -> bool:
        return self.source.is_identity and self.target.is_identity and not self.relative

    def offsets(self, part: Sequences) -> tuple[Floats, Floats]:
        """(N, 1, F) of source and target: what is subtracted from each sequence before all else."""
        return relative_offsets(part, self.carried) if self.relative else no_offsets(part)

    def scaled(self, part: Sequences) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Source (N, S, F) and target (N, T, F) in the model's units, padding 0."""
        if self.is_identity:
            return part.source, part.target
        of_source, of_target = self.offsets(part)
        source = self.source.scaled(part.source - of_source)
        target = self.target.scaled(part.target - of_target)
        return (
            np.where(part.source_keep[:, :, None], source, 0.0),
            np.where(part.target_keep[:, :, None], target, 0.0),
        )

    def unscaled(self, values: Floats, part: Sequences) -> Floats:
        """Forecasts (..., N, T, F) of a part in the user's units."""
        if self.is_identity:
            return values
        return self.target.unscaled(values) + self.offsets(part)[1]

    def as_plain(self) -> dict[str, Any]:
        """For JSON; every number reads back as the same."""
        return {
            "source": {"shift": self.source.shift.tolist(), "scale": self.source.scale.tolist()},
            "target": {"shift": self.target.shift.tolist(), "scale": self.target.scale.tolist()},
            "relative": self.relative,
        }

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], features: Sequence[str], said: Sequence[str]
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

        if not isinstance(plain["relative"], bool):
            raise ValueError("relative is true or false")
        carried = places_in(tuple(features), tuple(said))
        return cls(of("source", features), of("target", said), carried, plain["relative"])


def places_in(features: tuple[str, ...], said: tuple[str, ...]) -> tuple[int, ...]:
    """For each target feature its place among the source's, or -1."""
    return tuple(features.index(name) if name in features else -1 for name in said)


def no_offsets(part: Sequences) -> tuple[Floats, Floats]:
    N, _, _ = part.source.shape
    return np.zeros((N, 1, len(part.features))), np.zeros((N, 1, len(part.said)))


def relative_offsets(part: Sequences, carried: tuple[int, ...]) -> tuple[Floats, Floats]:
    """The last source point of each sequence, for its source and for the target features in it."""
    last = np.asarray(part.source[np.arange(len(part)), part.source_lengths - 1], dtype=np.float64)
    with_none = np.concatenate([last, np.zeros((len(part), 1))], axis=1)
    return last[:, None], with_none[:, list(carried)][:, None]
