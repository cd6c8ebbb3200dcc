"""Notations of numbers in text tables that have two readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import AmbiguousData, DataError

GERMAN = ["987", "995", "1.003", "1.010", "999", "1.020", "950", "948"]
FIXED = ["1.250", "2.125", "3.750", "1.003", "7.010", "5.500", "2.001", "1.999"]


def written(path: Path, separator: str, *columns: list[str]) -> Path:
    names = ["day", *"xyz"[: len(columns)]]
    rows = [[f"2020-01-0{k + 1}", *cells] for k, cells in enumerate(zip(*columns, strict=True))]
    path.write_text("".join(f"{separator.join(row)}\n" for row in [names, *rows]))
    return path


def first_column(path: Path, **options: Any) -> list[float]:
    return [float(x) for x in read_all(path, Reading(**options)).points.values[:, 0]]


def numbers(cells: list[str], *, are_thousands: bool) -> list[float]:
    return [float(cell.replace(".", "") if are_thousands else cell) for cell in cells]


@pytest.mark.parametrize(
    ("separator", "cells"), [(";", GERMAN), (",", GERMAN), ("\t", GERMAN), (";", FIXED)]
)
def test_points_that_may_separate_thousands_are_asked_about(
    tmp_path: Path, separator: str, cells: list[str]
) -> None:
    path = written(tmp_path / "t.csv", separator, cells)
    with pytest.raises(AmbiguousData, match="The point can be a thousands separator") as caught:
        first_column(path)
    for choice, are_thousands in zip(caught.value.choices, (True, False), strict=True):
        assert first_column(path, **choice) == numbers(cells, are_thousands=are_thousands)
    assert first_column(path, thousands=".") == numbers(cells, are_thousands=True)
    assert first_column(path, thousands=None) == numbers(cells, are_thousands=False)


def test_a_point_after_many_rows_is_asked_about(tmp_path: Path) -> None:
    rows = [f"a,{t},{100 + t * t % 897}" for t in range(2000)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["id,t,x", *rows, "a,2000,1.003"]) + "\n")
    with pytest.raises(AmbiguousData, match="such as '1.003'"):
        first_column(path)


@pytest.mark.parametrize(
    ("separator", "cells"),
    [
        (",", FIXED),
        (";", [*FIXED[1:], "0.125"]),
        (";", [*FIXED[1:], "1250"]),
        (",", [*GERMAN[1:], "1.5"]),
        (",", ["5", "7", *FIXED[2:]]),
    ],
)
def test_other_points_are_decimal_marks(tmp_path: Path, separator: str, cells: list[str]) -> None:
    path = written(tmp_path / "t.csv", separator, cells)
    assert first_column(path) == numbers(cells, are_thousands=False)


@pytest.mark.parametrize(("other", "are_thousands"), [("0.5", False), ("0,5", True)])
def test_another_column_answers_the_question(
    tmp_path: Path, other: str, are_thousands: bool
) -> None:
    others = [other, *(f"{t}{other[1:]}" for t in (3, 9, 2, 7, 8, 1, 4))]
    path = written(tmp_path / "t.csv", ";", GERMAN, others)
    assert first_column(path) == numbers(GERMAN, are_thousands=are_thousands)


def test_a_sign_after_a_number_is_no_unit(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ",", [f"{k}.5-" for k in range(8)], GERMAN)
    assert read_all(path, Reading(decimal=".")).points.features == ("y",)
    with pytest.raises(DataError, match="column 'x' contains '0.5-', not a number"):
        read_all(path, Reading(decimal=".", features=("x",)))
