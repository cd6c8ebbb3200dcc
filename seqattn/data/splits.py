"""A data set in three parts: training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seqattn.data.baselines import NaiveForecast
from seqattn.data.metrics import InSample
from seqattn.data.reading import Reading
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import Space
from seqattn.data.spacing import Frequency
from seqattn.data.units import Units


@dataclass(frozen=True)
class Splits:
    """A data set in three parts, with the values that were fitted to the training part.

    Attributes:
        train: the training part, in the user's units.
        validation: the validation part, in the user's units.
        test: the test part, in the user's units.
        rule: name and forecast function of the naive baseline of a generated task, or None if there
            is no such baseline.
        notes: messages for the user about the files.
        split: tuple (series id, part, first step, last step) for each row range of a series in a
            part; empty for generated data, or if there are more than
            `seqattn.data.file_dataset.MAX_LISTED_SERIES` ranges.
        digests: SHA-256 digest of the files for each path in the config.
        digests_by_file: SHA-256 digest of each file by file name; empty if no path covers several
            files.
        frequency: step interval of all training series, or None if intervals differ or are unknown.
        in_sample: season and error scales of the training series, or None for generated data.
        fitted_on: the training sequences for fitting baselines, or None for the whole training
            part.
        reading: how the table was read, or None if no table was read.
    """

    train: Sequences
    validation: Sequences
    test: Sequences
    rule: tuple[str, NaiveForecast] | None = None
    notes: tuple[str, ...] = ()
    split: tuple[tuple[str, str, str, str], ...] = ()
    digests: tuple[str, ...] = ()
    digests_by_file: Mapping[str, str] = field(default_factory=dict)
    frequency: Frequency | None = None
    in_sample: InSample | None = None
    fitted_on: Sequences | None = None
    reading: Reading | None = None

    def fitted_as(self, source: Space, target: Space) -> Splits:
        """Return the data with the scaling that was fitted to other data, whose spaces are given.
        Units stay."""
        own = self.train
        return self.with_spaces(
            own.source_space.fitted_as(source), own.target_space.fitted_as(target)
        )

    def with_spaces(self, source: Space, target: Space) -> Splits:
        """Return the data in other spaces."""
        train, validation, test = (
            part.with_spaces(source, target) for part in (self.train, self.validation, self.test)
        )
        fitted_on = None if self.fitted_on is None else self.fitted_on.with_spaces(source, target)
        return replace(self, train=train, validation=validation, test=test, fitted_on=fitted_on)

    @property
    def units(self) -> Units:
        """Unit of each feature that has a unit, by feature name."""
        return self.train.units

    @property
    def baseline_part(self) -> Sequences:
        """The training sequences for fitting baselines."""
        return self.train if self.fitted_on is None else self.fitted_on

    def batches(self, size: int) -> int:
        """Return the number of batches of at most `size` sequences in an epoch."""
        return -(-len(self.train) // size)
