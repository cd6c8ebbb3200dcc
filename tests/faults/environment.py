"""Surroundings: no HOME, no place for temporary files, any locale, closed pipes and terminals."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.faults import Tally
from tests.faults.disk import PAGE, mounted
from tests.faults.nursery import Nursery
from tests.faults.processes import CONFIG, DOOR, TRAIN, nurtured

COMMAND = [*DOOR, *TRAIN]


def environments(every: int = 1) -> Tally:
    """A whole training, pictures too, in an environment that lacks something."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "c.yaml").write_text(CONFIG)
        (home / "nothing").mkdir(mode=0o555)
        cases: dict[str, dict[str, str | None]] = {
            "HOME unset": {"HOME": None},
            "HOME that is none": {"HOME": "/nowhere"},
            "HOME read-only": {"HOME": str(home / "nothing")},
            "TMPDIR that is none": {"TMPDIR": "/nowhere"},
            "TMPDIR read-only": {"TMPDIR": str(home / "nothing")},
            "TMPDIR full": {"TMPDIR": str(home / "full")},
            "HOME and TMPDIR gone": {"HOME": None, "TMPDIR": "/nowhere"},
            "locale C": {"LC_ALL": "C", "LANG": "C"},
            "locale POSIX, no UTF-8 mode": {"LC_ALL": "POSIX", "PYTHONUTF8": "0",
                                            "PYTHONCOERCECLOCALE": "0"},
            "locale that is none": {"LC_ALL": "xx_YY.nothing"},
            "output in ASCII": {"PYTHONIOENCODING": "ascii"},
            "a comma for decimals": {"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"},
            "NO_COLOR": {"NO_COLOR": "1"}, "TERM dumb": {"TERM": "dumb"}, "TERM unset": {"TERM": None},
            "COLUMNS 10": {"COLUMNS": "10"}, "no PATH": {"PATH": None},
            "a proxy": {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        }  # fmt: skip
        for k, (what, changes) in enumerate([*cases.items()][::every]):
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            if what == "TMPDIR full" and not _full(home / "full"):
                tally.skip("mounting needs root")
                continue
            for key, value in changes.items():
                if value is None:
                    environment.pop(key, None)
                else:
                    environment[key] = value
            with tally.case(what):
                done = subprocess.run(
                    [*COMMAND, "--output-dir", f"o{k}"], cwd=home, env=environment,
                    capture_output=True, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                err = done.stderr.decode(errors="replace")
                assert done.returncode == 0, f"exit code {done.returncode}: {err[-400:]}"
                assert b"\x1b" not in done.stdout + done.stderr, "escape codes without a terminal"
                assert b"\r" not in done.stdout + done.stderr, (
                    "overwritten lines without a terminal"
                )
                assert (home / f"o{k}" / "run" / "attention.png").exists()
            if (home / "full").is_mount():
                subprocess.run(["umount", str(home / "full")], check=True)
    return tally


def _full(place: Path) -> bool:
    """A file system without a byte left, as root too sees it; False where none can be made."""
    place.mkdir()
    if not mounted(place, PAGE):
        return False
    with contextlib.suppress(OSError):
        (place / "all").write_bytes(bytes(2 * PAGE))
    return True


def closed(every: int = 1) -> Tally:
    """Standard streams that are closed, full, or whose reader has left; a terminal that is gone."""
    tally = Tally()
    with nurtured() as (nursery, home):
        (home / "c.yaml").write_text(CONFIG.replace("epochs: 6", "epochs: 20"))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        cases = {
            "stdin closed": "<&-", "stdout closed": ">&-", "stderr closed": "2>&-",
            "all closed": "<&- >&- 2>&-", "stdout full": ">/dev/full", "stderr full": "2>/dev/full",
            "stdout's reader gone": "| true", "stderr's reader gone": "2>&1 >/dev/null | true",
        }  # fmt: skip
        with tally.case("the terminal is gone"):
            _without_its_terminal(nursery, home)
        for k, (what, how) in enumerate([*cases.items()][::every]):
            with tally.case(what):
                command = " ".join([*COMMAND, "--output-dir", f"o{k}"])
                done = subprocess.run(
                    ["bash", "-c", f"{command} {how}; true"], cwd=home, env=environment,
                    capture_output=True, text=True,
                )  # fmt: skip
                assert (home / f"o{k}" / "run" / "summary.json").exists(), done.stderr[-400:]
                assert (home / f"o{k}" / "run" / "attention.png").exists(), done.stderr[-400:]
                assert "Traceback" not in done.stderr, done.stderr[-600:]
    return tally


def _without_its_terminal(nursery: Nursery, home: Path) -> None:
    """A training in a terminal that is closed while it runs: a hang-up, and writes that fail."""
    terminal, inside = pty.openpty()
    plan = {"terminal": os.ttyname(inside)}
    child = nursery.start([*TRAIN, "--output-dir", "terminal"], home, plan)
    folder = home / "terminal" / "run"
    ends = time.monotonic() + 60
    while not (folder / "metrics.csv").exists() and time.monotonic() < ends:
        time.sleep(0.01)
    assert (folder / "metrics.csv").exists(), "the training did not begin"
    os.close(inside)
    os.close(terminal)
    os.kill(child, signal.SIGHUP)
    code = nursery.wait(child).code
    assert (folder / "summary.json").exists(), f"it ended with {code} before its end"
    assert (folder / "attention.png").exists()


def terminals() -> Tally:
    """In a terminal, with NO_COLOR and without: colours only where they are wanted."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "c.yaml").write_text(CONFIG)
        for what, changes in (("plain", {}), ("NO_COLOR", {"NO_COLOR": "1"})):
            with tally.case(what):
                screen = _in_a_terminal(
                    home, what, {**os.environ, "PYTHONPATH": str(ROOT), **changes}
                )
                coloured = b"\x1b[3" in screen or b"\x1b[9" in screen
                assert not (coloured and what == "NO_COLOR"), "colours in spite of NO_COLOR"
                assert b"this model" in screen
    return tally


def _in_a_terminal(home: Path, name: str, environment: dict[str, Any]) -> bytes:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        os.execve(sys.executable, [*COMMAND, "--output-dir", name], environment)
    output = b""
    while True:
        try:
            more = os.read(terminal, 65_536)
        except OSError:
            break
        if not more:
            break
        output += more
    os.waitpid(child, 0)
    return output
