"""Folders are read as one file with the same rows would be, or a note or an error says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqattn.config import OwnFile
from seqattn.data.paths import find_files
from seqattn.data.reading import read_series
from seqattn.data.series import Series
from seqattn.errors import DataError


def read(path: Path, **keys: Any) -> Series:
    config = OwnFile.model_validate({"path": str(path), "source_length": 2, **keys})
    return read_series(str(path), find_files(str(path), "auto"), config)


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def table(*values: str, head: str = "id;t;x") -> str:
    rows = [f"{name};{t};{value}" for t, value in enumerate(values) for name in "AB"]
    return "\n".join([head, *rows]) + "\n"


def test_the_decimal_comma_of_the_first_file_applies_to_all(tmp_path: Path) -> None:
    """Before, 1.127 in the second file was little more than 1."""
    folder = write(
        tmp_path / "d",
        a=table("1.022,5", "999,5", "1.000,5"),
        b=table("1.127", "1.128", "1.130").replace("A", "C").replace("B", "D"),
    )
    series = read(folder)
    assert list(series.ids) == ["A", "B", "C", "D"]
    assert series.points.of(0)[:, 0].tolist() == [1022.5, 999.5, 1000.5]
    assert series.points.of(3)[:, 0].tolist() == [1127, 1128, 1130]


def test_decimal_commas_in_a_later_file_alone_are_an_error(tmp_path: Path) -> None:
    other = table("1.022,5", "999,5", "1.000,5").replace("A", "C").replace("B", "D")
    folder = write(tmp_path / "d", a=table("1.127", "1.128", "1.130"), b=other)
    with pytest.raises(
        DataError, match=r"b\.csv: has numbers with decimal commas, .*data\.decimal"
    ):
        read(folder)
    assert read(folder, decimal=",").points.of(0)[:, 0].tolist() == [1127, 1128, 1130]


def test_decimal_commas_and_another_separator_are_an_error(tmp_path: Path) -> None:
    other = table("1.127", "1.128", "1.130", head="id;t;x").replace(";", ",")
    folder = write(
        tmp_path / "d",
        a=table("1.022,5", "999,5", "1.000,5"),
        b=other.replace("A", "C").replace("B", "D"),
    )
    with pytest.raises(DataError, match=r"b\.csv: separates cells by ',', .*a\.csv by ';'"):
        read(folder)
