"""The schema of the sequences that a model was trained on. A checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seqattn.data.column_roles import ColumnRoles
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.splits import Splits
from seqattn.data.units import Units


@dataclass(frozen=True)
class DataSpec:
    """What sequences must have for a model to read them, and what its forecasts are of.

    Attributes:
        source_features, target_features: names of what is given and of what is forecast.
        source_length, target_length: steps of the longest.
        scaling: to the units the model works in, and back.
        digests: SHA-256 of each file they were read from.
        frequency: how far apart the steps of all sequences were; None: there was none, or several.
        roles: of the columns of the table they were read from, inferred or given; None: there was
            no table, or an earlier version wrote the checkpoint.
        units: of the features that have one, to be shown beside values.
    """

    source_features: tuple[str, ...]
    target_features: tuple[str, ...]
    source_length: int
    target_length: int
    scaling: Scaling
    digests: tuple[str, ...] = ()
    frequency: Frequency | None = None
    roles: ColumnRoles | None = None
    units: Units = field(default_factory=dict)

    @classmethod
    def of(cls, part: Sequences, scaling: Scaling | None = None) -> DataSpec:
        """Of sequences that were not read from files.

        Args:
            scaling: None: the model works in their own units.
        """
        return cls(
            part.features, part.target_features, part.source_steps, part.target_steps,
            Scaling.identity(part) if scaling is None else scaling,
        )  # fmt: skip

    @classmethod
    def of_splits(cls, data: Splits) -> DataSpec:
        train = data.train
        return cls(
            train.features, train.target_features, train.source_steps, train.target_steps,
            data.scaling,
            data.digests, data.frequency, data.roles, data.units,
        )  # fmt: skip

    def as_plain(self) -> dict[str, Any]:
        """For JSON; the names of the keys are those of the first versions."""
        return {
            "features": list(self.source_features),
            "said": list(self.target_features),
            "source_length": self.source_length,
            "target_length": self.target_length,
            "scaling": self.scaling.as_plain(),
            "digests": list(self.digests),
            **({} if self.frequency is None else {"frequency": self.frequency.as_plain()}),
            **({} if self.roles is None else {"roles": self.roles.as_plain()}),
            **({"units": dict(self.units)} if self.units else {}),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> DataSpec:
        """
        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is not what `as_plain` wrote.
        """
        features, said = (tuple(str(name) for name in plain[key]) for key in ("features", "said"))
        kept = plain.get("frequency")
        if kept is None and plain.get("apart") is not None:  # how checkpoints once had it
            kept = {"unit": "number", "step": plain["apart"]}
        roles = plain.get("roles")
        return cls(
            features, said, int(plain["source_length"]), int(plain["target_length"]),
            Scaling.from_plain(plain["scaling"], features, said),
            tuple(str(digest) for digest in plain["digests"]),
            None if kept is None else Frequency.from_plain(kept),
            None if roles is None else ColumnRoles.from_plain(roles),
            {str(name): str(unit) for name, unit in plain.get("units", {}).items()},
        )  # fmt: skip
