"""Functions that check whether folders contain the runs of a comparison, or the seeds of one
config."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.config import (
    PATH_KEYS,
    Config,
    FromFiles,
    Generated,
    as_plain,
    config_differences,
    from_plain,
    read_stored,
)
from seqattn.config.comparing import DATA_SEEDS, PARTS, resample_data_seeds
from seqattn.errors import CheckpointError, ConfigError, counted
from seqattn.runs import RunFolder, check_summary
from seqattn.training import file_digests
from seqattn.training.checkpoints import MUTABLE_ON_RESUME

IGNORED_KEYS = frozenset({"name", "seed", *MUTABLE_ON_RESUME}) - {"training.epochs"}
"""Config keys that may differ between the runs of one config. Apart from `seed` and `plugins`, they
do not affect the trained weights, unless the files at the configured paths differ."""
Runs = Mapping[int, RunFolder]


def check_seeds(path: Path, runs: Runs) -> None:
    """Check that the folders `path / seed-K` contain the seeds of one config.

    Args:
        path: the folder that `seqattn train --seeds` wrote.
        runs: the run folders, by seed.

    Raises:
        CheckpointError: if a config cannot be read, if a folder contains the run of another seed,
            if two runs differ in config keys outside `IGNORED_KEYS` or in their numbers of epochs
            (see `describe_unequal_epochs`), or if two runs have different data files. Data seeds
            may differ only if each run has its own; see `is_resampled`.
    """
    configs = {seed: read_run_config(folder) for seed, folder in runs.items()}
    (first, config), *_ = configs.items()
    resampled = is_resampled(list(configs.values()))
    harmless = {*IGNORED_KEYS, "training.epochs", *(DATA_SEEDS if resampled else ())}
    for seed, folder in runs.items():
        found = _describe_differences(config, configs[seed], harmless)
        if found:
            raise CheckpointError(
                f"{path}: the config of {folder.path.name} differs from that of"
                f" {runs[first].path.name} ({found}), so they are not seeds of one config. Train"
                " them again, or move the other runs away."
            )
        _check_seed(folder, configs[seed], seed)
    if unequal := describe_unequal_epochs(runs, configs):
        raise CheckpointError(
            f"{path}: the seeds are trained for unequal numbers of epochs ({unequal}), so their"
            " results cannot be combined. Train the others further (train --seeds N --resume), or"
            " move them away."
        )
    check_files([(folder, configs[seed]) for seed, folder in runs.items()], are_seeds=True)


def describe_unequal_epochs(runs: Runs, configs: Mapping[int, Config]) -> str:
    """Describe which seeds have which `training.epochs`, as in "23, 24: 8 epochs; 25: 4 epochs".
    The result is "" if all numbers are equal.

    Runs that stopped early or diverged during the training are left out, because more epochs would
    not change them, unless a schedule spans all epochs.

    Args:
        runs, configs: the run folders and their configs, by seed.

    Raises:
        CheckpointError: if a summary cannot be read.
    """
    seeds_by_epochs = dict[int, list[str]]()
    for seed, folder in runs.items():
        training = configs[seed].training
        summary = folder.read_summary() if folder.summary.exists() else {}
        has_ended = summary.get("stopped_early") or summary.get("diverged_at")
        if not has_ended or training.keys_spanning_all_epochs():
            seeds_by_epochs.setdefault(training.epochs, []).append(str(seed))
    if len(seeds_by_epochs) < 2:
        return ""
    return "; ".join(
        f"{', '.join(seeds)}: {counted(epochs, 'epoch')}"
        for epochs, seeds in seeds_by_epochs.items()
    )


def is_resampled(configs: Sequence[Config]) -> bool:
    """Return whether every run has its own data seeds, as in a comparison that generates new data
    for each seed.

    The data seeds are the seeds of the training, validation and test data. The result is False if
    there is only one run, or if all runs have the same value of one of the three data seeds.
    """
    seeds = [
        tuple(getattr(config.data, f"{part}_seed") for part in PARTS)
        for config in configs
        if isinstance(config.data, Generated)
    ]
    differ = all(len(set(of_part)) > 1 for of_part in zip(*seeds, strict=True))
    return len(set(seeds)) == len(seeds) > 1 and differ


def check_variants(
    manifest: Path, variants: Mapping[str, Any], runs: Mapping[str, Runs], *, resampled: bool
) -> None:
    """Check that the folders `VARIANT/seed-K` of a comparison contain the runs of the variants and
    seeds in their names.

    Args:
        manifest: the path of the comparison's `comparison.json`.
        variants: the configs in the manifest as nested dictionaries, by variant name.
        runs: the run folders, by variant name and seed.
        resampled: whether each seed has its own generated data.

    Raises:
        CheckpointError: if a run belongs to another variant or seed, if the config of a variant
            is invalid, or if runs with the same `data` section were trained on different files.
    """
    checked = list[tuple[RunFolder, Config]]()
    for name, plain in variants.items():
        try:
            variant_config = from_plain({**plain, "name": "x"}, f"variants.{name}")
        except ConfigError as error:
            raise CheckpointError(f"{manifest}: {error}") from None
        for seed, folder in runs[name].items():
            config = read_run_config(folder)
            expected = variant_config.model_copy(update={"seed": seed})
            expected = resample_data_seeds(expected) if resampled else expected
            found = _describe_differences(expected, config, IGNORED_KEYS)
            if found:
                raise CheckpointError(
                    f"{folder.path}: is not a run of the variant {name}, whose config is in"
                    f" {manifest} ({found}). Restore the run that belongs in this folder, or move"
                    " the folder away, and compare again."
                )
            _check_seed(folder, config, seed)
            checked.append((folder, config))
        check_files(checked[-len(runs[name]) :] if runs[name] else [], are_seeds=True)
    check_files(checked)


def check_files(runs: Iterable[tuple[RunFolder, Config]], *, are_seeds: bool = False) -> None:
    """Check that two runs with the same `data` section were trained on the same files.

    Args:
        runs: the run folders with their configs.
        are_seeds: whether the runs are seeds of one config. The files of such runs must be the same
            even if their paths differ, because files may be moved between two runs.

    Raises:
        CheckpointError: if the SHA-256 digest of a file differs between two such runs.
    """
    seen = dict[str, tuple[RunFolder, str, tuple[str, ...]]]()
    for folder, config in runs:
        if not isinstance(config.data, FromFiles) or not folder.best.exists():
            continue
        digests, path = file_digests(folder.best), config.data.path
        section = {key: value for key, value in as_plain(config.data).items()
                   if not are_seeds or f"data.{key}" not in PATH_KEYS}  # fmt: skip
        first, its_path, before = seen.setdefault(repr(section), (folder, path, digests))
        if digests != before:
            cause = (
                f"data.path of both is {path}: the files changed in between"
                if path == its_path
                else "both are seeds of one config"
            )
            raise CheckpointError(
                f"{folder.path}: was trained on other files than {first.path}, though {cause}."
                " The losses of the two runs cannot be compared; train one of the runs again"
                " (--overwrite)."
            )


def read_run_config(folder: RunFolder) -> Config:
    """Read the config of a run.

    Raises:
        CheckpointError: if the config cannot be read.
    """
    try:
        return read_stored(folder.config)
    except ConfigError as error:
        raise CheckpointError(f"{folder.path}: its config cannot be read. {error}") from None


def _check_seed(folder: RunFolder, config: Config, seed: int) -> None:
    if config.seed != seed:
        raise CheckpointError(
            f"{folder.path}: contains the run of seed {config.seed} (config.yaml), but its name"
            f" belongs to seed {seed}. Rename the folder, or restore the run of seed {seed}."
        )
    if folder.summary.exists():
        check_summary(folder, as_plain(config.model), seed)


def _describe_differences(one: Config, other: Config, ignored: Collection[str]) -> str:
    found = config_differences(one, other).items()
    return "; ".join(f"{key}: {old} -> {new}" for key, (old, new) in found if key not in ignored)
