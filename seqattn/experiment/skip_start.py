"""The map of `model.skip: linear` before training: fitted once for all runs of the same data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqattn.data.ridge import MAX_WORK, RidgeMap, ridge_map, work_of
from seqattn.experiment.job import Job
from seqattn.models import LinearSkip
from seqattn.training import ProcessGroup


def start_skips(jobs: Sequence[Job], *, fit: bool = True) -> None:
    """Give each linear skip its map, and freeze it where `model.skip_map` says so. A run that goes
    on has its map from its checkpoint, and is not fitted again.

    Args:
        fit: False only freezes; the map comes from another process.
    """
    fitted: dict[int, RidgeMap] = {}
    for job in jobs:
        skip, data, train = _fitted_skip(job), job.data, job.data.baseline_part
        if skip is None:
            continue
        if work_of(train) > MAX_WORK:
            job.start = _too_large(train.source_steps * len(train.features), train.masks_targets)
            continue
        skip.trained = job.config.model.skip_map == "finetuned"
        if job.state is not None or not fit:
            continue
        if id(data) not in fitted:
            fitted[id(data)] = ridge_map(train, data.validation, data.scaling)
        found = fitted[id(data)]
        skip.start_at(found.weight, found.bias)
        job.start = (
            f"model.skip: linear starts at the ridge map of {len(train):,} training sequences,"
            f" penalty {found.penalty:g} of the mean eigenvalue: validation loss {found.loss:.6g}"
        )


def share_map(world: ProcessGroup, job: Job) -> None:
    """Give all processes the map that the first has fitted: another machine may round otherwise.

    Raises:
        DistributedError: one of them is lost.
    """
    skip = _fitted_skip(job)
    if skip is None or job.state is not None:
        return
    tensors = (skip.weight, skip.bias)
    own = b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)
    numbers = np.frombuffer(world.broadcast(own), dtype=np.float32).copy()
    weight, bias = np.split(numbers, [skip.weight.numel()])
    skip.start_at(weight.reshape(skip.weight.shape), bias.reshape(skip.bias.shape))


def _fitted_skip(job: Job) -> LinearSkip | None:
    """The skip of a job, if its map is not learned from zero."""
    if job.model is None or job.config.model.skip_map == "learned":
        return None
    return job.model.skip


def _too_large(numbers: int, masked: bool) -> str:
    most = round(MAX_WORK ** (1 / 3))
    cells = " in one system for all target cells (here some are empty, so each has its own)"
    return (
        f"model.skip: linear starts at zero and is trained: a source has {numbers:,} numbers, and a"
        f" ridge map is fitted to {most:,} at most{cells if masked else ''}. Shorten the source, or"
        " set model.skip_map: learned."
    )
