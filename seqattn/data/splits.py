"""The three parts of a data set."""

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
    rule: tuple[str, NaiveForecast] | None = None
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
