"""The tables of a comparison, of seeds or of several runs as LaTeX, Markdown and CSV.

LaTeX and Markdown tables contain rounded numbers for display. CSV tables contain numbers
that are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

from seqattn.analysis.comparison.columns import (
    ResultTable,
    pair_results,
    seed_results,
    variant_results,
)
from seqattn.analysis.comparison.result import ComparisonResult
from seqattn.analysis.comparison.tables import (
    BRACKETS,
    EMPTY_CELL,
    describe_limits,
    describe_losses,
    describe_scope,
    explain_pairs,
    markdown_table,
    pair_table,
    reference_losses,
    variant_table,
)
from seqattn.errors import UsageError

TableFormat = Literal["latex", "markdown", "csv"]
TableRows = Literal["variants", "runs", "pairs"]
"""The rows of a table: one row for each variant, for each run, or for each pair of variants."""
LOSS_COLUMN = {"variants": "median", "runs": "test_loss"}
"""The CSV column that contains the reference losses, by kind of rows."""
RUN_HEADINGS = (
    "run", "seed", "test loss", "teacher-forced", "validation loss", "best epoch", "epochs",
    "beats baseline", "true step", "seconds",
)  # fmt: skip
"""The headings of a table of runs, in the order of `SEED_COLUMNS`."""
LATEX_SPECIALS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip
"""The characters that LaTeX does not print as they are. At the start of a row, LaTeX would read `[`
or `*` as an argument of the line break before the row."""


def table_text(result: ComparisonResult, table_format: TableFormat, rows: TableRows) -> str:
    """Return a table of results as text that ends with a line break.

    A table of variants or runs ends with the reference losses: the noise floor and the losses of
    the parameter-free baselines. There are no reference losses if the variants have different data.

    Args:
        result: the results.
        table_format: "latex" for a booktabs table, "markdown", or "csv" for numbers that are not
            rounded. In CSV, the first column is `kind`, and each of its cells is "variant", "run",
            "pair" or "reference".
        rows: the kind of rows in the table: "variants", "runs" or "pairs".

    Raises:
        UsageError: if the format or the kind of rows is unknown.
    """
    for value, known in ((table_format, TableFormat), (rows, TableRows)):
        if value not in get_args(known):
            expected = " or ".join(map(repr, get_args(known)))
            raise UsageError(f"table: expected {expected}, got {value!r}.")
    if table_format == "csv":
        return _full_precision(result, rows).csv()
    shown = _shown_table(result, rows)
    if table_format == "latex":
        return shown.latex()
    return "\n".join([*shown.markdown(), ""])


def _full_precision(result: ComparisonResult, rows: TableRows) -> ResultTable:
    match rows:
        case "variants":
            table = variant_results(result)
        case "runs":
            table = seed_results(result)
        case "pairs":
            table = pair_results(result)
        case _:
            assert_never(rows)
    found = [(rows.removesuffix("s"), *row) for row in table.rows]
    if rows != "pairs":
        blank = [None] * (len(table.columns) - 1)
        place = table.columns.index(LOSS_COLUMN[rows]) - 1
        for name, loss in reference_losses(result):
            found.append(("reference", name, *blank[:place], loss, *blank[place + 1 :]))
    return ResultTable(("kind", *table.columns), tuple(found))


@dataclass(frozen=True)
class _ShownTable:
    """A table for display.

    Attributes:
        headings: the headings of the columns.
        rows: the cells of each row.
        references: the rows of the reference losses.
        notes: sentences that explain the table.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    references: Sequence[Sequence[str]]
    notes: Sequence[str]

    def markdown(self) -> list[str]:
        """Return the lines of the table in Markdown, with the notes below the table."""
        rows = [*self.rows, *self.references]
        notes = [line for note in self.notes for line in ("", note)]
        return [*markdown_table(self.headings, rows), *notes]

    def latex(self) -> str:
        """Return a `tabular` environment with the rules of booktabs. The notes become comments
        above it."""

        def line(cells: Iterable[str]) -> str:
            return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"

        numbers = "r" * (len(self.headings) - 1)
        blocks = [block for block in (self.rows, self.references) if block]
        body = [row for block in blocks for row in (r"\midrule", *map(line, block))]
        return "\n".join([
            r"% Needs \usepackage{booktabs}.", *(f"% {_printable(note)}" for note in self.notes),
            rf"\begin{{tabular}}{{l{numbers}}}", r"\toprule", line(self.headings), *body,
            r"\bottomrule", r"\end{tabular}", "",
        ])  # fmt: skip


def _latex_cell(text: str) -> str:
    """Escape a cell for LaTeX. The hyphen before a negative number becomes a minus sign, and an
    empty cell becomes an en dash."""
    if text == EMPTY_CELL:
        return "--"
    escaped = "".join(LATEX_SPECIALS.get(char, char) for char in _printable(text))
    bounds = escaped.removeprefix("{[}").removesuffix("{]}").split(", ")
    if not all(_is_number(bound) for bound in bounds):
        return escaped
    signed = ", ".join(bound.replace("-", "$-$", 1) if bound[0] == "-" else bound
                       for bound in bounds)  # fmt: skip
    return f"{{[}}{signed}{{]}}" if escaped.startswith("{[}") else signed


def _printable(text: str) -> str:
    """Replace each unprintable character, such as a line break, with `?`."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown_table(result: ComparisonResult, rows: TableRows) -> _ShownTable:
    match rows:
        case "pairs":
            return _ShownTable(*pair_table(result), (), [explain_pairs(len(result.pairs))])
        case "variants":
            headings, cells = variant_table(result.variants)
            scope = describe_scope(result.data_of_seeds)
            notes = [describe_losses(result), BRACKETS, scope]
        case "runs":
            headings, cells = _run_table(result)
            notes = [describe_losses(result)]
            if result.instance_normalized:
                notes.append(
                    "With data.normalize: instance, the validation loss is in standard deviations"
                    " of each source, so it cannot be compared with the test loss."
                )
        case _:
            assert_never(rows)
    place = 1 if rows == "variants" else headings.index("test loss")
    references = []
    for name, loss in reference_losses(result):
        blank = [""] * len(headings)
        blank[0], blank[place] = name, f"{loss:.4f}"
        references.append(blank)
    return _ShownTable(headings, cells, references, [*notes, *describe_limits(result)])


def _run_table(result: ComparisonResult) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a table of runs. Columns that are empty for all runs are
    left out."""
    table = seed_results(result)
    rows = [
        [_run_cell(name, cell) for name, cell in zip(table.columns, row, strict=True)]
        for row in table.rows
    ]
    kept = [k for k in range(len(RUN_HEADINGS)) if any(row[k] != EMPTY_CELL for row in rows)]
    return [RUN_HEADINGS[k] for k in kept], [[row[k] for k in kept] for row in rows]


def _run_cell(column: str, value: str | float | bool | None) -> str:
    match value:
        case None:
            return EMPTY_CELL
        case bool():
            return "yes" if value else "no"
        case float() if math.isinf(value):
            return "diverged"
        case float() if column == "alignment_accuracy":
            return f"{value:.1%}"
        case float() if column == "seconds":
            return f"{value:.2g}"
        case float():
            return f"{value:.4f}"
    return str(value)
