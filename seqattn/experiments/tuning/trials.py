"""The trials of a search: the study in Optuna's database, the values of a trial and its end, the
loop over trials, and the result files.

The values of a trial are a proposal of Optuna or, if it was tried before, an untried combination.
They are a function of the seed of the search, the number of the trial and the earlier trials. No
combination of values is tried twice, unless its trial was interrupted, or several processes that
share a database start trials at the same moment.

Optuna stores the label of each value; see `Range.labels`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna import distributions
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import IntegrityError, OperationalError

from seqattn.config import Training, to_yaml
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
from seqattn.plots import as_bytes, importance_figure
from seqattn.runs import EpochRecord
from seqattn.runs.storage import atomic_write

PEER_TIMEOUT_SECONDS = 5.0
"""Maximum time in seconds to wait until the process that creates a study has written what it
searches. The process may have been killed."""
IMPORTANCE = "importance.png"
MIN_TRIALS = 20
"""Minimum number of complete trials for which the importance of keys is computed. The number was
chosen with searches over two keys, one of which had no effect. The key without effect was ranked
first in 22 of 60 searches with 4 trials, in 9 of 60 with 8 trials, in 5 of 60 with 12 trials, and
in 1 of 60 with 20 trials (`tests/walks/test_importance.py`)."""
MIN_DIVERGENCE = 1e-12
"""If the sum of the unscaled importances is at most this number, no key has an importance."""
ENDED_ELSEWHERE = "ended by another process"
STARTUP_TRIALS = 5
"""Number of complete trials that must have reached an epoch before any trial is pruned after this
epoch, so that the median is reliable."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)

# User attributes of the study and of its trials.
SEARCH_ATTR = "search"
REQUEUED_FROM_ATTR = "again"
"""Name of the attribute with the number of the interrupted trial that a trial repeats."""
REASON_ATTR = "reason"
REFUSED_ATTR = "refused"


# --- the study ------------------------------------------------------------------------------------


def open_study(storage: str, search: Search, identity: Mapping[str, Any]) -> optuna.Study:
    """Open the study with the name of a search, or create it.

    The attribute `SEARCH_ATTR` of the study contains the identity of the search, and an id under
    "study".

    Raises:
        UsageError: if the database driver is not installed, or if the study has trials of an
            unknown search.
    """
    for attempt in range(5):
        try:
            database = optuna.storages.get_storage(storage)
            break
        except ImportError:
            kind = storage.partition(":")[0]
            raise UsageError(
                f"--storage {kind}: needs a driver that is not installed. SQLAlchemy's"
                f" documentation of {kind} lists the drivers."
            ) from None
        except (IntegrityError, OperationalError):  # another process creates the tables
            if attempt == 4:
                raise
            time.sleep(0.2)
    try:
        study = optuna.create_study(storage=database, study_name=search.name, direction="minimize")
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=database, study_name=search.name)
        deadline = time.monotonic() + PEER_TIMEOUT_SECONDS
        while SEARCH_ATTR not in study.user_attrs and time.monotonic() < deadline:
            time.sleep(0.02)
    if SEARCH_ATTR not in study.user_attrs:  # a new study, or its process was killed here
        if study.get_trials(deepcopy=False):
            raise UsageError(
                f"the study {study.study_name} in that database was not made by this version of"
                " seqattn tune, so its trials may have used any config. Choose another --name."
            )
        study.set_user_attr(SEARCH_ATTR, {"study": uuid.uuid4().hex, **identity})
    return study


# --- start ----------------------------------------------------------------------------------------


class UntriedSampler(optuna.samplers.BaseSampler):
    """A sampler that proposes the values of Optuna's TPE sampler or, if they were tried before, a
    random combination that was not.

    Args:
        search: the search.
        message: function that is called with a line about values that were tried before.
    """

    def __init__(self, search: Search, message: Callable[[str], None]) -> None:
        self.search, self.message = search, message

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        is_queued = REQUEUED_FROM_ATTR in trial.user_attrs  # and has its values
        return {} if is_queued else search_space(self.search)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}

        def draw(sampler: optuna.samplers.BaseSampler) -> dict[str, Any]:
            together = sampler.infer_relative_search_space(study, trial)
            labels = sampler.sample_relative(study, trial, together)
            for path, distribution in search_space.items():
                if path not in labels:
                    labels[path] = sampler.sample_independent(study, trial, path, distribution)
            return labels

        tried = tried_combinations(study.get_trials(deepcopy=False), self.search)
        tpe_seed, random_seed = (
            int(word)
            for word in np.random.SeedSequence([self.search.seed, trial.number]).generate_state(2)
        )
        labels = proposed = draw(optuna.samplers.TPESampler(seed=tpe_seed))
        random = optuna.samplers.RandomSampler(seed=random_seed)
        while _combination(labels, self.search) in tried and len(tried) < self.search.size:
            labels = draw(random)
        if labels is not proposed:
            old, new = (
                format_values(label_values(drawn, self.search)) for drawn in (proposed, labels)
            )
            self.message(f"trial-{trial.number}: {old} was tried before; trying {new} instead")
        return labels

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:  # fmt: skip
        raise AssertionError(f"{param_name} is not a key of the search")


def start_trial(
    study: optuna.Study, search: Search, message: Callable[[str], None]
) -> Trial | None:
    """Start the next trial, with the values of an interrupted trial or an untried combination.
    Return None if no combination is left."""
    trials = study.get_trials(deepcopy=False)
    is_queued = any(trial.state == TrialState.WAITING for trial in trials)
    if not is_queued and len(tried_combinations(trials, search)) >= search.size:
        return None
    study.sampler = UntriedSampler(search, message)
    return study.ask(search_space(search))


def build_pruner(training: Training, *, varies_epochs: bool) -> optuna.pruners.BasePruner:
    """Build the pruner of a trial.

    A trial is pruned at epoch max(2, epochs / 5), rounded up, or later if its lowest validation
    loss so far is higher than the median validation loss of the complete trials at the same epoch.
    The median needs `STARTUP_TRIALS` complete trials that reached this epoch.

    Args:
        varies_epochs: whether trials can have different numbers of epochs. No trial is then pruned,
            because the trials can be at different points of a schedule.
    """
    if varies_epochs:
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(
        n_startup_trials=STARTUP_TRIALS,
        n_warmup_steps=max(2, math.ceil(training.epochs / 5)),
        n_min_trials=STARTUP_TRIALS,
    )


# --- values ---------------------------------------------------------------------------------------


def tried_combinations(
    trials: list[FrozenTrial], search: Search
) -> set[tuple[tuple[str, Any], ...]]:
    """Return the combinations of all trials that have values."""
    return {_combination(trial.params, search) for trial in trials if has_values(trial, search)}


def _combination(labels: Mapping[str, Any], search: Search) -> tuple[tuple[str, Any], ...]:
    return tuple((path, labels[path]) for path in search.paths)


def has_values(trial: FrozenTrial, search: Search) -> bool:
    return set(search.paths) <= trial.params.keys()


def search_space(search: Search) -> dict[str, BaseDistribution]:
    """Return the distribution of each key. The keys are sorted, so that random draws do not depend
    on the order of the options."""
    space = dict[str, BaseDistribution]()
    for param_range in sorted(search.ranges, key=lambda one: one.path):
        if param_range.kind == "choice":
            space[param_range.path] = distributions.CategoricalDistribution(param_range.labels)
            continue
        low, high, log = param_range.low, param_range.high, param_range.kind == "log"
        space[param_range.path] = (
            distributions.IntDistribution(int(low), int(high), log=log)
            if param_range.whole
            else distributions.FloatDistribution(low, high, log=log)
        )
    return space


def label_values(labels: Mapping[str, Any], search: Search) -> dict[str, Any]:
    """Return the value of each key that has a label."""
    return {
        param_range.path: param_range.value_of(labels[param_range.path])
        for param_range in search.ranges if param_range.path in labels
    }  # fmt: skip


def format_values(values: Mapping[str, Any]) -> str:
    """Format values for a message as `KEY=VALUE, ...`, with four significant digits for floats."""
    return ", ".join(
        f"{key}={f'{value:.4g}' if isinstance(value, float) else yaml_text(value)}"
        for key, value in values.items()
    )


def yaml_text(value: Any) -> str:
    """Format a value in the same way as VALUE in `--set PATH=VALUE`."""
    return value if isinstance(value, str) else json.dumps(value)


# --- how trials end -------------------------------------------------------------------------------


def end(
    study: optuna.Study, trial: Trial, state: TrialState, loss: float | None = None, *,
    reason: str = "", refused: bool = False,
) -> None:  # fmt: skip
    """Record the end of a trial: with its best validation loss if it is complete, or with the error
    message if it failed. A refused trial had an invalid config or invalid data; any other failed
    trial diverged.

    Raises:
        UpdateFinishedTrialError: if another process has ended the trial.
    """
    if reason:
        trial.set_user_attr(REASON_ATTR, reason)
    if refused:
        trial.set_user_attr(REFUSED_ATTR, True)
    try:
        study.tell(trial, loss, state=state)
    except ValueError:
        if study.trials[trial.number].state == TrialState.RUNNING:
            raise
        raise optuna.exceptions.UpdateFinishedTrialError from None


def requeue(study: optuna.Study, search: Search, trial: FrozenTrial) -> None:
    """End an interrupted trial, and queue its values for a new trial that replaces it.

    If the trial has no values yet but repeats an earlier trial, the values of the earlier trial are
    queued again. If the trial has no values and repeats no trial, nothing is queued.
    """
    trials = study.get_trials(deepcopy=False)
    repeated = trial.user_attrs.get(REQUEUED_FROM_ATTR)
    number = trial.number if has_values(trial, search) else repeated
    later = trials[trial.number + 1 :]
    is_queued = any(other.user_attrs.get(REQUEUED_FROM_ATTR) == number for other in later)
    if number is not None and not is_queued:
        study.enqueue_trial(trials[number].params, user_attrs={REQUEUED_FROM_ATTR: number})
    study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def requeue_killed(study: optuna.Study, search: Search) -> None:
    """Requeue all running trials. Call this function only while no other process uses the study."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        requeue(study, search, trial)


def ended_trials(study: optuna.Study, search: Search) -> list[FrozenTrial]:
    """Return the trials that have ended, except the trials that never received values."""
    trials = study.get_trials(deepcopy=False, states=ENDED)
    return [trial for trial in trials if has_values(trial, search)]


def count_trials(study: optuna.Study, search: Search) -> int:
    """Count the trials that have ended, except the trials that were interrupted."""
    requeued = requeued_numbers(study)
    return sum(trial.number not in requeued for trial in ended_trials(study, search))


def requeued_numbers(study: optuna.Study) -> set[int]:
    """Return the numbers of the interrupted trials that have been queued again."""
    attributes = (trial.user_attrs for trial in study.get_trials(deepcopy=False))
    return {attrs[REQUEUED_FROM_ATTR] for attrs in attributes if REQUEUED_FROM_ATTR in attrs}


# --- the loop -------------------------------------------------------------------------------------


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
        finished, epochs = count_trials(self.study, self.search), self.search.epochs
        total = max(int(min(count, self.search.size)), finished)
        self.callbacks.begin(finished * epochs, total * epochs, total)
        while count_trials(self.study, self.search) < count:
            if number := self.callbacks.stop():
                raise Interrupted(number, f"{self.path}: run the same command again to continue.")
            trial = start_trial(self.study, self.search, self.message)
            if trial is None:
                self.message(f"{self.path}: all {self.search.size} combinations have been tried.")
                return
            self._run_trial(trial)

    def _run_trial(self, trial: optuna.Trial) -> None:
        """Train a trial, and record how it ended. Requeue an interrupted trial."""
        name, values = f"trial-{trial.number}", label_values(trial.params, self.search)
        text = format_values(values)
        try:
            try:
                loss = self._train(trial, name, values)
                end(self.study, trial, TrialState.COMPLETE, loss)
                self.message(f"{name}: {loss:.4g} with {text}")
            except optuna.TrialPruned:
                end(self.study, trial, TrialState.PRUNED)
            except (ConfigError, UsageError, DataError, NonFiniteError) as error:
                refused, reason = (
                    not isinstance(error, NonFiniteError),
                    " ".join(str(error).split()),
                )
                end(self.study, trial, TrialState.FAIL, reason=reason, refused=refused)
                self.message(f"{name}: {'refused' if refused else 'failed'} with {text}: {reason}")
        except optuna.exceptions.UpdateFinishedTrialError:
            self.message(f"{name}: ended by another process; its run folder is kept")
        except Interrupted as interrupted:
            requeue(self.study, self.search, self.study.trials[trial.number])
            raise Interrupted(
                interrupted.exit_code - 128,
                f"in {self.path / name}; run the same command again to repeat this trial and"
                " continue.",
            ) from None
        except (StorageError, OSError, FolderLockedError) as error:
            # Requeuing also fails if the disk is full. The next call then requeues the trial.
            with contextlib.suppress(Exception):
                requeue(self.study, self.search, self.study.trials[trial.number])
            if isinstance(error, StorageError):
                remedy = "To continue a search, run its command again; it repeats this trial."
                raise StorageError(f"{error} {remedy}") from None
            raise

    def _train(self, trial: optuna.Trial, name: str, values: Mapping[str, Any]) -> float:
        """Train a trial and return its best validation loss."""
        config = self.search.config(values)
        self.study.pruner = build_pruner(config.training, varies_epochs=self.search.varies_epochs)

        def report_epoch(folder: Path, record: EpochRecord) -> None:
            self.callbacks.epoch(folder, record)
            trial.report(record.validation_loss, record.epoch)
            if trial.should_prune():
                self.message(f"{name}: pruned after epoch {record.epoch}, at"
                             f" {record.validation_loss:.4g}")  # fmt: skip
                self.callbacks.ended(folder)
                raise optuna.TrialPruned

        callbacks = Callbacks(
            epoch=report_epoch, ended=self.callbacks.ended, stop=self.callbacks.stop
        )
        _, summary = train_one(
            config.model_copy(update={"name": name}), self.path,
            device=self.device, threads=self.threads, plots=False, callbacks=callbacks,
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
        values = [yaml_text(row["values"][key]) for key in search.paths]
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
    return TuneResult(path, rows, importance, reason, dict(rows[0]["values"]))


def _trial_rows(study: optuna.Study, search: Search) -> list[dict[str, Any]]:
    rows, requeued = list[dict[str, Any]](), requeued_numbers(study)
    for trial in ended_trials(study, search):
        state, loss = trial.state.name.lower(), None
        if trial.number in requeued:
            state = "interrupted"
        elif REFUSED_ATTR in trial.user_attrs:
            state = "refused"
        elif state == "complete":
            loss = trial.value
        elif state == "pruned":
            loss = min(trial.intermediate_values.values(), default=None)
        default = ENDED_ELSEWHERE if state == "fail" else ""
        rows.append({
            "trial": trial.number, "state": state, "loss": loss,
            "epochs": len(trial.intermediate_values),
            "values": label_values(trial.params, search),
            "reason": str(trial.user_attrs.get(REASON_ATTR, default)),
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
