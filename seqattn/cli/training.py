"""The command `seqattn train`, which trains one run (in one or several processes) or many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from seqattn.cli.options import (
    ComputeOptions,
    ConfigFile,
    Plots,
    Quiet,
    RunOptions,
    WorkerOptions,
    grouped_options,
    with_option,
)
from seqattn.cli.output import ignore_closed_pipe
from seqattn.cli.progress import show_progress
from seqattn.cli.result_tables import print_seeds, print_summary, provenance
from seqattn.cli.stop_signals import defer_stop_signals
from seqattn.cli.torchrun import (
    is_torchrun_restart,
    join_process_group,
    launcher_id,
)
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.config import Config
    from seqattn.experiments.job import Job
    from seqattn.runs import RunFolder


@dataclass(frozen=True)
class SeedOptions:
    """The options for the seed and the number of seeds."""

    heading: ClassVar = "Run options"

    seed: Annotated[int | None, typer.Option(
        "--seed", metavar="K", help="Seed of weights, batch order and teacher forcing.",
        show_default="seed in CONFIG",
    )] = None  # fmt: skip
    seeds: Annotated[int | None, typer.Option(
        "--seeds", metavar="N", min=1, max=100_000,
        help="Train seeds K to K + N - 1 together, each in a folder NAME/seed-K.",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class ExistingRun:
    """The options for a folder that already contains a run."""

    heading: ClassVar = "Run options"

    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = (
        False
    )
    auto_resume: Annotated[
        bool,
        typer.Option(
            "--auto-resume", help="Start the run, or continue it if the folder contains it."
        ),
    ] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in the folder.")
    ] = False

    def __post_init__(self) -> None:
        if self.auto_resume and (self.resume or self.overwrite):
            raise UsageError(
                "--auto-resume excludes --resume and --overwrite; give one of these options."
            )

    @property
    def continues(self) -> bool:
        return self.resume or self.auto_resume


@grouped_options
def train_command(
    config: ConfigFile,
    options: RunOptions,
    seeds: SeedOptions,
    existing: ExistingRun,
    compute: ComputeOptions,
    workers: WorkerOptions,
    plots: Plots = None,
    quiet: Quiet = False,
) -> None:
    """Train a model from a config file.

    The command writes checkpoints, losses, predictions, attention weights and pictures to the run
    folder. If torchrun starts several processes, they share the batches of one run.
    """
    from seqattn.config import resolve

    resolved = resolve(config, with_option(options.changes, "--seed", seeds.seed))
    name, device, many = resolved.config.name, compute.device, seeds.seeds is not None
    folder = options.output_dir / name
    with (
        defer_stop_signals() as stop_request,
        join_process_group(device, seeds.seeds, stop_request) as processes,
        show_progress(
            name, quiet or (processes is not None and processes.rank > 0), stop_request
        ) as callbacks,
    ):
        from seqattn import experiments
        from seqattn.runs import RunFolder

        if processes is not None and processes.rank > 0:
            stop_request.started = True
            experiments.run_worker(
                resolved.config, processes, device, compute.threads, callbacks.stop
            )
            return
        origin = provenance(resolved.origins)
        if processes is not None:
            origin["launcher"] = launcher_id()
            if is_torchrun_restart(RunFolder(folder)):
                existing = ExistingRun(resume=True)
        configs = (
            [(resolved.config, RunFolder(folder))]
            if seeds.seeds is None
            else experiments.seeds_of(resolved.config, folder, seeds.seeds)
        )
        trained = experiments.train_many(
            configs, device=device, threads=compute.threads, callbacks=callbacks,
            resume=existing.continues, overwrite=existing.overwrite,
            plots=not many if plots is None else plots == "each",
            launch=experiments.Launch(
                config_path=config, provenance=origin, processes=processes, workers=workers.jobs,
                before_writing=lambda: _before_writing(folder, configs, existing, many=many),
            ),
        )  # fmt: skip
    if not quiet and any(job.error is None for job in trained):
        with ignore_closed_pipe():
            _print_results(trained, folder, many=many)
    if error := experiments.combined_error(trained, are_seeds=many):
        raise error


def _before_writing(
    folder: Path, configs: Sequence[tuple[Config, RunFolder]], existing: ExistingRun, *, many: bool
) -> None:
    """If `--resume` is given, check that a run exists. If there are many seeds, create their
    folders."""
    from seqattn import experiments
    from seqattn.runs import check_run_exists

    if existing.resume:
        check_run_exists(folder)
    if many:
        experiments.create_seed_folders(configs)


def _print_results(jobs: Sequence[Job], folder: Path, *, many: bool) -> None:
    """Print the results of runs. At least one run must have a finite test loss."""
    if many:
        from seqattn.analysis.comparison import collect_seeds

        folders = {job.config.seed: job.folder for job in jobs}
        print_seeds(collect_seeds(folder, jobs[0].config.name, folders))
    elif jobs[0].summary is not None:
        print_summary(jobs[0].summary, folder)
