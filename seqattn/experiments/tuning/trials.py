"""The trials of a search in Optuna's database: whose study it is, which values come next, and what
became of each trial.

A trial's values are a function of the search's seed, the trial's number, and the trials before it.
No combination of values is tried twice. Several processes may share a database: a trial waits until
those with lower numbers have their values, so that no two of them take the same.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import IntegrityError, OperationalError

from seqattn.config import Training
from seqattn.config.searching import Range, Search
from seqattn.errors import UsageError
from seqattn.experiments.resume import keys_spanning_all_epochs

STARTUP = 5
"""Trials that are left to end, for the others to be held against."""
PATIENCE = 5.0
"""Seconds to wait for what another process does at once, unless it was killed in between."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)

# Attributes of the study and of its trials.
SEARCH = "search"
AGAIN = "again"
"""What a queued trial is of: the number of one that was interrupted."""
REASON = "reason"
REFUSED = "refused"


class Given(optuna.samplers.BaseSampler):
    """A sampler that proposes what it was given."""

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


# --- the study ------------------------------------------------------------------------------------


def open_study(storage: str, wanted: Search, about: Mapping[str, Any]) -> optuna.Study:
    """The study of a search's name, made where there is none. It says in its attribute `SEARCH`
    which search it is of, and has a name of its own there, under "study".

    Args:
        storage: a database URL.
        about: what makes it this search and no other.

    Raises:
        UsageError: the database's driver is not installed; or the study has trials, and does not
            say of which search.
    """
    try:
        database = _database(storage)
    except ImportError:
        kind = storage.partition(":")[0]
        raise UsageError(
            f"--storage {kind}: needs a driver that is not installed; SQLAlchemy's page on {kind}"
            " names those there are."
        ) from None
    try:
        study = optuna.create_study(storage=database, study_name=wanted.name, direction="minimize")
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=database, study_name=wanted.name)
        _wait_until(lambda: SEARCH in study.user_attrs or bool(study.get_trials(deepcopy=False)))
    if SEARCH not in study.user_attrs:  # just made, or by a process that was killed then
        if study.get_trials(deepcopy=False):
            raise UsageError(
                f"the study {study.study_name} in that database was not made by this version of"
                " seqattn tune, so its trials may be of any config. Choose another --name."
            )
        study.set_user_attr(SEARCH, {"study": uuid.uuid4().hex, **about})
    return study


def _database(storage: str) -> optuna.storages.BaseStorage:
    """A database, with Optuna's tables. Of two processes that make them at once one is refused by
    the database, and finds them there a moment later."""
    for _ in range(5):
        try:
            return optuna.storages.get_storage(storage)
        except (IntegrityError, OperationalError):
            time.sleep(0.2)
    return optuna.storages.get_storage(storage)


def _wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what another process does at once, unless it was killed in between."""
    until = time.monotonic() + PATIENCE
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)


# --- values ---------------------------------------------------------------------------------------


def begin(
    study: optuna.Study,
    wanted: Search,
    is_available: Callable[[int], bool],
    say: Callable[[str], None],
) -> Trial | None:
    """The next trial with its values: those of one that was interrupted, or an untried combination;
    None where there is neither.

    Args:
        is_available: whether a number has no run folder yet.
        say: told of a number that is passed over, and of a repeat that is not tried.
    """
    while True:
        trials = study.get_trials(deepcopy=False)
        waits = any(trial.state == TrialState.WAITING for trial in trials)
        if not waits and len(_tried(trials, wanted)) >= wanted.size:
            return None
        trial = study.ask()
        free, queued = is_available(trial.number), AGAIN in trial.user_attrs
        if not free:
            say(f"trial-{trial.number}: is there already, of another study; the number is not used")
        if not queued:
            labels = _choose(study, wanted, trial.number, say) if free else None
            if labels is None:  # or another process took the last
                study.tell(trial, state=TrialState.FAIL)
                continue
            study.sampler = Given(labels)
        for each in wanted.ranges:
            _register(trial, each)
        if free:
            return trial
        queue_again(study, wanted, study.trials[trial.number])


def pruner_of(training: Training, *, epochs_vary: bool) -> optuna.pruners.BasePruner:
    """What ends a trial early: the median of the others at the same epoch, once a fifth of the
    trial's own epochs is over. Nothing does where the same epoch is another part of the schedule
    for another trial: a learning rate that is to fall later looks worse until then.

    Args:
        training: of the trial.
        epochs_vary: whether trials differ in how many epochs they have.
    """
    if epochs_vary and keys_spanning_all_epochs(training):
        return optuna.pruners.NopPruner()
    warmup = max(2, training.epochs // 5)
    return optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=warmup)


def values_of(trial: Trial | FrozenTrial, wanted: Search) -> dict[str, Any]:
    """The values of the keys that a trial has."""
    return {
        each.path: each.value_of(trial.params[each.path])
        for each in wanted.ranges if each.path in trial.params
    }  # fmt: skip


def as_text(values: Mapping[str, Any]) -> str:
    """For people."""
    return ", ".join(f"{key}={_short(value)}" for key, value in values.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else typed(value)


def typed(value: Any) -> str:
    """A value as it is typed."""
    return value if isinstance(value, str) else json.dumps(value)


def _choose(
    study: optuna.Study, wanted: Search, number: int, say: Callable[[str], None]
) -> dict[str, Any] | None:
    """What the sampler proposes, or, where that was tried, an untried combination at random."""
    _wait_until(lambda: _have_values(study.get_trials(deepcopy=False)[:number], wanted))
    trials = study.get_trials(deepcopy=False)
    tried = _tried(trials, wanted)
    if len(tried) >= wanted.size:
        return None
    seed, again, *large = np.random.SeedSequence([wanted.seed, number]).generate_state(6)
    sampler = optuna.samplers.TPESampler(seed=int(seed))
    labels = _proposed(sampler, study, trials[number], wanted)
    if _key(labels, wanted) not in tried:
        return labels
    repeat = labels
    if wanted.size < float("inf"):
        # The place of an untried combination among the untried, and from there among all.
        place = int.from_bytes(np.array(large).tobytes(), "little") % (
            int(wanted.size) - len(tried)
        )
        for taken in sorted(wanted.index_of(dict(key)) for key in tried):
            place += taken <= place
        labels = wanted.labels_of_index(place)
    else:
        uniform = optuna.samplers.RandomSampler(seed=int(again))
        while _key(labels, wanted) in tried:
            labels = _proposed(uniform, study, trials[number], wanted)
    before, now = (
        as_text({each.path: each.value_of(found[each.path]) for each in wanted.ranges})
        for found in (repeat, labels)
    )
    say(f"trial-{number}: {before} is tried already; trying {now}")
    return labels


def _proposed(
    sampler: optuna.samplers.BaseSampler, study: optuna.Study, trial: FrozenTrial, wanted: Search
) -> dict[str, Any]:
    space = sampler.infer_relative_search_space(study, trial)
    labels = sampler.sample_relative(study, trial, space)
    for each in wanted.ordered:
        if each.path not in labels:
            labels[each.path] = sampler.sample_independent(
                study, trial, each.path, _distribution(each)
            )
    return labels


def _tried(trials: list[FrozenTrial], wanted: Search) -> set[tuple[tuple[str, Any], ...]]:
    """Combinations that were tried or are being tried, and those that are queued again."""
    return {_key(trial.params, wanted) for trial in trials if _has_values(trial, wanted)}


def _has_values(trial: FrozenTrial, wanted: Search) -> bool:
    return set(wanted.paths) <= trial.params.keys()


def _key(labels: Mapping[str, Any], wanted: Search) -> tuple[tuple[str, Any], ...]:
    return tuple((path, labels[path]) for path in wanted.paths)


def _have_values(trials: list[FrozenTrial], wanted: Search) -> bool:
    """Whether all of them that are being tried have got their values."""
    return all(_has_values(trial, wanted) for trial in trials if trial.state == TrialState.RUNNING)


def _distribution(each: Range) -> BaseDistribution:
    if each.kind == "choice":
        return CategoricalDistribution(each.labels)
    log = each.kind == "log"
    if each.whole:
        return IntDistribution(int(each.low), int(each.high), log=log)
    return FloatDistribution(each.low, each.high, log=log)


def _register(trial: Trial, each: Range) -> None:
    """Store a trial's value of a key: the one it was queued with, or the sampler's."""
    log = each.kind == "log"
    if each.kind == "choice":
        trial.suggest_categorical(each.path, each.labels)
    elif each.whole:
        trial.suggest_int(each.path, int(each.low), int(each.high), log=log)
    else:
        trial.suggest_float(each.path, each.low, each.high, log=log)


# --- what became of them --------------------------------------------------------------------------


def complete(study: optuna.Study, trial: Trial, loss: float) -> None:
    """
    Raises:
        UpdateFinishedTrialError: another process has ended it.
    """
    _end(study, trial, TrialState.COMPLETE, loss)


def prune(study: optuna.Study, trial: Trial) -> None:
    """
    Raises:
        UpdateFinishedTrialError: another process has ended it.
    """
    _end(study, trial, TrialState.PRUNED)


def fail(study: optuna.Study, trial: Trial, reason: str, *, refused: bool = False) -> None:
    """
    Args:
        reason: a sentence.
        refused: it was never trained: its combination of values cannot be.

    Raises:
        UpdateFinishedTrialError: another process has ended it.
    """
    trial.set_user_attr(REASON, reason)
    if refused:
        trial.set_user_attr(REFUSED, True)
    _end(study, trial, TrialState.FAIL)


def queue_again(study: optuna.Study, wanted: Search, trial: FrozenTrial) -> None:
    """End a trial that was interrupted; its values are tried by another, which counts in its
    place. One that had got no values yet leaves nothing, unless it was itself one's second try."""
    trials = study.get_trials(deepcopy=False)
    number = trial.number if _has_values(trial, wanted) else trial.user_attrs.get(AGAIN)
    queued = any(later.user_attrs.get(AGAIN) == number for later in trials[trial.number + 1 :])
    if number is not None and not queued:
        study.enqueue_trial(trials[number].params, user_attrs={AGAIN: number})
    study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def queue_killed(study: optuna.Study, wanted: Search) -> None:
    """Queue again what killed processes were at. Only where no other process is at the study."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        queue_again(study, wanted, trial)


def _end(study: optuna.Study, trial: Trial, state: TrialState, loss: float | None = None) -> None:
    try:
        study.tell(trial, loss, state=state)
    except ValueError:
        if study.trials[trial.number].state == TrialState.RUNNING:
            raise
        raise optuna.exceptions.UpdateFinishedTrialError from None


def ended(study: optuna.Study, wanted: Search) -> list[FrozenTrial]:
    """Trials that have ended, but for those that never got values."""
    found = study.get_trials(deepcopy=False, states=ENDED)
    return [trial for trial in found if _has_values(trial, wanted)]


def count(study: optuna.Study, wanted: Search) -> int:
    """Trials that have ended by themselves."""
    again = tried_again(study)
    return sum(trial.number not in again for trial in ended(study, wanted))


def tried_again(study: optuna.Study) -> set[int]:
    """Numbers of the trials that were interrupted and have been queued again."""
    found = (trial.user_attrs.get(AGAIN) for trial in study.get_trials(deepcopy=False))
    return {number for number in found if number is not None}


def state_of(trial: FrozenTrial, again: set[int]) -> str:
    """complete, pruned, fail, refused or interrupted."""
    if trial.number in again:
        return "interrupted"
    return REFUSED if REFUSED in trial.user_attrs else trial.state.name.lower()
