"""Numbers and words that mark missing values, such as -999: in every type of number and every
layout, they are found, or asked about."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.data import json_lines as lines
from seqattn.data.files import read_all
from seqattn.data.inspect import inspect_file
from seqattn.data.reading import Reading
from seqattn.errors import AmbiguousData


@pytest.mark.parametrize("mark", [-999.9, -99.9, -99.99, -999.0])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_mark_of_float32_is_found(tmp_path: Path, kind: pa.DataType, mark: float) -> None:
    """The nearest float32 of -999.9 differs from -999.9."""
    path = tmp_path / "a.parquet"
    values = pa.array([10.5, 12, 11, mark, 13, 10, 12], kind)
    pq.write_table(pa.table({"t": range(7), "x": values}), path)
    with pytest.raises(AmbiguousData, match=rf"column 'x' has {mark:g} in 1 cell") as caught:
        read_all(path, Reading())
    (na, _) = caught.value.choices
    found = read_all(path, Reading(na_values=(na["na_values"],))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    kept = read_all(path, Reading(na_values=())).points.values[3, 0]
    assert np.float32(kept) == np.float32(mark)


def test_a_mark_of_float32_that_was_written_as_float64_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    values = [10.5, 12.0, 11.0, float(np.float32(-999.9)), 13.0, 10.0]
    path.write_text("t,x\n" + "".join(f"{t},{x!r}\n" for t, x in enumerate(values)))
    assert "-999.90002" in path.read_text()
    with pytest.raises(AmbiguousData, match="column 'x' has -999.9 in 1 cell"):
        read_all(path, Reading())
    found = read_all(path, Reading(na_values=("-999.9",))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


def test_a_mark_beyond_float32_does_not_hide_infinity(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = pa.array([1.5, 2, 1e300, 4, 5])
    pq.write_table(pa.table({"t": range(5), "x": values}), path)
    found = read_all(path, Reading(na_values=("1e300",))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [2]


def wide_table(path: Path, **changed: float) -> Path:
    """Write a wide table of two features. `changed` are cells of its fourth row."""
    names = [f"{feature}_{step}" for step in range(1, 5) for feature in "xy"]
    rows = [{name: k + column / 8 for column, name in enumerate(names)} for k in range(9)]
    rows[3].update(changed)
    rows_ = [f"a{k}," + ",".join(map(str, row.values())) for k, row in enumerate(rows)]
    path.write_text("\n".join([f"id,{','.join(names)}", *rows_]) + "\n")
    return path


def test_a_mark_in_a_wide_table_is_asked_about(tmp_path: Path) -> None:
    path = wide_table(tmp_path / "w.csv", x_3=-999, x_4=-999)
    for read in (lambda options: read_all(path, options), lambda _: inspect_file(path)):
        with pytest.raises(AmbiguousData, match="feature 'x' has -999 in 2 cells, and its other"):
            read(Reading())
    found = read_all(path, Reading(na_values=("-999",))).points.of(3)
    assert np.isnan(found).sum(axis=0).tolist() == [2, 0]
    assert read_all(path, Reading(na_values=())).points.of(3)[2, 0] == -999
    (note,) = read_all(path, Reading(is_training=False)).notes
    assert "feature 'x' has -999 in 2 cells" in note


def test_a_usual_value_in_a_wide_table_is_not_asked_about(tmp_path: Path) -> None:
    path = wide_table(tmp_path / "w.csv", x_3=-9, y_1=-20, y_2=-11)
    text = path.read_text()
    path.write_text(text + "b,-9,-9,-10,-12,-5,-7,-9,-3\n")
    assert len(read_all(path, Reading())) == 10


@pytest.mark.parametrize("far", [-1_000_000.0, -32768.0])
def test_a_mark_next_to_a_farther_outlier_is_asked_about(tmp_path: Path, far: float) -> None:
    path = tmp_path / "a.csv"
    values = [10 + t % 5 for t in range(20)]
    values[5], values[6] = -999, int(far)
    path.write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in enumerate(values)))
    with pytest.raises(AmbiguousData, match=r"between 10 and 14 \(except 1 outliers\)"):
        read_all(path, Reading())


@pytest.mark.parametrize(
    "values",
    [
        [-15, -9, 0.5, 1.5, 2.5, 3.5],  # the other value is nearer to -9 than the rest
        [-5000, -4000, -999, 10, 20, 30],
        [1, 30, 500, 999, 2000, 5000, 100_000],
        [1200, 999, 1100, 1050],
    ],
)
def test_a_number_among_others_is_not_asked_about(tmp_path: Path, values: list[float]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in enumerate(values)))
    assert read_all(path, Reading()).points.values[:, 0].tolist() == values


def sequences(path: Path, mark: float, other: float = 2.0) -> Path:
    objects = [
        {"source": [[k, 1.0], [k + 1, mark if k == 3 else other]], "target": [[k + 2, 1.5]]}
        for k in range(6)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in objects))
    return path


@pytest.mark.parametrize("chunk_values", [1, 2**18])
def test_a_mark_in_sequences_of_json_lines_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_values: int
) -> None:
    monkeypatch.setattr(lines, "MAX_CHUNK_VALUES", chunk_values)
    path = sequences(tmp_path / "a.jsonl", -999)
    with pytest.raises(AmbiguousData, match="feature 'y' has -999 in 1 cell, and its other"):
        read_all(path, Reading())
    found = read_all(path, Reading(na_values=("-999",)))
    assert np.argwhere(np.isnan(found.points.values)).tolist() == [[7, 1]]
    assert read_all(path, Reading(na_values=())).points.values[7, 1] == -999
    (note,) = read_all(path, Reading(is_training=False)).notes
    assert "feature 'y' has -999 in 1 cell" in note
    assert len(read_all(sequences(path, -9, -20), Reading())) == 6


@pytest.mark.parametrize("word", ["nAN", "MisSing", "nULL", "n/A", "#N/a", "oFF"])
def test_words_for_empty_cells_have_any_case(tmp_path: Path, word: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n" + "".join(f"{t},{word if t == 3 else t * t}\n" for t in range(9)))
    found = read_all(path, Reading(na_values=("Off",)))
    assert np.flatnonzero(np.isnan(found.points.values[:, 0])).tolist() == [3]
    assert any(repr(word) in note for note in found.notes)


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["10,5", "11,5", "-999,9", "12,5", "13,5"], "-999.9"),
        (["1.000,5", "1.100,5", "-9.999", "1.200,5", "1.300,5"], "-9999"),
    ],
)
def test_the_answer_to_the_question_holds_for_every_notation(
    tmp_path: Path, cells: list[str], mark: str
) -> None:
    """The question names the number, not the text of the cell."""
    path = tmp_path / "a.csv"
    path.write_text("t;x\n" + "".join(f"{t};{cell}\n" for t, cell in enumerate(cells)))
    with pytest.raises(AmbiguousData, match=f"column 'x' has {mark} in 1 cell") as caught:
        read_all(path, Reading())
    assert caught.value.choices[0]["na_values"] == mark
    found = read_all(path, Reading(na_values=(mark,)))
    assert np.flatnonzero(np.isnan(found.points.values[:, 0])).tolist() == [2]
    assert any("1 cell of 'x' empty" in note for note in found.notes)
