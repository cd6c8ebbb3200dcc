"""What macOS and Windows lack has a fallback: each test takes something away that Linux has."""

from __future__ import annotations

import importlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn import experiments
from seqattn.cli import stop_signals
from seqattn.config import resolve
from seqattn.data import json_lines as blocks
from seqattn.data import windows as row_ranges
from seqattn.data.tables import connection as temporary
from seqattn.errors import Interrupted
from seqattn.runs.storage import (
    allow_open_files,
    atomic_write,
    core_count,
    exclusive_lock,
    physical_memory,
    write_transaction,
)
from seqattn.runs.storage import atomic as atomic_module
from tests.conftest import ROOT, Ended

ONLY_UNIX = ("O_DIRECTORY", "O_NOFOLLOW", "sync", "sysconf", "pread",
             "sched_getaffinity")  # fmt: skip
"""Names of `os` that Windows lacks and that seqattn uses if they exist."""


@pytest.fixture
def no_unix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ONLY_UNIX:
        monkeypatch.delattr(os, name, raising=False)
    for name in ("SIGPIPE", "SIGHUP"):
        monkeypatch.delattr(signal, name, raising=False)
    for name in ("MADV_DONTNEED",):
        monkeypatch.delattr(mmap, name, raising=False)
    monkeypatch.setitem(sys.modules, "resource", None)  # an import raises ImportError
    monkeypatch.setattr(temporary, "HAS_DESCRIPTOR_PATHS", False)
    monkeypatch.setattr(temporary, "CAN_OPEN_TWICE", False)


@pytest.mark.usefixtures("no_unix")
def test_a_run_is_trained_stopped_and_resumed_without_the_calls_of_unix(tmp_path: Path) -> None:
    small = ["data.n_train=40", "data.n_validation=12", "data.n_test=15", "training.epochs=2"]
    config = resolve(None, small).config
    calls = iter([0, 15])
    with stop_signals.defer_stop_signals(), pytest.raises(Interrupted):
        experiments.train_one(
            config, tmp_path, plots=False,
            callbacks=experiments.Callbacks(stop=lambda: next(calls, 15)),
        )  # fmt: skip
    folder, summary = experiments.train_one(config, tmp_path, plots=False, resume=True)
    assert summary["epochs"] == 2
    assert [record.epoch for record in folder.read_metrics()] == [1, 2]


@pytest.mark.usefixtures("no_unix")
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_tables_are_written_and_read_without_descriptor_paths(
    ending: str, seqattn: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (tmp_path / "c.yaml").write_text("data: {n_train: 12}")
    done = seqattn("data", "sample", "c.yaml", "--output", f"x.{ending}")
    assert done.code == 0, done.err
    assert seqattn("data", "check", f"x.{ending}").code == 0
    assert [path for path in scratch.iterdir() if path.is_file()] == []


def test_a_named_file_can_be_opened_twice_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "CAN_OPEN_TWICE", False)
    monkeypatch.setattr(temporary, "HAS_DESCRIPTOR_PATHS", False)
    with temporary.unnamed_file() as file:
        file.write(b"abc\r\n\x1a")
        file.flush()
        path = Path(temporary.path_of(file))
        assert path.read_bytes() == b"abc\r\n\x1a"
    assert not path.exists()


@pytest.mark.usefixtures("no_unix")
def test_files_are_replaced_and_verified_without_the_calls_of_unix(tmp_path: Path) -> None:
    path, backup = tmp_path / "a", tmp_path / "b"
    for content in (b"one\r\n", b"two\x1a"):
        atomic_write(path, content, backup_path=backup, verify=True)
    with exclusive_lock(tmp_path), write_transaction():
        for k in range(40):
            atomic_write(tmp_path / str(k), b"%d" % k)
    assert (path.read_bytes(), backup.read_bytes()) == (b"two\x1a", b"one\r\n")
    assert (tmp_path / "39").read_bytes() == b"39"


def test_files_are_flushed_through_descriptors_that_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows flushes no file that is open only for reading."""
    fcntl = pytest.importorskip("fcntl")
    modes = list[int]()

    def flush(descriptor: int) -> None:
        modes.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(atomic_module, "_fsync_folder", lambda folder: None)
    atomic_write(tmp_path / "a", b"1")
    with write_transaction():
        atomic_write(tmp_path / "b", b"2")
    assert len(modes) == 2
    assert os.O_RDONLY not in modes


def test_files_are_verified_in_binary_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the text mode of Windows, `os.read` removes carriage returns and stops at Ctrl-Z."""
    real, flags = os.open, list[int]()

    def record(path: Any, flag: int, *rest: Any, **options: Any) -> int:
        flags.append(flag)
        return real(path, flag & ~(1 << 30), *rest, **options)

    monkeypatch.setattr(os, "O_BINARY", 1 << 30, raising=False)
    (tmp_path / "a").write_bytes(b"1")
    monkeypatch.setattr(os, "open", record)
    assert atomic_module._content_equals(tmp_path / "a", b"1")
    assert flags
    assert all(flag & 1 << 30 for flag in flags)


def test_hard_links_have_a_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    for content in (b"1", b"2"):
        atomic_write(tmp_path / "a", content, backup_path=tmp_path / "b")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"2", b"1")


@pytest.mark.usefixtures("no_unix")
def test_limits_of_the_machine_have_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_open_files(10**9)
    assert core_count() == os.cpu_count()
    stop_signals.end_on_closed_pipe()
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "max")
    assert physical_memory() == 4 * 2**30


@pytest.mark.usefixtures("no_unix")
def test_mapped_rows_are_read_through_the_mapping(tmp_path: Path) -> None:
    np.arange(91, dtype=np.float64).tofile(tmp_path / "x")
    values = np.memmap(tmp_path / "x", dtype=np.float64, mode="r").reshape(13, 7)
    reader = row_ranges.MappedPages(values)
    assert reader.read_scattered(values, np.array([1, 5]), 3) is None
    reader.count(10**6, 10**6)
    assert reader.read == 0


def test_a_stream_without_select_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, `select` accepts only sockets."""

    def refuse(*_: Any) -> None:
        raise OSError(10038, "not a socket")

    monkeypatch.setattr(blocks.select, "select", refuse)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as raw:
        os.write(writing, b"a\nb\n")
        os.close(writing)
        assert blocks._read_block(raw, 100) == (b"a\nb\n", False)


def test_no_text_file_depends_on_the_encoding_of_the_system() -> None:
    """The encoding of a Windows system is seldom UTF-8."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "PLW1514",
         "--exclude", "seqattn/report/web", "seqattn"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_no_module_of_unix_is_imported_where_it_may_be_missing() -> None:
    """`resource` is imported in a `try` block; the others not at all."""
    importlib.import_module("seqattn.runs.storage.limits")
    for path in (ROOT / "seqattn").rglob("*.py"):
        if "node_modules" in path.parts:
            continue
        for name in ("fcntl", "termios", "pwd", "grp", "tty", "pty"):
            assert f"import {name}" not in path.read_text(encoding="utf-8"), path
