"""`seqattn train`: one run, many seeds side by side, or one run of several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.many import goes_on, launcher, process_group
from seqattn.cli.options import Compute, ConfigFile, Plots, Quiet, RunOptions, grouped_options
from seqattn.cli.output import after_the_work
from seqattn.cli.progress import progress
from seqattn.cli.terminal import print_seeds, print_summary, provenance, told_to_stop

if TYPE_CHECKING:
    from seqattn.experiments.job import Job


@dataclass(frozen=True)
class SeedOptions:
    """One seed, or many from it on."""

    seed: Annotated[
        int | None, typer.Option("--seed", help="The run's seed, instead of the config's.")
    ] = None
    seeds: Annotated[int | None, typer.Option(
        "--seeds", min=1, max=100_000, metavar="N",
        help="Train N seeds side by side, each into a folder of its own."
    )] = None  # fmt: skip

    @property
    def changes(self) -> list[str]:
        """The change of the config, as `--set` takes it."""
        return [f"seed={self.seed}"] if self.seed is not None else []


@dataclass(frozen=True)
class ExistingRun:
    """What becomes of a run that is in the folder."""

    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run there.")] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is there.")
    ] = False


@grouped_options
def train(
    config: ConfigFile,
    options: RunOptions,
    seeds: SeedOptions,
    compute: Compute,
    plots: Plots = None,
    *,
    existing: ExistingRun,
    quiet: Quiet = False,
) -> None:
    """Train what CONFIG describes and leave a run folder: checkpoints, losses, predictions,
    attention and pictures."""
    from seqattn.config import resolve

    resolved = resolve(config, [*options.changes, *seeds.changes])
    name, device, many = resolved.config.name, compute.device, seeds.seeds is not None
    home = options.output_dir / name
    with (
        told_to_stop() as told,
        process_group(device, seeds.seeds, told) as world,
        progress(name, quiet or (world is not None and world.rank > 0), told) as callbacks,
    ):
        from seqattn import experiments
        from seqattn.runs import RunFolder

        if world is not None and world.rank > 0:
            told.begun = True
            experiments.run_worker(resolved.config, world, device, compute.threads, callbacks.stop)
            return
        origin = provenance(resolved.origins)
        if world is not None:
            origin["launcher"] = launcher()
            if goes_on(RunFolder(home)):
                existing = ExistingRun(resume=True)
        configs = (
            [(resolved.config, RunFolder(home))]
            if seeds.seeds is None
            else experiments.seeds_of(resolved.config, home, seeds.seeds)
        )
        jobs = experiments.train_many(
            configs,
            device=device,
            threads=compute.threads,
            resume=existing.resume,
            overwrite=existing.overwrite,
            plots=not many if plots is None else plots == "each",
            callbacks=callbacks,
            launch=experiments.Launch(
                config_path=config,
                provenance=origin,
                processes=world,
                before_writing=lambda: experiments.create_seed_folders(configs) if many else None,
            ),
        )
    failed = [job for job in jobs if job.error is not None]
    if not quiet and len(failed) < len(jobs):
        with after_the_work():
            _print(jobs, home, many=many)
    if failed:
        raise experiments.combined_error(failed, len(jobs))


def _print(jobs: Sequence[Job], home: Path, *, many: bool) -> None:
    """What came of a training in which a run has ended with a loss."""
    if many:
        from seqattn.analysis.comparison import collect_seeds

        folders = {job.config.seed: job.folder for job in jobs}
        print_seeds(collect_seeds(home, jobs[0].config.name, folders))
    elif jobs[0].summary is not None:
        print_summary(jobs[0].summary, home)
