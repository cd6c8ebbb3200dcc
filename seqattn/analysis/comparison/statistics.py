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
from scipy import special

from seqattn.analysis.comparison.signed_rank import pairs_needed, signed_rank, smallest_p

Floats = NDArray[np.float64]
Interval = tuple[float, float]
LEVEL = 0.05
SEEDS_NEEDED = pairs_needed(LEVEL)
"""The smallest number of seeds for which a 95% interval of the median exists and a difference can
be significant."""


@dataclass(frozen=True)
class SeedSummary:
    """Summary statistics of a value, such as the test loss, over seeds.

    Attributes:
        median: the median over all seeds; inf if at least half of the seeds diverged.
        median_interval: the 95% interval of the median from the function `median_interval`; None
            for fewer than 6 seeds.
        mean: the mean over all seeds; None if a seed diverged. The mean has no interval, because
            losses over seeds are skewed, and neither Student's t nor a bootstrap reaches its
            nominal coverage with few seeds.
        best, worst: the lowest value and the highest value.
        best_seed, worst_seed: the seed with the lowest value and the seed with the highest value.
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
        """Summarize the values of one or more seeds.

        Args:
            values: the value of each seed, inf for a diverged seed.
        """
        seeds, numbers = list(values), np.array(list(values.values()), dtype=np.float64)
        low, high = int(numbers.argmin()), int(numbers.argmax())
        finite = math.isfinite(numbers[high])
        # A sum of very large losses would not be finite.
        scale = 2.0**64 if finite and numbers[high] > 2.0**900 else 1.0
        return cls(
            float(np.median(numbers / scale)) * scale, median_interval(numbers),
            float((numbers / scale).mean()) * scale if finite else None,
            float(numbers[low]), seeds[low], float(numbers[high]), seeds[high],
        )  # fmt: skip


def median_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """Compute a distribution-free confidence interval of the median from two order statistics.

    The bounds are the k-th lowest and the k-th highest value for the largest k with 2 P(Binomial(n,
    1/2) < k) < level (Conover 1999, Practical Nonparametric Statistics, section 3.2).

    Args:
        values: (n,), the values. A value may be inf.
        level: 1 minus the confidence level.

    Returns:
        The lower bound and the upper bound; None if there are too few values for this confidence
        level. A 95% interval needs at least 6 values.
    """
    n = len(values)
    cumulative = special.bdtr(np.arange(n + 1), n, 0.5)  # P(Binomial(n, 1/2) <= k) for each k
    k = int(np.searchsorted(cumulative, level / 2))
    if k < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


@dataclass(frozen=True)
class PairedTest:
    """A paired test of two variants. For each seed for which both variants have a result, the two
    runs form a pair.

    Attributes:
        first, second: the names of the variants. The difference of a pair is the loss of the first
            variant minus the loss of the second variant. The difference is negative if the first
            variant is better.
        seeds: the number of pairs.
        estimate: the Hodges-Lehmann estimate of the difference over the pairs that are not tied,
            as in `SignedRank`; 0 if all pairs are tied.
        interval: the simultaneous 95% interval of the difference, with a Bonferroni correction for
            all tests of the comparison; None if there are too few untied pairs.
        first_wins: the number of pairs in which the first variant has the lower loss.
        p: the two-sided p-value of Wilcoxon's signed-rank test.
        p_holm: the p-value with Holm's correction (1979) for all tests of the comparison.
        effect: the matched-pairs rank-biserial correlation (Kerby 2014). The correlation is -1 if
            the first variant is better in every pair, and 1 if the second variant is better in
            every pair.
        smallest_p: the value that `p_holm` would have if, in every test, all untied differences had
            the same sign. If this value is 0.05 or more, the difference cannot be significant.
        smallest_p_untied: the value that `smallest_p` would have without ties. If this value is
            0.05 or more, no losses of these numbers of pairs could make the difference significant.
        ties: the number of pairs with equal losses. A pair in which both runs diverged is tied.
        num_tests: the number of tests of the comparison.
        diverged: the number of pairs in which the first variant diverged, and the number of pairs
            in which the second variant diverged.
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
    smallest_p_untied: float = 0.0
    ties: int = 0
    num_tests: int = 1
    diverged: tuple[int, int] = (0, 0)

    @property
    def second_wins(self) -> int:
        """The number of pairs in which the second variant has the lower loss."""
        return self.seeds - self.first_wins - self.ties

    @property
    def is_decided(self) -> bool:
        """Whether the test is significant, and the variant that the test favors wins at least as
        many pairs as the other variant."""
        more = self.second_wins - self.first_wins
        return self.p_holm < LEVEL and more * self.effect >= 0

    def describe(self) -> str:
        """Return the result of the test as one or two sentences."""
        both = f"{self.first} and {self.second}"
        if self.is_decided:
            return self._describe_decision()
        if self.ties == self.seeds:
            diverged, _ = self.diverged
            if diverged == self.seeds:
                return f"{both} diverged in all {self.seeds} seeds."
            details = (
                f": both diverged in {diverged}, and their losses are equal in the others"
                if diverged
                else ""
            )
            return f"{both} have the same result in all {self.seeds} seeds{details}."
        if self.smallest_p_untied >= LEVEL:
            return f"{self.seeds} seeds are too few to tell {both} apart, whatever their losses."
        if self.smallest_p >= LEVEL:
            return (
                f"{self.seeds} seeds cannot tell {both} apart: with the tied seeds of this"
                f" comparison, p cannot be below {format_p(self.smallest_p)} (Holm)."
            )
        estimate = self._describe_estimate(f"{self.first} minus {self.second}", 1)
        words = (
            f"{self.seeds} seeds cannot tell {both} apart: {estimate}{self._describe_divergence()}"
        )
        if self.p_holm < LEVEL:
            one, other = (self.first, self.second) if self.effect < 0 else (self.second, self.first)
            most = max(self.first_wins, self.second_wins)
            words += (
                f"; the test, which gives large differences more weight, favors {one}"
                f" (p = {format_p(self.p_holm)}, Holm), but {other} is better in {most} of"
                f" {self.seeds} seeds"
            )
        elif self.p < LEVEL:  # p_holm exceeds p, so there are several tests
            words += (
                f"; p is {format_p(self.p)} for this pair alone, but {format_p(self.p_holm)}"
                f" with Holm's correction for {self.num_tests} pairs"
            )
        return f"{words}."

    def _describe_decision(self) -> str:
        better, worse, won, sign = self.first, self.second, self.first_wins, -1
        if self.effect > 0:
            better, worse, won, sign = self.second, self.first, self.second_wins, 1
        size_is_known = self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)
        evidence = "" if size_is_known else f" (p = {format_p(self.p_holm)}, Holm)"
        ties = f", {self.ties} tied" if self.ties else ""
        estimate = self._describe_estimate(f"{worse} minus {better}", sign)
        words = (
            f"{better} is better than {worse}{evidence}: {estimate};"
            f" {better} is better in {won} of {self.seeds} seeds{ties}"
            f"{self._describe_divergence()}."
        )
        if size_is_known or self.interval is None:
            return words
        return (
            f"{words} The interval contains 0 because Bonferroni's correction of the"
            f" {self.num_tests} intervals is stricter than Holm's correction of the p-values."
        )

    def _describe_estimate(self, subtraction: str, sign: int) -> str:
        """Return the estimated difference and its interval as text.

        Args:
            subtraction: the difference in words, such as `a minus b`.
            sign: 1 if the text describes the loss of the first variant minus the loss of the second
                variant, and -1 if the text describes the reverse difference.
        """
        untied = " over the seeds that are not tied" if self.ties else ""
        size = "unknown" if math.isnan(self.estimate) else format_number(sign * self.estimate)
        words = f"the typical difference in loss{untied}, {subtraction} (Hodges-Lehmann), is {size}"
        if self.interval is None:
            return f"{words}, without an interval ({self.interval_needs})"
        low, high = sorted(sign * bound for bound in self.interval)
        return f"{words} (95% interval: {format_number(low)} to {format_number(high)})"

    @property
    def interval_needs(self) -> str:
        """The smallest number of seeds for which an interval exists, in words."""
        untied = " without ties" if self.ties else ""
        return f"needs {pairs_needed(LEVEL / self.num_tests)} seeds{untied}"

    def _describe_divergence(self) -> str:
        """Return a note in parentheses with the number of diverged seeds of each variant, or "" if
        no seed diverged."""
        names = (self.first, self.second)
        found = [f"{name} diverged in {count}"
                 for name, count in zip(names, self.diverged, strict=True) if count]  # fmt: skip
        return f" ({', '.join(found)})" if found else ""


def format_number(value: float, spec: str = ".2g") -> str:
    """Format a number. An infinite number becomes `infinity` or `-infinity`.

    Args:
        value: the number.
        spec: a format specification. If the specification begins with "+", positive numbers also
            get a sign.
    """
    if not math.isinf(value):
        return format(value, spec)
    return ("-" if value < 0 else "+" * spec.startswith("+")) + "infinity"


def format_p(p: float) -> str:
    """Format a p-value with two significant digits, or with as many as show whether it is below
    `LEVEL`."""
    return next(
        text for digits in range(2, 18) if (float(text := f"{p:.{digits}g}") < LEVEL) == (p < LEVEL)
    )


def paired_tests(groups: Iterable[Mapping[str, Mapping[int, float]]]) -> list[PairedTest]:
    """Test every pair of variants within each group, and correct for the total number of tests.

    Args:
        groups: for each group of variants, the losses by variant name and seed. The loss of a
            diverged seed is inf. The test of two variants uses the seeds that both variants have.
            Two variants with fewer than two common seeds are not tested.
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
    untied = holm([smallest_p(len(differences)) for *_, differences, _ in pairs])
    return [
        PairedTest(
            first, second, len(differences), each.estimate if each.pairs else 0.0, each.interval,
            int((differences < 0).sum()), each.p, p_holm, rank_biserial(differences), least,
            without_ties, int((differences == 0).sum()), len(pairs), lost,
        )
        for (first, second, differences, lost), each, p_holm, least, without_ties in zip(
            pairs, found, corrected, smallest, untied, strict=True
        )
    ]  # fmt: skip


def subtract_pairs(first: Floats, second: Floats) -> Floats:
    """Return the loss of the first run minus the loss of the second run for each of n pairs, (n,).

    The difference is 0 if both runs of a pair diverged, and inf or -inf if only one run of a pair
    diverged.
    """
    return np.subtract(first, second, out=np.zeros(len(first)), where=first != second)


def holm(p: Sequence[float]) -> list[float]:
    """Apply Holm's correction (1979, Scandinavian Journal of Statistics 6:65-70) to p-values.

    With this correction, the probability of rejecting at least one true null hypothesis is at most
    the significance level.
    """
    order = np.argsort(p, kind="stable")
    corrected, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        corrected[place] = highest
    return corrected


def rank_biserial(differences: Floats) -> float:
    """Return the matched-pairs rank-biserial correlation.

    The correlation is the share of the rank sum that belongs to positive differences, minus the
    share that belongs to negative differences. The correlation is 0 if all differences are 0.

    Args:
        differences: (n,), the differences of the pairs.
    """
    nonzero = differences[differences != 0]
    if not len(nonzero):
        return 0.0
    _, group, sizes = np.unique(np.abs(nonzero), return_inverse=True, return_counts=True)
    ranks = (sizes.cumsum() - (sizes - 1) / 2)[group]  # equal numbers share their mean rank
    return float((ranks[nonzero > 0].sum() - ranks[nonzero < 0].sum()) / ranks.sum())
