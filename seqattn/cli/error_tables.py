"""Columns and tables of errors: mean squared errors, and MAE, RMSE and MASE in the data's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqattn.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

MOST_UNITS = 3  # features whose errors have columns or a table of their own
MEASURES = ("mae", "rmse", "mase")


def add_error_columns(table: Table, scored: Mapping[str, Any]) -> None:
    """
    Args:
        scored: a summary, or `Evaluation.as_plain()`.
    """
    scaled, features = scored["scaled"], scored["features"]
    table.add_column("MSE, scaled" if scaled else "mean squared error", justify="right")
    if scored.get("metrics") is not None:
        one = _heading(scored, features[0])
        headings = [f"MAE, {one}", f"RMSE, {one}", "MASE"] if len(features) == 1 else ["MASE, mean"]
        for heading in headings:
            table.add_column(heading, justify="right")
        return
    for name in features[:MOST_UNITS] if scaled else ():
        table.add_column(f"RMSE, {_heading(scored, name)}", justify="right")
    more = len(features) - MOST_UNITS
    if scaled and more > 0:
        table.caption = f"RMSE of {counted(more, 'more feature')}: see evaluate --json"
        table.caption_justify = "left"


def error_cells(scored: Mapping[str, Any], loss: float, name: str) -> list[str]:
    """The cells of `add_error_columns` for a forecast."""
    cells = [f"{loss:.4f}"]
    metrics = scored.get("metrics")
    if metrics is not None:
        if name in metrics["errors"]:
            one = len(scored["features"]) == 1
            mean = metrics["errors"][name]["mase_mean"]
            cells += _of_feature(metrics, name, 0) if one else [_number(mean, metrics, None)]
    elif scored["scaled"] and name in scored["rmse"]:
        cells += ["not observed" if error is None else f"{error:.4g}"
                  for error in scored["rmse"][name][:MOST_UNITS]]  # fmt: skip
    return cells


def feature_tables(scored: Mapping[str, Any]) -> list[Table]:
    """Of several features a table each, with the errors of all forecasts, the smallest first."""
    from rich.table import Table

    metrics, features = scored.get("metrics"), scored["features"]
    if metrics is None or len(features) == 1:
        return []
    tables = []
    for f, feature in enumerate(features[:MOST_UNITS]):
        unit = scored.get("units", {}).get(feature, "its own units")
        table = Table(title=f"{feature[:40]}, in {unit}", title_justify="left")
        table.add_column("")
        for measure in MEASURES:  # MASE is a ratio
            name = feature[:20] if measure == "mase" else _heading(scored, feature)
            table.add_column(f"{measure.upper()}, {name}", justify="right")
        for name in _sorted(metrics["errors"], f):
            style = "bold" if name == "this model" else ""
            table.add_row(name, *_of_feature(metrics, name, f), style=style)
        tables.append(table)
    more = len(features) - MOST_UNITS
    if more > 0:
        tables[-1].caption = f"Errors of {counted(more, 'more feature')}: see evaluate --json"
        tables[-1].caption_justify = "left"
    return tables


def _heading(scored: Mapping[str, Any], feature: str) -> str:
    from seqattn.data.units import with_unit

    return with_unit(feature, scored.get("units", {}), feature[:20])


def _sorted(errors: Mapping[str, Any], f: int) -> Sequence[str]:
    """Forecasts by the RMSE of a feature."""
    return sorted(errors, key=lambda name: errors[name]["rmse"][f] or 0.0)


def _of_feature(metrics: Mapping[str, Any], name: str, f: int) -> list[str]:
    errors = metrics["errors"][name]
    if errors["mae"][f] is None:
        return ["not observed"] * len(MEASURES)
    return [_number(errors[measure][f], metrics, f) for measure in MEASURES]


def _number(value: float | None, metrics: Mapping[str, Any], f: int | None) -> str:
    """A number; without one why not: of feature `f`, or of all."""
    if value is not None:
        return f"{value:.4g}"
    scale = metrics["mase_scale"]
    has_scale = any(each is not None for each in scale) if f is None else scale[f] is not None
    return "not observed" if has_scale else "undefined"
