"""The check that a stopped and resumed run is bit-identical to an uninterrupted run."""

from __future__ import annotations

import itertools
import json
import math
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments import Callbacks, train_many
from seqattn.experiments.trackers import without_trackers
from seqattn.runs import METRICS, EpochRecord, RunFolder
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed
from seqattn.runs.storage import read_arrays

SECONDS_COLUMN = METRICS.index("seconds")
"""Column of the wall time in `metrics.csv` and in the history of a checkpoint."""


@dataclass(frozen=True)
class VerifyResult:
    """The result of `verify_resume`.

    Attributes:
        stops: steps after which the second run was stopped.
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
        stops: number of stops. There are fewer stops if the run has too few steps.

    Raises:
        UsageError: if the run has only one step.
    """
    uninterrupted, resumed = RunFolder(folder / "at-once"), RunFolder(folder / "with-stops")
    config = without_trackers(config)
    message("Training without a stop.")
    asked = steps = 0

    def count_step() -> int:  # training asks after each step, and also after the last epoch
        nonlocal asked
        asked += 1
        return 0

    def end_epoch(_folder: Path, _record: EpochRecord) -> None:
        nonlocal steps
        steps = asked

    callbacks = Callbacks(stop=count_step, epoch=end_epoch)
    (job,) = train_many([(config, uninterrupted)], device=device, threads=1, callbacks=callbacks)
    if job.error is not None:
        raise job.error
    if steps < 2:
        raise UsageError(
            "The training has only one step, so there is no step to stop after. Set training.epochs"
            " higher or training.batch_size lower."
        )
    rng = np.random.RandomState(config.seed % 2**32)
    stop_steps = sorted(1 + int(k) for k in rng.permutation(steps - 1)[:stops])
    done = 0
    for stop_step in (*stop_steps, None):
        calls, limit = itertools.count(1), math.inf if stop_step is None else stop_step - done

        def stop(calls: Iterator[int] = calls, limit: float = limit) -> int:
            return signal.SIGINT if next(calls) >= limit else 0

        try:
            train_many(
                [(config, resumed)],
                device=device,
                threads=1,
                resume=done > 0,
                callbacks=Callbacks(stop=stop),
            )
        except Interrupted:
            assert stop_step is not None
            message(f"Stopped after step {stop_step} of {steps}.")
            done = stop_step
    compared, difference = first_difference(uninterrupted, resumed)
    return VerifyResult(steps, tuple(stop_steps), compared, difference)


def first_difference(one: RunFolder, other: RunFolder) -> tuple[int, str | None]:
    """Compare the last checkpoints, the best checkpoints, the metrics, the forecasts and the
    attention weights of two runs bit by bit. Wall times are not compared.

    Returns:
        the number of tensors, values and files that were compared, and a description of the first
        difference, or None if there is no difference.
    """
    ours, theirs = _compared_values(one), _compared_values(other)
    for compared, name in enumerate(dict.fromkeys([*ours, *theirs]), 1):
        if name not in ours or name not in theirs:
            return compared, f"{name} is in one run only"
        a, b = ours[name], theirs[name]
        if (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()):
            continue
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "iuf":
            return compared, f"{name} differs"
        with np.errstate(invalid="ignore"):
            gaps = np.abs(a.astype(np.float64) - b.astype(np.float64))
        gap = float(gaps[np.isfinite(gaps)].max(initial=0))
        return compared, f"{name} differs by up to {gap:.3g}"
    return len(ours), None


def _compared_values(folder: RunFolder) -> dict[str, NDArray[Any]]:
    """Return everything that must be equal in two runs, by name. Values of the metadata are JSON
    texts, in which 0.0 is not -0.0."""
    metadata, found = load_checksummed(folder.last, VERSION)
    is_time = np.arange(found["history"].shape[1]) == SECONDS_COLUMN
    found["history"] = np.where(is_time, 0, found["history"])
    for key, value in metadata.items():
        if key != "seconds":
            found[key] = np.array(json.dumps(value, sort_keys=True))
    found[folder.best.name] = np.frombuffer(folder.best.read_bytes(), np.uint8)
    rows = [record.as_row()[:SECONDS_COLUMN] for record in folder.read_metrics()]
    found[folder.metrics.name] = np.array(rows)
    for path in (folder.predictions, folder.attention):
        if path.exists():
            found |= {f"{key} in {path.name}": array for key, array in read_arrays(path).items()}
    return found
