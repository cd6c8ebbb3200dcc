"""The format of checkpoints: a safetensors file that contains tensors and JSON metadata.

A checkpoint contains no code and no paths of data files. The metadata is a single JSON text under a
single key. safetensors does not write several keys in a fixed order, so only a single key ensures
that equal checkpoints have equal bytes. This module does not import torch, and represents tensors
as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqattn.config import UNKNOWN_PATH, Config, as_plain, from_plain, without_paths
from seqattn.data import DataSpec
from seqattn.errors import CheckpointError, ConfigError
from seqattn.runs.checksummed import load_checksummed, save_checksummed

VERSION = 3


@dataclass(frozen=True)
class CheckpointFile:
    """The content of a checkpoint.

    Attributes:
        path: path of the file.
        metadata: the metadata. The key `kind` is "model" for a best checkpoint, and "training" for
            a checkpoint with a training state.
        tensors: the tensors by name.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, NDArray[Any]]

    @property
    def epoch(self) -> int:
        return int(self.metadata["epoch"])

    @property
    def position(self) -> tuple[int, int]:
        """Number of finished epochs, and number of finished steps in the current epoch."""
        return self.epoch, int(self.metadata.get("step", 0))

    @property
    def is_training(self) -> bool:
        """Whether training can continue from the checkpoint."""
        return bool(self.metadata["kind"] == "training")

    @property
    def weights(self) -> dict[str, NDArray[Any]]:
        """Weights by parameter name. In a checkpoint with a training state, these are the newest
        weights, not the weights of the best epoch."""
        return self.below("model.") if self.is_training else self.tensors

    @cached_property
    def config(self) -> Config:
        """The config of the run, without its name and the paths of its data files.

        Raises:
            CheckpointError: if the config cannot be read.
        """
        plain = self.metadata["config"]
        section = plain.get("data")
        if isinstance(section, dict) and section.get("kind") in ("file", "text"):
            plain = {**plain, "data": {**section, "path": UNKNOWN_PATH}}
        try:
            return from_plain(plain, str(self.path))
        except ConfigError as error:
            raise CheckpointError(str(error)) from None

    @cached_property
    def spec(self) -> DataSpec:
        """The names, lengths, scaling and units of the training data.

        Raises:
            CheckpointError: if the spec cannot be read.
        """
        try:
            return DataSpec.from_plain(self.metadata["layout"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(
                f"{self.path}: its metadata do not describe the training data."
            ) from None

    def below(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the tensors whose names start with a prefix, by name without this prefix."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def write_checkpoint(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    config: Config,
    spec: DataSpec,
    metadata: Mapping[str, Any],
    backup_path: Path | None = None,
) -> None:
    """Write a checkpoint.

    Args:
        metadata: `kind`, `epoch`, and the other metadata of this kind of checkpoint.
        backup_path: new path of an existing file at `path`; None to replace that file.
    """
    common = {
        "version": VERSION,
        "config": without_place(as_plain(config)),
        "layout": spec.as_plain(),
    }
    save_checksummed(path, tensors, {**common, **metadata}, backup_path)


def read_checkpoint(path: Path) -> CheckpointFile:
    """Read a checkpoint.

    Raises:
        CheckpointError: if the file cannot be read (see `load_checksummed`), or if it is not a
            checkpoint.
    """
    metadata, tensors = load_checksummed(path, VERSION)
    if not (
        metadata.get("kind") in ("model", "training")
        and isinstance(metadata.get("config"), dict)
        and isinstance(metadata.get("epoch"), int)
    ):
        raise CheckpointError(f"{path}: its metadata do not contain the kind of the checkpoint.")
    return CheckpointFile(path, metadata, tensors)


def describe_checkpoint(path: Path) -> dict[str, Any]:
    """Describe a checkpoint as plain values: the file size, the metadata, and the name, shape, type
    and range of each tensor."""
    file = read_checkpoint(path)
    _ = file.config, file.spec  # raises an error if config or spec cannot be read
    tensors = [
        {
            "name": name,
            "shape": list(tensor.shape),
            "type": str(tensor.dtype),
            "numbers": tensor.size,
            "min": float(tensor.min()) if tensor.size else 0.0,
            "max": float(tensor.max()) if tensor.size else 0.0,
        }
        for name, tensor in sorted(file.tensors.items())
    ]
    metadata = {**file.metadata, "config": without_place(as_plain(file.config))}
    return {"bytes": path.stat().st_size, **metadata, "tensors": tensors}


def without_place(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of a config without its name and the paths of its data files."""
    return {key: value for key, value in without_paths(plain).items() if key != "name"}
