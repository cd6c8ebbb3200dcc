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


@calendars
def test_forecasts_go_on_in_the_series_own_calendar(dates: Dates, words: str) -> None:
    """From wherever a series ends: a business-day series on a Friday and on a Monday, too."""
    every = dates(40).astype("datetime64[us]")
    for n in range(8, 30):
        order, offsets, spacing = spacing_of(every[:n])
        assert str(spacing.frequency(0)) == words
        assert (spacing.distances(order, offsets) == 1).all()
        assert np.array_equal(ForecastSteps(order[-1:], spacing).after(10)[0], every[n : n + 10])


@calendars
def test_gaps_are_seen_and_their_rows_named(dates: Dates, words: str) -> None:
    every = dates(30).astype("datetime64[us]")
    kept = np.delete(every, [11, 12, 20])
    order, offsets, spacing = spacing_of(kept)
    assert str(spacing.frequency(0)) == words
    steps = spacing.distances(order, offsets)
    assert np.flatnonzero(steps != 1).tolist() == [10, 17]
    assert steps[[10, 17]].tolist() == [3, 2]
    lacking = spacing.step_after(np.zeros(3, dtype=int), order[[10, 10, 17]], np.array([1, 2, 1]))
    assert np.array_equal(lacking, every[[11, 12, 20]])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(CALENDARS)), st.integers(9, 25)), min_size=1, max_size=5
    )
)
def test_each_series_has_its_own(chosen: list[tuple[str, int]]) -> None:
    series = [CALENDARS[name][0](n).astype("datetime64[us]") for name, n in chosen]
    order, offsets, spacing = spacing_of(*series)
    assert [str(spacing.frequency(k)) for k in range(len(chosen))] == [
        CALENDARS[name][1] for name, _ in chosen
    ]
    assert (spacing.distances(order, offsets) == 1).all()
    for k, (one, alone) in enumerate(zip(series, map(spacing_of, series), strict=True)):
        assert spacing.frequency(k) == alone[2].frequency(0)
        assert spacing.steps_after(one[-1:].repeat(len(chosen)), 3)[k].tolist() == (
            alone[2].steps_after(one[-1:], 3)[0].tolist()
        )


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


def test_months_without_dashes_are_no_numbers(tmp_path: Path, seqattn: Command) -> None:
    """From 200112 to 200201 is a month; 88 rows between would be invented."""
    steps = [100 * year + month for year in (2001, 2002) for month in range(1, 13)]
    for missing in ("refuse", "interpolate"):
        splits = loaded(tmp_path, table(*[steps] * 9), missing=missing)
        assert "'step' is read as dates without dashes" in " ".join(splits.notes)
        assert splits.split[0][2:] == ("2001-01-01", "2002-12-01")
    loaded(tmp_path, table(*[steps[:12]] * 9))
    (tmp_path / "f.csv").write_text(table(*[steps] * 9))
    done = seqattn("data", "check", tmp_path / "f.csv")
    assert "time: step" in done.out
    assert "step: 2001-01-01 to 2002-12-01, spacing 1 month" in done.out


def test_one_file_is_no_two_parts(tmp_path: Path) -> None:
    text = table(*[range(8)] * 9)
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.csv").write_text(text.replace("s0", name))
    paths = {f"{name}_path": str(tmp_path / f"{name}.csv") for name in ("validation", "test")}
    described = {"path": str(tmp_path / "train.csv"), "source_length": 3, **paths}
    load_data(OwnFile.model_validate(described))
    (tmp_path / "test.csv").write_text(text.replace("s0", "train"))
    with pytest.raises(
        DataError, match=r"test.csv: has the same content as .*train.csv, which belongs"
    ):
        load_data(OwnFile.model_validate(described))


def test_dates_that_skip_unevenly_are_refused_and_jittered_times_are_noted(tmp_path: Path) -> None:
    odd = np.datetime64("2001-01-01") + np.cumsum([2, 3, 4, 2, 5, 2, 3, 4, 5, 4])
    for missing in ("refuse", "interpolate"):
        with pytest.raises(DataError, match="data.spacing to uneven"):
            loaded(tmp_path, table(*[odd] * 9), missing=missing)
    times = np.datetime64("2001-01-01T00:00:00") + np.cumsum([60, 61, 59, 60, 62, 58, 63])
    splits = loaded(tmp_path, table(*[times] * 9))
    assert any("are not evenly spaced ('s" in note for note in splits.notes)


@pytest.mark.parametrize("last", ["2001-08-03", "2001-08-06"])  # a Friday, a Monday
def test_a_run_forecasts_business_days(seqattn: Command, tmp_path: Path, last: str) -> None:
    """Trained, and asked with few rows, with many, and for a test sequence."""
    days = np.arange("2001-03-01", "2001-12-01", dtype="datetime64[D]")
    days = days[np.is_busday(days)]
    Path("f.csv").write_text("step,x\n" + "".join(f"{d},{k % 5}\n" for k, d in enumerate(days)))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: f.csv, series: null, window: {source: 4, target: 3},"
        " split: {by: time}}\nmodel: {hidden_dim: 2}\ntraining: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    end = np.datetime64(last)
    expected = [str(np.busday_offset(end, k)) for k in (1, 2, 3)]
    for rows in (4, 30):
        given = days[days <= end][-rows:]
        Path("g.csv").write_text("step,x\n" + "".join(f"{d},{k}\n" for k, d in enumerate(given)))
        done = seqattn("predict", "outputs/c", "--input", "g.csv")
        assert [line.split(",")[1] for line in done.out.splitlines()[1:]] == expected
    done = seqattn("predict", "outputs/c")
    for name, *steps in zip(*[iter(line.split(",")[:2] for line in done.out.splitlines()[1:])] * 3,
                            strict=True):  # fmt: skip
        begins = np.datetime64(name[0].partition("@")[2])
        forecast_steps = [name[1], *(step for _, step in steps)]
        assert forecast_steps == [str(np.busday_offset(begins, k)) for k in range(3)]
    Path("g.csv").write_text(Path("g.csv").read_text().replace(f"{given[-3]},", "2001-07-07,"))
    done = seqattn("predict", "outputs/c", "--input", "g.csv")
    assert done.code == 3


def test_times_that_cannot_go_on_are_counted_or_refused(seqattn: Command, tmp_path: Path) -> None:
    Path("f.csv").write_text(table(*[range(7)] * 9))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: f.csv, source_length: 5}\nmodel: {hidden_dim: 2}\n"
        "training: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml", "--quiet", "--plots", "none").code == 0
    times = np.datetime64("2001-01-01T00:00:00") + np.cumsum([60, 61, 59, 60, 62])
    hours = CALENDARS["hourly"][0](5)
    Path("g.csv").write_text(table(times, hours))
    done = seqattn("predict", "outputs/c", "--input", "g.csv")
    steps = [line.split(",")[1] for line in done.out.splitlines()[1:]]
    assert steps == ["1", "2", "2023-12-31T03:00:00", "2023-12-31T04:00:00"]
    assert "not evenly spaced" in " ".join(done.err.split())
    done = seqattn("predict", "outputs/c", "--input", "g.csv", "--output", "g.parquet")
    assert done.code == 3
    assert "sequence 's0': its dates are not evenly spaced" in " ".join(done.err.split())


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


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 4, 7]), st.integers(0, 2), st.integers(0, 2)),
        min_size=6, max_size=6,
    )
)  # fmt: skip
def test_series_are_the_same_however_they_lie_in_files(
    tmp_path_factory: pytest.TempPathFactory, homes: list[tuple[int, int, int]]
) -> None:
    """Six series of 10 points in three files: the first points of each in one, the rest in one."""
    home = tmp_path_factory.mktemp("d")
    rows: list[list[tuple[str, int]]] = [[], [], []]
    for k, (cut, first, second) in enumerate(homes):
        for t in range(10):
            rows[first if t < cut else second].append((f"s{k}", t))
    for k, mine in enumerate(rows):
        if mine:
            pq.write_table(pa.table({
                "sequence": [name for name, _ in mine], "step": [t for _, t in mine],
                "x": [float(10 * int(name[1:]) + t) for name, t in mine],
            }), home / f"part-{k}.parquet")  # fmt: skip
    for cache in ("never", "always"):
        splits = load_data(OwnFile.model_validate({
            "path": str(home), "target_length": 1, "split": {"validation": 0.3, "test": 0.3},
            "cache": cache,
        }))  # fmt: skip
        found = {
            name: [*source[:, 0], *target[:, 0]]
            for part in (splits.train, splits.validation, splits.test)
            for name, source, target in zip(part.ids, part.source, part.target, strict=True)
        }
        assert found == {f"s{k}": [10.0 * k + t for t in range(10)] for k in range(6)}


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
