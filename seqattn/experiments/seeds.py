"""Configs and run folders for the seeds of one config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seqattn.config import Config
from seqattn.errors import NonFiniteError, UsageError
from seqattn.experiments.job import Job
from seqattn.runs import COMPARISON, PAGE, SEARCH, RunFolder
from seqattn.runs.storage import folder_lock

MAX_SEED = 2**63 - 1
"""The largest seed that a config accepts."""
LOCK_TIMEOUT_SECONDS = 5.0
"""Maximum time in seconds to wait for another process that creates folders of seeds."""


@dataclass(frozen=True)
class SeedFolder(RunFolder):
    """The run folder of one of several seeds."""

    def clear_results(self) -> None:
        """Remove the files that are written after training. If there are results, also remove the
        report of all seeds, which shows these results."""
        if self.summary.exists():
            (self.path.parent / PAGE).unlink(missing_ok=True)
        super().clear_results()


def seeds_of(config: Config, parent: Path, seeds: int) -> list[tuple[Config, RunFolder]]:
    """Return a config for each seed, starting with `config.seed`, together with the run folder
    `parent / seed-K`. Nothing is written.

    Raises:
        UsageError: if `parent` is the folder of a run, a comparison or a search, or if a seed would
            be above the largest seed.
    """
    _check_home(parent)
    if config.seed + seeds - 1 > MAX_SEED:
        raise UsageError(
            f"seed {config.seed} leaves no room for {seeds} seeds. The largest seed is {MAX_SEED}."
        )
    return [
        (config.model_copy(update={"seed": seed}), SeedFolder(parent / f"seed-{seed}"))
        for seed in range(config.seed, config.seed + seeds)
    ]


def create_seed_folders(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Create the run folders of the seeds. The parent folder is locked only while the run folders
    are created, so that several processes can train different seeds in the parent folder.

    Raises:
        UsageError: if the parent is the folder of a run, a comparison or a search.
        FolderLockedError: if another process trains, compares or searches in the parent.
    """
    parent = configs[0][1].path.parent
    parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(parent, LOCK_TIMEOUT_SECONDS):
        _check_home(parent)
        for _, folder in configs:
            folder.path.mkdir(exist_ok=True)


def _check_home(parent: Path) -> None:
    kinds = {"a comparison": parent / COMPARISON, "a search": parent / SEARCH}
    found = [kind for kind, mark in kinds.items() if mark.exists()]
    if RunFolder(parent).is_run:
        found.append("a single run")
    if found:
        raise UsageError(
            f"{parent}: is the folder of {found[0]}; several seeds need a separate folder."
            " Choose another --name."
        )


def combined_error(jobs: Sequence[Job], *, are_seeds: bool) -> NonFiniteError | None:
    """Combine the errors of runs that diverged into one error.

    Args:
        jobs: the jobs of all runs.
        are_seeds: whether the message names the seeds. For a single run, this is False.

    Returns:
        the error, or None if no run diverged.
    """
    errors = {job.config.seed: job.error for job in jobs if job.error is not None}
    if not errors:
        return None
    first = next(iter(errors.values()))
    if not are_seeds:
        return first
    seeds = ", ".join(map(str, errors))
    if len(errors) == 1:
        return NonFiniteError(f"seed {seeds}: {first}")
    if len(errors) == len(jobs):
        return NonFiniteError(f"all {len(jobs)} seeds diverged. The first: {first}")
    return NonFiniteError(f"seeds {seeds} diverged; the others are finished. The first: {first}")
