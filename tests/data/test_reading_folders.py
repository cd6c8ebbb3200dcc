"""Folders are read as one file with the same rows would be, or a note or an error says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.config import OwnFile
from seqattn.data import many_files as merging
from seqattn.data.files import find_files
from seqattn.data.many_files import read_series
from seqattn.data.series import Series
from seqattn.data.spacing import Frequency
from seqattn.data.tables import long
from seqattn.errors import AmbiguousData, DataError


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
    folder = write(tmp_path / "certain", a=table("1.12", "1.1287", "1.13"), b=other)
    with pytest.raises(
        DataError, match=r"b\.csv: has numbers with decimal commas, .*data\.decimal"
    ):
        read(folder)
    folder = write(tmp_path / "d", a=table("1.127", "1.128", "1.130"), b=other)
    with pytest.raises(AmbiguousData, match="The point can be a thousands separator"):
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


def rows(times: list[int], name: str = "A", value: str = "5") -> str:
    return "".join(f"{name},{t},{value}\n" for t in times)


@pytest.mark.parametrize("cache", ["always", "never"])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_rows_in_a_later_file_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, cache: str
) -> None:
    """Before, whether the command ended with an error depended on the order of the files."""
    monkeypatch.setenv("SEQATTN_CACHE", str(tmp_path / "cache"))
    folder, head = tmp_path / "d", "id,t,x\n"
    parts = [head + rows([0, 1, 2, 4, 5, 7, 8]) + rows([0, 1], "B"), head + rows([3, 6])]
    write(folder, **dict(zip(names, parts, strict=True)))
    series = read(folder, cache=cache)
    assert series.points.lengths.tolist() == [9, 2]
    write(folder, **dict(zip(names, [parts[0], head + rows([6])], strict=True)))
    with pytest.raises(DataError, match="Add the missing row"):
        read(folder, cache=cache)
    write(folder, **dict(zip(names, [parts[0], head + rows([0, 1, 2], "C")], strict=True)))
    with pytest.raises(DataError, match="Add the missing row"):
        read(folder, cache=cache)


def test_notes_on_merged_series_are_kept(tmp_path: Path) -> None:
    head = "id,t,x\n"
    folder = write(tmp_path / "d", a=head + rows([0, 1, 2], value="yes"),
                   b=head + rows([3, 4, 5], value="no"))  # fmt: skip
    assert "'x': true and yes are read as 1, false and no as 0" in read(folder).notes


def test_a_file_without_rows_is_named_in_a_note(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", a="id,t,x\n" + rows([0, 1, 2]), b="id,t,x\n")
    (note,) = (note for note in read(folder).notes if "without rows" in note)
    assert note == f"1 file without rows is left out: {folder / 'b.csv'}"


@pytest.mark.parametrize("cache", ["always", "never"])
@pytest.mark.parametrize("short", [[4], [4, 8], [4, 5]])
def test_short_series_take_the_spacing_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: list[int], cache: str
) -> None:
    """As in one file. In chunks of few rows, the longer series are in other chunks."""
    monkeypatch.setenv("SEQATTN_CACHE", str(tmp_path / "cache"))
    head, long_ones = "id,t,x\n", "".join(rows([0, 2, 4, 6], name) for name in "ABC")
    keys = {"missing": "interpolate", "cache": cache}
    parts = {"a": head + rows(short, "S"), "b": head + long_ones, "c": head + rows([1, 2, 3], "D")}
    folder = write(tmp_path / "d", **parts)
    one = "".join(text.removeprefix(head) for text in parts.values())
    whole = read(write(tmp_path / "w", one=head + one) / "one.csv", missing="interpolate")
    monkeypatch.setattr(long, "CHUNK_ROWS", 1)
    monkeypatch.setattr(merging, "SORTED_ROWS", 1)
    straddling = {"1": head + rows([0], "A"), **parts, "b": head + long_ones.replace("A,0,5\n", "")}
    for path in (folder, tmp_path / "w" / "one.csv", write(tmp_path / "s", **straddling)):
        series = read(path, **keys)
        at = [list(series.ids).index(name) for name in whole.ids]
        assert series.spacing is not None
        assert whole.spacing is not None
        found = [series.spacing.frequency(k) for k in at]
        assert found == [whole.spacing.frequency(k) for k in range(5)]
        assert series.points.lengths[at].tolist() == whole.points.lengths.tolist()
    assert whole.spacing.frequency(0) == Frequency("number", 1 if short == [4, 5] else 2)


def test_short_series_alone_share_a_constant_spacing(tmp_path: Path) -> None:
    head = "id,t,x\n"
    folder = write(tmp_path / "d", a=head + rows([4], "S"), b=head + rows([0, 2], "A"))
    spacing = read(folder).spacing
    assert spacing is not None
    assert spacing.common() == Frequency("number", 2)
    assert np.asarray(spacing.is_known).all()
