"""What was read, split into three parts: by sequence, by group or by time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files import Piece, Ragged, offsets_of
from seqattn.data.own.series import Series, moved, series_of, spacing_of
from seqattn.errors import DataError
from seqattn.streams import stream

PARTS = ("train", "validation", "test")


def three_parts(config: OwnFile, piece: Piece, path: Path) -> list[Series]:
    """Training, validation and test part of one file.

    Raises:
        DataError: a part would have nothing, or the file does not have what it is to be split by.
    """
    split, name = config.split, str(path)
    if split.by == "time" and config.window is not None:
        return _cut_in_time(config, piece, name)
    N = len(piece)
    if split.by == "group":
        words = piece.groups
        if words is None:
            raise DataError(f"{name}: has no groups to split by.")
        units = list(dict.fromkeys(words))
        of_unit: dict[str, list[int]] = {unit: [] for unit in units}
        for k, word in enumerate(words):
            of_unit[word].append(k)
        members, what = [of_unit[unit] for unit in units], "groups"
    else:
        members, what = [[k] for k in range(N)], "sequences"
    if split.by == "time":
        if piece.order is None:
            raise DataError(
                f"{name}: has no column that says when, for data.split.by: time; name it in"
                " data.time."
            )
        order = np.argsort(piece.order[piece.points.offsets[:-1]], kind="stable")
    else:
        order = stream(split.seed, "split", split.by).permutation(len(members))
    counts = _counts(len(members), split.validation, split.test, what, name)
    bounds = np.cumsum([0, *counts])
    chosen = [
        sorted(k for unit in order[first:last] for k in members[unit])
        for first, last in itertools.pairwise(bounds)
    ]
    spacing = spacing_of(piece)
    return [series_of(piece, places, name, spacing) for places in chosen]


def _counts(n: int, validation: float, test: float, what: str, name: str) -> tuple[int, int, int]:
    """How many of n each part gets."""
    of_validation, of_test = round(n * validation), round(n * test)
    of_train = n - of_validation - of_test
    for part, count in zip(PARTS, (of_train, of_validation, of_test), strict=True):
        if count < 1:
            if n < 3:
                hint = (
                    "Three parts need three at least; one long series can be cut with data.window"
                    " and data.split.by: time"
                )
            else:
                hint = "Change the shares in data.split"
            raise DataError(
                f"{name}: of {n} {what} the {part} part would get {max(count, 0)}. {hint}."
            )
    return of_train, of_validation, of_test


def _cut_in_time(config: OwnFile, piece: Piece, name: str) -> list[Series]:
    """Each series in three: the first points train, the last test."""
    if piece.target is not None:
        raise DataError(f"{name}: keeps targets apart, so there is no series to cut in time.")
    window = config.window
    assert window is not None
    needed = window.source + window.target
    rows: list[list[NDArray[np.int64]]] = [[], [], []]
    too_short, kept, refusal = list[str](), list[int](), ""
    for k in range(len(piece)):
        first, last = int(piece.points.offsets[k]), int(piece.points.offsets[k + 1])
        L = last - first
        of_test, of_validation = round(L * config.split.test), round(L * config.split.validation)
        bounds = np.array([0, L - of_validation - of_test, L - of_test, L]) + first
        sizes = np.diff(bounds)
        if (sizes < needed).any():
            part = int(np.flatnonzero(sizes < needed)[0])
            too_short.append(piece.ids[k])
            refusal = refusal or (
                f"{name}: the {PARTS[part]} part of series {piece.ids[k]!r} has {sizes[part]} of"
                f" its {L} points, but a window needs {needed} (data.window)."
            )
            continue
        kept.append(k)
        for part in range(3):
            rows[part].append(np.arange(bounds[part], bounds[part + 1]))
    if not kept:
        raise DataError(refusal)
    found, spacing = [], spacing_of(piece)
    if spacing is not None:
        spacing = spacing.at(np.array(kept))
    for parts in rows:
        places = np.concatenate(parts)
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        points = Ragged(piece.points.values[places], offsets_of(lengths), piece.points.features)
        found.append(
            Series(
                name, [piece.ids[k] for k in kept], points, moved(piece.where, places),
                order=None if piece.order is None else piece.order[places], spacing=spacing,
            )
        )  # fmt: skip
    found[0].too_short += too_short
    return found
