"""Writers of files with sequences and forecasts. `read_chunks` can read these files."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.table_file import TEXT_FORMATS, TableFile
from seqattn.data.sequences import Floats, Sequences
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.table_style import DEFAULT_STYLE, TableStyle
from seqattn.errors import DataError

SEQUENCE, STEP = "sequence", "step"
FLOAT32_DIGITS = 8  # number of significant digits of float32


class ForecastSteps:
    """The times of forecast steps, which continue each sequence at its own step interval.

    Args:
        last: (N,) time of the last step, as numbers or dates.
        spacing: step interval of each sequence.
    """

    def __init__(self, last: NDArray[Any], spacing: Spacing) -> None:
        self.last, self.spacing = last, spacing

    @property
    def unknown(self) -> NDArray[np.int64]:
        """Indices of the sequences with an unknown step interval."""
        return np.flatnonzero(~self.spacing.is_known)

    def after(self, steps: int) -> NDArray[Any]:
        """Return the times after the last step as an array (N, steps) of numbers or dates. For a
        sequence with an unknown step interval, the times are the numbers 1, 2, ... or NaT dates."""
        found = self.spacing.steps_after(self.last, steps)
        if found.dtype.kind != "M":
            found[self.unknown] = np.arange(1, steps + 1)
        return found

    @classmethod
    def counted(cls, lengths: NDArray[np.int64]) -> ForecastSteps:
        """Return the times of forecasts for sequences in which steps are counted from 1."""
        return cls(
            lengths.astype(np.float64), Spacing.uniform(len(lengths), Frequency("number", 1))
        )

    @classmethod
    def of_sources(cls, part: Sequences, lengths: NDArray[np.int64] | None = None) -> ForecastSteps:
        """Return the times of forecasts that follow the sources of a part.

        Args:
            part: the sequences.
            lengths: (N,) length of the whole series that ends with each source, or None if the
                sources are whole series.
        """
        if part.last_steps is None or part.spacing is None:
            return cls.counted(part.source_lengths if lengths is None else lengths)
        return cls(part.last_steps, part.spacing)


def round_forecast(forecast: Floats, scale: Floats | None = None) -> NDArray[np.floating]:
    """Round a forecast to the precision of float32.

    Args:
        forecast: (N, T, F) forecast in the user's units.
        scale: (F,) scale of each target feature, or None if the forecast was not scaled. The scale
            determines the number of decimals. Without a scale, the forecast is cast to float32.
    """
    if scale is None:
        return forecast.astype(np.float32)
    decimals = [FLOAT32_DIGITS - 1 - math.floor(math.log10(size)) for size in scale]
    columns = [np.round(forecast[..., i], min(d, 300)) for i, d in enumerate(decimals)]
    return np.stack(columns, axis=-1)


class TableWriter:
    """A writer of forecasts in the form of a long table. Forecasts are written block by block.

    Args:
        file: an open binary file.
        form: csv, tsv, parquet or arrow.
        features: names of the features.
        style: style of the input file. If the style has several `series` columns, each id has one
            part per column.

    Raises:
        UsageError: if the format is Arrow and pyarrow is not installed.
    """

    def __init__(
        self, file: BinaryIO, form: str, features: Sequence[str], style: TableStyle = DEFAULT_STYLE
    ) -> None:
        self.form = form
        self.series = style.series or (_unused_name(SEQUENCE, (*features, *style.time)),)
        time = style.time or (_unused_name(STEP, (*features, *self.series)),)
        if not (form in TEXT_FORMATS and len(style.time_formats) == len(time)):
            time = time[:1]
        self.table = TableFile(file, form, [*self.series, *time, *features], style)
        self.times = len(time)

    def write(
        self, ids: Sequence[str | tuple[str, ...]], steps: NDArray[Any],
        values: NDArray[np.floating],
    ) -> None:  # fmt: skip
        """Write the forecasts of N sequences.

        Args:
            ids: N names, or N tuples with one part per series column.
            steps: (N, T) times. In a text file, numbers counted from 1 replace NaT dates.
            values: (N, T, F) forecasts.

        Raises:
            DataError: if a date is NaT in a Parquet or Arrow file, or if the style has several time
                columns but the times are numbers.
        """
        N, T, F = values.shape
        flat = steps.reshape(-1)
        counted = None
        if flat.dtype.kind == "M" and np.isnat(flat).any():
            if self.form not in TEXT_FORMATS:
                name = ids[int(np.isnat(flat).argmax()) // T]
                raise DataError(
                    f"sequence {name!r}: its dates are not evenly spaced, so those of its forecast"
                    f" are not known, and a {self.form} file has no place for numbers among dates."
                    " Write CSV or JSON lines."
                )
            counted = np.tile(np.arange(1, T + 1), N)
        if flat.dtype.kind == "f" and bool((flat == np.round(flat)).all()):
            flat = flat.astype(np.int64)
        words = []
        for i in range(len(self.series)):
            names = np.empty(N, dtype=object)
            names[:] = [name if isinstance(name, str) else name[i] for name in ids]
            words.append(np.repeat(names, T))
        cells = [np.ascontiguousarray(values[..., i]).reshape(-1) for i in range(F)]
        if self.times > 1 and flat.dtype.kind != "M":
            raise DataError("times in several columns are dates, but these steps are numbers.")
        self.table.append([*words, flat, *cells], counted)

    def close(self) -> None:
        """Write the remaining content of the file."""
        self.table.close()

    def discard(self) -> None:
        """Close the writer without writing the remaining content of the file."""
        self.table.discard()


def _unused_name(name: str, taken: Sequence[str]) -> str:
    """Append underscores to `name` until no column has this name, and return the result."""
    while name in taken:
        name += "_"
    return name


def json_line(name: str, described: dict[str, NDArray[np.floating]]) -> str:
    """Return a line of JSON with the id of a sequence and its lists of steps. NaN becomes null."""
    lists = {
        key: [[_json_number(v) for v in point] for point in points]
        for key, points in described.items()
    }
    return json.dumps({"id": name, **lists}, ensure_ascii=False, allow_nan=False) + "\n"


def _json_number(value: np.floating) -> float | None:
    """Return the shortest decimal number that is read back as the same value, or None for a value
    that is not finite."""
    return float(str(value)) if np.isfinite(value) else None


def forecast_arrays(
    part: Sequences, forecast: Floats, *, with_target: bool
) -> dict[str, NDArray[np.generic]]:
    """Return sequences and their forecasts as arrays for an NPZ file. In sources and targets,
    padding is NaN. Unobserved target cells are also NaN. If source cells were filled,
    `source_observed` is the mask of observed source cells.

    Args:
        part: the sequences.
        forecast: (N, T, F) forecast in the user's units.
        with_target: whether the targets are known. If True, the result includes the targets, and
            each forecast is NaN after the last step of its target.
    """

    def mask_padding(points: Floats, keep: NDArray[np.bool_]) -> Floats:
        return np.where(keep[:, :, None], points, np.nan)

    arrays: dict[str, NDArray[np.generic]] = {
        "ids": np.array(list(part.ids), dtype=np.str_),
        "features": np.array(list(part.features), dtype=np.str_),
        "said": np.array(list(part.target_features), dtype=np.str_),
        "labels": np.array(list(part.labels), dtype=np.str_),
        "source": mask_padding(part.source, part.source_keep),
        "source_lengths": part.source_lengths,
        **({} if part.source_observed is None else {"source_observed": part.source_observed}),
        "forecast": mask_padding(forecast, part.target_keep) if with_target else forecast,
    }
    if with_target:
        arrays["target"] = np.where(part.target_cells, part.target, np.nan)
        arrays["target_lengths"] = part.target_lengths
    return arrays
