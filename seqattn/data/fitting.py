"""The scaling of the user's own sequences, fitted on their training part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.instance import InstanceStatistics
from seqattn.data.scaling import (
    FeatureScale,
    Method,
    Scaler,
    Scaling,
    is_constant,
    source_indices_of,
)
from seqattn.data.sequences import Sequences
from seqattn.errors import DataError

MIN_RELATIVE_SPREAD = 1e-9
"""Spread, of the size of the values, below which it is worked out from their differences."""
MAX_SORTED_VALUES = 2**26
"""Values of a feature that are sorted in memory."""


def fit_scaling(config: OwnFile, train: Sequences) -> tuple[Scaling, list[str]]:
    """The scaling of a training part, and notes on it.

    Raises:
        DataError: data.scaling: robust, and more values than can be sorted in memory.
    """
    names = tuple(dict.fromkeys([*train.features, *train.target_features]))
    fitted = {}
    if config.scaling != "none":
        fitted = fit_features(config.scaling, names, _observed_values(config, train))
    scaling, notes = build_scaling(config, fitted, train)
    if config.normalize == "instance":
        notes += instance_notes(train)
    return scaling, notes


def _observed_values(
    config: OwnFile, train: Sequences
) -> Callable[[], Iterator[tuple[str, NDArray[np.floating]]]]:
    """What was observed of each feature, some sequences after the other: (feature, values)."""
    relative = replace(Scaling.identity(train), relative=config.relative)

    def values() -> Iterator[tuple[str, NDArray[np.floating]]]:
        for _, some in train.chunks():
            # With data.normalize: instance nothing is taken off here, so that losses count in the
            # same units as without.
            own = relative.of_each(some)
            for names, points, cells, scaler in zip(
                (some.features, some.target_features), (some.source, some.target),
                (some.source_cells, some.target_cells), own, strict=True,
            ):  # fmt: skip
                scaled = scaler.scaled(points)
                for i, name in enumerate(names):
                    yield name, scaled[:, :, i][cells[:, :, i]]

    return values


def build_scaling(
    config: OwnFile, fitted: Mapping[str, FeatureScale], train: Sequences
) -> tuple[Scaling, list[str]]:
    """The scaling of both sides from that of each feature, and notes on it.

    Args:
        fitted: empty with data.scaling: none.
    """
    notes = [
        f"{name} is always {one.shift:g} in the training part: not scaled"
        for name, one in fitted.items() if one.constant
    ] + [
        f"{name} has equal quartiles in the training part: scaled by its standard deviation"
        for name, one in fitted.items() if one.quartiles_are_equal
    ]  # fmt: skip
    instance = config.normalize == "instance"
    source, target = (
        Scaler(
            np.array([0.0 if (instance and name in train.features) or not fitted
                      else fitted[name].shift for name in names]),
            np.array([fitted[name].scale if fitted else 1.0 for name in names]),
        )
        for names in (train.features, train.target_features)
    )  # fmt: skip
    carried = source_indices_of(train.features, train.target_features)
    return Scaling(source, target, carried, config.relative, instance), notes


def instance_notes(train: Sequences) -> list[str]:
    """Notes on data.normalize: instance."""
    constant = np.zeros(len(train.features), dtype=np.int64)
    for _, some in train.chunks():
        constant += InstanceStatistics.of(some).constant.sum(axis=0)
    return [
        f"{name} is constant in {count:,} of {len(train):,} training sources: shifted there, not"
        " scaled by its own standard deviation (data.normalize)"
        for name, count in zip(train.features, constant.tolist(), strict=True) if count
    ] + [
        f"{name} is a target but no source feature, so that no source has a mean of it: it keeps"
        " the scaling of the training part (data.scaling)"
        for name in train.target_features if name not in train.features
    ]  # fmt: skip


def fit_features(
    method: Method, names: Sequence[str],
    values: Callable[[], Iterable[tuple[str, NDArray[np.floating]]]],
) -> dict[str, FeatureScale]:  # fmt: skip
    """Fit the scale of features to their values in a training part.

    standard: mean and standard deviation. minmax: the smallest becomes -1 and the largest 1.
    robust: median, and the distance between the quartiles, or the standard deviation where these
    are equal; it needs all values at once.

    Args:
        names: of the features.
        values: gives (feature, some of its values) each time it is called, one at least of each
            feature, all of them finite.

    Raises:
        DataError: robust, and more values than are sorted in memory.
    """
    seen = {name: _FeatureMoments() for name in names}
    for name, some in values():
        seen[name].add(some)
    centres = {name: one.total / max(one.n, 1) for name, one in seen.items()}
    if method in ("standard", "robust"):
        for name, some in values():
            seen[name].add_squares(some, centres[name], keep=method == "robust")
    if any(one.is_close for one in seen.values()):  # then rounding of the mean counts
        for name, some in values():
            seen[name].add_from_low(some)
        for name, some in values():
            seen[name].add_squares_from_low(some)
    return {name: one.fitted(method, centres[name]) for name, one in seen.items()}


@dataclass
class _FeatureMoments:
    """What is gathered of one feature, in up to four passes over its values."""

    n: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    squares: float = 0.0
    above: float = 0.0
    squares_above: float = 0.0
    has_squares: bool = False
    kept: list[NDArray[np.floating]] = field(default_factory=list)

    def add(self, values: NDArray[np.floating]) -> None:
        if len(values):
            self.n += len(values)
            self.total += float(values.sum(dtype=np.float64))
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))

    def add_squares(self, values: NDArray[np.floating], mean: float, *, keep: bool) -> None:
        self.has_squares = True
        self.squares += float(np.square(values - mean, dtype=np.float64).sum())
        if keep:
            if self.n > MAX_SORTED_VALUES:
                raise DataError(
                    f"data.scaling: robust needs all {self.n:,} values of a feature in memory."
                    " Choose standard or minmax."
                )
            self.kept.append(values)

    @property
    def is_close(self) -> bool:
        """Whether the values are far closer to each other than to 0."""
        if not self.n or not self.has_squares:
            return False
        spread = math.sqrt(self.squares / self.n)
        return spread < MIN_RELATIVE_SPREAD * max(abs(self.low), abs(self.high))

    def add_from_low(self, values: NDArray[np.floating]) -> None:
        self.above += float((values - self.low).sum())

    def add_squares_from_low(self, values: NDArray[np.floating]) -> None:
        mean = self.above / self.n
        self.squares_above += float(np.square(values - self.low - mean).sum())

    def fitted(self, method: Method, mean: float) -> FeatureScale:
        shift, scale, equal = 0.0, 1.0, False
        if method == "standard":
            shift, scale = mean, math.sqrt(self.squares / self.n)
            if self.is_close:
                shift = self.low + self.above / self.n
                scale = math.sqrt(self.squares_above / self.n)
        elif method == "minmax":
            shift, scale = (self.low + self.high) / 2, (self.high - self.low) / 2
        elif method == "robust":
            every = np.concatenate(self.kept)
            first, shift, last = map(float, np.percentile(every, [25, 50, 75]))
            scale, equal = last - first, is_constant(first, last)
            if equal:
                scale = float(every.std(dtype=np.float64))
        constant = is_constant(self.low, self.high)
        return FeatureScale(
            self.low if self.low == self.high else shift, 1.0 if constant else scale,
            constant and method != "none", equal and not constant,
        )  # fmt: skip
