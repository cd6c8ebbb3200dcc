"""The loop over the trials of a search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from seqattn.config.searching import Search
from seqattn.errors import (
    ConfigError,
    DataError,
    FolderLockedError,
    Interrupted,
    NonFiniteError,
    StorageError,
    UsageError,
)
from seqattn.experiments import Callbacks, train_one
from seqattn.experiments.tuning import sampling, trials
from seqattn.runs import EpochRecord, RunFolder


@dataclass(frozen=True)
class TrialLoop:
    """The loop over the trials of one call of `tune`.

    Attributes:
        study: the study of the search.
        search: the config and the ranges.
        path: the search folder.
        device, threads: see `train_many`.
        callbacks: progress callbacks for the epochs of all trials, and the stop signal.
        message: function that is called with a line for the user, such as the result of a trial.
    """

    study: optuna.Study
    search: Search
    path: Path
    device: str
    threads: int | None
    callbacks: Callbacks
    message: Callable[[str], None]

    def run_trials(self, count: int) -> None:
        """Run trials until `count` trials have ended, or until all combinations have been tried.

        Raises:
            SeqattnError: see `tune`.
        """
        finished, epochs = trials.count_trials(self.study, self.search), self.search.epochs
        total = max(int(min(count, self.search.size)), finished)
        self.callbacks.begin(finished * epochs, total * epochs)
        while trials.count_trials(self.study, self.search) < count:
            if number := self.callbacks.stop():
                raise Interrupted(number, f"{self.path}: run the same command again to continue.")
            trial = trials.start_trial(
                self.study, self.search,
                lambda k: RunFolder(self.path / f"trial-{k}").is_available, self.message,
            )  # fmt: skip
            if trial is None:
                self.message(f"{self.path}: all {self.search.size} combinations have been tried.")
                return
            self._run_trial(trial)

    def _train_and_record(
        self, trial: optuna.Trial, name: str, values: dict[str, str], text: str
    ) -> None:
        """Train a trial, and record how it ended: complete, pruned, refused or failed."""
        try:
            loss = self._train(trial, name, values)
            trials.end(self.study, trial, TrialState.COMPLETE, loss)
            self.message(f"{name}: {loss:.4g} with {text}")
        except optuna.TrialPruned:
            trials.end(self.study, trial, TrialState.PRUNED)
        except (ConfigError, UsageError, DataError, NonFiniteError) as error:
            refused, reason = not isinstance(error, NonFiniteError), " ".join(str(error).split())
            trials.fail(self.study, trial, reason, refused=refused)
            self.message(f"{name}: {'refused' if refused else 'failed'} with {text}: {reason}")

    def _run_trial(self, trial: optuna.Trial) -> None:
        """Train a trial, and record how it ended. Requeue an interrupted trial."""
        name, values = f"trial-{trial.number}", sampling.label_values(trial.params, self.search)
        text = sampling.format_values(values)
        try:
            self._train_and_record(trial, name, values, text)
        except optuna.exceptions.UpdateFinishedTrialError:
            self.message(f"{name}: ended by another process; its run folder is kept")
        except Interrupted as interrupted:
            self._requeue(trial)
            raise Interrupted(
                interrupted.exit_code - 128,
                f"in {self.path / name}; run the same command again to repeat this trial and"
                " continue.",
            ) from None
        except (StorageError, OSError, FolderLockedError) as error:
            # Requeuing also fails if the disk is full. The next call then requeues the trial.
            with contextlib.suppress(Exception):
                self._requeue(trial)
            if isinstance(error, StorageError):
                remedy = "To continue a search, run its command again; it repeats this trial."
                raise StorageError(f"{error} {remedy}") from None
            raise

    @cached_property
    def _are_comparable(self) -> bool:
        return trials.are_comparable(self.search)

    def _requeue(self, trial: optuna.Trial) -> None:
        trials.requeue(self.study, self.search, self.study.trials[trial.number])

    def _train(self, trial: optuna.Trial, name: str, values: Mapping[str, Any]) -> float:
        """Train a trial and return its best validation loss.

        Raises:
            TrialPruned: if the pruner ends the trial; see `trials.build_pruner`.
            SeqattnError: see `train_one`.
        """
        config = self.search.config(values)
        self.study.pruner = trials.build_pruner(
            config.training, are_comparable=self._are_comparable
        )

        def report_epoch(record: EpochRecord) -> None:
            self.callbacks.epoch(record)
            trial.report(record.validation_loss, record.epoch)
            if trial.should_prune():
                self.message(f"{name}: pruned after epoch {record.epoch}, at"
                             f" {record.validation_loss:.4g}")  # fmt: skip
                raise optuna.TrialPruned

        _, summary = train_one(
            config.model_copy(update={"name": name}), self.path,
            device=self.device, threads=self.threads, plots=False,
            callbacks=Callbacks(epoch=report_epoch, stop=self.callbacks.stop),
        )  # fmt: skip
        return float(summary["validation_loss"])


@contextlib.contextmanager
def database_errors() -> Iterator[None]:
    """Return a context manager that converts errors of Optuna's storage and of SQLAlchemy to a
    `StorageError` with a message for the user.

    Raises:
        StorageError: if the database cannot be used.
    """
    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise StorageError(f"the study's database cannot be used: {first_line}") from None
