"""Whether a stopped and resumed training ends where an uninterrupted one ends, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from seqattn.config import Config
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments import Callbacks, train_many
from seqattn.runs import METRICS, RunFolder
from seqattn.training.checkpoint_file import VERSION
from seqattn.training.checksummed import load_checksummed

TIMED = METRICS.index("seconds")


@dataclass(frozen=True)
class VerifyResult:
    """What came of it.

    Attributes:
        steps: of the whole training.
        stops: steps after which it was stopped the second time.
        compared: tensors and files that were held against each other.
        difference: the first of them that differs, with how; None: none does.
    """

    steps: int
    stops: tuple[int, ...]
    compared: int
    difference: str | None


def verify_resume(
    config: Config,
    home: Path,
    *,
    stops: int,
    device: str = "cpu",
    threads: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> VerifyResult:
    """Train a config twice: at once, and with stops after random steps, each gone on from by what
    lies on the disk.

    Args:
        home: an empty folder, where both run folders go.
        stops: how many.

    Raises:
        UsageError: the training has one step.
        SeqattnError: what else a user can mend.
    """
    whole, parted = RunFolder(home / "at-once"), RunFolder(home / "with-stops")
    say("Training at once.")
    (job,) = train_many([(config, whole)], device=device, threads=threads)
    if job.error is not None:
        raise job.error
    batches = job.data.batches(config.training.batch_size)
    assert job.state is not None
    steps = batches * job.state.epoch
    if steps < 2:
        raise UsageError(
            "A training of one step cannot be stopped in between. Set training.epochs higher, or"
            " training.batch_size lower."
        )
    numbers = np.random.RandomState(config.seed % 2**32)
    chosen = sorted(1 + int(k) for k in numbers.permutation(steps - 1)[:stops])
    past = 0
    for at in (*chosen, None):
        left = None if at is None else at - past
        try:
            train_many(
                [(config, parted)], device=device, threads=threads, resume=past > 0,
                callbacks=Callbacks(stop=_counting(left)),
            )  # fmt: skip
        except Interrupted:
            assert at is not None
            say(f"Stopped after step {at} of {steps}.")
            past = at
    compared, difference = first_difference(whole, parted)
    return VerifyResult(steps, tuple(chosen), compared, difference)


def _counting(left: int | None) -> Callable[[], int]:
    """Says stop when asked for the `left`th time, and after it."""
    asked = 0

    def stop() -> int:
        nonlocal asked
        asked += 1
        return 2 if left is not None and asked >= left else 0

    return stop


def first_difference(one: RunFolder, other: RunFolder) -> tuple[int, str | None]:
    """Hold the ends of two trainings against each other; wall time is no part of them.

    Returns:
        how much was compared, and the first that differs, or None.
    """
    compared = 0
    (said_one, tensors), (said_other, others) = (
        load_checksummed(folder.last, VERSION) for folder in (one, other)
    )
    if tensors.keys() != others.keys():
        odd = sorted(tensors.keys() ^ others.keys())[0]
        return compared, f"{odd} is in one checkpoint only"
    for name in sorted(tensors):
        a, b = tensors[name], others[name]
        if name == "history":
            a, b = a.clone(), b.clone()
            a[:, TIMED] = b[:, TIMED] = 0
        compared += 1
        if a.shape != b.shape or not torch.equal(a, b):
            apart = (
                f"by up to {float((a - b).abs().max()):.3g}" if a.shape == b.shape else "in shape"
            )
            return compared, f"{name} differs {apart}"
    for key in sorted(said_one.keys() | said_other.keys()):
        if key != "seconds":
            compared += 1
            if said_one.get(key) != said_other.get(key):
                return compared, f"{key} is {said_one.get(key)!r}, and {said_other.get(key)!r}"
    compared += 1
    if one.best.read_bytes() != other.best.read_bytes():
        return compared, "best.safetensors differs"
    rows = [
        [record.as_row()[:TIMED] for record in folder.read_metrics()] for folder in (one, other)
    ]
    compared += 1
    if rows[0] != rows[1]:
        return compared, "metrics.csv differs"
    return compared, None
