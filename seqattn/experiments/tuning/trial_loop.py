"""The loop over the trials of a search, and its result files: a table of trials, the best config,
and the importance of keys."""

from __future__ import annotations

import contextlib
import csv
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from seqattn.config import to_yaml
from seqattn.config.searching import Search
from seqattn.errors import (
    ConfigError,
    DataError,
    FolderLockedError,
    Interrupted,
    NonFiniteError,
    StorageError,
    UsageError,
    counted,
)
from seqattn.experiments import Callbacks, train_one
from seqattn.experiments.tuning import trials
from seqattn.plots import as_bytes, importance_figure
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.storage import atomic_write

IMPORTANCE = "importance.png"
MIN_TRIALS = 20
"""Minimum number of complete trials for which the importance of keys is computed. The number was
chosen with searches over two keys, one of which had no effect. The key without effect was ranked
first in 22 of 60 searches with 4 trials, in 9 of 60 with 8 trials, in 5 of 60 with 12 trials, and
in 1 of 60 with 20 trials (`tests/walks/test_importance.py`)."""
MIN_DIVERGENCE = 1e-12
"""If the sum of the unscaled importances is at most this number, no key has an importance."""
ENDED_ELSEWHERE = "ended by another process"


@dataclass(frozen=True)
class TuneResult:
    """The result of a search.

    Attributes:
        trials: a row for each trial that ended, the best first, with the keys `trial` (number),
            `state` (complete, pruned, refused, fail or interrupted), `loss`, `values`, `epochs` and
            `reason` (for the states fail and refused).
        importance: importance of each key (the values sum to 1); empty if the importance cannot be
            computed.
        no_importance: reason why `importance` is empty; otherwise "".
    """

    path: Path
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    no_importance: str
    best: dict[str, Any]


@dataclass(frozen=True)
class TrialLoop:
    """The loop over the trials of one call of `tune`."""

    study: optuna.Study
    search: Search
    path: Path
    device: str
    threads: int | None
    callbacks: Callbacks
    message: Callable[[str], None]

    def run_trials(self, count: int) -> None:
        """Run trials until `count` trials have ended, or until all combinations have been tried."""
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

    def _run_trial(self, trial: optuna.Trial) -> None:
        """Train a trial, and record how it ended. Requeue an interrupted trial."""
        name, values = f"trial-{trial.number}", trials.label_values(trial.params, self.search)
        text = trials.format_values(values)
        try:
            try:
                loss = self._train(trial, name, values)
                trials.end(self.study, trial, TrialState.COMPLETE, loss)
                self.message(f"{name}: {loss:.4g} with {text}")
            except optuna.TrialPruned:
                trials.end(self.study, trial, TrialState.PRUNED)
            except (ConfigError, UsageError, DataError, NonFiniteError) as error:
                refused, reason = (
                    not isinstance(error, NonFiniteError),
                    " ".join(str(error).split()),
                )
                trials.end(self.study, trial, TrialState.FAIL, reason=reason, refused=refused)
                self.message(f"{name}: {'refused' if refused else 'failed'} with {text}: {reason}")
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
        """Train a trial and return its best validation loss."""
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


# --- result files ---------------------------------------------------------------------------------


def write_trials(study: optuna.Study, search: Search, path: Path) -> list[dict[str, Any]]:
    """Write `trials.csv`. If a trial is complete, also write `best.yaml`.

    Returns:
        the rows of the trials, the best first; see `TuneResult`.
    """
    rows = _trial_rows(study, search)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "validation_loss", "epochs", *search.paths, "reason"])
    for row in rows:
        values = [trials.yaml_text(row["values"][key]) for key in search.paths]
        writer.writerow(
            [row["trial"], row["state"], row["loss"], row["epochs"], *values, row["reason"]]
        )
    atomic_write(path / "trials.csv", text.getvalue().encode())
    if rows and rows[0]["state"] == "complete":
        best = search.config(rows[0]["values"]).model_copy(update={"name": f"{search.name}-best"})
        atomic_write(path / "best.yaml", to_yaml(best).encode())
    return rows


def write_search_results(study: optuna.Study, search: Search, path: Path) -> TuneResult:
    """Write all result files of a search.

    Raises:
        UsageError: if no trial is complete.
    """
    rows = write_trials(study, search, path)
    if not rows or rows[0]["state"] != "complete":
        states = [row["state"] for row in rows]
        counts = ", ".join(
            f"{states.count(state)} {word}"
            for state, word in (("refused", "refused"), ("fail", "failed")) if state in states
        )  # fmt: skip
        raise UsageError(
            f"{path}: no trial ended with a loss: {counts or 'none was started'}. trials.csv lists"
            " the reasons. Try other ranges."
        )
    importance, reason = _key_importance(study, search)
    if importance:
        figure = importance_figure(importance, f"{search.name}: importance of each key")
        atomic_write(path / IMPORTANCE, as_bytes(figure))
    else:
        (path / IMPORTANCE).unlink(missing_ok=True)  # earlier versions needed fewer trials
    return TuneResult(path, rows, importance, reason, dict(rows[0]["values"]))


def _trial_rows(study: optuna.Study, search: Search) -> list[dict[str, Any]]:
    rows, requeued = list[dict[str, Any]](), trials.requeued_numbers(study)
    for trial in trials.ended_trials(study, search):
        state, loss = trial.state.name.lower(), None
        if trial.number in requeued:
            state = "interrupted"
        elif trials.REFUSED_ATTR in trial.user_attrs:
            state = "refused"
        elif state == "complete":
            loss = trial.value
        elif state == "pruned":
            loss = min(trial.intermediate_values.values(), default=None)
        default = ENDED_ELSEWHERE if state == "fail" else ""
        rows.append({
            "trial": trial.number, "state": state, "loss": loss,
            "epochs": len(trial.intermediate_values),
            "values": trials.label_values(trial.params, search),
            "reason": str(trial.user_attrs.get(trials.REASON_ATTR, default)),
        })  # fmt: skip
    rows.sort(key=lambda row: (row["state"] != "complete",
                               float("inf") if row["loss"] is None else row["loss"]))  # fmt: skip
    return rows


def _key_importance(study: optuna.Study, search: Search) -> tuple[dict[str, float], str]:
    """Compute how much each key separates the best quarter of the complete trials from the rest.

    Source: PED-ANOVA (Watanabe, Bansal and Hutter 2023).

    Returns:
        the importance of each key (the values sum to 1) and an empty string. If the importance
        cannot be computed, the function returns an empty dict and the reason.
    """
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(search.ranges) < 2:
        return {}, "Only one key was searched, so there is no importance to compare."
    if len(finished) < MIN_TRIALS:
        return {}, (
            f"{counted(len(finished), 'trial')} ended with a loss. The importance of keys needs"
            f" {MIN_TRIALS} or more, since with fewer it is unreliable."
        )
    too_little = "The trials differ too little to compute the importance of keys."
    with warnings.catch_warnings():
        # Optuna marks the evaluator and the argument `normalize` as experimental. It would
        # normalize values whose sum is 0 to equal importances.
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        try:
            values = optuna.importance.get_param_importances(
                study, evaluator=evaluator, normalize=False
            )
        except (ValueError, RuntimeError):
            return {}, too_little
    total = sum(values.values())
    if not total > MIN_DIVERGENCE:
        return {}, too_little
    return {key: value / total for key, value in values.items()}, ""
