"""Every command with a reader that has left: files are whole, runs finished, exits as documented."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from seqattn.runs import RunFolder
from tests.conftest import SMALL

SETS = [word for each in SMALL for word in ("--set", each)]
VARY = ["--vary", "training.learning_rate=0.01,0.02", "--seeds", "2", "--name", "two"]
SEARCH = ["--search", "training.learning_rate=log(1e-3,1e-1)", "--trials", "1", "--name", "rates"]
PRINTING = [
    ("--version",),
    ("predict", "run"),
    ("predict", "run", "--input", "x.csv", "--format", "jsonl"),
    ("evaluate", "run"),
    ("evaluate", "run", "--json"),
    ("plot-attention", "run", "--terminal"),
    ("explain", "run"),
    ("explain", "run", "--figure", "step.png"),
    ("inspect", "run"),
    ("doctor", "run"),
    ("data", "check", "x.csv"),
    ("data", "check", "x.csv", "--picture", "x.png"),
    ("data", "formats"),
    ("config", "check", "a.yaml"),
    ("config", "show", "a.yaml"),
    ("config", "schema"),
]
"""Commands whose work is what they print."""
WORKING = [
    ("train", "a.yaml", *SETS),
    ("train", "a.yaml", *SETS, "--seeds", "2", "--name", "seeds"),
    ("compare", "a.yaml", *SETS, *VARY),
    ("tune", "a.yaml", *SETS, *SEARCH),
    ("verify-resume", "a.yaml", *SETS),
    ("export", "run", "--output", "exported", "--format", "safetensors"),
    ("report", "run"),
    ("plot-attention", "run", "--output", "where.png"),
    ("data", "sample", "a.yaml", "--output", "sampled.csv"),
    ("predict", "run", "--output", "next.csv"),
    ("predict", "run", "--attention", "where.npz"),
    ("predict", "run", "--input", "x.csv", "--attention", "where.npz"),
    ("config", "schema", "--output", "schema.json"),
]
"""Commands that leave files."""


def ended_with(words: tuple[str, ...], *, both: bool) -> tuple[int, str]:
    """Exit status and stderr of a command whose standard output, or both, nobody reads.

    A copy of this process runs it: all libraries are imported already.
    """
    reading, closed = os.pipe()
    os.close(reading)
    errors = Path("stderr.txt").absolute()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python begins
            os.dup2(closed, 1)
            os.dup2(closed if both else os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
            sys.argv = ["seqattn", *words]
            from seqattn.cli import main

            status = 0
            try:
                main()
            except SystemExit as left:
                status = int(left.code or 0)
            sys.stdout.flush()
            os._exit(status)
        except BaseException as error:  # what an interpreter would show
            os.write(2, f"Traceback {error!r}".encode())
            os._exit(99)
    os.close(closed)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), errors.read_text() if errors.exists() else ""


@pytest.fixture
def home(attention_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(attention_run, "run")
    Path("a.yaml").write_text("data: {kind: squares}\n")
    Path("x.csv").write_text("sequence,step,x,y\na,1,0.5,1\na,2,1,1\nb,1,0.5,1\nb,2,1,1\n")
    return tmp_path


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_filter_ends_with_its_reader(words: tuple[str, ...], home: Path) -> None:
    status, errors = ended_with(words, both=False)
    # The status is 0 if the output is too short to fill a buffer: it is lost at the exit.
    assert status in (128 + signal.SIGPIPE, 0), errors
    assert "Traceback" not in errors
    for option in ("--figure", "--picture"):
        if option in words:
            assert Path(words[words.index(option) + 1]).stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "both"),
    [*((words, False) for words in WORKING), (WORKING[0], True), (WORKING[-1], True)],
)
def test_work_that_is_done_is_no_failure(words: tuple[str, ...], both: bool, home: Path) -> None:
    status, errors = ended_with(words, both=both)
    assert status == 0, errors
    assert "Traceback" not in errors
    for name in ("--output", "--attention"):
        if name in words:
            assert Path(words[words.index(name) + 1]).exists()
    runs = [RunFolder(file.parent) for file in home.rglob("outputs/**/config.yaml")]
    for run in runs:
        assert run.read_summary()["epochs"] == 3
    assert len(runs) == {"train": 2 if "--seeds" in words else 1, "compare": 4, "tune": 1}.get(
        words[0], 0
    )
    if words[0] == "compare":
        assert json.loads((home / "outputs/two/comparison.json").read_text())
        assert (home / "outputs/two/comparison.md").exists()
