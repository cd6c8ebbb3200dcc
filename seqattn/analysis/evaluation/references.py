"""What the losses of a part are held against: baselines, and the noise floor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from seqattn.data import InSample, NaiveForecast, Scaling, Sequences, Splits
from seqattn.data.baselines import build_baselines, forecast_mse
from seqattn.data.least_squares import LEAST_SQUARES, least_squares
from seqattn.data.metrics import Errors
from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import ForecastLike
from seqattn.data.units import Units


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
        units: of the features that have one.
    """

    noise_floor: float | None
    baselines: dict[str, float]
    fitted: dict[str, float]
    rmse: dict[str, list[float | None]]
    in_sample: InSample | None = None
    errors: dict[str, Errors] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    units: Units = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        part: Sequences,
        train: Sequences,
        rule: tuple[str, NaiveForecast] | None,
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
            scale = scaling.target_scale(part)
        free = build_baselines(train, part, rule, in_sample)
        losses, rmse, errors = dict[str, float](), dict[str, list[float | None]](), {}

        def score(name: str, forecast: ForecastLike) -> None:
            sums = ErrorSums.of(forecast, part, scale)
            losses[name], rmse[name] = sums.loss, sums.rmse
            if in_sample is not None:
                errors[name] = Errors.of_sums(sums, in_sample)

        for name in free.forecasts:
            score(name, free.forecast(name, part))
        baselines = dict(losses)
        linear = least_squares(train, part, scaling)
        if linear is not None:
            score(LEAST_SQUARES, linear)
        return cls(
            None if part.ideal is None else forecast_mse(part.ideal, part, scale),
            baselines, {name: losses[name] for name in losses.keys() - baselines.keys()}, rmse,
            in_sample, errors, free.notes,
        )  # fmt: skip

    @classmethod
    def of_data(cls, part: Sequences, data: Splits, *, as_trained: bool = False) -> References:
        """The same with all that is known of a data set.

        Args:
            part: of the data set, or the user's own sequences read as it was.
        """
        found = cls.of(
            part,
            data.baseline_part,
            data.rule,
            data.scaling,
            data.in_sample,
            as_trained=as_trained,
        )
        return replace(found, units=data.units)

    def with_those_of(self, other: References) -> References:
        """Without the parameter-free baselines that another part does not have, and with what is
        said of them there."""
        lacking = self.baselines.keys() - other.baselines.keys()
        baselines = {name: self.baselines[name] for name in self.baselines if name not in lacking}
        rmse = {name: self.rmse[name] for name in self.rmse if name not in lacking}
        errors = {name: self.errors[name] for name in self.errors if name not in lacking}
        notes = tuple(dict.fromkeys([*self.notes, *other.notes]))
        return replace(self, baselines=baselines, rmse=rmse, errors=errors, notes=notes)
