"""A short version of every fault, and that each would notice a mistake in the product.

The full counts, and what came of them: docs/reliability.md.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import (
    NoticedError,
    Tally,
    configs,
    disk,
    environment,
    files,
    folders,
    groups,
    outputs,
    processes,
    readers,
    states,
)
from tests.faults.nursery import Nursery
from tests.faults.planted import VARIABLE

SHORT: dict[str, Callable[[], Tally]] = {
    "killed": lambda: processes.killed(1),
    "killed side by side": lambda: processes.killed_side_by_side((45, 51)),
    # SIGINT: the two rows below, and test_a_signal_saves_and_a_resume_ends_the_same.
    "told to stop": lambda: processes.stop_signals(1, signals=[signal.SIGTERM]),
    "told to stop, default config": lambda: processes.stop_signals_at_once(1),
    "told to stop while importing": lambda: processes.stop_signals_while_importing(1),
    "two at once": lambda: processes.two_at_once(1),
    "failing calls": lambda: processes.failing([99]),
    "restarted": lambda: processes.restarted({"open": [2], "rename": [2, 7]}),
    "overwritten": lambda: processes.overwritten({("fail", "write"): [3], ("kill", "unlink"): [9]}),
    "disk full": lambda: disk.full(30, step=14),
    "stopped at a step": lambda: states.stopped_at((1, 41, 117)),
    # Every setup: tests/walks/test_groups.py.
    "groups stopped": lambda: groups.stopped((10,), ("plateau",)),
    "groups killed": lambda: groups.killed((2, 9, 10), ("diverging",)),
    "many steps": lambda: states.many_steps(800),
    "environments": lambda: environment.environments(every=18),
    "closed": lambda: environment.closed(every=8),
    "names": lambda: folders.names(every=9),
    "permissions": lambda: folders.permissions(most=1),
    "outputs onto inputs": lambda: outputs.onto_inputs(("sample",)),
    "outputs into special files": lambda: outputs.special(("schema",)),
    "outputs, failing calls": lambda: outputs.failing(("schema",)),
    "outputs killed": lambda: outputs.killed(("schema",)),
    "flipped": lambda: files.flipped(300),
    "cut": lambda: files.cut(every=40),
    "payloads": files.payloads,
    "misspelt": configs.misspelt,
    "wrong types": lambda: configs.wrong_types(every=12),
    "yaml": configs.yaml,
    "readers": lambda: readers.run(1),
}


@pytest.fixture(scope="module", autouse=True)
def prepared(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One process and one undisturbed training for all faults."""
    home = tmp_path_factory.mktemp("prepared")
    processes.prepare(nursery, home)
    processes.shared.append((nursery, home))
    yield
    processes.shared.clear()


@pytest.mark.parametrize("name", SHORT)
def test_a_fault(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tally = SHORT[name]()
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.tried > 0
    if tally.skipped:
        with capsys.disabled():
            print(f" [{tally.skipped}]", end="")


@pytest.mark.parametrize(
    ("mistake", "fault"),
    [
        ("in_place", lambda: processes.killed(60)),
        ("silent", lambda: processes.failing([3])),
        ("silent", lambda: disk.full(6, step=5)),
        ("deaf", lambda: processes.stop_signals(1)),
        ("clears", lambda: processes.overwritten({("kill", "write"): [4]})),
        ("no_lock", lambda: processes.two_at_once(3)),
        ("colours", lambda: environment.environments(every=17)),
        ("hangs_up", lambda: environment.closed(every=8)),
        ("unchecked", lambda: outputs.onto_inputs(("sample",))),
        ("replaces", lambda: outputs.special(("schema",))),
        ("half", lambda: outputs.failing(("schema",))),
        ("half", lambda: outputs.killed(("schema",))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_mistake_is_noticed(
    mistake: str, fault: Callable[[], Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, mistake)
    door = [*processes.DOOR[:-1], "tests.faults.planted"]
    monkeypatch.setattr(processes, "DOOR", door)
    monkeypatch.setattr(Tally, "planted", True)
    monkeypatch.setattr(environment, "COMMAND", [*door, *processes.TRAIN])
    with pytest.raises(NoticedError):
        fault()


def test_a_second_signal_leaves_at_once_and_files_are_whole() -> None:
    tally = Tally()
    with processes.nurtured() as (nursery, home):
        for number in (signal.SIGINT, signal.SIGTERM):
            output = f"twice-{number}"
            child = nursery.start(processes.words(output), home)
            log = home / output / "run" / "train.log"
            while not (log.exists() and "epoch 1" in log.read_text()):
                time.sleep(0.002)
            for _ in range(2):
                os.kill(child, number)
                time.sleep(0.001)
            done = nursery.wait(child)
            assert done.code == 128 + number, done.err
            processes.ends_the_same(nursery, home, output, tally)


def test_a_reader_sees_whole_files_while_they_are_written() -> None:
    from seqattn.runs import RunFolder
    from seqattn.training import load_model

    with processes.nurtured() as (nursery, home):
        child = nursery.start(processes.words("read"), home)
        folder = RunFolder(home / "read" / "run")
        epochs = []
        while not folder.summary.exists():
            there = [file for file in (folder.best, folder.last) if file.exists()]
            epochs += [load_model(file).epoch for file in there]
        assert nursery.wait(child).code == 0
        assert len(epochs) > 5
        assert len(set(epochs)) > 1


def noticed(fault: Callable[[], Tally]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "planted", True)
        with pytest.raises(NoticedError):
            fault()


def passes(*_: Any, **__: Any) -> None:
    """What a check would be that checks nothing."""


def test_mistakes_in_this_process_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from seqattn.config import draft, mistakes
    from seqattn.runs import checkpoint_file, checksummed

    with monkeypatch.context() as patch:
        patch.setattr(checksummed, "_check_checksum", passes)
        noticed(lambda: files.flipped(200))
    with monkeypatch.context() as patch:
        real, found = checkpoint_file.load_checksummed, list[Any]()

        def once(path: Any, newest: int) -> Any:
            if not found:
                found.append(real(path.with_name("last.safetensors"), newest))
            return found[0]

        file, _ = files.a_checkpoint(tmp_path)
        once(file, checkpoint_file.VERSION)
        patch.setattr(checkpoint_file, "load_checksummed", once)
        noticed(lambda: files.cut(every=40))
    with monkeypatch.context() as patch:
        patch.setattr(mistakes, "nearest", lambda word, known: None)
        assert configs.misspelt(every=6).failures  # a rate, known at the end
    with monkeypatch.context() as patch:
        patch.setattr(draft, "count_mistakes", lambda n: 1 / 0)
        noticed(lambda: configs.wrong_types(every=40))
        noticed(configs.yaml)
    with monkeypatch.context() as patch:
        import pickle

        patch.setattr(files, "reader_of", lambda name: lambda path: pickle.loads(path.read_bytes()))
        patch.setattr(Tally, "planted", True)
        with pytest.raises(NoticedError, match="it was run"):
            files.payloads()
