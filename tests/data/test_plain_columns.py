"""Columns that are read with their types in the first pass: the same results as from text."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.data.files import ReadOptions, read_all
from seqattn.data.tables import casting, open_table, plain_columns
from seqattn.errors import DataError, SeqattnError

START = datetime.date(2001, 1, 1)
SAMPLE = 100
SERIES, DAYS = 3, 41  # more rows than are looked at first
HEADER = "shop,day,load,sold,note"


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (plain_columns, casting):
        monkeypatch.setattr(module, "SAMPLE_ROWS", SAMPLE)


def rows() -> list[list[str]]:
    return [
        [f"s_{k}", (START + datetime.timedelta(t)).isoformat(), f"{t / 7:.3f}", str(t * k), "ok"]
        for k in range(SERIES)
        for t in range(DAYS)
    ]


def written(path: Path, cells: list[list[str]], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *(",".join(row) for row in cells)]) + "\n")
    return path


def result(path: Path, **options: Any) -> Any:
    """All that a reader sees of a file, or the error."""
    try:
        piece = read_all(path, ReadOptions(**options))
    except SeqattnError as error:
        return str(error)
    points, order = piece.points, piece.order
    return (
        piece.ids, points.features, points.offsets.tolist(), points.values.tobytes(),
        None if order is None else (order.dtype, order.tobytes()), piece.notes, piece.style,
        piece.groups, piece.where(len(points.values) - 1, 0),
    )  # fmt: skip


def as_text(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    """The same, of a reader that takes no column for plain."""
    with monkeypatch.context() as patch:
        patch.setattr(plain_columns, "plain_columns", lambda *_: {})
        return result(path, **options)


def types_of(path: Path, **options: Any) -> tuple[str, ...]:
    with open_table(path, "csv", ReadOptions(**options)) as table:
        return table.types


def test_plain_columns_have_types(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", rows())
    assert types_of(path) == ("VARCHAR", "TIMESTAMP", "DOUBLE", "BIGINT", "VARCHAR")
    assert types_of(path, na_values=("-1",)) == ("VARCHAR",) * 5
    assert types_of(path, decimal=",") == ("VARCHAR", "TIMESTAMP", "VARCHAR", "VARCHAR", "VARCHAR")
    assert types_of(path, one_hot=("load",))[2] == "VARCHAR"


LATE = [
    (2, "1_000"), (2, "inf"), (2, "nan"), (2, "NA"), (2, "1e400"), (2, " 1.5"), (2, ""), (2, '""'),
    (2, "x"), (2, "-999"), (2, "0x10"), (2, '"1,5"'), (3, "007"), (3, "+5"), (3, "2.5"),
    (3, "-0"), (3, "1_0"), (3, "9" * 20), (3, "null"), (3, "TRUE"), (1, "2001-2-3"), (1, ""),
    (1, "01-01-01"), (1, "2001/02/03"), (1, "2001-02-30"), (1, "2001-02-03 00:00"), (1, "infinity"),
    (1, "2001-02-03Z"), (1, "2001-02-03 10:1"), (4, "Berlin, 5"), (4, '"1,5"'), (0, "7"), (0, ""),
]  # fmt: skip


@pytest.mark.parametrize(("column", "cell"), LATE)
def test_a_cell_far_down_is_read_as_in_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: int, cell: str
) -> None:
    cells = rows()
    cells[-2][column] = cell
    path = written(tmp_path / "a.csv", cells)
    assert result(path) == as_text(path, monkeypatch)
    if column in (2, 3):  # of numbers
        options = {"is_training": False, "thousands": None}
        assert result(path, **options) == as_text(path, monkeypatch, **options)


def test_one_other_cell_leaves_the_types_of_other_columns(tmp_path: Path) -> None:
    cells = rows()
    cells[-2][3] = "NA"
    path = written(tmp_path / "a.csv", cells)
    assert types_of(path) == ("VARCHAR", "TIMESTAMP", "DOUBLE", "VARCHAR", "VARCHAR")


def test_a_decimal_comma_in_another_column_makes_points_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["day;load;sold"]
    for t in range(1200):
        day = (START + datetime.timedelta(t)).isoformat()
        lines.append(f"{day};1.{t % 900 + 100};{'' if t < 1100 else f'{t},5'}")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    assert result(path) == as_text(path, monkeypatch)
    assert read_all(path, ReadOptions()).points.values[1, 0] == 1101


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"]
)
def test_times_keep_their_style_and_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    times = [datetime.datetime(2001, 1, 1, 5) + datetime.timedelta(days=t) for t in range(9)]
    path = written(
        tmp_path / "a.csv", [[f"{t:{form}}", f"{k / 8}"] for k, t in enumerate(times)], "day,x_1"
    )
    assert types_of(path) == ("TIMESTAMP", "DOUBLE")
    assert result(path) == as_text(path, monkeypatch)
    assert read_all(path, ReadOptions()).style.time_formats == (form,)
    wide = read_all(path, ReadOptions(layout="wide", series=("day",)))
    assert wide.ids == tuple(f"{t:{form}}" for t in times)


@pytest.mark.parametrize("order", ["reversed", "shuffled", "a time twice"])
def test_rows_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    cells = rows()
    if order == "reversed":
        cells.reverse()
    elif order == "shuffled":
        cells = [cells[k] for k in np.random.default_rng(5).permutation(len(cells))]
    else:
        cells.insert(DAYS + 7, cells[DAYS + 3])
    path = written(tmp_path / "a.csv", cells)
    assert result(path) == as_text(path, monkeypatch)
    if order == "a time twice":
        assert f"line {DAYS + 5} and line {DAYS + 9} are both" in result(path, time=("day",),
                                                                       series=("shop",))  # fmt: skip
        return
    found, wanted = (
        read_all(path, ReadOptions()),
        read_all(written(tmp_path / "b.csv", rows()), ReadOptions()),
    )
    assert sorted(found.ids) == sorted(wanted.ids)
    for k, name in enumerate(wanted.ids):
        np.testing.assert_array_equal(found.points.of(found.ids.index(name)), wanted.points.of(k))


def test_rows_are_fetched_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqattn.data.tables import long

    path = written(tmp_path / "a.csv", rows())
    whole = result(path)
    monkeypatch.setattr(long, "FETCH_ROWS", 37)
    assert result(path) == whole


def test_a_group_that_is_not_there_is_refused_in_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x_1,x_2\na,1,2\nb,3,4\n")
    with pytest.raises(DataError, match="no column 'kind' \\(data.group\\); found id, x_1, x_2"):
        read_all(path, ReadOptions(group="kind"))


@pytest.mark.parametrize("ids", [("1", "1 "), ("  9", "\t9")])
def test_spaces_around_ids_of_digits_are_no_part_of_them(
    tmp_path: Path, ids: tuple[str, str]
) -> None:
    cells = [[ids[t % 2], str(t), str(t * t)] for t in range(8)]
    found = read_all(written(tmp_path / "a.csv", cells, "id,t,x"), ReadOptions())
    assert found.ids == (ids[0].strip(),)
    words = ReadOptions(series=(), time=("t",), one_hot=("id",))
    names = read_all(tmp_path / "a.csv", words).points.features
    assert names == ("x", f"id={ids[0].strip()}")


def test_spaces_around_ids_of_a_wide_table_are_no_part_of_them(tmp_path: Path) -> None:
    cells = [[f" {k} ", f"g{k % 2} ", *map(str, range(k, k + 3))] for k in range(8)]
    path = written(tmp_path / "a.csv", cells, "id,kind,x_1,x_2,x_3")
    found = read_all(path, ReadOptions(series=("id",), group="kind"))
    assert found.ids == tuple(map(str, range(8)))
    assert found.groups == ("g0", "g1") * 4


@pytest.mark.parametrize("digits", [False, True])
def test_a_series_without_a_group_is_refused(tmp_path: Path, digits: bool) -> None:
    groups = ["1", "", "3", ""] if digits else ["a", "NA", "b", ""]
    cells = [[f"s{k}", str(t), str(t * t + k), groups[k]] for k in range(4) for t in range(5)]
    path = written(tmp_path / "a.csv", cells, "id,t,x,kind")
    with pytest.raises(DataError, match=r"line 7, column 'kind' is empty"):
        read_all(path, ReadOptions(group="kind"))
    for k, t in ((1, 2), (3, 4)):  # one cell is enough
        cells[5 * k + t][3] = groups[2]
    found = read_all(written(path, cells, "id,t,x,kind"), ReadOptions(group="kind"))
    assert found.groups == (groups[0], *[groups[2]] * 3)
