"""A comparison as files: CSV, Markdown and words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqattn.analysis.comparison.result import ComparisonResult, DataOfSeeds, Variant
from seqattn.analysis.comparison.statistics import LEVEL, SEEDS_NEEDED, PairedTest, SeedSummary
from seqattn.runs.storage import atomic_write, read_regular_file

VARIANTS = (
    "variant", "seeds", "failed", "median", "median_low", "median_high", "mean", "best",
    "best_seed", "worst", "worst_seed", "beats_baseline", "median_teacher_forced",
    "median_above_floor", "lowest_alignment_accuracy", "parameters", "seconds", "unfinished",
)  # fmt: skip
PAIRS = (
    "first", "second", "seeds", "hodges_lehmann", "low", "high", "first_better", "p", "p_holm",
    "effect", "decided", "alike", "first_failed", "second_failed",
)  # fmt: skip
SEEDS = (
    "variant", "seed", "test_loss", "test_loss_teacher_forced", "validation_loss", "best_epoch",
    "epochs", "beats_best_baseline", "alignment_accuracy", "seconds",
)  # fmt: skip


def write_tables(outcome: ComparisonResult) -> bool:
    """variants.csv, pairs.csv, seeds.csv and comparison.md.

    Returns:
        whether they are of other runs or losses than those that were there.
    """
    of_seeds = outcome.path / "seeds.csv"
    before = read_regular_file(of_seeds) if of_seeds.is_file() else None
    atomic_write(outcome.path / "variants.csv", _csv(VARIANTS, map(_row_of, outcome.arms)))
    atomic_write(outcome.path / "pairs.csv", _csv(PAIRS, [
        (pair.first, pair.second, pair.seeds, pair.typical, *(pair.interval or (None, None)),
         pair.first_better, pair.p, pair.p_holm, pair.effect, pair.decided, pair.tied,
         *pair.diverged)
        for pair in outcome.pairs
    ]))  # fmt: skip
    now = _csv(SEEDS, [
        (arm.name, seed, *(_of_seed(_summary_of(arm, seed), key) for key in SEEDS[2:]))
        for arm in outcome.arms
        for seed in arm.folders
    ])  # fmt: skip
    atomic_write(of_seeds, now)
    atomic_write(outcome.path / "comparison.md", markdown(outcome).encode())
    return before != now


def _summary_of(arm: Variant, seed: int) -> Mapping[str, Any]:
    """What seeds.csv has of a run; inf as the loss of one that diverged."""
    return arm.summaries.get(seed, {"test_loss": math.inf} if seed in arm.diverged else {})


def _of_seed(summary: Mapping[str, Any], key: str) -> Any:
    if key == "alignment_accuracy":
        return (summary.get("attention") or {}).get(key)
    return summary.get(key)


def accuracies(arm: Variant) -> list[float]:
    """Alignment accuracy of each seed that has one."""
    found = [_of_seed(summary, "alignment_accuracy") for summary in arm.summaries.values()]
    return [accuracy for accuracy in found if accuracy is not None]


def _row_of(arm: Variant) -> tuple[Any, ...]:
    spread, lost = arm.spread, len(arm.diverged)
    if spread is None:
        return (arm.name, 0, 0, *[None] * (len(VARIANTS) - 4), arm.unfinished)
    known = arm.any_summary if arm.summaries else {}
    return (
        arm.name, len(arm.losses), lost,
        spread.median, *(spread.median_interval or (None, None)), spread.mean,
        spread.best, spread.best_seed, spread.worst, spread.worst_seed,
        wins(arm) / len(arm.losses), _median_of(arm, "test_loss_teacher_forced"),
        _median_of(arm, "above_floor"), min(accuracies(arm), default=None),
        known.get("parameters"), _seconds(arm), arm.unfinished,
    )  # fmt: skip


def _median_of(arm: Variant, key: str) -> float | None:
    """The median of a loss over seeds, inf of those that diverged; None where it is unknown."""
    found = [summary[key] for summary in arm.summaries.values()]
    if any(value is None for value in found):
        return None
    return float(np.median(found + [math.inf] * len(arm.diverged)))


def _seconds(arm: Variant) -> float | None:
    """The median over the seeds that ended."""
    found = [summary["seconds"] for summary in arm.summaries.values()]
    return float(np.median(found)) if found else None


def wins(arm: Variant) -> int:
    """Seeds that beat the best parameter-free baseline of their own test sequences."""
    return sum(bool(summary["beats_best_baseline"]) for summary in arm.summaries.values())


def table(arms: Sequence[Variant]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows for people, without columns that say nothing of any variant."""
    rows = [cells(arm) for arm in arms]
    columns = [i for i in range(len(HEADINGS)) if i == 0 or any(row[i] != NONE for row in rows)]
    return [HEADINGS[i] for i in columns], [[row[i] for i in columns] for row in rows]


def cells(arm: Variant) -> list[str]:
    """A variant's row for people: the columns of `HEADINGS`."""
    spread, lost = arm.spread, len(arm.diverged)
    if spread is None:
        return [arm.name, *[NONE] * (len(HEADINGS) - 2), "none has a result yet"]
    ended = len(arm.losses)
    seconds = _seconds(arm)
    return [
        arm.name,
        _median_cell(spread, lost),
        NONE if spread.mean is None else f"{spread.mean:.4f}",
        _loss_cell(spread.best, spread.best_seed),
        _loss_cell(spread.worst, spread.worst_seed),
        f"{wins(arm)} of {ended}"
        + (f", {lost} diverged" if lost else "")
        + (f", {arm.unfinished} not ended" if arm.unfinished else ""),
        f"{min(found):.1%}" if (found := accuracies(arm)) else NONE,
        f"{arm.any_summary['parameters']:,}" if arm.summaries else NONE,
        NONE if seconds is None else f"{seconds:.2g}",
    ]


def _median_cell(spread: SeedSummary, lost: int) -> str:
    median = f"none: {lost} diverged" if math.isinf(spread.median) else f"{spread.median:.4f}"
    if spread.median_interval is None:
        return f"{median} [{NEEDS}]"
    return f"{median} [{', '.join(_bound(bound) for bound in spread.median_interval)}]"


def _bound(value: float) -> str:
    return "infinity" if math.isinf(value) else f"{value:.4f}"


def _loss_cell(loss: float, seed: int) -> str:
    return "diverged" if math.isinf(loss) else f"{loss:.4f} ({seed})"


NEEDS = f"needs {SEEDS_NEEDED} seeds"
NONE = "-"
HEADINGS = (
    "variant", "median loss [95%]", "mean loss", "best (seed)", "worst (seed)",
    "beats baseline", "true step (worst)", "parameters", "seconds",
)  # fmt: skip
NARROW = ("variant", "median loss [95%]", "worst (seed)", "beats baseline", "true step (worst)")


def references(outcome: ComparisonResult) -> list[tuple[str, float]]:
    """Noise floor and parameter-free baselines, where they are the same for all variants; where
    each seed has data of its own, medians over the seeds that ended."""
    if not outcome.same_data:
        return []
    of_seed = {seed: summary for arm in outcome.arms for seed, summary in arm.summaries.items()}
    found: dict[str, list[float]] = {}
    for summary in of_seed.values():
        floor = summary["noise_floor"]
        losses = {} if floor is None else {"noise floor": floor}
        for name, loss in {**losses, **summary["baselines"]}.items():
            found.setdefault(str(name), []).append(float(loss))
    return [(name, float(np.median(losses))) for name, losses in found.items()]


def reference_sentence(outcome: ComparisonResult) -> str:
    """The references in words; "" where there are none."""
    losses = ", ".join(f"{name} {loss:.4f}" for name, loss in references(outcome))
    if not losses:
        return ""
    over = " (medians over the seeds' test sets)" if outcome.data_of_seeds == "new" else ""
    return f"For comparison{over}: {losses}."


BRACKETS = (
    "Brackets are 95% intervals of the median: two order statistics, whatever the distribution."
)


def scope(data_of_seeds: DataOfSeeds) -> str:
    """What the seeds vary, and so what the numbers hold for."""
    match data_of_seeds:
        case "new":
            return (
                "Each seed has its own initial weights, batch order, coins and data, the data the"
                " same for all variants unless they are varied: the results are about new data of"
                " this kind."
            )
        case "same":
            return (
                "The seeds vary initial weights, batch order and coins; the data are the same: the"
                " results are about this training set and this test set."
            )
        case "files":
            return (
                "The seeds vary initial weights, batch order and coins; the data are your files:"
                " the results are about this training set and this test set."
            )
        case "one":
            return (
                "This is one seed: its results are about its own initial weights, batch order,"
                " coins, training set and test set, and do not show how other seeds differ."
            )


def sentences(outcome: ComparisonResult) -> list[str]:
    """What the numbers say of every pair, the decided ones first, and what to be careful of."""
    return [*_pair_sentences(outcome.pairs), *_cautions(outcome), scope(outcome.data_of_seeds)]


def _pair_sentences(pairs: Sequence[PairedTest]) -> list[str]:
    words = [pair.sentence() for pair in sorted(pairs, key=lambda pair: not pair.decided)]
    seeds = {pair.seeds for pair in pairs}
    if len(pairs) > 3 and len(seeds) == 1 and all(pair.smallest_p >= LEVEL for pair in pairs):
        words = [
            f"{seeds.pop()} seeds are too few for {len(pairs)} pairs: no test could tell any two"
            " variants apart, whatever their losses."
        ]
    if len(pairs) > 1 and any(pair.interval is not None for pair in pairs):
        words.append(
            f"The intervals of the {len(pairs)} pairs hold together with 95% confidence"
            " (Bonferroni)."
        )
    return words


def _cautions(outcome: ComparisonResult) -> list[str]:
    """Which seeds have no loss, and what the variants do not share."""
    words = []
    for arm in outcome.arms:
        if diverged := len(arm.diverged):
            words.append(
                f"{diverged} of {len(arm.folders)} seeds of {arm.name} diverged; each counts as"
                " worse than any seed that did not."
            )
        if arm.unfinished:
            words.append(
                f"{arm.unfinished} of {len(arm.folders)} seeds of {arm.name} have not ended; they"
                " are in no number here."
            )
    if not outcome.same_training_units:
        words.append(
            "The variants differ in data.normalize, data.scaling or data.relative, so that their"
            " training and validation losses (curves.png) are in different units."
        )
    if not outcome.same_units:
        words.append(
            "The variants differ in data.scaling or data.relative, so that their losses are in"
            " different units: two such variants are not tested against each other. `rmse` in each"
            " run's summary.json is in the units of the data."
        )
    if not outcome.same_data_in_pairs:
        words.append(
            "The variants differ in their data: their losses need not be of the same test"
            " sequences, and the two of a pair share no more than their seed."
        )
    return words


def markdown(outcome: ComparisonResult) -> str:
    """The comparison as a page of text."""
    lines = [f"# {outcome.name}", "", "Mean squared error on the test sequences, free running.", ""]
    lines += _table(*table(outcome.arms))
    lines += [""]
    if found := reference_sentence(outcome):
        lines += [found, ""]
    lines += [
        f"{BRACKETS} Seconds are one run's share of the time of all that went side by side.",
        "", "## What it says", "", *(f"- {sentence}" for sentence in sentences(outcome)), "",
        "## Pairs", "",
        _how_pairs_are_read(len(outcome.pairs)), "",
    ]  # fmt: skip
    headings = ("first", "second", "difference", "95%", "first better", "p (Holm)", "effect")
    return "\n".join([*lines, *_table(headings, [_pair_cells(p) for p in outcome.pairs]), ""])


def _how_pairs_are_read(count: int) -> str:
    """What the columns of the pairs are.

    Args:
        count: of the pairs.
    """
    several = count > 1
    together = " The intervals of all pairs hold together with 95% confidence (Bonferroni)."
    holm = f" with Holm's correction for {count} pairs"
    return (
        "Each seed is a pair: the same data, order and coins in both arms, unless what was varied"
        " changes them. The difference is the first variant's loss less the second's: the"
        " Hodges-Lehmann estimate over the pairs that are not tied, with the interval that inverts"
        f" Wilcoxon's signed-rank test.{together * several} p is of the same"
        f" test{holm * several}. The effect is the rank-biserial correlation (-1: the first is"
        " better for every seed). A seed that diverged is worse than any that did not; two that"
        " both diverged are tied."
    )


def _pair_cells(pair: PairedTest) -> list[str]:
    if pair.interval is None:
        interval = f"needs {pair.pairs_needed} seeds"
    else:
        interval = f"[{', '.join(_signed(bound) for bound in pair.interval)}]"
    return [
        pair.first, pair.second, NONE if math.isnan(pair.typical) else _signed(pair.typical),
        interval, f"{pair.first_better} of {pair.seeds}" + f", {pair.tied} tied" * bool(pair.tied),
        f"{pair.p_holm:.2g}", f"{pair.effect:+.2f}",
    ]  # fmt: skip


def _signed(value: float) -> str:
    return ("+" if value > 0 else "-") + "infinity" if math.isinf(value) else f"{value:+.4f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    return ["| " + " | ".join(row) + " |" for row in [headings, rule, *rows]]


def _csv(headings: Sequence[str], rows: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue().encode()
