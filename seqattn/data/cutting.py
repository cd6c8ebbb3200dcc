"""Functions that split series into a training, a validation and a test part, and cut the parts into
sources and targets by length, by windows or by columns.

The split is by sequence, by group or by time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.chunk import Ragged
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, Spans, block_slices, ended_mask
from seqattn.data.windows import RowRanges, WindowNames, Windows
from seqattn.errors import DataError
from seqattn.rng import rng_for

PARTS = ("train", "validation", "test")


def split_series(series: Series, config: OwnFile) -> tuple[list[Spans], list[str]]:
    """Split series into three parts.

    Returns:
        the row ranges of the parts, and the names of series that are too short for a split by time.

    Raises:
        DataError: if a part would be empty, or if the file does not allow the split, for example
            because it has no groups or times.
    """
    split, name = config.split, series.name
    if split.by == "time" and config.window is not None:
        return _split_in_time(series, config)
    if split.by == "group":
        if series.groups is None:
            raise DataError(f"{name}: has no groups to split by.")
        units: dict[str, list[int]] = {}
        for k, word in enumerate(series.groups):
            units.setdefault(word, []).append(k)
        members, items = list(units.values()), "groups"
        count = len(members)
    else:
        members, items, count = None, "sequences", len(series)
    if split.by == "time":
        if series.order is None:
            raise DataError(
                f"{name}: has no time column for data.split.by: time; name it in data.time."
            )
        order = np.argsort(series.order[series.points.offsets[:-1]], kind="stable")
    else:
        order = rng_for(split.seed, "split", split.by).permutation(count)
    counts = _sizes(count, split.validation, split.test, items, name)
    spans = []
    for first, last in itertools.pairwise(np.cumsum([0, *counts])):
        chosen: Integers = np.sort(order[first:last])
        if members is not None:
            chosen = np.sort(np.concatenate([members[unit] for unit in order[first:last]]))
        spans.append(Spans.of_series(series, chosen))
    return spans, []


def _sizes(n: int, validation: float, test: float, items: str, name: str) -> tuple[int, int, int]:
    """Return the number of items in each part if n items are split.

    Raises:
        DataError: if a part would be empty.
    """
    of_validation, of_test = round(n * validation), round(n * test)
    of_train = n - of_validation - of_test
    for part, count in zip(PARTS, (of_train, of_validation, of_test), strict=True):
        if count < 1:
            if n < 3:
                hint = (
                    "Three parts need at least three; one long series can be cut with data.window"
                    " and data.split.by: time"
                )
            else:
                hint = "Change the shares in data.split"
            raise DataError(
                f"{name}: of {n} {items} the {part} part would get {max(count, 0)}. {hint}."
            )
    return of_train, of_validation, of_test


def _split_in_time(series: Series, config: OwnFile) -> tuple[list[Spans], list[str]]:
    """Split each series by time. The first steps are for training, the next steps for validation
    and the last steps for testing."""
    name, window, split = series.name, config.window, config.split
    if series.target is not None:
        raise DataError(f"{name}: has separate targets, so there is no series to split by time.")
    assert window is not None
    needed = window.source + window.target
    spans = Spans.of_series(series)
    L = spans.lengths
    of_test, of_validation = (np.rint(L * share).astype(np.int64)
                              for share in (split.test, split.validation))  # fmt: skip
    sizes = np.stack([L - of_validation - of_test, of_validation, of_test])
    is_short = (sizes < needed).any(axis=0)
    usable = np.flatnonzero(~is_short)
    if not usable.size:
        part = int(np.flatnonzero(sizes[:, 0] < needed)[0])
        raise DataError(
            f"{name}: the {PARTS[part]} part of series {series.ids[0]!r} has {sizes[part, 0]} of"
            f" its {L[0]} points, but a window needs {needed} (data.window)."
        )
    begins = spans.starts + np.concatenate([np.zeros((1, len(L)), np.int64), sizes[:2].cumsum(0)])
    parts = [Spans(usable, begins[part][usable], sizes[part][usable]) for part in range(3)]
    return parts, [series.ids[int(k)] for k in np.flatnonzero(is_short)]


BLOCK_ROWS = 2**20
"""Maximum number of rows that are checked for empty cells at a time, unless one series has more."""


@dataclass
class LeftOut:
    """Series and windows that are left out of the sequences.

    Attributes:
        too_short: names of series that are too short to be cut.
        dropped: number of windows that are left out because of empty cells or missing rows.
        names: names of up to five of these windows.
    """

    too_short: list[str] = field(default_factory=list)
    dropped: int = 0
    names: list[str] = field(default_factory=list)

    def drop(self, count: int, names: Sequence[str]) -> None:
        self.dropped += count
        self.names += names[: max(0, 5 - len(self.names))]


Cut = tuple[Spans, Spans]
"""The rows of N sources, and the rows of their targets."""


def slide_windows(
    series: Series, spans: Spans, config: OwnFile, source_features: tuple[str, ...],
    left_out: LeftOut,
) -> Cut:  # fmt: skip
    """Return the usable windows over the rows of a part.

    Args:
        series: all series.
        spans: the row ranges of the part.
        config: the data section of the config.
        source_features: names of the source features.
        left_out: recorder for the series and windows that are left out.

    Raises:
        DataError: if no series is long enough for a window.
    """
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
    keep = _usable_windows(series, spans, starts, counts, config, source_features)
    if not keep.all():
        named = WindowNames(
            series.ids, spans.series_index[span],
            lambda k: series.step(int(starts[k]) + window.source, int(spans.series_index[span[k]])),
        )  # fmt: skip
        bad = np.flatnonzero(~keep)
        left_out.drop(bad.size, [named[int(k)] for k in bad[:5]])
        starts, span = starts[keep], span[keep]
    series_index = spans.series_index[span]
    source, target = (
        np.broadcast_to(np.int64(size), len(starts)) for size in (window.source, window.target)
    )
    return Spans(series_index, starts, source), Spans(series_index, starts + window.source, target)


def _usable_windows(
    series: Series, spans: Spans, starts: Integers, counts: Integers, config: OwnFile,
    source_features: tuple[str, ...],
) -> NDArray[np.bool_]:  # fmt: skip
    """Return a boolean array (windows,) that is True for usable windows.

    With `data.missing: drop_sequence`, a window is usable if it has no empty cell. Otherwise, a
    window is usable if its source has an observed value of each source feature.

    Args:
        series: all series.
        spans: the row ranges of the part.
        starts: (windows,) index of the first row of each window, in the order of `spans`.
        counts: (spans,) number of windows in each row range.
        config: the data section of the config.
        source_features: names of the source features.
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
    for block in block_slices(spans.lengths, BLOCK_ROWS):
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
        return _build_windows(series, _paired_with_target(spans, target), features)
    if config.window is not None:
        rows = slide_windows(series, spans, config, features.source, left_out)
        return _build_windows(series, rows, features, is_window=True)
    if config.source_length is not None or config.target_length is not None:
        return _build_windows(series, _cut_by_length(series, spans, config, left_out), features)
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
    sources, targets = (
        Spans(spans.series_index, spans.starts, one[ends] - one[spans.starts])
        for one in steps_before
    )
    return _build_windows(series, (sources, targets), features)


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
        return _build_windows(series, cut, _Features(names, series.target.features))
    short = np.flatnonzero(spans.lengths < 2)
    if short.size:
        raise DataError(
            f"sequence {series.ids[int(short[0])]!r} has one point, but scoring needs at least"
            " two: one for the source and one for the target."
        )
    cuts = np.minimum(spans.lengths - 1, source_length)
    return _build_windows(series, spans.cut(cuts, spans.lengths - cuts), _Features(names, names))


def make_sources(
    series: Series, config: OwnFile | None, target_features: tuple[str, ...] = ()
) -> Windows:
    """Return whole series as sources with unknown targets. If the config defines windows, each
    source contains only the last steps of its series, at most as many as the source of a window.

    Args:
        series: the series to forecast.
        config: the data config of the run, or None if the run was trained on a generated task.
        target_features: names of the target features; if empty, the source features are used.
    """
    spans = Spans.of_series(series)
    starts, lengths = spans.starts, spans.lengths
    if config is not None and config.window is not None:
        window_lengths = np.minimum(lengths, config.window.source)
        starts, lengths = starts + lengths - window_lengths, window_lengths
    sources = Spans(spans.series_index, starts, lengths)
    targets = Spans(spans.series_index, starts, np.zeros(len(spans), dtype=np.int64))
    features = _Features(series.columns, target_features or series.columns)
    return _build_windows(series, (sources, targets), features, has_targets=False)


def _paired_with_target(spans: Spans, target: Ragged) -> Cut:
    indices = spans.series_index
    return spans, Spans(indices, target.offsets[:-1][indices], target.lengths[indices])


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
    if not is_long.all():
        spans = spans.select(is_long)
    cut = np.broadcast_to(np.int64(short), len(spans))
    rest = spans.lengths - short
    if spans.lengths.strides == (0,):  # a view of one number remains one
        rest = np.broadcast_to(rest[0], len(spans))
    return spans.cut(cut, rest) if config.source_length else spans.cut(rest, cut)


def _build_windows(
    series: Series, cut: Cut, features: _Features, *, is_window: bool = False,
    has_targets: bool = True,
) -> Windows:  # fmt: skip
    """Build the sequences.

    Args:
        series: all series.
        cut: the rows of the sources and targets.
        features: names of the source and target features.
        is_window: whether the name of a sequence includes the first target step.
        has_targets: whether the targets are known.

    Raises:
        DataError: if a source or a known target has no steps, or if a source has no observed value
            of a feature.
    """
    for side, spans in zip(("source", "target"), cut if has_targets else cut[:1], strict=False):
        empty = np.flatnonzero(spans.lengths < 1)
        if empty.size:
            name = series.ids[int(spans.series_index[empty[0]])]
            raise DataError(f"{series.name}: sequence {name!r} has no points in its {side}.")
    target = series.points if series.target is None or not has_targets else series.target
    sources, targets = cut
    source_columns = tuple(series.columns.index(name) for name in features.source)
    columns = tuple(target.features.index(name) if has_targets else 0 for name in features.target)

    windows = Windows(
        RowRanges(series.points.values, source_columns, features.source, sources.starts,
                  sources.lengths, sources.series_index, series.order, series.spacing),
        RowRanges(target.values, columns, features.target, targets.starts, targets.lengths,
                  targets.series_index, series.order, series.spacing),
        WindowNames(series.ids, sources.series_index,
                    partial(_first_target_step, series, targets) if is_window else None),
        has_empty=bool(series.empty),
    )  # fmt: skip
    if series.empty:
        for indices, known in windows.observed_sources():
            if not known.all():
                k, feature = (int(i) for i in np.argwhere(~known)[0])
                raise DataError(
                    f"{series.name}: sequence {windows.ids[indices.start + k]!r} has no"
                    f" {windows.features[feature]!r} in its source, so it cannot be interpolated."
                )
    return windows


def _first_target_step(series: Series, targets: Spans, k: int) -> str:
    """Return the step of the first target of window k. Workers receive this function, so it is not
    defined inside another one."""
    return series.step(int(targets.starts[k]), int(targets.series_index[k]))
