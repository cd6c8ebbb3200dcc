"""An explanation on the terminal, as Markdown or as JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqattn.explanation import Explanation, Stage

WIDE = 8
WIDEST = 10_000


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
        print(json.dumps(described, indent=2))
    elif form == "markdown":
        print("\n".join(_markdown(explanation, in_units)))
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
    return (
        f"The model itself, which rounds nothing, says {says}. Every number above follows from the"
        " printed ones before it."
    )


def _tables(explanation: Explanation, in_units: dict[str, float] | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # No number is ever shortened: a table that is too wide is for the terminal to wrap.
    console = Console(file=sys.stdout, highlight=False, width=WIDEST)
    console.print(Text(explanation.title, style="bold"))
    for stage in explanation.stages:
        console.print()
        heading = Text(stage.name, style="bold")
        console.print(heading + (f":  {stage.formula}" if stage.formula else ""))
        heads, rows = _cells(stage)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(Text(heads[0]), no_wrap=True)
        for head in heads[1:]:
            table.add_column(Text(head), justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
    console.print()
    print(textwrap.fill(_conclusion(explanation, in_units), 80))


def _markdown(explanation: Explanation, in_units: dict[str, float] | None) -> list[str]:
    def escaped(text: str) -> str:
        return text.replace("|", "\\|")

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
