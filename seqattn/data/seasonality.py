"""The season of a set of series, found by their autocorrelation.

Letters: L points of a series, F features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats

MAX_SERIES = 1000
"""Series that a season is looked for in, evenly chosen of more."""
MAX_VALUES = 2**18
"""Values that a season is looked for in; where there are more, the first of the chosen series."""
MIN_SCALE = 3  # lags at least, below which no maximum can be told
PEAK_LAGS = 8  # a maximum is as flat as this share of its lag
MIN_POINTS = 4  # observed values of a series, fewer of which show no season


class SeriesCollection(Protocol):
    """Series (L, F) by their places, 0 to `len`."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> NDArray[np.floating]: ...


@dataclass(frozen=True)
class Season:
    """A season that was found.

    Attributes:
        steps: its length, 2 or more.
        autocorrelation: at this lag, of the detrended series.
    """

    steps: int
    autocorrelation: float


def find_season(series: SeriesCollection, longest: int | None = None) -> Season | None:
    """The season of some series, or None where they show none.

    A season m is taken if the mean autocorrelation of the detrended series

    - is highest at lag m among the lags m/2 to 3m/2, so that it is a local maximum,
    - was at or below 0 at a shorter lag: over a whole season it adds up to 0, and
    - exceeds the upper 95% bound of a process with short memory alone: z sqrt((1 + 2 (r_1^2 + ... +
      r_q^2)) / n), Bartlett's formula for the lags beyond q (Box, Jenkins and Reinsel 2008, "Time
      Series Analysis", eq. 2.1.15), where r_{q + 1} is the first autocorrelation that is not above
      0. z holds for all lags that are looked at together (Sidak 1967, "Rectangular Confidence
      Regions").

    A smooth season has a flat maximum, so of the lags beside it the one is taken whose multiples
    have the highest mean autocorrelation. Of several seasons the shortest is taken whose seasonal
    naive forecast is as good as the best of them: its mean squared error within the series exceeds
    the lowest by a share of at most z sqrt(2 / n), what sampling alone may do to it.

    Each feature of each series is detrended by its least-squares line, then by a centred moving
    average over twice the longest season looked for, as in classical decomposition (Hyndman and
    Athanasopoulos, "Forecasting: Principles and Practice", section 3.4), and divided by its
    standard deviation. Where no season is found, half as long ones are looked for, and so on: a
    shorter average takes off more of a level that wanders. The mean is over all pairs of observed
    cells that are a lag apart. Series may share their shocks, so n counts the pairs of the one
    series that has most of them.

    Args:
        series: (L, F) each, rows evenly spaced; NaN where a cell was not observed.
        longest: season that is looked for; None, or more than half of the longest series: that.
    """
    chosen = _sample_series(series)
    half = max((len(one) for one in chosen), default=0) // 2
    longest = half if longest is None else min(longest, half)
    scales = [longest >> k for k in range(longest.bit_length()) if longest >> k >= MIN_SCALE]
    bound = NormalDist().inv_cdf(0.95 ** (1 / max(1, sum(scales))))
    for scale in scales:
        found, pairs = _autocorrelation(chosen, scale, half)
        candidates = _candidates(found, pairs, scale, bound)
        if candidates:
            errors = [_naive_error(chosen, m) for m in candidates]
            most = min(errors) * (1 + bound * math.sqrt(2 / pairs[candidates[-1]]))
            m = next(m for m, error in zip(candidates, errors, strict=True) if error <= most)
            return Season(m, float(found[m]))
    return None


def _sample_series(series: SeriesCollection) -> list[NDArray[np.floating]]:
    """Some of many series, so that the search takes seconds at most."""
    places = np.linspace(0, len(series) - 1, min(len(series), MAX_SERIES)).astype(np.int64)
    found, left = [], MAX_VALUES
    for k in places:
        one = series[int(k)]
        rows = max(0, left) // max(1, one.shape[1])
        found.append(one[:rows])
        left -= one[:rows].size
    return found


def _autocorrelation(
    series: Sequence[NDArray[np.floating]], longest: int, lags: int
) -> tuple[Floats, Floats]:
    """(lags + 1,) mean autocorrelation, 0 where no pair was observed, and pairs of the series that
    has most.

    Args:
        longest: season looked for; over twice as much a moving average is taken off.
    """
    products, weights, most = np.zeros(lags + 1), np.zeros(lags + 1), np.zeros(lags + 1)
    for one in series:
        size = 1 << (2 * len(one)).bit_length()
        for column in one.T:
            seen = np.isfinite(column)
            values = _detrend(np.where(seen, column, 0).astype(np.float64), seen, longest)
            if values is None:
                continue
            here = min(len(column), lags + 1)
            products[:here] += _lagged_sums(values, size)[:here]
            pairs = np.round(_lagged_sums(seen.astype(np.float64), size)[:here])
            weights[:here] += pairs
            most[:here] = np.maximum(most[:here], pairs)
    return np.divide(products, weights, out=np.zeros(lags + 1), where=weights > 0), most


def _lagged_sums(values: Floats, size: int) -> Floats:
    """(L,) sum over t of values[t] values[t + lag], by the Wiener-Khinchin theorem."""
    spectrum = np.fft.rfft(values, size)
    return np.asarray(np.fft.irfft(np.square(np.abs(spectrum)), size)[: len(values)])


def _detrend(values: Floats, seen: NDArray[np.bool_], longest: int) -> Floats | None:
    """(L,) of mean square 1 over the observed cells, 0 elsewhere; None where nothing varies.

    Args:
        values: 0 where not observed.
    """
    n = int(seen.sum())
    if n < MIN_POINTS:
        return None
    size = float(np.abs(values).max())
    if size > 0:
        values = values / size  # whose squares and sums cannot overflow
    steps = np.arange(len(values), dtype=np.float64)
    steps -= steps[seen].mean()
    level = values[seen].mean()
    slope = (steps[seen] @ (values[seen] - level)) / (steps[seen] @ steps[seen])
    values = np.where(seen, values - level - slope * steps, 0.0)
    values = np.where(seen, values - _moving_average(values, seen, longest), 0.0)
    spread = math.sqrt(float(np.square(values).sum()) / n)
    if spread <= 1e-9:  # rounding of the trend that was taken off
        return None
    return values / spread


def _moving_average(values: Floats, seen: NDArray[np.bool_], reach: int) -> Floats:
    """(L,) mean of the observed cells up to `reach` steps before and after; at an end of those that
    are there."""
    L = len(values)
    first, last = np.maximum(np.arange(L) - reach, 0), np.minimum(np.arange(L) + reach + 1, L)
    total = np.concatenate([[0.0], np.cumsum(values)])
    count = np.concatenate([[0], np.cumsum(seen)])
    return np.asarray((total[last] - total[first]) / np.maximum(count[last] - count[first], 1))


def _candidates(found: Floats, pairs: Floats, longest: int, bound: float) -> list[int]:
    """Seasons that the autocorrelation shows, the shortest first; see `find_season`.

    Args:
        found: autocorrelation at lags 0, 1, ...
        pairs: that each is a mean of.
        bound: standard errors that it must exceed.
    """
    below = np.flatnonzero(found[1 : longest + 1] <= 0)
    if not below.size:
        return []
    memory = int(below[0])
    error = np.sqrt((1 + 2 * np.square(found[1 : memory + 1]).sum()) / np.maximum(pairs, 1))
    last = min(longest, len(found) - 2)
    high = np.flatnonzero(found[: last + 1] > bound * error[: last + 1]).tolist()
    peaks = [
        m for m in high
        if m >= max(2, memory + 2) and found[m] == found[(m + 1) // 2 : 3 * m // 2 + 1].max()
    ]  # fmt: skip
    seasons = []
    for m in peaks:
        beside = range(max(2, m - m // PEAK_LAGS), min(longest, m + m // PEAK_LAGS) + 1)
        seasons.append(max(beside, key=lambda lag: float(found[lag::lag].mean())))
    return seasons


def _naive_error(series: Sequence[NDArray[np.floating]], season: int) -> float:
    """Mean squared error of the seasonal naive forecast within the series, each feature of each
    divided by its standard deviation."""
    total, count = 0.0, 0
    for one in series:
        for column in one[:, np.isfinite(one).any(axis=0)].T.astype(np.float64):
            errors = np.square(column[season:] - column[:-season])
            spread = float(np.nanvar(column))
            if spread > 0:
                total += float(np.nansum(errors)) / spread
                count += int(np.isfinite(errors).sum())
    return total / count if count else math.inf
