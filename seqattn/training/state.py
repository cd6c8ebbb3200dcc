"""The state of a training, which is exactly what a checkpoint holds; everything else is rebuilt.

`RunState` is the state of one run by the names of its parameters: what a checkpoint file keeps.
`TrainState` is the state of all runs of a group as tensors with an axis of runs: what the loop
changes. `TrainState.load` and `TrainState.checkpoint` go from one to the other.

Letters: R runs, P numbers in the parameters of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

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
from seqattn.training.stacked_params import StackedParams

Ending = Literal["all epochs", "early stopping", "diverged"]


@dataclass(frozen=True)
class Slot:
    """The place of a run among those that it shares every step with.

    The last bits of what a batched kernel computes depend on how many rows it has, and on which of
    them is whose: a resumed run gets the same row among as many.

    Attributes:
        group: a digest of the runs that began together.
        row: of this run, from 0.
        rows: of the group, those of ended runs included that still occupy one.
    """

    group: str
    row: int = 0
    rows: int = 1


@dataclass
class RunState:
    """The state of one run: a position, its numbers, and its history.

    Attributes:
        weights: by parameter's name.
        buffers: what the optimizer keeps, by parameter's name and its own; empty before the first
            step.
        epoch: epochs finished.
        step: steps finished in the running epoch.
        loss_sum, points: the running epoch's squared error so far, and over how many points.
        seconds: time the running epoch has taken.
        history: one record a finished epoch.
        best_epoch: the epoch (from 1) with the lowest validation loss; 0 before the first.
        best_weights: the weights after it, by name.
        slot: None in checkpoints of versions that did not keep it.
        attention_history: what `training.record_attention` asks for; kept in a file of its own.
    """

    weights: dict[str, Tensor]
    buffers: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    points: int = 0
    seconds: float = 0.0
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    slot: Slot | None = None
    attention_history: list[AttentionSnapshot] = field(default_factory=list)

    @property
    def position(self) -> tuple[int, int]:
        return self.epoch, self.step

    @property
    def best_loss(self) -> float:
        return best_loss(self.history, self.best_epoch)


def best_loss(history: Sequence[EpochRecord], best_epoch: int) -> float:
    """The validation loss of the best epoch (from 1); infinite before the first."""
    return history[best_epoch - 1].validation_loss if best_epoch else math.inf


@dataclass(frozen=True, eq=False)
class Run:
    """One training among those that go side by side: what training does not change.

    Attributes:
        model: initialised, on its device. In a group of several runs its weights stay unchanged.
        data: the training sequences.
        validation: what chooses the best epoch.
        seed: of batch order and coins.
        ids: names of the training sequences, for errors.
        group: a digest of the runs that begin together, for their checkpoints.
    """

    model: Seq2SeqModel
    data: Batch | GatheredBatch
    validation: Batch | GatheredBatch
    config: Training
    seed: int
    ids: Sequence[str] = ()
    group: str = ""


@dataclass(eq=False)
class RunProgress:
    """How far a run has come.

    Attributes:
        checkpoint: its newest state as `Session.save` got it; before training the one to go on
            from, or None.
        ended: why it trains no more; None: it is still training, or was interrupted.
        error: the loss, gradient or update that is not finite, of a run that diverged.
        history, best_epoch, loss_sum, points, attention_history: see `RunState`.
    """

    run: Run
    checkpoint: RunState | None = None
    ended: Ending | None = None
    error: NonFiniteError | None = None
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    loss_sum: float = 0.0
    points: int = 0
    attention_history: list[AttentionSnapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            state = self.checkpoint
            self.history, self.best_epoch = list(state.history), state.best_epoch
            self.loss_sum, self.points = state.loss_sum, state.points
            self.attention_history = list(state.attention_history)

    @property
    def is_finished(self) -> bool:
        """Whether it trained to its end, with finite losses."""
        return self.ended is not None and self.error is None

    @property
    def best_loss(self) -> float:
        return best_loss(self.history, self.best_epoch)

    @property
    def validation_losses(self) -> list[float]:
        return [record.validation_loss for record in self.history]


@dataclass(frozen=True)
class Snapshot:
    """A position inside an epoch.

    Attributes:
        step: steps finished in the epoch.
        tensors: copies of weights, count of updates and moments.
        pending: losses of the steps before that are not committed.
    """

    step: int
    tensors: list[Tensor]
    pending: list[Tensor]


class TrainState:
    """The state of all runs of a group.

    Attributes:
        params: the weights, (R, P), and how they are laid out.
        best: the weights of each run's best epoch, (R, P).
        moments: what the optimizer keeps, by name, each (R, P).
        updates: steps taken, as the optimizer's kernels count them, ().
        rows: the runs; a row stays when its run ends, until the group is compacted.
        epoch, step: epochs finished, and steps finished in the running epoch.
        seconds: time the running epoch has taken, at the last save.
        pending: losses, (R,) or (), of the steps that `commit_losses` has not looked at.
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
                self.load(k, checkpoint)

    @property
    def active(self) -> list[int]:
        """Rows whose runs go on."""
        return [k for k, row in enumerate(self.rows) if row.ended is None]

    # --- positions -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that a step changes, to go back to."""
        tensors = [tensor.clone() for tensor in self._changed_by_a_step()]
        return Snapshot(self.step, tensors, list(self.pending))

    def restore(self, snapshot: Snapshot) -> None:
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
        found: list[bool] = zeros.sum(dim=1).isfinite().tolist()
        return found

    def commit_losses(self, loader: DataLoader) -> bool:
        """Add up the pending losses. Returns False, and adds nothing, if one of them, a weight or a
        moment of an active run is not finite.

        Args:
            loader: knows how many points each step's loss is a mean of.
        """
        if not self.pending:
            return True
        steps, active = len(self.pending), self.active
        values = torch.stack(self.pending).view(steps, len(self.rows)).double().cpu().numpy()
        finite = self.finite_rows()
        if not (np.isfinite(values[:, active]).all() and all(finite[k] for k in active)):
            return False
        points = np.array([loader.points(self.step - steps + i) for i in range(steps)])
        added = np.vstack([[row.loss_sum for row in self.rows], values * points])
        # A sequential sum, so that a pause in between changes no rounding.
        sums, counts = np.add.accumulate(added)[-1].tolist(), points.sum(axis=0).tolist()
        for row, total, n in zip(self.rows, sums, counts, strict=True):
            row.loss_sum = total
            row.points += n
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
        """Set `checkpoint` of these rows to where they stand. Returns the rows."""
        for k in rows:
            self.rows[k].checkpoint = self.checkpoint(k)
        return [self.rows[k] for k in rows]

    def checkpoint(self, k: int) -> RunState:
        """The state of row k, as if it were trained alone."""
        row, params = self.rows[k], self.params
        weights = params.of_run(params.weights, k)
        is_best = (row.best_epoch, 0) == (self.epoch, self.step)  # then one copy serves as both
        best = weights if is_best else params.of_run(self.best, k)
        return RunState(
            weights=weights,
            buffers=self._buffers_of(k) if (self.epoch, self.step) != (0, 0) else {},
            epoch=self.epoch,
            step=self.step,
            loss_sum=row.loss_sum,
            points=row.points,
            seconds=self.seconds,
            history=list(row.history),
            best_epoch=row.best_epoch,
            best_weights=best if row.best_epoch else {},
            slot=Slot(row.run.group, k, len(self.rows)),
            attention_history=list(row.attention_history),
        )

    def compacted(self) -> list[RunProgress]:
        """The runs that go on, to begin a smaller group with."""
        rows = self.update_checkpoints(self.active)
        for k, row in enumerate(rows):
            assert row.checkpoint is not None
            slot = Slot(row.run.group, k, len(rows))
            row.checkpoint = replace(row.checkpoint, slot=slot)
        return rows

    def _buffers_of(self, k: int) -> dict[str, dict[str, Tensor]]:
        moments = {name: self.params.of_run(rows, k) for name, rows in self.moments.items()}
        config = self.rows[k].run.config
        count = {"step": self.updates.cpu().clone()} if counts_updates(config) else {}
        names = self.params.shapes if moments else ()
        return {key: {name: kept[key] for name, kept in moments.items()} | count for key in names}

    def load(self, k: int, state: RunState) -> None:
        """Give row k the numbers of a checkpoint. All rows get its position."""
        params = self.params
        params.set_row(params.weights, k, state.weights)
        params.set_row(self.best, k, state.best_weights or state.weights)
        if state.buffers:
            for name, rows in self.moments.items():
                params.set_row(rows, k, {key: kept[name] for key, kept in state.buffers.items()})
            counted = next(iter(state.buffers.values())).get("step")
            if counted is not None:
                self.updates.copy_(counted)
        self.epoch, self.step, self.seconds = state.epoch, state.step, state.seconds


def rows_of_group(runs: Sequence[RunProgress]) -> list[RunProgress]:
    """The rows of a group.

    Runs that begin, or whose checkpoints do not say which row they had, get one each in their
    order. Rows of runs that have ended before are filled with an ended copy of the first run.

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
    filler = RunProgress(runs[0].run, ended="all epochs")
    return [by_row.get(k, filler) for k in range(known[0].rows)]
