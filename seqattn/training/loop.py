"""The training loop, for one run or for many side by side.

`fit` trains a group, `train_epoch` the rest of an epoch, `train_step` one batch. No step waits for
the device to learn whether its losses and weights are finite. Losses are checked before a save and
at the end of an epoch; if one is not finite, the last snapshot is restored and the steps are
replayed, each checked, up to the first that is not finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from seqattn.errors import DataError, DistributedError, NonFiniteError
from seqattn.runs import EpochRecord
from seqattn.training.batch_key import batch_key
from seqattn.training.compiling import StepCompiler
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
from seqattn.training.state import RunProgress, RunState, StateSnapshot, TrainingRun, TrainState
from seqattn.training.validation import validate


def train_models(
    runs: Sequence[TrainingRun],
    session: Session | None = None,
    *,
    states: Mapping[TrainingRun, RunState] | None = None,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
) -> list[RunProgress]:
    """Train runs side by side, from the beginning or all from one position.

    Each run has its own weights, order of batches, teacher forcing, learning rate, early stopping
    and best epoch, as if it were trained alone. Once half of the rows of a group have ended, the
    others begin a smaller group.

    Args:
        runs: of one `batch_key` and one `model` section.
        session: receives checkpoints and decides when to stop; None saves nothing.
        states: states to continue from, of no run or of all; all at the same epoch and step.
        manual_backward: False leaves all gradients to autograd.
        processes: processes that share every batch of one run; None: this one alone.

    Returns:
        the progress of each run, in their order.

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
    compiler = StepCompiler(functools.cache(session.log))  # smaller groups repeat some lines
    active = progress
    while active:
        state, learner = build_group(
            active, manual_backward=manual_backward, processes=processes, compiler=compiler
        )
        with cache_module_attributes(learner.params.model):
            active = fit(state, learner, session)
    return progress


def _batch_key(run: TrainingRun) -> str:
    return batch_key(run.model.features, run.config, [run.data.shape, run.validation.shape])


def fit(state: TrainState, learner: Learner, session: Session) -> list[RunProgress]:
    """Train a group until its runs have ended, a stop is requested, or half of the rows have ended.

    Returns:
        the runs to continue with in a smaller group.
    """
    learner.compiler.start_group(
        learner.config.compile, learner.loss_fn, learner.loader.example_batch
    )
    end_finished_runs(state, learner, session)
    if state.step == 0:
        learner.record_attention(state)
    while state.active:
        if state.step == 0 and len(state.active) <= len(state.progress) // 2:
            return state.remaining_runs()
        epoch = learner.start_epoch(state)
        try:  # if some runs diverge, the values of this epoch stay valid for the others
            stopped = train_epoch(state, learner, epoch, session)
            if stopped or not state.active:
                return []
            finish_epoch(state, learner, epoch, session)
        except (DistributedError, DataError):
            if state.commit_losses():
                state.seconds = epoch.elapsed() if state.step else 0.0
                session.save(state.update_checkpoints(state.active))
            raise
    return []


def train_epoch(state: TrainState, learner: Learner, epoch: Epoch, session: Session) -> bool:
    """Train on the remaining batches of an epoch. Returns whether a stop was requested."""
    snapshot = state.snapshot()
    while state.step < len(epoch):
        save = session.save_due()
        train_step(state, learner, epoch)
        stop = session.stop_requested()
        if learner.processes is not None:
            stop, save = learner.processes.all_reduce_flags(stop, save)
        if not (stop or save or state.step == len(epoch)):
            continue
        if not state.commit_losses():
            state.seconds = epoch.elapsed()
            end_diverged(state, learner, epoch, snapshot, session)
            if not state.active:
                return False
            stop = save = False  # of an undone step; both are read again after the next
            state.seconds = epoch.elapsed()
            epoch = learner.start_epoch(state)
        state.seconds = epoch.elapsed()
        is_last = state.step == len(epoch)
        if stop or (save and not is_last):  # the last step is saved with the end of the epoch
            session.save(state.update_checkpoints(state.active))
        if stop:
            return True
        if not is_last:
            snapshot = state.snapshot()
    return False


def train_step(state: TrainState, learner: Learner, epoch: Epoch) -> None:
    """Forward, loss, backward, clip, update; nothing waits for the loss."""
    loss = learner.compute_gradient(state, epoch)
    learner.update(epoch)
    state.pending.append(loss)
    state.step += 1


def finish_epoch(state: TrainState, learner: Learner, epoch: Epoch, session: Session) -> None:
    """Validate, record the epoch, and keep the best weights."""
    trained = state.active
    free, forced = validate(
        learner.loss_fn, learner.validation, learner.config.batch_size, learner.processes
    )
    seconds = epoch.elapsed() / len(trained)
    number = state.epoch + 1
    for k in trained:
        progress = state.progress[k]
        if not math.isfinite(free[k] + forced[k]):
            loss = forced[k] if math.isfinite(free[k]) else free[k]
            mark_diverged(k, validation_error(loss, k, state, epoch), state, session)
            continue
        if free[k] < progress.best_loss:
            progress.best_epoch = number
        progress.history.append(
            EpochRecord(
                epoch=number,
                train_loss=progress.loss_sum / progress.loss_count,
                validation_loss=free[k],
                validation_loss_teacher_forced=forced[k],
                learning_rate=epoch.learning_rates[k],
                teacher_forcing=epoch.teacher_forcing[k],
                seconds=seconds,
            )
        )
        progress.loss_sum, progress.loss_count = 0.0, 0
        learner.rate_schedules[k].update(free[k])
        learner.early_stoppers[k].update(free[k])
    state.epoch, state.step, state.seconds = number, 0, 0.0
    state.keep_best_weights()
    learner.record_attention(state)
    epochs_left = (
        max((state.progress[k].run.config.epochs for k in state.active), default=0) - state.epoch
    )
    learner.compiler.after_epoch(epoch.elapsed(), epochs_left, learner.loader.example_batch)
    _report_epoch(state, learner, session)


def _report_epoch(state: TrainState, learner: Learner, session: Session) -> None:
    """End the runs that have no epoch left, and report the epoch to the session."""
    trained, ended = state.active, _end_finished(state, learner)
    to_save = trained if session.save_due() else ended
    runs = [state.progress[k] for k in trained]
    session.epoch_end(runs, state.update_checkpoints(to_save))


def end_finished_runs(state: TrainState, learner: Learner, session: Session) -> None:
    """End the runs whose checkpoints leave no epoch to train. They are saved with the current
    config, except after early stopping: others of the group may still return to the save before.
    """
    ended = state.update_checkpoints(_end_finished(state, learner))
    if to_save := [each for each in ended if each.ended == "all epochs"]:
        session.save(to_save)


def _end_finished(state: TrainState, learner: Learner) -> list[int]:
    """End the active runs that have no epoch left, and return their rows."""
    active = state.active
    for k in active:
        progress = state.progress[k]
        progress.ended = ending(progress.run.config, state.epoch, learner.early_stoppers[k])
    return [k for k in active if state.progress[k].ended]


def end_diverged(
    state: TrainState, learner: Learner, epoch: Epoch, snapshot: StateSnapshot, session: Session
) -> None:
    """Restore a snapshot, replay up to the first non-finite step, and end the runs in which it is
    not finite, before that step. If the replay is finite after all, no run ends."""
    steps = len(state.pending)
    state.restore(snapshot)
    non_finite = replay_until_non_finite(state, learner, epoch, steps)
    state.commit_losses()
    for value in non_finite:
        mark_diverged(value.row, step_error(value, state, learner, epoch), state, session)


def replay_until_non_finite(
    state: TrainState, learner: Learner, epoch: Epoch, steps: int
) -> list[NonFinite]:
    """Replay steps until one is not finite in an active run, and undo that one.

    Returns:
        the first non-finite value of each run in that step; empty where all steps are finite.
    """
    for _ in range(steps):
        before = state.snapshot()
        loss = learner.compute_gradient(state, epoch)
        norms = learner.clipping.norms().tolist()
        non_finite = find_non_finite(state.active, loss.losses.expand(len(norms)).tolist(), norms)
        if non_finite:
            return non_finite
        learner.update(epoch)
        state.step += 1
        finite = state.finite_rows()
        non_finite = [
            NonFinite(k, math.nan, "update of the weights") for k in state.active if not finite[k]
        ]
        if non_finite:
            state.restore(before)
            return non_finite
        state.pending.append(loss)
    return []


def mark_diverged(k: int, error: NonFiniteError, state: TrainState, session: Session) -> None:
    """End a run with an error, at its state of now."""
    state.update_checkpoints([k])
    progress = state.progress[k]
    progress.ended, progress.error = "diverged", error
    session.diverged(progress)
