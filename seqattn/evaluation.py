"""What a trained model does on its own: free-running forecasts, their errors beside the
baselines, and where it looked.

Letters: N sequences, T steps, F features, A heads, S source length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.attention import Override
from seqattn.attention_metrics import AttentionMetrics, AttentionMetricsAccumulator
from seqattn.data import InSample, Rule, Scaling, Sequences, Splits
from seqattn.data.baselines import (
    baselines_of,
    errors_by_feature,
    errors_by_step,
    mean_squared_error,
)
from seqattn.data.least_squares import LEAST_SQUARES, least_squares
from seqattn.data.metrics import THIS_MODEL, Errors, metrics_as_plain
from seqattn.data.sequences import Forecast, real_points
from seqattn.models import AttentionKind, Seq2SeqModel, WeightSemantics
from seqattn.runs import attention_arrays
from seqattn.training.batches import Batch, GatheredBatch, batch_of, slices

CHUNK = 2048
CHUNK_PAIRS = 2**22  # of points, so that long sequences are taken a few at a time


@dataclass(frozen=True)
class FreeRunningForecast:
    """Forecasts made from sources alone.

    Attributes:
        values: (N, T, F).
        maps: by kind, "cross" (N, layers, A, T, S) and whatever else the model looks at; empty for
            a model without attention. See `AttentionMap`.
        meaning: of their numbers.
    """

    values: NDArray[np.float64]
    maps: dict[AttentionKind, NDArray[np.float32]]
    meaning: WeightSemantics = "distribution"

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
            alignment=part.alignment if steps_real else None,
            encoder_self=self.maps.get("encoder_self"),
            decoder_self=self.maps.get("decoder_self"),
        )


@dataclass(frozen=True)
class References:
    """What a part's losses are held against; the same for every model.

    Losses are mean squared errors; where data are scaled, an error counts 1 that is as large as the
    scale of its feature in the training part. Root mean squared errors and `errors` are in the
    user's units.

    Attributes:
        noise_floor: the error of knowing everything but the noise; None where unknown.
        baselines: parameter-free forecast -> loss.
        fitted: forecasts with fitted parameters -> loss.
        rmse: forecast -> root mean squared error of each target feature; None where no cell of it
            was observed.
        in_sample: season and scale of MASE, of the user's own training series; None: the sequences
            are made.
        errors: with `in_sample` forecast -> MAE, RMSE and MASE.
        notes: what should be said of baselines that are not there.
    """

    noise_floor: float | None
    baselines: dict[str, float]
    fitted: dict[str, float]
    rmse: dict[str, list[float | None]]
    in_sample: InSample | None = None
    errors: dict[str, Errors] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        part: Sequences,
        train: Sequences,
        rule: tuple[str, Rule] | None,
        scaling: Scaling | None = None,
        in_sample: InSample | None = None,
        *,
        as_trained: bool = False,
    ) -> References:
        """
        Args:
            train: what the mean baseline and the fitted ones are taken from.
            rule: the task's own parameter-free rule, if it has one.
            scaling: of the units that losses are in; None: the part's own.
            in_sample: of the user's own training series; None: the sequences are made.
            as_trained: losses in the units of the losses of a training instead: those of each
                sequence's own, where it has any.

        Raises:
            DataError: a season that the user gave, and a source that is shorter.
        """
        scale = None if scaling is None else scaling.target.scale
        if scaling is not None and as_trained:
            scale = scaling.units(part)
        free = baselines_of(train, part, rule, in_sample)
        losses, rmse, errors = dict[str, float](), dict[str, list[float | None]](), {}

        def score(name: str, forecast: Forecast) -> None:
            losses[name] = mean_squared_error(forecast, part, scale)
            rmse[name] = errors_by_feature(forecast, part)
            if in_sample is not None:
                errors[name] = Errors.of(forecast, part, in_sample)

        for name in free.forecasts:
            score(name, free.forecast(name, part))
        baselines = dict(losses)
        linear = least_squares(train, part, scaling)
        if linear is not None:
            score(LEAST_SQUARES, linear)
        return cls(
            None if part.ideal is None else mean_squared_error(part.ideal, part, scale),
            baselines, {name: losses[name] for name in losses.keys() - baselines.keys()}, rmse,
            in_sample, errors, free.notes,
        )  # fmt: skip

    @classmethod
    def of_data(cls, part: Sequences, data: Splits, *, as_trained: bool = False) -> References:
        """The same with all that is known of a data set.

        Args:
            part: of the data set, or the user's own sequences read as it was.
        """
        return cls.of(
            part,
            data.baseline_part,
            data.rule,
            data.scaling,
            data.in_sample,
            as_trained=as_trained,
        )

    def with_those_of(self, other: References) -> References:
        """Without the parameter-free baselines that another part does not have, and with what is
        said of them there."""
        lacking = self.baselines.keys() - other.baselines.keys()
        baselines = {name: self.baselines[name] for name in self.baselines if name not in lacking}
        rmse = {name: self.rmse[name] for name in self.rmse if name not in lacking}
        errors = {name: self.errors[name] for name in self.errors if name not in lacking}
        notes = tuple(dict.fromkeys([*self.notes, *other.notes]))
        return replace(self, baselines=baselines, rmse=rmse, errors=errors, notes=notes)


@dataclass(frozen=True)
class Evaluation:
    """A model's errors on a part with known targets, and where it looked.

    Attributes:
        loss: free running, over all observed target cells; mean squared error as in `References`.
        loss_teacher_forced: every step fed the truth.
        loss_by_step: free running, T numbers; None where no cell of a step was observed.
        rmse: free running, root mean squared error of each target feature in the user's units;
            None where no cell of it was observed.
        against: what these are held against.
        looks: None for a model without attention, and for one whose weights are no shares of a
            whole, since none of it can be said of them.
        features: names of the target's.
        scaled: whether losses are of scaled numbers, and so in no units of the user's.
        errors: free running, in the user's units; None where the sequences are made.
    """

    loss: float
    loss_teacher_forced: float
    loss_by_step: list[float | None]
    rmse: list[float | None]
    against: References
    looks: AttentionMetrics | None
    features: tuple[str, ...]
    scaled: bool
    errors: Errors | None = None

    @property
    def best_baseline(self) -> str:
        """The parameter-free baseline with the lowest loss."""
        baselines = self.against.baselines
        return min(baselines, key=lambda name: baselines[name])

    @property
    def above_floor(self) -> float | None:
        """Loss less noise floor: what a better model could still gain."""
        floor = self.against.noise_floor
        return None if floor is None else self.loss - floor

    def as_plain(self) -> dict[str, Any]:
        against = self.against
        plain = {
            "loss": self.loss,
            "loss_teacher_forced": self.loss_teacher_forced,
            "loss_by_step": self.loss_by_step,
            "noise_floor": against.noise_floor,
            "baselines": against.baselines,
            "fitted": against.fitted,
            "best_baseline": self.best_baseline,
            "above_floor": self.above_floor,
            "beats_best_baseline": self.loss < against.baselines[self.best_baseline],
            "scaled": self.scaled,
            "features": list(self.features),
            "rmse": {THIS_MODEL: self.rmse, **against.rmse},
            "attention": None if self.looks is None else self.looks.as_plain(),
        }
        if against.in_sample is not None and self.errors is not None:
            errors = {THIS_MODEL: self.errors, **against.errors}
            plain["metrics"] = metrics_as_plain(against.in_sample, against.notes, errors)
        return plain


Maps = Mapping[AttentionKind, NDArray[np.float32]]
AttentionCallback = Callable[[WeightSemantics, Maps, slice], None]
"""(meaning, weights (n, layers, A, rows, columns) by kind, places of these n sequences)."""


def free_run(
    model: Seq2SeqModel,
    part: Sequences,
    steps: int,
    override: Override | None = None,
    *,
    with_attention: bool = True,
    scaling: Scaling | None = None,
    watch: AttentionCallback | None = None,
) -> FreeRunningForecast:
    """Forecast `steps` points of every sequence, in chunks, on the model's device.

    Args:
        override: looks elsewhere than the model would; None: the model looks for itself.
        with_attention: False keeps no maps, which for long sequences are most of the memory.
        scaling: to the model's units and back; None: they are the part's.
        watch: shown the weights of some sequences after the other, kept or not.

    Raises:
        DataError: a source of a length that the model's skip has no weights for.
        UsageError: an override that the model, or a sequence, has no place for; more steps than the
            skip has weights for.
    """
    if model.skip is not None:  # here sequences have names
        model.skip.check_steps(steps)
        model.skip.check_sources(part.source_lengths, part.ids)
    if override is not None:
        override.check(int(part.source_lengths.min()))
    batch = batch_of(part, *_device_and_type(model), scaling=scaling)
    values = np.empty((len(part), steps, len(part.target_features)))
    maps = dict[AttentionKind, list[Tensor]]()
    meaning: WeightSemantics = "distribution"
    with torch.inference_mode():
        for places in slices(len(batch), _at_once(batch, steps)):
            chunk = batch.take(places)
            forecast = model.forecast(
                chunk.source, steps, source_lengths=chunk.source_lengths, override=override,
                with_attention=with_attention or watch is not None,
            )  # fmt: skip
            values[places] = _in_units(forecast.values, part, places, scaling)
            layers = dict[AttentionKind, list[Tensor]]()
            for layer in forecast.attention:
                meaning = layer.meaning
                layers.setdefault(layer.kind, []).append(layer.weights)
            stacked = {
                kind: torch.stack(weights, dim=-4).float().cpu() for kind, weights in layers.items()
            }
            if with_attention:
                for kind, weights in stacked.items():
                    maps.setdefault(kind, []).append(weights)
            if watch is not None and stacked:
                watch(meaning, {kind: one.numpy() for kind, one in stacked.items()}, places)
    return FreeRunningForecast(
        values,
        {kind: torch.cat(pieces).numpy() for kind, pieces in maps.items()},
        meaning,
    )


def loss_of(
    result: FreeRunningForecast, part: Sequences, scaling: Scaling | None = None
) -> float | None:
    """The mean squared error of forecasts, or None where the truth is not known to their end, or
    nothing of it was observed."""
    if result.values.shape[1] != part.target_steps or not part.target_cells.any():
        return None
    return mean_squared_error(
        result.values, part, None if scaling is None else scaling.target.scale
    )


def teacher_forced(model: Seq2SeqModel, part: Sequences, scaling: Scaling | None = None) -> float:
    """The loss of a model with every step fed the truth."""
    batch = batch_of(part, *_device_and_type(model), scaling=scaling)
    steps = batch.target_steps
    values = np.empty((len(part), steps, len(part.target_features)))
    truth = torch.ones(steps, dtype=torch.bool)
    with torch.inference_mode():
        for places in slices(len(batch), _at_once(batch, steps)):
            chunk = batch.take(places)
            forecast = model(
                chunk.source, chunk.target, source_lengths=chunk.source_lengths,
                teacher_forcing=truth, with_attention=False,
            )  # fmt: skip
            values[places] = _in_units(forecast.values, part, places, scaling)
    scale = None if scaling is None else scaling.target.scale
    return mean_squared_error(values, part, scale)


def _in_units(
    values: Tensor, part: Sequences, places: slice, scaling: Scaling | None
) -> NDArray[np.float64]:
    """Forecasts of some sequences of a part in the user's units."""
    said: NDArray[np.float64] = values.double().cpu().numpy()
    if scaling is None or scaling.is_identity:
        return said
    return scaling.unscaled(said, part.at(places))


def _at_once(batch: Batch | GatheredBatch, steps: int) -> int:
    """Sequences of a chunk."""
    points = batch.source_steps + steps
    return max(1, min(CHUNK, CHUNK_PAIRS // points**2))


def evaluate(
    model: Seq2SeqModel, part: Sequences, against: References, scaling: Scaling | None = None
) -> Evaluation:
    """Score a model on a part with known targets."""
    scored, _ = evaluate_and_forecast(model, part, against, scaling, with_attention=False)
    return scored


def evaluate_and_forecast(
    model: Seq2SeqModel,
    part: Sequences,
    against: References,
    scaling: Scaling | None = None,
    *,
    with_attention: bool = True,
    watch: AttentionCallback | None = None,
) -> tuple[Evaluation, FreeRunningForecast]:
    """Score a model on a part with known targets, and keep what it forecast.

    Args:
        against: what its losses are held against.
        scaling: of the units that losses are in; None: the part's own.
        with_attention, watch: see `free_run`.
    """
    looking: AttentionMetricsAccumulator | None = None

    def look(meaning: WeightSemantics, maps: Maps, places: slice) -> None:
        nonlocal looking
        if watch is not None:
            watch(meaning, maps, places)
        if meaning == "strength":
            return
        looking = looking or AttentionMetricsAccumulator(is_distribution=meaning == "distribution")
        known = None if part.alignment is None else part.alignment[places]
        keep = real_points(part.target_lengths[places], part.target_steps)
        looking.add(maps["cross"], part.source_lengths[places], keep, known)

    run = free_run(
        model, part, part.target_steps, with_attention=with_attention, scaling=scaling,
        watch=look,
    )  # fmt: skip
    scale = None if scaling is None else scaling.target.scale
    scored = Evaluation(
        loss=mean_squared_error(run.values, part, scale),
        loss_teacher_forced=teacher_forced(model, part, scaling),
        loss_by_step=errors_by_step(run.values, part, scale),
        rmse=errors_by_feature(run.values, part),
        against=against,
        looks=None if looking is None else looking.result(),
        features=part.target_features,
        scaled=scaling is not None and not scaling.is_identity,
        errors=None if against.in_sample is None
        else Errors.of(run.values, part, against.in_sample),
    )  # fmt: skip
    return scored, run


def _device_and_type(model: Seq2SeqModel) -> tuple[torch.device, torch.dtype]:
    first = next(model.parameters())
    return first.device, first.dtype
