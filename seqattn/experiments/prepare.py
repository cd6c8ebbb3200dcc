"""Preparation of jobs, which loads the data and the progress of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seqattn.config import Config, as_plain
from seqattn.data import Splits, fixed_shape, load_data
from seqattn.data.sequences import Integers
from seqattn.errors import DataError, NonFiniteError, UsageError
from seqattn.experiments.grouping import groups_without_checkpoints
from seqattn.experiments.job import Job
from seqattn.experiments.memory_estimate import check_memory, check_memory_of_runs
from seqattn.experiments.resume import check_same_rates, check_same_split, load_latest_checkpoint
from seqattn.experiments.starting_point import with_shared_scaling, with_starting_points
from seqattn.runs import RunFolder, check_folder_available, check_summary
from seqattn.training import RunState


def prepare_jobs(
    configs: Sequence[tuple[Config, RunFolder]], *, resume: bool, overwrite: bool = False
) -> list[Job]:
    """Load the data of each run, and the progress of each run if `resume` is true. Runs with the
    same section `data` share the data.

    Args:
        configs: each config with its run folder.
        resume: whether to continue existing runs.
        overwrite: whether to replace existing runs.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    splits: dict[str, Splits] = {}
    jobs = []
    for config, folder in configs:
        # The scaling of the other run replaces the scaling that would be fitted to these data.
        fits_scaling = config.training.start_from is None
        key = repr((config.data, fits_scaling))
        if key not in splits:
            splits[key] = load_data(config.data, fits_scaling=fits_scaling)
        if fixed_shape(config.data) is None:
            check_memory(config, splits[key])
        replaces = overwrite and folder.is_run
        job = Job(config, folder, splits[key], resume, replaces)
        check_fixed_lengths(config, job.data)
        _check_sequence_lengths(job)
        jobs.append(_load_progress(job) if resume else job)
    return with_shared_scaling(with_starting_points(jobs))


def groups_to_train(
    configs: Sequence[tuple[Config, RunFolder]],
) -> list[list[tuple[Config, RunFolder]]]:
    """Return the groups of the runs that have epochs left, for machines that have no checkpoints.

    Runs with results are left out.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    for _, folder in configs:
        check_folder_available(folder, resume=True, overwrite=False)
    check_memory_of_runs([config for config, _ in configs])
    jobs = prepare_jobs(configs, resume=True)
    return [
        [(job.config, job.folder) for job in group] for group in groups_without_checkpoints(jobs)
    ]


def check_fixed_lengths(config: Config, data: Splits) -> None:
    """Check that the data have the fixed lengths that `model.skip: linear` needs.

    All sources must have equal lengths, and all targets must have equal lengths.

    Raises:
        DataError: if `model.skip` is `linear`, and the lengths of sources or the lengths of targets
            differ.
    """
    if config.model.skip == "none":
        return
    parts = (data.train, data.validation, data.test)
    source = _length_range([part.source_lengths for part in parts], data.train.source_steps)
    target = _length_range([part.target_lengths for part in parts], data.train.target_steps)
    if source[0] == source[1] and target[0] == target[1]:
        return
    raise DataError(
        "model.skip: linear needs one length for all sources and one length for all targets,"
        f" because its map has a weight for each point. Here, sources have {_words(*source)}"
        f" points and targets {_words(*target)}. Cut all sequences to equal lengths (data.window"
        " of a file), generate equal lengths (data.variable_length: false, no data.min_...), or"
        " set model.skip: none."
    )


def _length_range(lengths: Sequence[Integers], array_length: int) -> tuple[int, int]:
    """Return the shortest and the longest length.

    Args:
        lengths: lengths of the sequences of each part.
        array_length: length of the arrays, for which the model is built. If all sequences have
            equal lengths, the array length is returned as the longest length.
    """
    every = np.concatenate(lengths)
    shortest, longest = int(every.min()), int(every.max())
    return shortest, array_length if shortest == longest else longest


def _words(shortest: int, longest: int) -> str:
    return f"{shortest} to {longest}" if shortest < longest else str(longest)


def _check_sequence_lengths(job: Job) -> None:
    """Check that the model has a position for each step of the longest sequence.

    Raises:
        UsageError: if the model cannot take sequences of this length.
    """
    longest, points = getattr(job.config.model, "longest", None), max(job.lengths)
    if longest is not None and points > longest:
        raise UsageError(
            f"model.longest is {longest}, but the data have sequences of {points} points: each"
            " point needs a learned position. Increase model.longest, or set model.positions:"
            " sinusoidal."
        )


def _load_progress(job: Job) -> Job:
    """Add the progress in the run folder to the job: the state from which training continues, and
    the summary of a finished run or the error of a diverged run.

    Raises:
        CheckpointError: if the run cannot be continued.
        ConfigError, DataError: see `load_latest_checkpoint`.
    """
    folder, config = job.folder, job.config
    environment = folder.read_environment() if folder.is_run else {}
    job = load_latest_checkpoint(replace(job, previous_environment=environment))
    state = job.state
    if state is None:
        return job
    if folder.summary.exists():
        summary = check_summary(folder, as_plain(config.model), config.seed)
        if not summary.get("diverged"):
            # A change of training.epochs can change why the run ended, and thus its summary.
            stopped_early = job.ending == "early stopping"
            if job.is_trained and summary["stopped_early"] == stopped_early:
                job = replace(job, summary=summary)
        elif (at := summary.get("diverged_at")) is None:
            # A non-finite test loss counts only if no epoch is left: with more epochs, the new
            # best epoch may have a finite test loss.
            if job.is_trained:
                job = replace(job, error=_error_of(folder, summary, state))
        elif at["epoch"] <= config.training.epochs:
            job = replace(job, error=_error_of(folder, summary, state))
    if job.error is None:
        check_same_rates(job)
        check_same_split(job)
    return job


def _error_of(folder: RunFolder, summary: Mapping[str, Any], state: RunState) -> NonFiniteError:
    """Return the error of a run that diverged in an earlier call.

    Such a run is not trained again: training is deterministic, so the run would diverge again.
    """
    at = summary.get("diverged_at") or {"epoch": None, "step": None}
    return NonFiniteError(
        f"{folder.path}: diverged after {state.epoch} complete epochs, and would diverge again:"
        f" {summary['diverged']} --overwrite trains the run from the beginning; to keep it, give"
        " the new run another --name.",
        at["epoch"],
        at["step"],
    )
