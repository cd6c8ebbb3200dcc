"""Searching for the values that learn best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.many import check_one_run
from seqattn.cli.options import Compute, ConfigFile, Quiet, RunOptions, grouped_options
from seqattn.cli.output import after_the_work, note, plain_console, print_lines
from seqattn.cli.progress import progress
from seqattn.cli.terminal import told_to_stop
from seqattn.errors import counted

if TYPE_CHECKING:
    from seqattn.experiments.tuning.results import TuneResult

SHOWN = 10


@grouped_options
def tune(
    config: ConfigFile,
    search: Annotated[
        list[str],
        typer.Option(
            "--search",
            metavar="PATH=RANGE",
            help="log(A,B), uniform(A,B) or values with commas between; may be repeated.",
        ),
    ],
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=100_000, help="In all, those of before counted.")
    ] = 20,
    *,
    options: RunOptions,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            metavar="URL",
            help="A database of Optuna's that processes share; a file in the folder without.",
        ),
    ] = None,
    compute: Compute,
    quiet: Quiet = False,
) -> None:
    """Train CONFIG with values from the ranges, each trial an ordinary run, and write the best as
    YAML. No combination of values is tried twice; the search ends when all are tried. Trials that
    do worse than the median stop early. Trials are judged on the validation part."""  # fmt: skip
    from seqattn.config.searching import search as read

    check_one_run("tune")
    wanted = read(config, options.changes, search)
    with told_to_stop() as told, progress(wanted.name, True, told) as callbacks:
        from seqattn.experiments import tuning

        told.begun = True
        tuned = tuning.tune(
            wanted, options.output_dir, trials, storage=storage, device=compute.device,
            threads=compute.threads, callbacks=callbacks,
            message=(lambda line: None) if quiet else note,
        )  # fmt: skip
    if not quiet:
        with after_the_work():
            _print(tuned)


def _print(tuned: TuneResult) -> None:
    from rich.table import Table

    states = [row["state"] for row in tuned.trials]
    table = Table(
        title=f"{tuned.path.name}: {counted(len(states) - states.count('interrupted'), 'trial')},"
              f" {states.count('pruned')} pruned, {states.count('fail')} failed,"
              f" {states.count('refused')} refused",
        title_justify="left",
    )  # fmt: skip
    keys = list(tuned.best)
    short = [key.rpartition(".")[2] for key in keys]
    names = short if len(set(short)) == len(keys) else keys
    for heading in ("trial", "validation loss", *names):
        table.add_column(heading, justify="right")
    for row in [row for row in tuned.trials if row["state"] == "complete"][:SHOWN]:
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value)
                 for value in (row["values"].get(key) for key in keys)]  # fmt: skip
        table.add_row(str(row["trial"]), f"{row['loss']:.4g}", *cells)
    console = plain_console()
    console.print(table)
    lines = []
    if tuned.importance:
        said = ", ".join(f"{key} {share:.0%}" for key, share in tuned.importance.items())
        lines.append(f"What made the difference: {said}.")
    else:
        lines.append(tuned.no_importance)
    lines += [
        "One seed of each: say nothing from it before many seeds of the best have been trained.",
        f"Everything lies in {tuned.path}: best.yaml, trials.csv"
        f"{', importance.png' if tuned.importance else ''}. Next:",
        f"  seqattn train {tuned.path / 'best.yaml'} --seeds 8",
    ]
    print_lines(lines)
