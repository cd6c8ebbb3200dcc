"""Runs that worker processes train, and the processes of a command."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from seqattn.config import Config, resolve
from seqattn.experiments import Launch, train_many
from seqattn.runs import RunFolder
from tests.conftest import ROOT

Runs = list[tuple[Config, RunFolder]]


SIZES = [
    "data.n_train=24", "data.n_validation=20", "data.n_test=9", "training.batch_size=8",
    "training.epochs=5", "training.checkpoint_seconds=0.05",
]  # fmt: skip


SCORES = ("general", "additive", "scaled_dot")


def runs(home: Path, *more: str, variants: Iterable[str] = SCORES, seeds: int = 2) -> Runs:
    """Each score has its own shapes, so it is a group of all seeds."""
    return [
        (
            resolve(None, [
                *SIZES, f"model.attention.score={score}", f"seed={seed}", f"name={score}{seed}",
                "model.hidden_dim=5", *more,
            ]).config,
            RunFolder(home / score / f"seed-{seed}"),
        )
        for score in variants
        for seed in range(seeds)
    ]  # fmt: skip


def train(these: Runs, workers: int, **more: Any) -> list[Any]:
    return train_many(these, threads=1, resume=True, launch=Launch(workers=workers), **more)


def alone(home: Path, *more: str, **which: Any) -> Runs:
    whole = runs(home, *more, **which)
    train(whole, 1)
    return whole


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """What one process writes."""
    return alone(tmp_path_factory.mktemp("whole"))


SLOW = ("training.epochs=200",)


def slow(these: Runs) -> Runs:
    """The same runs with so many epochs that a signal meets them while they train."""
    return [
        (
            config.model_copy(
                update={"training": config.training.model_copy(update={"epochs": 200})}
            ),
            folder,
        )
        for config, folder in these
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def descendants(pid: int) -> set[int]:
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                parents[int(each.name)] = int(
                    (each / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
