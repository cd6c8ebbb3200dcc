"""The command `seqattn tune`, which searches for hyperparameters."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from seqattn.cli.options import ComputeOptions, ConfigFile, Quiet, RunOptions, grouped_options
from seqattn.cli.output import ignore_closed_pipe, note, plain_console, print_lines
from seqattn.cli.progress import show_progress
from seqattn.cli.stop_signals import defer_stop_signals
from seqattn.cli.torchrun import check_not_distributed
from seqattn.errors import counted

if TYPE_CHECKING:
    from seqattn.experiments.tuning.trials import TuneResult

MAX_TRIALS_SHOWN = 10


@dataclass(frozen=True)
class SearchOptions:
    """The options for the search space, the number of trials, and the database of the trials."""

    heading: ClassVar = "Search options"

    search: Annotated[list[str], typer.Option(
        "--search", metavar="PATH=RANGE",
        help="Range of a key: log(A,B), uniform(A,B) or values with commas between; repeatable.",
    )]  # fmt: skip
    trials: Annotated[int, typer.Option(
        "--trials", metavar="N", min=1, max=100_000,
        help="Number of trials, including trials of earlier calls.",
    )] = 20  # fmt: skip
    storage: Annotated[str | None, typer.Option(
        "--storage", metavar="URL", help="Optuna database that several processes share.",
        show_default="a file in the folder",
    )] = None  # fmt: skip


@grouped_options
def tune_command(
    config: ConfigFile,
    space: SearchOptions,
    options: RunOptions,
    compute: ComputeOptions,
    quiet: Quiet = False,
) -> None:
    """Search for the hyperparameters with the lowest loss.

    Each trial is a training run of CONFIG with values from the given ranges. The command compares
    the validation losses of the trials. Trials that stay worse than the median stop early. No
    combination of values is tried twice, unless its trial was interrupted. The command writes the
    best values to best.yaml.
    """
    from seqattn.config.searching import plan_search

    check_not_distributed("tune")
    plan = plan_search(config, options.changes, space.search)
    with (
        defer_stop_signals() as stop_request,
        show_progress(plan.name, True, stop_request) as callbacks,
    ):
        from seqattn.experiments import tuning

        stop_request.started = True
        result = tuning.tune(
            plan, options.output_dir, space.trials, storage=space.storage, device=compute.device,
            threads=compute.threads, callbacks=callbacks,
            message=(lambda line: None) if quiet else note,
        )  # fmt: skip
    if not quiet:
        with ignore_closed_pipe():
            _print_trials(result)


def _print_trials(result: TuneResult) -> None:
    from rich.table import Table

    states = [row["state"] for row in result.trials]
    table = Table(
        title=f"{result.path.name}: {counted(len(states) - states.count('interrupted'), 'trial')},"
              f" {states.count('pruned')} pruned, {states.count('fail')} failed,"
              f" {states.count('refused')} refused",
        title_justify="left",
    )  # fmt: skip
    keys = list(result.best)
    short = [key.rpartition(".")[2] for key in keys]
    names = short if len(set(short)) == len(keys) else keys
    for heading in ("trial", "validation loss", *names):
        table.add_column(heading, justify="right")
    for row in [row for row in result.trials if row["state"] == "complete"][:MAX_TRIALS_SHOWN]:
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value)
                 for value in (row["values"].get(key) for key in keys)]  # fmt: skip
        table.add_row(str(row["trial"]), f"{row['loss']:.4g}", *cells)
    console = plain_console()
    console.print(table)
    lines = []
    if result.importance:
        shares = ", ".join(f"{key} {share:.0%}" for key, share in result.importance.items())
        lines.append(f"Importance of the keys: {shares}.")
    else:
        lines.append(result.no_importance)
    lines += [
        "Each trial has one seed. Train many seeds of the best before you draw conclusions.",
        f"Files are in {result.path}: best.yaml, trials.csv"
        f"{', importance.png' if result.importance else ''}, ... Next:",
        f"  seqattn train {shlex.quote(str(result.path / 'best.yaml'))} --seeds 8",
    ]
    print_lines(lines)
