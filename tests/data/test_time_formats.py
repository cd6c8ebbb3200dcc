"""Formats of dates in text tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.data.tables import connection
from seqattn.errors import AmbiguousData


def days(count: int, first: str = "2020-01-01") -> list[datetime.date]:
    start = datetime.date.fromisoformat(first)
    return [start + datetime.timedelta(k) for k in range(count)]


def months(count: int) -> list[datetime.date]:
    return [datetime.date(2019 + k // 12, k % 12 + 1, 1) for k in range(count)]


def written(path: Path, dates: list[str]) -> Path:
    path.write_text("date,x\n" + "".join(f"{date},{k * k}\n" for k, date in enumerate(dates)))
    return path


def dates_of(path: Path, **options: Any) -> list[str]:
    order = read_all(path, Reading(**options)).order
    assert order is not None
    return [str(day) for day in order.astype("datetime64[D]")]


@pytest.mark.parametrize(
    ("dates", "form"),
    [
        (days(28), "%y/%m/%d"),
        (days(28), "%y.%m.%d"),
        (days(70), "%y/%m/%d"),
        (months(12), "%y/%m/%d"),
        ([datetime.date(2000 + k, 12, 31) for k in range(1, 20)], "%d.%m.%y"),
    ],
)
def test_a_year_of_two_digits_may_come_first(
    tmp_path: Path, dates: list[datetime.date], form: str
) -> None:
    path = written(tmp_path / "t.csv", [day.strftime(form) for day in dates])
    with pytest.raises(AmbiguousData, match="begins with the year or not") as caught:
        dates_of(path)
    assert {"time_format": form} in caught.value.choices
    assert dates_of(path, time_format=form) == [str(day) for day in dates]


@pytest.mark.parametrize(
    ("dates", "form"),
    [
        (days(28), "%d.%m.%y"),
        (days(70), "%d/%m/%y"),
        (days(70), "%m/%d/%y"),
        (days(400), "%d.%m.%y"),
        (months(36), "%d.%m.%y"),
        (days(60, "1999-12-01"), "%y/%m/%d"),
    ],
)
def test_other_dates_are_not_asked_about(
    tmp_path: Path, dates: list[datetime.date], form: str
) -> None:
    path = written(tmp_path / "t.csv", [day.strftime(form) for day in dates])
    assert dates_of(path) == [str(day) for day in dates]


@pytest.fixture
def other_zone() -> Iterator[None]:
    """The computer is in another time zone."""
    database = connection._database()
    (own,) = database.sql("SELECT current_setting('TimeZone')").fetchall()[0]
    database.execute("SET GLOBAL TimeZone = 'Asia/Tokyo'")
    yield
    database.execute(f"SET GLOBAL TimeZone = '{own}'")


@pytest.mark.usefixtures("other_zone")
@pytest.mark.parametrize(
    ("form", "zone", "utc", "hour"),
    [
        ("%d/%m/%Y %H:%M%z", "+0100", "+0000", 2),
        ("%d/%m/%Y %H:%M %Z", " UTC", " UTC", 3),
        ("%d/%m/%Y %H:%M %Z", " CET", " UTC", 2),
        ("%d/%m/%Y %H:%M", "", "", 3),
    ],
)
def test_times_of_a_format_with_a_zone_are_utc(
    tmp_path: Path, form: str, zone: str, utc: str, hour: int
) -> None:
    path = written(tmp_path / "t.csv", [f"{day:02}/02/2020 03:00{zone}" for day in range(1, 20)])
    read = read_all(path, Reading(time_format=form))
    assert read.order is not None
    assert str(read.order[0].astype("datetime64[h]")) == f"2020-02-01T{hour:02}"
    assert ("times in 'date' are read and written as UTC" in read.notes) == bool(zone)
    first = read.order[0].astype("datetime64[us]").item()
    assert first.strftime(read.style.time_formats[0]) == f"01/02/2020 {hour:02}:00{utc}"


@pytest.mark.parametrize("form", ["%m/%Y", "%m-%Y"])
def test_months_before_years_are_dates(tmp_path: Path, form: str) -> None:
    dates = [day.strftime(form) for day in months(30)]
    expected = [str(day) for day in months(30)]
    path = written(tmp_path / "long.csv", dates[::-1])
    assert dates_of(path) == expected
    path.write_text(path.read_text().partition("\n")[2])
    assert dates_of(path) == expected
    path.write_text(f"place,{','.join(dates)}\n" + f"a{',1.5' * 30}\nb{',2.5' * 30}\n")
    assert dates_of(path) == expected * 2
