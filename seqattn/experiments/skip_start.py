"""The initial map of `model.skip: linear`, which is fitted once for all runs with the same data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from seqattn.data.ridge import MAX_WORK, RidgeMap, ridge_map, ridge_work
from seqattn.experiments.job import Job
from seqattn.models import Seq2SeqModel


def fit_skip_maps(groups: Sequence[Sequence[Job]]) -> list[list[Job]]:
    """Fit the initial map of each new job whose linear skip starts from a map that ridge regression
    fits. A resumed job needs no fit, because its checkpoint contains the map.
    """
    fitted: dict[int, RidgeMap] = {}

    def fit(job: Job) -> Job:
        if job.state is not None or job.start is not None or not starts_at_map(job):
            return job
        data = job.data
        if id(data) not in fitted:
            fitted[id(data)] = ridge_map(data.baseline_part, data.validation, data.scaling)
        return replace(job, skip_map=fitted[id(data)])

    return [[fit(job) for job in group] for group in groups]


def build_initial_model(job: Job) -> Seq2SeqModel:
    """Build the model, and draw its initial weights with the seed, or use the weights of the job's
    starting point. If the linear skip starts from a fitted map, it gets the weights of this map,
    and is frozen if `model.skip_map` is `frozen`.
    """
    model = job.new_model()
    if model.skip is not None and starts_at_map(job):
        model.skip.is_trainable = job.config.model.skip_map == "finetuned"
        if job.skip_map is not None:
            model.skip.set_weights(job.skip_map.weight, job.skip_map.bias)
    if job.start is not None:
        model.load_state_dict(job.start.weights)
    return model


def _has_fitted_map(job: Job) -> bool:
    model = job.config.model
    return model.skip == "linear" and model.skip_map != "learned"


def starts_at_map(job: Job) -> bool:
    """Return whether the linear skip of a new run starts from a fitted map instead of zero. The map
    may have been fitted for another run, from whose weights this run starts."""
    starts_from_run = job.config.training.start_from is not None
    return _has_fitted_map(job) and (
        starts_from_run or ridge_work(job.data.baseline_part) <= MAX_WORK
    )


def describe_skip_start(job: Job) -> str:
    """Return a line for the log about the initial map, or "" if there is nothing to report."""
    train, found = job.data.baseline_part, job.skip_map
    if found is not None:
        return (
            f"model.skip: linear starts at the ridge map of {len(train):,} training sequences,"
            f" penalty {found.penalty:g} of the mean eigenvalue: validation loss {found.loss:.6g}"
        )
    if not _has_fitted_map(job) or starts_at_map(job):
        return ""
    numbers = train.source_steps * len(train.features)
    most = math.floor((MAX_WORK * numbers**3 / ridge_work(train)) ** (1 / 3) + 1e-9)
    return (
        f"model.skip: linear starts at zero and is trained, because a source has {numbers:,}"
        f" numbers, and a ridge map of these data can have at most {most:,} inputs. Shorten the"
        " source, or set model.skip_map: learned."
    )
