"""A reader of files that contain input for a trained model. The reader treats the sequences in a
file in the same way as the training data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Draft, OwnFile, as_plain
from seqattn.config.keys import READING_KEYS
from seqattn.data import DataSpec, Sequences
from seqattn.data.chunk import Chunk
from seqattn.data.cutting import LeftOut, cut_at_length, cut_series, make_sources
from seqattn.data.file_dataset import (
    check_observed,
    describe_dropped,
    describe_dropped_series,
    rename_features,
    too_short_notes,
)
from seqattn.data.files import SUFFIXES, read_all, read_chunks
from seqattn.data.many_files import make_reading
from seqattn.data.series import (
    Series,
    Spans,
    ended_mask,
    has_separate_columns,
    infer_spacing,
    keep_last_rows,
    regularize,
    select_rows,
)
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import DataError, UsageError, counted
from seqattn.training import LoadedModel


def input_config(trained: LoadedModel, overrides: Sequence[str] = ()) -> OwnFile:
    """Return the `data` section that controls how input files for a model are read.

    If the model was trained on files, the values come from the `data` section of the run's config.
    If the model was trained on generated data, the values are the defaults. The overrides replace
    these values.

    Args:
        trained: the model.
        overrides: assignments of the form `data.KEY=VALUE`. KEY is one of `READING_KEYS`.

    Raises:
        UsageError: if an override sets a key that is not one of `READING_KEYS`.
        ConfigError: if a value is invalid.
    """
    config = trained.config.data
    config = config if isinstance(config, OwnFile) else OwnFile(path="-")
    if not overrides:
        return config
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.removeprefix("data.") not in READING_KEYS or not key.startswith("data."):
            raise UsageError(
                f"--set {override}: the model is already trained, so --set can only change how"
                f" --input is read: data.{', data.'.join(READING_KEYS)}."
            )
    draft = Draft.read(None, overrides)
    plain = as_plain(config)
    draft.content["data"] = plain | draft.content.get("data", {})
    found = draft.resolve().config.data
    assert isinstance(found, OwnFile)
    return found


@dataclass(frozen=True)
class InputReader:
    """A reader of files that contain input for a trained model.

    Attributes:
        trained: the model.
        config: the `data` section that controls how files are read.
        note: a function that receives messages for the user.
    """

    trained: LoadedModel
    config: OwnFile
    note: Callable[[str], None]

    def __post_init__(self) -> None:
        _ = self.spec.vectors  # raises a UsageError for a model of symbols

    @property
    def spec(self) -> DataSpec:
        return self.trained.spec

    @property
    def has_key(self) -> bool:
        """Whether the config of the run has the key `data.missing`. A config with generated data
        does not have this key."""
        return isinstance(self.trained.config.data, OwnFile)

    def read_sources(
        self, file: Path, name: str | None = None
    ) -> Iterator[tuple[Chunk, Sequences, tuple[str, ...]]]:
        """Read the sequences of a file as sources without targets, in chunks.

        Args:
            file: the path of the file; "-" means standard input.
            name: the name of the file in messages; None for the path.

        Yields:
            A chunk of the file, the sequences of the chunk, and the names of the features in the
            file. In the chunk and in the sequences, empty cells have been handled in the same way
            as in the training data.

        Raises:
            DataError: if the file cannot be read, or if it contains no usable sequence.
            UsageError: if the file is an Arrow file and pyarrow is not installed.
        """
        config, spec = self.config, self.spec
        reading = replace(
            make_reading(config, sources_only=True), format=self.file_format(file),
            features=spec.source_features, group=None, may_rename=True, is_training=False,
            trained=spec.reading,
        )  # fmt: skip
        noted = set[str]()
        name = name or _display_name(file)
        read = found = 0
        for chunk in read_chunks(file, reading, name=name):
            read += len(chunk)
            for line in dict.fromkeys(one for one in chunk.notes if one not in noted):
                self.note(f"{name}: {line}.")
                noted.add(line)
            names = chunk.points.features
            if config.spacing == "uneven":
                style = chunk.reading and replace(chunk.reading, time=(), time_formats=())
                chunk = replace(chunk, order=None, reading=style)
            series = self._handle_missing(rename_features(chunk, spec.source_features), name)
            found += len(series)
            if len(series):
                clean = Chunk(
                    tuple(series.ids), series.points, chunk.where, order=series.order,
                    reading=chunk.reading, id_parts=_select_id_parts(chunk, series.ids),
                )  # fmt: skip
                part = make_sources(series, config, spec.target_features)
                part = part.with_spaces(spec.source, spec.target)
                yield clean, part.select(slice(None)), names
        if not found:
            raise DataError(
                _all_dropped_message(name, describe_dropped_series(read))
                if read
                else f"{name}: has no sequences."
            )

    def read_with_targets(self, file: Path, name: str | None = None) -> Sequences:
        """Read all sequences of a file as sources and targets, in the same way as during training.

        Args:
            file: the path of the file; "-" means standard input.
            name: the name of the file in messages; None for the path.

        Raises:
            DataError: if the file cannot be read, or if it contains no usable sequence.
            UsageError: if the file is an Arrow file and pyarrow is not installed.
        """
        config, spec, name = self.config, self.spec, name or _display_name(file)
        reading = make_reading(config)
        if reading.features is None:
            reading = replace(reading, features=spec.source_features, may_rename=True)
        columns = spec.source_features, spec.target_features
        reading = replace(
            reading, format=self.file_format(file), group=None, source_and_target=columns,
            is_training=False,
            trained=spec.reading,
        )  # fmt: skip
        chunk = read_all(file, reading, name)
        for line in chunk.notes:
            self.note(f"{name}: {line}.")
        if config.source_features is None:
            chunk = rename_features(chunk, spec.source_features)
        spacing = infer_spacing(chunk, self._frequency)
        series = regularize(chunk, name, config, spacing, has_key=self.has_key)
        omitted, dropped = LeftOut(), len(series.dropped_names)
        if dropped == len(series):
            raise DataError(_all_dropped_message(name, describe_dropped(dropped, config)))
        if self.has_key:
            part = cut_series(
                series, Spans.of_series(series).without_dropped(series), config, omitted
            )
        else:
            part = cut_at_length(series, spec.source_length)
        if dropped := dropped + omitted.dropped:
            self.note(f"{name}: dropped {describe_dropped(dropped, config)}.")
        if not len(part):
            raise DataError(_all_dropped_message(name, describe_dropped(dropped, config)))
        for line in too_short_notes(omitted.too_short):
            self.note(f"{name}: {line}.")
        check_observed(part, name)
        return part.with_spaces(spec.source, spec.target)

    def file_format(self, file: Path) -> str:
        """Return the format of a file.

        The format is "auto" if the file name has a known ending that differs from the ending of the
        path of the training data. Otherwise, the format is the value of `data.format`. The format
        of standard input is CSV, unless `data.format` is "tsv" or "jsonl".
        """
        config, ending = self.config, file.suffix.lower()
        if str(file) == "-":
            return config.format if config.format in ("csv", "tsv", "jsonl") else "csv"
        if ending.removeprefix(".") in SUFFIXES and ending != Path(config.path).suffix.lower():
            return "auto"
        return config.format

    @property
    def _frequency(self) -> Frequency | None:
        """The interval between the steps of the training data; None if the interval is unknown."""
        return self.spec.frequency if self.has_key else Frequency("number", 1)

    def _handle_missing(self, chunk: Chunk, name: str) -> Series:
        """Return the sources of a chunk, and handle empty cells in the same way as during training.

        Depending on `data.missing`, the method rejects empty cells, fills them, or drops the
        sequences that contain them.
        """
        config = self.config
        spacing = infer_spacing(chunk, self._frequency)
        if spacing is None:
            spacing = Spacing.uniform(len(chunk), Frequency("number", 1))
        no_cut: dict[str, Any] = {"window": None, "source_length": None, "target_length": None}
        ends = has_separate_columns(config)
        if not ends:
            no_cut |= {"source_features": None, "target_features": None}
        uncut_config = config.model_copy(update=no_cut)
        if ends and (ended := np.asarray(ended_mask(chunk.points, config).any(axis=1))).any():
            chunk = select_rows(chunk, ~ended)
        last = None if config.window is None else config.window.source
        if last is not None:
            chunk = keep_last_rows(chunk, last)  # these rows span the source of a window
        chunk = replace(chunk, target=None, where_target=None)
        series = regularize(chunk, name, uncut_config, spacing, has_key=self.has_key, last=last)
        if series.empty:
            self.note(f"{name}: {counted(series.empty, 'empty cell')} interpolated.")
        if dropped := len(series.dropped_names):
            self.note(f"{name}: dropped {describe_dropped_series(dropped)}.")
        return series.without_dropped()


def join_sources(parts: Sequence[Sequences]) -> Sequences:
    """Concatenate the sources of several parts; the result has no targets."""
    if len(parts) == 1:
        return parts[0]
    S = max(part.source_steps for part in parts)

    def joined(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(
            [np.pad(one, ((0, 0), (0, S - one.shape[1]), (0, 0))) for one in arrays]
        )

    first, source = parts[0], joined(part.source for part in parts)
    is_masked = any(part.has_masked_sources for part in parts)
    return Sequences(
        source=source,
        source_lengths=np.concatenate([part.source_lengths for part in parts]),
        target=np.zeros((len(source), 0, len(first.target_features))),
        target_lengths=np.zeros(len(source), dtype=np.int64),
        features=first.features,
        ids=tuple(name for part in parts for name in part.ids),
        target_features=first.target_features,
        source_observed=joined(part.source_cells for part in parts) if is_masked else None,
        source_space=first.source_space,
        target_space=first.target_space,
    )


def _select_id_parts(chunk: Chunk, ids: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
    """Return the values in the id columns for some sequences of a chunk.

    The result is None if the id consists of a single column.
    """
    if chunk.id_parts is None:
        return None
    parts = dict(zip(chunk.ids, chunk.id_parts, strict=True))
    return tuple(parts[name] for name in ids)


def _all_dropped_message(name: str, dropped: str) -> str:
    return f"{name}: dropped {dropped} (data.missing). No sequence is left."


def _display_name(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)
