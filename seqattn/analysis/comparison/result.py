"""Results of a comparison: its variants, and the tests between them."""

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
"""new: each seed has its own generated data. same: all seeds share the generated data. files: all
seeds use the user's files. one: there is only one seed."""


def describe_seed_counts(counts: Iterable[int]) -> str:
    """The number of seeds of the variants as text: `3 seeds each`, `2 to 3 seeds`.

    Args:
        counts: number of seeds of each variant; not empty.
    """
    found = list(counts)
    least, most = min(found), max(found)
    return f"{counted(least, 'seed')} each" if least == most else f"{least} to {most} seeds"


@dataclass(frozen=True)
class VariantResult:
    """Runs of one variant.

    Attributes:
        name: name of the variant.
        folders: seed -> run folder, for all seeds.
        summaries: seed -> content of summary.json, for the seeds that finished with a finite loss.
        diverged: the diverged seeds.
        sweep_group: in a sweep over a config key, the variant without the value of the key.
        sweep_value: the value of that key; None without a sweep.
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
        return cls(name, folders, summaries, diverged, sweep_group, sweep_value)

    @cached_property
    def losses(self) -> dict[int, float]:
        """Seed -> test loss, inf where the run diverged; unfinished seeds are left out."""
        found = {seed: float(summary["test_loss"]) for seed, summary in self.summaries.items()}
        found.update(dict.fromkeys(self.diverged, math.inf))
        return {seed: found[seed] for seed in self.folders if seed in found}

    @cached_property
    def seed_summary(self) -> SeedSummary | None:
        """Statistics of the test losses; None where no seed has finished."""
        return SeedSummary.of(self.losses) if self.losses else None

    @property
    def any_summary(self) -> Mapping[str, Any]:
        """The summary of one seed, for values that all seeds share: the number of parameters."""
        return next(iter(self.summaries.values()))

    @property
    def unfinished(self) -> int:
        """Number of seeds without a result: interrupted, or still in training."""
        return len(self.folders) - len(self.losses)


@dataclass(frozen=True)
class ComparisonResult:
    """A finished or unfinished comparison.

    Attributes:
        path: folder of the comparison.
        name: name of the folder.
        variants: results in the order of the config.
        pairs: tests of all pairs of variants with comparable losses.
        same_data: whether all variants have the same sequences for each seed.
        same_data_in_pairs: whether the two variants of every pair do; in a sweep, a pair has one
            value of the key.
        same_units: whether the test losses of all variants have the same units. Variants with
            different units are not paired.
        same_training_units: whether their training and validation losses have the same units.
        data_of_seeds: which data the seeds of a variant are trained on.
        sweep_key: the config key of a sweep, or "".
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
