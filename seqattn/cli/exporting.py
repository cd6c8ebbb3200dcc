"""The command `seqattn export`, which exports a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqattn.cli.options import Quiet, RunArgument, StepCount
from seqattn.cli.output import ignore_closed_pipe, note, plain_console, print_lines

if TYPE_CHECKING:
    from seqattn.export import ExportResult


ExportFormat = Literal["onnx", "safetensors"]
MAX_DIFFERENCE = 1e-5


def export_command(
    run: RunArgument,
    output: Annotated[
        Path,
        typer.Option("--output", metavar="DIR", help="Folder of the export, created if missing."),
    ],
    form: Annotated[
        ExportFormat, typer.Option("--format", help="ONNX graphs, or only weights and config.")
    ] = "onnx",
    steps: StepCount = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare the graphs with the model.")
    ] = True,
    int8: Annotated[
        bool, typer.Option("--int8", help="Also write int8 graphs, and measure their loss.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing export.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Export a model to ONNX or safetensors.

    The ONNX export contains graphs of the encoder, of one decoder step, and of a free-running
    forecast with the attention weights, if the model has attention. The graphs use the units of the
    data, or the numbers of its symbols. The export also contains a model card, and a script that
    runs the graphs without torch.
    """
    from seqattn.export import export

    exported = export(
        run, output, export_format=form, steps=steps, check=check, int8=int8, overwrite=overwrite,
        log=(lambda line: None) if quiet else note,
    )  # fmt: skip
    if not quiet:
        with ignore_closed_pipe():
            _print_export(exported)


def _print_export(exported: ExportResult) -> None:
    from rich.table import Table

    console = plain_console()
    if exported.rows:
        title = f"Largest difference from the model (limit {MAX_DIFFERENCE:g})"
        table = Table(title=title, title_justify="left")
        for heading in ("graph", "sources"):
            table.add_column(heading)
        kinds = list(exported.rows[0].differences)
        for kind in kinds:
            table.add_column(kind, justify="right")
        for row in exported.rows:
            cells = [f"{row.differences[kind]:.1e}" for kind in kinds]
            table.add_row(row.graph, row.sources, *cells)
        console.print(table)
        noise = max(row.noise for row in exported.rows)
        if max(row.largest for row in exported.rows) > MAX_DIFFERENCE:
            note(f"The difference is above {MAX_DIFFERENCE:g}, but the model itself differs by"
                 f" {noise:.1e} between float32 and float64.")  # fmt: skip
    lines = []
    if exported.losses:
        losses = ", ".join(f"{kind} {loss:.5g}" for kind, loss in exported.losses.items())
        lines.append(f"Test {exported.loss_name} of the graphs: {losses}.")
    for name, size in exported.files.items():
        lines.append(f"  {name:<26}{size:>12,} bytes")
    lines.append(f"Files are in {exported.path}.")
    if "run.py" in exported.files:
        lines[-1] += f" Try them: python {exported.path / 'run.py'}"
    print_lines(lines)
