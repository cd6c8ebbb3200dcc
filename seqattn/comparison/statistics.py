"""What many seeds can say: spreads with intervals, and paired differences with their evidence.

All by scipy, with a fixed seed for the bootstrap, so the same losses give the same numbers.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
LEVEL = 0.05
RESAMPLES = 9999
AT_ONCE = 2**24
"""Numbers of resamples that are in memory together; how many changes no interval."""


@dataclass(frozen=True)
class Spread:
    """How one number varies over seeds.

    Attributes:
        median, mean: of the seeds that have one.
        median_interval, mean_interval: 95%, by bootstrap.
        best_seed, worst_seed: of the lowest and the highest number.
    """

    median: float
    median_interval: tuple[float, float]
    mean: float
    mean_interval: tuple[float, float]
    best: float
    best_seed: int
    worst: float
    worst_seed: int

    @classmethod
    def of(cls, values: Mapping[int, float]) -> Spread:
        """
        Args:
            values: one a seed, at least one.
        """
        seeds, numbers = list(values), np.array(list(values.values()))
        low, high = int(numbers.argmin()), int(numbers.argmax())
        return cls(
            float(np.median(numbers)), interval(numbers, np.median),
            float(numbers.mean()), interval(numbers, np.mean),
            float(numbers[low]), seeds[low], float(numbers[high]), seeds[high],
        )  # fmt: skip


def interval(values: Floats, statistic: Callable[..., Any]) -> tuple[float, float]:
    """A 95% bootstrap interval (Efron 1979, percentile method) of a median or mean."""
    if len(values) < 2 or np.ptp(values) == 0:
        return float(statistic(values)), float(statistic(values))
    found = stats.bootstrap(
        (values,), statistic, n_resamples=RESAMPLES, confidence_level=1 - LEVEL,
        method="percentile", vectorized=True, rng=np.random.default_rng(0),
        batch=max(1, AT_ONCE // len(values)),
    ).confidence_interval  # fmt: skip
    return float(found.low), float(found.high)


@dataclass(frozen=True)
class Difference:
    """Two variants over the seeds that both have; a pair is the same seed in both arms.

    Attributes:
        first, second: names; the difference is first - second, so below 0 the first is better.
        seeds: how many pairs.
        median: of the differences.
        interval: of that median, 95%, by bootstrap.
        first_better: in how many pairs.
        p: Wilcoxon signed-rank test (1945), two-sided.
        p_holm: the same with Holm's correction (1979) for all pairs of the comparison.
        effect: matched-pairs rank-biserial correlation (Kerby 2014), -1 where the first is better
            in every pair, 1 where the second is.
        smallest_p: what p_holm would be if in every test all pairs agreed; from 0.05 on nothing can
            be shown.
        alike: in how many pairs neither is better.
    """

    first: str
    second: str
    seeds: int
    median: float
    interval: tuple[float, float]
    first_better: int
    p: float
    p_holm: float
    effect: float
    smallest_p: float
    alike: int = 0

    @property
    def decided(self) -> bool:
        """Test and interval both say that one is better, and the same one."""
        low, high = self.interval
        return self.p_holm < LEVEL and (low > 0 < self.effect or high < 0 > self.effect)

    def sentence(self) -> str:
        """In plain words, no more than the numbers say."""
        low, high = (abs(bound) for bound in self.interval)
        if self.decided:
            better, worse, wins = (
                (self.first, self.second, self.first_better)
                if self.median < 0
                else (self.second, self.first, self.seeds - self.first_better - self.alike)
            )
            alike = f", {self.alike} alike" if self.alike else ""
            return (
                f"{better} is better than {worse} by {min(low, high):.2g} to {max(low, high):.2g},"
                f" in {wins} of {self.seeds} seeds{alike}."
            )
        if self.smallest_p >= LEVEL:
            return (
                f"{self.seeds} seeds are too few to tell {self.first} and {self.second} apart,"
                " whatever their losses."
            )
        bounds = f"between {self.interval[0]:+.2g} and {self.interval[1]:+.2g}"
        words = f"{self.seeds} seeds cannot tell {self.first} and {self.second} apart"
        if self.interval[0] * self.interval[1] > 0:
            if self.p_holm < LEVEL:
                speaks_for = self.first if self.effect < 0 else self.second
                return (
                    f"{words}: the median difference lies {bounds}, but the test, which weighs the"
                    f" large differences, speaks for {speaks_for} (p = {self.p_holm:.2g})."
                )
            return (
                f"{words}: the median difference lies {bounds}, but with all pairs tested that can"
                f" be chance (p = {self.p_holm:.2g})."
            )
        return f"{words}: the median difference lies {bounds}."


def differences(groups: Iterable[Mapping[str, Mapping[int, float]]]) -> list[Difference]:
    """Every pair of variants of a group, corrected for the number of pairs of all groups.

    Args:
        groups: variant -> seed -> loss; pairs are the seeds that both have.
    """
    tested = []
    every = [(losses, *two) for losses in groups for two in itertools.combinations(losses, 2)]
    for losses, first, second in every:
        shared = [seed for seed in losses[first] if seed in losses[second]]
        if len(shared) < 2:
            continue
        gaps = np.array([losses[first][seed] - losses[second][seed] for seed in shared])
        tested.append((first, second, gaps, _wilcoxon(gaps)))
    corrected = holm([p for *_, p in tested])
    smallest = holm([2.0 ** (1 - len(gaps)) for *_, gaps, _ in tested])
    return [
        Difference(
            first, second, len(gaps), float(np.median(gaps)), interval(gaps, np.median),
            int((gaps < 0).sum()), p, p_holm, rank_biserial(gaps), smallest_p,
            int((gaps == 0).sum()),
        )
        for (first, second, gaps, p), p_holm, smallest_p in zip(
            tested, corrected, smallest, strict=True
        )
    ]  # fmt: skip


def _wilcoxon(gaps: Floats) -> float:
    if not gaps.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ties and zeros, where it approximates
        return float(stats.wilcoxon(gaps).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """p values corrected for their number (Holm 1979): rejects no more than LEVEL by chance."""
    order = np.argsort(p, kind="stable")
    corrected, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = highest
    return corrected


def rank_biserial(gaps: Floats) -> float:
    """Share of ranks above 0 less share below; 0 where all are 0."""
    moved = gaps[gaps != 0]
    if not len(moved):
        return 0.0
    ranks = stats.rankdata(np.abs(moved))
    return float((ranks[moved > 0].sum() - ranks[moved < 0].sum()) / ranks.sum())
