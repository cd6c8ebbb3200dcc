"""Some training series of a stream, kept in memory for the season and the scale of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seqattn.data.files import offsets_of
from seqattn.data.metrics import SeriesTable
from seqattn.data.sequences import Floats
from seqattn.streams import stream

MOST_VALUES = 2**20
"""Values of the series that are kept."""


class SeriesSample:
    """Training series, all with the same chance however many follow: each draws a number, and those
    with the smallest stay. Of a series that is longer than all that may stay, the first rows do.

    Args:
        seed: of the draw.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.kept = list[tuple[float, Floats]]()
        self.values = 0
        self.least = 1.0

    def add(
        self, unit: int, ids: Sequence[str], series: SeriesTable, parts: Mapping[str, int]
    ) -> None:
        """
        Args:
            unit: its number.
            ids: of its series.
            parts: series -> its part, 0 to train.
        """
        numbers = stream(self.seed, "series", unit).random_sample(len(ids))
        low = [k for k in np.flatnonzero(numbers < self.least).tolist() if parts.get(ids[k]) == 0]
        F = max(1, len(series.columns))
        most = max(1, MOST_VALUES // F)
        left = MOST_VALUES
        for k in sorted(low, key=lambda k: numbers[k]):
            first = int(series.offsets[k])
            last = min(int(series.offsets[k + 1]), first + most)
            self.kept.append((float(numbers[k]), series.rows(first, last)))
            self.values += (last - first) * F
            left -= (last - first) * F
            if left < 0:  # those that follow could not stay beside these
                break
        self._thin_out()

    def _thin_out(self) -> None:
        """Keep the smallest numbers, one at least."""
        if self.values <= MOST_VALUES:
            return
        self.kept.sort(key=lambda each: each[0])
        sizes = np.cumsum([values.size for _, values in self.kept])
        stay = max(1, int(np.searchsorted(sizes, MOST_VALUES, side="right")))
        if stay < len(self.kept):
            self.least = self.kept[stay][0]
            del self.kept[stay:]
        self.values = int(sizes[stay - 1])

    def table(self) -> SeriesTable:
        """The series that stayed, one at least."""
        rows = [values for _, values in self.kept]
        lengths = np.array([len(values) for values in rows], dtype=np.int64)
        columns = list(range(rows[0].shape[1]))
        return SeriesTable(np.concatenate(rows), columns, offsets_of(lengths))
