"""`seqattn predict`: own sequences and test sequences."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.runs.storage import read_arrays
from tests.cli.small import MY_CSV, rows
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


def test_predict_continues_my_sequences(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    before = tree(attention_run)
    done = seqattn("predict", attention_run, "--input", "my.csv")
    assert done.code == 0, done.err
    found = rows(done.out)
    assert list(found[0]) == ["sequence", "step", "x", "y"]
    assert [(row["sequence"], row["step"]) for row in found] == [
        ("first", "3"), ("first", "4"), ("longer", "8"), ("longer", "9"), ("short", "1"),
        ("short", "2"),
    ]  # fmt: skip
    assert tree(attention_run) == before
    alone = "".join(line + "\n" for line in MY_CSV.splitlines()[:3])
    (tmp_path / "one.csv").write_text(alone)
    one = rows(seqattn("predict", attention_run, "--input", "one.csv").out)
    for ours, theirs in zip(one, found[:2], strict=True):  # batch mates change nothing
        assert float(ours["x"]) == pytest.approx(float(theirs["x"]), abs=1e-6)


def test_predict_reads_standard_input(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MY_CSV.encode())))
    done = seqattn("predict", attention_run, "--input", "-")
    assert done.code == 0, done.err
    assert len(rows(done.out)) == 6


def test_predict_in_every_format(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    shown = rows(seqattn("predict", attention_run, "--input", "my.csv").out)
    values = np.array([[float(row["x"]), float(row["y"])] for row in shown]).reshape(3, 2, 2)
    for words in (("--output", "a.csv"), ("--format", "csv", "--output", "a")):
        assert seqattn("predict", attention_run, "--input", "my.csv", *words).code == 0
        assert rows((tmp_path / words[-1]).read_text()) == shown
    done = seqattn("predict", attention_run, "--input", "my.csv", "--format", "jsonl")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["id"] for line in lines] == ["first", "longer", "short"]
    np.testing.assert_allclose([line["forecast"] for line in lines], values)
    done = seqattn("predict", attention_run, "--input", "my.csv", "--output", "a.npz",
                   "--attention", "w.npz", "--steps", "5")  # fmt: skip
    assert done.code == 0
    arrays, weights = read_arrays(tmp_path / "a.npz"), read_arrays(tmp_path / "w.npz")
    np.testing.assert_allclose(arrays["forecast"][:, :2], values, atol=1e-6)
    assert arrays["forecast"].shape == (3, 5, 2)
    assert weights["weights"].shape == (3, 1, 1, 5, 3)
    assert np.isnan(weights["weights"][0, ..., 2]).all()
    assert np.isfinite(weights["weights"][1]).all()
    assert weights["ids"].tolist() == ["first", "longer", "short"]


def test_predict_an_example_is_the_saved_forecast(seqattn: Command, ragged_run: Path) -> None:
    saved = read_arrays(ragged_run / "predictions.npz")
    found = rows(seqattn("predict", ragged_run, "--example", "3").out)
    real = np.isfinite(saved["forecast"][3]).all(-1)
    values = np.array([[float(row["x"]), float(row["y"])] for row in found])
    np.testing.assert_allclose(values[real], saved["forecast"][3][real], atol=1e-6)
    assert found[0]["step"] == str(saved["source_lengths"][3] + 1)
    everything = rows(seqattn("predict", ragged_run).out)
    assert len(everything) == 24


def test_the_last_checkpoint_can_be_named(seqattn: Command, attention_run: Path) -> None:
    last = attention_run / "checkpoints" / "last.safetensors"
    assert seqattn("predict", last, "--example", "0").code == 0
    assert seqattn("plot-attention", last, "--output", "last.svg").code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--input", "none.csv"], 3, "none.csv: no such file"),
        (["--input", "nan.csv"], 3, "nan.csv: line 2, column 'y' is empty"),
        (
            ["--input", "gap.csv"],
            3,
            "gap.csv: line 3: step 3 follows step 1, but steps are 1 apart",
        ),
        (["--input", "column.csv"], 3, "column.csv: no column 'y'; found sequence, step, x"),
        (["--example", "12"], 2, "--example 12: the run has test sequences 0 to 11"),
        (["--format", "npz"], 2, "is binary and needs --output FILE.npz"),
        (["--output", "a.xlsx"], 2, "its suffix is none of .csv, .tsv, .jsonl, .npz"),
        (["--output", "."], 5, "Is a directory"),
    ],
)
def test_what_cannot_be_predicted(
    seqattn: Command, attention_run: Path, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    head = "sequence,step,x,y\n"
    for name, text in {
        "my": MY_CSV, "empty": "", "nan": head + "a,1,1,nan\n", "gap": head + "a,1,1,1\na,3,1,1\n",
        "column": "sequence,step,x\na,1,1\n", "large": head + "a,1,1e39,1\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    before = tree(tmp_path)
    done = seqattn("predict", attention_run, *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert tree(tmp_path) == before


def test_notes_on_columns_go_to_stderr(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.csv").write_text("sequence,step,lon,lat\na,1,0,1\n")
    done = seqattn("predict", attention_run, "--input", "my.csv")
    assert done.out.startswith("sequence,step,lon,lat\n")
    assert "my.csv: lon, lat are read as x, y, in this order." in done.err


def test_a_reader_that_leaves_is_no_error(attention_run: Path, tmp_path: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m seqattn predict {attention_run} --steps 1000 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path,
                          check=False)  # fmt: skip
    assert done.stdout == "sequence,step,x,y\n"
    assert re.fullmatch(r"Longer than all training sequences: .*\n", done.stderr)
    assert done.returncode == 141  # by SIGPIPE, as any filter
