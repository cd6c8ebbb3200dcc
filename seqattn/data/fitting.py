"""Functions that fit the scaling of a data set to its training part, for data sets from files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import InstanceStatistics, Scaling, Space, Vectors, is_rounding_only
from seqattn.errors import DataError

Method = Literal["standard", "minmax", "robust"]
MIN_RELATIVE_SPREAD = 1e-9
"""Relative standard deviation below which the standard deviation is recomputed from the differences
between the values and their minimum."""
MIN_SCALE = 1e-100
"""Smallest scale of a feature. The squares of smaller values could underflow in float64."""
MIN_UNSCALED_VALUE = 1e-15
"""Smallest value that the largest absolute value of an unscaled feature may have, except 0. The
square of a smaller value could underflow in float32."""
MAX_SORTED_VALUES = 2**26
"""Maximum number of values of one feature that are sorted in memory."""


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


def fit_spaces(
    config: OwnFile, train: Sequences, *, fits: bool = True
) -> tuple[tuple[Space, Space], list[str]]:
    """Build the spaces of sources and targets, with a scaling that is fitted to a training part.

    Args:
        config: the data section of the config.
        train: the training part.
        fits: whether to fit the shift and scale of each feature. With False, they are 0 and 1.

    Returns:
        the space of the sources and the space of the targets, and notes for the user.

    Raises:
        DataError: if the values of a feature are too small, or if `data.scaling` is `robust` and
            there are too many values to sort in memory.
    """
    names = tuple(dict.fromkeys([*train.features, *train.target_features]))
    if not fits:
        return _build_spaces(config, {}, train)
    fitted, values = {}, _observed_values(config, train)
    if config.scaling != "none":
        fitted = fit_features(config.scaling, names, values)
    else:
        largest = dict.fromkeys(names, 0.0)
        for name, chunk in values():
            largest[name] = max(largest[name], float(np.abs(chunk).max(initial=0)))
        for name, value in largest.items():
            is_normalized = config.normalize == "instance" and name in train.features
            smallest = MIN_SCALE if is_normalized else MIN_UNSCALED_VALUE
            if 0 < value < smallest:
                raise DataError(
                    f"{name}: the largest absolute value in the training part is {value:g}; without"
                    f" data.scaling, the smallest supported one is {smallest:g}. Set data.scaling,"
                    " or multiply the column by a constant."
                )
    spaces, notes = _build_spaces(config, fitted, train)
    if config.normalize == "instance":
        notes += normalization_notes(train)
    return spaces, notes


def _observed_values(
    config: OwnFile, train: Sequences
) -> Callable[[], Iterator[tuple[str, NDArray[np.floating]]]]:
    """Return a function that yields pairs (feature name, observed values) chunk by chunk. If
    `data.relative` is set, the last source step is subtracted from the values."""
    # `data.normalize: instance` is not applied here, so that losses have the same units with and
    # without this option.
    source, target = (
        Vectors(names, Scaling(np.zeros(len(names)), np.ones(len(names)), config.relative))
        for names in (train.features, train.target_features)
    )

    def values() -> Iterator[tuple[str, NDArray[np.floating]]]:
        for _, chunk in train.with_spaces(source, target).chunks():
            for names, points, cells, scaler in zip(
                (chunk.features, chunk.target_features), (chunk.source, chunk.target),
                (chunk.source_cells, chunk.target_cells), chunk.sequence_scalers(), strict=True,
            ):  # fmt: skip
                scaled = scaler.transform(points)
                for i, name in enumerate(names):
                    yield name, scaled[:, :, i][cells[:, :, i]]

    return values


def _build_spaces(
    config: OwnFile, fitted: Mapping[str, FeatureScale], train: Sequences
) -> tuple[tuple[Space, Space], list[str]]:
    """Build the spaces of sources and targets from the scales of the features.

    Args:
        config: the data section of the config.
        fitted: the fitted scale of each feature by name; empty if `data.scaling` is `none`.
        train: the training part.

    Returns:
        the space of the sources and the space of the targets, and notes for the user.
    """
    notes = [
        f"{name} is always {one.shift:g} in the training part: not scaled"
        for name, one in fitted.items() if one.constant
    ] + [
        f"{name} has equal quartiles in the training part: scaled by its standard deviation"
        for name, one in fitted.items() if one.quartiles_are_equal
    ]  # fmt: skip
    instance = config.normalize == "instance"
    units = config.units or {}
    source, target = (
        Vectors(names, Scaling(
            np.array([0.0 if (instance and name in train.features) or not fitted
                      else fitted[name].shift for name in names]),
            np.array([fitted[name].scale if fitted else 1.0 for name in names]),
            config.relative, instance,
        ), {name: units[name] for name in names if name in units})
        for names in (train.features, train.target_features)
    )  # fmt: skip
    return (source, target), notes


def normalization_notes(train: Sequences) -> list[str]:
    """Return notes for the user on the effects of `data.normalize: instance`."""
    constant = np.zeros(len(train.features), dtype=np.int64)
    for _, chunk in train.chunks():
        constant += InstanceStatistics.of(chunk.source, chunk.source_cells).constant.sum(axis=0)
    return [
        f"{name} is constant in {count:,} of {len(train):,} training sources: shifted there, not"
        " scaled by its own standard deviation (data.normalize)"
        for name, count in zip(train.features, constant.tolist(), strict=True) if count
    ] + [
        f"{name} is a target feature but not a source feature, so it has no mean in a source; it"
        " keeps the scaling of the training part (data.scaling)"
        for name in train.target_features if name not in train.features
    ]  # fmt: skip


def fit_features(
    method: Method, names: Sequence[str],
    values: Callable[[], Iterable[tuple[str, NDArray[np.floating]]]],
) -> dict[str, FeatureScale]:  # fmt: skip
    """Fit the shift and scale of each feature to its values in a training part.

    The method `standard` uses the mean and the standard deviation. The method `minmax` maps the
    smallest value to -1 and the largest value to 1. The method `robust` uses the median and the
    interquartile range, or the standard deviation if the quartiles are equal. The method `robust`
    keeps all values in memory. The scale of a constant feature is 1.

    Args:
        method: `standard`, `minmax` or `robust`.
        names: names of the features.
        values: function that is called for each pass over the data. The function yields pairs
            (feature name, some values of the feature). All values are finite, and each feature has
            at least one value.

    Raises:
        DataError: if the scale of a feature is below `MIN_SCALE`, or if the method is `robust` and
            there are too many values to sort in memory.
    """
    seen = {name: _FeatureMoments() for name in names}
    for name, chunk in values():
        seen[name].add(chunk)
    centres = {name: one.total / max(one.n, 1) for name, one in seen.items()}
    if method in ("standard", "robust"):
        for name, chunk in values():
            seen[name].add_squares(chunk, centres[name], keep=method == "robust")
    if any(one.is_nearly_constant for one in seen.values()):  # rounding errors of the mean matter
        for name, chunk in values():
            seen[name].add_above_low(chunk)
        for name, chunk in values():
            seen[name].add_squares_above_low(chunk)
    fitted = {name: one.fitted(method, centres[name]) for name, one in seen.items()}
    for name, scale in fitted.items():
        if scale.scale < MIN_SCALE:
            raise DataError(
                f"{name}: the values in the training part, from {seen[name].low:g} to"
                f" {seen[name].high:g}, have a scale below {MIN_SCALE:g}, the smallest supported"
                f" scale (data.scaling: {method}). Multiply the column by a constant."
            )
    return fitted


@dataclass
class _FeatureMoments:
    """Sums and extremes of the values of one feature, accumulated in up to four passes."""

    n: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    squares: float = 0.0
    above: float = 0.0
    squares_above: float = 0.0
    has_squares: bool = False
    values: list[NDArray[np.floating]] = field(default_factory=list)

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
            self.values.append(values)

    @property
    def is_nearly_constant(self) -> bool:
        """Whether the standard deviation is tiny relative to the largest absolute value."""
        if not self.n or not self.has_squares:
            return False
        spread = math.sqrt(self.squares / self.n)
        return spread < MIN_RELATIVE_SPREAD * max(abs(self.low), abs(self.high))

    def add_above_low(self, values: NDArray[np.floating]) -> None:
        self.above += float((values - self.low).sum())

    def add_squares_above_low(self, values: NDArray[np.floating]) -> None:
        mean = self.above / self.n
        self.squares_above += float(np.square(values - self.low - mean).sum())

    def fitted(self, method: Method, mean: float) -> FeatureScale:
        equal = False
        if method == "standard":
            shift, scale = mean, math.sqrt(self.squares / self.n)
            if self.is_nearly_constant:
                shift = self.low + self.above / self.n
                scale = math.sqrt(self.squares_above / self.n)
        elif method == "minmax":
            shift, scale = (self.low + self.high) / 2, (self.high - self.low) / 2
        else:
            every = np.concatenate(self.values)
            first, shift, last = map(float, np.percentile(every, [25, 50, 75]))
            scale, equal = last - first, _is_constant(first, last)
            if equal:
                scale = float(every.std(dtype=np.float64))
        constant = _is_constant(self.low, self.high)
        return FeatureScale(
            self.low if self.low == self.high else shift, 1.0 if constant else scale,
            constant, equal and not constant,
        )  # fmt: skip


def _is_constant(low: float, high: float) -> bool:
    return bool(is_rounding_only(np.array(low), np.array(high)))
