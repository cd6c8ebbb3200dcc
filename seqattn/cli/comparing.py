"""The command `seqattn compare`, which compares variants of a config over many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer

from seqattn.cli.options import (
    ComputeOptions,
    ConfigFile,
    Plots,
    Quiet,
    RunOptions,
    WorkerOptions,
    grouped_options,
)
from seqattn.cli.output import ignore_closed_pipe
from seqattn.cli.progress import show_progress
from seqattn.cli.result_tables import print_comparison, provenance
from seqattn.cli.stop_signals import defer_stop_signals
from seqattn.cli.tables import FormatName, write_table
from seqattn.cli.torchrun import check_not_distributed
from seqattn.errors import UsageError


@dataclass(frozen=True)
class DesignOptions:
    """The options for variants and seeds. The config section `compare` contains the defaults."""

    heading: ClassVar = "Comparison options"

    vary: Annotated[list[str] | None, typer.Option(
        "--vary", metavar="PATH=A,B,...",
        help="Values to compare; repeat the option to compare all combinations.",
        show_default="compare.variants in CONFIG",
    )] = None  # fmt: skip
    along: Annotated[str | None, typer.Option(
        "--along", metavar="PATH=A,B,...",
        help="Sweep: values of a key at which all variants are trained and plotted.",
        show_default="compare.along in CONFIG",
    )] = None  # fmt: skip
    seeds: Annotated[int | None, typer.Option(
        "--seeds", metavar="N", help="Number of seeds of each variant.",
        show_default="compare.seeds in CONFIG",
    )] = None  # fmt: skip
    variance: Annotated[int | None, typer.Option(
        "--variance", metavar="D",
        help="Cross D data sets with all seeds: say which variance comes from the data and which"
        " from the seed.",
        show_default="compare.variance in CONFIG",
    )] = None  # fmt: skip
    resample_data: Annotated[bool | None, typer.Option(
        "--resample-data/--fixed-data",
        help="Generate new data for each seed, or use the same data for all seeds.",
        show_default="compare.resample_data in CONFIG",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class QuestionOptions:
    """The options for what is tested. The config section `compare` contains the defaults."""

    heading: ClassVar = "Test options"

    measure: Annotated[list[str] | None, typer.Option(
        "--measure", metavar="MEASURE",
        help="Measure to test: loss, sequence_error_rate, symbol_error_rate or"
        " alignment_error_rate. Repeat the option to test several.",
        show_default="compare.measures in CONFIG",
    )] = None  # fmt: skip
    margin: Annotated[float | None, typer.Option(
        "--margin", metavar="D",
        help="Difference that does not matter: also test whether variants are equal within it.",
        show_default="compare.margin in CONFIG",
    )] = None  # fmt: skip
    power: Annotated[float | None, typer.Option(
        "--power", metavar="D",
        help="Difference that matters: say how many seeds would show it.",
        show_default="compare.power in CONFIG",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class EngineOptions(WorkerOptions):
    """The options for the engine that trains the runs."""

    heading: ClassVar = "Compute options"

    engine: Annotated[Literal["process", "ray"], typer.Option(
        "--engine", help="Train in this process, or as Ray tasks."
    )] = "process"  # fmt: skip
    ray_address: Annotated[str | None, typer.Option(
        "--ray-address", metavar="HOST:PORT",
        help="Address of a Ray cluster, or auto.", show_default="a new local cluster",
    )] = None  # fmt: skip


@grouped_options
def compare_command(
    config: ConfigFile,
    design: DesignOptions,
    questions: QuestionOptions,
    options: RunOptions,
    compute: ComputeOptions,
    engine: EngineOptions,
    plots: Plots = None,
    table: Annotated[FormatName | None, typer.Option(
        "--table", help="Print the results as a table in this format only.",
        show_default="a table for the terminal",
    )] = None,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Compare variants of a config over many seeds.

    All variants are trained with the same seeds. Runs with equal shapes are trained together. The
    results show which variants are better, how large the differences are, and which differences are
    not significant. Finished runs are not trained again.
    """
    from seqattn.config.comparing import plan_comparison

    check_not_distributed("compare")
    if engine.ray_address is not None and engine.engine != "ray":
        raise UsageError(f"--ray-address {engine.ray_address}: needs --engine ray.")
    planned = plan_comparison(
        config, options.changes, design.vary or [], along=design.along, seeds=design.seeds,
        resample_data=design.resample_data,
        questions={"measures": questions.measure or None, "margin": questions.margin,
                   "power": questions.power, "variance": design.variance},
    )  # fmt: skip
    with (
        defer_stop_signals() as stop_request,
        show_progress(planned.name, quiet, stop_request) as callbacks,
    ):
        from seqattn.experiments import Launch
        from seqattn.experiments.compare import run_comparison
        from seqattn.experiments.ray_cluster import RayCluster

        result = run_comparison(
            planned, options.output_dir, device=compute.device, threads=compute.threads,
            plots=plots == "each", callbacks=callbacks,
            launch=Launch(config_path=config, provenance=provenance({}), workers=engine.jobs),
            ray=RayCluster(engine.ray_address) if engine.engine == "ray" else None,
        )  # fmt: skip
    with ignore_closed_pipe():
        if table is not None:
            write_table(result, table, "variants")
        elif not quiet:
            print_comparison(result)
