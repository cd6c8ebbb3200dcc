"""What many seeds can say: medians with intervals, and paired tests with their evidence.

A seed that diverged has the loss inf, so it is worse than any that did not.
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
"""Seeds below which a median has no 95% interval, and no difference can be shown."""


@dataclass(frozen=True)
class SeedSummary:
    """How one number varies over seeds.

    Attributes:
        median: of all seeds; inf where half of them or more diverged.
        median_interval: 95%, see `median_interval`; None with fewer than 6 seeds.
        mean: None where a seed diverged. It has no interval: losses over seeds are skewed, and
            neither Student's t nor a bootstrap keeps its promise with so few of them.
        best_seed, worst_seed: of the lowest and the highest number.
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
        """
        Args:
            values: one a seed, at least one; inf of a seed that diverged.
        """
        seeds, numbers = list(values), np.array(list(values.values()), dtype=np.float64)
        low, high = int(numbers.argmin()), int(numbers.argmax())
        return cls(
            float(np.median(numbers)), median_interval(numbers),
            float(numbers.mean()) if math.isfinite(numbers[high]) else None,
            float(numbers[low]), seeds[low], float(numbers[high]), seeds[high],
        )  # fmt: skip


def median_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """Two order statistics that the median lies between, whatever the distribution (Conover 1999,
    Practical Nonparametric Statistics, section 3.2).

    The k-th lowest and the k-th highest value, for the largest k with
    2 P(Binomial(n, 1/2) < k) <= level.

    Args:
        values: (n,), inf among them.

    Returns:
        None where even the lowest and the highest promise less: below 6 values for 95%.
    """
    n = len(values)
    k = int(stats.binom.ppf(level / 2, n, 0.5))
    if k < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


@dataclass(frozen=True)
class PairedTest:
    """Two variants over the seeds that both have; a pair is the same seed in both arms.

    Attributes:
        first, second: names; the difference is first - second, so below 0 the first is better.
        seeds: how many pairs.
        typical: Hodges-Lehmann estimate over the pairs that are not tied; see `SignedRank`.
        interval: of the same; the intervals of all pairs of a comparison hold together with 95%
            (Bonferroni). None with too few pairs.
        first_better: in how many pairs.
        p: Wilcoxon's signed-rank test, two-sided.
        p_holm: the same with Holm's correction (1979) for all pairs of the comparison.
        effect: matched-pairs rank-biserial correlation (Kerby 2014), -1 where the first is better
            in every pair, 1 where the second is.
        smallest_p: what p_holm would be if in every test all pairs agreed that are not tied; from
            0.05 on nothing can be shown.
        tied: in how many pairs neither is better, such as where both diverged.
        tested: pairs of variants of the comparison.
        diverged: seeds in which the first diverged, and the second.
    """

    first: str
    second: str
    seeds: int
    typical: float
    interval: Interval | None
    first_better: int
    p: float
    p_holm: float
    effect: float
    smallest_p: float
    tied: int = 0
    tested: int = 1
    diverged: tuple[int, int] = (0, 0)

    @property
    def second_better(self) -> int:
        """In how many pairs."""
        return self.seeds - self.first_better - self.tied

    @property
    def decided(self) -> bool:
        """Whether the test says that one is better, and it is so in no fewer pairs than the
        other."""
        more = self.second_better - self.first_better
        return self.p_holm < LEVEL and more * self.effect >= 0

    def sentence(self) -> str:
        """In plain words, no more than the numbers say."""
        both = f"{self.first} and {self.second}"
        if self.decided:
            return self._of_the_better()
        if self.tied == self.seeds:
            return f"{both} have the same result in all {self.seeds} seeds."
        if self.smallest_p >= LEVEL:
            tied = f", {self.tied} of them tied," if self.tied else ""
            return (
                f"{self.seeds} seeds{tied} are too few to tell {both} apart, whatever their losses."
            )
        typical = self._typical(f"{self.first} less {self.second}", 1)
        words = f"{self.seeds} seeds cannot tell {both} apart: {typical}{self._divergences()}"
        if self.p_holm < LEVEL:
            one, other = (self.first, self.second) if self.effect < 0 else (self.second, self.first)
            most = max(self.first_better, self.second_better)
            words += (
                f"; the test, which weighs the large differences, speaks for {one}"
                f" (p = {self.p_holm:.2g}), but {other} is better in {most} of {self.seeds} seeds"
            )
        elif self.p < LEVEL:  # so there are more pairs than this one
            words += (
                f"; p is {self.p:.2g} for this pair alone, but {self.p_holm:.2g} with"
                f" {self.tested} pairs tested (Holm)"
            )
        return f"{words}."

    def _of_the_better(self) -> str:
        better, worse, won, sign = self.first, self.second, self.first_better, -1
        if self.effect > 0:
            better, worse, won, sign = self.second, self.first, self.second_better, 1
        size_is_known = self.interval is not None and self.interval[0] * self.interval[1] > 0
        evidence = "" if size_is_known else f" (p = {self.p_holm:.2g}, Holm)"
        tied = f", {self.tied} tied" if self.tied else ""
        return (
            f"{better} is better than {worse}{evidence}: {self._typical('', sign)}; better in {won}"
            f" of {self.seeds} seeds{tied}{self._divergences()}."
        )

    def _typical(self, of: str, sign: int) -> str:
        """Estimate and interval of the difference, or of its opposite."""
        of = f" {of}" if of else ""
        where = " where they are not tied" if self.tied else ""
        size = "unknown" if math.isnan(self.typical) else _number(sign * self.typical)
        words = f"the typical difference{of}{where} (Hodges-Lehmann) is {size}"
        if self.interval is None:
            return f"{words}, without an interval (needs {self.pairs_needed} seeds)"
        low, high = sorted(sign * bound for bound in self.interval)
        return f"{words}, 95% interval {_number(low)} to {_number(high)}"

    @property
    def pairs_needed(self) -> int:
        """Pairs that are not tied from which on there is an interval."""
        return pairs_needed(LEVEL / self.tested)

    def _divergences(self) -> str:
        """Who diverged, and how often."""
        names = (self.first, self.second)
        found = [f"{name} diverged in {count}"
                 for name, count in zip(names, self.diverged, strict=True) if count]  # fmt: skip
        return f" ({', '.join(found)})" if found else ""


def _number(value: float) -> str:
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{value:.2g}"


def differences(groups: Iterable[Mapping[str, Mapping[int, float]]]) -> list[PairedTest]:
    """Every pair of variants of a group, corrected for the number of pairs of all groups.

    Args:
        groups: variant -> seed -> loss, inf where it diverged; pairs are the seeds that both have.
    """
    pairs = list[tuple[str, str, Floats, tuple[int, int]]]()
    every = [(losses, *two) for losses in groups for two in itertools.combinations(losses, 2)]
    for losses, first, second in every:
        shared = [seed for seed in losses[first] if seed in losses[second]]
        if len(shared) < 2:
            continue
        a, b = (np.array([losses[name][seed] for seed in shared]) for name in (first, second))
        lost = int(np.isinf(a).sum()), int(np.isinf(b).sum())
        pairs.append((first, second, paired(a, b), lost))
    found = [signed_rank(gaps, LEVEL / len(pairs)) for *_, gaps, _ in pairs]
    corrected = holm([each.p for each in found])
    smallest = holm([smallest_p(each.pairs) for each in found])
    return [
        PairedTest(
            first, second, len(gaps), each.estimate if each.pairs else 0.0, each.interval,
            int((gaps < 0).sum()), each.p, p_holm, rank_biserial(gaps), least,
            int((gaps == 0).sum()), len(pairs), lost,
        )
        for (first, second, gaps, lost), each, p_holm, least in zip(
            pairs, found, corrected, smallest, strict=True
        )
    ]  # fmt: skip


def paired(first: Floats, second: Floats) -> Floats:
    """The differences of pairs; 0 where both diverged, +-inf where one did."""
    return np.subtract(first, second, out=np.zeros(len(first)), where=first != second)


def holm(p: Sequence[float]) -> list[float]:
    """p values corrected for their number (Holm 1979, Scandinavian Journal of Statistics 6:65-70):
    a true null hypothesis among them is rejected with probability LEVEL at most."""
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
