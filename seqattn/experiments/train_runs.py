"""Training of models from configs. Runs that can share every step are trained side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqattn.config import Config
from seqattn.errors import NonFiniteError, UsageError
from seqattn.experiments.distributed import share_start
from seqattn.experiments.group_training import Resources, train_group
from seqattn.experiments.grouping import group_jobs
from seqattn.experiments.job import Callbacks, Job, Launch, raise_if_stopped
from seqattn.experiments.memory_estimate import check_memory_of_runs
from seqattn.experiments.prepare import fit_skip_maps, prepare_jobs, with_starting_points
from seqattn.experiments.run_environment import choose_device, collect_environment
from seqattn.experiments.run_folders import (
    NOTHING_MISSING,
    FolderLocks,
    draw_missing_pictures,
    log_rounding_changes,
    prepare_folders,
)
from seqattn.experiments.trackers import check_trackers
from seqattn.experiments.workers import reason_for_one_process, train_in_workers, worker_count
from seqattn.runs import COMPARISON, PAGE, SEARCH, RunFolder, check_folder_available
from seqattn.runs.storage import allow_open_files, folder_lock
from seqattn.training.threads import restore_thread_count

RESUME_HINT = " after training; --resume continues from there"
STOPPED_HINT = "; to continue, use --resume with the same config and --set"


def train_one(
    config: Config,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = 1,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Callbacks | None = None,
    plots: bool = True,
) -> tuple[RunFolder, dict[str, Any]]:
    """Train a model for one config in the run folder `output_dir / config.name`.

    For the other arguments, see `train_many`. By default, this function uses one thread and draws
    the pictures.

    Returns:
        the run folder, and the content of its `summary.json`.

    Raises:
        NonFiniteError: if the run diverged.
    """
    (job,) = train_many(
        [(config, RunFolder(output_dir / config.name))],
        device=device, threads=threads, resume=resume, overwrite=overwrite, plots=plots,
        callbacks=callbacks,
    )  # fmt: skip
    if job.error is not None:
        raise job.error
    assert job.summary is not None
    return job.folder, job.summary


def train_many(
    configs: Sequence[tuple[Config, RunFolder]],
    *,
    device: str = "cpu",
    threads: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    plots: bool = False,
    callbacks: Callbacks | None = None,
    launch: Launch | None = None,
) -> list[Job]:
    """Train a model for each config in its run folder.

    Runs that can share every step are trained side by side; see `group_jobs`. The configs, data,
    device and folders are checked before the first file is written. Torch's number of threads is
    restored at the end.

    Args:
        threads: number of threads that torch uses on the CPU; None to choose the number
            automatically. With None, a resumed run keeps its number of threads.
        overwrite: whether to replace existing runs. The files of an existing run remain until the
            first save of the new run.

    Returns:
        a job for each config, in the same order. Each job contains a summary, or the
        `NonFiniteError` of a run that diverged. If one run diverges, the other runs continue.
    """
    callbacks, launch = callbacks or Callbacks(), launch or Launch()
    startup = nullcontext() if launch.processes is None else launch.processes.startup()
    with startup, FolderLocks() as locks, restore_thread_count():
        chosen = choose_device(device)
        jobs, groups = _check_and_group(configs, locks, launch, resume=resume, overwrite=overwrite)
        launch.before_writing()
        _show_ended_runs(jobs, callbacks)
        if pending := [job for job in jobs if job.is_pending]:
            shared = {**collect_environment(chosen, launch.config_path), **launch.provenance}
            if launch.processes is not None:
                shared["processes"] = launch.processes.size
            if threads is not None:
                shared["threads"] = threads
            resources = Resources(chosen, threads, shared, launch.processes)
            locks.lock_new(job.folder for job in pending)
            log_rounding_changes(jobs, resources.environment, callbacks)
            prepare_folders(pending, resources.environment)
            _begin_progress(pending, callbacks)
            jobs = _replace_jobs(jobs, _train_groups(groups, resources, callbacks, launch.workers))
            has_pictures_to_draw = plots and any(job.summary is not None for job in jobs)
            hint = RESUME_HINT if has_pictures_to_draw else NOTHING_MISSING
            raise_if_stopped(callbacks, groups[-1], hint)
        if plots:
            draw_missing_pictures(jobs, callbacks)
    return jobs


def _check_and_group(
    configs: Sequence[tuple[Config, RunFolder]],
    locks: FolderLocks,
    launch: Launch,
    *,
    resume: bool,
    overwrite: bool,
) -> tuple[list[Job], list[list[Job]]]:
    """Check everything that can be checked before the first write. Return a job for each config, in
    the same order, and the groups of the pending jobs."""
    if len({folder.path for _, folder in configs}) < len(configs):
        raise UsageError(
            "each run needs its own folder, but two of these runs have the same folder."
        )
    for config, folder in configs:
        check_folder_available(folder, resume=resume, overwrite=overwrite)
        check_trackers(config)
    check_memory_of_runs([config for config, _ in configs])
    allow_open_files(len(configs))  # one lock for each run
    locks.lock_existing(folder for _, folder in configs)
    jobs = prepare_jobs(configs, resume=resume, overwrite=overwrite)
    groups = fit_skip_maps([with_starting_points(group) for group in group_jobs(jobs)])
    jobs = _replace_jobs(jobs, groups)
    if launch.processes is not None:
        (job,) = jobs
        share_start(launch.processes, job)
    return jobs, groups


def _train_groups(
    groups: Sequence[Sequence[Job]],
    resources: Resources,
    callbacks: Callbacks,
    workers: int | None,
) -> list[list[Job]]:
    if (count := worker_count(groups, resources, workers)) > 1:
        trained = train_in_workers(groups, resources, callbacks, count)
        pending = [job for group in trained for job in group if job.is_pending]
        raise_if_stopped(callbacks, pending, STOPPED_HINT + _describe_replaced(pending))
        return trained
    if workers is not None and workers > 1 and sum(map(len, groups)) > 1:
        reason = reason_for_one_process(groups, resources)
        callbacks.message(f"{workers} workers were requested, but none is started: {reason}.")
    trained = []
    for k, group in enumerate(groups):
        if trained:
            left = [job for later in groups[k:] for job in later]
            raise_if_stopped(callbacks, trained[-1], RESUME_HINT + _describe_replaced(left))
        trained.append(train_group(group, resources, callbacks))
    return trained


def _describe_replaced(jobs: Sequence[Job]) -> str:
    """Return the end of a sentence about unfinished runs, some of which may still be the earlier
    runs that they should replace; "" if none replaces a run."""
    if not any(job.replaces for job in jobs):
        return ""
    return (
        "; runs that had not started are still the earlier ones, and only --overwrite trains them"
    )


def _replace_jobs(jobs: Sequence[Job], groups: Sequence[Sequence[Job]]) -> list[Job]:
    """Replace each job with the job in `groups` that has the same run folder, if there is one."""
    newer = {job.folder.path: job for group in groups for job in group}
    return [newer.get(job.folder.path, job) for job in jobs]


def _show_ended_runs(jobs: Sequence[Job], callbacks: Callbacks) -> None:
    stopped = sum(
        bool(job.summary and job.summary["stopped_early"])
        and job.config.training.epochs > job.previous_epochs
        for job in jobs
    )
    if stopped:
        path = jobs[0].folder.path if len(jobs) == 1 else jobs[0].folder.path.parent
        callbacks.message(
            f"{stopped} of {len(jobs)} runs stopped early (training.early_stopping) and do not"
            " continue. To train the best weights further, start another run: --name NAME --set"
            f" training.start_from={shlex.quote(str(path))}"
        )
    trained = sum(job.summary is not None for job in jobs)
    diverged = sum(job.error is not None for job in jobs)
    if len(jobs) == 1:
        if summary := jobs[0].summary:
            callbacks.message(
                f"{jobs[0].folder.path}: is already trained to epoch {summary['epochs']}."
            )
        return
    if 0 < trained < len(jobs):
        callbacks.message(f"{trained} of {len(jobs)} runs are already trained.")
    if diverged:
        callbacks.message(
            f"{diverged} of {len(jobs)} runs diverged in an earlier call and are not trained again."
        )


def _begin_progress(pending: Sequence[Job], callbacks: Callbacks) -> None:
    finished = sum(job.position[0] for job in pending)
    epochs = sum(job.config.training.epochs for job in pending)
    callbacks.begin(finished, epochs, len(pending))


# --- several seeds of one config ------------------------------------------------------------------


MAX_SEED = 2**63 - 1
"""The largest seed that a config accepts."""
LOCK_TIMEOUT_SECONDS = 5.0
"""Maximum time in seconds to wait for another process that creates folders of seeds."""


@dataclass(frozen=True)
class SeedFolder(RunFolder):
    """The run folder of one of several seeds."""

    def clear_results(self) -> None:
        """Remove the files that are written after training. If there are results, also remove the
        report of all seeds, which shows these results."""
        if self.summary.exists():
            (self.path.parent / PAGE).unlink(missing_ok=True)
        super().clear_results()


def seeds_of(config: Config, parent: Path, seeds: int) -> list[tuple[Config, RunFolder]]:
    """Return a config and the run folder `parent / seed-K` for each seed from `config.seed` on.

    Raises:
        UsageError: if `parent` is the folder of a run, a comparison or a search, or if a seed would
            be above the largest seed.
    """
    _check_home(parent)
    if config.seed + seeds - 1 > MAX_SEED:
        raise UsageError(
            f"seed {config.seed} leaves no room for {seeds} seeds. The largest seed is {MAX_SEED}."
        )
    return [
        (config.model_copy(update={"seed": seed}), SeedFolder(parent / f"seed-{seed}"))
        for seed in range(config.seed, config.seed + seeds)
    ]


def create_seed_folders(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Create the run folders of the seeds. Their parent is locked only for this, so that several
    processes can train different seeds in it."""
    parent = configs[0][1].path.parent
    parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(parent, LOCK_TIMEOUT_SECONDS):
        _check_home(parent)
        for _, folder in configs:
            folder.path.mkdir(exist_ok=True)


def _check_home(parent: Path) -> None:
    kinds = {"a comparison": parent / COMPARISON, "a search": parent / SEARCH}
    found = [kind for kind, mark in kinds.items() if mark.exists()]
    if RunFolder(parent).is_run:
        found.append("a single run")
    if found:
        raise UsageError(
            f"{parent}: is the folder of {found[0]}; several seeds need a separate folder."
            " Choose another --name."
        )


def combined_error(jobs: Sequence[Job], *, are_seeds: bool) -> NonFiniteError | None:
    """Combine the errors of runs that diverged into one error, which names the seeds of several
    runs; None if no run diverged."""
    errors = {job.config.seed: job.error for job in jobs if job.error is not None}
    if not errors:
        return None
    first = next(iter(errors.values()))
    if not are_seeds:
        return first
    seeds = ", ".join(map(str, errors))
    if len(errors) == 1:
        return NonFiniteError(f"seed {seeds}: {first}")
    if len(errors) == len(jobs):
        return NonFiniteError(f"all {len(jobs)} seeds diverged. The first: {first}")
    return NonFiniteError(f"seeds {seeds} diverged; the others are finished. The first: {first}")
