"""The state of a training: exactly what a checkpoint holds; everything else is rebuilt.

`RunState` is the state of one run, by parameter name, as a checkpoint file keeps it. `TrainState`
is the state of all runs of a group, as tensors with an axis of runs, as the loop changes it.
`TrainState.load_state` and `TrainState.run_state` convert between them.

Letters: R runs, P numbers in the parameters of one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqattn.config import Training
from seqattn.errors import NonFiniteError
from seqattn.models import Seq2SeqModel
from seqattn.runs import EpochRecord
from seqattn.training.attention_history import AttentionSnapshot
from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.data_loader import DataLoader
from seqattn.training.optimizers import Optimizer, counts_updates
from seqattn.training.parameter_history import ParameterSnapshot
from seqattn.training.schedules import Ending
from seqattn.training.stacked_params import StackedParams


@dataclass(frozen=True)
class Slot:
    """The row of a run in its group.

    The last bits of a batched kernel's results depend on the number of rows, and on the row: a
    resumed run gets the same row among as many.

    Attributes:
        group: digest of the runs that began together.
        row: of this run, from 0.
        rows: number of rows of the group, with those of ended runs that still occupy one.
    """

    group: str
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
        parameter_history: the same for the parameters.
    """

    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    attention_history: list[AttentionSnapshot] = field(default_factory=list)
    parameter_history: list[ParameterSnapshot] = field(default_factory=list)

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
    """

    weights: dict[str, Tensor]
    buffers: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    slot: Slot | None = None

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
        group: digest of the runs that begin together, for their checkpoints.
    """

    model: Seq2SeqModel
    data: Batch | GatheredBatch
    validation: Batch | GatheredBatch
    config: Training
    seed: int
    sequence_ids: Sequence[str] = ()
    group: str = ""


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


@dataclass(frozen=True)
class Snapshot:
    """A position inside an epoch.

    Attributes:
        step: finished steps of the epoch.
        tensors: copies of weights, count of updates and moments.
        pending: losses of earlier steps that are not committed.
    """

    step: int
    tensors: list[Tensor]
    pending: list[Tensor]


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
        pending: losses, (R,) or (), of the steps that are not committed.
    """

    def __init__(
        self, params: StackedParams, optimizer: Optimizer, rows: Sequence[RunProgress]
    ) -> None:
        self.params, self.rows = params, list(rows)
        self.best = params.weights.clone()
        self.moments, self.updates = optimizer.buffers, optimizer.updates
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.pending: list[Tensor] = []
        for k in self.active:
            if (checkpoint := self.rows[k].checkpoint) is not None:
                self.load_state(k, checkpoint)

    @property
    def active(self) -> list[int]:
        """Rows whose runs have not ended."""
        return [k for k, row in enumerate(self.rows) if row.ended is None]

    # --- positions -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Copy everything that a step changes."""
        tensors = [tensor.clone() for tensor in self._changed_by_a_step()]
        return Snapshot(self.step, tensors, list(self.pending))

    def restore(self, snapshot: Snapshot) -> None:
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
        for rows in self.moments.values():
            zeros.add_(rows, alpha=0)
        finite: list[bool] = zeros.sum(dim=1).isfinite().tolist()
        return finite

    def commit_losses(self, loader: DataLoader) -> bool:
        """Add the pending losses to the sums of the epoch.

        Args:
            loader: gives the number of target points that each loss is a mean of.

        Returns:
            False, with nothing added, if a loss, weight or moment of an active run is not finite.
        """
        if not self.pending:
            return True
        steps, active = len(self.pending), self.active
        values = torch.stack(self.pending).view(steps, len(self.rows)).double().cpu().numpy()
        finite = self.finite_rows()
        if not (np.isfinite(values[:, active]).all() and all(finite[k] for k in active)):
            return False
        counts = np.array([loader.loss_counts(self.step - steps + i) for i in range(steps)])
        terms = np.vstack([[row.loss_sum for row in self.rows], values * counts])
        # A sequential sum, so that a pause in between changes no rounding.
        sums, totals = np.add.accumulate(terms)[-1].tolist(), counts.sum(axis=0).tolist()
        for row, loss_sum, count in zip(self.rows, sums, totals, strict=True):
            row.loss_sum = loss_sum
            row.loss_count += count
        self.pending = []
        return True

    def keep_best_weights(self) -> None:
        """Copy the weights of each run whose best epoch is the one that has just ended."""
        improved = [k for k in self.active if self.rows[k].best_epoch == self.epoch]
        if len(improved) == len(self.rows):
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
            self.rows[k].checkpoint = self.run_state(k)
        return [self.rows[k] for k in rows]

    def run_state(self, k: int) -> RunState:
        """The state of row k by parameter name."""
        row, params = self.rows[k], self.params
        weights = params.get_row(params.weights, k)
        is_best = (row.best_epoch, 0) == (self.epoch, self.step)  # then one copy serves as both
        best = weights if is_best else params.get_row(self.best, k)
        return RunState(
            weights=weights,
            buffers=self._optimizer_buffers(k) if (self.epoch, self.step) != (0, 0) else {},
            epoch=self.epoch,
            step=self.step,
            seconds=self.seconds,
            best_weights=best if row.best_epoch else {},
            slot=Slot(row.run.group, k, len(self.rows)),
            **row.copy_record(),
        )

    def remaining_runs(self) -> list[RunProgress]:
        """The active runs, to begin a smaller group with; their slots are those of that group."""
        rows = self.update_checkpoints(self.active)
        for k, row in enumerate(rows):
            assert row.checkpoint is not None
            slot = Slot(row.run.group, k, len(rows))
            row.checkpoint = replace(row.checkpoint, slot=slot)
        return rows

    def _optimizer_buffers(self, k: int) -> dict[str, dict[str, Tensor]]:
        """Buffers of row k: parameter name -> buffer name -> tensor."""
        moments = {name: self.params.get_row(rows, k) for name, rows in self.moments.items()}
        config = self.rows[k].run.config
        count = {"step": self.updates.cpu().clone()} if counts_updates(config) else {}
        names = self.params.shapes if moments else ()
        return {key: {name: kept[key] for name, kept in moments.items()} | count for key in names}

    def load_state(self, k: int, state: RunState) -> None:
        """Copy a state into row k. All rows get its position."""
        params = self.params
        params.set_row(params.weights, k, state.weights)
        params.set_row(self.best, k, state.best_weights or state.weights)
        if state.buffers:
            for name, rows in self.moments.items():
                params.set_row(rows, k, {key: kept[name] for key, kept in state.buffers.items()})
            updates = next(iter(state.buffers.values())).get("step")
            if updates is not None:
                self.updates.copy_(updates)
        self.epoch, self.step, self.seconds = state.epoch, state.step, state.seconds


def assign_rows(runs: Sequence[RunProgress]) -> list[RunProgress]:
    """Assign the rows of a group to its runs.

    Runs that begin, or whose checkpoints name no row, get one each in their order. Rows of runs
    that have ended before are filled with an ended copy of the first run.

    Raises:
        ValueError: their checkpoints are of different groups.
    """
    slots = [None if row.checkpoint is None else row.checkpoint.slot for row in runs]
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(runs):
        return list(runs)
    by_row = {slot.row: row for slot, row in zip(known, runs, strict=True)}
    if len(by_row) < len(runs) or len({(slot.group, slot.rows) for slot in known}) > 1:
        raise ValueError("runs that go side by side must have rows of one group, each its own")
    filler = RunProgress(runs[0].run, ended="all epochs")  # only that it has ended is read
    return [by_row.get(k, filler) for k in range(known[0].rows)]
