"""Functions that read the user's own sequences and write forecasts of them, chunk by chunk."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import FreeRunningForecast, free_run
from seqattn.analysis.evaluation.forced_weights import ForcedRows, ForecastOverride
from seqattn.analysis.evaluation.inputs import InputReader, input_config, join_sources
from seqattn.analysis.evaluation.texts import read_sources
from seqattn.cli.output import discard_stdout, note, write_data
from seqattn.config import Text
from seqattn.data import Sequences
from seqattn.data.chunk import Chunk
from seqattn.data.files import COMPRESSED_SUFFIXES, file_format
from seqattn.data.reading import Reading
from seqattn.data.sequences import Floats
from seqattn.data.writing import (
    LINKS_COLUMN,
    ForecastSteps,
    TableWriter,
    forecast_arrays,
    json_line,
    round_forecast,
)
from seqattn.errors import DataError, UsageError
from seqattn.runs.storage import npz_bytes, output_file, write_output
from seqattn.training import LoadedModel

InputChunk = tuple[Chunk, Sequences, tuple[str, ...]]
"""The type of the tuples that `InputReader.read_sources` yields."""


def input_reader(trained: LoadedModel, overrides: Sequence[str] | None = None) -> InputReader:
    """Create a reader of input files for a model. The reader prints notes on stderr.

    Args:
        trained: the model.
        overrides: the values of the option `--set`.

    Raises:
        UsageError: see `input_config`.
        ConfigError: see `input_config`.
    """
    return InputReader(trained, input_config(trained, overrides or ()), note)


class ForecastWriter:
    """A writer that receives forecasts in chunks and writes them to a file or to standard output.

    Args:
        output: the file of the forecasts; None for standard output.
        form: "csv", "tsv", "jsonl", "npz", "parquet" or "arrow".
        trained: the model, with the column roles of the training data.
        names: the names of the target features in the output.
        style: the reading of the input file.
    """

    def __init__(
        self, output: Path | None, form: str, trained: LoadedModel, names: tuple[str, ...],
        style: Reading | None = None,
    ) -> None:  # fmt: skip
        self.output, self.form, self.names = output, form, names
        of_training = trained.spec.reading or Reading()
        series = "/".join(of_training.series_columns)
        is_counted = getattr(trained.config.data, "spacing", "") == "uneven"  # not dates
        time = () if is_counted else of_training.time_columns[:1]
        style = style or Reading()
        self.style = replace(
            style,
            series=style.series_columns or ((series,) if series else ()),
            time=style.time_columns or time,
        )
        self.chunks: list[tuple[Sequences, Any]] = []
        self.table: TableWriter | None = None
        self.has_noted_steps = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Open the output for a `with` block. The output is complete when the block ends."""
        if self.form == "npz":
            yield
            assert self.output is not None
            write_output(self.output, npz_bytes(self._arrays()))
            return
        try:
            if self.output is None:
                self._open(_Stdout())
                yield
                self._close()
                return
            with output_file(self.output) as file:
                self._open(file)
                yield
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
        """Write the forecasts of a chunk, or keep them until the end if the format is NPZ.

        Args:
            part: the sequences.
            result: the forecasts of the sequences.
            steps: the time steps of the forecasts.
            id_parts: the id of each sequence, as a tuple with one string for each id column of the
                input file; None if the ids do not come from several columns.
        """
        values = self._rounded(result.values, part)
        if self.table is not None:
            if steps.unknown.size and not self.has_noted_steps:
                self.has_noted_steps = True
                note(
                    f"The steps of sequence {part.ids[int(steps.unknown[0])]!r} are not evenly"
                    " spaced: the steps of its forecast, and of similar ones, are numbered from 1."
                )
            self.table.write(id_parts or part.ids, steps.after(values.shape[1]), values)
        elif self.form == "jsonl":
            sources = round_forecast(part.source) if part.is_identity else part.source
            for name, source, length, forecast in zip(
                part.ids, sources, part.source_lengths, values, strict=True
            ):
                line = json_line(name, {"source": source[:length], "forecast": forecast})
                self.file.write(line.encode())
        else:
            self.chunks.append((part, values))
        if self.output is None:  # a program at the other end may wait for this chunk
            self.file.flush()

    def _rounded(self, values: Floats, part: Sequences) -> NDArray[np.floating]:
        """Round values to the precision of float32.

        If the data are scaled, the scale of each sequence determines the number of decimals.
        """
        if part.is_identity:
            return round_forecast(values)
        units = part.target_unit()[:, 0]
        _, first, groups = np.unique(
            np.floor(np.log10(units)), axis=0, return_index=True, return_inverse=True
        )
        result = np.empty_like(values)
        for k, sequence in enumerate(first):
            chosen = groups.ravel() == k
            result[chosen] = round_forecast(values[chosen], units[sequence])
        return result

    def _arrays(self) -> dict[str, Any]:
        if len(self.chunks) == 1:
            ((part, values),) = self.chunks
            return forecast_arrays(part, values.astype(np.float64), with_target=False)
        part = join_sources([part for part, _ in self.chunks])
        values = np.concatenate([values for _, values in self.chunks])
        return forecast_arrays(part, values.astype(np.float64), with_target=False)


class _Stdout:
    """Standard output as a binary file with UTF-8 text.

    On a terminal, control characters are escaped. Writes to a closed pipe are ignored, so the
    command can complete its other files.
    """

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
    reader: InputReader,
    file: Path,
    output: Path | None,
    form: str,
    steps: int,
    override: ForecastOverride | None,
    attention: Path | None,
) -> None:
    """Forecast all sequences of a file, chunk by chunk.

    Args:
        reader: the reader of the input file. The reader also contains the model.
        file: the input file.
        output: the file of the forecasts; None for standard output.
        form: the format of the forecasts.
        steps: the number of steps to forecast.
        override: the override of the attention weights; None for the model's own weights.
        attention: the file for the attention weights; None to write no weights. If the weights need
            much memory, the function stores them in a temporary file until the end.
    """
    from tqdm import tqdm

    from seqattn.analysis.evaluation.attention_file import open_attention_spool

    trained, chunks = reader.trained, reader.read_sources(file)
    if isinstance(override, ForcedRows):
        override.check_model(steps, trained.model.attention_shape())
        chunks = _check_ids(chunks, override)
    first = next(chunks)
    names = trained.spec.target_features
    if names == trained.spec.source_features:
        names = first[2]
    style = first[0].style
    if not _keeps_format(file, output, form, reader.file_format(file)):
        style = style.without_text_style()
    writer = ForecastWriter(output, form, trained, names, style)
    lengths = list[NDArray[np.int64]]()
    is_shown = sys.stderr.isatty() and output is not None
    with (
        open_attention_spool(attention) as spool,
        writer.opened(),
        tqdm(unit=" sequences", disable=not is_shown, desc=str(file), leave=False) as bar,
    ):
        for chunk, part, _ in itertools.chain([first], chunks):
            if spool is not None:
                spool.start_part(part, steps)
            of_part = override.for_ids(part.ids) if isinstance(override, ForcedRows) else override
            result = free_run(
                trained.model, part, steps, of_part, with_attention=False,
                on_attention=None if spool is None else spool.add,
            )  # fmt: skip
            writer.write(part, result, ForecastSteps.of_sources(part, chunk.points.lengths),
                         chunk.id_parts)  # fmt: skip
            lengths.append(part.source_lengths)
            bar.update(len(part))
    trained.spec.note_lengths(np.concatenate(lengths), steps, note)


def _check_ids(chunks: Iterator[InputChunk], rows: ForcedRows) -> Iterator[InputChunk]:
    """Yield chunks, and check the ids of the forced weights before yielding the last chunk.

    Raises:
        UsageError: if there are forced weights for an id that no sequence has.
    """
    ids = dict[str, None]()
    for chunk, following in itertools.pairwise(itertools.chain(chunks, [None])):
        assert chunk is not None
        ids.update(dict.fromkeys(chunk[1].ids))
        if following is None:
            rows.check_ids(ids)
        yield chunk


def _keeps_format(file: Path, output: Path | None, form: str, read_as: str) -> bool:
    """Return whether the forecasts have the same format and suffix as the input file.

    A compression suffix of the input file is ignored. If the input or the output is a standard
    stream, only the formats are compared.

    Args:
        file: the input file.
        output: the file of the forecasts; None for standard output.
        form: the format of the forecasts.
        read_as: the format of the input file, or "auto".
    """
    if form != file_format(file, read_as):
        return False
    if output is None or str(file) == "-":
        return True
    name = Path(file.stem) if file.suffix.lower() in COMPRESSED_SUFFIXES else file
    return output.suffix.lower() == name.suffix.lower()


__all__ = ["ForecastWriter", "InputReader", "input_reader", "join_sources", "predict_file"]


def lines_of(path: Path | None) -> tuple[Iterator[str], str, bool]:
    """Return the lines of a file, which may be compressed, or of standard input, the name of the
    file in messages, and whether a person types the lines."""

    from seqattn.data.text import text_lines

    is_pipe = path is None or str(path) == "-"
    is_typed = is_pipe and sys.stdin.isatty()
    name = "standard input" if is_pipe else str(path)

    def lines() -> Iterator[str]:
        try:
            if path is not None and not is_pipe:
                yield from text_lines(path, advice="Convert the file to UTF-8.")
            elif is_typed or not hasattr(sys.stdin, "buffer"):
                yield from sys.stdin
            else:  # read like a file, whatever the encoding of the terminal is
                yield from io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig")
        except OSError as error:
            raise DataError(f"{name}: {error.strerror}.") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: is not UTF-8 text ({error.reason}).") from None

    return lines(), name, is_typed


def pairs_of_file(trained: LoadedModel, path: Path, overrides: Sequence[str] | None) -> Sequences:
    """Read the pairs of texts of a file as sources and targets of a model of symbols.

    Args:
        trained: the model.
        path: the file, as in `data.path` of a text.
        overrides: the values of the option `--set`.

    Raises:
        DataError: if the file cannot be read, or has no usable pair.
        UsageError: if there are overrides, or if the file is standard input.
    """
    from seqattn.data.text import first_columns, load_pairs

    if overrides:
        raise UsageError(f"--set {overrides[0]}: pairs of texts are read as in the training.")
    if str(path) == "-":
        raise UsageError("--input -: pairs of texts are read from a file.")
    config, (source, target), notes = trained.config.data, trained.spec.tokens, list[str]()
    if not isinstance(config, Text):  # a generated task, as `seqattn data sample` writes it
        sides = {
            name: {"unit": "character" if space.unit == "character" else "word"}
            for name, space in (("source", source), ("target", target))
        }
        config = Text.model_validate(
            {"path": "-", "max_length": 10_000, "alignment": LINKS_COLUMN, **sides}
        )
    if config.alignment not in (None, *first_columns(str(path), config.encoding)):
        notes.append(f"has no column {config.alignment!r}, so there are no known links")
        config = config.model_copy(update={"alignment": None})
    config = config.model_copy(update={"group": None})
    part = load_pairs(config, str(path), (source, target), notes)
    for line in notes:
        note(f"{line}." if line.startswith(str(path)) else f"{path}: {line}.")
    return part


def first_lines(
    trained: LoadedModel, path: Path, count: int, overrides: Sequence[str] | None
) -> Sequences:
    """Read the first lines of a file or of standard input as sources of a model of symbols.

    Args:
        trained: the model.
        path: the file; "-" means standard input.
        count: the maximum number of lines.
        overrides: the values of the option `--set`.

    Raises:
        UsageError: if there are overrides, because lines of text are read in one way only.
    """
    if overrides:
        raise UsageError(f"--set {overrides[0]}: lines of text are read as the model was trained.")
    lines, name, _ = lines_of(path)
    return read_sources(trained, itertools.islice(lines, count), name, note)
