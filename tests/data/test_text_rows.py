"""Cells and rows of text tables: their order, spaces, groups and the blocks in which rows are read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import DataError, SeqattnError

START = datetime.date(2001, 1, 1)
SERIES, DAYS = 3, 41
HEADER = "shop,day,load,sold,note"


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
        piece = read_all(path, Reading(**options))
    except SeqattnError as error:
        return str(error)
    points, order = piece.points, piece.order
    return (
        piece.ids, points.features, points.offsets.tolist(), points.values.tobytes(),
        None if order is None else (order.dtype, order.tobytes()), piece.notes, piece.style,
        piece.groups, piece.where(len(points.values) - 1, 0),
    )  # fmt: skip


@pytest.mark.parametrize("order", ["reversed", "shuffled", "a time twice"])
def test_rows_in_another_order(tmp_path: Path, order: str) -> None:
    cells = rows()
    if order == "reversed":
        cells.reverse()
    elif order == "shuffled":
        cells = [cells[k] for k in np.random.default_rng(5).permutation(len(cells))]
    else:
        cells.insert(DAYS + 7, cells[DAYS + 3])
    path = written(tmp_path / "a.csv", cells)
    if order == "a time twice":
        assert f"line {DAYS + 5} and line {DAYS + 9} are both" in result(path, time=("day",),
                                                                       series=("shop",))  # fmt: skip
        return
    found, wanted = (
        read_all(path, Reading()),
        read_all(written(tmp_path / "b.csv", rows()), Reading()),
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


@pytest.mark.parametrize("cell", ["2.5", "-0", "9007199254740993", "1_0", "NA", "-999", "1,5", "x"])
def test_stored_numbers_and_times_are_those_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    from seqattn.data.tables import columns, facts

    cells = rows()
    cells[-2][3] = f'"{cell}"'
    path = written(tmp_path / "a.csv", cells)
    from_text = [result(path), result(path, na_values=("-999",), thousands=None)]
    monkeypatch.setattr(facts, "MIN_STORED_ROWS", 1)
    monkeypatch.setattr(columns, "SAMPLE_ROWS", 10)
    assert [result(path), result(path, na_values=("-999",), thousands=None)] == from_text


def test_late_points_are_thousands_although_the_sample_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqattn.data.tables import columns

    cells = [[str(t), str(t % 900 + 100) if t < 30 else f"1.{t + 100}"] for t in range(40)]
    path = written(tmp_path / "a.csv", cells, "t,x")
    whole = result(path)
    assert "can be a thousands separator" in whole
    monkeypatch.setattr(columns, "SAMPLE_ROWS", 10)
    assert result(path) == whole


def test_a_group_that_is_not_there_is_refused_in_a_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x_1,x_2\na,1,2\nb,3,4\n")
    with pytest.raises(DataError, match="no column 'kind' \\(data.group\\); found id, x_1, x_2"):
        read_all(path, Reading(group="kind"))


@pytest.mark.parametrize("ids", [("1", "1 "), ("  9", "\t9")])
def test_spaces_around_ids_of_digits_are_no_part_of_them(
    tmp_path: Path, ids: tuple[str, str]
) -> None:
    cells = [[ids[t % 2], str(t), str(t * t)] for t in range(8)]
    found = read_all(written(tmp_path / "a.csv", cells, "id,t,x"), Reading())
    assert found.ids == (ids[0].strip(),)
    words = Reading(series=(), time=("t",), one_hot=("id",))
    names = read_all(tmp_path / "a.csv", words).points.features
    assert names == ("x", f"id={ids[0].strip()}")


def test_spaces_around_ids_of_a_wide_table_are_no_part_of_them(tmp_path: Path) -> None:
    cells = [[f" {k} ", f"g{k % 2} ", *map(str, range(k, k + 3))] for k in range(8)]
    path = written(tmp_path / "a.csv", cells, "id,kind,x_1,x_2,x_3")
    found = read_all(path, Reading(series=("id",), group="kind"))
    assert found.ids == tuple(map(str, range(8)))
    assert found.groups == ("g0", "g1") * 4


@pytest.mark.parametrize("digits", [False, True])
def test_a_series_without_a_group_is_refused(tmp_path: Path, digits: bool) -> None:
    groups = ["1", "", "3", ""] if digits else ["a", "NA", "b", ""]
    cells = [[f"s{k}", str(t), str(t * t + k), groups[k]] for k in range(4) for t in range(5)]
    path = written(tmp_path / "a.csv", cells, "id,t,x,kind")
    with pytest.raises(DataError, match=r"line 7, column 'kind' is empty"):
        read_all(path, Reading(group="kind"))
    for k, t in ((1, 2), (3, 4)):  # one cell is enough
        cells[5 * k + t][3] = groups[2]
    found = read_all(written(path, cells, "id,t,x,kind"), Reading(group="kind"))
    assert found.groups == (groups[0], *[groups[2]] * 3)
