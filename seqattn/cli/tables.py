"""The command `seqattn table`, which prints results as LaTeX, Markdown or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqattn.cli.argument_checks import protected_files
from seqattn.cli.output import note, open_text_output
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.analysis.comparison import ComparisonResult
    from seqattn.analysis.comparison.formats import TableRows

FormatName = Literal["latex", "markdown", "csv"]
RowsOption = Annotated[Literal["variants", "runs", "pairs"] | None, typer.Option(
    "--rows", help="Rows of the table.",
    show_default="runs for run folders, otherwise variants",
)]  # fmt: skip


def table_command(
    folders: Annotated[list[Path], typer.Argument(
        metavar="FOLDER...", help="Comparison folder, folder of many seeds, or run folders.",
    )],
    table_format: Annotated[FormatName, typer.Option(
        "--format", help="Format of the table."
    )] = "markdown",
    rows: RowsOption = None,
    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE", help="File of the table.", show_default="standard output",
    )] = None,
) -> None:  # fmt: skip
    """Print a table of results as LaTeX, Markdown or CSV.

    LaTeX and Markdown contain the table that `seqattn compare` prints, with rows for the noise
    floor and the baselines. CSV contains all digits. The LaTeX table needs the package booktabs.
    """
    from seqattn.analysis.comparison import read_results
    from seqattn.runs.storage import check_outputs

    inputs = {name: file for each in folders for name, file in protected_files(each).items()}
    check_outputs({"--output": output}, inputs)
    result = read_results(folders)
    chosen = rows or ("runs" if all((each / "config.yaml").is_file() for each in folders)
                      else "variants")  # fmt: skip
    if chosen == "pairs" and not result.pairs:
        raise UsageError(
            "--rows pairs: there is no pair of variants with two common seeds or more. Give the"
            " folder of a comparison."
        )
    write_table(result, table_format, chosen, output)


def write_table(
    result: ComparisonResult, table_format: FormatName, rows: TableRows, output: Path | None = None
) -> None:
    """Write a table of results to a file, or to standard output if `output` is None."""
    from seqattn.analysis.comparison.formats import table_text

    if output is None:
        end_on_closed_pipe()
    with open_text_output(output) as file:
        file.write(table_text(result, table_format, rows))
    if output is not None:
        note(f"Wrote {output}")
