"""Tables and sentences about the results of a run, of several seeds, of a comparison or of an
evaluation."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.cli.error_tables import (
    add_error_columns,
    describe_text_measures,
    error_cells,
    feature_tables,
    measure_rows,
)
from seqattn.cli.output import escape_controls, plain_console, print_lines, show
from seqattn.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from seqattn.analysis.comparison import ComparisonResult, VariantResult
    from seqattn.analysis.knock_out import KnockOut
    from seqattn.config import Config


def provenance(origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the command line, and the origins of the config values that are not defaults."""
    origins = {key: origin for key, origin in origins.items() if origin != "default"}
    return {"command": shlex.join(["seqattn", *sys.argv[1:]]), "origins": origins}


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    """Print the results of a run, the path of the run folder, and commands to run next."""
    from rich.table import Table

    from seqattn.config import read_stored
    from seqattn.data.baselines import NOISE_FLOOR, describe_standing
    from seqattn.data.metrics import describe_metrics
    from seqattn.runs import RunFolder
    from seqattn.runs.folder import describe_monitored

    console = plain_console()
    table = Table(title=f"{summary['name']}, seed {summary['seed']}", title_justify="left")
    table.add_column("on the test sequences")
    add_error_columns(table, summary)
    floor = summary["noise_floor"]
    label = "this model" if summary["loss_name"] == "cross-entropy" else "this model, free running"
    rows = [(label, summary["test_loss"], "this model", "bold")]
    for losses in (summary["baselines"], summary["fitted"]):
        rows += [(name, loss, name, "") for name, loss in losses.items()]
    if floor is not None:
        rows.append((NOISE_FLOOR, floor, "", ""))
    for label, loss, name, style in sorted(rows, key=lambda row: row[1]):
        table.add_row(label, *error_cells(summary, loss, name), style=style)
    for row in measure_rows(summary):
        table.add_row(*row)
    console.print(table)
    for each in feature_tables(summary):
        console.print(each)
    standing = describe_standing(summary["test_loss"], summary["baselines"], summary["fitted"])
    run = RunFolder(folder)
    config = read_stored(run.config)
    plugins, quoted = plugin_options(config), shlex.quote(str(folder))
    pictures = (run.loss_picture, run.predictions_picture, run.attention_picture)
    drawn = [picture.name for picture in pictures if picture.exists()]
    lines = [
        *describe_metrics(summary),
        *describe_text_measures(summary["measures"]),
        *(
            attention_lines(summary["attention"])
            if "alignment" not in summary
            else [describe_alignment(summary["alignment"])]
        ),
        f"The best epoch on validation is {summary['best_epoch']} of {summary['epochs']}"
        f"{describe_monitored(summary)}.",
        standing,
        f"Files are in {folder}: {', '.join([*drawn, 'summary.json'])}, ...",
        "Next:",
        *([f"  seqattn doctor {quoted}{plugins}"] if " loses to " in standing else []),
        f"  seqattn evaluate {quoted}{plugins}",
        f"  seqattn plot-attention {quoted}{plugins}" if config.model.has_attention
        else f"  seqattn predict {quoted} --example 0{plugins}",
    ]  # fmt: skip
    print_lines(lines)


def plugin_options(config: Config) -> str:
    """Return the options that load the plugins of a run, each after a space; "" for no plugins.

    If the file of a plugin is in the working directory, its path is relative to this directory.
    """
    here = Path.cwd()
    options = []
    for plugin in config.plugins:
        name = plugin.module
        if plugin.path is not None:
            path = Path(plugin.path)
            name = str(path.relative_to(here) if path.is_relative_to(here) else path)
        options.append(f" --plugin {shlex.quote(str(name))}")
    return "".join(options)


def print_seeds(outcome: ComparisonResult) -> None:
    """Print the results of several seeds of one config."""
    from seqattn.analysis.comparison import find_seed_folders
    from seqattn.analysis.comparison.checks import describe_unequal_epochs, read_run_config
    from seqattn.analysis.comparison.tables import BRACKETS, describe_references, describe_scope
    from seqattn.config import read_stored

    (variant,) = outcome.variants
    first = next(iter(variant.folders.values()))
    summary = variant.seed_summary
    best = None if summary is None else variant.folders[summary.best_seed]
    config = read_stored(first.config)
    plugins = plugin_options(config)
    title = f"{counted(len(variant.losses), 'seed')} of {variant.name}{outcome.unit_text}"
    print_variants(title, [variant])
    lines = [
        f"{describe_references(outcome)} {BRACKETS}",
        describe_scope(outcome.data_of_seeds),
        f"The runs are in {outcome.path}. Next, for one of them:",
        f"  seqattn plot-attention {shlex.quote(str(best.path))}{plugins}"
        if config.model.has_attention and best is not None
        else f"  seqattn evaluate {shlex.quote(str(first.path))}{plugins}",
    ]  # fmt: skip
    folders = find_seed_folders(outcome.path)
    if others := sorted(folders.keys() - variant.folders.keys()):
        configs = {seed: read_run_config(folder) for seed, folder in folders.items()}
        unequal = describe_unequal_epochs(folders, configs)
        lines.insert(
            2,
            f"{outcome.path} also has seeds that are not in this table"
            f" ({', '.join(map(str, others))}). "
            + (f"The seeds are trained for unequal numbers of epochs ({unequal}), so no report"
               f" combines them. To train all seeds as long: --seeds {len(folders)} --resume"
               if unequal else "seqattn report shows all."),
        )  # fmt: skip
    print_lines(lines)


def print_comparison(outcome: ComparisonResult) -> None:
    """Print the results of each variant of a comparison, and the statistical tests of the pairs of
    variants."""
    from seqattn.analysis.comparison import describe_result
    from seqattn.analysis.comparison.result import describe_seed_counts
    from seqattn.analysis.comparison.tables import BRACKETS, describe_references

    counts = [len(variant.folders) for variant in outcome.variants]
    title = f"{outcome.name}: {describe_seed_counts(counts)}{outcome.unit_text}"
    print_variants(title, outcome.variants)
    lines = [
        f"{describe_references(outcome)} {BRACKETS}".strip(),
        "",
        *describe_result(outcome),
        "",
    ]
    pictures = any(variant.summaries for variant in outcome.variants)
    lines.append(
        f"Tables and pictures are in {outcome.path}: comparison.md, comparison.png, ..." if pictures
        else f"Tables are in {outcome.path}: comparison.md, ... All runs diverged, so there are no"
        " pictures."
    )  # fmt: skip
    print_lines(lines)


def print_variants(title: str, variants: Sequence[VariantResult]) -> None:
    """Print a table with a row for each variant.

    On a narrow terminal, the table omits less important columns and folds long names. Numbers are
    never shortened. If there is only one variant, the table has no column of names.
    """
    from rich.cells import cell_len
    from rich.table import Table

    from seqattn.analysis.comparison.tables import NARROW_COLUMNS, variant_table

    headings, rows = variant_table(variants)
    first, *columns = zip(headings, *rows, strict=True)
    names = [escape_controls(name) for name in first] if len(rows) > 1 else []  # with the heading
    longest = max(map(cell_len, names), default=0)
    console = plain_console()
    room = console.width - (4 if names else 1)
    widths = _widths(columns)
    if room - sum(widths) < longest:
        columns = [column for column in columns if column[0] in NARROW_COLUMNS]
        name_width, min_columns = min(MIN_NAME_WIDTH, longest), 1 if names else 2
        while (
            len(columns) > min_columns and room - sum(_widths(columns, wrapped=True)) < name_width
        ):
            columns.pop()
        widths = _widths(columns, wrapped=True)
        longest = min(longest, max(room - sum(widths), MIN_NAME_WIDTH))
    table = Table(title=title, title_justify="left")
    cells: list[Sequence[str]] = [column[1:] for column in columns]
    if names:
        table.add_column(names[0], width=longest, overflow="fold")
        cells.insert(0, names[1:])
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column[0], justify="right", width=width - FRAME_WIDTH)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    console.print(table)


FRAME_WIDTH = 3
"""Width of the frame between two columns, in characters."""
MIN_NAME_WIDTH = 12


def _widths(columns: Sequence[Sequence[str]], *, wrapped: bool = False) -> list[int]:
    """Return the width of each column, including the frame, in characters.

    Args:
        columns: for each column, the heading and the cells.
        wrapped: whether headings are wrapped between words.
    """
    return [
        FRAME_WIDTH + max(map(len, [*(heading.split() if wrapped else [heading]), *cells]))
        for heading, *cells in columns
    ]


def print_evaluation(scored: Mapping[str, Any], title: str) -> None:
    """Print the errors of a model and of the baselines, the noise floor and the metrics.

    Args:
        scored: the result of `Evaluation.as_plain`.
        title: the title of the table.
    """
    from rich.table import Table

    from seqattn.data.baselines import describe_standing
    from seqattn.data.metrics import describe_metrics

    table = Table(title=title, title_justify="left")
    table.add_column("")
    add_error_columns(table, scored)
    is_forced = scored["loss_name"] == "cross-entropy"
    way = "teacher-forced" if is_forced else "free running"
    table.add_row(
        "this model" if is_forced else way, *error_cells(scored, scored["loss"], "this model"),
        style="bold",
    )  # fmt: skip
    if not is_forced:
        table.add_row("teacher-forced", f"{scored['loss_teacher_forced']:.4f}")
    table.add_section()
    by_step = list(enumerate(scored["loss_by_step"], start=1))
    every = max(1, -(-len(by_step) // 16))
    for step, loss in by_step[::every]:
        cell = "not observed" if loss is None else f"{loss:.4f}"
        table.add_row(f"{way}, target step {step}", cell)
    table.add_section()
    for name, loss in sorted(scored["baselines"].items(), key=lambda pair: pair[1]):
        table.add_row(name, *error_cells(scored, loss, name))
    for name, loss in scored["fitted"].items():
        table.add_row(name, *error_cells(scored, loss, name))
    for row in measure_rows(scored):
        table.add_row(*row)
    if scored["noise_floor"] is not None:
        table.add_section()
        table.add_row("noise floor", f"{scored['noise_floor']:.4f}")
        table.add_row("this run above the floor", f"{scored['above_floor']:.4f}")
    table.add_section()
    for name, value in scored.get("plugin_metrics", {}).items():
        table.add_row(name, "not finite" if value is None else f"{value:.4f}")
    console = plain_console()
    console.print(table)
    if every > 1:
        show(f"The table has one of {every} target steps; --json prints all {len(by_step)}.")
    for each in feature_tables(scored):
        console.print(each)
    print_lines([*describe_metrics(scored), *describe_text_measures(scored["measures"])])
    print_lines([describe_standing(scored["loss"], scored["baselines"], scored["fitted"])])
    _print_attention(console, scored)


def print_knock_out(found: KnockOut, *, overlapping: bool) -> None:
    """Print the errors with all heads and without each head, and the differences.

    Args:
        found: the errors.
        overlapping: whether the sequences are windows that share steps.
    """
    from rich.table import Table

    from seqattn.analysis.comparison.measures import name_measure

    is_rate = found.main_measure != "rmse"
    names = [name_measure(each) if is_rate else "RMSE" + ", scaled" * found.scaled
             for each in found.measures]  # fmt: skip
    headings = ["attention", "layer", "head", *names, "change", "worse / better", "p (Holm)"]
    rows = _knock_out_rows(found, is_rate=is_rate)
    columns = list(zip(headings, *rows, strict=True))
    table = Table(title="Without one attention head", title_justify="left")
    for k, (column, width) in enumerate(zip(columns, _widths(columns, wrapped=True), strict=True)):
        table.add_column(
            column[0], justify="right" if k else "left", width=width - FRAME_WIDTH
        )  # a narrow terminal wraps headings, not numbers
    for k, row in enumerate(rows):
        if k and row[0] != rows[k - 1][0]:
            table.add_section()
        table.add_row(*row, style="" if k else "bold")
    plain_console().print(table)
    points = ", in percentage points" if is_rate else ""
    print_lines([
        "encoder, decoder: self-attention; cross: attention to the source. Change: the"
        f" {names[0]} without the head minus that with all heads{points}. Worse / better: the"
        f" sequences, of {found.sequences:,}, for which it is larger or smaller without the head."
        " p: signed-rank test over the sequences, for this run only, with Holm's correction for"
        f" {counted(len(found.heads), 'head')}."
        + _limits_of_p(found, overlapping)
    ])  # fmt: skip


def _knock_out_rows(found: KnockOut, *, is_rate: bool) -> list[list[str]]:
    """Return the cells of the model with all heads, and of the model without each head."""
    from seqattn.analysis.comparison.statistics import format_p

    spec, change_spec = (".2%", "+.2f") if is_rate else (".4g", "+.2g")
    all_heads = [f"{value:{spec}}" for value in found.measures.values()]
    rows = [["all heads", "", "", *all_heads, "", "", ""]]
    for head in found.heads:
        change = head.differences[found.main_measure] * (100 if is_rate else 1)
        rows.append([
            head.kind.removesuffix("_self"), str(head.layer + 1), str(head.head + 1),
            *(f"{value:{spec}}" for value in head.measures.values()), f"{change:{change_spec}}",
            f"{head.worse} / {head.better}", format_p(head.p_holm),
        ])  # fmt: skip
    return rows


def _limits_of_p(found: KnockOut, overlapping: bool) -> str:
    """Return sentences about p-values that cannot be small, or are too small."""
    from seqattn.analysis.comparison.signed_rank import smallest_p
    from seqattn.analysis.comparison.statistics import LEVEL

    limits = " The sequences are overlapping windows, so p is too small." if overlapping else ""
    if smallest_p(found.sequences) * len(found.heads) > LEVEL:
        few = counted(found.sequences, "sequence")
        limits += f" With only {few}, p cannot fall below {LEVEL:g}."
    return limits


def _print_attention(console: Any, scored: Mapping[str, Any]) -> None:
    lines = attention_lines(scored["attention"]) or ["Attention: not applicable."]
    if "alignment" in scored:
        for each in alignment_tables(scored["alignment"]):
            console.print(each)
        lines = lines[1:]  # the tables say it, and of all links
    print_lines(lines)


def describe_alignment(alignment: Mapping[str, Any]) -> str:
    """Return a sentence about the agreement of attention with the known links."""
    shift = f"{alignment['best_shift']:+d}" if alignment["best_shift"] else "0"
    aer, hit = alignment["aer"][shift], alignment["hit"][shift]
    return (
        f"Attention, teacher-forced: alignment error rate {aer:.1%} against the known links; the"
        f" largest weight is at a linked symbol in {hit:.1%} of {alignment['steps']:,} steps"
        f" (shift {shift}; evaluate prints all)."
    )


def alignment_tables(alignment: Mapping[str, Any]) -> list[Table]:
    """Return a table of the agreement of attention with the known links, beside that of rules, and
    a table by kind of target symbol.

    Args:
        alignment: the result of `Alignment.as_plain`, with `baselines` if they are known.
    """
    from rich.table import Table

    shift = f"{alignment['best_shift']:+d}" if alignment["best_shift"] else "0"
    title = (
        f"Attention against {alignment['sure_links']:,} sure and {alignment['possible_links']:,}"
        f" possible links, teacher-forced"
    )
    caption = (
        f"At shift s, step t is held against the symbol of step t + s; hit and weight at shift"
        f" {shift}."
    )
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("")
    for s in alignment["aer"]:
        table.add_column(f"AER, shift {s}", justify="right")
    table.add_column("hit", justify="right")
    table.add_column("weight", justify="right")
    rows = {"this model": alignment, **alignment.get("baselines", {})}
    for name, each in rows.items():
        cells = [*each["aer"].values(), each["hit"][shift], each["weight"][shift]]
        style = "bold" if name == "this model" else ""
        table.add_row(name, *(f"{cell:.1%}" for cell in cells), style=style)
    kinds = Table("kind of target symbol", title=f"By kind, at shift {shift}", title_justify="left")
    for heading in ("steps", "hit", "weight"):
        kinds.add_column(heading, justify="right")
    for kind, each in alignment["kinds"].items():
        cells = [f"{each[measure][shift]:.1%}" for measure in ("hit", "weight")]
        kinds.add_row(kind, f"{each['steps']:,}", *cells)
    return [table, kinds] if alignment["kinds"] else [table]


def attention_lines(attention: Mapping[str, Any] | None) -> list[str]:
    """Return sentences about attention metrics. The sentence about entropy is left out if the
    weights do not sum to 1."""
    if attention is None:
        return []
    lines, best = [], attention["best_head"]
    accuracy, by_head = attention["alignment_accuracy"], attention["by_head"]
    if accuracy is not None:
        heads = len(by_head["alignment_mass"]) * len(by_head["alignment_mass"][0])
        of = (
            "" if heads == 1 else f" (layer {best[0] + 1}, head {best[1] + 1}, the best of {heads})"
        )
        lines.append(
            f"Attention: the largest weight is at the true source step in {accuracy:.1%} of"
            f" {attention['aligned_steps']:,} steps, and {attention['alignment_mass']:.1%} of the"
            f" weight{of}."
        )
    if attention["entropy_bits"] is not None:
        share = attention["entropy_share"]
        of_maximum = "" if share is None else f", {share:.0%} of the maximum"
        bits = attention["entropy_bits"]
        lines.append(f"The entropy of the weights is {bits:.2f} bits{of_maximum}.")
    if attention["padding_mass"] > 0:
        lines.append(
            f"Up to {attention['padding_mass']:.2g} of the weight of a step is on padding!"
        )
    return lines
