"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from seqattn.config import Training
from seqattn.errors import NotFiniteError
from seqattn.models import SequenceModel
from seqattn.runs import EpochRecord
from seqattn.training.batches import Batch, shuffled, slices
from seqattn.training.checkpoints import TrainingState
from seqattn.training.optimizers import build_optimizer, stepper
from seqattn.training.schedules import (
    Patience,
    learning_rates,
    teacher_forcing_probability,
    toss,
)

VALIDATION_CHUNK = 512  # a chunk that stays in the cache beats one pass over everything


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        finished: False where it was told to stop before its end.
        early: True where early stopping ended it.
    """

    finished: bool
    early: bool = False


def train(
    model: SequenceModel,
    data: Batch,
    validation: Batch,
    config: Training,
    *,
    seed: int,
    state: TrainingState | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    save: Callable[[TrainingState], None] = lambda state: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[TrainingState, Outcome]:
    """Train a model, from the beginning or from a state.

    Args:
        model: moved and initialised; trained in place.
        data: the training sequences.
        validation: what chooses the best epoch.
        seed: of batch order and coins.
        state: where to go on; None starts.
        on_epoch: told of each finished epoch.
        save: given the state every `checkpoint_seconds`, at the end, on a stop, and before a loss
            that is not finite is refused.
        stop: asked after every step; True saves and returns.

    Returns:
        the last state (`state.best_weights` are those of the best epoch) and how it ended.

    Raises:
        NotFiniteError: a loss is NaN or infinite. Nothing was updated by it.
    """
    if state is None:
        state = TrainingState(model=model, optimizer=build_optimizer(model, config))
    optimizer, parameters = state.optimizer, list(model.parameters())
    step = stepper(optimizer)
    losses_so_far = [record.validation_loss for record in state.history]
    learning_rate = learning_rates(config, losses_so_far)
    patience = None
    if config.early_stopping is not None:
        patience = Patience(config.early_stopping.patience, config.early_stopping.min_delta)
        if any([patience.lost_after(loss) for loss in losses_so_far]):  # noqa: C419  (take in all)
            return state, Outcome(finished=True, early=True)
    early, loss_before = False, None
    saved_at = time.monotonic()

    while state.epoch < config.epochs and not early:
        epoch, epoch_began = state.epoch, time.perf_counter() - state.seconds
        rate = learning_rate(loss_before)
        for group in optimizer.param_groups:
            group["lr"] = rate
        probability = teacher_forcing_probability(config.teacher_forcing, epoch, config.epochs)
        batches = math.ceil(len(data) / config.batch_size)
        coins = torch.from_numpy(
            toss(config.teacher_forcing, probability, seed=seed, epoch=epoch,
                 sequences=len(data), batches=batches, steps=data.target.shape[-2])
        )  # fmt: skip
        in_order = shuffled(data, seed, epoch)

        for places in slices(len(data), config.batch_size, first=state.step):
            batch = in_order.take(places)
            told = coins[state.step] if config.teacher_forcing.coin == "step" else coins[places]
            forecast = model(
                batch.source,
                batch.target,
                source_lengths=batch.source_lengths,
                teacher_forcing=told,
                with_attention=False,
            )
            loss = mean_squared_error(forecast.values, batch.target, batch.target_keep)
            loss_value = loss.item()
            if not math.isfinite(loss_value):
                save(state)
                raise _not_finite(loss_value, "training loss", epoch, state.step, rate)
            for parameter in parameters:
                parameter.grad = None
            torch.autograd.backward(loss)
            if config.clip_norm is not None:
                norm = torch.nn.utils.clip_grad_norm_(parameters, config.clip_norm).item()
                if not math.isfinite(norm):
                    save(state)
                    raise _not_finite(norm, "gradient's norm", epoch, state.step, rate)
            step()

            state.step += 1
            state.loss_sum += loss_value * batch.points
            state.points += batch.points
            if stop():
                state.seconds = time.perf_counter() - epoch_began
                save(state)
                return state, Outcome(finished=False)
            if time.monotonic() - saved_at >= config.checkpoint_seconds:
                state.seconds = time.perf_counter() - epoch_began
                save(state)
                saved_at = time.monotonic()

        free, forced = validate(model, validation)
        if not math.isfinite(free + forced):
            raise _not_finite(free + forced, "validation loss", epoch, batches - 1, rate)
        record = EpochRecord(
            epoch=epoch + 1,
            train_loss=state.loss_sum / state.points,
            validation_loss=free,
            validation_loss_teacher_forced=forced,
            learning_rate=rate,
            teacher_forcing=probability,
            seconds=time.perf_counter() - epoch_began,
        )
        state.finish_epoch(record)
        on_epoch(record)
        loss_before = free
        early = patience is not None and patience.lost_after(free)
    save(state)
    return state, Outcome(finished=True, early=early)


def mean_squared_error(values: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
    """Mean over real target points and features; leading axes of runs stay.

    Args:
        values, target: (..., N, T, F).
        keep: (..., N, T), True at real target points; None: all.

    Returns:
        (...), a number for each run.
    """
    if keep is None and values.dim() == 3:
        return F.mse_loss(values, target)  # one operation instead of three
    squared = (values - target).square()
    if keep is None:
        return squared.mean(dim=(-3, -2, -1))
    real = keep.unsqueeze(-1)
    total = squared.masked_fill(~real, 0).sum(dim=(-3, -2, -1))
    return total / (keep.sum(dim=(-2, -1)) * target.shape[-1])


@torch.inference_mode()
def validate(model: SequenceModel, data: Batch) -> tuple[float, float]:
    """Mean squared error over a part, free running and with every step teacher-forced.

    Their gap is the exposure bias: what it costs to build on one's own mistakes.
    """
    free, forced, points = 0.0, 0.0, 0
    steps = data.target.shape[-2]
    truth = torch.ones(steps, dtype=torch.bool)
    for places in slices(len(data), VALIDATION_CHUNK):
        batch = data.take(places)
        keep, n = batch.target_keep, batch.points
        alone = model.forecast(
            batch.source, steps, source_lengths=batch.source_lengths, with_attention=False
        )
        told = model(
            batch.source, batch.target, source_lengths=batch.source_lengths,
            teacher_forcing=truth, with_attention=False,
        )  # fmt: skip
        free += mean_squared_error(alone.values, batch.target, keep).item() * n
        forced += mean_squared_error(told.values, batch.target, keep).item() * n
        points += n
    return free / points, forced / points


def _not_finite(value: float, what: str, epoch: int, step: int, rate: float) -> NotFiniteError:
    return NotFiniteError(
        f"The {what} is {value} in epoch {epoch + 1}, step {step + 1}, at learning rate {rate:g}."
        " No update was made with it. Try a lower training.learning_rate, or set"
        " training.clip_norm."
    )
