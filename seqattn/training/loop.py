"""The training loop for a single run or for many runs side by side.

`fit` trains a group, `train_epoch` trains for the rest of an epoch, and `train_step` trains on a
batch. No step waits for the device to report whether the loss is finite. The loop checks losses,
weights and moments only before a save and at the end of an epoch. If any of them is not finite, the
loop restores the last snapshot, repeats the steps since then, and checks each step, up to the first
step with a non-finite value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seqattn.errors import DataError, DistributedError, NonFiniteError
from seqattn.runs import EpochRecord
from seqattn.training.acceleration import StepCompiler
from seqattn.training.learner import EpochPlan, Learner, batch_key, build_group
from seqattn.training.objective import validate
from seqattn.training.optimization import find_ending
from seqattn.training.process_group import ProcessGroup
from seqattn.training.state import (
    RunProgress,
    RunState,
    StateSnapshot,
    TrainingRun,
    TrainState,
    cache_module_attributes,
    train_mode,
)

MAX_IDS = 8
"""Largest number of sequence ids in an error message."""
REMEDY = (
    "Try a lower training.learning_rate, set training.clip_norm, or set data.scaling for your"
    " own data."
)


class Session:
    """The hooks of a training run. The default methods do nothing.

    If a method raises an exception, training ends with this exception.
    """

    def log(self, line: str) -> None:
        """Log a line about the gradient backend."""

    def stop_requested(self) -> bool:
        """Return whether to save and stop. The loop calls this method after each step."""
        return False

    def save_due(self) -> bool:
        """Return whether a save is due.

        The loop calls this method before each step, for a save after the step, and also after each
        epoch.
        """
        return False

    def save(self, progress: Sequence[RunProgress]) -> None:
        """Save the attribute `state` of each run.

        If saving fails, or the process is killed, some of the runs may be one save ahead of the
        others.
        """

    def epoch_end(self, progress: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Report the end of an epoch, and save the runs in `to_save`.

        Args:
            progress: progress of the runs that finished the epoch without diverging. The last
                record of `history` describes the epoch, and `ending` is set for runs that have no
                epoch left.
            to_save: progress of the runs to save: all these runs if a save is due, otherwise only
                the runs that have ended. If saving fails, some runs may be ahead, as after `save`.
        """

    def diverged(self, progress: RunProgress) -> None:
        """Save the attribute `state` of a run that diverged, which is the state before the
        non-finite value."""


def train_models(
    runs: Sequence[TrainingRun],
    session: Session | None = None,
    *,
    states: Mapping[TrainingRun, RunState] | None = None,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
) -> list[RunProgress]:
    """Train runs side by side, from the beginning or from a common position.

    Each run has its own weights, order of batches, teacher forcing, learning rate, early stopping
    and best epoch, as if it were trained alone. Once at least half of the runs of a group have
    ended, the other runs form a smaller group.

    Args:
        runs: the runs, which must have equal batch keys and equal `model` sections.
        session: the hooks that save, stop and report; None to save nothing.
        states: for each run, the state from which training continues. All states must have the
            same epoch and step. With None, training starts at the beginning.
        manual_backward: whether to allow manually derived gradients. False leaves all gradients to
            autograd.
        processes: the processes that share every batch of a single run; None if this process is
            alone.

    Returns: The progress of each run, in the order of `runs`.

    Raises:
        ValueError: if the runs cannot be trained together.
        DistributedError, DataError: if another process fails, or if data can no longer be read. The
            state before the failure is saved if it is finite.
    """
    session, states = session or Session(), states or {}
    progress = [RunProgress(run, states.get(run)) for run in runs]
    if processes is not None and len(runs) > 1:
        raise ValueError("several processes can train only one run")
    if len({each.state.position if each.state else (0, 0) for each in progress}) > 1:
        raise ValueError("runs that are trained side by side must be at the same epoch and step")
    parts = [(run.train.shape, run.validation.shape) for run in runs]
    keys = {batch_key(r.model.features, r.config, p) for r, p in zip(runs, parts, strict=True)}
    if len(keys) > 1:
        raise ValueError("runs that are trained side by side must have the same batch_key")
    compiler = StepCompiler(session.log)
    remaining = progress
    while remaining:
        state, learner = build_group(
            remaining, manual_backward=manual_backward, processes=processes, compiler=compiler
        )
        with cache_module_attributes(learner.params.model):
            remaining = fit(state, learner, session)
    return progress


def fit(state: TrainState, learner: Learner, session: Session) -> list[RunProgress]:
    """Train a group until at least half of its runs have ended, or until a stop is requested.

    Returns:
        The progress of the runs that continue in a smaller group.
    """
    end_finished_runs(state, learner, session)
    if state.active_rows:
        learner.compiler.start_group(
            learner.config.compile, learner.loss_fn, learner.loader.example_batch
        )
    if state.step == 0:
        learner.record_attention(state)
    while state.active_rows:
        if state.step == 0 and len(state.active_rows) <= len(state.progress) // 2:
            return state.remaining_runs()
        state.start_timer()
        try:
            with train_mode(learner.params.model):
                plan = train_epoch(state, learner, session)
            if plan is None or not state.active_rows:
                return []
            finish_epoch(state, learner, plan, session)
        except (DistributedError, DataError):
            # Without a step, there is nothing to save, and a save would replace an earlier run.
            if (state.epoch, state.step) > (0, 0) and state.commit_losses():
                state.update_seconds()
                session.save(state.update_run_states(state.active_rows))
            raise
    return []


def train_epoch(state: TrainState, learner: Learner, session: Session) -> EpochPlan | None:
    """Train on the remaining batches of an epoch. The model must be in train mode.

    Returns:
        The plan of the epoch, or None if a stop was requested.
    """
    plan, snapshot = learner.plan_epoch(state), state.snapshot()
    while state.step < len(plan):
        save = session.save_due()
        train_step(state, learner, plan)
        stop = session.stop_requested()
        if learner.processes is not None:
            stop, save = learner.processes.all_reduce_flags(stop, save)
        if not (stop or save or state.step == len(plan)):
            continue
        if not state.commit_losses():
            end_diverged(state, learner, plan, snapshot, session)
            if not state.active_rows:
                return plan
            stop = save = False  # the step was undone; the next step reads both flags again
            plan = learner.plan_epoch(state)
        state.update_seconds()
        is_last = state.step == len(plan)
        if stop or (save and not is_last):  # after the last step, `finish_epoch` saves
            session.save(state.update_run_states(state.active_rows))
        if stop:
            return None
        if not is_last:
            snapshot = state.snapshot()
    return plan


def train_step(state: TrainState, learner: Learner, plan: EpochPlan) -> None:
    """Compute the loss and the gradient of a batch, and update the weights without waiting for the
    loss."""
    loss = learner.compute_gradient(state, plan)
    learner.update(plan)
    state.pending.append(loss)
    state.step += 1


def finish_epoch(state: TrainState, learner: Learner, plan: EpochPlan, session: Session) -> None:
    """Validate the active runs, record the epoch, and keep the best weights."""
    trained = state.active_rows
    free_running, teacher_forced, outputs, bleu = validate(
        learner.loss_fn, learner.validation, learner.loader.size, learner.processes,
        counted=learner.params.model, right_texts=learner.right_texts,
    )  # fmt: skip
    state.update_seconds()
    number, duration = state.epoch + 1, state.seconds
    for k in trained:
        progress = state.progress[k]
        if not math.isfinite(free_running[k] + teacher_forced[k]):
            loss = teacher_forced[k] if math.isfinite(free_running[k]) else free_running[k]
            mark_diverged(k, validation_error(loss, k, state, plan), state, session)
            continue
        record = EpochRecord(
            epoch=number,
            train_loss=progress.loss_sum / progress.loss_count,
            validation_loss=free_running[k],
            validation_loss_teacher_forced=teacher_forced[k],
            learning_rate=plan.learning_rates[k],
            teacher_forcing=plan.probabilities[k],
            seconds=duration / len(trained),
            exact_match=outputs[k].exact_match if outputs else None,
            symbol_error_rate=outputs[k].symbol_error_rate if outputs else None,
            bleu=bleu[k] if bleu else None,
        )
        value = record.monitored(learner.config.monitor)
        if value < progress.best_monitored(learner.config.monitor):
            progress.best_epoch = number
        progress.history.append(record)
        progress.loss_sum, progress.loss_count = 0.0, 0
        learner.rate_schedules[k].update(value)
        learner.early_stoppers[k].update(value)
    state.epoch, state.step, state.seconds = number, 0, 0.0
    state.keep_best_weights()
    learner.record_attention(state)
    finite, ended = state.active_rows, _end_finished(state, learner)
    to_save = state.update_run_states(finite if session.save_due() else ended)
    session.epoch_end([state.progress[k] for k in finite], to_save)
    last = max((state.progress[k].run.config.epochs for k in state.active_rows), default=number)
    learner.compiler.after_epoch(duration, last - number, learner.loader.example_batch)


def end_finished_runs(state: TrainState, learner: Learner, session: Session) -> None:
    """Before training starts or continues, end the runs that have no epoch left.

    Runs that have trained all epochs are saved again, so that their checkpoints contain the current
    config. Runs that stopped early are not saved, because a save would replace their `previous`
    checkpoints, and a later resume may need these checkpoints to continue the whole group from an
    earlier position.
    """
    ended = state.update_run_states(_end_finished(state, learner))
    if to_save := [each for each in ended if each.ending == "all epochs"]:
        session.save(to_save)


def _end_finished(state: TrainState, learner: Learner) -> list[int]:
    """End the active runs that have no epoch left, and return their rows."""
    rows = state.active_rows
    for k in rows:
        progress = state.progress[k]
        progress.ending = find_ending(progress.run.config, state.epoch, learner.early_stoppers[k])
    return [k for k in rows if state.progress[k].ending]


class NonFinite(NamedTuple):
    """A value of a training step that is NaN or infinite, with its name for messages."""

    row: int
    value: float
    name: str


def step_error(
    non_finite: NonFinite, state: TrainState, learner: Learner, plan: EpochPlan
) -> NonFiniteError:
    """Build the error for a non-finite value in the next step of a state."""
    row, value, name = non_finite
    run = state.progress[row].run
    sequence_ids = learner.loader.ids_of_batch(
        state.step, run.seed, state.epoch, run.sequence_ids, row
    )
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
    """Build the error for a non-finite validation loss."""
    return NonFiniteError(
        f"The validation loss is {value} after epoch {state.epoch + 1}, at learning rate"
        f" {plan.learning_rates[k]:g}. All losses and gradients of the epoch were finite, and"
        " all its updates were made; the newest checkpoint was saved before this validation."
        f" {REMEDY}",
        state.epoch + 1,
        None,
    )


def end_diverged(
    state: TrainState, learner: Learner, plan: EpochPlan, snapshot: StateSnapshot, session: Session
) -> None:
    """End the runs that have a non-finite value, and save the state that each of these runs had
    before that value.

    The function replays the steps since the snapshot, up to the first step with a non-finite value.
    If all values of the replay are finite, no run ends.
    """
    steps = len(state.pending)
    state.restore(snapshot)
    non_finite = replay_until_non_finite(state, learner, plan, steps)
    state.commit_losses()
    state.update_seconds()
    for value in non_finite:
        mark_diverged(value.row, step_error(value, state, learner, plan), state, session)


def replay_until_non_finite(
    state: TrainState, learner: Learner, plan: EpochPlan, steps: int
) -> list[NonFinite]:
    """Replay steps until a value of an active run is not finite, and undo that step.

    Args:
        state: the state at the restored snapshot.

    Returns:
        The first non-finite value of each run in the undone step. The list is empty if all values
        are finite.
    """
    for _ in range(steps):
        before = state.snapshot()
        loss = learner.compute_gradient(state, plan)
        norms = learner.clipping.norms().tolist()
        losses = loss.losses.expand(len(norms)).tolist()
        non_finite = [
            NonFinite(k, norms[k], "gradient's norm")
            if math.isfinite(losses[k])
            else NonFinite(k, losses[k], "training loss")
            for k in state.active_rows
            if not (math.isfinite(losses[k]) and math.isfinite(norms[k]))
        ]
        if non_finite:
            return non_finite
        learner.update(plan)
        state.step += 1
        finite = state.finite_rows()
        non_finite = [
            NonFinite(k, math.nan, "update of the weights")
            for k in state.active_rows
            if not finite[k]
        ]
        if non_finite:
            state.restore(before)
            return non_finite
        state.pending.append(loss)
    return []


def mark_diverged(k: int, error: NonFiniteError, state: TrainState, session: Session) -> None:
    """Mark a run as diverged, with the error that ended it, and save its current state."""
    state.update_run_states([k])
    progress = state.progress[k]
    progress.ending, progress.error = "diverged", error
    session.diverged(progress)
