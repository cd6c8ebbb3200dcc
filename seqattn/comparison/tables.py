"""A comparison as files: CSV, Markdown and words."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqattn.comparison.outcome import Arm, Outcome
from seqattn.comparison.statistics import LEVEL
from seqattn.storage import write_whole

VARIANTS = (
    "variant", "seeds", "failed", "median", "median_low", "median_high", "mean", "mean_low",
    "mean_high", "best", "best_seed", "worst", "worst_seed", "beats_baseline",
    "median_teacher_forced", "median_above_floor", "lowest_alignment_accuracy", "parameters",
    "seconds", "unfinished",
)  # fmt: skip
PAIRS = (
    "first", "second", "seeds", "median_difference", "low", "high", "first_better", "p", "p_holm",
    "effect", "decided", "alike",
)  # fmt: skip
SEEDS = (
    "variant", "seed", "test_loss", "test_loss_teacher_forced", "validation_loss", "best_epoch",
    "epochs", "beats_best_baseline", "alignment_accuracy", "seconds",
)  # fmt: skip


def write_tables(outcome: Outcome) -> None:
    """variants.csv, pairs.csv, seeds.csv and comparison.md."""
    write_whole(outcome.path / "variants.csv", _csv(VARIANTS, map(_row_of, outcome.arms)))
    write_whole(outcome.path / "pairs.csv", _csv(PAIRS, [
        (pair.first, pair.second, pair.seeds, pair.median, *pair.interval, pair.first_better,
         pair.p, pair.p_holm, pair.effect, pair.decided, pair.alike)
        for pair in outcome.pairs
    ]))  # fmt: skip
    write_whole(outcome.path / "seeds.csv", _csv(SEEDS, [
        (arm.name, seed, *(_of_seed(summary, key) for key in SEEDS[2:]))
        for arm in outcome.arms
        for seed in arm.folders
        if (summary := arm.summaries.get(seed, {})) is not None
    ]))  # fmt: skip
    write_whole(outcome.path / "comparison.md", markdown(outcome).encode())


def _of_seed(summary: Mapping[str, Any], key: str) -> Any:
    if key == "alignment_accuracy":
        return (summary.get("attention") or {}).get(key)
    return summary.get(key)


def accuracies(arm: Arm) -> list[float]:
    """Alignment accuracy of each seed that has one."""
    found = [_of_seed(summary, "alignment_accuracy") for summary in arm.summaries.values()]
    return [accuracy for accuracy in found if accuracy is not None]


def _row_of(arm: Arm) -> tuple[Any, ...]:
    if arm.spread is None:
        return (arm.name, 0, arm.diverged, *[None] * (len(VARIANTS) - 4), arm.unfinished)
    spread, summaries = arm.spread, arm.summaries.values()
    above = [s["above_floor"] for s in summaries if s["above_floor"] is not None]
    return (
        arm.name, len(summaries), arm.diverged,
        spread.median, *spread.median_interval, spread.mean, *spread.mean_interval,
        spread.best, spread.best_seed, spread.worst, spread.worst_seed,
        beats_baseline(arm), _median([s["test_loss_teacher_forced"] for s in summaries]),
        _median(above) if above else None, min(accuracies(arm), default=None),
        arm.any_summary["parameters"],
        _median([s["seconds"] for s in summaries]), arm.unfinished,
    )  # fmt: skip


def beats_baseline(arm: Arm) -> float:
    """Share of seeds that beat the best parameter-free baseline."""
    return float(np.mean([s["beats_best_baseline"] for s in arm.summaries.values()]))


def table(arms: Sequence[Arm]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows for people, without columns that say nothing of any variant."""
    rows = [cells(arm) for arm in arms]
    columns = [i for i in range(len(HEADINGS)) if i == 0 or any(row[i] != NONE for row in rows)]
    return [HEADINGS[i] for i in columns], [[row[i] for i in columns] for row in rows]


def cells(arm: Arm) -> list[str]:
    """A variant's row for people: the columns of `HEADINGS`."""
    if arm.spread is None:
        said = "none has a result yet" if arm.unfinished else "none ended with a finite loss"
        return [arm.name, *[NONE] * (len(HEADINGS) - 2), said]
    spread = arm.spread
    wins = round(beats_baseline(arm) * len(arm.summaries))
    return [
        arm.name,
        f"{spread.median:.4f} [{spread.median_interval[0]:.4f}, {spread.median_interval[1]:.4f}]",
        f"{spread.mean:.4f} [{spread.mean_interval[0]:.4f}, {spread.mean_interval[1]:.4f}]",
        f"{spread.best:.4f} ({spread.best_seed})",
        f"{spread.worst:.4f} ({spread.worst_seed})",
        f"{wins} of {len(arm.summaries)}"
        + (f", {arm.diverged} failed" if arm.diverged else "")
        + (f", {arm.unfinished} not ended" if arm.unfinished else ""),
        f"{min(found):.1%}" if (found := accuracies(arm)) else NONE,
        f"{arm.any_summary['parameters']:,}",
        f"{_median([s['seconds'] for s in arm.summaries.values()]):.2g}",
    ]


NONE = "-"
HEADINGS = (
    "variant", "median loss [95%]", "mean loss [95%]", "best (seed)", "worst (seed)",
    "beats baseline", "true step (worst)", "parameters", "seconds",
)  # fmt: skip
NARROW = ("variant", "median loss [95%]", "worst (seed)", "beats baseline", "true step (worst)")


def references(outcome: Outcome) -> list[tuple[str, float]]:
    """Noise floor and parameter-free baselines, where they are the same for all variants."""
    arms = [arm for arm in outcome.arms if arm.summaries]
    if not arms or not outcome.same_data:
        return []
    summary = arms[0].any_summary
    found = [(str(name), float(loss)) for name, loss in summary["baselines"].items()]
    floor = summary["noise_floor"]
    return [*([("noise floor", float(floor))] if floor is not None else []), *found]


def sentences(outcome: Outcome) -> list[str]:
    """What the numbers say of every pair, the decided ones first, and what to be careful of."""
    pairs = sorted(outcome.pairs, key=lambda pair: not pair.decided)
    said = [pair.sentence() for pair in pairs]
    seeds = {pair.seeds for pair in pairs}
    if len(pairs) > 3 and len(seeds) == 1 and all(pair.smallest_p >= LEVEL for pair in pairs):
        said = [
            f"{seeds.pop()} seeds are too few for {len(pairs)} pairs: no test could tell any two"
            " variants apart, whatever their losses."
        ]
    said += [
        f"{count} of {len(arm.folders)} seeds of {arm.name} {what}; they are in no number here."
        for arm in outcome.arms
        for count, what in (
            (arm.diverged, "left the finite numbers"),
            (arm.unfinished, "have not ended"),
        )
        if count
    ]
    if not outcome.same_data_in_pairs:
        said.append(
            "The variants differ in their data: their losses need not be of the same test"
            " sequences, and the two of a pair share no more than their seed."
        )
    return said


def markdown(outcome: Outcome) -> str:
    """The comparison as a page of text."""
    lines = [f"# {outcome.name}", "", "Mean squared error on the test sequences, free running.", ""]
    lines += _table(*table(outcome.arms))
    lines += [""]
    if references(outcome):
        said = ", ".join(f"{name} {loss:.4f}" for name, loss in references(outcome))
        lines += [f"To read them by: {said}.", ""]
    lines += [
        "Brackets are 95% bootstrap intervals over seeds; seconds are one run's share of the time"
        " of all that went side by side.",
        "", "## What it says", "", *(f"- {sentence}" for sentence in sentences(outcome)), "",
        "## Pairs", "",
        "Each seed is a pair: the same data, order and coins in both arms, unless what was varied"
        " changes them. The difference is the first variant's loss less the second's, p is of"
        " Wilcoxon's signed-rank test with Holm's correction for the number of pairs, and the"
        " effect is the rank-biserial correlation (-1: the first is better for every seed).",
        "",
    ]  # fmt: skip
    rows = [
        [
            pair.first, pair.second, f"{pair.median:+.4f}",
            f"[{pair.interval[0]:+.4f}, {pair.interval[1]:+.4f}]",
            f"{pair.first_better} of {pair.seeds}" + f", {pair.alike} alike" * bool(pair.alike),
            f"{pair.p_holm:.2g}", f"{pair.effect:+.2f}",
        ]
        for pair in outcome.pairs
    ]  # fmt: skip
    headings = ("first", "second", "median difference", "95%", "first better", "p (Holm)", "effect")
    return "\n".join([*lines, *_table(headings, rows), ""])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    return ["| " + " | ".join(row) + " |" for row in [headings, rule, *rows]]


def _csv(headings: Sequence[str], rows: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue().encode()


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
