"""The only door for people: options, progress, tables, exit codes.

Heavy libraries are imported inside the commands, so `--help` answers at once. What goes wrong
in a way that a user can mend is a `SeqattnError`: its message is printed without a traceback,
and its exit code ends the process.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from seqattn.cli.arguments import (
    ConfigFile,
    Device,
    DeviceOption,
    FolderName,
    OutputDir,
    Overrides,
    Quiet,
    Threads,
)
from seqattn.cli.checkpoints import inspect, verify_resume
from seqattn.cli.configs import config_app
from seqattn.cli.data import data_app
from seqattn.cli.explaining import explain
from seqattn.cli.exporting import export
from seqattn.cli.looking import doctor, plot_attention, report
from seqattn.cli.many import are_several, check_one_run, goes_on, joined, launcher
from seqattn.cli.output import (
    after_the_work,
    leave_with_the_reader,
    note,
    prepare_streams,
    show,
    show_renamed_keys,
)
from seqattn.cli.predicting import evaluate, predict
from seqattn.cli.terminal import (
    leave_at_once,
    print_comparison,
    print_seeds,
    print_summary,
    progress,
    provenance,
    told_to_stop,
)
from seqattn.cli.tuning import tune
from seqattn.errors import SeqattnError, StorageError, UsageError

# Importing torch makes some hundred thousand objects that stay. At Python's own thresholds the
# collector looks through them again and again, which is a tenth of a short process.
FEWER_COLLECTIONS = (100_000, 20, 100)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text needs no rich, so it comes at once
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn, teach and research attention in sequence-to-sequence models.",
)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
app.command(
    short_help="Show what is in a checkpoint.",
    epilog="Example: seqattn inspect outputs/squares/checkpoints/last.safetensors",
)(inspect)
app.command(
    "verify-resume",
    short_help="Show that stopping and resuming changes nothing.",
    epilog="Example: seqattn verify-resume configs/squares.yaml --set training.epochs=5",
)(verify_resume)

app.command(
    "plot-attention",
    short_help="Draw where the model looked.",
    epilog="Example: seqattn plot-attention outputs/squares --output where.pdf",
)(plot_attention)
app.command(
    short_help="Write a run or a comparison as one page to explore.",
    epilog="Example: seqattn report outputs/squares",
)(report)
app.command(
    short_help="Say in words what a run's weights and losses show.",
    epilog="Example: seqattn doctor outputs/squares",
)(doctor)


app.command(
    short_help="Write a run for other programs: ONNX or safetensors.",
    epilog="Example: seqattn export outputs/squares --output exported",
)(export)


class Plots(StrEnum):
    each = "each"
    none = "none"


class Engine(StrEnum):
    process = "process"
    ray = "ray"


PlotsOption = Annotated[
    Plots | None,
    typer.Option("--plots", help="each run's pictures, or none; with many seeds none without."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from seqattn import __version__

        leave_with_the_reader()
        show(f"seqattn {__version__}")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(
    short_help="Train what a config describes; leave a run folder.",
    epilog="Example: seqattn train configs/squares.yaml --set training.epochs=50",
)
def train(
    config: ConfigFile,
    overrides: Overrides = None,
    name: FolderName = None,
    output_dir: OutputDir = Path("outputs"),
    seed: Annotated[
        int | None, typer.Option("--seed", help="The run's seed, instead of the config's.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            min=1,
            max=100_000,
            metavar="N",
            help="Train N seeds side by side, each into a folder of its own.",
        ),
    ] = None,
    device: DeviceOption = Device.auto,
    threads: Threads = None,
    plots: PlotsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run there.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is there.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train what CONFIG describes and leave a run folder: checkpoints, losses, predictions,
    attention and pictures."""
    import json

    from seqattn.config import resolve

    shortcuts = [f"name={json.dumps(name)}"] if name is not None else []
    shortcuts += [f"seed={seed}"] if seed is not None else []
    resolved_from = resolve(config, [*(overrides or []), *shortcuts])
    resolved = resolved_from.config
    with (
        told_to_stop() as told,
        joined(device.value, seeds, told) if are_several() else contextlib.nullcontext() as world,
        progress(resolved.name, quiet or (world is not None and world.rank > 0), told) as callbacks,
    ):
        from seqattn import experiment
        from seqattn.runs import RunFolder

        home = output_dir / resolved.name
        if world is not None and world.rank > 0:
            told.begun = True
            experiment.follow(resolved, world, device.value, threads, callbacks.stop)
            return
        origin = provenance(resolved_from.origins)
        if world is not None:
            origin["launcher"] = launcher()
            if goes_on(RunFolder(home)):
                resume, overwrite = True, False
        configs = (
            [(resolved, RunFolder(home))]
            if seeds is None
            else experiment.seeds_of(resolved, home, seeds)
        )
        jobs = experiment.train_many(
            configs,
            device=device.value,
            threads=threads,
            resume=resume,
            overwrite=overwrite,
            plots=seeds is None if plots is None else plots is Plots.each,
            callbacks=callbacks,
            launch=experiment.Launch(
                config_path=config,
                provenance=origin,
                processes=world,
                before_writing=lambda: None if seeds is None else experiment.begin_seeds(configs),
            ),
        )
    failed = [job for job in jobs if job.error is not None]
    if not quiet and seeds is None and jobs[0].summary is not None:
        with after_the_work():
            print_summary(jobs[0].summary, home)
    elif not quiet and len(failed) < len(jobs):
        from seqattn.comparison import of_seeds

        with after_the_work():
            folders = {job.config.seed: job.folder for job in jobs}
            print_seeds(of_seeds(home, resolved.name, folders))
    if failed:
        raise experiment.combined_error(failed, len(jobs))


@app.command(
    short_help="Compare variants of a config over many seeds.",
    epilog="Example: seqattn compare configs/notebook.yaml --vary"
    " model.attention.score=dot,additive --seeds 16",
)
def compare(
    config: ConfigFile,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PATH=A,B,...",
            help="Values to compare; repeated, every combination. Instead of compare: in CONFIG.",
        ),
    ] = None,
    along: Annotated[
        str | None,
        typer.Option(
            "--along",
            metavar="PATH=A,B,...",
            help="Numbers to train every variant at, and to draw them over.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Seeds of each variant.")
    ] = None,
    resample_data: Annotated[
        bool | None,
        typer.Option(
            "--resample-data/--fixed-data",
            help="Draw new generated data for each seed (as without), or the same for all.",
        ),
    ] = None,
    overrides: Overrides = None,
    name: FolderName = None,
    output_dir: OutputDir = Path("outputs"),
    device: DeviceOption = Device.auto,
    threads: Threads = None,
    plots: PlotsOption = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="Train in this process, or as tasks of Ray.")
    ] = Engine.process,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="HOST:PORT",
            help="Of a Ray cluster, or auto; with --engine ray one is started here without.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train every variant of CONFIG with the same seeds, side by side where they share a shape, and
    say which is better, by how much, and when nothing can be said. What is finished already is not
    trained again."""
    import json

    from seqattn.config.comparing import plan

    check_one_run("compare")
    if ray_address is not None and engine is not Engine.ray:
        raise UsageError(f"--ray-address {ray_address}: goes with --engine ray.")
    shortcuts = [f"name={json.dumps(name)}"] if name is not None else []
    planned = plan(
        config, [*(overrides or []), *shortcuts], vary or [], along=along, seeds=seeds,
        resample_data=resample_data,
    )  # fmt: skip
    with told_to_stop() as told, progress(planned.name, quiet, told) as callbacks:
        from seqattn import comparison
        from seqattn.cluster import RayCluster
        from seqattn.experiment import Launch

        outcome = comparison.compare(
            planned, output_dir, device=device.value, threads=threads,
            plots=plots is Plots.each, callbacks=callbacks,
            launch=Launch(config_path=config, provenance=provenance({})),
            ray=RayCluster(ray_address) if engine is Engine.ray else None,
        )  # fmt: skip
    if not quiet:
        with after_the_work():
            print_comparison(outcome)


app.command(
    short_help="Search for the values that learn best.",
    epilog="Example: seqattn tune configs/squares.yaml --trials 20"
    " --search 'training.learning_rate=log(1e-4,1e-1)'",
)(tune)


app.command(
    short_help="Continue sequences: your own or the run's.",
    epilog="Example: seqattn predict outputs/squares --input my.csv --output next.csv",
)(predict)


app.command(
    short_help="Show the arithmetic of one attention step.",
    epilog="Example: seqattn explain outputs/notebook --example 3 --step 2 --figure step.png",
)(explain)


app.command(
    short_help="Score a run beside baselines and noise floor.",
    epilog="Example: seqattn evaluate outputs/squares --json",
)(evaluate)


# --- the door -----------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every way out has its documented exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _obey)
    gc.set_threshold(*FEWER_COLLECTIONS)
    prepare_streams()
    show_renamed_keys()
    try:
        app(prog_name="seqattn")
    except SeqattnError as error:
        _fail(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(StorageError(f"{place}{error.strerror or error}."))


def _obey(number: int, frame: Any) -> None:
    # Not by an exception: one that rises while a library is imported may be swallowed there.
    leave_at_once(number, "stopped.")


def _fail(error: SeqattnError) -> None:
    note(f"seqattn: {error}")
    sys.exit(error.exit_code)
