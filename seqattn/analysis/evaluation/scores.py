"""A model's errors on a part with known targets, beside the baselines, and where it looked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from seqattn.analysis.attention_metrics import AttentionMetrics, AttentionMetricsAccumulator
from seqattn.analysis.evaluation.forecasts import (
    ForecastChunk,
    FreeRunningForecast,
    Maps,
    forecast_chunks,
    teacher_forced_chunks,
    with_targets,
)
from seqattn.analysis.evaluation.references import References
from seqattn.data import Scaling, Sequences
from seqattn.data.metrics import THIS_MODEL, Errors, metrics_as_plain
from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import Floats, valid_mask
from seqattn.models import Seq2SeqModel, WeightSemantics


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
            **({"units": dict(against.units)} if against.units else {}),
        }
        if against.in_sample is not None and self.errors is not None:
            errors = {THIS_MODEL: self.errors, **against.errors}
            plain["metrics"] = metrics_as_plain(against.in_sample, against.notes, errors)
        return plain


def evaluate(
    model: Seq2SeqModel,
    part: Sequences,
    against: References,
    scaling: Scaling | None = None,
    *,
    keep: Callable[[ForecastChunk], None] | None = None,
) -> Evaluation:
    """Score a model on a part with known targets, some sequences after the other.

    Args:
        against: what its losses are held against.
        scaling: of the units that losses are in; None: the part's own.
        keep: shown each chunk of free-running forecasts once.
    """
    looking = _Looks(part)
    scale = None if scaling is None else scaling.target.scale

    def watched() -> Iterator[tuple[slice, Floats]]:
        chunks = forecast_chunks(
            model, part, part.target_steps, with_attention=True, scaling=scaling
        )
        for chunk in chunks:
            if keep is not None:
                keep(chunk)
            chunk.show(looking.add)
            yield chunk.places, chunk.values

    sums = ErrorSums(part, scale, by_step=True)
    for given in with_targets(part, watched()):
        sums.add(*given)
    forced = ErrorSums(part, scale)
    for given in with_targets(part, teacher_forced_chunks(model, part, scaling)):
        forced.add(*given)
    return Evaluation(
        loss=sums.loss,
        loss_teacher_forced=forced.loss,
        loss_by_step=sums.by_step,
        rmse=sums.rmse,
        against=against,
        looks=looking.result(),
        features=part.target_features,
        scaled=scaling is not None and not scaling.is_identity,
        errors=None if against.in_sample is None else Errors.of_sums(sums, against.in_sample),
    )


def evaluate_and_forecast(
    model: Seq2SeqModel, part: Sequences, against: References, scaling: Scaling | None = None
) -> tuple[Evaluation, FreeRunningForecast]:
    """The same, and all forecasts with their weights: of few sequences."""
    chunks = list[ForecastChunk]()
    scored = evaluate(model, part, against, scaling, keep=chunks.append)
    return scored, FreeRunningForecast.of_chunks(chunks)


class _Looks:
    """Where a model looks, of weights that are shares of a whole.

    Args:
        part: whose weights they are.
    """

    def __init__(self, part: Sequences) -> None:
        self.part = part
        self.looking: AttentionMetricsAccumulator | None = None

    def add(self, meaning: WeightSemantics, maps: Maps, places: slice) -> None:
        """See `seqattn.analysis.evaluation.AttentionCallback`."""
        if meaning == "strength":
            return
        part = self.part
        self.looking = self.looking or AttentionMetricsAccumulator(
            is_distribution=meaning == "distribution"
        )
        known = None if part.alignment is None else part.alignment[places]
        keep = valid_mask(part.target_lengths[places], part.target_steps)
        self.looking.add(maps["cross"], part.source_lengths[places], keep, known)

    def result(self) -> AttentionMetrics | None:
        """None where there were no such weights."""
        return None if self.looking is None else self.looking.result()
