"""Functions that load the model of a run, and the data on which the model was trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from seqattn.config import UNKNOWN_PATH, Config, FromFiles, read_stored
from seqattn.data import Splits, load_data
from seqattn.errors import CheckpointError, ConfigError, UsageError
from seqattn.runs import RunFolder, find_run
from seqattn.training import (
    LoadedModel,
    check_data_unchanged,
    load_model,
    load_model_at_epoch,
)


def open_run(path: Path, epoch: int | None = None) -> tuple[RunFolder, LoadedModel]:
    """Load a run from a run folder or a checkpoint.

    Args:
        path: a run folder or a checkpoint. From a run folder, the function uses the best
            checkpoint.
        epoch: the epoch whose recorded parameters are loaded; None to load the parameters of the
            checkpoint.

    Returns:
        the run folder, and the model. The name and the data paths in its config are those of the
        run folder. For a checkpoint outside a run folder, they are unknown, and the name is the
        default name.

    Raises:
        CheckpointError: if the checkpoint is missing or corrupt, or if the checkpoint does not
            match the config in the run folder.
        UsageError: if the parameters of the epoch were not recorded, or if `epoch` is given with a
            checkpoint.
    """
    folder, checkpoint = find_run(path)
    if epoch is not None and not path.is_dir():
        raise UsageError(
            f"--epoch {epoch}: {path} is a checkpoint, which has one epoch only; give the run"
            " folder."
        )
    expected = None
    if folder.is_run:
        try:
            expected = read_stored(folder.config)
        except ConfigError as error:
            raise CheckpointError(f"{folder.path}: its config cannot be read. {error}") from None
    if epoch is None:
        trained = load_model(checkpoint, expected=expected)
    else:
        trained = load_model_at_epoch(folder, epoch, expected=expected)
    if expected is not None:  # a checkpoint contains neither the name nor the paths
        own = {"name": expected.name, "data": expected.data}
        config = trained.config.model_copy(update=own)
        trained = dataclasses.replace(trained, config=config)
    return folder, trained


def load_splits(trained: LoadedModel) -> Splits:
    """Load the data on which a model was trained.

    Raises:
        DataError: if the data cannot be read, or if a data file has changed since the training run.
    """
    config = trained.config
    spaces = trained.spec.source, trained.spec.target
    fits_scaling = config.training.start_from is None
    data = load_data(config.data, fits_scaling=fits_scaling, spaces=spaces).fitted_as(*spaces)
    check_data_unchanged(data.digests, trained.spec.digests, "since the training")
    return data


def remove_paths(config: Config) -> Config:
    """Return a copy of a config without the paths of the data files."""
    if not isinstance(config.data, FromFiles):
        return config
    none = {"path": UNKNOWN_PATH, "validation_path": None, "test_path": None}
    return config.model_copy(update={"data": config.data.model_copy(update=none)})
