"""A short version of every fault, and that each would notice a mistake in the product.

The full counts, and what came of them: docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults import (
    Tally,
    configs,
    disk,
    files,
    folders,
    processes,
    readers,
    states,
    surroundings,
)
from tests.faults.planted import VARIABLE

SHORT: dict[str, Callable[[], Tally]] = {
    "killed": lambda: processes.killed(5),
    "told to stop": lambda: processes.told_to_stop(1),
    "told to stop, default config": lambda: processes.told_to_stop_at_once(1),
    "told to stop while importing": lambda: processes.told_to_stop_while_importing(1),
    "two at once": lambda: processes.two_at_once(2),
    "failing calls": lambda: processes.failing([3]),
    "killed at a system call": lambda: processes.killed_at_each_system_call(("rename",)),
    "disk full": lambda: disk.full(30, step=14),
    "stopped at a step": lambda: states.stopped_at((1, 41, 117)),
    "left out": lambda: states.left_out(("exp_avg", "coins", "best weights")),
    "many steps": lambda: states.many_steps(800),
    "environments": lambda: surroundings.environments(every=9),
    "closed": lambda: surroundings.closed(every=7),
    "names": lambda: folders.names(every=9),
    "links": lambda: folders.links(every=10),
    "permissions": lambda: folders.permissions(most=1),
    "flipped": lambda: files.flipped(300),
    "cut": lambda: files.cut(every=40),
    "swapped": files.swapped,
    "payloads": files.payloads,
    "misspelt": configs.misspelt,
    "wrong types": lambda: configs.wrong_types(every=12),
    "yaml": configs.yaml,
    "readers": lambda: readers.run(3),
}


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
        ("in_place", lambda: processes.killed_at_each_system_call(("fsync", "write"))),
        ("in_place", lambda: processes.killed(8, seed=1)),
        ("silent", lambda: processes.failing([3])),
        ("silent", lambda: disk.full(6, step=5)),
        ("deaf", lambda: processes.told_to_stop(1)),
        ("no_lock", lambda: processes.two_at_once(3)),
        ("follows_links", lambda: folders.links(every=8)),
        ("colours", lambda: surroundings.environments(every=17)),
        ("hangs_up", lambda: surroundings.closed(every=8)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_mistake_is_noticed(
    mistake: str, fault: Callable[[], Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own."""
    monkeypatch.setenv(VARIABLE, mistake)
    door = [*processes.DOOR[:-1], "tests.faults.planted"]
    monkeypatch.setattr(processes, "DOOR", door)
    monkeypatch.setattr(surroundings, "COMMAND", [*door, *processes.TRAIN])
    assert fault().failures


def passes(*_: Any, **__: Any) -> None:
    """What a check would be that checks nothing."""


def test_mistakes_in_this_process_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqattn import config, storage
    from seqattn.config import mistakes
    from seqattn.training import sealed

    with monkeypatch.context() as patch:
        patch.setattr(sealed, "_refuse_changed", passes)
        assert files.flipped(200).failures
        assert files.swapped().failures
    with monkeypatch.context() as patch:
        patch.setattr(sealed, "_refuse_changed", passes)
        whole = sealed.safetensors.torch.load  # a cut file would be padded with zeros
        patch.setattr(sealed.safetensors.torch, "load", lambda raw: whole(raw + bytes(40_000)))
        patch.setattr(
            sealed, "read_whole", lambda path: (path.read_bytes() + b" " * 40_000)[:40_000]
        )
        assert files.cut(every=40).failures
    with monkeypatch.context() as patch:
        patch.setattr(mistakes, "nearest", lambda word, known: None)
        assert configs.misspelt().failures
    with monkeypatch.context() as patch:
        patch.setattr(config, "listed", lambda n: 1 / 0)
        assert configs.wrong_types(every=40).failures
        assert configs.yaml().failures
    with monkeypatch.context() as patch:
        import pickle

        patch.setattr(storage.np, "load", lambda raw, **_: pickle.load(raw))
        patch.setattr(storage.zipfile, "ZipFile", None)
        patch.setattr(files, "reader_of", lambda name: lambda path: pickle.loads(path.read_bytes()))
        assert files.payloads().failures


def test_a_reader_that_crashes_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(readers, "reader_of", lambda name: lambda path: path.read_bytes().decode())
    tally = readers.fuzz(1, 0, tmp_path)
    assert tally.failures


def test_growth_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqattn.training import loop

    real, kept = loop.Group.one_step, list[Any]()

    def hoards(group: Any, look: bool = False) -> Any:
        kept.append(bytes(100_000))
        return real(group, look)

    monkeypatch.setattr(loop.Group, "one_step", hoards)
    assert states.many_steps(800).failures
