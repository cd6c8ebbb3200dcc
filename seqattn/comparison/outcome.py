"""What came of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqattn.comparison.statistics import Difference, Spread
from seqattn.runs import RunFolder


@dataclass(frozen=True)
class Arm:
    """What came of one variant.

    Attributes:
        name: of the variant.
        folders: seed -> run folder, of all seeds.
        summaries: seed -> summary.json, of the seeds that ended with a finite loss.
        spread: of their test losses; None where there is none.
        series, at: the variant without its number, and the number, where variants are compared
            along a key.
    """

    name: str
    folders: Mapping[int, RunFolder]
    summaries: Mapping[int, Mapping[str, Any]]
    spread: Spread | None
    series: str = ""
    at: float | None = None

    @property
    def losses(self) -> dict[int, float]:
        return {seed: summary["test_loss"] for seed, summary in self.summaries.items()}

    @property
    def any_summary(self) -> Mapping[str, Any]:
        """Of one seed, for what is the same in all: parameters, baselines, noise floor."""
        return next(iter(self.summaries.values()))

    @property
    def diverged(self) -> int:
        """How many seeds left the finite numbers."""
        without = [folder for seed, folder in self.folders.items() if seed not in self.summaries]
        return sum(folder.divergence() is not None for folder in without)

    @property
    def unfinished(self) -> int:
        """How many seeds have no result for another reason: they were stopped, or go on still."""
        return len(self.folders) - len(self.summaries) - self.diverged


@dataclass(frozen=True)
class Outcome:
    """A comparison, finished or as far as it has come.

    Attributes:
        path: its folder.
        arms: in the order of the config.
        pairs: every two variants.
        same_data: whether all variants were scored on the same sequences.
        along: the key whose numbers they are compared along, or "".
    """

    path: Path
    name: str
    arms: tuple[Arm, ...]
    pairs: tuple[Difference, ...]
    same_data: bool
    along: str = ""

    @property
    def same_data_in_pairs(self) -> bool:
        """Whether the two of every pair were: along a key, those at the same number."""
        groups: dict[float | None, set[str]] = {}
        for arm in self.arms:
            if arm.summaries:
                groups.setdefault(arm.at, set()).add(repr(arm.any_summary["baselines"]))
        return self.same_data or (bool(self.along) and all(len(g) == 1 for g in groups.values()))
