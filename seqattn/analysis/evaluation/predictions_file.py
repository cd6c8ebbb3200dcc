"""Forecasts of a test part on their way to predictions.npz, without holding them all in memory.

Letters: N sequences, n of them that are at hand, T target steps, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.npz import Rows, Spool, texts, write_npz
from seqattn.data import Sequences
from seqattn.data.sequences import Floats
from seqattn.runs.storage import open_atomic

IN_MEMORY = 2**22
"""Bytes of forecasts from which on they wait on the disk."""
AT_ONCE = 2**18
"""Numbers that are written together."""
Points = Callable[[Sequences, slice], Floats]
"""(sequences, their places within the part) -> (n, steps, features)."""


class ForecastSpool(Spool):
    """Forecasts in a file without a name until all of them go to predictions.npz.

    Args:
        folder: where there is room for all of them.
        part: whose forecasts they are.
    """

    def __init__(self, folder: Path, part: Sequences) -> None:
        super().__init__(folder, IN_MEMORY)
        self.part = part

    def add(self, values: Floats) -> None:
        """Take in the forecasts (n, T, F) of the next sequences of the part."""
        self.file.write(np.ascontiguousarray(values, np.float64).data)

    def write(self, path: Path) -> None:
        """predictions.npz: what `seqattn.data.files.writing.forecast_arrays` makes of the part with
        its targets and the forecasts."""
        part = self.part
        contents: dict[str, NDArray[np.generic] | Rows] = {
            "ids": texts(part.ids),
            "features": np.array(list(part.features), dtype=np.str_),
            "said": np.array(list(part.target_features), dtype=np.str_),
            "labels": texts(part.labels),
            "source": self._rows(part.source_steps, len(part.features), _source),
            "source_lengths": part.source_lengths,
            "forecast": self._rows(part.target_steps, len(part.target_features), self._forecast),
            "target": self._rows(part.target_steps, len(part.target_features), _target),
            "target_lengths": part.target_lengths,
        }
        with open_atomic(path) as file:
            write_npz(file, contents)

    def _rows(self, steps: int, features: int, points: Points) -> Rows:
        first = points(self.part.select(slice(0, 1)), slice(0, 1))
        shape = len(self.part), steps, features
        return Rows(shape, first.dtype, lambda: (points(*one) for one in _chunks(self.part)))

    def _forecast(self, some: Sequences, places: slice) -> Floats:
        T, F = self.part.target_steps, len(self.part.target_features)
        self.file.seek(8 * places.start * T * F)
        found = np.frombuffer(self.file.read(8 * len(some) * T * F), np.float64)
        return np.where(some.target_keep[:, :, None], found.reshape(-1, T, F), np.nan)


def _source(some: Sequences, _: slice) -> Floats:
    return np.where(some.source_keep[:, :, None], some.source, np.nan)


def _target(some: Sequences, _: slice) -> Floats:
    return np.where(some.target_cells, some.target, np.nan)


def _chunks(part: Sequences) -> Iterator[tuple[Sequences, slice]]:
    """(some sequences, their places within the part), a few megabytes at a time."""
    numbers = part.source_steps * len(part.features) + part.target_steps * len(part.target_features)
    size = max(1, AT_ONCE // numbers)
    for places, some in part.chunks():
        for first in range(0, len(some), size):
            here = slice(first, min(first + size, len(some)))
            within = slice(places.start + here.start, places.start + here.stop)
            yield (some if len(some) <= size else some.select(here)), within
