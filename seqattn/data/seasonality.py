"""Search for the season of a set of series, based on the autocorrelation of the series.

In shapes, L is the number of steps in a series and F the number of features.
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
"""Maximum number of series in the search for a season. A larger set is sampled evenly."""
MAX_VALUES = 2**18
"""Maximum number of values in the search for a season; values beyond this number are not used."""
MIN_SCALE = 3  # minimum length of a search in lags, below which a local maximum is undefined
PEAK_LAGS = 8  # candidates around a maximum at lag m are m - m / 8 to m + m / 8
MIN_POINTS = 4  # minimum number of observed values of a series


class SeriesCollection(Protocol):
    """A collection of series (L, F) with the indices 0 to `len` - 1."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> NDArray[np.floating]: ...


@dataclass(frozen=True)
class Season:
    """A season that the search found.

    Attributes:
        steps: season length in steps, 2 or more.
        autocorrelation: autocorrelation of the detrended series at a lag of one season.
    """

    steps: int
    autocorrelation: float


def find_season(series: SeriesCollection, longest: int | None = None) -> Season | None:
    """Find the season of a set of series, or return None if no season is found.

    A season length m is a candidate if the mean autocorrelation of the detrended series meets three
    conditions:

    - Among the lags m/2 to 3m/2, the autocorrelation is highest at lag m. The lag m is therefore a
      local maximum.
    - At some shorter lag, the autocorrelation is at or below 0. A periodic series meets this
      condition, because its autocorrelation sums to 0 over one season.
    - At lag m, the autocorrelation exceeds the upper 95% bound for a process without correlation
      beyond lag q. The bound is z sqrt((1 + 2 (r_1^2 + ... + r_q^2)) / n), by Bartlett's formula
      (Box, Jenkins and Reinsel 2008, "Time Series Analysis", eq. 2.1.15). Here, r_k is the mean
      autocorrelation at lag k, and r_{q + 1} is the first autocorrelation at or below 0. The
      quantile z is corrected for the number of tested lags (Sidak 1967, "Rectangular Confidence
      Regions").

    The autocorrelation of a smooth season has a flat maximum. Each candidate m is therefore
    replaced by the lag that, among the lags m - m/8 to m + m/8, has the highest mean
    autocorrelation over its multiples. The result is the shortest candidate for which the seasonal
    naive forecast is close to the best seasonal naive forecast. A forecast is close to the best if
    its mean squared error within the series is at most 1 + z sqrt(2 / n) times the lowest error,
    because sampling alone may cause such a difference.

    Each feature of each series is detrended in two steps, as in classical decomposition (Hyndman
    and Athanasopoulos, "Forecasting: Principles and Practice", section 3.4). The first step
    subtracts the least-squares line. The second step subtracts a centered moving average, whose
    window extends over the maximum season length on each side. The detrended feature is divided by
    its standard deviation. If no season is found, the search is repeated with half the maximum
    season length, and so on, because a shorter moving average removes more of a drifting level. The
    mean autocorrelation at a lag is the mean over all pairs of observed cells at this lag. In both
    formulas, n is the number of pairs in the series with the most pairs. The pairs of all series
    are not added up, because several series may have the same random shocks.

    Args:
        series: series (L, F) with evenly spaced rows and NaN in unobserved cells.
        longest: maximum season length, in steps. The default and the upper limit are half the
            length of the longest series.
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
    """Return a sample of the series that is small enough for a search within seconds."""
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
    """Return two arrays (lags + 1,): the mean autocorrelation at each lag, and the number of pairs
    in the series with the most pairs. The autocorrelation is 0 at a lag without observed pairs.

    Args:
        series: series (L, F).
        longest: half the window of the moving average that is subtracted, in steps.
        lags: the largest lag.
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
    """Return the sum of `values[t] * values[t + lag]` over t for each lag, as an array (L,). The
    computation uses the Wiener-Khinchin theorem."""
    spectrum = np.fft.rfft(values, size)
    return np.asarray(np.fft.irfft(np.square(np.abs(spectrum)), size)[: len(values)])


def _detrend(values: Floats, observed: NDArray[np.bool_], longest: int) -> Floats | None:
    """Return the detrended values, (L,). Their mean square over the observed steps is 1, and they
    are 0 at unobserved steps. Return None if the values do not deviate from their trend or if too
    few values were observed.

    Args:
        values: (L,) values, with 0 at unobserved steps.
        observed: (L,) booleans that are True at observed values.
        longest: half the window of the moving average, in steps.
    """
    n = int(observed.sum())
    if n < MIN_POINTS:
        return None
    size = float(np.abs(values).max())
    if size > 0:
        values = values / size  # prevents overflow of squares and sums
    steps = np.arange(len(values), dtype=np.float64)
    steps -= steps[observed].mean()
    level = values[observed].mean()
    gradient = (steps[observed] @ (values[observed] - level)) / (steps[observed] @ steps[observed])
    values = np.where(observed, values - level - gradient * steps, 0.0)
    L = len(values)  # the window of the moving average is shorter at the ends
    first, last = np.maximum(np.arange(L) - longest, 0), np.minimum(np.arange(L) + longest + 1, L)
    total = np.concatenate([[0.0], np.cumsum(values)])
    count = np.concatenate([[0], np.cumsum(observed)])
    average = (total[last] - total[first]) / np.maximum(count[last] - count[first], 1)
    values = np.where(observed, values - average, 0.0)
    spread = math.sqrt(float(np.square(values).sum()) / n)
    if spread <= 1e-9:  # only rounding errors of the trend remain
        return None
    return values / spread


def _candidates(acf: Floats, pairs: Floats, longest: int, bound: float) -> list[int]:
    """Return the candidates for the season length that `find_season` describes, shortest first.

    Args:
        acf: (lags + 1,) autocorrelation at each lag.
        pairs: (lags + 1,) number of pairs at each lag.
        longest: maximum season length, in steps.
        bound: number of standard errors that the autocorrelation must exceed.
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
    """Return the mean squared error of the seasonal naive forecast within the series. The errors of
    each feature of a series are divided by the standard deviation of this feature."""
    total, count = 0.0, 0
    for one in series:
        for column in one[:, np.isfinite(one).any(axis=0)].T.astype(np.float64):
            errors = np.square(column[season:] - column[:-season])
            spread = float(np.nanvar(column))
            if spread > 0:
                total += float(np.nansum(errors)) / spread
                count += int(np.isfinite(errors).sum())
    return total / count if count else math.inf
