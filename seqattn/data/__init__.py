"""Data sets as NumPy arrays: generated tasks and the user's files."""

from __future__ import annotations

from seqattn.config import Data, OwnFile, Squares
from seqattn.data import file_dataset, tasks
from seqattn.data.baselines import NaiveForecast
from seqattn.data.metrics import InSample
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.spec import DataSpec
from seqattn.data.splits import Splits
from seqattn.data.windows import Windows


def load_data(config: Data) -> Splits:
    """Generate or read the data set of a config.

    Raises:
        DataError: if a file cannot be used (the message states the location in the file), or if the
            config gives a unit for a feature that does not exist.
        StorageError: if the disk has no room for the cache of large files.
    """
    if isinstance(config, OwnFile):
        return file_dataset.load_file_dataset(config)
    train = tasks.generate(config, config.n_train, config.train_seed)
    return Splits(
        train=train, validation=tasks.generate(config, config.n_validation, config.validation_seed),
        test=tasks.generate(config, config.n_test, config.test_seed),
        scaling=Scaling.identity(train), rule=tasks.naive_forecast_of(config),
    )  # fmt: skip


def fixed_shape(config: Data) -> tuple[int, int] | None:
    """Return the length of the longest source and the length of the longest target, in steps.

    Return None for a data set from files, because its lengths are known only after reading.
    """
    if isinstance(config, OwnFile):
        return None
    if isinstance(config, Squares):
        return (
            (3, 3) if config.variable_length else (config.source_length, 4 - config.source_length)
        )
    longest = {key: None for key in type(config).model_fields if key.startswith("min_")}
    one = tasks.generate(config.model_copy(update=longest), 1, 0)
    return one.source_steps, one.target_steps


__all__ = [
    "DataSpec", "InSample", "NaiveForecast", "Scaling", "Sequences", "Splits", "Windows",
    "fixed_shape", "load",
]  # fmt: skip
