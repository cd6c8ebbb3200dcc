"""The files of a run folder: locks, removal of old files, config, environment and pictures, saves
during training, and the results."""

from __future__ import annotations

import errno
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from seqattn.analysis.evaluation import Evaluation, ForecastChunk, ReferenceLosses, evaluate
from seqattn.analysis.evaluation.attention_file import AttentionSpool
from seqattn.analysis.evaluation.predictions_file import ForecastSpool
from seqattn.config import as_plain, to_yaml
from seqattn.errors import FolderLockedError, NonFiniteError
from seqattn.experiments.job import Callbacks, Job, raise_if_stopped
from seqattn.experiments.run_environment import rounding_change
from seqattn.experiments.trackers import RunTrackers
from seqattn.models import Seq2SeqModel
from seqattn.runs import RunFolder
from seqattn.runs.folder import HANDLER
from seqattn.runs.storage import (
    BackgroundWriter,
    atomic_write,
    exclusive_lock,
    write_json,
    write_transaction,
)
from seqattn.training import RunProgress, RunState, Session, TrainingRun, save_best, save_state
from seqattn.training.histories import (
    describe_interval,
    write_attention_history,
    write_parameter_history,
)

NOTHING_MISSING = "; nothing is missing"
"""Hint for `raise_if_stopped` after the last file of a run."""


class FolderLocks(ExitStack):
    """Locks on run folders. The locks are released at the end of the `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: set[Path] = set()

    def lock_existing(self, folders: Iterable[RunFolder]) -> None:
        """Lock the folders that already contain a run."""
        for folder in folders:
            if folder.is_run:
                self._lock(folder)

    def lock_new(self, folders: Iterable[RunFolder]) -> None:
        """Create and lock the folders that are not locked yet.

        Raises:
            FolderLockedError: if another process has locked a folder first.
        """
        for folder in folders:
            if folder.path in self.locked:
                continue
            folder.path.mkdir(parents=True, exist_ok=True)
            self._lock(folder)
            if not folder.is_available:
                raise FolderLockedError(
                    f"{folder.path}: another process has just started to write there."
                )

    def _lock(self, folder: RunFolder) -> None:
        self.enter_context(exclusive_lock(folder.path))
        self.locked.add(folder.path)


def prepare_folders(jobs: Sequence[Job], environment: Mapping[str, Any]) -> None:
    """Call `begin_run` for all runs that have no earlier files to keep; see `environment_of`."""
    with write_transaction():
        for job in jobs:
            if not job.keeps_files:
                begin_run(job, environment)


def begin_run(
    job: Job,
    environment: Mapping[str, Any],
    threads: int | None = None,
    tracker_records: Mapping[str, Any] | None = None,
) -> None:
    """Write the files that describe the start of a run: the config, the environment, the split and
    the digests of the data files. Remove the files that this start makes outdated.

    In a transaction, the outdated files remain until all files of the transaction have been flushed
    to disk. A failure before that leaves the folder as it was.

    Args:
        environment, threads: see `environment_of`.
        tracker_records: the content of the new `trackers.json` of a run that replaces another run.
    """
    folder, records = job.folder, tracker_records or {}

    def remove_outdated() -> None:
        if job.replaces:
            folder.clear(records.get("wandb", {}).get("run_id"))
            HANDLER.held.pop(folder.path, None)
            return
        folder.clear_results()
        if job.state is None:
            folder.clear_training()
        elif job.checkpoint == folder.previous:
            # Otherwise the next save would keep the unusable checkpoint as previous.safetensors.
            folder.previous.replace(folder.last)

    atomic_write(folder.config, to_yaml(job.config).encode(), before_commit=remove_outdated)
    write_json(folder.environment, environment_of(job, environment, threads))
    if lines := HANDLER.held.get(folder.path):
        atomic_write(folder.log, "".join(lines).encode())
    if records:
        folder.write_trackers(records)
    if job.data.split:
        folder.write_split(job.data.split)
    if job.data.digests_by_file:
        folder.write_data_files(job.data.digests_by_file)


def environment_of(
    job: Job, environment: Mapping[str, Any], threads: int | None = None
) -> dict[str, Any]:
    """Return the content of `environment.json` of a run.

    Args:
        environment: entries that all runs share, with the number of threads if the user requested
            one.
        threads: the chosen number of threads, or None if it is not chosen yet. If the number is
            neither requested nor chosen, a resumed run keeps the number in its checkpoint.
    """
    content, before = dict(environment), job.environment_of_state.get("threads")
    if threads := environment.get("threads") or threads or before:
        content["threads"] = threads
    if job.start_record is not None:
        content["start_from"] = dict(job.start_record)
    if job.skipped_checkpoints:
        content["skipped_checkpoints"] = list(job.skipped_checkpoints)
    return content


def log_rounding_changes(
    jobs: Sequence[Job], environment: Mapping[str, Any], callbacks: Callbacks
) -> None:
    """Write a line to the log of each run that continues with different rounding, and show each
    distinct line once."""
    slots = [None if job.state is None else job.state.slot for job in jobs]
    counts = Counter(slot.group_id for slot in slots if slot is not None)
    lines = dict[str, None]()
    for job, slot in zip(jobs, slots, strict=True):
        if job.state is None or not job.is_pending:
            continue
        changes = [rounding_change(job.environment_of_state, environment)]
        if slot is not None and counts[slot.group_id] < slot.group_size:
            changes.append(
                f"Only {counts[slot.group_id]} of {slot.group_size} runs that were trained together"
                f" are continued, so the results of all {slot.group_size} can differ by rounding"
                " from those of an uninterrupted training."
            )
        for change in filter(None, changes):
            job.folder.log_line(change)
            lines[change] = None
    for line in lines:
        callbacks.message(line)


def draw_missing_pictures(jobs: Sequence[Job], callbacks: Callbacks) -> None:
    """Draw the pictures of each finished run that lacks a picture."""
    jobs = [
        job for job in jobs
        if job.summary is not None and not all(file.exists() for file in job.folder.pictures)
    ]  # fmt: skip
    if not jobs:
        return
    from seqattn.plots import run_pictures  # importing matplotlib is slow

    hint, last = "; --resume draws the missing pictures", jobs[-1].folder.pictures[-1]
    for job in jobs:
        raise_if_stopped(callbacks, [job], hint)
        for path in run_pictures.draw_run(job.folder):
            raise_if_stopped(callbacks, [job], NOTHING_MISSING if path == last else hint)


# --- saves during training ------------------------------------------------------------------------


class RunWriter:
    """A writer of the checkpoints, histories and metrics of one run, with the trackers of the run.

    Args:
        counts: numbers of threads and processes, for the checkpoints; see `save_state`.
        environment: entries of `environment.json` that all runs share.

    Attributes:
        has_begun: whether the folder contains the files of `begin_run`.
    """

    def __init__(
        self,
        job: Job,
        counts: Mapping[str, int],
        trackers: RunTrackers,
        environment: Mapping[str, Any],
    ) -> None:
        self.job, self.folder, self.counts = job, job.folder, counts
        self.environment, self.has_begun = environment, not job.keeps_files
        self.written_best = self.written_snapshots = 0
        self.written_parameters: list[int] = []
        self.left_out: str | None = None
        self.trackers = trackers

    def begin(self) -> None:
        """Call `begin_run`, unless the run has begun."""
        if not self.has_begun:
            begin_run(self.job, self.environment, self.counts["threads"], self.trackers.records)
            self.has_begun = True

    def write(self, state: RunState) -> None:
        """Write the changed files of the run in one transaction."""
        folder, job, snapshots = self.folder, self.job, state.attention_history
        if not folder.is_run:  # the write would create the folder again, without its config
            raise FileNotFoundError(
                errno.ENOENT, f"Was removed ({folder.missing_files})", str(folder.path)
            )
        left_out = describe_interval(
            job.config.training.record_attention, state.epoch, job.parameters
        )
        if left_out not in (None, self.left_out):  # the parameter history lacks requested epochs
            folder.log_line(left_out)
            self.left_out = left_out
        parameters = [frame.epoch for frame in state.parameter_history]
        folder.last.parent.mkdir(exist_ok=True)
        with write_transaction():
            self.begin()
            if state.best_epoch != self.written_best:
                save_best(folder.best, state, job.config, job.spec)
                self.written_best = state.best_epoch
            if len(snapshots) != self.written_snapshots:
                write_attention_history(folder.film, snapshots, job.data.validation)
                self.written_snapshots = len(snapshots)
            if parameters and parameters != self.written_parameters:
                shapes = {name: tuple(tensor.shape) for name, tensor in state.weights.items()}
                write_parameter_history(folder.parameter_history, state.parameter_history, shapes)
                self.written_parameters = parameters
            save_state(
                folder.last, state, job.config, job.spec, backup_path=folder.previous,
                counts=self.counts,
            )  # fmt: skip
            folder.write_metrics(state.history)


def describe_early_stopping(folder: RunFolder, epoch: int) -> str:
    """Return the message that early stopping ended a run after the given epoch."""
    return f"{folder.path}: early stopping at epoch {epoch}."


class FolderSession(Session):
    """A session that saves to run folders and reports to callbacks.

    Args:
        background: thread that writes the files of a single run while training continues. With
            None, training waits until the files of all runs are written in one transaction.
    """

    def __init__(
        self,
        writers: Mapping[TrainingRun, RunWriter],
        callbacks: Callbacks,
        background: BackgroundWriter | None = None,
    ) -> None:
        self.writers, self.callbacks, self.background = writers, callbacks, background
        self.interval = next(iter(writers)).config.checkpoint_seconds
        self.saved_at = time.monotonic()
        self.ended_runs = set[TrainingRun]()

    def log(self, line: str) -> None:
        for run, writer in self.writers.items():
            if run not in self.ended_runs and not writer.job.is_trained:
                writer.folder.log_line(f"gradients: {line}")

    def _end(self, runs: Iterable[TrainingRun]) -> None:
        for run in runs:
            self.ended_runs.add(run)
            self.callbacks.ended(self.writers[run].folder.path)

    def stop_requested(self) -> bool:
        if self.background is not None:
            self.background.raise_if_failed()
        return self.callbacks.stop() != 0

    def save_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.interval

    def save(self, progress: Sequence[RunProgress]) -> None:
        self._write(progress)
        self.saved_at = time.monotonic()

    def _write(self, progress: Sequence[RunProgress]) -> None:
        saves = list[tuple[RunWriter, RunState]]()
        for each in progress:
            assert each.state is not None
            saves.append((self.writers[each.run], each.state))
        # The first save of a run may replace its log, so this thread must not log at the same time.
        if self.background is not None and all(writer.has_begun for writer, _ in saves):
            for writer, state in saves:
                self.background.submit(partial(self._save, writer, state))
            return
        with write_transaction():
            for writer, state in saves:
                writer.write(state)
        for writer, state in saves:
            writer.trackers.log_epochs(state.history)

    @staticmethod
    def _save(writer: RunWriter, state: RunState) -> None:
        writer.write(state)
        writer.trackers.log_epochs(state.history)

    def epoch_end(self, progress: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        for each in progress:
            record = each.history[-1]
            if self.background is not None:  # the logs of many runs do not list their epochs
                way = "free running" if record.exact_match is None else "teacher-forced"
                other = f"{record.validation_loss_teacher_forced:.6g} teacher-forced"
                if record.exact_match is not None:
                    other = f"exact match {record.exact_match:.4f}"
                if record.bleu is not None:
                    other += f", BLEU {record.bleu:.2f}"
                self.writers[each.run].folder.log_line(
                    f"epoch {record.epoch}: training {record.train_loss:.6g}, validation"
                    f" {record.validation_loss:.6g} {way}, {other}"
                )
            self.callbacks.epoch(self.writers[each.run].folder.path, record)
        self._end(each.run for each in progress if each.ending)
        self._write(to_save)
        if len(to_save) == len(progress):  # otherwise only ended runs were saved
            self.saved_at = time.monotonic()
        for each in progress:
            if each.ending == "early stopping":
                folder, epoch = self.writers[each.run].folder, each.history[-1].epoch
                self.callbacks.message(describe_early_stopping(folder, epoch))

    def diverged(self, progress: RunProgress) -> None:
        self._end([progress.run])
        self._write([progress])
        if self.background is not None:
            self.background.wait()
        assert progress.error is not None and progress.state is not None
        write_divergence(self.writers[progress.run].job, progress.error, progress.state)


# --- results --------------------------------------------------------------------------------------


ReferencesOfData = dict[int, tuple[ReferenceLosses, ReferenceLosses]]
"""Reference losses of the test part and of the validation part, by the `id` of the data."""


def write_results(job: Job, model: Seq2SeqModel, references: ReferencesOfData) -> Job:
    """Evaluate the weights of the best epoch on the test part, and write the files of the results.

    This function logs nothing, because the files do not exist until the caller's transaction ends.
    Each run is evaluated alone, so that its metrics do not depend on other runs that end at the
    same time.

    Args:
        model: model of the job's config, on the device that trained the run. This function copies
            the best weights into the model.
        references: reference losses that are known already. The function adds missing ones.

    Returns:
        the job with a summary, or with an error if the test loss is not finite.
    """
    data, folder = job.data, job.folder
    assert job.state is not None
    if id(data) not in references:
        # Baselines that only one of the parts has are left out. The losses of the validation part
        # are in the units of the training losses, because the loss curve shows both.
        tested = ReferenceLosses.from_splits(data.test, data)
        validated = ReferenceLosses.from_splits(data.validation, data, in_training_units=True)
        references[id(data)] = tested.keep_shared(validated), validated.keep_shared(tested)
    tested, validated = references[id(data)]
    model.load_state_dict(job.state.best_weights)
    with ForecastSpool(folder.path, data.test) as forecasts, AttentionSpool(folder.path) as weights:
        weights.start_part(data.test)

        texts, space = list[str](), data.test.target_space

        def keep(chunk: ForecastChunk) -> None:
            forecasts.add(chunk.values)
            if space.symbols:
                texts.extend(map(space.text, chunk.values))
            chunk.emit_attention(weights.add)

        evaluation = evaluate(model, data.test, tested, on_chunk=keep)
        if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
            error = NonFiniteError(
                f"The test loss is {evaluation.loss} free running,"
                f" {evaluation.loss_teacher_forced} teacher-forced, with the weights of epoch"
                f" {job.state.best_epoch}. All losses of the training were finite, and its"
                " checkpoints are kept."
            )
            write_divergence(job, error, job.state)
            return replace(job, error=error)
        summary = _summary(job, evaluation, validated)
        forecasts.write(folder.predictions)
        folder.write_texts(texts, {
            folder.source_vocabulary: data.test.source_space.as_plain(),
            folder.target_vocabulary: space.as_plain(),
        } if texts else {})  # fmt: skip
        if job.config.model.has_attention:
            weights.write(folder.attention)
    # A stop during the last save can leave an old history, although the checkpoint is complete.
    folder.write_metrics(job.state.history)
    folder.write_summary(summary)
    return replace(job, summary=summary)


def _summary(job: Job, evaluation: Evaluation, validated: ReferenceLosses) -> dict[str, Any]:
    """Return the content of `summary.json` of a run with a finite test loss."""
    state, config = job.state, job.config
    assert state is not None
    scored = evaluation.as_plain()
    loss, teacher_forced = scored.pop("loss"), scored.pop("loss_teacher_forced")
    return {
        "name": config.name,
        "seed": config.seed,
        "test_loss": loss,
        "test_loss_teacher_forced": teacher_forced,
        **scored,
        **_of_training(job, state),
        "validation_noise_floor": validated.noise_floor,
        "validation_baselines": validated.baselines,
        "stopped_early": job.ending == "early stopping",
    }


def write_divergence(job: Job, error: NonFiniteError, state: RunState) -> None:
    """Write the summary of a diverged run. The summary contains the error and no test loss."""
    at = None if error.epoch is None else {"epoch": error.epoch, "step": error.step}
    summary = {
        "name": job.config.name,
        "seed": job.config.seed,
        "diverged": str(error),
        "diverged_at": at,
        "test_loss": None,
        **_of_training(job, state),
    }
    job.folder.write_summary(summary)


def _of_training(job: Job, state: RunState) -> dict[str, Any]:
    """Return the entries of a summary that finished runs and diverged runs have in common."""
    monitored, monitor = None, job.config.training.monitor
    if state.best_epoch:
        value = state.history[state.best_epoch - 1].value_of(monitor)
        monitored = {"measure": monitor, "value": value}
    return {
        "monitored": monitored,
        "validation_loss": state.best_loss if state.best_epoch else None,
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "parameters": job.parameters,
        "model": as_plain(job.config.model),
        "task": job.config.data.kind,
        "data": list(job.data.notes),
        "start_from": None if job.start_record is None else dict(job.start_record),
        "skipped_checkpoints": list(job.skipped_checkpoints),
        "interrupted": job.checkpoint is not None,
        "seconds": sum(record.seconds for record in state.history),
    }
