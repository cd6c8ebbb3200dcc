"""The format of checkpoints: safetensors files with tensors, and JSON for everything else.

A checkpoint names no path, import or class. The metadata is one JSON text under one key, so that
equal checkpoints have equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from seqattn.config import Config, as_plain, from_plain, without_paths
from seqattn.data import DataSpec
from seqattn.data.file_dataset import UNKNOWN
from seqattn.errors import CheckpointError, ConfigError
from seqattn.training.checksummed import load_checksummed, save_checksummed

VERSION = 3


@dataclass(frozen=True)
class CheckpointFile:
    """The content of a checkpoint, converted to this version.

    Attributes:
        metadata: `kind` is "model" of a best checkpoint, and "training" of one with a state.
        tensors: by name.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def epoch(self) -> int:
        return int(self.metadata["epoch"])

    @property
    def position(self) -> tuple[int, int]:
        """Finished epochs, and finished steps of the running one, of a training."""
        return self.epoch, int(self.metadata.get("step", 0))

    @property
    def is_training(self) -> bool:
        """Whether a training can continue from it."""
        return bool(self.metadata["kind"] == "training")

    @property
    def weights(self) -> dict[str, Tensor]:
        """By parameter name; of the newest epoch, where the file has those of the best too."""
        return self.below("model.") if self.is_training else self.tensors

    @property
    def was_streamed(self) -> bool:
        """Whether an earlier version trained it on data.kind: stream."""
        data = self.metadata["config"].get("data")
        return isinstance(data, dict) and data.get("kind") == "stream"

    @cached_property
    def config(self) -> Config:
        """The config of the training, without name and paths.

        Raises:
            CheckpointError: it cannot be read.
        """
        plain = self.metadata["config"]
        data = plain.get("data")
        if isinstance(data, dict) and data.get("kind") in ("file", "stream"):
            plain = {**plain, "data": {**data, "path": UNKNOWN}}
        try:
            return from_plain(plain, str(self.path))
        except ConfigError as error:
            raise CheckpointError(str(error)) from None

    @cached_property
    def spec(self) -> DataSpec:
        """The spec of the data.

        Raises:
            CheckpointError: it cannot be read.
        """
        try:
            return DataSpec.from_plain(self.metadata["layout"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointError(
                f"{self.path}: its metadata does not say what it was trained on."
            ) from None

    def check_readable(self) -> None:
        """Check the parts that are parsed on demand.

        Raises:
            CheckpointError: config or spec cannot be read.
        """
        _ = self.config, self.spec

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, without it."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def write_checkpoint(
    path: Path,
    tensors: Mapping[str, Tensor],
    config: Config,
    spec: DataSpec,
    metadata: Mapping[str, Any],
    backup_path: Path | None = None,
) -> None:
    """Write a checkpoint.

    Args:
        metadata: `kind`, `epoch`, and other values of the kind.
        backup_path: new name of the file that was at `path`.

    Raises:
        OSError: writing failed, or the file does not read back as it was written.
    """
    common = {
        "version": VERSION,
        "config": without_place(as_plain(config)),
        "layout": spec.as_plain(),
    }
    save_checksummed(path, tensors, {**common, **metadata}, backup_path)


def read_checkpoint(path: Path) -> CheckpointFile:
    """Read a checkpoint of any version.

    Raises:
        CheckpointError: missing, corrupt, or not written by seqattn.
    """
    metadata, tensors = load_checksummed(path, VERSION)
    if metadata["version"] == 1:
        metadata = _from_version_1(metadata)
    if not (
        metadata.get("kind") in ("model", "training")
        and isinstance(metadata.get("config"), dict)
        and isinstance(metadata.get("epoch"), int)
    ):
        raise CheckpointError(f"{path}: its metadata does not say what it is.")
    return CheckpointFile(path, metadata, tensors)


def without_place(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a plain config without its name and the paths of its data files."""
    return {key: value for key, value in without_paths(plain).items() if key != "name"}


def _from_version_1(metadata: dict[str, Any]) -> dict[str, Any]:
    """Convert the metadata of version 1, which had one list of features for both sides, and no
    scaling. Version 2 differs only by having no checksum."""
    layout = metadata.get("layout")
    if isinstance(layout, dict) and isinstance(layout.get("features"), list):
        F = len(layout["features"])
        none = {"shift": [0.0] * F, "scale": [1.0] * F}
        scaling = {"source": none, "target": none, "relative": False}
        layout = {**layout, "said": layout["features"], "scaling": scaling, "digests": []}
    return {**metadata, "layout": layout}
