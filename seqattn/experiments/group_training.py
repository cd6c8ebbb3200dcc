"""Train one group of jobs and write their files."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from seqattn.data import Sequences
from seqattn.errors import SeqattnError, StorageError
from seqattn.experiments import results, tensorboard
from seqattn.experiments.folder_session import FolderSession, RunWriter
from seqattn.experiments.job import Callbacks, Job, raise_if_stopped
from seqattn.experiments.sizes import estimate_run_memory
from seqattn.experiments.skip_start import initial_model
from seqattn.runs import RunFolder
from seqattn.runs.storage import BackgroundWriter, write_json, write_transaction
from seqattn.training import (
    Batch,
    GatheredBatch,
    ProcessGroup,
    Run,
    RunProgress,
    RunState,
    batch_in_order,
    batch_of,
    train,
)
from seqattn.training.attention_history import read_attention_history
from seqattn.training.threads import choose_threads


@dataclass(frozen=True)
class Compute:
    """Where and with what a group is trained.

    Attributes:
        device: of the models and data.
        threads: for torch's operations on the CPU; None measures a few steps.
        environment: what environment.json says.
        processes: that share every batch of a single run; None: this one alone.
    """

    device: torch.device
    threads: int | None
    environment: Mapping[str, Any]
    processes: ProcessGroup | None = None


def train_group(jobs: Sequence[Job], compute: Compute, callbacks: Callbacks) -> list[Job]:
    """Train jobs side by side and write the results of each.

    Returns:
        the jobs, with what came of them.

    Raises:
        Interrupted: SIGINT or SIGTERM; the state is saved.
        SeqattnError: what a user can mend.
    """
    jobs = [replace(job, interrupted=job.state is not None) for job in jobs]
    runs = runs_of(jobs, compute.device)
    threads, reason = _threads_for(jobs, runs, compute)
    torch.set_num_threads(threads)
    _write_start(jobs, compute, threads, reason)
    _announce_start(jobs, callbacks)
    # Many runs save together, so that the disk is waited for once; one saves while it goes on.
    background = BackgroundWriter() if len(jobs) == 1 else None
    writers = {run: RunWriter(job) for run, job in zip(runs, jobs, strict=True)}
    session = FolderSession(writers, callbacks, background)
    states = {
        run: _with_attention_history(job.state, job.folder)
        for run, job in zip(runs, jobs, strict=True)
        if job.state is not None
    }
    with _ends_logged(jobs), background or contextlib.nullcontext():
        trained = train(runs, session, states=states, processes=compute.processes)
    jobs = _concluded(jobs, trained, callbacks)
    unfinished = [job for job, run in zip(jobs, trained, strict=True) if run.ended is None]
    processes = compute.processes
    if processes is not None and processes.stopped:
        own = callbacks.stop  # 0 where only another process was told
        callbacks = replace(callbacks, stop=lambda: own() or signal.SIGTERM)
    if unfinished:
        epoch = unfinished[0].position[0] + 1
        hint = f"in epoch {epoch}; --resume, with the same config and --set, goes on from there"
        raise_if_stopped(callbacks, unfinished, hint)
    return jobs


def runs_of(jobs: Sequence[Job], device: torch.device) -> list[Run]:
    """The jobs as the training loop sees them; sequences that several share become tensors once."""
    tensors: dict[int, Batch | GatheredBatch] = {}

    def part(job: Job, sequences: Sequences) -> Batch | GatheredBatch:
        if id(sequences) not in tensors:
            # Only a single run may read its validation part in order: groups stack tensors.
            in_order = len(jobs) == 1 and sequences is job.data.validation
            make = batch_in_order if in_order else batch_of
            tensors[id(sequences)] = make(sequences, device, scaling=job.data.scaling)
        return tensors[id(sequences)]

    return [
        Run(
            initial_model(job).to(device),
            part(job, job.data.train),
            part(job, job.data.validation),
            job.config.training,
            job.config.seed,
            job.data.train.ids,
            job.group,
        )
        for job in jobs
    ]


def _with_attention_history(state: RunState, folder: RunFolder) -> RunState:
    """The state with the snapshots that film.npz has; they are held while a group trains."""
    return replace(state, attention_history=read_attention_history(folder, state.epoch))


def _threads_for(jobs: Sequence[Job], runs: Sequence[Run], compute: Compute) -> tuple[int, str]:
    """How many threads torch gets, and why."""
    before = next((job.threads for job in jobs if job.threads), None)
    if compute.threads:
        return compute.threads, "asked for"
    if before is not None:
        return before, "as before"
    if compute.processes is not None:
        return 1, "one of several processes"
    return choose_threads(runs) if compute.device.type == "cpu" else (1, "the device works")


def _write_start(jobs: Sequence[Job], compute: Compute, threads: int, reason: str) -> None:
    """What the folders say before the first step."""
    memory = estimate_run_memory(jobs[0]) / 2**20 if len(jobs) > 1 else 0.0
    for job in jobs:
        if job.data.split:
            job.folder.write_split(job.data.split)
        if job.data.sources:
            job.folder.write_sources(job.data.sources)
        if threads != (compute.threads or job.threads or 1):  # as written before
            write_json(job.folder.environment, {**compute.environment, "threads": threads})
        lines = [
            *_notes(job),
            f"train {job.config.name}: seed {job.config.seed}, {job.parameters} parameters,"
            f" {len(job.data.train)} training sequences, device {compute.device}, threads {threads}"
            f" ({reason}), torch {torch.__version__}",
        ]
        if len(jobs) > 1:
            lines.append(f"batched with {len(jobs) - 1} other runs, about {memory:.1f} MiB each")
        job.folder.log_line("\n".join([*lines, *_passed_over(job), *_resumption(job, len(jobs))]))


def _announce_start(jobs: Sequence[Job], callbacks: Callbacks) -> None:
    """What people are told before the first step."""
    lines = [note for job in jobs for note in _notes(job)]
    lines = [*dict.fromkeys(lines), *(line for job in jobs for line in _passed_over(job))]
    for line in (*lines, *_resumption(jobs[0], len(jobs))):
        callbacks.say(line)


def _notes(job: Job) -> list[str]:
    return [*job.data.notes, *([job.start] if job.start else [])]


def _passed_over(job: Job) -> list[str]:
    """Checkpoints that could not be gone on from, and why."""
    lines = list(job.skipped_checkpoints)
    if job.begins_again:
        lines.append(
            f"{job.folder.path}: begins again: not all runs that it began with have a checkpoint"
            " yet."
        )
    return lines


def _resumption(job: Job, jobs: int) -> list[str]:
    """
    Args:
        jobs: that are trained side by side.
    """
    if job.state is None:
        if jobs > 1 or not job.resume:
            return []
        return ["There is no checkpoint to resume from yet: starting from the beginning."]
    step = f", step {job.state.step}" if job.state.step else ""
    return [f"Resuming after epoch {job.state.epoch}{step}."]


@contextlib.contextmanager
def _ends_logged(jobs: Sequence[Job]) -> Iterator[None]:
    """Log an error that ends the training.

    Raises:
        StorageError: in the place of an OSError.
    """
    try:
        yield
    except BaseException as error:
        name = str(error) if isinstance(error, SeqattnError) else type(error).__name__
        for job in jobs:
            with contextlib.suppress(OSError):  # the disk itself may have failed
                job.folder.log_line(f"ended: {name}")
        # A broken pipe is one of a reader of the output, and no file.
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            place = error.filename or jobs[0].folder.path
            raise StorageError(
                f"{place}: {error.strerror or error}. The checkpoints that are there are whole;"
                " once this is mended, train --resume goes on from them, as does the same compare."
            ) from None
        raise


def _concluded(
    jobs: Sequence[Job], trained: Sequence[RunProgress], callbacks: Callbacks
) -> list[Job]:
    """Write the results of the runs that trained to their end."""
    jobs = [
        replace(job, state=_final_state(run), error=run.error)
        for job, run in zip(jobs, trained, strict=True)
    ]
    for job, run in zip(jobs, trained, strict=True):
        if run.ended == "early stopping":
            epoch = job.position[0]
            callbacks.say(f"Stopped early after epoch {epoch}: no improvement any more.")
        if run.error is not None:
            job.folder.log_line(f"ended: {run.error}")
        elif run.ended is None:
            job.folder.log_line("stopped")
    with write_transaction():
        finished = [(job, run.run.model) for job, run in zip(jobs, trained, strict=True)
                    if run.is_finished]  # fmt: skip
        concluded = iter(results.conclude(finished))
    jobs = [
        next(concluded) if run.is_finished else job for job, run in zip(jobs, trained, strict=True)
    ]
    _log_ends([job for job, run in zip(jobs, trained, strict=True) if run.is_finished])
    return jobs


def _final_state(run: RunProgress) -> RunState:
    """Where a run ended or was stopped, without the snapshots that film.npz has: jobs are held for
    longer than their training."""
    assert run.checkpoint is not None
    return replace(run.checkpoint, attention_history=[])


def _log_ends(finished: Sequence[Job]) -> None:
    """The last line of each log, once the results are on the disk; then TensorBoard's files."""
    for job in finished:
        if job.error is not None:
            job.folder.log_line(f"ended: {job.error}")
        elif job.summary is not None:
            loss, best = job.summary["test_loss"], job.summary["best_epoch"]
            job.folder.log_line(f"finished: test loss {loss:.6g}, best epoch {best}")
    for job in finished:
        if job.summary is not None and job.config.logging.tensorboard:
            tensorboard.conclude(job.folder, job.config, job.summary)
