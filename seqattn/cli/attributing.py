"""The command `seqattn attribute`, which shows what an output depends on beside the attention
weights."""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqattn.cli.argument_checks import example_slice, protected_files
from seqattn.cli.options import RunArgument
from seqattn.cli.output import escape_controls, note, plain_console, show, write_data
from seqattn.cli.stop_signals import end_on_closed_pipe

if TYPE_CHECKING:
    from seqattn.analysis.attributed_run import AttributedSequence, Faithfulness
    from seqattn.data import DataSpec

AttributionFormat = Literal["table", "json"]
DEFAULT_EXAMPLES = 20
SHOWN_FRACTIONS = (1, 3, 5)
"""The tenths of removed steps that the table has."""


def attribute_command(
    run: RunArgument,
    example: Annotated[
        int, typer.Option("--example", metavar="K", help="Test sequence K of the run, from 0.")
    ] = 0,
    examples: Annotated[int, typer.Option(
        "--examples", metavar="N", min=0, help="Also test the first N test sequences; 0 for none.",
    )] = DEFAULT_EXAMPLES,
    form: Annotated[
        AttributionFormat, typer.Option("--format", help="Format of the output.")
    ] = "table",
    figure: Annotated[Path | None, typer.Option(
        "--figure", metavar="FILE.png|svg|pdf", help="Also draw the tables."
    )] = None,
) -> None:  # fmt: skip
    """Show which source steps an output depends on.

    Gradient times input and integrated gradients say how much each source step contributes to each
    output step. The removal of source steps tests whether a method finds the steps that matter. The
    exchange of encoder states shows where the information is.
    """
    from seqattn.runs.storage import check_outputs

    if figure is not None:
        from seqattn.plots import run_pictures

        run_pictures.picture_ending(figure)
    check_outputs({"--figure": figure}, protected_files(run))

    from tqdm import tqdm

    from seqattn.analysis.attributed_run import (
        attribute_sequence,
        measure_faithfulness,
    )
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.data.writing import forecast_arrays
    from seqattn.runs.array_files import sequence_titles

    _, trained = open_run(run)
    part = load_splits(trained).test
    sequence = part.select(example_slice(example, len(part)))
    titles = sequence_titles(forecast_arrays(sequence, sequence.target, with_target=False))
    count, tested = min(examples, len(part)), None
    found = attribute_sequence(trained, part, example)
    if count:
        bar = tqdm(range(count), desc="test sequences", leave=False, disable=None)
        tested = measure_faithfulness(trained, part, bar)
    title = titles[0].replace("\n", ", ")
    if figure is not None:
        from seqattn.plots import run_pictures
        from seqattn.plots.attribution import attribution_figure

        run_pictures.save(attribution_figure(found, tested, title), figure)
        note(f"Drew {figure}")
    end_on_closed_pipe()
    if form == "json":
        write_data(json.dumps(_as_plain(found, tested), indent=2) + "\n")
    else:
        _print_attribution(found, tested, title, trained.spec)


def _as_plain(found: AttributedSequence, tested: Faithfulness | None) -> dict[str, Any]:
    """Return the results for JSON, in which null stands for a number that does not exist."""
    import numpy as np

    def plain(array: Any) -> Any:
        if array is None:
            return None
        values = np.asarray(array).astype(object)
        values[~np.isfinite(array)] = None
        return values.tolist()

    one = found.attribution
    content: dict[str, Any] = {
        "source": found.source_names, "output": found.output_names,
        "attention_weights": plain(one.weights), "gradient_x_input": plain(one.gradient),
        "integrated_gradients": plain(one.integrated), "numbers": plain(one.numbers),
        "numbers_of_zeros": plain(one.at_baseline), "error_of_the_sums": one.error,
        "change_with_restored_state": plain(found.trace), "exchanged_with_example": found.other,
    }  # fmt: skip
    if tested is not None:
        from seqattn.analysis.attribution import FRACTIONS

        content["removal"] = {
            "shares_removed": FRACTIONS.tolist(),
            "changes": {name: plain(each) for name, each in tested.curves.items()},
            "area_above_random": {name: plain(each) for name, each in tested.areas().items()},
            "kendall_tau_with_weights": {
                name: plain(each) for name, each in tested.agreement.items()
            },
        }
    return content


def _print_attribution(
    found: AttributedSequence, tested: Faithfulness | None, title: str, spec: DataSpec
) -> None:
    from seqattn.analysis.attribution import recovered, shares_of_rows
    from seqattn.cli.text_heatmap import print_shares
    from seqattn.data.tokens import SEPARATORS, Tokens

    one, of_text = found.attribution, bool(found.output_names)
    show(escape_controls(title))
    sides = ("source", spec.source, found.source_names), ("output", spec.target, found.output_names)
    for name, space, symbols in sides:
        if isinstance(space, Tokens):
            show(escape_controls(f"{name}: {SEPARATORS[space.unit].join(symbols)}"))
    rows = found.output_names or [f"step {t + 1}" for t in range(len(one.numbers))]
    for name, shares in shares_of_rows(one).items():
        show(f"\n--- {name} ---")
        print_shares(shares, rows, found.source_names, "output step")
    show()
    number = "log-probability of the written symbol" if of_text else "numbers of the output"
    _print_paragraph(
        "A row of the lower two tables has the contributions of the source steps to the"
        f" {number}, as shares of their absolute sum. The integrated gradients themselves sum to"
        " the difference between the output for the source and for zeros, within"
        f" {max(one.error, 1e-15):.1g}."
    )
    if found.trace is not None:
        show("\n--- encoder states ---")
        shares = recovered(found.trace)
        layers = ["input", *(f"layer {k}" for k in range(1, len(shares)))]
        print_shares(shares, layers, found.source_names, "state of")
        _print_paragraph(
            f"The encoder reads the source of test sequence {found.other} instead, except that one"
            " state is that of the true source: the share of the change of the output that this"
            " state takes back. A recurrent decoder starts with the last states of the layers,"
            " which are not exchanged."
        )
    if tested is not None:
        _print_faithfulness(tested, of_text)


def _print_faithfulness(tested: Faithfulness, of_text: bool) -> None:
    from rich.table import Table

    from seqattn.analysis.attributed_run import mean_and_error
    from seqattn.analysis.attribution import RANDOM

    count, areas = len(tested.curves[RANDOM]), tested.areas()
    show(f"\n--- removal of source steps, the first {count} test sequences ---")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("removed first", no_wrap=True)
    headings = [*(f"{10 * k}%" for k in SHOWN_FRACTIONS), "above random"]
    for heading in [*headings, *(["Kendall's tau"] if tested.agreement else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, curves in tested.curves.items():
        mean = curves.mean(axis=0)
        cells = [f"{mean[k]:.3f}" for k in SHOWN_FRACTIONS]
        cells += [_with_error(*mean_and_error(areas[name])) if name in areas else ""]
        if name in tested.agreement:
            cells.append(_with_error(*mean_and_error(tested.agreement[name])))
        table.add_row(name, *cells)
    plain_console().print(table)
    what = (
        "loss of probability of the written symbol" if of_text
        else "distance from the output, in the units of the model"
    )  # fmt: skip
    _print_paragraph(
        f"A cell has the mean {what} when this share of the source steps is replaced by zeros, the"
        " most important first. The area above the curve of random removal is larger if a method"
        " finds the steps that matter. After +- is the standard error of the mean over sequences."
        + (" Kendall's tau holds a method against the attention weights." if tested.agreement
           else "")
    )  # fmt: skip


def _with_error(mean: float, error: float) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:.3f}" + ("" if math.isnan(error) else f" +- {error:.3f}")


def _print_paragraph(text: str) -> None:
    show(textwrap.fill(text, 80, break_on_hyphens=False))
