"""The example in the help of `seqattn export` works."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import typer

from seqattn.cli import app
from tests.conftest import ROOT, Ended


def test_the_example_of_export(seqattn: Callable[..., Ended], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    done = seqattn("train", "configs/squares.yaml", "--set", "training.epochs=1", "-q")
    assert done.code == 0, done.err
    _, *words = shlex.split(typer.main.get_command(app).commands["export"].epilog)  # type: ignore[attr-defined]
    done = seqattn(*words)
    assert done.code == 0, done.err
    assert (tmp_path / "exported" / "free_running.onnx").is_file()
