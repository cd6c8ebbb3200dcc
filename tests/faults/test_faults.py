"""A short version of every fault, and that each would notice a mistake in the product.

The full counts, and what came of them: docs/reliability.md.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults import (
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
