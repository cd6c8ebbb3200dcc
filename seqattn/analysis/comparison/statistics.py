"""Statistics over seeds: medians with confidence intervals, and paired tests.

A diverged seed has the loss inf, so it is worse than every seed that did not diverge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from seqattn.analysis.comparison.measures import name_measure
from seqattn.analysis.comparison.signed_rank import (
    equality_p,
    pairs_needed,
    seeds_for_power,
    signed_rank,
    smallest_p,
)
from seqattn.config.comparing import ONLY_LOSS, Questions

Floats = NDArray[np.float64]
Interval = tuple[float, float]
LEVEL = 0.05
POWER = 0.8
"""The probability with which the number of seeds for `Questions.power` shows the difference."""
RATE_DIGITS = 12
"""Decimals to which differences of rates are rounded, so that equal differences stay equal."""
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
        measure: the measure that is tested. All attributes call its value the loss.
        margin: the difference that does not matter; None if equality is not tested.
        p_equal: the p-value of equality within the margin (`equality_p`), with Holm's correction
            for all tests of equality of the comparison; 1 if equality is not tested.
        sought: the difference that matters; None if there is none.
        seeds_needed: the number of seeds that would show the difference `sought` with a probability
            of 80% at the level of an interval; None if it is unknown.
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
    measure: str = "loss"
    margin: float | None = None
    p_equal: float = 1.0
    sought: float | None = None
    seeds_needed: int | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the test shows that the variants are equal within the margin."""
        return self.p_equal < LEVEL

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
        """Return the results of the tests as one or more sentences."""
        return " ".join(filter(None, [
            self._describe_difference(), self._describe_equality(), self._describe_power()
        ]))  # fmt: skip

    def _describe_equality(self) -> str:
        """Return a sentence about equality within the margin; "" if it is not tested."""
        if self.margin is None:
            return ""
        means = f"equal in {name_measure(self.measure)} within {format_number(self.margin)}"
        p = f"two one-sided tests, p = {format_p(self.p_equal)}" + ", Holm" * (self.num_tests > 1)
        if self.is_equal:
            return f"They are {means} ({p})."
        return f"The seeds do not show that they are {means} ({p})."

    def _describe_power(self) -> str:
        """Return a sentence about the number of seeds that show the difference `sought`; "" if
        there is no such difference."""
        if self.sought is None:
            return ""
        size = format_number(self.sought)
        if self.seeds_needed is None:
            return f"These seeds do not tell how many seeds would show a difference of {size}."
        return (
            f"About {self.seeds_needed:,} seeds or more would show a difference of {size} with a"
            f" probability of {POWER:.0%}."
        )

    def _describe_difference(self) -> str:
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
            result = "result" if self.measure == "loss" else name_measure(self.measure)
            return f"{both} have the same {result} in all {self.seeds} seeds{details}."
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
        words = (
            f"the typical difference in {name_measure(self.measure)}{untied}, {subtraction}"
            f" (Hodges-Lehmann), is {size}"
        )
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


def paired_tests(
    groups: Iterable[Mapping[str, Mapping[int, float]]],
    measures: Iterable[str] = itertools.repeat("loss"),
    questions: Questions = ONLY_LOSS,
) -> list[PairedTest]:
    """Test every pair of variants within each group, and correct for the total number of tests.

    The tests for a difference and the tests of equality are corrected separately.

    Args:
        groups: for each group of variants, the losses by variant name and seed. The loss of a
            diverged seed is inf. The test of two variants uses the seeds that both variants have.
            Two variants with fewer than two common seeds are not tested.
        measures: the measure of each group, whose values stand for losses.
        questions: whether equality is tested, and the difference that is sought.
    """
    pairs = list(_pairs_of(zip(groups, measures, strict=False)))
    margin, sought = questions.margin, questions.power
    level = LEVEL / max(len(pairs), 1)
    found = [signed_rank(pair.differences, level) for pair in pairs]
    corrected = holm([each.p for each in found])
    smallest = holm([smallest_p(each.pairs) for each in found])
    untied = holm([smallest_p(len(pair.differences)) for pair in pairs])
    equal = holm([equality_p(pair.measured, margin) for pair in pairs] if margin else [])
    return [
        PairedTest(
            pair.first, pair.second, len(pair.differences), each.estimate if each.pairs else 0.0,
            each.interval, int((pair.differences < 0).sum()), each.p, corrected[k],
            rank_biserial(pair.differences), smallest[k], untied[k],
            int((pair.differences == 0).sum()), len(pairs), pair.diverged, pair.measure,
            margin, equal[k] if margin else 1.0, sought,
            seeds_for_power(pair.measured, sought, level, POWER) if sought else None,
        )
        for k, (pair, each) in enumerate(zip(pairs, found, strict=True))
    ]  # fmt: skip


@dataclass(frozen=True)
class _Pair:
    """Two variants, and the differences (n,) of a measure over their common seeds.

    Attributes:
        measured: the differences of the seeds in which at least one variant did not diverge. If
            both diverged, nothing is known about their equality.
    """

    first: str
    second: str
    measure: str
    differences: Floats
    measured: Floats
    diverged: tuple[int, int]


def _pairs_of(
    groups: Iterable[tuple[Mapping[str, Mapping[int, float]], str]],
) -> Iterator[_Pair]:
    """Yield the pairs of variants of each group that have two common seeds or more."""
    for losses, measure in groups:
        for first, second in itertools.combinations(losses, 2):
            shared = [seed for seed in losses[first] if seed in losses[second]]
            if len(shared) < 2:
                continue
            a, b = (np.array([losses[name][seed] for seed in shared]) for name in (first, second))
            differences = subtract_pairs(a, b)
            if measure != "loss":
                differences = differences.round(RATE_DIGITS)
            lost = int(np.isinf(a).sum()), int(np.isinf(b).sum())
            measured = differences[~(np.isinf(a) & np.isinf(b))]
            yield _Pair(first, second, measure, differences, measured, lost)


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
