"""The training state, which consists of everything that is not rebuilt after a resume.

`RunState` is the state of a single run. It contains tensors by parameter name, as a checkpoint file
does. `TrainState` is the state of all runs of a group. The loop changes this state. Its tensors
have a leading axis of runs: `StackedParams` stores the parameters of R models of one config as a
single (R, P) tensor, so the update of the weights, the norm of the gradient, and the copy of the
best weights are single operations for all runs and all parameters. `TrainState.set_run_state` and
`TrainState.get_run_state` convert between the two forms. The checkpoint `last.safetensors` contains
the state except for the attention history and the parameter history, which have separate files.

In shapes, R is the number of runs and P is the number of parameter values of a run.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqattn.config import Monitor, Training
from seqattn.data.text_measures import RightTexts
from seqattn.errors import NonFiniteError
from seqattn.models import Seq2SeqModel
from seqattn.runs import EpochRecord
from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.histories import AttentionSnapshot, ParameterSnapshot
from seqattn.training.optimization import Ending, Optimizer, counts_updates


class StackedParams:
    """The parameters of R models of one config.

    Attributes:
        R: number of models.
        model: a model whose parameters have a leading axis of runs. The axis is missing if R is 1.
        weights: (R, P) weights. The parameters of `model` are views of this tensor.
        gradient: (R, P) gradient of the last backward pass.
        frozen: columns of the weights that the optimizer does not change.
        shapes: shapes of the parameters by name, without the axis of runs.
    """

    def __init__(
        self,
        models: Sequence[Seq2SeqModel],
        *,
        runs_innermost: bool = False,
    ) -> None:
        """
        Args:
            models: models of one config. If there is only one model, the attribute `model` is this
                model, and not a copy.
            runs_innermost: whether the axis of runs is the innermost axis in memory.
        """
        self.R = len(models)
        self.model = models[0] if self.R == 1 else copy.deepcopy(models[0])
        named = [dict(model.named_parameters()) for model in models]
        self.shapes = {name: p.shape for name, p in named[0].items()}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        ends = itertools.accumulate(self.sizes)
        self.frozen = [
            slice(end - size, end)
            for name, size, end in zip(self.shapes, self.sizes, ends, strict=True)
            if name in models[0].frozen_parameters
        ]
        weights = torch.stack(
            [torch.cat([p.detach().flatten() for p in one.values()]) for one in named]
        )
        self.runs_innermost = runs_innermost and self.R > 1
        self.weights = weights.T.contiguous().T if self.runs_innermost else weights
        self.gradient = torch.zeros_like(self.weights)
        self.parameter_grads: list[tuple[nn.Parameter, Tensor]] = []
        gradients = self.as_named(self.gradient)
        for name, weight in self.as_named(self.weights).items():
            module, _, key = name.rpartition(".")
            parameter = nn.Parameter(weight)
            setattr(self.model.get_submodule(module), key, parameter)
            self.parameter_grads.append((parameter, gradients[name]))

    def as_named(self, stacked: Tensor) -> dict[str, Tensor]:
        """Return views of an (R, P) tensor by parameter name: (R, *shape), or (*shape) if R = 1."""
        split = zip(self.shapes.items(), torch.split(stacked, self.sizes, dim=1), strict=True)
        if self.R == 1:
            return {name: piece.view(shape) for (name, shape), piece in split}
        return {name: piece.unflatten(1, shape) for (name, shape), piece in split}

    def get_row(self, stacked: Tensor, k: int) -> dict[str, Tensor]:
        """Copy row k of an (R, P) tensor to tensors by parameter name."""
        row = stacked[k].clone(memory_format=torch.contiguous_format)
        split = zip(self.shapes.items(), torch.split(row, self.sizes), strict=True)
        return {name: piece.view(shape) for (name, shape), piece in split}

    def set_row(self, stacked: Tensor, k: int, named: Mapping[str, Tensor]) -> None:
        """Copy tensors by parameter name to row k of an (R, P) tensor."""
        stacked[k] = torch.cat([named[name].detach().flatten().to(stacked) for name in self.shapes])

    def clear_gradient(self) -> None:
        """Clear the gradients before a backward pass of autograd, which then allocates them."""
        for parameter, _ in self.parameter_grads:
            parameter.grad = None

    def gather_gradient(self) -> None:
        """Copy the gradients of a backward pass of autograd to `gradient`."""
        gradients = [
            (torch.zeros_like(grad) if parameter.grad is None else parameter.grad).view(self.R, -1)
            for parameter, grad in self.parameter_grads
        ]
        torch.cat(gradients, dim=1, out=self.gradient)
        self.clear_gradient()


@contextlib.contextmanager
def train_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into train mode during the `with` block, and into eval mode afterwards.

    A module of a plugin can read its attribute `training`, as torch's own modules do. Only training
    steps use a model in train mode. A change of the mode takes as long as a part of a step of a
    small model, so a block contains all steps of an epoch.
    """
    model.train()
    try:
        yield
    finally:
        model.eval()


@contextlib.contextmanager
def cache_module_attributes(model: nn.Module) -> Iterator[None]:
    """Make submodules and parameters plain attributes of their modules during the `with` block.

    Without this context manager, torch looks up these attributes in Python at each use. In a small
    model, these lookups take a twentieth of the time of a training step. Do not replace a submodule
    or parameter in the block, because the module would still use the old object.
    """
    modules = list(model.modules())
    for module in modules:
        module.__dict__.update(module._modules)
        module.__dict__.update(module._parameters)
    try:
        yield
    finally:
        for module in modules:
            for name in (*module._modules, *module._parameters):
                module.__dict__.pop(name, None)


@dataclass(frozen=True)
class Slot:
    """The row of a run in its group.

    The last bits of the results of a batched kernel may depend on the row and on the number of
    rows. A resumed run therefore gets the same row in a group with the same number of rows.

    Attributes:
        group_id: digest of the runs that began together.
        row: row of this run, from 0.
        group_size: number of rows of the group, including the rows of ended runs.
    """

    group_id: str
    row: int = 0
    group_size: int = 1


@dataclass(eq=False, kw_only=True)
class TrainingRecord:
    """The losses and snapshots of a run so far.

    Attributes:
        history: one record for each finished epoch.
        best_epoch: number of the best epoch by `training.monitor`, from 1; 0 before the end of the
            first epoch.
        loss_sum: sum over the steps of the current epoch; the summand of a step is the product of
            its mean loss and its loss count.
        loss_count: sum of the loss counts of these steps; see `Batch.loss_counts`.
        attention_history: attention snapshots; empty unless `training.record_attention` is set.
        parameter_history: parameter snapshots; empty unless `training.record_attention` is set.
    """

    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    attention_history: list[AttentionSnapshot] = field(default_factory=list)
    parameter_history: list[ParameterSnapshot] = field(default_factory=list)

    @property
    def best_loss(self) -> float:
        """Validation loss of the best epoch; infinite before the end of the first epoch."""
        return self.history[self.best_epoch - 1].validation_loss if self.best_epoch else math.inf

    def monitored_values(self, measure: Monitor) -> list[float]:
        """Return the value of each epoch, of which smaller is better."""
        return [record.monitored(measure) for record in self.history]

    def best_monitored(self, measure: Monitor) -> float:
        """Value of the best epoch, of which smaller is better; see `EpochRecord.monitored`."""
        return self.history[self.best_epoch - 1].monitored(measure) if self.best_epoch else math.inf

    def copy_record(self) -> dict[str, Any]:
        """Return the fields of this class by name, with copies of the lists."""
        return {f.name: copy.copy(getattr(self, f.name)) for f in fields(TrainingRecord)}


@dataclass(eq=False)
class RunState(TrainingRecord):
    """The state of a single run, in the form that a save writes to a checkpoint file.

    Attributes:
        weights: weights by parameter name.
        buffers: buffers of the optimizer by parameter name and buffer name; empty before the first
            step or if the optimizer has no buffers.
        epoch: number of finished epochs.
        step: number of finished steps in the current epoch.
        seconds: duration of the current epoch so far, in seconds.
        best_weights: weights after the best epoch, by parameter name.
        slot: row in a group; None if it is unknown.
        environment: the device, the torch version, and the numbers of threads and processes when
            the state was saved, with the keys of `environment.json`. The mapping is empty if the
            state was not read from a checkpoint.
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
        """Number of finished epochs, and number of finished steps in the current epoch."""
        return self.epoch, self.step


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """Everything that the loop needs to train a run from the beginning.

    Attributes:
        model: the initialized model on its device. Training changes the weights of this model only
            if the run is alone in its group.
        train: the training sequences.
        validation: the sequences that select the best epoch.
        config: the section `training`.
        seed: seed of batch order, teacher forcing, dropout and sampling.
        sequence_ids: ids of the training sequences, for error messages.
        group_id: digest of the runs that begin together, which is stored in checkpoints.
        right_texts: the right texts of the validation part if `training.monitor` is `bleu`;
            otherwise None.
    """

    model: Seq2SeqModel
    train: Batch | GatheredBatch
    validation: Batch | GatheredBatch
    config: Training
    seed: int
    sequence_ids: Sequence[str] = ()
    group_id: str = ""
    right_texts: RightTexts | None = None


@dataclass(eq=False)
class RunProgress(TrainingRecord):
    """The progress of a run.

    Attributes:
        run: the model, sequences and settings of the run.
        state: the newest copy of the state of the run, which the next save writes to a checkpoint
            file. Before training, this is the state from which training continues, or None for a
            new run.
        ending: reason for the end of training; None for a run that is active or was interrupted.
        error: the non-finite loss, gradient or update of a run that diverged; None otherwise.
    """

    run: TrainingRun
    state: RunState | None = None
    ending: Ending | None = None
    error: NonFiniteError | None = None

    def __post_init__(self) -> None:
        if self.state is not None:
            for name, value in self.state.copy_record().items():
                setattr(self, name, value)

    @property
    def is_finished(self) -> bool:
        """Whether training has ended with finite losses."""
        return self.ending is not None and self.error is None


class StepLoss(NamedTuple):
    """The loss of a training step, as tensors that the device may still be computing.

    Attributes:
        losses: (R,) mean loss of each run, or () for a single run.
        counts: (R,) loss counts of the batch; see `Batch.loss_counts`.
    """

    losses: Tensor
    counts: Tensor


@dataclass(frozen=True)
class StateSnapshot:
    """A copy of the state of a group within an epoch.

    Attributes:
        step: number of finished steps in the epoch.
        tensors: copies of weights, number of updates, and moments.
        pending: losses of earlier steps that are not yet added to the sums of the epoch.
    """

    step: int
    tensors: list[Tensor]
    pending: list[StepLoss]


class TrainState:
    """The state of all runs of a group.

    Attributes:
        params: (R, P) weights and their layout.
        best: (R, P) weights after the best epoch of each run.
        moments: (R, P) moments of the optimizer by name.
        updates: number of updates, a tensor of shape (), which the optimizer increases.
        progress: progress of each run, by row. The row of an ended run remains until the other runs
            continue in a smaller group.
        epoch: number of finished epochs.
        step: number of finished steps in the current epoch.
        seconds: duration of the current epoch in seconds, as last measured by `update_seconds`.
        pending: step losses that are not yet added to the sums of the epoch.
    """

    def __init__(
        self, params: StackedParams, optimizer: Optimizer, progress: Sequence[RunProgress]
    ) -> None:
        self.params, self.progress = params, list(progress)
        self.best = params.weights.clone()
        self.moments, self.updates = optimizer.buffers, optimizer.updates
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.pending: list[StepLoss] = []
        for k in self.active_rows:
            if (run_state := self.progress[k].state) is not None:
                self.set_run_state(k, run_state)

    @property
    def active_rows(self) -> list[int]:
        """Rows of the runs that have not ended."""
        return [k for k, each in enumerate(self.progress) if each.ending is None]

    # --- time ------------------------------------------------------------------------------------

    def start_timer(self) -> None:
        """Start the timer of the current epoch. If a stop interrupted the epoch, the timer starts
        at the duration of the epoch before the stop."""
        self._began = time.perf_counter() - self.seconds

    def update_seconds(self) -> None:
        """Measure the duration of the current epoch, which is 0 before the first step."""
        self.seconds = time.perf_counter() - self._began if self.step else 0.0

    # --- snapshots -------------------------------------------------------------------------------

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
        """Return whether the weights and moments of each row are finite."""
        zeros = self.params.weights * 0  # NaN for each non-finite weight
        for moment in self.moments.values():
            zeros.add_(moment, alpha=0)
        finite: list[bool] = zeros.sum(dim=1).isfinite().tolist()
        return finite

    def commit_losses(self) -> bool:
        """Add the pending losses to the sums of the epoch.

        Returns:
            Whether the losses, weights and moments of all active runs are finite. If a value is not
            finite, the method adds no loss.
        """
        if not self.pending:
            return True
        steps, rows = len(self.pending), self.active_rows
        losses, counts = (torch.stack(tensors) for tensors in zip(*self.pending, strict=True))
        values = losses.view(steps, len(self.progress)).double().cpu().numpy()
        finite = self.finite_rows()
        if not (np.isfinite(values[:, rows]).all() and all(finite[k] for k in rows)):
            return False
        numbers = counts.cpu().numpy()
        terms = np.vstack([[each.loss_sum for each in self.progress], values * numbers])
        # The terms are added one after another, so that a save does not change the rounding.
        sums, totals = np.add.accumulate(terms)[-1].tolist(), numbers.sum(axis=0).tolist()
        for each, loss_sum, count in zip(self.progress, sums, totals, strict=True):
            each.loss_sum = loss_sum
            each.loss_count += count
        self.pending = []
        return True

    def keep_best_weights(self) -> None:
        """Copy the weights of each active run whose best epoch is the epoch that has just
        finished."""
        improved = [k for k in self.active_rows if self.progress[k].best_epoch == self.epoch]
        if len(improved) == len(self.progress):
            self.best.copy_(self.params.weights)
        elif improved:
            self.best[improved] = self.params.weights[improved]

    # --- checkpoints -----------------------------------------------------------------------------

    def update_run_states(self, rows: Sequence[int]) -> list[RunProgress]:
        """Copy the current state of each given row to `RunProgress.state`.

        Returns:
            The progress of the given rows.
        """
        for k in rows:
            self.progress[k].state = self.get_run_state(k)
        return [self.progress[k] for k in rows]

    def get_run_state(self, k: int) -> RunState:
        """Copy the state of row k."""
        progress, params = self.progress[k], self.params
        weights = params.get_row(params.weights, k)
        is_best = progress.best_epoch == self.epoch and self.step == 0
        best = weights if is_best else params.get_row(self.best, k)
        buffers = dict[str, dict[str, Tensor]]()  # by parameter name and buffer name
        if self.moments and (self.epoch, self.step) != (0, 0):
            moments = {name: params.get_row(moment, k) for name, moment in self.moments.items()}
            count = {}
            if counts_updates(progress.run.config):
                count["step"] = self.updates.cpu().clone()
            for key in params.shapes:
                buffers[key] = {name: kept[key] for name, kept in moments.items()} | count
        return RunState(
            weights=weights,
            buffers=buffers,
            epoch=self.epoch,
            step=self.step,
            seconds=self.seconds,
            best_weights=best if progress.best_epoch else {},
            slot=Slot(progress.run.group_id, k, len(self.progress)),
            **progress.copy_record(),
        )

    def remaining_runs(self) -> list[RunProgress]:
        """Return the progress of the active runs, with states that have the slots of the next,
        smaller group."""
        remaining = self.update_run_states(self.active_rows)
        for k, each in enumerate(remaining):
            assert each.state is not None
            slot = Slot(each.run.group_id, k, len(remaining))
            each.state = replace(each.state, slot=slot)
        return remaining

    def set_run_state(self, k: int, run_state: RunState) -> None:
        """Copy the state of a run into row k, and set the position of the group."""
        params = self.params
        params.set_row(params.weights, k, run_state.weights)
        params.set_row(self.best, k, run_state.best_weights or run_state.weights)
        if run_state.buffers:
            for name, moment in self.moments.items():
                named = {key: buffers[name] for key, buffers in run_state.buffers.items()}
                params.set_row(moment, k, named)
            updates = next(iter(run_state.buffers.values())).get("step")
            if updates is not None:
                self.updates.copy_(updates)
        self.epoch, self.step, self.seconds = run_state.epoch, run_state.step, run_state.seconds
