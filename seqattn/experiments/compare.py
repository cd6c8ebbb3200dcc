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
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqattn.analysis.comparison.checks import check_variants
from seqattn.analysis.comparison.reading import collect_result, find_seed_folders
from seqattn.analysis.comparison.result import ComparisonResult, VariantResult
from seqattn.analysis.comparison.tables import write_tables
from seqattn.config import as_plain, upgrade_stored
from seqattn.config.comparing import Comparison
from seqattn.errors import CheckpointError, FolderLockedError, Interrupted, UsageError
from seqattn.experiments import Callbacks, Launch, ray_cluster, train_many
from seqattn.plots.comparison_pictures import draw_comparison
from seqattn.runs import COMPARISON, PAGE, RunFolder, read_manifest
from seqattn.runs.storage import exclusive_lock, write_json


def compare(
    comparison: Comparison,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    plots: bool = False,
    callbacks: Callbacks | None = None,
    launch: Launch | None = None,
    ray: ray_cluster.RayCluster | None = None,
) -> ComparisonResult:
    """Train every variant with every seed and say what the losses say. What is finished already
    is not trained again.

    Args:
        output_dir: all goes to `output_dir / comparison.name`.
        plots: draw each run's own pictures too.
        device, threads, callbacks, launch: see `experiments.train_many`.
        ray: trains the groups as tasks of a cluster, with the same results; None: they are trained
            in this process.

    Raises:
        SeqattnError: what a user can mend; a folder that is not this comparison's, or that another
            process writes to, among them.
        Interrupted: SIGINT or SIGTERM.
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
            ray_cluster.train(
                wanted, address=ray.address, device=device, threads=threads, callbacks=callbacks,
                provenance=launch.provenance, before_writing=write_manifest,
            )  # fmt: skip
            device = "cpu"  # nothing is left to train
        try:
            train_many(
                wanted, device=device, threads=threads, resume=True, plots=plots,
                callbacks=callbacks, launch=launch,
            )  # fmt: skip
        except Interrupted as stopped:
            raise Interrupted(
                stopped.exit_code - 128, f"saved to {path}; the same command goes on from there."
            ) from None
        return _shown(path, comparison, callbacks)


def _shown(path: Path, comparison: Comparison, callbacks: Callbacks) -> ComparisonResult:
    """The result of all runs that the folder holds, as tables and pictures in it."""
    outcome = _outcome_of(path, comparison)
    if seeds := _more_than_asked(outcome, comparison):
        callbacks.message(
            f"{path} holds seeds that this command did not ask for, too"
            f" ({', '.join(map(str, seeds))}): tables and pictures are of all that it holds."
        )
    if write_tables(outcome):
        # A page that was asked for before is of other numbers.
        (path / PAGE).unlink(missing_ok=True)
    draw_comparison(outcome)
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
            write_json(path / COMPARISON, _mark(comparison))

        yield begin


def _outcome_of(path: Path, comparison: Comparison) -> ComparisonResult:
    """Of all seeds in the folder, asked for or not: `read_comparison` shows the same.

    Raises:
        CheckpointError: a run that this command did not ask for is not of this comparison.
    """
    runs = {variant.name: find_seed_folders(path / variant.name) for variant in comparison.variants}
    if any(seed not in comparison.seeds for folders in runs.values() for seed in folders):
        check_variants(path / COMPARISON, comparison.as_plain()["variants"], runs,
                       resampled=comparison.resample_data)  # fmt: skip
    arms = [
        VariantResult.read(variant.name, runs[variant.name], variant.series, variant.at)
        for variant in comparison.variants
    ]
    data = {variant.name: as_plain(variant.config.data) for variant in comparison.variants}
    return collect_result(path, arms, data, comparison.along, resampled=comparison.resample_data)


def _more_than_asked(outcome: ComparisonResult, comparison: Comparison) -> list[int]:
    """Seeds in the folder that the command did not ask for."""
    return sorted(
        {seed for arm in outcome.variants for seed in arm.folders} - set(comparison.seeds)
    )


def _mark(comparison: Comparison) -> dict[str, Any]:
    """What makes the folder this comparison's, and how its variants are drawn."""
    arms = {variant.name: [variant.series, variant.at] for variant in comparison.variants}
    along = {"along": {"key": comparison.along, "arms": arms}} if comparison.along else {}
    return {**comparison.as_plain(), **along}


def _refuse_another(path: Path, comparison: Comparison) -> None:
    """A folder that holds anything but this comparison is not touched."""
    try:
        before = read_manifest(path / COMPARISON)
    except CheckpointError as error:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a comparison (no readable"
            f" {COMPARISON}), so nothing in it is touched. Choose another --name. ({error})"
        ) from None
    now = json.loads(json.dumps(comparison.as_plain()))
    if isinstance(before.get("variants"), dict):
        before = {**before, "variants": {
            name: upgrade_stored(config, str(path)) for name, config in before["variants"].items()
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
