"""Functions that split series into a training, a validation and a test part.

The split is by sequence, by group or by time.
"""

from __future__ import annotations

import itertools

import numpy as np

from seqattn.config import OwnFile
from seqattn.data.sequences import Integers
from seqattn.data.series import Series, Spans
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
