"""The check that a stopped and resumed run is bit-identical to an uninterrupted run."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqattn.config import Config
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments import Callbacks, train_many
from seqattn.experiments.trackers import without_trackers
from seqattn.runs import METRICS, RunFolder
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed

SECONDS_COLUMN = METRICS.index("seconds")
"""Column of the wall time in `metrics.csv` and in the history of a checkpoint."""


@dataclass(frozen=True)
class VerifyResult:
    """The result of `verify_resume`.

    Attributes:
        steps: number of training steps of each of the two runs.
        stops: steps after which the second run was stopped.
        compared: number of tensors, values and files that were compared.
        difference: description of the first difference, or None if there is no difference.
    """

    steps: int
    stops: tuple[int, ...]
    compared: int
    difference: str | None


def verify_resume(
    config: Config,
    folder: Path,
    *,
    stops: int,
    device: str = "cpu",
    message: Callable[[str], None] = lambda line: None,
) -> VerifyResult:
    """Train a model twice, once without stops and once with stops after random steps, and compare
    the two runs. After each stop, the second run is resumed from its checkpoint on disk.

    Args:
        config: config of both runs.
        folder: an empty folder, in which both run folders are created.
        device: "cpu", "cuda" or "auto".
        stops: number of stops. There are fewer stops if the run has too few steps.
        message: function that is called with a line for each stop.

    Raises:
        UsageError: if the run has only one step.
        SeqattnError: for an error that a user can correct; see `train_one`.
    """
    uninterrupted, resumed = RunFolder(folder / "at-once"), RunFolder(folder / "with-stops")
    config = without_trackers(config)
    message("Training without a stop.")
    (job,) = train_many([(config, uninterrupted)], device=device, threads=1)
    if job.error is not None:
        raise job.error
    batches = job.data.batches(config.training.batch_size)
    assert job.state is not None
    steps = batches * job.state.epoch
    if steps < 2:
        raise UsageError(
            "The training has only one step, so there is no step to stop after. Set training.epochs"
            " higher or training.batch_size lower."
        )
    rng = np.random.RandomState(config.seed % 2**32)
    stop_steps = sorted(1 + int(k) for k in rng.permutation(steps - 1)[:stops])
    done = 0
    for stop_step in (*stop_steps, None):
        calls = None if stop_step is None else stop_step - done
        try:
            train_many(
                [(config, resumed)],
                device=device,
                threads=1,
                resume=done > 0,
                callbacks=Callbacks(stop=_stop_after(calls)),
            )
        except Interrupted:
            assert stop_step is not None
            message(f"Stopped after step {stop_step} of {steps}.")
            done = stop_step
    compared, difference = first_difference(uninterrupted, resumed)
    return VerifyResult(steps, tuple(stop_steps), compared, difference)


def _stop_after(limit: int | None) -> Callable[[], int]:
    """Return a stop callback that returns SIGINT from call number `limit` on.

    If `limit` is None, the callback never requests a stop.
    """
    calls = itertools.count(1)
    return lambda: signal.SIGINT if limit is not None and next(calls) >= limit else 0


def first_difference(one: RunFolder, other: RunFolder) -> tuple[int, str | None]:
    """Compare the last checkpoints, the best checkpoints and the metrics of two runs. Wall times
    are not compared.

    Returns:
        the number of tensors, values and files that were compared, and a description of the first
        difference, or None if there is no difference.
    """
    compared = 0
    (metadata, tensors), (other_metadata, other_tensors) = (
        load_checksummed(folder.last, VERSION) for folder in (one, other)
    )
    if unmatched := sorted(tensors.keys() ^ other_tensors.keys()):
        return compared, f"{unmatched[0]} is in one checkpoint only"
    for name in sorted(tensors):
        a, b = tensors[name], other_tensors[name]
        if name == "history":
            a, b = a.copy(), b.copy()
            a[:, SECONDS_COLUMN] = b[:, SECONDS_COLUMN] = 0
        compared += 1
        if a.shape != b.shape or not np.array_equal(a, b):
            how = f"by up to {float(np.abs(a - b).max()):.3g}" if a.shape == b.shape else "in shape"
            return compared, f"{name} differs {how}"
    for key in sorted(metadata.keys() | other_metadata.keys()):
        if key != "seconds":
            compared += 1
            values = metadata.get(key), other_metadata.get(key)
            if values[0] != values[1]:
                return compared, f"{key} is {values[0]!r} in one and {values[1]!r} in the other"
    compared += 1
    if one.best.read_bytes() != other.best.read_bytes():
        return compared, "best.safetensors differs"
    metrics = [
        [record.as_row()[:SECONDS_COLUMN] for record in folder.read_metrics()]
        for folder in (one, other)
    ]
    compared += 1
    if metrics[0] != metrics[1]:
        return compared, "metrics.csv differs"
    return compared, None
