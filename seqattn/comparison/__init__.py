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
from pathlib import Path
from typing import Any, Literal

from seqattn import cluster
from seqattn.comparison.drawing import draw_all
from seqattn.comparison.outcome import Arm, DataOfSeeds, Outcome
from seqattn.comparison.statistics import differences
from seqattn.comparison.tables import sentences, write_tables
from seqattn.config import Config, Generated, as_plain, resolve
from seqattn.config import differences as differences_of
from seqattn.config.comparing import PARTS, Comparison
from seqattn.errors import BusyError, CheckpointError, ConfigError, Stopped, UsageError
from seqattn.experiment import Watchers, run_all
from seqattn.runs import COMPARISON, RunFolder
from seqattn.storage import only_writer, read_whole, write_json

MARK = COMPARISON


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
        SeqattnError: what a user can mend; a folder that is not this comparison's, or that another
            process writes to, among them.
        Stopped: told to.
    """
    path = output_dir / comparison.name
    wanted = [
        (
            comparison.config_of(variant, seed),
            RunFolder(path / variant.name / f"seed-{seed}"),
        )
        for variant in comparison.variants
        for seed in comparison.seeds
    ]
    with _held(path, comparison) as say_what_it_is:
        if engine == "ray":
            cluster.train(
                wanted, address=ray_address, device=device, threads=threads, watchers=watchers,
                provenance=provenance, before_writing=say_what_it_is,
            )  # fmt: skip
            device = "cpu"  # nothing is left to train
        try:
            run_all(
                wanted, device=device, threads=threads, resume=True, plots=plots,
                config_path=config_path, watchers=watchers,
                before_writing=say_what_it_is, provenance=provenance,
            )  # fmt: skip
        except Stopped as stopped:
            raise Stopped(
                stopped.exit_code - 128, f"saved to {path}; the same command goes on from there."
            ) from None
        outcome = _outcome_of(path, comparison)
        write_tables(outcome)
        draw_all(outcome)
    return outcome


@contextlib.contextmanager
def _held(path: Path, comparison: Comparison) -> Iterator[Callable[[], None]]:
    """Hold a comparison's folder: at once where it is there, else from the moment that something
    is written. Yields what to call then, which makes it this comparison's.

    Raises:
        UsageError: the folder is not this comparison's.
        BusyError: another process writes there.
    """
    with contextlib.ExitStack() as held:
        is_there = not RunFolder(path).is_free
        if is_there:
            _refuse_another(path, comparison)
            held.enter_context(only_writer(path))

        def begin() -> None:
            nonlocal is_there
            if not is_there:
                path.mkdir(parents=True, exist_ok=True)
                held.enter_context(only_writer(path))
                if not RunFolder(path).is_free:
                    raise BusyError(f"{path}: another process has begun to write there just now.")
                is_there = True
            write_json(path / MARK, _mark(comparison))

        yield begin


def _outcome_of(path: Path, comparison: Comparison) -> Outcome:
    arms = [
        Arm.read(
            variant.name,
            {seed: RunFolder(path / variant.name / f"seed-{seed}") for seed in comparison.seeds},
            variant.series, variant.at,
        )
        for variant in comparison.variants
    ]  # fmt: skip
    data = {variant.name: as_plain(variant.config.data) for variant in comparison.variants}
    return _outcome(path, arms, data, comparison.along, resampled=comparison.resample_data)


def _outcome(
    path: Path,
    arms: Sequence[Arm],
    data: Mapping[str, Mapping[str, Any]],
    along: str,
    *,
    resampled: bool,
) -> Outcome:
    """
    Args:
        data: of each variant, the section of its config.
    """
    groups: dict[float | None, dict[str, dict[int, float]]] = {}
    data_of_group: dict[float | None, set[str]] = {}
    for arm in arms:
        groups.setdefault(arm.at, {})[arm.name] = arm.losses
        data_of_group.setdefault(arm.at, set()).add(repr(data[arm.name]))
    files = all(section.get("kind") in ("file", "stream") for section in data.values())
    of_seeds: DataOfSeeds = "files" if files else "new" if resampled else "same"
    return Outcome(
        path, path.name, tuple(arms), tuple(differences(groups.values())),
        same_data=len(set().union(*data_of_group.values())) == 1,
        same_data_in_pairs=all(len(found) == 1 for found in data_of_group.values()),
        data_of_seeds=of_seeds, along=along,
    )  # fmt: skip


def is_comparison(path: Path) -> bool:
    """Whether a folder is one of a comparison, or of many seeds."""
    return (path / MARK).is_file() or bool(seed_folders(path))


def seed_folders(path: Path) -> dict[int, RunFolder]:
    """Seed -> run folder, of the runs `path / seed-K`."""
    found = {}
    for folder in path.glob("seed-*"):
        number = folder.name.removeprefix("seed-")
        if number.isascii() and number.isdigit() and RunFolder(folder).is_run:
            found[int(number)] = RunFolder(folder)
    return dict(sorted(found.items()))


def read_outcome(path: Path) -> Outcome:
    """A comparison, or the seeds of one config, read back from its folder, finished or not.

    Raises:
        CheckpointError: it is none, or cannot be read.
    """
    if not (path / MARK).is_file():
        folders = seed_folders(path)
        if not folders:
            raise CheckpointError(f"{path}: is no folder of a comparison or of many seeds.")
        return of_seeds(path, path.name, folders)
    try:
        mark = json.loads(read_whole(path / MARK))
        variants = dict(mark["variants"])
        data = {str(name): dict(variant["data"]) for name, variant in variants.items()}
        along = dict(mark.get("along", {}))
        places = dict(along.get("arms", {}))
        arms = [
            Arm.read(name, seed_folders(path / Path(name).name), *places.get(name, ("", None)))
            for name in data
        ]
        resampled = bool(mark.get("resample_data", False))
        return _outcome(path, arms, data, str(along.get("key", "")), resampled=resampled)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path / MARK}: cannot be read ({error!r}).") from None


def of_seeds(path: Path, name: str, folders: Mapping[int, RunFolder]) -> Outcome:
    """The seeds of one config, in the folder `path`, or those of one variant of a comparison.

    Raises:
        CheckpointError: they are of several configs, or a summary cannot be read.
    """
    configs = dict[int, Config]()
    for seed, folder in folders.items():
        try:
            configs[seed] = resolve(folder.config).config
        except ConfigError:
            continue  # a run whose config cannot be read says so itself
    resampled = _have_data_of_their_own(list(configs.values()))
    _refuse_other_configs(path, {folders[seed]: config for seed, config in configs.items()},
                          MAY_DIFFER | DATA_SEEDS if resampled else MAY_DIFFER)  # fmt: skip
    section = as_plain(next(iter(configs.values())).data) if configs else {}
    return _outcome(path, [Arm.read(name, folders)], {name: section}, "", resampled=resampled)


MAY_DIFFER = frozenset({"name", "seed"})
DATA_SEEDS = frozenset(f"data.{part}_seed" for part in PARTS)


def _have_data_of_their_own(configs: Sequence[Config]) -> bool:
    """Whether no two runs have the same data seeds, as in a comparison that resamples."""
    seeds = [
        tuple(getattr(config.data, f"{part}_seed") for part in PARTS)
        for config in configs
        if isinstance(config.data, Generated)
    ]
    return len(set(seeds)) == len(seeds) > 1


def _refuse_other_configs(
    path: Path, configs: Mapping[RunFolder, Config], harmless: frozenset[str]
) -> None:
    """Fewer seeds of another config, trained over the first, leave the others as they were.

    Args:
        harmless: keys that may differ.

    Raises:
        CheckpointError: the seeds are not of one config.
    """
    if not configs:
        return
    (first, config), *others = configs.items()
    for folder, other in others:
        changed = differences_of(config, other).items()
        found = [f"{key}: {old} -> {new}" for key, (old, new) in changed if key not in harmless]
        if found:
            raise CheckpointError(
                f"{path}: {folder.path.name} is of another config than {first.path.name}"
                f" ({'; '.join(found)}), so they are not seeds of one. Train them anew, or move"
                " those away that do not belong."
            )


def _mark(comparison: Comparison) -> dict[str, Any]:
    """What makes the folder this comparison's, and how its variants are drawn."""
    arms = {variant.name: [variant.series, variant.at] for variant in comparison.variants}
    along = {"along": {"key": comparison.along, "arms": arms}} if comparison.along else {}
    return {**comparison.as_plain(), **along}


def _refuse_another(path: Path, comparison: Comparison) -> None:
    """A folder that holds anything but this comparison is not touched."""
    try:
        before = json.loads((path / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            f"{path}: is there already, and is not the folder of a comparison (no readable"
            f" {MARK}), so nothing in it is touched. Choose another --name."
        ) from None
    now = json.loads(json.dumps(comparison.as_plain()))
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
    "Arm",
    "Outcome",
    "compare",
    "is_comparison",
    "of_seeds",
    "read_outcome",
    "seed_folders",
    "sentences",
]
