"""A reader of DataFrames that contain input for a trained model. The reader first writes a
DataFrame to a Parquet file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.forecasts import free_run
from seqattn.analysis.evaluation.inputs import InputReader, input_config, join_sources
from seqattn.data import Sequences
from seqattn.data.chunk import Chunk
from seqattn.data.frames import NAME, frame_kind, frame_notes, temporary_parquet
from seqattn.data.writing import SEQUENCE, STEP, ForecastSteps
from seqattn.errors import DataError
from seqattn.training import LoadedModel


@dataclass(frozen=True)
class FrameReader:
    """A reader of a DataFrame that contains input for a trained model. The reader treats the
    DataFrame in the same way as `InputReader` treats a file.

    Attributes:
        reader: the reader of files.
        frame: the DataFrame.
    """

    reader: InputReader
    frame: Any

    @classmethod
    def of(cls, trained: LoadedModel, frame: Any, note: Callable[[str], None]) -> FrameReader:
        """Create a reader of a DataFrame.

        Args:
            trained: the model.
            frame: the DataFrame.
            note: a function that receives messages for the user.

        Raises:
            DataError: if `frame` is not a DataFrame.
        """
        if frame_kind(frame) is None:
            raise DataError(f"expected a DataFrame, got {type(frame).__name__}.")
        for line in frame_notes(frame):
            note(line)
        config = input_config(trained).model_copy(update={"format": "auto"})
        return cls(InputReader(trained, config, note), frame)

    def read_chunks(self) -> Iterator[tuple[Chunk, Sequences]]:
        """Read the sequences as sources.

        Yields:
            A chunk of the DataFrame, and the sequences of the chunk. In the chunk and in the
            sequences, empty cells have been handled in the same way as in the training data.

        Raises:
            DataError: see `InputReader.read_sources`.
        """
        with temporary_parquet(self.frame) as path:
            for chunk, part, _ in self.reader.read_sources(path, NAME):
                yield chunk, part

    def read_sources(self) -> Sequences:
        """Read all sequences as sources."""
        return join_sources([part for _, part in self.read_chunks()])

    def read_with_targets(self) -> Sequences:
        """Read all sequences as sources and targets.

        Raises:
            DataError: see `InputReader.read_with_targets`.
        """
        with temporary_parquet(self.frame) as path:
            return self.reader.read_with_targets(path, NAME)

    def make_frame(self, columns: Mapping[str, Any]) -> Any:
        """Create a DataFrame from columns, using the same library as `frame`."""
        if hasattr(self.frame, "from_pydict"):  # a pyarrow table
            return type(self.frame).from_pydict(dict(columns))
        return type(self.frame)(dict(columns))


def forecast_columns(
    reader: FrameReader, trained: LoadedModel, steps: int | None
) -> dict[str, Any]:
    """Forecast the sequences of a DataFrame, and return the columns of a table in long format.

    The table has columns for the series, the time and the target features.

    Args:
        reader: the reader of a DataFrame with the sources.
        trained: the model.
        steps: the number of steps to forecast; None for the target length of the training data.

    Raises:
        DataError: see `InputReader.read_sources`.
    """
    T = steps or trained.spec.target_length
    columns: dict[str, list[Any]] = {}
    lengths = list[NDArray[np.int64]]()
    for chunk, part in reader.read_chunks():
        result = free_run(trained.model, part, T, with_attention=False)
        series, time = _column_names(chunk, trained.spec.target_features)
        id_columns = list(zip(*(chunk.id_parts or [(name,) for name in part.ids]), strict=True))
        for name, ids in zip(series, id_columns, strict=True):
            columns.setdefault(name, []).append(np.repeat(np.array(ids, dtype=object), T))
        times = ForecastSteps.of_sources(part, chunk.points.lengths).after(T).reshape(-1)
        if times.dtype.kind == "f" and (times == np.round(times)).all():
            times = times.astype(np.int64)
        columns.setdefault(time, []).append(times)
        for i, name in enumerate(trained.spec.target_features):
            values = np.ascontiguousarray(result.values[..., i]).reshape(-1)
            columns.setdefault(name, []).append(values)
        lengths.append(part.source_lengths)
    trained.spec.note_lengths(np.concatenate(lengths), T, reader.reader.note)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _column_names(chunk: Chunk, features: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the names of the series columns and of the time column of a chunk."""

    def unused_name(name: str, taken: Sequence[str]) -> str:
        return unused_name(f"{name}_", taken) if name in taken else name

    time = chunk.style.time_columns[:1]
    series = chunk.style.series_columns or (unused_name(SEQUENCE, (*features, *time)),)
    return series, time[0] if time else unused_name(STEP, (*features, *series))
