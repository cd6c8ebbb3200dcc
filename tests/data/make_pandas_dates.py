"""Writes pandas_dates.csv: series of dates made by pandas, and the dates that follow them.

    python tests/data/make_pandas_dates.py > tests/data/pandas_dates.csv

needs pandas (3.1.1 made the file that is here), which the tests do not need. A row is a series:

    calendar  the pandas offset, or "day 30" for the 30th, or else the last day, of each month
    given     how many of its dates are given; the others follow
    dates     in order, apart by a space

Each series ends at one of `ENDS`: before and after the ends of February, of years and of weeks,
1900 to 2100. 1900 and 2100 are no leap years, 1904, 2000 and 2024 are.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

GIVEN, NEXT = 12, 6
ENDS = (
    "1900-02-28", "1904-02-27", "1999-12-31", "2000-02-29", "2023-12-29", "2024-02-28",
    "2099-12-31", "2100-02-26",
)  # fmt: skip
WEEKS = tuple(f"W-{day}" for day in ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"))
DAYS = ("D", "2D", "10D", *WEEKS, "2W-WED", "B", "2B", "3B")
MONTHS = (
    "MS", "ME", "2MS", "2ME", "QS-JAN", "QS-FEB", "QE-DEC", "QE-JAN", "QE-FEB", "2QE-DEC",
    "YS-JAN", "YS-FEB", "YS-JUL", "YE-DEC", "YE-FEB", "YE-JUN", "4YE-FEB",
)  # fmt: skip
TIMES = ("h", "6h", "15min", "min", "30s")
IRREGULAR = ("BMS", "BME", "BQS-JAN", "BQE-DEC", "BYE-DEC", "SMS-15", "SME-15", "WOM-3FRI")


def main() -> None:
    print(f"# made by tests/data/make_pandas_dates.py with pandas {pd.__version__}")
    print("calendar,given,dates")
    for calendar, dates in series():
        clock = any(date != date.normalize() for date in dates)
        form = "%Y-%m-%dT%H:%M:%S" if clock else "%Y-%m-%d"
        print(f"{calendar},{GIVEN},{' '.join(date.strftime(form) for date in dates)}")


def series() -> Iterator[tuple[str, pd.DatetimeIndex]]:
    for calendar in (*DAYS, *MONTHS, *TIMES, *IRREGULAR):
        for end in ENDS:
            hour = pd.Timedelta(hours=22) if calendar in TIMES else pd.Timedelta(0)
            given = pd.date_range(end=pd.Timestamp(end) + hour, periods=GIVEN, freq=calendar)
            follows = pd.date_range(start=given[-1], periods=NEXT + 1, freq=calendar)
            assert follows[0] == given[-1]
            plain = pd.DatetimeIndex(list(given))  # with a freq, is_month_end is of business months
            if calendar in IRREGULAR and (plain.is_month_end.all() or (plain.day == 1).all()):
                continue  # no weekend was in the way, so it is also a regular one
            yield calendar, given.append(follows[1:])
    for day in (1, 15, 28, 29, 30):
        for end in ENDS:
            first = pd.Timestamp(end).replace(day=1) - pd.DateOffset(months=GIVEN)
            first = first.replace(month=first.month if day < 29 else 12, day=day)
            months = (first + pd.DateOffset(months=k) for k in range(GIVEN + NEXT))
            yield f"day {day}", pd.DatetimeIndex(list(months))


if __name__ == "__main__":
    main()
