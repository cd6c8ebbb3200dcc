"""The training loop, for one run or for many side by side."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from seqattn.config import Training
from seqattn.errors import DataError, DistributedError, NonFiniteError, UsageError
from seqattn.models import Seq2SeqModel
from seqattn.rng import streams
from seqattn.runs import EpochRecord
from seqattn.storage import write_transaction
from seqattn.training.batch_key import batch_key
from seqattn.training.batches import Batch, GatheredBatch, together
from seqattn.training.checkpoints import Slot, TrainState
from seqattn.training.feeds import Feed
from seqattn.training.film import Frame, frames, probe_batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, stacked
from seqattn.training.optimizers import Optimizer
from seqattn.training.process_group import ProcessGroup
from seqattn.training.schedules import (
    early_stopping,
    learning_rates,
    sample_teacher_forcing,
    teacher_forcing_probability,
)
from seqattn.training.stacked_params import cache_module_attributes
from seqattn.training.step_rng import StepRNG
from seqattn.training.validation import validate

MOST_NAMED = 8  # sequences of a batch that an error names


@dataclass
class Run:
    """One training among those that go side by side.

    Attributes:
        model: initialised, on its device. Its weights are not touched where there are several runs.
        data: the training sequences.
        validation: what chooses the best epoch.
        seed: of batch order and coins.
        state: where to go on; None starts.
        ids: names of the training sequences, for errors.
        film: where it looked at some epochs, if that is to be recorded.
        on_epoch: told of each finished epoch.
        save: given the state every `checkpoint_seconds`, at the end, on a stop, and before a step
            or a validation that is not finite.
        on_error: told of `error` at once, with the state where it was found.
        group: a digest of the runs that begin together, for their states.
        finished: False where it was told to stop before its end.
        early: True where early stopping ended it.
        error: a loss, gradient or update that is not finite; the others go on.
    """

    model: Seq2SeqModel
    data: Batch | GatheredBatch
    validation: Batch | GatheredBatch
    config: Training
    seed: int
    state: TrainState | None = None
    ids: Sequence[str] = ()
    on_epoch: Callable[[EpochRecord], None] = lambda record: None
    save: Callable[[TrainState], None] = lambda state: None
    on_error: Callable[[NonFiniteError, TrainState], None] = lambda error, state: None
    group: str = ""
    film: list[Frame] = field(default_factory=list)
    finished: bool = False
    early: bool = False
    error: NonFiniteError | None = None
    # What the loop keeps for it, and a state says.
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    loss_sum: float = 0.0
    points: int = 0

    @property
    def validation_losses(self) -> list[float]:
        return [record.validation_loss for record in self.history]

    @property
    def best_loss(self) -> float:
        return self.history[self.best_epoch - 1].validation_loss if self.best_epoch else math.inf


def train(
    runs: Sequence[Run],
    *,
    stop: Callable[[], bool] = lambda: False,
    by_hand: bool = True,
    say: Callable[[str], None] = lambda line: None,
    world: ProcessGroup | None = None,
) -> None:
    """Train models of one shape side by side, from the beginning or all from one position.

    Each run gets what it would get alone: its own weights, order of batches, coins, learning rate,
    early stopping and best epoch. Its `state`, `finished`, `early` and `error` say how it ended.

    Args:
        runs: of one `batch_key` and one `model` section, and at the same epoch and step. Runs that
            are resumed get the rows that they had, and rows of runs that have ended since stay, so
            that the last bits are those of a training that was never stopped.
        stop: asked after every step; True saves and returns.
        by_hand: False leaves all gradients to autograd.
        say: told once who works out the gradients.
        world: the processes that share every batch of one run; None: this one alone.

    Raises:
        DistributedError: one of them is lost; the state before is saved.
    """
    if world is not None and len(runs) > 1:
        raise ValueError("processes share the batches of one run")
    positions = {run.state.position if run.state else (0, 0) for run in runs}
    if len(positions) > 1:
        raise ValueError("runs that go side by side must be at the same epoch and step")
    if len({_batch_key(run) for run in runs}) > 1:
        raise ValueError("runs that go side by side must have the same batch_key")
    active = list(runs)
    said: list[str] = []

    def tell(name: str) -> None:
        if name not in said:
            said.append(name)
            say(name)

    while active:
        group = Group(active, by_hand=by_hand, world=world)
        with cache_module_attributes(group.stack.model):
            active = group.train(stop, tell)


def _batch_key(run: Run) -> str:
    return batch_key(run.model.points, run.config, [run.data.shape, run.validation.shape])


class Group:
    """Runs that share every operation, until too few of them are left.

    Which rows there are is a function of the runs that began together and of when each ended: a row
    stays when its run ends, and once half of them or more have ended by the start of an epoch, only
    those that go on have one. Of the others' rows nothing reaches a run that goes on.
    """

    def __init__(
        self, runs: Sequence[Run], *, by_hand: bool, world: ProcessGroup | None = None
    ) -> None:
        self.world = world
        runs, self.active = in_rows(runs) if world is None else (list(runs), [True])
        self.runs, self.R = runs, len(runs)
        self.config = runs[0].config  # for what is not in PER_RUN
        self.feed = Feed([run.data for run in runs], self.config.batch_size, world)
        self.stack, self.objective = stacked(
            [run.model for run in runs],
            by_hand=by_hand and self.config.compile != "on",
            pairs=self.R * min(self.config.batch_size, self.feed.n) * self.feed.S * self.feed.T,
            bfloat16=self.config.precision == "bfloat16",
        )
        weights = self.stack.weights
        self.optimizer = Optimizer(self.config, weights, self.stack.gradient, self.stack.frozen)
        self.best = weights.clone()
        limits = [run.config.clip_norm or math.inf for run in runs]
        self.clips = any(math.isfinite(limit) for limit in limits)
        self.longest = torch.tensor(limits, dtype=weights.dtype, device=weights.device)
        some = self.clips and not all(math.isfinite(limit) for limit in limits)
        self.unlimited = self.longest.isinf() if some else None
        self.validation = together([run.validation for run in runs])
        self.batches = self.feed.batches
        self.seeds = [run.seed for run in runs]
        films = self.config.record_attention is not None
        self.probe = probe_batch(self.validation) if films else None
        self.rates, self.teacher_forcing_probs = [0.0] * self.R, [0.0] * self.R
        self.weighed: float | None = None  # an epoch's seconds before a compile; 0 once decided
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.bad: list[tuple[float, float, float]] | None = None
        for k, run in self.active_rows():
            if run.state is not None:
                self.take_in(k, run.state)

    def train(self, stop: Callable[[], bool], say: Callable[[str], None]) -> list[Run]:
        """Until all have ended; or until half of many have: then those to go on with."""
        if self.config.compile == "on":
            self.compile()
        say(self.objective.name)
        patience = [early_stopping(run.config, run.validation_losses) for run in self.runs]
        learning_rate = [learning_rates(run.config, run.validation_losses) for run in self.runs]
        loss_before: list[float | None] = [None] * self.R
        for k, run in self.active_rows():
            if patience[k].should_stop or self.epoch >= run.config.epochs:
                self.end(k, early=patience[k].should_stop)
        saved_at = time.monotonic()
        if all(run.state is None for run in self.runs):
            self.record()

        while any(self.active):
            if self.step == 0 and sum(self.active) <= self.R // 2:
                return self.compact()
            epoch, began = self.epoch, time.perf_counter() - self.seconds
            for k, _ in self.active_rows():
                self.rates[k] = learning_rate[k](loss_before[k])
            self.start_epoch()
            mark, seen = self.mark(), list[Tensor]()

            while self.step < len(self.batches):
                due = time.monotonic() - saved_at >= self.config.checkpoint_seconds
                try:
                    losses = self.train_step()
                    assert losses is not None
                    seen.append(losses)
                    told_to_stop = stop()
                    if self.world is not None:
                        told_to_stop, due = self.world.agree(told_to_stop, due)
                except (DistributedError, DataError):
                    self.save_last_good_state(mark, seen, began)
                    raise
                last = self.step == len(self.batches)
                if not (last or told_to_stop or due):
                    continue
                if not self.commit_if_finite(mark, seen):
                    # Back to where all was well, and forward to just before the step that was not.
                    self.go_back(mark)
                    told_to_stop = due = False
                    seen = self.replay_until_non_finite(len(seen))
                    self.commit_if_finite(mark, seen)
                    if self.bad is not None:
                        self.refuse(self.bad)
                    if not any(self.active):
                        return []
                    self.start_epoch()
                    last = self.step == len(self.batches)
                self.seconds = time.perf_counter() - began
                if told_to_stop or (due and not last):  # else it can wait for the epoch's end
                    self.save_all()
                    saved_at = time.monotonic()
                if told_to_stop:
                    return []
                if not last:
                    mark, seen = self.mark(), []

            try:
                free, forced = validate(
                    self.objective, self.validation, self.config.batch_size, self.world
                )
            except DistributedError:
                self.save_last_good_state(mark, [], began)
                raise
            share = (time.perf_counter() - began) / sum(self.active)
            improved = []
            for k, run in self.active_rows():
                if not math.isfinite(free[k] + forced[k]):
                    self.fail_validation(k, free[k] + forced[k])
                    continue
                if free[k] < run.best_loss:
                    improved.append(k)
                    run.best_epoch = epoch + 1
                run.history.append(
                    EpochRecord(
                        epoch=epoch + 1,
                        train_loss=run.loss_sum / run.points,
                        validation_loss=free[k],
                        validation_loss_teacher_forced=forced[k],
                        learning_rate=self.rates[k],
                        teacher_forcing=self.teacher_forcing_probs[k],
                        seconds=share,
                    )
                )
                run.loss_sum, run.points = 0.0, 0
                loss_before[k] = free[k]
            if len(improved) == self.R:
                self.best.copy_(self.stack.weights)
            elif improved:
                self.best[improved] = self.stack.weights[improved]
            self.epoch, self.step, self.seconds = epoch + 1, 0, 0.0
            self.record()
            if self.config.compile == "auto":
                self.maybe_compile(time.perf_counter() - began, say)
            with write_transaction():
                for k, run in self.active_rows():
                    run.on_epoch(run.history[-1])
                    early = patience[k].epochs_without_improvement(free[k])
                    if early or self.epoch == run.config.epochs:
                        self.end(k, early=early)
                if time.monotonic() - saved_at >= self.config.checkpoint_seconds:
                    self.save_all()
                    saved_at = time.monotonic()
        return []

    def record(self) -> None:
        """Add a frame to the films, where one is due."""
        every = self.config.record_attention
        if self.probe is None or every is None or self.epoch % every:
            return
        found = frames(self.stack.model, self.probe, self.epoch)
        for k, run in self.active_rows() if found else ():
            run.film.append(found[k])

    # --- a step ---------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile one step, where it is autograd that goes through it."""
        if isinstance(self.objective, AutogradLoss):
            self.objective.compile(self.feed.first())

    def maybe_compile(self, taken: float, say: Callable[[str], None]) -> None:
        """Compile once the epochs left would take longer than that, by the last one's time; take
        it back where the next is no faster."""
        if not isinstance(self.objective, AutogradLoss):
            return
        if self.weighed is None:
            left = max((run.config.epochs for _, run in self.active_rows()), default=0) - self.epoch
            if left * taken > COMPILE_SECONDS:
                try:
                    self.compile()
                except UsageError as error:
                    self.weighed = 0.0
                    say(f"{self.objective.name}: {error}")
                else:
                    self.weighed = taken
                    say(self.objective.name)
        elif self.weighed > 0:
            if taken > self.weighed:
                self.objective.disable_compile()
                say(f"{self.objective.name}; compilation disabled (no speed-up)")
            self.weighed = 0.0

    def stand_ins(self) -> list[int]:
        """For each row the one whose rate, coins and order it has: itself, or, where its run has
        ended, the first whose run goes on. Kernels are chosen by all rows' rates and coins."""
        first = self.active.index(True)
        return [k if active else first for k, active in enumerate(self.active)]

    def start_epoch(self) -> None:
        """Each run's chance of teacher forcing, coins and order, functions of seed and epoch."""
        epoch, T = self.epoch, self.feed.T
        rows = self.stand_ins()
        runs = [self.runs[k] for k in rows]
        self.rates = [self.rates[k] for k in rows]
        self.teacher_forcing_probs = [
            teacher_forcing_probability(run.config.teacher_forcing, epoch, run.config.epochs)
            for run in runs
        ]
        numbers = streams(((run.seed, epoch) for run in runs), "coins")
        tosses = [
            sample_teacher_forcing(run.config.teacher_forcing, chance, coins,
                 sequences=self.feed.n, batches=len(self.batches), steps=T)
            for run, chance, coins in zip(runs, self.teacher_forcing_probs, numbers, strict=True)
        ]  # fmt: skip
        coins = torch.from_numpy(tosses[0] if self.R == 1 else np.stack(tosses))
        if self.config.teacher_forcing.coin == "step":
            # One toss for the batch: (T,), or for several runs (R, 1, T).
            self.coins = list(coins.squeeze(-2).unbind(0) if self.R == 1 else coins.unbind(1))
        else:
            self.coins = [coins[..., places, :] for places in self.batches]
        self.feed.open([run.seed for run in runs], epoch)

    def train_step(self, look: bool = False) -> Tensor | None:
        """Fetch, forward, loss, backward, clip, step. Nothing waits for a device.

        Args:
            look: wait for the loss and the gradient's norm, and step only where both are finite in
                every run that goes on; else they are left in `bad`.

        Returns:
            the losses, (R,) or (); None where `look` found one or a norm that is not finite.
        """
        batch, n, rows = self.feed.fetch(self.step)
        coins, part, share = self.coins[self.step], None, 1
        if self.world is not None:
            part = n, rows
            coins = coins if coins.dim() == 1 else coins[..., rows, :]
            (share,) = batch.points if len(batch) else (0,)
        draws = StepRNG(self.seeds, self.epoch, self.step, self.stack.weights, part)
        gradient = self.stack.gradient
        if share:
            seen = self.objective.value_and_grad(batch, coins, draws)
        else:  # fewer sequences than processes
            gradient.zero_()
            seen = self.stack.weights.new_zeros(())
        if self.world is not None:
            self.world.all_reduce(gradient.mul_(share))
            seen, points = self.world.all_reduce(
                torch.stack([seen * share, seen.new_tensor(share)])
            )
            gradient.div_(points.clamp(min=1))
            seen = seen / points.clamp(min=1)
            self.feed.count(self.step, points)
        if self.clips or look:
            norms = torch.linalg.vector_norm(gradient, dim=1)
            if look:
                losses = seen.expand(self.R).tolist()
                found = [(*pair, 0.0) for pair in zip(losses, norms.tolist(), strict=True)]
                if not all(math.isfinite(x) for row in itertools.compress(found, self.active)
                           for x in row):  # fmt: skip
                    self.bad = found
                    return None
        if self.clips:
            # A norm that is not finite must not make a gradient of zeros: inf * 0 is NaN, and seen.
            shares = (self.longest / (norms + 1e-6) + norms * 0).clamp(max=1)
            if self.unlimited is not None:
                shares.masked_fill_(self.unlimited, 1)
            gradient.mul_(shares.unsqueeze(1))
        self.optimizer.step(self.rates)
        self.step += 1
        return seen

    def replay_until_non_finite(self, steps: int) -> list[Tensor]:
        """Steps again, looking at each, as many as are well."""
        self.bad, seen = None, list[Tensor]()
        for _ in range(steps):
            before = self.mark()
            losses = self.train_step(look=True)
            if losses is None:
                break
            finite = self.finite()
            if not all(itertools.compress(finite, self.active)):
                self.go_back(before)
                self.bad = [(0.0, 0.0, 0.0 if fine else math.nan) for fine in finite]
                break
            seen.append(losses)
        return seen

    def finite(self) -> list[bool]:
        """Whether each run's weights, and what the optimizer keeps of its gradients, are."""
        zeros = self.stack.weights * 0  # but NaN where something is not finite
        for rows in self.optimizer.buffers.values():
            zeros.add_(rows, alpha=0)
        found: list[bool] = zeros.sum(dim=1).isfinite().tolist()
        return found

    def commit_if_finite(self, mark: Mark, seen: Sequence[Tensor]) -> bool:
        """Add up the losses since a mark. If one of them, or a weight or an average of gradients
        by now, is not finite: False, and nothing is added."""
        if not seen:
            return True
        values = torch.stack(list(seen)).view(len(seen), self.R).double().cpu().numpy()
        if not np.isfinite(values[:, self.active]).all():
            return False
        if not all(itertools.compress(self.finite(), self.active)):
            return False
        points = np.array([self.feed.points(mark.step + i) for i in range(len(seen))])
        added = np.vstack([[run.loss_sum for run in self.runs], values * points])
        # One after the other, so that a pause in between changes no rounding.
        sums, counts = np.add.accumulate(added)[-1].tolist(), points.sum(axis=0).tolist()
        for run, total, n in zip(self.runs, sums, counts, strict=True):
            run.loss_sum = total
            run.points += n
        return True

    # --- positions --------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """All that a step changes, to go back to."""
        kept = [self.stack.weights, self.optimizer.updates, *self.optimizer.buffers.values()]
        return Mark(self.step, [tensor.clone() for tensor in kept])

    def go_back(self, mark: Mark) -> None:
        kept = [self.stack.weights, self.optimizer.updates, *self.optimizer.buffers.values()]
        for tensor, before in zip(kept, mark.tensors, strict=True):
            tensor.copy_(before)
        self.step = mark.step

    def take_in(self, k: int, state: TrainState) -> None:
        """Go on from a state."""
        run, stack, optimizer = self.runs[k], self.stack, self.optimizer
        stack.set_row(stack.weights, k, state.weights)
        stack.set_row(self.best, k, state.best_weights or state.weights)
        if state.buffers:
            for name, rows in optimizer.buffers.items():
                stack.set_row(rows, k, {key: kept[name] for key, kept in state.buffers.items()})
            counted = next(iter(state.buffers.values())).get("step")
            if counted is not None:
                optimizer.updates.copy_(counted)
            optimizer.started = True
        self.epoch, self.step, self.seconds = state.epoch, state.step, state.seconds
        run.history, run.best_epoch = list(state.history), state.best_epoch
        run.loss_sum, run.points = state.loss_sum, state.points

    def state_of(self, k: int) -> TrainState:
        """Where run k stands, as if it were alone."""
        run, stack, optimizer = self.runs[k], self.stack, self.optimizer
        kept = {name: stack.of_run(rows, k) for name, rows in optimizer.buffers.items()}
        count = {} if self.config.optimizer == "sgd" else {"step": optimizer.updates.cpu().clone()}
        buffers = {
            key: {name: of_run[key] for name, of_run in kept.items()} | count
            for key in (stack.shapes if kept and optimizer.started else ())
        }
        weights = stack.of_run(stack.weights, k)
        is_best = (run.best_epoch, 0) == (self.epoch, self.step)  # then one copy serves as both
        best = weights if is_best else stack.of_run(self.best, k)
        return TrainState(
            weights=weights,
            buffers=buffers,
            epoch=self.epoch,
            step=self.step,
            loss_sum=run.loss_sum,
            points=run.points,
            seconds=self.seconds,
            history=run.history,
            best_epoch=run.best_epoch,
            best_weights=best if run.best_epoch else {},
            slot=Slot(run.group, k, self.R),
        )

    def save_last_good_state(self, mark: Mark, seen: Sequence[Tensor], began: float) -> None:
        """Save the last step that all processes made."""
        if self.commit_if_finite(mark, seen):
            self.seconds = time.perf_counter() - began
            self.save_all()

    # --- ends -------------------------------------------------------------------------------------

    def active_rows(self) -> list[tuple[int, Run]]:
        return [(k, run) for k, run in enumerate(self.runs) if self.active[k]]

    def save_all(self) -> None:
        with write_transaction():
            for k, run in self.active_rows():
                run.state = self.state_of(k)
                run.save(run.state)

    def end(self, k: int, *, early: bool) -> None:
        run = self.runs[k]
        ended_before = run.state is not None and run.state.epoch == self.epoch
        run.finished, run.early, run.state = True, early, self.state_of(k)
        if not (early and ended_before):
            run.save(run.state)
        self.active[k] = False

    def refuse(self, found: Sequence[tuple[float, float, float]]) -> None:
        """End the runs of whose step something is not finite, as they were before it.

        Args:
            found: loss, gradient's norm, and NaN for an update that is not finite, of each run.
        """
        named = ("training loss", "gradient's norm", "update of the weights")
        for k, _ in self.active_rows():
            for value, what in zip(found[k], named, strict=True):
                if not math.isfinite(value):
                    self.mark_diverged(k, value, what)
                    break

    def mark_diverged(self, k: int, value: float, what: str) -> None:
        run = self.runs[k]
        ids = self.feed.names(self.step, run.seed, self.epoch, run.ids)
        batch = f"{len(ids)} training sequences: {', '.join(ids[:MOST_NAMED])}"
        more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        self.fail(
            k,
            self.step + 1,
            f"The {what} is {value} in epoch {self.epoch + 1}, step {self.step + 1}, at learning"
            f" rate {self.rates[k]:g}, in a batch of {batch}{more}. No update was made with it, and"
            " the newest checkpoint is from before it.",
        )

    def fail_validation(self, k: int, value: float) -> None:
        self.fail(
            k,
            None,
            f"The validation loss is {value} after epoch {self.epoch + 1}, at learning rate"
            f" {self.rates[k]:g}. The epoch's losses and gradients were finite, and all its updates"
            " were made; the newest checkpoint is from before this validation.",
        )

    def fail(self, k: int, step: int | None, words: str) -> None:
        """Save a run, and end it with an error that says how to go on."""
        run = self.runs[k]
        run.state = self.state_of(k)
        run.save(run.state)
        run.error = NonFiniteError(
            f"{words} Try a lower training.learning_rate, set training.clip_norm, or data.scaling"
            " for data of your own.",
            self.epoch + 1,
            step,
        )
        run.on_error(run.error, run.state)
        self.active[k] = False

    def compact(self) -> list[Run]:
        left = self.active_rows()
        for row, (k, run) in enumerate(left):
            run.state = replace(self.state_of(k), slot=Slot(run.group, row, len(left)))
        return [run for _, run in left]


def in_rows(runs: Sequence[Run]) -> tuple[list[Run], list[bool]]:
    """A run for each row of a group, and whether it goes on.

    Runs that begin, or whose states do not say which row they had, get one each in their order. A
    row that nobody has any more gets a copy of the first run, which does not go on.

    Raises:
        ValueError: their states are of different groups.
    """
    slots = [None if run.state is None else run.state.slot for run in runs]
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(runs):
        return list(runs), [True] * len(runs)
    of_row = {slot.row: run for slot, run in zip(known, runs, strict=True)}
    if len(of_row) < len(runs) or len({(slot.group, slot.rows) for slot in known}) > 1:
        raise ValueError("runs that go side by side must have rows of one group, each its own")
    first = runs[0]
    empty = Run(first.model, first.data, first.validation, first.config, first.seed)
    rows = range(known[0].rows)
    return [of_row.get(k, empty) for k in rows], [k in of_row for k in rows]


@dataclass(frozen=True)
class Mark:
    """A position inside an epoch.

    Attributes:
        step: steps finished in the epoch.
        tensors: weights, count of updates and buffers.
    """

    step: int
    tensors: list[Tensor]
