"""Writers of files with sequences and forecasts, which `read_chunks` can read."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Text
from seqattn.data.chunk import MAX_LINE_BYTES, first_line
from seqattn.data.reading import Reading
from seqattn.data.sequences import Floats, Sequences, valid_mask
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.tables.connection import literal, path_of, sql_call, unnamed_file
from seqattn.data.tokens import Tokens
from seqattn.errors import DataError, UsageError, install_command

TEXT_FORMATS = ("csv", "tsv")
LINKS_COLUMN = "links"
"""The column of known links in files of pairs."""
WRITTEN_ROWS = "rows_to_write"
TYPES = {"O": "VARCHAR", "i": "BIGINT", "M": "TIMESTAMP", "f": "DOUBLE"}
DAY, SECOND = 86_400_000_000, 1_000_000


def import_pyarrow() -> Any:
    """Import and return pyarrow.

    Raises:
        UsageError: if pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            "Arrow files are written with pyarrow, which is not installed. Write Parquet or CSV, or"
            f" install pyarrow: {install_command('data')}"
        ) from None
    return pa


def quote_cell(text: str, separator: str = ",") -> str:
    """Return the text of a cell for a CSV file, in quotes if necessary."""
    if any(sign in text for sign in (separator, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


class TableFile:
    """A writer of rows to a file object, block by block.

    Arrow files are written with pyarrow. For other formats, DuckDB writes each block as text to an
    unnamed temporary file, which is removed even if the process is killed. To limit memory use, the
    rows of a Parquet file are collected as text in a temporary file and converted at the end.

    Args:
        file: the file object. Text and Arrow rows are written block by block. `close` writes all
            rows of a Parquet file.
        form: csv, tsv, parquet or arrow.
        names: names of the columns.
        style: the reading of a text file in the same style, or None for the default style.
    """

    def __init__(
        self, file: BinaryIO, form: str, names: Sequence[str], style: Reading | None = None
    ) -> None:
        self.file, self.form, self.names = file, form, list(names)
        self.style = style = style or Reading()
        self.is_text = form in TEXT_FORMATS
        self.separator = (self.is_text and style.delimiter) or ("\t" if form == "tsv" else ",")
        self.empty = "NA" if self.separator == " " else ""
        self.types: list[str] = []
        self.writer: Any = None
        if form == "arrow":
            self.pa = import_pyarrow()
            return
        import duckdb

        self.failures = duckdb.Error
        self.database = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": "1GB",
                "temp_directory": "",
                "threads": str(min(2, os.cpu_count() or 1)),
            }
        )
        self.spool: Any = None if self.is_text else unnamed_file()
        if self.is_text:
            head = self.separator.join(quote_cell(name, self.separator) for name in self.names)
            file.write(f"{head}\n".encode())

    def append(
        self, columns: Sequence[NDArray[Any]], counted: NDArray[np.int64] | None = None
    ) -> None:
        """Write a block of rows.

        Args:
            columns: arrays (rows,) of strings (dtype object), integers, floats or dates. NaN and
                NaT are empty cells. Dates form a single array, even if the style has several time
                columns.
            counted: (rows,) integers that replace NaT dates in a text file.
        """
        if self.form == "arrow":
            self._append_arrow(columns)
            return
        if not len(columns[0]):
            return
        types = [
            "FLOAT" if column.dtype == np.float32 else TYPES[column.dtype.kind]
            for column in columns
        ]
        before = self.types or types
        self.types = [
            new if old == new else "DOUBLE" for old, new in zip(before, types, strict=True)
        ]
        arrays = {f"c{i}": _to_database_array(column) for i, column in enumerate(columns)}
        if counted is not None:
            arrays["counted"] = counted
        cells = [
            cell
            for i, column in enumerate(columns)
            for cell in self._cells(f"c{i}", column, counted is not None)
        ]
        self.database.register(WRITTEN_ROWS, arrays)
        with unnamed_file() as block_file:
            self._copy(
                f"SELECT {', '.join(cells)} FROM {WRITTEN_ROWS}", block_file,
                f"FORMAT csv, HEADER false, DELIM {literal(self.separator)}, QUOTE '\"', ESCAPE"
                f" '\"', NULLSTR {literal(self.empty)}",
            )  # fmt: skip
            self.database.unregister(WRITTEN_ROWS)
            (self.file if self.is_text else self.spool).write(block_file.read())

    def close(self) -> None:
        """Write the remaining content of the file, and close all temporary files. The file object
        stays open."""
        if self.form == "arrow":
            if self.writer is not None:
                self.writer.close()
            return
        try:
            if self.spool is not None and self.types:
                self.spool.flush()
                source = sql_call(
                    "read_csv", Path(path_of(self.spool)), auto_detect=False, header=False,
                    delim=",", quote='"', escape='"', nullstr="", allow_quoted_nulls=False,
                    parallel=False, max_line_size=MAX_LINE_BYTES,
                    columns=dict(zip(self.names, self.types, strict=True)),
                )  # fmt: skip
                with unnamed_file() as made:
                    self._copy(f"SELECT * FROM {source}", made, "FORMAT parquet")
                    while block := made.read(2**20):
                        self.file.write(block)
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the database and all temporary files without writing the remaining content. The
        writer of an Arrow file has neither a database nor temporary files."""
        if self.form != "arrow":
            self.database.close()
            if self.spool is not None:
                self.spool.close()

    def _copy(self, query: str, to: Any, options: str) -> None:
        """Write the result of a query to a file.

        Raises:
            OSError: if the file cannot be written, for example because the disk is full.
        """
        try:
            self.database.execute(
                f"COPY ({query}) TO {literal(path_of(to))} ({options}, USE_TMP_FILE false)"
            )
        except self.failures as error:
            raise OSError(f"the table could not be written: {first_line(error)}") from None

    def _cells(self, name: str, column: NDArray[Any], may_count: bool) -> list[str]:
        """Return the SQL expressions for the text of a column."""
        if column.dtype.kind == "M":
            return self._dates(name, column, may_count)
        if column.dtype.kind != "f":
            return [name]
        text = f"CAST({name} AS VARCHAR)"
        if self.is_text and self.style.decimal == ",":
            text = f"replace({text}, '.', ',')"
        return [f"CASE WHEN isnan({name}) THEN NULL ELSE {text} END"]

    def _dates(self, name: str, column: NDArray[Any], may_count: bool) -> list[str]:
        """Return the SQL expressions for dates. A date is written in the formats of the style if no
        information is lost, otherwise in ISO 8601 format."""
        known = column[~np.isnat(column)].astype("datetime64[us]").astype(np.int64)
        are_days, are_seconds = (not (known % unit).any() for unit in (DAY, SECOND))
        iso = "%Y-%m-%d" if are_days else "%Y-%m-%dT%H:%M:%S"
        plain = f"strftime({name}, '{iso if are_seconds else iso + '.%f'}')"
        formats = self.style.time_formats if self.is_text else ()
        if formats:
            together = literal(" | ".join(formats))
            is_exact = f"try_strptime(strftime({name}, {together}), {together}) = {name}"
            if any("%q" in form for form in formats):
                is_exact = f"date_trunc('quarter', {name}) = {name}"
            first, *others = (_format_date_sql(name, form) for form in formats)
            others = [f"CASE WHEN {is_exact} THEN {text} END" for text in others]
            plain = f"CASE WHEN {is_exact} THEN {first} ELSE {plain} END"
        else:
            others = []
        if may_count:
            plain = f"coalesce({plain}, CAST(counted AS VARCHAR))"
        return [plain, *others]

    def _append_arrow(self, columns: Sequence[NDArray[Any]]) -> None:
        pa = self.pa
        arrays = [
            pa.array(_to_database_array(column), pa.string() if column.dtype.kind == "O" else None,
                     from_pandas=True)
            for column in columns
        ]  # fmt: skip
        table = pa.table(arrays, names=self.names)
        if self.writer is None:
            self.schema = table.schema
            self.writer = pa.ipc.new_file(self.file, self.schema)
        self.writer.write_table(table.cast(self.schema))


def _to_database_array(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind == "M":
        column = column.astype("datetime64[us]")
    return np.ascontiguousarray(column)


def _format_date_sql(name: str, form: str) -> str:
    if "%q" not in form:
        return f"strftime({name}, {literal(form)})"
    before, after = (
        f"strftime({name}, {literal(part)})" if part else "''" for part in form.split("%q", 1)
    )
    return f"({before} || CAST(quarter({name}) AS VARCHAR) || {after})"


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
        style: the reading of the input file, or None for the default style. If it has several
            series columns, each id has one part per column.
    """

    def __init__(
        self, file: BinaryIO, form: str, features: Sequence[str], style: Reading | None = None
    ) -> None:
        self.form, style = form, style or Reading()
        times = style.time_columns
        self.series = style.series_columns or (_unused_name(SEQUENCE, (*features, *times)),)
        time = times or (_unused_name(STEP, (*features, *self.series)),)
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
    """Return a line of JSON with the id of a sequence and its lists of steps. NaN becomes null, and
    each number the shortest decimal number that is read back as the same value."""
    lists = {
        key: [[float(str(v)) if np.isfinite(v) else None for v in point] for point in points]
        for key, points in described.items()
    }
    return json.dumps({"id": name, **lists}, ensure_ascii=False, allow_nan=False) + "\n"


def vocabulary_arrays(part: Sequences) -> dict[str, NDArray[np.generic]]:
    """Return the symbols of the source and of the target by number, for an NPZ file; empty for
    vectors."""
    sides = (("source", part.source_space), ("target", part.target_space))
    return {
        f"{side}_vocabulary": np.array(list(space.symbols), dtype=np.str_)
        for side, space in sides if space.symbols
    }  # fmt: skip


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
            each forecast is NaN after the last step of its target, or of symbols, after its end.
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
        "forecast": forecast,
    }
    arrays |= vocabulary_arrays(part)
    if with_target:
        lengths = part.target_space.forecast_lengths(forecast, part.target_lengths)
        arrays["forecast"] = mask_padding(forecast, valid_mask(lengths, forecast.shape[1]))
        arrays["target"] = np.where(part.target_cells, part.target, np.nan)
        arrays["target_lengths"] = part.target_lengths
    return arrays


def write_sequences(
    part: Sequences, form: str, *, wide: bool = False, is_continuation: bool
) -> tuple[bytes, str]:
    """Convert sequences to the content of a file.

    Args:
        part: the sequences.
        form: csv, tsv, jsonl, npz, npy, parquet or arrow.
        wide: whether to write a table with one sequence per row.
        is_continuation: whether the target continues the source. If True, a table or an NPY file
            contains source and target as one series. If False, a table contains the target in
            separate columns. JSONL and NPZ files always contain separate sources and targets.

    Returns:
        the content of the file, and the keys that a `data:` section needs for reading the file.

    Raises:
        UsageError: if the format cannot represent the sequences, or if the format is Arrow and
            pyarrow is not installed.
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
        keys = ("ids", "features", "said", "source", "source_lengths", "target", "target_lengths")
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{key: arrays[key] for key in keys})
        return buffer.getvalue(), ""
    if is_continuation:
        section, columns = _cut_section(part), list(part.features)
        paths = [np.concatenate(both) for both in zip(source, target, strict=True)]
    elif form == "npy" or wide:
        raise UsageError(
            f"{'a wide table' if wide else 'NPY'} contains one path per sequence, but these"
            " sequences have separate sources and targets. Write JSON lines or NPZ."
        )
    else:
        paths = [_concat_columns(s, t) for s, t in zip(source, target, strict=True)]
        target_columns = [f"target_{name}" for name in part.target_features]
        columns = [*part.features, *target_columns]
        section = (
            f"  source_features: [{', '.join(part.features)}]\n"
            f"  target_features: [{', '.join(target_columns)}]\n"
        )
    if form == "npy":
        buffer = io.BytesIO()
        np.save(buffer, _stack_padded(paths), allow_pickle=False)
        return buffer.getvalue(), section
    return _write_table(part.ids, paths, columns, form, wide=wide), section


def write_pairs(part: Sequences) -> tuple[bytes, str]:
    """Convert sequences of symbols to the content of a TSV file with a line for each pair of source
    and target, with a third column of links if they are known.

    Returns:
        the content of the file, and the keys that a `data:` section needs for reading the file.
    """
    columns, keys = ["source", "target"], ""
    for side, space in zip(columns, (part.source_space, part.target_space), strict=True):
        unit = "character" if isinstance(space, Tokens) and space.unit == "character" else "word"
        keys += f"  {side}: {{unit: {unit}}}\n"
    longest = max(part.source_steps, part.target_steps)
    keys += f"  max_length: {longest}\n" * (longest > Text.model_fields["max_length"].default)
    rows = [
        [part.source_space.text(source[:n]), part.target_space.text(target)]
        for source, n, target in zip(part.source, part.source_lengths, part.target, strict=True)
    ]
    if part.links is not None:
        columns, keys = [*columns, LINKS_COLUMN], f"{keys}  alignment: {LINKS_COLUMN}\n"
        for row, of_row in zip(rows, part.links, strict=True):
            links = zip(*(one.tolist() for one in of_row), strict=True)
            row.append(" ".join(f"{s}{'-' if sure else 'p'}{t}" for t, s, sure in links))
    lines = "".join("\t".join(row) + "\n" for row in [columns, *rows])
    return lines.encode(), keys


def _cut_section(part: Sequences) -> str:
    """Return the line of the config that defines where the sources end.

    Raises:
        UsageError: if the lengths of both sources and targets vary.
    """
    for key, lengths in (
        ("source_length", part.source_lengths), ("target_length", part.target_lengths),
    ):  # fmt: skip
        if (lengths == lengths[0]).all():
            return f"  {key}: {lengths[0]}\n"
    raise UsageError(
        "tables and NPY contain one path per sequence, but no single length defines where the"
        " sources of these sequences end. Write JSON lines or NPZ."
    )


def _stack_padded(paths: Sequence[Floats]) -> Floats:
    """Return the arrays of N sequences as one array (N, L, F), padded with NaN."""
    found = np.full((len(paths), max(map(len, paths)), paths[0].shape[1]), np.nan)
    for row, path in zip(found, paths, strict=True):
        row[: len(path)] = path
    return found


def _concat_columns(source: Floats, target: Floats) -> Floats:
    """Return the source and the target as columns of one array (L, F + G), padded with NaN."""
    F = source.shape[1]
    found = np.full((max(len(source), len(target)), F + target.shape[1]), np.nan)
    found[: len(source), :F] = source
    found[: len(target), F:] = target
    return found


def _write_table(
    ids: Sequence[str], paths: Sequence[Floats], columns: Sequence[str], form: str, *, wide: bool
) -> bytes:
    if form not in (*TEXT_FORMATS, "parquet", "arrow"):
        raise DataError(f"there is no format {form!r}.")
    words = np.empty(len(ids), dtype=object)
    words[:] = list(ids)
    if wide:
        stacked = _stack_padded(paths)
        values, steps = stacked.reshape(len(paths), -1), range(1, stacked.shape[1] + 1)
        names = [SEQUENCE, *(f"{name}_{step}" for step in steps for name in columns)]
        first = [words]
    else:
        values = np.concatenate(list(paths))
        lengths = [len(path) for path in paths]
        names = [SEQUENCE, STEP, *columns]
        first = [np.repeat(words, lengths), np.concatenate([np.arange(1, n + 1) for n in lengths])]
    buffer = io.BytesIO()
    table = TableFile(buffer, form, names)
    table.append([*first, *values.T])
    table.close()
    return buffer.getvalue()
