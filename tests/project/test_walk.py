"""The way of `seqattn train` to its first step: the walk of CONTRIBUTING.md, and how long it is."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]

SMALL = ["--set", "data.n_train=8", "--set", "data.n_validation=4", "--set", "data.n_test=4",
         "--set", "training.epochs=1"]  # fmt: skip
STEP = re.compile(r"^\d+\. `(seqattn/[^`]+)`: `([^`]+)`", re.MULTILINE)


def test_the_walk_of_a_step_is_true(seqattn: Command, tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("## One training step", 1)[1].split("\n## ", 1)[0]
    walk = STEP.findall(section)
    assert len(section.split("\n1. ")[1].splitlines()) <= 12
    config = tmp_path / "mine.yaml"
    config.write_text("name: mine\n")
    calls, stack = _followed(lambda: seqattn("train", config, *SMALL, "-q"))
    left = iter(calls)
    for step in walk:
        assert step in left, f"{step} is not called after the step before it"

    assert len(walk) >= 8
    files = [file for file, _ in itertools.groupby(file for file, _ in stack)]
    assert len(files) - 1 <= 8, f"{len(files) - 1} hops between files: {files}"
    assert len(set(files)) == len(files), f"a file calls back into its caller: {files}"
    comprehensions = ("<listcomp>", "<genexpr>")
    assert not [
        name for _, name in stack if "<locals>" in name and not name.endswith(comprehensions)
    ]


def _followed(work: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The functions of the package that a training calls, in their order, and those that are on the
    stack at its first step, from `train_command` on."""
    calls, stack = list[tuple[str, str]](), list[tuple[str, str]]()

    def place(frame: FrameType) -> tuple[str, str] | None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(ROOT / "seqattn"):
            return None
        return str(path.relative_to(ROOT)), frame.f_code.co_qualname

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (here := place(frame)) is None:
            return
        calls.append(here)
        if here[1].endswith("commit_losses"):
            sys.setprofile(None)
        if here[1] == "train_step" and not stack:
            at: FrameType | None = frame
            while at is not None:
                if (there := place(at)) is not None:
                    stack.insert(0, there)
                at = at.f_back
            while stack[0][1] != "train_command":
                del stack[0]

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls, stack


# Functions with a name and the files that they are in, from the start of Python to the first step.
# The aim is 320 functions in 80 files and 300 in 60; a bound may only become smaller.
LIMITS = {"own_data": (565, 94), "squares": (404, 72)}
COUNT = """
import sys

seen = set()

def called(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and "/seqattn/" in code.co_filename:
        seen.add((code.co_filename, code.co_qualname))  # bodies of classes and files have no flag 1

class FirstStep(Exception):
    pass

def stop(*_, **__):
    raise FirstStep

sys.setprofile(called)
from seqattn.cli import main
import seqattn.training.loop as loop
loop.train_step = stop
try:
    main()
except FirstStep:
    sys.setprofile(None)
    import json
    print(json.dumps(sorted(seen)))
"""


@pytest.mark.parametrize("config", LIMITS)
def test_few_functions_lie_before_the_first_step(config: str, tmp_path: Path) -> None:
    command = ["train", str(ROOT / f"configs/{config}.yaml"), "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-c", COUNT, *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "SEQATTN_CACHE": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    package = ROOT / "seqattn"
    places = [
        (Path(file).relative_to(package), name)
        for file, name in json.loads(ended.stdout)
        if not name.endswith(">")  # neither a lambda nor a comprehension
    ]
    files = {file for file, _ in places}
    of_room = Counter(file.parts[0] for file, _ in places)
    files_of_room = Counter(file.parts[0] for file in files)
    rooms = [f"{room}: {n} in {files_of_room[room]}" for room, n in of_room.most_common()]
    functions_at_most, files_at_most = LIMITS[config]
    counts = f"{len(places)} functions in {len(files)} files. " + ", ".join(rooms)
    assert len(places) <= functions_at_most, counts
    assert len(files) <= files_at_most, counts
    assert len(places) > 200, counts
