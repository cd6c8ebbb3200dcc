"""Where each run stands: its data, its checkpoint, or its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from seqattn.config import Config, OwnFile, as_plain
from seqattn.data import Splits, load_data
from seqattn.errors import NonFiniteError, UsageError
from seqattn.experiments.fixed_lengths import check_fixed_lengths
from seqattn.experiments.grouping import groups_without_checkpoints
from seqattn.experiments.job import Job
from seqattn.experiments.memory_estimate import check_memory, check_memory_of_runs
from seqattn.experiments.resume import check_same_rates, check_same_split, load_latest_checkpoint
from seqattn.runs import RunFolder, check_summary
from seqattn.training import RunState


def prepare_jobs(configs: Sequence[tuple[Config, RunFolder]], *, resume: bool) -> list[Job]:
    """Load the data and the progress of each run; runs of one data section share its data.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    splits: dict[str, Splits] = {}
    jobs = []
    for config, folder in configs:
        key = repr(config.data)
        if key not in splits:
            splits[key] = load_data(config.data)
        if isinstance(config.data, OwnFile):
            check_memory(config, splits[key])
        job = Job(config, folder, splits[key], resume)
        check_fixed_lengths(config, job.data)
        _check_sequence_lengths(job)
        jobs.append(_load_progress(job) if resume else job)
    return jobs


def groups_to_train(
    configs: Sequence[tuple[Config, RunFolder]],
) -> list[list[tuple[Config, RunFolder]]]:
    """The groups that `train_many` would train from the beginning, of runs without results.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    check_memory_of_runs([config for config, _ in configs])
    jobs = prepare_jobs(configs, resume=True)
    return [
        [(job.config, job.folder) for job in group] for group in groups_without_checkpoints(jobs)
    ]


def _check_sequence_lengths(job: Job) -> None:
    """Check that the model has a position for each point.

    Raises:
        UsageError: if the model cannot take sequences as long as these.
    """
    longest, points = getattr(job.config.model, "longest", None), max(job.lengths)
    if longest is not None and points > longest:
        raise UsageError(
            f"model.longest is {longest}, but the data have sequences of {points} points: each"
            " place needs a position of its own. Set it higher, or positions to sinusoidal."
        )


def _load_progress(job: Job) -> Job:
    """Add what the folder holds: a state to continue from, results, or the error of a divergence.

    Raises:
        CheckpointError: if the run cannot be continued.
    """
    folder, config = job.folder, job.config
    environment = folder.read_environment() if folder.is_run else {}
    job = load_latest_checkpoint(replace(job, environment=environment))
    state = job.state
    if state is None:
        return job
    if folder.summary.exists():
        summary = check_summary(folder, as_plain(config.model), config.seed)
        if not summary.get("diverged"):
            job = replace(job, summary=summary) if job.is_trained else job
        elif summary.get("diverged_at") or job.is_trained:
            # A divergence at the test loss counts only while no epoch is left: with more, another
            # best epoch may have a finite one.
            job = replace(job, error=_error_of(folder, summary, state))
    if job.error is None:
        check_same_rates(job)
        check_same_split(job)
    return job


def _error_of(folder: RunFolder, summary: Mapping[str, Any], state: RunState) -> NonFiniteError:
    """The error of a run that diverged before. Training is deterministic, so it is not repeated."""
    at = summary.get("diverged_at") or {"epoch": None, "step": None}
    return NonFiniteError(
        f"{folder.path}: diverged after {state.epoch} whole epochs, and would again:"
        f" {summary['diverged']} --overwrite trains it from the beginning; to keep it, give the new"
        " run another --name.",
        at["epoch"],
        at["step"],
    )
