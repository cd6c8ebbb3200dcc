"""Reference losses of a part of the data: the noise floor, and the losses of the baselines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from seqattn.data import InSample, NaiveForecast, Sequences, Splits
from seqattn.data.baselines import build_baselines, forecast_mse
from seqattn.data.least_squares import LEAST_SQUARES, least_squares
from seqattn.data.measures import losses_of_ngrams, measures_of_rules
from seqattn.data.metrics import Errors
from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import ForecastLike
from seqattn.data.units import Units


@dataclass(frozen=True)
class ReferenceLosses:
    """The reference losses of a part of the data. They do not depend on the model.

    The losses are mean squared errors. If the data are scaled, each error is divided by the scale
    of its feature and then squared. The RMSE and the MAE are in the units of the data.

    Attributes:
        noise_floor: the loss of a forecast that knows the sequences without noise, which is a lower
            bound for all models; None if it is unknown.
        baselines: the loss of each parameter-free baseline, by name.
        fitted: the loss of each fitted baseline, by name.
        measures: the measures of each baseline, by the name of the baseline and of the measure.
        in_sample: the season length and the MASE scales of the training series; None for generated
            data.
        errors: the MAE, RMSE and MASE of each baseline, by name; empty if `in_sample` is None.
        notes: sentences about missing baselines.
        units: the unit of each feature, by feature name. A feature without a unit has no entry.
    """

    noise_floor: float | None
    baselines: dict[str, float]
    fitted: dict[str, float]
    measures: dict[str, dict[str, Any]]
    in_sample: InSample | None = None
    errors: dict[str, Errors] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    units: Units = field(default_factory=dict)

    @classmethod
    def from_part(
        cls,
        part: Sequences,
        train: Sequences,
        rule: tuple[str, NaiveForecast] | None,
        in_sample: InSample | None = None,
        *,
        in_training_units: bool = False,
    ) -> ReferenceLosses:
        """Compute the losses of all baselines on a part of the data, and the noise floor.

        Args:
            part: the sequences to score.
            train: the sequences from which the mean baseline and the fitted baselines are computed.
            rule: the name and the forecast of the task's parameter-free rule; None if the task has
                no such rule.
            in_sample: the season length and the MASE scales of the training series; None for
                generated data.
            in_training_units: whether the losses are in the units of the training loss. The
                training loss may be normalized for each sequence.

        Raises:
            DataError: if the config sets a season length, but a source is shorter than the season
                or lacks a target feature.
        """
        if part.target_space.vocabulary_size:
            single, fitted = losses_of_ngrams(train, part)
            return cls(None, single, fitted, measures_of_rules(train, part))
        scale = part.target_unit() if in_training_units else part.target_space.scale
        free = build_baselines(train, part, rule, in_sample)
        losses, measures, errors = dict[str, float](), dict[str, dict[str, Any]](), {}

        def score(name: str, forecast: ForecastLike) -> None:
            sums = ErrorSums.of(forecast, part, scale)
            losses[name] = sums.loss
            measures[name] = sums.measures
            if in_sample is not None:
                errors[name] = Errors.of_sums(sums, in_sample)

        for name in free.forecasts:
            score(name, free.forecast(name, part))
        baselines = dict(losses)
        linear = least_squares(train, part)
        if linear is not None:
            score(LEAST_SQUARES, linear)
        return cls(
            None if part.ideal is None else forecast_mse(part.ideal, part, scale),
            baselines, {name: losses[name] for name in losses.keys() - baselines.keys()}, measures,
            in_sample, errors, free.notes, part.units,
        )  # fmt: skip

    @classmethod
    def from_splits(
        cls, part: Sequences, data: Splits, *, in_training_units: bool = False
    ) -> ReferenceLosses:
        """Compute the reference losses of a part, with baselines from the training part of `data`.

        Args:
            part: a part of `data`, or the user's own sequences that were read in the same way as
                `data`.
            data: the data on which the model was trained.
            in_training_units: see `from_part`.
        """
        return cls.from_part(
            part,
            data.baseline_part,
            data.rule,
            data.in_sample,
            in_training_units=in_training_units,
        )

    def keep_shared(self, other: ReferenceLosses) -> ReferenceLosses:
        """Return a copy without the parameter-free baselines that `other` does not contain.

        The copy contains the notes of both objects.
        """
        lacking = self.baselines.keys() - other.baselines.keys()
        baselines = {name: self.baselines[name] for name in self.baselines if name not in lacking}
        measures = {name: each for name, each in self.measures.items() if name not in lacking}
        errors = {name: self.errors[name] for name in self.errors if name not in lacking}
        notes = tuple(dict.fromkeys([*self.notes, *other.notes]))
        return replace(self, baselines=baselines, measures=measures, errors=errors, notes=notes)
