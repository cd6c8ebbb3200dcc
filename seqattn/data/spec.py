"""The schema of the sequences that a model was trained on. Checkpoints store this schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqattn.data.column_roles import ColumnRoles
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.spacing import Frequency
from seqattn.data.splits import Splits
from seqattn.data.units import Units
from seqattn.errors import counted


@dataclass(frozen=True)
class DataSpec:
    """Names, lengths and units of the sequences that a model reads and forecasts.

    Attributes:
        source_features: names of the source features.
        target_features: names of the target features.
        source_length: length of the longest source, in steps.
        target_length: length of the longest target, in steps.
        scaling: scaling from the user's units to the units of the model, and back.
        digests: SHA-256 digest of the files for each path in the config.
        frequency: step interval of all training series, or None if intervals differ or are unknown.
        roles: roles of the columns in the table, inferred or set by the user, or None if no table
            was read.
        units: unit of each feature that has a unit, by feature name.
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
        """Build the schema of sequences in memory.

        Args:
            part: the sequences.
            scaling: scaling of the model, or None for the identity.
        """
        return cls(
            part.features, part.target_features, part.source_steps, part.target_steps,
            Scaling.identity(part) if scaling is None else scaling,
        )  # fmt: skip

    @classmethod
    def of_splits(cls, data: Splits) -> DataSpec:
        """Build the schema of a data set from its training part."""
        train = data.train
        return cls(
            train.features, train.target_features, train.source_steps, train.target_steps,
            data.scaling,
            data.digests, data.frequency, data.roles, data.units,
        )  # fmt: skip

    def note_lengths(
        self, source_lengths: ArrayLike, target_lengths: ArrayLike, note: Callable[[str], None]
    ) -> None:
        """Call `note` with one sentence if sources or forecasts are longer than all those of the
        training part, because training shows nothing about such lengths.

        Args:
            source_lengths: (N,) number of steps of each source.
            target_lengths: (N,) number of steps of each forecast, or one number for all.
            note: a function that receives messages for the user.
        """
        sources = np.asarray(source_lengths)
        found = [
            f"{int((lengths > longest).sum()):,} of {lengths.size:,} {name} have more than"
            f" {counted(longest, 'step')}, up to {int(lengths.max()):,}"
            for lengths, longest, name in (
                (sources, self.source_length, "sources"),
                (np.broadcast_to(target_lengths, sources.shape), self.target_length, "forecasts"),
            )
            if (lengths > longest).any()
        ]
        if found:
            note(f"Longer than all training sequences: {', and '.join(found)}.")

    def as_plain(self) -> dict[str, Any]:
        """Return the schema as JSON-serializable data. The key `said` has the names of the target
        features."""
        return {
            "features": list(self.source_features), "said": list(self.target_features),
            "source_length": self.source_length, "target_length": self.target_length,
            "scaling": self.scaling.as_plain(), "digests": list(self.digests),
            **({} if self.frequency is None else {"frequency": self.frequency.as_plain()}),
            **({} if self.roles is None else {"roles": self.roles.as_plain()}),
            **({"units": dict(self.units)} if self.units else {}),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> DataSpec:
        """Build the schema from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if `plain` is not an output of
                `as_plain`.
        """
        source, target = (tuple(str(name) for name in plain[key]) for key in ("features", "said"))
        frequency = plain.get("frequency")
        roles = plain.get("roles")
        return cls(
            source, target, int(plain["source_length"]), int(plain["target_length"]),
            Scaling.from_plain(plain["scaling"], source, target),
            tuple(str(digest) for digest in plain["digests"]),
            None if frequency is None else Frequency.from_plain(frequency),
            None if roles is None else ColumnRoles.from_plain(roles),
            {str(name): str(unit) for name, unit in plain.get("units", {}).items()},
        )  # fmt: skip
