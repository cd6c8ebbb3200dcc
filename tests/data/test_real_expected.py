"""tests/fixtures/real itself: reproducible files, complete expectations, and a checker that can fail."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.fixtures.make_real import FILES, content
from tests.real_files import (
    FOLDER,
    load_cases,
    options_of,
    target_mistakes,
)

CASES = load_cases(FOLDER)
ACCEPTED = [case for case in CASES if case.outcome == "accepted"]
FLAGS = {
    "series", "time", "features", "ignore", "na_values", "decimal", "thousands", "delimiter",
    "time_format", "comment", "skip_rows", "encoding", "layout", "one_hot",
}  # fmt: skip


def test_targets_out_of_range_or_falling_are_mistakes() -> None:
    target = np.array([[[1.0], [np.nan], [3.0]]])
    assert target_mistakes(["x"], target, {"range": {"x": [1, 3]}, "rising": ["x"]}) == []
    assert target_mistakes(["x"], target, {"range": {0: [1, 3]}}) == []
    assert target_mistakes(["x"], target, {"range": {"x": [1, 2.9]}}) == [
        "x: targets from 1 to 3, expected from 1 to 2.9"
    ]
    fallen = target_mistakes(["x"], target[:, ::-1], {"rising": ["x"]})
    assert fallen[0].startswith("x: falls in [3.0, 1.0]")
    nothing = target_mistakes(["x"], target * np.nan, {"range": {"x": [1, 3]}})
    assert nothing == ["x: no target was observed"]


def test_flags_become_options() -> None:
    assert options_of("--series a,b --time none --skip-rows 5 --na 'sensor error'") == {
        "series": ("a", "b"), "time": (), "skip_rows": 5, "na_values": ("sensor error",),
    }  # fmt: skip
    assert options_of("--thousands , --na -999") == {"thousands": ",", "na_values": ("-999",)}
    assert all(set(options_of(case.flags)) <= FLAGS for case in CASES)


def test_every_question_has_a_remedy_that_is_tried() -> None:
    for case in CASES:
        if case.outcome == "question":
            tried = {c.flags for c in ACCEPTED if c.path == case.path}
            assert case.remedies
            assert set(case.remedies) <= tried


def test_the_corpus_is_large_enough_and_small_enough() -> None:
    names = {case.path.name for case in CASES}
    assert len(names) >= 48
    assert names == set(FILES)
    assert sum((FOLDER / name).stat().st_size for name in names) < 1_500_000


@pytest.mark.parametrize("name", FILES)
def test_the_script_makes_the_files_again(name: str, tmp_path: Path) -> None:
    made, kept = content(name), (FOLDER / name).read_bytes()
    if name.endswith((".parquet", ".zst")):  # their bytes depend on the version of DuckDB
        (tmp_path / name).write_bytes(made)
        assert rows_of(tmp_path / name) == rows_of(FOLDER / name)
    elif name.endswith(".gz"):  # compressed bytes differ between versions of zlib
        assert gzip.decompress(made) == gzip.decompress(kept)
    elif name.endswith((".npy", ".npz")):  # the last bit of a sum depends on the processor
        for one, other in zip(arrays(made), arrays(kept), strict=True):
            assert np.array_equal(one, other) or np.allclose(one, other, rtol=1e-6)
    else:
        assert made == kept


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    return [duckdb.sql(f"FROM '{path}'").columns, *duckdb.sql(f"FROM '{path}'").fetchall()]


def arrays(data: bytes) -> list[np.ndarray]:
    loaded = np.load(io.BytesIO(data), allow_pickle=False)
    return [loaded] if isinstance(loaded, np.ndarray) else [loaded[key] for key in sorted(loaded)]
