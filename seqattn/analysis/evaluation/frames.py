"""DataFrames for a trained model: each is read from a Parquet file of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqattn.analysis.evaluation.forecasts import free_run
from seqattn.analysis.evaluation.inputs import OwnInput, joined_sources, reading_config
from seqattn.data import Sequences
from seqattn.data.files import Chunk
from seqattn.data.files.writing import SEQUENCE, STEP, ForecastSteps
from seqattn.data.frames import NAME, frame_kind, frame_notes, temporary_parquet
from seqattn.errors import DataError
from seqattn.training import LoadedModel


@dataclass(frozen=True)
class FrameInput:
    """Reads a DataFrame for a trained model, as `OwnInput` reads a file."""

    given: OwnInput
    frame: Any

    @classmethod
    def of(cls, trained: LoadedModel, frame: Any, note: Callable[[str], None]) -> FrameInput:
        """
        Raises:
            DataError: it is no DataFrame.
        """
        if frame_kind(frame) is None:
            raise DataError(f"expected a DataFrame, got {type(frame).__name__}.")
        for line in frame_notes(frame):
            note(line)
        config = reading_config(trained).model_copy(update={"format": "auto"})
        return cls(OwnInput(trained, config, note), frame)

    def parts(self) -> Iterator[tuple[Chunk, Sequences]]:
        """(as read, as sources), a stretch after the other.

        Raises:
            DataError: see `OwnInput.sources`.
        """
        with temporary_parquet(self.frame) as path:
            for chunk, part, _ in self.given.sources(path, NAME):
                yield chunk, part

    def sources(self) -> Sequences:
        return joined_sources([part for _, part in self.parts()])

    def scored(self) -> Sequences:
        """
        Raises:
            DataError: see `OwnInput.scored`.
        """
        with temporary_parquet(self.frame) as path:
            return self.given.scored(path, NAME)

    def make(self, columns: Mapping[str, Any]) -> Any:
        """A frame of the same library."""
        if hasattr(self.frame, "from_pydict"):  # a table of pyarrow
            return type(self.frame).from_pydict(dict(columns))
        return type(self.frame)(dict(columns))


def forecast_columns(given: FrameInput, trained: LoadedModel, steps: int | None) -> dict[str, Any]:
    """Forecasts as the columns of a long table: series, time, and the features.

    Raises:
        DataError: see `OwnInput.sources`.
    """
    T = steps or trained.spec.target_length
    columns: dict[str, list[Any]] = {}
    for chunk, part in given.parts():
        result = free_run(
            trained.model, part, T, with_attention=False, scaling=trained.spec.scaling
        )
        series, time = _names(chunk, trained.spec.target_features)
        words = list(zip(*(chunk.id_parts or [(name,) for name in part.ids]), strict=True))
        for name, ids in zip(series, words, strict=True):
            columns.setdefault(name, []).append(np.repeat(np.array(ids, dtype=object), T))
        when = ForecastSteps.of_sources(part, chunk.points.lengths).after(T).reshape(-1)
        if when.dtype.kind == "f" and (when == np.round(when)).all():
            when = when.astype(np.int64)
        columns.setdefault(time, []).append(when)
        for i, name in enumerate(trained.spec.target_features):
            values = np.ascontiguousarray(result.values[..., i]).reshape(-1)
            columns.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _names(chunk: Chunk, features: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Columns of the series and of the time, as the chunk has them."""

    def free(name: str, taken: Sequence[str]) -> str:
        return free(f"{name}_", taken) if name in taken else name

    time = chunk.style.time[:1]
    series = chunk.style.series or (free(SEQUENCE, (*features, *time)),)
    return series, time[0] if time else free(STEP, (*features, *series))
