"""Sequences and forecasts as files, in the forms that `read_chunks` reads back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.style import DEFAULT_STYLE, TableStyle
from seqattn.data.files.table_file import TEXT_FORMATS, TableFile
from seqattn.data.sequences import Floats, Sequences
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import DataError

SEQUENCE, STEP = "sequence", "step"
FLOAT32_DIGITS = 8  # significant ones that a model's float32 can have


class ForecastSteps:
    """What the steps after each sequence's last are called: they go on as each is spaced.

    Args:
        last: (N,) numbers or dates.
        spacing: of N sequences.
    """

    def __init__(self, last: NDArray[Any], spacing: Spacing) -> None:
        self.last, self.spacing = last, spacing

    @property
    def unknown(self) -> NDArray[np.int64]:
        """Which sequences have steps that nobody can go on from."""
        return np.flatnonzero(~self.spacing.is_known)

    def after(self, steps: int) -> NDArray[Any]:
        """(N, steps) numbers, or dates. Where the spacing is unknown, numbers are counted from 1
        and dates are NaT."""
        found = self.spacing.steps_after(self.last, steps)
        if found.dtype.kind != "M":
            found[self.unknown] = np.arange(1, steps + 1)
        return found

    @classmethod
    def counted(cls, lengths: NDArray[np.int64]) -> ForecastSteps:
        """Of sequences whose steps are counted from 1."""
        return cls(
            lengths.astype(np.float64), Spacing.uniform(len(lengths), Frequency("number", 1))
        )

    @classmethod
    def of_sources(cls, part: Sequences, lengths: NDArray[np.int64] | None = None) -> ForecastSteps:
        """After the sources of a part.

        Args:
            lengths: of the sequences that the sources are the ends of; None: they are whole.
        """
        if part.last_steps is None or part.spacing is None:
            return cls.counted(part.source_lengths if lengths is None else lengths)
        return cls(part.last_steps, part.spacing)


def round_forecast(forecast: Floats, scale: Floats | None = None) -> NDArray[np.floating]:
    """A forecast without digits that a model cannot know: float32 as it is, or where it was scaled
    back, rounded to what float32 can tell apart.

    Args:
        forecast: (N, T, F).
        scale: (F,) of the scaling; None: there was none.
    """
    if scale is None:
        return forecast.astype(np.float32)
    decimals = [FLOAT32_DIGITS - 1 - math.floor(math.log10(size)) for size in scale]
    columns = [np.round(forecast[..., i], min(d, 300)) for i, d in enumerate(decimals)]
    return np.stack(columns, axis=-1)


class TableWriter:
    """Forecasts as a long table: CSV, TSV, Parquet or Arrow; a stretch at a time.

    Args:
        style: how the file that was read is written; several `series` take ids of as many parts.

    Raises:
        UsageError: Arrow, and no pyarrow.
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
        """
        Args:
            ids: N names, or N tuples of a word for each column of the series.
            steps: (N, T); NaT where no date is known: a text file counts from 1 instead.
            values: (N, T, F).

        Raises:
            DataError: a Parquet or Arrow file, and a sequence without dates.
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
        """Write what is left."""
        self.table.close()

    def discard(self) -> None:
        """Leave off: what is not written yet is lost."""
        self.table.discard()


def _unused_name(name: str, taken: Sequence[str]) -> str:
    """A name for a column that no other column has."""
    while name in taken:
        name += "_"
    return name


def json_line(name: str, described: dict[str, NDArray[np.floating]]) -> str:
    """An object a line: id, and lists of points; NaN becomes null."""
    lists = {
        key: [[_json_number(v) for v in point] for point in points]
        for key, points in described.items()
    }
    return json.dumps({"id": name, **lists}, ensure_ascii=False, allow_nan=False) + "\n"


def _json_number(value: np.floating) -> float | None:
    """The shortest number that reads back as the same."""
    return float(str(value)) if np.isfinite(value) else None


def forecast_arrays(
    part: Sequences, forecast: Floats, *, with_target: bool
) -> dict[str, NDArray[np.generic]]:
    """Sequences and their forecasts as arrays for an NPZ; cells at padding, and target cells that
    were not observed, are NaN.

    Args:
        forecast: (N, T, F).
        with_target: the true continuation is known and goes in, beside a forecast cut to it.
    """

    def real(points: Floats, keep: NDArray[np.bool_]) -> Floats:
        return np.where(keep[:, :, None], points, np.nan)

    arrays: dict[str, NDArray[np.generic]] = {
        "ids": np.array(list(part.ids), dtype=np.str_),
        "features": np.array(list(part.features), dtype=np.str_),
        "said": np.array(list(part.target_features), dtype=np.str_),
        "labels": np.array(list(part.labels), dtype=np.str_),
        "source": real(part.source, part.source_keep),
        "source_lengths": part.source_lengths,
        "forecast": real(forecast, part.target_keep) if with_target else forecast,
    }
    if with_target:
        arrays["target"] = np.where(part.target_cells, part.target, np.nan)
        arrays["target_lengths"] = part.target_lengths
    return arrays
