"""Finds the season of a set of series from their autocorrelation.

Letters: L steps of a series, F features.
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
"""Most series in the search for a season; of more, an evenly spaced sample."""
MAX_VALUES = 2**18
"""Most values in the search for a season; of more, the first of the sampled series."""
MIN_SCALE = 3  # lags, below which a local maximum is undefined
PEAK_LAGS = 8  # candidates around a maximum at lag m are m - m / 8 to m + m / 8
MIN_POINTS = 4  # observed values of a series


class SeriesCollection(Protocol):
    """Series (L, F), indexed from 0 to `len` - 1."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> NDArray[np.floating]: ...


@dataclass(frozen=True)
class Season:
    """A season.

    Attributes:
        steps: season length, 2 or more.
        autocorrelation: of the detrended series at this lag.
    """

    steps: int
    autocorrelation: float


def find_season(series: SeriesCollection, longest: int | None = None) -> Season | None:
    """Find the season of some series; None if they have none.

    A season length m is a candidate if the mean autocorrelation of the detrended series

    - is highest at lag m among the lags m/2 to 3m/2, so that it is a local maximum,
    - is at or below 0 at a shorter lag: over a whole season it sums to 0, and
    - exceeds the upper 95% bound of a process with short memory alone: z sqrt((1 + 2 (r_1^2 + ... +
      r_q^2)) / n), Bartlett's formula for the lags beyond q (Box, Jenkins and Reinsel 2008, "Time
      Series Analysis", eq. 2.1.15), where r_{q + 1} is the first autocorrelation that is not above
      0. z is corrected for the number of lags that are tested (Sidak 1967, "Rectangular
      Confidence Regions").

    The maximum of a smooth season is flat, so each candidate is replaced by the neighbouring lag
    whose multiples have the highest mean autocorrelation. The result is the shortest candidate
    whose seasonal naive forecast is as good as the best: its mean squared error within the series
    exceeds the lowest by a factor of at most 1 + z sqrt(2 / n), which sampling alone may
    cause.

    Each feature of each series is detrended by its least-squares line, then by a centred moving
    average over twice the longest season looked for, as in classical decomposition (Hyndman and
    Athanasopoulos, "Forecasting: Principles and Practice", section 3.4), and divided by its
    standard deviation. If no season is found, the search is repeated with half of the longest
    season, and so on: a shorter moving average removes more of a level that drifts. Means are over
    all pairs of observed cells at a lag. Series may share shocks, so n is the number of pairs of
    the series with the most pairs.

    Args:
        series: (L, F) each, rows evenly spaced; NaN where a cell was not observed.
        longest: longest season length of the search; at most, and by default, half the length
            of the longest series.
    """
    chosen = _sample_series(series)
    half = max((len(one) for one in chosen), default=0) // 2
    longest = half if longest is None else min(longest, half)
    scales = [longest >> k for k in range(longest.bit_length()) if longest >> k >= MIN_SCALE]
    bound = NormalDist().inv_cdf(0.95 ** (1 / max(1, sum(scales))))
    for scale in scales:
        acf, pairs = _autocorrelation(chosen, scale, half)
        candidates = _candidates(acf, pairs, scale, bound)
        if candidates:
            errors = [_naive_error(chosen, m) for m in candidates]
            max_error = min(errors) * (1 + bound * math.sqrt(2 / pairs[candidates[-1]]))
            m = next(m for m, error in zip(candidates, errors, strict=True) if error <= max_error)
            return Season(m, float(acf[m]))
    return None


def _sample_series(series: SeriesCollection) -> list[NDArray[np.floating]]:
    """A sample of the series that bounds the time of the search to seconds."""
    indices = np.linspace(0, len(series) - 1, min(len(series), MAX_SERIES)).astype(np.int64)
    chosen, values_left = list[NDArray[np.floating]](), MAX_VALUES
    for k in indices:
        one = series[int(k)]
        rows = max(0, values_left) // max(1, one.shape[1])
        chosen.append(one[:rows])
        values_left -= one[:rows].size
    return chosen


def _autocorrelation(
    series: Sequence[NDArray[np.floating]], longest: int, lags: int
) -> tuple[Floats, Floats]:
    """(lags + 1,) mean autocorrelation at each lag, 0 where no pair was observed; and (lags + 1,)
    the number of pairs in the series with the most pairs.

    Args:
        longest: half the window of the moving average that is subtracted.
        lags: largest lag.
    """
    products, weights, max_pairs = np.zeros(lags + 1), np.zeros(lags + 1), np.zeros(lags + 1)
    for one in series:
        size = 1 << (2 * len(one)).bit_length()
        for column in one.T:
            observed = np.isfinite(column)
            values = _detrend(np.where(observed, column, 0).astype(np.float64), observed, longest)
            if values is None:
                continue
            length = min(len(column), lags + 1)
            products[:length] += _lagged_sums(values, size)[:length]
            pairs = np.round(_lagged_sums(observed.astype(np.float64), size)[:length])
            weights[:length] += pairs
            max_pairs[:length] = np.maximum(max_pairs[:length], pairs)
    return np.divide(products, weights, out=np.zeros(lags + 1), where=weights > 0), max_pairs


def _lagged_sums(values: Floats, size: int) -> Floats:
    """(L,) sum over t of values[t] values[t + lag], by the Wiener-Khinchin theorem."""
    spectrum = np.fft.rfft(values, size)
    return np.asarray(np.fft.irfft(np.square(np.abs(spectrum)), size)[: len(values)])


def _detrend(values: Floats, observed: NDArray[np.bool_], longest: int) -> Floats | None:
    """(L,) detrended values with mean square 1 over the observed cells, 0 elsewhere; None if they
    do not vary.

    Args:
        values: (L,) 0 where not observed.
        observed: (L,)
        longest: half the window of the moving average.
    """
    n = int(observed.sum())
    if n < MIN_POINTS:
        return None
    size = float(np.abs(values).max())
    if size > 0:
        values = values / size  # squares and sums cannot overflow
    steps = np.arange(len(values), dtype=np.float64)
    steps -= steps[observed].mean()
    level = values[observed].mean()
    gradient = (steps[observed] @ (values[observed] - level)) / (steps[observed] @ steps[observed])
    values = np.where(observed, values - level - gradient * steps, 0.0)
    values = np.where(observed, values - _moving_average(values, observed, longest), 0.0)
    spread = math.sqrt(float(np.square(values).sum()) / n)
    if spread <= 1e-9:  # rounding of the trend
        return None
    return values / spread


def _moving_average(values: Floats, observed: NDArray[np.bool_], reach: int) -> Floats:
    """(L,) mean of the observed cells within `reach` steps before and after; fewer at the ends."""
    L = len(values)
    first, last = np.maximum(np.arange(L) - reach, 0), np.minimum(np.arange(L) + reach + 1, L)
    total = np.concatenate([[0.0], np.cumsum(values)])
    count = np.concatenate([[0], np.cumsum(observed)])
    return np.asarray((total[last] - total[first]) / np.maximum(count[last] - count[first], 1))


def _candidates(acf: Floats, pairs: Floats, longest: int, bound: float) -> list[int]:
    """Candidates for the season length, shortest first; see `find_season`.

    Args:
        acf: (lags + 1,) autocorrelation.
        pairs: (lags + 1,) number of pairs at each lag.
        longest: longest season length.
        bound: standard errors that the autocorrelation must exceed.
    """
    below = np.flatnonzero(acf[1 : longest + 1] <= 0)
    if not below.size:
        return []
    memory = int(below[0])
    error = np.sqrt((1 + 2 * np.square(acf[1 : memory + 1]).sum()) / np.maximum(pairs, 1))
    last = min(longest, len(acf) - 2)
    high = np.flatnonzero(acf[: last + 1] > bound * error[: last + 1]).tolist()
    peaks = [
        m for m in high
        if m >= max(2, memory + 2) and acf[m] == acf[(m + 1) // 2 : 3 * m // 2 + 1].max()
    ]  # fmt: skip
    seasons = []
    for m in peaks:
        neighbours = range(max(2, m - m // PEAK_LAGS), min(longest, m + m // PEAK_LAGS) + 1)
        seasons.append(max(neighbours, key=lambda lag: float(acf[lag::lag].mean())))
    return seasons


def _naive_error(series: Sequence[NDArray[np.floating]], season: int) -> float:
    """Mean squared error of the seasonal naive forecast within the series, each feature divided by
    its standard deviation."""
    total, count = 0.0, 0
    for one in series:
        for column in one[:, np.isfinite(one).any(axis=0)].T.astype(np.float64):
            errors = np.square(column[season:] - column[:-season])
            spread = float(np.nanvar(column))
            if spread > 0:
                total += float(np.nansum(errors)) / spread
                count += int(np.isfinite(errors).sum())
    return total / count if count else math.inf
