"""The session that saves the runs of a group to their folders."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from seqattn.experiments.job import Callbacks, Job
from seqattn.experiments.results import write_divergence
from seqattn.experiments.run_folders import begin_run
from seqattn.experiments.trackers import RunTrackers
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.storage import BackgroundWriter, write_transaction
from seqattn.training import RunProgress, RunState, Session, TrainingRun, save_best, save_state
from seqattn.training.histories import (
    describe_interval,
    write_attention_history,
    write_parameter_history,
)


class RunWriter:
    """A writer of the checkpoints, histories and metrics of one run. The writer also sends the
    metrics of each epoch to the trackers of the run.

    Args:
        job: the job of the run.
        counts: numbers of threads and processes, for the checkpoints; see `save_state`.
        trackers: the trackers of the run.
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

    def save(self, state: RunState) -> None:
        """Write the changed files of the run in one transaction, and then send the metrics of the
        epochs to the trackers."""
        self.write(state)
        self.trackers.log_epochs(state.history)

    def write(self, state: RunState) -> None:
        """Write the changed files of the run in one transaction.

        Raises:
            OSError: if the run folder was removed, or if a file cannot be written.
        """
        folder, job, snapshots = self.folder, self.job, state.attention_history
        if not folder.is_run:  # the write would create the folder again, without its config
            raise FileNotFoundError(
                errno.ENOENT, f"Was removed ({folder.missing_files})", str(folder.path)
            )
        self._log_interval(state)
        with write_transaction():
            self.begin()
            if state.best_epoch != self.written_best:
                save_best(folder.best, state, job.config, job.spec)
                self.written_best = state.best_epoch
            if len(snapshots) != self.written_snapshots:
                write_attention_history(folder.film, snapshots, job.data.validation)
                self.written_snapshots = len(snapshots)
            self._write_parameters(state)
            save_state(
                folder.last, state, job.config, job.spec, backup_path=folder.previous,
                counts=self.counts,
            )  # fmt: skip
            folder.write_metrics(state.history)

    def _write_parameters(self, state: RunState) -> None:
        """Write the parameter history if it has changed."""
        history = state.parameter_history
        shapes = {name: tuple(tensor.shape) for name, tensor in state.weights.items()}
        epochs = [frame.epoch for frame in history]
        if history and epochs != self.written_parameters:
            write_parameter_history(self.folder.parameter_history, history, shapes)
            self.written_parameters = epochs

    def _log_interval(self, state: RunState) -> None:
        """Log a message if the parameter history lacks some of the requested epochs."""
        left_out = describe_interval(
            self.job.config.training.record_attention, state.epoch, self.job.parameters
        )
        if left_out not in (None, self.left_out):
            self.folder.log_line(left_out)
            self.left_out = left_out

    def log_epoch(self, record: EpochRecord) -> None:
        self.folder.log_line(
            f"epoch {record.epoch}: training {record.train_loss:.6g}, validation"
            f" {record.validation_loss:.6g} free running,"
            f" {record.validation_loss_teacher_forced:.6g} teacher-forced"
        )


def describe_early_stopping(folder: RunFolder, epoch: int) -> str:
    """Return the message that early stopping ended a run after the given epoch."""
    return f"{folder.path}: early stopping at epoch {epoch}."


class FolderSession(Session):
    """A session that saves to run folders and reports to callbacks.

    Args:
        writers: the writer of each run.
        callbacks: progress callbacks and the stop signal.
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
                self.background.submit(partial(writer.save, state))
            return
        with write_transaction():
            for writer, state in saves:
                writer.write(state)
        for writer, state in saves:
            writer.trackers.log_epochs(state.history)

    def epoch_end(self, progress: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        for each in progress:
            record = each.history[-1]
            if self.background is not None:  # the logs of many runs do not list their epochs
                self.writers[each.run].log_epoch(record)
            self.callbacks.epoch(record)
        self.ended_runs.update(each.run for each in progress if each.ending)
        self._write(to_save)
        if len(to_save) == len(progress):  # otherwise only ended runs were saved
            self.saved_at = time.monotonic()
        for each in progress:
            if each.ending == "early stopping":
                folder, epoch = self.writers[each.run].folder, each.history[-1].epoch
                self.callbacks.message(describe_early_stopping(folder, epoch))

    def diverged(self, progress: RunProgress) -> None:
        self.ended_runs.add(progress.run)
        self._write([progress])
        if self.background is not None:
            self.background.wait()
        assert progress.error is not None and progress.state is not None
        write_divergence(self.writers[progress.run].job, progress.error, progress.state)
