"""The only door for people: options, progress, tables, exit codes.

Heavy libraries are imported inside the commands, so `--help` answers at once. What goes wrong
in a way that a user can mend is a `SeqattnError`: its message is printed without a traceback,
and its exit code ends the process.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from seqattn.cli.checkpoints import inspect, verify_resume
from seqattn.cli.comparing import compare
from seqattn.cli.configs import config_app
from seqattn.cli.data import data_app
from seqattn.cli.explaining import explain
from seqattn.cli.exporting import export
from seqattn.cli.output import leave_with_the_reader, note, prepare_streams, show, show_renamed_keys
from seqattn.cli.plotting import plot_attention
from seqattn.cli.predicting import evaluate, predict
from seqattn.cli.reporting import doctor, report
from seqattn.cli.terminal import leave_at_once
from seqattn.cli.training import train
from seqattn.cli.tuning import tune
from seqattn.errors import SeqattnError, StorageError

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


def _add(command: Callable[..., None], summary: str, example: str) -> None:
    """
    Args:
        example: words after the command's name.
    """
    name = command.__name__.replace("_", "-")
    app.command(name, short_help=summary, epilog=f"Example: seqattn {name} {example}")(command)


# fmt: off
_add(inspect, "Show what is in a checkpoint.", "outputs/squares/checkpoints/last.safetensors")
_add(verify_resume, "Show that stopping and resuming changes nothing.",
     "configs/squares.yaml --set training.epochs=5")
_add(plot_attention, "Draw where the model looked.", "outputs/squares --output where.pdf")
_add(report, "Write a run or a comparison as one page to explore.", "outputs/squares")
_add(doctor, "Say in words what a run's weights and losses show.", "outputs/squares")
_add(export, "Write a run for other programs: ONNX or safetensors.",
     "outputs/squares --output exported")
_add(train, "Train what a config describes; leave a run folder.",
     "configs/squares.yaml --set training.epochs=50")
_add(compare, "Compare variants of a config over many seeds.",
     "configs/notebook.yaml --vary model.attention.score=dot,additive --seeds 16")
_add(tune, "Search for the values that learn best.",
     "configs/squares.yaml --trials 20 --search 'training.learning_rate=log(1e-4,1e-1)'")
_add(predict, "Continue sequences: your own or the run's.",
     "outputs/squares --input my.csv --output next.csv")
_add(explain, "Show the arithmetic of one attention step.",
     "outputs/notebook --example 3 --step 2 --figure step.png")
_add(evaluate, "Score a run beside baselines and noise floor.", "outputs/squares --json")
# fmt: on


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
