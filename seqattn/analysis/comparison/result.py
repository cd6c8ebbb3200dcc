"""What came of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from seqattn.analysis.comparison.statistics import PairedTest, SeedSummary
from seqattn.errors import counted
from seqattn.runs import RunFolder

DataOfSeeds = Literal["new", "same", "files", "one"]
"""new: each seed has generated data of its own. same: all seeds have the same generated data.
files: all seeds have the data of the user's files. one: there is one seed, so none of these."""


def seeds_in_words(counts: Iterable[int]) -> str:
    """How many seeds the variants have: `3 seeds each`, `2 to 3 seeds`.

    Args:
        counts: of each variant, at least one.
    """
    found = list(counts)
    least, most = min(found), max(found)
    return f"{counted(least, 'seed')} each" if least == most else f"{least} to {most} seeds"


@dataclass(frozen=True)
class Variant:
    """What came of one variant.

    Attributes:
        name: of the variant.
        folders: seed -> run folder, of all seeds.
        summaries: seed -> summary.json, of the seeds that ended with a finite loss.
        diverged: the diverged seeds.
        series, at: the variant without its number, and the number, where variants are compared
            along a key.
    """

    name: str
    folders: Mapping[int, RunFolder]
    summaries: Mapping[int, Mapping[str, Any]]
    diverged: frozenset[int] = frozenset()
    series: str = ""
    at: float | None = None

    @classmethod
    def read(
        cls, name: str, folders: Mapping[int, RunFolder], series: str = "", at: float | None = None
    ) -> Variant:
        """The seeds of one variant as their folders have them.

        Raises:
            CheckpointError: a summary cannot be read.
        """
        diverged = frozenset(
            seed for seed, folder in folders.items() if folder.divergence() is not None
        )
        summaries = {
            seed: folder.read_summary()
            for seed, folder in folders.items()
            if seed not in diverged and folder.summary.is_file()
        }
        return cls(name, folders, summaries, diverged, series, at)

    @cached_property
    def losses(self) -> dict[int, float]:
        """Seed -> test loss, inf where it diverged; without the seeds that have not ended."""
        found = {seed: float(summary["test_loss"]) for seed, summary in self.summaries.items()}
        found.update(dict.fromkeys(self.diverged, math.inf))
        return {seed: found[seed] for seed in self.folders if seed in found}

    @cached_property
    def spread(self) -> SeedSummary | None:
        """Of the test losses; None where no seed has ended."""
        return SeedSummary.of(self.losses) if self.losses else None

    @property
    def any_summary(self) -> Mapping[str, Any]:
        """Of one seed, for what is the same in all, such as the number of parameters."""
        return next(iter(self.summaries.values()))

    @property
    def unfinished(self) -> int:
        """How many seeds have no result: they were stopped, or go on still."""
        return len(self.folders) - len(self.losses)


@dataclass(frozen=True)
class ComparisonResult:
    """A comparison, finished or as far as it has come.

    Attributes:
        path: its folder.
        arms: in the order of the config.
        pairs: every two variants.
        same_data: whether all variants had the same sequences at each seed.
        same_data_in_pairs: whether the two of every pair had: along a key, those at one number.
        same_units: whether the test losses of all variants are in the same units; those of
            different ones make no pair.
        same_training_units: whether their training and validation losses are.
        data_of_seeds: what the seeds of a variant learn from.
        along: the key whose numbers they are compared along, or "".
    """

    path: Path
    name: str
    arms: tuple[Variant, ...]
    pairs: tuple[PairedTest, ...]
    same_data: bool
    same_data_in_pairs: bool
    same_units: bool
    same_training_units: bool
    data_of_seeds: DataOfSeeds
    along: str = ""
