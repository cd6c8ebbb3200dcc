"""The trials of a search: the study in Optuna's database, the values of a trial, and its end.

The values of a trial are the sampler's proposal or, if it was tried before, an untried combination.
They are a function of the seed of the search, the number of the trial and the earlier trials. No
combination of values is tried twice, unless its trial was interrupted. Several processes can share
a database. To avoid equal values, a trial therefore waits until all running trials with lower
numbers have their values, but at most `PEER_TIMEOUT_SECONDS`.

Optuna stores the label of each value; see `Range.labels`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
from optuna import distributions
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import IntegrityError, OperationalError

from seqattn.config import Training
from seqattn.config.searching import Range, Search
from seqattn.errors import ConfigError, UsageError

PEER_TIMEOUT_SECONDS = 5.0
"""Maximum time in seconds to wait until another process has written to the database. The process
may have been killed."""
STARTUP_TRIALS = 5
"""Number of complete trials that must have reached an epoch before any trial is pruned after this
epoch, so that the median is reliable."""
SCHEDULED = ("training.teacher_forcing", "training.learning_rate_schedule")
"""The sections with schedules that can span all epochs."""
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
    try:
        database = _open_database(storage)
    except ImportError:
        kind = storage.partition(":")[0]
        raise UsageError(
            f"--storage {kind}: needs a driver that is not installed. SQLAlchemy's documentation"
            f" of {kind} lists the drivers."
        ) from None
    try:
        study = optuna.create_study(storage=database, study_name=search.name, direction="minimize")
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=database, study_name=search.name)
        wait_until(
            lambda: SEARCH_ATTR in study.user_attrs or bool(study.get_trials(deepcopy=False))
        )
    if SEARCH_ATTR not in study.user_attrs:  # a new study, or its process was killed here
        if study.get_trials(deepcopy=False):
            raise UsageError(
                f"the study {study.study_name} in that database was not made by this version of"
                " seqattn tune, so its trials may have used any config. Choose another --name."
            )
        study.set_user_attr(SEARCH_ATTR, {"study": uuid.uuid4().hex, **identity})
    return study


def _open_database(storage: str) -> optuna.storages.BaseStorage:
    """Open a database and create Optuna's tables.

    If two processes create the tables at the same time, one of them gets an error from the
    database. This process tries again, and then finds the tables.
    """
    for _ in range(5):
        try:
            return optuna.storages.get_storage(storage)
        except (IntegrityError, OperationalError):
            time.sleep(0.2)
    return optuna.storages.get_storage(storage)


# --- start ----------------------------------------------------------------------------------------


def start_trial(
    study: optuna.Study,
    search: Search,
    is_available: Callable[[int], bool],
    message: Callable[[str], None],
) -> Trial | None:
    """Start the next trial, with the values of an interrupted trial or an untried combination.

    Args:
        is_available: function that takes the number of a trial, and returns whether this trial has
            no run folder yet.

    Returns:
        the trial, or None if no combination is left.
    """
    while True:
        trials = study.get_trials(deepcopy=False)
        has_queued = any(trial.state == TrialState.WAITING for trial in trials)
        if not has_queued and len(tried_combinations(trials, search)) >= search.size:
            return None
        trial = study.ask()
        number, is_unused = trial.number, is_available(trial.number)
        if not is_unused:
            message(f"trial-{number}: its folder belongs to another study; the number is skipped")
        if REQUEUED_FROM_ATTR not in trial.user_attrs:
            labels = None
            if is_unused:
                labels = choose_labels(study, search, number, message)
            if labels is None:  # the number is skipped, or no combination is left
                study.tell(trial, state=TrialState.FAIL)
                continue
            study.sampler = FixedSampler(labels)
        for param_range in search.ranges:
            suggest_value(trial, param_range)
        if is_unused:
            return trial
        requeue(study, search, study.trials[number])


def are_comparable(search: Search) -> bool:
    """Return whether the losses of all trials of a search are comparable at the same epoch.

    They are not comparable if the trials have different numbers of epochs and any trial can have a
    schedule that spans all epochs, because the trials are then at different points of the schedule.
    """
    ranges = [
        param_range for param_range in search.ranges
        if param_range.path == "training" or param_range.path.startswith(SCHEDULED)
    ]  # fmt: skip
    paths, found = [param_range.path for param_range in ranges], list[Training]()
    for values in itertools.product(
        *(param_range.values or (param_range.low,) for param_range in ranges)
    ):
        with contextlib.suppress(ConfigError):  # a trial with such values is refused
            found.append(search.config(dict(zip(paths, values, strict=True))).training)
    epochs_vary = search.varies_epochs or len({training.epochs for training in found}) > 1
    return not (epochs_vary and any(training.keys_spanning_all_epochs() for training in found))


def build_pruner(training: Training, *, are_comparable: bool) -> optuna.pruners.BasePruner:
    """Build the pruner of a trial.

    A trial is pruned at epoch max(2, epochs / 5), rounded up, or later if its lowest validation
    loss so far is higher than the median validation loss of the complete trials at the same epoch.
    The median needs `STARTUP_TRIALS` complete trials that reached this epoch.

    Args:
        are_comparable: see `are_comparable`. If this is False, no trial is pruned.
    """
    if not are_comparable:
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(
        n_startup_trials=STARTUP_TRIALS,
        n_warmup_steps=max(2, math.ceil(training.epochs / 5)),
        n_min_trials=STARTUP_TRIALS,
    )


# --- values ---------------------------------------------------------------------------------------


class FixedSampler(optuna.samplers.BaseSampler):
    """A sampler that returns given values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:  # fmt: skip
        return self.values[param_name]


def choose_labels(
    study: optuna.Study, search: Search, number: int, message: Callable[[str], None]
) -> dict[str, Any] | None:
    """Choose the values of a new trial.

    If the sampler proposes values that were tried before, the function draws an untried combination
    instead.

    Returns:
        the label of each key, or None if no combination is left.
    """
    running = (TrialState.RUNNING,)
    wait_until(lambda: all(
        has_values(trial, search) or trial.number >= number
        for trial in study.get_trials(deepcopy=False, states=running)
    ))  # fmt: skip
    trials = study.get_trials(deepcopy=False)
    tried = tried_combinations(trials, search)
    if len(tried) >= search.size:
        return None
    tpe_seed, random_seed, *words = np.random.SeedSequence([search.seed, number]).generate_state(6)
    sampler = optuna.samplers.TPESampler(seed=int(tpe_seed))
    labels = _sample_labels(sampler, study, trials[number], search)
    if _combination(labels, search) not in tried:
        return labels
    repeated = labels
    if search.size < float("inf"):
        # Draw an index among the untried combinations, then convert it to an index among all.
        place = int.from_bytes(np.array(words).tobytes(), "little") % (
            int(search.size) - len(tried)
        )
        for tried_place in sorted(search.index_of(dict(key)) for key in tried):
            place += tried_place <= place
        labels = search.labels_of_index(place)
    else:
        random_sampler = optuna.samplers.RandomSampler(seed=int(random_seed))
        while _combination(labels, search) in tried:
            labels = _sample_labels(random_sampler, study, trials[number], search)
    old, new = (format_values(label_values(choice, search)) for choice in (repeated, labels))
    message(f"trial-{number}: {old} was tried before; trying {new} instead")
    return labels


def _sample_labels(
    sampler: optuna.samplers.BaseSampler, study: optuna.Study, trial: FrozenTrial, search: Search
) -> dict[str, Any]:
    space = sampler.infer_relative_search_space(study, trial)
    labels = sampler.sample_relative(study, trial, space)
    for param_range in search.ordered:
        if (path := param_range.path) not in labels:
            labels[path] = sampler.sample_independent(
                study, trial, path, _distribution(param_range)
            )
    return labels


def tried_combinations(
    trials: list[FrozenTrial], search: Search
) -> set[tuple[tuple[str, Any], ...]]:
    """Return the combinations of all trials that have values."""
    return {_combination(trial.params, search) for trial in trials if has_values(trial, search)}


def _combination(labels: Mapping[str, Any], search: Search) -> tuple[tuple[str, Any], ...]:
    return tuple((path, labels[path]) for path in search.paths)


def has_values(trial: FrozenTrial, search: Search) -> bool:
    return set(search.paths) <= trial.params.keys()


def _distribution(param_range: Range) -> BaseDistribution:
    if param_range.kind == "choice":
        return distributions.CategoricalDistribution(param_range.labels)
    low, high, log = param_range.low, param_range.high, param_range.kind == "log"
    if param_range.whole:
        return distributions.IntDistribution(int(low), int(high), log=log)
    return distributions.FloatDistribution(low, high, log=log)


def suggest_value(trial: Trial, param_range: Range) -> None:
    """Store the value of a key in a trial: the value with which the trial was queued, if any, and
    otherwise the sampler's value."""
    path, low, high = param_range.path, param_range.low, param_range.high
    log = param_range.kind == "log"
    if param_range.kind == "choice":
        trial.suggest_categorical(path, param_range.labels)
    elif param_range.whole:
        trial.suggest_int(path, int(low), int(high), log=log)
    else:
        trial.suggest_float(path, low, high, log=log)


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


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true or until `PEER_TIMEOUT_SECONDS` have passed."""
    deadline = time.monotonic() + PEER_TIMEOUT_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


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
