"""Names of files and folders that the database would read as patterns or as columns."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.data.files import ReadOptions, read_all


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
    found = read_all(path, ReadOptions())
    assert found.points.values[:, 0].tolist() == [t * t for t in range(8)]
