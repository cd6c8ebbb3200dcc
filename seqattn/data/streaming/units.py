"""A unit's rows as sequences, and what tells a file from what it was.

Letters: n sequences, F features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Stream as StreamConfig
from seqattn.data.files import Seen, joined
from seqattn.data.files.piece import Piece, check_values
from seqattn.data.files.typed import Fragment
from seqattn.data.own import Series, cut, spacing, treat_missing
from seqattn.data.sequences import Sequences
from seqattn.errors import DataError


def sequences_of(
    fragment: Fragment,
    config: StreamConfig,
    notes: list[str] | None = None,
    dropped: list[str] | None = None,
    apart: list[float] | None = None,
) -> Sequences:
    """A unit as it is to be given and said.

    Args:
        notes, dropped, apart: get what a reader should be told, the names of sequences that were
            dropped, and how far apart whole-numbered steps are.
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
    if notes is not None:
        notes += [note for note in piece.notes if note not in notes]
    series = Series(fragment.name, list(piece.ids), piece.points, piece.where, order=piece.order)
    common = spacing(series)
    if apart is not None and common is not None:
        apart.append(common)
    treat_missing(series, config)
    part = cut(series, config)
    if dropped is not None:
        dropped += series.dropped
    return part


def picked(part: Sequences, places: NDArray[np.int64]) -> Sequences:
    """The sequences at some places, their own copy."""
    return Sequences(
        part.source[places], part.source_lengths[places], part.target[places],
        part.target_lengths[places], part.features, tuple(part.ids[k] for k in places),
        said=part.said,
        last_steps=None if part.last_steps is None else part.last_steps[places],
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
    return Sequences(
        np.concatenate([wider(part.source, S) for part in parts]),
        np.concatenate([part.source_lengths for part in parts]),
        np.concatenate([wider(part.target, T) for part in parts]),
        np.concatenate([part.target_lengths for part in parts]),
        parts[0].features,
        tuple(name for part in parts for name in part.ids),
        said=parts[0].said,
        last_steps=np.concatenate(steps) if len(steps) == len(parts) else None,
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
