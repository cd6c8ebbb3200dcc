"""The learner of a group: model, loss, optimizer, data loader and schedules.

After a resume, the learner is rebuilt from the configs and histories of its runs. The weights and
moments belong to `TrainState`; `Learner.params` and `Learner.optimizer` contain the same tensors.

In shapes, n is the number of sequences in a batch, T is the target length, R is the number of runs,
and P is the number of parameter values of a run.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from seqattn.training.attention_history import attention_snapshots, probe_batch
from seqattn.training.batches import Batch, stack_batches
from seqattn.training.compiling import StepCompiler
from seqattn.training.cuda_graphs import GraphedLoss, uses_graphs
from seqattn.training.data_loader import DataLoader
from seqattn.training.epoch_plan import EpochPlan, build_epoch_plan
from seqattn.training.objective import build_loss
from seqattn.training.optimizers import GradientClipping, Optimizer
from seqattn.training.parameter_history import record_parameters
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import LearningRate, build_early_stopper
from seqattn.training.state import RunProgress, StepLoss, TrainState
from seqattn.training.step_rng import StepRNG


class Learner:
    """The model, loss, optimizer, data loader and schedules of a group.

    Attributes:
        config: section `training` of the first run. The learner reads from it only keys that all
            runs share; `batch_key.PER_RUN` lists the other keys.
        processes: the processes that share every batch of a single run; None if this process is
            alone.
        params: (R, P) weights of all runs and their gradient.
        loss_fn: the object that computes the loss and its gradient.
        rate_schedules: learning rate schedule of each run.
        early_stoppers: early-stopping detector of each run.
    """

    def __init__(
        self,
        progress: Sequence[RunProgress],
        *,
        manual_backward: bool = True,
        processes: ProcessGroup | None = None,
        compiler: StepCompiler | None = None,
    ) -> None:
        """Build the learner of a group from the progress of its runs.

        Args:
            progress: progress of each run, by row.
            manual_backward: whether to allow manually derived gradients. False leaves all gradients
                to autograd.
            processes: the processes that share every batch; None if this process is alone.
            compiler: the compiler that earlier groups of these runs used; None for a new compiler.
        """
        runs = [each.run for each in progress]
        self.config, self.processes = runs[0].config, processes
        size = self.config.batch_size
        self.loader = DataLoader([run.train for run in runs], size, processes)
        self.params, self.loss_fn = build_loss(
            [run.model for run in runs],
            manual_backward=manual_backward and self.config.compile != "on",
            source_steps=self.loader.S,
            pairs=len(runs) * min(size, self.loader.n) * self.loader.S * self.loader.T,
            bfloat16=self.config.precision == "bfloat16",
        )
        weights, gradient = self.params.weights, self.params.gradient
        if weights.is_cuda and uses_graphs(self.config, self.params.model):
            self.loss_fn = GraphedLoss(self.loss_fn)
        self.optimizer = Optimizer(self.config, weights, gradient, self.params.frozen)
        self.clipping = GradientClipping([run.config.clip_norm for run in runs], gradient)
        self.compiler = compiler or StepCompiler()
        self.validation = stack_batches([run.validation for run in runs])
        self.rate_schedules = [
            LearningRate(each.run.config, each.validation_losses) for each in progress
        ]
        self.early_stoppers = [
            build_early_stopper(each.run.config, each.validation_losses) for each in progress
        ]

    def plan_epoch(self, state: TrainState) -> EpochPlan:
        """Build the plan of the current epoch of a state.

        The row of a run that has ended receives the learning rate, teacher forcing and order of the
        first active run, so that the choice of kernels depends only on active runs.
        """
        first = state.active_rows[0]
        rows = [k if each.ending is None else first for k, each in enumerate(state.progress)]
        runs = [state.progress[k].run for k in rows]
        learning_rates = [self.rate_schedules[k].value for k in rows]
        return build_epoch_plan(runs, learning_rates, self.loader, state.epoch)

    def compute_gradient(self, state: TrainState, plan: EpochPlan) -> StepLoss:
        """Compute the loss of the next batch, and write its gradient to `params.gradient`.

        Raises:
            DataError: if the data files are gone or have changed.
            DistributedError: if another process fails.
        """
        step, weights = state.step, self.params.weights
        batch, teacher_forcing = plan.fetch(step), plan.teacher_forcing[step]
        seeds = [each.run.seed for each in state.progress]
        rng = StepRNG(seeds, state.epoch, step, weights, self.loader.shards[step])
        if self.processes is not None:
            return self._all_reduce(self.processes, batch, teacher_forcing, rng)
        losses = self.loss_fn.value_and_grad(batch, teacher_forcing, rng)
        return StepLoss(losses, batch.loss_counts)

    def _all_reduce(
        self, processes: ProcessGroup, batch: Batch, teacher_forcing: Tensor, rng: StepRNG
    ) -> StepLoss:
        """Compute the loss and the gradient of a batch that the processes share."""
        gradient = self.params.gradient
        (count,) = batch.loss_counts.tolist()
        if count:
            losses = self.loss_fn.value_and_grad(batch, teacher_forcing, rng)
        else:  # the share is empty, or none of its cells was observed
            gradient.zero_()
            losses = gradient.new_zeros(())
        processes.all_reduce(gradient.mul_(count))
        losses, total = processes.all_reduce(
            torch.stack([losses * count, losses.new_tensor(count)])
        )
        gradient.div_(total.clamp(min=1))
        return StepLoss(losses / total.clamp(min=1), total.long().view(1))

    def update(self, plan: EpochPlan) -> None:
        """Clip the gradient and update the weights."""
        self.clipping.clip()
        self.optimizer.step(plan.learning_rates)

    def record_attention(self, state: TrainState) -> None:
        """Add snapshots to the attention history and to the parameter history of each active run,
        if `training.record_attention` selects the current epoch."""
        every = self.config.record_attention
        if every is None or state.epoch % every:
            return
        weights = self.params.weights.detach().float().cpu().numpy()
        for k in state.active_rows:
            record_parameters(state.progress[k].parameter_history, state.epoch, every, weights[k])
        histories = {k: state.progress[k].attention_history for k in state.active_rows}
        due = [k for k, each in histories.items() if not each or each[-1].epoch != state.epoch]
        probe = probe_batch(self.validation)
        snapshots = attention_snapshots(self.params.model, probe, state.epoch) if due else []
        for k in due if snapshots else ():
            histories[k].append(snapshots[k])


def build_group(
    progress: Sequence[RunProgress],
    *,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
    compiler: StepCompiler | None = None,
) -> tuple[TrainState, Learner]:
    """Build the state and the learner of a group.

    Args:
        progress: progress of each run. All runs must be at the same epoch and step. A resumed run
            gets the row that it had before, in a group with the same number of rows. The results
            are then bit-identical to the results of an uninterrupted training run.
        manual_backward, processes, compiler: see `Learner`.

    Raises:
        ValueError: if the states of the runs belong to different groups or to the same row.
    """
    # A run that several processes train has a single row, even if it began in a larger group.
    by_row = assign_rows(progress) if processes is None else list(progress)
    learner = Learner(
        by_row, manual_backward=manual_backward, processes=processes, compiler=compiler
    )
    return TrainState(learner.params, learner.optimizer, by_row), learner


def assign_rows(progress: Sequence[RunProgress]) -> list[RunProgress]:
    """Return the progress of the runs of a group by row.

    If a run is new, or if its state has no slot, all runs get rows in the given order. Otherwise,
    each run gets the row in its slot. Each row of a run that ended before the resume gets a
    placeholder, which has ended and has the model and data of the first run.

    Raises:
        ValueError: if the states of the runs belong to different groups or to the same row.
    """
    slots = [None if each.state is None else each.state.slot for each in progress]
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(progress):
        return list(progress)
    by_row = {slot.row: each for slot, each in zip(known, progress, strict=True)}
    groups = {(slot.group_id, slot.group_size) for slot in known}
    if len(by_row) < len(progress) or len(groups) > 1:
        raise ValueError(
            "runs that are trained side by side must have different rows of the same group"
        )
    # The copy fills its row with model, data and config of the first run; its results are not used.
    placeholder = RunProgress(progress[0].run, ending="all epochs")
    return [by_row.get(k, placeholder) for k in range(known[0].group_size)]
