"""Sequences and forecasts as files, in the forms that `read_pieces` reads back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.steps import step_text
from seqattn.data.sequences import Floats, Sequences
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import DataError, UsageError

SEQUENCE, STEP = "sequence", "step"
A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
A_DAY = 86_400 * A_SECOND["us"]
DIGITS = 8  # significant ones that a model's float32 can have


def arrow() -> Any:
    """pyarrow, or the word of how to get it.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "CSV, TSV, Parquet and Arrow files are read with pyarrow, which is not installed: pip"
            " install pyarrow (it is the extra seqattn[data]). JSON lines, NPZ and NPY need"
            " nothing more."
        ) from None
    return pa


class Steps:
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
        found = self.spacing.after(self.last, steps)
        if found.dtype.kind != "M":
            found[self.unknown] = np.arange(1, steps + 1)
        return found

    @classmethod
    def counted(cls, lengths: NDArray[np.int64]) -> Steps:
        """Of sequences whose steps are counted from 1."""
        return cls(lengths.astype(np.float64), Spacing.alike(len(lengths), Frequency("number", 1)))

    @classmethod
    def of_sources(cls, part: Sequences, lengths: NDArray[np.int64] | None = None) -> Steps:
        """After the sources of a part.

        Args:
            lengths: of the sequences that the sources are the ends of; None: they are whole.
        """
        if part.last_steps is None or part.spacing is None:
            return cls.counted(part.source_lengths if lengths is None else lengths)
        return cls(part.last_steps, part.spacing)


def rounded(forecast: Floats, scale: Floats | None = None) -> NDArray[np.floating]:
    """A forecast without digits that a model cannot know: float32 as it is, or where it was scaled
    back, rounded to what float32 can tell apart.

    Args:
        forecast: (N, T, F).
        scale: (F,) of the scaling; None: there was none.
    """
    if scale is None:
        return forecast.astype(np.float32)
    decimals = [DIGITS - 1 - math.floor(math.log10(size)) for size in scale]
    columns = [np.round(forecast[..., i], min(d, 300)) for i, d in enumerate(decimals)]
    return np.stack(columns, axis=-1)


class TableWriter:
    """Forecasts as a long table: CSV, TSV, Parquet or Arrow; a stretch at a time.

    Raises:
        UsageError: no pyarrow.
    """

    def __init__(
        self, file: BinaryIO, form: str, features: Sequence[str], sequence: str = SEQUENCE,
        order: str = STEP,
    ) -> None:  # fmt: skip
        self.pa = arrow()
        self.file, self.form, self.features = file, form, list(features)
        self.names = [sequence, order, *features]
        self.separator = "\t" if form == "tsv" else ","
        self.writer: Any = None
        if form in ("csv", "tsv"):
            head = self.separator.join(quoted(name, self.separator) for name in self.names)
            file.write(f"{head}\n".encode())

    def write(self, ids: Sequence[str], steps: NDArray[Any], values: NDArray[np.floating]) -> None:
        """
        Args:
            ids: N names.
            steps: (N, T); NaT where no date is known: a text file counts from 1 instead.
            values: (N, T, F).

        Raises:
            DataError: a Parquet or Arrow file, and a sequence without dates.
        """
        pa = self.pa
        N, T, F = values.shape
        whole = steps.dtype.kind == "f" and bool((steps == np.round(steps)).all())
        flat = steps.reshape(-1)
        no_date = np.isnat(flat) if flat.dtype.kind == "M" else np.zeros(len(flat), dtype=bool)
        if no_date.any() and self.form not in ("csv", "tsv"):
            name = ids[int(no_date.argmax()) // T]
            raise DataError(
                f"sequence {name!r}: its dates are not evenly spaced, so those of its forecast are"
                f" not known, and a {self.form} file has no place for numbers among dates. Write"
                " CSV or JSON lines."
            )
        at = pa.array(flat.astype(np.int64) if whole else flat)
        columns = [pa.array(np.ascontiguousarray(values[..., i]).reshape(-1)) for i in range(F)]
        rows = np.repeat(np.arange(N), T)
        if self.form in ("csv", "tsv"):
            names = pa.array([quoted(name, self.separator) for name in ids], pa.string()).take(rows)
            texts = pa.compute.cast(at, pa.string())
            if flat.dtype.kind == "M":
                counted = flat[~no_date].astype(np.int64)
                days, seconds = (not (counted % unit).any() for unit in (A_DAY, A_SECOND["us"]))
                if seconds:
                    at = at.cast(pa.timestamp("s"))
                texts = pa.compute.strftime(at, "%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S")
                numbers = pa.array(np.tile(np.arange(1, T + 1), N)).cast(pa.string())
                texts = pa.compute.coalesce(texts, numbers)
            cells = [pa.compute.cast(column, pa.string()) for column in columns]
            lines = pa.compute.binary_join_element_wise(names, texts, *cells, self.separator)
            self.file.write(("\n".join(lines.to_pylist()) + "\n").encode() if N * T else b"")
            return
        table = pa.table([pa.array(ids, pa.string()).take(rows), at, *columns], names=self.names)
        if self.writer is None:
            make = pa.parquet.ParquetWriter if self.form == "parquet" else pa.ipc.new_file
            self.schema = table.schema
            self.writer = make(self.file, self.schema)
        self.writer.write_table(table.cast(self.schema))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def quoted(text: str, separator: str = ",") -> str:
    """A cell of a CSV file."""
    if any(sign in text for sign in (separator, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


def json_line(name: str, described: dict[str, NDArray[np.floating]]) -> str:
    """An object a line: id, and lists of points; NaN becomes null."""
    lists = {
        key: [[_number(v) for v in point] for point in points] for key, points in described.items()
    }
    return json.dumps({"id": name, **lists}, ensure_ascii=False, allow_nan=False) + "\n"


def _number(value: np.floating) -> float | None:
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
        "said": np.array(list(part.said), dtype=np.str_),
        "labels": np.array(list(part.labels), dtype=np.str_),
        "source": real(part.source, part.source_keep),
        "source_lengths": part.source_lengths,
        "forecast": real(forecast, part.target_keep) if with_target else forecast,
    }
    if with_target:
        arrays["target"] = np.where(part.target_cells, part.target, np.nan)
        arrays["target_lengths"] = part.target_lengths
    return arrays


# --- whole sequences ------------------------------------------------------------------------------


def write_sequences(
    part: Sequences, form: str, *, wide: bool = False, goes_on: bool
) -> tuple[bytes, str]:
    """Sequences as the content of a file, and the `data:` section that reads it.

    Args:
        form: one of `FORMATS`.
        wide: a table of a sequence a row.
        goes_on: the target goes on where the source ends, so both are one path. In a table others
            get columns of their own for the target.

    Raises:
        UsageError: a form that cannot hold them, or no pyarrow.
    """
    source = [p[:n] for p, n in zip(part.source, part.source_lengths, strict=True)]
    target = [p[:n] for p, n in zip(part.target, part.target_lengths, strict=True)]
    if form == "jsonl":
        lines = [
            json_line(name, {"source": s, "target": t})
            for name, s, t in zip(part.ids, source, target, strict=True)
        ]
        names = ", ".join(part.features)
        return "".join(lines).encode(), f"  features: [{names}]\n"
    if form == "npz":
        arrays = forecast_arrays(part, part.target, with_target=True)
        kept = ("ids", "features", "said", "source", "source_lengths", "target", "target_lengths")
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{key: arrays[key] for key in kept})
        return buffer.getvalue(), ""
    cut = _one_cut(part)
    if (form == "npy" or wide) and not goes_on:
        raise UsageError(
            f"{'a wide table' if wide else 'NPY'} has one path a sequence, and these have sources"
            " and targets of their own. Write JSON lines or NPZ."
        )
    if goes_on:
        if cut is None:
            raise UsageError(
                "tables and NPY have one path a sequence, and no one number says where the sources"
                " of these end. Write JSON lines or NPZ."
            )
        paths = [np.concatenate(both) for both in zip(source, target, strict=True)]
        columns = list(part.features)
        section = cut
    else:
        longest = [max(len(s), len(t)) for s, t in zip(source, target, strict=True)]
        paths = [
            np.concatenate([_stretched(s, n), _stretched(t, n)], axis=1)
            for s, t, n in zip(source, target, longest, strict=True)
        ]
        told = [f"target_{name}" for name in part.said]
        columns = [*part.features, *told]
        section = (
            f"  source_features: [{', '.join(part.features)}]\n"
            f"  target_features: [{', '.join(told)}]\n"
        )
    if form == "npy":
        buffer = io.BytesIO()
        L = max(map(len, paths))
        np.save(buffer, np.stack([_stretched(path, L) for path in paths]), allow_pickle=False)
        return buffer.getvalue(), section
    return _table(part.ids, paths, columns, form, wide=wide), section


def _one_cut(part: Sequences) -> str | None:
    """What says where sources end, in all of them; None where nothing short does."""
    if (part.source_lengths == part.source_lengths[0]).all():
        return f"  source_length: {part.source_lengths[0]}\n"
    if (part.target_lengths == part.target_lengths[0]).all():
        return f"  target_length: {part.target_lengths[0]}\n"
    return None


def _stretched(path: Floats, length: int) -> Floats:
    more = np.full((length - len(path), path.shape[1]), np.nan)
    return np.concatenate([path, more])


def _table(
    ids: Sequence[str], paths: Sequence[Floats], columns: Sequence[str], form: str, *, wide: bool
) -> bytes:
    pa = arrow()
    if wide:
        L = max(map(len, paths))
        rows = np.stack([_stretched(path, L) for path in paths]).reshape(len(paths), -1)
        names = [f"{name}_{step}" for step in range(1, L + 1) for name in columns]
        table = pa.table([pa.array(ids), *map(_or_null, rows.T)], names=[SEQUENCE, *names])
    else:
        values = np.concatenate(list(paths))
        lengths = [len(path) for path in paths]
        steps = np.concatenate([np.arange(1, n + 1) for n in lengths])
        named = pa.array(ids).take(pa.array(np.repeat(np.arange(len(paths)), lengths)))
        table = pa.table(
            [named, pa.array(steps), *map(_or_null, values.T)], names=[SEQUENCE, STEP, *columns]
        )
    buffer = io.BytesIO()
    if form in ("csv", "tsv"):
        separator = "\t" if form == "tsv" else ","
        lines = [separator.join(quoted(name, separator) for name in table.column_names)]
        cells = [column.to_pylist() for column in table.columns]
        rows_of_cells = zip(*cells, strict=True)
        lines += [separator.join(_cell(v, separator) for v in row) for row in rows_of_cells]
        return ("\n".join(lines) + "\n").encode()
    if form == "parquet":
        pa.parquet.write_table(table, buffer)
    elif form == "arrow":
        with pa.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table)
    else:
        raise DataError(f"there is no format {form!r}.")
    return buffer.getvalue()


def _or_null(values: Floats) -> Any:
    pa = arrow()
    return pa.array(values, from_pandas=True)


def _cell(value: Any, separator: str) -> str:
    if value is None:
        return ""
    return quoted(value, separator) if isinstance(value, str) else repr(value)


__all__ = [
    "SEQUENCE",
    "STEP",
    "Steps",
    "TableWriter",
    "forecast_arrays",
    "json_line",
    "rounded",
    "step_text",
    "write_sequences",
]
