"""Jobs that go side by side, trained, with what they save and say on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable, Sequence
from typing import Any

import torch

from seqattn.data import Sequences, Splits
from seqattn.errors import NonFiniteError, SeqattnError, StorageError
from seqattn.experiment import results, tensorboard
from seqattn.experiment.film import read_film, write_film
from seqattn.experiment.job import Callbacks, Job, raise_if_stopped
from seqattn.experiment.sizes import estimate_run_memory
from seqattn.runs import EpochRecord
from seqattn.storage import BackgroundWriter, write_json, write_transaction
from seqattn.training import (
    Batch,
    Frame,
    GatheredBatch,
    ProcessGroup,
    Run,
    TrainState,
    batch_in_order,
    batch_of,
    save_best,
    save_state,
    train,
)
from seqattn.training.threads import choose_threads


def train_group(
    jobs: list[Job],
    device: torch.device,
    threads: int | None,
    resume: bool,
    callbacks: Callbacks,
    about: dict[str, Any],
    world: ProcessGroup | None = None,
) -> None:
    """Train jobs side by side and conclude each."""
    alone = len(jobs) == 1
    tensors: dict[int, Batch | GatheredBatch] = {}

    def part(sequences: Sequences, data: Splits) -> Batch | GatheredBatch:
        if id(sequences) not in tensors:
            # Runs side by side may each have a validation part of their own: these are tensors.
            make = batch_in_order if alone and sequences is data.validation else batch_of
            tensors[id(sequences)] = make(sequences, device, scaling=data.scaling)
        return tensors[id(sequences)]

    # Many runs save together, so that the disk is waited for once; one saves while it goes on.
    beside = BackgroundWriter() if alone else None
    runs = [_run_of(job, part, device, callbacks, beside) for job in jobs]
    before = next((job.threads for job in jobs if job.threads), None)
    count, why = (threads, "asked for") if threads else (before, "as before")
    if count is None and world is not None:
        count, why = 1, "one of several processes"
    if count is None:
        count, why = choose_threads(runs) if device.type == "cpu" else (1, "the device works")
    torch.set_num_threads(count)
    parameters = sum(p.numel() for p in runs[0].model.parameters())

    def say(line: str) -> None:
        for job in jobs:
            job.folder.say(line)
        callbacks.say(line)

    def engine(name: str) -> None:
        for job in jobs:
            job.folder.say(f"gradients: {name}")

    notes = (note for job in jobs for note in (*job.data.notes, job.start) if note)
    for note in dict.fromkeys(notes):
        callbacks.say(note)
    for job in jobs:
        if job.data.split:
            job.folder.write_split(job.data.split)
        if job.data.sources:
            job.folder.write_sources(job.data.sources)
        if count != 1:
            write_json(job.folder.environment, {**about, "threads": count})
        lines = [
            *job.data.notes,
            *([job.start] if job.start else []),
            f"train {job.config.name}: seed {job.config.seed}, {parameters} parameters,"
            f" {len(job.data.train)} training sequences, device {device}, threads {count}"
            f" ({why}), torch {torch.__version__}",
        ]
        if not alone:
            lines.append(
                f"batched with {len(jobs) - 1} other runs, about"
                f" {estimate_run_memory(job) / 2**20:.1f} MiB each"
            )
        skipped_checkpoints = list(job.skipped_checkpoints)
        if job.begins_again:
            skipped_checkpoints.append(
                f"{job.folder.path}: begins again: not all runs that it began with have a"
                " checkpoint yet."
            )
        job.folder.say("\n".join([*lines, *skipped_checkpoints]))
        for line in skipped_checkpoints:
            callbacks.say(line)
    first = jobs[0].state
    if first is not None:
        step = f", step {first.step}" if first.step else ""
        say(f"Resuming after epoch {first.epoch}{step}.")
    elif resume and alone:
        say("There is no checkpoint to resume from yet: starting from the beginning.")

    def stop() -> bool:
        if beside is not None:
            beside.ask()
        return callbacks.stop() != 0

    try:
        with beside or contextlib.nullcontext():
            train(runs, stop=stop, say=engine, world=world)
    except BaseException as error:
        name = str(error) if isinstance(error, SeqattnError) else type(error).__name__
        for job in jobs:
            with contextlib.suppress(OSError):  # the disk may be what is wrong
                job.folder.say(f"ended: {name}")
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):  # no file is one
            place = error.filename or jobs[0].folder.path
            raise StorageError(
                f"{place}: {error.strerror or error}. The checkpoints that are there are whole;"
                " once this is mended, train --resume goes on from them, as does the same compare."
            ) from None
        raise
    finished = []
    for job, run in zip(jobs, runs, strict=True):
        job.state, job.error = run.state, run.error
        if run.early:
            callbacks.say(
                f"Stopped early after epoch {job.state.epoch if job.state else 0}: no improvement"
                " any more."
            )
        if run.error is not None:
            job.folder.say(f"ended: {run.error}")
        elif run.finished:
            finished.append((job, run))
        else:
            job.folder.say("stopped")
    if finished:
        with write_transaction():
            results.conclude(finished)
        results.say_how_they_ended(job for job, _ in finished)
        for job, _ in finished:
            if job.config.logging.tensorboard and job.summary is not None:
                tensorboard.conclude(job.folder, job.config, job.summary)
    if world is not None and world.stopped:
        own = callbacks.stop  # 0 where only another process was told
        callbacks = dataclasses.replace(callbacks, stop=lambda: own() or signal.SIGTERM)
    raise_if_stopped(
        callbacks,
        [job for job, run in zip(jobs, runs, strict=True) if not (run.finished or run.error)],
        f"in epoch {jobs[0].state.epoch + 1 if jobs[0].state else 1}; --resume, with the same"
        " config and --set, goes on from there",
    )


def _run_of(
    job: Job,
    part: Callable[[Sequences, Splits], Batch | GatheredBatch],
    device: torch.device,
    callbacks: Callbacks,
    beside: BackgroundWriter | None,
) -> Run:
    """A job as the training loop sees it.

    Args:
        beside: where its saves are written while it goes on; None: it waits for each.
    """
    assert job.model is not None
    folder, spec = job.folder, job.spec
    written_best = written_film = 0
    scalars = tensorboard.TensorBoardLogger(folder) if job.config.logging.tensorboard else None
    film = list[Frame]()
    if job.state is not None:
        film += read_film(folder, job.state.epoch)

    def save(state: TrainState) -> None:
        if beside is None:
            write(state, film)
        else:  # the loop goes on to add to its history and film
            kept, frames = dataclasses.replace(state, history=list(state.history)), list(film)
            beside.begin(lambda: write(kept, frames))

    def write(state: TrainState, film: Sequence[Frame]) -> None:
        nonlocal written_best, written_film
        with write_transaction():
            if state.best_epoch != written_best:
                save_best(folder.best, state, job.config, spec)
                written_best = state.best_epoch
            if len(film) != written_film:
                write_film(folder, film, job.data.validation)
                written_film = len(film)
            save_state(folder.last, state, job.config, spec, keep_as=folder.previous)
            folder.write_metrics(state.history)
        if scalars is not None:
            scalars.write(state.history)

    def tell(record: EpochRecord) -> None:
        if (
            beside is not None
        ):  # then somebody may be following the log; metrics.csv has the same numbers
            folder.say(
                f"epoch {record.epoch}: training {record.train_loss:.6g}, validation"
                f" {record.validation_loss:.6g} free running,"
                f" {record.validation_loss_teacher_forced:.6g} teacher-forced"
            )
        callbacks.epoch(record)

    def diverged(error: NonFiniteError, state: TrainState) -> None:
        results.write_divergence(job, error, state)

    return Run(
        job.model.to(device), part(job.data.train, job.data),
        part(job.data.validation, job.data),
        job.config.training, job.config.seed, job.state, job.data.train.ids, tell, save,
        diverged, job.group, film,
    )  # fmt: skip
