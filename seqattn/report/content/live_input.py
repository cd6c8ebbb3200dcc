"""The format of the CSV file in which a page saves an input for `seqattn predict --input`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqattn.analysis.evaluation.inputs import input_config
from seqattn.config import OwnFile
from seqattn.config.data import column_names

if TYPE_CHECKING:
    from seqattn.data.reading import Reading
    from seqattn.training import LoadedModel

GENERATED_FORM: dict[str, Any] = {
    "series": "sequence", "time": "step", "interval": 1, "delimiter": ",", "decimal": ".",
    "one_hot": {}, "window": None, "settings": [],
}  # fmt: skip
"""The format for a model that was trained on generated sequences."""


def input_form(trained: LoadedModel) -> dict[str, Any]:
    """Return the format of the file from which `predict --input` reads one source for a model.

    Returns:
        The column of the series id (None: the file has none), the column of the time (None: rows
        are in order) and the interval between two rows, the delimiter, the decimal mark, the
        one-hot columns with their words, the number of rows that are read (None: all), and the
        values of `--set` that `predict` needs for this format.
    """
    config = trained.config.data
    if not isinstance(config, OwnFile):
        return GENERATED_FORM
    config, reading, settings = input_config(trained), trained.spec.reading, list[str]()
    is_wide = config.layout == "wide" or (reading is not None and reading.layout == "wide")
    if is_wide:
        settings.append("data.layout=long")
    series = _series_column(config, reading, settings, is_wide)
    time, interval = _time_column(trained, config, reading, settings, is_wide)
    written = {"format": ("csv", "auto"), "header": (True, None), "comment": (None,),
               "skip_rows": (0,), "encoding": (None, "utf-8")}  # fmt: skip
    values = {"format": "csv", "header": "true", "comment": "null", "skip_rows": "0",
              "encoding": "utf-8"}  # fmt: skip
    settings += [
        f"data.{key}={values[key]}"
        for key, fine in written.items()
        if getattr(config, key) not in fine
    ]
    return {
        "series": series, "time": time, "interval": interval,
        "delimiter": config.delimiter or ",",
        "decimal": "," if config.decimal == "," else ".",
        "one_hot": _words(config, trained.spec.source_features),
        "window": None if config.window is None else config.window.source,
        "settings": settings,
    }  # fmt: skip


def _columns(
    option: list[str] | None, trained: tuple[str, ...] | None, default: str
) -> tuple[str, ...]:
    """Return the columns of a role, from the config, from the training data or from `default`."""
    if option != ["auto"]:
        return column_names(option)
    return (default,) if trained is None else trained


def _series_column(
    config: OwnFile, reading: Reading | None, settings: list[str], is_wide: bool
) -> str | None:
    """Return the column of the series id; None if the file has no such column.

    If `predict` would expect a missing column, the function appends a setting to `settings`.
    """
    columns = _columns(
        config.series, None if reading is None else reading.series_columns, "sequence"
    )
    if is_wide or len(columns) > 1:
        settings.append("data.series=null")
        return None
    return columns[0] if columns else None


def _time_column(
    trained: LoadedModel, config: OwnFile, reading: Reading | None, settings: list[str],
    is_wide: bool,
) -> tuple[str | None, int]:  # fmt: skip
    """Return the time column and the interval between rows; None and 1 if there is no such column.

    If `predict` would expect a missing column, the function appends a setting to `settings`. A time
    column must contain numbers at an integer interval. Dates are left out, because the dates of a
    changed source are unknown and a forecast does not depend on them.
    """
    columns = _columns(config.time, None if reading is None else reading.time_columns, "step")
    frequency = trained.spec.frequency
    if not columns and not is_wide:
        return None, 1
    if reading is None and config.time == ["auto"] and not is_wide:
        return columns[0], 1
    is_counter = frequency is not None and frequency.unit == "number" and frequency.step % 1 == 0
    if len(columns) == 1 and is_counter and not is_wide and frequency is not None:
        return columns[0], int(frequency.step)
    settings.append("data.time=null")
    return None, 1


def _words(config: OwnFile, features: tuple[str, ...]) -> dict[str, list[str]]:
    """Return, for each one-hot column, the words that are features of the source."""
    found = {
        column: [name.partition("=")[2] for name in features if name.startswith(f"{column}=")]
        for column in config.one_hot or ()
    }
    return {column: words for column, words in found.items() if words}
