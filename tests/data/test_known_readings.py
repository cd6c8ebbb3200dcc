"""Files that are ambiguous alone, but not beside the training data or another file of a folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from seqattn.config import OwnFile
from seqattn.data import Splits, load_data
from seqattn.data.files import ReadOptions, read_all
from seqattn.errors import AmbiguousData
from tests.conftest import Ended

Command = Callable[..., Ended]


def write(path: str, head: str, *rows: str) -> str:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("\n".join([head, *rows]) + "\n")
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pictures: None) -> None:
    monkeypatch.chdir(tmp_path)


def numbers(start: float, digits: int, n: int = 80) -> list[str]:
    return [f"{t};{start + t * 1.0301:.{digits}f}" for t in range(n)]


@pytest.mark.parametrize("piped", [False, True])
def test_an_input_file_is_read_like_the_training_file(
    piped: bool, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("train.csv", "t;x", *numbers(150, 2))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: train.csv, window: {source: 4, target: 2}, split: {by: time}}\n"
        "model: {hidden_dim: 3}\ntraining: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml").code == 0
    write("in.csv", "t;x", *numbers(150, 3, n=6))
    if piped:
        content = Path("in.csv").read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    done = seqattn("predict", "outputs/c", "--input", "-" if piped else "in.csv")
    assert done.code == 0, done.err
    assert 100 < float(done.out.splitlines()[1].split(";")[-1]) < 200
    assert "is read with data.decimal: '.', as in the training." in done.err


def load(**keys: object) -> Splits:
    given = {"path": "d", "window": {"source": 4, "target": 2}, "split": {"by": "time"}, **keys}
    if "test_path" in keys:
        del given["split"]
    return load_data(OwnFile.model_validate(given))


def loaded(**keys: object) -> list[float]:
    return sorted({float(x) for x in load(**keys).train.source.ravel()})


def test_a_later_file_is_read_like_the_first(tmp_path: Path) -> None:
    write("d/a.csv", "t;x", *numbers(150, 2))
    write("d/b.csv", "t;x", *numbers(150, 3))
    assert max(loaded(scaling="none")) < 300
    (note,) = (note for note in load().notes if "data.decimal" in note)
    assert note == "d: d/b.csv: is read with data.decimal: '.', as d/a.csv shows"
    write("d/c.csv", "t;x", *numbers(150, 3))
    (note,) = (note for note in load().notes if "data.decimal" in note)
    assert note == "d: d/b.csv, d/c.csv: are read with data.decimal: '.', as d/a.csv shows"


@pytest.mark.parametrize("files", [["v.csv"], ["v/a.csv", "v/b.csv"]])
def test_the_other_parts_are_read_like_the_training_part(files: list[str]) -> None:
    write("train.csv", "t;x", *numbers(150, 2))
    for k, file in enumerate(files):
        write(file, "t;x", *numbers(160 + k, 3))
    write("test.csv", "t;x", *numbers(170, 2))
    path = files[0].split("/")[0]
    parts = load(path="train.csv", validation_path=path, test_path="test.csv", scaling="none")
    assert 160 <= parts.validation.source.min() < parts.validation.source.max() < 300
    assert [note for note in parts.notes if "data.decimal" in note] == [
        f"{path}: is read with data.decimal: '.', as in the training"
    ]


def test_a_first_file_of_whole_numbers_shows_no_decimal_mark() -> None:
    write("d/a.csv", "t;x", *(f"{t};0" for t in range(80)))
    write("d/b.csv", "t;x", *(f"{t};{t},5" for t in range(80)))
    assert 0.5 in loaded(scaling="none")
    write("d/b.csv", "t;x", *numbers(150, 3))
    with pytest.raises(AmbiguousData, match="The point can be a thousands separator"):
        loaded(scaling="none")


@pytest.mark.parametrize(
    "dates",
    [[f"05.03.21 {h:02d}:00" for h in range(24)],
     [f"01.{m:02d}.21" for m in range(1, 13)],
     [f"25/03/21 {h:02d}:00" for h in range(24)],
     [f"01.{m:02d}.{y}" for y in (20, 21) for m in range(1, 13)][::-1]],
    ids=["a day", "a year", "a day with slashes", "newest first"],
)  # fmt: skip
def test_ordinary_dates_that_end_with_the_year_are_no_question(dates: list[str]) -> None:
    write("a.csv", "date;x", *(f"{date};{k * 1.5}" for k, date in enumerate(dates)))
    order = read_all(Path("a.csv"), ReadOptions(series="auto", time="auto")).order
    assert order is not None
    years = {str(day)[:4] for day in order}
    assert years <= {"2020", "2021"}


def test_dates_that_begin_with_the_year_are_a_question() -> None:
    rows = [f"{y}/{m:02d}/01;{m}" for y in (20, 21, 22) for m in range(1, 13)]
    write("a.csv", "date;x", *rows)
    with pytest.raises(AmbiguousData, match="begins with the year"):
        read_all(Path("a.csv"), ReadOptions(series="auto", time="auto"))


def test_a_feature_is_no_time_because_its_numbers_fit_the_format() -> None:
    write("a.csv", "year,sales", *(f"{1980 + k},{2002 + 31 * k}" for k in range(30)))
    options = ReadOptions(series="auto", time="auto", time_format="%Y")
    found = read_all(Path("a.csv"), options)
    assert found.points.features == ("sales",)
    assert str(found.order[1])[:4] == "1981" if found.order is not None else False


def test_times_of_day_may_be_in_a_column_of_any_name() -> None:
    write("a.csv", "date,minute,x", *(f"2021-03-05,00:{m:02d},{m / 2}" for m in range(60)))
    found = read_all(Path("a.csv"), ReadOptions(time=("date", "minute")))
    assert found.order is not None
    assert str(found.order[59])[:16] == "2021-03-05T00:59"


def test_a_folder_name_adds_a_column_beside_one_of_the_file() -> None:
    path = Path("year=2020/station=A/p.parquet")
    path.parent.mkdir(parents=True)
    duckdb.sql(
        "COPY (SELECT 1999 AS year, t, t / 2 AS x FROM range(9) AS r(t))"
        f" TO '{path}' (FORMAT parquet)"
    )
    found = read_all(path, ReadOptions(series=("station",), time=("t",)))
    assert found.ids == ("A",)
    assert set(found.points.of(0)[:, found.points.features.index("year")]) == {1999.0}


def test_one_negative_value_beside_a_lower_one_is_a_value() -> None:
    values = [*range(25), -9, -21]
    write("a.csv", "t,x", *(f"{t},{x}" for t, x in enumerate(values)))
    assert read_all(Path("a.csv"), ReadOptions(time=("t",))).points.values.min() == -21
