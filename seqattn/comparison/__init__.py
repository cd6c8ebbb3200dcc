"""Many variants and seeds become one table with its spread.

outputs/NAME/
  comparison.json     what is compared: it makes the folder this comparison's and no other's
  VARIANT/seed-K/     an ordinary run folder for each variant and seed
  variants.csv        a row a variant: median and its interval, mean, best and worst seed, ...
  pairs.csv           a row a pair: difference, interval, test, effect size
  seeds.csv           a row a run
  comparison.md       the tables and what they say, in words
  comparison.png, curves.png, attention.png, along.png
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqattn import cluster
from seqattn.comparison.checks import check_seeds, check_variants, have_data_of_their_own
from seqattn.comparison.plots import draw_all
from seqattn.comparison.result import ComparisonResult, DataOfSeeds, Variant
from seqattn.comparison.statistics import differences
from seqattn.comparison.tables import sentences, write_tables
from seqattn.config import as_plain, as_stored_now, read_stored
from seqattn.config.comparing import Comparison
from seqattn.errors import CheckpointError, FolderLockedError, Stopped, UsageError
from seqattn.experiment import Callbacks, Launch, train_many
from seqattn.runs import COMPARISON, PAGE, RunFolder, read_manifest
from seqattn.storage import exclusive_lock, write_json

MARK = COMPARISON


def compare(
    comparison: Comparison,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    plots: bool = False,
    callbacks: Callbacks | None = None,
    launch: Launch | None = None,
    ray: cluster.RayCluster | None = None,
) -> ComparisonResult:
    """Train every variant with every seed and say what the losses say. What is finished already
    is not trained again.

    Args:
        output_dir: all goes to `output_dir / comparison.name`.
        plots: draw each run's own pictures too.
        device, threads, callbacks, launch: see `experiment.train_many`.
        ray: trains the groups as tasks of a cluster, with the same results; None: they are trained
            in this process.

    Raises:
        SeqattnError: what a user can mend; a folder that is not this comparison's, or that another
            process writes to, among them.
        Stopped: told to.
    """
    path, callbacks = output_dir / comparison.name, callbacks or Callbacks()
    wanted = [
        (comparison.config_of(variant, seed), RunFolder(path / variant.name / f"seed-{seed}"))
        for variant in comparison.variants
        for seed in comparison.seeds
    ]
    with _held(path, comparison) as write_manifest:
        launch = replace(launch or Launch(), before_writing=write_manifest)
        if ray is not None:
            cluster.train(
                wanted, address=ray.address, device=device, threads=threads, callbacks=callbacks,
                provenance=launch.provenance, before_writing=write_manifest,
            )  # fmt: skip
            device = "cpu"  # nothing is left to train
        try:
            train_many(
                wanted, device=device, threads=threads, resume=True, plots=plots,
                callbacks=callbacks, launch=launch,
            )  # fmt: skip
        except Stopped as stopped:
            raise Stopped(
                stopped.exit_code - 128, f"saved to {path}; the same command goes on from there."
            ) from None
        return _shown(path, comparison, callbacks)


def _shown(path: Path, comparison: Comparison, callbacks: Callbacks) -> ComparisonResult:
    """The result of all runs that the folder holds, as tables and pictures in it."""
    outcome = _outcome_of(path, comparison)
    if seeds := _more_than_asked(outcome, comparison):
        callbacks.say(
            f"{path} holds seeds that this command did not ask for, too"
            f" ({', '.join(map(str, seeds))}): tables and pictures are of all that it holds."
        )
    if write_tables(outcome):
        # A page that was asked for before is of other numbers.
        (path / PAGE).unlink(missing_ok=True)
    draw_all(outcome)
    return outcome


@contextlib.contextmanager
def _held(path: Path, comparison: Comparison) -> Iterator[Callable[[], None]]:
    """Hold a comparison's folder: at once where it is there, else from the moment that something
    is written. Yields what to call then, which makes it this comparison's.

    Raises:
        UsageError: the folder is not this comparison's.
        FolderLockedError: another process writes there.
    """
    with contextlib.ExitStack() as held:
        is_there = not RunFolder(path).is_available
        if is_there:
            _refuse_another(path, comparison)
            held.enter_context(exclusive_lock(path))

        def begin() -> None:
            nonlocal is_there
            if not is_there:
                path.mkdir(parents=True, exist_ok=True)
                held.enter_context(exclusive_lock(path))
                if not RunFolder(path).is_available:
                    raise FolderLockedError(
                        f"{path}: another process has begun to write there just now."
                    )
                is_there = True
            write_json(path / MARK, _mark(comparison))

        yield begin


def _outcome_of(path: Path, comparison: Comparison) -> ComparisonResult:
    """Of all seeds in the folder, asked for or not: `read_outcome` shows the same.

    Raises:
        CheckpointError: a run that this command did not ask for is not of this comparison.
    """
    runs = {variant.name: seed_folders(path / variant.name) for variant in comparison.variants}
    if any(seed not in comparison.seeds for folders in runs.values() for seed in folders):
        check_variants(path / MARK, comparison.as_plain()["variants"], runs,
                       resampled=comparison.resample_data)  # fmt: skip
    arms = [
        Variant.read(variant.name, runs[variant.name], variant.series, variant.at)
        for variant in comparison.variants
    ]
    data = {variant.name: as_plain(variant.config.data) for variant in comparison.variants}
    return _outcome(path, arms, data, comparison.along, resampled=comparison.resample_data)


def _more_than_asked(outcome: ComparisonResult, comparison: Comparison) -> list[int]:
    """Seeds in the folder that the command did not ask for."""
    return sorted({seed for arm in outcome.arms for seed in arm.folders} - set(comparison.seeds))


def _outcome(
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
        elif not folder.is_available:
            raise CheckpointError(
                f"{folder.path}: is not the folder of a run ({folder.lacks}), so its seed would be"
                " left out. Put the file back, or move the folder away."
            )
    return dict(sorted(found.items()))


def read_outcome(path: Path) -> ComparisonResult:
    """A comparison, or the seeds of one config, read back from its folder, finished or not.

    Raises:
        CheckpointError: it is none, or cannot be read.
    """
    if not (path / MARK).is_file():
        return of_seeds(path, path.name, checked_seeds(path))
    mark = read_manifest(path / MARK)
    variants, along = mark["variants"], mark.get("along") or {}
    resampled = bool(mark.get("resample_data", False))
    runs = {name: seed_folders(path / name) for name in variants}
    check_variants(path / MARK, variants, runs, resampled=resampled)
    places = along.get("arms", {})
    arms = [Variant.read(name, folders, *places.get(name, ("", None)))
            for name, folders in runs.items()]  # fmt: skip
    data = {name: variant["data"] for name, variant in variants.items()}
    return _outcome(path, arms, data, str(along.get("key", "")), resampled=resampled)


def of_seeds(path: Path, name: str, folders: Mapping[int, RunFolder]) -> ComparisonResult:
    """The seeds of one config, in the folder `path`, or those of one variant of a comparison.

    Raises:
        CheckpointError: they are of several configs, or a summary cannot be read.
    """
    configs = [read_stored(folder.config) for folder in folders.values()]
    resampled = have_data_of_their_own(configs)
    section = as_plain(configs[0].data)
    return _outcome(path, [Variant.read(name, folders)], {name: section}, "", resampled=resampled)


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


def _mark(comparison: Comparison) -> dict[str, Any]:
    """What makes the folder this comparison's, and how its variants are drawn."""
    arms = {variant.name: [variant.series, variant.at] for variant in comparison.variants}
    along = {"along": {"key": comparison.along, "arms": arms}} if comparison.along else {}
    return {**comparison.as_plain(), **along}


def _refuse_another(path: Path, comparison: Comparison) -> None:
    """A folder that holds anything but this comparison is not touched."""
    try:
        before = read_manifest(path / MARK)
    except CheckpointError as error:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a comparison (no readable"
            f" {MARK}), so nothing in it is touched. Choose another --name. ({error})"
        ) from None
    now = json.loads(json.dumps(comparison.as_plain()))
    if isinstance(before.get("variants"), dict):
        before = {**before, "variants": {
            name: as_stored_now(config, str(path)) for name, config in before["variants"].items()
        }}  # fmt: skip
    resampled = bool(before.get("resample_data", False))  # folders of earlier versions have no key
    if before.get("variants") == now["variants"]:
        if resampled == comparison.resample_data:
            return
        has, asked, option = (
            ("data of its own", "the same data", "--resample-data") if resampled
            else ("the same data", "data of its own", "--fixed-data")
        )  # fmt: skip
        raise UsageError(
            f"{path}: holds a comparison in which every seed has {has}; asked is one in which every"
            f" seed has {asked}. Nothing in it is touched. Go on with it by {option}, or choose"
            " another --name."
        )
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
    "ComparisonResult",
    "Variant",
    "checked_seeds",
    "compare",
    "is_comparison",
    "of_seeds",
    "read_outcome",
    "seed_folders",
    "sentences",
]
