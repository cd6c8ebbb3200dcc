"""A comparison, or many seeds of one config, as their folders have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.analysis.comparison.checks import check_seeds, check_variants, have_data_of_their_own
from seqattn.analysis.comparison.result import ComparisonResult, DataOfSeeds, Variant
from seqattn.analysis.comparison.statistics import differences
from seqattn.config import as_plain, read_stored
from seqattn.errors import CheckpointError
from seqattn.runs import COMPARISON, RunFolder, read_manifest


def is_comparison(path: Path) -> bool:
    """Whether a folder is one of a comparison, or of many seeds."""
    return (path / COMPARISON).is_file() or bool(seed_folders(path))


def seed_folders(path: Path) -> dict[int, RunFolder]:
    """Seed -> run folder, of the runs `path / seed-K`.

    Raises:
        CheckpointError: one lacks a file that every run has, so that it would be left out.
    """
    found = {}
    for folder in map(RunFolder, path.glob("seed-*")):
        number = folder.path.name.removeprefix("seed-")
        if not (number.isascii() and number.isdigit() and number == str(int(number))):
            continue
        if folder.is_run:
            found[int(number)] = folder
        elif not folder.is_available:
            raise CheckpointError(
                f"{folder.path}: is not the folder of a run ({folder.missing_files}), so its seed"
                " would be left out. Put the file back, or move the folder away."
            )
    return dict(sorted(found.items()))


def read_comparison(path: Path) -> ComparisonResult:
    """A comparison, or the seeds of one config, read back from its folder, finished or not.

    Raises:
        CheckpointError: it is none, or cannot be read.
    """
    if not (path / COMPARISON).is_file():
        return of_seeds(path, path.name, checked_seeds(path))
    mark = read_manifest(path / COMPARISON)
    variants, along = mark["variants"], mark.get("along") or {}
    resampled = bool(mark.get("resample_data", False))
    runs = {name: seed_folders(path / name) for name in variants}
    check_variants(path / COMPARISON, variants, runs, resampled=resampled)
    places = along.get("arms", {})
    arms = [Variant.read(name, folders, *places.get(name, ("", None)))
            for name, folders in runs.items()]  # fmt: skip
    data = {name: variant["data"] for name, variant in variants.items()}
    return collect_result(path, arms, data, str(along.get("key", "")), resampled=resampled)


def of_seeds(path: Path, name: str, folders: Mapping[int, RunFolder]) -> ComparisonResult:
    """The seeds of one config, in the folder `path`, or those of one variant of a comparison.

    Raises:
        CheckpointError: they are of several configs, or a summary cannot be read.
    """
    configs = [read_stored(folder.config) for folder in folders.values()]
    resampled = have_data_of_their_own(configs)
    section = as_plain(configs[0].data)
    return collect_result(
        path, [Variant.read(name, folders)], {name: section}, "", resampled=resampled
    )


def checked_seeds(path: Path) -> dict[int, RunFolder]:
    """Seed -> run folder of many seeds of one config.

    Raises:
        CheckpointError: there are none, or they are not seeds of one config on the same files.
    """
    folders = seed_folders(path)
    if not folders:
        raise CheckpointError(f"{path}: is no folder of a comparison or of many seeds.")
    check_seeds(path, folders)
    return folders


def collect_result(
    path: Path,
    arms: Sequence[Variant],
    data: Mapping[str, Mapping[str, Any]],
    along: str,
    *,
    resampled: bool,
) -> ComparisonResult:
    """
    Args:
        data: of each variant, the section of its config.
    """
    groups: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    data_of_group: dict[float | None, set[str]] = {}
    for arm in arms:
        unit = _unit_of_losses(data[arm.name])
        groups.setdefault((arm.at, unit), {})[arm.name] = arm.losses
        data_of_group.setdefault(arm.at, set()).add(_sequences_of(data[arm.name]))
    files = all(section.get("kind") in ("file", "stream") for section in data.values())
    of_seeds: DataOfSeeds = "files" if files else "new" if resampled else "same"
    if len({seed for arm in arms for seed in arm.folders}) < 2:
        of_seeds = "one"
    return ComparisonResult(
        path, path.name, tuple(arms), tuple(differences(groups.values())),
        same_data=len(set().union(*data_of_group.values())) == 1,
        same_data_in_pairs=all(len(found) == 1 for found in data_of_group.values()),
        same_units=len({unit for _, unit in groups}) == 1,
        same_training_units=len({_unit_of_training(section) for section in data.values()}) == 1,
        data_of_seeds=of_seeds, along=along,
    )  # fmt: skip


def _unit_of_losses(data: Mapping[str, Any]) -> str:
    """Equal for data sections whose test losses are in the same units."""
    return repr((data.get("scaling", "none"), data.get("relative", False)))


def _unit_of_training(data: Mapping[str, Any]) -> str:
    """The same for losses while training."""
    return _unit_of_losses(data) + ("instance" if data.get("normalize") == "instance" else "")


def _sequences_of(data: Mapping[str, Any]) -> str:
    """Equal for data sections of the same sequences and the same unit of losses."""
    return repr({key: value for key, value in data.items() if key != "normalize"})
