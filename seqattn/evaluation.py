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
from torch import Tensor

from seqattn.attention import Override
from seqattn.data import Rule, Sequences
from seqattn.data.baselines import (
    LEAST_SQUARES,
    errors_by_step,
    least_squares,
    losses,
    mean_squared_error,
    noise_floor,
)
from seqattn.models import MapKind, MapMeaning, SequenceModel
from seqattn.runs import attention_arrays
from seqattn.training import to_tensors
from seqattn.training.batches import slices, together
from seqattn.training.loop import validate
from seqattn.training.objective import Autograd

CHUNK = 2048
CHUNK_PAIRS = 2**22  # of points, so that long sequences are taken a few at a time


@dataclass(frozen=True)
class FreeRun:
    """Forecasts made from sources alone.

    Attributes:
        values: (N, T, F).
        maps: by kind, "cross" (N, layers, A, T, S) and whatever else the model looks at; empty for
            a model without attention. See `AttentionMap`.
        meaning: of their numbers.
    """

    values: NDArray[np.float64]
    maps: dict[MapKind, NDArray[np.float32]]
    meaning: MapMeaning = "distribution"

    def attention_arrays(self, part: Sequences, *, steps_real: bool) -> dict[str, NDArray[Any]]:
        """The weights as a file holds them.

        Args:
            part: what was forecast.
            steps_real: steps beyond a known target's length are padding; else all T are real.
        """
        if not self.maps:
            raise ValueError("a model without attention has no weights")
        N, T, _ = self.values.shape
        return attention_arrays(
            self.maps["cross"],
            ids=part.ids,
            source_lengths=part.source_lengths,
            target_lengths=part.target_lengths if steps_real else np.full(N, T),
            meaning=self.meaning,
            encoder_self=self.maps.get("encoder_self"),
            decoder_self=self.maps.get("decoder_self"),
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


@dataclass(frozen=True)
class References:
    """What a part's losses are held against; the same for every model.

    Attributes:
        noise_floor: the error of knowing everything but the noise; None where unknown.
        baselines: parameter-free forecast -> loss.
        fitted: forecasts with fitted parameters -> loss.
    """

    noise_floor: float | None
    baselines: dict[str, float]
    fitted: dict[str, float]

    @classmethod
    def of(cls, part: Sequences, train: Sequences, rule: tuple[str, Rule] | None) -> References:
        """
        Args:
            train: what the mean baseline and the fitted ones are taken from.
            rule: the task's own parameter-free rule, if it has one.
        """
        linear = least_squares(train, part)
        fitted = {} if linear is None else {LEAST_SQUARES: mean_squared_error(linear, part)}
        return cls(noise_floor(part), dict(losses(train, part, rule)), fitted)


def free_run(
    model: SequenceModel,
    part: Sequences,
    steps: int,
    override: Override | None = None,
    *,
    with_attention: bool = True,
) -> FreeRun:
    """Forecast `steps` points of every sequence, in chunks, on the model's device.

    Args:
        override: looks elsewhere than the model would; None: the model looks for itself.
        with_attention: False keeps no maps, which for long sequences are most of the memory.

    Raises:
        UsageError: an override that the model, or a sequence, has no place for.
    """
    if override is not None:
        override.check(int(part.source_lengths.min()))
    (run,) = free_runs(model, 1, part, steps, override, with_attention=with_attention)
    return run


def free_runs(
    model: SequenceModel,
    runs: int,
    part: Sequences,
    steps: int,
    override: Override | None = None,
    *,
    with_attention: bool = True,
) -> list[FreeRun]:
    """The same for `runs` models side by side, whose parameters have a leading axis."""
    batch = to_tensors(part, *_device_and_type(model))
    values = list[Tensor]()
    maps = dict[MapKind, list[Tensor]]()
    meaning: MapMeaning = "distribution"
    with torch.inference_mode():
        points = batch.source.shape[-2] + steps
        at_once = min(CHUNK, CHUNK_PAIRS // points**2)
        for places in slices(len(batch), max(at_once // runs, 1)):
            chunk = together([batch.take(places)] * runs)
            forecast = model.forecast(
                chunk.source, steps, source_lengths=chunk.source_lengths, override=override,
                with_attention=with_attention,
            )  # fmt: skip
            values.append(forecast.values.double().cpu())
            layers = dict[MapKind, list[Tensor]]()
            for layer in forecast.attention:
                meaning = layer.meaning
                layers.setdefault(layer.kind, []).append(layer.weights)
            for kind, weights in layers.items():
                maps.setdefault(kind, []).append(torch.stack(weights, dim=-4).float().cpu())

    def each(pieces: list[Tensor], axes: int) -> list[NDArray[Any]]:
        joined = torch.cat(pieces, dim=-axes)
        return [run.numpy() for run in (joined if runs > 1 else joined.unsqueeze(0))]

    by_kind = {kind: each(pieces, 5) for kind, pieces in maps.items()}
    return [
        FreeRun(said, {kind: weights[k] for kind, weights in by_kind.items()}, meaning)
        for k, said in enumerate(each(values, 3))
    ]


def loss_of(result: FreeRun, part: Sequences) -> float | None:
    """The mean squared error of forecasts, or None where the truth is not known to their end."""
    if part.target.shape[1] != result.values.shape[1]:
        return None
    return mean_squared_error(result.values, part)


def teacher_forced(model: SequenceModel, runs: int, part: Sequences) -> list[float]:
    """The loss of each of `runs` models with every step fed the truth."""
    batch = to_tensors(part, *_device_and_type(model))
    _, forced = validate(Autograd(model), together([batch] * runs))
    return forced


def evaluate(model: SequenceModel, part: Sequences, against: References) -> Evaluation:
    """Score a model on a part with known targets."""
    ((scored, _),) = evaluate_runs(model, 1, part, against, with_attention=False)
    return scored


def evaluate_runs(
    model: SequenceModel,
    runs: int,
    part: Sequences,
    against: References,
    *,
    with_attention: bool = True,
) -> list[tuple[Evaluation, FreeRun]]:
    """The same for `runs` models side by side."""
    free = free_runs(model, runs, part, part.target.shape[1], with_attention=with_attention)
    forced = teacher_forced(model, runs, part)
    return [
        (
            Evaluation(
                loss=mean_squared_error(run.values, part),
                loss_teacher_forced=loss,
                loss_by_step=errors_by_step(run.values, part),
                **asdict(against),
            ),
            run,
        )
        for run, loss in zip(free, forced, strict=True)
    ]


def _device_and_type(model: SequenceModel) -> tuple[torch.device, torch.dtype]:
    first = next(model.parameters())
    return first.device, first.dtype
