"""The errors and attention metrics of a model on sequences with known targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqattn.analysis.alignment import Alignment, AlignmentSums
from seqattn.analysis.attention_metrics import AttentionMetrics, AttentionMetricsAccumulator
from seqattn.analysis.evaluation.forecasts import (
    ForecastChunk,
    FreeRunningForecast,
    Maps,
    forecast_chunks,
    pair_with_targets,
    teacher_forced_chunks,
)
from seqattn.analysis.evaluation.plugin_metrics import PluginMetrics
from seqattn.analysis.evaluation.references import ReferenceLosses
from seqattn.data import Sequences
from seqattn.data.measures import VectorScores, scores_of
from seqattn.data.metrics import THIS_MODEL, Errors, metrics_as_plain
from seqattn.data.sequences import Floats, Integers, valid_mask
from seqattn.models import Seq2SeqModel, WeightSemantics
from seqattn.models.decoding import GREEDY, Decoding


@dataclass(frozen=True)
class Evaluation:
    """The errors of a model on sequences with known targets.

    Attributes:
        loss: the loss over all observed target cells, in the same units as the losses in
            `references`: the free-running mean squared error of vectors, the teacher-forced
            cross-entropy of symbols.
        loss_name: the name of the loss.
        loss_teacher_forced: the loss with teacher forcing.
        loss_by_step: the free-running loss of each target step; None for a step without observed
            cells.
        measures: the measures of the model by name; see `seqattn.data.measures`.
        references: the reference losses of the sequences.
        attention: the attention metrics; None if the model has no attention, or if its weights are
            signed read strengths. Of symbols, the weights are those of a teacher-forced pass.
        alignment: how the attention agrees with known links; None without links.
        features: the names of the target features.
        scaled: whether the losses are in scaled units instead of the units of the data.
        errors: the free-running MAE and RMSE in the units of the data, and the MASE; None for
            generated data.
        plugin_metrics: the metrics of plugins, by name.
        symbol_errors: the symbol error rate in free running, and the share of wrong symbols with
            teacher forcing; None for vectors.
    """

    loss: float
    loss_name: str
    loss_teacher_forced: float
    loss_by_step: list[float | None]
    measures: dict[str, Any]
    references: ReferenceLosses
    attention: AttentionMetrics | None
    features: tuple[str, ...]
    scaled: bool
    errors: Errors | None = None
    plugin_metrics: Mapping[str, float | None] = field(default_factory=dict)
    alignment: Alignment | None = None
    symbol_errors: tuple[float, float] | None = None

    @property
    def best_baseline(self) -> str:
        """The name of the parameter-free baseline with the lowest loss."""
        baselines = self.references.baselines
        return min(baselines, key=lambda name: baselines[name])

    @property
    def above_floor(self) -> float | None:
        """The loss minus the noise floor; None if the noise floor is unknown."""
        floor = self.references.noise_floor
        return None if floor is None else self.loss - floor

    def as_plain(self) -> dict[str, Any]:
        references = self.references
        plain = {
            "loss": self.loss,
            "loss_name": self.loss_name,
            "loss_teacher_forced": self.loss_teacher_forced,
            "loss_by_step": self.loss_by_step,
            "noise_floor": references.noise_floor,
            "baselines": references.baselines,
            "fitted": references.fitted,
            "best_baseline": self.best_baseline,
            "above_floor": self.above_floor,
            "beats_best_baseline": self.loss < references.baselines[self.best_baseline],
            "scaled": self.scaled,
            "features": list(self.features),
            "measures": self.measures,
            "baseline_measures": references.measures,
            "rmse": {
                name: each["rmse"]
                for name, each in ((THIS_MODEL, self.measures), *references.measures.items())
                if "rmse" in each
            },
            "attention": None if self.attention is None else self.attention.as_plain(),
            **({"units": dict(references.units)} if references.units else {}),
        }
        if self.alignment is not None:
            plain["alignment"] = self.alignment.as_plain()
        if references.in_sample is not None and self.errors is not None:
            errors = {THIS_MODEL: self.errors, **references.errors}
            plain["metrics"] = metrics_as_plain(references.in_sample, references.notes, errors)
        if self.plugin_metrics:
            plain["plugin_metrics"] = dict(self.plugin_metrics)
        return plain


def evaluate(
    model: Seq2SeqModel,
    part: Sequences,
    references: ReferenceLosses,
    *,
    on_chunk: Callable[[ForecastChunk], None] | None = None,
    decoding: Decoding = GREEDY,
) -> Evaluation:
    """Compute the errors of a model on sequences with known targets, in chunks of sequences.

    Args:
        model: the model.
        part: the sequences.
        references: the reference losses of the sequences.
        on_chunk: a function that is called with each chunk of free-running forecasts.
        decoding: how outputs of symbols are found.
    """
    metrics = _CrossAttentionMetrics(part)
    # Steps of the decoder are steps of the target only if the decoder reads the target itself.
    is_forced = not model.target_modality.is_scored_free_running

    def score_chunks() -> Iterator[tuple[slice, Floats]]:
        chunks = forecast_chunks(
            model, part, part.target_steps, with_attention=not is_forced or on_chunk is not None,
            decoding=decoding,
        )  # fmt: skip
        for chunk in chunks:
            if on_chunk is not None:
                on_chunk(chunk)
            if not is_forced:
                chunk.emit_attention(metrics.add)
            yield chunk.places, chunk.values

    scores = scores_of(part.target_space, part)
    own_metrics = PluginMetrics()
    for chunk in pair_with_targets(part, score_chunks()):
        scores.add_free_running(*chunk)
        own_metrics.add(*chunk[1:])
    forced = teacher_forced_chunks(model, part, metrics.add if is_forced else None)
    for chunk in pair_with_targets(part, forced):
        scores.add_teacher_forced(*chunk)
    return Evaluation(
        loss=scores.loss,
        loss_name=part.target_space.loss_name,
        loss_teacher_forced=scores.loss_teacher_forced,
        loss_by_step=scores.loss_by_step,
        symbol_errors=None if isinstance(scores, VectorScores) else scores.errors,
        measures=scores.measures,
        references=references,
        attention=metrics.result(),
        features=part.target_features,
        scaled=not part.is_identity,
        errors=(
            None
            if references.in_sample is None or not isinstance(scores, VectorScores)
            else Errors.of_sums(scores.sums, references.in_sample)
        ),
        plugin_metrics=own_metrics.results(),
        alignment=metrics.links.result(),
    )


def evaluate_and_forecast(
    model: Seq2SeqModel,
    part: Sequences,
    references: ReferenceLosses,
) -> tuple[Evaluation, FreeRunningForecast]:
    """Compute the errors of a model, and return them with all free-running forecasts and attention
    weights.

    The function keeps these forecasts and weights in memory. See `evaluate` for the arguments.
    """
    chunks = list[ForecastChunk]()
    scored = evaluate(model, part, references, on_chunk=chunks.append)
    return scored, FreeRunningForecast.from_chunks(chunks)


class _CrossAttentionMetrics:
    """An accumulator of attention metrics that leaves out signed read strengths.

    Args:
        part: the sequences to which the attention weights belong.
    """

    def __init__(self, part: Sequences) -> None:
        self.part = part
        self.metrics: AttentionMetricsAccumulator | None = None
        self.links = AlignmentSums()

    def add(self, meaning: WeightSemantics, maps: Maps, places: slice, lengths: Integers) -> None:
        """Add the weights of some sequences. This method is an `AttentionCallback`."""
        if meaning == "strength":
            return
        part = self.part
        self.metrics = self.metrics or AttentionMetricsAccumulator(
            is_distribution=meaning == "distribution"
        )
        alignment = None if part.alignment is None else part.alignment[places]
        lengths = np.minimum(lengths, part.target_lengths[places])
        on_chunk = valid_mask(lengths, part.target_steps)
        self.metrics.add(maps["cross"], part.source_lengths[places], on_chunk, alignment)
        if part.links is not None:
            self.links.add(maps["cross"], part.links.select(places))

    def result(self) -> AttentionMetrics | None:
        """Return the metrics; None if no weights were added."""
        return None if self.metrics is None else self.metrics.result()
