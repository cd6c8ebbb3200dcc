"""Forecasts of the user's own sequences: made in stretches, and written as they come."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import FreeRunningForecast, free_run
from seqattn.analysis.evaluation.inputs import InputReader, input_config, join_sources
from seqattn.cli.output import discard_stdout, note, write_data
from seqattn.data import Sequences
from seqattn.data.files import COMPRESSED_SUFFIXES, file_format
from seqattn.data.files.style import DEFAULT_STYLE, TableStyle
from seqattn.data.files.writing import (
    ForecastSteps,
    TableWriter,
    forecast_arrays,
    json_line,
    round_forecast,
)
from seqattn.data.sequences import Floats
from seqattn.models.attention import Override
from seqattn.runs.output_files import output_file, write_output
from seqattn.runs.storage import npz_bytes
from seqattn.training import LoadedModel


def own_input(trained: LoadedModel, overrides: Sequence[str] | None = None) -> InputReader:
    """Reads files for a model, and prints notes.

    Args:
        overrides: of --set.

    Raises:
        UsageError, ConfigError: see `input_config`.
    """
    return InputReader(trained, input_config(trained, overrides or ()), note)


class Forecasts:
    """Forecasts of stretches of sequences, written as they come.

    Args:
        output: a file, or None for standard output.
        form: csv, tsv, jsonl, npz, parquet or arrow.
        names: of the target features.
        style: of the file that was read.
    """

    def __init__(
        self, output: Path | None, form: str, trained: LoadedModel, names: tuple[str, ...],
        style: TableStyle = DEFAULT_STYLE,
    ) -> None:  # fmt: skip
        self.output, self.form, self.names = output, form, names
        self.scaling = trained.spec.scaling
        roles = trained.spec.roles
        series = "" if roles is None else "/".join(roles.series)
        time = () if roles is None else roles.time[:1]
        self.style = replace(
            style, series=style.series or ((series,) if series else ()), time=style.time or time
        )
        self.kept: list[tuple[Sequences, Any]] = []
        self.table: TableWriter | None = None
        self.numbered = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Forecasts]:
        if self.form == "npz":
            yield self
            assert self.output is not None
            write_output(self.output, npz_bytes(self._arrays()))
            return
        try:
            if self.output is None:
                self._open(_Stdout())
                yield self
                self._close()
                return
            with output_file(self.output) as file:
                self._open(file)
                yield self
                self._close()
        finally:
            if self.table is not None:
                self.table.discard()

    def _open(self, file: IO[bytes] | _Stdout) -> None:
        self.file = file
        if self.form != "jsonl":
            self.table = TableWriter(self.file, self.form, self.names, self.style)  # type: ignore[arg-type]

    def _close(self) -> None:
        if self.table is not None:
            self.table.close()
        self.file.flush()

    def write(
        self, part: Sequences, result: FreeRunningForecast, steps: ForecastSteps,
        id_parts: Sequence[tuple[str, ...]] | None = None,
    ) -> None:  # fmt: skip
        """Take in the forecasts of a part.

        Args:
            id_parts: the words of each sequence's id, where its file has several columns for it.
        """
        values = self._rounded(result.values, part)
        if self.table is not None:
            if steps.unknown.size and not self.numbered:
                self.numbered = True
                note(
                    f"The steps of sequence {part.ids[int(steps.unknown[0])]!r} are not evenly"
                    " spaced: steps of its forecast, and of others like it, are counted from 1."
                )
            self.table.write(id_parts or part.ids, steps.after(values.shape[1]), values)
        elif self.form == "jsonl":
            given = round_forecast(part.source) if self.scaling.is_identity else part.source
            for name, source, length, said in zip(
                part.ids, given, part.source_lengths, values, strict=True
            ):
                line = json_line(name, {"source": source[:length], "forecast": said})
                self.file.write(line.encode())
        else:
            self.kept.append((part, values))
        if self.output is None:  # somebody may be waiting at the end of a slow pipe
            self.file.flush()

    def _rounded(self, values: Floats, part: Sequences) -> NDArray[np.floating]:
        """See `round_forecast`; sequences whose units have as many digits are rounded together."""
        if self.scaling.is_identity:
            return round_forecast(values)
        units = self.scaling.target_scale(part)[:, 0]
        _, first, which = np.unique(
            np.floor(np.log10(units)), axis=0, return_index=True, return_inverse=True
        )
        found = np.empty_like(values)
        for k, place in enumerate(first):
            found[which.ravel() == k] = round_forecast(values[which.ravel() == k], units[place])
        return found

    def _arrays(self) -> dict[str, Any]:
        if len(self.kept) == 1:
            (part, values), *_ = self.kept
            return forecast_arrays(part, values.astype(np.float64), with_target=False)
        part = join_sources([part for part, _ in self.kept])
        values = np.concatenate([said for _, said in self.kept])
        return forecast_arrays(part, values.astype(np.float64), with_target=False)


class _Stdout:
    """Standard output for UTF-8 text in bytes, safe for a terminal. Once its reader has left, what
    comes goes nowhere: a file that is to be written as well is written to its end."""

    def write(self, content: bytes) -> None:
        try:
            write_data(content.decode())
        except BrokenPipeError:
            discard_stdout()

    def flush(self) -> None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            discard_stdout()


def predict_file(
    given: InputReader,
    file: Path,
    output: Path | None,
    form: str,
    steps: int,
    override: Override | None,
    attention: Path | None,
) -> None:
    """Continue all sequences of a file, in bounded memory; weights wait on the disk."""
    from tqdm import tqdm

    from seqattn.analysis.evaluation.attention_file import open_attention_spool

    trained, chunks = given.trained, given.read_sources(file)
    first = next(chunks)
    said = trained.spec.target_features
    same = said == trained.spec.source_features
    style = first[0].style
    if not _keeps_form(file, output, form, given.file_format(file)):
        style = style.without_format()
    writer = Forecasts(output, form, trained, first[2] if same else said, style)
    shows = sys.stderr.isatty() and output is not None
    with (
        open_attention_spool(attention) as spool,
        writer.opened(),
        tqdm(unit=" sequences", disable=not shows, desc=str(file), leave=False) as bar,
    ):
        for chunk, part, _ in _and_first(first, chunks):
            if spool is not None:
                spool.start_part(part, steps)
            result = free_run(
                trained.model, part, steps, override, with_attention=False,
                scaling=trained.spec.scaling, on_attention=None if spool is None else spool.add,
            )  # fmt: skip
            writer.write(part, result, ForecastSteps.of_sources(part, chunk.points.lengths),
                         chunk.id_parts)  # fmt: skip
            bar.update(len(part))


def _keeps_form(file: Path, output: Path | None, form: str, read_as: str) -> bool:
    """Whether a forecast is written as its file is: both have one format and one ending.

    Args:
        read_as: the format of the file, or auto.
    """
    if form != file_format(file, read_as):
        return False
    if output is None or str(file) == "-":
        return True
    name = Path(file.stem) if file.suffix.lower() in COMPRESSED_SUFFIXES else file
    return output.suffix.lower() == name.suffix.lower()


def _and_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


__all__ = ["Forecasts", "InputReader", "join_sources", "own_input", "predict_file"]
