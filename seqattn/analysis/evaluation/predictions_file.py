"""A writer of `predictions.npz` that does not keep all forecasts in memory.

The letters in shapes are N (sequences), n (sequences in a chunk), T (target steps) and F
(features).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.npz import Spool, StreamedArray, string_array, write_npz
from seqattn.data import Sequences
from seqattn.data.sequences import Floats, valid_mask
from seqattn.data.writing import vocabulary_arrays
from seqattn.runs.storage import open_atomic

MAX_MEMORY_BYTES = 2**22
"""Maximum size of the forecasts that are kept in memory, in bytes. If the forecasts need more
memory, all of them are moved to a file on disk."""
MAX_CHUNK_NUMBERS = 2**18
"""Maximum number of values in a chunk of sequences that is written at once."""
ReadChunk = Callable[[Sequences, slice], NDArray[Any]]
"""A function that returns values of n sequences, (n, steps, features). The arguments of the
function are the n sequences, and the slice of the part that contains these sequences."""


class ForecastSpool(Spool):
    """A temporary file that collects forecasts until `predictions.npz` is written.

    Args:
        folder: a folder with space for all forecasts.
        part: the sequences that are forecast.
    """

    def __init__(self, folder: Path, part: Sequences) -> None:
        super().__init__(folder, MAX_MEMORY_BYTES)
        self.part = part

    def add(self, values: Floats) -> None:
        """Add the forecasts of the next n sequences of the part.

        Args:
            values: (n, T, F), the forecasts.
        """
        self.file.write(np.ascontiguousarray(values, np.float64).data)

    def write(self, path: Path) -> None:
        """Write `predictions.npz`.

        The file contains the arrays that `seqattn.data.writing.forecast_arrays` returns for
        known targets. The file also contains the times of the steps, if the times are known, and
        the alignment, if the alignment is known.
        """
        part = self.part
        contents: dict[str, NDArray[np.generic] | StreamedArray] = {
            "ids": string_array(part.ids),
            "features": np.array(list(part.features), dtype=np.str_),
            "said": np.array(list(part.target_features), dtype=np.str_),
            "labels": string_array(part.labels),
            "source": self._rows(part.source_steps, len(part.features), _source),
            "source_lengths": part.source_lengths,
        }
        if part.has_masked_sources:
            contents["source_observed"] = self._rows(
                part.source_steps, len(part.features), lambda some, _: some.source_cells
            )
        contents |= {
            "forecast": self._rows(part.target_steps, len(part.target_features), self._forecast),
            "target": self._rows(part.target_steps, len(part.target_features), _target),
            "target_lengths": part.target_lengths,
            **self._times(),
        }
        if part.alignment is not None and part.links is None:
            contents["alignment"] = part.alignment
        contents |= vocabulary_arrays(part)
        with open_atomic(path) as file:
            write_npz(file, contents)

    def _times(self) -> dict[str, StreamedArray]:
        """Return the times of the steps, by array name. The result is empty if the part has no
        times."""
        part = self.part
        if (first := part.times(slice(0, 1))) is None:
            return {}

        def chunks(side: int) -> Iterator[NDArray[Any]]:
            for places, _ in part.chunks():
                times = part.times(places)
                assert times is not None
                yield times[side]

        return {
            f"{name}_times": StreamedArray(
                (len(part), first[side].shape[1]), first[side].dtype, partial(chunks, side)
            )
            for side, name in enumerate(("source", "target"))
        }

    def _rows(self, steps: int, features: int, points: ReadChunk) -> StreamedArray:
        first = points(self.part.select(slice(0, 1)), slice(0, 1))
        shape = len(self.part), steps, features
        return StreamedArray(
            shape, first.dtype, lambda: (points(*one) for one in _chunks(self.part))
        )

    def _forecast(self, some: Sequences, places: slice) -> Floats:
        T, F = self.part.target_steps, len(self.part.target_features)
        self.file.seek(8 * places.start * T * F)
        found = np.frombuffer(self.file.read(8 * len(some) * T * F), np.float64)
        values = found.reshape(-1, T, F)
        lengths = self.part.target_space.forecast_lengths(values, some.target_lengths)
        return np.where(valid_mask(lengths, T)[:, :, None], values, np.nan)


def _source(some: Sequences, _: slice) -> Floats:
    return np.where(some.source_keep[:, :, None], some.source, np.nan)


def _target(some: Sequences, _: slice) -> Floats:
    return np.where(some.target_cells, some.target, np.nan)


def _chunks(part: Sequences) -> Iterator[tuple[Sequences, slice]]:
    """Yield the sequences of a part in chunks, each chunk with its slice. A chunk contains one
    sequence, or at most `MAX_CHUNK_NUMBERS` values."""
    numbers = part.source_steps * len(part.features) + part.target_steps * len(part.target_features)
    size = max(1, MAX_CHUNK_NUMBERS // numbers)
    for places, some in part.chunks():
        for first in range(0, len(some), size):
            here = slice(first, min(first + size, len(some)))
            within = slice(places.start + here.start, places.start + here.stop)
            yield (some if len(some) <= size else some.select(here)), within
