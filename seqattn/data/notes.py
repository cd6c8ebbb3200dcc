"""Notes for the user on sequences that were read from files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqattn.config import OwnFile
from seqattn.data.sequences import Integers, Sequences
from seqattn.data.series import Series, Spans
from seqattn.data.sliding import LeftOut
from seqattn.data.spacing import Frequency
from seqattn.errors import counted


def size_note(train: Sequences, validation: Sequences, test: Sequences) -> str:
    """Return a note on the number of sequences in each part and on the lengths of the sequences."""
    return (
        f"{len(train)} training, {len(validation)} validation and {len(test)} test sequences;"
        f" source {_range_text(train.source_lengths)}, target"
        f" {_range_text(train.target_lengths)} points"
    )


def too_short_notes(names: Sequence[str]) -> list[str]:
    """Return a list with a note on sequences that are too short. Without such sequences, the list
    is empty."""
    if not names:
        return []
    more = ", ..." if len(names) > 5 else ""
    return [
        f"{counted(len(names), 'sequence')} left out, too short to be cut into source and target:"
        f" {', '.join(names[:5])}{more}"
    ]


def describe_dropped_series(count: int) -> str:
    """Return text that states how many series `data.missing: drop_sequence` drops, and why."""
    return f"{counted(count, 'sequence')} with empty cells or missing rows"


def describe_dropped(count: int, config: OwnFile) -> str:
    """Return text that states how many series or windows `data.missing` drops, and why."""
    if config.window is None:
        return describe_dropped_series(count)
    if config.missing == "drop_sequence":
        return f"{counted(count, 'window')} with empty cells or missing rows"
    return f"{counted(count, 'window')} without a value of some feature in the source"


def left_out_notes(read: Sequence[Series], left_out: LeftOut, config: OwnFile) -> list[str]:
    """Return notes on empty cells and on sequences that are left out."""
    empty = sum(one.empty for one in read)
    notes = [
        f"{empty} empty cells: interpolated in sources, left out of losses and errors in"
        " targets (data.missing)"
    ] if empty else []  # fmt: skip
    notes += too_short_notes(left_out.too_short)
    names = [name for one in read for name in one.dropped_names]
    count = len(names) + left_out.dropped
    if count:
        shown = [*names, *left_out.names][:5]
        notes.append(
            f"dropped {describe_dropped(count, config)} (data.missing):"
            f" {', '.join(shown)}{', ...' if count > 5 else ''}"
        )
    return notes


def spacing_notes(series: Sequence[Series], spans: Sequence[Spans]) -> list[str]:
    """Return notes on series with different or irregular step intervals."""
    found, uneven = dict[Frequency, int](), dict[str, None]()
    for one, some in zip(series, spans, strict=True):
        if one.spacing is not None:
            mine = one.spacing.select(some.series_index)
            found |= mine.frequencies()
            at = np.flatnonzero(~mine.is_known & (some.lengths > 1))
            uneven |= dict.fromkeys(one.ids[int(k)] for k in some.series_index[at])
    notes = []
    if len(found) > 1:
        first = ", ".join(map(str, list(found)[:5])) + (", ..." if len(found) > 5 else "")
        notes.append(f"series have different spacings, each its own: {first}")
    if uneven:
        notes.append(
            f"the steps of {len(uneven)} sequences are not evenly spaced ({next(iter(uneven))!r}),"
            " so their rows are taken in order"
        )
    return notes


def _range_text(lengths: Integers) -> str:
    low, high = int(lengths.min()), int(lengths.max())
    return str(low) if low == high else f"{low} to {high}"
