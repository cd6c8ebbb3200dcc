"""Several processes that train one run: their commands, and what they leave."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np

from seqattn.runs import RunFolder
from tests.faults.nursery import Ended, Nursery

SETS = ["data.n_train=45", "data.n_validation=13", "data.n_test=9", "training.epochs=5",
        "training.batch_size=11"]  # fmt: skip
LONG = [*SETS, "training.epochs=150", "training.checkpoint_seconds=0.2"]


def words(name: str, *more: str, sets: list[str] = SETS) -> list[str]:
    given = [word for text in sets for word in ("--set", text)]
    return ["train", "c.yaml", "--name", name, "--plots", "none", "--threads", "1", *given, *more]


def together(
    nursery: Nursery,
    home: Path,
    size: int,
    *each: list[str],
    plans: dict[int, dict[str, object]] | None = None,
) -> list[Ended]:
    """Processes as torchrun starts them; each its words, or the first's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    children = []
    for rank in range(size):
        env = {"WORLD_SIZE": str(size), "RANK": str(rank), "LOCAL_RANK": str(rank),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip
        plan = {"env": env, **(plans or {}).get(rank, {})}
        children.append(nursery.start(each[rank] if len(each) > 1 else each[0], home, plan))
    return [nursery.wait(child) for child in children]


def losses(folder: Path) -> np.ndarray:
    return np.array([record.as_row()[1:4] for record in RunFolder(folder).read_metrics()])
