"""The walk of one training step in CONTRIBUTING.md, held against a training."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

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
