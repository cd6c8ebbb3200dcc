"""`seqattn verify-resume`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.training import RunProgress
from tests.cli.small import SETS, small_config
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


def test_verify_resume_names_the_first_tensor_that_differs(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["verify-resume", small_config(tmp_path), *SETS, "--stops", "3"]
    done = seqattn(*words)
    assert done.code == 0, done.err
    assert re.search(
        r"Stopped after steps \d+, \d+, \d+ of 9 and resumed, the training ends bit", done.out
    )
    assert "Stopped after step" in done.err
    begin = RunProgress.__post_init__

    def forgets(run: RunProgress) -> None:
        if run.state is not None:
            run.state.loss_sum += 1
        begin(run)

    monkeypatch.setattr(RunProgress, "__post_init__", forgets)
    done = seqattn(*words, "-q")
    assert done.code == 4
    assert "the uninterrupted one: history differs by up to" in done.err
    assert tree(tmp_path).keys() == {"my.yaml"}


def test_one_step_cannot_be_stopped_in_between(seqattn: Command, tmp_path: Path) -> None:
    words = ["verify-resume", small_config(tmp_path), *SETS, "--set", "training.epochs=1"]
    done = seqattn(*words, "--set", "training.batch_size=48")
    assert done.code == 2
    assert "The training has only one step" in done.err
    assert "Stopped after" not in done.out
