"""Functions that cut series into sources and targets by length, by windows or by columns."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from seqattn.config import OwnFile
from seqattn.data.files.chunk import Ragged
from seqattn.data.row_ranges import RowRanges
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, Spans, ended_mask
from seqattn.data.series_steps import SeriesSteps
from seqattn.data.sliding import Cut, LeftOut, slide_windows
from seqattn.data.windows import WindowNames, Windows
from seqattn.errors import DataError


class _Features(NamedTuple):
    """Names of the source and target features."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def cut_series(series: Series, spans: Spans, config: OwnFile, left_out: LeftOut) -> Windows:
    """Cut the series of a part into sources and targets as the config specifies.

    Args:
        series: all series.
        spans: the row ranges of the part.
        config: the data section of the config.
        left_out: recorder for the series and windows that are left out.

    Raises:
        DataError: if all series are too short, if a source or a target has no steps, if a source
            has no observed value of a feature, if the config does not define how to cut the series,
            or if the config sets lengths or windows although the file has separate targets.
    """
    names, target = series.columns, series.target
    features = _Features(names, names)
    if config.source_features is not None and config.target_features is not None:
        features = _Features(tuple(config.source_features), tuple(config.target_features))
    if target is not None:
        if config.source_length or config.target_length or config.window:
            raise DataError(
                f"{series.name}: already has separate sources and targets; leave out"
                " data.source_length, target_length and window."
            )
        features = features._replace(target=target.features)
        return _build_parts(series, _paired_with_target(spans, target), features)
    if config.window is not None:
        rows = slide_windows(series, spans, config, features.source, left_out)
        return _build_parts(series, rows, features, is_window=True)
    if config.source_length is not None or config.target_length is not None:
        return _build_parts(series, _cut_by_length(series, spans, config, left_out), features)
    if config.source_features is None:
        raise DataError(
            f"{series.name}: source and target are not defined. Set"
            " data.source_length, target_length or window, or source_features and"
            " target_features."
        )
    ended = ended_mask(series.points, config)
    steps_before = [
        np.concatenate([[0], np.cumsum(~ended[:, names.index(side[0])])]) for side in features
    ]
    ends = spans.starts + spans.lengths
    source_lengths, target_lengths = (one[ends] - one[spans.starts] for one in steps_before)
    rows = Cut(spans.series_index, spans.starts, source_lengths, spans.starts, target_lengths)
    return _build_parts(series, rows, features)


def cut_at_length(series: Series, source_length: int) -> Windows:
    """Cut each series into source and target for a model that was trained on a generated task.

    The source is the first `source_length` steps and the target is the rest. If a series has at
    most `source_length` steps, only its last step is the target. If the file has separate targets,
    each whole series is a source and its separate target is the target.

    Raises:
        DataError: if a series has too few steps, or if a source has no observed value of a feature.
    """
    spans, names = Spans.of_series(series), series.columns
    if series.target is not None:
        cut = _paired_with_target(spans, series.target)
        return _build_parts(series, cut, _Features(names, series.target.features))
    short = np.flatnonzero(spans.lengths < 2)
    if short.size:
        raise DataError(
            f"sequence {series.ids[int(short[0])]!r} has one point, but scoring needs at least"
            " two: one for the source and one for the target."
        )
    cuts = np.minimum(spans.lengths - 1, source_length)
    rows = Cut(spans.series_index, spans.starts, cuts, spans.starts + cuts, spans.lengths - cuts)
    return _build_parts(series, rows, _Features(names, names))


def make_sources(
    series: Series, config: OwnFile | None, target_features: tuple[str, ...] = ()
) -> Windows:
    """Return whole series as sources with unknown targets. If the config defines windows, each
    source contains only the last steps of its series, at most as many as the source of a window.

    Args:
        series: the series to forecast.
        config: the data config of the run, or None if the run was trained on a generated task.
        target_features: names of the target features; if empty, the source features are used.

    Raises:
        DataError: if a series has no steps, or if a source has no observed value of a feature.
    """
    spans = Spans.of_series(series)
    starts, lengths = spans.starts, spans.lengths
    if config is not None and config.window is not None:
        window_lengths = np.minimum(lengths, config.window.source)
        starts, lengths = starts + lengths - window_lengths, window_lengths
    _check_lengths(series, "source", spans.series_index, lengths)
    nothing = np.zeros(len(spans), dtype=np.int64)
    rows = Cut(spans.series_index, starts, lengths, starts, nothing)
    features = _Features(series.columns, target_features or series.columns)
    return _build_windows(series, rows, features, ())


def _paired_with_target(spans: Spans, target: Ragged) -> Cut:
    indices = spans.series_index
    return Cut(indices, spans.starts, spans.lengths, target.offsets[:-1][indices],
               target.lengths[indices])  # fmt: skip


def _cut_by_length(series: Series, spans: Spans, config: OwnFile, left_out: LeftOut) -> Cut:
    short = config.source_length or config.target_length or 0
    is_long = spans.lengths > short
    if not is_long.any():
        key = "source_length" if config.source_length else "target_length"
        longest = int(spans.lengths.argmax())
        name = series.ids[int(spans.series_index[longest])]
        raise DataError(
            f"{series.name}: no sequence has more than data.{key} = {short} points; the"
            f" longest, {name!r}, has {spans.lengths[longest]}."
        )
    left_out.too_short += [series.ids[int(k)] for k in spans.series_index[~is_long]]
    series_index, starts, lengths = spans.series_index, spans.starts, spans.lengths
    if not is_long.all():
        series_index, starts, lengths = series_index[is_long], starts[is_long], lengths[is_long]
    cut = np.broadcast_to(np.int64(short), len(starts))
    if config.source_length:
        return Cut(series_index, starts, cut, starts + short, _subtract_rows(lengths, short))
    cuts = _subtract_rows(lengths, short)
    return Cut(series_index, starts, cuts, starts + cuts, cut)


def _subtract_rows(lengths: Integers, short: int) -> Integers:
    """Subtract `short` rows from each length. If `lengths` is a broadcast view of one number, the
    result is also a broadcast view."""
    if lengths.strides == (0,):
        return np.broadcast_to(lengths[0] - short, len(lengths))
    return lengths - short


def _build_parts(
    series: Series, cut: Cut, features: _Features, *, is_window: bool = False
) -> Windows:
    """Check the lengths of sources and targets, and build the sequences.

    Raises:
        DataError: if a source or a target has no steps, or if a source has no observed value of a
            feature.
    """
    for side, lengths in (("source", cut.source_lengths), ("target", cut.target_lengths)):
        _check_lengths(series, side, cut.series_index, lengths)
    target = series.points if series.target is None else series.target
    columns = tuple(target.features.index(name) for name in features.target)
    return _build_windows(series, cut, features, columns, is_window=is_window)


def _check_lengths(series: Series, side: str, series_index: Integers, lengths: Integers) -> None:
    empty = np.flatnonzero(lengths < 1)
    if empty.size:
        name = series.ids[int(series_index[empty[0]])]
        raise DataError(f"{series.name}: sequence {name!r} has no points in its {side}.")


def _build_windows(
    series: Series, cut: Cut, features: _Features, columns: tuple[int, ...], *,
    is_window: bool = False,
) -> Windows:  # fmt: skip
    """Build the sequences, and check that each source has an observed value of each feature.

    Args:
        series: all series.
        cut: the rows of the sources and targets.
        features: names of the source and target features.
        columns: column indices of the target features; empty if the targets are unknown.
        is_window: whether the name of a sequence includes the first target step.

    Raises:
        DataError: if a source has no observed value of a feature.
    """
    target = series.points if series.target is None or not columns else series.target
    starts = cut.target_starts
    source_columns = tuple(series.columns.index(name) for name in features.source)
    columns = columns or (0,) * len(features.target)
    windows = Windows(
        RowRanges(series.points.values, source_columns, features.source, cut.source_starts,
                  cut.source_lengths),
        RowRanges(target.values, columns, features.target, starts, cut.target_lengths),
        WindowNames(series.ids, cut.series_index,
                    partial(_first_target_step, series, cut) if is_window else None),
        SeriesSteps(series.order, series.spacing, cut.series_index),
        has_empty=bool(series.empty),
    )  # fmt: skip
    _check_sources(series, windows)
    return windows


def _first_target_step(series: Series, cut: Cut, k: int) -> str:
    """Return the name of the first target step of sequence k."""
    return series.step(int(cut.target_starts[k]), int(cut.series_index[k]))


def _check_sources(series: Series, part: Windows) -> None:
    """Check that each source has an observed value of each feature.

    Raises:
        DataError: if a source has no observed value of a feature.
    """
    if not series.empty:
        return
    for indices, known in part.observed_sources():
        if not known.all():
            k, feature = (int(i) for i in np.argwhere(~known)[0])
            raise DataError(
                f"{series.name}: sequence {part.ids[indices.start + k]!r} has no"
                f" {part.features[feature]!r} in its source, so it cannot be interpolated."
            )
