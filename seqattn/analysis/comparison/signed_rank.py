"""Wilcoxon's signed-rank test with its estimate and confidence interval.

The test is from Wilcoxon (1945, Biometrics Bulletin 1:80-83), estimate and interval are from Hodges
and Lehmann (1963, Annals of Mathematical Statistics 34:598-611). All three use the Walsh averages,
the means (d_i + d_j) / 2 of all pairs of differences, i <= j: the statistic is the number of Walsh
averages above 0, the estimate is their median, and the interval contains the shifts that the test
does not reject. Test and interval therefore agree: p < level exactly if the interval excludes 0.

Level and coverage are exact for differences that are continuous and symmetric about the shift.
With ties both are conservative:

- A difference of 0 has no sign; such pairs are left out.
- A Walsh average of exactly 0 counts against both directions.
- Infinite differences share the highest ranks (midranks), and the null distribution is
  conditional on their number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
MAX_EXACT_DIFFERENCES = 256
"""Maximum number of differences for the exact null distribution; with more, a normal
approximation."""
MAX_STORED_DIFFERENCES = 2048
"""Maximum number of finite differences whose Walsh averages are all stored, in 16 MiB."""
MAX_BISECTIONS = 200  # more than the bits of a float


@dataclass(frozen=True)
class SignedRank:
    """Result of the signed-rank test.

    Attributes:
        pairs: number of nonzero differences.
        p: two-sided p value.
        estimate: Hodges-Lehmann estimate; infinite where most Walsh averages are, NaN without a
            pair or with equally many +inf and -inf averages.
        interval: confidence interval of the estimate, with bounds that may be infinite; None with
            too few pairs.
    """

    pairs: int
    p: float
    estimate: float
    interval: tuple[float, float] | None


def signed_rank(differences: Floats, level: float) -> SignedRank:
    """Compute test, estimate and interval.

    Args:
        differences: (n,) differences of pairs, may contain +-inf; no NaN.
        level: 1 minus the confidence of the interval.
    """
    nonzero = differences[differences != 0]
    if not len(nonzero):
        return SignedRank(0, 1.0, math.nan, None)
    p = min(1.0, 2 * min(_one_sided_p(nonzero), _one_sided_p(-nonzero)))
    interval = None
    if smallest_p(len(nonzero)) <= level:
        interval = _lower_bound(nonzero, level / 2), -_lower_bound(-nonzero, level / 2)
    return SignedRank(len(nonzero), p, _estimate(nonzero), interval)


def smallest_p(pairs: int) -> float:
    """The smallest possible p value: that of nonzero differences with equal signs."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(level: float) -> int:
    """Minimum number of pairs for an interval, and for p to reach the level."""
    return math.ceil(1 - math.log2(level))


def _one_sided_p(nonzero: Floats) -> float:
    """One-sided p value, with Walsh averages of 0 counted as negative."""
    finite, above, num_infinite = _split_infinite(nonzero)
    return _upper_tail(len(finite), num_infinite)(above + 2 * _count_above(np.sort(finite), 0.0))


def _lower_bound(nonzero: Floats, tail: float) -> float:
    """Lower confidence bound of the shift.

    Args:
        tail: one-sided level.
    """
    finite, above, num_infinite = _split_infinite(nonzero)
    critical = _critical_value(len(finite), num_infinite, tail)
    return _kth_largest(finite, -((above - critical) // 2))


def _estimate(nonzero: Floats) -> float:
    """Median of the Walsh averages; an average of inf and -inf counts half for each side."""
    finite, above, num_infinite = _split_infinite(nonzero)
    n = len(finite)
    half = n * (n + 1) / 2 + num_infinite * (2 * n + num_infinite + 1) / 2  # of twice the averages
    below = _split_infinite(-nonzero)[1]
    if above >= half or below >= half:
        return math.nan if above == below else math.copysign(math.inf, above - below)
    first = math.ceil((half - above) / 2)
    if above + 2 * first == half:
        return (_kth_largest(finite, first) + _kth_largest(finite, first + 1)) / 2
    return _kth_largest(finite, first)


def _split_infinite(nonzero: Floats) -> tuple[Floats, int, int]:
    """The finite differences, twice the rank sum of +inf, and the number of infinite ones."""
    finite = nonzero[np.isfinite(nonzero)]
    num_infinite = len(nonzero) - len(finite)
    return (
        finite,
        int((nonzero == math.inf).sum()) * (2 * len(finite) + num_infinite + 1),
        num_infinite,
    )


# --- Walsh averages -------------------------------------------------------------------------------


def _count_above(ordered: Floats, shift: float) -> int:
    """Number of Walsh averages of sorted differences that exceed a shift."""
    limits = 2 * shift - ordered
    beyond = len(ordered) - np.searchsorted(ordered, limits, side="right")
    return int(beyond.sum() + (ordered > limits).sum()) // 2


def _kth_largest(finite: Floats, k: int) -> float:
    """The k-th largest Walsh average, counted from 1; infinite where k is out of range."""
    n = len(finite)
    if k < 1 or k > n * (n + 1) // 2:
        return math.inf if k < 1 else -math.inf
    if n <= MAX_STORED_DIFFERENCES:
        i, j = np.triu_indices(n)
        sums = finite[i] + finite[j]
        return float(np.partition(sums, len(sums) - k)[len(sums) - k]) / 2
    ordered = np.sort(finite)
    low, high = float(ordered[0]) - 1.0, float(ordered[-1])
    if low < 0 < high:
        low, high = (0.0, high) if _count_above(ordered, 0.0) >= k else (low, 0.0)
    for _ in range(MAX_BISECTIONS):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _count_above(ordered, middle) >= k else (low, middle)
    return high


# --- the null distribution ------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _upper_tail(finite: int, num_infinite: int) -> Callable[[int], float]:
    """Upper tail probability under the null hypothesis, as a function of twice the statistic.

    Args:
        finite: number of finite differences, which have the ranks 1, 2, ...
        num_infinite: number of infinite differences, which share the mean of the higher ranks.
    """
    scores = [*range(2, 2 * finite + 1, 2), *[2 * finite + num_infinite + 1] * num_infinite]
    if len(scores) > MAX_EXACT_DIFFERENCES:
        mean = sum(scores) / 2
        deviation = math.sqrt(sum(score * score for score in scores)) / 2
        return lambda twice: float(stats.norm.sf((twice - 1 - mean) / deviation))
    probs = np.ones(1)
    for score in scores:
        before, probs = probs, np.zeros(len(probs) + score)
        probs[: len(before)] += before / 2
        probs[score:] += before / 2
    tail = np.cumsum(probs[::-1])[::-1]
    return lambda twice: float(tail[twice]) if twice > 0 else 1.0


@functools.lru_cache(maxsize=1024)
def _critical_value(finite: int, num_infinite: int, tail: float) -> int:
    """Smallest value of twice the statistic with an upper tail probability of at most `tail`."""
    upper_tail = _upper_tail(finite, num_infinite)
    low, high = 0, finite * (finite + 1) + num_infinite * (2 * finite + num_infinite + 1) + 1
    while high - low > 1:  # upper_tail(low) > tail >= upper_tail(high)
        middle = (low + high) // 2
        low, high = (low, middle) if upper_tail(middle) <= tail else (middle, high)
    return high
