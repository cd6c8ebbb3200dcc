"""A data set in three parts: training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seqattn.data.baselines import NaiveForecast
from seqattn.data.column_roles import ColumnRoles
from seqattn.data.metrics import InSample
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.units import Units


@dataclass(frozen=True)
class Splits:
    """A data set in three parts, with what was fitted on its training part.

    Attributes:
        train, validation, test: the parts, in the user's units.
        scaling: from the user's units to those of the model, and back.
        rule: name and forecast of the naive baseline that belongs to the task, or None.
        notes: messages for the user about the files.
        split: (series, part, first step, last step) of each series that was read from files.
        digests: SHA-256 of each path of the config.
        digests_by_file: SHA-256 of each file by its name, where a path stands for several files.
        frequency: the step interval that all training series share; None if they share none.
        in_sample: season and error scale of the training series; None for generated data.
        fitted_on: the training sequences that baselines are fitted to; None: all of them.
        roles: the roles of the columns of the table; None if no table was read.
        units: unit by feature, of the features that have one.
    """

    train: Sequences
    validation: Sequences
    test: Sequences
    scaling: Scaling
    rule: tuple[str, NaiveForecast] | None = None
    notes: tuple[str, ...] = ()
    split: tuple[tuple[str, str, str, str], ...] = ()
    digests: tuple[str, ...] = ()
    digests_by_file: Mapping[str, str] = field(default_factory=dict)
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
        """Number of batches in an epoch."""
        return -(-len(self.train) // size)
