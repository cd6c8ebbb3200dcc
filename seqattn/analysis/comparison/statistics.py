"""Statistics over seeds: medians with confidence intervals, and paired tests.

A diverged seed has the loss inf, so it is worse than every seed that did not diverge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seqattn.analysis.comparison.signed_rank import pairs_needed, signed_rank, smallest_p

Floats = NDArray[np.float64]
Interval = tuple[float, float]
LEVEL = 0.05
SEEDS_NEEDED = pairs_needed(LEVEL)
"""Minimum number of seeds for a 95% interval of the median and for a significant difference."""


@dataclass(frozen=True)
class SeedSummary:
    """Summary statistics of one value over seeds.

    Attributes:
        median: median over all seeds; inf where half of them or more diverged.
        median_interval: 95% interval, see `median_interval`; None with fewer than 6 seeds.
        mean: None where a seed diverged. It has no interval: losses over seeds are skewed, and
            with so few of them neither Student's t nor a bootstrap reaches its nominal coverage.
        best, worst: lowest and highest value.
        best_seed, worst_seed: seeds of these values.
    """

    median: float
    median_interval: Interval | None
    mean: float | None
    best: float
    best_seed: int
    worst: float
    worst_seed: int

    @classmethod
    def of(cls, values: Mapping[int, float]) -> SeedSummary:
        """Summarize the values of at least one seed.

        Args:
            values: seed -> value; inf for a diverged seed.
        """
        seeds, numbers = list(values), np.array(list(values.values()), dtype=np.float64)
        low, high = int(numbers.argmin()), int(numbers.argmax())
        return cls(
            float(np.median(numbers)), median_interval(numbers),
            float(numbers.mean()) if math.isfinite(numbers[high]) else None,
            float(numbers[low]), seeds[low], float(numbers[high]), seeds[high],
        )  # fmt: skip


def median_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """Distribution-free confidence interval of the median between two order statistics (Conover
    1999, Practical Nonparametric Statistics, section 3.2).

    The bounds are the k-th lowest and the k-th highest value, for the largest k with
    2 P(Binomial(n, 1/2) < k) <= level.

    Args:
        values: (n,), may contain inf.
        level: 1 minus the confidence.

    Returns:
        lower and upper bound; None where even the lowest and highest value have less confidence
        than asked for: below 6 values for 95%.
    """
    n = len(values)
    k = int(stats.binom.ppf(level / 2, n, 0.5))
    if k < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


@dataclass(frozen=True)
class PairedTest:
    """Paired test of two variants over the seeds that both have; a pair is one seed of both.

    Attributes:
        first, second: names of the variants. The difference is first - second: negative where the
            first has the lower loss.
        seeds: number of pairs.
        estimate: Hodges-Lehmann estimate of the difference over the pairs that are not tied; see
            `SignedRank`.
        interval: simultaneous 95% interval of the difference (Bonferroni over all pairs of the
            comparison). None with too few pairs.
        first_wins: number of pairs in which the first variant has the lower loss.
        p: two-sided p value of Wilcoxon's signed-rank test.
        p_holm: p value with Holm's correction (1979) for all tests of the comparison.
        effect: matched-pairs rank-biserial correlation (Kerby 2014), -1 where the first variant is
            better in every pair, 1 where the second is.
        smallest_p: p_holm if all untied pairs of every test had the same sign; at 0.05 or more, no
            difference can be significant.
        ties: number of pairs with equal losses, such as where both diverged.
        num_tests: number of tests of the comparison.
        diverged: number of diverged seeds of the first and of the second variant.
    """

    first: str
    second: str
    seeds: int
    estimate: float
    interval: Interval | None
    first_wins: int
    p: float
    p_holm: float
    effect: float
    smallest_p: float
    ties: int = 0
    num_tests: int = 1
    diverged: tuple[int, int] = (0, 0)

    @property
    def second_wins(self) -> int:
        """Number of pairs in which the second variant has the lower loss."""
        return self.seeds - self.first_wins - self.ties

    @property
    def is_decided(self) -> bool:
        """Whether the test is significant and the better variant wins at least as many pairs."""
        more = self.second_wins - self.first_wins
        return self.p_holm < LEVEL and more * self.effect >= 0

    def describe(self) -> str:
        """The result of the test as a sentence."""
        both = f"{self.first} and {self.second}"
        if self.is_decided:
            return self._describe_decision()
        if self.ties == self.seeds:
            return f"{both} have the same result in all {self.seeds} seeds."
        if self.smallest_p >= LEVEL:
            ties = f", {self.ties} of them tied," if self.ties else ""
            return (
                f"{self.seeds} seeds{ties} are too few to tell {both} apart, whatever their losses."
            )
        estimate = self._describe_estimate(f"{self.first} less {self.second}", 1)
        words = (
            f"{self.seeds} seeds cannot tell {both} apart: {estimate}{self._describe_divergence()}"
        )
        if self.p_holm < LEVEL:
            one, other = (self.first, self.second) if self.effect < 0 else (self.second, self.first)
            most = max(self.first_wins, self.second_wins)
            words += (
                f"; the test, which weighs the large differences, speaks for {one}"
                f" (p = {self.p_holm:.2g}), but {other} is better in {most} of {self.seeds} seeds"
            )
        elif self.p < LEVEL:  # so there are several tests
            words += (
                f"; p is {self.p:.2g} for this pair alone, but {self.p_holm:.2g} with"
                f" {self.num_tests} pairs tested (Holm)"
            )
        return f"{words}."

    def _describe_decision(self) -> str:
        better, worse, won, sign = self.first, self.second, self.first_wins, -1
        if self.effect > 0:
            better, worse, won, sign = self.second, self.first, self.second_wins, 1
        size_is_known = self.interval is not None and self.interval[0] * self.interval[1] > 0
        evidence = "" if size_is_known else f" (p = {self.p_holm:.2g}, Holm)"
        ties = f", {self.ties} tied" if self.ties else ""
        return (
            f"{better} is better than {worse}{evidence}: {self._describe_estimate('', sign)};"
            f" better in {won} of {self.seeds} seeds{ties}{self._describe_divergence()}."
        )

    def _describe_estimate(self, of: str, sign: int) -> str:
        """The estimated difference and its interval as text.

        Args:
            of: name of the difference.
            sign: 1, or -1 to describe second - first.
        """
        of = f" {of}" if of else ""
        where = " where they are not tied" if self.ties else ""
        size = "unknown" if math.isnan(self.estimate) else format_number(sign * self.estimate)
        words = f"the typical difference{of}{where} (Hodges-Lehmann) is {size}"
        if self.interval is None:
            return f"{words}, without an interval (needs {self.pairs_needed} seeds)"
        low, high = sorted(sign * bound for bound in self.interval)
        return f"{words}, 95% interval {format_number(low)} to {format_number(high)}"

    @property
    def pairs_needed(self) -> int:
        """Minimum number of untied pairs for an interval."""
        return pairs_needed(LEVEL / self.num_tests)

    def _describe_divergence(self) -> str:
        """The number of diverged seeds of each variant in parentheses; "" where none diverged."""
        names = (self.first, self.second)
        found = [f"{name} diverged in {count}"
                 for name, count in zip(names, self.diverged, strict=True) if count]  # fmt: skip
        return f" ({', '.join(found)})" if found else ""


def format_number(value: float, spec: str = ".2g") -> str:
    """A number as text, with an infinite one spelled out.

    Args:
        spec: format specification; one that begins with "+" shows the sign of positive numbers.
    """
    if not math.isinf(value):
        return format(value, spec)
    return ("-" if value < 0 else "+" * spec.startswith("+")) + "infinity"


def paired_tests(groups: Iterable[Mapping[str, Mapping[int, float]]]) -> list[PairedTest]:
    """Test every pair of variants within each group, corrected for the number of all tests.

    Args:
        groups: each variant -> seed -> loss, inf where the seed diverged. The pairs of a test are
            the seeds that both variants have; a test needs two.
    """
    pairs = list[tuple[str, str, Floats, tuple[int, int]]]()
    every = [(losses, *two) for losses in groups for two in itertools.combinations(losses, 2)]
    for losses, first, second in every:
        shared = [seed for seed in losses[first] if seed in losses[second]]
        if len(shared) < 2:
            continue
        a, b = (np.array([losses[name][seed] for seed in shared]) for name in (first, second))
        lost = int(np.isinf(a).sum()), int(np.isinf(b).sum())
        pairs.append((first, second, subtract_pairs(a, b), lost))
    found = [signed_rank(differences, LEVEL / len(pairs)) for *_, differences, _ in pairs]
    corrected = holm([each.p for each in found])
    smallest = holm([smallest_p(each.pairs) for each in found])
    return [
        PairedTest(
            first, second, len(differences), each.estimate if each.pairs else 0.0, each.interval,
            int((differences < 0).sum()), each.p, p_holm, rank_biserial(differences), least,
            int((differences == 0).sum()), len(pairs), lost,
        )
        for (first, second, differences, lost), each, p_holm, least in zip(
            pairs, found, corrected, smallest, strict=True
        )
    ]  # fmt: skip


def subtract_pairs(first: Floats, second: Floats) -> Floats:
    """first - second, (n,); 0 where both diverged, +-inf where one did."""
    return np.subtract(first, second, out=np.zeros(len(first)), where=first != second)


def holm(p: Sequence[float]) -> list[float]:
    """p values with Holm's correction (1979, Scandinavian Journal of Statistics 6:65-70), which
    bounds the probability of rejecting any true null hypothesis by the level."""
    order = np.argsort(p, kind="stable")
    corrected, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = highest
    return corrected


def rank_biserial(differences: Floats) -> float:
    """Rank-biserial correlation of differences (n,): the share of positive ranks minus the share of
    negative ranks; 0 where all differences are 0."""
    nonzero = differences[differences != 0]
    if not len(nonzero):
        return 0.0
    ranks = stats.rankdata(np.abs(nonzero))
    return float((ranks[nonzero > 0].sum() - ranks[nonzero < 0].sum()) / ranks.sum())
