"""Wilcoxon's signed-rank test, and the estimate and confidence interval that belong to it.

The test is of Wilcoxon (1945, Biometrics Bulletin 1:80-83), estimate and interval are of Hodges
and Lehmann (1963, Annals of Mathematical Statistics 34:598-611). All three count Walsh averages,
the means (d_i + d_j) / 2 of every two differences, i <= j: the statistic is how many are above 0,
the estimate is their median, and the interval holds the shifts that the test does not reject.
So test and interval agree: p < level exactly where the interval excludes 0.

Where differences are continuous and symmetric about the shift, level and coverage are exact.
Ties keep both on the safe side:

- A difference of 0 says nothing about the sign; such pairs are left out.
- A Walsh average of exactly 0 counts against both directions.
- Infinite differences share the highest ranks (midranks), and the null distribution is
  conditional on how many there are.
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
MOST_EXACT = 256
"""Differences up to which the null distribution is exact; with more it is the normal one."""
MOST_AVERAGES = 2048
"""Finite differences of which all Walsh averages are held in memory, 16 MiB."""
STEPS = 200  # halvings, more than the digits of a float


@dataclass(frozen=True)
class SignedRank:
    """What the differences of pairs show.

    Attributes:
        pairs: differences that are not 0.
        p: two-sided.
        estimate: Hodges-Lehmann; infinite where most Walsh averages are, NaN without a pair and
            where as many are infinite on either side.
        interval: of the same quantity, its bounds perhaps infinite; None with too few pairs.
    """

    pairs: int
    p: float
    estimate: float
    interval: tuple[float, float] | None


def signed_rank(differences: Floats, level: float) -> SignedRank:
    """Test, estimate and interval.

    Args:
        differences: (n,) of pairs, +-inf among them; not NaN.
        level: 1 less the confidence of the interval.
    """
    moved = differences[differences != 0]
    if not len(moved):
        return SignedRank(0, 1.0, math.nan, None)
    p = min(1.0, 2 * min(_chance_of_more(moved), _chance_of_more(-moved)))
    interval = None
    if smallest_p(len(moved)) <= level:
        interval = _lower_bound(moved, level / 2), -_lower_bound(-moved, level / 2)
    return SignedRank(len(moved), p, _estimate(moved), interval)


def smallest_p(pairs: int) -> float:
    """What `p` is where that many differences, none of them 0, all have one sign."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(level: float) -> int:
    """Pairs from which on there is an interval, and p can be as small as the level."""
    return math.ceil(1 - math.log2(level))


def _chance_of_more(moved: Floats) -> float:
    """One-sided p of the statistic, Walsh averages of 0 counted as negative."""
    finite, above, many = _taken_apart(moved)
    return _upper_tail(len(finite), many)(above + 2 * _count_above(np.sort(finite), 0.0))


def _lower_bound(moved: Floats, tail: float) -> float:
    """The lowest shift that is not rejected from below."""
    finite, above, many = _taken_apart(moved)
    critical = _critical(len(finite), many, tail)
    return _largest(finite, -((above - critical) // 2))


def _estimate(moved: Floats) -> float:
    """The median of the Walsh averages; those of inf and -inf count half for either side."""
    finite, above, many = _taken_apart(moved)
    n = len(finite)
    half = n * (n + 1) / 2 + many * (2 * n + many + 1) / 2  # of twice the averages
    below = _taken_apart(-moved)[1]
    if above >= half or below >= half:
        return math.nan if above == below else math.copysign(math.inf, above - below)
    first = math.ceil((half - above) / 2)
    if above + 2 * first == half:
        return (_largest(finite, first) + _largest(finite, first + 1)) / 2
    return _largest(finite, first)


def _taken_apart(moved: Floats) -> tuple[Floats, int, int]:
    """Finite differences, twice the ranks of those that are +inf, and how many are infinite."""
    finite = moved[np.isfinite(moved)]
    many = len(moved) - len(finite)
    return finite, int((moved == math.inf).sum()) * (2 * len(finite) + many + 1), many


# --- Walsh averages -------------------------------------------------------------------------------


def _count_above(ordered: Floats, shift: float) -> int:
    """How many Walsh averages of sorted differences are above a shift."""
    limits = 2 * shift - ordered
    beyond = len(ordered) - np.searchsorted(ordered, limits, side="right")
    return int(beyond.sum() + (ordered > limits).sum()) // 2


def _largest(finite: Floats, k: int) -> float:
    """The k-th largest Walsh average, counted from 1; infinite outside."""
    n = len(finite)
    if k < 1 or k > n * (n + 1) // 2:
        return math.inf if k < 1 else -math.inf
    if n <= MOST_AVERAGES:
        i, j = np.triu_indices(n)
        sums = finite[i] + finite[j]
        return float(np.partition(sums, len(sums) - k)[len(sums) - k]) / 2
    ordered = np.sort(finite)
    low, high = float(ordered[0]) - 1.0, float(ordered[-1])
    if low < 0 < high:
        low, high = (0.0, high) if _count_above(ordered, 0.0) >= k else (low, 0.0)
    for _ in range(STEPS):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _count_above(ordered, middle) >= k else (low, middle)
    return high


# --- the null distribution ------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _upper_tail(finite: int, many: int) -> Callable[[int], float]:
    """Twice the statistic -> the probability of as much or more, where every sign is as likely.

    Args:
        finite: differences with ranks of their own, 1, 2, ...
        many: infinite ones, which share the mean of the ranks above.
    """
    scores = [*range(2, 2 * finite + 1, 2), *[2 * finite + many + 1] * many]
    if len(scores) > MOST_EXACT:
        mean = sum(scores) / 2
        deviation = math.sqrt(sum(score * score for score in scores)) / 2
        return lambda twice: float(stats.norm.sf((twice - 1 - mean) / deviation))
    chances = np.ones(1)
    for score in scores:
        before, chances = chances, np.zeros(len(chances) + score)
        chances[: len(before)] += before / 2
        chances[score:] += before / 2
    tail = np.cumsum(chances[::-1])[::-1]
    return lambda twice: float(tail[twice]) if twice > 0 else 1.0


@functools.lru_cache(maxsize=1024)
def _critical(finite: int, many: int, tail: float) -> int:
    """The smallest of twice the statistic that is exceeded with at most that probability."""
    chance = _upper_tail(finite, many)
    low, high = 0, finite * (finite + 1) + many * (2 * finite + many + 1) + 1
    while high - low > 1:  # chance(low) > tail >= chance(high), the last of them 0
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) <= tail else (middle, high)
    return high
