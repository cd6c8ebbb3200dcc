"""The learner of a group: model, loss, optimizer, data loader and schedules, and what it plans and
draws for an epoch and a step.

After a resume, the learner is rebuilt from the configs and histories of its runs. The weights and
moments belong to `TrainState`; `Learner.params` and `Learner.optimizer` contain the same tensors.

In shapes, n is the number of sequences in a batch, T is the target length, R is the number of runs,
and P is the number of parameter values of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from seqattn.config import Training, as_plain
from seqattn.errors import PluginError
from seqattn.models import FeatureSpec
from seqattn.rng import rngs_for
from seqattn.training.acceleration import GraphedLoss, StepCompiler, uses_graphs
from seqattn.training.batches import Batch, BatchShape, DataLoader, stack_batches
from seqattn.training.histories import attention_snapshots, probe_batch, record_parameters
from seqattn.training.objective import build_loss
from seqattn.training.optimization import (
    GradientClipping,
    LearningRate,
    Optimizer,
    build_early_stopper,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.process_group import ProcessGroup, Shard
from seqattn.training.state import RunProgress, StepLoss, TrainState

PER_RUN = frozenset({
    "epochs", "learning_rate", "learning_rate_schedule", "clip_norm", "early_stopping",
    "teacher_forcing",
})  # fmt: skip
"""Keys of the section `training` that the loop reads from the config of each run.

All runs must still have the same `teacher_forcing.coin`, which determines the shape of the
teacher-forcing masks.
"""
STEP_BITS, CALL_BITS = 32, 10


def batch_key(features: FeatureSpec, config: Training, parts: Sequence[BatchShape]) -> str:
    """Return a text that must be equal for two runs that are trained side by side.

    The runs must also have equal `model` sections.

    Args:
        features: source and target features of the model. Together with the `model` section and
            the lengths, the features determine everything about a model except its weights.
    """
    shared = {key: value for key, value in as_plain(config).items() if key not in PER_RUN}
    return repr((features, shared, config.teacher_forcing.coin, *parts))


class StepRNG:
    """The implementation of `seqattn.models.RNG` for a training step.

    The numbers of a call depend only on seed, purpose, epoch, step and call number. A run therefore
    draws the same numbers whether it is trained alone, in a group, or after a resume within an
    epoch.

    Args:
        seeds: seed of each run. Several seeds add a leading axis of runs to the numbers.
        epoch: number of finished epochs.
        step: number of finished steps in the current epoch.
        like: tensor that has the type and device of the numbers.
        shard: this process's share of the batch; None for the whole batch.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        epoch: int,
        step: int,
        like: Tensor,
        shard: Shard | None = None,
    ) -> None:
        self.seeds, self.epoch, self.step, self.like = seeds, epoch, step, like
        self.shard = shard
        self.calls = dict[str, int]()

    def uniform(self, name: Literal["sampling", "dropout", "feedback"], *shape: int) -> Tensor:
        """Draw uniform random numbers in [0, 1].

        The generator draws float64 numbers from [0, 1). If the type of `like` is less precise, a
        number may be rounded to 1.0.

        Args:
            name: purpose of the numbers.
            shape: shape of the numbers of a run. The first axis is the axis of sequences.

        Raises:
            PluginError: if the model draws more than 1,024 times in a step for the same purpose.
        """
        call = self.calls.get(name, 0)
        if call >= 1 << CALL_BITS:
            raise PluginError(
                f"the model draws random numbers for {name!r} more than {1 << CALL_BITS:,} times in"
                " a step. Draw the numbers of all decoder steps with one call."
            )
        self.calls[name] = call + 1
        counter = self.epoch << (STEP_BITS + CALL_BITS) | self.step << CALL_BITS | call
        keys = ((seed, counter) for seed in self.seeds)
        if self.shard is not None:
            shape = (self.shard.n, *shape[1:])
        drawn = [generator.random_sample(shape) for generator in rngs_for(keys, name)]
        if self.shard is not None:
            drawn = [numbers[self.shard.places] for numbers in drawn]
        array = drawn[0] if len(drawn) == 1 else np.stack(drawn)
        return torch.from_numpy(array).to(self.like, non_blocking=True)


@dataclass(frozen=True)
class EpochPlan:
    """The batches and settings of an epoch for all runs of a group.

    Attributes:
        fetch: function that takes the number of a step, and returns this process's share of the
            batch of this step.
        shards: for each batch, the share of this process.
        teacher_forcing: a mask for each batch, which is True at the steps that receive the true
            target. Its shape is (T,), (n, 1) or (n, T), depending on
            `training.teacher_forcing.coin`; see `sample_teacher_forcing`. For several runs, the
            shape is (R, 1, T), (R, n, 1) or (R, n, T).
        probabilities: for each run, the probability that a step receives the true target.
        learning_rates: learning rate of each run.
    """

    fetch: Callable[[int], Batch]
    shards: list[Shard]
    teacher_forcing: list[Tensor]
    probabilities: list[float]
    learning_rates: list[float]

    def __len__(self) -> int:
        return len(self.teacher_forcing)


class Learner:
    """The model, loss, optimizer, data loader and schedules of a group.

    Attributes:
        config: section `training` of the first run. The learner reads from it only keys that all
            runs share; `PER_RUN` lists the other keys.
        processes: the processes that share every batch of a single run; None if this process is
            alone.
        params: (R, P) weights of all runs and their gradient.
        loss_fn: the object that computes the loss and its gradient.
        right_texts: the right texts of the validation part of each run; empty if no BLEU is
            measured.
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
        self.loader = DataLoader.of_config(self.config, [run.train for run in runs], processes)
        for run in runs:
            run.model.target_modality.configure(self.config)
        self.params, self.loss_fn = build_loss(
            [run.model for run in runs],
            manual_backward=manual_backward and self.config.compile != "on",
            source_steps=self.loader.S,
            pairs=len(runs) * min(self.loader.size, self.loader.n) * self.loader.S * self.loader.T,
            bfloat16=self.config.precision == "bfloat16",
            coverage_loss=self.config.coverage_loss,
        )
        weights, gradient = self.params.weights, self.params.gradient
        if weights.is_cuda and uses_graphs(self.config, self.params.model):
            self.loss_fn = GraphedLoss(self.loss_fn)
        self.optimizer = Optimizer(self.config, weights, gradient, self.params.frozen)
        self.clipping = GradientClipping([run.config.clip_norm for run in runs], gradient)
        self.compiler = compiler or StepCompiler()
        self.validation = stack_batches([run.validation for run in runs])
        self.right_texts = [run.right_texts for run in runs if run.right_texts is not None]
        monitor = self.config.monitor
        self.rate_schedules = [
            LearningRate(each.run.config, each.monitored_values(monitor)) for each in progress
        ]
        self.early_stoppers = [
            build_early_stopper(each.run.config, each.monitored_values(monitor))
            for each in progress
        ]

    def plan_epoch(self, state: TrainState) -> EpochPlan:
        """Build the plan of the current epoch of a state. The plan depends only on the configs,
        seeds, validation losses and the epoch.

        The row of a run that has ended receives the learning rate, teacher forcing and order of the
        first active run, so that the choice of kernels depends only on active runs.
        """
        first, epoch, loader = state.active_rows[0], state.epoch, self.loader
        batches = loader.batches(epoch)
        rows = [k if each.ending is None else first for k, each in enumerate(state.progress)]
        runs = [state.progress[k].run for k in rows]
        learning_rates = [self.rate_schedules[k].value for k in rows]
        probabilities = [
            teacher_forcing_probability(run.config.teacher_forcing, epoch, run.config.epochs)
            for run in runs
        ]
        generators = rngs_for(((run.seed, epoch) for run in runs), "coins")
        samples = [
            sample_teacher_forcing(
                run.config.teacher_forcing, probability, generator, sequences=loader.n,
                batches=len(batches), steps=loader.T,
            )
            for run, probability, generator in zip(runs, probabilities, generators, strict=True)
        ]  # fmt: skip
        is_single = len(runs) == 1
        masks = torch.from_numpy(samples[0] if is_single else np.stack(samples))
        if runs[0].config.teacher_forcing.coin == "step":
            # All sequences of a batch share a sample: (T,), or (R, 1, T) for several runs.
            teacher_forcing = list(masks.squeeze(-2).unbind(0) if is_single else masks.unbind(1))
        else:
            teacher_forcing = [masks[..., batch.own_places, :] for batch in batches]
        fetch = loader.shuffled([run.seed for run in runs], epoch)
        shards = [batch.shard for batch in batches]
        return EpochPlan(fetch, shards, teacher_forcing, probabilities, learning_rates)

    def compute_gradient(self, state: TrainState, plan: EpochPlan) -> StepLoss:
        """Compute the loss of the next batch, and write its gradient to `params.gradient`."""
        step, weights = state.step, self.params.weights
        batch = plan.fetch(step)
        teacher_forcing = plan.teacher_forcing[step][..., : batch.target_steps]
        seeds = [each.run.seed for each in state.progress]
        rng = StepRNG(seeds, state.epoch, step, weights, plan.shards[step])
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
