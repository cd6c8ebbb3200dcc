"""Table columns for mean squared errors, and tables with the MAE, RMSE and MASE of each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqattn.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

MAX_FEATURES_SHOWN = 3
MEASURES = ("mae", "rmse", "mase")
SYMBOL_MEASURES = ("exact_match", "symbol_error_rate")


def add_error_columns(table: Table, scored: Mapping[str, Any]) -> None:
    """Add the headings of the error columns to a table.

    Args:
        table: the table.
        scored: the content of `summary.json`, or the result of `Evaluation.as_plain`.
    """
    scaled, features = scored["scaled"], scored["features"]
    table.add_column("MSE, scaled" if scaled else scored["loss_name"], justify="right")
    for measure in SYMBOL_MEASURES if SYMBOL_MEASURES[0] in scored["measures"] else ():
        table.add_column(measure.replace("_", " "), justify="right")
    if scored.get("metrics") is not None:
        name = _heading(scored, features[0])
        headings = (
            [f"MAE, {name}", f"RMSE, {name}", "MASE"] if len(features) == 1 else ["MASE, mean"]
        )
        for heading in headings:
            table.add_column(heading, justify="right")
        return
    for name in features[:MAX_FEATURES_SHOWN] if scaled else ():
        table.add_column(f"RMSE, {_heading(scored, name)}", justify="right")
    more = len(features) - MAX_FEATURES_SHOWN
    if scaled and more > 0:
        table.caption = f"RMSE of {counted(more, 'more feature')}: see evaluate --json"
        table.caption_justify = "left"


def error_cells(scored: Mapping[str, Any], loss: float, name: str) -> list[str]:
    """Format the errors of a forecast as cells for the columns that `add_error_columns` adds.

    Args:
        scored: the content of `summary.json`, or the result of `Evaluation.as_plain`.
        loss: the mean squared error of the forecast.
        name: the name of the forecast, which is "this model" or the name of a baseline.
    """
    cells = [f"{loss:.4f}"]
    if name == "this model":
        cells += _measure_cells(scored["measures"])
    metrics = scored.get("metrics")
    if metrics is not None:
        if name in metrics["errors"]:
            mean = metrics["errors"][name]["mase_mean"]
            cells += (
                _feature_cells(metrics, name, 0) if len(scored["features"]) == 1
                else [_format_error(mean, metrics, None)]
            )  # fmt: skip
    elif scored["scaled"] and name in scored["rmse"]:
        cells += ["not observed" if error is None else f"{error:.4g}"
                  for error in scored["rmse"][name][:MAX_FEATURES_SHOWN]]  # fmt: skip
    return cells


def _measure_cells(measures: Mapping[str, Any]) -> list[str]:
    return [f"{measures[measure]:.2%}" for measure in SYMBOL_MEASURES if measure in measures]


def measure_rows(scored: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each baseline that has measures of symbols, but no loss.

    Args:
        scored: the content of `summary.json`, or the result of `Evaluation.as_plain`.
    """
    rows = [(name, _measure_cells(each)) for name, each in scored["baseline_measures"].items()]
    return [[name, "", *cells] for name, cells in rows if cells]


def describe_text_measures(measures: Mapping[str, Any]) -> list[str]:
    """Return a line for each of BLEU and chrF, with the signature of sacrebleu.

    Args:
        measures: the measures of a model. If they have neither, the returned list is empty.
    """
    signatures = measures.get("signatures", {})
    return [f"{name}: {measures[key]:.2f} ({signatures[key]})"
            for key, name in (("bleu", "BLEU"), ("chrf", "chrF")) if key in measures]  # fmt: skip


def feature_tables(scored: Mapping[str, Any]) -> list[Table]:
    """Return a table for each of the first `MAX_FEATURES_SHOWN` features, with the errors of all
    forecasts.

    The list of tables is empty if there is only one feature, or if the results do not contain the
    MAE, RMSE and MASE.

    Args:
        scored: the content of `summary.json`, or the result of `Evaluation.as_plain`.
    """
    from rich.table import Table

    metrics, features = scored.get("metrics"), scored["features"]
    if metrics is None or len(features) == 1:
        return []
    tables = []
    for f, feature in enumerate(features[:MAX_FEATURES_SHOWN]):
        unit = scored.get("units", {}).get(feature, "units of the data")
        table = Table(title=f"{feature[:40]}, in {unit}", title_justify="left")
        table.add_column("")
        for measure in MEASURES:  # the MASE has no unit
            name = feature[:20] if measure == "mase" else _heading(scored, feature)
            table.add_column(f"{measure.upper()}, {name}", justify="right")
        for name in _sort_by_rmse(metrics["errors"], f):
            style = "bold" if name == "this model" else ""
            table.add_row(name, *_feature_cells(metrics, name, f), style=style)
        tables.append(table)
    more = len(features) - MAX_FEATURES_SHOWN
    if more > 0:
        tables[-1].caption = f"Errors of {counted(more, 'more feature')}: see evaluate --json"
        tables[-1].caption_justify = "left"
    return tables


def _heading(scored: Mapping[str, Any], feature: str) -> str:
    from seqattn.data.units import with_unit

    return with_unit(feature, scored.get("units", {}), feature[:20])


def _sort_by_rmse(errors: Mapping[str, Any], f: int) -> Sequence[str]:
    """Return the names of the forecasts, sorted by the RMSE of feature `f`."""
    return sorted(errors, key=lambda name: errors[name]["rmse"][f] or 0.0)


def _feature_cells(metrics: Mapping[str, Any], name: str, f: int) -> list[str]:
    errors = metrics["errors"][name]
    if errors["mae"][f] is None:
        return ["not observed"] * len(MEASURES)
    return [_format_error(errors[measure][f], metrics, f) for measure in MEASURES]


def _format_error(value: float | None, metrics: Mapping[str, Any], f: int | None) -> str:
    """Format the error of feature `f`, or the error over all features if `f` is None.

    If the error is None, the result is the reason: "not observed" or "undefined".
    """
    if value is not None:
        return f"{value:.4g}"
    scale = metrics["mase_scale"]
    has_scale = any(each is not None for each in scale) if f is None else scale[f] is not None
    return "not observed" if has_scale else "undefined"
