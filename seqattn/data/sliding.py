"""Sliding windows over series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, Spans, block_slices
from seqattn.data.windows import WindowNames
from seqattn.errors import DataError

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


class Cut(NamedTuple):
    """The rows of N sources and targets.

    Attributes:
        series_index: (N,) index of the series from which each sequence is cut.
        source_starts: (N,) index of the first row of each source.
        source_lengths: (N,) number of rows in each source.
        target_starts: (N,) index of the first row of each target.
        target_lengths: (N,) number of rows in each target.
    """

    series_index: Integers
    source_starts: Integers
    source_lengths: Integers
    target_starts: Integers
    target_lengths: Integers


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
    n = len(starts)
    lengths = (np.broadcast_to(np.int64(size), n) for size in (window.source, window.target))
    source_lengths, target_lengths = lengths
    return Cut(
        spans.series_index[span], starts, source_lengths, starts + window.source, target_lengths
    )


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
