"""A unit's rows as sequences, and what tells a file from what it was.

Letters: n sequences, F features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Stream as StreamConfig
from seqattn.data.files import Seen, joined
from seqattn.data.files.piece import Piece, check_values
from seqattn.data.metrics import SeriesTable
from seqattn.data.own import cut, series_of, spacing_of, treat_missing
from seqattn.data.own.in_sample import target_series
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.spacing import joined as joined_spacings
from seqattn.data.tables.fragments import Fragment
from seqattn.errors import DataError


@dataclass(eq=False)
class Counts:
    """What was noticed while units were read.

    Attributes:
        notes: what a reader should be told.
        dropped: sequences with empty cells that were dropped.
        too_short: sequences that were left out because they have too few points.
        filled: empty cells of other sequences.
        spacings: of the steps of each unit; None where a unit has several, or uneven steps.
        series: names and values of the series of the latest unit.
    """

    notes: list[str] = field(default_factory=list)
    dropped: int = 0
    too_short: list[str] = field(default_factory=list)
    filled: int = 0
    spacings: set[Frequency | None] = field(default_factory=set)
    series: tuple[list[str], SeriesTable] | None = None


def sequences_of(
    fragment: Fragment, config: StreamConfig, counts: Counts | None = None
) -> Sequences:
    """A unit as it is to be given and said.

    Args:
        counts: gets what is noticed.
    """
    pieces = list[Piece]()
    seen = Seen()
    for piece in fragment.pieces():
        check_values(fragment.name, piece)
        again = seen.again(piece.ids)
        if again is not None:
            raise DataError(f"{fragment.name}: the sequence {again!r} comes twice.")
        pieces.append(piece)
    piece = joined(pieces)
    spacing = spacing_of(piece)
    series = series_of(piece, range(len(piece)), fragment.name, spacing)
    treat_missing(series, config)
    part = cut(series, config)
    if counts is not None:
        counts.notes += [note for note in piece.notes if note not in counts.notes]
        counts.dropped += len(series.dropped)
        counts.too_short += series.too_short
        counts.filled += series.filled
        if spacing is not None:
            counts.spacings.add(spacing.common())
        counts.series = series.ids, target_series(series, config)
    return part


def picked(part: Sequences, places: NDArray[np.int64]) -> Sequences:
    """The sequences at some places, their own copy."""
    return Sequences(
        part.source[places], part.source_lengths[places], part.target[places],
        part.target_lengths[places], part.features, tuple(part.ids[k] for k in places),
        said=part.said,
        last_steps=None if part.last_steps is None else part.last_steps[places],
        spacing=None if part.spacing is None else part.spacing.at(places),
        source_observed=None if part.source_observed is None else part.source_observed[places],
        target_observed=None if part.target_observed is None else part.target_observed[places],
    )  # fmt: skip


def longest(parts: Sequence[Sequences]) -> tuple[int, int]:
    """Points of the longest source and of the longest target."""
    return (
        max(int(part.source_lengths.max()) for part in parts),
        max(int(part.target_lengths.max()) for part in parts),
    )


def together(parts: Sequence[Sequences], S: int, T: int) -> Sequences:
    """Parts of several units as one, padded to S and T points."""
    steps = [part.last_steps for part in parts if part.last_steps is not None]
    spacings = [part.spacing for part in parts if part.spacing is not None]
    masked = [any(getattr(part, f"{side}_observed") is not None for part in parts)
              for side in ("source", "target")]  # fmt: skip
    return Sequences(
        np.concatenate([wider(part.source, S) for part in parts]),
        np.concatenate([part.source_lengths for part in parts]),
        np.concatenate([wider(part.target, T) for part in parts]),
        np.concatenate([part.target_lengths for part in parts]),
        parts[0].features,
        tuple(name for part in parts for name in part.ids),
        said=parts[0].said,
        last_steps=np.concatenate(steps) if len(steps) == len(parts) else None,
        spacing=joined_spacings(spacings) if len(spacings) == len(parts) else None,
        source_observed=np.concatenate([wider(part.source_cells, S) for part in parts])
        if masked[0]
        else None,
        target_observed=np.concatenate([wider(part.target_cells, T) for part in parts])
        if masked[1]
        else None,
    )


def wider(points: NDArray[Any], length: int) -> NDArray[Any]:
    """(n, L, F) with zeros up to a length, or without what is padding beyond it."""
    missing = length - points.shape[1]
    if missing <= 0:
        return points[:, :length]
    return np.pad(points, ((0, 0), (0, missing), (0, 0)))


def stamp_of(path: Path) -> tuple[int, int]:
    """What changes when a file is written to: its size, and when that was."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def changed(path: Path) -> DataError:
    return DataError(
        f"{path}: has changed since the training began. Put the old one back; train --resume goes"
        " on from there, as does the same compare."
    )
