"""Variance components: how much of the variance between runs comes from the data, and how much from
the seed of the training.

In a crossed design, each of D data sets is combined with each of W seeds, and one run belongs to
each combination. The model is y_ij = mean + a_i + b_j + e_ij, with independent random effects of
data set i and seed j. Without repeated runs of a combination, the interaction of data and seed is
part of the rest e_ij.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.comparison.measures import name_measure

SOURCES = {
    "data": "the data",
    "seeds": "the seed, which is that of weights, batches and other draws",
    "rest": "the combination of data and seed",
}
"""The sources of variance, and their names in a sentence."""


@dataclass(frozen=True)
class VarianceComponents:
    """The estimated variances of a measure, in the squared unit of the measure.

    Attributes:
        data_sets: D, the number of data sets.
        seeds: W, the number of seeds.
        estimates: the variance of each of `SOURCES`. Estimates of the method of moments may be
            negative.
    """

    data_sets: int
    seeds: int
    estimates: Mapping[str, float]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> VarianceComponents:
        """Estimate the components by the method of moments: the mean squares of the two-way
        analysis of variance with random effects are set equal to their expectations (Searle,
        Casella and McCulloch 1992).

        Args:
            values: (D, W) finite values of a measure, with D and W at least 2.
        """
        D, W = values.shape
        by_data, by_seed = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
        rest = np.square(values - by_data - by_seed + values.mean()).sum() / ((D - 1) * (W - 1))
        data, seeds = W * by_data.var(ddof=1), D * by_seed.var(ddof=1)
        estimates = {"data": (data - rest) / W, "seeds": (seeds - rest) / D, "rest": rest}
        return cls(D, W, {source: float(value) for source, value in estimates.items()})

    @property
    def deviations(self) -> dict[str, float]:
        """The standard deviation of each source, in the unit of the measure. It is 0 for a negative
        estimate of the variance."""
        return {source: math.sqrt(max(0.0, value)) for source, value in self.estimates.items()}

    @property
    def shares(self) -> dict[str, float] | None:
        """The share of each source in the sum of the variances, with 0 for a negative estimate;
        None if the sum is 0."""
        squares = {source: deviation**2 for source, deviation in self.deviations.items()}
        total = sum(squares.values())
        return {source: one / total for source, one in squares.items()} if total else None

    def describe(self, name: str, measure: str) -> str:
        """Return a sentence about the components.

        Args:
            name: the name of the variant; "" if there is only one.
            measure: the measure.
        """
        of, start = name_measure(measure), f"{name}: " if name else ""
        start += f"with {self.data_sets} data sets x {self.seeds} seeds, "
        if self.shares is None:
            return f"{start}all runs have the same {of}."
        largest = max(self.shares, key=self.shares.__getitem__)
        verdict = (
            f"most of the variance of the {of} comes from {SOURCES[largest]}"
            if self.shares[largest] > 0.5
            else f"no source has most of the variance of the {of}"
        )
        parts = ", ".join(
            f"{source} {deviation:.2g} ({self.shares[source]:.0%} of the variance)"
            for source, deviation in self.deviations.items()
        )
        negative = [source for source, value in self.estimates.items() if value < 0]
        ending = (
            f" A negative estimate is reported as 0: {', '.join(negative)}." if negative else ""
        )
        return f"{start}{verdict}. Standard deviations: {parts}.{ending}"


def describe_components(
    name: str, measure: str, values: Sequence[Mapping[int, float]], planned: Sequence[Any]
) -> str:
    """Return a sentence about the variance of a measure of one variant, or about what is missing.

    Args:
        name: see `VarianceComponents.describe`.
        measure: the measure.
        values: for each data set, the values by seed.
        planned: the seeds of the design.
    """
    table = np.array([[row.get(seed, math.nan) for seed in planned] for row in values])
    if not np.isfinite(table).all() or min(table.shape) < 2:
        lacking = int((~np.isfinite(table)).sum())
        return (
            f"{name}{': ' * bool(name)}the variance of the {name_measure(measure)} cannot be"
            f" divided, because {lacking} of {table.size} runs have no finite value."
        )
    return VarianceComponents.of(table).describe(name, measure)
