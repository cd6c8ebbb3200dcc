"""Files that are ambiguous alone, but not beside the training data or another file of a folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from seqattn.config import OwnFile
from seqattn.data import Splits, load_data
from seqattn.data.files import read_all
from seqattn.data.reading import Reading
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


def test_an_input_file_is_read_like_the_training_file(seqattn: Command) -> None:
    write("train.csv", "t;x", *numbers(150, 2))
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: train.csv, window: {source: 4, target: 2}, split: {by: time}}\n"
        "model: {hidden_dim: 3}\ntraining: {epochs: 1}\n"
    )
    assert seqattn("train", "c.yaml").code == 0
    write("in.csv", "t;x", *numbers(150, 3, n=6))
    done = seqattn("predict", "outputs/c", "--input", "in.csv")
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


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_file_with_two_questions_is_read_like_the_training_file(
    piped: bool, second: bool, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `second`, the training file does not show the decimal mark, so the command asks."""
    mark = ".25" if second else ""
    rows = [f"{1 + k % 28:02d}/{1 + k // 28:02d}/2021;{900 + k}{mark}" for k in range(90)]
    write("train.csv", "t;x", *rows)
    Path("c.yaml").write_text(
        "name: c\ndata: {kind: file, path: train.csv, window: {source: 4, target: 2}, split: {by: time},"
        " missing: interpolate}\nmodel: {hidden_dim: 3}\ntraining: {epochs: 1}\n"
    )
    done = seqattn("train", "c.yaml")
    assert done.code == 0, done.err
    write("in.csv", "t;x", *(f"0{k}/03/2021;1.{180 + k}" for k in range(1, 7)))
    if piped:
        content = Path("in.csv").read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    done = seqattn("predict", "outputs/c", "--input", "-" if piped else "in.csv")
    if second:
        assert done.code == 0, done.err
        assert "07/03/2021" in done.out
        assert "is read with data.time_format: '%d/%m/%Y', as in the training." in done.err
        assert "is read with data.decimal: '.', as in the training." in done.err
    else:
        assert done.code == 3
        assert "thousands separator or a decimal mark" in done.err


def test_the_other_parts_are_a_question_of_their_own() -> None:
    write("train.csv", "t;x", *numbers(150, 2))
    write("v.csv", "t;x", *numbers(160, 3))
    write("test.csv", "t;x", *numbers(170, 2))
    with pytest.raises(AmbiguousData, match=r"v\.csv: .* thousands separator or a decimal mark"):
        load(path="train.csv", validation_path="v.csv", test_path="test.csv")


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
    order = read_all(Path("a.csv"), Reading(series="auto", time="auto")).order
    assert order is not None
    years = {str(day)[:4] for day in order}
    assert years <= {"2020", "2021"}


def test_dates_that_begin_with_the_year_are_a_question() -> None:
    rows = [f"{y}/{m:02d}/01;{m}" for y in (20, 21, 22) for m in range(1, 13)]
    write("a.csv", "date;x", *rows)
    with pytest.raises(AmbiguousData, match="begins with the year"):
        read_all(Path("a.csv"), Reading(series="auto", time="auto"))


def test_a_feature_is_no_time_because_its_numbers_fit_the_format() -> None:
    write("a.csv", "year,sales", *(f"{1980 + k},{2002 + 31 * k}" for k in range(30)))
    options = Reading(series="auto", time="auto", time_format="%Y")
    found = read_all(Path("a.csv"), options)
    assert found.points.features == ("sales",)
    assert str(found.order[1])[:4] == "1981" if found.order is not None else False


def test_a_folder_name_adds_a_column_beside_one_of_the_file() -> None:
    path = Path("year=2020/station=A/p.parquet")
    path.parent.mkdir(parents=True)
    duckdb.sql(
        "COPY (SELECT 1999 AS year, t, t / 2 AS x FROM range(9) AS r(t))"
        f" TO '{path}' (FORMAT parquet)"
    )
    found = read_all(path, Reading(series=("station",), time=("t",)))
    assert found.ids == ("A",)
    assert set(found.points.of(0)[:, found.points.features.index("year")]) == {1999.0}
