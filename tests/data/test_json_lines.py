"""JSON Lines files: compressed ones, and the names of sequences in several of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pytest

from seqattn.config import OwnFile
from seqattn.data import json_lines as lines
from seqattn.data import load_data
from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import DataError

ROWS = [{"t": t, "x": t / 2, "y": -t} for t in range(6)]
NESTED = [{"id": f"s{k}", "source": [[k, 1], [k + 1, 2]]} for k in range(3)]


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("rows", [ROWS, NESTED], ids=["rows", "sequences"])
def test_a_gzip_file_is_read_like_its_content(
    rows: Sequence[Mapping[str, object]], tmp_path: Path
) -> None:
    plain, packed = (
        read_all(write(tmp_path / name, rows), Reading()) for name in ("a.jsonl", "a.jsonl.gz")
    )
    assert plain.points.features == packed.points.features
    assert np.array_equal(plain.points.values, packed.points.values)
    assert packed.ids == (plain.ids if rows is NESTED else ("a.jsonl",))


def test_rows_compressed_with_zstandard(tmp_path: Path) -> None:
    plain, packed = write(tmp_path / "a.jsonl", ROWS), tmp_path / "a.jsonl.zst"
    duckdb.sql(f"COPY (FROM '{plain}') TO '{packed}' (FORMAT json, COMPRESSION zstd)")
    found = read_all(packed, Reading())
    assert np.array_equal(found.points.values, read_all(plain, Reading()).points.values)


@pytest.mark.parametrize("cut", [slice(0, 20), slice(0, -4), slice(12, None)])
def test_a_damaged_gzip_file(cut: slice, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"source": [[1, 2]]}\n' * 20)[cut])
    with pytest.raises(DataError, match=r"a\.jsonl\.gz: is a damaged gzip file"):
        read_all(path, Reading())


def test_a_bad_line_of_a_gzip_file_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"t": 1, "x": 2}\n{"t": 2, "x": }\n'))
    with pytest.raises(DataError, match=r"a\.jsonl\.gz:2: is not valid JSON"):
        read_all(path, Reading())


def test_sequences_of_several_files_keep_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sequence is a chunk of its own, as long sequences are."""
    monkeypatch.setattr(lines, "MAX_CHUNK_VALUES", 1)
    steps = [[float(t)] for t in range(8)]
    write(tmp_path / "one.jsonl", [{"id": name, "source": steps} for name in ("anna", "ben")])
    write(tmp_path / "two.jsonl", [{"source": steps}, {"source": steps}])
    write(tmp_path / "three.jsonl", [{"source": steps}])
    config = OwnFile.model_validate({"path": str(tmp_path / "*.jsonl"), "source_length": 4})
    splits = load_data(config)
    names = {name for name, *_ in splits.split}
    assert names == {"anna", "ben", "two", "two:2", "three"}


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "source"}, {"unit": "[m]", "target": 1.5}, {"source": 2.5}, {"target": 1.5},
        {"source": "north", "unit": "[m]"}, {"source": None, "target": 1},
    ],
    ids=str,
)  # fmt: skip
def test_rows_with_the_words_of_sequences_are_rows(
    tmp_path: Path, more: Mapping[str, object]
) -> None:
    path = write(tmp_path / "a.jsonl", [{**row, **more} for row in ROWS])
    found = read_all(path, Reading(features=("x", "y")))
    assert found.points.values.tolist() == [[t / 2, -t] for t in range(6)]


def test_a_long_first_line_is_a_sequence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"note": "[" * 9, "id": "a", "source": [1, 2] * 10**5}])
    assert read_all(path, Reading()).points.lengths.tolist() == [2 * 10**5]
