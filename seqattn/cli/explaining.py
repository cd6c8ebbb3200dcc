"""`seqattn explain`: one attention step on the terminal, as Markdown or as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqattn.cli.checks import checked_example, files_read
from seqattn.cli.options import Run
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
    from seqattn.analysis.explanation import Explanation, Stage
    from seqattn.data import DataSpec, Sequences
    from seqattn.data.units import Units

WIDE = 8
WIDEST = 10_000
MOST_SHOWN = 8


Shape = Literal["table", "markdown", "json"]


@dataclass(frozen=True)
class OwnUnits:
    """How the numbers of an explanation follow from the data's own.

    Attributes:
        says: what the model says, in the data's units.
        how: in words, what numbers the model got.
        source: feature -> (shift, scale): the model got (value - shift) / scale.
        units: of the features that have one.
    """

    says: dict[str, float]
    how: str
    source: dict[str, tuple[float, float]]
    units: Units

    @classmethod
    def of(cls, spec: DataSpec, chosen: Sequences, model_says: list[float]) -> OwnUnits:
        """
        Args:
            chosen: the one sequence that is explained.
            model_says: in the model's units.
        """
        import numpy as np

        scaling = spec.scaling
        said = scaling.inverse_transform(np.array([[model_says]]), chosen).ravel().tolist()
        own, _ = scaling.sequence_scalers(chosen)
        shift = own.inverse_transform(scaling.source.shift).ravel().tolist()
        scale = (own.scale * scaling.source.scale).ravel().tolist()
        how = "scaled"
        if scaling.relative:
            how = "differences from the last source point, scaled"
        if scaling.instance:
            how = "this source normalized by its own mean and standard deviation"
        pairs = zip(shift, scale, strict=True)
        return cls(
            dict(zip(chosen.target_features, said, strict=True)), how,
            dict(zip(chosen.features, pairs, strict=True)), spec.units,
        )  # fmt: skip

    @property
    def words(self) -> str:
        shown = [
            f"({name} - {shift:g}) / {scale:g}" for name, (shift, scale) in self.source.items()
        ]
        more = ["..."] if len(shown) > MOST_SHOWN else []
        return f"the numbers above are {self.how}: {', '.join(shown[:MOST_SHOWN] + more)}"


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
    form: Annotated[Shape, typer.Option("--format", help="How to write it.")] = "table",
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", metavar="FILE.png|svg|pdf", help="Draw query, keys and context, too."
        ),
    ] = None,
) -> None:
    """Take one attention step of a trained model apart: keys, query, scores, weights, the weighted
    sum and the output. Each number follows from printed ones above it, or is named at the end."""
    from seqattn.plots import run_pictures
    from seqattn.runs.output_files import check_outputs

    if figure is not None:
        run_pictures.picture_ending(figure)
    check_outputs({"--figure": figure}, files_read(run))

    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.analysis.explanation import explain as take_apart
    from seqattn.data.files.writing import forecast_arrays

    _, trained = open_run(run)
    if not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    part = load_splits(trained).test
    chosen = part.select(checked_example(example, len(part)))
    steps = int(chosen.target_lengths[0])
    if not 1 <= step <= steps:
        raise UsageError(
            f"--step {step}: test sequence {example} has {steps} target steps, so T must lie within"
            f" 1 and {steps}."
        )
    scaled, _ = trained.spec.scaling.transform(chosen)
    source = scaled[0, : chosen.source_lengths[0]].astype("float64")
    described = forecast_arrays(chosen, chosen.target, with_target=False)
    title = run_pictures.sequence_titles(described)[0]
    explanation = take_apart(
        trained.model, source, step=step, layer=layer, head=head,
        features=trained.spec.source_features, target_features=trained.spec.target_features,
        title=title.replace("\n", ", "),
    )  # fmt: skip
    own = None
    if not trained.spec.scaling.is_identity:
        own = OwnUnits.of(trained.spec, chosen, explanation.model_prediction)
    if figure is not None:
        _draw(explanation, figure)
    leave_with_the_reader()
    print_explanation(explanation, form, own)


def _draw(explanation: Explanation, figure: Path) -> None:
    from seqattn.plots import run_pictures, vectors_figure

    vectors = explanation.vectors
    drawn = vectors_figure(
        vectors.get("query"), vectors["keys"], vectors["values"], vectors["context"],
        vectors["weights"], title=explanation.title, cosines=explanation.cosines,
    )  # fmt: skip
    run_pictures.save(drawn, figure)
    note(f"Drew {figure}")


def print_explanation(explanation: Explanation, form: str, own: OwnUnits | None = None) -> None:
    """Write it to standard output as table, markdown or json.

    Args:
        own: where the model works in scaled numbers, what they are in the data's own units.
    """
    if form == "json":
        described: dict[str, Any] = {
            "title": explanation.title,
            "stages": [asdict(stage) for stage in explanation.stages],
            "said": explanation.prediction,
            "model_says": explanation.model_prediction,
        }
        if own is not None:
            described["model_says_in_units"] = own.says
            described["units"] = dict(own.units)
            described["source_units"] = {
                name: {"shift": shift, "scale": scale}
                for name, (shift, scale) in own.source.items()
            }
        write_data(json.dumps(described, indent=2) + "\n")
    elif form == "markdown":
        write_data("\n".join(_markdown(explanation, own)) + "\n")
    else:
        _tables(explanation, own)


def _cells(stage: Stage) -> tuple[list[str], list[list[str]]]:
    """Heads and rows; wide tables stand on their side."""
    from seqattn.analysis.explanation import DECIMALS

    heads = ["", *stage.columns]
    rows = [[name, *(f"{x:.{DECIMALS}f}" for x in numbers)] for name, numbers in stage.rows]
    if len(stage.columns) > WIDE and len(stage.rows) < len(stage.columns):
        whole = [list(line) for line in zip(heads, *rows, strict=True)]
        return whole[0], whole[1:]
    return heads, rows


def _conclusion(explanation: Explanation, own: OwnUnits | None) -> str:
    from seqattn.analysis.explanation import DECIMALS

    says = ", ".join(f"{x:.{DECIMALS}f}" for x in explanation.model_prediction)
    if own is not None:
        there = ", ".join(
            f"{name} {x:g} {own.units.get(name, '')}".rstrip() for name, x in own.says.items()
        )
        says += f", which is {there} in the units of the data; {own.words}"
    if not explanation.prediction:
        return f"In the end the model says {says}."
    names = explanation.computed_by_model
    return (
        f"The model itself, which rounds nothing, says {says}. Every number above follows from the"
        " printed ones before it, except those that the model computed from parameters that are"
        f" not printed: {'; '.join(names)}."
    )


def _tables(explanation: Explanation, own: OwnUnits | None) -> None:
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
    show(textwrap.fill(_conclusion(explanation, own), 80))


def _markdown(explanation: Explanation, own: OwnUnits | None) -> list[str]:
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
    return [*lines, "", _conclusion(explanation, own)]
