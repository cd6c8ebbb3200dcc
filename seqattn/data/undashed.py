"""Detection of numbers that look like dates without dashes, or like times of day without colons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.spacing import Integers, days_of_month

DATES, TIMES_OF_DAY = "dates written without dashes", "times of day written without colons"


def as_dashed_date(order: NDArray[Any]) -> tuple[str, str] | None:
    """Return what all times look like, and the first time in ISO format.

    Such times are integers that represent days (YYYYMMDD), months (YYYYMM) or times (YYYYMMDDHH,
    YYYYMMDDHHMM or YYYYMMDDHHMMSS) from 1900 to 2099. Integers that represent days (YYMMDD, or
    YYYYDDD with the day of the year) or times of day (HHMM) count only if they are spaced more
    evenly as times than as numbers. YYYYDDD also counts if it is evenly spaced within each of
    several years. For other times, return None.
    """
    if order.dtype.kind == "M" or not len(order) or not (order == np.round(order)).all():
        return None
    numbers, indices = np.unique(np.asarray(order, dtype=np.int64), return_index=True)
    first = int(np.argmin(indices))
    for unit, scale, pairs in (("M", 100, 0), ("D", 1, 0), ("h", 1, 1), ("m", 1, 2), ("s", 1, 3)):
        times = _parse(numbers * scale + (unit == "M"), pairs)
        if times is not None:
            return DATES, _iso(times[first], unit)
    days = _parse_even_days(numbers)
    if days is not None:
        return DATES, _iso(days[first], "D")
    if numbers[0] >= 0 and numbers[-1] < 2400:
        times = _parse(numbers + 200_101_010_000, 2)
        if times is not None and _gained_evenness(numbers, times) >= 2:
            return TIMES_OF_DAY, _iso(times[first], "m")
    return None


def _parse_even_days(numbers: Integers) -> NDArray[np.datetime64] | None:
    """Return sorted integers YYMMDD or YYYYDDD as times in seconds if they are spaced more evenly
    as times than as numbers, or if they are integers YYYYDDD that are evenly spaced within each of
    several years. Otherwise, return None."""
    times = None
    if numbers[0] >= 10_101 and numbers[-1] <= 991_231:
        times = _parse(numbers + 20_000_000, 0)
    elif numbers[0] >= 1_900_001 and numbers[-1] <= 2_099_366:
        times = _parse_day_of_year(numbers)
        if times is not None and _is_even_within_years(numbers):
            return times
    return times if times is not None and _gained_evenness(numbers, times) >= 1 else None


def _parse(numbers: Integers, pairs: int) -> NDArray[np.datetime64] | None:
    """Return sorted integers YYYYMMDD as times in seconds, or None if one of them is no such time
    from 1900 to 2099.

    Args:
        numbers: the integers.
        pairs: number of pairs of digits after the day: 1 for hours, 2 also for minutes, and 3 also
            for seconds.
    """
    days, clock = np.divmod(numbers, 100**pairs)
    if days[0] < 19_000_101 or days[-1] > 20_991_231:
        return None
    month, day = days // 100 % 100, days % 100
    hour, minute, second = (clock * 100 ** (3 - pairs) // size % 100 for size in (10_000, 100, 1))
    if not ((month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    months = (12 * (days // 10_000 - 1970) + month - 1).astype("datetime64[M]")
    if not ((day >= 1) & (day <= days_of_month(months))).all():
        return None
    seconds = ((day - 1) * 24 + hour) * 3600 + 60 * minute + second
    return np.asarray(months.astype("datetime64[s]") + seconds)


def _parse_day_of_year(numbers: Integers) -> NDArray[np.datetime64] | None:
    """Return integers YYYYDDD as times in seconds, or None if one of them is no day of its year."""
    year, day = np.divmod(numbers, 1000)
    years = (year - 1970).astype("datetime64[Y]")
    dates = years.astype("datetime64[D]") + (day - 1)
    is_valid = (day >= 1) & (dates.astype("datetime64[Y]") == years)
    return dates.astype("datetime64[s]") if is_valid.all() else None


def _is_even_within_years(numbers: Integers) -> bool:
    """Return whether sorted integers YYYYDDD have several years, and at least three equal
    differences within the years and no other."""
    years = numbers // 1000
    within = np.diff(numbers)[years[1:] == years[:-1]]
    return bool(years[0] < years[-1] and len(within) >= 3 and (within == within[0]).all())


def _gained_evenness(numbers: Integers, times: NDArray[np.datetime64]) -> int:
    """Return how many more of the differences between consecutive values equal the smallest
    difference if the values are times rather than numbers."""
    if len(numbers) < 3:
        return 0
    of_numbers, of_times = np.diff(numbers), np.diff(times)
    return int((of_times == of_times.min()).sum()) - int((of_numbers == of_numbers.min()).sum())


def _iso(time: np.datetime64, unit: str) -> str:
    """Return a time as text with the given precision, and with a day."""
    precision = "D" if unit == "M" else "m" if unit == "h" else unit
    return str(time.astype(f"datetime64[{precision}]")).replace("T", " ")
