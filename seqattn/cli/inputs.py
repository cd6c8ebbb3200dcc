"""The user's own sequences for a trained model: read as it was trained, forecast in stretches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.attention import Override
from seqattn.cli.output import discard_stdout, note, write_data
from seqattn.config import OwnFile
from seqattn.config.knobs.data import names_in
from seqattn.data import Sequences
from seqattn.data.cutting import as_sources, cut, cut_at
from seqattn.data.file_dataset import check_observed, renamed
from seqattn.data.files import (
    ENDINGS,
    PACKED,
    Chunk,
    ReadOptions,
    format_of,
    read_all,
    read_chunks,
)
from seqattn.data.files.style import PLAIN, TableStyle
from seqattn.data.files.writing import (
    Steps,
    TableWriter,
    forecast_arrays,
    json_line,
    rounded,
)
from seqattn.data.notes import short_notes
from seqattn.data.reading import options_of
from seqattn.data.regularize import regularized
from seqattn.data.sequences import Floats
from seqattn.data.series import (
    Series,
    Spans,
    columns_apart,
    ended_sides,
    last_rows,
    of_rows,
    spacing_of,
)
from seqattn.data.sliding import LeftOut
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import DataError
from seqattn.evaluation import FreeRunningForecast, free_run
from seqattn.storage import packed
from seqattn.training import LoadedModel
from seqattn.user_files import output_file, write_output
from seqattn.wording import counted


def own_config(trained: LoadedModel) -> OwnFile:
    """How a model's own files are read; for a model of made sequences the plain form."""
    config = trained.config.data
    return config if isinstance(config, OwnFile) else OwnFile(path="-")


def sources(file: Path, trained: LoadedModel) -> Iterator[tuple[Chunk, Sequences, tuple[str, ...]]]:
    """(as read, as sources, the file's own names of the features), a stretch after the other.

    Raises:
        DataError, UsageError: see `read_chunks`.
    """
    config = own_config(trained)
    wanted = replace(
        options_of(config, sources_only=True), format=_format_for(file, config),
        features=trained.layout.features, group=None, may_rename=True, asks=False,
    )  # fmt: skip
    told = set[str]()
    name = _called(file)
    read = found = 0
    for chunk in read_chunks(file, wanted):
        read += len(chunk)
        for line in dict.fromkeys(one for one in chunk.notes if one not in told):
            note(f"{name}: {line}.")
            told.add(line)
        names = chunk.points.features
        series = _without_gaps(renamed(chunk, trained.layout.features), name, trained)
        found += len(series)
        if len(series):
            clean = Chunk(
                tuple(series.ids), series.points, chunk.where, order=series.order,
                style=chunk.style, id_parts=_parts_of(chunk, series.ids),
            )  # fmt: skip
            part = as_sources(series, config, trained.layout.target_features)
            yield clean, part.at(slice(None)), names
    if not found:
        raise DataError(_none_left(name, read) if read else f"{name}: has no sequences.")


def _parts_of(chunk: Chunk, ids: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
    """The words of the ids of some sequences of a piece; None: an id is one word."""
    if chunk.id_parts is None:
        return None
    parts = dict(zip(chunk.ids, chunk.id_parts, strict=True))
    return tuple(parts[name] for name in ids)


def scored(file: Path, trained: LoadedModel) -> Sequences:
    """All sequences of a file cut into source and target, as in training.

    Raises:
        DataError, UsageError: see `read_chunks`.
    """
    config = trained.config.data
    own = own_config(trained)
    form = options_of(own)
    if not isinstance(config, OwnFile):
        form = ReadOptions(features=trained.layout.features, may_rename=True)
    elif form.features is None:
        form = replace(form, features=trained.layout.features, may_rename=True)
    source_and_target = trained.layout.features, trained.layout.target_features
    form = replace(form, format=_format_for(file, own), group=None, asks=False)
    chunk = read_all(file, replace(form, source_and_target=source_and_target))
    for line in chunk.notes:
        note(f"{_called(file)}: {line}.")
    if own.source_features is None:
        chunk = renamed(chunk, trained.layout.features)
    series = regularized(
        chunk, _called(file), own, spacing_of(chunk, _spaced(trained)),
        has_key=isinstance(config, OwnFile),
    )  # fmt: skip
    left_out, name, dropped = LeftOut(), _called(file), len(series.names_of_dropped)
    if dropped == len(series):
        raise DataError(_none_left(name, dropped))
    if isinstance(config, OwnFile):
        part = cut(series, Spans.of_series(series).kept(series), config, left_out)
    else:
        part = cut_at(series, trained.layout.source_length)
    if dropped := dropped + left_out.dropped:
        note(f"{name}: {counted(dropped, 'sequence')} with empty cells dropped.")
    if not len(part):
        raise DataError(_none_left(name, dropped))
    for line in short_notes(left_out.too_short):
        note(f"{name}: {line}.")
    check_observed(part, name)
    return part


def _none_left(name: str, count: int) -> str:
    return (
        f"{name}: all of its sequences ({count:,}) have empty cells and were dropped"
        " (data.missing), so none is left."
    )


def _called(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)


def _format_for(file: Path, config: OwnFile) -> str:
    """The format of the file that was trained on, where this one is called alike or its name says
    nothing; else what its name says."""
    ending = file.suffix.lower()
    if str(file) == "-":
        return config.format if config.format in ("csv", "tsv", "jsonl") else "csv"
    if ending.removeprefix(".") in ENDINGS and ending != Path(config.path).suffix.lower():
        return "auto"
    return config.format


def _spaced(trained: LoadedModel) -> Frequency | None:
    """How far apart steps are, as they were in training."""
    if isinstance(trained.config.data, OwnFile):
        return trained.layout.frequency
    return Frequency("number", 1)


def _without_gaps(chunk: Chunk, name: str, trained: LoadedModel) -> Series:
    """What a forecast goes on from, empty cells refused, dropped or filled as in training; and how
    its steps are spaced."""
    config = own_config(trained)
    spacing = spacing_of(chunk, _spaced(trained))
    if spacing is None:
        spacing = Spacing.alike(len(chunk), Frequency("number", 1))
    no_cut: dict[str, Any] = {"window": None, "source_length": None, "target_length": None}
    ends = columns_apart(config)
    if not ends:
        no_cut |= {"source_features": None, "target_features": None}
    alone = config.model_copy(update=no_cut)
    if ends and (ended := np.asarray(ended_sides(chunk.points, config).any(axis=1))).any():
        chunk = of_rows(chunk, ~ended)
    last = None if config.window is None else config.window.source
    if last is not None:
        chunk = last_rows(chunk, last)  # no fewer than so many steps
    chunk = replace(chunk, target=None, where_target=None)
    has_key = isinstance(trained.config.data, OwnFile)
    series = regularized(chunk, name, alone, spacing, has_key=has_key, last=last)
    if series.empty:
        note(f"{name}: {counted(series.empty, 'empty cell')} interpolated.")
    if dropped := len(series.names_of_dropped):
        note(f"{name}: {counted(dropped, 'sequence')} with empty cells dropped.")
    return series.kept()


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
        style: TableStyle = PLAIN,
    ) -> None:  # fmt: skip
        self.output, self.form, self.names = output, form, names
        self.scaling = trained.layout.scaling
        config = own_config(trained)
        series = "/".join(names_in(config.series))
        time = "/".join(names_in(config.time)[:1])
        self.style = replace(
            style, series=style.series or ((series,) if series else ()),
            time=style.time or ((time,) if time else ()),
        )  # fmt: skip
        self.kept: list[tuple[Sequences, Any]] = []
        self.table: TableWriter | None = None
        self.numbered = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Forecasts]:
        if self.form == "npz":
            yield self
            assert self.output is not None
            write_output(self.output, packed(self._arrays()))
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
        self, part: Sequences, result: FreeRunningForecast, steps: Steps,
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
            given = rounded(part.source) if self.scaling.is_identity else part.source
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
        """See `rounded`; sequences whose units have as many digits are rounded together."""
        if self.scaling.is_identity:
            return rounded(values)
        units = self.scaling.units(part)[:, 0]
        _, first, which = np.unique(
            np.floor(np.log10(units)), axis=0, return_index=True, return_inverse=True
        )
        found = np.empty_like(values)
        for k, place in enumerate(first):
            found[which.ravel() == k] = rounded(values[which.ravel() == k], units[place])
        return found

    def _arrays(self) -> dict[str, Any]:
        if len(self.kept) == 1:
            (part, values), *_ = self.kept
            return forecast_arrays(part, values.astype(np.float64), with_target=False)
        part = joined_sources([part for part, _ in self.kept])
        values = np.concatenate([said for _, said in self.kept])
        return forecast_arrays(part, values.astype(np.float64), with_target=False)


def joined_sources(parts: list[Sequences]) -> Sequences:
    """Sources of several parts as one; no targets are known."""
    if len(parts) == 1:
        return parts[0]
    S = max(part.source_steps for part in parts)
    source = np.concatenate(
        [np.pad(p.source, ((0, 0), (0, S - p.source_steps), (0, 0))) for p in parts]
    )
    first = parts[0]
    return Sequences(
        source=source,
        source_lengths=np.concatenate([part.source_lengths for part in parts]),
        target=np.zeros((len(source), 0, len(first.target_features))),
        target_lengths=np.zeros(len(source), dtype=np.int64),
        features=first.features,
        ids=tuple(name for part in parts for name in part.ids),
        target_features=first.target_features,
    )


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
    trained: LoadedModel,
    file: Path,
    output: Path | None,
    form: str,
    steps: int,
    override: Override | None,
    attention: Path | None,
) -> None:
    """Continue all sequences of a file, in bounded memory; weights wait on the disk."""
    from tqdm import tqdm

    from seqattn.experiment.attention_file import spool_for

    chunks = sources(file, trained)
    first = next(chunks)
    said = trained.layout.target_features
    same = said == trained.layout.features
    style = first[0].style
    if not _keeps_form(file, output, form, own_config(trained)):
        style = style.names_only()
    writer = Forecasts(output, form, trained, first[2] if same else said, style)
    shows = sys.stderr.isatty() and output is not None
    with (
        spool_for(attention) as spool,
        writer.opened(),
        tqdm(unit=" sequences", disable=not shows, desc=str(file), leave=False) as bar,
    ):
        for chunk, part, _ in _and_first(first, chunks):
            if spool is not None:
                spool.begin(part, steps)
            result = free_run(
                trained.model, part, steps, override, with_attention=False,
                scaling=trained.layout.scaling, watch=None if spool is None else spool.add,
            )  # fmt: skip
            writer.write(part, result, Steps.of_sources(part, chunk.points.lengths),
                         chunk.id_parts)  # fmt: skip
            bar.update(len(part))


def _keeps_form(file: Path, output: Path | None, form: str, config: OwnFile) -> bool:
    """Whether a forecast is written as its file is: both have one format and one ending."""
    if form != format_of(file, _format_for(file, config)):
        return False
    if output is None or str(file) == "-":
        return True
    name = Path(file.stem) if file.suffix.lower() in PACKED else file
    return output.suffix.lower() == name.suffix.lower()


def _and_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


__all__ = [
    "Forecasts",
    "joined_sources",
    "predict_file",
    "scored",
    "sources",
]
