"""The command `seqattn explain`, which prints the arithmetic of one attention step as tables,
Markdown or JSON."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from seqattn.cli.argument_checks import example_slice, protected_files, require_attention
from seqattn.cli.options import RunArgument, grouped_options
from seqattn.cli.output import escape_controls, note, plain_console, show, write_data
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import UsageError, counted

if TYPE_CHECKING:
    from seqattn.analysis.explanation import Explanation, Stage
    from seqattn.data import DataSpec, Sequences
    from seqattn.data.units import Units

MAX_COLUMNS = 8
"""A table with more columns than this is transposed if it has fewer rows than columns."""
LEFT_OUT = "..."
CONSOLE_WIDTH = 10_000
MAX_FEATURES_SHOWN = 8
MAX_SOURCES, SHORT_LIST = 20, 5
"""The tables of a source of more than `MAX_SOURCES` steps have the `SHORT_LIST` steps with the
largest weights."""
MAX_NUMBERS, FIRST_NUMBERS = 32, 6
"""The tables of a vector with more than `MAX_NUMBERS` numbers have the `FIRST_NUMBERS` first ones.
For a long source, this holds for every vector with more than `MAX_COLUMNS` numbers."""
ExplanationFormat = Literal["table", "markdown", "json"]


@dataclass(frozen=True)
class DataUnits:
    """The output of the model in the units of the data, and the scaling of the model's input.

    Attributes:
        output: the output of the model, in the units of the data, by target feature.
        scaling: a description of the scaling in words.
        source: the pair (shift, scale) of each source feature, by feature name. The input of the
            model is (value - shift) / scale.
        units: the unit of each feature, by feature name. A feature without a unit has no entry.
    """

    output: dict[str, float]
    scaling: str
    source: dict[str, tuple[float, float]]
    units: Units

    @classmethod
    def of(cls, spec: DataSpec, sequence: Sequences, output: list[float]) -> DataUnits:
        """Convert the output for a sequence to the units of the data, and describe the scaling.

        Args:
            spec: the specification of the training data, including the scaling.
            sequence: the sequence to which the explained step belongs.
            output: the scaled output of the model, with one number for each target feature.
        """
        import numpy as np

        scaling = spec.vectors[0].scaling
        unscaled = sequence.decode(np.array([[output]])).ravel().tolist()
        instance, _ = sequence.sequence_scalers()
        shift = instance.inverse_transform(scaling.shift).ravel().tolist()
        scale = (instance.scale * scaling.scale).ravel().tolist()
        description = "scaled"
        if scaling.relative:
            description = "differences from the last source step, scaled"
        if scaling.instance:
            description = "normalized by mean and standard deviation of this source"
        pairs = zip(shift, scale, strict=True)
        return cls(
            dict(zip(sequence.target_features, unscaled, strict=True)), description,
            dict(zip(sequence.features, pairs, strict=True)), spec.units,
        )  # fmt: skip

    @property
    def sentence(self) -> str:
        formulas = [
            f"({name} - {shift:g}) / {scale:g}" for name, (shift, scale) in self.source.items()
        ]
        more = ["..."] if len(formulas) > MAX_FEATURES_SHOWN else []
        shown = ", ".join(formulas[:MAX_FEATURES_SHOWN] + more)
        return f"the numbers above are {self.scaling}: {shown}"


@dataclass(frozen=True)
class StepOptions:
    """The options that select the attention step to explain."""

    heading: ClassVar = "Step options"

    example: Annotated[
        int, typer.Option("--example", metavar="K", help="Test sequence K of the run, from 0.")
    ] = 0
    step: Annotated[
        int, typer.Option("--step", metavar="T", help="Step of the forecast, from 1.")
    ] = 1
    layer: Annotated[
        int, typer.Option("--layer", metavar="L", help="Decoder layer of a Transformer, from 1.")
    ] = 1
    head: Annotated[int, typer.Option("--head", metavar="A", help="Attention head, from 1.")] = 1
    top: Annotated[int | None, typer.Option(
        "--top", metavar="N", min=1, help="Print only the N source steps with the largest weights.",
        show_default=f"all, or {SHORT_LIST} of more than {MAX_SOURCES}",
    )] = None  # fmt: skip
    numbers: Annotated[int | None, typer.Option(
        "--numbers", metavar="N", min=1, help="Print only the first N numbers of each vector.",
        show_default=f"all, or {FIRST_NUMBERS} of more than {MAX_NUMBERS}",
    )] = None  # fmt: skip


@grouped_options
def explain_command(
    run: RunArgument,
    options: StepOptions,
    form: Annotated[
        ExplanationFormat, typer.Option("--format", help="Format of the output.")
    ] = "table",
    figure: Annotated[Path | None, typer.Option(
        "--figure", metavar="FILE.png|svg|pdf", help="Also draw query, keys and context."
    )] = None,
) -> None:  # fmt: skip
    """Explain one attention step number by number.

    The command prints the keys, query, scores, weights, context and output. You can compute each
    number from the numbers printed above it. The end of the output lists the exceptions.
    """
    from seqattn.runs.storage import check_outputs

    if figure is not None:
        from seqattn.plots import run_pictures

        run_pictures.picture_ending(figure)
    check_outputs({"--figure": figure}, protected_files(run))
    for option, value in (("--top", options.top), ("--numbers", options.numbers)):
        if value is not None and form == "json":
            raise UsageError(f"{option} shortens the tables; --format json has every number.")

    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.analysis.explanation import explain
    from seqattn.data.writing import forecast_arrays
    from seqattn.runs.array_files import sequence_titles

    _, trained = open_run(run)
    require_attention(run, trained.config.model)
    part, step = load_splits(trained).test, options.step
    sequence = part.select(example_slice(options.example, len(part)))
    steps = int(sequence.target_lengths[0])
    symbols = trained.spec.source.symbols, trained.spec.target.symbols
    if not 1 <= step <= steps and not (step > steps and symbols[1]):  # an output may be longer
        raise UsageError(
            f"--step {step}: test sequence {options.example} has {counted(steps, 'target step')}."
            f" Give a step of 1 to {steps}."
        )
    scaled, _ = sequence.encode()
    source = scaled[0, : sequence.source_lengths[0]].astype("float64")
    arrays = forecast_arrays(sequence, sequence.target, with_target=False)
    title = sequence_titles(arrays)[0]
    if symbols[0]:
        title = f"{title}: {trained.spec.source.text(source)}"
    explanation = explain(
        trained.model, source, step=step, layer=options.layer - 1, head=options.head - 1,
        features=trained.spec.source_features, target_features=trained.spec.target_features,
        symbols=symbols, title=title.replace("\n", ", "),
    )  # fmt: skip
    units = None
    if not sequence.is_identity:
        units = DataUnits.of(trained.spec, sequence, explanation.model_prediction)
    if figure is not None:
        _draw_vectors(explanation, figure)
    end_on_closed_pipe()
    print_explanation(explanation, form, units, options.top, options.numbers)


def _draw_vectors(explanation: Explanation, path: Path) -> None:
    from seqattn.plots import run_pictures, vectors_figure

    vectors = explanation.vectors
    if not vectors:
        raise UsageError("--figure: this model explains no query, keys and values to draw.")
    figure = vectors_figure(
        vectors.get("query"), vectors["keys"], vectors["values"], vectors["context"],
        vectors["weights"], title=explanation.title, scores=explanation.score_columns,
        signed=explanation.has_strengths, names=explanation.vector_names,
    )  # fmt: skip
    run_pictures.save(figure, path)
    note(f"Drew {path}")


def print_explanation(
    explanation: Explanation, form: str, units: DataUnits | None = None, top: int | None = None,
    numbers: int | None = None,
) -> None:  # fmt: skip
    """Print an explanation.

    Args:
        explanation: the explanation.
        form: "table", "markdown" or "json".
        units: the output in the units of the data, and the scaling; None if the data are not
            scaled.
        top: the number of source steps in the tables; None for the default.
        numbers: how many numbers of a vector are in the tables; None for the default.
    """
    if form == "json":
        content: dict[str, Any] = {
            "title": explanation.title,
            "stages": [asdict(stage) for stage in explanation.stages],
            "said": explanation.prediction,
            "model_says": explanation.model_prediction,
        }
        if explanation.symbols:
            content["symbols"] = explanation.symbols
        if units is not None:
            content["model_says_in_units"] = {
                name: float(f"{x:g}") for name, x in units.output.items()
            }
            content["units"] = dict(units.units)
            content["source_units"] = {
                name: {"shift": shift, "scale": scale}
                for name, (shift, scale) in units.source.items()
            }
        write_data(json.dumps(content, indent=2) + "\n")
    elif form == "markdown":
        write_data("\n".join(_markdown_lines(*_shorten(explanation, top, numbers), units)) + "\n")
    else:
        _print_tables(*_shorten(explanation, top, numbers), units)


def _shorten(
    explanation: Explanation, top: int | None, numbers: int | None
) -> tuple[Explanation, str]:
    """Return an explanation with shorter tables, and sentences about what they leave out; "" if
    they leave out nothing."""
    longest = max((_count_numbers(stage) for stage in explanation.stages), default=0)
    some_steps, about_steps = _select_steps(explanation, top)
    limit = MAX_COLUMNS if about_steps else MAX_NUMBERS
    stages = [
        _select_numbers(stage, limit, FIRST_NUMBERS) if numbers is None
        else _select_numbers(stage, numbers, numbers)
        for stage in some_steps.stages
    ]  # fmt: skip
    if stages == some_steps.stages:
        return some_steps, about_steps
    about_numbers = (
        "Of longer vectors, the tables have the first"
        f" {counted(numbers or FIRST_NUMBERS, 'number')}, and ... for the others."
        f" --numbers {longest} prints all, and so does --format json."
    )
    return replace(some_steps, stages=stages), f"{about_steps} {about_numbers}".lstrip()


def _count_numbers(stage: Stage) -> int:
    """Return the length of the vectors of a stage, whose columns are numbered from 1; 0 if the
    columns have names."""
    return sum(name.isdigit() for name in stage.columns)


def _select_numbers(stage: Stage, limit: int, first: int) -> Stage:
    """Return a stage with the `first` numbers of its vectors, if they have more than `limit`. A
    column with NaN takes the place of the others."""
    count = _count_numbers(stage)
    if count <= limit:
        return stage
    columns = [*stage.columns[:first], LEFT_OUT, *stage.columns[count:]]
    rows = [(name, [*row[:first], math.nan, *row[count:]]) for name, row in stage.rows]
    return replace(stage, columns=columns, rows=rows)


def _select_steps(explanation: Explanation, top: int | None) -> tuple[Explanation, str]:
    """Return an explanation with only the source steps of largest absolute weight in its stages,
    and a sentence about the others; "" if there are none."""
    rows, weights = explanation.weight_rows, explanation.vectors.get("weights", ())
    shown = top or (SHORT_LIST if len(rows) > MAX_SOURCES else len(rows))
    if shown >= len(rows):
        return explanation, ""
    order = sorted(range(len(rows)), key=lambda k: -abs(weights[k]))
    hidden = {rows[k] for k in order[shown:]}
    stages = [
        replace(stage, rows=[(name, numbers) for name, numbers in stage.rows if name not in hidden])
        for stage in explanation.stages
    ]
    rest = sum(float(weights[k]) for k in order[shown:])
    noun = "read strength" if explanation.has_strengths else "weight"
    sentence = (
        f"The tables have the {shown} of {len(rows)} steps with the largest weights. The other"
        f" {len(hidden)} have together the {noun} {rest:.4f}. Sums are over all {len(rows)}."
        f" --top {len(rows)} prints all."
    )
    return replace(explanation, stages=stages), sentence


def _cells(stage: Stage) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of a stage. A table with more than
    `MAX_COLUMNS` columns is transposed if it has fewer rows than columns."""
    from seqattn.analysis.explanation import format_printed

    headings = ["", *stage.columns]
    rows = [
        [name, *(LEFT_OUT if column == LEFT_OUT else format_printed(number)
                 for column, number in zip(stage.columns, numbers, strict=True))]
        for name, numbers in stage.rows
    ]  # fmt: skip
    if len(stage.columns) > MAX_COLUMNS and len(stage.rows) < len(stage.columns):
        transposed = [list(line) for line in zip(headings, *rows, strict=True)]
        return transposed[0], transposed[1:]
    return headings, rows


def _conclusion(explanation: Explanation, left_out: str, units: DataUnits | None) -> str:
    from seqattn.analysis.explanation import format_printed

    numbers = [format_printed(x) for x in explanation.model_prediction]
    if explanation.symbols:
        pairs = zip(explanation.symbols, numbers, strict=True)
        numbers = [f"{symbol!r} with probability {number}" for symbol, number in pairs]
    output = ", ".join(numbers)
    if units is not None:
        unscaled = ", ".join(
            f"{name} {x:g} {units.units.get(name, '')}".rstrip() for name, x in units.output.items()
        )
        output += f", which is {unscaled} in the units of the data; {units.sentence}"
    if not explanation.prediction:
        return f"The final output of the model is {output}."
    names, which = explanation.computed_by_model, ", printed or left out" if left_out else ""
    return (
        f"The output of the model, without rounding, is {output}. Every number above follows from"
        f" {'' if left_out else 'printed '}numbers before it{which}, except those that the model"
        f" computed from parameters that are not printed: {'; '.join(names)}."
    )


def _folded(stage: Stage) -> list[Stage]:
    """Return a vector with many numbers as several rows of `MAX_COLUMNS`, each with its own
    headings. Any other stage stays as it is."""
    if len(stage.rows) > 1 or len(stage.columns) <= MAX_COLUMNS:
        return [stage]
    ((name, numbers),) = stage.rows
    return [
        replace(stage, columns=stage.columns[k : k + MAX_COLUMNS],
                rows=[(name, numbers[k : k + MAX_COLUMNS])])
        for k in range(0, len(numbers), MAX_COLUMNS)
    ]  # fmt: skip


def _print_tables(explanation: Explanation, left_out: str, units: DataUnits | None) -> None:
    from rich.table import Table
    from rich.text import Text

    # With this width, the terminal wraps wide tables. With the width of the terminal, Rich would
    # shorten the numbers.
    console = plain_console(width=CONSOLE_WIDTH)
    console.print(Text(escape_controls(explanation.title), style="bold"))
    if left_out:
        show(textwrap.fill(left_out, 80))
    for stage in explanation.stages:
        console.print()
        name = Text(escape_controls(stage.name), style="bold")
        console.print(name + (escape_controls(f":  {stage.formula}") if stage.formula else ""))
        for part in _folded(stage):
            headings, rows = _cells(part)
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
            table.add_column(headings[0], no_wrap=True)
            for heading in headings[1:]:
                table.add_column(heading, justify="right", no_wrap=True)
            for row in rows:
                table.add_row(*row)
            console.print(table)
    console.print()
    show(textwrap.fill(_conclusion(explanation, left_out, units), 80))


def _markdown_lines(explanation: Explanation, left_out: str, units: DataUnits | None) -> list[str]:
    def escape(text: str) -> str:
        return text.replace("|", "\\|").replace("<", "&lt;")

    lines = [f"# {explanation.title}", *(["", left_out] if left_out else [])]
    for stage in explanation.stages:
        lines += ["", f"## {stage.name}", ""]
        if stage.formula:
            lines += [f"`{stage.formula}`", ""]
        headings, rows = _cells(stage)
        lines.append("| " + " | ".join(map(escape, headings)) + " |")
        lines.append("| --- |" + " ---: |" * (len(headings) - 1))
        lines += ["| " + " | ".join(map(escape, row)) + " |" for row in rows]
    return [*lines, "", _conclusion(explanation, left_out, units)]
