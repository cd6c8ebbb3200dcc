"""`seqattn explain`: one attention step on the terminal, as Markdown or as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqattn.cli.arguments import Run, checked_example, files_read
from seqattn.cli.output import (
    leave_with_the_reader,
    note,
    plain_console,
    printable,
    show,
    write_data,
)
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.explanation import Explanation, Stage

WIDE = 8
WIDEST = 10_000


class Shape(StrEnum):
    """How an explanation is written."""

    table = "table"
    markdown = "markdown"
    json = "json"


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
    sum and what is said. Each number follows from printed ones above it, or is named at the end."""
    import numpy as np

    from seqattn import pictures
    from seqattn.user_files import check_outputs

    if figure is not None:
        pictures.picture_ending(figure)
    check_outputs({"--figure": figure}, files_read(run))

    from seqattn.data.files.writing import forecast_arrays
    from seqattn.experiment import data_of, open_run
    from seqattn.explanation import explain as take_apart

    _, trained = open_run(run)
    if not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    part = data_of(trained).test
    chosen = part.only(checked_example(example, len(part)))
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
    if figure is not None:
        _draw(explanation, figure)
    leave_with_the_reader()
    print_explanation(explanation, form.value, in_units)


def _draw(explanation: Explanation, figure: Path) -> None:
    from seqattn import pictures
    from seqattn.figures import vectors_figure

    vectors = explanation.vectors
    drawn = vectors_figure(
        vectors.get("query"), vectors["keys"], vectors["values"], vectors["context"],
        vectors["weights"], title=explanation.title, cosines=explanation.cosines,
    )  # fmt: skip
    pictures.save(drawn, figure)
    note(f"Drew {figure}")


def print_explanation(
    explanation: Explanation, form: str, in_units: dict[str, float] | None = None
) -> None:
    """Write it to standard output as table, markdown or json.

    Args:
        in_units: what the model says in the data's own units, where it works in scaled numbers.
    """
    if form == "json":
        described: dict[str, Any] = {
            "title": explanation.title,
            "stages": [asdict(stage) for stage in explanation.stages],
            "said": explanation.said,
            "model_says": explanation.model_says,
        }
        if in_units is not None:
            described["model_says_in_units"] = in_units
        write_data(json.dumps(described, indent=2) + "\n")
    elif form == "markdown":
        write_data("\n".join(_markdown(explanation, in_units)) + "\n")
    else:
        _tables(explanation, in_units)


def _cells(stage: Stage) -> tuple[list[str], list[list[str]]]:
    """Heads and rows; wide tables stand on their side."""
    from seqattn.explanation import DECIMALS

    heads = ["", *stage.columns]
    rows = [[name, *(f"{x:.{DECIMALS}f}" for x in numbers)] for name, numbers in stage.rows]
    if len(stage.columns) > WIDE and len(stage.rows) < len(stage.columns):
        whole = [list(line) for line in zip(heads, *rows, strict=True)]
        return whole[0], whole[1:]
    return heads, rows


def _conclusion(explanation: Explanation, in_units: dict[str, float] | None) -> str:
    from seqattn.explanation import DECIMALS

    says = ", ".join(f"{x:.{DECIMALS}f}" for x in explanation.model_says)
    if in_units is not None:
        own = ", ".join(f"{name} {x:g}" for name, x in in_units.items())
        says += f", which is {own} in the units of the data; the numbers above are scaled"
    if not explanation.said:
        return f"In the end the model says {says}."
    names = explanation.computed_by_model
    return (
        f"The model itself, which rounds nothing, says {says}. Every number above follows from the"
        " printed ones before it, except those that the model computed from parameters that are"
        f" not printed: {'; '.join(names)}."
    )


def _tables(explanation: Explanation, in_units: dict[str, float] | None) -> None:
    from rich.table import Table
    from rich.text import Text

    # No number is ever shortened: a table that is too wide is for the terminal to wrap.
    console = plain_console(width=WIDEST)
    console.print(Text(printable(explanation.title), style="bold"))
    for stage in explanation.stages:
        console.print()
        heading = Text(printable(stage.name), style="bold")
        console.print(heading + (printable(f":  {stage.formula}") if stage.formula else ""))
        heads, rows = _cells(stage)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(heads[0], no_wrap=True)
        for head in heads[1:]:
            table.add_column(head, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print()
    show(textwrap.fill(_conclusion(explanation, in_units), 80))


def _markdown(explanation: Explanation, in_units: dict[str, float] | None) -> list[str]:
    def escaped(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;")

    lines = [f"# {explanation.title}"]
    for stage in explanation.stages:
        lines += ["", f"## {stage.name}", ""]
        if stage.formula:
            lines += [f"`{stage.formula}`", ""]
        heads, rows = _cells(stage)
        lines.append("| " + " | ".join(map(escaped, heads)) + " |")
        lines.append("| --- |" + " ---: |" * (len(heads) - 1))
        lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return [*lines, "", _conclusion(explanation, in_units)]
