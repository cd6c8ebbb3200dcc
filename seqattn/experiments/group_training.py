"""Training of one group of jobs, and the files that training writes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from seqattn.data import Sequences
from seqattn.data.measures import references_of
from seqattn.data.text_measures import RightTexts
from seqattn.errors import SeqattnError, StorageError
from seqattn.experiments.job import Callbacks, Job, raise_if_stopped
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.experiments.prepare import build_initial_model, describe_skip_start
from seqattn.experiments.run_folders import (
    FolderSession,
    ReferencesOfData,
    RunWriter,
    describe_early_stopping,
    environment_of,
    write_results,
)
from seqattn.experiments.trackers import end_trackers, open_trackers
from seqattn.runs import RunFolder
from seqattn.runs.folder import HANDLER, hold_lines
from seqattn.runs.storage import BackgroundWriter, write_json, write_transaction
from seqattn.training import (
    Batch,
    GatheredBatch,
    ProcessGroup,
    RunProgress,
    RunState,
    TrainingRun,
    batch_of,
    train_models,
)
from seqattn.training.histories import load_parameter_history, read_attention_history
from seqattn.training.threads import find_fastest_threads


@dataclass(frozen=True)
class Resources:
    """The device, threads and processes that train a group.

    Attributes:
        threads: number of threads that torch uses on the CPU; None to choose the number.
        environment: entries of `environment.json` that all runs share.
        workers: number of processes that train groups at the same time. With several workers, each
            worker uses one thread, unless `threads` is given or a resumed run keeps its earlier
            number.
    """

    device: torch.device
    threads: int | None
    environment: Mapping[str, Any]
    processes: ProcessGroup | None = None
    workers: int = 1


def train_group(jobs: Sequence[Job], resources: Resources, callbacks: Callbacks) -> list[Job]:
    """Train jobs side by side, and write the results of each job.

    Returns:
        the jobs with their final states. A job that has ended also has a summary or an error.
    """
    runs = build_runs(jobs, resources.device)
    threads, reason = _choose_threads(jobs, runs, resources)
    torch.set_num_threads(threads)
    # Many runs save together, with one wait for the disk. A single run saves while it trains.
    background = BackgroundWriter() if len(jobs) == 1 else None
    processes = resources.processes
    counts = {"threads": threads, "processes": 1 if processes is None else processes.size}
    replaced = [job.folder.path for job in jobs if job.replaces]
    with hold_lines(replaced):
        _log_start(jobs, resources, threads, reason, callbacks)
        states = {
            run: _with_histories(job.state, job.folder, run)
            for run, job in zip(runs, jobs, strict=True)
            if job.state is not None
        }
        with open_trackers(jobs, callbacks) as trackers:
            writers = {
                run: RunWriter(job, counts, trackers[job.folder.path], resources.environment)
                for run, job in zip(runs, jobs, strict=True)
            }
            session = FolderSession(writers, callbacks, background)
            with _log_errors(jobs), background or contextlib.nullcontext():
                trained = train_models(runs, session, states=states, processes=processes)
            jobs = _finish_jobs(jobs, trained, writers)
    unfinished = [job for job in jobs if job.is_pending]
    if processes is not None and processes.stopped:
        own = callbacks.stop  # 0 if only another process received the signal
        callbacks = replace(callbacks, stop=lambda: own() or signal.SIGTERM)
    if unfinished:
        epoch = unfinished[0].position[0] + 1
        hint = f" in epoch {epoch}; to continue, use --resume with the same config and --set"
        raise_if_stopped(callbacks, unfinished, hint)
    return jobs


def _with_histories(state: RunState, folder: RunFolder, run: TrainingRun) -> RunState:
    """Add the histories that have their own files."""
    shapes = {name: tuple(p.shape) for name, p in run.model.named_parameters()}
    return replace(
        state,
        attention_history=read_attention_history(folder, state.epoch),
        parameter_history=load_parameter_history(folder, state.epoch, shapes),
    )


def build_runs(jobs: Sequence[Job], device: torch.device) -> list[TrainingRun]:
    """Build the models and tensors of the jobs. Jobs with the same data share their tensors."""
    tensors: dict[tuple[int, int], Batch | GatheredBatch] = {}
    texts: dict[int, RightTexts] = {}

    def to_batch(job: Job, part: Sequences) -> Batch | GatheredBatch:
        key = id(job.data), id(part)
        if key not in tensors:
            # Groups stack their tensors, so only a single run may gather its validation part.
            keep = len(jobs) > 1 or part is not job.data.validation
            tensors[key] = batch_of(part, device, keep_tensors=keep)
        return tensors[key]

    def right_texts(job: Job) -> RightTexts | None:
        part = job.data.validation
        if job.config.training.monitor == "bleu" and id(part) not in texts:
            texts[id(part)] = RightTexts(part, references_of(part))
        return texts.get(id(part))

    return [
        TrainingRun(
            build_initial_model(job).to(device),
            to_batch(job, job.data.train),
            to_batch(job, job.data.validation),
            job.config.training,
            job.config.seed,
            job.data.train.ids,
            job.group_id,
            right_texts(job),
        )
        for job in jobs
    ]


def _choose_threads(
    jobs: Sequence[Job], runs: Sequence[TrainingRun], resources: Resources
) -> tuple[int, str]:
    """Choose how many threads torch uses for its operations, and return this number with the reason
    for the choice."""
    if resources.threads:
        return resources.threads, "asked for"
    if resources.processes is not None:
        return 1, "one of several processes"
    for job in jobs:
        if before := job.environment_of_state.get("threads"):
            return before, "as before"
    if resources.workers > 1:
        return 1, "one of several workers"
    return find_fastest_threads(runs) if resources.device.type == "cpu" else (1, "the device works")


def _log_start(
    jobs: Sequence[Job], resources: Resources, threads: int, reason: str, callbacks: Callbacks
) -> None:
    """Log the start of training for each run, and show it to the user. Write the number of threads
    to `environment.json`, unless a later `begin_run` writes it."""
    memory = estimate_run_memory(jobs[0]) / 2**20 if len(jobs) > 1 else 0.0
    shown = dict[str, None]()
    for job in jobs:
        if not job.keeps_files and "threads" not in resources.environment:
            write_json(job.folder.environment, environment_of(job, resources.environment, threads))
        notes = [line for line in (*job.data.notes, describe_skip_start(job)) if line]
        shown |= dict.fromkeys(notes)
        lines = [
            *notes,
            f"train {job.config.name}: seed {job.config.seed}, {job.parameters} parameters,"
            f" {len(job.data.train)} training sequences, device {resources.device},"
            f" threads {threads} ({reason}), torch {torch.__version__}",
        ]
        if len(jobs) > 1:
            lines.append(f"batched with {len(jobs) - 1} other runs, about {memory:.1f} MiB each")
        job.folder.log_line("\n".join([*lines, *_unusable(job), *_resumption(job, len(jobs))]))
    unusable = [line for job in jobs for line in _unusable(job)]
    stopped = [  # before this resume; the session reports early stopping from now on
        describe_early_stopping(job.folder, job.position[0])
        for job in jobs
        if job.ending == "early stopping"
    ]
    for line in (*shown, *unusable, *_resumption(jobs[0], len(jobs)), *stopped):
        callbacks.message(line)


def _unusable(job: Job) -> list[str]:
    """Return a line for each checkpoint that this resume skipped, with the reason.

    Checkpoints that an earlier resume skipped are left out. If the run starts over because other
    runs of its group have no checkpoint, the last line states this.
    """
    known = job.previous_environment.get("skipped_checkpoints", ())
    skipped = list(job.skipped_checkpoints[len(known) :])
    if not job.is_restarted:
        return skipped
    restart = "starts over, because some runs of its group have no checkpoint yet."
    return [*skipped, f"{job.folder.path}: {restart}"]


def _resumption(job: Job, group_size: int) -> list[str]:
    if job.state is not None:
        step = f", step {job.state.step}" if job.state.step else ""
        return [*job.changed_plugins, f"Resuming after epoch {job.state.epoch}{step}."]
    lines = []
    if job.resume and group_size == 1:
        lines.append("There is no checkpoint to resume from yet: starting from the beginning.")
    if job.start is not None:
        record = job.start.record
        lines.append(
            f"Starting with the weights of epoch {record['epoch']} and the scaling of"
            f" {record['run']} (SHA-256 of the weights: {record['sha256']})."
        )
    return lines


@contextlib.contextmanager
def _log_errors(jobs: Sequence[Job]) -> Iterator[None]:
    """Write an error that ends the block to the log of each job. An `OSError` becomes a
    `StorageError`."""
    try:
        yield
    except BaseException as error:
        log_end(jobs, error)
        # A broken pipe comes from a reader of the output, not from a file.
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            place = error.filename or jobs[0].folder.path
            is_unchanged = all(job.folder.path in HANDLER.held for job in jobs)
            remedy = (
                "The earlier run is unchanged. When the problem is solved, repeat the command."
                if is_unchanged
                else describe_saved(jobs)
            )
            raise StorageError(f"{place}: {error.strerror or error}. {remedy}") from None
        raise


def describe_saved(jobs: Sequence[Job]) -> str:
    """Return how many of the runs whose training has failed have a checkpoint on disk, and how to
    continue."""
    if any(job.replaces for job in jobs):  # a checkpoint may be that of the earlier run
        return (
            "Each folder contains either the earlier run or a complete checkpoint. When the problem"
            " is solved, repeat the command."
        )
    saved = sum(job.folder.is_run and job.folder.last.exists() for job in jobs)
    found = f"Runs with a checkpoint on disk: {saved} of {len(jobs)}."
    if saved == len(jobs):
        found = "The checkpoints on disk are complete."
    is_left = any(job.folder.is_run for job in jobs)
    how = "continue with train --resume" if is_left else "train again without --resume"
    return f"{found} When the problem is solved, {how}, or repeat the compare command."


def log_end(jobs: Sequence[Job], error: BaseException) -> None:
    """Write the error that ended the training to the log of each job."""
    name = str(error) if isinstance(error, SeqattnError) else type(error).__name__
    for job in jobs:
        with contextlib.suppress(OSError):  # the disk itself may have failed
            job.folder.log_line(f"ended: {name}")


def _finish_jobs(
    jobs: Sequence[Job], trained: Sequence[RunProgress], writers: Mapping[TrainingRun, RunWriter]
) -> list[Job]:
    """Add the final states to the jobs, write the results of the runs that are finished, and close
    the records of the trackers."""
    jobs = list(jobs)
    for k, progress in enumerate(trained):
        assert progress.state is not None
        # Jobs stay in memory after training, but only files need the snapshots.
        state = replace(progress.state, attention_history=[], parameter_history=[])
        jobs[k] = replace(jobs[k], error=progress.error, state=state)
        # A divergence is logged before the results of other runs are written. If that write fails,
        # a resume does not train the diverged run again, so it could not log the divergence.
        if progress.error is not None:
            jobs[k].folder.log_line(f"ended: {progress.error}")
        elif progress.ending is None:
            jobs[k].folder.log_line("stopped")
    finished = [k for k, progress in enumerate(trained) if progress.is_finished]
    references: ReferencesOfData = {}
    with _log_errors([jobs[k] for k in finished]), write_transaction():
        for k in finished:
            writers[trained[k].run].begin()  # a run that only lacked its results was not saved
            jobs[k] = write_results(jobs[k], trained[k].run.model, references)
    for job in (jobs[k] for k in finished):  # the results are on disk
        if job.error is not None:
            job.folder.log_line(f"ended: {job.error}")
        elif job.summary is not None:
            loss, best = job.summary["test_loss"], job.summary["best_epoch"]
            job.folder.log_line(f"finished: test loss {loss:.6g}, best epoch {best}")
    for job, progress in zip(jobs, trained, strict=True):
        end_trackers(job, writers[progress.run].trackers, progress.history)
    return jobs
