"""A data set in three parts, and its schema, which checkpoints store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqattn.data.baselines import NaiveForecast
from seqattn.data.metrics import InSample
from seqattn.data.reading import Reading
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import Space, Vectors, source_indices_of
from seqattn.data.spacing import Frequency
from seqattn.data.tokens import Tokens
from seqattn.data.units import Units
from seqattn.errors import UsageError, counted


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


@dataclass(frozen=True)
class DataSpec:
    """The sequences that a model reads and forecasts.

    Attributes:
        source: what a source step is.
        target: what a target step is.
        source_length: length of the longest source, in steps.
        target_length: length of the longest target, in steps.
        digests: SHA-256 digest of the files for each path in the config.
        frequency: step interval of all training series, or None if intervals differ or are unknown.
        reading: how the table was read, or None if no table was read.
    """

    source: Space
    target: Space
    source_length: int
    target_length: int
    digests: tuple[str, ...] = ()
    frequency: Frequency | None = None
    reading: Reading | None = None

    @classmethod
    def of(cls, part: Sequences) -> DataSpec:
        """Build the schema of sequences in memory."""
        return cls(part.source_space, part.target_space, part.source_steps, part.target_steps)

    @classmethod
    def of_splits(cls, data: Splits) -> DataSpec:
        """Build the schema of a data set from its training part."""
        return replace(
            cls.of(data.train), digests=data.digests, frequency=data.frequency, reading=data.reading
        )

    @property
    def source_features(self) -> tuple[str, ...]:
        """Names of the source features."""
        return self.source.names

    @property
    def target_features(self) -> tuple[str, ...]:
        """Names of the target features."""
        return self.target.names

    @property
    def source_index_of_target(self) -> tuple[int, ...]:
        """Index of each target feature among the source features, or -1 if the source lacks the
        feature."""
        return source_indices_of(self.source.names, self.target.names)

    @property
    def units(self) -> Units:
        """Unit of each feature that has a unit, by feature name."""
        return {**self.source.units, **self.target.units}

    @property
    def vectors(self) -> tuple[Vectors, Vectors]:
        """The source space and the target space, if steps are vectors on both sides.

        Raises:
            UsageError: if they are not.
        """
        if not (isinstance(self.source, Vectors) and isinstance(self.target, Vectors)):
            raise UsageError(
                "The steps of this run are symbols; this works for sequences of vectors only."
            )
        return self.source, self.target

    @property
    def tokens(self) -> tuple[Tokens, Tokens]:
        """The source space and the target space, if steps are symbols on both sides.

        Raises:
            UsageError: if they are not.
        """
        if not (isinstance(self.source, Tokens) and isinstance(self.target, Tokens)):
            raise UsageError("The model was not trained on symbols, so it cannot read text.")
        return self.source, self.target

    @property
    def is_identity(self) -> bool:
        """Whether a model reads and writes the user's values themselves."""
        return self.source.is_identity and self.target.is_identity

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

    def scaling_as_plain(self) -> dict[str, Any]:
        """Return the scaling of vectors as JSON-serializable data, for programs that read an export
        or a report."""
        sides = {}
        for side, space in zip(("source", "target"), self.vectors, strict=True):
            plain = space.scaling.as_plain()
            choices = {key: plain.pop(key) for key in ("relative", "instance")}
            sides[side] = plain
        return {**sides, **choices}

    def as_plain(self) -> dict[str, Any]:
        """Return the schema as JSON-serializable data."""
        return {
            "source": self.source.as_plain(), "target": self.target.as_plain(),
            "source_length": self.source_length, "target_length": self.target_length,
            "digests": list(self.digests),
            **({} if self.frequency is None else {"frequency": self.frequency.as_plain()}),
            **({} if self.reading is None else {"reading": self.reading.as_plain()}),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> DataSpec:
        """Build the schema from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if `plain` is not an output of
                `as_plain`.
        """
        frequency = plain.get("frequency")
        reading = plain.get("reading")
        return cls(
            _space_from_plain(plain["source"]), _space_from_plain(plain["target"]),
            int(plain["source_length"]), int(plain["target_length"]),
            tuple(str(digest) for digest in plain["digests"]),
            None if frequency is None else Frequency.from_plain(frequency),
            None if reading is None else Reading.from_plain(reading),
        )  # fmt: skip


def _space_from_plain(plain: Mapping[str, Any]) -> Space:
    match plain["kind"]:
        case "vectors":
            return Vectors.from_plain(plain)
        case "tokens":
            return Tokens.from_plain(plain)
        case kind:
            raise ValueError(f"the kind of steps {kind!r} is unknown")
