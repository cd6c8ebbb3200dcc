"""Comparison of the variants of a config over several seeds.

A comparison folder outputs/NAME/ has these files and folders:

  comparison.json     the manifest, which contains the configs of the variants
  VARIANT/seed-K/     the run folder of each variant and seed
  variants.csv        one row for each variant: median with interval, mean, best and worst seed, ...
  pairs.csv           one row for each pair of variants: difference, interval, test, effect size
  seeds.csv           one row for each run
  comparison.md       the tables and the conclusions
  comparison.png, curves.png, attention.png, along.png     pictures of the results
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from seqattn.analysis.comparison.reading import read_comparison
from seqattn.analysis.comparison.result import ComparisonResult
from seqattn.analysis.comparison.tables import write_tables
from seqattn.config.comparing import ComparisonPlan
from seqattn.errors import CheckpointError, FolderLockedError, Interrupted, UsageError
from seqattn.experiments import Callbacks, Launch, ray_cluster, train_many
from seqattn.experiments.run_environment import find_git_revision
from seqattn.runs import COMPARISON as MANIFEST_NAME
from seqattn.runs import PAGE, RunFolder, read_manifest
from seqattn.runs.storage import exclusive_lock, write_json


def run_comparison(
    comparison: ComparisonPlan,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    plots: bool = False,
    callbacks: Callbacks | None = None,
    launch: Launch | None = None,
    ray: ray_cluster.RayCluster | None = None,
) -> ComparisonResult:
    """Train each variant with each seed, and write tables and pictures of the results.

    Finished runs are not trained again.

    Args:
        device, threads, callbacks, launch: see `train_many`.

    Returns:
        the result of all seeds in the folder, including those of earlier calls.

    Raises:
        Interrupted: on SIGINT or SIGTERM.
    """
    callbacks, launch = callbacks or Callbacks(), launch or Launch()
    path = output_dir / comparison.name
    from seqattn.plots import comparison_pictures  # its error is reported before the training

    configs = [
        (comparison.config_of(variant, seed), RunFolder(path / variant.name / f"seed-{seed}"))
        for variant in comparison.variants
        for seed in comparison.seeds
    ]
    with _folder_lock(path, comparison) as write_manifest:
        launch = replace(launch, before_writing=write_manifest)
        if ray is not None:
            ray_cluster.train_on_cluster(
                configs, address=ray.address, device=device, threads=threads, callbacks=callbacks,
                provenance={"git_revision": find_git_revision(launch.config_path),
                            **launch.provenance},
                before_writing=write_manifest,
            )  # fmt: skip
            device = "cpu"  # the cluster has trained all runs
        try:
            train_many(
                configs, device=device, threads=threads, resume=True, plots=plots,
                callbacks=callbacks, launch=launch,
            )  # fmt: skip
        except Interrupted as interrupted:
            raise Interrupted(
                interrupted.exit_code - 128,
                f"saved to {path}; run the same command again to continue.",
            ) from None
        result = read_comparison(path)
        seeds = {seed for variant in result.variants for seed in variant.folders}
        if earlier := sorted(seeds - set(comparison.seeds)):
            callbacks.message(
                f"{path} also contains seeds of earlier commands ({', '.join(map(str, earlier))})."
                " The tables and pictures include them."
            )
        if write_tables(result):
            (path / PAGE).unlink(missing_ok=True)  # the report shows the old numbers
        comparison_pictures.draw_comparison(result)
        return result


@contextlib.contextmanager
def _folder_lock(path: Path, comparison: ComparisonPlan) -> Iterator[Callable[[], None]]:
    """Lock a comparison folder.

    A folder that contains a comparison is locked at once. A new folder is locked when its manifest
    is written.

    Yields:
        a function that writes the manifest. Call it after all checks.
    """
    with contextlib.ExitStack() as locks:
        exists = not RunFolder(path).is_available
        if exists:
            _check_same_comparison(path, comparison)
            locks.enter_context(exclusive_lock(path))

        def write_manifest() -> None:
            nonlocal exists
            if not exists:
                path.mkdir(parents=True, exist_ok=True)
                locks.enter_context(exclusive_lock(path))
                if not RunFolder(path).is_available:
                    raise FolderLockedError(
                        f"{path}: another process has just started to write there."
                    )
                exists = True
            content = comparison.as_plain()
            if comparison.along:  # the key, and the value of each variant
                arms = {each.name: [each.series, each.at] for each in comparison.variants}
                content = {**content, "along": {"key": comparison.along, "arms": arms}}
            content["questions"] = asdict(comparison.questions)
            write_json(path / MANIFEST_NAME, content)

        yield write_manifest


def _check_same_comparison(path: Path, comparison: ComparisonPlan) -> None:
    """Check that a folder contains this comparison. Plugin files may have moved."""
    try:
        stored = read_manifest(path / MANIFEST_NAME)
    except CheckpointError as error:
        raise UsageError(
            f"{path}: exists and is not the folder of a comparison (no readable {MANIFEST_NAME})."
            f" Nothing in it was changed. Choose another --name. ({error})"
        ) from None
    plain = json.loads(json.dumps(comparison.as_plain()))
    old, new = (
        {name: {**config, "plugins": None} for name, config in each["variants"].items()}
        for each in (stored, plain)
    )
    resampled = bool(stored.get("resample_data", False))
    if old.keys() != new.keys():
        change = f"variants: {', '.join(sorted(old))} -> {', '.join(sorted(new))}"
    elif changed := [name for name in sorted(new) if old[name] != new[name]]:
        change = f"the config of {', '.join(changed)} differs"
    elif resampled != comparison.resample_data:
        change = f"it needs the option {'--resample-data' if resampled else '--fixed-data'}"
    else:
        return
    raise UsageError(
        f"{path}: contains another comparison: {change}. Nothing in it was changed. Choose another"
        " --name."
    )
