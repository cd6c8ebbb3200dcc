"""`seqattn predict --attention-override forced:FILE.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.runs.storage import read_arrays
from tests.cli.small import MY_CSV, rows
from tests.conftest import Ended

Command = Callable[..., Ended]


def write_rows(folder: Path, *forced: dict[str, Any], name: str = "forced.json") -> str:
    (folder / name).write_text(json.dumps({"rows": list(forced)}))
    return f"forced:{name}"


def uniform_rows(steps: int = 2) -> list[dict[str, Any]]:
    return [{"step": t, "weights": [0.5, 0.5]} for t in range(1, steps + 1)]


def test_forced_rows_equal_the_mode(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    forced = write_rows(tmp_path, *uniform_rows())
    by_mode = seqattn("predict", attention_run, "--attention-override", "uniform")
    done = seqattn("predict", attention_run, "--attention-override", forced, "--attention", "w.npz")
    assert done.code == 0, done.err
    assert done.out == by_mode.out
    assert f"with {forced}." in done.err
    assert (read_arrays(tmp_path / "w.npz")["weights"] == 0.5).all()


def test_a_row_of_one_test_sequence(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    plain = rows(seqattn("predict", attention_run).out)
    ids = list(dict.fromkeys(row["sequence"] for row in plain))
    forced = write_rows(tmp_path, {"id": ids[3], "step": 2, "weights": [0, 0]})
    done = seqattn("predict", attention_run, "--attention-override", forced, "--attention", "w.npz")
    assert done.code == 0, done.err
    changed = [ours != theirs for ours, theirs in zip(rows(done.out), plain, strict=True)]
    assert [
        row["sequence"] for row, is_changed in zip(plain, changed, strict=True) if is_changed
    ] == [ids[3]]
    weights = read_arrays(tmp_path / "w.npz")
    assert weights["weights"][3, 0, 0, 1].tolist() == [0, 0]
    assert str(weights["meaning"]) == "partial"
    alone = seqattn("predict", attention_run, "--example", "3", "--attention-override", forced)
    of_batch = [row for row in rows(done.out) if row["sequence"] == ids[3]]
    for ours, theirs in zip(rows(alone.out), of_batch, strict=True):
        assert float(ours["x"]) == pytest.approx(float(theirs["x"]), abs=1e-6)
    other = seqattn("predict", attention_run, "--example", "0", "--attention-override", forced)
    assert other.code == 2
    assert f"forced.json: rows[0].id: no sequence has the id {ids[3]!r}" in other.err


def test_rows_for_my_own_sequences(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    plain = rows(seqattn("predict", attention_run, "--input", "my.csv").out)
    length = sum(line.startswith("longer,") for line in MY_CSV.splitlines())
    row = {"id": "longer", "step": 2, "layer": 0, "head": 0, "weights": [1] + [0] * (length - 1)}
    forced = write_rows(tmp_path, row)
    words = ["predict", attention_run, "--input", "my.csv", "--attention-override", forced]
    done = seqattn(*words, "--attention", "w.npz")
    assert done.code == 0, done.err
    changed = [
        (ours["sequence"], number)
        for number, (ours, theirs) in enumerate(zip(rows(done.out), plain, strict=True))
        if ours != theirs
    ]
    assert changed == [("longer", 3)]
    weights = read_arrays(tmp_path / "w.npz")["weights"]
    np.testing.assert_array_equal(weights[1, 0, 0, 1, :length], row["weights"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"step": 3, "weights": [0, 1]}, "rows[0].step: is 3, but the forecast has 2 steps"),
        ({"step": 1, "weights": [0, 1, 0]}, "rows[0].weights: has 3 numbers, but the source of"),
        ({"step": 1, "layer": 1, "weights": [0, 1]}, "rows[0].layer: is 1, but the model has 1 layer"),
        ({"step": 1, "head": 1, "weights": [0, 1]}, "rows[0].head: is 1, but the model has 1 head"),
        ({"step": 1, "weights": [0, float("nan")]}, "rows[0].weights[1]: is NaN"),
    ],
)  # fmt: skip
def test_refused_files(
    row: dict[str, Any], message: str, seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    done = seqattn("predict", attention_run, "--attention-override", write_rows(tmp_path, row))
    assert done.code == 2
    assert f"forced.json: {message}" in done.err
    assert done.out == ""
