"""Some training series of a stream, kept in memory for the season and the scale of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seqattn.data.files import offsets_of
from seqattn.data.metrics import SeriesTable
from seqattn.data.sequences import Floats
from seqattn.streams import stream

MOST_VALUES = 2**22
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
        self.seen = 0

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
        F = max(1, len(series.columns))
        for k, (name, number) in enumerate(zip(ids, numbers, strict=True)):
            if parts.get(name) == 0:
                first = int(series.offsets[k])
                last = min(int(series.offsets[k + 1]), first + max(1, MOST_VALUES // F))
                self.kept.append((float(number), series.rows(first, last)))
                self.values += self.kept[-1][1].size
                self.seen += 1
                if self.values > 2 * MOST_VALUES:
                    self._thin_out()

    def _thin_out(self) -> None:
        self.kept.sort(key=lambda each: each[0])
        sizes = np.cumsum([values.size for _, values in self.kept])
        stay = max(1, int(np.searchsorted(sizes, MOST_VALUES, side="right")))
        del self.kept[stay:]
        self.values = int(sizes[min(stay, len(sizes)) - 1])

    def table(self) -> SeriesTable:
        """The series that stayed, one at least."""
        if self.values > MOST_VALUES:
            self._thin_out()
        rows = [values for _, values in self.kept]
        F = rows[0].shape[1]
        lengths = np.array([len(values) for values in rows], dtype=np.int64)
        return SeriesTable(np.concatenate(rows), list(range(F)), offsets_of(lengths))
