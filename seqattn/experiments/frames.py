"""Training on DataFrames: each is written to a Parquet file, which the config then names."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.config import Config, OwnFile, as_value, resolve
from seqattn.data.frames import frame_kind, frame_notes, write_frame
from seqattn.data.reading import file_digest
from seqattn.errors import DataError, UsageError
from seqattn.runs import RunFolder, check_folder_available

PLACEHOLDER = "frame.parquet"
"""data.path until the name of the run is known."""


def train_on_frames(
    config: Config | str | Path | None, frames: Mapping[str, Any], overrides: Sequence[str],
    output_dir: Path, note: Callable[[str], None], *, resume: bool, overwrite: bool,
) -> RunFolder:  # fmt: skip
    """Train on DataFrames instead of files.

    Args:
        config: a YAML file, a config, or None for the defaults.
        frames: by key of `data`: path, validation_path, test_path; None: there is none. Each is
            written beside the run's folder, under a name that says its content.
        note: called with a line for the user.

    Raises:
        UsageError: the config is not of files, or a Config has overrides.
        SeqattnError: an error that a user can correct.
    """
    from seqattn import experiments

    frames = {key: frame for key, frame in frames.items() if frame is not None}
    for key, frame in frames.items():
        if frame_kind(frame) is None:
            raise DataError(f"data.{key}: expected a DataFrame, got {type(frame).__name__}.")
        for line in frame_notes(frame):
            note(line)
    found = _resolved(config, frames, overrides)
    folder = RunFolder(output_dir / found.name)
    if not frames:
        experiments.train_one(found, output_dir, resume=resume, overwrite=overwrite)
        return folder
    check_folder_available(folder, resume=resume, overwrite=overwrite)
    written = dict[str, Path]()
    made = list[Path]()
    try:
        for key, frame in frames.items():
            written[key], is_new = _write(frame, output_dir, found.name)
            made += [written[key]] if is_new else []
        paths = {key: str(path) for key, path in written.items()}
        data = found.data.model_copy(update={**paths, "format": "auto"})
        experiments.train_one(
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
        path = home / f"{name}-{file_digest(made)[:12]}.parquet"
        if path.exists():
            return path, False
        made.replace(path)
        return path, True
