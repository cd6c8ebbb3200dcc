"""Series cut into source and target: at a length, in windows, or by whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.files.chunk import Ragged
from seqattn.data.row_ranges import RowRanges
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, Spans, blocks_of, ended_sides
from seqattn.data.windows import WindowNames, Windows
from seqattn.errors import DataError

BLOCK = 2**20
"""Rows that are looked at together."""


@dataclass
class LeftOut:
    """What is not among the sequences.

    Attributes:
        too_short: names of series that are too short to be cut.
        dropped: how many windows, or series, have empty cells; and the names of some.
    """

    too_short: list[str] = field(default_factory=list)
    dropped: int = 0
    names: list[str] = field(default_factory=list)

    def drop(self, count: int, names: Sequence[str]) -> None:
        self.dropped += count
        self.names += names[: max(0, 5 - len(self.names))]


class _Cut(NamedTuple):
    """Rows of sources and targets.

    Attributes:
        series_index: (N,) the series of each.
    """

    series_index: Integers
    source_starts: Integers
    source_lengths: Integers
    target_starts: Integers
    target_lengths: Integers


def cut(series: Series, spans: Spans, config: OwnFile, left_out: LeftOut) -> Windows:
    """Sequences as source and target.

    Args:
        spans: the rows of a part.
        left_out: gets what is left out.

    Raises:
        DataError: sequences that are too short, or nothing says where to cut.
    """
    names, target = series.columns, series.target
    source_features = target_features = names
    if config.source_features is not None and config.target_features is not None:
        source_features, target_features = (
            tuple(config.source_features),
            tuple(config.target_features),
        )
    if target is not None:
        if config.source_length or config.target_length or config.window:
            raise DataError(
                f"{series.name}: keeps source and target apart already; leave out"
                " data.source_length, target_length and window."
            )
        return _made(series, _with_target(spans, target), source_features, target.features)
    if config.window is not None:
        return _made(series, _in_windows(series, spans, config, source_features, left_out), source_features, target_features,
                     is_window=True)  # fmt: skip
    if config.source_length is not None or config.target_length is not None:
        return _made(
            series, _at_a_length(series, spans, config, left_out), source_features, target_features
        )
    if config.source_features is None:
        raise DataError(
            f"{series.name}: nothing says what is source and what is target. Set"
            " data.source_length, target_length or window, or source_features and"
            " target_features."
        )
    ended = ended_sides(series.points, config)
    seen = [
        np.concatenate([[0], np.cumsum(~ended[:, names.index(side[0])])])
        for side in (source_features, target_features)
    ]
    ends = spans.starts + spans.lengths
    source_lengths, target_lengths = (one[ends] - one[spans.starts] for one in seen)
    return _made(
        series, _Cut(spans.series_index, spans.starts, source_lengths, spans.starts, target_lengths),
        source_features, target_features,
    )  # fmt: skip


def cut_at(series: Series, source_length: int) -> Windows:
    """Sequences cut into a source of up to `source_length` points and a target of the rest, for a
    model of made sequences.

    Raises:
        DataError: a sequence of one point, which cannot be both.
    """
    spans, names = Spans.of_series(series), series.columns
    if series.target is not None:
        cut = _with_target(spans, series.target)
        return _made(series, cut, names, series.target.features)
    short = np.flatnonzero(spans.lengths < 2)
    if short.size:
        raise DataError(
            f"sequence {series.ids[int(short[0])]!r} has one point; to be scored it needs a source"
            " and a target, so two at least."
        )
    cuts = np.minimum(spans.lengths - 1, source_length)
    rows = _Cut(spans.series_index, spans.starts, cuts, spans.starts + cuts, spans.lengths - cuts)
    return _made(series, rows, names, names)


def as_sources(
    series: Series, config: OwnFile | None, target_features: tuple[str, ...] = ()
) -> Windows:
    """Whole series as sources, with no target known; of a run with windows, the last points that
    fit one.

    Args:
        target_features: features of the targets; none: those of the sources.

    Raises:
        DataError: a series without points.
    """
    spans = Spans.of_series(series)
    starts, lengths = spans.starts, spans.lengths
    if config is not None and config.window is not None:
        kept = np.minimum(lengths, config.window.source)
        starts, lengths = starts + lengths - kept, kept
    _refuse_no_points(series, "source", spans.series_index, lengths)
    nothing = np.zeros(len(spans), dtype=np.int64)
    return _windows(series, _Cut(spans.series_index, starts, lengths, starts, nothing),
                    series.columns, target_features or series.columns, ())  # fmt: skip


def _with_target(spans: Spans, target: Ragged) -> _Cut:
    return _Cut(spans.series_index, spans.starts, spans.lengths, target.offsets[:-1][spans.series_index],
                target.lengths[spans.series_index])  # fmt: skip


def _at_a_length(series: Series, spans: Spans, config: OwnFile, left_out: LeftOut) -> _Cut:
    short = config.source_length or config.target_length or 0
    is_long = spans.lengths > short
    if not is_long.any():
        key = "source_length" if config.source_length else "target_length"
        longest = int(spans.lengths.argmax())
        raise DataError(
            f"{series.name}: no sequence has more than data.{key} = {short} points; the"
            f" longest, {series.ids[int(spans.series_index[longest])]!r}, has {spans.lengths[longest]}."
        )
    left_out.too_short += [series.ids[int(k)] for k in spans.series_index[~is_long]]
    series_index, starts, lengths = spans.series_index, spans.starts, spans.lengths
    if not is_long.all():
        series_index, starts, lengths = series_index[is_long], starts[is_long], lengths[is_long]
    cut = np.broadcast_to(np.int64(short), len(starts))
    if config.source_length:
        return _Cut(series_index, starts, cut, starts + short, _less(lengths, short))
    cuts = _less(lengths, short)
    return _Cut(series_index, starts, cuts, starts + cuts, cut)


def _less(lengths: Integers, short: int) -> Integers:
    """Lengths less some rows, of equal ones without a copy of each."""
    if lengths.strides == (0,):
        return np.broadcast_to(lengths[0] - short, len(lengths))
    return lengths - short


def _in_windows(
    series: Series,
    spans: Spans,
    config: OwnFile,
    source_features: tuple[str, ...],
    left_out: LeftOut,
) -> _Cut:
    window = config.window
    assert window is not None
    needed = window.source + window.target
    counts = np.maximum(0, (spans.lengths - needed) // window.stride + 1)
    counts[spans.lengths < needed] = 0
    left_out.too_short += [series.ids[int(k)] for k in spans.series_index[counts == 0]]
    if not counts.any():
        raise DataError(
            f"{series.name}: a window needs {needed} points (data.window), and the longest sequence"
            f" has {spans.lengths.max(initial=0)}."
        )
    span = np.repeat(np.arange(len(spans)), counts)
    of_span = np.arange(len(span)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = spans.starts[span] + of_span * window.stride
    keep = _usable(series, spans, starts, counts, config, source_features)
    if not keep.all():
        named = WindowNames(
            series.ids, spans.series_index[span],
            lambda k: series.step(int(starts[k]) + window.source, int(spans.series_index[span[k]])),
        )  # fmt: skip
        bad = np.flatnonzero(~keep)
        left_out.drop(bad.size, [named[int(k)] for k in bad[:5]])
        starts, span = starts[keep], span[keep]
    n = len(starts)
    lengths = (np.broadcast_to(np.int64(size), n) for size in (window.source, window.target))
    source_lengths, target_lengths = lengths
    return _Cut(
        spans.series_index[span], starts, source_lengths, starts + window.source, target_lengths
    )


def _usable(
    series: Series, spans: Spans, starts: Integers, counts: Integers, config: OwnFile,
    source_features: tuple[str, ...],
) -> NDArray[np.bool_]:  # fmt: skip
    """(windows,) which windows may be used: with data.missing: drop_sequence those without an empty
    cell, else those whose source has a value of each feature to be filled from.

    Args:
        starts: first row of each window, span after span.
        counts: windows of each span.
    """
    window = config.window
    assert window is not None
    keep: NDArray[np.bool_] = np.ones(len(starts), dtype=bool)
    if not series.empty and config.missing != "drop_sequence":
        return keep
    drops = config.missing == "drop_sequence"
    size = window.source + window.target if drops else window.source
    columns = [series.columns.index(name) for name in source_features]
    values, first = series.points.values, 0
    for block in blocks_of(spans.lengths, BLOCK):
        last = first + int(counts[block].sum())
        if last > first:
            low = int(starts[first])
            high = int(spans.starts[block.stop - 1] + spans.lengths[block.stop - 1])
            empty = np.isnan(values[low:high])
            cells = empty.any(axis=1, keepdims=True) if drops else ~empty[:, columns]
            total = np.concatenate([np.zeros((1, cells.shape[1]), np.int64), cells.cumsum(axis=0)])
            at = starts[first:last] - low
            found = total[at + size] - total[at]
            keep[first:last] = (found == 0).all(axis=1) if drops else (found > 0).all(axis=1)
        first = last
    return keep


def _made(
    series: Series, cut: _Cut, source_features: tuple[str, ...], target_features: tuple[str, ...], *,
    is_window: bool = False,
) -> Windows:  # fmt: skip
    """
    Raises:
        DataError: a side of a sequence has no points.
    """
    for what, lengths in (("source", cut.source_lengths), ("target", cut.target_lengths)):
        _refuse_no_points(series, what, cut.series_index, lengths)
    target = series.points if series.target is None else series.target
    columns = tuple(target.features.index(name) for name in target_features)
    return _windows(series, cut, source_features, target_features, columns, is_window=is_window)


def _refuse_no_points(series: Series, what: str, series_index: Integers, lengths: Integers) -> None:
    empty = np.flatnonzero(lengths < 1)
    if empty.size:
        name = series.ids[int(series_index[empty[0]])]
        raise DataError(f"{series.name}: sequence {name!r} has no points in its {what}.")


def _windows(
    series: Series, cut: _Cut, source_features: tuple[str, ...], target_features: tuple[str, ...],
    columns: tuple[int, ...], *, is_window: bool = False,
) -> Windows:  # fmt: skip
    """
    Args:
        columns: those of `target_features`; none where nothing of them is known.
    """
    target = series.points if series.target is None or not columns else series.target
    starts = cut.target_starts

    def step(k: int) -> str:
        return series.step(int(starts[k]), int(cut.series_index[k]))

    found = Windows(
        RowRanges(series.points.values, tuple(series.columns.index(name) for name in source_features),
                  cut.source_starts, cut.source_lengths),
        RowRanges(target.values, columns or (0,) * len(target_features), starts, cut.target_lengths),
        source_features, target_features, WindowNames(series.ids, cut.series_index, step if is_window else None),
        series.order, series.spacing, cut.series_index, has_empty=bool(series.empty),
    )  # fmt: skip
    _check_sources(series, found)
    return found


def _check_sources(series: Series, part: Windows) -> None:
    """
    Raises:
        DataError: a source without a value of a feature.
    """
    if not series.empty:
        return
    for places, known in part.known_sources():
        if not known.all():
            k, feature = (int(i) for i in np.argwhere(~known)[0])
            raise DataError(
                f"{series.name}: sequence {part.ids[places.start + k]!r} has no"
                f" {part.features[feature]!r} in its source: nothing to interpolate between."
            )
