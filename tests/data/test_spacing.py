"""How steps are spaced: found for each series, gaps refused or filled, and forecasts that go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqattn.config import OwnFile
from seqattn.data import Splits, load_data
from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.writing import ForecastSteps
from seqattn.errors import AmbiguousData, DataError
from tests.conftest import Ended

Command = Callable[..., Ended]
Dates = Callable[[int], np.ndarray[Any, Any]]


def months(first: str, every: int, day: int | None = None) -> Dates:
    """Every so many months on a day, or on the last day: by month arithmetic alone."""

    def made(n: int) -> np.ndarray[Any, Any]:
        month = np.datetime64(first, "M") + every * np.arange(n)
        began = month.astype("datetime64[D]")
        if day is None:
            return (month + 1).astype("datetime64[D]") - 1
        return began + (day - 1)

    return made


def spans(first: str, size: int, unit: Any) -> Dates:
    return lambda n: np.datetime64(first) + np.arange(n) * np.timedelta64(size, unit)


CALENDARS: dict[str, tuple[Dates, str]] = {
    "daily": (spans("2023-12-30", 1, "D"), "1 day"),
    "weekly": (spans("2023-12-30", 7, "D"), "1 week"),
    "every third day": (spans("2023-12-30", 3, "D"), "3 days"),
    "hourly": (spans("2023-12-30T22:00", 1, "h"), "1 hour"),
    "15 minutes": (spans("2023-12-30T22:30", 15, "m"), "15 minutes"),
    "business days": (
        lambda n: np.busday_offset("2001-06-18", np.arange(n), roll="forward"), "1 business day",
    ),
    "month starts": (months("2023-11", 1, 1), "1 month"),
    "15th of months": (months("2023-11", 1, 15), "1 month"),
    "month ends": (months("2023-10", 1), "1 month"),
    "quarter starts": (months("2022-10", 3, 1), "3 months"),
    "quarter ends": (months("2022-12", 3), "3 months"),
    "years": (months("1996-02", 12, 1), "12 months"),
    "year ends": (months("1996-12", 12), "12 months"),
    "leap days": (months("1996-02", 12), "12 months"),
}  # fmt: skip
calendars = pytest.mark.parametrize(
    ("dates", "words"), CALENDARS.values(), ids=CALENDARS.keys()
)  # fmt: skip


def spacing_of(*series: Any, trained: Frequency | None = None) -> tuple[Any, Any, Spacing]:
    order = np.concatenate([np.asarray(one) for one in series])
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in series])])
    return order, offsets, Spacing.infer(order, offsets, trained)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-50, 50), st.sampled_from([1, 2, 7, 0.1, 0.25]),
    st.sets(st.integers(0, 15), min_size=8),
)  # fmt: skip
def test_numbers_are_counted_by_their_smallest_distance(
    first: int, step: float, places: set[int]
) -> None:
    at = np.array(sorted(places))
    order, offsets, spacing = spacing_of(first + step * at)
    smallest = np.diff(at).min()
    expected = np.diff(at) / smallest
    if (expected == np.round(expected)).all():
        assert spacing.distances(order, offsets).tolist() == expected.tolist()
        assert spacing.steps_after(order[-1:], 1)[0] == pytest.approx(order[-1] + step * smallest)
    elif step == round(step):  # whole numbers that skip unevenly are gaps, too
        assert (spacing.distances(order, offsets) != 1).any()
    else:
        assert not spacing.is_known[0]


def test_without_a_known_interval_steps_are_counted() -> None:
    times = np.datetime64("2001-01-01") + np.array([0, 61, 119, 200, 263]).astype("timedelta64[s]")
    _, _, spacing = spacing_of(times)
    assert np.isnat(ForecastSteps(times[-1:], spacing).after(3)).all()
    _, _, spacing = spacing_of(np.array([0, 0.61, 1.19, 2.0]))
    assert ForecastSteps(np.array([2.0]), spacing).after(3).tolist() == [[1, 2, 3]]
    _, _, spacing = spacing_of(np.array(["2001-01-01"], dtype="datetime64[us]"))
    assert np.isnat(ForecastSteps(times[:1], spacing).after(1)).all()


def test_few_rows_take_the_spacing_of_the_training_or_of_the_others() -> None:
    week = CALENDARS["business days"][0](5).astype("datetime64[us]")
    business = Frequency("business_day", 1)
    assert spacing_of(week)[2].frequency(0) == Frequency("time", 86_400e6)
    _, _, spacing = spacing_of(week, trained=business)
    assert str(spacing.steps_after(week[-1:], 1)[0, 0])[:10] == "2001-06-25"
    long = np.busday_offset("2001-06-18", np.arange(20)).astype("datetime64[us]")
    order, offsets, spacing = spacing_of(long, week[[0, 2]], week[4:])
    assert [spacing.frequency(k) for k in range(3)] == [business] * 3
    assert spacing.distances(order, offsets)[20] == 2  # two rows that skip one
    assert str(spacing.steps_after(week[[4, 4, 4]], 1)[2, 0])[:10] == "2001-06-25"
    assert Frequency.from_plain(business.as_plain()) == business
    for bad in ({"unit": "unknown", "step": 1}, {"unit": "time", "step": 0}, {"unit": "time"}):
        with pytest.raises((KeyError, ValueError)):
            Frequency.from_plain(bad)


# --- from a file ----------------------------------------------------------------------------------


def table(*series: Any) -> str:
    rows = [f"s{k},{step},{t}" for k, one in enumerate(series) for t, step in enumerate(one)]
    return "\n".join(["sequence,step,x", *rows]) + "\n"


def loaded(tmp_path: Path, text: str, **keys: Any) -> Splits:
    file = tmp_path / "f.csv"
    file.write_text(text)
    return load_data(OwnFile.model_validate({"path": str(file), "source_length": 3, **keys}))


@calendars
def test_missing_dates_are_refused_or_filled_like_missing_numbers(
    tmp_path: Path, dates: Dates, words: str
) -> None:
    every = dates(12)
    with_gap = np.delete(every, 6)
    text = table(*[every] * 9, with_gap)
    here, before = (str(with_gap[k].astype("datetime64[us]"))[:16] for k in (6, 5))
    with pytest.raises(DataError) as caught:
        loaded(tmp_path, text)
    message = str(caught.value)
    for word in ("f.csv: line 116: step", f"but steps are {words} apart", "data.missing",
                 "data.spacing to uneven", here.removesuffix("T00:00"),
                 before.removesuffix("T00:00")):  # fmt: skip
        assert word in message
    splits = loaded(tmp_path, text, missing="interpolate")
    assert {name for name, *_ in splits.split} == {f"s{k}" for k in range(10)}
    for part in (splits.train, splits.validation, splits.test):
        for k, name in enumerate(part.ids):
            expected = np.arange(3.0, 12)
            if name == "s9":
                expected = np.array([3, 4, 5, np.nan, 6, 7, 8, 9, 10])
            assert np.array_equal(part.target[k, :, 0], expected, equal_nan=True)
    dropped = loaded(tmp_path, text, missing="drop_sequence")
    assert "s9" not in {*dropped.train.ids, *dropped.validation.ids, *dropped.test.ids}


def test_series_of_different_spacings_get_no_rows_that_none_of_them_lacks(tmp_path: Path) -> None:
    day, week = (CALENDARS[name][0](12) for name in ("daily", "weekly"))
    for series in ([day] * 5 + [week] * 5, [range(12)] * 5 + [range(0, 24, 2)] * 5):
        splits = loaded(tmp_path, table(*series), missing="interpolate")
        for part in (splits.train, splits.validation, splits.test):
            assert part.target.shape[1] == 9
            assert part.target_observed is None
        assert splits.frequency is None
        assert any("different spacings, each its own" in note for note in splits.notes)


def test_dates_that_skip_unevenly_are_refused_and_jittered_times_are_noted(tmp_path: Path) -> None:
    odd = np.datetime64("2001-01-01") + np.cumsum([2, 3, 4, 2, 5, 2, 3, 4, 5, 4])
    for missing in ("refuse", "interpolate"):
        with pytest.raises(DataError, match="data.spacing to uneven"):
            loaded(tmp_path, table(*[odd] * 9), missing=missing)
    times = np.datetime64("2001-01-01T00:00:00") + np.cumsum([60, 61, 59, 60, 62, 58, 63])
    splits = loaded(tmp_path, table(*[times] * 9))
    assert any("are not evenly spaced ('s" in note for note in splits.notes)


# --- check, and many files ------------------------------------------------------------------------


def test_what_check_proposes_fits_how_rows_follow_each_other(
    seqattn: Command, tmp_path: Path
) -> None:
    days = CALENDARS["business days"][0](40)
    odd = np.datetime64("2001-01-01") + np.cumsum([2, 3, 4, 2, 5] * 8)
    for dates, words, proposed in (
        (days, "spacing 1 business day", "time: date"),
        (
            np.delete(days, 9),
            "spacing 1 business day, 1 missing row",
            "missing: interpolate",
        ),
        (odd, "not evenly spaced", "spacing: uneven"),
    ):
        rows = "".join(f"{d},{k}\n" for k, d in enumerate(dates))
        Path("f.csv").write_text(f"date,x\n{rows}")
        done = seqattn("data", "check", "f.csv")
        assert words in done.out
        section = done.out.partition("config:\n\n")[2]
        assert proposed in section
        assert ("missing" in section) == (proposed == "missing: interpolate")
        import yaml

        load_data(OwnFile.model_validate(yaml.safe_load(section)["data"]))


def test_a_time_that_comes_again_in_a_file_further_on_is_refused(tmp_path: Path) -> None:
    for k, names in enumerate(["ab", "cd", "ea"]):
        pq.write_table(pa.table({
            "sequence": [name for name in names for _ in range(4)],
            "step": [t + 3 * (k == 2) for _ in names for t in range(4)], "x": [0.0] * 8,
        }), tmp_path / f"part-{k}.parquet")  # fmt: skip
    with pytest.raises(DataError, match="the series 'a' has two rows of 3 in its files"):
        load_data(OwnFile.model_validate({"path": str(tmp_path), "target_length": 1}))


@pytest.mark.parametrize(
    ("form", "size", "n", "written"),
    [("%y%m%d", timedelta(days=1), 100, "2020-01-30"),
     ("%H%M", timedelta(minutes=10), 140, "00:10"),
     ("%Y%j", timedelta(days=1), 400, "2020-01-31")],
)  # fmt: skip
def test_digits_of_times_are_no_numbers_with_gaps(
    tmp_path: Path, form: str, size: timedelta, n: int, written: str
) -> None:
    times = [datetime(2020, 1, 30) + size * k for k in range(n)]
    steps = [int(time.strftime(form)) for time in times][form != "%y%m%d" :]
    check_digits(tmp_path, steps, written)


def check_digits(folder: Path, steps: list[int], written: str) -> None:
    rows = "\n".join(f"{step},{k % 3}" for k, step in enumerate(steps))
    (folder / "d.csv").write_text(f"t,x\n{rows}\n")
    config = OwnFile.model_validate({
        "path": str(folder / "d.csv"), "time": "t", "window": {"source": 2, "target": 1},
        "missing": "interpolate",
    })  # fmt: skip
    with pytest.raises(AmbiguousData, match=f"look like .* Write them as {written}"):
        load_data(config)


@pytest.mark.parametrize(
    "days",
    [[*range(1, 366, 8), *range(1001, 1366, 8)], [*range(300, 366), *range(1002, 1050)]],
    ids=["every eight days", "without the first of January"],
)
def test_days_of_the_year_may_begin_anew_with_each_year(tmp_path: Path, days: list[int]) -> None:
    check_digits(tmp_path, [2_018_000 + day for day in days], "2018-")


@pytest.mark.parametrize("form", ["%Y%m", "%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
@pytest.mark.parametrize("n", [8, 40])
def test_digits_of_dates_are_dates_also_at_even_distances(
    tmp_path: Path, form: str, n: int
) -> None:
    """The first eight are evenly spaced as numbers, too; further files may go on with gaps."""
    size = {"%Y%m": 31 * 86400, "%Y%m%d": 86400, "%Y%m%d%H": 3600, "%Y%m%d%H%M": 60}.get(form, 1)
    times = [datetime(2020, 1, 2) + timedelta(seconds=size * k) for k in range(n)]
    rows = "\n".join(f"{time.strftime(form)},{k % 3}" for k, time in enumerate(times))
    (tmp_path / "d.csv").write_text(f"t,x\n{rows}\n")
    found = read_all(tmp_path / "d.csv", Reading())
    assert found.order is not None
    assert str(found.order[0]).startswith("2020-01-0")
    assert "'t' is read as dates without dashes" in found.notes
