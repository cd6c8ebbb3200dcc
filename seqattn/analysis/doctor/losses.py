"""Checks of the losses: beside baselines, free running, over seeds and over epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqattn.analysis.doctor.check import Finding, Verdict, check
from seqattn.analysis.doctor.collect import Evidence

EXPOSED = 1.5  # free running, of teacher-forced
EXPOSED_SHARE = 0.01  # of the best parameter-free baseline's loss
LINEAR_SHARE = 0.01  # of the best parameter-free baseline's loss, by which a linear map is better
APART = 2.0  # worst seed, of the median
MEMORIZED = 0.7  # of the training loss at the best epoch is left at the end
ROSE = 1.25  # validation loss at the end, of the best
GAP = 3.0  # teacher-forced validation loss at the end, of the training loss
FEWEST_EPOCHS = 10  # for a trend
SEEDS_APART = "seeds fall apart"
LESS_OVERFITTING = (
    "more training sequences (data.n_train, or a larger file), model.hidden_dim: (narrower), or"
    " training.weight_decay: 0.01 with training.optimizer: adamw; early_stopping saves the time"
)


@check("worse than a baseline")
def worse_than_baseline(evidence: Evidence) -> Verdict:
    """Against the best parameter-free baseline, and against a fitted one. A task that is exactly
    linear has a fitted loss of about 0, so a fitted baseline must be better by a share of the
    other's loss to count."""
    baseline, baseline_loss = evidence.baseline
    number = f"loss {evidence.loss:.4g}, against {baseline_loss:.4g} of {baseline!r}"
    fitted_loss = math.inf
    if evidence.fitted is not None:
        fitted, fitted_loss = evidence.fitted
        number += f" and {fitted_loss:.4g} of {fitted!r}"
    if evidence.loss >= baseline_loss:
        better = "A rule without parameters"
    elif evidence.loss - fitted_loss > LINEAR_SHARE * baseline_loss:
        better = "A linear map"
    else:
        return "fine", number
    follows = "" if evidence.weights is None else (
        ": whatever the weights show is not what solves the task"
    )  # fmt: skip
    change = (
        "training.epochs: (more), or training.learning_rate: 0.003; then model.hidden_dim: (wider)"
    )
    if overfitting(evidence).state == "found":
        change = LESS_OVERFITTING
    return "found", number, f"{better} forecasts better{follows}.", change


@check("exposure bias")
def exposure_bias(evidence: Evidence) -> Verdict:
    loss, forced = evidence.loss, evidence.forced
    ratio = loss / forced if forced > 0 else 1.0
    number = f"free running {loss:.4g}, {ratio:.2f} times the teacher-forced {forced:.4g}"
    if ratio < EXPOSED or loss - forced < EXPOSED_SHARE * evidence.baseline[1]:
        return "fine", number
    return (
        "found", number,
        "It has learned to go on from the truth, not from what it said itself; on its own, mistakes"
        " grow.",
        _less_forcing(evidence.kind, *evidence.forcing),
    )  # fmt: skip


def _less_forcing(kind: str, schedule: str, probability: float) -> str:
    """What to change so that a model learns from its own forecasts.

    Args:
        probability: of teacher forcing in the last epoch.
    """
    if kind == "transformer":
        return (
            "model.kind: recurrent, with training.teacher_forcing.probability: 0.5 (a transformer"
            " is always told the truth); or training.epochs: (more)"
        )
    if probability == 0:
        return "training.epochs: (more), or model.hidden_dim: (wider): it hears itself already"
    down = "training.teacher_forcing: {schedule: linear, end: 0}"
    if schedule == "constant" and probability > 0.5:
        return f"training.teacher_forcing.probability: 0.5, or {down}"
    return down


@check(SEEDS_APART)
def seeds_of_run_apart(evidence: Evidence) -> Verdict:
    return _apart(evidence.seeds)


def seeds_apart(seeds: Sequence[float]) -> Finding:
    """Whether what came of several seeds is one thing.

    Args:
        seeds: their test losses; inf of those that diverged.
    """
    return Finding(SEEDS_APART, *_apart(seeds))


def _apart(losses: Sequence[float]) -> Verdict:
    if len(losses) < 3:
        return "unknown", "fewer than three seeds; train with --seeds 8"
    median, worst, diverged = float(np.median(losses)), max(losses), sum(map(math.isinf, losses))
    last = f"{diverged} diverged" if diverged else f"worst {worst:.4g}"
    number = f"{len(losses)} seeds, median {median:.4g}, {last}"
    if worst < APART * median:
        return "fine", number
    return (
        "found", number,
        "What one seed shows is luck: some get stuck where others do not.",
        "training.learning_rate: (lower), training.clip_norm: 1.0, model.hidden_dim: (wider);"
        " and say nothing from one seed",
    )  # fmt: skip


@check("overfitting")
def overfitting(evidence: Evidence) -> Verdict:
    """Whether the training sequences are fitted at the expense of others: training went on to fit
    them after validation had stopped improving, or fits them several times better.

    Losses are means over a twentieth of the epochs, so that one epoch's noise decides nothing.
    Training is under teacher forcing, partly at least, so it is compared with teacher-forced
    validation.
    """
    epochs = len(evidence.history)
    if epochs < FEWEST_EPOCHS:
        return "unknown", f"needs the losses of {FEWEST_EPOCHS} epochs, has {epochs}"
    width = max(3, epochs // 20)
    training, validation, forced = (
        np.convolve([getattr(record, key) for record in evidence.history],
                    np.full(width, 1 / width), "valid")
        for key in ("train_loss", "validation_loss", "validation_loss_teacher_forced")
    )  # fmt: skip
    best = int(validation.argmin())
    fell, rose = training[-1] / training[best], validation[-1] / validation[best]
    goes_on = fell <= MEMORIZED or (fell <= 1 and rose >= ROSE)
    if forced[-1] >= GAP * training[-1]:
        number = (
            f"the training loss is {training[-1]:.4g} at the end, teacher-forced validation"
            f" {forced[-1]:.4g}"
        )
    else:
        number = (
            f"from about epoch {best + width} to {epochs} the training loss went from"
            f" {training[best]:.4g} to {training[-1]:.4g}, validation from {validation[best]:.4g}"
            f" to {validation[-1]:.4g}"
        )
        if not goes_on:
            return "fine", number
    return (
        "found", number,
        "It fits the training sequences and not what holds for others (or the parts differ in"
        " kind). The kept weights are those of the best validation loss; more epochs do not help.",
        LESS_OVERFITTING,
    )  # fmt: skip
