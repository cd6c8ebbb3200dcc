"""Times of digits, and times in several columns."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.data.chunk import Chunk
from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import DataError

START = datetime(2020, 1, 1)


def days(n: int, first: datetime = START) -> list[datetime]:
    return [first + timedelta(days=k) for k in range(n)]


def read(tmp_path: Path, text: str, **keys: Any) -> Chunk:
    path = tmp_path / "t.csv"
    path.write_text(text)
    return read_all(path, Reading(**keys))


def table(times: list[str], head: str = "t,x") -> str:
    return "\n".join([head, *(f"{time},{k % 5}.5" for k, time in enumerate(times))]) + "\n"


@pytest.mark.parametrize("time", ["auto", ("t",)])
@pytest.mark.parametrize("form", ["%d%m%Y", "%Y%m%d", "%y%m%d", "%Y%m%d%H", "%Y%j"])
@pytest.mark.parametrize("first", [1, 10])
def test_a_time_format_applies_to_digits(tmp_path: Path, form: str, time: Any, first: int) -> None:
    """With and without zeros before the first digit. Before, such times were numbers."""
    times = days(40, datetime(2020, 1, first))
    text = table([day.strftime(form) for day in times])
    chunk = read(tmp_path, text, time_format=form, time=time)
    assert chunk.order is not None
    assert chunk.order.tolist() == times
    assert chunk.style.time_formats == (form,)


def test_a_time_format_applies_to_integers_of_a_parquet_file(tmp_path: Path) -> None:
    numbers = [int(day.strftime("%Y%m%d")) for day in days(28)]
    values = {"t": numbers, "n": [int(f"2020{k + 101:04}") for k in range(28)]}
    pq.write_table(pa.table(values), tmp_path / "t.parquet")
    chunk = read_all(tmp_path / "t.parquet", Reading(time=("t",), time_format="%Y%m%d"))
    assert chunk.order is not None
    assert chunk.order.tolist() == days(28)
    assert chunk.points.features == ("n",)


def test_other_columns_of_digits_are_no_times(tmp_path: Path) -> None:
    text = table([f"{1990 + k},{2001 + k * k}" for k in range(9)], "year,price,x")
    for keys in ({"time": ("year",)}, {"features": ("price", "x")}):
        chunk = read(tmp_path, text, time_format="%Y", **keys)
        assert chunk.order is not None
        assert chunk.order[-1] == np.datetime64("1998-01-01")
        assert chunk.points.features == ("price", "x")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("form", "last"), [("%Y%m%d", "2020-02-28"), ("%Y%m", "2021-12-01")])
def test_even_digits_are_dates_if_those_of_the_training_were(
    tmp_path: Path, ending: str, form: str, last: str
) -> None:
    """Before, 20200230 followed a month of February."""
    trained = (
        days(60)
        if form == "%Y%m%d"
        else [datetime(2020 + k // 12, k % 12 + 1, 1) for k in range(24)]
    )
    new = trained[31:59] if form == "%Y%m%d" else trained[12:]

    def read_as(times: list[datetime], **keys: Any) -> Chunk:
        numbers = [int(time.strftime(form)) for time in times]
        path = tmp_path / f"t.{ending}"
        if ending == "csv":
            path.write_text(table(list(map(str, numbers))))
        else:
            pq.write_table(pa.table({"t": numbers, "x": np.arange(len(times)) + 0.5}), path)
        return read_all(path, Reading(**keys))

    first = read_as(trained)
    assert first.reading is not None
    order = read_as(new, trained=first.reading).order
    assert order is not None
    assert order[-1] == np.datetime64(last)


def test_cells_of_a_wide_table_are_no_times(tmp_path: Path) -> None:
    text = "id,x_1,x_2\n" + "".join(
        f"{name},{2001 + k},{1990 + k}\n" for k, name in enumerate("abc")
    )
    assert read(tmp_path, text, time_format="%Y").points.of(0)[:, 0].tolist() == [2001, 1990]


def test_numbers_without_the_time_format_are_an_error(tmp_path: Path) -> None:
    text = table(["20200130", "20200131", "20200132"])
    with pytest.raises(DataError, match=r"line 4, column 't' contains '20200132', .*'%Y%m%d'"):
        read(tmp_path, text, time_format="%Y%m%d")


def test_numbers_in_place_of_another_unit_are_an_error(tmp_path: Path) -> None:
    """Before, quarters and weeks were months, and seconds were left out."""
    rows = [f"{2000 + k // 4},{k % 4 + 1},{k}" for k in range(12)]
    for unit in ("quarter", "week", "Day", "minutes"):
        text = "\n".join([f"year,{unit},x", *rows]) + "\n"
        with pytest.raises(DataError, match=rf"'{unit}' .*the place of the month"):
            read(tmp_path, text, time=("year", unit))
    text = "\n".join(["year,month,x", *rows]) + "\n"
    assert read(tmp_path, text, time=("year", "month")).order is not None
    with pytest.raises(DataError, match=r"'month' .*the place of the year"):
        read(tmp_path, text, time=("month", "year"))
    text = "\n".join(["date,minute,x", *(f"2020-01-{k + 1:02},{k},{k}" for k in range(9))]) + "\n"
    with pytest.raises(DataError, match=r"'minute' .*the place of the hour"):
        read(tmp_path, text, time=("date", "minute"))


def test_seconds_are_the_last_part_of_a_time(tmp_path: Path) -> None:
    times = [START + timedelta(seconds=20 * k) for k in range(200)]
    names = ("year", "month", "day", "hour", "minute", "second")
    rows = [time.strftime("%Y,%m,%d,%H,%M,%S") for time in times]
    chunk = read(tmp_path, table(rows, ",".join(names) + ",x"), time=names)
    assert chunk.order is not None
    assert chunk.order.tolist() == times
    assert chunk.style.time_formats == ("%Y", "%m", "%d", "%H", "%M", "%S")
    with pytest.raises(DataError, match="at most 6 columns"):
        read(tmp_path, table(rows, ",".join(names) + ",x"), time=(*names, "x"))


@pytest.mark.parametrize(
    ("form", "found"),
    [("%Y%m%d,%H", ("%Y%m%d", "%H")), ("%Y%m%d,%H:%M", ("%Y%m%d", "%H:%M")),
     ("%Y%m%d,%H,%M", ("%Y%m%d", "%H", "%M")), ("%d.%m.%Y,%H,%M", ("%d.%m.%Y", "%H", "%M"))],
)  # fmt: skip
def test_a_date_without_dashes_and_an_hour_are_one_time(
    tmp_path: Path, form: str, found: tuple[str, ...]
) -> None:
    times = [START + timedelta(hours=k) for k in range(60)]
    names = ("date", "clock", "more")[: form.count(",") + 1]
    text = table([time.strftime(form) for time in times], ",".join([*names, "x"]))
    chunk = read(tmp_path, text, time=names)
    assert chunk.order is not None
    assert chunk.order.tolist() == times
    assert chunk.style.time_formats == found


@pytest.mark.parametrize(("hour", "form"), [("0", "%-H"), ("00", "%H"), ("5", "%-H")])
def test_a_zero_alone_is_no_leading_zero(tmp_path: Path, hour: str, form: str) -> None:
    rows = [f"2020-01-{k:02},{hour}" for k in range(1, 9)]
    chunk = read(tmp_path, table(rows, "date,hour,x"), time=("date", "hour"))
    assert chunk.style.time_formats == ("%Y-%m-%d", form)


def test_a_time_of_day_of_a_parquet_file_follows_a_date(tmp_path: Path) -> None:
    times = [START + timedelta(minutes=30 * k) for k in range(60)]
    columns = {"d": [t.date() for t in times], "h": [t.time() for t in times], "x": list(range(60))}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    chunk = read_all(tmp_path / "t.parquet", Reading(time=("d", "h")))
    assert chunk.order is not None
    assert chunk.order.tolist() == times


def test_words_among_parts_of_a_date_are_named(tmp_path: Path) -> None:
    text = table([f"20{k},01:00" for k in range(10, 20)], "year,hour,x")
    with pytest.raises(DataError, match=r"line 2, column 'month' contains '01:00', not a number"):
        read(tmp_path, text.replace("hour", "month"), time=("year", "month"))
