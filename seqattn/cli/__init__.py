"""The command-line interface: commands, options, progress, tables and exit codes.

A command imports heavy libraries only when the command runs, so `--help` is fast. An error that a
user can correct is a `SeqattnError`. The program prints the message of the error without a
traceback, and exits with the exit code of the error.
"""

from __future__ import annotations

import copy
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from seqattn.cli.attributing import attribute_command
from seqattn.cli.checkpoints import inspect, verify_resume_command
from seqattn.cli.comparing import compare_command
from seqattn.cli.completion import join_bash_words
from seqattn.cli.configs import config_app
from seqattn.cli.data import data_app
from seqattn.cli.explaining import explain_command
from seqattn.cli.exporting import export_command
from seqattn.cli.help_pages import CommandIndex, CommandPage
from seqattn.cli.output import flush_stdout, note, print_key_warnings, set_encoding, show
from seqattn.cli.plotting import plot_attention
from seqattn.cli.plugin_checks import check_plugin_command
from seqattn.cli.predicting import evaluate_command, predict
from seqattn.cli.reporting import doctor, report_command
from seqattn.cli.starters import init_command
from seqattn.cli.stop_signals import end_on_closed_pipe, exit_on_signal
from seqattn.cli.tables import table_command
from seqattn.cli.training import train_command
from seqattn.cli.tuning import tune_command
from seqattn.errors import SeqattnError, StorageError

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

LOW_OPEN_FILES = 200
"""A smaller limit on open files is raised, or refused, before the command runs."""

app = typer.Typer(
    cls=CommandIndex,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help pages avoid the slow import of rich
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learn, teach and research attention in sequence-to-sequence models.",
)


def _add(heading: str, name: str, command: Callable[..., None], arguments: str) -> None:
    """Add a command to the program.

    Args:
        heading: the heading of the command in the list of commands.
        name: the name of the command.
        command: the function that runs the command.
        arguments: the arguments of the example at the end of the help page.
    """
    add = app.command(
        name, cls=CommandPage, rich_help_panel=heading, epilog=f"seqattn {name} {arguments}"
    )
    add(command)


_add("Train", "init", init_command, "my --from own-data")
_add("Train", "train", train_command, "squares --set training.epochs=50")
_add("Train", "compare", compare_command,
     "notebook --vary model.cell=gru,lstm --name cells")  # fmt: skip
_add("Train", "tune", tune_command,
     "notebook --search model.hidden_dim=2,8 --name widths")  # fmt: skip
_add("Train", "verify-resume", verify_resume_command, "squares --set training.epochs=5")
_add("Use a run", "evaluate", evaluate_command, "outputs/squares --json")
_add("Use a run", "predict", predict, "outputs/squares --example 0 --output next.csv")
_add("Use a run", "export", export_command, "outputs/squares --output exported")
_add("Understand a run", "plot-attention", plot_attention,
     "outputs/squares --examples 3 --output attention.pdf")  # fmt: skip
_add("Understand a run", "explain", explain_command,
     "outputs/squares --example 3 --step 2 --figure step.png")  # fmt: skip
_add("Understand a run", "attribute", attribute_command,
     "outputs/squares --example 3 --figure parts.png")  # fmt: skip
_add("Understand a run", "doctor", doctor, "outputs/squares")
_add("Understand a run", "report", report_command, "outputs/squares")
_add("Understand a run", "table", table_command,
     "outputs/cells --format latex --output cells.tex")  # fmt: skip
_add("Understand a run", "inspect", inspect, "outputs/squares/checkpoints/last.safetensors")
_add("Extend", "check-plugin", check_plugin_command, "examples/plugins/bilinear_tanh.py")
app.add_typer(config_app, name="config", rich_help_panel="Configs and data")
app.add_typer(data_app, name="data", rich_help_panel="Configs and data")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from seqattn import __version__

        end_on_closed_pipe()
        show(f"seqattn {__version__}")
        raise typer.Exit


@app.callback()
def _program_options(
    version: Annotated[bool, typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    )] = False,
) -> None:  # fmt: skip
    pass


def main() -> None:
    """Run the command given on the command line, and exit with a documented exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _handle_signal)
    set_encoding()
    join_bash_words()
    print_key_warnings()
    try:
        try:
            if resource and resource.getrlimit(resource.RLIMIT_NOFILE)[0] in range(LOW_OPEN_FILES):
                from seqattn.runs.storage import allow_open_files  # a slow import

                allow_open_files()
            _program_with(sys.argv[1:2])(prog_name="seqattn")
        finally:
            flush_stdout()
    except SeqattnError as error:
        _fail(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(StorageError(f"{place}{error.strerror or error}."))


def _program_with(names: list[str]) -> typer.Typer:
    """Return the program with only the given commands, or the whole program if a name is not that
    of a command. Typer builds all commands of a program before it runs one, which takes 0.05
    seconds for the whole program."""
    program = copy.copy(app)
    program.registered_commands = [each for each in app.registered_commands if each.name in names]
    program.registered_groups = [each for each in app.registered_groups if each.name in names]
    return program if program.registered_commands or program.registered_groups else app


def _handle_signal(number: int, frame: Any) -> None:
    # The handler raises no exception, because a library that is being imported might catch it.
    exit_on_signal(number, "stopped.")


def _fail(error: SeqattnError) -> None:
    note(f"seqattn: {error}")
    sys.exit(error.exit_code)
