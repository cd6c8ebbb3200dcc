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
    InputFile,
    OutputDir,
    Overrides,
    Quiet,
    Run,
    Threads,
)
from seqattn.cli.checkpoints import inspect, verify_resume
from seqattn.cli.data import data_app
from seqattn.cli.exporting import export
from seqattn.cli.looking import doctor, plot_attention, report
from seqattn.cli.many import are_several, goes_on, joined, launcher
from seqattn.cli.terminal import (
    leave_at_once,
    leave_with_the_reader,
    note,
    print_comparison,
    print_evaluation,
    print_seeds,
    print_summary,
    progress,
    provenance,
    text_output,
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
config_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Write a YAML config: check, show, schema."
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


class Format(StrEnum):
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    npz = "npz"
    parquet = "parquet"
    arrow = "arrow"


PlotsOption = Annotated[
    Plots | None,
    typer.Option("--plots", help="each run's pictures, or none; with many seeds none without."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from seqattn import __version__

        print(f"seqattn {__version__}")
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
    several = joined(device.value, seeds) if are_several() else contextlib.nullcontext()
    with (
        told_to_stop() as told,
        several as world,
        progress(resolved.name, quiet or (world is not None and world.rank > 0), told) as watchers,
    ):
        from seqattn import experiment
        from seqattn.runs import RunFolder

        home = output_dir / resolved.name
        if world is not None and world.rank > 0:
            told.begun = True
            experiment.follow(resolved, world, device.value, threads, watchers.stop)
            return
        origin = provenance(resolved_from.origins)
        if world is not None:
            origin["launcher"] = launcher()
            if goes_on(RunFolder(home)):
                resume, overwrite = True, False
        jobs = experiment.run_all(
            [(resolved, RunFolder(home))]
            if seeds is None
            else experiment.seeds_of(resolved, home, seeds),
            device=device.value,
            threads=threads,
            resume=resume,
            overwrite=overwrite,
            plots=seeds is None if plots is None else plots is Plots.each,
            config_path=config,
            watchers=watchers,
            provenance=origin,
            world=world,
        )
    failed = [job for job in jobs if job.error is not None]
    if not quiet and seeds is None and jobs[0].summary is not None:
        print_summary(jobs[0].summary, home)
    elif not quiet and len(failed) < len(jobs):
        from seqattn.comparison import arm_of

        print_seeds(arm_of(resolved.name, jobs), home)
    if failed:
        raise experiment.all_errors(failed)


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

    if ray_address is not None and engine is not Engine.ray:
        raise UsageError(f"--ray-address {ray_address}: goes with --engine ray.")
    shortcuts = [f"name={json.dumps(name)}"] if name is not None else []
    planned = plan(config, [*(overrides or []), *shortcuts], vary or [], along=along, seeds=seeds)
    with told_to_stop() as told, progress(planned.name, quiet, told) as watchers:
        from seqattn import comparison

        outcome = comparison.compare(
            planned, output_dir, device=device.value, threads=threads,
            plots=plots is Plots.each, config_path=config, watchers=watchers,
            provenance=provenance({}), engine=engine.value, ray_address=ray_address,
        )  # fmt: skip
    if not quiet:
        print_comparison(outcome)


app.command(
    short_help="Search for the values that learn best.",
    epilog="Example: seqattn tune configs/squares.yaml --trials 20"
    " --search 'training.learning_rate=log(1e-4,1e-1)'",
)(tune)


@app.command(
    short_help="Continue sequences: your own or the run's.",
    epilog="Example: seqattn predict outputs/squares --input my.csv --output next.csv",
)
def predict(
    run: Run,
    input_file: InputFile = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Where to write; standard output without."),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="The ending of --output, or csv."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option("--attention", metavar="FILE.npz", help="Write the weights as data, too."),
    ] = None,
    example: Annotated[
        int | None, typer.Option("--example", metavar="K", help="Test sequence K of the run.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, max=100_000, help="Points to forecast; as trained without."),
    ] = None,
    attention_override: Annotated[
        str | None,
        typer.Option(
            "--attention-override",
            metavar="WAY",
            help="Look elsewhere than the model would: uniform, shuffled, previous or one_hot:K.",
        ),
    ] = None,
) -> None:
    """Continue sequences: your own (--input), one of the run's test sequences (--example K), or
    all of these."""
    from seqattn.storage import write_arrays

    leave_with_the_reader()
    if input_file is not None and example is not None:
        raise UsageError("--input and --example both name sequences; give one of them.")
    to_stdout = output is None or str(output) == "-"
    chosen = form or _format_of(output)
    if chosen in (Format.npz, Format.parquet, Format.arrow) and to_stdout:
        raise UsageError(f"--format {chosen} is binary and needs --output FILE.{chosen}.")
    if attention is not None and attention.suffix.lower() != ".npz":
        raise UsageError(f"--attention {attention}: weights are written as NPZ; end it in .npz.")

    from seqattn.attention import Override
    from seqattn.cli import inputs
    from seqattn.data.files.writing import Steps
    from seqattn.evaluation import free_run, loss_of
    from seqattn.experiment import data_of, open_run

    override = None if attention_override is None else Override.parse(attention_override)
    _, trained = open_run(run)
    if (attention is not None or override is not None) and not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    length = steps or trained.layout.target_length
    where = None if to_stdout else output
    if input_file is not None:
        inputs.predict_file(trained, input_file, where, chosen.value, length, override, attention)
        return
    part, scaling = data_of(trained).test, trained.layout.scaling
    if example is not None:
        part = part.only(_checked_example(example, len(part)))
    result = free_run(
        trained.model, part, length, override, with_attention=attention is not None, scaling=scaling
    )
    if override is not None:
        own = loss_of(
            free_run(trained.model, part, length, with_attention=False, scaling=scaling),
            part, scaling,
        )  # fmt: skip
        forced = loss_of(result, part, scaling)
        if own is not None and forced is not None:
            note(f"Mean squared error: {own:.4g} by its own attention, {forced:.4g} with"
                 f" {attention_override}.")  # fmt: skip
    with inputs.Forecasts(where, chosen.value, trained, part.said).opened() as writer:
        writer.write(part, result, Steps.of_sources(part))
    if attention is not None:
        write_arrays(attention, result.attention_arrays(part, steps_real=False))


class Shape(StrEnum):
    """How an explanation is written."""

    table = "table"
    markdown = "markdown"
    json = "json"


@app.command(
    short_help="Show the arithmetic of one attention step.",
    epilog="Example: seqattn explain outputs/notebook --example 3 --step 2 --figure step.png",
)
def explain(
    run: Run,
    example: Annotated[
        int, typer.Option("--example", metavar="K", help="Test sequence K of the run.")
    ] = 0,
    step: Annotated[
        int, typer.Option("--step", metavar="T", help="Step of the forecast, counted from 1.")
    ] = 1,
    layer: Annotated[
        int, typer.Option("--layer", help="A Transformer's decoder layer, counted from 0.")
    ] = 0,
    head: Annotated[int, typer.Option("--head", help="Attention head, counted from 0.")] = 0,
    form: Annotated[Shape, typer.Option("--format", help="How to write it.")] = Shape.table,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", metavar="FILE.png|svg|pdf", help="Draw query, keys and context, too."
        ),
    ] = None,
) -> None:
    """Take one attention step of a trained model apart: keys, query, scores, weights, the weighted
    sum and what is said. Every number follows from the printed ones above it."""
    import numpy as np

    from seqattn import pictures

    if figure is not None:
        pictures.picture_ending(figure)

    from seqattn.cli.explaining import print_explanation
    from seqattn.data.files.writing import forecast_arrays
    from seqattn.experiment import data_of, open_run
    from seqattn.explanation import explain as take_apart

    leave_with_the_reader()
    _, trained = open_run(run)
    if not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    part = data_of(trained).test
    chosen = part.only(_checked_example(example, len(part)))
    steps = int(chosen.target_lengths[0])
    if not 1 <= step <= steps:
        raise UsageError(
            f"--step {step}: test sequence {example} has {steps} target steps, so T must lie within"
            f" 1 and {steps}."
        )
    scaled, _ = trained.layout.scaling.scaled(chosen)
    source = scaled[0, : chosen.source_lengths[0]].astype("float64")
    described = forecast_arrays(chosen, chosen.target, with_target=False)
    title = pictures.panel_titles(described)[0]
    explanation = take_apart(
        trained.model, source, step=step, layer=layer, head=head,
        features=trained.layout.features, said=trained.layout.said, title=title.replace("\n", ", "),
    )  # fmt: skip
    in_units = None
    if not trained.layout.scaling.is_identity:
        unscaled = trained.layout.scaling.unscaled(np.array([[explanation.model_says]]), chosen)
        in_units = dict(zip(trained.layout.said, unscaled.ravel().tolist(), strict=True))
    print_explanation(explanation, form.value, in_units)
    if figure is not None:
        from seqattn.figures import vectors_figure

        drawn = vectors_figure(
            explanation.vectors.get("query"), explanation.vectors["keys"],
            explanation.vectors["values"], explanation.vectors["context"],
            explanation.vectors["weights"], title=explanation.title, cosines=explanation.cosines,
        )  # fmt: skip
        pictures.save(drawn, figure)
        note(f"Drew {figure}")


@app.command(
    short_help="Score a run beside baselines and noise floor.",
    epilog="Example: seqattn evaluate outputs/squares --json",
)
def evaluate(
    run: Run,
    input_file: InputFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Score a run beside the baselines and the noise floor: on its test sequences, or on your own
    (--input), whose first points are given and the rest held against the forecast."""
    import json

    from seqattn.cli import inputs
    from seqattn.evaluation import References
    from seqattn.evaluation import evaluate as score
    from seqattn.experiment import data_of, open_run

    leave_with_the_reader()
    _, trained = open_run(run)
    data = data_of(trained)
    part = data.test if input_file is None else inputs.scored(input_file, trained)
    scaling = trained.layout.scaling
    against = References.of(part, data.train, data.rule, scaling)
    evaluation = score(trained.model, part, against, scaling)
    if as_json:
        print(json.dumps(evaluation.as_plain(), indent=2, allow_nan=False))
    else:
        what = "test sequences" if input_file is None else f"sequences of {input_file}"
        print_evaluation(evaluation.as_plain(), f"{run}: {len(part)} {what}, epoch {trained.epoch}")


@config_app.command(
    "check",
    short_help="Say everything that is wrong with a config.",
    epilog="Example: seqattn config check my.yaml",
)
def config_check(config: ConfigFile, overrides: Overrides = None) -> None:
    """Say whether a config is right, and if not, everything that is wrong with it."""
    from seqattn.config import DEFAULT, Draft, resolve

    if "compare" in Draft.read(config, overrides or []).content:
        from seqattn.config.comparing import plan

        planned = plan(config, overrides or [])
        names = ", ".join(variant.name for variant in planned.variants)
        print(f"{config}: right. It compares {names}, with {len(planned.seeds)} seeds each.")
        return
    resolved = resolve(config, overrides or [])
    given = sum(origin != DEFAULT for origin in resolved.origins.values())
    print(f"{config}: right. {given} of {len(resolved.origins)} values given, the rest default.")


@config_app.command(
    "show",
    short_help="Print every value and where it came from.",
    epilog="Example: seqattn config show my.yaml --set seed=1",
)
def config_show(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="A YAML file; defaults without.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Print the whole config as YAML, with where each value came from."""
    from seqattn.config import resolve, to_yaml

    leave_with_the_reader()
    resolved = resolve(config, overrides or [])
    print(to_yaml(resolved.config, resolved.origins), end="")


@config_app.command(
    "schema",
    short_help="Print the JSON Schema for editors.",
    epilog="Example: seqattn config schema --output my.schema.json",
)
def config_schema(
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Standard output without.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Every key as a page to read, instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of a config, with which editors complete and check as you type."""
    import json

    from seqattn.config import json_schema
    from seqattn.config.manual import manual

    leave_with_the_reader()
    schema = json_schema()
    with text_output(output) as file:
        file.write(manual(schema) if markdown else json.dumps(schema, indent=2) + "\n")


# --- arguments ----------------------------------------------------------------------------------


def _checked_example(k: int, n: int) -> slice:
    if not 0 <= k < n:
        raise UsageError(f"--example {k}: the run has test sequences 0 to {n - 1}.")
    return slice(k, k + 1)


def _format_of(output: Path | None) -> Format:
    """The format that a file's ending names; CSV where it names none."""
    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    if ending in ("", *Format):
        return Format(ending or "csv")
    raise UsageError(
        f"--output {output}: ends in none of {', '.join('.' + known for known in Format)}."
        " Give it one of these, or say --format."
    )


# --- the door -----------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every way out has its documented exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _obey)
    gc.set_threshold(*FEWER_COLLECTIONS)
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
