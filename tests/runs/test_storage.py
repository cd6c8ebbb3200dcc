"""Files that are replaced together, and arrays that are read in part."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.comparison import read_comparison
from seqattn.plots.comparison_pictures import median_attention
from seqattn.runs import RunFolder
from seqattn.runs.storage import arrays, atomic, atomic_write, read_arrays, write_transaction
from tests.comparisons import train_comparison, write_divergence
from tests.conftest import ROOT, SMALL, Ended, train_small


def prepared(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{k}" / "file" for k in range(count)]
    for path in paths:
        atomic_write(path, b"old")
    return paths


def write_all(paths: list[Path]) -> None:
    with write_transaction():
        for path in paths:
            atomic_write(path, b"new", backup_path=path.with_name("previous"), verify=True)


def contents(paths: list[Path]) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def check_nothing_is_left(folder: Path) -> None:
    assert [*folder.rglob(f".*{atomic.TMP_SUFFIX}")] == []
    assert atomic._unfinished == set()


def failing_after(times: int, real: Any) -> Any:
    """A function of the system that works some times, and then says that the disk is full."""
    calls = iter(range(times))

    def call(*arguments: Any) -> Any:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    return call


@pytest.mark.parametrize("count", [3, atomic.MAX_FSYNCS + 3])
@pytest.mark.parametrize("how", ["flush", "read back"])
def test_a_failure_between_two_files_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, how: str
) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)  # of all disks of the machine
    for good in (0, 1, count - 1):
        paths = prepared(tmp_path / str(good), count)
        with monkeypatch.context() as patch:
            if how == "flush":
                patch.setattr(os, "fsync", failing_after(good, os.fsync))
            else:
                answers = iter([True] * good + [False] * count)
                patch.setattr(atomic, "_content_equals", lambda *_, answers=answers: next(answers))
            with pytest.raises(OSError) as caught:  # noqa: PT011
                write_all(paths)
        assert caught.value.filename == str(paths[good])
        assert contents(paths) == [b"old"] * count
        assert not any(path.with_name("previous").exists() for path in paths)
        check_nothing_is_left(tmp_path)


def test_a_rename_that_fails_leaves_every_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = prepared(tmp_path, 3)
    real = Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing_after(3, real))  # of two files: previous and itself
        with pytest.raises(OSError, match="No space left"):
            write_all(paths)
    assert contents(paths) == [b"new", b"old", b"old"]
    check_nothing_is_left(tmp_path)


def test_all_show_at_the_end(tmp_path: Path) -> None:
    paths = prepared(tmp_path, 3)
    with write_transaction():
        for path in paths:
            atomic_write(path, b"new")
        assert contents(paths) == [b"old"] * 3
    assert contents(paths) == [b"new"] * 3
    check_nothing_is_left(tmp_path)


TEXT = """
name: mine
data: {n_train: 12, n_validation: 8, n_test: 9, variable_length: true}
model: {hidden_dim: 2}
training: {epochs: 2, batch_size: 6}
compare: {seeds: 2, variants: {plain: {model.attention: null}, dot: {model.attention: {score: dot}}}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_comparison(tmp_path_factory.mktemp("finished"), TEXT)


def test_the_commonest_lengths_of_a_file_that_is_read_in_part(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = read_comparison(finished).variants[1]
    whole = median_attention(variant)
    monkeypatch.setattr(arrays, "MAX_VERIFIED_BYTES", 100)
    monkeypatch.setattr(arrays, "MAX_WHOLE_BYTES", 100)
    in_part = median_attention(variant)
    assert whole is not None
    assert in_part is not None
    assert in_part.caption == whole.caption
    np.testing.assert_array_equal(in_part.weights, whole.weights)


def test_seeds_that_differ_in_what_changes_nothing_learned_are_of_one_config(
    seqattn: Callable[..., Ended],
) -> None:
    sets = [word for text in SMALL for word in ("--set", text)]
    words = ["train", ROOT / "configs/squares.yaml", "--name", "many", *sets, "-q"]
    assert seqattn(*words, "--seeds", "2").code == 0
    later = ["--seeds", "3", "--resume", "--set", "training.checkpoint_seconds=7"]
    assert seqattn(*words, *later).code == 0
    done = seqattn("doctor", "outputs/many")
    assert done.code == 0, done.err
    assert "3 of 3 seeds are finished" in done.out


def test_a_run_whose_test_loss_was_not_finite_may_have_more_epochs(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    run = train_small(tmp_path / "outputs", "one")
    write_divergence(RunFolder(run), 3, "The test loss is nan", diverged_at=None)
    config = run / "config.yaml"
    shutil.copyfile(config, tmp_path / "one.yaml")
    words = ["train", "one.yaml", "--resume", "-q", "--plots", "none"]
    assert seqattn(*words).code == 7
    assert seqattn(*words, "--set", "training.epochs=4").code == 0
    assert json.loads((run / "summary.json").read_text())["epochs"] == 4
    assert "weights" in read_arrays(run / "attention.npz")
