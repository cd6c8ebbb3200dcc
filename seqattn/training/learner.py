"""Model, loss, optimizer, data and schedules of a group of runs, rebuilt from configs and history.

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
from seqattn.training.batches import together
from seqattn.training.compiling import StepCompiler
from seqattn.training.data_loader import DataLoader
from seqattn.training.objective import stacked
from seqattn.training.optimizers import GradientClipping, Optimizer
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    LearningRate,
    early_stopping,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.state import RunProgress, TrainState, rows_of_group
from seqattn.training.step_rng import StepRNG


@dataclass(frozen=True)
class Epoch:
    """The values of one epoch for each row, computed from config, seed and number of the epoch.

    Attributes:
        learning_rates: (R).
        teacher_forcing: (R), chance that a step is fed the truth.
        coins: for each batch, True where a step is fed the truth; see `sample_teacher_forcing`.
        began: by time.perf_counter, shifted back by the time spent before a resume.
    """

    learning_rates: list[float]
    teacher_forcing: list[float]
    coins: list[Tensor]
    began: float

    def __len__(self) -> int:
        return len(self.coins)

    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.began


class Learner:
    """Model, loss, optimizer, data and schedules of runs that share every operation.

    Attributes:
        config: of the first run, for the keys that all have alike; see `batch_key.PER_RUN`.
        processes: that share every batch of one run; None: this one alone.
        params: the weights of all runs, (R, P), and their gradient.
        objective: the loss, and how its gradient is computed.
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
        """Build it for rows whose histories are loaded.

        Args:
            manual_backward: False leaves all gradients to autograd.
            log: takes a line about how gradients are computed.
        """
        self.runs = [row.run for row in rows]
        self.config, self.processes = self.runs[0].config, processes
        size = self.config.batch_size
        self.loader = DataLoader([run.data for run in self.runs], size, processes)
        self.params, self.objective = stacked(
            [run.model for run in self.runs],
            by_hand=manual_backward and self.config.compile != "on",
            pairs=len(rows) * min(size, self.loader.n) * self.loader.S * self.loader.T,
            bfloat16=self.config.precision == "bfloat16",
        )
        weights, gradient = self.params.weights, self.params.gradient
        self.optimizer = Optimizer(self.config, weights, gradient, self.params.frozen)
        self.clipping = GradientClipping([run.config.clip_norm for run in self.runs], gradient)
        self.compiler = StepCompiler(self.config.compile, self.objective, log)
        self.validation = together([run.validation for run in self.runs])
        self.rate_schedules = [LearningRate(row.run.config, row.validation_losses) for row in rows]
        self.early_stoppers = [
            early_stopping(row.run.config, row.validation_losses) for row in rows
        ]

    def start_epoch(self, state: TrainState) -> Epoch:
        """The epoch that the state is in, from its first step; its data are shuffled.

        A row whose run has ended gets the rate, coins and order of the first active run, so that
        the choice of kernels depends on active runs alone.
        """
        began, first = time.perf_counter() - state.seconds, state.active[0]
        sources = [k if row.ended is None else first for k, row in enumerate(state.rows)]
        runs = [self.runs[k] for k in sources]
        self.loader.start_epoch([run.seed for run in runs], state.epoch)
        chances = [
            teacher_forcing_probability(run.config.teacher_forcing, state.epoch, run.config.epochs)
            for run in runs
        ]
        generators = rngs_for(((run.seed, state.epoch) for run in runs), "coins")
        tosses = [
            sample_teacher_forcing(
                run.config.teacher_forcing, chance, coins, sequences=self.loader.n,
                batches=len(self.loader.batches), steps=self.loader.T,
            )
            for run, chance, coins in zip(runs, chances, generators, strict=True)
        ]  # fmt: skip
        return Epoch(
            learning_rates=[self.rate_schedules[k].value for k in sources],
            teacher_forcing=chances,
            coins=self._coins_by_batch(tosses),
            began=began,
        )

    def _coins_by_batch(self, tosses: Sequence[np.ndarray]) -> list[Tensor]:
        single = len(tosses) == 1
        coins = torch.from_numpy(tosses[0] if single else np.stack(tosses))
        if self.config.teacher_forcing.coin == "step":
            # One toss for the batch: (T,), or for several runs (R, 1, T).
            return list(coins.squeeze(-2).unbind(0) if single else coins.unbind(1))
        return [coins[..., places, :] for places in self.loader.batches]

    def compute_gradient(self, state: TrainState, epoch: Epoch) -> Tensor:
        """Leave the gradient of the next batch's loss in `params.gradient`.

        Returns:
            the losses, (R,), or () for one run.

        Raises:
            DataError: the files that the batch is read from are gone or have changed.
            DistributedError: another process is lost.
        """
        batch, n, places = self.loader.fetch(state.step)
        coins, seeds = epoch.coins[state.step], [run.seed for run in self.runs]
        weights = self.params.weights
        if self.processes is None:
            draws = StepRNG(seeds, state.epoch, state.step, weights)
            return self.objective.value_and_grad(batch, coins, draws)
        gradient = self.params.gradient
        (share,) = batch.points if len(batch) else (0,)
        if share:
            coins = coins if coins.dim() == 1 else coins[..., places, :]
            draws = StepRNG(seeds, state.epoch, state.step, weights, (n, places))
            losses = self.objective.value_and_grad(batch, coins, draws)
        else:  # fewer sequences than processes
            gradient.zero_()
            losses = weights.new_zeros(())
        self.processes.all_reduce(gradient.mul_(share))
        losses, points = self.processes.all_reduce(
            torch.stack([losses * share, losses.new_tensor(share)])
        )
        gradient.div_(points.clamp(min=1))
        self.loader.set_points(state.step, points)
        mean: Tensor = losses / points.clamp(min=1)
        return mean

    def update(self, epoch: Epoch) -> None:
        """Clip the gradient, and take the optimizer's step."""
        self.clipping.clip()
        self.optimizer.step(epoch.learning_rates)

    def record_attention(self, state: TrainState) -> None:
        """Add a snapshot to the attention history of each run that goes on, where one is due."""
        every = self.config.record_attention
        if every is None or state.epoch % every:
            return
        found = attention_snapshots(self.params.model, probe_batch(self.validation), state.epoch)
        for k in state.active if found else ():
            state.rows[k].attention_history.append(found[k])


def build_group(
    runs: Sequence[RunProgress],
    *,
    manual_backward: bool = True,
    processes: ProcessGroup | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> tuple[TrainState, Learner]:
    """The state of a group, and what goes with it.

    Args:
        runs: at the same epoch and step. A resumed run gets its old row among as many, so that
            results are bit-identical to a training that was never stopped.
        manual_backward, processes, log: see `Learner`.

    Raises:
        ValueError: their checkpoints are of different groups.
    """
    # A run that several processes share has one row, whatever group it began in.
    rows = rows_of_group(runs) if processes is None else list(runs)
    learner = Learner(rows, manual_backward=manual_backward, processes=processes, log=log)
    return TrainState(learner.params, learner.optimizer, rows), learner
