"""What stands between the commands and the terminal: signals, tables, plain text."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from seqattn.cli.error_tables import add_error_columns, error_cells, feature_tables
from seqattn.cli.output import note, plain_console, print_lines, printable, show
from seqattn.errors import counted

if TYPE_CHECKING:
    from seqattn.analysis.comparison import ComparisonResult, VariantResult


@dataclass
class StopRequest:
    """Signals that came.

    Attributes:
        begun: whether a training has begun, so that a stop has something to save.
        numbers: of the signals since then.
    """

    begun: bool = False
    numbers: list[int] = field(default_factory=list)


@contextlib.contextmanager
def told_to_stop() -> Iterator[StopRequest]:
    """Within, SIGINT and SIGTERM are noted instead of obeyed, once there is something to save; a
    second one is obeyed at once. A terminal that is closed stops nothing."""
    told = StopRequest()

    def heed(number: int, frame: Any) -> None:
        if told.numbers or not told.begun:
            leave_at_once(number, "leaving at once.")
        told.numbers.append(number)
        note(f"{signal.Signals(number).name}: finishing the step and saving.")

    before = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield told
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)


def provenance(origins: Mapping[str, str]) -> dict[str, Any]:
    """What was typed, and where the values are from that are not the default."""
    said = {key: origin for key, origin in origins.items() if origin != "default"}
    return {"command": shlex.join(["seqattn", *sys.argv[1:]]), "origins": said}


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    """The table at the end of a training, where everything lies, and what to type next."""
    from rich.table import Table

    from seqattn.data.baselines import describe_verdict
    from seqattn.data.metrics import describe_metrics
    from seqattn.runs import RunFolder

    console = plain_console()
    table = Table(title=f"{summary['name']}, seed {summary['seed']}", title_justify="left")
    table.add_column("on the test sequences")
    add_error_columns(table, summary)
    floor = summary["noise_floor"]
    rows = [("this model, free running", summary["test_loss"], "this model", "bold")]
    for losses in (summary["baselines"], summary["fitted"]):
        rows += [(name, loss, name, "") for name, loss in losses.items()]
    if floor is not None:
        rows.append(("noise floor (irreducible error)", floor, "", ""))
    for label, loss, name, style in sorted(rows, key=lambda row: row[1]):
        table.add_row(label, *error_cells(summary, loss, name), style=style)
    console.print(table)
    for each in feature_tables(summary):
        console.print(each)
    compared = describe_verdict(summary["test_loss"], summary["baselines"], summary["fitted"])
    run = RunFolder(folder)
    pictures = (run.loss_picture, run.predictions_picture, run.attention_picture)
    drawn = [picture.name for picture in pictures if picture.exists()]
    lines = [
        *describe_metrics(summary),
        *attention_lines(summary["attention"]),
        f"Epoch {summary['best_epoch']} of {summary['epochs']} was best on validation; it"
        f" {compared}.",
        f"Everything lies in {folder}: "
        + (f"{', '.join(drawn)}, and the data they are drawn from." if drawn
           else "the data, and no pictures."),
        "Next:",
        f"  seqattn evaluate {folder}",
        f"  seqattn plot-attention {folder}" if _looks(summary)
        else f"  seqattn predict {folder} --example 0",
    ]  # fmt: skip
    print_lines(lines)


def _looks(summary: Mapping[str, Any]) -> bool:
    """Whether forecasts came with attention; a kind of model without the key always has it."""
    return summary["model"].get("attention", True) is not None


def print_seeds(outcome: ComparisonResult) -> None:
    """The table at the end of a training of many seeds."""
    from seqattn.analysis.comparison import find_seed_folders
    from seqattn.analysis.comparison.tables import BRACKETS, describe_references, describe_scope

    (arm,) = outcome.variants
    print_arms(f"{counted(len(arm.losses), 'seed')} of {arm.name}", [arm])
    lines = [
        f"{describe_references(outcome)} {BRACKETS}",
        describe_scope(outcome.data_of_seeds),
        f"Each seed's run lies in {outcome.path}; next, for one of them:",
        f"  seqattn plot-attention {arm.folders[arm.seed_summary.best_seed].path}"
        if _looks(arm.any_summary) and arm.seed_summary is not None
        else f"  seqattn evaluate {next(iter(arm.folders.values())).path}",
    ]  # fmt: skip
    others = sorted(find_seed_folders(outcome.path).keys() - arm.folders.keys())
    if others:
        lines.insert(
            2,
            f"{outcome.path} holds other seeds, too ({', '.join(map(str, others))}), which are not"
            " in this table; seqattn report has all of them.",
        )
    print_lines(lines)


def print_comparison(outcome: ComparisonResult) -> None:
    """Variants, and what can be said of every pair."""
    from seqattn.analysis.comparison import describe_result
    from seqattn.analysis.comparison.result import describe_seed_counts
    from seqattn.analysis.comparison.tables import BRACKETS, describe_references

    counts = [len(arm.folders) for arm in outcome.variants]
    print_arms(f"{outcome.name}: {describe_seed_counts(counts)}", outcome.variants)
    lines = [
        f"{describe_references(outcome)} {BRACKETS}".strip(),
        "",
        *describe_result(outcome),
        "",
    ]
    pictures = any(arm.summaries for arm in outcome.variants)
    lines.append(
        f"Tables and pictures lie in {outcome.path}: comparison.md, comparison.png, ..." if pictures
        else f"Tables lie in {outcome.path}: comparison.md, ... All runs diverged, so there are no"
        " pictures."
    )  # fmt: skip
    print_lines(lines)


def print_arms(title: str, arms: Sequence[VariantResult]) -> None:
    """A row a variant: all columns, or on a narrow terminal those that matter most. A name may
    lose its middle there, a number is there whole or not at all. One variant needs no name."""
    from rich.cells import cell_len
    from rich.table import Table

    from seqattn.analysis.comparison.tables import NARROW_COLUMNS, variant_table

    headings, rows = variant_table(arms)
    first, *columns = zip(headings, *rows, strict=True)
    names = [printable(name) for name in first[1:]] if len(rows) > 1 else []
    longest = max(map(cell_len, names), default=0)
    console = plain_console()
    room = console.width - (4 if names else 1)
    widths = _widths(columns)
    if room - sum(widths) < longest:
        columns = [column for column in columns if column[0] in NARROW_COLUMNS]
        least, fewest = min(LEAST_OF_A_NAME, longest), 1 if names else 2
        while len(columns) > fewest and room - sum(_widths(columns, wrapped=True)) < least:
            columns.pop()
        widths = _widths(columns, wrapped=True)
        names = [_shortened(name, max(room - sum(widths), LEAST_OF_A_NAME)) for name in names]
    table = Table(title=title, title_justify="left")
    cells: list[Sequence[str]] = [column[1:] for column in columns]
    if names:
        table.add_column(first[0], width=max(map(cell_len, names)))
        cells.insert(0, names)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column[0], justify="right", width=width - FRAME)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    console.print(table)


FRAME = 3
"""Width of what stands between two columns."""


def _widths(columns: Sequence[Sequence[str]], *, wrapped: bool = False) -> list[int]:
    """Of columns of numbers with their frames.

    Args:
        columns: each a heading and its cells.
        wrapped: headings go over several lines.
    """
    return [
        FRAME + max(map(len, [*(heading.split() if wrapped else [heading]), *cells]))
        for heading, *cells in columns
    ]


LEAST_OF_A_NAME = 12  # letters


def _shortened(name: str, most: int) -> str:
    """A name that takes no more than so many columns, its middle left out: the names of variants
    often begin alike, or end so."""
    from rich.cells import cell_len

    left, right = name, ""
    while cell_len(left) + cell_len(right) > most - 1 and cell_len(name) > most:
        if cell_len(left) >= cell_len(right) and right:
            left = left[:-1]
        elif right:
            right = right[1:]
        else:
            half = len(name) // 2
            left, right = name[:half], name[half:]
    return f"{left}…{right}" if right else name


def print_evaluation(scored: Mapping[str, Any], title: str) -> None:
    """Errors by step and beside the baselines, and where the model looked.

    Args:
        scored: `Evaluation.as_plain()`.
    """
    from rich.table import Table

    from seqattn.data.metrics import describe_metrics

    table = Table(title=title, title_justify="left")
    table.add_column("")
    add_error_columns(table, scored)
    table.add_row("free running", *error_cells(scored, scored["loss"], "this model"), style="bold")
    table.add_row("teacher-forced", f"{scored['loss_teacher_forced']:.4f}")
    table.add_section()
    by_step = list(enumerate(scored["loss_by_step"], start=1))
    every = max(1, -(-len(by_step) // 16))
    for step, loss in by_step[::every]:
        shown = "not observed" if loss is None else f"{loss:.4f}"
        table.add_row(f"free running, target step {step}", shown)
    table.add_section()
    for name, loss in sorted(scored["baselines"].items(), key=lambda pair: pair[1]):
        table.add_row(name, *error_cells(scored, loss, name))
    for name, loss in scored["fitted"].items():
        table.add_row(name, *error_cells(scored, loss, name))
    if scored["noise_floor"] is not None:
        table.add_section()
        table.add_row("noise floor", f"{scored['noise_floor']:.4f}")
        table.add_row("this run above the floor", f"{scored['above_floor']:.4f}")
    console = plain_console()
    console.print(table)
    if every > 1:
        show(f"Every {every}th target step is shown; --json has all {len(by_step)}.")
    for each in feature_tables(scored):
        console.print(each)
    print_lines(describe_metrics(scored))
    print_lines(attention_lines(scored["attention"]) or ["Attention: not applicable."])


def attention_lines(attention: Mapping[str, Any] | None) -> list[str]:
    """Where a model looked, in words; nothing of weights that are no shares of a whole."""
    if attention is None:
        return []
    lines, best = [], attention["best_head"]
    accuracy, by_head = attention["alignment_accuracy"], attention["by_head"]
    if accuracy is not None:
        heads = len(by_head["alignment_mass"]) * len(by_head["alignment_mass"][0])
        of = "" if heads == 1 else f" (layer {best[0]}, head {best[1]}, the best of {heads})"
        lines.append(
            f"Attention: the largest weight lies on the true source step in {accuracy:.1%} of"
            f" {attention['aligned_steps']:,} steps, and {attention['alignment_mass']:.1%} of the"
            f" weight{of}."
        )
    if attention["entropy_bits"] is not None:
        share = attention["entropy_share"]
        most = "" if share is None else f", {share:.0%} of what it could be"
        lines.append(f"Its weights have an entropy of {attention['entropy_bits']:.2f} bits{most}.")
    if attention["padding_mass"] > 0:
        lines.append(f"Up to {attention['padding_mass']:.2g} of a step's weight lies on padding!")
    return lines


def leave_at_once(number: int, words: str) -> NoReturn:
    """End the process for a signal, wherever it is. Nothing that is being written shows before it
    is whole, so nothing is lost, and what was begun is removed."""
    if (storage := sys.modules.get("seqattn.runs.storage")) is not None:
        storage.remove_unfinished()
    note(f"seqattn: {signal.Signals(number).name}: {words}")
    os._exit(128 + number)
