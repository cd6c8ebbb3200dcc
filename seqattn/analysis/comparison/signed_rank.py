"""Wilcoxon's signed-rank test with its estimate and confidence interval.

The test is from Wilcoxon (1945, Biometrics Bulletin 1:80-83). The estimate and the interval are
from Hodges and Lehmann (1963, Annals of Mathematical Statistics 34:598-611). The test, the estimate
and the interval use the Walsh averages, which are the means (d_i + d_j) / 2 of all pairs of
differences with i <= j. The statistic of the test is the number of Walsh averages above 0. The
estimate is the median of the Walsh averages. The interval contains the shifts that the test does
not reject. The test and the interval therefore agree: p <= level if and only if there is an
interval and the interval excludes 0.

The null distribution assumes that the differences are continuous and symmetric about the shift. It
is exact for up to `MAX_EXACT_DIFFERENCES` differences. With ties, the test and the interval are
conservative:

- A difference of 0 has no sign, so it is left out.
- A Walsh average of exactly 0 counts as evidence against both directions.
- Infinite differences are tied: each of them has the mean of the highest ranks (the midrank).
  The null distribution is conditional on the number of infinite differences.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
MAX_EXACT_DIFFERENCES = 256
"""Maximum number of differences for which the exact null distribution is used. For more
differences, the normal approximation is used."""
MAX_STORED_DIFFERENCES = 2048
"""Maximum number of finite differences for which all Walsh averages are stored (16 MiB)."""
MAX_SUMMAND = sys.float_info.max / 4
"""Differences up to this size have finite sums."""

TIE_DIGITS = 9
"""Digits, in units of the margin, to which two distances from a bound of equality are equal."""


@dataclass(frozen=True)
class SignedRank:
    """The result of a signed-rank test.

    Attributes:
        pairs: the number of nonzero differences.
        p: the two-sided p-value.
        estimate: the Hodges-Lehmann estimate of the shift. The estimate is inf if at least half of
            the Walsh averages are inf, and -inf if at least half are -inf. The estimate is NaN if
            both conditions are true, or if there are no pairs.
        interval: the confidence interval of the shift, with possibly infinite bounds; None if
            there are too few pairs.
    """

    pairs: int
    p: float
    estimate: float
    interval: tuple[float, float] | None


def signed_rank(differences: Floats, level: float) -> SignedRank:
    """Test whether the shift of the differences is 0, and compute the estimate and the confidence
    interval of the shift.

    Args:
        differences: (n,), the differences of the pairs. The differences may be inf or -inf, but not
            NaN.
        level: 1 minus the confidence level of the interval.
    """
    nonzero = differences[differences != 0]
    if not len(nonzero):
        return SignedRank(0, 1.0, math.nan, None)
    p = min(1.0, 2 * min(_one_sided_p(nonzero), _one_sided_p(-nonzero)))
    interval = None
    if smallest_p(len(nonzero)) <= level:
        interval = _lower_bound(nonzero, level / 2), -_lower_bound(-nonzero, level / 2)
    return SignedRank(len(nonzero), p, _estimate(nonzero), interval)


def equality_p(differences: Floats, margin: float) -> float:
    """Return the p-value of two one-sided signed-rank tests of equality within a margin
    (Schuirmann 1987).

    One test has the null hypothesis that the shift is at most -margin, and the other that it is at
    least margin. The p-value is the larger one of the two, so equality is shown if both hypotheses
    are rejected.

    Args:
        differences: (n,), the differences of the pairs, which may be inf or -inf. Without any, p is
            1.
        margin: the largest difference that does not matter, above 0.
    """
    # In units of the margin and rounded, so that equal distances from a bound remain ties.
    above = np.round(differences / margin + 1, TIE_DIGITS)
    below = np.round(1 - differences / margin, TIE_DIGITS)
    if not len(differences):
        return 1.0
    return max(_one_sided_p(above[above != 0]), _one_sided_p(below[below != 0]))


def seeds_for_power(differences: Floats, sought: float, level: float, power: float) -> int | None:
    """Estimate how many pairs show a difference with a given probability, from a pilot.

    The signed-rank test of n pairs with p' = P(d_i + d_j > 0) has the asymptotic power

        power = Phi(sqrt(3 n) |p' - 1/2| - z),   Phi(z) = 1 - level / 2

    (Noether 1987, Journal of the American Statistical Association 82:645-647, section 3). The pilot
    gives p': its differences are centered at their Hodges-Lehmann estimate and shifted by the
    difference that is sought. As the test assumes that differences are symmetric about the shift,
    each centered difference counts with both signs.

    Args:
        differences: (n,), the differences of the pilot.
        sought: the difference that the test should show, above 0.
        level: the two-sided level of the test.
        power: the probability with which the test should show it.

    Returns:
        The number of pairs; None if the pilot has fewer than two differences or an infinite one, or
            if p' is 1/2. A small pilot has few different sums, so the number can be too low.
    """
    if len(differences) < 2 or not np.isfinite(differences).all():
        return None
    center = _estimate(differences) if (differences != 0).any() else 0.0
    n = len(differences)
    centered = np.concatenate([differences - center, center - differences])
    i, j = np.triu_indices(2 * n, 1)
    of_two_pairs = j - i != n  # not a difference and its own mirror image, whose sum is always 0
    sums = (centered[i] + centered[j])[of_two_pairs] + 2 * sought
    probability = float((sums > 0).mean() + (sums == 0).mean() / 2)
    if probability <= 0.5:
        return None
    z = float(special.ndtri(1 - level / 2) + special.ndtri(power))
    needed = math.ceil(z**2 / (3 * (probability - 0.5) ** 2))
    return max(needed, pairs_needed(level))


def smallest_p(pairs: int) -> float:
    """Return the smallest possible exact p-value, which is the p-value if all differences have the
    same sign.

    Args:
        pairs: the number of nonzero differences.
    """
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(level: float) -> int:
    """Return the smallest number of pairs with which an interval exists and p can be as low as
    `level`.

    Args:
        level: 1 minus the confidence level of the interval.
    """
    return math.ceil(1 - math.log2(level))


def _one_sided_p(nonzero: Floats) -> float:
    """Return the one-sided p-value for a positive shift. A Walsh average of 0 counts as
    negative."""
    finite, above, num_infinite = _split_infinite(nonzero)
    return _upper_tail(len(finite), num_infinite)(above + 2 * _count_above(np.sort(finite), 0.0))


def _lower_bound(nonzero: Floats, tail: float) -> float:
    """Return the lower confidence bound of the shift.

    Args:
        nonzero: (n,), the nonzero differences.
        tail: the one-sided level.
    """
    finite, above, num_infinite = _split_infinite(nonzero)
    critical = _critical_value(len(finite), num_infinite, tail)
    return _kth_largest(finite, -((above - critical) // 2))


def _estimate(nonzero: Floats) -> float:
    """Return the median of the Walsh averages.

    The Walsh average of inf and -inf is undefined. It counts half as inf and half as -inf.
    """
    finite, above, num_infinite = _split_infinite(nonzero)
    n = len(finite)
    # `above` and `below` are doubled counts, so half of the total is the number of Walsh averages.
    half = n * (n + 1) / 2 + num_infinite * (2 * n + num_infinite + 1) / 2
    below = _split_infinite(-nonzero)[1]
    if above >= half or below >= half:
        return math.nan if above == below else math.copysign(math.inf, above - below)
    first = math.ceil((half - above) / 2)
    if above + 2 * first == half:
        one, other = _kth_largest(finite, first), _kth_largest(finite, first + 1)
        return (one + other) / 2 if math.isfinite(one + other) else one / 2 + other / 2
    return _kth_largest(finite, first)


def _split_infinite(nonzero: Floats) -> tuple[Floats, int, int]:
    """Return the finite differences, twice the rank sum of the differences that are +inf, and the
    number of infinite differences."""
    finite = nonzero[np.isfinite(nonzero)]
    num_infinite = len(nonzero) - len(finite)
    return (
        finite,
        int((nonzero == math.inf).sum()) * (2 * len(finite) + num_infinite + 1),
        num_infinite,
    )


# --- Walsh averages -------------------------------------------------------------------------------


def _count_above(ordered: Floats, shift: float) -> int:
    """Return the number of Walsh averages that exceed a shift.

    Args:
        ordered: (n,), finite differences in ascending order.
        shift: the value to exceed.
    """
    limits = 2 * shift - ordered
    beyond = len(ordered) - np.searchsorted(ordered, limits, side="right")
    return int(beyond.sum() + (ordered > limits).sum()) // 2


def _kth_largest(finite: Floats, k: int) -> float:
    """Return the k-th largest Walsh average.

    Args:
        finite: (n,), the finite differences.
        k: the rank, counted from 1. The result is inf if k is less than 1, and -inf if k is greater
            than the number of Walsh averages.
    """
    n = len(finite)
    if k < 1 or k > n * (n + 1) // 2:
        return math.inf if k < 1 else -math.inf
    if n <= MAX_STORED_DIFFERENCES:
        i, j = np.triu_indices(n)
        place = len(i) - k
        with np.errstate(over="ignore"):
            kth = float(np.partition(finite[i] + finite[j], place)[place])
        if math.isinf(kth):  # the mean is finite, but the sum is not
            return float(np.partition(finite[i] / 2 + finite[j] / 2, place)[place])
        return kth / 2 or kth  # half of the smallest number would be 0
    ordered = np.sort(finite)
    if max(-ordered[0], ordered[-1]) > MAX_SUMMAND:
        return 4 * _kth_largest(finite / 4, k)
    low, high = np.nextafter(float(ordered[0]), -math.inf), float(ordered[-1])
    if low < 0 < high:
        low, high = (0.0, high) if _count_above(ordered, 0.0) >= k else (low, 0.0)
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if _count_above(ordered, middle) >= k else (low, middle)
    return high


# --- the null distribution ------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _upper_tail(finite: int, num_infinite: int) -> Callable[[int], float]:
    """Return a function that computes the upper tail probability under the null hypothesis.

    The argument of the returned function is twice the statistic, because twice a midrank is an
    integer.

    Args:
        finite: the number of finite differences, which have the ranks 1, 2, ...
        num_infinite: the number of infinite differences, which share the mean of the higher ranks.
    """
    scores = [*range(2, 2 * finite + 1, 2), *[2 * finite + num_infinite + 1] * num_infinite]
    if len(scores) > MAX_EXACT_DIFFERENCES:
        mean = sum(scores) / 2
        deviation = math.sqrt(sum(score * score for score in scores)) / 2
        return lambda twice: float(special.ndtr(-(twice - 1 - mean) / deviation))
    probs = np.ones(1)
    for score in scores:
        before, probs = probs, np.zeros(len(probs) + score)
        probs[: len(before)] += before / 2
        probs[score:] += before / 2
    tail = np.cumsum(probs[::-1])[::-1]
    return lambda twice: float(tail[twice]) if twice > 0 else 1.0


@functools.lru_cache(maxsize=1024)
def _critical_value(finite: int, num_infinite: int, tail: float) -> int:
    """Return the smallest value of twice the statistic with an upper tail probability of at most
    `tail`."""
    upper_tail = _upper_tail(finite, num_infinite)
    low, high = 0, finite * (finite + 1) + num_infinite * (2 * finite + num_infinite + 1) + 1
    while high - low > 1:  # upper_tail(low) > tail >= upper_tail(high)
        middle = (low + high) // 2
        low, high = (low, middle) if upper_tail(middle) <= tail else (middle, high)
    return high
