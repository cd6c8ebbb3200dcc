"""The user's own sequences for a trained model, read as its training data were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.config import Draft, OwnFile, as_plain
from seqattn.data import DataSpec, Sequences
from seqattn.data.cutting import cut_at_length, cut_series, make_sources
from seqattn.data.file_dataset import check_observed, rename_features
from seqattn.data.files import SUFFIXES, Chunk, ReadOptions, read_all, read_chunks
from seqattn.data.notes import too_short_notes
from seqattn.data.reading import make_read_options
from seqattn.data.regularize import regularize
from seqattn.data.series import (
    Series,
    Spans,
    ended_mask,
    has_separate_columns,
    infer_spacing,
    keep_last_rows,
    select_rows,
)
from seqattn.data.sliding import LeftOut
from seqattn.data.spacing import Frequency, Spacing
from seqattn.errors import AmbiguousData, DataError, UsageError, counted
from seqattn.training import LoadedModel

READING_KEYS = (
    "format", "layout", "series", "time", "ignore", "missing", "na_values", "time_format",
    "delimiter", "decimal", "thousands", "comment", "skip_rows", "header", "encoding",
)  # fmt: skip
"""Keys of `data` that say how a file is read, and may be others than in training."""


def reading_config(trained: LoadedModel, overrides: Sequence[str] = ()) -> OwnFile:
    """How a model's own files are read; for a model of made sequences the plain form.

    Args:
        overrides: "data.KEY=VALUE" each, of `READING_KEYS`.

    Raises:
        UsageError: a key that only a training can change.
        ConfigError: a value that is none.
    """
    config = trained.config.data
    own = config if isinstance(config, OwnFile) else OwnFile(path="-")
    if not overrides:
        return own
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.removeprefix("data.") not in READING_KEYS or not key.startswith("data."):
            raise UsageError(
                f"--set {override}: the model is trained, so only how --input is read can be set:"
                f" data.{', data.'.join(READING_KEYS)}."
            )
    draft = Draft.read(None, overrides)
    plain = as_plain(own)
    draft.content["data"] = plain | draft.content.get("data", {})
    found = draft.resolve().config.data
    assert isinstance(found, OwnFile)
    return found


@dataclass(frozen=True)
class OwnInput:
    """Reads files for a trained model.

    Attributes:
        trained: the model.
        config: how files are read.
        note: takes what a user should be told, a sentence each.
    """

    trained: LoadedModel
    config: OwnFile
    note: Callable[[str], None]

    @property
    def spec(self) -> DataSpec:
        return self.trained.spec

    @property
    def has_key(self) -> bool:
        """Whether data.missing can be set; a model of made sequences has no such key."""
        return isinstance(self.trained.config.data, OwnFile)

    def sources(
        self, file: Path, name: str | None = None
    ) -> Iterator[tuple[Chunk, Sequences, tuple[str, ...]]]:
        """(as read, as sources, the file's own names of the features), a stretch after the other.

        Args:
            name: of the file, for messages.

        Raises:
            DataError, UsageError: see `read_chunks`.
        """
        config, spec = self.config, self.spec
        wanted = replace(
            make_read_options(config, sources_only=True), format=self.format_of(file),
            features=spec.source_features, group=None, may_rename=True, is_training=False,
            roles=spec.roles,
        )  # fmt: skip
        told = set[str]()
        name = name or _called(file)
        read = found = 0
        for chunk in self._chunks(file, name, wanted):
            read += len(chunk)
            for line in dict.fromkeys(one for one in chunk.notes if one not in told):
                self.note(f"{name}: {line}.")
                told.add(line)
            names = chunk.points.features
            series = self._without_gaps(rename_features(chunk, spec.source_features), name)
            found += len(series)
            if len(series):
                clean = Chunk(
                    tuple(series.ids), series.points, chunk.where, order=series.order,
                    roles=chunk.roles, id_parts=_parts_of(chunk, series.ids),
                )  # fmt: skip
                part = make_sources(series, config, spec.target_features)
                yield clean, part.select(slice(None)), names
        if not found:
            raise DataError(_none_left(name, read) if read else f"{name}: has no sequences.")

    def scored(self, file: Path, name: str | None = None) -> Sequences:
        """All sequences of a file with what is given and what is to be forecast, as in training.

        Args:
            name: of the file, for messages.

        Raises:
            DataError, UsageError: see `read_chunks`.
        """
        own, spec, name = self.config, self.spec, name or _called(file)
        form = make_read_options(own)
        if form.features is None:
            form = replace(form, features=spec.source_features, may_rename=True)
        apart = spec.source_features, spec.target_features
        form = replace(
            form, format=self.format_of(file), group=None, source_and_target=apart,
            is_training=False,
            roles=spec.roles,
        )  # fmt: skip
        try:
            chunk = read_all(file, form)
        except AmbiguousData as question:
            chunk = read_all(file, self._settled(file, name, form, question))
        for line in chunk.notes:
            self.note(f"{name}: {line}.")
        if own.source_features is None:
            chunk = rename_features(chunk, spec.source_features)
        spacing = infer_spacing(chunk, self._frequency)
        series = regularize(chunk, name, own, spacing, has_key=self.has_key)
        left_out, dropped = LeftOut(), len(series.dropped_names)
        if dropped == len(series):
            raise DataError(_none_left(name, dropped))
        if self.has_key:
            part = cut_series(
                series, Spans.of_series(series).without_dropped(series), own, left_out
            )
        else:
            part = cut_at_length(series, spec.source_length)
        if dropped := dropped + left_out.dropped:
            self.note(f"{name}: {counted(dropped, 'sequence')} with empty cells dropped.")
        if not len(part):
            raise DataError(_none_left(name, dropped))
        for line in too_short_notes(left_out.too_short):
            self.note(f"{name}: {line}.")
        check_observed(part, name)
        return part

    def _chunks(self, file: Path, name: str, options: ReadOptions) -> Iterator[Chunk]:
        try:
            yield from read_chunks(file, options)
        except AmbiguousData as question:  # before any chunk
            yield from read_chunks(file, self._settled(file, name, options, question))

    def _settled(
        self, file: Path, name: str, options: ReadOptions, question: AmbiguousData
    ) -> ReadOptions:
        """Options that read a file as the training did, where it can be read in two ways.

        Raises:
            AmbiguousData: the training does not say, or standard input cannot be read again.
        """
        roles = self.spec.roles
        answer = None if roles is None else roles.choose_reading(question.choices)
        if answer is None or str(file) == "-":
            raise question
        key, value = next(iter(answer.items()))
        self.note(f"{name}: is read with data.{key}: {value!r}, as in the training.")
        return replace(options, **answer)  # type: ignore[arg-type]

    def format_of(self, file: Path) -> str:
        """The format of the file that was trained on, where this one is called alike or its name
        says nothing; else what its name says."""
        config, ending = self.config, file.suffix.lower()
        if str(file) == "-":
            return config.format if config.format in ("csv", "tsv", "jsonl") else "csv"
        if ending.removeprefix(".") in SUFFIXES and ending != Path(config.path).suffix.lower():
            return "auto"
        return config.format

    @property
    def _frequency(self) -> Frequency | None:
        """How far apart steps are, as they were in training."""
        return self.spec.frequency if self.has_key else Frequency("number", 1)

    def _without_gaps(self, chunk: Chunk, name: str) -> Series:
        """What a forecast goes on from, empty cells refused, dropped or filled as in training; and
        how its steps are spaced."""
        config = self.config
        spacing = infer_spacing(chunk, self._frequency)
        if spacing is None:
            spacing = Spacing.uniform(len(chunk), Frequency("number", 1))
        no_cut: dict[str, Any] = {"window": None, "source_length": None, "target_length": None}
        ends = has_separate_columns(config)
        if not ends:
            no_cut |= {"source_features": None, "target_features": None}
        alone = config.model_copy(update=no_cut)
        if ends and (ended := np.asarray(ended_mask(chunk.points, config).any(axis=1))).any():
            chunk = select_rows(chunk, ~ended)
        last = None if config.window is None else config.window.source
        if last is not None:
            chunk = keep_last_rows(chunk, last)  # no fewer than so many steps
        chunk = replace(chunk, target=None, where_target=None)
        series = regularize(chunk, name, alone, spacing, has_key=self.has_key, last=last)
        if series.empty:
            self.note(f"{name}: {counted(series.empty, 'empty cell')} interpolated.")
        if dropped := len(series.dropped_names):
            self.note(f"{name}: {counted(dropped, 'sequence')} with empty cells dropped.")
        return series.without_dropped()


def joined_sources(parts: Sequence[Sequences]) -> Sequences:
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


def _parts_of(chunk: Chunk, ids: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
    """The words of the ids of some sequences of a chunk; None: an id is one word."""
    if chunk.id_parts is None:
        return None
    parts = dict(zip(chunk.ids, chunk.id_parts, strict=True))
    return tuple(parts[name] for name in ids)


def _none_left(name: str, count: int) -> str:
    return (
        f"{name}: all of its sequences ({count:,}) have empty cells and were dropped"
        " (data.missing), so none is left."
    )


def _called(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)
