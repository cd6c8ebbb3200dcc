"""Sequences cut into source and target: at a length, in windows, or by whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files import Piece, Ragged, step_text
from seqattn.data.own.series import Series, numbered
from seqattn.data.sequences import Floats, Integers, Sequences, real_points
from seqattn.data.spacing import Spacing
from seqattn.errors import DataError


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
        kept = np.flatnonzero(lengths > short)
        if not kept.size:
            key = "source_length" if config.source_length else "target_length"
            raise DataError(
                f"{series.name}: no sequence has more than data.{key} = {short} points; the"
                f" longest, {series.ids[int(lengths.argmax())]!r}, has {lengths.max()}."
            )
        ids = [series.ids[int(k)] for k in kept]
        series.too_short += [series.ids[int(k)] for k in np.flatnonzero(lengths <= short)]
        starts, lengths = starts[kept], lengths[kept]
        cuts = np.full(len(lengths), short) if config.source_length else lengths - short
        return _made(
            ids, sources, starts, cuts, targets, starts + cuts, lengths - cuts, given, said,
            series,
        )  # fmt: skip
    if config.source_features is None:
        raise DataError(
            f"{series.name}: nothing says what is source and what is target. Set"
            " data.source_length, target_length or window, or source_features and"
            " target_features."
        )
    ended = ended_sides(points, config)
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


def as_sources(
    piece: Piece, config: OwnFile | None, said: tuple[str, ...] = (),
    spacing: Spacing | None = None, was_empty: NDArray[np.bool_] | None = None,
) -> Sequences:  # fmt: skip
    """Whole sequences of a piece as sources, with no target known; of a run with windows, the last
    points that fit one.

    Args:
        said: features of the targets; none: those of the sources.
        spacing: of the piece's steps; None: they are counted from 1.
        was_empty: (rows, features) cells of the piece that were filled; None: none.
    """
    points, observed = piece.points, None
    lengths, starts = points.lengths, points.offsets[:-1]
    if config is not None and config.window is not None:
        kept = np.minimum(lengths, config.window.source)
        starts, lengths = starts + lengths - kept, kept
    if was_empty is not None:
        observed = _unless_all(gathered(~was_empty, starts, lengths), lengths)
    N, F = len(piece), len(said or points.features)
    return Sequences(
        source=gathered(points.values, starts, lengths),
        source_lengths=lengths,
        target=np.zeros((N, 0, F)),
        target_lengths=np.zeros(N, dtype=np.int64),
        features=points.features,
        ids=piece.ids,
        said=said,
        last_steps=None if piece.order is None else piece.order[points.offsets[1:] - 1],
        spacing=spacing,
        source_observed=observed,
    )


def gathered(values: NDArray[Any], starts: Integers, lengths: Integers) -> NDArray[Any]:
    """(N, longest, F) of stretches of rows; 0 or False beyond each length."""
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
    found = np.asarray(values[rows])
    real = real_points(lengths, L)
    return found if real.all() else np.where(real[:, :, None], found, found.dtype.type(0))


def alike(part: Sequences, parts: Sequence[Sequences]) -> Sequences:
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


def columns_apart(config: OwnFile) -> bool:
    """Whether whole columns are source and others target, row by row."""
    lengths = (config.source_length, config.target_length, config.window)
    return config.source_features is not None and not any(lengths)


def ended_sides(ragged: Ragged, config: OwnFile) -> NDArray[np.bool_]:
    """(rows, F): True where a side of a sequence has ended: all its cells are empty to the end."""
    ended = np.zeros(ragged.values.shape, dtype=bool)
    for names in (config.source_features, config.target_features):
        places = [ragged.features.index(name) for name in names or () if name in ragged.features]
        if not places:
            continue  # a file to forecast from need not have what is to be said
        empty = np.isnan(ragged.values[:, places]).all(axis=1)
        for k in np.flatnonzero(np.logical_or.reduceat(empty, ragged.offsets[:-1])):
            first, last = int(ragged.offsets[k]), int(ragged.offsets[k + 1])
            real = last
            while real > first and empty[real - 1]:
                real -= 1
            ended[real:last, places] = True
    return ended


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
            series.too_short.append(series.ids[k])
            continue
        places = np.arange(0, length - needed + 1, window.stride) + series.points.offsets[k]
        starts.append(places)
        ids += [f"{series.ids[k]}@{_step_at(series, int(p + window.source), k)}" for p in places]
    if not starts:
        longest = int(series.points.lengths.max(initial=0))
        raise DataError(
            f"{series.name}: a window needs {needed} points (data.window), and the longest sequence"
            f" has {longest}."
        )
    first = np.concatenate(starts)
    keep: NDArray[np.bool_] = np.ones(len(first), dtype=bool)
    if config.missing == "drop_sequence":
        empty = np.isnan(sources).any(axis=1) | np.isnan(targets).any(axis=1)
        count = np.concatenate([[0], np.cumsum(empty)])
        keep = count[first + needed] == count[first]
    elif series.was_empty is not None:  # a source needs something to be filled from
        known = ~_columns(series, series.was_empty, given)
        counts = np.concatenate([np.zeros((1, len(given)), dtype=np.int64), known.cumsum(axis=0)])
        keep = np.asarray((counts[first + window.source] > counts[first]).all(axis=1))
    if not keep.all():
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
    source: Floats = gathered(sources, source_starts, source_lengths)
    source_observed = target_observed = None
    if series.was_empty is not None:
        source = _filled_alone(source, source_starts, source_lengths, ids, given, series)
        rows = ~_columns(series, series.was_empty, given)
        source_observed = _unless_all(gathered(rows, source_starts, source_lengths), source_lengths)
    rows_observed = _observed_rows(series, said)
    if rows_observed is not None:
        observed = gathered(rows_observed, target_starts, target_lengths)
        target_observed = _unless_all(observed, target_lengths)
        targets = np.where(rows_observed, targets, np.nan)
    last_steps = spacing = None
    if series.order is not None and series.spacing is not None:
        last = source_starts + source_lengths - 1
        last_steps = series.order[last]
        whose = np.searchsorted(series.points.offsets, last, side="right") - 1
        spacing = series.spacing.at(whose)
    return Sequences(
        source=source,
        source_lengths=source_lengths,
        target=gathered(targets, target_starts, target_lengths),
        target_lengths=target_lengths,
        features=given,
        ids=tuple(ids),
        said=said,
        last_steps=last_steps,
        spacing=spacing,
        source_observed=source_observed,
        target_observed=target_observed,
    )


def _observed_rows(series: Series, said: tuple[str, ...]) -> NDArray[np.bool_] | None:
    """(rows, features) of what targets are cut from: whether a cell was observed; None: all."""
    if series.target is not None:
        empty = np.isnan(series.target.values)
        return ~empty if empty.any() else None
    return None if series.was_empty is None else ~_columns(series, series.was_empty, said)


def _unless_all(cells: NDArray[np.bool_], lengths: Integers) -> NDArray[np.bool_] | None:
    """A mask; None where it hides no real cell."""
    return None if int(cells.sum()) == int(lengths.sum()) * cells.shape[2] else cells


def _columns(series: Series, rows: NDArray[np.bool_], names: tuple[str, ...]) -> NDArray[np.bool_]:
    """(rows, features) of some features of a series."""
    return rows[:, [series.points.features.index(name) for name in names]]


def _filled_alone(
    source: Floats, starts: Integers, lengths: Integers, ids: Sequence[str],
    given: tuple[str, ...], series: Series,
) -> Floats:  # fmt: skip
    """(N, S, F) sources whose empty cells are filled linearly between points of their own; at an
    end the nearest value stays, so that nothing is told of what follows.

    Raises:
        DataError: a source without a value of a feature.
    """
    assert series.was_empty is not None
    empty = _columns(series, series.was_empty, given)
    at_an_end = np.argwhere(empty[starts] | empty[starts + lengths - 1])
    if not at_an_end.size:
        return source
    filled = np.array(source, dtype=np.float64)
    steps = numbered(series)
    for k, feature in at_an_end:
        length = int(lengths[k])
        rows = slice(int(starts[k]), int(starts[k]) + length)
        gaps, at, column = empty[rows, feature], steps[rows], filled[k, :length, feature]
        if gaps.all():
            raise DataError(
                f"{series.name}: sequence {ids[k]!r} has no {given[feature]!r} in its source:"
                " nothing to interpolate between."
            )
        column[gaps] = np.interp(at[gaps], at[~gaps], column[~gaps])
    return filled
