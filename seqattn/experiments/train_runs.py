"""Train configs into run folders, side by side where their shapes match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from seqattn.config import Config, to_yaml
from seqattn.data.baselines import forecast_mse
from seqattn.errors import FolderLockedError, UsageError
from seqattn.experiments import tensorboard, worker
from seqattn.experiments.group_training import Compute, train_group
from seqattn.experiments.grouping import grouped
from seqattn.experiments.job import Callbacks, Job, Launch, raise_if_stopped
from seqattn.experiments.prepare import check_sizes, prepared
from seqattn.experiments.run_environment import change_of_numerics, choose_device, environment
from seqattn.experiments.sizes import bytes_of_checkpoints
from seqattn.experiments.skip_start import share_skip_map, with_skip_maps
from seqattn.runs import RunFolder, check_not_taken
from seqattn.runs.storage import (
    allow_open_files,
    atomic_write,
    check_free_space,
    exclusive_lock,
    read_file,
    write_json,
    write_transaction,
)
from seqattn.training import ProcessGroup


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
    """Train what a config describes and leave a complete run folder, `output_dir / config.name`.

    The arguments are those of `train_many`, and nothing is written before all is found usable.

    Returns:
        the folder, and the content of its summary.json.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
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
    """Train many configs, side by side where they share a shape; each leaves its own run folder.

    Nothing is written before configs, data, device and folders were all found to be usable.

    Args:
        configs: what to train, and the folder it goes to.
        device: "cpu", "cuda" or "auto".
        threads: for torch's operations on the CPU; None measures a few steps.
        resume: go on with the runs that are there.
        overwrite: replace the runs that are there.
        plots: draw each run's pictures.
        callbacks: who watches.
        launch: what started the runs.

    Returns:
        a job for each config, in their order, with its summary, or with the `NonFiniteError` of a
        run that diverged, which ends none of the others.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
    """
    callbacks, launch = callbacks or Callbacks(), launch or Launch()
    with FolderLocks() as locks:
        if launch.processes is not None:
            locks.enter_context(launch.processes.beginning())
        chosen = choose_device(device)
        jobs, groups = _checked(configs, locks, launch, resume=resume, overwrite=overwrite)
        launch.before_writing()
        _report_finished(jobs, callbacks)
        if groups:
            compute = Compute(chosen, threads, _environment(chosen, launch), launch.processes)
            todo = [job for job in jobs if job.is_to_do]
            locks.lock_new(job.folder for job in todo)
            _prepare_folders(todo, compute, callbacks, overwrite=overwrite)
            groups = [_train(group, compute, callbacks) for group in groups]
            jobs = _in_order_of(jobs, groups)
        for job in jobs if plots else ():
            if job.summary is not None:
                _draw_missing_pictures(job, callbacks)
    return jobs


class FolderLocks(ExitStack):
    """Locks of run folders, held until the block ends."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[Path] = set()

    def lock_existing(self, folders: Iterable[RunFolder]) -> None:
        """Lock the folders that already hold a run.

        Raises:
            FolderLockedError: another process writes there.
        """
        for folder in folders:
            if folder.is_run:
                self.enter_context(exclusive_lock(folder.path))
                self.held.add(folder.path)

    def lock_new(self, folders: Iterable[RunFolder]) -> None:
        """Make and lock the folders that are not locked yet.

        Raises:
            FolderLockedError: another process was faster.
        """
        for folder in folders:
            if folder.path in self.held:
                continue
            folder.path.mkdir(parents=True, exist_ok=True)
            self.enter_context(exclusive_lock(folder.path))
            self.held.add(folder.path)
            if not folder.is_available:
                raise FolderLockedError(
                    f"{folder.path}: another process has begun to write there just now."
                )


def _checked(
    configs: Sequence[tuple[Config, RunFolder]],
    locks: FolderLocks,
    launch: Launch,
    *,
    resume: bool,
    overwrite: bool,
) -> tuple[list[Job], list[list[Job]]]:
    """Find out where each run stands, and refuse what cannot be trained; nothing is written.

    Returns:
        a job for each config, in their order, and those to train, in groups.
    """
    if len({folder.path for _, folder in configs}) < len(configs):
        raise UsageError("each run needs a folder of its own, and two of these name the same.")
    for config, folder in configs:
        check_not_taken(folder, resume=resume, overwrite=overwrite)
        tensorboard.require_tensorboard(config)
    check_sizes(configs)
    allow_open_files(len(configs))  # a lock each
    locks.lock_existing(folder for _, folder in configs)
    jobs = prepared(configs, resume=resume)
    groups = grouped(jobs)
    if launch.processes is not None:
        _agree(launch.processes, jobs)
    groups = _with_skip_maps(groups, launch.processes)
    todo = [job for group in groups for job in group]
    check_free_space({job.folder.path: bytes_of_checkpoints(job) for job in todo})
    return _in_order_of(jobs, groups), groups


def _environment(device: torch.device, launch: Launch) -> dict[str, Any]:
    processes = {} if launch.processes is None else {"processes": launch.processes.size}
    return {**environment(device, launch.config_path), **launch.provenance, **processes}


def _train(group: Sequence[Job], compute: Compute, callbacks: Callbacks) -> list[Job]:
    trained = train_group(group, compute, callbacks)
    raise_if_stopped(callbacks, trained, "after training; --resume goes on from there")
    return trained


def _in_order_of(jobs: Sequence[Job], groups: Sequence[Sequence[Job]]) -> list[Job]:
    """The jobs, each replaced by the one of a group that has its folder."""
    newer = {job.folder.path: job for group in groups for job in group}
    return [newer.get(job.folder.path, job) for job in jobs]


def _with_skip_maps(
    groups: Sequence[Sequence[Job]], processes: ProcessGroup | None
) -> list[list[Job]]:
    fitted = with_skip_maps([job for group in groups for job in group])
    if processes is not None:
        fitted = [share_skip_map(processes, job) for job in fitted]
    return [_in_order_of(group, [fitted]) for group in groups]


def _prepare_folders(
    todo: Sequence[Job], compute: Compute, callbacks: Callbacks, *, overwrite: bool
) -> None:
    """Clear the folders, write config and environment of each run, and say where they stand."""
    _report_change_of_numerics(todo, compute.environment, callbacks)
    for job in todo:
        _clear(job, overwrite)
    with write_transaction():
        for job in todo:
            atomic_write(job.folder.config, to_yaml(job.config).encode())
            count = compute.threads or job.threads or 1
            write_json(job.folder.environment, {**compute.environment, "threads": count})
    for job in todo:
        if job.resumes_from_previous:  # else the next save would keep the discarded newer one
            job.folder.previous.replace(job.folder.last)
    if len(todo) == 1:
        callbacks.facts(_facts(todo[0]))
    done = sum(job.position[0] for job in todo)
    callbacks.begin(done, sum(job.config.training.epochs for job in todo))


def _clear(job: Job, overwrite: bool) -> None:
    """Remove from a folder what is no longer true once training goes on."""
    folder = job.folder
    if overwrite:
        folder.clear()
    folder.clear_results()
    if job.begins_again:
        folder.clear_training()
    elif job.skipped_checkpoints:  # else the next save would keep the broken one
        folder.previous.replace(folder.last)


def _report_finished(jobs: Sequence[Job], callbacks: Callbacks) -> None:
    trained = [job for job in jobs if job.summary is not None]
    diverged = sum(job.error is not None for job in jobs)
    if len(jobs) == 1:
        if summary := jobs[0].summary:
            callbacks.say(
                f"{jobs[0].folder.path}: is trained to epoch {summary['epochs']} already."
            )
        return
    if trained and len(trained) < len(jobs):
        callbacks.say(f"{len(trained)} of {len(jobs)} runs are trained already.")
    if diverged:
        callbacks.say(f"{diverged} of {len(jobs)} runs diverged before, and are not trained again.")


def _report_change_of_numerics(
    todo: Sequence[Job], about: Mapping[str, Any], callbacks: Callbacks
) -> None:
    """Log, and say once, that runs go on where numbers are rounded differently."""
    changes = dict[str, None]()
    for job in todo:
        if job.state is None:
            continue
        if change := change_of_numerics(job.folder.read_environment(), about):
            job.folder.log_line(change)
            changes[change] = None
    for change in changes:
        callbacks.say(change)


def _agree(processes: ProcessGroup, jobs: Sequence[Job]) -> None:
    """Check that all processes train the same config and data, and send them the checkpoint.

    Raises:
        DistributedError: they have something else.
    """
    (job,) = jobs
    worker.check_can_be_distributed(job.config)
    processes.compare(worker.config_fingerprint(job.config), worker.data_fingerprint(job.data))
    if not job.is_to_do:
        processes.broadcast(worker.TRAINED)
    elif job.state is None:
        processes.broadcast(b"")
    else:
        taken = job.folder.previous if job.skipped_checkpoints else job.folder.last
        processes.broadcast(read_file(taken))


def _facts(job: Job) -> dict[str, Any]:
    """Context for the display of a single run."""
    part, floor = job.data.validation, None
    if part.ideal is not None:
        floor = forecast_mse(part.ideal, part, job.data.scaling.target.scale)
    return {"seed": job.config.seed, "noise_floor": floor}


def _draw_missing_pictures(job: Job, callbacks: Callbacks) -> None:
    folder, where = job.folder, "; --resume draws the pictures that are missing"
    drawn = [folder.loss_picture, folder.predictions_picture]
    drawn += [folder.attention_picture] if folder.attention.exists() else []
    if not all(picture.exists() for picture in drawn):
        raise_if_stopped(callbacks, [job], where)
        from seqattn.plots import run_pictures  # matplotlib is slow to import and not needed before

        for path in run_pictures.draw_each(folder):
            raise_if_stopped(
                callbacks, [job], "; nothing is missing" if path == drawn[-1] else where
            )
