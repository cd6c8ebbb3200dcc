"""Training on DataFrames, which are written to Parquet files first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqattn.config import Config, ConfigSource, Override, OwnFile, as_value, resolve
from seqattn.config.files import read_regular_file
from seqattn.config.plugins import with_used_plugins
from seqattn.data.frames import frame_kind, frame_notes, write_frame
from seqattn.data.reading import file_digest
from seqattn.errors import DataError, UsageError
from seqattn.experiments.job import Callbacks
from seqattn.runs import RunFolder, check_folder_available

PLACEHOLDER = "frame.parquet"
"""Suffix of the paths in the section `data` until the names of the Parquet files are known."""


@dataclass(frozen=True)
class FrameData:
    """DataFrames that replace the data files of a config.

    Attributes:
        frames: DataFrame or None for each of the keys `path`, `validation_path` and `test_path` of
            the section `data`.
        message: function that is called with each note on how a DataFrame is read.
    """

    frames: Mapping[str, Any]
    message: Callable[[str], None]

    def checked(self) -> dict[str, Any]:
        """Return the DataFrames that are not None, by key. Pass the notes on them to `message`.

        Raises:
            DataError: if a value is not a DataFrame.
        """
        found = {key: frame for key, frame in self.frames.items() if frame is not None}
        for key, frame in found.items():
            if frame_kind(frame) is None:
                hint = " To change a key of the section data, use data__KEY=VALUE."
                raise DataError(
                    f"data.{key}: expected a DataFrame, got {type(frame).__name__}."
                    f"{hint if isinstance(frame, Mapping) else ''}"
                )
            for line in frame_notes(frame):
                self.message(line)
        return found


def train_on_frames(
    config: Config | ConfigSource, data: FrameData, overrides: Sequence[Override],
    output_dir: Path, *, resume: bool, overwrite: bool, callbacks: Callbacks | None = None,
) -> RunFolder:  # fmt: skip
    """Train a run on DataFrames or, if there are none, on the data of the config.

    Args:
        config: path of a YAML file, a mapping, a `Config`, or None for the defaults.
        data: the DataFrames. Each DataFrame is written to `output_dir`, with a digest of its
            content in the file name.
        overrides: the changed values; see `Override`. Overrides are not allowed with a `Config`.
        output_dir: parent of the run folder.
        resume: whether to continue an existing run.
        overwrite: whether to replace an existing run.
        callbacks: progress callbacks.

    Returns:
        the run folder.

    Raises:
        DataError: if a value of `data` is not a DataFrame.
        UsageError: if there are overrides for a `Config`, or if there are DataFrames for a `Config`
            whose `data.kind` is not `file`.
        SeqattnError: for any other error that a user can correct.
    """
    from seqattn import experiments

    frames = data.checked()
    resolved = _resolve_config(config, frames, overrides)
    folder = RunFolder(output_dir / resolved.name)
    check_folder_available(folder, resume=resume, overwrite=overwrite)
    paths = dict[str, str]()
    new_files = list[Path]()
    try:
        for key, frame in frames.items():
            path, is_new = _write_parquet(frame, output_dir, resolved.name)
            paths[key] = str(path)
            new_files += [path] if is_new else []
        if frames:
            section = resolved.data.model_copy(update={**paths, "format": "auto"})
            resolved = resolved.model_copy(update={"data": section})
        experiments.train_one(
            resolved, output_dir, resume=resume, overwrite=overwrite, callbacks=callbacks
        )
    finally:
        for path in new_files:
            if not _is_used(path, folder):
                path.unlink(missing_ok=True)
    return folder


def _is_used(path: Path, folder: RunFolder) -> bool:
    """Return whether the folder contains a run whose config refers to the file."""
    return folder.is_run and path.name.encode() in read_regular_file(folder.config)


def _resolve_config(
    config: Config | ConfigSource, frames: Mapping[str, Any], overrides: Sequence[Override]
) -> Config:
    """Build the config of a run. Unless `config` is a `Config`, the path of each DataFrame is a
    placeholder.

    Raises:
        UsageError, ConfigError: see `train_on_frames`.
    """
    if isinstance(config, Config):
        if overrides:
            raise UsageError(
                "overrides: allowed with a YAML file or None, not with a Config. Change the Config"
                " instead."
            )
        if frames and not isinstance(config.data, OwnFile):
            raise UsageError(
                f"data.kind is {config.data.kind}, which generates its data. A DataFrame needs a"
                " config with data: {kind: file}."
            )
        return with_used_plugins(config)
    paths = [f"data.{key}={as_value(f'{key}-{PLACEHOLDER}')}" for key in frames]
    kind = ["data.kind=file"] if frames else []
    return resolve(config, [*overrides, *kind, *paths]).config


def _write_parquet(frame: Any, folder: Path, name: str) -> tuple[Path, bool]:
    """Write a frame to a Parquet file.

    Returns:
        the path of the file, and whether the file is new.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".frame-") as scratch:
        unnamed = Path(scratch) / PLACEHOLDER
        write_frame(frame, unnamed)
        path = folder / f"{name}-{file_digest(unnamed)[:12]}.parquet"
        if path.exists():
            return path, False
        unnamed.replace(path)
        return path, True
