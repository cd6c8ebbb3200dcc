"""DataFrames for training and for a trained model: each is read from a Parquet file of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.config import Config, OwnFile, as_value, resolve
from seqattn.data import Sequences
from seqattn.data.files import Chunk
from seqattn.data.files.writing import SEQUENCE, STEP, Steps
from seqattn.data.frames import NAME, frame_file, kind_of_frame, notes_of_frame, write_frame
from seqattn.data.reading import digest_of
from seqattn.errors import DataError, UsageError
from seqattn.evaluation import free_run
from seqattn.experiment.inputs import OwnInput, joined_sources, reading_config
from seqattn.runs import RunFolder, check_not_taken
from seqattn.training import LoadedModel

PLACEHOLDER = "frame.parquet"
"""data.path until the name of the run is known."""


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
        if kind_of_frame(frame) is None:
            raise DataError(f"expected a DataFrame, got {type(frame).__name__}.")
        for line in notes_of_frame(frame):
            note(line)
        config = reading_config(trained).model_copy(update={"format": "auto"})
        return cls(OwnInput(trained, config, note), frame)

    def parts(self) -> Iterator[tuple[Chunk, Sequences]]:
        """(as read, as sources), a stretch after the other.

        Raises:
            DataError: see `OwnInput.sources`.
        """
        with frame_file(self.frame) as path:
            for chunk, part, _ in self.given.sources(path, NAME):
                yield chunk, part

    def sources(self) -> Sequences:
        return joined_sources([part for _, part in self.parts()])

    def scored(self) -> Sequences:
        """
        Raises:
            DataError: see `OwnInput.scored`.
        """
        with frame_file(self.frame) as path:
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
        when = Steps.of_sources(part, chunk.points.lengths).after(T).reshape(-1)
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


def train_on_frames(
    config: Config | str | Path | None, frames: Mapping[str, Any], overrides: Sequence[str],
    output_dir: Path, note: Callable[[str], None], *, resume: bool, overwrite: bool,
) -> RunFolder:  # fmt: skip
    """Train, with DataFrames in the place of files.

    Args:
        config: a YAML file, a config, or None for the defaults.
        frames: by key of `data`: path, validation_path, test_path; None: there is none. Each is
            written beside the run's folder, under a name that says its content.
        note: takes what a user should be told.

    Raises:
        UsageError: the config is not of files, or is there beside overrides.
        SeqattnError: what a user can mend.
    """
    from seqattn import experiment

    frames = {key: frame for key, frame in frames.items() if frame is not None}
    for key, frame in frames.items():
        if kind_of_frame(frame) is None:
            raise DataError(f"data.{key}: expected a DataFrame, got {type(frame).__name__}.")
        for line in notes_of_frame(frame):
            note(line)
    found = _resolved(config, frames, overrides)
    folder = RunFolder(output_dir / found.name)
    if not frames:
        experiment.run(found, output_dir, resume=resume, overwrite=overwrite)
        return folder
    check_not_taken(folder, resume=resume, overwrite=overwrite)
    written = dict[str, Path]()
    made = list[Path]()
    try:
        for key, frame in frames.items():
            written[key], is_new = _write(frame, output_dir, found.name)
            made += [written[key]] if is_new else []
        paths = {key: str(path) for key, path in written.items()}
        data = found.data.model_copy(update={**paths, "format": "auto"})
        experiment.run(
            found.model_copy(update={"data": data}), output_dir, resume=resume, overwrite=overwrite
        )
    finally:
        for path in made:
            if not _is_named(path, folder):
                path.unlink(missing_ok=True)
    return folder


def _is_named(path: Path, folder: RunFolder) -> bool:
    """Whether the config of a run needs a file."""
    return folder.is_run and path.name in folder.config.read_text()


def _resolved(
    config: Config | str | Path | None, frames: Mapping[str, Any], overrides: Sequence[str]
) -> Config:
    """
    Raises:
        UsageError, ConfigError: see `train_on_frames`.
    """
    if isinstance(config, Config):
        if overrides:
            raise UsageError(
                "overrides go with a YAML file or None; the config has its values already."
            )
        if frames and not isinstance(config.data, OwnFile):
            raise UsageError(
                f"data.kind is {config.data.kind}, which makes its sequences. A DataFrame needs a"
                " config of data: {kind: file}."
            )
        return config
    paths = [f"data.{key}={as_value(f'{key}-{PLACEHOLDER}')}" for key in frames]
    kind = ["data.kind=file"] if frames else []
    path = None if config is None else Path(config)
    return resolve(path, [*overrides, *kind, *paths]).config


def _write(frame: Any, home: Path, name: str) -> tuple[Path, bool]:
    """A Parquet file of a frame, and whether it was not there before."""
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".frame-") as place:
        made = Path(place) / PLACEHOLDER
        write_frame(frame, made)
        path = home / f"{name}-{digest_of(made)[:12]}.parquet"
        if path.exists():
            return path, False
        made.replace(path)
        return path, True
