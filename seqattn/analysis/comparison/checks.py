"""Whether the runs in a folder are the ones that it says it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqattn.config import (
    Config,
    Generated,
    OwnFile,
    as_plain,
    config_differences,
    from_plain,
    read_stored,
)
from seqattn.config.comparing import DATA_SEEDS, PARTS, resample_data_seeds
from seqattn.errors import CheckpointError, ConfigError
from seqattn.runs import RunFolder, check_summary
from seqattn.training import PATHS, file_digests
from seqattn.training.compatibility import MUTABLE_ON_RESUME

MAY_DIFFER = frozenset({"name", "seed", *MUTABLE_ON_RESUME}) - {"training.epochs"}
"""Keys that the seeds of one config need not share: those that change nothing that is learned."""
Runs = Mapping[int, RunFolder]


def check_seeds(path: Path, runs: Runs) -> None:
    """The folders `path / seed-K` of `train --seeds`.

    Raises:
        CheckpointError: one holds another seed's run, or they differ in config or files.
    """
    configs = {seed: _config(folder) for seed, folder in runs.items()}
    (first, config), *_ = configs.items()
    resampled = have_data_of_their_own(list(configs.values()))
    harmless = MAY_DIFFER | DATA_SEEDS if resampled else MAY_DIFFER
    for seed, folder in runs.items():
        found = _differences(config, configs[seed], harmless)
        if found:
            raise CheckpointError(
                f"{path}: {folder.path.name} is of another config than {runs[first].path.name}"
                f" ({found}), so they are not seeds of one. Train them anew, or move those away"
                " that do not belong."
            )
        _check_run(folder, configs[seed], seed)
    check_files([(folder, configs[seed]) for seed, folder in runs.items()])


def have_data_of_their_own(configs: Sequence[Config]) -> bool:
    """Whether no two runs have the same data seeds, as in a comparison that resamples. False for
    one run, of which it cannot be told.

    Each part must have seeds of its own: where runs share their test sequences, their results are
    about these.
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
    """The folders `VARIANT/seed-K` of a comparison.

    Args:
        manifest: its comparison.json.
        variants: name -> plain config, as it says.
        resampled: whether each seed has generated data of its own.

    Raises:
        CheckpointError: a run is not of its variant or seed, a variant's config is not valid, or
            runs on the same data section were trained on different files.
    """
    checked = list[tuple[RunFolder, Config]]()
    for name, plain in variants.items():
        try:
            wanted = from_plain({**plain, "name": "x"}, f"variants.{name}")
        except ConfigError as error:
            raise CheckpointError(f"{manifest}: {error}") from None
        for seed, folder in runs[name].items():
            config = _config(folder)
            of_seed = wanted.model_copy(update={"seed": seed})
            of_seed = resample_data_seeds(of_seed) if resampled else of_seed
            found = _differences(of_seed, config, MAY_DIFFER)
            if found:
                raise CheckpointError(
                    f"{folder.path}: is not a run of the variant {name}, whose config is in"
                    f" {manifest} ({found}). Put back the run that belongs there, or move it away"
                    " and compare again."
                )
            _check_run(folder, config, seed)
            checked.append((folder, config))
    check_files(checked)


def check_files(runs: Iterable[tuple[RunFolder, Config]]) -> None:
    """Runs with the same data section have read the same files.

    Raises:
        CheckpointError: the SHA-256 of a file differs.
    """
    seen = dict[str, tuple[RunFolder, tuple[str, ...]]]()
    for folder, config in runs:
        if not isinstance(config.data, OwnFile) or not folder.best.exists():
            continue
        digests = file_digests(folder.best)
        section = {key: value for key, value in as_plain(config.data).items()
                   if f"data.{key}" not in PATHS}  # fmt: skip
        first, before = seen.setdefault(repr(section), (folder, digests))
        if digests != before:
            raise CheckpointError(
                f"{folder.path}: was trained on other files than {first.path}, though"
                f" data.path of both is {config.data.path}: what is there has changed in between."
                " Their losses cannot be compared; train one of them anew (--overwrite)."
            )


def _config(folder: RunFolder) -> Config:
    try:
        return read_stored(folder.config)
    except ConfigError as error:
        raise CheckpointError(f"{folder.path}: its config cannot be read back. {error}") from None


def _check_run(folder: RunFolder, config: Config, seed: int) -> None:
    if config.seed != seed:
        raise CheckpointError(
            f"{folder.path}: holds the run of seed {config.seed} (config.yaml), not of seed {seed}"
            " as its name says. Rename it, or put back the run that belongs there."
        )
    if folder.summary.exists():
        check_summary(folder, as_plain(config.model), seed)


def _differences(one: Config, other: Config, ignored: frozenset[str]) -> str:
    found = config_differences(one, other).items()
    return "; ".join(f"{key}: {old} -> {new}" for key, (old, new) in found if key not in ignored)
