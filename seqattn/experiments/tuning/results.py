"""The result files of a search: a table of trials, the best config, and the importance of keys."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from seqattn.config import to_yaml
from seqattn.config.searching import Search
from seqattn.errors import UsageError, counted
from seqattn.experiments.tuning import sampling, trials
from seqattn.plots import as_bytes, importance_figure
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
        path: the search folder.
        trials: a row for each trial that ended, the best first, with the keys `trial` (number),
            `state` (complete, pruned, refused, fail or interrupted), `loss`, `values`, `epochs` and
            `reason` (for the states fail and refused).
        importance: importance of each key (the values sum to 1); empty if the importance cannot be
            computed.
        no_importance: reason why `importance` is empty; otherwise "".
        best: the values of the best trial.
    """

    path: Path
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    no_importance: str
    best: dict[str, Any]


def write_trials(study: optuna.Study, search: Search, path: Path) -> list[dict[str, Any]]:
    """Write `trials.csv`. If a trial is complete, also write `best.yaml`.

    Returns:
        the rows of the trials, the best first; see `TuneResult`.
    """
    rows = _trial_rows(study, search)
    atomic_write(path / "trials.csv", _trials_csv(rows, search))
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
        state, loss = trials.trial_state(trial, requeued), None
        if state == "complete":
            loss = trial.value
        elif state == "pruned":
            loss = min(trial.intermediate_values.values(), default=None)
        default = ENDED_ELSEWHERE if state == "fail" else ""
        rows.append({
            "trial": trial.number, "state": state, "loss": loss,
            "epochs": len(trial.intermediate_values),
            "values": sampling.label_values(trial.params, search),
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


def _trials_csv(rows: list[dict[str, Any]], search: Search) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "validation_loss", "epochs", *search.paths, "reason"])
    for row in rows:
        values = [sampling.yaml_text(row["values"][path]) for path in search.paths]
        writer.writerow(
            [row["trial"], row["state"], row["loss"], row["epochs"], *values, row["reason"]]
        )
    return text.getvalue().encode()
