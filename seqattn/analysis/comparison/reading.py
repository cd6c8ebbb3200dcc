"""Functions that read comparisons, or several seeds of one config, from their folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.analysis.comparison.checks import (
    check_files,
    check_seeds,
    check_variants,
    is_resampled,
    read_run_config,
)
from seqattn.analysis.comparison.result import ComparisonResult, DataOfSeeds, VariantResult
from seqattn.analysis.comparison.statistics import paired_tests
from seqattn.analysis.comparison.units import LossUnit, units_of_losses
from seqattn.config import as_plain, read_stored
from seqattn.config.comparing import DATA_SET, ONLY_LOSS, Questions
from seqattn.errors import CheckpointError, UsageError
from seqattn.runs import COMPARISON, RunFolder, check_summary, read_manifest, seed_of_folder


def is_comparison(path: Path) -> bool:
    """Return whether a folder contains a comparison or the seeds of one config."""
    return (path / COMPARISON).is_file() or bool(find_seed_folders(path))


def find_seed_folders(path: Path) -> dict[int, RunFolder]:
    """Find the run folders `path / seed-K`.

    Returns:
        The run folders by seed, in ascending order of the seeds.

    Raises:
        CheckpointError: if a folder lacks a file that every run has. Without this error, the seed
            of the folder would be missing from the result.
    """
    found = {}
    for folder in map(RunFolder, path.glob("seed-*")):
        seed = seed_of_folder(folder.path)
        if seed is None:
            continue
        if folder.is_run:
            found[seed] = folder
        elif not folder.is_available:
            raise CheckpointError(
                f"{folder.path}: is not a run folder ({folder.missing_files}), so its seed"
                " would be left out. Restore the file, or move the folder away."
            )
    return dict(sorted(found.items()))


def read_comparison(path: Path) -> ComparisonResult:
    """Read a comparison, or the seeds of one config, from a folder. The runs may be unfinished.

    Raises:
        CheckpointError: if the folder contains neither a comparison nor seeds of one config, if a
            file cannot be read, or if the runs do not belong together.
    """
    if not (path / COMPARISON).is_file():
        return collect_seeds(path, path.name, require_seed_folders(path))
    manifest = read_manifest(path / COMPARISON)
    configs, sweep = manifest["variants"], manifest.get("along") or {}
    resampled = bool(manifest.get("resample_data", False))
    runs = {name: find_seed_folders(path / name) for name in configs}
    check_variants(path / COMPARISON, configs, runs, resampled=resampled)
    sweep_of_variant = sweep.get("arms", {})
    variants = [VariantResult.read(name, folders, *sweep_of_variant.get(name, ("", None)))
            for name, folders in runs.items()]  # fmt: skip
    data = {name: config["data"] for name, config in configs.items()}
    asked = manifest.get("questions") or {}
    questions = Questions(**{**asked, "measures": tuple(asked.get("measures", ("loss",)))})
    return collect_result(
        path, variants, data, str(sweep.get("key", "")), resampled=resampled, questions=questions
    )


def collect_seeds(path: Path, name: str, folders: Mapping[int, RunFolder]) -> ComparisonResult:
    """Collect the results of several seeds of one config.

    Args:
        path: the folder of the seeds, or the folder of the comparison to which the seeds belong.
        name: the name of the variant in the result.
        folders: the run folders, by seed.

    Raises:
        CheckpointError: if a summary cannot be read.
    """
    configs = [read_stored(folder.config) for folder in folders.values()]
    resampled = is_resampled(configs)
    section = as_plain(configs[0].data)
    return collect_result(
        path, [VariantResult.read(name, folders)], {name: section}, "", resampled=resampled
    )


def read_results(paths: Sequence[Path]) -> ComparisonResult:
    """Read a comparison, the seeds of one config, or several runs.

    Args:
        paths: the folder of a comparison or of several seeds, or one or more run folders. Each run
            folder becomes a variant with one seed.

    Raises:
        CheckpointError: if a folder cannot be read, or if two runs with the same `data` section
            were trained on different files.
        UsageError: if a run is given twice.
    """
    folders = [RunFolder(path) for path in paths]
    if len(paths) == 1 and not folders[0].is_run and is_comparison(paths[0]):
        return read_comparison(paths[0])
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("A run is given twice. Give each run once.")
    for folder in folders:
        if folder.is_run:
            continue
        if is_comparison(folder.path):
            raise CheckpointError(
                f"{folder.path}: is a comparison or a folder of seeds. Give this folder alone, or"
                " give run folders only."
            )
        raise CheckpointError(f"{folder.path}: is not a run folder ({folder.missing_files}).")
    return _collect_runs(folders)


def _collect_runs(folders: Sequence[RunFolder]) -> ComparisonResult:
    names = [folder.path.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder.path) for folder in folders]
    configs = [read_run_config(folder) for folder in folders]
    for folder, config in zip(folders, configs, strict=True):
        if folder.summary.exists():
            check_summary(folder, as_plain(config.model), config.seed)
    check_files(list(zip(folders, configs, strict=True)))
    variants = [
        VariantResult.read(name, {config.seed: folder})
        for name, folder, config in zip(names, folders, configs, strict=True)
    ]
    data = {name: as_plain(config.data) for name, config in zip(names, configs, strict=True)}
    return collect_result(folders[0].path.parent, variants, data, "", resampled=False)


def require_seed_folders(path: Path) -> dict[int, RunFolder]:
    """Find and check the run folders of several seeds of one config.

    Returns:
        The run folders, by seed.

    Raises:
        CheckpointError: if there are no run folders, if a run folder lacks a file, or if the runs
            are not seeds of one config; see `check_seeds`.
    """
    folders = find_seed_folders(path)
    if not folders:
        raise CheckpointError(f"{path}: is not the folder of a comparison or of several seeds.")
    check_seeds(path, folders)
    return folders


def collect_result(
    path: Path,
    variants: Sequence[VariantResult],
    data: Mapping[str, Mapping[str, Any]],
    sweep_key: str,
    *,
    resampled: bool,
    questions: Questions = ONLY_LOSS,
) -> ComparisonResult:
    """Test all pairs of variants with comparable losses, and determine whether the variants share
    their data and units.

    The losses of two variants are comparable if they have the same unit and, in a sweep, if the two
    variants have the same value of the swept config key.

    Args:
        path: the folder of the comparison.
        variants: the results of the variants, in the order of the config.
        data: the `data` section of each variant's config, by variant name.
        sweep_key: the config key that the comparison sweeps over; "" if there is no sweep.
        resampled: whether each seed has its own generated data.
        questions: what is tested.
    """
    groups: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    data_of_group: dict[tuple[float | None, LossUnit], set[str]] = {}
    units = units_of_losses(variants, data)
    for variant in variants:
        group = variant.sweep_value, units[variant.name]
        for measure in questions.measures:
            values = variant.values_of(measure)
            groups.setdefault((measure, *group), {})[variant.name] = values
        data_of_group.setdefault(group, set()).add(_sequences_of(data[variant.name]))
    files = all(section.get("kind") in ("file", "text") for section in data.values())
    data_of_seeds: DataOfSeeds = "files" if files else "new" if resampled else "same"
    if len({seed for variant in variants for seed in variant.folders}) < 2:
        data_of_seeds = "one"
    if sweep_key == DATA_SET:
        # Runs with one data set are no sample of the runs with other data, so no pair is tested.
        data_of_seeds, groups = "crossed", {}
    return ComparisonResult(
        path, path.name, tuple(variants),
        tuple(paired_tests(groups.values(), [measure for measure, *_ in groups], questions)),
        same_data=len(set().union(*data_of_group.values())) == 1,
        same_data_in_pairs=all(len(found) == 1 for found in data_of_group.values()),
        same_units=len(set(units.values())) == 1,
        same_training_units=len({
            (units[variant.name], _is_instance_normalized(data[variant.name]))
            for variant in variants
        }) == 1,
        data_of_seeds=data_of_seeds, sweep_key=sweep_key,
        instance_normalized=any(map(_is_instance_normalized, data.values())),
        questions=questions,
    )  # fmt: skip


def _is_instance_normalized(data: Mapping[str, Any]) -> bool:
    return data.get("normalize") == "instance"


def _sequences_of(data: Mapping[str, Any]) -> str:
    """Return a string that is equal for two data sections if they define the same sequences in the
    same units."""
    return repr({key: value for key, value in data.items() if key != "normalize"})
