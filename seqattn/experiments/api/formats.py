"""Results as DataFrames, as arrays with named axes, and as the HTML that a notebook shows.

The HTML has a table and, if there are results, pictures. All text is escaped, the pictures are PNG
data, and the HTML contains no script.
"""

from __future__ import annotations

import base64
import contextlib
import html
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.comparison import ComparisonResult, describe_result
from seqattn.analysis.comparison.columns import pair_results, seed_results, variant_results
from seqattn.analysis.comparison.tables import describe_references, variant_table
from seqattn.errors import SeqattnError, UsageError, install_command
from seqattn.runs import METRICS, RunFolder

if TYPE_CHECKING:
    import xarray

Library: TypeAlias = Literal["pandas", "polars"]
Columns: TypeAlias = Mapping[str, Sequence[Any] | NDArray[Any]]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def make_frame(columns: Columns, library: Library | None) -> Any:
    """Make a DataFrame from columns.

    None and NaN both mean an unknown number. Both become NaN in pandas and null in polars.
    """
    module = _import_library(library)
    if module.__name__ == "polars":
        return module.DataFrame({
            name: [
                None if isinstance(cell, float) and math.isnan(cell) else cell
                for cell in np.asarray(cells, dtype=object).tolist()
            ]
            for name, cells in columns.items()
        })  # fmt: skip
    return module.DataFrame({
        name: np.full(len(cells), math.nan) if all(cell is None for cell in cells) else cells
        for name, cells in columns.items()
    })  # fmt: skip


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
    """Return the columns of `metrics.csv`, with one row for each epoch."""
    records = folder.read_metrics()
    names = records[0].as_dict() if records else METRICS
    return {name: [getattr(record, name) for record in records] for name in names}


def columns_of_predictions(arrays: Mapping[str, NDArray[Any]]) -> Columns:
    """Return the forecasts of the test sequences in long format.

    The table has a row for each sequence, target step and target feature. The columns are
    `sequence` (the id), `label` (if the sequences have labels), `step` (counted from 1), `feature`,
    `target` (NaN if it was not observed) and `forecast`. Targets and forecasts are in the units of
    the data.
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
    """Return the columns of a table of a comparison or of seeds. The tables "metrics" and
    "predictions" join the columns of the runs, below the columns `variant` and `seed`."""
    match check_table(table, tables):
        case "variants":
            return variant_results(result).as_columns()
        case "pairs":
            return pair_results(result).as_columns()
        case "seeds":
            return seed_results(result).as_columns()
    found: dict[str, list[Any]] = {}
    rows = 0
    for variant in result.variants:
        for seed, folder in variant.folders.items():
            if table == "metrics" and folder.metrics.exists():
                columns = metrics_columns(folder)
            elif table == "predictions" and seed in variant.summaries:
                columns = columns_of_predictions(folder.read_predictions())
            else:
                continue
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


def check_table(table: str, tables: Iterable[str]) -> str:
    """Check the name of a table, and return it."""
    if table not in tables:
        raise UsageError(f"table {table!r}: expected one of {', '.join(tables)}.")
    return table


# --- arrays with named axes -----------------------------------------------------------------------

ArrayLibrary: TypeAlias = Literal["xarray", "numpy"]
LabelledWeights: TypeAlias = "xarray.DataArray | LabelledArray"
STEP_AXES = {
    "cross": ("target_step", "source_step"),
    "encoder_self": ("query_step", "key_step"),
    "decoder_self": ("query_step", "key_step"),
}
"""The names of the last two axes, by kind of attention."""
KEYS = {"cross": "weights", "encoder_self": "encoder_self", "decoder_self": "decoder_self"}
"""The names of the arrays in an attention file, by kind of attention."""


class LabelledArray(NamedTuple):
    """An array with named axes. Its fields have the same names as attributes of `xarray.DataArray`.

    Attributes:
        values: the array.
        dims: the name of each axis.
        coords: the labels along each axis, by axis name.
        attrs: the `kind` of attention and the `meaning` of the weights.
    """

    values: NDArray[Any]
    dims: tuple[str, ...]
    coords: Mapping[str, NDArray[Any]]
    attrs: Mapping[str, str]


def label_weights(
    arrays: Mapping[str, NDArray[Any]], kind: str, library: ArrayLibrary | None
) -> LabelledWeights:
    """Label the axes of attention weights.

    Args:
        arrays: the arrays of an attention file, with NaN in padded cells.
        library: "xarray" for a DataArray, "numpy" for a `LabelledArray`. With None, the result is
            a DataArray if xarray is installed, and otherwise a `LabelledArray`.

    Raises:
        UsageError: if the model does not have this kind of attention, if the library is unknown, or
            if xarray is not installed.
    """
    found = [name for name, key in KEYS.items() if key in arrays]
    if kind not in found:
        raise UsageError(f"kind {kind!r}: this model has {', '.join(found)}.")
    if library not in (None, "xarray", "numpy"):
        raise UsageError(f"library {library!r}: expected xarray, numpy or None.")
    weights = arrays[KEYS[kind]]
    dims = ("sequence", "layer", "head", *STEP_AXES[kind])
    _, L, A, rows, columns = weights.shape
    labels = (
        arrays["ids"],
        np.arange(L),
        np.arange(A),
        1 + np.arange(rows),
        1 + np.arange(columns),
    )
    attrs = {"kind": kind, "meaning": str(arrays["meaning"])}
    labelled = LabelledArray(weights, dims, dict(zip(dims, labels, strict=True)), attrs)
    if library == "numpy":
        return labelled
    try:
        import xarray
    except ImportError:
        if library == "xarray":
            raise UsageError(
                f"A DataArray needs xarray, which is not installed: {install_command('xarray')}"
            ) from None
        return labelled
    return xarray.DataArray(*labelled[:1], dims=dims, coords=labelled.coords, attrs=attrs,
                            name="attention")  # fmt: skip


# --- HTML -----------------------------------------------------------------------------------------

Pictures = Iterable[tuple[str, bytes]]


def as_html(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    pictures: Pictures = (),
) -> str:
    """Return HTML with a title, a table, sentences and pictures.

    Args:
        pictures: pairs of a description and the content of a PNG file.
    """
    cell = '<{0} style="text-align:left">{1}</{0}>'
    lines = ["<div>", f"<p><strong>{_text(title)}</strong></p>", "<table>"]
    if headings:
        lines.append(f"<tr>{''.join(cell.format('th', _text(name)) for name in headings)}</tr>")
    lines += [f"<tr>{''.join(cell.format('td', _text(each)) for each in row)}</tr>" for row in rows]
    lines += ["</table>", *(f"<p>{_text(note)}</p>" for note in notes)]
    lines += [
        f'<img alt="{_text(name)}" style="max-width:100%"'
        f' src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        for name, content in pictures
    ]
    return "\n".join([*lines, "</div>"])


def _text(text: object) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in str(text))
    return html.escape(printable)


def run_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Return rows with the results of a run, from its `summary.json`."""
    losses = {
        f"test loss (best epoch, {summary['best_epoch']})": summary["test_loss"],
        "test loss, teacher-forced": summary["test_loss_teacher_forced"],
        "noise floor": summary["noise_floor"],
        **{f"baseline: {name}": loss for name, loss in summary["baselines"].items()},
    }
    rows = [[name, f"{loss:.4f}"] for name, loss in losses.items() if loss is not None]
    accuracy = (summary["attention"] or {}).get("alignment_accuracy")
    if accuracy is not None:
        rows.append(["largest weight at the true source step", f"{accuracy:.1%}"])
    return [*rows, ["epochs", str(summary["epochs"])],
            ["parameters", f"{summary['parameters']:,}"]]  # fmt: skip


def run_pictures_of(folder: RunFolder, *, only_losses: bool) -> Iterator[tuple[str, bytes]]:
    """Draw the pictures of a run, and yield them with their descriptions. A picture that cannot be
    drawn is left out.

    Args:
        only_losses: whether to leave out the pictures of forecasts and attention weights.
    """
    from seqattn.plots import as_bytes
    from seqattn.plots.run_pictures import figure_of_run

    names = {folder.loss_picture: "losses of each epoch"}
    if not only_losses:
        names[folder.predictions_picture] = "forecasts of test sequences"
        names[folder.attention_picture] = "attention weights"
    for path in folder.pictures:
        with contextlib.suppress(SeqattnError, OSError):
            if path in names:
                yield names[path], as_bytes(figure_of_run(folder, path))


def result_html(result: ComparisonResult, title: str, pictures: Mapping[str, str]) -> str:
    """Return the HTML of a comparison or of several seeds.

    Args:
        pictures: a description of each picture, by its file name in a comparison folder.
    """
    headings, rows = variant_table(result.variants)
    notes = [note for note in (describe_references(result), *describe_result(result)) if note]
    variants = [variant for variant in result.variants if variant.losses]
    drawn: list[tuple[str, bytes]] = []
    if any(variant.summaries for variant in variants):
        from seqattn.plots.comparison_pictures import PICTURES

        for file, name in pictures.items():
            with contextlib.suppress(SeqattnError, OSError):
                if content := PICTURES[file](result, variants):
                    drawn.append((name, content))
    return as_html(title, headings, rows, notes, drawn)
