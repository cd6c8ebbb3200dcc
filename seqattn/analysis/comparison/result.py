"""The types that contain the results of a comparison: the results of each variant, and the tests of
all pairs of variants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from seqattn.analysis.comparison.measures import read_measure
from seqattn.analysis.comparison.statistics import PairedTest, SeedSummary
from seqattn.config import ComparedMeasure
from seqattn.config.comparing import ONLY_LOSS, Questions
from seqattn.errors import counted
from seqattn.runs import RunFolder

OWN_UNITS = ", each variant in its own units"
"""The text for variants whose losses have different units."""
DataOfSeeds = Literal["new", "same", "crossed", "files", "one"]
"""The kind of data that the seeds use. With `new`, each seed has its own generated data. With
`crossed`, each of several generated data sets is combined with each seed. With `same`, all seeds
share the generated data. With `files`, all seeds use the user's files. With `one`, there is only
one seed."""


def describe_seed_counts(counts: Iterable[int]) -> str:
    """Describe the numbers of seeds of several variants, as in `3 seeds each` or `2 to 3 seeds`.

    Args:
        counts: the number of seeds of each variant. There must be at least one variant.
    """
    found = list(counts)
    least, most = min(found), max(found)
    return f"{counted(least, 'seed')} each" if least == most else f"{least} to {most} seeds"


@dataclass(frozen=True)
class VariantResult:
    """The runs of one variant.

    Attributes:
        name: the name of the variant.
        folders: the run folders, by seed.
        summaries: the content of `summary.json` for each seed that finished with a finite loss, by
            seed.
        diverged: the seeds of the diverged runs.
        sweep_group: the name of the variant without the value of the swept config key; "" if the
            comparison is not a sweep.
        sweep_value: the value of the swept config key; None if the comparison is not a sweep.
    """

    name: str
    folders: Mapping[int, RunFolder]
    summaries: Mapping[int, Mapping[str, Any]]
    diverged: frozenset[int] = frozenset()
    sweep_group: str = ""
    sweep_value: float | None = None

    @classmethod
    def read(
        cls,
        name: str,
        folders: Mapping[int, RunFolder],
        sweep_group: str = "",
        sweep_value: float | None = None,
    ) -> VariantResult:
        """Read the summaries of a variant's runs.

        Raises:
            CheckpointError: if a summary cannot be read.
        """
        summaries = {
            seed: folder.read_summary()
            for seed, folder in folders.items()
            if folder.summary.is_file()
        }
        diverged = frozenset(seed for seed in summaries if summaries[seed].get("diverged"))
        finished = {seed: summaries[seed] for seed in summaries if seed not in diverged}
        return cls(name, folders, finished, diverged, sweep_group, sweep_value)

    @cached_property
    def losses(self) -> dict[int, float]:
        """The test losses, by seed.

        The loss of a diverged run is inf. An unfinished run has no entry.
        """
        return self.values_of("loss")

    def values_of(self, measure: ComparedMeasure) -> dict[int, float]:
        """Return a measure of the test part, by seed.

        The value of a diverged run is inf. An unfinished run has no entry. The result is empty if
        the finished runs do not have the measure, such as the AER of a model without attention.
        """
        read = {seed: read_measure(summary, measure) for seed, summary in self.summaries.items()}
        found = {seed: value for seed, value in read.items() if value is not None}
        if found or not read:
            found.update(dict.fromkeys(self.diverged, math.inf))
        return {seed: found[seed] for seed in self.folders if seed in found}

    @cached_property
    def seed_summary(self) -> SeedSummary | None:
        """Statistics of the test losses; None if no seed has a result."""
        return self.summary_of("loss")

    def summary_of(self, measure: ComparedMeasure) -> SeedSummary | None:
        """Return statistics of a measure over the seeds; None if no seed has it."""
        values = self.values_of(measure)
        return SeedSummary.of(values) if values else None

    @property
    def any_summary(self) -> Mapping[str, Any]:
        """The summary of one finished seed. It provides the values that are equal for all seeds,
        such as the number of parameters."""
        return next(iter(self.summaries.values()))

    @property
    def unfinished(self) -> int:
        """The number of seeds without a result. The runs of these seeds were interrupted or are
        still in progress."""
        return len(self.folders) - len(self.losses)


@dataclass(frozen=True)
class ComparisonResult:
    """The results of a comparison. The comparison may be unfinished.

    Attributes:
        path: the folder of the comparison.
        name: the name of the folder.
        variants: the results of the variants, in the order of the config.
        pairs: the tests of all pairs of variants that have losses in the same unit and at least two
            common seeds. In a sweep, both variants of a pair have the same value of the swept key.
        same_data: whether all variants have the same sequences for each seed.
        same_data_in_pairs: whether all variants with losses in the same unit, and in a sweep with
            the same value of the swept key, have the same sequences for each seed.
        same_units: whether the test losses of all variants have the same unit. Variants with
            different units are not tested against each other.
        same_training_units: whether the training and validation losses of all variants have the
            same unit.
        instance_normalized: whether the training and validation losses of at least one variant are
            in standard deviations of each source (`data.normalize: instance`).
        data_of_seeds: the kind of data that the seeds use; see `DataOfSeeds`.
        sweep_key: the swept config key; "" if the comparison is not a sweep.
        questions: what the pairs are tested for.
    """

    path: Path
    name: str
    variants: tuple[VariantResult, ...]
    pairs: tuple[PairedTest, ...]
    same_data: bool
    same_data_in_pairs: bool
    same_units: bool
    same_training_units: bool
    data_of_seeds: DataOfSeeds
    sweep_key: str = ""
    instance_normalized: bool = False
    questions: Questions = ONLY_LOSS

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The paths of the pictures that the folder of a comparison can contain."""
        names = ("comparison.png", "curves.png", "attention.png", "along.png")
        return tuple(self.path / name for name in names)

    @property
    def loss_name(self) -> str:
        """The name of the loss of all variants."""
        names = {one["loss_name"] for each in self.variants for one in each.summaries.values()}
        return names.pop() if len(names) == 1 else "loss"

    @property
    def unit_text(self) -> str:
        """The unit of the test losses, to append to a title or an axis label: `OWN_UNITS` if the
        variants have different units, and "" if the losses are in the units of the data."""
        if not self.same_units:
            return OWN_UNITS
        summaries = (summary for each in self.variants for summary in each.summaries.values())
        return ", scaled units" if any(summary["scaled"] for summary in summaries) else ""
