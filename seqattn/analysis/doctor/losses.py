"""Checks that are based on losses: the comparison with baselines, exposure bias, the spread over
seeds, and overfitting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqattn.analysis.doctor.check import Finding, Verdict, define_check
from seqattn.analysis.doctor.collect import Evidence

MIN_EXPOSURE_RATIO = 1.5  # free-running error / teacher-forced error
MIN_EXPOSURE_GAP = 0.01  # their difference / best parameter-free loss; of symbols, the difference
MIN_LINEAR_GAIN = 0.01  # (loss - loss of the best fitted baseline) / best parameter-free loss
MAX_SEED_RATIO = 2.0  # loss of the worst seed / median loss
MAX_TRAINING_RATIO = 0.7  # training loss at the end / training loss at the best epoch
MIN_VALIDATION_RATIO = 1.25  # validation loss at the end / best validation loss
MIN_GENERALIZATION_RATIO = 3.0  # teacher-forced validation loss / training loss, both at the end
MIN_EPOCHS = 10  # fewer epochs do not show a trend
SEED_SPREAD = "seeds fall apart"
LESS_OVERFITTING = (
    "more training sequences (data.n_train, or a larger file), model.hidden_dim: (narrower), or"
    " training.weight_decay: 0.01 with training.optimizer: adamw; early_stopping saves the time"
)


@define_check("worse than a baseline")
def worse_than_baseline(evidence: Evidence) -> Verdict:
    """Compare the model with the best parameter-free baseline and the best fitted baseline.

    In an exactly linear task, the loss of a fitted baseline is about 0, and even a good model has a
    higher loss. Therefore, the check counts the fitted baseline as better than the model only if
    the loss of the model is higher by more than `MIN_LINEAR_GAIN` times the loss of the
    parameter-free baseline.
    """
    baseline, baseline_loss = evidence.baseline
    number = f"loss {evidence.loss:.4g}, against {baseline_loss:.4g} of {baseline!r}"
    fitted_loss = math.inf
    if evidence.fitted is not None:
        fitted, fitted_loss = evidence.fitted
        number += f" and {fitted_loss:.4g} of {fitted!r}"
    if evidence.loss >= baseline_loss:
        better = "A rule without parameters"
    elif evidence.loss - fitted_loss > MIN_LINEAR_GAIN * baseline_loss:
        better = "A linear map" if evidence.symbol_errors is None else "A bigram model"
    else:
        return "fine", number
    consequence = "" if evidence.weights is None else (
        ": the weights do not show how to solve the task"
    )  # fmt: skip
    change = (
        "training.epochs: (more), or training.learning_rate: 0.003; then model.hidden_dim: (wider)"
    )
    if overfitting(evidence).state == "found":
        change = LESS_OVERFITTING
    return "found", number, f"{better} forecasts better{consequence}.", change


@define_check("exposure bias")
def exposure_bias(evidence: Evidence) -> Verdict:
    """Compare the errors in free running and with teacher forcing.

    A model that was trained on its own forecasts to the end (a teacher-forcing probability of 0)
    has no exposure bias. Its errors with teacher forcing are lower because true values say more.
    """
    free, forced = evidence.errors
    ratio = free / forced if forced > 0 else math.inf if free > 0 else 1.0
    number = f"free running {free:.4g}, {ratio:.2f} times the teacher-forced {forced:.4g}"
    if free == forced == 0:
        number = "free running 0, teacher-forced 0"
    scale = evidence.baseline[1]
    if evidence.symbol_errors is not None:
        number, scale = f"symbol error rate {number}", 1.0
    if ratio < MIN_EXPOSURE_RATIO or free - forced < MIN_EXPOSURE_GAP * scale:
        return "fine", number
    if evidence.teacher_forcing[1] == 0:
        return "fine", f"{number}; but the model was trained on its own forecasts"
    return (
        "found", number,
        "The model learned to continue true values, not its own forecasts, so free-running errors"
        " accumulate.",
        _reduce_teacher_forcing(evidence.kind, *evidence.teacher_forcing),
    )  # fmt: skip


def _reduce_teacher_forcing(kind: str, schedule: str, probability: float) -> str:
    """Return suggested config lines that reduce exposure bias.

    Args:
        kind: the kind of model.
        schedule: the schedule of teacher forcing.
        probability: the teacher-forcing probability in the last epoch.
    """
    if kind == "transformer":
        return (
            "model.kind: recurrent, with training.teacher_forcing.probability: 0.5 (a transformer"
            " always trains with teacher forcing); or training.epochs: (more)"
        )
    down = "training.teacher_forcing: {schedule: linear, end: 0}"
    if schedule == "constant" and probability > 0.5:
        return f"training.teacher_forcing.probability: 0.5, or {down}"
    return down


@define_check(SEED_SPREAD)
def seed_spread(evidence: Evidence) -> Verdict:
    return _judge_seed_spread(evidence.seeds)


def check_seed_spread(seeds: Sequence[float]) -> Finding:
    """Check whether the losses of several seeds are similar.

    Args:
        seeds: the test loss of each seed, inf for a diverged seed.
    """
    return Finding(SEED_SPREAD, *_judge_seed_spread(seeds))


def _judge_seed_spread(losses: Sequence[float]) -> Verdict:
    if len(losses) < 3:
        return "unknown", "fewer than three seeds; train with --seeds 8"
    median, worst, diverged = float(np.median(losses)), max(losses), sum(map(math.isinf, losses))
    last = f"{diverged} diverged" if diverged else f"worst {worst:.4g}"
    number = f"{len(losses)} seeds, median {median:.4g}, {last}"
    if worst < MAX_SEED_RATIO * median or worst == median < math.inf:
        return "fine", number
    return (
        "found", number,
        "No seed has a result." if diverged == len(losses)
        else "The result of one seed is chance: some seeds get stuck where others do not.",
        "training.learning_rate: (lower), training.clip_norm: 1.0, model.hidden_dim: (wider);"
        " and draw no conclusion from one seed",
    )  # fmt: skip


@define_check("overfitting")
def overfitting(evidence: Evidence) -> Verdict:
    """Check whether the model fits the training sequences without generalizing.

    The check finds the problem in three cases. First, the training loss fell clearly after the
    epoch with the best validation loss. Second, the validation loss rose clearly after this epoch,
    but the training loss did not rise. Third, the final training loss is much lower than the final
    teacher-forced validation loss. The third case uses the teacher-forced validation loss because
    training usually uses teacher forcing. All losses are moving averages over a twentieth of the
    epochs, but over at least 3 epochs.
    """
    epochs = len(evidence.history)
    if epochs < MIN_EPOCHS:
        return "unknown", f"needs the losses of {MIN_EPOCHS} epochs, but the run has {epochs}"
    width = max(3, epochs // 20)
    training, validation, forced = (
        np.convolve([getattr(record, key) for record in evidence.history],
                    np.full(width, 1 / width), "valid")
        for key in ("train_loss", "validation_loss", "validation_loss_teacher_forced")
    )  # fmt: skip
    best = int(validation.argmin())
    fell, rose = training[-1] / training[best], validation[-1] / validation[best]
    still_fits = fell <= MAX_TRAINING_RATIO or (fell <= 1 and rose >= MIN_VALIDATION_RATIO)
    if forced[-1] >= MIN_GENERALIZATION_RATIO * training[-1]:
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
        if not still_fits:
            return "fine", number
    return (
        "found", number,
        "The model fits the training sequences and does not generalize (or the splits have other"
        " distributions). The saved best checkpoint has the lowest validation loss; more epochs do"
        " not help.",
        LESS_OVERFITTING,
    )  # fmt: skip
