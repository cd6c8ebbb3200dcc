"""The pictures of a run, which processes of their own draw."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from seqattn.analysis.comparison.reading import read_comparison
from seqattn.cli import picture_processes
from seqattn.plots import run_pictures
from seqattn.plots.comparison_pictures import draw_comparison
from seqattn.runs import RunFolder
from seqattn.runs.fork_server import TRAINING_MODULES
from seqattn.runs.storage import core_count
from tests.conftest import SMALL
from tests.experiments.worker_runs import is_alive, wait_until

pytestmark = pytest.mark.skipif(
    core_count() == 1 or not Path("/proc").exists(), reason="one core draws in one process"
)

# The fork server also imports `drawing`, which does something before it draws a picture.
COMMAND = """
import sys
from seqattn.cli import picture_processes
from seqattn.__main__ import main
for name in ("DRAWING_MODULES", "COMPARISON_MODULES"):
    setattr(picture_processes, name, (*getattr(picture_processes, name), "drawing"))
try:
    main()
finally:
    print(*(name for name in ("matplotlib", "torch") if name in sys.modules))
"""
DRAWING = """
import os, time
from pathlib import Path
from seqattn.plots import comparison_pictures, run_pictures
def logged(real):
    def draw_picture(source, path):
        with Path("drawing.log").open("a") as log:
            print(path.name, os.getpid(), file=log)
        {action}
        real(source, path)
    return draw_picture
run_pictures.draw_picture = logged(run_pictures.draw_picture)
comparison_pictures.draw_comparison_picture = logged(comparison_pictures.draw_comparison_picture)
"""


SETS = [word for key in SMALL for word in ("--set", key)]
SCRIPT = f"""
import os, sys
from seqattn.__main__ import main
sys.argv = ["seqattn", "train", "squares", *{SETS}, "--name", f"run-{{os.getpid()}}"]
main()
"""


def start(
    folder: Path, *words: str, action: str = "pass", command: str = "train"
) -> subprocess.Popen[str]:
    """Start a short training in `folder`, whose processes draw with `action`."""
    (folder / "drawing.py").write_text(DRAWING.format(action=action))
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, command, "squares", *SETS, *words],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)},
    )  # fmt: skip


def finish(
    folder: Path, *words: str, action: str = "pass", command: str = "train"
) -> tuple[str, str]:
    """The outputs of a training that succeeds."""
    process = start(folder, *words, action=action, command=command)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out, err


def drawers(folder: Path) -> dict[str, int]:
    """The process of each picture."""
    log = folder / "drawing.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return {name: int(pid) for name, pid in map(str.split, lines)}


def drawn_here(folder: Path) -> dict[str, bytes]:
    """Pictures that this process draws again."""
    run = RunFolder(folder / "outputs/squares")
    for path in run.pictures:
        path.unlink()
    return {path.name: path.read_bytes() for path in run_pictures.draw_run(run)}


def test_each_picture_has_a_process_and_the_same_bytes(tmp_path: Path) -> None:
    out, _ = finish(tmp_path)
    run = RunFolder(tmp_path / "outputs/squares")
    found = {path.name: path.read_bytes() for path in run.pictures}
    assert drawers(tmp_path).keys() == found.keys()
    assert len({*drawers(tmp_path).values()}) == len(found) == 3
    assert out.splitlines()[-1] == "torch"  # and not matplotlib
    assert found == drawn_here(tmp_path)
    run.attention_picture.unlink()
    finish(tmp_path, "--resume")
    assert found == {path.name: path.read_bytes() for path in run.pictures}


@pytest.mark.parametrize("action", ["os.kill(os.getpid(), 9)", "raise OSError"])
def test_a_picture_that_a_process_does_not_draw_is_drawn(action: str, tmp_path: Path) -> None:
    finish(tmp_path, action=action)
    run = RunFolder(tmp_path / "outputs/squares")
    found = {path.name: path.read_bytes() for path in run.pictures}
    assert len(found) == 3
    assert found == drawn_here(tmp_path)


def test_the_pictures_of_a_comparison_are_drawn_in_processes(tmp_path: Path) -> None:
    words = ["--vary", "model.cell=gru,rnn", "--seeds", "2", "--jobs", "2", "--name", "cells"]
    out, _ = finish(tmp_path, *words, command="compare")
    assert drawers(tmp_path).keys() == {
        "comparison.png", "curves.png", "attention.png", "along.png"
    }  # fmt: skip
    assert len({*drawers(tmp_path).values()}) == 4
    assert out.splitlines()[-1] == "torch"  # and not matplotlib
    result = read_comparison(tmp_path / "outputs/cells")
    found = {path.name: path.read_bytes() for path in result.pictures if path.exists()}
    assert len(found) == 3
    for path in result.pictures:
        path.unlink(missing_ok=True)
    draw_comparison(result)
    assert found == {path.name: path.read_bytes() for path in result.pictures if path.exists()}


def test_an_error_is_reported_once_and_ends_the_other_processes(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "outputs/squares")
    finish(tmp_path, "--plots", "none")
    run.predictions_picture.mkdir()
    sleep = 'time.sleep(60 if path.name == "attention.png" else 0)'
    process = start(tmp_path, "--resume", action=sleep)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 5
    assert err.count("predictions.png") == 1
    assert "Traceback" not in err
    assert len(drawers(tmp_path)) == 3
    assert not any(map(is_alive, drawers(tmp_path).values()))
    assert not run.attention_picture.exists()


def test_a_stop_signal_while_pictures_are_drawn(tmp_path: Path) -> None:
    """The whole process group receives the signal, as from a terminal."""
    process = start(tmp_path, action="time.sleep(1.5)")
    wait_until(lambda: len(drawers(tmp_path)) == 3)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert "--resume draws the missing pictures" in err
    assert "Traceback" not in err
    assert not any(map(is_alive, drawers(tmp_path).values()))
    finish(tmp_path, "--resume")
    assert all(path.exists() for path in RunFolder(tmp_path / "outputs/squares").pictures)


@pytest.mark.parametrize(
    "reason", ["one core", "no fork server", "matplotlib is imported", "another main module"]
)
def test_without_need_no_process_draws(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Context:
        @staticmethod
        def get_start_method() -> str:
            return "spawn" if reason == "no fork server" else "forkserver"

    def start_fork_server(modules: tuple[str, ...]) -> Context:
        started.append(modules)
        return Context()

    monkeypatch.setattr(picture_processes, "start_fork_server", start_fork_server)
    monkeypatch.setattr(picture_processes, "core_count", lambda: 1 if reason == "one core" else 2)
    main = types.ModuleType("__main__")
    if reason == "another main module":
        main.__file__ = "script.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    if reason != "matplotlib is imported":
        monkeypatch.delitem(sys.modules, "matplotlib")
    assert picture_processes.start_drawing_server() is None
    assert len(started) == (reason == "no fork server")
    # Worker processes need the server even if this process draws.
    assert picture_processes.start_comparison_server() is None
    expected = (
        picture_processes.COMPARISON_MODULES if reason == "no fork server" else TRAINING_MODULES
    )
    assert started[-1] == expected
