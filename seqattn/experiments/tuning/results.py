"""What a search found, as files: a table of the trials, the best config, and which keys matter."""

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
from seqattn.experiments.tuning import trials
from seqattn.plots import as_bytes, importance_figure
from seqattn.runs.storage import atomic_write

IMPORTANCE = "importance.png"
FEWEST_TRIALS = 20
"""Finished trials from which on importance is shown. Of two keys, one of which changes nothing,
that one was named in 22 of 60 searches of 4 trials, 9 of 8, 5 of 12 and 1 of 20
(`tests/walks/test_importance.py`)."""
ELSEWHERE = "ended by another process"


@dataclass(frozen=True)
class TuneResult:
    """What came of a search.

    Attributes:
        path: its folder.
        trials: finished, pruned, refused, failed and interrupted ones, the best first: number,
            state, loss, values, epochs and, of those that failed or were refused, the reason.
        importance: key -> share of the difference between good and other trials; see `_importance`.
        no_importance: why it is empty; "" where it is not.
        best: values of the best trial.
    """

    path: Path
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    no_importance: str
    best: dict[str, Any]


def write_trials(study: optuna.Study, wanted: Search, path: Path) -> list[dict[str, Any]]:
    """trials.csv, and best.yaml once a trial has finished; returns the rows, the best first."""
    rows = _rows(study, wanted)
    atomic_write(path / "trials.csv", _csv(rows, wanted))
    if rows and rows[0]["state"] == "complete":
        best = wanted.config(rows[0]["values"]).model_copy(update={"name": f"{wanted.name}-best"})
        atomic_write(path / "best.yaml", to_yaml(best).encode())
    return rows


def conclude(study: optuna.Study, wanted: Search, path: Path) -> TuneResult:
    """All files of a search.

    Raises:
        UsageError: no trial has finished.
    """
    rows = write_trials(study, wanted, path)
    if not rows or rows[0]["state"] != "complete":
        states = [row["state"] for row in rows]
        found = ", ".join(
            f"{states.count(state)} {said}"
            for state, said in (("refused", "refused"), ("fail", "failed")) if state in states
        )  # fmt: skip
        raise UsageError(
            f"{path}: no trial has ended with a loss: {found or 'none was begun'}. trials.csv has"
            " the reasons. Try other ranges."
        )
    importance, why_not = _importance(study, wanted)
    if importance:
        figure = importance_figure(importance, f"{wanted.name}: what made the difference")
        atomic_write(path / IMPORTANCE, as_bytes(figure))
    else:
        (path / IMPORTANCE).unlink(missing_ok=True)  # of an earlier version, from fewer trials
    return TuneResult(path, rows, importance, why_not, dict(rows[0]["values"]))


def _rows(study: optuna.Study, wanted: Search) -> list[dict[str, Any]]:
    rows, again = list[dict[str, Any]](), trials.tried_again(study)
    for trial in trials.ended(study, wanted):
        state, loss = trials.state_of(trial, again), None
        if state == "complete":
            loss = trial.value
        elif state == "pruned":
            loss = min(trial.intermediate_values.values(), default=None)
        unknown = ELSEWHERE if state == "fail" else ""
        rows.append({
            "trial": trial.number, "state": state, "loss": loss,
            "epochs": len(trial.intermediate_values), "values": trials.values_of(trial, wanted),
            "reason": str(trial.user_attrs.get(trials.REASON, unknown)),
        })  # fmt: skip
    rows.sort(key=lambda row: (row["state"] != "complete",
                               float("inf") if row["loss"] is None else row["loss"]))  # fmt: skip
    return rows


def _importance(study: optuna.Study, wanted: Search) -> tuple[dict[str, float], str]:
    """Which keys make the best quarter of the finished trials differ from the others, as shares
    (Watanabe, Bansal and Hutter 2023, "PED-ANOVA"); or why nothing can be said."""
    whole = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(wanted.ranges) < 2:
        return {}, "One key was searched, so there is nothing to hold its importance against."
    if len(whole) < FEWEST_TRIALS:
        return {}, (
            f"{counted(len(whole), 'trial')} ended with a loss: from fewer than {FEWEST_TRIALS}"
            " nothing is said about which key mattered, since chance would decide."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Optuna, about what is experimental
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        try:
            return dict(optuna.importance.get_param_importances(study, evaluator=evaluator)), ""
        except (ValueError, RuntimeError):
            return {}, "The trials are all alike, so no key made a difference."


def _csv(rows: list[dict[str, Any]], wanted: Search) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "validation_loss", "epochs", *wanted.paths, "reason"])
    for row in rows:
        values = [trials.typed(row["values"][path]) for path in wanted.paths]
        writer.writerow(
            [row["trial"], row["state"], row["loss"], row["epochs"], *values, row["reason"]]
        )
    return text.getvalue().encode()
