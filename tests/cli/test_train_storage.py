"""`seqattn train`: checkpoints, locks and full disks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn.runs import RunFolder
from seqattn.runs.storage import exclusive_lock
from tests.cli.small import SETS, small_config
from tests.conftest import Ended, tree

Command = Callable[..., Ended]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without locks, which hold the number of the last process."""
    return {name: raw for name, raw in tree(folder).items() if not name.endswith(".lock")}


def test_a_broken_last_checkpoint_is_not_resumed(
    seqattn: Command, copied: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "outputs").mkdir()
    shutil.move(copied.path, tmp_path / "outputs" / "run")
    folder = RunFolder(tmp_path / "outputs" / "run")
    folder.last.write_bytes(folder.last.read_bytes()[:-1])
    folder.previous.unlink(missing_ok=True)
    before = contents(tmp_path)
    done = seqattn("train", folder.config, "--name", "run", "--resume")
    assert done.code == 4
    assert "last.safetensors: is a truncated or corrupt checkpoint" in done.err
    assert "No usable checkpoint is left" in done.err
    assert contents(tmp_path) == before


def test_the_last_but_one_is_gone_on_from(seqattn: Command, tmp_path: Path) -> None:
    """With the reason, and to the same result."""
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none",
             "--set", "training.checkpoint_seconds=0"]  # fmt: skip
    assert seqattn(*words).code == 0
    folder = RunFolder(tmp_path / "outputs" / "mine")
    whole, best = folder.last.read_bytes(), folder.best.read_bytes()
    assert folder.previous.read_bytes() != whole
    for damage in ("cut", "gone"):
        if damage == "cut":
            folder.last.write_bytes(whole[:-1])
        else:
            folder.last.unlink()
        folder.best.unlink()
        done = seqattn(*words, "--resume")
        assert done.code == 0, done.err
        message = (
            "is a truncated or corrupt checkpoint"
            if damage == "cut"
            else "last.safetensors: is missing"
        )
        assert "Skipped checkpoint: " in done.err
        assert message in done.err
        assert message in folder.log.read_text()
        assert folder.best.read_bytes() == best
    for file in (folder.last, folder.previous):
        file.unlink()
    done = seqattn(*words, "--resume")
    assert done.code == 4
    assert "metrics.csv lists epochs, but their checkpoints are missing" in done.err


def test_one_writer_a_folder(seqattn: Command, tmp_path: Path) -> None:
    """Refused with who holds it; a reader is not."""
    words = ["train", small_config(tmp_path), *SETS, "-q", "--plots", "none"]
    assert seqattn(*words).code == 0
    before = tree(tmp_path / "outputs")
    with exclusive_lock(tmp_path / "outputs" / "mine"):
        for flag in ("--resume", "--overwrite"):
            done = seqattn(*words, flag)
            assert done.code == 6
            assert f"outputs/mine: process {os.getpid()} on " in done.err
        assert seqattn("predict", "outputs/mine", "--example", "0").code == 0
    after = tree(tmp_path / "outputs")
    assert {k: v for k, v in after.items() if k != "mine/.lock"} == {
        k: v for k, v in before.items() if k != "mine/.lock"
    }
    assert seqattn(*words, "--overwrite").code == 0


def test_what_a_killed_start_leaves_is_no_hindrance(seqattn: Command, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "mine"
    folder.mkdir(parents=True)
    for name in (".lock", ".config.yaml.99999999.part", "config.yaml"):
        (folder / name).write_text("")
    assert seqattn("train", small_config(tmp_path), *SETS, "-q", "--plots", "none").code == 0
    assert not list(folder.glob(".*.part"))
    (folder / ".lock").unlink()
    (folder / "environment.json").unlink()  # without a lock the files are somebody's
    done = seqattn("train", small_config(tmp_path), *SETS, "-q", "--plots", "none")
    assert done.code == 2
    assert "is not a run folder" in done.err


def test_what_would_not_fit_is_refused_beforehand(seqattn: Command, tmp_path: Path) -> None:
    config = small_config(tmp_path, "data: {kind: copy, length: 9999, n_train: 1000000}\n")
    done = seqattn("train", config)
    assert done.code == 2
    assert re.search(r"would need about [\d.]+ GiB \([\d.]+ GiB for the sequences", done.err)
    assert not (tmp_path / "outputs").exists()


def test_a_save_that_fails_is_loud(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the training goes on beside it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqattn.experiments.run_folders.save_state", refuse)
    done = seqattn("train", small_config(tmp_path), *SETS, "-q")
    assert done.code == 5
    assert "No space left on device" in done.err
    assert "continue with train --resume" in done.err
