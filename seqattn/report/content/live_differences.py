"""Differences between the runs of a page: those that make a common source impossible, and those
that readers must know about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqattn.config import as_plain
from seqattn.data.tokens import Tokens
from seqattn.errors import counted

if TYPE_CHECKING:
    from seqattn.training import LoadedModel

PATHS = ("path", "validation_path", "test_path")
"""The keys of the data section that contain paths. Digests show whether the files differ."""


@dataclass(frozen=True)
class PageRun:
    """A training run that is shown on a report page.

    Attributes:
        name: the name of the run on the page.
        trained: the model of the run.
    """

    name: str
    trained: LoadedModel

    @property
    def fixed_source(self) -> int | None:
        """The only source length that the model accepts; None if it accepts several."""
        skip = self.trained.model.skip
        return None if skip is None else skip.lengths.source

    @property
    def source_limit(self) -> str | None:
        """A clause about the source lengths that the model accepts; None if it accepts all."""
        if self.fixed_source is not None:
            return f"{self.name} accepts sources of {counted(self.fixed_source, 'point')} only"
        longest = self.trained.model.max_length
        return None if longest is None else f"{self.name} accepts at most {longest} source points"

    def accepts(self, length: int) -> bool:
        """Return whether the model accepts sources of the given length."""
        longest = self.trained.model.max_length
        if self.fixed_source is not None:
            return length == self.fixed_source
        return longest is None or length <= longest


def find_conflict(run: PageRun, others: Sequence[PageRun]) -> str | None:
    """Return a clause that says why a run cannot share sources with another run; None if the run
    can share sources with all other runs.

    Args:
        run: the run.
        others: the runs that are already on the page.
    """
    spec = run.trained.spec
    for other in others:
        of_other = other.trained.spec
        for side, ours, theirs in (
            ("source", spec.source_features, of_other.source_features),
            ("target", spec.target_features, of_other.target_features),
        ):
            if ours != theirs:
                return (
                    f"its {side} features are {', '.join(ours)}, and those of {other.name} are"
                    f" {', '.join(theirs)}"
                )
        for side, own, its in (
            ("source", spec.source, of_other.source), ("target", spec.target, of_other.target),
        ):  # fmt: skip
            if isinstance(own, Tokens) and (
                own.needed_by_weights(side) != its.needed_by_weights(side)
            ):
                return f"the vocabulary of its {side} differs from that of {other.name}"
        for feature, unit in spec.units.items():
            known = of_other.units.get(feature, unit)
            if known != unit:
                return f"{feature} is in {unit} in {run.name}, and in {known} in {other.name}"
        for one, two in ((run, other), (other, run)):
            if one.fixed_source is not None and not two.accepts(one.fixed_source):
                return f"{run.source_limit}, and {other.source_limit}, so no source fits both"
    return None


def describe_differences(runs: Sequence[PageRun], sequences_of: str | None) -> list[str]:
    """Return sentences about differences between runs that forecast from the same sources.

    Args:
        runs: the runs.
        sequences_of: the name of the run whose test sequences the page shows; None for the first
            run.
    """
    if len(runs) < 2:
        return []
    found = []
    facts: dict[str, Callable[[PageRun], str]] = {
        "units": lambda run: ", ".join(map(" in ".join, run.trained.spec.units.items())) or "none",
        "numbers of forecast steps": lambda run: str(run.trained.spec.target_length),
        "step intervals": lambda run: str(run.trained.spec.frequency or "unknown"),
    }
    for name, value in facts.items():
        if text := _list_values(runs, value):
            found.append(f"The runs have different {name}: {text}.")
    limits = {run.source_limit.removeprefix(run.name): run.source_limit for run in runs
              if run.source_limit is not None}  # fmt: skip
    if limits and (len(limits) > 1 or not all(run.source_limit for run in runs)):
        found.append(
            f"The models accept different source lengths: {', and '.join(limits.values())}."
        )
    if differing := _differing_data_keys(runs):
        found.append(
            "The runs were trained on different data: they differ in"
            f" {', '.join(differing)}. The test sequences on this page are those of"
            f" {sequences_of or runs[0].name}, so the errors of the other models on them are not"
            " their test losses."
        )
    if _list_values(runs, lambda run: str(run.trained.spec.target.scale.tolist())):
        found.append(
            "The errors of a model are in its own scaled units, so the errors of these models"
            " cannot be compared."
        )
    return found


def _list_values(runs: Sequence[PageRun], value: Callable[[PageRun], str]) -> str:
    """Return the values that differ between runs as text, with the runs of each value; "" if all
    values are equal."""
    names = dict[str, list[str]]()
    for run in runs:
        names.setdefault(value(run), []).append(run.name)
    if len(names) == 1:
        return ""
    return ", ".join(
        f"{found} ({first}{f' and {len(more)} more' if more else ''})"
        for found, (first, *more) in names.items()
    )


def _differing_data_keys(runs: Sequence[PageRun]) -> list[str]:
    """Return the data keys in which runs differ, and a phrase if the contents of files differ."""
    sections = [as_plain(run.trained.config)["data"] for run in runs]
    keys = dict.fromkeys(key for section in sections for key in section if key not in PATHS)
    found = [f"data.{key}" for key in keys
             if any(section.get(key) != sections[0].get(key) for section in sections)]  # fmt: skip
    digests = {run.trained.spec.digests for run in runs}
    return found + (["the contents of their files"] if len(digests) > 1 else [])
