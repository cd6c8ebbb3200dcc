"""Names from files, through every command that prints them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.cli.output import escape_controls
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")

Command = Callable[..., Ended]
NAMES = ["[bold]", "flow [/s]", "[link=http://x]y[/link]", "\x1b[31mred", "100%", "{}", ":smile: 🙂", "ש‮rtl"]  # fmt: skip
SHOWN = [escape_controls(name) for name in NAMES]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a file whose features and ids are hostile, in a folder that is."""
    from seqattn import experiments
    from seqattn.config import resolve

    home = tmp_path_factory.mktemp("names") / "[bold]%{}"
    home.mkdir()
    rows = np.random.default_rng(1).normal(size=(24, 4, 8))
    file = home / "[red]own.csv"
    head = ["sequence", "step", *NAMES]
    lines = [f"{NAMES[k % 8]}{k},{t},{','.join(f'{x:.4f}' for x in row)}"
             for k, steps in enumerate(rows) for t, row in enumerate(steps)]  # fmt: skip
    file.write_text("\n".join([",".join(head), *lines, ""]))
    sets = [f"data={{kind: file, path: {json.dumps(str(file))}, source_length: 2, scaling: standard}}",
            "model.hidden_dim=3", "training.epochs=1", "name=odd"]  # fmt: skip
    config = resolve(None, sets).config
    experiments.train_many([(config, experiments.job.RunFolder(home / "odd"))], threads=1)
    return home


@pytest.fixture
def home(named: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(named, tmp_path / "copy"))


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "RUN"),
        ("predict", "RUN", "--example", "0"),
        ("predict", "RUN", "--example", "0", "--format", "tsv"),
        ("predict", "RUN", "--example", "0", "--format", "jsonl"),
        ("plot-attention", "RUN", "--terminal"),
        ("explain", "RUN"),
        ("explain", "RUN", "--format", "markdown"),
        ("explain", "RUN", "--format", "json"),
        ("inspect", "RUN"),
        ("doctor", "RUN"),
        ("data", "check", "FILE"),
        ("config", "show", "RUN/config.yaml"),
        ("config", "check", "RUN/config.yaml"),
        ("export", "RUN", "--output", "[bold]out", "--format", "safetensors"),
        ("train", "RUN/config.yaml", "--output-dir", "[/s]"),
        ("train", "RUN/config.yaml", "--output-dir", "[/s]", "--seeds", "2"),
        ("report", "RUN", "--output", "[/s].html"),
        ("evaluate", "[/s]missing[bold]"),
    ],
    ids=" ".join,
)
def test_every_command_prints_names_as_they_are(
    words: tuple[str, ...], terminal: bool, home: Path, seqattn: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr("seqattn.report.VENDORED", {})
    monkeypatch.setenv("NO_COLOR", "1")
    if terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    paths = {"RUN": str(home / "odd"), "FILE": str(home / "[red]own.csv")}
    done = seqattn(
        *(word.replace("RUN", paths["RUN"]).replace("FILE", paths["FILE"]) for word in words)
    )
    assert done.code == (4 if "missing" in words[1] else 0), done.err
    is_data = "markdown" in words or (words[0] == "predict" and "jsonl" not in words)
    if terminal or not is_data:
        assert "\x1b[31m" not in done.out + done.err
    else:
        assert "\x1b[31mred" in done.out
    if words[0] == "evaluate" and done.code == 0:
        assert "RMSE, [bold]" in done.out
        assert "flow [/s]" in done.out
    if words == ("explain", "RUN"):
        for name in SHOWN[:3]:
            assert name in done.out
    if words[0] == "data":
        for name in SHOWN:
            assert name in done.out
    if words[-1] == "[/s]missing[bold]":
        assert "[/s]missing[bold]" in done.err
