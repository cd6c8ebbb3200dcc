"""Names of files and folders that the database would read as patterns or as columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading


def write(path: Path, scale: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    rows = [{"t": t, "x": scale * t * t} for t in range(8)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        path.write_text("t,x\n" + "".join(f"{row['t']},{row['x']}\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("name", "other"),
    [("run[1]", "run1"), ("l*", "lz"), ("q?", "qz"), ("[!a]", "b"), ("f[1]/*", "f1/z")],
)
def test_a_name_is_never_read_as_a_pattern(
    tmp_path: Path, name: str, other: str, ending: str
) -> None:
    write(tmp_path / f"{other}.{ending}", 100.0)
    path = write(tmp_path / f"{name}.{ending}", 1.0)
    found = read_all(path, Reading())
    assert found.points.values[:, 0].tolist() == [t * t for t in range(8)]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
@pytest.mark.parametrize("folder", ["x=7", "X=7", "c1=7", "line=7"])
def test_a_folder_never_replaces_a_column(tmp_path: Path, folder: str, ending: str) -> None:
    path = write(tmp_path / folder / f"a.{ending.removesuffix('.gz')}", 1.5)
    if ending == "csv.gz":
        packed = path.with_name("a.csv.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    found = read_all(path, Reading(features=("x",)))
    assert found.points.values[:, 0].tolist() == [1.5 * t * t for t in range(8)]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_folder_names_a_series_that_the_file_does_not_name(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / "station=A" / f"a.{ending}", 1.5)
    assert read_all(path, Reading(series=("station",))).ids == ("A",)
