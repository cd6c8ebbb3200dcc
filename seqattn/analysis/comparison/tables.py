"""Tables and sentences that describe a comparison, as CSV, Markdown and text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqattn.analysis.comparison.columns import (
    alignment_accuracies,
    count_wins,
    median_seconds,
    pair_results,
    seed_results,
    variant_results,
)
from seqattn.analysis.comparison.measures import RATES, name_measure
from seqattn.analysis.comparison.result import ComparisonResult, DataOfSeeds, VariantResult
from seqattn.analysis.comparison.statistics import (
    LEVEL,
    SEEDS_NEEDED,
    Interval,
    PairedTest,
    SeedSummary,
    format_number,
    format_p,
)
from seqattn.analysis.comparison.variance import describe_components
from seqattn.config.comparing import ONLY_LOSS
from seqattn.runs.storage import atomic_write, read_regular_file


def write_tables(result: ComparisonResult) -> bool:
    """Write `variants.csv`, `pairs.csv`, `seeds.csv` and `comparison.md`.

    Returns:
        Whether `seeds.csv` changed, which means that the runs or their results have changed.
    """
    seeds_file = result.path / "seeds.csv"
    before = read_regular_file(seeds_file) if seeds_file.is_file() else None
    atomic_write(result.path / "variants.csv", variant_results(result).csv().encode())
    atomic_write(result.path / "pairs.csv", pair_results(result).csv().encode())
    now = seed_results(result).csv().encode()
    atomic_write(seeds_file, now)
    atomic_write(result.path / "comparison.md", markdown(result).encode())
    return before != now


def variant_table(variants: Sequence[VariantResult]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of variants for display.

    Columns that are empty for all variants are left out.
    """
    rows = [variant_cells(variant) for variant in variants]
    filled = [any(row[i] != EMPTY_CELL for row in rows) for i in range(len(HEADINGS))]
    kept = [i for i, has_cells in enumerate(filled) if i == 0 or has_cells]
    return [HEADINGS[i] for i in kept], [[row[i] for i in kept] for row in rows]


def variant_cells(variant: VariantResult) -> list[str]:
    """Return a variant's row for display, with one cell per heading in `HEADINGS`."""
    summary, diverged = variant.seed_summary, len(variant.diverged)
    if summary is None:
        return [variant.name, *[EMPTY_CELL] * (len(HEADINGS) - 2), "no results yet"]
    with_result = len(variant.losses)
    seconds = median_seconds(variant)
    return [
        variant.name,
        _median_cell(summary, diverged),
        EMPTY_CELL if summary.mean is None else f"{summary.mean:.4f}",
        _loss_cell(summary.best, summary.best_seed),
        _loss_cell(summary.worst, summary.worst_seed),
        f"{count_wins(variant)} of {with_result}"
        + (f", {diverged} diverged" if diverged else "")
        + (f", {variant.unfinished} unfinished" if variant.unfinished else ""),
        *(_rate_cell(variant.summary_of(measure), diverged) for measure in RATES),
        f"{min(found):.1%}" if (found := alignment_accuracies(variant)) else EMPTY_CELL,
        f"{variant.any_summary['parameters']:,}" if variant.summaries else EMPTY_CELL,
        EMPTY_CELL if seconds is None else f"{seconds:.2g}",
    ]


def _rate_cell(rate: SeedSummary | None, diverged: int) -> str:
    return EMPTY_CELL if rate is None else _median_cell(rate, diverged)


def _median_cell(summary: SeedSummary, diverged: int) -> str:
    median = f"none: {diverged} diverged" if math.isinf(summary.median) else f"{summary.median:.4f}"
    if summary.median_interval is None:
        return f"{median} [{NO_INTERVAL_REASON}]"
    return f"{median} [{_interval_text(summary.median_interval, '.4f')}]"


def _interval_text(interval: Interval, spec: str) -> str:
    return ", ".join(format_number(bound, spec) for bound in interval)


def _loss_cell(loss: float, seed: int) -> str:
    return "diverged" if math.isinf(loss) else f"{loss:.4f} ({seed})"


NO_INTERVAL_REASON = f"needs {SEEDS_NEEDED} seeds"
EMPTY_CELL = "-"
RATE_HEADINGS = tuple(f"{name_measure(measure)} [95%]" for measure in RATES)
HEADINGS = (
    "variant", "median loss [95%]", "mean loss", "best (seed)", "worst (seed)",
    "beats baseline", *RATE_HEADINGS, "true step (worst)", "parameters", "seconds",
)  # fmt: skip
NARROW_COLUMNS = (
    "variant", "median loss [95%]", *RATE_HEADINGS, "worst (seed)", "beats baseline",
    "true step (worst)",
)  # fmt: skip


def reference_losses(result: ComparisonResult) -> list[tuple[str, float]]:
    """Return the names and values of the reference losses.

    The reference losses are the noise floor and the losses of the parameter-free baselines. Each
    value is a median over the finished seeds, because each seed may have its own data. The list is
    empty if the variants have different data or units.
    """
    if not (result.same_data and result.same_units):
        return []
    summaries: dict[int, Mapping[str, Any]] = {}
    for variant in result.variants:
        summaries |= variant.summaries
    found: dict[str, list[float]] = {}
    for summary in summaries.values():
        floor = summary["noise_floor"]
        losses = {} if floor is None else {"noise floor": floor}
        for name, loss in {**losses, **summary["baselines"]}.items():
            found.setdefault(str(name), []).append(float(loss))
    return [(name, float(np.median(losses))) for name, losses in found.items()]


def describe_references(result: ComparisonResult) -> str:
    """Return a sentence with the reference losses, or "" if there are no reference losses."""
    losses = ", ".join(f"{name} {loss:.4f}" for name, loss in reference_losses(result))
    if not losses:
        return ""
    over = " (medians over the seeds' test sets)" if result.data_of_seeds == "new" else ""
    return f"Reference losses{over}: {losses}."


def describe_losses(result: ComparisonResult) -> str:
    """Return a sentence about the test losses and their unit."""
    return f"{result.loss_name.capitalize()} on the test sequences{result.unit_text}."


BRACKETS = "Brackets are distribution-free 95% intervals of the median (order statistics)."


def describe_scope(data_of_seeds: DataOfSeeds) -> str:
    """Describe what differs between the seeds, and the data for which the results hold."""
    match data_of_seeds:
        case "new":
            return (
                "Each seed has its own initial weights, batch order, teacher-forcing draws and"
                " data, so the results hold for new data of this kind. All variants have the same"
                " data for a seed, unless they vary the data."
            )
        case "same":
            return (
                "The seeds vary initial weights, batch order and teacher-forcing draws; the data"
                " are the same, so the results hold for this training set and this test set."
            )
        case "crossed":
            return (
                "Each data set has its own training, validation and test sequences; the seeds vary"
                " initial weights, batch order and teacher-forcing draws. Few data sets or seeds"
                " give rough estimates. Variants are not tested against each other in this design;"
                " a comparison without --variance tests them."
            )
        case "files":
            return (
                "The seeds vary initial weights, batch order and teacher-forcing draws; the data"
                " are your files, so the results hold for this training set and this test set."
            )
        case "one":
            return (
                "This is one seed: its results hold for its initial weights, batch order,"
                " teacher-forcing draws, training set and test set. They do not show how much the"
                " results of other seeds differ."
            )


def describe_result(result: ComparisonResult) -> list[str]:
    """Return the results as sentences.

    The tests of the pairs come first. Decided pairs (see `PairedTest.is_decided`) come before
    undecided pairs. The limitations and the scope of the results follow.
    """
    words = _describe_pairs(result.pairs) + _describe_variance(result) + describe_limits(result)
    return [*words, describe_scope(result.data_of_seeds)]


def _describe_variance(result: ComparisonResult) -> list[str]:
    """Describe the variance components of each variant and measure of a crossed design."""
    if result.data_of_seeds != "crossed":
        return []
    groups = dict[str, list[VariantResult]]()
    for variant in result.variants:
        groups.setdefault(variant.sweep_group, []).append(variant)
    seeds = sorted({seed for variant in result.variants for seed in variant.folders})
    return [
        describe_components(name, measure, [one.values_of(measure) for one in group], seeds)
        for name, group in groups.items()
        for measure in result.questions.measures
    ]


def _describe_pairs(pairs: Sequence[PairedTest]) -> list[str]:
    words = [pair.describe() for pair in sorted(pairs, key=lambda pair: not pair.is_decided)]
    seeds = {pair.seeds for pair in pairs}
    has_ties = any(pair.ties for pair in pairs)
    too_few = len(seeds) == 1 and all(pair.smallest_p >= LEVEL for pair in pairs)
    if len(pairs) > 3 and too_few and not has_ties:
        words = [
            f"{seeds.pop()} seeds are too few for {len(pairs)} pairs: no test could tell any two"
            " variants apart, whatever their losses."
        ]
    if len(pairs) > 1 and any(pair.interval is not None for pair in pairs):
        words.append(
            f"The intervals are simultaneous 95% confidence intervals for {len(pairs)} pairs"
            " (Bonferroni)."
        )
    return words


def describe_limits(result: ComparisonResult) -> list[str]:
    """Describe diverged and unfinished seeds, and differences in data and units."""
    words = []
    for variant in result.variants:
        if diverged := len(variant.diverged):
            words.append(
                f"{diverged} of {len(variant.folders)} seeds of {variant.name} diverged; a diverged"
                " seed ranks below every seed that did not diverge."
            )
        if variant.unfinished:
            words.append(
                f"{variant.unfinished} of {len(variant.folders)} seeds of {variant.name} are"
                " unfinished; they are not included in the results."
            )
    if not result.same_training_units:
        words.append(
            "The training and validation losses of the variants (curves.png) are in different"
            " units, because the variants differ in data.normalize, data.scaling, data.relative,"
            " data.units or the target features, or because data.scaling was fitted to different"
            " training data."
        )
    if not result.same_units:
        words.append(
            "The test losses are in different units, because the variants differ in data.scaling,"
            " data.relative, data.units or the target features, or because data.scaling was fitted"
            " to different training data. Two"
            " variants in different units are not tested against each other. `rmse` in each run's"
            " summary.json is in the units of the data."
        )
    if not result.same_data_in_pairs:
        words.append(
            "The variants differ in their data, so their losses may come from different test"
            " sequences; the two runs of a pair share only their seed."
        )
    return words


def markdown(result: ComparisonResult) -> str:
    """Return the content of `comparison.md`."""
    lines = [f"# {result.name}", "", describe_losses(result), ""]
    lines += markdown_table(*variant_table(result.variants))
    lines += [""]
    if found := describe_references(result):
        lines += [found, ""]
    lines += [
        f"{BRACKETS} Seconds are one run's share of the time of all runs in its batch.",
        "", "## Results", "", *(f"- {sentence}" for sentence in describe_result(result)), "",
    ]  # fmt: skip
    if result.data_of_seeds == "crossed":
        return "\n".join(lines)
    lines += [
        "## Pairs", "",
        explain_pairs(len(result.pairs)), "",
    ]  # fmt: skip
    return "\n".join([*lines, *markdown_table(*pair_table(result)), ""])


def pair_table(result: ComparisonResult) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of pairs for display."""
    headings = ["first", "second", "difference", "95%", "first better", "p (Holm)", "effect"]
    rows = [_pair_cells(pair) for pair in result.pairs]
    if result.questions.measures != ONLY_LOSS.measures:
        headings.insert(2, "measure")
        for row, pair in zip(rows, result.pairs, strict=True):
            row.insert(2, name_measure(pair.measure))
    if result.questions.margin is not None:
        headings.append(f"p, equal within {format_number(result.questions.margin)}")
        for row, pair in zip(rows, result.pairs, strict=True):
            row.append(format_p(pair.p_equal))
    return headings, rows


def explain_pairs(count: int) -> str:
    """Describe the columns of the table of pairs.

    Args:
        count: the number of pairs.
    """
    several = count > 1
    together = " The intervals of all pairs are simultaneous 95% confidence intervals (Bonferroni)."
    holm = f" with Holm's correction for {count} pairs"
    return (
        "Each seed is a pair: both variants have the same data, batch order and teacher-forcing"
        " draws, unless the varied key changes them. The difference is the first variant's loss"
        " minus the second variant's loss, so a negative difference means that the first variant is"
        " better. It is the Hodges-Lehmann estimate over untied pairs; its interval inverts"
        f" Wilcoxon's signed-rank test.{together * several} p is from the same"
        f" test{holm * several}. The effect is the rank-biserial correlation (-1: the first variant"
        " is better for every seed). A diverged seed ranks below every seed that did not diverge;"
        " two diverged seeds are tied."
    )


def _pair_cells(pair: PairedTest) -> list[str]:
    if pair.interval is None:
        interval = pair.interval_needs
    else:
        interval = f"[{_interval_text(pair.interval, '+.4f')}]"
    known = not math.isnan(pair.estimate)
    return [
        pair.first, pair.second, format_number(pair.estimate, "+.4f") if known else EMPTY_CELL,
        interval, f"{pair.first_wins} of {pair.seeds}" + f", {pair.ties} tied" * bool(pair.ties),
        format_p(pair.p_holm), f"{pair.effect:+.2f}",
    ]  # fmt: skip


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table. The first column is left-aligned."""
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    cells = [[_markdown_cell(cell) for cell in row] for row in (headings, *rows)]
    return ["| " + " | ".join(row) + " |" for row in [cells[0], rule, *cells[1:]]]


def _markdown_cell(text: str) -> str:
    """Replace unprintable characters, and escape characters that Markdown or HTML would
    interpret."""
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return re.sub(r"[\\`*|<&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", printable)
