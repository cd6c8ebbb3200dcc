"""The check that a stopped and resumed run is bit-identical to an uninterrupted run."""

from __future__ import annotations

import itertools
import json
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments import Callbacks, train_many
from seqattn.experiments.trackers import without_trackers
from seqattn.runs import METRICS, RunFolder
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed
from seqattn.runs.storage import read_arrays

Arrays = Mapping[str, NDArray[Any]]
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
    (metadata, tensors), (other_metadata, other_tensors) = (
        load_checksummed(folder.last, VERSION) for folder in (one, other)
    )
    compared, difference = _first_array_difference(
        _without_wall_times(tensors), _without_wall_times(other_tensors), "one checkpoint"
    )
    if difference is not None:
        return compared, difference
    for key in sorted(metadata.keys() | other_metadata.keys()):
        if key != "seconds":
            compared += 1
            values = metadata.get(key), other_metadata.get(key)
            texts = [json.dumps(value, sort_keys=True) for value in values]  # 0.0 is not -0.0
            if texts[0] != texts[1]:
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
    paths = (one.predictions, other.predictions), (one.attention, other.attention)
    for path, other_path in paths:
        if path.exists() != other_path.exists():
            return compared, f"{path.name} is in one run only"
        if not path.exists():
            continue
        count, difference = _first_array_difference(
            read_arrays(path), read_arrays(other_path), f"one {path.name}", f" in {path.name}"
        )
        compared += count
        if difference is not None:
            return compared, difference
    return compared, None


def _without_wall_times(tensors: Arrays) -> Arrays:
    """Return the tensors of a checkpoint, with 0 for each wall time in the history."""
    return {
        name: np.where(np.arange(tensor.shape[1]) == SECONDS_COLUMN, 0, tensor)
        if name == "history" else tensor
        for name, tensor in tensors.items()
    }  # fmt: skip


def _first_array_difference(
    arrays: Arrays, other_arrays: Arrays, place: str, where: str = ""
) -> tuple[int, str | None]:
    """Compare arrays by name bit by bit; see `first_difference`. The message is "NAME is in PLACE
    only", or the name and `where`."""
    if unmatched := sorted(arrays.keys() ^ other_arrays.keys()):
        return 0, f"{unmatched[0]} is in {place} only"
    for compared, name in enumerate(sorted(arrays), 1):
        if (how := _difference(arrays[name], other_arrays[name])) is not None:
            return compared, f"{name}{where} differs{how}"
    return len(arrays), None


def _difference(a: NDArray[Any], b: NDArray[Any]) -> str | None:
    """Return how two arrays differ, as text after "differs", or None if all bits are equal."""
    if a.shape != b.shape:
        return " in shape"
    if a.dtype != b.dtype:
        return " in dtype"
    if a.tobytes() == b.tobytes():
        return None
    if a.dtype.kind not in "iuf":
        return ""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(a.astype(np.float64) - b.astype(np.float64))
    gap = float(gaps[np.isfinite(gaps)].max(initial=0))
    return f" by up to {gap:.3g}" if gap else " in the sign of a zero, in a NaN or in an infinity"
