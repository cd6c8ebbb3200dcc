"""A run folder read back: its model, and the sequences it was trained on."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

from seqattn.config import Config, OwnFile, read_stored
from seqattn.data import Splits, load_data
from seqattn.data.file_dataset import UNKNOWN
from seqattn.errors import CheckpointError, ConfigError
from seqattn.runs import RunFolder, find_run
from seqattn.training import LoadedModel, check_data_unchanged, load_model


def open_run(path: Path) -> tuple[RunFolder, LoadedModel]:
    """Read a RUN argument: a run folder, or a checkpoint in one.

    Raises:
        CheckpointError: there is none, it is broken, or it is not of the folder's config.
    """
    folder, checkpoint = find_run(path)
    expected = None
    if folder.is_run:
        try:
            expected = read_stored(folder.config)
        except ConfigError as error:
            raise CheckpointError(
                f"{folder.path}: its config cannot be read back. {error}"
            ) from None
    trained = load_model(checkpoint, expected=expected)
    if expected is not None:  # the folder knows where the data lie, a checkpoint does not
        config = trained.config.model_copy(update={"data": expected.data})
        trained = dataclasses.replace(trained, config=config, split=tuple(folder.read_split()))
    return folder, trained


class OtherPartsWarning(FutureWarning):
    """Parts are not those of the training: an earlier version split the series another way."""


def data_of(trained: LoadedModel) -> Splits:
    """The sequences that a model was trained on, made or read again. A warning says so where an
    earlier version split them another way, so that the test part may have trained.

    Raises:
        DataError: files that are not there, or are no longer what they were.
    """
    data = load_data(trained.config.data)
    check_data_unchanged(data.digests, trained.spec.digests, "since the training")
    if _are_other_parts(trained, data):
        warnings.warn(
            "this run was trained by an earlier version, which split the series another way: its"
            " training saw some of what is the test part now, so errors on that part are too"
            " small. Train it again, or give sequences of their own with --input",
            OtherPartsWarning, stacklevel=2,
        )  # fmt: skip
    return data


def _are_other_parts(trained: LoadedModel, data: Splits) -> bool:
    config = trained.config.data
    if not isinstance(config, OwnFile) or config.test_path is not None:
        return False
    if trained.streamed:
        return True
    return bool(trained.split and data.split) and trained.split != tuple(data.split)


def without_paths(config: Config) -> Config:
    """A config that says how files were read, and not where they lie."""
    if not isinstance(config.data, OwnFile):
        return config
    none = {"path": UNKNOWN, "validation_path": None, "test_path": None}
    return config.model_copy(update={"data": config.data.model_copy(update=none)})
