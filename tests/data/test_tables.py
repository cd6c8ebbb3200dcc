"""Properties of the reader of tables: the same numbers from every dialect and format, and no file
whatever ends in anything but an error with words."""

from __future__ import annotations

import datetime
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqattn.data.chunk import Chunk
from seqattn.data.files import read_all, read_chunks
from seqattn.data.inspect import inspect_file
from seqattn.data.reading import Reading
from seqattn.data.tables import wide
from seqattn.errors import AmbiguousData, DataError, SeqattnError
from tests.conftest import Ended

Command = Callable[..., Ended]

FEW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
START = datetime.date(2001, 1, 20)  # the 20th: days and months cannot be mistaken
NAMES = ("unique_id", "ds", "load", "price")
EMPTY = ("", "NA", "n/a", "NaN", "null", "?")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, np.ndarray[Any, Any]]:
    """Series of 5 to 9 days; load has cents of up to millions, price may be empty."""
    found = {}
    for k in range(draw(st.integers(1, 3))):
        n = draw(st.integers(5, 9))
        cents = st.integers(-(10**9), 10**9)
        values = np.array(draw(st.lists(st.tuples(cents, cents), min_size=n, max_size=n))) / 100
        values[:, 0] = np.round(values[:, 0] + np.arange(n) + 0.5, 2)  # no column is constant
        values[:, 1] = np.round(values[:, 1] * 0.37 + np.arange(n) * 1.25, 2)
        gone = draw(st.integers(0, 9))
        if gone < n:
            values[gone, 1] = np.nan
        found[f"s{k}"] = values
    return found


def rows_of(table: dict[str, np.ndarray[Any, Any]]) -> list[tuple[str, datetime.date, Any, Any]]:
    return [
        (name, START + datetime.timedelta(days=t), *map(float, row))
        for name, values in table.items()
        for t, row in enumerate(values)
    ]


def written(number: float, decimal: str, thousands: str, empty: str) -> str:
    if np.isnan(number):
        return empty
    text = f"{number:,.2f}" if thousands else f"{number:.2f}"
    return text.replace(",", "T").replace(".", decimal).replace("T", thousands)


def check(piece: Chunk, table: dict[str, np.ndarray[Any, Any]]) -> None:
    assert sorted(piece.ids) == sorted(table)
    assert piece.points.features == NAMES[2:]
    for k, name in enumerate(piece.ids):
        np.testing.assert_array_equal(piece.points.of(k), table[name])
        assert piece.order is not None
        first, last = piece.points.offsets[k : k + 2]
        days = piece.order[first:last].astype("datetime64[D]")
        assert np.array_equal(days, np.datetime64(START) + np.arange(last - first))


@FEW
@given(
    tables(),
    st.sampled_from([(",", ".", ""), (";", ",", ""), (";", ",", "."), ("\t", ".", ","),
                     ("|", ".", " "), (";", ",", "\u202f"), ("\t", ".", "'")]),
    st.sampled_from(EMPTY), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    st.sampled_from(["\n", "\r\n"]), st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %b %Y"]),
    st.booleans(), st.randoms(use_true_random=False),
)  # fmt: skip
def test_one_table_in_every_dialect(
    tmp_path: Path, table: dict[str, Any], signs: tuple[str, str, str], empty: str, encoding: str,
    end: str, dates: str, quotes: bool, shuffle: random.Random,
) -> None:  # fmt: skip
    delimiter, decimal, thousands = signs
    if thousands == "\u202f" and encoding == "latin-1":
        encoding = "utf-8"  # it has no such space
    every = rows_of(table)
    shuffle.shuffle(every)
    lines = [NAMES] + [
        (name, day.strftime(dates), *(written(v, decimal, thousands, empty) for v in values))
        for name, day, *values in every
    ]
    mark = '"' if quotes else ""
    text = end.join(delimiter.join(f"{mark}{cell}{mark}" for cell in line) for line in lines) + end
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode(encoding))
    # a thousand of cents is never a decimal, so what is asked about is said
    options = Reading(decimal=decimal, thousands=thousands.replace("\u202f", " ") or None,
                          na_values=())  # fmt: skip
    check(read_all(file, options), table)
    if decimal == "." or thousands:
        return
    check(read_all(file, Reading(na_values=())), table)


@FEW
@given(tables())
def test_one_table_in_every_format(tmp_path: Path, table: dict[str, Any]) -> None:
    every = rows_of(table)
    columns: dict[str, list[Any]] = {
        name: [None if value != value else value for value in column]
        for name, column in zip(NAMES, zip(*every, strict=True), strict=True)
    }
    arrow = pa.table(columns)
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=4)
    with pa.ipc.new_file(tmp_path / "t.arrow", arrow.schema) as writer:
        writer.write_table(arrow)
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "t.json").write_text(json.dumps(records, default=str))
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps(record, default=str) + "\n" for record in records)
    )
    for ending in ("parquet", "arrow", "json", "jsonl"):
        check(read_all(tmp_path / f"t.{ending}", Reading(na_values=())), table)


GOOD = "\n".join(
    ["unique_id,ds,load,price", *(f"s{t % 2},2001-01-{t // 2 + 1:02d},{t * t},{t / 4}" for t in range(20))]
)  # fmt: skip


def good(ending: str) -> bytes:
    rows = [line.split(",") for line in GOOD.splitlines()]
    columns = {
        name: list(column) if name in NAMES[:2] else [float(cell) for cell in column]
        for name, *column in zip(*rows, strict=True)
    }
    sink = pa.BufferOutputStream()
    points = np.arange(24.0).reshape(2, 4, 3)
    if ending == "npy":
        np.save(sink, points)
    elif ending == "npz":
        np.savez(sink, source=points)
    elif ending == "nested.jsonl":
        return "".join(json.dumps({"source": one.tolist()}) + "\n" for one in points).encode()
    elif ending == "parquet":
        pq.write_table(pa.table(columns), sink)
    elif ending == "arrow":
        with pa.ipc.new_file(sink, pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns))
    elif ending in ("json", "jsonl"):
        records = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        if ending == "json":
            return json.dumps(records).encode()
        return "".join(json.dumps(record) + "\n" for record in records).encode()
    else:
        return GOOD.replace(",", "\t" if ending == "tsv" else ",").encode()
    return bytes(sink.getvalue())


@settings(FEW, max_examples=100)
@given(
    st.sampled_from(
        ["csv", "tsv", "json", "jsonl", "nested.jsonl", "parquet", "arrow", "npy", "npz"]
    ),
    st.one_of(
        st.binary(max_size=200).map(lambda raw: lambda _: raw),
        st.integers(0, 4000).map(lambda n: lambda whole: whole[: n % (len(whole) + 1)]),
        st.tuples(st.integers(0, 10**6), st.integers(1, 255)).map(
            lambda place: lambda whole: flipped(whole, *place)
        ),
    ),
)
def test_no_file_ends_in_anything_but_words(tmp_path: Path, ending: str, broken: Any) -> None:
    file = tmp_path / f"t.{ending}"
    file.write_bytes(broken(good(ending)))
    for read in (lambda: read_all(file, Reading()), lambda: inspect_file(file)):
        try:
            read()
        except SeqattnError as error:
            assert str(file) in str(error)
            assert "Error:" not in str(error).partition(str(file))[2]


def flipped(whole: bytes, place: int, bits: int) -> bytes:
    at = place % len(whole)
    return whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]


@pytest.mark.parametrize(
    "ending", ["csv", "json", "jsonl", "nested.jsonl", "parquet", "arrow", "npy", "npz"]
)
def test_a_good_file_is_read(tmp_path: Path, ending: str) -> None:
    """Else the test above could not fail."""
    file = tmp_path / f"t.{ending}"
    file.write_bytes(good(ending))
    ids = {"nested.jsonl": ("1", "2"), "npy": ("0", "1"), "npz": ("0", "1")}
    assert read_all(file, Reading(layout="wide" if ending == "npy" else "auto")).ids == ids.get(
        ending, ("s0", "s1")
    )


def test_durations_that_a_parquet_file_keeps_in_its_schema(tmp_path: Path) -> None:
    """Each unit, among columns of other types; without the schema of Arrow they are counts."""
    for unit, scale in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        waits = pa.array([scale * k * k for k in range(1, 9)]).cast(pa.duration(unit))
        table = pa.table({"n": [f"{k}" for k in range(8)], "t": range(8), "x\u00e9": waits})
        pq.write_table(table, tmp_path / "d.parquet")
        piece = read_all(tmp_path / "d.parquet", Reading(features=("x\u00e9",), series=()))
        assert piece.points.values[:, 0].tolist() == [k * k for k in range(1, 9)]


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_numbers_of_16_bits_are_read(tmp_path: Path, ending: str) -> None:
    values = np.array([t * t / 8 for t in range(8)], np.float16)
    numbers = pa.array([None, *values[1:]], pa.float16())
    table = pa.table({"t": range(8), "x": numbers, "y": range(0, 24, 3)})
    if ending == "arrow":
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, tmp_path / "a.parquet")
    found = read_all(tmp_path / f"a.{ending}", Reading(features=("x",))).points.values[:, 0]
    assert np.isnan(found[0])
    assert found[1:].tolist() == values[1:].tolist()


def test_a_database_that_met_a_fatal_error_is_replaced(tmp_path: Path) -> None:
    from seqattn.data.tables import connection

    path = tmp_path / "t.csv"
    path.write_text("series,step,x\na,1,1.5\na,2,2.5\n")
    read_all(path, Reading())
    connection._databases[os.getpid()].close()
    assert read_all(path, Reading()).points.values.tolist() == [[1.5], [2.5]]


def test_any_number_of_spaces_separates_cells_and_quotes_keep_those_inside(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    rows = [f'"{k}"  "2008-01-{k:02}" {20 + k}.5   "A b {k % 2}"' for k in range(1, 13)]
    path.write_text('"when" "temp" "where it was"\n' + "\n".join(rows) + "\n")
    report = inspect_file(path)
    assert (report.reading.time, report.reading.features) == (("when",), ("temp",))
    assert report.chunk.points.values[:2, 0].tolist() == [21.5, 22.5]


def test_an_id_whose_rows_stand_together_names_series_whose_times_never_meet(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trips.csv"
    rows = [f"{7 + k // 10},{1000 * k + 5 * (k % 10)},{k * k % 17}" for k in range(40)]
    path.write_text("trip_id,timestamp,speed\n" + "\n".join(rows) + "\n")
    report = inspect_file(path)
    assert (report.reading.series, report.sequences) == (("trip_id",), 4)
    assert report.reading.features == ("speed",)


def test_a_column_that_grows_by_one_amount_is_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "lab.dat"
    rows = [f"  {0.01 * k:.7e}   {k * k % 17:.7e}" for k in range(30)]
    path.write_text("\n".join(rows) + "\n")
    report = inspect_file(path)
    assert (report.reading.time, report.reading.features) == (("A",), ("B",))


def test_words_do_not_tell_series_apart_where_one_date_stands_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    days = [*range(1, 15), 14, *range(15, 28)]
    sky = ["sun", "rain"]
    rows = [f"2020-01-{day:02},{sky[k % 2]},{k * k % 17}" for k, day in enumerate(days)]
    path.write_text("date,sky,temp\n" + "\n".join(rows) + "\n")
    with pytest.raises(AmbiguousData, match="line 15 and line 16 are both of 2020-01-14"):
        inspect_file(path)


def test_series_of_one_row_are_named_if_all_rows_have_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "cities.csv"
    path.write_text("city,date,temp\nrome,2020-01-14,3\nparis,2020-01-14,5\nbonn,2020-01-14,4\n")
    with pytest.raises(
        AmbiguousData, match="all 3 rows are of 2020-01-14 \\(date\\), so each series"
    ):
        inspect_file(path)


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_a_wide_table_in_chunks_has_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    header = "x_1,y_1,x_2,y_2"
    rows = [f"{k},2,3,{k * k}" for k in range(6)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    monkeypatch.setattr(wide, "CHUNK_CELLS", 4 * at_once)
    chunks = list(read_chunks(path, Reading(layout="wide")))
    assert [float(chunk.points.of(k)[0, 0]) for chunk in chunks for k in range(len(chunk))] == [
        0, 1, 2, 3, 4, 5,
    ]  # fmt: skip
    assert [name for chunk in chunks for name in chunk.ids] == list("123456")


def table_of_days(days: int, hours: list[str]) -> str:
    rows = [
        f"2021-01-{day:02d},{hour},{k + day}"
        for day in range(1, days + 1)
        for k, hour in enumerate(hours)
    ]
    return "\n".join(["day,hour,load", *rows]) + "\n"


@pytest.mark.parametrize(
    ("hours", "spacing"),
    [
        ([f"{h:02d}:{m:02d}" for h in range(24) for m in (0, 30)], "30 minutes"),
        ([f"{h}:15:00" for h in range(24)], "1 hour"),
        ([str(h) for h in range(24)], "1 hour"),
        ([str(h) for h in range(1, 25)], "1 hour"),
    ],
    ids=["time of day", "with seconds", "hours from 0", "hours to 24"],
)
def test_a_date_and_an_hour_are_one_time(
    seqattn: Command, tmp_path: Path, hours: list[str], spacing: str
) -> None:
    Path("load.csv").write_text(table_of_days(5, hours))
    done = seqattn("data", "check", "load.csv", "--time", "day,hour")
    assert done.code == 0, done.err
    assert spacing in done.out, done.out


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [("year,month,day", "2020,2,31"), ("year,month,day", "2020,13,1"),
     ("year,month,day", "2020,1,1.5"), ("year,month,day,hour", "2020,1,3,25"),
     ("year,month,day,hour,minute", "2020,1,3,4,60"), ("day,hour", "2020-01-03,25"),
     ("day,hour", "2020-01-03,99"), ("day,hour", "2020-01-03,-1"), ("day,hour", "2020-01-03,1.5")],
)  # fmt: skip
def test_a_time_that_does_not_exist_is_an_error_with_its_line(
    tmp_path: Path, columns: str, wrong: str
) -> None:
    """Before, hour 99 was four days later, and hour 1.5 was hour 2."""
    units = columns.count(",") - 1
    rows = [f"2020-01-{day:02},0,{day}" if columns == "day,hour" else
            f"2020,1,{day}{',0' * (units - 1)},{day}" for day in range(1, 10)]  # fmt: skip
    rows[2] = f"{wrong},3"
    (tmp_path / "parts.csv").write_text("\n".join([f"{columns},load", *rows]) + "\n")
    names = columns.replace(",", ", ")
    with pytest.raises(DataError, match=f"line 4, the columns {names} form no valid time"):
        read_all(tmp_path / "parts.csv", Reading(time=tuple(columns.split(","))))


def test_a_column_of_words_in_features_and_in_one_hot(tmp_path: Path) -> None:
    rows = [f"{name},{step},{step},up" for name in "xyz" for step in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["series,step,a,w", *rows]))
    with pytest.raises(DataError) as caught:
        read_all(tmp_path / "a.csv", Reading(features=("a", "w"), one_hot=("w",)))
    assert str(caught.value).endswith(
        "column 'w' contains 'up', not a number. Correct the cell; or, take 'w' out of"
        " data.features, because data.one_hot already makes a feature of each word."
    )
    with pytest.raises(DataError, match=r"for each word, set data.one_hot: \['w'\]"):
        read_all(tmp_path / "a.csv", Reading(features=("a", "w")))
