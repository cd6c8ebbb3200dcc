"""Files that a user names for what a command makes: on top of inputs, through links, into pipes and
devices, on a full disk, and killed while they are written."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tests.faults import Tally
from tests.faults.nursery import FIRED, Ended, Nursery
from tests.faults.processes import nurtured

TABLE = "sequence,step,x,y\na,1,0.5,1\na,2,1,1\nb,1,0.5,1\nb,2,1,1\n"
OLD = b"what was there before\n"
RUN = "whole/run"
CHECKPOINT = f"{RUN}/checkpoints/best.safetensors"
CONFIG = f"{RUN}/config.yaml"
COMMANDS: dict[str, tuple[list[str], str, tuple[str, ...]]] = {
    "forecasts": (["predict", RUN, "--output"], ".csv", (CHECKPOINT, CONFIG)),
    "forecasts of a file": (
        ["predict", RUN, "--input", "x.csv", "--output"], ".npz", (CHECKPOINT, "x.csv"),
    ),
    "forecasts, a sequence at a time": (
        ["predict", RUN, "--input", "x.csv", "--output"], ".jsonl", ("x.csv",),
    ),
    "weights": (["predict", RUN, "--attention"], ".npz", (CHECKPOINT, f"{RUN}/attention.npz")),
    "attention picture": (["plot-attention", RUN, "--output"], ".png", (CHECKPOINT,)),
    "explanation": (["explain", RUN, "--figure"], ".png", (CHECKPOINT, CONFIG)),
    "page": (["report", RUN, "--no-live", "--output"], ".html", (CHECKPOINT, f"{RUN}/summary.json")),
    "sample": (["data", "sample", "c.yaml", "--output"], ".csv", ("c.yaml",)),
    "picture of data": (["data", "check", "x.csv", "--picture"], ".png", ("x.csv",)),
    "schema": (["config", "schema", "--output"], ".json", ()),
}  # fmt: skip
"""What is written: the command up to the file's name, the name's ending, and what it reads."""
ALL = tuple(COMMANDS)


@contextmanager
def _home() -> Iterator[tuple[Nursery, Path]]:
    with nurtured() as (nursery, home):
        (home / "x.csv").write_text(TABLE)
        yield nursery, home


def _run(
    nursery: Nursery, home: Path, name: str, path: Path, tally: Tally,
    plan: dict[str, object] | None = None,
) -> Ended:  # fmt: skip
    done = nursery.run([*COMMANDS[name][0], str(path)], home, plan)
    tally.took(done.mib)
    assert "Traceback" not in done.err, done.err
    return done


def _expected(nursery: Nursery, home: Path, name: str, tally: Tally) -> bytes:
    """What a command writes into a plain file."""
    plain = home / f"plain{COMMANDS[name][1]}"
    done = _run(nursery, home, name, plain, tally)
    assert done.code == 0, done.err
    content = plain.read_bytes()
    plain.unlink()
    return content


def _files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def _parts(home: Path) -> list[Path]:
    return list(home.rglob("*.part"))


def _aliases(path: Path, alias: Path) -> dict[str, Callable[[], None]]:
    """Ways to name a file by another name."""
    between = alias.with_name("between")

    def chain() -> None:
        between.symlink_to(path)
        alias.symlink_to(between.name)

    return {
        "a symbolic link": lambda: alias.symlink_to(path),
        "two links in a row": chain,
        "a hard link": lambda: alias.hardlink_to(path),
    }


def onto_inputs(names: Sequence[str] = ALL) -> Tally:
    """Every output onto every file that the command reads, under other names of that file: refused,
    and every file is what it was."""
    tally = Tally()
    with _home() as (nursery, home):
        for name in names:
            _, ending, inputs = COMMANDS[name]
            for read in inputs:
                alias = home / f"alias{ending}"
                for way, make in _aliases(home / read, alias).items():
                    make()
                    before = _files(home)
                    with tally.case(f"{name} onto {read} by {way}"):
                        done = _run(nursery, home, name, alias, tally)
                        assert done.code == 2, f"exit code {done.code}: {done.err}"
                        assert "is the same file as" in done.err, done.err
                        assert _files(home) == before, "a file was changed"
                    alias.unlink()
                    (home / "between").unlink(missing_ok=True)
    return tally


def special(names: Sequence[str] = ALL) -> Tally:
    """Every output through links, into pipes and devices, and where no file can be."""
    tally = Tally()
    with _home() as (nursery, home):
        for name in names:
            ending = COMMANDS[name][1]
            expected = _expected(nursery, home, name, tally)
            for what, check in (
                ("links", _through_links), ("a pipe", _into_a_pipe),
                ("a pipe whose reader leaves", _into_a_broken_pipe), ("devices", _into_devices),
                ("a folder", _where_no_file_can_be),
            ):  # fmt: skip
                with tally.case(f"{name}: {what}"):
                    place = home / f"{what.replace(' ', '-')}-{name.replace(' ', '-')}"
                    place.mkdir()

                    def command(path: Path, name: str = name) -> Ended:
                        return _run(nursery, home, name, path, tally)

                    check(command, place, ending, expected)
                    assert not _parts(home), f"{_parts(home)} were left behind"
    return tally


Command = Callable[[Path], Ended]


def _through_links(command: Command, place: Path, ending: str, expected: bytes) -> None:
    link, between, target = place / f"link{ending}", place / "between", place / "target"
    link.symlink_to(between.name)
    between.symlink_to(target.name)
    for before in (None, OLD):  # nothing at the end of the links, then a file
        target.unlink(missing_ok=True)
        if before is not None:
            target.write_bytes(before)
        done = command(link)
        assert done.code == 0, f"exit code {done.code}: {done.err}"
        assert link.is_symlink() and between.is_symlink(), "a link was replaced"
        assert target.read_bytes() == expected, "another content than in a plain file"


@contextmanager
def _reader(pipe: Path, read: Callable[[BinaryIO], object]) -> Iterator[None]:
    """A thread that reads a new pipe while something is written into it."""
    os.mkfifo(pipe)

    def run() -> None:
        with pipe.open("rb", buffering=0) as file:
            read(file)

    reader = threading.Thread(target=run, daemon=True)
    reader.start()
    try:
        yield
    finally:
        if pipe.is_fifo():
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # ends one that nobody wrote to
            reader.join()
    assert pipe.is_fifo(), "the pipe was replaced"


def _into_a_pipe(command: Command, place: Path, ending: str, expected: bytes) -> None:
    pipe, found = place / f"pipe{ending}", list[bytes]()
    with _reader(pipe, lambda file: found.append(file.read())):
        done = command(pipe)
    assert done.code == 0, f"exit code {done.code}: {done.err}"
    assert found == [expected], "the reader got another content"


def _into_a_broken_pipe(command: Command, place: Path, ending: str, expected: bytes) -> None:
    """Its reader leaves at the first byte; what fits into the pipe may have been written by then."""
    pipe = place / f"pipe{ending}"
    with _reader(pipe, lambda file: file.read(1)):
        done = command(pipe)
    assert done.code in (0, 5), f"exit code {done.code}: {done.err}"
    assert done.code or len(expected) <= 2**16, "the loss was not told"
    assert not done.code or "its reader closed it" in done.err, done.err


def _into_devices(command: Command, place: Path, ending: str, expected: bytes) -> None:
    for device, code in (("null", 0), ("full", 5)):
        link = place / f"{device}{ending}"
        link.symlink_to(f"/dev/{device}")
        done = command(link)
        assert done.code == code, f"/dev/{device}: exit code {done.code}: {done.err}"
        assert code == 0 or os.strerror(errno.ENOSPC) in done.err, done.err
        assert Path(f"/dev/{device}").is_char_device(), "the device was replaced"


def _where_no_file_can_be(command: Command, place: Path, ending: str, expected: bytes) -> None:
    folder, loop = place / f"folder{ending}", place / f"loop{ending}"
    folder.mkdir()
    (folder / "kept").write_bytes(OLD)
    loop.symlink_to(loop.name)
    (place / "file").write_bytes(OLD)
    for path in (folder, loop, place / "file" / f"below{ending}", place / f"{'x' * 300}{ending}"):
        done = command(path)
        assert done.code in (2, 5), f"{path.name[:20]}: exit code {done.code}: {done.err}"
        assert done.err.strip(), "no reason is given"
    assert (folder / "kept").read_bytes() == (place / "file").read_bytes() == OLD


def _one_of_both(done: Ended, file: Path, expected: bytes) -> None:
    assert done.code in (0, 5), f"exit code {done.code}: {done.err}"
    wanted = OLD if done.code else expected
    assert file.read_bytes() == wanted, f"exit code {done.code}, and another content than that says"


def failing(names: Sequence[str] = ALL) -> Tally:
    """The n-th write, fsync or rename of every output fails, for every n: the older file is there
    and exit code 5."""
    return _struck("fail", names)


def killed(names: Sequence[str] = ALL) -> Tally:
    """SIGKILL at the n-th write, fsync or rename of every output, for every n: the older file or the
    new one is there whole, and the same command then writes the new one."""
    return _struck("kill", names)


def _struck(how: str, names: Sequence[str]) -> Tally:
    tally = Tally()
    with _home() as (nursery, home):
        for name in names:
            expected = _expected(nursery, home, name, tally)
            file = home / f"output{COMMANDS[name][1]}"
            for call in ("write", "fsync", "rename"):
                n, reached = 0, True
                while reached:
                    n += 1
                    file.write_bytes(OLD)
                    plan = {how: call, "call": n, "errno": errno.EIO}
                    with tally.case(f"{name}, {call} {n}"):
                        reached = False
                        done = _run(nursery, home, name, file, tally, plan)
                        reached = FIRED in done.err or done.code == -signal.SIGKILL
                        assert reached or n > 1, f"no {call} was seen"
                        if done.code == -signal.SIGKILL:
                            assert file.read_bytes() in (OLD, expected), "half of a file"
                            assert _run(nursery, home, name, file, tally).code == 0
                            assert file.read_bytes() == expected
                        elif call == "fsync" and n > 1:  # of the folder, after the rename
                            assert done.code in (0, 5), f"exit code {done.code}: {done.err}"
                            assert file.read_bytes() == expected
                        else:
                            _one_of_both(done, file, expected)
                            assert not reached or done.code == 5, "the failure was not told"
                            assert not _parts(home), "a part was left behind"
                    for part in _parts(home):  # a killed process cannot take them away
                        part.unlink()
    return tally
