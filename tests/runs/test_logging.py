"""train.log: which lines, in which order, with which times, and for which handlers."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import StorageError
from seqattn.experiments import train_many
from seqattn.runs import RunFolder
from seqattn.runs import folder as run_folder
from seqattn.runs.storage.atomic import _PendingFile
from tests.conftest import ROOT
from tests.grouped import small_config

STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)\n")


class Collector(logging.Handler):
    """A user's handler."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[Path, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.run_folder, record.getMessage()))  # type: ignore[attr-defined]


@pytest.fixture
def collector() -> Iterator[Collector]:
    handler = Collector()
    logging.getLogger("seqattn").addHandler(handler)
    yield handler
    logging.getLogger("seqattn").removeHandler(handler)


def lines_of(folder: Path) -> list[str]:
    """The lines of a train.log without their times; nothing else may be in it."""
    content = (folder / "train.log").read_text(encoding="utf-8")
    found = [STAMPED.fullmatch(line) for line in content.splitlines(keepends=True)]
    assert all(found), content
    return [match[1] for match in found if match]


def test_each_line_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, now = time.strftime, time.struct_time((2031, 7, 5, 3, 2, 1, 5, 186, 0))
    monkeypatch.setattr(time, "strftime", lambda form, *_: real(form, now))
    RunFolder(tmp_path).log_line("loss 0.5\n100%s of ä {x}")
    RunFolder(tmp_path).log_line("stopped")
    assert (tmp_path / "train.log").read_bytes() == (
        "2031-07-05 03:02:01 loss 0.5\n2031-07-05 03:02:01 100%s of ä {x}\n"
        "2031-07-05 03:02:01 stopped\n"
    ).encode()


def test_a_handler_receives_each_line_once_with_its_folder(
    tmp_path: Path, collector: Collector
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    RunFolder(tmp_path / "a").log_line("one\ntwo")
    RunFolder(tmp_path / "b").log_line("three")
    assert collector.lines == [
        (tmp_path / "a", "one"), (tmp_path / "a", "two"), (tmp_path / "b", "three"),
    ]  # fmt: skip


def test_the_lines_of_trainings_reach_a_handler(tmp_path: Path, collector: Collector) -> None:
    pairs = experiments.seeds_of(small_config(), tmp_path, 3)
    experiments.train_many(pairs, threads=1)
    for _, folder in pairs:
        lines = [line for place, line in collector.lines if place == folder.path]
        assert lines == lines_of(folder.path)
        assert lines[-1].startswith("finished: ")


@pytest.mark.parametrize("disabled", [False, True])
def test_what_the_disk_refuses_is_raised(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    disabled: bool,
) -> None:
    def refuse(path: Path) -> Any:
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(FileNotFoundError):
        RunFolder(tmp_path / "missing").log_line("one")
    (tmp_path / "train.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RunFolder(tmp_path).log_line("one")
    monkeypatch.setattr(run_folder, "open_to_append", refuse)
    logging.disable(logging.CRITICAL if disabled else logging.NOTSET)
    try:
        with pytest.raises(OSError, match="No space left on device"):
            RunFolder(tmp_path).log_line("one")
        with pytest.raises((OSError, StorageError), match="No space left on device"):
            experiments.train_many(
                experiments.seeds_of(small_config(), tmp_path / "s", 1), threads=1
            )
    finally:
        logging.disable(logging.NOTSET)
    assert capfd.readouterr().err == ""


SCRIPT = """
import logging, logging.config, sys
from pathlib import Path
from seqattn.runs import RunFolder

class Counter(logging.Handler):
    lines = 0
    def emit(self, record):
        Counter.lines += 1

home = Path(sys.argv[1])
for name in ("a", "b"):
    (home / name).mkdir(exist_ok=True)
RunFolder(home / "a").log_line("first")
logging.getLogger("seqattn").addHandler(Counter())
CONFIGURE
for k in range(3):
    for name in ("a", "b"):
        RunFolder(home / name).log_line(f"line {k}" + " {x}" * (k == 2))
print(Counter.lines)
"""
CONFIGURATIONS: dict[str, tuple[str, int, int]] = {  # received by a handler, lines on stderr
    "basicConfig": ("logging.basicConfig(level=logging.INFO, format='%(message)s')", 6, 6),
    "disable": ("logging.disable(logging.CRITICAL)", 0, 0),
    "dictConfig": ("logging.config.dictConfig({'version': 1})", 0, 0),
    "formatted messages": (
        "logging.setLogRecordFactory(type('Braced', (logging.LogRecord,),"
        " {'getMessage': lambda record: str(record.msg).format(3)}))", 6, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_train_log_has_every_line_whatever_is_configured(name: str, tmp_path: Path) -> None:
    statement, received, printed = CONFIGURATIONS[name]
    script = SCRIPT.replace("CONFIGURE", statement)
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert lines_of(tmp_path / "a") == ["first", "line 0", "line 1", "line 2 {x}"]
    assert lines_of(tmp_path / "b") == ["line 0", "line 1", "line 2 {x}"]
    assert int(done.stdout) == received
    assert len(done.stderr.splitlines()) == printed


SETS = ["data.n_train=8", "data.n_validation=4", "data.n_test=4", "training.epochs=1"]


def jobs(folder: Path, seeds: int) -> list:  # type: ignore[type-arg]
    return [
        (resolve(None, [*SETS, f"seed={seed}"]).config, RunFolder(folder / f"seed-{seed}"))
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("seeds", [1, 3])
def test_finished_is_logged_after_the_results_are_committed(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, seen = jobs(tmp_path, seeds), list[bool]()
    show = _PendingFile.commit

    def watched(written: _PendingFile) -> None:
        if written.path.name == "summary.json":
            seen.extend("finished" in folder.log.read_text() for _, folder in wanted)
        show(written)

    monkeypatch.setattr(_PendingFile, "commit", watched)
    train_many(wanted, threads=1)
    assert len(seen) == seeds**2
    assert not any(seen)
    for _, folder in wanted:
        assert "finished: test loss" in folder.log.read_text().splitlines()[-1]


def test_a_run_whose_results_could_not_be_written_has_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, folder),) = wanted = jobs(tmp_path, 1)
    show = _PendingFile.commit

    def refused(written: _PendingFile) -> None:
        if written.path.name == "summary.json":
            raise OSError(28, "No space left on device", str(written.path))
        show(written)

    monkeypatch.setattr(_PendingFile, "commit", refused)
    with pytest.raises(StorageError, match="No space left"):
        train_many(wanted, threads=1)
    assert not folder.summary.exists()
    assert "finished" not in folder.log.read_text()


def test_a_loss_that_is_not_finite_at_the_test_part_is_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from seqattn.experiments import run_folders

    score = run_folders.evaluate

    def infinite(*given, **named):  # type: ignore[no-untyped-def]
        return dataclasses.replace(score(*given, **named), loss=float("inf"))

    monkeypatch.setattr(run_folders, "evaluate", infinite)
    ((_, folder),) = wanted = jobs(tmp_path, 1)
    (job,) = train_many(wanted, threads=1)
    assert job.error is not None
    assert "ended: The test loss is inf" in folder.log.read_text().splitlines()[-1]
