"""The user's own sequences as three parts: cut, split, scaled, and what became of empty cells.

The order matters, so that nothing leaks: sequences are split first; empty cells are filled within a
part, those of a source from its own points; windows are cut within a part; scaling is fitted on the
training part alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile
from seqattn.config.knobs.data import names_in
from seqattn.data.files import Piece, Ragged, ReadOptions, check_file, read_all
from seqattn.data.metrics import InSample
from seqattn.data.own.cutting import alike, as_sources, columns_apart, cut, cut_at, ended_sides
from seqattn.data.own.fitting import constant_windows, fit, instance_notes, own_levels, scaling_of
from seqattn.data.own.in_sample import in_sample_of, target_series
from seqattn.data.own.missing import treat_missing
from seqattn.data.own.series import (
    Series,
    first_and_last,
    last_rows,
    of_rows,
    series_of,
    spacing_of,
)
from seqattn.data.own.splitting import PARTS, three_parts
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Integers, Sequences
from seqattn.data.spacing import Frequency
from seqattn.errors import DataError
from seqattn.wording import counted

__all__ = [
    "UNKNOWN",
    "Own",
    "Series",
    "as_sources",
    "check_observed",
    "columns_apart",
    "constant_windows",
    "cut",
    "cut_at",
    "digests",
    "ended_sides",
    "filled_notes",
    "fit",
    "form_of",
    "instance_notes",
    "last_rows",
    "load_own",
    "of_rows",
    "own_levels",
    "renamed",
    "scaling_of",
    "series_of",
    "short_notes",
    "spacing_notes",
    "spacing_of",
    "treat_missing",
]  # fmt: skip

UNKNOWN = "unknown"
"""The path in a checkpoint's config: a checkpoint names no file."""


@dataclass(frozen=True, eq=False)
class Own:
    """What became of the user's files.

    Attributes:
        parts: training, validation, test.
        scaling: fitted on the training part.
        notes: what a user should be told, a sentence each.
        split: (name of the sequence, part, first step, last step) of each.
        digests: SHA-256 of each file.
        frequency: how far apart the steps of all training series are, or None.
        in_sample: season and scale of the errors, of the training series.
    """

    parts: tuple[Sequences, Sequences, Sequences]
    scaling: Scaling
    notes: tuple[str, ...]
    split: tuple[tuple[str, str, str, str], ...]
    digests: tuple[str, ...]
    frequency: Frequency | None
    in_sample: InSample


def form_of(config: OwnFile, *, given_only: bool = False) -> ReadOptions:
    """How a config wants its files read.

    Args:
        given_only: only the columns that are given, as for a forecast.
    """
    wanted: list[str] | None = config.features
    apart = None
    if config.source_features is not None and config.target_features is not None:
        apart = tuple(config.source_features), tuple(config.target_features)
        both = [*config.source_features, *config.target_features]
        wanted = list(dict.fromkeys(config.source_features if given_only else both))
    series, time = names_in(config.series), names_in(config.time)
    return ReadOptions(
        format=config.format, layout=config.layout, delimiter=config.delimiter,
        comment=config.comment, encoding=config.encoding, has_header=config.header,
        skip_rows=config.skip_rows, decimal=config.decimal, thousands=config.thousands,
        na_values=None if config.na_values is None else tuple(config.na_values),
        time_format=config.time_format,
        series="auto" if config.series == ["auto"] else series,
        time="auto" if config.time == ["auto"] else time or None,
        group=config.group, ignore=tuple(config.ignore or ()), one_hot=tuple(config.one_hot or ()),
        features=None if wanted is None else tuple(wanted), apart=None if given_only else apart,
    )  # fmt: skip


def short_notes(names: Sequence[str]) -> list[str]:
    """What is to be said of sequences that are left out because they are short."""
    if not names:
        return []
    more = ", ..." if len(names) > 5 else ""
    return [
        f"{counted(len(names), 'sequence')} left out, too short to be cut into source and target:"
        f" {', '.join(names[:5])}{more}"
    ]


def load_own(config: OwnFile) -> Own:
    """Read, split, fill, cut and scale.

    Raises:
        DataError: what a user can mend, with its place in the file.
        UsageError: a table, and no pyarrow to read it.
    """
    if config.path == UNKNOWN:
        raise DataError(
            "a checkpoint does not say where its training data lie. Give a run folder, or your own"
            " sequences with --input."
        )
    paths = [Path(p) for p in (config.path, config.validation_path, config.test_path) if p]
    for path in paths:
        check_file(path)
    content = digests(config)
    twice = [k for k, digest in enumerate(content) if digest in content[:k]]
    if twice:
        raise DataError(
            f"{paths[twice[0]]}: has the bytes of {paths[content.index(content[twice[0]])]}, which"
            " belongs to another part. Give each part sequences of its own."
        )
    pieces = [read_all(path, form_of(config)) for path in paths]
    notes = [f"{path}: {note}" for path, piece in zip(paths, pieces, strict=True)
             for note in piece.notes]  # fmt: skip
    if len(pieces) == 1:
        series = three_parts(config, pieces.pop(), paths[0])
    else:
        series = [series_of(piece, range(len(piece)), str(path), spacing_of(piece))
                  for piece, path in zip(pieces, paths, strict=True)]  # fmt: skip
        pieces.clear()
    split = tuple(
        (name, part, *first_and_last(one, k))
        for part, one in zip(PARTS, series, strict=True)
        for k, name in enumerate(one.ids)
    )
    spacing = series[0].spacing
    frequency = None if spacing is None else spacing.common()
    notes += spacing_notes(series)
    for one in series:
        treat_missing(one, config)
    parts, filled, dropped, too_short = list[Sequences](), 0, list[str](), list[str]()
    for part in PARTS:
        one = series.pop(0)  # what is cut is not kept a second time
        made = cut(one, config)
        if not len(made):
            raise DataError(f"{one.name}: the {part} part has no sequences left.")
        check_observed(made, f"{one.name}: the {part} part", every_feature=part == "train")
        if part == "train":
            in_sample, of_season = in_sample_of(target_series(one, config), made, config)
        parts.append(made)
        filled, dropped = filled + one.filled, dropped + one.dropped
        too_short += one.too_short
    train, validation, test = (alike(part, parts) for part in parts)
    scaling, said = fit(config, train)
    notes += filled_notes(filled)
    notes += short_notes(too_short)
    if dropped:
        notes.append(
            f"{len(dropped)} sequences with empty cells were dropped (data.missing):"
            f" {', '.join(dropped[:5])}{', ...' if len(dropped) > 5 else ''}"
        )
    notes += [*said, *of_season]
    notes.append(
        f"{len(train)} training, {len(validation)} validation and {len(test)} test sequences;"
        f" source {_range(train.source_lengths)}, target {_range(train.target_lengths)} points"
    )
    return Own((train, validation, test), scaling, tuple(notes), split, content, frequency,
               in_sample)  # fmt: skip


def digests(config: OwnFile) -> tuple[str, ...]:
    """SHA-256 of each of a config's files.

    Raises:
        DataError: one is not there.
    """
    found = []
    for text in (config.path, config.validation_path, config.test_path):
        if text:
            check_file(Path(text))
            with Path(text).open("rb") as file:
                found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return tuple(found)


def check_observed(part: Sequences, called: str, *, every_feature: bool = False) -> None:
    """
    Args:
        called: the part, for a message.
        every_feature: whether each feature must have been observed, as in a training part.

    Raises:
        DataError: no target cell of the part, or of one feature, was observed.
    """
    seen = part.target_cells.any(axis=(0, 1))
    if not seen.any():
        raise DataError(
            f"{called} has no target that was observed: all its cells are empty, so nothing can be"
            " learned or scored. Give rows with values, or change what is to be said."
        )
    if every_feature and not seen.all():
        raise DataError(
            f"{called} has no observed {part.said[int(seen.argmin())]!r} in its targets, so it"
            " cannot be learned. Give rows with values, or leave it out of what is to be said."
        )


def filled_notes(filled: int) -> list[str]:
    """What should be said of empty cells that were interpolated."""
    if not filled:
        return []
    return [
        f"{filled} empty cells: interpolated where they are given, left out of losses and errors"
        " where they are to be said (data.missing)"
    ]


def spacing_notes(series: Sequence[Series]) -> list[str]:
    """What should be said of series that are spaced unlike, or unevenly."""
    found, uneven = dict[Frequency, int](), list[str]()
    for one in series:
        if one.spacing is not None:
            found |= one.spacing.frequencies()
            lengths = one.points.lengths
            at = np.flatnonzero(~one.spacing.is_known & (lengths > 1))
            uneven += [one.ids[k] for k in at]
    notes = []
    if len(found) > 1:
        first = ", ".join(map(str, list(found)[:5])) + (", ..." if len(found) > 5 else "")
        notes.append(f"series have different spacings, each its own: {first}")
    if uneven:
        notes.append(
            f"the steps of {len(set(uneven))} sequences are not evenly spaced ({uneven[0]!r}), so"
            " their rows are taken as they come"
        )
    return notes


def renamed(piece: Piece, features: tuple[str, ...]) -> Piece:
    """The same with the model's names for its columns."""
    points = piece.points
    return replace(piece, points=Ragged(points.values, points.offsets, features))


def _range(lengths: Integers) -> str:
    low, high = int(lengths.min()), int(lengths.max())
    return str(low) if low == high else f"{low} to {high}"
