"""Files that are written together: none shows before all are safe on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from seqattn.runs.storage import atomic, atomic_write, write_transaction


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
