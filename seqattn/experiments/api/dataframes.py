"""DataFrames of results: metrics, predictions, and the tables of a comparison."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.comparison import ComparisonResult
from seqattn.analysis.comparison.columns import pair_results, seed_results, variant_results
from seqattn.errors import UsageError
from seqattn.runs import METRICS, RunFolder

Library: TypeAlias = Literal["pandas", "polars"]
Columns: TypeAlias = Mapping[str, Sequence[Any] | NDArray[Any]]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def make_frame(columns: Columns, library: Library | None) -> Any:
    """Make a DataFrame from columns.

    None and NaN both mean an unknown number. Both become NaN in pandas and null in polars.

    Args:
        columns: the cells of each column, by column name.
        library: the library of the DataFrame; None for pandas, or polars if pandas is not
            installed.

    Raises:
        UsageError: if the library is unknown or not installed.
    """
    module = _import_library(library)
    if module.__name__ == "polars":
        return module.DataFrame({name: _without_nan(cells) for name, cells in columns.items()})
    return module.DataFrame({
        name: np.full(len(cells), math.nan) if all(cell is None for cell in cells) else cells
        for name, cells in columns.items()
    })  # fmt: skip


def _without_nan(cells: Sequence[Any] | NDArray[Any]) -> list[Any]:
    return [None if isinstance(cell, float) and math.isnan(cell) else cell
            for cell in np.asarray(cells, dtype=object).tolist()]  # fmt: skip


def _import_library(library: Library | None) -> ModuleType:
    if library is not None and library not in LIBRARIES:
        raise UsageError(f"library {library!r}: expected one of {', '.join(LIBRARIES)}, or None.")
    for name in LIBRARIES if library is None else (library,):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    wanted, package = ("pandas or polars", "pandas") if library is None else (library, library)
    raise UsageError(f"A DataFrame needs {wanted}, which is not installed: pip install {package}")


def metrics_columns(folder: RunFolder) -> Columns:
    """Return the columns of `metrics.csv`, with one row for each epoch.

    Raises:
        CheckpointError: if the file cannot be read.
    """
    records = folder.read_metrics()
    return {name: [getattr(record, name) for record in records] for name in METRICS}


def predictions_columns(folder: RunFolder) -> Columns:
    """Return the forecasts in `predictions.npz` in long format; see `columns_of_predictions`.

    Raises:
        CheckpointError: if `predictions.npz` cannot be read.
    """
    return columns_of_predictions(folder.read_predictions())


def columns_of_predictions(arrays: Mapping[str, NDArray[Any]]) -> Columns:
    """Return the forecasts of the test sequences in long format.

    The table has a row for each sequence, target step and target feature. The columns are
    `sequence` (the id), `label` (if the sequences have labels), `step` (counted from 1), `feature`,
    `target` (NaN if it was not observed) and `forecast`. Targets and forecasts are in the units of
    the data.

    Args:
        arrays: the arrays of `predictions.npz`.
    """
    names = arrays["said"]
    _, T, F = arrays["forecast"].shape
    sequences, steps = np.nonzero(np.arange(T) < arrays["target_lengths"][:, None])
    columns = {"sequence": np.repeat(arrays["ids"][sequences], F)}
    if len(arrays["labels"]):
        columns["label"] = np.repeat(arrays["labels"][sequences], F)
    columns["step"] = np.repeat(steps + 1, F)
    columns["feature"] = np.tile(names, len(steps))
    for name in ("target", "forecast"):
        columns[name] = arrays[name][sequences, steps].reshape(-1)
    return columns


def table_columns(result: ComparisonResult, table: str, tables: Iterable[str]) -> Columns:
    """Return the columns of a table of a comparison or of seeds.

    Args:
        result: the results.
        table: the name of the table.
        tables: the names of the available tables.

    Raises:
        UsageError: if the table is not available.
        CheckpointError: if a file cannot be read.
    """
    match check_table(table, tables):
        case "variants":
            return variant_results(result).as_columns()
        case "pairs":
            return pair_results(result).as_columns()
        case "seeds":
            return seed_results(result).as_columns()
        case "metrics":
            return _joined(result, metrics_columns, has_results=False)
        case _:
            return _joined(result, predictions_columns, has_results=True)


def check_table(table: str, tables: Iterable[str]) -> str:
    """Check the name of a table, and return it.

    Raises:
        UsageError: if the table is not available.
    """
    if table not in tables:
        raise UsageError(f"table {table!r}: expected one of {', '.join(tables)}.")
    return table


def _joined(result: ComparisonResult, read: Any, *, has_results: bool) -> Columns:
    """Join the columns of the runs, and put the columns `variant` and `seed` before them.

    Args:
        result: the results.
        read: the function that reads the columns of a run folder.
        has_results: True to join only finished runs; False to join all runs with `metrics.csv`.
    """
    found: dict[str, list[Any]] = {}
    rows = 0
    for variant in result.variants:
        for seed, folder in variant.folders.items():
            if not (seed in variant.summaries if has_results else folder.metrics.exists()):
                continue
            columns = read(folder)
            count = len(next(iter(columns.values())))
            whole = {"variant": [variant.name] * count, "seed": [seed] * count, **columns}
            for name, cells in whole.items():
                found.setdefault(name, [None] * rows).extend(
                    cells.tolist() if isinstance(cells, np.ndarray) else cells
                )
            rows += count
            for name in found.keys() - whole.keys():
                found[name] += [None] * count
    return found
