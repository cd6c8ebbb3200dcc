"""Error metrics in the user's units: MAE, RMSE and MASE.

    MAE   mean absolute error
    RMSE  root mean squared error
    MASE  MAE divided by the in-sample mean absolute error of the seasonal naive forecast, with
          season 1 if no season is known; Hyndman and Koehler 2006, "Another look at measures of
          forecast accuracy", eq. 3.5 with the season as lag

All three metrics are computed separately for each target feature over its observed target cells,
because features may have different units. Only MASE, which has no unit, is also averaged over the
features for which it is defined.

In shapes, N is the number of sequences, T the target length and F the number of target features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from seqattn.data.scoring import ErrorSums
from seqattn.data.seasonality import find_season
from seqattn.data.sequences import ForecastLike, Sequences
from seqattn.data.windows import RowRanges

THIS_MODEL = "this model"
"""Name of the model in tables of errors. All other names in these tables belong to baselines."""
Origin = Literal["given", "found"]


@dataclass(frozen=True)
class InSample:
    """Statistics of the training series for baselines and MASE.

    Attributes:
        season: season length of the seasonal naive forecast, in steps, or None if it is unknown.
        origin: "given" if the user set the season, "found" if the search found the season, or None
            if there is no season.
        scale: divisor of the MAE in the MASE for each target feature, in the user's units. The
            divisor is above 0, or None if the MASE is undefined.
        undefined: for each target feature, the reason why its MASE is undefined, or None if the
            MASE is defined.
    """

    season: int | None
    origin: Origin | None
    scale: tuple[float | None, ...]
    undefined: tuple[str | None, ...]

    @classmethod
    def of(cls, series: RowRanges, given: int | None, longest: int | None) -> tuple[InSample, str]:
        """Find the season, and compute the error scales.

        Args:
            series: the training series.
            given: season length that the user set, in steps, or None to search for a season.
            longest: maximum season length of the search, in steps, or None for the default of
                `find_season`.

        Returns:
            the statistics, and a note for the user on the season, or "" if the user set the season.
        """
        season, origin, note = given, None if given is None else "given", ""
        if given is None:
            found = find_season(series, longest)
            if found is None:
                note = (
                    "no season was found in the training series, so there is no seasonal naive"
                    " baseline; data.season sets one"
                )
            else:
                season, origin = found.steps, "found"
                note = (
                    f"a season of {season} steps was found in the training series (autocorrelation"
                    f" {found.autocorrelation:.2f}); data.season sets another"
                )
        return cls(season, origin, *_naive_scales(series, season or 1)), note  # type: ignore[arg-type]

    @property
    def lag(self) -> int:
        """Lag of the naive forecast that scales MASE, in steps: the season length, or 1 if the
        season is unknown."""
        return self.season or 1

    @property
    def seasonal_naive(self) -> str:
        """Name of the seasonal naive baseline."""
        return f"seasonal naive (season {self.season}, {self.origin})"


def _naive_scales(
    series: RowRanges, lag: int
) -> tuple[tuple[float | None, ...], tuple[str | None, ...]]:
    """Return two tuples with one element per feature. The first tuple contains the mean absolute
    difference between values `lag` steps apart, or None if the MASE is undefined. The second tuple
    contains the reason why the MASE is undefined, or None if it is defined."""
    F = len(series.columns)
    total, count, size = np.zeros(F), np.zeros(F, dtype=np.int64), 0.0
    for differences, largest in series.differences(lag):
        total += np.nansum(np.abs(differences), axis=0)
        count += np.isfinite(differences).sum(axis=0)
        size = max(size, largest)
    scale, undefined = list[float | None](), list[str | None]()
    for f in range(F):
        mean = float(total[f] / max(count[f], 1))
        reason = None
        if not count[f]:
            reason = f"no two observed training points are {lag} steps apart"
        elif mean <= 4 * float(np.finfo(np.float64).eps) * size:
            reason = (
                "the training series are constant" if lag == 1
                else f"the training series repeat exactly after {lag} steps"
            )  # fmt: skip
        undefined.append(reason)
        scale.append(None if reason is not None else mean)
    return tuple(scale), tuple(undefined)


@dataclass(frozen=True)
class Errors:
    """The errors of a forecast, with F numbers for each metric. A number is None for a feature
    without observed cells.

    Attributes:
        mae: mean absolute error in the user's units.
        rmse: root mean squared error in the user's units.
        mase: mean absolute scaled error, which has no unit. The value is also None for a feature
            whose MASE is undefined.
    """

    mae: list[float | None]
    rmse: list[float | None]
    mase: list[float | None]

    @classmethod
    def of(cls, forecast: ForecastLike, part: Sequences, in_sample: InSample) -> Errors:
        """Compute the errors of a forecast.

        Args:
            forecast: (N, T, F) forecast in the user's units.
            part: the sequences with the targets.
            in_sample: the error scales.
        """
        return cls.of_sums(ErrorSums.of(forecast, part), in_sample)

    @classmethod
    def of_sums(cls, sums: ErrorSums, in_sample: InSample) -> Errors:
        """Compute the errors from sums of errors."""
        mae = sums.mae
        mase = [
            None if error is None or scale is None else error / scale
            for error, scale in zip(mae, in_sample.scale, strict=True)
        ]
        return cls(mae, sums.rmse, mase)

    @property
    def mase_mean(self) -> float | None:
        """Mean MASE over the features with a MASE, or None if no feature has a MASE."""
        known = [error for error in self.mase if error is not None]
        return sum(known) / len(known) if known else None

    def as_plain(self) -> dict[str, Any]:
        """Return the errors as JSON-serializable data."""
        return {"mae": self.mae, "rmse": self.rmse, "mase": self.mase, "mase_mean": self.mase_mean}


def metrics_as_plain(
    in_sample: InSample, notes: Sequence[str], errors: Mapping[str, Errors]
) -> dict[str, Any]:
    """Return the value of the key `metrics` in `summary.json`. A missing number is
    None, and `mase_undefined` then contains the reason.

    Args:
        in_sample: statistics of the training series.
        notes: notes on baselines that do not apply.
        errors: the errors of each forecast by name.
    """
    return {
        "season": in_sample.season, "season_origin": in_sample.origin,
        "mase_scale": list(in_sample.scale), "mase_undefined": list(in_sample.undefined),
        "notes": list(notes), "errors": {name: each.as_plain() for name, each in errors.items()},
    }  # fmt: skip


def describe_metrics(scored: Mapping[str, Any]) -> list[str]:
    """Return lines of text that describe how MASE is scaled and averaged, for which features it is
    undefined, and which baselines do not apply.

    Args:
        scored: the content of `summary.json`, or the result of `Evaluation.as_plain`. If it
            contains no metrics, the returned list is empty.
    """
    metrics, features = scored.get("metrics"), scored["features"]
    if metrics is None:
        return []
    season = metrics["season"]
    naive = "naive forecast (season 1)" if season is None else (
        f"seasonal naive forecast (season {season}, {metrics['season_origin']})"
    )  # fmt: skip
    lines = [f"MASE is the MAE over that of the {naive} within the training series."]
    if len(features) > 1:
        lines[0] += " Its mean is over the features for which it is defined."
    lines += [f"MASE of {feature} is undefined: {reason}."
              for feature, reason in zip(features, metrics["mase_undefined"], strict=True)
              if reason is not None]  # fmt: skip
    if season is None:
        lines.append("No season was found in the training series, so there is no seasonal naive"
                     " forecast; data.season sets one.")  # fmt: skip
    return lines + [f"{note[:1].upper()}{note[1:]}." for note in metrics["notes"]]
