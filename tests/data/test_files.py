"""The user's own sequences: every format read and written, and every refusal by its words."""

from __future__ import annotations

import gc
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.config import Copy, OwnFile, Polygons, Squares
from seqattn.data import load_data, tasks
from seqattn.data.chunk import Chunk, step_text
from seqattn.data.cutting import make_sources
from seqattn.data.files import file_format, read_all, read_chunks
from seqattn.data.reading import Reading
from seqattn.data.series import Series, infer_spacing, regularize
from seqattn.data.spacing import Spacing
from seqattn.data.tables import long
from seqattn.data.writing import ForecastSteps, TableWriter, write_sequences
from seqattn.errors import DataError, UsageError, install_command

GOOD = "sequence,step,x,y\na,1,0.5,1\na,2,-1,2e-3\nb,0,3,4\n"
XY = Reading(features=("x", "y"), may_rename=True)


def read(text: str | bytes, form: Reading = XY, name: str = "f.csv") -> Chunk:
    raw = text.encode() if isinstance(text, str) else text
    file = Path(os.environ["PYTEST_FILES"]) / name
    file.write_bytes(raw)
    return read_all(file, form)


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_FILES", str(tmp_path_factory.mktemp("files")))


def points(piece: Chunk) -> list[Any]:
    return [piece.points.of(k).tolist() for k in range(len(piece))]


# --- CSV ------------------------------------------------------------------------------------------


def test_long_form_by_hand() -> None:
    piece = read(GOOD)
    assert piece.ids == ("a", "b")
    assert points(piece) == [[[0.5, 1.0], [-1.0, 0.002]], [[3.0, 4.0]]]
    assert piece.order is not None
    assert piece.order.tolist() == [1, 2, 0]
    assert piece.notes == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("\ufeff" + GOOD, "f.csv"),
        (GOOD.replace("\n", "\r\n"), "f.csv"),
        ("sequence,step,x,y\r\na,1,0.5,1\na,2,-1,2e-3\rb,0,3,4\n", "f.csv"),
        (GOOD + "\n\n", "f.csv"),
        (GOOD.replace(",", " , "), "f.csv"),
        ("y,step,x,sequence\n1,1,0.5,a\n0.002,2,-1,a\n4,0,3,b\n", "f.csv"),
        (GOOD.replace(",", "\t"), "f.tsv"),
        ('sequence,step,"x",y\n"a",1,0.5,1\na,2,-1,"2e-3"\nb,0,3,4', "f.csv"),
    ],
    ids=[
        "bom",
        "crlf",
        "mixed-line-ends",
        "blank-lines",
        "spaces",
        "other-order",
        "tabs",
        "quotes",
    ],
)
def test_what_changes_nothing(text: str, name: str) -> None:
    assert points(read(text, name=name)) == points(read(GOOD))


def test_other_delimiters_and_decimals_from_options() -> None:
    text = GOOD.replace(",", ";").replace(".", ",")
    form = Reading(features=("x", "y"), delimiter=";", decimal=",")
    assert points(read(text, form)) == points(read(GOOD))


@pytest.mark.parametrize("cell", ["1.234", "1.234,5", "1,5m", "1,5,2", "1_5"])
@pytest.mark.parametrize("features", [("x",), None])
def test_what_is_no_number_with_a_decimal_comma(cell: str, features: tuple[str] | None) -> None:
    form = Reading(delimiter=";", decimal=",", thousands=None, features=features)
    text = f"sequence;step;x\na;1;0,5\na;2;{cell}\n"
    with pytest.raises(DataError) as caught:
        read(text, form)
    assert f"column 'x' contains '{cell}'" in str(caught.value)
    assert "f.csv" in str(caught.value)


def test_points_between_thousands_are_noted() -> None:
    piece = read("sequence;step;x\na;1;0,5\na;2;1.234\n", Reading(delimiter=";"))
    assert points(piece) == [[[0.5], [1234]]]
    assert piece.notes == ("'x': ',' is the decimal mark and '.' the thousands separator",)


def test_a_blank_line_of_one_column_is_an_empty_cell() -> None:
    alone = Reading(series=(), time=())
    text = "\nx\n1\n\n3\n\n\n6\n\n\n"
    found = np.concatenate(points(read(text, alone)))[:, 0]
    assert np.array_equal(found, [1, np.nan, 3, np.nan, np.nan, 6], equal_nan=True)
    rows = "".join(f"{k}\n" for k in range(9))
    with pytest.raises(DataError, match="line 5, column 'x' contains 'six'"):
        read(f"x\n1\n\n3\nsix\n{rows}", alone)


def test_further_columns_are_left_out_and_noted() -> None:
    piece = read("sequence,step,speed,y,x\na,1,9,2,1\n")
    assert points(piece) == [[[1.0, 2.0]]]
    assert piece.notes == ("'speed' is left out: it is not among data.features",)


def test_other_names_are_read_in_order_and_noted() -> None:
    piece = read("sequence,step,lon,lat\na,1,1,2\n")
    assert piece.points.features == ("lon", "lat")
    assert piece.notes == ("lon, lat are read as x, y, in this order",)


def test_wide_form_by_hand() -> None:
    piece = read("sequence,x_1,y_1,x_2,y_2\na,1,2,3,4\nb,5,6,,\n", Reading())
    assert piece.ids == ("a", "b")
    assert piece.points.features == ("x", "y")
    assert points(piece) == [[[1, 2], [3, 4]], [[5, 6]]]
    bare = read("1,2,3\n4,5,6\n", Reading(series=(), time=()))
    assert points(bare) == [[[4], [5], [6]]]


@pytest.mark.parametrize(
    ("head", "form"),
    [
        ("sequence,co2", Reading(time=())),
        ("sequence,co2,x", Reading(time=())),
        ("sequence,pm10,pm25", Reading(time=())),
        ("sequence,x1,x2,y1", Reading(time=())),
        ("sequence,f1,f2", Reading(time=(), features=("f1", "f2"))),
        ("sequence,f1,f2", Reading(time=(), layout="long")),
        ("co2", Reading(series=(), time=())),
        ("sequence,step,f1,f2", Reading()),
    ],
)
def test_numbers_in_names_alone_make_no_wide_table(head: str, form: Reading) -> None:
    rows = [["a", str(t), "1", "2"] for t in range(1, 4)]
    width = len(head.split(","))
    text = "\n".join([head, *(",".join(row[:width]) for row in rows)]) + "\n"
    if form.series == ():
        text = text.replace("a", "1")
    piece = read(text, form)
    assert not piece.is_wide
    assert len(piece) == 1
    assert piece.notes == ()


def test_a_wide_table_that_could_be_long_is_noted() -> None:
    text = "id,x1,y1,x2,y2\na,1,2,3,4\nb,5,6,7,8\n"
    piece = read(text.replace("id,", "").replace("a,", "").replace("b,", ""), Reading())
    assert points(piece) == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert piece.notes == (
        "a row is read as a sequence of up to 2 points; if it is one point, set data.layout to long",
    )
    for series in (("id",), "auto"):  # no name comes twice, so a row is no point
        piece = read(text, Reading(series=series, time=()))  # type: ignore[arg-type]
        assert points(piece) == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
        assert piece.notes == ()
    named = Reading(series=("id",), time=(), features=("x", "y"))
    assert read(text, named).notes == ()
    assert points(read("id,x1,y1\na,1,2\n", named)) == [[[1, 2]]]
    assert points(read("sequence,f1,f2\na,1,2\na,3,4\n", Reading(time=()))) == [[[1, 2], [3, 4]]]


def test_a_first_row_of_numbers_is_no_header() -> None:
    for row, values in (("370.1,2", [370.1, 2]), ("1e3,-2", [1000, -2]), ("370", [370])):
        piece = read(f"{row}\n{row.replace('2', '5').replace('3', '4')}\n",
                     Reading(series=(), time=()))  # fmt: skip
        assert points(piece)[0][0] == values
        assert len(points(piece)[0]) == 2
        last = "ABC"[len(values) - 1]
        assert piece.notes == (f"there is no header, so columns are called A to {last}",)
    named = read(
        "400,450\n1,2\n",
        Reading(series=(), time=(), has_header=True, features=("400", "450")),
    )
    assert points(named) == [[[1, 2]]]


def series_of(piece: Chunk) -> Series:
    return regularize(piece, "f", OwnFile(path="-"), infer_spacing(piece))


def goes_on(piece: Chunk, steps: int) -> np.ndarray[Any, Any]:
    """The steps after those of a piece."""
    return ForecastSteps.of_sources(make_sources(series_of(piece), None)).after(steps)


@pytest.mark.parametrize(
    ("last", "ahead"),
    [
        (["2019-11-01", "2019-12-01"], ["2020-01-01", "2020-02-01", "2020-03-01"]),
        (["2019-11-30", "2019-12-31"], ["2020-01-31", "2020-02-29", "2020-03-31"]),
        (["2019-11-30", "2019-12-30"], ["2020-01-30", "2020-02-29", "2020-03-30"]),
        (["2018-02-28", "2019-02-28"], ["2020-02-29", "2021-02-28", "2022-02-28"]),
        (["2019-07-01", "2019-10-01"], ["2020-01-01", "2020-04-01", "2020-07-01"]),
        (["2019-01-01T06", "2019-02-01T06"], ["2019-03-01T06", "2019-04-01T06", "2019-05-01T06"]),
        (["2019-01-01T06", "2019-02-01T07"], ["2019-03-04T08", "2019-04-04T09", "2019-05-05T10"]),
        (["2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02", "2020-03-03"]),
        (["2020-01-31", "2020-02-07"], ["2020-02-14", "2020-02-21", "2020-02-28"]),
    ],
)
def test_months_go_on_by_the_calendar(last: list[str], ahead: list[str]) -> None:
    """As the next date of a month is called, however long it is; other steps are as long as they
    were."""
    dates = np.array([last, ["2020-05-05", "2020-05-07"]], dtype="datetime64[us]")
    spacing = Spacing.infer(dates.ravel(), np.array([0, 2, 4]))
    found = ForecastSteps(dates[:, 1], spacing).after(3)
    assert found[0].tolist() == np.array(ahead, dtype="datetime64[us]").tolist()
    assert [str(day)[:10] for day in found[1]] == ["2020-05-09", "2020-05-11", "2020-05-13"]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_part_of_a_second_is_kept(unit: str, tmp_path: Path) -> None:
    times = [np.datetime64("2001-12-29T12:00:00") + np.timedelta64(250 * k, "ms") for k in range(3)]
    stamps = pa.array(times, pa.timestamp("ms")).cast(pa.timestamp(unit))
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"step": stamps, "x": [1.0, 2, 3]}), file)
    piece = read_all(file, Reading(series=()))
    assert piece.order is not None
    assert [step_text(step) for step in piece.order[:2]] == [
        "2001-12-29T12:00:00", "2001-12-29T12:00:00.250000",
    ]  # fmt: skip
    ahead = goes_on(piece, 2)
    assert [step_text(step) for step in ahead[0]] == [
        "2001-12-29T12:00:00.750000", "2001-12-29T12:00:01",
    ]  # fmt: skip
    for form in ("csv", "parquet"):
        with (tmp_path / f"n.{form}").open("wb") as written:
            writer = TableWriter(written, form, ["x"])
            writer.write(piece.ids, ahead, np.ones((1, 2, 1)))
            writer.close()
        again = read_all(tmp_path / f"n.{form}", Reading())
        assert again.order is not None
        assert (again.order == ahead[0]).all()


@pytest.mark.parametrize(
    "kind", [pa.duration("ms"), pa.duration("ns"), pa.time32("ms"), pa.time64("us")], ids=str
)
def test_durations_and_times_of_a_day_are_seconds(kind: Any, tmp_path: Path) -> None:
    counted = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit] * np.array([0, 1500, 3000])
    column = pa.array(counted, pa.int32() if kind == pa.time32("ms") else pa.int64()).cast(kind)
    table = pa.table({"step": column, "x": [1.0, 2, 3]})
    pq.write_table(table, tmp_path / "f.parquet")
    piece = read_all(tmp_path / "f.parquet", Reading(series=()))
    assert piece.order is not None
    assert piece.order.tolist() == [0, 1.5, 3]


def test_a_type_that_is_no_step_is_refused(tmp_path: Path) -> None:
    kind = pa.month_day_nano_interval()
    table = pa.table({"step": pa.array([(1, 2, 3)], kind), "x": [1.0]})
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(
        DataError, match="row 1, column 'step' contains '1 month.*data.ignore: \\['step'\\]"
    ):
        read_all(tmp_path / "f.arrow", Reading(series=()))


def test_a_stretch_may_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"s{k},{t},{k},{t}" for k in range(200) for t in range(k % 7 + 1)]
    text = "sequence,step,x,y\n" + "\n".join(rows) + "\n"
    whole = read(text)
    monkeypatch.setattr(long, "CHUNK_ROWS", 8)
    file = Path(os.environ["PYTEST_FILES"]) / "f.csv"
    pieces = list(read_chunks(file, XY))
    assert len(pieces) > 20
    assert [name for piece in pieces for name in piece.ids] == list(whole.ids)
    assert [path for piece in pieces for path in points(piece)] == points(whole)


HEAD = "sequence,step,x,y\n"
MORE = "".join(f"a,{t},{t},1\n" for t in range(1, 7))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("sequence,x,y\na,1,2\na,2,3\n", HEAD + "a,1,1,2\na,2,2,3\n"),
        ("step,x,y\n1,1,2\n2,2,3\n", HEAD + "a,1,1,2\na,2,2,3\n"),
        ("sequence;step;x;y\na;1;1;2\na;2;2;3\n", HEAD + "a,1,1,2\na,2,2,3\n"),
        (HEAD + "a,2,2,3\na,1,1,2\n", HEAD + "a,1,1,2\na,2,2,3\n"),
        (HEAD + "a,1,1,1\nb,1,1,1\na,2,2,1\n", HEAD + "a,1,1,1\na,2,2,1\nb,1,1,1\n"),
        ((HEAD + "a,1,1,2\na,2,2,3\n").encode("utf-16"), HEAD + "a,1,1,2\na,2,2,3\n"),
        (HEAD.encode() + b"\xe9,1,1,2\n", HEAD + "e,1,1,2\n"),
        ("sequenc\xe9,step,x,y\na,1,1,2\n".encode("latin-1"), HEAD + "a,1,1,2\n"),
        (HEAD + 'a,1,1.0,"1,5"\n', HEAD + "a,1,1.0,1.5\n"),
    ],
    ids=range(9),
)
def test_what_is_inferred_without_options(text: str | bytes, same: str) -> None:
    assert points(read(text)) == points(read(same))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f.csv: is empty. Expected a header row, such as series,time,x,y"),
        ("\n\n", "is empty"),
        (HEAD, "has a header but no rows"),
        ("sequence,step,x\na,1,2\n", "no column 'y'; found sequence, step, x. Needed are x, y"),
        ("sequence,step,x,z\na,1,2,3\n", "no column 'y'"),
        ("sequence,step,x,x\na,1,2,3\n", "the column 'x' occurs twice"),
        (HEAD + "a,1,2\n", "line 2 has 3 cells, the header has 4: 'a,1,2'"),
        (HEAD + "a,1,2,3\na,2,2,3,4\n", "line 3 has 5 cells, the header has 4"),
        (HEAD + "a,1,1.0,1.5m\na,2,1.0,1.5\n", "line 2, column 'y' contains '1.5m', not a number"),
        (HEAD + 'a,1,1,"1,500"\n', "column 'y' contains numbers such as '1,500'. The comma can be a thousands separator or a decimal mark. Set data.thousands"),
        (HEAD + "a,1,-inf,1\n", "line 2, column 'x' contains '-inf', not a number"),
        (HEAD + "a,1,1e16,1\n", "line 2, column 'x' is 1e+16; the largest supported value is 1e+15"),
        (HEAD + "a,1,1000000000000001,1\n", "column 'x' is 1000000000000001.0; the largest supported"),
        (HEAD + "a,1,1_0,1\n", "line 2, column 'x' contains '1_0', not a number"),
        (HEAD + "a,1_0,1,1\n", "line 2, column 'step' contains '1_0'"),
        (HEAD + "a,one,1,1\n", "line 2, column 'step' contains 'one', not a number"),
        (HEAD + MORE + "a,seven,1,1\n", "line 8, column 'step' contains 'seven', not a number. Correct"),
        (HEAD + MORE + "a,,1,1\n", "line 8, column 'step' is empty"),
        (HEAD + MORE + ",1,1,1\n", "line 8, column 'sequence' is empty"),
        (HEAD + MORE + "a,7,x7,1\n", "line 8, column 'x' contains 'x7', not a number. Correct the cell, or declare it empty: data.na_values: ['x7']; or leave the column out: data.ignore: ['x']."),
        (HEAD + "a,1,1,1\na,1,1,1\n", "line 2 and line 3 are both of time 1 of series 'a'"),
        (HEAD + "a,1," + "1" * (3 * 2**20) + ",1\n", "line 2, column 'x' is inf; it must be finite"),
        (HEAD + "a,1," + "1" * (17 * 2**20) + ",1\n", "is longer than 16 MiB"),
        ("sequence,x_1,x_3\na,1,2\n", "no column 'x' of step 2, but there are steps 1 to 3"),
    ],
    ids=range(24),
)  # fmt: skip
def test_a_bad_table_is_refused_by_row_and_column(text: str | bytes, words: str) -> None:
    form = Reading() if isinstance(text, str) and "x_3" in text else XY
    with pytest.raises(DataError) as caught:
        read(text, form)
    assert words in str(caught.value)


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "is not a regular file"),
        (Path("https://example.org/a.csv"), "is an address. Nothing is fetched"),
    ]:
        with pytest.raises(DataError, match=words):
            read_all(path, XY)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(DataError, match=r"cannot tell its format from its name. End it in .csv"):
        read_all(tmp_path / "a.xlsx", XY)
    assert file_format(Path("a.PARQUET")) == "parquet"


def test_without_pyarrow_only_arrow_files_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = pa.table({"step": [1, 2], "x": [1.0, 2], "y": [1.0, 2]})
    pq.write_table(table, tmp_path / "f.parquet")
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as writer:
        writer.write_table(table)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=re.escape(install_command("data"))):
        read_all(tmp_path / "f.arrow", XY)
    assert len(read(GOOD)) == 2
    assert len(read_all(tmp_path / "f.parquet", XY)) == 1
    assert len(read('{"source": [[1, 2]]}\n', name="f.jsonl")) == 1


# --- JSON lines, NPZ, NPY, Parquet ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "is empty"),
        ("{", "f.jsonl:1: is not valid JSON"),
        ("[1]", "f.jsonl:1: is not an object"),
        ('{"target": [[1, 2]]}', "f.jsonl:1: has no 'source'; it has target"),
        ('{"source": []}', "'source' must be a list of at least one point"),
        ('{"source": [[1, 2], [3]]}', "point 2 of 'source' has 1 numbers, the first has 2"),
        ('{"source": [[1, "2"]]}', "point 1 of 'source', number 2, is \"2\", not a number"),
        ('{"source": [[1, true]]}', "number 2, is true"),
        ('{"source": [[1, 1e400]]}', "is inf; it must be finite"),
        ('{"source": [[1, Infinity]]}', "line 1, point 1 of its source, 'y' is inf"),
        ('{"source": [[1, 2]], "source": [[1, 2]]}', "has 'source' twice"),
        ('{"source": [[1, 2]]}\n{"source": [[1]]}', "f.jsonl:2: the points of its source have 1 features"),
        ('{"source": [[1, 2]]}\n{"source": [[1, 2]], "target": [[1, 2]]}', "f.jsonl:2: has a 'target', the lines before have none"),
        ('{"source": [[1, 2]], "id": [1]}', "'id' must be a text or a whole number"),
        ('{"source": [[1, ' + "9" * 5000 + "]]}", "f.jsonl:1: is not valid JSON"),
        ("[" * 100_000, "f.jsonl:1: is not valid JSON"),
    ],
    ids=range(16),
)  # fmt: skip
def test_bad_lines_are_refused(line: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read(line, name="f.jsonl")
    assert words in str(caught.value)


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"source": [' + b"1," * (9 * 2**20))
    with pytest.raises(DataError, match="f.jsonl:1: is longer than 16 MiB"):
        read_all(tmp_path / "f.jsonl", XY)


def test_arrays_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"

    def refused(words: str, **arrays: Any) -> None:
        np.savez(file, **arrays)
        with pytest.raises(DataError, match=words):
            read_all(file, XY)

    refused("has no array 'source' or 'values'", labels=np.ones(3))
    refused("'source' contains <U1, not numbers", source=np.array(["a"]))
    refused("'source' has shape", source=np.ones(3))
    refused("'source' contains complex128", source=np.ones((1, 2, 2), complex))
    refused("has 2 sequences in 'source' and 1 ids", source=np.ones((2, 2, 2)), ids=np.array(["a"]))
    refused(r"source_lengths\[1\] is 3, but 'source' has room for 0 to 2",
            source=np.ones((2, 2, 2)), source_lengths=np.array([1, 3]))  # fmt: skip
    refused("has 2 sequences in 'source' and 1 in 'target'",
            source=np.ones((2, 2, 2)), target=np.ones((1, 2, 2)))  # fmt: skip
    refused("features a point, but there are 2 names", source=np.ones((2, 2, 3)))
    refused("it must be finite", source=np.full((1, 1, 2), np.inf))
    np.savez(file, source=np.array([[1], None], dtype=object))
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        read_all(file, XY)
    file.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(DataError, match="is a damaged NPZ file"):
        read_all(file, XY)
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object))
    with pytest.raises(DataError, match="is not an NPY file of numbers"):
        read_all(tmp_path / "o.npy", XY)


def test_a_target_without_names_has_those_of_the_source(tmp_path: Path) -> None:
    source = np.arange(24.0).reshape(2, 4, 3)
    arrays = {"source": source, "target": source + 100, "features": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "t.npz", **arrays)
    piece = read_all(tmp_path / "t.npz", Reading(features=("b",)))
    assert piece.target is not None
    assert piece.points.features == piece.target.features == ("b",)
    assert np.array_equal(piece.target.of(0), source[0][:, [1]] + 100)
    piece = read_all(tmp_path / "t.npz", Reading(source_and_target=(("a", "b"), ("c",))))
    assert piece.target is not None
    assert (piece.points.features, piece.target.features) == (("a", "b"), ("c",))
    assert np.array_equal(piece.target.of(1), source[1][:, [2]] + 100)


def test_features_that_an_npz_file_names_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    values = np.arange(12.0).reshape(1, 4, 3)
    np.savez(file, values=values, features=np.array(["c", "a", "b"]))
    piece = read_all(file, Reading(features=("a", "b")))
    assert piece.points.features == ("a", "b")
    assert np.array_equal(piece.points.of(0), values[0][:, [1, 2]])
    assert piece.notes == ("left out: c",)
    assert piece.where(1, 0) == "values[0, 1, 1] ('a')"
    renamed = read_all(file, Reading(features=("x", "y", "z"), may_rename=True))
    assert renamed.points.features == ("c", "a", "b")
    assert renamed.notes == ("c, a, b are read as x, y, z, in this order",)
    with pytest.raises(
        DataError, match="'values' has no feature 'x'; it has c, a, b. Needed are x"
    ):
        read_all(file, Reading(features=("x",)))
    np.savez(file, values=values, features=np.array(["c", "a", "a"]))
    with pytest.raises(DataError, match="'features' has 'a' twice"):
        read_all(file, Reading())
    np.savez(file, source=values, features=np.array(["c", "a", "b"]), target=values[..., :2],
             said=np.array(["e", "d"]))  # fmt: skip
    separate = read_all(
        file, Reading(features=("b", "d", "e"), source_and_target=(("b",), ("d", "e")))
    )
    assert np.array_equal(separate.points.of(0), values[0][:, [2]])
    assert separate.target is not None
    assert separate.target.features == ("d", "e")
    assert np.array_equal(separate.target.of(0), values[0][:, [1, 0]])


def test_an_npy_file_is_mapped(tmp_path: Path) -> None:
    values = np.random.RandomState(0).randn(5, 3, 2).astype(np.float32)
    values[2, 1:] = np.nan
    np.save(tmp_path / "a.npy", values)
    piece = read_all(tmp_path / "a.npy", XY)
    assert piece.points.lengths.tolist() == [3, 3, 1, 3, 3]
    np.save(tmp_path / "b.npy", values[:2])
    mapped = read_all(tmp_path / "b.npy", XY).points.values
    base: Any = mapped
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "npz", "npy", "parquet", "arrow", "wide"])
@pytest.mark.parametrize(
    ("task", "goes_on"),
    [
        (Squares(), True),
        (Squares(variable_length=True, source_length=1), True),
        (Polygons(corners=6), True),
        (Copy(length=5, min_length=2), False),
    ],
    ids=["squares", "ragged", "polygons", "copy"],
)
def test_what_is_written_is_read_again(task: Any, goes_on: bool, form: str, tmp_path: Path) -> None:
    part = load_data(task).test if isinstance(task, Squares) else tasks.generate(task, 50, 3)
    if form in ("npy", "wide") and not goes_on:
        with pytest.raises(UsageError, match="separate sources and targets"):
            write_sequences(
                part, "csv" if form == "wide" else form, wide=form == "wide", is_continuation=False
            )
        return
    written = "csv" if form == "wide" else form
    content, section = write_sequences(part, written, wide=form == "wide", is_continuation=goes_on)
    import yaml

    described = yaml.safe_load(section) or {}
    for key, some in (("path", slice(0, 7)), ("validation_path", slice(7, 13))):
        file = tmp_path / f"{key}.{written}"
        other, _ = write_sequences(
            part.select(some), written, wide=form == "wide", is_continuation=goes_on
        )
        file.write_bytes(other)
        described[key] = str(file)
    file = tmp_path / f"a.{written}"
    file.write_bytes(content)
    config = OwnFile.model_validate({**described, "test_path": str(file)})
    again = load_data(config).test
    assert np.array_equal(again.source, part.source)
    assert np.array_equal(again.target, part.target)
    assert np.array_equal(again.source_lengths, part.source_lengths)
    assert np.array_equal(again.target_lengths, part.target_lengths)
    if form != "npy":
        assert again.ids == part.ids


# --- anything -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_a_broken_archive_called_npy_is_refused_and_closed(tmp_path: Path) -> None:
    file = tmp_path / "f.npy"
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="is an NPZ file under another name"):
        read_all(file, Reading())
    gc.collect()
