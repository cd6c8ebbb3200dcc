"""The user's own sequences as three parts: cut, split, scaled, and what became of empty cells.

The order matters, so that nothing leaks: sequences are split first; empty cells are filled within a
part; windows are cut within a part; scaling is fitted on the training part alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files import Form, Piece, Ragged, check_file, offsets_of, read_all, step_text
from seqattn.data.scaling import (
    Scaler,
    Scaling,
    fit_feature,
    no_offsets,
    places_in,
    relative_offsets,
)
from seqattn.data.sequences import Floats, Integers, Sequences, real_points, stretches
from seqattn.errors import DataError
from seqattn.streams import stream

PARTS = ("train", "validation", "test")
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
    """

    parts: tuple[Sequences, Sequences, Sequences]
    scaling: Scaling
    notes: tuple[str, ...]
    split: tuple[tuple[str, str, str, str], ...]
    digests: tuple[str, ...]


@dataclass(eq=False)
class Series:
    """Sequences of one part, before they are cut into source and target.

    Attributes:
        ids, groups: names.
        points: what was read.
        where: (row, feature) -> the place in the file.
        target: what the file keeps apart as target.
        order: (rows,) steps, or None.
    """

    name: str
    ids: list[str]
    points: Ragged
    where: Callable[[int, int], str]
    target: Ragged | None = None
    where_target: Callable[[int, int], str] | None = None
    order: NDArray[np.generic] | None = None
    filled: int = 0
    dropped: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


def form_of(config: OwnFile, *, given_only: bool = False) -> Form:
    """How a config wants its files read.

    Args:
        given_only: only the columns that are given, as for a forecast.
    """
    wanted: list[str] | None = config.features
    if config.source_features is not None and config.target_features is not None:
        both = [*config.source_features, *config.target_features]
        wanted = list(dict.fromkeys(config.source_features if given_only else both))
    return Form(
        format=config.format, layout=config.layout, delimiter=config.delimiter,
        decimal=config.decimal, sequence=config.sequence, order=config.order, group=config.group,
        features=None if wanted is None else tuple(wanted),
    )  # fmt: skip


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
    form = form_of(config)
    pieces = [read_all(path, form) for path in paths]
    notes = [f"{path}: {note}" for path, piece in zip(paths, pieces, strict=True)
             for note in piece.notes]  # fmt: skip
    if len(pieces) == 1:
        series = _split(config, pieces.pop(), paths[0])
    else:
        series = [
            _series(piece, range(len(piece)), str(path))
            for piece, path in zip(pieces, paths, strict=True)
        ]
        pieces.clear()
    split = tuple(
        (name, part, *_first_and_last(one, k))
        for part, one in zip(PARTS, series, strict=True)
        for k, name in enumerate(one.ids)
    )
    for one in series:
        treat_missing(one, config)
    parts = []
    filled, dropped = 0, list[str]()
    for part in PARTS:
        one = series.pop(0)  # what is cut is not kept a second time
        made = cut(one, config)
        if not len(made):
            raise DataError(f"{one.name}: the {part} part has no sequences left.")
        parts.append(made)
        filled, dropped = filled + one.filled, dropped + one.dropped
    train, validation, test = (_alike(part, parts) for part in parts)
    scaling, said = fit(config, train)
    if filled:
        notes.append(f"{filled} empty cells were interpolated (data.missing)")
    if dropped:
        notes.append(
            f"{len(dropped)} sequences with empty cells were dropped (data.missing):"
            f" {', '.join(dropped[:5])}{', ...' if len(dropped) > 5 else ''}"
        )
    notes += said
    notes.append(
        f"{len(train)} training, {len(validation)} validation and {len(test)} test sequences;"
        f" source {_range(train.source_lengths)}, target {_range(train.target_lengths)} points"
    )
    return Own((train, validation, test), scaling, tuple(notes), split, digests(config))


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


# --- three parts ----------------------------------------------------------------------------------


def _split(config: OwnFile, piece: Piece, path: Path) -> list[Series]:
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
                " data.order."
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
    return [_series(piece, places, name) for places in chosen]


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
    for k in range(len(piece)):
        first, last = int(piece.points.offsets[k]), int(piece.points.offsets[k + 1])
        L = last - first
        of_test, of_validation = round(L * config.split.test), round(L * config.split.validation)
        bounds = np.array([0, L - of_validation - of_test, L - of_test, L]) + first
        for part in range(3):
            length = int(bounds[part + 1] - bounds[part])
            if length < needed:
                raise DataError(
                    f"{name}: the {PARTS[part]} part of series {piece.ids[k]!r} has {length} of its"
                    f" {L} points, but a window needs {needed} (data.window)."
                )
            rows[part].append(np.arange(bounds[part], bounds[part + 1]))
    found = []
    for parts in rows:
        places = np.concatenate(parts)
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        points = Ragged(piece.points.values[places], offsets_of(lengths), piece.points.features)
        found.append(
            Series(
                name, list(piece.ids), points, _moved(piece.where, places),
                order=None if piece.order is None else piece.order[places],
            )
        )  # fmt: skip
    return found


def _series(piece: Piece, places: Sequence[int], name: str) -> Series:
    """Some sequences of a piece."""
    points, whole = piece.points, len(places) == len(piece)
    target, where_target = piece.target, piece.where_target
    if target is not None and where_target is not None and not whole:
        target, where_target = target.at(places), _found_at(where_target, target, places)
    return Series(
        name, [piece.ids[k] for k in places],
        points if whole else points.at(places),
        piece.where if whole else _found_at(piece.where, points, places),
        target, where_target,
        piece.order if piece.order is None or whole else piece.order[rows_of(points, places)],
    )  # fmt: skip


def rows_of(ragged: Ragged, places: Sequence[int]) -> NDArray[np.int64]:
    """The rows of some sequences."""
    offsets = ragged.offsets
    found = [np.arange(offsets[k], offsets[k + 1]) for k in places]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _moved(where: Callable[[int, int], str], rows: NDArray[np.int64]) -> Callable[[int, int], str]:
    return lambda row, feature: where(int(rows[row]), feature)


def _found_at(
    where: Callable[[int, int], str], ragged: Ragged, places: Sequence[int]
) -> Callable[[int, int], str]:
    """`where`, asked for rows of `ragged.at(places)`; with an index a sequence, not one a row."""
    starts = ragged.offsets[np.asarray(places, dtype=np.int64)]
    offsets = offsets_of(ragged.lengths[np.asarray(places, dtype=np.int64)])

    def of_row(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        return where(int(starts[k]) + row - int(offsets[k]), feature)

    return of_row


def _first_and_last(series: Series, k: int) -> tuple[str, str]:
    if series.order is None:
        offsets = series.points.offsets  # not all lengths, for each of them
        return "1", str(int(offsets[k + 1] - offsets[k]))
    steps = series.order[series.points.offsets[k] : series.points.offsets[k + 1]]
    return (step_text(steps[0]), step_text(steps[-1])) if len(steps) else ("", "")


# --- empty cells ----------------------------------------------------------------------------------


def treat_missing(series: Series, config: OwnFile, apart_by: float | None = None) -> None:
    """Refuse, drop or fill empty cells, as the config says. With windows, `drop_sequence` drops the
    windows that have one, later.

    Args:
        apart_by: how far apart whole-numbered steps are; None: as the closest two.

    Raises:
        DataError: with row and column.
    """
    _treat_gaps(series, config, apart_by)
    apart, bad = _apart(config), set[int]()
    for ragged, where in ((series.points, series.where), (series.target, series.where_target)):
        if ragged is None or where is None:
            continue
        if not any(np.isnan(rows).any() for _, rows in stretches(ragged.values)):
            continue
        missing = np.isnan(ragged.values)
        if apart and ragged is series.points:
            missing &= ~_ended(ragged, config)
        if not missing.any():
            continue
        if config.missing == "refuse":
            row, feature = (int(i) for i in np.argwhere(missing)[0])
            raise DataError(
                f"{series.name}: {where(row, feature)} is empty, and so are"
                f" {int(missing.sum()) - 1} more cells. Fill them, or set data.missing to"
                " drop_sequence or interpolate."
            )
        if config.missing == "interpolate":
            series.filled += _interpolate(series, ragged, missing, where)
        if config.missing == "drop_sequence" and config.window is None:
            lacking = np.flatnonzero(missing.any(axis=1))
            bad |= set((np.searchsorted(ragged.offsets, lacking, side="right") - 1).tolist())
    _drop(series, bad)


def _drop(series: Series, bad: set[int]) -> None:
    if not bad:
        return
    kept = [k for k in range(len(series)) if k not in bad]
    series.dropped += [series.ids[k] for k in sorted(bad)]
    rows = rows_of(series.points, kept)
    series.ids = [series.ids[k] for k in kept]
    series.order = None if series.order is None else series.order[rows]
    series.points = series.points.at(kept)
    series.target = None if series.target is None else series.target.at(kept)


def _treat_gaps(series: Series, config: OwnFile, apart_by: float | None) -> None:
    """Whole-numbered steps that skip some are rows that are missing."""
    order = series.order
    if order is None or order.dtype.kind != "f" or not len(order):
        return
    steps = np.asarray(order, dtype=np.float64)
    if not (steps == np.round(steps)).all():
        return
    inner = np.ones(len(steps) - 1, dtype=bool)
    inner[series.points.offsets[1:-1] - 1] = False
    apart = np.diff(steps)
    if not inner.any():
        return
    common = apart[inner].min() if apart_by is None else apart_by
    gaps = np.flatnonzero(inner & (apart != common))
    if not gaps.size:
        return
    at = int(gaps[0])
    if config.missing == "refuse":
        raise DataError(
            f"{series.name}: {series.where(at + 1, 0).partition(',')[0]}: step"
            f" {step_text(steps[at + 1])} follows step {step_text(steps[at])}, but steps are"
            f" {step_text(common)} apart. Add the rows that lack, or set data.missing to"
            " drop_sequence or interpolate."
        )
    if config.missing == "drop_sequence" and config.window is None:
        _drop(
            series, set((np.searchsorted(series.points.offsets, gaps, side="right") - 1).tolist())
        )
        return
    odd = gaps[apart[gaps] % common != 0]
    if odd.size:
        raise DataError(
            f"{series.name}: step {step_text(steps[odd[0] + 1])} follows step"
            f" {step_text(steps[odd[0]])}, which is no multiple of {step_text(common)} apart, so no"
            " rows can be put between. Set data.order to null to take rows as they come."
        )
    more = np.zeros(len(steps), dtype=np.int64)
    more[gaps + 1] = (apart[gaps] / common).astype(np.int64) - 1
    if int(more.sum()) > 10 * len(steps) + 1000:
        raise DataError(
            f"{series.name}: steps {step_text(common)} apart would need {int(more.sum()):,} rows"
            f" more between {len(steps):,}. Set data.order to null to take rows as they come."
        )
    places = np.arange(len(steps)) + np.cumsum(more)
    total = len(steps) + int(more.sum())
    values = np.full((total, series.points.values.shape[1]), np.nan)
    values[places] = series.points.values
    source = np.full(total, -1)
    source[places] = np.arange(len(steps))
    where = series.where

    def where_now(row: int, feature: int) -> str:
        after = row
        while source[after] < 0:
            after += 1
        if after == row:
            return where(int(source[row]), feature)
        return f"a row that lacks before {where(int(source[after]), feature)}"

    filled_steps = np.interp(np.arange(total), places, steps)
    lengths = series.points.lengths + np.add.reduceat(more, series.points.offsets[:-1])
    series.points = Ragged(values, offsets_of(lengths), series.points.features)
    series.order, series.where = filled_steps, where_now


def _interpolate(
    series: Series, ragged: Ragged, missing: NDArray[np.bool_], where: Callable[[int, int], str]
) -> int:
    """Fill empty cells of each sequence linearly over its steps; returns how many."""
    values = np.array(ragged.values, dtype=np.float64)
    steps = np.arange(len(values), dtype=np.float64)
    if series.order is not None and ragged is series.points:
        steps = series.order.astype(
            "int64" if series.order.dtype.kind == "M" else "float64"
        ).astype(np.float64)
    rows = np.flatnonzero(missing.any(axis=1))
    for k in np.unique(np.searchsorted(ragged.offsets, rows, side="right") - 1):
        here = slice(int(ragged.offsets[k]), int(ragged.offsets[k + 1]))
        for feature in np.flatnonzero(missing[here].any(axis=0)):
            known = ~np.isnan(values[here, feature])
            if not known.any():
                raise DataError(
                    f"{series.name}: {where(here.start, int(feature))} is empty, and so is every"
                    f" other cell of {ragged.features[int(feature)]!r} in sequence"
                    f" {series.ids[int(k)]!r}: nothing to interpolate between."
                )
            gaps = missing[here, feature]
            values[here, feature][gaps] = np.interp(
                steps[here][gaps], steps[here][known], values[here, feature][known]
            )
    changed = Ragged(values, ragged.offsets, ragged.features)
    if ragged is series.points:
        series.points = changed
    else:
        series.target = changed
    return int(missing.sum())


# --- source and target ----------------------------------------------------------------------------


def _apart(config: OwnFile) -> bool:
    """Whether whole columns are source and others target, row by row."""
    lengths = (config.source_length, config.target_length, config.window)
    return config.source_features is not None and not any(lengths)


def _ended(ragged: Ragged, config: OwnFile) -> NDArray[np.bool_]:
    """(rows, F): True where a side of a sequence has ended: all its cells are empty to the end."""
    ended = np.zeros(ragged.values.shape, dtype=bool)
    for names in (config.source_features, config.target_features):
        places = [ragged.features.index(name) for name in names or ()]
        empty = np.isnan(ragged.values[:, places]).all(axis=1)
        for k in np.flatnonzero(np.logical_or.reduceat(empty, ragged.offsets[:-1])):
            first, last = int(ragged.offsets[k]), int(ragged.offsets[k + 1])
            real = last
            while real > first and empty[real - 1]:
                real -= 1
            ended[real:last, places] = True
    return ended


def cut(series: Series, config: OwnFile) -> Sequences:
    """Sequences as source and target.

    Raises:
        DataError: sequences that are too short, or nothing says where to cut.
    """
    points = series.points
    names = points.features
    if config.source_features is not None and config.target_features is not None:
        given, said = tuple(config.source_features), tuple(config.target_features)
    else:
        given = said = names
    of_source = [names.index(name) for name in given]
    of_target = [names.index(name) for name in said] if series.target is None else []
    if series.target is not None:
        if config.source_length or config.target_length or config.window:
            raise DataError(
                f"{series.name}: keeps source and target apart already; leave out"
                " data.source_length, target_length and window."
            )
        said = series.target.features
        return _made(
            series.ids, points.values, points.offsets[:-1], points.lengths, series.target.values,
            series.target.offsets[:-1], series.target.lengths, given, said, series,
        )  # fmt: skip
    whole = len(given) == len(names) == len(said)
    sources = points.values if whole else points.values[:, of_source]
    targets = points.values if whole else points.values[:, of_target]
    starts, lengths = points.offsets[:-1], points.lengths
    if config.window is not None:
        return _windows(series, config, sources, targets, given, said)
    if config.source_length is not None or config.target_length is not None:
        short = config.source_length or config.target_length or 0
        wrong = np.flatnonzero(lengths <= short)
        if wrong.size:
            k = int(wrong[0])
            key = "source_length" if config.source_length else "target_length"
            raise DataError(
                f"{series.name}: sequence {series.ids[k]!r} has {lengths[k]} points, which leaves"
                f" nothing beside data.{key} = {short}."
            )
        cuts = np.full(len(lengths), short) if config.source_length else lengths - short
        return _made(
            series.ids, sources, starts, cuts, targets, starts + cuts, lengths - cuts, given, said,
            series,
        )  # fmt: skip
    if config.source_features is None:
        raise DataError(
            f"{series.name}: nothing says what is source and what is target. Set"
            " data.source_length, target_length or window, or source_features and"
            " target_features."
        )
    ended = _ended(points, config)
    cut_short = [
        np.add.reduceat(~ended[:, columns[0]], starts).astype(np.int64)
        for columns in (of_source, of_target)
    ]
    return _made(
        series.ids, sources, starts, cut_short[0], targets, starts, cut_short[1], given, said,
        series,
    )  # fmt: skip


def cut_at(series: Series, source_length: int) -> Sequences:
    """Sequences cut into a source of up to `source_length` points and a target of the rest, for a
    model of made sequences.

    Raises:
        DataError: a sequence of one point, which cannot be both.
    """
    points = series.points
    starts, lengths = points.offsets[:-1], points.lengths
    if series.target is not None:
        target = series.target
        return _made(
            series.ids, points.values, starts, lengths, target.values, target.offsets[:-1],
            target.lengths, points.features, target.features, series,
        )  # fmt: skip
    short = np.flatnonzero(lengths < 2)
    if short.size:
        raise DataError(
            f"sequence {series.ids[int(short[0])]!r} has one point; to be scored it needs a source"
            " and a target, so two at least."
        )
    cuts = np.minimum(lengths - 1, source_length)
    return _made(
        series.ids, points.values, starts, cuts, points.values, starts + cuts, lengths - cuts,
        points.features, points.features, series,
    )  # fmt: skip


def _windows(
    series: Series, config: OwnFile, sources: NDArray[np.floating], targets: NDArray[np.floating],
    given: tuple[str, ...], said: tuple[str, ...],
) -> Sequences:  # fmt: skip
    window = config.window
    assert window is not None
    needed = window.source + window.target
    starts, ids = list[NDArray[np.int64]](), list[str]()
    for k, length in enumerate(series.points.lengths):
        if length < needed:
            raise DataError(
                f"{series.name}: sequence {series.ids[k]!r} has {length} points, but a window needs"
                f" {needed} (data.window)."
            )
        places = np.arange(0, length - needed + 1, window.stride) + series.points.offsets[k]
        starts.append(places)
        ids += [f"{series.ids[k]}@{_step_at(series, int(p + window.source), k)}" for p in places]
    first = np.concatenate(starts)
    if config.missing == "drop_sequence":
        empty = np.isnan(sources).any(axis=1) | np.isnan(targets).any(axis=1)
        count = np.concatenate([[0], np.cumsum(empty)])
        keep = count[first + needed] == count[first]
        series.dropped += [name for name, kept in zip(ids, keep, strict=True) if not kept]
        first = first[keep]
        ids = [name for name, kept in zip(ids, keep, strict=True) if kept]
    n = len(first)
    return _made(
        ids, sources, first, np.full(n, window.source), targets, first + window.source,
        np.full(n, window.target), given, said, series,
    )  # fmt: skip


def _step_at(series: Series, row: int, k: int) -> str:
    """The step of a row: what a window is called by, where its target begins."""
    if series.order is None:
        return str(row - int(series.points.offsets[k]) + 1)
    return step_text(series.order[row])


def _made(
    ids: Sequence[str],
    sources: NDArray[np.floating],
    source_starts: Integers,
    source_lengths: Integers,
    targets: NDArray[np.floating],
    target_starts: Integers,
    target_lengths: Integers,
    given: tuple[str, ...],
    said: tuple[str, ...],
    series: Series,
) -> Sequences:
    for what, lengths in (("source", source_lengths), ("target", target_lengths)):
        empty = np.flatnonzero(lengths < 1)
        if empty.size:
            raise DataError(
                f"{series.name}: sequence {ids[int(empty[0])]!r} has no points in its {what}."
            )
    return Sequences(
        source=gathered(sources, source_starts, source_lengths),
        source_lengths=source_lengths,
        target=gathered(targets, target_starts, target_lengths),
        target_lengths=target_lengths,
        features=given,
        ids=tuple(ids),
        said=said,
        last_steps=None
        if series.order is None
        else _last_two(series, source_starts, source_lengths),
    )


def _last_two(series: Series, starts: Integers, lengths: Integers) -> NDArray[np.generic]:
    """(N, 2) steps of the last two rows of each stretch."""
    assert series.order is not None
    last = starts + lengths - 1
    found: NDArray[np.generic] = series.order[
        np.stack([np.maximum(last - 1, starts), last], axis=1)
    ]
    return found


def gathered(values: NDArray[np.floating], starts: Integers, lengths: Integers) -> Floats:
    """(N, longest, F) of stretches of rows; 0 beyond each length."""
    L = int(lengths.max(initial=0))
    apart = int(starts[1] - starts[0]) if len(starts) > 1 else L
    if len(starts) and apart >= L and (lengths == L).all() and (np.diff(starts) == apart).all():
        # Evenly spaced: a view. It ends with the rows of the last, so it reaches no further.
        first, F = int(starts[0]), values.shape[1]
        by_row, by_feature = values.strides
        return np.lib.stride_tricks.as_strided(
            values[first:], (len(starts), L, F), (apart * by_row, by_row, by_feature),
            writeable=False,
        )  # fmt: skip
    steps = np.arange(L)
    rows = np.minimum(starts[:, None] + steps, max(len(values) - 1, 0))
    found: Floats = np.asarray(values[rows])
    real = real_points(lengths, L)
    return found if real.all() else np.where(real[:, :, None], found, 0)


def _alike(part: Sequences, parts: Sequence[Sequences]) -> Sequences:
    """A part as it is; parts of files of their own must have the same features.

    Raises:
        DataError: they have not.
    """
    first = parts[0]
    if (part.features, part.said) != (first.features, first.said):
        raise DataError(
            f"one part has the features {', '.join(part.features)} (given) and"
            f" {', '.join(part.said)} (to be said), the training part {', '.join(first.features)}"
            f" and {', '.join(first.said)}."
        )
    return part


# --- scaling --------------------------------------------------------------------------------------


def fit(config: OwnFile, train: Sequences) -> tuple[Scaling, list[str]]:
    """The scaling of a training part, and what should be said of it."""
    carried = places_in(train.features, train.said)
    relative = config.relative
    if config.scaling == "none":
        of_sides = Scaler.identity(len(train.features)), Scaler.identity(len(train.said))
        return Scaling(*of_sides, carried, relative), []
    of_source, of_target = relative_offsets(train, carried) if relative else no_offsets(train)

    def columns(name: str) -> Iterator[Floats]:
        """What is known of a feature, on both sides: it gets one scale for both."""
        for names, points, keep, offsets in (
            (train.features, train.source, train.source_keep, of_source),
            (train.said, train.target, train.target_keep, of_target),
        ):
            if name in names:
                i = names.index(name)
                for first, rows in stretches(points):
                    here = slice(first, first + len(rows))
                    yield (rows[:, :, i] - offsets[here, :, i])[keep[here]]

    fitted = {
        name: fit_feature(config.scaling, lambda name=name: columns(name))  # type: ignore[misc]
        for name in dict.fromkeys([*train.features, *train.said])
    }
    notes = [
        f"{name} is always {one.shift:g} in the training part: not scaled"
        for name, one in fitted.items() if one.constant
    ]  # fmt: skip
    scalers = [
        Scaler(*(np.array([getattr(fitted[name], what) for name in names])
                 for what in ("shift", "scale")))
        for names in (train.features, train.said)
    ]  # fmt: skip
    return Scaling(scalers[0], scalers[1], carried, relative), notes


# --- for forecasts --------------------------------------------------------------------------------


def as_sources(piece: Piece, config: OwnFile | None) -> Sequences:
    """Whole sequences of a piece as sources, with no target known; of a run with windows, the last
    points that fit one."""
    points = piece.points
    lengths, starts = points.lengths, points.offsets[:-1]
    if config is not None and config.window is not None:
        kept = np.minimum(lengths, config.window.source)
        starts, lengths = starts + lengths - kept, kept
    N, F = len(piece), len(points.features)
    return Sequences(
        source=gathered(points.values, starts, lengths),
        source_lengths=lengths,
        target=np.zeros((N, 0, F)),
        target_lengths=np.zeros(N, dtype=np.int64),
        features=points.features,
        ids=piece.ids,
    )


def renamed(piece: Piece, features: tuple[str, ...]) -> Piece:
    """The same with the model's names for its columns."""
    points = piece.points
    return replace(piece, points=Ragged(points.values, points.offsets, features))


def _range(lengths: Integers) -> str:
    low, high = int(lengths.min()), int(lengths.max())
    return str(low) if low == high else f"{low} to {high}"
