"""The training loop, for one run or for many side by side.

`fit` trains a group, `train_epoch` goes through the batches of an epoch, `train_step` through one.
No step waits for the device to know whether its numbers are finite. Losses are checked before a
save and at the end of an epoch; where one is not finite, the state goes back to the last snapshot
and the steps are replayed, each checked, up to the first that is not finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from seqattn.errors import DataError, DistributedError, NonFiniteError
from seqattn.runs import EpochRecord
from seqattn.training.batch_key import batch_key
from seqattn.training.divergence import (
    NonFinite,
    find_non_finite,
    step_error,
    validation_error,
)
from seqattn.training.learner import Epoch, Learner, build_group
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import ending
from seqattn.training.session import Session
from seqattn.training.stacked_params import cache_module_attributes
from seqattn.training.state import Run, RunProgress, RunState, Snapshot, TrainState
from seqattn.training.validation import validate


def train(
    runs: Sequence[Run],
    session: Session | None = None,
    *,
    states: Mapping[Run, RunState] | None = None,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
) -> list[RunProgress]:
    """Train models of one shape side by side, from the beginning or all from one position.

    Each run gets what it would get alone: its own weights, order of batches, coins, learning rate,
    early stopping and best epoch. Once half of the rows of a group or more have ended, those that
    go on begin a smaller group.

    Args:
        runs: of one `batch_key` and one `model` section.
        session: receives checkpoints and decides when to stop; None keeps nothing.
        states: where to go on, for none or for all; all at the same epoch and step.
        manual_backward: False leaves all gradients to autograd.
        processes: that share every batch of one run; None: this one alone.

    Returns:
        how far each run has come, in their order.

    Raises:
        DistributedError: another process is lost; the state before is saved.
        DataError: data can no longer be read; the state before is saved.
    """
    session, states = session or Session(), states or {}
    progress = [RunProgress(run, states.get(run)) for run in runs]
    if processes is not None and len(runs) > 1:
        raise ValueError("processes share the batches of one run")
    if len({run.checkpoint.position if run.checkpoint else (0, 0) for run in progress}) > 1:
        raise ValueError("runs that go side by side must be at the same epoch and step")
    if len({_batch_key(run) for run in runs}) > 1:
        raise ValueError("runs that go side by side must have the same batch_key")
    log = functools.cache(session.log)  # each smaller group would log the same lines again
    active = progress
    while active:
        state, learner = build_group(
            active, manual_backward=manual_backward, processes=processes, log=log
        )
        with cache_module_attributes(learner.params.model):
            active = fit(state, learner, session)
    return progress


def _batch_key(run: Run) -> str:
    return batch_key(run.model.features, run.config, [run.data.shape, run.validation.shape])


def fit(state: TrainState, learner: Learner, session: Session) -> list[RunProgress]:
    """Train a group until its runs have ended, a stop is requested, or a smaller group pays.

    Returns:
        the runs to go on with in a smaller group.
    """
    learner.compiler.before_training(learner.loader.first)
    leave_out_ended(state, learner, session)
    if all(row.checkpoint is None for row in state.rows):
        learner.record_attention(state)
    while state.active:
        if state.step == 0 and len(state.active) <= len(state.rows) // 2:
            return state.compacted()
        epoch = learner.start_epoch(state)
        try:  # where some runs diverge, the numbers of this epoch stay true for the others
            stopped = train_epoch(state, learner, epoch, session)
            if stopped or not state.active:
                return []
            finish_epoch(state, learner, epoch, session)
        except (DistributedError, DataError):
            if state.commit_losses(learner.loader):
                state.seconds = epoch.elapsed()
                session.save(state.update_checkpoints(state.active))
            raise
    return []


def train_epoch(state: TrainState, learner: Learner, epoch: Epoch, session: Session) -> bool:
    """Make the steps of an epoch that are left. Returns whether a stop was requested."""
    snapshot = state.snapshot()
    while state.step < len(epoch):
        save = session.save_due()
        train_step(state, learner, epoch)
        stop = session.stop_requested()
        if learner.processes is not None:
            stop, save = learner.processes.agree(stop, save)
        if not (stop or save or state.step == len(epoch)):
            continue
        if not state.commit_losses(learner.loader):
            state.seconds = epoch.elapsed()
            end_diverged(state, learner, epoch, snapshot, session)
            if not state.active:
                return False
            stop = save = False  # of a step that is undone; both are asked again after the next
            state.seconds = epoch.elapsed()
            epoch = learner.start_epoch(state)
        state.seconds = epoch.elapsed()
        is_last = state.step == len(epoch)
        if stop or (save and not is_last):  # else it can wait for the end of the epoch
            session.save(state.update_checkpoints(state.active))
        if stop:
            return True
        if not is_last:
            snapshot = state.snapshot()
    return False


def train_step(state: TrainState, learner: Learner, epoch: Epoch) -> None:
    """Forward, loss, backward, clip, update. Nothing waits for the device."""
    losses = learner.compute_gradient(state, epoch)
    learner.update(epoch)
    state.pending.append(losses)
    state.step += 1


def finish_epoch(state: TrainState, learner: Learner, epoch: Epoch, session: Session) -> None:
    """Validate, record the epoch, and keep the best weights."""
    trained = state.active
    free, forced = validate(
        learner.objective, learner.validation, learner.config.batch_size, learner.processes
    )
    seconds = epoch.elapsed() / len(trained)
    number = state.epoch + 1
    for k in trained:
        row, total = state.rows[k], free[k] + forced[k]
        if not math.isfinite(total):
            _end_as_diverged(k, validation_error(total, k, state, epoch), state, session)
            continue
        if free[k] < row.best_loss:
            row.best_epoch = number
        row.history.append(
            EpochRecord(
                epoch=number,
                train_loss=row.loss_sum / row.points,
                validation_loss=free[k],
                validation_loss_teacher_forced=forced[k],
                learning_rate=epoch.learning_rates[k],
                teacher_forcing=epoch.teacher_forcing[k],
                seconds=seconds,
            )
        )
        row.loss_sum, row.points = 0.0, 0
        learner.rate_schedules[k].update(free[k])
        learner.early_stoppers[k].update(free[k])
    state.epoch, state.step, state.seconds = number, 0, 0.0
    state.keep_best_weights()
    learner.record_attention(state)
    epochs_left = (
        max((learner.runs[k].config.epochs for k in state.active), default=0) - state.epoch
    )
    learner.compiler.after_epoch(epoch.elapsed(), epochs_left, learner.loader.first)
    _report_epoch(state, learner, session)


def _report_epoch(state: TrainState, learner: Learner, session: Session) -> None:
    """End the runs that have no epoch left, and tell the session of the epoch."""
    trained = state.active
    for k in trained:
        state.rows[k].ended = ending(learner.runs[k].config, state.epoch, learner.early_stoppers[k])
    to_save = trained if session.save_due() else [k for k in trained if state.rows[k].ended]
    runs = [state.rows[k] for k in trained]
    session.epoch_end(runs, state.update_checkpoints(to_save))


def leave_out_ended(state: TrainState, learner: Learner, session: Session) -> None:
    """End the runs whose checkpoints leave no epoch to train. They are saved with the config of
    now, except after early stopping: others of the group may still go back to the one before.
    """
    for k in state.active:
        row = state.rows[k]
        row.ended = ending(row.run.config, state.epoch, learner.early_stoppers[k])
        if row.ended is None:
            continue
        state.update_checkpoints([k])
        if row.ended == "all epochs":
            session.save([row])


def end_diverged(
    state: TrainState, learner: Learner, epoch: Epoch, snapshot: Snapshot, session: Session
) -> None:
    """Go back to a snapshot, replay the steps up to the first that is not finite, and end the runs
    in which it is not, before that step. Where a replay is finite after all, no run ends."""
    steps = len(state.pending)
    state.restore(snapshot)
    found = replay_until_non_finite(state, learner, epoch, steps)
    state.commit_losses(learner.loader)
    for problem in found:
        error = step_error(problem, state, learner, epoch)
        _end_as_diverged(problem.row, error, state, session)


def replay_until_non_finite(
    state: TrainState, learner: Learner, epoch: Epoch, steps: int
) -> list[NonFinite]:
    """Replay steps until one is not finite in a run that goes on, and undo that one. Returns what
    is not finite in it."""
    for _ in range(steps):
        before = state.snapshot()
        losses = learner.compute_gradient(state, epoch)
        norms = learner.clipping.norms().tolist()
        found = find_non_finite(state.active, losses.expand(len(norms)).tolist(), norms)
        if found:
            return found
        learner.update(epoch)
        state.step += 1
        finite = state.finite_rows()
        found = [
            NonFinite(k, math.nan, "update of the weights") for k in state.active if not finite[k]
        ]
        if found:
            state.restore(before)
            return found
        state.pending.append(losses)
    return []


def _end_as_diverged(k: int, error: NonFiniteError, state: TrainState, session: Session) -> None:
    state.update_checkpoints([k])
    row = state.rows[k]
    row.ended, row.error = "diverged", error
    session.diverged(row)
