"""The learner of a group: model, loss, optimizer, data loader and schedules.

After a resume, the learner is rebuilt from the configs and histories of its runs. The weights and
moments belong to `TrainState`, which shares the tensors of `params` and `optimizer`.

Letters: n sequences of a batch, T target length, R runs, P parameter values of a run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqattn.rng import rngs_for
from seqattn.training.attention_history import attention_snapshots, probe_batch
from seqattn.training.batches import Batch, stack_batches
from seqattn.training.compiling import StepCompiler
from seqattn.training.data_loader import DataLoader
from seqattn.training.objective import build_loss
from seqattn.training.optimizers import GradientClipping, Optimizer
from seqattn.training.parameter_history import record_parameters
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    LearningRate,
    build_early_stopper,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.state import RunProgress, StepLoss, TrainState
from seqattn.training.step_rng import StepRNG


@dataclass(frozen=True)
class Epoch:
    """The values of an epoch for each run. The values depend only on the configs, the seeds and the
    number of the epoch.

    Attributes:
        learning_rates: learning rate of each run.
        teacher_forcing: for each run, the probability that a step receives the true target.
        forced: for each batch, True at steps that receive the true target. The shape is (T,),
            (n, 1) or (n, T), as `training.teacher_forcing.coin` determines; see
            `sample_teacher_forcing`. Several runs add a leading axis.
        began: start of the epoch on the clock of `time.perf_counter`. After a resume, this time is
            moved back by the duration of the epoch before the stop.
    """

    learning_rates: list[float]
    teacher_forcing: list[float]
    forced: list[Tensor]
    began: float

    def __len__(self) -> int:
        return len(self.forced)

    def elapsed(self) -> float:
        """Return the duration of the epoch so far in seconds."""
        return time.perf_counter() - self.began


class Learner:
    """Model, loss, optimizer, data loader and schedules of runs that share every operation.

    Attributes:
        config: section `training` of the first run, for the keys that all runs share; see
            `batch_key.PER_RUN`.
        processes: the processes that share every batch of a single run; None if this process is
            alone.
        params: (R, P) weights of all runs and their gradient.
        loss_fn: the loss with its gradient.
        rate_schedules: learning rate schedule of each run.
        early_stoppers: early stopping of each run.
    """

    def __init__(
        self,
        progress: Sequence[RunProgress],
        *,
        manual_backward: bool = True,
        processes: ProcessGroup | None = None,
        compiler: StepCompiler | None = None,
    ) -> None:
        """Build the learner of runs with their histories.

        Args:
            progress: progress of each run, by row.
            manual_backward: whether to use manually derived gradients if the model has them.
                False leaves all gradients to autograd.
            processes: the processes that share every batch; None if this process is alone.
            compiler: the compiler that earlier groups of these runs used; None for a new compiler.
        """
        runs = [each.run for each in progress]
        self.config, self.processes = runs[0].config, processes
        size = self.config.batch_size
        self.loader = DataLoader([run.data for run in runs], size, processes)
        self.params, self.loss_fn = build_loss(
            [run.model for run in runs],
            manual_backward=manual_backward and self.config.compile != "on",
            pairs=len(runs) * min(size, self.loader.n) * self.loader.S * self.loader.T,
            bfloat16=self.config.precision == "bfloat16",
        )
        weights, gradient = self.params.weights, self.params.gradient
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

    def start_epoch(self, state: TrainState) -> Epoch:
        """Shuffle the data for the current epoch of the state, and compute the values of this
        epoch.

        The row of a run that has ended receives the learning rate, teacher forcing and order of the
        first active run, so that the choice of kernels depends only on active runs.
        """
        began, first = time.perf_counter() - state.seconds, state.active[0]
        representatives = [
            k if each.ended is None else first for k, each in enumerate(state.progress)
        ]
        runs = [state.progress[k].run for k in representatives]
        self.loader.start_epoch([run.seed for run in runs], state.epoch)
        probabilities = [
            teacher_forcing_probability(run.config.teacher_forcing, state.epoch, run.config.epochs)
            for run in runs
        ]
        generators = rngs_for(((run.seed, state.epoch) for run in runs), "coins")
        samples = [
            sample_teacher_forcing(
                run.config.teacher_forcing, probability, generator, sequences=self.loader.n,
                batches=len(self.loader.batches), steps=self.loader.T,
            )
            for run, probability, generator in zip(runs, probabilities, generators, strict=True)
        ]  # fmt: skip
        return Epoch(
            learning_rates=[self.rate_schedules[k].value for k in representatives],
            teacher_forcing=probabilities,
            forced=self._split_into_batches(samples),
            began=began,
        )

    def _split_into_batches(self, samples: Sequence[np.ndarray]) -> list[Tensor]:
        """Split the teacher forcing of an epoch into batches.

        Args:
            samples: for each run, the array that `sample_teacher_forcing` returned.
        """
        single = len(samples) == 1
        forced = torch.from_numpy(samples[0] if single else np.stack(samples))
        if self.config.teacher_forcing.coin == "step":
            # All sequences of a batch share a sample: (T,), or (R, 1, T) for several runs.
            return list(forced.squeeze(-2).unbind(0) if single else forced.unbind(1))
        return [forced[..., places, :] for places in self.loader.own_places]

    def compute_gradient(self, state: TrainState, epoch: Epoch) -> StepLoss:
        """Compute the loss of the next batch, and write its gradient to `params.gradient`.

        Raises:
            DataError: if the data files are gone or have changed.
            DistributedError: if another process fails.
        """
        step, weights = state.step, self.params.weights
        batch, forced = self.loader.fetch(step), epoch.forced[step]
        seeds = [each.run.seed for each in state.progress]
        rng = StepRNG(seeds, state.epoch, step, weights, self.loader.shards[step])
        if self.processes is not None:
            return self._all_reduce(self.processes, batch, forced, rng)
        return StepLoss(self.loss_fn.value_and_grad(batch, forced, rng), batch.loss_counts)

    def _all_reduce(
        self, processes: ProcessGroup, batch: Batch, forced: Tensor, rng: StepRNG
    ) -> StepLoss:
        """Compute the loss and the gradient of a batch that the processes share."""
        gradient = self.params.gradient
        (count,) = batch.loss_counts.tolist()
        if count:
            losses = self.loss_fn.value_and_grad(batch, forced, rng)
        else:  # the share is empty, or none of its cells was observed
            gradient.zero_()
            losses = gradient.new_zeros(())
        processes.all_reduce(gradient.mul_(count))
        losses, total = processes.all_reduce(
            torch.stack([losses * count, losses.new_tensor(count)])
        )
        gradient.div_(total.clamp(min=1))
        return StepLoss(losses / total.clamp(min=1), total.long().view(1))

    def update(self, epoch: Epoch) -> None:
        """Clip the gradient and update the weights."""
        self.clipping.clip()
        self.optimizer.step(epoch.learning_rates)

    def record_attention(self, state: TrainState) -> None:
        """Add snapshots to the histories of attention and of parameters of each active run, if they
        are due."""
        every = self.config.record_attention
        if every is None or state.epoch % every:
            return
        weights = self.params.weights.detach().float().cpu().numpy()
        for k in state.active:
            record_parameters(state.progress[k].parameter_history, state.epoch, every, weights[k])
        histories = [(k, state.progress[k].attention_history) for k in state.active]
        missing = [(k, history) for k, history in histories
                   if not history or history[-1].epoch != state.epoch]  # fmt: skip
        if not missing:
            return
        snapshots = attention_snapshots(
            self.params.model, probe_batch(self.validation), state.epoch
        )
        for k, history in missing if snapshots else ():
            history.append(snapshots[k])


def build_group(
    runs: Sequence[RunProgress],
    *,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
    compiler: StepCompiler | None = None,
) -> tuple[TrainState, Learner]:
    """Build the state and the learner of a group.

    Args:
        runs: the runs, all at the same epoch and step. A resumed run gets the row that it had
            before, in a group with the same number of rows. The results are then bit-identical to
            the results of an uninterrupted training run.
        manual_backward, processes, compiler: see `Learner`.

    Raises:
        ValueError: if the checkpoints belong to different groups.
    """
    # A run that several processes share has a single row, even if it began in a larger group.
    progress = assign_rows(runs) if processes is None else list(runs)
    learner = Learner(
        progress, manual_backward=manual_backward, processes=processes, compiler=compiler
    )
    return TrainState(learner.params, learner.optimizer, progress), learner


def assign_rows(runs: Sequence[RunProgress]) -> list[RunProgress]:
    """Return the runs of a group by row.

    Runs that begin, or that have checkpoints without a row, get rows in the given order. Each row
    of a run that ended before the resume gets an ended copy of the first run.

    Raises:
        ValueError: if the checkpoints belong to different groups.
    """
    slots = [None if run.checkpoint is None else run.checkpoint.slot for run in runs]
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(runs):
        return list(runs)
    by_row = {slot.row: run for slot, run in zip(known, runs, strict=True)}
    if len(by_row) < len(runs) or len({(slot.group_id, slot.rows) for slot in known}) > 1:
        raise ValueError("runs that go side by side must have rows of one group, each its own")
    # The copy fills its row with model, data and config of the first run; its results are not used.
    ended = RunProgress(runs[0].run, ended="all epochs")
    return [by_row.get(k, ended) for k in range(known[0].rows)]
