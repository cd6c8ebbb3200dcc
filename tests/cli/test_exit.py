"""The end of the process prints nothing beyond the message of the command."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.cli import stop_signals
from tests.conftest import Ended


def test_too_few_open_files_are_refused_before_anything_is_done(
    seqattn: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    done = seqattn("train", "squares")
    assert (done.code, done.out) == (5, "")
    assert "needs 49 open files, but this process may have at most 8. Raise the limit" in done.err
    assert not [*Path().iterdir()]


@pytest.mark.parametrize(
    "words",
    ["evaluate RUN",  "predict RUN --attention a.npz",  "doctor RUN",
     "inspect RUN",   "data formats",
       "--version"],
)  # fmt: skip
def test_a_result_on_a_closed_standard_output_is_an_error(
    words: str, attention_run: Path, tmp_path: Path
) -> None:
    command = f"{sys.executable} -m seqattn {words.replace('RUN', str(attention_run))} >&-"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 5
    assert done.stderr.startswith("seqattn: standard output: is closed")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_leaves_no_temporary_folder(unbuffered: str, tmp_path: Path) -> None:
    rows = "".join(f"{t},{2 * t}\n" for t in range(100))
    (tmp_path / "a.csv").write_text(f"t,x\n{rows}")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "seqattn", "data", "check", "a.csv"],
        stdout=writer, stderr=subprocess.PIPE, check=False, cwd=tmp_path, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "TMPDIR": str(temporary)},
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
    assert list(temporary.iterdir()) == []


def test_a_signal_while_a_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, _ in stop_signals.CLEANUPS:
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    stop_signals._remove_temporary_files()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["data", "formats"],
    ],
)
def test_a_full_standard_output_is_named(words: list[str], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "seqattn", *words],
            stdout=full, stderr=subprocess.PIPE, check=False, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.returncode == 5
    assert done.stderr == "seqattn: standard output: No space left on device.\n"
