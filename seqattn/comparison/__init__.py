"""Many variants and seeds become one table with its spread.

outputs/NAME/
  comparison.json     what is compared: it makes the folder this comparison's and no other's
  VARIANT/seed-K/     an ordinary run folder for each variant and seed
  variants.csv        a row a variant: median, mean, intervals, best and worst seed, ...
  pairs.csv           a row a pair: difference, interval, test, effect size
  seeds.csv           a row a run
  comparison.md       the tables and what they say, in words
  comparison.png, curves.png, attention.png, along.png
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from seqattn import cluster
from seqattn.comparison.checks import check_seeds, check_variants
from seqattn.comparison.drawing import draw_all
from seqattn.comparison.outcome import Arm, Outcome
from seqattn.comparison.statistics import Spread, differences
from seqattn.comparison.tables import sentences, write_tables
from seqattn.config.comparing import Comparison
from seqattn.errors import CheckpointError, Stopped, UsageError
from seqattn.experiment import Job, Watchers, run_all
from seqattn.run_files import read_manifest
from seqattn.runs import RunFolder
from seqattn.storage import write_json

MARK = "comparison.json"


def compare(
    comparison: Comparison,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    plots: bool = False,
    config_path: Path | None = None,
    watchers: Watchers | None = None,
    provenance: Mapping[str, Any] | None = None,
    engine: Literal["process", "ray"] = "process",
    ray_address: str | None = None,
) -> Outcome:
    """Train every variant with every seed and say what the losses say. What is finished already
    is not trained again.

    Args:
        output_dir: all goes to `output_dir / comparison.name`.
        plots: draw each run's own pictures too.
        device, threads, config_path, watchers, provenance: see `experiment.run_all`.
        engine: "ray" trains the groups as tasks of a cluster, with the same results.
        ray_address: of a cluster; None starts one here.

    Raises:
        SeqattnError: what a user can mend; a folder that is not this comparison's among them.
        Stopped: told to.
    """
    path = output_dir / comparison.name
    _refuse_another(path, comparison)
    wanted = [
        (
            variant.config.model_copy(update={"seed": seed}),
            RunFolder(path / variant.name / f"seed-{seed}"),
        )
        for variant in comparison.variants
        for seed in comparison.seeds
    ]
    diverged: dict[Path, str] = {}

    def say_what_it_is() -> None:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / MARK, _mark(comparison))

    if engine == "ray":
        diverged = cluster.train(
            wanted, address=ray_address, device=device, threads=threads, watchers=watchers,
            provenance=provenance, before_writing=say_what_it_is,
        )  # fmt: skip
        device = "cpu"  # nothing is left to train
    try:
        jobs = run_all(
            wanted, device=device, threads=threads, resume=True, plots=plots,
            config_path=config_path, watchers=watchers,
            before_writing=say_what_it_is, provenance=provenance,
            given_up=diverged,
        )  # fmt: skip
    except Stopped as stopped:
        raise Stopped(
            stopped.exit_code - 128, f"saved to {path}; the same command goes on from there."
        ) from None
    count = len(comparison.seeds)
    arms = tuple(
        arm_of(variant.name, jobs[place * count : (place + 1) * count], variant.series, variant.at)
        for place, variant in enumerate(comparison.variants)
    )
    same = len({repr(variant.config.data) for variant in comparison.variants}) == 1
    outcome = _outcome(path, arms, comparison.along, same)
    write_tables(outcome)
    draw_all(outcome)
    return outcome


def _outcome(path: Path, arms: Sequence[Arm], along: str, same_data: bool) -> Outcome:
    groups: dict[float | None, dict[str, dict[int, float]]] = {}
    for arm in arms:
        groups.setdefault(arm.at, {})[arm.name] = arm.losses
    pairs = differences(groups.values())
    return Outcome(path, path.name, tuple(arms), tuple(pairs), same_data, along)


def is_comparison(path: Path) -> bool:
    """Whether a folder is one of a comparison, or of many seeds."""
    return (path / MARK).is_file() or bool(seed_folders(path))


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
        elif not folder.is_free:
            raise CheckpointError(
                f"{folder.path}: is not the folder of a run ({folder.lacks}), so its seed would be"
                " left out. Put the file back, or move the folder away."
            )
    return dict(sorted(found.items()))


def read_outcome(path: Path) -> Outcome:
    """A comparison, or the seeds of one config, read back from its folder, finished or not.

    Raises:
        CheckpointError: it is none, or cannot be read.
    """
    if not (path / MARK).is_file():
        folders = checked_seeds(path)
        return _outcome(path, [_read_arm(path.name, folders)], "", same_data=True)
    mark = read_manifest(path / MARK)
    variants, along = mark["variants"], mark.get("along") or {}
    runs = {name: seed_folders(path / name) for name in variants}
    check_variants(path / MARK, variants, runs)
    arms = [_read_arm(name, folders, along) for name, folders in runs.items()]
    same = len({repr(variant.get("data")) for variant in variants.values()}) == 1
    return _outcome(path, arms, str(along.get("key", "")), same)


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


def _read_arm(
    name: str, folders: Mapping[int, RunFolder], along: Mapping[str, Any] | None = None
) -> Arm:
    summaries = dict[int, Mapping[str, Any]]()
    for seed, folder in folders.items():
        if folder.summary.exists() and not (summary := folder.read_summary()).get("diverged"):
            summaries[seed] = summary
    losses = {seed: float(summary["test_loss"]) for seed, summary in summaries.items()}
    series, at = (along or {}).get("arms", {}).get(name, ("", None))
    return Arm(name, folders, summaries, Spread.of(losses) if losses else None, series, at)


def _mark(comparison: Comparison) -> dict[str, Any]:
    """What makes the folder this comparison's, and how its variants are drawn."""
    arms = {variant.name: [variant.series, variant.at] for variant in comparison.variants}
    along = {"along": {"key": comparison.along, "arms": arms}} if comparison.along else {}
    return {**comparison.as_plain(), **along}


def arm_of(name: str, jobs: Sequence[Job], series: str = "", at: float | None = None) -> Arm:
    """The seeds of one variant."""
    summaries = {job.config.seed: job.summary for job in jobs if job.summary is not None}
    losses = {seed: summary["test_loss"] for seed, summary in summaries.items()}
    folders = {job.config.seed: job.folder for job in jobs}
    return Arm(name, folders, summaries, Spread.of(losses) if losses else None, series, at)


def _refuse_another(path: Path, comparison: Comparison) -> None:
    """A folder that holds anything but this comparison is not touched."""
    if RunFolder(path).is_free:
        return
    try:
        before = read_manifest(path / MARK)
    except CheckpointError as error:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a comparison (no readable"
            f" {MARK}), so nothing in it is touched. Choose another --name. ({error})"
        ) from None
    now = json.loads(json.dumps(comparison.as_plain()))
    if before.get("variants") == now["variants"]:
        return
    old, new = (set(found.get("variants", {})) for found in (before, now))
    if old != new:
        said = f"its variants are {', '.join(sorted(old))}; asked are {', '.join(sorted(new))}"
    else:
        changed = [
            name for name in sorted(new) if before["variants"][name] != now["variants"][name]
        ]
        said = f"its {', '.join(changed)} had another config"
    raise UsageError(
        f"{path}: holds another comparison: {said}. Nothing in it is touched. Choose another"
        " --name."
    )


__all__ = [
    "Arm",
    "Outcome",
    "arm_of",
    "checked_seeds",
    "compare",
    "is_comparison",
    "read_outcome",
    "seed_folders",
    "sentences",
]
