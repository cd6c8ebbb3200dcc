"""What a trained model does on its own: free-running forecasts, their errors beside the
baselines, and where it looked.

Letters: N sequences, T steps, F features, A heads, S source length.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.data import Rule, Sequences
from seqattn.data.baselines import (
    LEAST_SQUARES,
    errors_by_step,
    least_squares,
    losses,
    mean_squared_error,
    noise_floor,
)
from seqattn.models import SequenceModel
from seqattn.runs import attention_arrays
from seqattn.training import to_tensors
from seqattn.training.batches import slices
from seqattn.training.loop import validate

CHUNK = 2048


@dataclass(frozen=True)
class FreeRun:
    """Forecasts made from sources alone.

    Attributes:
        values: (N, T, F).
        weights: (N, layers, A, T, S), or None for a model without attention.
        kind, meaning: what the weights are; see `AttentionMap`.
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float32] | None
    kind: str = "cross"
    meaning: str = "distribution"

    def attention_arrays(self, part: Sequences, *, steps_real: bool) -> dict[str, NDArray[Any]]:
        """The weights as a file holds them.

        Args:
            part: what was forecast.
            steps_real: steps beyond a known target's length are padding; else all T are real.
        """
        if self.weights is None:
            raise ValueError("a model without attention has no weights")
        N, T, _ = self.values.shape
        return attention_arrays(
            self.weights,
            ids=part.ids,
            source_lengths=part.source_lengths,
            target_lengths=part.target_lengths if steps_real else np.full(N, T),
            kind=self.kind,
            meaning=self.meaning,
        )


@dataclass(frozen=True)
class Evaluation:
    """A model's errors on a part with known targets, all mean squared errors.

    Attributes:
        loss: free running, over all real target points.
        loss_teacher_forced: every step fed the truth.
        loss_by_step: free running, T numbers.
        noise_floor: the error of knowing everything but the noise; None where unknown.
        baselines: parameter-free forecast -> loss.
        fitted: forecasts with fitted parameters, for comparison -> loss.
    """

    loss: float
    loss_teacher_forced: float
    loss_by_step: list[float]
    noise_floor: float | None
    baselines: dict[str, float]
    fitted: dict[str, float]

    @property
    def best_baseline(self) -> str:
        """The parameter-free baseline with the lowest loss."""
        return min(self.baselines, key=lambda name: self.baselines[name])

    @property
    def above_floor(self) -> float | None:
        """Loss less noise floor: what a better model could still gain."""
        return None if self.noise_floor is None else self.loss - self.noise_floor

    def as_plain(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "best_baseline": self.best_baseline,
            "above_floor": self.above_floor,
            "beats_best_baseline": self.loss < self.baselines[self.best_baseline],
        }


def free_run(model: SequenceModel, part: Sequences, steps: int) -> FreeRun:
    """Forecast `steps` points of every sequence, in chunks, on the model's device."""
    device = next(model.parameters()).device
    batch = to_tensors(part, device)
    values, weights = list[NDArray[np.float64]](), list[NDArray[np.float32]]()
    kind, meaning = "cross", "distribution"
    with torch.inference_mode():
        for places in slices(len(batch), CHUNK):
            chunk = batch.take(places)
            forecast = model.forecast(chunk.source, steps, source_lengths=chunk.source_lengths)
            values.append(forecast.values.double().cpu().numpy())
            if forecast.attention:
                kind, meaning = forecast.attention[0].kind, forecast.attention[0].meaning
                layers = torch.stack([layer.weights for layer in forecast.attention], dim=1)
                weights.append(layers.float().cpu().numpy())
    joined = np.concatenate(weights) if weights else None
    return FreeRun(np.concatenate(values), joined, kind, meaning)


def evaluate(
    model: SequenceModel, part: Sequences, train: Sequences, rule: tuple[str, Rule] | None
) -> tuple[Evaluation, FreeRun]:
    """Score a model on a part with known targets.

    Args:
        train: what the mean baseline and the fitted ones are taken from.
        rule: the task's own parameter-free rule, if it has one.
    """
    run = free_run(model, part, part.target.shape[1])
    _, forced = validate(model, to_tensors(part, next(model.parameters()).device))
    linear = least_squares(train, part)
    evaluation = Evaluation(
        loss=mean_squared_error(run.values, part),
        loss_teacher_forced=forced,
        loss_by_step=errors_by_step(run.values, part),
        noise_floor=noise_floor(part),
        baselines=dict(losses(train, part, rule)),
        fitted={} if linear is None else {LEAST_SQUARES: mean_squared_error(linear, part)},
    )
    return evaluation, run
