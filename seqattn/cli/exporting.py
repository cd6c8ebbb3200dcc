"""A run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqattn.cli.options import Quiet, Run, StepCount
from seqattn.cli.output import after_the_work, note, plain_console, print_lines

if TYPE_CHECKING:
    from seqattn.export import ExportResult


Form = Literal["onnx", "safetensors"]


def export(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="A folder, which it makes.")
    ],
    form: Annotated[
        Form, typer.Option("--format", help="Graphs, or only weights and config.")
    ] = "onnx",
    steps: StepCount = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Hold the graphs against the model.")
    ] = True,
    int8: Annotated[
        bool, typer.Option("--int8", help="Graphs with weights of one byte, too, and their loss.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the export that is there.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write RUN as ONNX graphs (encoder, one decoder step, free running) that speak the data's own
    units and tell the attention weights, with a card and a runner that needs no torch."""
    from seqattn import export as exporting

    made = exporting.export(
        run, output, export_format=form, steps=steps, check=check, int8=int8, overwrite=overwrite,
        log=(lambda line: None) if quiet else note,
    )  # fmt: skip
    if not quiet:
        with after_the_work():
            _print(made)


def _print(made: ExportResult) -> None:
    from rich.table import Table

    console = plain_console()
    if made.rows:
        table = Table(title="Largest difference from the model, at most 1e-5", title_justify="left")
        for heading in ("graph", "sources"):
            table.add_column(heading)
        kinds = list(made.rows[0].differences)
        for kind in kinds:
            table.add_column(kind, justify="right")
        for row in made.rows:
            cells = [f"{row.differences[kind]:.1e}" for kind in kinds]
            table.add_row(row.graph, row.sources, *cells)
        console.print(table)
        noise = max(row.noise for row in made.rows)
        if max(row.largest for row in made.rows) > 1e-5:
            note(f"More than 1e-5, but the model in float32 is {noise:.1e} from itself in float64.")
    lines = []
    if made.losses:
        said = ", ".join(f"{kind} {loss:.5g}" for kind, loss in made.losses.items())
        lines.append(f"Test loss by the graphs: {said}.")
    for name, size in made.files.items():
        lines.append(f"  {name:<26}{size:>12,} bytes")
    lines.append(f"Everything lies in {made.path}.")
    if "run.py" in made.files:
        lines[-1] += f" Try it: python {made.path / 'run.py'}"
    print_lines(lines)
