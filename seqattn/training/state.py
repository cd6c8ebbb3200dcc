"""The state of a training: exactly what a checkpoint holds; everything else is rebuilt.

`RunState` is the state of one run, by parameter name, as a checkpoint file keeps it. `TrainState`
is the state of all runs of a group, as tensors with an axis of runs, as the loop changes it.
`TrainState.set_run_state` and `TrainState.get_run_state` convert between them.

Letters: R runs, P numbers in the parameters of one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqattn.config import Training
from seqattn.errors import NonFiniteError
from seqattn.models import Seq2SeqModel
from seqattn.runs import EpochRecord
from seqattn.training.attention_history import AttentionSnapshot
from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.optimizers import Optimizer, counts_updates
from seqattn.training.schedules import Ending
from seqattn.training.stacked_params import StackedParams


@dataclass(frozen=True)
class Slot:
    """The row of a run in its group.

    The last bits of a batched kernel's results depend on the number of rows, and on the row: a
    resumed run gets the same row among as many.

    Attributes:
        group_id: digest of the runs that began together.
        row: of this run, from 0.
        rows: number of rows of the group, with those of ended runs that still occupy one.
    """

    group_id: str
    row: int = 0
    rows: int = 1


@dataclass(eq=False, kw_only=True)
class TrainingRecord:
    """Losses of a run so far.

    Attributes:
        history: one record for each finished epoch.
        best_epoch: the epoch (from 1) with the lowest validation loss; 0 before the first.
        loss_sum: sum of squared errors of the running epoch, over `loss_count` target points.
        loss_count: see `Batch.loss_counts`.
        attention_history: snapshots for `training.record_attention`, kept in a file of their own.
    """

    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    attention_history: list[AttentionSnapshot] = field(default_factory=list)

    @property
    def best_loss(self) -> float:
        """The validation loss of the best epoch; infinite before the first."""
        return self.history[self.best_epoch - 1].validation_loss if self.best_epoch else math.inf

    def copy_record(self) -> dict[str, Any]:
        """The fields of this class, with lists of their own."""
        return {f.name: copy.copy(getattr(self, f.name)) for f in fields(TrainingRecord)}


@dataclass(eq=False)
class RunState(TrainingRecord):
    """The state of one run, which a checkpoint file keeps.

    Attributes:
        weights: by parameter name.
        buffers: of the optimizer, by parameter name and buffer name; empty before the first step.
        epoch: finished epochs.
        step: finished steps of the running epoch.
        seconds: duration of the running epoch so far.
        best_weights: weights after the best epoch, by parameter name.
        slot: row in a group; None in checkpoints of versions that did not keep it.
        environment: device and version of torch that the state was saved with, by the keys of
            environment.json. It is empty unless the state was read from a checkpoint that has it.
    """

    weights: dict[str, Tensor]
    buffers: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    slot: Slot | None = None
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def position(self) -> tuple[int, int]:
        """Finished epochs, and finished steps of the running one."""
        return self.epoch, self.step


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """One training of a group: the inputs, which training does not change.

    Attributes:
        model: initialised, on its device. In a group of several runs its weights stay unchanged.
        data: the training sequences.
        validation: the sequences that choose the best epoch.
        seed: of batch order and teacher forcing.
        sequence_ids: of the training part, for error messages.
        group_id: digest of the runs that begin together, for their checkpoints.
    """

    model: Seq2SeqModel
    data: Batch | GatheredBatch
    validation: Batch | GatheredBatch
    config: Training
    seed: int
    sequence_ids: Sequence[str] = ()
    group_id: str = ""


@dataclass(eq=False)
class RunProgress(TrainingRecord):
    """The progress of a run.

    Attributes:
        checkpoint: the newest state by parameter name, which a save writes; before training the one
            to continue from, or None.
        ended: why it trains no more; None: it is still training, or was interrupted.
        error: the non-finite loss, gradient or update of a run that diverged.
    """

    run: TrainingRun
    checkpoint: RunState | None = None
    ended: Ending | None = None
    error: NonFiniteError | None = None

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            for name, value in self.checkpoint.copy_record().items():
                setattr(self, name, value)

    @property
    def is_finished(self) -> bool:
        """Whether it trained to its end, with finite losses."""
        return self.ended is not None and self.error is None

    @property
    def validation_losses(self) -> list[float]:
        return [record.validation_loss for record in self.history]


class StepLoss(NamedTuple):
    """The loss of a training step. Nothing waits for the device to read its values.

    Attributes:
        losses: (R,), or () for one run: the mean loss of each run.
        counts: (R,), see `Batch.loss_counts`.
    """

    losses: Tensor
    counts: Tensor


@dataclass(frozen=True)
class StateSnapshot:
    """A position inside an epoch.

    Attributes:
        step: finished steps of the epoch.
        tensors: copies of weights, count of updates and moments.
        pending: losses of earlier steps that are not committed.
    """

    step: int
    tensors: list[Tensor]
    pending: list[StepLoss]


class TrainState:
    """The state of all runs of a group.

    Attributes:
        params: the weights, (R, P), and their layout.
        best: the weights of each run's best epoch, (R, P).
        moments: the optimizer's moments, one (R, P) tensor per name.
        updates: number of finished steps, (), as the optimizer's kernels count them.
        rows: one per run; the row of an ended run is kept until the others continue in a smaller
            group.
        epoch, step: number of finished epochs, and of finished steps in the current epoch.
        seconds: duration of the current epoch at the last save.
        pending: losses of the steps that are not committed.
    """

    def __init__(
        self, params: StackedParams, optimizer: Optimizer, progress: Sequence[RunProgress]
    ) -> None:
        self.params, self.progress = params, list(progress)
        self.best = params.weights.clone()
        self.moments, self.updates = optimizer.buffers, optimizer.updates
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.pending: list[StepLoss] = []
        for k in self.active:
            if (checkpoint := self.progress[k].checkpoint) is not None:
                self.set_run_state(k, checkpoint)

    @property
    def active(self) -> list[int]:
        """Rows whose runs have not ended."""
        return [k for k, each in enumerate(self.progress) if each.ended is None]

    # --- positions -------------------------------------------------------------------------------

    def snapshot(self) -> StateSnapshot:
        """Copy everything that a step changes."""
        tensors = [tensor.clone() for tensor in self._changed_by_a_step()]
        return StateSnapshot(self.step, tensors, list(self.pending))

    def restore(self, snapshot: StateSnapshot) -> None:
        """Return to a snapshot of the same epoch."""
        for tensor, before in zip(self._changed_by_a_step(), snapshot.tensors, strict=True):
            tensor.copy_(before)
        self.step, self.pending = snapshot.step, list(snapshot.pending)

    def _changed_by_a_step(self) -> list[Tensor]:
        return [self.params.weights, self.updates, *self.moments.values()]

    # --- losses ----------------------------------------------------------------------------------

    def finite_rows(self) -> list[bool]:
        """For each row, whether its weights and moments are finite."""
        zeros = self.params.weights * 0  # NaN where a weight is not finite
        for moment in self.moments.values():
            zeros.add_(moment, alpha=0)
        finite: list[bool] = zeros.sum(dim=1).isfinite().tolist()
        return finite

    def commit_losses(self) -> bool:
        """Add the pending losses to the sums of the epoch.

        Returns:
            False, with nothing added, if a loss, weight or moment of an active run is not finite.
        """
        if not self.pending:
            return True
        steps, active = len(self.pending), self.active
        losses, counts = (torch.stack(tensors) for tensors in zip(*self.pending, strict=True))
        values = losses.view(steps, len(self.progress)).double().cpu().numpy()
        finite = self.finite_rows()
        if not (np.isfinite(values[:, active]).all() and all(finite[k] for k in active)):
            return False
        numbers = counts.cpu().numpy()
        terms = np.vstack([[each.loss_sum for each in self.progress], values * numbers])
        # A sequential sum, so that a pause in between changes no rounding.
        sums, totals = np.add.accumulate(terms)[-1].tolist(), numbers.sum(axis=0).tolist()
        for each, loss_sum, count in zip(self.progress, sums, totals, strict=True):
            each.loss_sum = loss_sum
            each.loss_count += count
        self.pending = []
        return True

    def keep_best_weights(self) -> None:
        """Copy the weights of each run whose best epoch is the one that has just ended."""
        improved = [k for k in self.active if self.progress[k].best_epoch == self.epoch]
        if len(improved) == len(self.progress):
            self.best.copy_(self.params.weights)
        elif improved:
            self.best[improved] = self.params.weights[improved]

    # --- checkpoints -----------------------------------------------------------------------------

    def update_checkpoints(self, rows: Sequence[int]) -> list[RunProgress]:
        """Set `checkpoint` of these rows to their state of now.

        Returns:
            the rows.
        """
        for k in rows:
            self.progress[k].checkpoint = self.get_run_state(k)
        return [self.progress[k] for k in rows]

    def get_run_state(self, k: int) -> RunState:
        """The state of row k by parameter name."""
        progress, params = self.progress[k], self.params
        weights = params.get_row(params.weights, k)
        is_best = (progress.best_epoch, 0) == (
            self.epoch,
            self.step,
        )  # then one copy serves as both
        best = weights if is_best else params.get_row(self.best, k)
        return RunState(
            weights=weights,
            buffers=self._optimizer_buffers(k) if (self.epoch, self.step) != (0, 0) else {},
            epoch=self.epoch,
            step=self.step,
            seconds=self.seconds,
            best_weights=best if progress.best_epoch else {},
            slot=Slot(progress.run.group_id, k, len(self.progress)),
            **progress.copy_record(),
        )

    def remaining_runs(self) -> list[RunProgress]:
        """The active runs, to begin a smaller group with; their slots are those of that group."""
        remaining = self.update_checkpoints(self.active)
        for k, each in enumerate(remaining):
            assert each.checkpoint is not None
            slot = Slot(each.run.group_id, k, len(remaining))
            each.checkpoint = replace(each.checkpoint, slot=slot)
        return remaining

    def _optimizer_buffers(self, k: int) -> dict[str, dict[str, Tensor]]:
        """Buffers of row k: parameter name -> buffer name -> tensor."""
        moments = {name: self.params.get_row(moment, k) for name, moment in self.moments.items()}
        config = self.progress[k].run.config
        count = {"step": self.updates.cpu().clone()} if counts_updates(config) else {}
        names = self.params.shapes if moments else ()
        return {key: {name: kept[key] for name, kept in moments.items()} | count for key in names}

    def set_run_state(self, k: int, run_state: RunState) -> None:
        """Copy the state of a run into row k. All rows get its position."""
        params = self.params
        params.set_row(params.weights, k, run_state.weights)
        params.set_row(self.best, k, run_state.best_weights or run_state.weights)
        if run_state.buffers:
            for name, moment in self.moments.items():
                params.set_row(
                    moment, k, {key: kept[name] for key, kept in run_state.buffers.items()}
                )
            updates = next(iter(run_state.buffers.values())).get("step")
            if updates is not None:
                self.updates.copy_(updates)
        self.epoch, self.step, self.seconds = run_state.epoch, run_state.step, run_state.seconds
