"""Sequences in NumPy: what a config's `data` section stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seqattn.config import Data, OwnFile, Squares
from seqattn.data import file_dataset, squares, tasks
from seqattn.data.baselines import Rule
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.metrics import InSample
from seqattn.data.naive import check_season
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.spec import DataSpec
from seqattn.data.units import Units, check_units
from seqattn.data.windows import Windows


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set, and the rule of thumb that its task knows.

    Attributes:
        scaling: of the units that a model works in; the parts are in the user's.
        rule: name and forecast of the task's own parameter-free rule, or None.
        notes: what a user should be told of files that were read.
        split: (name, part, first step, last step) of each sequence of such files.
        digests: SHA-256 of each path of the config.
        sources: SHA-256 of each file, where a path stands for several.
        frequency: how far apart the steps of all training series of such files are; None: they have
            none, or several.
        in_sample: season and scale of the errors, of the training series of such files.
        fitted_on: the training sequences that baselines are fitted to.
        roles: of the columns of the table they were read from; None: there was none.
        units: of the features that have one.
    """

    train: Sequences
    validation: Sequences
    test: Sequences
    scaling: Scaling
    rule: tuple[str, Rule] | None = None
    notes: tuple[str, ...] = ()
    split: tuple[tuple[str, str, str, str], ...] = ()
    digests: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    frequency: Frequency | None = None
    in_sample: InSample | None = None
    fitted_on: Sequences | None = None
    roles: ColumnRoles | None = None
    units: Units = field(default_factory=dict)

    @property
    def baseline_part(self) -> Sequences:
        """The training sequences that baselines are fitted to."""
        return self.train if self.fitted_on is None else self.fitted_on

    def batches(self, size: int) -> int:
        """Steps of an epoch."""
        return -(-len(self.train) // size)


def load(config: Data) -> Splits:
    """Make or read the sequences of a config.

    Raises:
        DataError: files that cannot be used, with the place in the file; or a unit of no feature.
        StorageError: there is no room for a cache of large files.
    """
    if isinstance(config, OwnFile):
        found = file_dataset.load_file_dataset(config)
        if config.season is not None:
            for each in found.parts:
                check_season(each, config.season)
        trained, units = found.parts[0], config.units or {}
        check_units(units, list(dict.fromkeys([*trained.features, *trained.target_features])))
        return Splits(
            *found.parts, found.scaling, None, found.notes, found.split, found.digests,
            found.sources, found.frequency, found.in_sample, found.fitted_on, found.roles, units,
        )  # fmt: skip

    def part(n: int, seed: int) -> Sequences:
        if isinstance(config, Squares):
            return squares.generate(
                n,
                seed,
                noise=config.noise,
                source_length=config.source_length,
                variable_length=config.variable_length,
            )
        return tasks.generate(config, n, seed)

    train = part(config.n_train, config.train_seed)
    return Splits(
        train=train,
        validation=part(config.n_validation, config.validation_seed),
        test=part(config.n_test, config.test_seed),
        scaling=Scaling.identity(train),
        rule=("minus the source corner", squares.opposite_corner)
        if isinstance(config, Squares)
        else tasks.rule_of(config),
    )


def shape_of(config: Data) -> tuple[int, int] | None:
    """Points of the longest source and of the longest target; None where a file knows."""
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
    "DataSpec",
    "InSample",
    "Rule",
    "Scaling",
    "Sequences",
    "Splits",
    "Windows",
    "load",
    "shape_of",
]
