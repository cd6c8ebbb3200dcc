"""Functions that find non-finite values and build the errors that report these values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seqattn.errors import NonFiniteError
from seqattn.training.epoch_plan import EpochPlan
from seqattn.training.learner import Learner
from seqattn.training.state import TrainState

MAX_IDS = 8
"""Largest number of sequence ids in an error message."""
REMEDY = (
    "Try a lower training.learning_rate, set training.clip_norm, or set data.scaling for your"
    " own data."
)


@dataclass(frozen=True)
class NonFinite:
    """A non-finite value of a training step.

    Attributes:
        row: row of the run.
        value: the value, which is NaN or infinite.
        name: name of the value, for messages.
    """

    row: int
    value: float
    name: str


def find_non_finite(
    active_rows: Sequence[int], losses: Sequence[float], norms: Sequence[float]
) -> list[NonFinite]:
    """Find the first non-finite value of each active run.

    Args:
        active_rows: rows of the active runs.
        losses: (R,) training losses.
        norms: (R,) norms of the gradients.
    """
    non_finite = []
    for k in active_rows:
        for value, name in ((losses[k], "training loss"), (norms[k], "gradient's norm")):
            if not math.isfinite(value):
                non_finite.append(NonFinite(k, value, name))
                break
    return non_finite


def step_error(
    non_finite: NonFinite, state: TrainState, learner: Learner, plan: EpochPlan
) -> NonFiniteError:
    """Build the error for a non-finite value in the next step of a state."""
    row, value, name = non_finite.row, non_finite.value, non_finite.name
    run = state.progress[row].run
    sequence_ids = learner.loader.ids_of_batch(state.step, run.seed, state.epoch, run.sequence_ids)
    batch = f"{len(sequence_ids)} training sequences: {', '.join(sequence_ids[:MAX_IDS])}"
    more = f" and {len(sequence_ids) - MAX_IDS} more" if len(sequence_ids) > MAX_IDS else ""
    return NonFiniteError(
        f"The {name} is {value} in epoch {state.epoch + 1}, step {state.step + 1}, at learning"
        f" rate {plan.learning_rates[row]:g}, in a batch of {batch}{more}. The weights were not"
        f" updated with it, and the newest checkpoint was saved before it. {REMEDY}",
        state.epoch + 1,
        state.step + 1,
    )


def validation_error(value: float, k: int, state: TrainState, plan: EpochPlan) -> NonFiniteError:
    """Build the error for a non-finite validation loss.

    Args:
        value: the validation loss.
        k: row of the run.
        state: state after all steps of the epoch.
        plan: the plan of the epoch.
    """
    return NonFiniteError(
        f"The validation loss is {value} after epoch {state.epoch + 1}, at learning rate"
        f" {plan.learning_rates[k]:g}. All losses and gradients of the epoch were finite, and"
        " all its updates were made; the newest checkpoint was saved before this validation."
        f" {REMEDY}",
        state.epoch + 1,
        None,
    )
