"""A config becomes a finished run folder; many become many, trained side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from seqattn.config import Config, OwnFile, as_plain, to_yaml
from seqattn.data import Splits, load
from seqattn.errors import FolderLockedError, NonFiniteError, UsageError
from seqattn.evaluation import References
from seqattn.experiment import tensorboard, worker
from seqattn.experiment.fixed_lengths import check_fixed_lengths
from seqattn.experiment.group_training import train_group
from seqattn.experiment.grouping import grouped, grouped_anew
from seqattn.experiment.job import Callbacks, Job, raise_if_stopped
from seqattn.experiment.load_run import data_of, open_run, without_paths
from seqattn.experiment.resume import check_same_rates, check_same_split, load_latest_checkpoint
from seqattn.experiment.run_environment import change_of_numerics, choose_device, environment
from seqattn.experiment.sizes import (
    bytes_of_checkpoints,
    check_data_fits,
    check_memory,
    estimate_run_memory,
    memory_budget,
)
from seqattn.experiment.skip_start import share_map, start_skips
from seqattn.experiment.worker import follow
from seqattn.runs import COMPARISON, SEARCH, RunFolder, check_not_taken, check_summary
from seqattn.storage import (
    allow_open_files,
    atomic_write,
    check_free_space,
    exclusive_lock,
    locked,
    read_file,
    write_json,
    write_transaction,
)
from seqattn.training import ProcessGroup, TrainState

PATIENCE = 5.0
"""Seconds to wait for another process that makes folders of seeds."""


def run(
    config: Config,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = 1,
    resume: bool = False,
    overwrite: bool = False,
    config_path: Path | None = None,
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
        config_path=config_path, callbacks=callbacks,
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
    config_path: Path | None = None,
    callbacks: Callbacks | None = None,
    before_writing: Callable[[], None] = lambda: None,
    provenance: Mapping[str, Any] | None = None,
    world: ProcessGroup | None = None,
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
        config_path: where the configs came from, for their git revision.
        before_writing: called once everything is found usable.
        provenance: for environment.json: the command, and where values of the config are from.
        world: the processes that share the training of one config; this is the first of them.

    Returns:
        a job for each config, in their order, with its summary, or with the `NonFiniteError` of a
        run that diverged, which ends none of the others.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
    """
    callbacks = callbacks or Callbacks()
    with world.beginning() if world is not None else contextlib.nullcontext():
        return _train_many(
            configs, choose_device(device), threads, callbacks, before_writing, provenance or {},
            world, resume=resume, overwrite=overwrite, plots=plots,
            config_path=config_path,
        )  # fmt: skip


def _train_many(
    configs: Sequence[tuple[Config, RunFolder]],
    chosen: torch.device,
    threads: int | None,
    callbacks: Callbacks,
    before_writing: Callable[[], None],
    provenance: Mapping[str, Any],
    world: ProcessGroup | None,
    *,
    resume: bool,
    overwrite: bool,
    plots: bool,
    config_path: Path | None,
) -> list[Job]:
    for config, folder in configs:
        check_not_taken(folder, resume=resume, overwrite=overwrite)
        tensorboard.require_tensorboard(config)
    _refuse_too_large(configs)
    allow_open_files(len(configs))  # a lock each
    with ExitStack() as held:
        holding = set[Path]()
        for _, folder in configs:
            if folder.is_run:  # else there is nothing yet to hold
                held.enter_context(exclusive_lock(folder.path))
                holding.add(folder.path)
        jobs = _prepared(configs, resume=resume)
        groups = list(grouped(jobs))
        todo = [job for job in jobs if job.is_to_do]
        if world is not None:
            _agree(world, jobs)
        start_skips(todo)
        for job in todo if world is not None else ():
            assert world is not None
            share_map(world, job)
        check_free_space({job.folder.path: bytes_of_checkpoints(job) for job in todo})
        before_writing()
        _say_what_has_ended(jobs, callbacks)
        if todo:
            about = {**environment(chosen, config_path), **provenance}
            if world is not None:
                about["processes"] = world.size
            for job in todo:
                if job.folder.path not in holding:
                    _acquire_lock(job.folder, held)
            _say_what_changed(todo, about, callbacks)
            _begin(todo, about, threads, overwrite=overwrite)
            for job in todo:
                if (
                    job.resumes_from_previous
                ):  # else the next save would keep the one that it is behind
                    job.folder.previous.replace(job.folder.last)
            if len(todo) == 1:
                callbacks.facts(_facts(todo[0]))
            done = sum(job.state.epoch for job in todo if job.state is not None)
            callbacks.begin(done, sum(job.config.training.epochs for job in todo))
            for group in groups:
                train_group(group, chosen, threads, resume, callbacks, about, world)
                raise_if_stopped(callbacks, group, "after training; --resume goes on from there")
        if plots:
            for job in jobs:
                if job.summary is not None:
                    _draw_what_is_missing(job, callbacks)
    return jobs


def _say_what_has_ended(jobs: Sequence[Job], callbacks: Callbacks) -> None:
    trained = [job for job in jobs if job.summary is not None]
    diverged = sum(job.error is not None for job in jobs)
    if len(jobs) == 1:
        for job in trained:
            epochs = (job.summary or {})["epochs"]
            callbacks.say(f"{job.folder.path}: is trained to epoch {epochs} already.")
        return
    if trained and len(trained) < len(jobs):
        callbacks.say(f"{len(trained)} of {len(jobs)} runs are trained already.")
    if diverged:
        callbacks.say(f"{diverged} of {len(jobs)} runs diverged before, and are not trained again.")


def _say_what_changed(todo: Sequence[Job], about: Mapping[str, Any], callbacks: Callbacks) -> None:
    """In the logs, and once for people: that runs go on where numbers are rounded differently."""
    said = dict[str, None]()
    for job in todo:
        if job.state is not None and (
            words := change_of_numerics(job.folder.read_environment(), about)
        ):
            job.folder.say(words)
            said[words] = None
    for words in said:
        callbacks.say(words)


def groups_of(configs: Sequence[tuple[Config, RunFolder]]) -> list[list[tuple[Config, RunFolder]]]:
    """What `train_many` would train side by side from the beginning, of what is not trained yet.

    Raises:
        SeqattnError: what a user can mend.
    """
    _refuse_too_large(configs)
    jobs = _prepared(configs, resume=True)
    return [[(job.config, job.folder) for job in group] for group in grouped_anew(jobs)]


def _refuse_too_large(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Each size once, of which many seeds are."""
    for config in {repr((c.data, c.model, c.training.batch_size)): c for c, _ in configs}.values():
        check_memory(config)
    check_data_fits([config for config, _ in configs])


def _prepared(configs: Sequence[tuple[Config, RunFolder]], *, resume: bool) -> list[Job]:
    """Where each run stands; data that several have are made or read once."""
    parts: dict[str, Splits] = {}
    jobs = []
    for config, folder in configs:
        key = repr(config.data)
        if key not in parts:
            parts[key] = load(config.data)
        if isinstance(config.data, OwnFile):
            check_memory(config, parts[key])
        jobs.append(_prepare(config, folder, parts[key], resume=resume))
    return jobs


def _agree(world: ProcessGroup, jobs: Sequence[Job]) -> None:
    """Hold what is to be trained against what the other processes have, and tell them where.

    Raises:
        DistributedError: they have something else.
    """
    (job,) = jobs
    worker.check_can_be_distributed(job.config)
    world.compare(worker.config_fingerprint(job.config), worker.data_fingerprint(job.data))
    if not job.is_to_do:
        world.broadcast(worker.TRAINED)
    elif job.state is None:
        world.broadcast(b"")
    else:
        taken = job.folder.previous if job.skipped_checkpoints else job.folder.last
        world.broadcast(read_file(taken))


def _facts(job: Job) -> dict[str, Any]:
    """What somebody who watches a single run may want to read its losses by."""
    part, scaling = job.data.validation, job.data.scaling
    floor = None if part.ideal is None else References.of(
        part, job.data.train, None, scaling).noise_floor  # fmt: skip
    return {"seed": job.config.seed, "noise_floor": floor}


def _acquire_lock(folder: RunFolder, held: ExitStack) -> None:
    """Make a new run's folder and hold it, unless somebody was faster."""
    folder.path.mkdir(parents=True, exist_ok=True)
    held.enter_context(exclusive_lock(folder.path))
    if not folder.is_available:
        raise FolderLockedError(
            f"{folder.path}: another process has begun to write there just now."
        )


def _begin(
    todo: Sequence[Job], about: dict[str, Any], threads: int | None, *, overwrite: bool
) -> None:
    """Make room in the folders, and write down what each run is."""
    for job in todo:
        folder = job.folder
        if overwrite:
            folder.clear()
        folder.clear_results()
        if job.begins_again:
            folder.clear_training()
        elif job.skipped_checkpoints:  # a broken file must not be what the next save keeps
            folder.previous.replace(folder.last)
    with write_transaction():
        for job in todo:
            atomic_write(job.folder.config, to_yaml(job.config).encode())
            count = threads or job.threads or 1
            write_json(job.folder.environment, {**about, "threads": count})


def seeds_of(config: Config, home: Path, seeds: int) -> list[tuple[Config, RunFolder]]:
    """A config with `seeds` seeds from its own on, each with its folder `home / seed-K`.

    Raises:
        UsageError: `home` is a run, a comparison or a search.
    """
    _refuse_home(home)
    return [
        (config.model_copy(update={"seed": seed}), RunFolder(home / f"seed-{seed}"))
        for seed in range(config.seed, config.seed + seeds)
    ]


def begin_seeds(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Make the folders of seeds, all in one. Each is held by who trains it; the one they are in is
    held only here, so that processes may train other seeds there, but compare or search nothing.

    Raises:
        UsageError: it is a run, a comparison or a search.
        FolderLockedError: another process trains a run there, compares or searches.
    """
    home = configs[0][1].path.parent
    home.mkdir(parents=True, exist_ok=True)
    with locked(home, PATIENCE):
        _refuse_home(home)
        for _, folder in configs:
            folder.path.mkdir(exist_ok=True)


def _refuse_home(home: Path) -> None:
    kinds = {"a comparison": home / COMPARISON, "a search": home / SEARCH}
    found = [kind for kind, mark in kinds.items() if mark.exists()]
    found += ["a single run"] if RunFolder(home).is_run else []
    if found:
        raise UsageError(
            f"{home}: is the folder of {found[0]}; many seeds need one of their own. Choose another"
            " --name."
        )


def combined_error(failed: Sequence[Job], runs: int) -> NonFiniteError:
    """One error for runs that diverged.

    Args:
        runs: how many there are with those that did not.
    """
    first = failed[0]
    assert first.error is not None
    if len(failed) == 1:
        return NonFiniteError(f"seed {first.config.seed}: {first.error}")
    if len(failed) == runs:
        return NonFiniteError(f"all {runs} seeds diverged. The first: {first.error}")
    seeds = ", ".join(str(job.config.seed) for job in failed)
    return NonFiniteError(
        f"seeds {seeds} diverged; the others are finished. The first: {first.error}"
    )


def _prepare(config: Config, folder: RunFolder, data: Splits, *, resume: bool) -> Job:
    """Find out where a run stands.

    Raises:
        DataError: its model needs sequences of one length.
        UsageError: its model cannot take sequences as long as these.
        CheckpointError: it cannot be gone on with.
    """
    started = folder.read_environment().get("started") if resume and folder.is_run else None
    check_fixed_lengths(config, data)
    job = Job(config, folder, data, started=started)
    job.model = job.new_model()
    points = max(data.train.source_steps, data.train.target_steps)
    if job.model.longest is not None and points > job.model.longest:
        raise UsageError(
            f"model.longest is {job.model.longest}, but the data have sequences of {points} points:"
            " each place needs a position of its own. Set it higher, or positions to sinusoidal."
        )
    found = load_latest_checkpoint(job) if resume else None
    if found is not None:
        job.state = found
        job.threads = folder.read_environment().get("threads")
        if folder.summary.exists():
            summary = check_summary(folder, as_plain(config.model), config.seed)
            if summary.get("diverged"):
                # With more epochs another best one may have a finite test loss.
                if summary.get("diverged_at") or job.is_trained:
                    job.error = _error_of(folder, summary, found)
            elif job.is_trained:
                job.summary = summary
        if job.error is None:
            check_same_rates(job)
            check_same_split(job)
    return job


def _error_of(folder: RunFolder, summary: Mapping[str, Any], state: TrainState) -> NonFiniteError:
    """That a run diverged before. It would again, so it is not trained again."""
    at = summary.get("diverged_at") or {"epoch": None, "step": None}
    return NonFiniteError(
        f"{folder.path}: diverged after {state.epoch} whole epochs, and would again:"
        f" {summary['diverged']} --overwrite trains it from the beginning; to keep it, give the new"
        " run another --name.",
        at["epoch"],
        at["step"],
    )


def _draw_what_is_missing(job: Job, callbacks: Callbacks) -> None:
    folder, where = job.folder, "; --resume draws the pictures that are missing"
    drawn = [folder.loss_picture, folder.predictions_picture]
    drawn += [folder.attention_picture] if folder.attention.exists() else []
    if not all(picture.exists() for picture in drawn):
        raise_if_stopped(callbacks, [job], where)
        from seqattn import pictures  # matplotlib is slow to import and not needed before

        for path in pictures.draw_each(folder):
            raise_if_stopped(
                callbacks, [job], "; nothing is missing" if path == drawn[-1] else where
            )


__all__ = [
    "Callbacks",
    "Job",
    "begin_seeds",
    "choose_device",
    "combined_error",
    "data_of",
    "environment",
    "estimate_run_memory",
    "follow",
    "groups_of",
    "memory_budget",
    "open_run",
    "run",
    "seeds_of",
    "train_many",
    "without_paths",
]
