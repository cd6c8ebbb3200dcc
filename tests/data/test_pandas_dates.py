"""Dates that follow a series against pandas' offsets; see tests/fixtures/make_pandas_dates.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from seqattn.config import OwnFile
from seqattn.data import load_data
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.writing import ForecastSteps
from seqattn.errors import DataError
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]
Dates = np.ndarray[Any, Any]
IRREGULAR = {"BMS", "BME", "BQS-JAN", "BQE-DEC", "BYE-DEC", "SMS-15", "SME-15", "WOM-3FRI"}
WORDS = {
    "D": "1 day", "2D": "2 days", "10D": "10 days", "W-MON": "1 week", "W-TUE": "1 week",
    "W-WED": "1 week", "W-THU": "1 week", "W-FRI": "1 week", "W-SAT": "1 week", "W-SUN": "1 week",
    "2W-WED": "2 weeks", "B": "1 business day", "2B": "2 business days", "3B": "3 business days",
    "MS": "1 month", "ME": "1 month", "2MS": "2 months", "2ME": "2 months", "QS-JAN": "3 months",
    "QS-FEB": "3 months", "QE-DEC": "3 months", "QE-JAN": "3 months", "QE-FEB": "3 months",
    "2QE-DEC": "6 months", "YS-JAN": "12 months", "YS-FEB": "12 months", "YS-JUL": "12 months",
    "YE-DEC": "12 months", "YE-FEB": "12 months", "YE-JUN": "12 months", "4YE-FEB": "48 months",
    "h": "1 hour", "6h": "6 hours", "15min": "15 minutes", "min": "1 minute", "30s": "30 seconds",
    "day 1": "1 month", "day 15": "1 month", "day 28": "1 month", "day 29": "1 month",
    "day 30": "1 month",
}  # fmt: skip


class Case(NamedTuple):
    """A series that pandas made: `dates[:given]` are given, the others follow."""

    calendar: str
    given: int
    dates: Dates


def cases() -> list[Case]:
    lines = (ROOT / "tests/fixtures/pandas_dates.csv").read_text().splitlines()
    assert lines[0].endswith("with pandas 3.1.1")
    assert lines[1] == "calendar,given,dates"
    rows = [line.split(",") for line in lines[2:]]
    return [
        Case(calendar, int(given), np.array(dates.split(), dtype="datetime64[us]"))
        for calendar, given, dates in rows
    ]


CASES = cases()
REGULAR = [case for case in CASES if case.calendar not in IRREGULAR]
BY_CALENDAR = {
    calendar: [case for case in REGULAR if case.calendar == calendar] for calendar in WORDS
}
of_a_calendar = pytest.mark.parametrize("calendar", list(WORDS))


def spacing_of(*series: Dates, trained: Frequency | None = None) -> tuple[Dates, Dates, Spacing]:
    order = np.concatenate(series)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in series])])
    return order, offsets, Spacing.infer(order, offsets, trained)


def test_the_file_has_all_calendars() -> None:
    assert {case.calendar for case in CASES} == {*WORDS, *IRREGULAR}
    assert all(len(found) == 8 for found in BY_CALENDAR.values())
    assert all(case.given == 12 and len(case.dates) == 18 for case in CASES)


@of_a_calendar
def test_dates_go_on_as_in_pandas(calendar: str) -> None:
    """From two dates on; business days from seven, since those of one week are days, too."""
    for case in BY_CALENDAR[calendar]:
        for end in range(7 if WORDS[calendar].endswith(("business day", "business days")) else 2,
                         case.given + 1):  # fmt: skip
            order, offsets, spacing = spacing_of(case.dates[:end])
            assert str(spacing.frequency(0)) == WORDS[calendar]
            assert (spacing.distances(order, offsets) == 1).all()
            follow = case.dates[end : end + 6]
            assert spacing.steps_after(order[-1:], 6)[0].tolist() == follow.tolist()


@pytest.mark.parametrize("clock", [0, 63_000])
def test_all_series_together_are_as_each_alone(clock: int) -> None:
    """At midnight, and at a time of day, which every offset leaves as it is."""
    seconds = np.timedelta64(clock, "s")
    series = [case.dates[: case.given] + seconds for case in REGULAR]
    order, offsets, spacing = spacing_of(*series)
    assert (spacing.distances(order, offsets) == 1).all()
    expected = np.array([case.dates[case.given :] for case in REGULAR]) + seconds
    assert np.array_equal(spacing.steps_after(order[offsets[1:] - 1], 6), expected)


@of_a_calendar
def test_rows_that_lack_are_those_of_pandas(calendar: str) -> None:
    """Three of the given dates are taken out, seven times; their places and dates are found."""
    numbers = np.random.default_rng(3)
    for case, _ in itertools.product(BY_CALENDAR[calendar], range(7)):
        dates = case.dates
        lacking = np.sort(numbers.choice(np.arange(1, len(dates) - 1), 3, replace=False))
        kept = np.delete(np.arange(len(dates)), lacking)
        order, offsets, spacing = spacing_of(dates[kept])
        assert str(spacing.frequency(0)) == WORDS[calendar]
        assert spacing.distances(order, offsets).tolist() == np.diff(kept).tolist()
        before = np.searchsorted(kept, lacking) - 1
        filled = spacing.step_after(np.zeros(3, dtype=int), order[before], lacking - kept[before])
        assert filled.tolist() == dates[lacking].tolist()


@of_a_calendar
def test_few_rows_go_on_with_the_spacing_of_the_training(calendar: str) -> None:
    """One to three dates, as a short input to a trained model has. One alone may be its month's
    last day, whatever the day of the others."""
    for case in BY_CALENDAR[calendar]:
        trained = spacing_of(case.dates)[2].common()
        assert trained is not None
        trained = Frequency.from_plain(trained.as_plain())  # as a checkpoint keeps it
        for rows in (1, 2, 3):
            for end in range(rows, case.given + 1):
                last, _, spacing = spacing_of(case.dates[end - rows : end], trained=trained)
                follow = case.dates[end : end + 6]
                assert spacing.steps_after(last[-1:], 6)[0].tolist() == follow.tolist()


def test_a_day_of_the_month_is_for_the_dates_that_are_on_it() -> None:
    """Month ends and numbers, given to a model of the 30th of each month; and what a checkpoint may
    hold of a day."""
    trained = Frequency("month", 1, 30)
    ends = np.array(["2023-01-31", "2023-02-28"], dtype="datetime64[us]")
    _, _, spacing = spacing_of(ends, trained=trained)
    assert str(spacing.steps_after(ends[-1:], 1)[0, 0])[:10] == "2023-03-31"
    _, _, spacing = spacing_of(np.array([1.0, 3.0]), trained=trained)
    assert spacing.steps_after(np.array([3.0]), 1)[0, 0] == 5
    for bad in ({"unit": "month", "step": 1, "day": 31}, {"unit": "time", "step": 1, "day": 30}):
        with pytest.raises(ValueError, match="day of the month"):
            Frequency.from_plain(bad)
    assert "day" not in Frequency("month", 1).as_plain()


# --- from a file ----------------------------------------------------------------------------------


def table(series: list[Dates], clock: str = "") -> str:
    """Series as CSV; dates without a time of day where none has any."""
    whole = all((dates == dates.astype("datetime64[D]")).all() for dates in series)
    unit = "datetime64[D]" if whole else "datetime64[s]"
    rows = [f"s{k},{date}{clock},{t % 5}"
            for k, dates in enumerate(series) for t, date in enumerate(dates.astype(unit))]  # fmt: skip
    return "\n".join(["sequence,step,x", *rows]) + "\n"


def config_of(file: Path, **keys: Any) -> OwnFile:
    return OwnFile.model_validate({"path": str(file), "source_length": 12, **keys})


@of_a_calendar
def test_a_file_goes_on_as_in_pandas(tmp_path: Path, calendar: str) -> None:
    """Dates as the reader reads them; those with a time of day in UTC, over the nights in which
    clocks change elsewhere."""
    series = [case.dates for case in BY_CALENDAR[calendar]]
    has_clock = calendar in ("h", "6h", "15min", "min", "30s")
    if has_clock:
        series[0] = series[0] + (np.datetime64("2024-03-30T22") - series[0][0])
        series[1] = series[1] + (np.datetime64("2024-10-26T22") - series[1][0])
    (tmp_path / "f.csv").write_text(table(series, "Z" if has_clock else ""))
    splits = load_data(config_of(tmp_path / "f.csv"))
    assert str(splits.frequency) == WORDS[calendar]
    seen = 0
    for part in (splits.train, splits.validation, splits.test):
        follow = ForecastSteps.of_sources(part).after(6)
        for k, name in enumerate(part.ids):
            seen += 1
            assert follow[k].tolist() == series[int(name[1:])][12:].tolist()
    assert seen == len(series)


@pytest.mark.parametrize("calendar", sorted(IRREGULAR))
def test_a_calendar_that_is_not_known_is_refused(tmp_path: Path, calendar: str) -> None:
    """No date is guessed for the first business day of a month, the third Friday, ..."""
    mine = [case for case in CASES if case.calendar == calendar]
    assert mine
    for case in mine:
        (tmp_path / "f.csv").write_text(table([case.dates] * 9))
        for missing in ("refuse", "interpolate") if case is mine[0] else ("refuse",):
            with pytest.raises(DataError, match="is not a multiple of .* data.spacing to uneven"):
                load_data(config_of(tmp_path / "f.csv", missing=missing))


@pytest.mark.parametrize("calendar", ["B", "ME"])
def test_a_run_predicts_the_dates_of_pandas(seqattn: Command, calendar: str) -> None:
    """Inputs of eight rows that end on every weekday, or at the ends of months of leap years and
    of others; and of two rows."""
    series = [case.dates for case in BY_CALENDAR[calendar]]
    Path("f.csv").write_text(table(series))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: f.csv, window: {source: 8, target: 3}}\n"
        "model: {hidden_dim: 2}\ntraining: {epochs: 1}\n"
    )
    done = seqattn("train", "c.yaml", "--quiet", "--plots", "none")
    assert done.code == 0, done.err
    for rows in (8, 2):
        segments = [dates[end - rows : end + 3] for dates in series for end in range(8, 16)]
        Path("g.csv").write_text(table([dates[:rows] for dates in segments]))
        done = seqattn("predict", "outputs/c", "--input", "g.csv")
        assert done.code == 0, done.err
        forecast_rows = [line.split(",")[:2] for line in done.out.splitlines()[1:]]
        expected = [[f"s{k}", str(date)] for k, dates in enumerate(segments)
                    for date in dates[rows:].astype("datetime64[D]")]  # fmt: skip
        assert forecast_rows == expected
