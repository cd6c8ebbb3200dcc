"""Processes that run the command line at once: a warm one that forks.

Starting Python and torch takes two seconds, so three hundred kills would take most of half an hour.
The nursery imports everything once and forks a child for each command; what the child does and how
it ends is what a process of its own would do from there. Kills during the import use real
processes.

A command may carry a plan, which the child sets up before it runs:

    {"signal": 15, "in": "save", "call": 3, "after": 0.002}   a signal to itself, that long after
                                                              the third save begins
    {"fail": "fsync", "call": 3, "errno": 28}                 the third fsync fails with ENOSPC
    {"kill": "rename", "call": 3}                             SIGKILL at the third rename; also
                                                              "write", "fsync", "mkdir", "open"
                                                              and "unlink"
    {"env": {"RANK": "1"}}                                    more of an environment
    {"no_capabilities": true}                                 root is bound by the modes of files
    {"terminal": "/dev/pts/3"}                                the child's own, with its input and output
    {"function": "module:name"}                               this runs, with the words, not the command
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes:
        code: its exit code, or minus the number of the signal that ended it.
        mib: the most memory it had taken.
        ended: when, by the clock.
        err: what it said.
    """

    code: int
    mib: float
    ended: float
    err: str


class Nursery:
    """Use as a context.

    Args:
        rooms: modules to import beside `EVERYTHING`.
    """

    def __init__(self, *rooms: str) -> None:
        self.rooms = rooms

    def __enter__(self) -> Nursery:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery", *self.rooms], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _ask(self, **words: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, words: list[str], cwd: Path, plan: dict[str, Any] | None = None) -> int:
        """Begin a command; returns the child's number."""
        found: int = self._ask(words=words, cwd=str(cwd), plan=plan or {})
        return found

    def wait(self, child: int) -> Ended:
        return Ended(**self._ask(wait=child))

    def run(self, words: list[str], cwd: Path, plan: dict[str, Any] | None = None) -> Ended:
        return self.wait(self.start(words, cwd, plan))


# --- inside --------------------------------------------------------------------------------------


EVERYTHING = (
    "cli", "cli.result_tables", "experiments.compare", "experiments", "plots.run_pictures", "experiments.verify_resume", "analysis.evaluation",
    "data.file_dataset", "config.comparing",
)  # fmt: skip


def serve() -> None:
    """Import everything, then fork a child for each command that comes."""
    import torch

    for room in (*EVERYTHING, *sys.argv[1:]):
        importlib.import_module(f"seqattn.{room}")
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # or every child's first collection copies all pages of the libraries
    outputs: dict[int, int] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            child = asked["wait"]
            _, status, usage = os.wait4(child, 0)
            at, file = time.time(), outputs.pop(child)
            os.lseek(file, 0, os.SEEK_SET)
            errors = os.read(file, 1 << 20).decode(errors="replace")
            os.close(file)
            code = os.waitstatus_to_exitcode(status)
            answer: Any = {"code": code, "mib": usage.ru_maxrss / 1024, "ended": at, "err": errors}
        else:
            file = os.memfd_create("said")
            child = os.fork()
            if child == 0:
                _become(asked, file)
            outputs[child] = file
            answer = child
        print(json.dumps(answer), flush=True)


def _become(asked: dict[str, Any], stderr_fd: int) -> None:
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(stderr_fd, 2)
        if "terminal" in asked["plan"]:
            _enter_terminal(asked["plan"]["terminal"])
        os.chdir(asked["cwd"])
        sys.argv = ["seqattn", *asked["words"]]
        os.environ.update(asked["plan"].get("env", {}))
        _plan(asked["plan"])
        module, _, name = asked["plan"].get("function", "seqattn.cli:main").partition(":")
        getattr(importlib.import_module(module), name)()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _plan(plan: dict[str, Any]) -> None:
    from seqattn.config import files
    from seqattn.plots import run_pictures
    from seqattn.runs import checksummed
    from seqattn.runs.storage import arrays, atomic
    from seqattn.training import loop

    if plan.get("no_capabilities"):
        _drop_capabilities()
    if "signal" in plan:
        places: dict[str, list[tuple[Any, str]]] = {
            "save": [(atomic, "atomic_write"), (checksummed, "atomic_write")],
            "validation": [(loop, "validate")],
            "plotting": [(run_pictures, "as_bytes")],
        }

        def struck() -> None:
            time.sleep(plan["after"])
            os.kill(os.getpid(), plan["signal"])

        before = _on_call(
            plan["call"], lambda: threading.Thread(target=struck, daemon=True).start()
        )
        for module, name in places[plan["in"]]:
            setattr(module, name, _with(before, getattr(module, name)))
    if "kill" in plan or "fail" in plan:
        number = plan.get("errno", 0)

        def refuse() -> None:
            if "kill" in plan:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(2, f"{FIRED}\n".encode())
            raise OSError(number, os.strerror(number))

        before = _on_call(plan["call"], refuse)
        match plan.get("kill") or plan["fail"]:
            case "fsync" | "mkdir" | "open" | "unlink" as name:
                setattr(os, name, _with(before, getattr(os, name)))
            case "rename":
                os.replace = _with(before, os.replace)
                os.rename = _with(before, os.rename)
            case "write":
                real = os.fdopen

                @contextmanager
                def opened(*args: Any, **options: Any) -> Iterator[Any]:
                    with real(*args, **options) as file:
                        yield _Writes(file, before)

                for module in (arrays, atomic, files):
                    module.os = _Os(opened)  # type: ignore[attr-defined]


def _enter_terminal(path: str) -> None:
    """Lead a session in a terminal, and read and write there, as `pty.fork` begins."""
    os.setsid()
    terminal = os.open(path, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _drop_capabilities() -> None:
    """Give up what lets root read and write files against their modes (capset(2), version 3)."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class _Os:
    """The module os with another way to open."""

    def __init__(self, opened: Any) -> None:
        self.fdopen = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _Writes:
    """A file before each of whose writes something happens."""

    def __init__(self, file: Any, before: Callable[[], None]) -> None:
        self.file, self.before = file, before

    def write(self, content: Any) -> Any:
        self.before()
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def _on_call(wanted: int, what: Callable[[], None]) -> Callable[[], None]:
    calls = 0

    def before() -> None:
        nonlocal calls
        calls += 1
        if calls == wanted:
            what()

    return before


def _with(before: Callable[[], None], real: Any) -> Any:
    def wrapped(*args: Any, **options: Any) -> Any:
        before()
        return real(*args, **options)

    return wrapped


FIRED = "(a fault was brought about)"
SIGNALS = (signal.SIGINT, signal.SIGTERM)

if __name__ == "__main__":
    serve()
