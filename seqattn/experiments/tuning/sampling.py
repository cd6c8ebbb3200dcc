"""The values of a trial: the sampler's proposal or, if it was tried before, an untried combination.

The values are a function of the seed of the search, the number of the trial and the earlier trials.
No combination of values is tried twice, unless its trial was interrupted. Several processes can
share a database. To avoid equal values, a trial therefore waits until all running trials with lower
numbers have their values, but at most `PEER_TIMEOUT_SECONDS`.

Optuna stores the label of each value; see `Range.labels`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
from optuna import distributions
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from seqattn.config.searching import Range, Search

PEER_TIMEOUT_SECONDS = 5.0
"""Maximum time in seconds to wait until another process has written to the database. The process
may have been killed."""


class FixedSampler(optuna.samplers.BaseSampler):
    """A sampler that returns given values.

    Args:
        values: the label of each key.
    """

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

    Args:
        number: number of the trial.
        message: function that is called with a line if the proposal is replaced.

    Returns:
        the label of each key, or None if no combination is left.
    """
    wait_until(lambda: _all_have_values(study.get_trials(deepcopy=False)[:number], search))
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


def _all_have_values(trials: list[FrozenTrial], search: Search) -> bool:
    """Return whether all running trials in the list have their values."""
    return all(has_values(trial, search) for trial in trials if trial.state == TrialState.RUNNING)


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
    """Return the value of each key that has a label.

    Args:
        labels: labels by key, such as `trial.params`.
    """
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
