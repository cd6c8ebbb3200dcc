"""Model, loss, optimizer, data loader and schedules of a group, rebuilt from configs and history.

Weights and moments belong to `TrainState`, which shares the tensors of `params` and `optimizer`.

Letters: N sequences of a batch, T target length, R runs, P numbers in the parameters of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seqattn.rng import rngs_for
from seqattn.training.attention_history import attention_snapshots, probe_batch
from seqattn.training.batches import stack_batches
from seqattn.training.compiling import StepCompiler
from seqattn.training.data_loader import DataLoader
from seqattn.training.objective import build_loss
from seqattn.training.optimizers import GradientClipping, Optimizer
from seqattn.training.parameter_history import record_parameters
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    LearningRate,
    early_stopping,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.state import RunProgress, TrainState, assign_rows
from seqattn.training.step_rng import StepRNG


@dataclass(frozen=True)
class Epoch:
    """Values of one epoch for each row: a function of configs, seeds and the epoch's number.

    Attributes:
        learning_rates: (R).
        teacher_forcing: (R), probability that a step is fed the true target.
        forced: for each batch, True where a step is fed the true target; its shape is
            (T,), (n, 1) or (n, T) by `training.teacher_forcing.coin`, see
            `sample_teacher_forcing`; several runs put an axis first.
        began: by time.perf_counter, shifted back by the duration before a resume.
    """

    learning_rates: list[float]
    teacher_forcing: list[float]
    forced: list[Tensor]
    began: float

    def __len__(self) -> int:
        return len(self.forced)

    def elapsed(self) -> float:
        """Its duration so far, in seconds."""
        return time.perf_counter() - self.began


class Learner:
    """Model, loss, optimizer, data loader and schedules of runs that share every operation.

    Attributes:
        config: of the first run, for the keys that all runs share; see `batch_key.PER_RUN`.
        processes: processes that share every batch of one run; None: this one alone.
        params: the weights of all runs, (R, P), and their gradient.
        loss_fn: the loss with its gradient.
        rate_schedules, early_stoppers: of each row.
    """

    def __init__(
        self,
        rows: Sequence[RunProgress],
        *,
        manual_backward: bool = True,
        processes: ProcessGroup | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Build it for rows with their histories.

        Args:
            manual_backward: False leaves all gradients to autograd.
            log: called with a line about the backend of the gradients.
        """
        runs = [row.run for row in rows]
        self.config, self.processes = runs[0].config, processes
        size = self.config.batch_size
        self.loader = DataLoader([run.data for run in runs], size, processes)
        self.params, self.loss_fn = build_loss(
            [run.model for run in runs],
            manual_backward=manual_backward and self.config.compile != "on",
            pairs=len(rows) * min(size, self.loader.n) * self.loader.S * self.loader.T,
            bfloat16=self.config.precision == "bfloat16",
        )
        weights, gradient = self.params.weights, self.params.gradient
        self.optimizer = Optimizer(self.config, weights, gradient, self.params.frozen)
        self.clipping = GradientClipping([run.config.clip_norm for run in runs], gradient)
        self.compiler = StepCompiler(self.config.compile, self.loss_fn, log)
        self.validation = stack_batches([run.validation for run in runs])
        self.rate_schedules = [LearningRate(row.run.config, row.validation_losses) for row in rows]
        self.early_stoppers = [
            early_stopping(row.run.config, row.validation_losses) for row in rows
        ]

    def start_epoch(self, state: TrainState) -> Epoch:
        """Shuffle the data for the state's epoch, and compute its values.

        A row whose run has ended gets the rate, teacher forcing and order of the first active run,
        so that the choice of kernels depends on active runs alone.
        """
        began, first = time.perf_counter() - state.seconds, state.active[0]
        sources = [k if row.ended is None else first for k, row in enumerate(state.rows)]
        runs = [state.rows[k].run for k in sources]
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
            learning_rates=[self.rate_schedules[k].value for k in sources],
            teacher_forcing=probabilities,
            forced=self._split_into_batches(samples),
            began=began,
        )

    def _split_into_batches(self, samples: Sequence[np.ndarray]) -> list[Tensor]:
        """The teacher forcing of an epoch, batch by batch.

        Args:
            samples: one array per run, as returned by `sample_teacher_forcing`.
        """
        single = len(samples) == 1
        forced = torch.from_numpy(samples[0] if single else np.stack(samples))
        if self.config.teacher_forcing.coin == "step":
            # One sample for the batch: (T,), or for several runs (R, 1, T).
            return list(forced.squeeze(-2).unbind(0) if single else forced.unbind(1))
        return [forced[..., places, :] for places in self.loader.batches]

    def compute_gradient(self, state: TrainState, epoch: Epoch) -> Tensor:
        """Compute the loss of the next batch; its gradient is then `params.gradient`.

        Returns:
            the losses, (R,), or () for one run.

        Raises:
            DataError: the files that the batch is read from are gone or have changed.
            DistributedError: another process is lost.
        """
        shard, forced = self.loader.fetch(state.step), epoch.forced[state.step]
        seeds, weights = [row.run.seed for row in state.rows], self.params.weights
        if self.processes is None:
            rng = StepRNG(seeds, state.epoch, state.step, weights)
            return self.loss_fn.value_and_grad(shard.batch, forced, rng)
        (count,) = shard.batch.loss_counts if len(shard.batch) else (0,)
        gradient = self.params.gradient
        if count:
            forced = forced if forced.dim() == 1 else forced[..., shard.places, :]
            rng = StepRNG(seeds, state.epoch, state.step, weights, (shard.n, shard.places))
            losses = self.loss_fn.value_and_grad(shard.batch, forced, rng)
        else:  # fewer sequences than processes
            gradient.zero_()
            losses = weights.new_zeros(())
        self.processes.all_reduce(gradient.mul_(count))
        losses, total = self.processes.all_reduce(
            torch.stack([losses * count, losses.new_tensor(count)])
        )
        gradient.div_(total.clamp(min=1))
        self.loader.set_loss_count(state.step, total)
        mean: Tensor = losses / total.clamp(min=1)
        return mean

    def update(self, epoch: Epoch) -> None:
        """Clip the gradient and update the weights."""
        self.clipping.clip()
        self.optimizer.step(epoch.learning_rates)

    def record_attention(self, state: TrainState) -> None:
        """Add a snapshot to the histories of attention and parameters of each active run, where one
        is due."""
        every = self.config.record_attention
        if every is None or state.epoch % every:
            return
        weights = self.params.weights.detach().float().cpu().numpy()
        for k in state.active:
            record_parameters(state.rows[k].parameter_history, state.epoch, every, weights[k])
        rows = [(k, state.rows[k].attention_history) for k in state.active]
        missing = [(k, history) for k, history in rows
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
    log: Callable[[str], None] = lambda line: None,
) -> tuple[TrainState, Learner]:
    """Build state and learner of a group.

    Args:
        runs: at the same epoch and step. A resumed run gets its old row among as many, so that
            results are bit-identical to a training that was never stopped.
        manual_backward, processes, log: see `Learner`.

    Raises:
        ValueError: their checkpoints are of different groups.
    """
    # A run that several processes share has one row, whatever group it began in.
    rows = assign_rows(runs) if processes is None else list(runs)
    learner = Learner(rows, manual_backward=manual_backward, processes=processes, log=log)
    return TrainState(learner.params, learner.optimizer, rows), learner
