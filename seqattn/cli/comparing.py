"""`seqattn compare`: variants of a config over many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from seqattn.cli.many import check_one_run
from seqattn.cli.options import Compute, ConfigFile, Plots, Quiet, RunOptions, grouped_options
from seqattn.cli.output import after_the_work
from seqattn.cli.progress import progress
from seqattn.cli.terminal import print_comparison, provenance, told_to_stop
from seqattn.errors import UsageError


@dataclass(frozen=True)
class DesignOptions:
    """What is compared; where they are left out, what the config's section `compare` says."""

    vary: Annotated[list[str] | None, typer.Option(
        "--vary", metavar="PATH=A,B,...",
        help="Values to compare; repeated, every combination. Instead of compare: in CONFIG."
    )] = None  # fmt: skip
    along: Annotated[str | None, typer.Option(
        "--along", metavar="PATH=A,B,...",
        help="Numbers to train every variant at, and to draw them over."
    )] = None  # fmt: skip
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Seeds of each variant.")
    ] = None
    resample_data: Annotated[bool | None, typer.Option(
        "--resample-data/--fixed-data",
        help="Draw new generated data for each seed (as without), or the same for all."
    )] = None  # fmt: skip


@dataclass(frozen=True)
class EngineOptions:
    """Where the runs are trained."""

    engine: Annotated[Literal["process", "ray"], typer.Option(
        "--engine", help="Train in this process, or as tasks of Ray."
    )] = "process"  # fmt: skip
    ray_address: Annotated[str | None, typer.Option(
        "--ray-address", metavar="HOST:PORT",
        help="Of a Ray cluster, or auto; with --engine ray one is started here without."
    )] = None  # fmt: skip


@grouped_options
def compare(
    config: ConfigFile,
    design: DesignOptions,
    options: RunOptions,
    compute: Compute,
    plots: Plots = None,
    *,
    engine: EngineOptions,
    quiet: Quiet = False,
) -> None:
    """Train every variant of CONFIG with the same seeds, side by side where they share a shape, and
    say which is better, by how much, and when nothing can be said. What is finished already is not
    trained again."""
    from seqattn.config.comparing import plan_comparison

    check_one_run("compare")
    if engine.ray_address is not None and engine.engine != "ray":
        raise UsageError(f"--ray-address {engine.ray_address}: goes with --engine ray.")
    planned = plan_comparison(
        config, options.changes, design.vary or [], along=design.along, seeds=design.seeds,
        resample_data=design.resample_data,
    )  # fmt: skip
    with told_to_stop() as told, progress(planned.name, quiet, told) as callbacks:
        from seqattn.experiments import Launch
        from seqattn.experiments.compare import compare as run_comparison
        from seqattn.experiments.ray_cluster import RayCluster

        outcome = run_comparison(
            planned, options.output_dir, device=compute.device, threads=compute.threads,
            plots=plots == "each", callbacks=callbacks,
            launch=Launch(config_path=config, provenance=provenance({})),
            ray=RayCluster(engine.ray_address) if engine.engine == "ray" else None,
        )  # fmt: skip
    if not quiet:
        with after_the_work():
            print_comparison(outcome)
